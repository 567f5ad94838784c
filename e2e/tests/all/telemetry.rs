//! The telemetry of the operator: traces, logs, readiness and metrics.

mod admin;
mod collector;
mod traces;

use e2e::{
    cluster::{Cluster, NODE_LABEL, OS_WINDOWS},
    kubelet::SimulatedNode,
};

const POOL: &str = "web";
const NODES: [&str; 3] = ["win-1", "win-2", "win-3"];

/// The nodes of [`POOL`].
fn nodes() -> Vec<SimulatedNode> {
    NODES.map(|name| SimulatedNode::windows(name, "10.0.20348.2700").label(NODE_LABEL, POOL)).into()
}

/// Applies [`POOL`], and waits until its nodes are as specified.
async fn apply_pool(cluster: &Cluster) {
    cluster.apply_tainting_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, NODES.len()).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
}
