//! The objects that are kept or removed when a pool or its profile is deleted.

use e2e::{
    cluster::{DEFAULT_TAINT, SOON},
    fixture::{Fixture, spec, windows},
    history::Placement,
    kubelet::CONFIG_ANNOTATION,
    objects::taints_of,
    wait::until,
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

#[tokio::test]
async fn retain_leaves_everything_and_a_recreated_pool_takes_it_over_without_a_write() {
    let fixture = with_one_node("retain").await;
    fixture.apply_profile("retain", json!({})).await.unwrap();
    let wanted = spec("retain", json!({ "labels": { "team": "web" }, "profileRef": { "name": "retain" } }));
    fixture.apply_pool_and_wait("retain", wanted.clone()).await.unwrap();
    assert_eq!(fixture.pools().get("retain").await.unwrap().metadata.finalizers, None);
    let (patches, configs) = (fixture.changes_of("retain-1").unwrap(), config_maps(&fixture).await.unwrap());
    let record = fixture.annotation("retain-1", "winpool.dev/owned").await.unwrap();
    let class = fixture.class("retain").await.unwrap();

    fixture.pools().delete("retain", &DeleteParams::default()).await.unwrap();
    fixture.until_pool_gone("retain").await.unwrap();
    fixture.until_idle().await.unwrap();
    assert_eq!(fixture.taints("retain-1").await.unwrap(), [DEFAULT_TAINT]);
    assert_eq!(config_maps(&fixture).await.unwrap(), configs);

    fixture.apply_pool_and_wait("retain", wanted).await.unwrap();
    fixture.until_condition("retain", "Ready", "True", "AsSpecified").await.unwrap();
    fixture.until_idle().await.unwrap();
    assert_eq!(fixture.changes_of("retain-1").unwrap(), patches, "its node is not written");
    assert_eq!(fixture.annotation("retain-1", "winpool.dev/owned").await.unwrap(), record);
    assert_eq!(fixture.class("retain").await.unwrap(), class);
    assert_eq!(config_maps(&fixture).await.unwrap(), configs);
    assert_eq!(fixture.status("retain").await.unwrap().applied.labels, ["team"]);

    fixture.edit_pool("retain", json!({ "spec": { "taints": [], "labels": null } })).await.unwrap();
    fixture.until_taints("retain-1", &[]).await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

/// Creates a pool with Cleanup, deletes it, and checks the remaining objects.
#[tokio::test]
async fn cleanup_of_a_recreated_pool_removes_what_the_deleted_pool_added() {
    let name = "recreated";
    let fixture = with_one_node(name).await;
    let more = json!({ "key": "gpu", "value": "no", "effect": "NoSchedule" });
    let os = json!({ "key": "os", "value": "windows", "effect": "NoSchedule" });
    let former = json!({ "taints": [os, more], "labels": { "team": "web", "rack": "r1" } });
    fixture.apply_pool_and_wait(name, spec(name, former)).await.unwrap();
    fixture.pools().delete(name, &DeleteParams::background()).await.unwrap();
    fixture.until_pool_gone(name).await.unwrap();

    let fewer = json!({ "taints": [os], "labels": { "team": "web" } });
    fixture.apply_pool_and_wait(name, spec(name, fewer)).await.unwrap();
    fixture.edit_pool(name, json!({ "spec": { "deletionPolicy": "Cleanup" } })).await.unwrap();
    fixture.until_idle().await.unwrap();
    fixture.pools().delete(name, &DeleteParams::background()).await.unwrap();
    fixture.until_pool_gone(name).await.unwrap();
    let node = fixture.node(&format!("{name}-1")).await.unwrap();
    assert_eq!(taints_of(&node), [""; 0]);
    assert_eq!((node.labels().get("team"), node.labels().get("rack")), (None, None));
    assert_eq!(node.annotations().get("winpool.dev/owned"), None);
}

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
async fn a_node_that_another_pool_takes_is_never_untainted_by_a_cleanup() {
    let fixture = with_one_node("takeover").await;
    fixture.apply_pool_and_wait("takeover", spec("takeover", json!({ "deletionPolicy": "Cleanup" }))).await.unwrap();
    fixture.apply_pool("takeover-next", spec("takeover", json!({}))).await.unwrap();
    fixture.until_condition("takeover-next", "NodesAssigned", "False", "NodeConflict").await.unwrap();
    let history = Placement::start(&fixture, "takeover-1", "takeover").await.unwrap();
    fixture.pools().delete("takeover", &DeleteParams::background()).await.unwrap();
    fixture.until_pool_gone("takeover").await.unwrap();
    fixture.until_pool_of("takeover-1", Some("takeover-next")).await.unwrap();
    for moment in history.until_now().await.unwrap() {
        assert_eq!(moment.taints, [DEFAULT_TAINT]);
    }
    fixture.until_condition("takeover-next", "NodesAssigned", "True", "Assigned").await.unwrap();
    fixture.until_condition("takeover-next", "RuntimeClassReady", "True", "Applied").await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
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

#[tokio::test]
async fn a_pool_without_its_profile_reports_it_keeps_its_configurations_and_taints_new_nodes() {
    let mut fixture = with_one_node("orphan").await;
    fixture.apply_profile("orphan", json!({})).await.unwrap();
    fixture.apply_pool_and_wait("orphan", spec("orphan", json!({ "profileRef": { "name": "orphan" } }))).await.unwrap();
    let configs = config_maps(&fixture).await.unwrap();
    assert_eq!(configs.len(), 1);
    fixture.profiles().delete("orphan", &DeleteParams::default()).await.unwrap();
    fixture.until_condition("orphan", "ProfileResolved", "False", "NotFound").await.unwrap();
    fixture.add_nodes(vec![windows("orphan", 2, "10.0.20348.1")]).await.unwrap();
    fixture.until_taints("orphan-2", &[DEFAULT_TAINT]).await.unwrap();
    assert_eq!(config_maps(&fixture).await.unwrap(), configs);
    let config = || fixture.annotation("orphan-1", CONFIG_ANNOTATION);
    assert_eq!(config().await.unwrap().as_ref(), configs.first());

    fixture.apply_profile("orphan", json!({ "kubelet": { "maxPods": 42 } })).await.unwrap();
    fixture.until_condition("orphan", "ProfileResolved", "True", "Resolved").await.unwrap();
    until("it runs the new configuration", SOON, config, |now| now.is_some() && now.as_ref() != configs.first())
        .await
        .unwrap();
    fixture.nothing_was_forbidden().unwrap();
}
