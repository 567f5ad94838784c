//! /metrics.

use anyhow::{Result, ensure};
use e2e::{
    cluster::{Cluster, SOON},
    kubelet::SimulatedNode,
    wait::until,
};
use kube::api::DeleteParams;

use super::{NODES, POOL, apply_pool, nodes};

/// Parses metrics in the Prometheus text format, and returns the samples as `name{labels}` and value.
fn samples(page: &str) -> Result<Vec<(String, f64)>> {
    let mut samples = Vec::new();
    for line in page.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let word = comment.split(' ').next().unwrap_or_default();
            ensure!(["HELP", "TYPE"].contains(&word), "{line}");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').ok_or_else(|| anyhow::anyhow!("{line}"))?;
        let name = series.split('{').next().unwrap_or_default();
        ensure!(name.starts_with("winpool_") && series.matches('{').count() <= 1, "{line}");
        samples.push((series.to_owned(), value.parse()?));
    }
    Ok(samples)
}

#[tokio::test]
async fn metrics_count_reconciles_operations_caches_and_the_nodes_of_each_pool() {
    let cluster = Cluster::start().await.unwrap();
    let lonely = SimulatedNode::windows("lonely", "10.0.17763.1");
    let all = nodes().into_iter().chain([lonely, SimulatedNode::linux("linux")]).collect();
    let kubelets = cluster.start_kubelets(all).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    apply_pool(&cluster).await;
    cluster.until_idle().await.unwrap();

    let page = operator.metrics().await.unwrap();
    let read = samples(&page).unwrap();
    let value = |series: &str| {
        let found = read.iter().find(|(name, _)| name == series);
        found.unwrap_or_else(|| panic!("{series} is not in\n{page}")).1
    };
    #[allow(clippy::cast_precision_loss)]
    let count = NODES.len() as f64;
    for (series, expected) in [
        ("winpool_operations_total{operation=\"patch-node\",result=\"done\"}", count),
        ("winpool_operations_total{operation=\"apply-runtime-class\",result=\"done\"}", 1.0),
        ("winpool_cache_objects{kind=\"Node\"}", count + 1.0),
        ("winpool_cache_objects{kind=\"WindowsNodePool\"}", 1.0),
        ("winpool_cache_objects{kind=\"WindowsRuntimeProfile\"}", 0.0),
        ("winpool_nodes{pool=\"web\",state=\"matched\"}", count),
        ("winpool_nodes{pool=\"web\",state=\"ready\"}", count),
        ("winpool_nodes{pool=\"web\",state=\"tainted\"}", count),
        ("winpool_nodes{pool=\"web\",state=\"mismatched\"}", 0.0),
        ("winpool_nodes{pool=\"web\",state=\"ready_untainted\"}", 0.0),
        ("winpool_node_ready_before_taint_seconds_count{pool=\"web\"}", count),
        ("winpool_holds{pool=\"web\",reason=\"WouldEvict\"}", 0.0),
        ("winpool_queue_depth{controller=\"pool\"}", 0.0),
        ("winpool_leader", 1.0),
        ("winpool_unassigned_nodes", 1.0),
        ("winpool_pods{pool=\"web\",state=\"matched\"}", 0.0),
        ("winpool_registry_images{state=\"pending\"}", 0.0),
        ("winpool_pool_condition{pool=\"web\",condition=\"Ready\",status=\"true\",reason=\"AsSpecified\"}", 1.0),
        ("winpool_pool_condition{pool=\"web\",condition=\"Ready\",status=\"false\",reason=\"AsSpecified\"}", 0.0),
        ("winpool_pool_condition{pool=\"web\",condition=\"SpecValid\",status=\"true\",reason=\"Valid\"}", 1.0),
    ] {
        assert!((value(series) - expected).abs() < f64::EPSILON, "{series} is {}, not {expected}", value(series));
    }
    assert!(value("winpool_pool_support_end_timestamp_seconds{pool=\"web\"}") > 1_700_000_000.0);
    assert!(value("winpool_api_requests_total{verb=\"patch\",code=\"200\"}") >= count);
    assert!(value("winpool_api_requests_total{verb=\"watch\",code=\"200\"}") >= 5.0);
    assert!(value("winpool_reconciles_total{controller=\"pool\",outcome=\"changed\"}") >= 1.0);
    assert!(value("winpool_reconcile_duration_seconds_count{controller=\"pool\"}") >= 1.0);

    kubelets.set_ready(NODES[0], false).await.unwrap();
    let ready = async || operator.metric("winpool_nodes", &[("pool", POOL), ("state", "ready")]).await;
    until("it is counted as not ready", SOON, ready, |ready| (*ready - (count - 1.0)).abs() < f64::EPSILON)
        .await
        .unwrap();

    cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    let of_pool = async || Ok(operator.metrics().await?.contains(&format!("pool=\"{POOL}\"")));
    until("the metrics of the pool are removed", SOON, of_pool, |found| !found).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}
