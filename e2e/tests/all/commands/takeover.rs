//! `winpool cleanup` of a pool with nodes that another pool also selects.

use e2e::{
    cluster::{Cluster, SOON},
    wait::until,
};
use serde_json::json;

use super::{cleanup::nodes, node, pool, run, writes};

#[tokio::test]
async fn cleanup_does_not_untaint_a_node_that_another_pool_selects() {
    let cluster = Cluster::start().await.unwrap();
    let machines = vec![node("web-1", "web").label("heir", "yes"), node("web-2", "web")];
    let _kubelets = cluster.start_kubelets(machines).await.unwrap();
    let found = nodes(&cluster).await;
    pool(&cluster, "web", json!({})).await;
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    pool(&cluster, "heir", json!({ "nodeSelector": { "matchLabels": { "heir": "yes" } } })).await;
    cluster.until_condition("heir", "NodesAssigned", "False", "NodeConflict").await.unwrap();
    cluster.until_idle().await.unwrap();
    operator.stop().await.unwrap();
    let converged = nodes(&cluster).await;

    let message = "pool web: not removed from nodes that another pool also selects: web-1. ";
    let output = run(&cluster, &["cleanup", "--pool", "web", "--dry-run"]);
    assert_eq!((output.status, output.lines().len()), (1, 1), "{}", output.stdout);
    assert!(output.stderr.contains(message), "{}", output.stderr);
    assert_eq!(writes(&cluster).len(), 0);

    let output = run(&cluster, &["cleanup", "--pool", "web", "--yes"]);
    assert_eq!(output.status, 1, "{}", output.stdout);
    assert!(output.stderr.contains(message), "{}", output.stderr);
    assert!(!output.lines().contains(&"done"), "{}", output.stdout);
    let now = nodes(&cluster).await;
    assert_eq!((&now[0], &now[1]), (&converged[0], &found[1]), "one node is unchanged, the other is restored");

    // The other pool takes the node over when an operator runs.
    cluster.pools().delete("web", &Default::default()).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    let taken = || cluster.tainted_nodes("heir", ("os", "windows"));
    until("pool heir has the node", SOON, taken, |nodes| nodes == &["web-1"]).await.unwrap();
    cluster.until_ready("heir").await.unwrap();
    operator.stop().await.unwrap();

    // The cleanup of that pool restores the node.
    let output = run(&cluster, &["cleanup", "--yes"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(nodes(&cluster).await, found);
}
