//! Which pool a node belongs to, and what stays another's on it.

use e2e::wait::until;
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use serde_json::json;

use crate::{
    common::{GUARD, SOON, history::History, spec, windows},
    open, with_a_node,
};

#[tokio::test]
async fn the_pool_that_has_a_node_keeps_it_and_both_say_so() {
    let mut scene = with_a_node("overlap").await;
    scene.settled_pool("overlap-b", spec("overlap", json!({}))).await;
    let created = scene.pools().get("overlap-b").await.unwrap().metadata.creation_timestamp.unwrap().0.as_second();
    let later = || async { Ok(k8s_openapi::jiff::Timestamp::now().as_second() > created) };
    until("the next pool is younger by what a timestamp can tell", SOON, later, |later| *later).await.unwrap();
    scene.pool("overlap-a", spec("overlap", json!({}))).await;
    for pool in ["overlap-a", "overlap-b"] {
        let message = scene.until(pool, "NodesAssigned", "False", "NodeConflict").await;
        assert!(message.contains("overlap-1 match more than one pool (overlap-a, overlap-b)"), "{message}");
        assert_eq!(scene.status(pool).await.unwrap().nodes.contested, 1, "{pool}");
    }
    assert_eq!(scene.pool_of("overlap-1").await.unwrap().as_deref(), Some("overlap-b"));

    scene.add_nodes(vec![windows("overlap", 2, "10.0.20348.1")]).await;
    scene.until_pool_of("overlap-2", Some("overlap-b")).await;

    let narrower = json!({ "spec": { "nodeSelector": { "matchLabels": { "test": "elsewhere" } } } });
    scene.edit_pool("overlap-b", narrower).await;
    scene.until_pool_of("overlap-1", Some("overlap-a")).await;
    scene.until_pool_of("overlap-2", Some("overlap-a")).await;
    scene.until("overlap-a", "NodesAssigned", "True", "Assigned").await;
    scene.until("overlap-b", "NodesAssigned", "True", "NoNodes").await;
    scene.is_quiet().await;
    scene.close().await;
}

#[tokio::test]
async fn a_node_moves_between_pools_in_one_write_and_is_never_unguarded() {
    let scene = with_a_node("move").await;
    scene.settled_pool("move", spec("move", json!({ "labels": { "team": "web" } }))).await;
    let batch = json!({
        "taints": [{ "key": "batch", "value": "yes", "effect": "NoSchedule" }],
        "runtimeClasses": [{ "name": "move" }],
        "labels": { "shift": "night" },
    });
    scene.settled_pool("move-batch", spec("move-batch", batch)).await;
    scene.until_tolerations("move", &[GUARD, "batch=yes:NoSchedule"]).await;
    scene.is_quiet().await;

    let before = scene.patches_of("move-1");
    let history = History::of(&scene.client, "move-1", "move").await;
    scene.edit_node("move-1", json!({ "metadata": { "labels": { "test": "move-batch" } } })).await;
    scene.until_pool_of("move-1", Some("move-batch")).await;
    scene.until("move", "NodesAssigned", "True", "NoNodes").await;
    scene.until("move-batch", "NodesAssigned", "True", "Assigned").await;
    scene.is_quiet().await;
    assert_eq!(scene.patches_of("move-1"), before + 1);

    let moments = history.until_now().await;
    for moment in &moments {
        let has = |key: &str| moment.labels.get(key).map(String::as_str);
        let state = (has("winpool.dev/pool"), has("team"), has("shift"), moment.taints.as_slice());
        let is_before = state == (Some("move"), Some("web"), None, &[GUARD.to_owned()]);
        let is_after = state == (Some("move-batch"), None, Some("night"), &["batch=yes:NoSchedule".to_owned()]);
        assert!(is_before || is_after, "{moment:#?}");
    }
    assert_eq!(moments.last().unwrap().labels["winpool.dev/pool"], "move-batch");
    scene.close().await;
}

