//! Measurements that need a cluster: the memory of a running operator, and the time until nodes are tainted. They are
//! printed, not compared, because they depend on the load of the machine.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for developers

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use e2e::{cluster::Cluster, kubelet::SimulatedNode, operator::Operator};
use serde_json::json;

/// Pool, Windows version, build, and number of nodes.
const SMALL: [(&str, &str, &str, usize); 3] = [
    ("web", "ltsc2022", "10.0.20348.4529", 3),
    ("batch", "ltsc2019", "10.0.17763.7009", 3),
    ("spare", "ltsc2025", "10.0.26100.4652", 2),
];
const LARGE: (&str, &str, &str, usize) = ("large", "ltsc2022", "10.0.20348.4529", 1000);
const TAINT: (&str, &str) = ("os", "windows");

#[tokio::main]
async fn main() -> Result<()> {
    if cfg!(debug_assertions) {
        bail!("these would be the results of a debug build: cargo run --release -p e2e --bin footprint");
    }
    let cluster = Cluster::start().await?;
    let operator = cluster.start_operator(&[], &[]).await?;
    let kubelets = cluster.start_kubelets(SMALL.iter().flat_map(nodes).collect()).await?;
    cluster.apply_profile("standard", json!({})).await?;
    for (pool, version, _, count) in SMALL {
        apply(&cluster, pool, version).await?;
        cluster.until_tainted(pool, TAINT, count).await?;
    }
    cluster.until_idle().await?;
    memory("resident memory, idle, 3 pools of 8 nodes", "25 MB", &operator)?;

    let (pool, version, _, count) = LARGE;
    kubelets.add(nodes(&LARGE)).await?;
    let begin = Instant::now();
    apply(&cluster, pool, version).await?;
    cluster.until_tainted(pool, TAINT, count).await?;
    time("until 1,000 new nodes are tainted", begin.elapsed());
    cluster.until_idle().await?;
    memory("resident memory, idle, with 1,000 nodes more", "none", &operator)
}

fn nodes((pool, _, kernel_version, count): &(&str, &str, &str, usize)) -> Vec<SimulatedNode> {
    let node = |number| SimulatedNode::windows(&format!("{pool}-{number}"), kernel_version).label("agentpool", pool);
    (0..*count).map(node).collect()
}

async fn apply(cluster: &Cluster, pool: &str, version: &str) -> Result<()> {
    let spec = json!({
        "windowsVersion": version,
        "nodeSelector": { "matchLabels": { "agentpool": pool } },
        "profileRef": { "name": "standard" },
    });
    cluster.apply_pool(pool, spec).await
}

#[allow(clippy::cast_precision_loss)]
fn memory(what: &str, goal: &str, operator: &Operator) -> Result<()> {
    println!("{what:<58} {:>9.1} MB   (goal: {goal})", operator.resident_bytes()? as f64 / 1e6);
    Ok(())
}

fn time(what: &str, took: Duration) {
    println!("{what:<58} {:>9.1} ms   (goal: none)", took.as_secs_f64() * 1000.0);
}
