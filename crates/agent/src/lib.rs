//! The node agent: it applies the configuration of its WindowsNodeConfig to the Windows node that it runs on.
//!
//! ```text
//! WindowsNodeConfig --watch--> run --> worker --> plan (layout + merge) --> preflight --> cycle --> Host
//!                                        `-- report --> status            journal (durable) --'
//! ```
//! Everything but [`run`], [`runtime`], [`credentials`] and `windows` is a function of the [`host::Host`] trait, and is tested
//! with a simulated host.

pub mod change_plan;
mod content;
pub mod credentials;
pub mod cycle;
mod diagnosis;
pub mod expand;
pub mod facts;
mod hns;
pub mod host;
mod in_use;
pub mod journal;
mod kubelet_log;
mod layout;
pub mod lock;
pub mod loopback;
mod merge;
mod plan;
mod preflight;
mod refuse;
pub mod report;
pub mod run;
pub mod runtime;
mod script;
#[cfg(test)]
mod tests;
pub mod uninstall;
#[cfg(windows)]
pub mod windows;
#[cfg(windows)]
pub mod windows_service;
pub mod worker;