#[tokio::test]
async fn another_value_is_not_overwritten_and_the_rest_is_still_done() {
    let node = windows("conflict", 1, "10.0.20348.1").taint("os", "Windows", "NoSchedule").label("team", "theirs");
    let mut scene = open("conflict", vec![node]).await;
    scene.pool("conflict", spec("conflict", json!({ "labels": { "team": "web", "shift": "night" } }))).await;
    let message = scene.until("conflict", "NodesConfigured", "False", "TaintConflict").await;
    assert!(message.contains("conflict-1 (os=Windows:NoSchedule instead of os=windows:NoSchedule)"), "{message}");
    assert!(message.ends_with("kubectl get nodes -l winpool.dev/pool=conflict"), "{message}");
    assert_eq!(scene.taints("conflict-1").await.unwrap(), ["os=Windows:NoSchedule"]);
    assert_eq!(scene.label("conflict-1", "team").await.unwrap().as_deref(), Some("theirs"));
    assert_eq!(scene.label("conflict-1", "shift").await.unwrap().as_deref(), Some("night"));
    scene.add_nodes(vec![windows("conflict", 2, "10.0.20348.1")]).await;
    scene.until_taints("conflict-2", &[GUARD]).await;

    scene.until("conflict", "Ready", "False", "TaintConflict").await;
    scene.until_status("conflict", "its problem", |status| status.columns.problem == "TaintConflict(1)").await;

    scene.edit_node("conflict-1", json!({ "spec": { "taints": null } })).await;
    scene.until_taints("conflict-1", &[GUARD]).await;
    let message = scene.until("conflict", "NodesConfigured", "False", "LabelConflict").await;
    assert!(message.contains("conflict-1 (team=theirs instead of team=web)"), "{message}");
    scene.edit_node("conflict-1", json!({ "metadata": { "labels": { "team": null } } })).await;
    scene.until("conflict", "NodesConfigured", "True", "Applied").await;
    scene.until("conflict", "Ready", "True", "AsSpecified").await;
    scene.close().await;
}

#[tokio::test]
async fn what_others_have_on_a_node_stays_whatever_its_record_says() {
    let node = windows("forged", 1, "10.0.20348.1").taint("gpu", "yes", "NoSchedule").label("rack", "r1");
    let scene = open("forged", vec![node]).await;
    scene.settled_pool("forged", spec("forged", json!({ "labels": { "team": "web" } }))).await;
    let forged = r#"{"pool":"forged","taints":{"gpu:NoSchedule":"added","os:NoSchedule":"added"},"labels":{"rack":"added","test":"added","team":"added"}}"#;
    scene.edit_node("forged-1", json!({ "metadata": { "annotations": { "winpool.dev/owned": forged } } })).await;
    scene.is_quiet().await;
    scene.edit_pool("forged", json!({ "spec": { "taints": [], "labels": null } })).await;
    scene.until_taints("forged-1", &["gpu=yes:NoSchedule", GUARD]).await;
    for (label, value) in [("rack", Some("r1")), ("test", Some("forged")), ("team", Some("web"))] {
        assert_eq!(scene.label("forged-1", label).await.unwrap().as_deref(), value, "{label}");
    }
    scene.close().await;
}

#[tokio::test]
async fn a_node_that_reports_nothing_is_guarded_and_stops_nobody() {
    let mut scene = with_a_node("silent").await;
    scene.profile("silent", json!({})).await;
    let more = json!({ "profileRef": { "name": "silent" }, "runtimeClasses": [{ "name": "silent" }] });
    scene.settled_pool("silent", spec("silent", more.clone())).await;
    scene.settled_pool("silent-2", spec("silent-2", more)).await;
    let labels = json!({ "kubernetes.io/os": "windows", "test": "silent-2" });
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": "silent-2", "labels": labels } })).unwrap();
    scene.api::<Node>().create(&PostParams::default(), &node).await.unwrap();
    scene.until_taints("silent-2", &[GUARD]).await;
    scene.until("silent-2", "RuntimeSupported", "Unknown", "UnknownVersion").await;
    scene.until_status("silent-2", "its node is guarded", |status| status.nodes.guarded == 1).await;
    scene.add_nodes(vec![windows("silent", 3, "10.0.20348.1")]).await;
    scene.until_taints("silent-3", &[GUARD]).await;
    for pool in ["silent", "silent-2"] {
        assert_eq!(scene.condition(pool, "Ready").await.unwrap().status, "True", "{pool}");
    }
    let status = scene.status("silent-2").await.unwrap();
    assert_eq!((status.builds[0].build.as_str(), status.kubelets[0].version.as_str()), ("unknown", "unknown"));
    scene.close().await;
}

#[tokio::test]
async fn an_old_kubelet_gets_the_build_label_from_its_kernel() {
    let scene =
        open("old", vec![windows("old", 1, "10.0.17763.5329").without_build_label().runtime("docker://20.10.9")]).await;
    let more = json!({ "windowsVersion": "ltsc2019", "runtimeClasses": [{ "name": "old", "handler": "docker" }] });
    scene.settled_pool("old", spec("old", more)).await;
    let build = || scene.label("old-1", "node.kubernetes.io/windows-build");
    until("the build is told", SOON, build, |build| build.as_deref() == Some("10.0.17763")).await.unwrap();
    scene.kubelets.set_kernel_version("old-1", "10.0.20348.1").await.unwrap();
    until("the build follows", SOON, build, |build| build.as_deref() == Some("10.0.20348")).await.unwrap();
    scene.until("old", "OSMismatch", "True", "NodeBuildDiffers").await;
    scene.is_quiet().await;
    scene.close().await;
}
