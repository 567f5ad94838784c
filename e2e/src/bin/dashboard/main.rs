//! Renders `docs/images/dashboard.svg`: the queries of the shipped dashboard, answered by a Prometheus that scrapes the
//! operator in a cluster with simulated nodes.

mod svg;

use std::{
    fs,
    net::SocketAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use e2e::{
    cluster::{Cluster, NODE_LABEL, OS_WINDOWS},
    kubelet::{Kubelets, SimulatedNode},
    network::free_port,
    operator::workspace,
    prometheus::{Panel, Prometheus, panels},
};
use svg::Chart;
use tokio::time::sleep;

const WEB: &str = "10.0.20348.4529";
const BATCH: &str = "10.0.17763.7009";
/// The time between two events of the scenario.
const PAUSE: Duration = Duration::from_secs(14);
/// The number of points of a line.
const POINTS: f64 = 60.0;

#[tokio::main]
async fn main() -> Result<()> {
    let cluster = Cluster::start().await?;
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()?));
    let _operator = cluster.start_operator(&["--secure-address", &metrics.to_string()], &[]).await?;
    let prometheus = Prometheus::start(&cluster, metrics).await?;
    let kubelets = cluster.start_kubelets(nodes("web", WEB, 1..=3)).await?;
    let start = now()?;
    scenario(&cluster, &kubelets).await?;
    let charts = charts(&prometheus, (start, now()?)).await?;
    let path = workspace().join("docs/images/dashboard.svg");
    fs::create_dir_all(path.parent().context("its folder")?)?;
    fs::write(&path, svg::page(&charts))?;
    println!("{}", path.display());
    Ok(())
}

fn nodes(pool: &str, kernel_version: &str, numbers: std::ops::RangeInclusive<u32>) -> Vec<SimulatedNode> {
    let node = |number| SimulatedNode::windows(&format!("{pool}-{number}"), kernel_version).label(NODE_LABEL, pool);
    numbers.map(node).collect()
}

/// Nodes exist before their pool, join it later, have a taint of another client, and are not ready.
async fn scenario(cluster: &Cluster, kubelets: &Kubelets) -> Result<()> {
    sleep(PAUSE).await;
    cluster.apply_tainting_pool("web", "ltsc2022", OS_WINDOWS).await?;
    sleep(PAUSE).await;
    cluster.apply_tainting_pool("batch", "ltsc2019", OS_WINDOWS).await?;
    kubelets.add(nodes("batch", BATCH, 1..=4)).await?;
    sleep(PAUSE).await;
    kubelets.add(nodes("web", WEB, 4..=12)).await?;
    kubelets.set_ready("batch-2", false).await?;
    sleep(PAUSE).await;
    let foreign = |node: SimulatedNode| node.taint("os", "linux", "NoSchedule");
    kubelets.add(nodes("web", WEB, 13..=14).into_iter().map(foreign).collect()).await?;
    sleep(PAUSE).await;
    kubelets.set_ready("batch-2", true).await?;
    for name in ["web-13", "web-14"] {
        kubelets.delete(name).await?;
    }
    sleep(PAUSE).await;
    Ok(())
}

fn now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

async fn charts(prometheus: &Prometheus, (start, end): (f64, f64)) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for Panel { title, unit, queries } in panels("10s")? {
        let mut chart = Chart { title, unit, range: (start, end), lines: Vec::new() };
        for (query, legend) in queries {
            for series in prometheus.query_range(&query, (start, end), (end - start) / POINTS).await? {
                let label =
                    |text: String, (key, value): (&String, &String)| text.replace(&format!("{{{{{key}}}}}"), value);
                chart.lines.push((series.labels.iter().fold(legend.clone(), label), series.samples));
            }
        }
        charts.push(chart);
    }
    Ok(charts)
}
