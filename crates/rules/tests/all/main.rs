//! Laws of the rules, each with inputs and outcomes, and properties for any cluster: plans are run against a model of the API server.

// clippy.toml allows these in tests, but not in the helper functions of tests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adoption;
mod conditions;
mod delivery;
mod hygiene;
mod keeping;
mod ownership;
mod pool_metrics;
mod pools;
mod properties;
mod workloads;
