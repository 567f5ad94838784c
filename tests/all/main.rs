//! Tests of the library and of the built binary that start no server: golden files, properties, rules in CEL.
//!
//! One program, so that everything is linked once; `cargo test --test all pools::` runs one module.

// clippy.toml allows these in tests, but not in the helper functions of tests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adopt;
mod adoption;
mod api_page;
mod cases;
mod cel;
mod chart;
mod cli;
mod conditions;
mod config;
mod crds;
mod delivery;
mod docs;
mod doctor;
mod election;
mod facts;
mod foreign_text;
mod gitops;
mod golden;
mod golden_cluster_api;
mod golden_containerd;
mod golden_kubelet;
mod golden_platforms;
mod golden_samples;
mod hygiene;
mod keeping;
mod known_issues;
mod kube_proxy;
mod lint;
mod model;
mod ownership;
mod policies;
mod pool_metrics;
mod pools;
mod powershell;
mod properties;
mod recorded_rendering;
mod scheduler_match;
mod security_page;
mod status_page;
mod workflows;
mod workloads;
