//! The operator under adverse conditions: many nodes, restarts, other writers, rejected requests, invalid objects.
//!
//! Each test has its own control plane, and checks at its end that the shipped RBAC forbade no request.

mod bad_objects;
mod conflicts;
mod faults;
mod half_open;
mod kubelets;
mod large_objects;
mod pressure;
mod refusals;
mod restarts;

use e2e::{cluster::NODE_LABEL, kubelet::SimulatedNode};

/// Windows Server 2022 nodes `<pool>-000` and so on, labelled for `pool`.
fn nodes(pool: &str, count: usize) -> Vec<SimulatedNode> {
    (0..count).map(|number| node(pool, &format!("{pool}-{number:03}"))).collect()
}

/// A Windows Server 2022 node, labelled for `pool`.
fn node(pool: &str, name: &str) -> SimulatedNode {
    SimulatedNode::windows(name, "10.0.20348.2700").label(NODE_LABEL, pool)
}
