//! Programs that stand in for the kubelet and containerd on a Windows node, and tests of the agent's adapter for Windows.
//!
//! The programs are what an agent can observe of the real ones: services that read a configuration file, report errors in
//! it as the real programs do, and answer health checks. A file determines how they fail. They also run as ordinary programs,
//! on every platform.

pub mod behavior;
#[cfg(windows)]
pub mod container_runtime;
pub mod flags;
pub mod merge;
#[cfg(windows)]
pub mod service;
pub mod start_script;

use std::process::exit;

/// Ends the program with a message, as the real programs end on an invalid configuration.
pub fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(1)
}
