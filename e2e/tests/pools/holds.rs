//! What waits for a person, because it could hurt.

use std::time::Duration;

use e2e::wait::{stays, until};
use serde_json::json;
use winpool::api::WindowsNodePoolStatus;

use crate::{
    common::{GUARD, SOON, selector_of, spec, windows},
    with_a_node,
};

/// How long nothing may happen before we take it that nothing will.
const A_WHILE: Duration = Duration::from_millis(1500);

#[tokio::test]
async fn a_mistyped_selector_holds_its_nodes_until_their_release_is_allowed() {
    let scene = with_a_node("release").await;
    scene.settled_pool("release", spec("release", json!({}))).await;
    scene.edit_pool("release", json!({ "spec": { "nodeSelector": { "matchLabels": { "test": "erlease" } } } })).await;
    let message = scene.until("release", "NodesAssigned", "False", "ReleaseHeld").await;
    assert!(message.starts_with("release-1 no longer match and stay guarded"), "{message}");
    assert!(message.contains("kubectl annotate wnp release winpool.dev/allow-release=2"), "{message}");
    assert_eq!(scene.taints("release-1").await.unwrap(), [GUARD]);

    scene.edit_node("release-1", json!({ "spec": { "taints": null } })).await;
    scene.until_taints("release-1", &[GUARD]).await;

    scene.annotate_pool("release", "winpool.dev/allow-release", "1").await;
    let guarded = |taints: &Vec<String>| taints == &[GUARD];
    let taints = || scene.taints("release-1");
    stays("a permission for another generation changes nothing", A_WHILE, taints, guarded).await.unwrap();

    scene.allow("release", "winpool.dev/allow-release").await;
    scene.until_taints("release-1", &[]).await;
    assert_eq!(scene.pool_of("release-1").await.unwrap(), None);
    let node = scene.get_node("release-1").await.unwrap();
    let ours = node.metadata.annotations.iter().flatten().filter(|(key, _)| key.starts_with("winpool.dev/")).count();
    assert_eq!(ours, 0, "{node:#?}");
    scene.until("release", "NodesAssigned", "True", "NoNodes").await;
    scene.until_event("release", "NodesReleased").await;
    scene.close().await;
}

#[tokio::test]
async fn a_changed_version_waits_for_a_ready_node_of_the_new_build_or_a_permission() {
    let mut scene = with_a_node("strand").await;
    scene.settled_pool("strand", spec("strand", json!({}))).await;
    let build = || async {
        Ok(selector_of(&scene.class("strand").await?).remove("node.kubernetes.io/windows-build").unwrap_or_default())
    };
    scene.edit_pool("strand", json!({ "spec": { "windowsVersion": "ltsc2025" } })).await;
    let message = scene.until("strand", "RuntimeClassReady", "False", "WouldStrand").await;
    assert!(message.contains("none ready of the new"), "{message}");
    assert_eq!(build().await.unwrap(), "10.0.20348");
    assert_eq!(scene.status("strand").await.unwrap().nodes.mismatched, 1);

    scene.allow("strand", "winpool.dev/allow-strand").await;
    until("the class leads to the new build", SOON, build, |build| build == "10.0.26100").await.unwrap();
    scene.until("strand", "RuntimeClassReady", "True", "Applied").await;

    scene.edit_pool("strand", json!({ "spec": { "windowsVersion": "ltsc2019" } })).await;
    scene.until("strand", "RuntimeClassReady", "True", "Applied").await;
    assert_eq!(build().await.unwrap(), "10.0.17763", "no node of the pool is of the build that is left");

    scene.edit_pool("strand", json!({ "spec": { "windowsVersion": "ltsc2022" } })).await;
    scene.until("strand", "RuntimeClassReady", "True", "Applied").await;
    scene.edit_pool("strand", json!({ "spec": { "windowsVersion": "ltsc2025" } })).await;
    scene.until("strand", "RuntimeClassReady", "False", "WouldStrand").await;
    scene.add_nodes(vec![windows("strand", 2, "10.0.26100.1")]).await;
    scene.until("strand", "RuntimeClassReady", "True", "Applied").await;
    let message = scene.until("strand", "OSMismatch", "True", "NodeBuildDiffers").await;
    assert!(message.starts_with("strand-1 (10.0.20348) do not run 10.0.26100"), "{message}");
    scene.is_quiet().await;
    scene.close().await;
}

#[tokio::test]
async fn a_no_execute_taint_waits_for_permission_on_a_pool_with_nodes() {
    let scene = with_a_node("evict").await;
    scene.settled_pool("evict", spec("evict", json!({}))).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "evict" },
        "spec": { "nodeName": "evict-1", "containers": [{ "name": "app", "image": "app" }] },
    });
    scene.stage.kubectl_with_input(&["create", "-f", "-"], &pod).unwrap();
    let counted = |status: &WindowsNodePoolStatus| status.workloads.as_ref().is_some_and(|counts| counts.pods == 1);
    scene.until_status("evict", "that it has a pod", counted).await;
    let drain =
        json!([{ "key": "os", "value": "windows", "effect": "NoSchedule" }, { "key": "drain", "effect": "NoExecute" }]);
    scene.edit_pool("evict", json!({ "spec": { "taints": drain } })).await;
    let message = scene.until("evict", "NodesConfigured", "False", "WouldEvict").await;
    assert!(message.contains("winpool.dev/allow-evict"), "{message}");
    assert_eq!(scene.taints("evict-1").await.unwrap(), [GUARD]);
    scene.until_tolerations("evict", &[GUARD, "drain=:NoExecute"]).await;

    scene.allow("evict", "winpool.dev/allow-evict").await;
    scene.until_taints("evict-1", &[GUARD, "drain=:NoExecute"]).await;
    scene.until("evict", "NodesConfigured", "True", "Applied").await;
    scene.is_quiet().await;
    scene.close().await;
}
