//! Two operators at once, as while a Deployment replaces its pod, and the objects of earlier definitions.

use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, SOON, pool_spec},
    install::{install_crds, path},
    kubelet::SimulatedNode,
    wait::until,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use winpool_api::WindowsNodeConfig;

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

/// A server without CEL also took definitions that differ from these by one rule, which one with CEL refuses.
#[tokio::test]
async fn objects_of_the_first_definitions_with_replaces_taints_are_upgraded_and_removed() {
    let cluster = Cluster::start().await.unwrap();
    let first = path("e2e/tests/all/crd_server/recorded/first-with-replaces-taints");
    cluster.kubectl(&["apply", "--validate=false", "-f", &first]).unwrap();
    cluster.apply_profile("standard", json!({})).await.unwrap();
    let fields =
        json!({ "profileRef": { "name": "standard" }, "deletionPolicy": "Cleanup", "labels": { "team": "web" } });
    cluster.apply_pool("web", pool_spec("web", fields)).await.unwrap();
    let configs: Api<DynamicObject> =
        Api::all_with(cluster.client.clone(), &ApiResource::erase::<WindowsNodeConfig>(&()));
    let digest = "1".repeat(64);
    let spec = json!({
        "pool": "web", "nodeUID": "uid-1", "config": "web-1", "digest": digest, "confirmTimeout": "10m",
        "assignedAt": "2026-06-01T12:00:00Z",
    });
    let stored = json!({
        "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodeConfig", "metadata": { "name": "w1" }, "spec": spec,
    });
    cluster.kubectl_with_input(&["create", "-f", "-"], &stored).unwrap();
    let status = |phase: &str, more: Value| {
        let mut status = json!({ "status": { "phase": phase } });
        status["status"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Patch::Merge(status)
    };
    let last_good = json!({ "lastGood": { "config": "web-1", "digest": digest } });
    let before = configs.patch_status("w1", &PatchParams::default(), &status("Applying", last_good)).await.unwrap();
    assert_eq!(before.data["status"]["lastGood"]["config"], "web-1");

    // The upgrade removes the field, and the object can be written.
    install_crds(&cluster.control_plane).unwrap();
    let upgraded = async || {
        let now = configs.patch_status("w1", &PatchParams::default(), &status("Applied", json!({}))).await?;
        Ok(now.data["status"].clone())
    };
    let is_pruned = |status: &Value| status["phase"] == "Applied" && status.get("lastGood").is_none();
    until("the new schema is in use", SOON, upgraded, is_pruned).await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes()).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    cluster.until_taints("w1", &[DEFAULT_TAINT]).await.unwrap();

    cluster.pools().delete("web", &DeleteParams::default()).await.unwrap();
    cluster.until_pool_gone("web").await.unwrap();
    cluster.until_taints("w1", &[]).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
    assert!(operator.stop().await.unwrap().success());
    cluster.delete_crds().unwrap();
}
