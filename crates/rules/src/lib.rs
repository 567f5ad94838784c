//! The rules: pure functions from a snapshot of a cluster to a plan, and to the status of pools and profiles.
//! No async code, clock, logging, or client.

pub mod capacity;
pub mod known_issues;
pub mod network;
pub mod operation;
pub mod ownership;
pub mod pool;
pub mod revert;
pub mod status;
pub mod upgrade;
