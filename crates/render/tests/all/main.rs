//! The files of nodes, as they are written.

// clippy.toml allows these in tests, but not in the helper functions of tests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod containerd;
mod kubelet;
