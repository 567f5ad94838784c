//! The operator and the API server end in the middle of work.

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

/// A pool of 200 nodes, tainted by a first operator. Every third node has a taint and a label of somebody else.
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

/// The pool's taint in its n-th edition.
fn version(n: usize) -> (&'static str, &'static str) {
    ("os", ["windows", "windows-1", "windows-2", "windows-3", "windows-4", "windows-5"][n])
}

/// Changes the pool's taint, and returns as soon as the operator has written the first node because of it.
async fn change_and_catch_in_the_act(cluster: &Cluster, edition: usize) {
    let changes = || cluster.node_changes().map(|changes| changes.values().sum::<usize>());
    let before = changes().unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", version(edition)).await.unwrap();
    let begun = || async {
        // A pass takes well under a second.
        for _ in 0..200 {
            if changes()? > before {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        anyhow::bail!("no node is written yet")
    };
    eventually("the operator writes the first node", SOON, begun).await.unwrap();
}

/// How many nodes have the pool's taint in its n-th edition.
async fn written(cluster: &Cluster, edition: usize) -> usize {
    cluster.tainted_nodes(POOL, version(edition)).await.unwrap().len()
}

async fn foreign_is_intact(cluster: &Cluster) {
    let all = cluster.nodes().list(&ListParams::default()).await.unwrap().items;
    let carries = all.iter().filter(|node| has_taint(node, FOREIGN.0, FOREIGN.1)).count();
    let labelled =
        all.iter().filter(|node| node.metadata.labels.iter().flatten().any(|(key, _)| key == "example.com/rack"));
    assert_eq!((carries, labelled.count()), (COUNT.div_ceil(3), COUNT.div_ceil(3)));
}

#[tokio::test]
async fn the_operator_that_follows_a_killed_one_writes_only_what_is_missing() {
    let cluster = Cluster::start().await.unwrap();
    let (_kubelets, mut operator) = tainted_pool(&cluster).await;
    let mut edition = 0;
    let left = loop {
        edition += 1;
        change_and_catch_in_the_act(&cluster, edition).await;
        operator.kill().unwrap();
        let left = COUNT - written(&cluster, edition).await;
        if left > 0 {
            break left;
        }
        operator = cluster.start_operator(&[], &[]).await.unwrap();
    };
    assert!(left < COUNT, "it was killed in the middle");

    let _successor = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_tainted(POOL, version(edition), COUNT).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    cluster.until_idle().await.unwrap();
    // The answers to requests that were under way when it was killed are not in the audit log.
    let changes = cluster.node_changes().unwrap();
    assert!(changes.values().all(|times| *times <= edition + 1), "{changes:?}");
    foreign_is_intact(&cluster).await;
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn an_operator_finishes_its_reconcile_before_it_shuts_down() {
    let cluster = Cluster::start().await.unwrap();
    let (_kubelets, mut operator) = tainted_pool(&cluster).await;
    let mut edition = 0;
    loop {
        edition += 1;
        change_and_catch_in_the_act(&cluster, edition).await;
        let before = written(&cluster, edition).await;
        let status = operator.stop().await.unwrap();
        assert_eq!(status.code(), Some(0), "{}", operator.log().unwrap());
        assert_eq!(written(&cluster, edition).await, COUNT, "no pass is left half done");
        cluster.condition(POOL, "NodesTainted").await.unwrap();
        if before < COUNT {
            break;
        }
        operator = cluster.start_operator(&[], &[]).await.unwrap();
    }
    foreign_is_intact(&cluster).await;
    cluster.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn the_operator_logs_an_outage_of_the_api_server_once_and_continues_afterwards() {
    let cluster = Cluster::start().await.unwrap();
    let (kubelets, operator) = tainted_pool(&cluster).await;
    change_and_catch_in_the_act(&cluster, 1).await;
    cluster.control_plane.stop_api_server().await.unwrap();

    // Long enough that every watch and the interrupted pass were tried again several times.
    for kind in ["WindowsNodePool", "WindowsRuntimeProfile", "Node", "RuntimeClass", "ConfigMap"] {
        let failures = async || operator.metric("winpool_watch_errors_total", &[("kind", kind)]).await;
        until(&format!("the watch of {kind} failed three times"), SOON, failures, |n| *n >= 3.0).await.unwrap();
    }
    let failed =
        async || operator.metric("winpool_reconciles_total", &[("controller", "pool"), ("outcome", "failed")]).await;
    until("a pass failed twice", SOON, failed, |passes| *passes >= 2.0).await.unwrap();
    for path in ["/livez", "/readyz"] {
        assert_eq!(operator.get(path).await.unwrap().0, 200, "{path}: what is known can still be read");
    }
    said_once(&operator);

    cluster.control_plane.start_api_server().await.unwrap();
    cluster.until_tainted(POOL, version(1), COUNT).await.unwrap();
    kubelets.add(vec![node(POOL, "latecomer")]).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", version(2)).await.unwrap();
    cluster.until_tainted(POOL, version(2), COUNT + 1).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    cluster.until_idle().await.unwrap();
    foreign_is_intact(&cluster).await;
    assert_eq!(operator.process().exit_status(), None, "it is the same process");
    cluster.nothing_was_forbidden().unwrap();
}

/// Each warning of the log is in it once, and there are not as many as there are nodes.
fn said_once(operator: &Operator) {
    let log = operator.log().unwrap();
    let mut warnings = std::collections::BTreeMap::<&str, usize>::new();
    for line in log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")) {
        // Without the time in front.
        *warnings.entry(line.split_once(' ').map_or(line, |(_, rest)| rest.trim())).or_default() += 1;
    }
    assert!(!warnings.is_empty(), "the outage is said:\n{log}");
    let repeated: Vec<_> = warnings.iter().filter(|(_, times)| **times > 1).collect();
    assert!(repeated.is_empty() && warnings.len() < 30, "{} warnings, repeated: {repeated:#?}\n{log}", warnings.len());
}
