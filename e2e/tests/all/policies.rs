//! The operator under the guard rails of `config/policies`. `policy_tables` has what they do to every request.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, SOON, pool_spec},
    install::path,
    kubelet::SimulatedNode,
    wait::eventually,
};
use serde_json::json;

const NODE: &str = "web-000";

#[tokio::test]
async fn the_operator_continues_under_the_policies() {
    let cluster = Cluster::start().await.unwrap();
    let node = SimulatedNode::windows(NODE, "10.0.20348.2700").label("agentpool", "web");
    let _kubelets = cluster.start_kubelets(vec![node]).await.unwrap();
    let _operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_pool_and_wait("web", pool_spec("web", json!({"labels": {"team": "web"}}))).await.unwrap();
    cluster.until_taints(NODE, &[DEFAULT_TAINT]).await.unwrap();
    cluster.kubectl(&["apply", "-k", &path("config/policies")]).unwrap();
    let rejected = || async {
        let error = cluster.kubectl(&["taint", "node", NODE, "os-", "--dry-run=server"]).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        ensure!(text.contains("'winpool-nodes'"), "{text}");
        Ok(())
    };
    let limit = SOON + Duration::from_secs(30);
    eventually("an administrator may not remove the taint", limit, rejected).await.unwrap();

    cluster.edit_pool("web", json!({"spec": {"labels": {"team": "other"}, "taints": []}})).await.unwrap();
    cluster.until_taints(NODE, &[]).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}
