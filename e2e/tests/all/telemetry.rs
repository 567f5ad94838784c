//! The telemetry of the operator: traces, logs, readiness and metrics, and who may read them.

mod access;
mod admin;
mod collector;
mod prometheus;
mod traces;

use e2e::{
    cluster::{Cluster, NODE_LABEL, OS_WINDOWS},
    kubelet::SimulatedNode,
};

/// A short delay of the export of traces, so that a test need not wait for a full batch.
const AT_ONCE: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "100");

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
