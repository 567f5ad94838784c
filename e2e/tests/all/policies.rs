//! The operator under the guard rails of `config/policies`. `policy_tables` has what they do to every request.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, SOON, pool_spec},
    install::path,
    kubelet::SimulatedNode,
    wait::eventually,
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

const NODE: &str = "web-000";
const ALLOWED: &str = "";

/// Waits until this policy rejects a change of the node by an administrator, in a dry run.
async fn until_rejected(cluster: &Cluster, patch: &Value, policy: &str) {
    let client = cluster.control_plane.client_as("admin", &["system:masters"]).await.unwrap();
    let (nodes, dry_run) = (Api::<Node>::all(client), PatchParams { dry_run: true, ..PatchParams::default() });
    let rejected = || async {
        let error = nodes.patch(NODE, &dry_run, &Patch::Merge(patch)).await.err().map(|error| error.to_string());
        let found = error.as_deref().map_or(ALLOWED, |text| text.split('\'').nth(1).unwrap_or(text));
        ensure!(found == policy, "rejected by `{found}`: {error:?}");
        Ok(())
    };
    let what = format!("`{policy}` rejects {patch}");
    eventually(&what, SOON + Duration::from_secs(30), rejected).await.unwrap();
}

#[tokio::test]
async fn the_operator_continues_under_the_policies_and_a_paused_pool_is_not_guarded() {
    let cluster = Cluster::start().await.unwrap();
    let node = SimulatedNode::windows(NODE, "10.0.20348.2700").label("agentpool", "web");
    let _kubelets = cluster.start_kubelets(vec![node]).await.unwrap();
    let _operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_pool_and_wait("web", pool_spec("web", json!({"labels": {"team": "web"}}))).await.unwrap();
    cluster.until_taints(NODE, &[DEFAULT_TAINT]).await.unwrap();
    cluster.kubectl(&["apply", "-k", &path("config/policies")]).unwrap();
    until_rejected(&cluster, &json!({"spec": {"taints": null}}), "winpool-nodes").await;

    cluster.edit_pool("web", json!({"spec": {"labels": {"team": "other"}, "taints": []}})).await.unwrap();
    cluster.until_taints(NODE, &[]).await.unwrap();
    cluster.edit_pool("web", json!({"spec": {"paused": true}})).await.unwrap();
    until_rejected(&cluster, &json!({"metadata": {"labels": {"winpool.dev/pool": null}}}), ALLOWED).await;
    cluster.nothing_was_forbidden().unwrap();
}
