//! The operator or the API server ends while nodes are being written.

use std::time::Duration;

use e2e::{
    cluster::{Cluster, SOON},
    kubelet::Kubelets,
    objects::has_taint,
    operator::Operator,
    wait::{eventually, until},
};
use kube::api::ListParams;

use super::{node, nodes};

const POOL: &str = "web";
const COUNT: usize = 200;
const FOREIGN: (&str, &str) = ("example.com/maintenance", "tuesday");

/// A pool of 200 nodes, tainted by a first operator. Every third node has a taint and a label of another owner.
async fn tainted_pool(cluster: &Cluster) -> (Kubelets, Operator) {
    let foreign = |(index, node): (usize, e2e::kubelet::SimulatedNode)| match index % 3 {
        0 => node.taint(FOREIGN.0, FOREIGN.1, "NoExecute").label("example.com/rack", "r1"),
        _ => node,
    };
    let all = nodes(POOL, COUNT).into_iter().enumerate().map(foreign).collect();
    let kubelets = cluster.start_kubelets(all).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", version(0)).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_tainted(POOL, version(0), COUNT).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    (kubelets, operator)
}

/// The n-th edition of the pool's taint.
fn version(n: usize) -> (&'static str, &'static str) {
    ("os", ["windows", "windows-1", "windows-2", "windows-3", "windows-4", "windows-5"][n])
}

/// Changes the pool's taint, and returns as soon as the operator has written the first node.
async fn change_taint_and_await_first_write(cluster: &Cluster, edition: usize) {
    let changes = || cluster.node_changes().map(|changes| changes.values().sum::<usize>());
    let before = changes().unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", version(edition)).await.unwrap();
    let first_write = || async {
        // A reconcile takes well under a second.
        for _ in 0..200 {
            if changes()? > before {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        anyhow::bail!("no node is written yet")
    };
    eventually("the operator writes the first node", SOON, first_write).await.unwrap();
}

/// The number of nodes with the n-th edition of the pool's taint.
async fn written(cluster: &Cluster, edition: usize) -> usize {
    cluster.tainted_nodes(POOL, version(edition)).await.unwrap().len()
}

async fn assert_foreign_fields_are_unchanged(cluster: &Cluster) {
    let all = cluster.nodes().list(&ListParams::default()).await.unwrap().items;
    let tainted = all.iter().filter(|node| has_taint(node, FOREIGN.0, FOREIGN.1)).count();
    let labelled =
        all.iter().filter(|node| node.metadata.labels.iter().flatten().any(|(key, _)| key == "example.com/rack"));
    assert_eq!((tainted, labelled.count()), (COUNT.div_ceil(3), COUNT.div_ceil(3)));
}

#[tokio::test]
async fn an_operator_finishes_its_reconcile_before_it_shuts_down() {
    let cluster = Cluster::start().await.unwrap();
    let (_kubelets, mut operator) = tainted_pool(&cluster).await;
    let mut edition = 0;
    loop {
        edition += 1;
        change_taint_and_await_first_write(&cluster, edition).await;
        let before = written(&cluster, edition).await;
        let status = operator.stop().await.unwrap();
        assert_eq!(status.code(), Some(0), "{}", operator.log().unwrap());
        assert_eq!(written(&cluster, edition).await, COUNT, "the reconcile is complete");
        cluster.condition(POOL, "NodesTainted").await.unwrap();
        if before < COUNT {
            break;
        }
        operator = cluster.start_operator(&[], &[]).await.unwrap();
    }
    assert_foreign_fields_are_unchanged(&cluster).await;
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn the_operator_logs_an_outage_of_the_api_server_once_and_continues_afterwards() {
    let cluster = Cluster::start().await.unwrap();
    let (kubelets, operator) = tainted_pool(&cluster).await;
    change_taint_and_await_first_write(&cluster, 1).await;
    cluster.control_plane.stop_api_server().await.unwrap();

    // Long enough for several retries of every watch and of the interrupted reconcile.
    for kind in ["WindowsNodePool", "WindowsRuntimeProfile", "Node", "RuntimeClass", "ConfigMap"] {
        let failures = async || operator.metric("winpool_watch_errors_total", &[("kind", kind)]).await;
        until(&format!("the watch of {kind} failed three times"), SOON, failures, |n| *n >= 3.0).await.unwrap();
    }
    let failed =
        async || operator.metric("winpool_reconciles_total", &[("controller", "pool"), ("outcome", "failed")]).await;
    until("the reconcile failed twice", SOON, failed, |times| *times >= 2.0).await.unwrap();
    for path in ["/livez", "/readyz"] {
        assert_eq!(operator.get(path).await.unwrap().0, 200, "{path} is served during the outage");
    }
    assert_warnings_are_logged_once(&operator);

    cluster.control_plane.start_api_server().await.unwrap();
    cluster.until_tainted(POOL, version(1), COUNT).await.unwrap();
    kubelets.add(vec![node(POOL, "latecomer")]).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", version(2)).await.unwrap();
    cluster.until_tainted(POOL, version(2), COUNT + 1).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    cluster.until_idle().await.unwrap();
    assert_foreign_fields_are_unchanged(&cluster).await;
    assert_eq!(operator.process().exit_status(), None, "it is the same process");
    cluster.nothing_was_forbidden().unwrap();
}

/// Checks that the log contains each warning once, and far fewer warnings than nodes.
fn assert_warnings_are_logged_once(operator: &Operator) {
    let log = operator.log().unwrap();
    let mut warnings = std::collections::BTreeMap::<&str, usize>::new();
    for line in log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")) {
        // Without the timestamp.
        *warnings.entry(line.split_once(' ').map_or(line, |(_, rest)| rest.trim())).or_default() += 1;
    }
    assert!(!warnings.is_empty(), "the outage is logged:\n{log}");
    let repeated: Vec<_> = warnings.iter().filter(|(_, times)| **times > 1).collect();
    assert!(repeated.is_empty() && warnings.len() < 30, "{} warnings, repeated: {repeated:#?}\n{log}", warnings.len());
}
