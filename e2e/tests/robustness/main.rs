//! The operator under conditions that are not kind: many nodes, restarts, other writers, refusals, bad objects.
//!
//! Each test has a control plane of its own, and ends with a look into the audit log: the shipped RBAC forbade nothing.

// clippy.toml allows these in tests, but takes a helper of a test for something else.
#![allow(clippy::unwrap_used)]

mod bad_objects;
mod dependencies;
mod half_open;
mod kubelets;
mod neighbours;
mod pressure;
mod proxy;
mod refusals;
mod restarts;
mod rivals;
mod scale;
mod statuses;
#[path = "../common/tls.rs"]
mod tls;
mod webhook;

use e2e::kubelet::SimulatedNode;

/// The default taint of a pool.
const OS_WINDOWS: (&str, &str) = ("os", "windows");

/// Windows Server 2022 nodes `<pool>-000` and so on, labelled for `pool`.
fn nodes(pool: &str, count: usize) -> Vec<SimulatedNode> {
    (0..count).map(|number| node(pool, &format!("{pool}-{number:03}"))).collect()
}

/// A Windows Server 2022 node, labelled for `pool`.
fn node(pool: &str, name: &str) -> SimulatedNode {
    SimulatedNode::windows(name, "10.0.20348.2700").label("agentpool", pool)
}
