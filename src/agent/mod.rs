//! The agent, which configures the Windows node that it runs on.

pub mod credentials;
pub mod expand;
pub mod host;
pub mod loopback;
pub mod node_plan;
#[cfg(windows)]
pub mod windows;
#[cfg(windows)]
pub mod windows_service;
