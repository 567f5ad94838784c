//! Changes that are held until an administrator allows them.

use std::time::Duration;

use anyhow::Result;
use e2e::{
    cluster::{DEFAULT_TAINT, SOON, edit},
    control_plane::User,
    fixture::{Fixture, spec, windows},
    kubelet::CONFIG_ANNOTATION,
    objects::selector_of,
    operator::winpool,
    wait::{stays, until},
};
use kube::api::{ObjectMeta, PostParams};
use serde_json::json;
use winpool_api::{WindowsNodePoolStatus, conditions::RUNTIME_CLASS_READY};
use winpool_core::pool::digest;

use super::with_one_node;

/// How long to check that nothing happens.
const A_WHILE: Duration = Duration::from_millis(1500);

#[tokio::test]
async fn a_mistyped_selector_holds_its_nodes_until_their_release_is_allowed() {
    let fixture = with_one_node("release").await;
    fixture.apply_pool_and_wait("release", spec("release", json!({}))).await.unwrap();
    fixture
        .edit_pool("release", json!({ "spec": { "nodeSelector": { "matchLabels": { "agentpool": "erlease" } } } }))
        .await
        .unwrap();
    let message = fixture.until_condition("release", "NodesAssigned", "False", "ReleaseHeld").await.unwrap().message;
    assert!(message.starts_with("1 node no longer matches the pool and keeps its taints and labels"), "{message}");
    let command = "kubectl annotate wnp release winpool.dev/allow-release=agentpool=erlease --overwrite";
    assert!(message.contains(command), "{message}");
    assert_eq!(fixture.taints("release-1").await.unwrap(), [DEFAULT_TAINT]);

    fixture.edit_node("release-1", json!({ "spec": { "taints": null } })).await.unwrap();
    fixture.until_taints("release-1", &[DEFAULT_TAINT]).await.unwrap();

    fixture.annotate_pool("release", "winpool.dev/allow-release", "agentpool=another").await.unwrap();
    let unchanged = |taints: &Vec<String>| taints == &[DEFAULT_TAINT];
    let taints = || fixture.taints("release-1");
    stays("a permission for another selector changes nothing", A_WHILE, taints, unchanged).await.unwrap();

    fixture.run_remedy(&message).unwrap();
    fixture.until_taints("release-1", &[]).await.unwrap();
    assert_eq!(fixture.pool_of("release-1").await.unwrap(), None);
    let node = fixture.node("release-1").await.unwrap();
    let ours = node.metadata.annotations.iter().flatten().filter(|(key, _)| key.starts_with("winpool.dev/")).count();
    assert_eq!(ours, 0, "{node:#?}");
    fixture.until_condition("release", "NodesAssigned", "True", "NoNodes").await.unwrap();
    fixture.until_event("release", "NodesReleased").await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_changed_version_waits_for_a_ready_node_of_the_new_build_or_a_permission() {
    let mut fixture = with_one_node("strand").await;
    fixture.apply_pool_and_wait("strand", spec("strand", json!({}))).await.unwrap();
    let build = || async {
        Ok(selector_of(&fixture.class("strand").await?).remove("node.kubernetes.io/windows-build").unwrap_or_default())
    };
    fixture.edit_pool("strand", json!({ "spec": { "windowsVersion": "ltsc2025" } })).await.unwrap();
    let message = fixture.until_condition("strand", "RuntimeClassReady", "False", "WouldStrand").await.unwrap().message;
    assert!(message.contains("no ready node of the new one"), "{message}");
    assert_eq!(build().await.unwrap(), "10.0.20348");
    assert_eq!(fixture.status("strand").await.unwrap().nodes.mismatched, 1);

    fixture.run_remedy(&message).unwrap();
    until("the class selects the new build", SOON, build, |build| build == "10.0.26100").await.unwrap();
    fixture.until_condition("strand", "RuntimeClassReady", "True", "Applied").await.unwrap();

    fixture.edit_pool("strand", json!({ "spec": { "windowsVersion": "ltsc2019" } })).await.unwrap();
    let selects_none = |status: &WindowsNodePoolStatus| {
        let ready = status.condition(&RUNTIME_CLASS_READY);
        let text = "selects build 10.0.17763, and the 1 node of the pool runs 10.0.20348";
        ready.is_some_and(|ready| ready.reason == "WouldStrand" && ready.message.contains(text))
    };
    fixture.until_status("strand", "that its class selects no node", selects_none).await.unwrap();
    assert_eq!(build().await.unwrap(), "10.0.17763", "no node of the pool is of the build that is left");

    fixture.edit_pool("strand", json!({ "spec": { "windowsVersion": "ltsc2022" } })).await.unwrap();
    fixture.until_condition("strand", "RuntimeClassReady", "True", "Applied").await.unwrap();
    let forbidden = json!({ "annotations": { "winpool.dev/allow-strand": null } });
    let next = json!({ "metadata": forbidden, "spec": { "windowsVersion": "ltsc2025" } });
    fixture.edit_pool("strand", next).await.unwrap();
    fixture.until_condition("strand", "RuntimeClassReady", "False", "WouldStrand").await.unwrap();
    fixture.add_nodes(vec![windows("strand", 2, "10.0.26100.1")]).await.unwrap();
    fixture.until_condition("strand", "RuntimeClassReady", "True", "Applied").await.unwrap();
    let message = fixture.until_condition("strand", "OSMismatch", "True", "NodeBuildDiffers").await.unwrap().message;
    assert!(message.starts_with("1 node runs another build than 10.0.26100: strand-1 (10.0.20348)"), "{message}");
    fixture.until_idle().await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_no_execute_taint_waits_for_permission_on_a_pool_with_nodes() {
    let fixture = with_one_node("evict").await;
    fixture.apply_pool_and_wait("evict", spec("evict", json!({}))).await.unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "evict" },
        "spec": { "nodeName": "evict-1", "containers": [{ "name": "app", "image": "app" }] },
    });
    fixture.kubectl_with_input(&["create", "-f", "-"], &pod).unwrap();
    let counted = |status: &WindowsNodePoolStatus| status.workloads.as_ref().is_some_and(|counts| counts.pods == 1);
    fixture.until_status("evict", "that it has a pod", counted).await.unwrap();
    let drain =
        json!([{ "key": "os", "value": "windows", "effect": "NoSchedule" }, { "key": "drain", "effect": "NoExecute" }]);
    fixture.edit_pool("evict", json!({ "spec": { "taints": drain } })).await.unwrap();
    let message = fixture.until_condition("evict", "NodesTainted", "False", "WouldEvict").await.unwrap().message;
    assert!(message.contains("winpool.dev/allow-evict"), "{message}");
    assert_eq!(fixture.taints("evict-1").await.unwrap(), [DEFAULT_TAINT]);
    fixture.until_tolerations("evict", &[DEFAULT_TAINT, "drain=:NoExecute"]).await.unwrap();

    fixture.run_remedy(&message).unwrap();
    fixture.until_taints("evict-1", &[DEFAULT_TAINT, "drain=:NoExecute"]).await.unwrap();
    fixture.until_condition("evict", "NodesTainted", "True", "Applied").await.unwrap();
    // A status in which only counts change is written later.
    let evicted = |status: &WindowsNodePoolStatus| status.workloads.as_ref().is_none_or(|counts| counts.pods == 0);
    fixture.until_status("evict", "that its pod is evicted", evicted).await.unwrap();
    fixture.until_idle().await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

