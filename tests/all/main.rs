//! Tests of the library and of the built binary that start no server: golden files, properties, rules in CEL.
//!
//! One program, so that everything is linked once; `cargo test --test all pools::` runs one module.

// clippy.toml allows these in tests, but not in the helper functions of tests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adopt;
mod api_page;
mod cel;
mod chart;
mod cli;
mod config;
mod crd_promises;
mod crds;
mod dependencies;
mod docs;
mod doctor;
mod facts;
mod gitops;
mod golden;
mod golden_cluster_api;
mod golden_platforms;
mod known_issues;
mod kube_proxy;
mod lint;
mod node_conditions;
mod policies;
mod powershell;
mod printed_commands;
mod recommend;
mod recorded_rendering;
mod scheduler_match;
mod security_page;
mod status_page;
mod workflows;
