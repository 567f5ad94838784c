//! What stays and what goes when a pool or its profile is deleted.

use anyhow::ensure;
use e2e::{
    assets::{Component::ControllerManager, skipped},
    wait::{eventually, until},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::{
    common::{GUARD, SOON, Scene, spec, windows},
    open, with_a_node,
};

async fn until_gone(scene: &Scene, pool: &str) {
    let gone = || async {
        let left = scene.pools().get_opt(pool).await?;
        ensure!(left.is_none(), "{left:#?}");
        Ok(())
    };
    // Long enough for the garbage collector to learn of a new resource, which takes it half a minute.
    eventually(&format!("pool {pool} is gone"), SOON * 4, gone).await.unwrap();
}

async fn config_maps(scene: &Scene) -> anyhow::Result<Vec<String>> {
    let maps = Api::<ConfigMap>::namespaced(scene.client.clone(), "winpool-system");
    let ours = ListParams::default().labels(&format!("winpool.dev/pool={}", scene.name));
    Ok(maps.list(&ours).await?.items.iter().map(ResourceExt::name_any).collect())
}

#[tokio::test]
async fn retain_leaves_everything_and_a_pool_made_again_takes_it_back_without_a_write() {
    let scene = with_a_node("retain").await;
    scene.profile("retain", json!({})).await;
    let wanted = spec("retain", json!({ "labels": { "team": "web" }, "profileRef": { "name": "retain" } }));
    scene.settled_pool("retain", wanted.clone()).await;
    assert_eq!(scene.pools().get("retain").await.unwrap().metadata.finalizers, None);
    let (patches, configs) = (scene.patches_of("retain-1"), config_maps(&scene).await.unwrap());
    let annotations = scene.get_node("retain-1").await.unwrap().metadata.annotations;
    let class = scene.class("retain").await.unwrap();

    scene.pools().delete("retain", &DeleteParams::default()).await.unwrap();
    until_gone(&scene, "retain").await;
    scene.is_quiet().await;
    assert_eq!(scene.taints("retain-1").await.unwrap(), [GUARD]);
    assert_eq!(config_maps(&scene).await.unwrap(), configs);

    scene.settled_pool("retain", wanted).await;
    scene.until("retain", "Ready", "True", "AsSpecified").await;
    scene.is_quiet().await;
    assert_eq!(scene.patches_of("retain-1"), patches, "its node is not written");
    assert_eq!(scene.get_node("retain-1").await.unwrap().metadata.annotations, annotations);
    assert_eq!(scene.class("retain").await.unwrap(), class);
    assert_eq!(config_maps(&scene).await.unwrap(), configs);
    assert_eq!(scene.status("retain").await.unwrap().applied.labels, ["team"]);

    scene.edit_pool("retain", json!({ "spec": { "taints": [], "labels": null } })).await;
    scene.until_taints("retain-1", &[]).await;
    scene.close().await;
}

/// Makes a pool with Cleanup, deletes it, and looks at what is left.
async fn clean_up(name: &'static str, how: DeleteParams) {
    let found = windows(name, 2, "10.0.20348.1").taint("os", "windows", "NoSchedule").label("team", "web");
    let scene = open(name, vec![windows(name, 1, "10.0.20348.1").taint("gpu", "yes", "NoSchedule"), found]).await;
    scene.profile(name, json!({})).await;
    let more = json!({ "labels": { "team": "web" }, "profileRef": { "name": name }, "deletionPolicy": "Cleanup" });
    scene.settled_pool(name, spec(name, more)).await;
    assert_eq!(scene.pools().get(name).await.unwrap().metadata.finalizers.unwrap(), ["winpool.dev/cleanup"]);
    let writes = scene.stage.writes(name).unwrap();
    let first = |resource: &str| writes.iter().position(|write| write.resource == resource).unwrap();
    assert!(
        first("windowsnodepools") < first("nodes"),
        "the finalizer comes before the first write to a node: {writes:#?}"
    );
    assert!(!config_maps(&scene).await.unwrap().is_empty());

    scene.pools().delete(name, &how).await.unwrap();
    until_gone(&scene, name).await;
    for (node, taints, team) in [("1", vec!["gpu=yes:NoSchedule"], None), ("2", vec![GUARD], Some("web"))] {
        let node = scene.get_node(&format!("{name}-{node}")).await.unwrap();
        assert_eq!(crate::common::taints_of(&node), taints);
        assert_eq!(node.labels().get("team").map(String::as_str), team);
        assert_eq!(node.labels().get("node.kubernetes.io/windows-build").map(String::as_str), Some("10.0.20348"));
        let ours = node.labels().keys().chain(node.annotations().keys()).filter(|key| key.starts_with("winpool.dev/"));
        assert_eq!(ours.count(), 0, "{node:#?}");
    }
    assert!(scene.class(name).await.is_err(), "the RuntimeClass is deleted");
    assert_eq!(config_maps(&scene).await.unwrap(), [""; 0]);
    let message = scene.until_event(name, "CleaningUp").await;
    assert!(message.contains("come off 2 nodes"), "{message}");
    scene.close().await;
}

#[tokio::test]
async fn cleanup_takes_off_what_the_pool_added_and_nothing_else() {
    clean_up("cleanup", DeleteParams::background()).await;
}

#[tokio::test]
async fn cleanup_works_by_foreground_deletion_too() {
    if skipped("cleanup_works_by_foreground_deletion_too", &[ControllerManager]).unwrap() {
        return;
    }
    clean_up("foreground", DeleteParams::foreground()).await;
}

#[tokio::test]
async fn cleanup_gives_a_node_to_the_pool_that_takes_it_without_a_gap() {
    let scene = with_a_node("heir").await;
    scene.settled_pool("heir", spec("heir", json!({ "deletionPolicy": "Cleanup" }))).await;
    scene.pool("heir-next", spec("heir", json!({}))).await;
    scene.until("heir-next", "NodesAssigned", "False", "NodeConflict").await;
    let history = crate::common::history::History::of(&scene.client, "heir-1", "heir").await;
    scene.pools().delete("heir", &DeleteParams::background()).await.unwrap();
    until_gone(&scene, "heir").await;
    scene.until_pool_of("heir-1", Some("heir-next")).await;
    for moment in history.until_now().await {
        assert_eq!(moment.taints, [GUARD]);
    }
    scene.until("heir-next", "NodesAssigned", "True", "Assigned").await;
    scene.until("heir-next", "RuntimeClassReady", "True", "Applied").await;
    scene.close().await;
}

#[tokio::test]
async fn a_pool_without_its_profile_says_so_keeps_its_configurations_and_guards_on() {
    let mut scene = with_a_node("orphan").await;
    scene.profile("orphan", json!({})).await;
    scene.settled_pool("orphan", spec("orphan", json!({ "profileRef": { "name": "orphan" } }))).await;
    let configs = config_maps(&scene).await.unwrap();
    assert_eq!(configs.len(), 1);
    scene.profiles().delete("orphan", &DeleteParams::default()).await.unwrap();
    scene.until("orphan", "ProfileResolved", "False", "NotFound").await;
    scene.add_nodes(vec![windows("orphan", 2, "10.0.20348.1")]).await;
    scene.until_taints("orphan-2", &[GUARD]).await;
    assert_eq!(config_maps(&scene).await.unwrap(), configs);
    let config = || async { Ok(scene.get_node("orphan-1").await?.annotations().get("winpool.dev/config").cloned()) };
    assert_eq!(config().await.unwrap().as_ref(), configs.first());

    scene.profile("orphan", json!({ "kubelet": { "maxPods": 42 } })).await;
    scene.until("orphan", "ProfileResolved", "True", "Resolved").await;
    until("it runs the new configuration", SOON, config, |now| now.is_some() && now.as_ref() != configs.first())
        .await
        .unwrap();
    scene.close().await;
}
