//! Programs that stand in for the kubelet and containerd on a Windows node, and tests of the agent's adapter for Windows.
//!
//! The programs are what an agent can observe of the real ones: services that read a configuration file, report errors in
//! it as the real programs do, and answer health checks. A file determines how they fail.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for developers

pub mod behavior;
#[cfg(windows)]
pub mod container_runtime;
pub mod flags;
#[cfg(windows)]
pub mod service;

use std::process::exit;

/// Ends the program with a message, as the real programs end on an invalid configuration.
pub fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(1)
}
