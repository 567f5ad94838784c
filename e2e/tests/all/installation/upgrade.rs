//! Two operators at once, as while a Deployment replaces its pod.

use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, pool_spec},
    kubelet::SimulatedNode,
};
use serde_json::json;

/// The nodes `w1` to `w5`, all labelled for pool `web`.
fn nodes() -> Vec<SimulatedNode> {
    (1..=5).map(|i| SimulatedNode::windows(&format!("w{i}"), "10.0.20348.2700").label("agentpool", "web")).collect()
}

#[tokio::test]
async fn an_older_and_a_newer_operator_write_every_change_once() {
    let cluster = Cluster::start().await.unwrap();
    let kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let older = cluster.start_operator(&[], &[]).await.unwrap();
    let fields = json!({ "profileRef": { "name": "standard" } });
    cluster.apply_profile("standard", json!({})).await.unwrap();
    cluster.apply_pool_and_wait("web", pool_spec("web", fields)).await.unwrap();
    cluster.until_idle().await.unwrap();
    let changes = cluster.node_changes().unwrap();

    let newer = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_idle().await.unwrap();
    assert_eq!(cluster.node_changes().unwrap(), changes, "the second operator changes nothing that the first wrote");

    let label = json!({ "spec": { "labels": { "team": "web" } } });
    cluster.edit_pool("web", label).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_idle().await.unwrap();
    for (node, before) in changes {
        assert_eq!(cluster.label(&node, "team").await.unwrap().as_deref(), Some("web"));
        assert_eq!(cluster.node_changes().unwrap()[&node], before + 1, "{node}");
    }

    assert!(older.stop().await.unwrap().success());
    kubelets.add(vec![SimulatedNode::windows("w6", "10.0.20348.2700").label("agentpool", "web")]).await.unwrap();
    cluster.until_taints("w6", &[DEFAULT_TAINT]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_idle().await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
    drop(newer);
}
