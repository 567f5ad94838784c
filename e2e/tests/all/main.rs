//! Tests of the built operator and its commands against a real control plane, and of rendered files with the programs
//! that read them. `cargo test -p e2e --test all pools::` runs one module.
//!
//! All modules run in one process, in the order of their names: tests that mostly wait have early ones, so that others run
//! meanwhile. A control plane that the tests of a module share is in a `static`: the first test that needs it starts it, and
//! its programs end with this process. No test sets an environment variable, installs a global subscriber or relies on a
//! fixed port.

// clippy.toml allows these in tests, but not in the helper functions of tests. The figures of a run are for who reads its output.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod a_windows_join;
mod a_windows_machine;
mod a_windows_node;
mod a_windows_symptoms;
mod adoption;
mod agent_on_windows;
mod agent_programs;
mod agents;
mod bad_input;
mod cluster_api;
mod cluster_wide;
mod commands;
mod container_runtime;
mod containerd;
mod control_plane;
mod definitions;
mod documents;
mod facts;
mod images;
mod installation;
mod leadership;
mod permissions;
mod policies;
mod policy_tables;
mod pools;
mod registry;
mod robustness;
mod telemetry;
mod tls;
mod windows_kubelet;
mod workloads;
