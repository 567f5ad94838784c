//! What is removed when a pool is deleted with Cleanup.

use e2e::{
    cluster::DEFAULT_TAINT,
    fixture::{Fixture, spec, windows},
    objects::taints_of,
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{with_nodes, with_one_node};

async fn config_maps(fixture: &Fixture) -> anyhow::Result<Vec<String>> {
    let ours = ListParams::default().labels(&format!("winpool.dev/pool={}", fixture.name));
    Ok(fixture.config_maps().list(&ours).await?.items.iter().map(ResourceExt::name_any).collect())
}

/// Creates a pool with Cleanup, deletes it, and checks the remaining objects.
async fn clean_up(name: &'static str, how: DeleteParams) {
    let found = windows(name, 2, "10.0.20348.1").taint("os", "windows", "NoSchedule").label("team", "web");
    let fixture =
        with_nodes(name, vec![windows(name, 1, "10.0.20348.1").taint("gpu", "yes", "NoSchedule"), found]).await;
    fixture.apply_profile(name, json!({})).await.unwrap();
    let more = json!({ "labels": { "team": "web" }, "profileRef": { "name": name }, "deletionPolicy": "Cleanup" });
    fixture.apply_pool_and_wait(name, spec(name, more)).await.unwrap();
    assert_eq!(fixture.pools().get(name).await.unwrap().metadata.finalizers.unwrap(), ["winpool.dev/cleanup"]);
    let writes = fixture.own_writes().unwrap();
    let first = |resource: &str| writes.iter().position(|write| write.resource == resource).unwrap();
    assert!(
        first("windowsnodepools") < first("nodes"),
        "the finalizer comes before the first write to a node: {writes:#?}"
    );
    assert!(!config_maps(&fixture).await.unwrap().is_empty());

    fixture.pools().delete(name, &how).await.unwrap();
    fixture.until_pool_gone(name).await.unwrap();
    for (node, taints, team) in [("1", vec!["gpu=yes:NoSchedule"], None), ("2", vec![DEFAULT_TAINT], Some("web"))] {
        let node = fixture.node(&format!("{name}-{node}")).await.unwrap();
        assert_eq!(taints_of(&node), taints);
        assert_eq!(node.labels().get("team").map(String::as_str), team);
        assert_eq!(node.labels().get("node.kubernetes.io/windows-build").map(String::as_str), Some("10.0.20348"));
        let ours = node.labels().keys().chain(node.annotations().keys()).filter(|key| key.starts_with("winpool.dev/"));
        assert_eq!(ours.count(), 0, "{node:#?}");
    }
    assert!(fixture.class(name).await.is_err(), "the RuntimeClass is deleted");
    assert_eq!(config_maps(&fixture).await.unwrap(), [""; 0]);
    let message = fixture.until_event(name, "CleaningUp").await.unwrap();
    assert!(message.contains("are removed from 2 nodes"), "{message}");
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn cleanup_removes_what_the_pool_added_and_nothing_else() {
    clean_up("cleanup", DeleteParams::background()).await;
}

#[tokio::test]
async fn cleanup_works_by_foreground_deletion_too() {
    clean_up("foreground", DeleteParams::foreground()).await;
}

#[tokio::test]
async fn cleanup_releases_a_node_from_which_its_kubelet_has_removed_the_label_of_windows() {
    let name = "unlabelled";
    let fixture = with_one_node(name).await;
    let more = json!({ "labels": { "team": "web" }, "deletionPolicy": "Cleanup" });
    fixture.apply_pool_and_wait(name, spec(name, more)).await.unwrap();
    let node = format!("{name}-1");
    let kubelet = fixture.control_plane.client_as(&format!("system:node:{node}"), &["system:nodes"]).await.unwrap();
    let without_label = Patch::Merge(json!({ "metadata": { "labels": { "kubernetes.io/os": null } } }));
    let nodes: Api<Node> = Api::all(kubelet);
    nodes.patch(&node, &PatchParams::default(), &without_label).await.unwrap();
    fixture.until_idle().await.unwrap();
    assert_eq!(taints_of(&fixture.node(&node).await.unwrap()), [DEFAULT_TAINT]);

    fixture.pools().delete(name, &DeleteParams::background()).await.unwrap();
    fixture.until_pool_gone(name).await.unwrap();
    let node = fixture.node(&node).await.unwrap();
    assert_eq!(taints_of(&node), [""; 0]);
    let ours = node.labels().keys().chain(node.annotations().keys()).filter(|key| key.starts_with("winpool.dev/"));
    assert_eq!((ours.count(), node.labels().get("team")), (0, None), "{node:#?}");
    fixture.nothing_was_forbidden().unwrap();
}
