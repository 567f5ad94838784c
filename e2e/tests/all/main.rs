//! The built operator and its commands against a real control plane, and what they render against the programs that read
//! it. `cargo test -p e2e --test all pools::` runs one module.
//!
//! One process for all modules. A control plane that the tests of a module share is in a `static`: it is started by the
//! first test that asks for it, and its programs end with this process. Nothing here sets an environment variable, installs
//! a global subscriber or relies on a fixed port.

// clippy.toml allows these in tests, but takes a helper of a test for something else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cluster_wide;
mod commands;
mod containerd;
mod control_plane;
mod images;
mod pools;
mod registry;
mod robustness;
mod telemetry;
mod tls;
mod windows_kubelet;
mod workloads;