/// The ConfigMap that a node names.
async fn config(fixture: &Fixture, node: &str) -> Result<String> {
    Ok(fixture.annotation(node, CONFIG_ANNOTATION).await?.unwrap_or_default())
}

#[tokio::test]
async fn a_node_keeps_what_another_version_rendered_until_the_new_rendering_is_allowed() {
    let name = "rendering";
    let mut fixture = with_one_node(name).await;
    fixture.apply_profile(name, json!({ "kubelet": { "maxPods": 42 } })).await.unwrap();
    fixture.apply_pool_and_wait(name, spec(name, json!({ "profileRef": { "name": name } }))).await.unwrap();
    let new = config(&fixture, "rendering-1").await.unwrap();
    let maps = fixture.config_maps();
    let record = async || {
        let annotations = maps.get(&new).await?.metadata.annotations.unwrap_or_default();
        Ok(annotations.get("winpool.dev/rendered-from").cloned().unwrap_or_default())
    };

    // Another version has rendered 41 pods from the same profile.
    let mut map = maps.get(&new).await.unwrap();
    let data = map.data.as_mut().unwrap();
    let yaml = data.get_mut("kubelet.yaml").unwrap();
    *yaml = yaml.replace("maxPods: 42", "maxPods: 41");
    let old = format!("rendering-{:.10}", digest(data));
    let (labels, annotations) = (map.metadata.labels.take(), map.metadata.annotations.take());
    map.metadata = ObjectMeta { name: Some(old.clone()), labels, annotations, ..ObjectMeta::default() };
    maps.create(&PostParams::default(), &map).await.unwrap();
    fixture.until_idle().await.unwrap();
    fixture
        .edit_node("rendering-1", json!({ "metadata": { "annotations": { CONFIG_ANNOTATION: old } } }))
        .await
        .unwrap();

    let message = fixture.until_condition(name, "ConfigInEffect", "False", "RenderingChanged").await.unwrap().message;
    assert!(message.contains(&format!("1 node keeps its ConfigMap: rendering-1 ({old} → {new})")), "{message}");
    fixture.until_condition(name, "Ready", "True", "AsSpecified").await.unwrap();
    let change = format!("ConfigMap {old} → {new}: kubelet.yaml maxPods: 41 → 42");
    assert_eq!(fixture.status(name).await.unwrap().pending.first.join("\n"), change);
    let output = winpool(&fixture.control_plane, User::Admin, &["plan"]).unwrap();
    let plan = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(plan.contains(&change), "{plan}");
    fixture.add_nodes(vec![windows(name, 2, "10.0.20348.1")]).await.unwrap();
    until("the new node has the new one", SOON, || config(&fixture, "rendering-2"), |config| *config == new)
        .await
        .unwrap();
    stays("the other keeps its own", A_WHILE, || config(&fixture, "rendering-1"), |config| *config == old)
        .await
        .unwrap();

    fixture.run_remedy(&message).unwrap();
    until("both have the new one", SOON, || config(&fixture, "rendering-1"), |config| *config == new).await.unwrap();
    fixture.until_status(name, "nothing is pending", |status| status.pending.count == 0).await.unwrap();

    // The profile is changed, and changed back.
    let before = record().await.unwrap();
    for pods in [43, 42] {
        edit(&fixture.profiles(), name, json!({ "spec": { "kubelet": { "maxPods": pods } } })).await.unwrap();
        let is_new = |config: &String| (*config == new) == (pods == 42);
        until("the configuration is named", SOON, || config(&fixture, "rendering-1"), is_new).await.unwrap();
    }
    until("what it is rendered from is recorded", SOON, record, |record| *record != before).await.unwrap();
    fixture.until_idle().await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}
