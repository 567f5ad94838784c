//! The objects that a pool creates, changes and restores.

use e2e::{
    cluster::{DEFAULT_TAINT, SOON},
    fixture::{spec, windows},
    kubelet::CONFIG_ANNOTATION,
    wait::{eventually, until},
};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::{with_nodes, with_one_node};

#[tokio::test]
async fn a_pool_taints_its_nodes_creates_classes_that_select_them_and_reports_both() {
    let fixture =
        with_nodes("create", vec![windows("create", 1, "10.0.20348.2700"), windows("create", 2, "10.0.20348.2800")])
            .await;
    fixture.apply_profile("create", json!({})).await.unwrap();
    let fields = json!({ "runtimeClasses": null, "labels": { "team": "web" }, "profileRef": { "name": "create" } });
    fixture.apply_pool_and_wait("create", spec("create", fields)).await.unwrap();

    let maps = fixture.config_maps();
    let maps = maps.list(&ListParams::default().labels("winpool.dev/pool=create")).await.unwrap().items;
    let [map] = maps.as_slice() else { panic!("the nodes are alike and share a configuration: {maps:#?}") };
    assert_eq!(map.immutable, Some(true));
    let name = map.metadata.name.as_deref().unwrap();

    for node in ["create-1", "create-2"] {
        assert_eq!(fixture.taints(node).await.unwrap(), [DEFAULT_TAINT]);
        assert_eq!(fixture.label(node, "team").await.unwrap().as_deref(), Some("web"));
        assert_eq!(fixture.annotation(node, CONFIG_ANNOTATION).await.unwrap().as_deref(), Some(name));
    }
    assert_eq!(fixture.tolerations("windows-ltsc2022").await.unwrap(), [DEFAULT_TAINT]);
    let status = fixture.status("create").await.unwrap();
    assert_eq!((status.nodes.matched, status.nodes.ready, status.nodes.tainted), (2, 2, 2));
    assert_eq!((status.builds[0].build.as_str(), status.builds[0].revisions.as_str()), ("10.0.20348", "2700..2800"));
    assert_eq!((status.configs[0].name.as_str(), status.configs[0].wanted), (name, 2));

    let profile = || async { Ok(fixture.profiles().get("create").await?.data["status"]["usedBy"].clone()) };
    let used = json!({ "count": 1, "pools": ["create"] });
    until("the profile lists the pools that use it", SOON, profile, |by| *by == used).await.unwrap();
    fixture.until_idle().await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn manual_changes_are_reverted() {
    let fixture = with_one_node("drift").await;
    fixture.apply_profile("drift", json!({})).await.unwrap();
    let more = json!({ "labels": { "team": "web" }, "profileRef": { "name": "drift" } });
    fixture.apply_pool_and_wait("drift", spec("drift", more)).await.unwrap();
    let config = fixture.annotation("drift-1", CONFIG_ANNOTATION).await.unwrap().unwrap();

    let metadata = async || {
        let metadata = fixture.node("drift-1").await?.metadata;
        Ok((metadata.labels, metadata.annotations.unwrap_or_default().remove(CONFIG_ANNOTATION)))
    };
    let before = metadata().await.unwrap();
    for change in [
        json!({ "spec": { "taints": null } }),
        json!({ "metadata": { "labels": { "winpool.dev/pool": null, "team": "theirs" } } }),
        json!({ "metadata": { "annotations": { CONFIG_ANNOTATION: "other" } } }),
    ] {
        fixture.edit_node("drift-1", change.clone()).await.unwrap();
        fixture.until_taints("drift-1", &[DEFAULT_TAINT]).await.unwrap();
        until(&format!("{change} is reverted"), SOON, metadata, |now| *now == before).await.unwrap();
    }

    let scheduling = async || Ok(fixture.class("drift").await?.scheduling);
    let before = scheduling().await.unwrap();
    for change in [
        json!({ "tolerations": [{ "operator": "Exists" }], "nodeSelector": { "disk": "fast" } }),
        json!({ "nodeSelector": { "kubernetes.io/os": null } }),
    ] {
        fixture.edit_class("drift", json!({ "scheduling": change })).await.unwrap();
        until(&format!("{change} is reverted"), SOON, scheduling, |now| *now == before).await.unwrap();
    }
    fixture.classes().delete("drift", &DeleteParams::default()).await.unwrap();
    eventually("the class is created again", SOON, || fixture.class("drift")).await.unwrap();

    let maps = fixture.config_maps();
    let map = maps.get(&config).await.unwrap();
    maps.delete(&config, &DeleteParams::default()).await.unwrap();
    let again = async || Ok(maps.get(&config).await?);
    assert_eq!(eventually("the ConfigMap is created again", SOON, again).await.unwrap().data, map.data);

    fixture.until_event("drift", "NodesRepaired").await.unwrap();
    fixture.until_idle().await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn changes_are_emitted_as_events() {
    let fixture = with_one_node("events").await;
    fixture.apply_profile("events", json!({})).await.unwrap();
    fixture.apply_pool_and_wait("events", spec("events", json!({ "profileRef": { "name": "events" } }))).await.unwrap();
    let joined = fixture.until_event("events", "NodesTainted").await.unwrap();
    assert!(
        joined.contains(
            "events-1 (label winpool.dev/pool=events, label runs.winpool.dev/ltsc2022=true, taint os=windows:NoSchedule"
        ),
        "{joined}"
    );
    let class = fixture.until_event("events", "RuntimeClassApplied").await.unwrap();
    assert!(class.contains("RuntimeClass events: create"), "{class}");
    fixture.until_event("events", "ConfigRendered").await.unwrap();
    fixture.edit_pool("events", json!({ "spec": { "profileRef": { "name": "nowhere" } } })).await.unwrap();
    let missing = fixture.until_event("events", "NotFound").await.unwrap();
    assert!(missing.contains("WindowsRuntimeProfile nowhere does not exist"), "{missing}");
    fixture.nothing_was_forbidden().unwrap();
}
