//! The pool of a node, and the fields on it that belong to other owners.

use e2e::{
    cluster::{DEFAULT_TAINT, SOON, create},
    fixture::{spec, windows},
    history::Placement,
    wait::until,
};
use serde_json::json;

use super::{with_nodes, with_one_node};

#[tokio::test]
async fn the_pool_that_has_a_node_keeps_it_and_both_pools_report_the_conflict() {
    let mut fixture = with_one_node("overlap").await;
    fixture.apply_pool_and_wait("overlap-b", spec("overlap", json!({}))).await.unwrap();
    fixture.until_younger_than("overlap-b").await.unwrap();
    fixture.apply_pool("overlap-a", spec("overlap", json!({}))).await.unwrap();
    for pool in ["overlap-a", "overlap-b"] {
        let message = fixture.until_condition(pool, "NodesAssigned", "False", "NodeConflict").await.unwrap().message;
        assert!(message.contains("1 node matches more than one pool (overlap-a, overlap-b)"), "{message}");
        assert_eq!(fixture.status(pool).await.unwrap().nodes.contested, 1, "{pool}");
    }
    assert_eq!(fixture.pool_of("overlap-1").await.unwrap().as_deref(), Some("overlap-b"));

    fixture.add_nodes(vec![windows("overlap", 2, "10.0.20348.1")]).await.unwrap();
    fixture.until_pool_of("overlap-2", Some("overlap-b")).await.unwrap();

    let narrower = json!({ "spec": { "nodeSelector": { "matchLabels": { "agentpool": "elsewhere" } } } });
    fixture.edit_pool("overlap-b", narrower).await.unwrap();
    fixture.until_pool_of("overlap-1", Some("overlap-a")).await.unwrap();
    fixture.until_pool_of("overlap-2", Some("overlap-a")).await.unwrap();
    fixture.until_condition("overlap-a", "NodesAssigned", "True", "Assigned").await.unwrap();
    fixture.until_condition("overlap-b", "NodesAssigned", "True", "NoNodes").await.unwrap();
    fixture.until_idle().await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_node_moves_between_pools_in_one_write_and_is_never_untainted() {
    let fixture = with_one_node("move").await;
    fixture.apply_pool_and_wait("move", spec("move", json!({ "labels": { "team": "web" } }))).await.unwrap();
    let batch = json!({
        "taints": [{ "key": "batch", "value": "yes", "effect": "NoSchedule" }],
        "runtimeClasses": [{ "name": "move" }],
        "labels": { "shift": "night" },
    });
    fixture.apply_pool_and_wait("move-batch", spec("move-batch", batch)).await.unwrap();
    fixture.until_tolerations("move", &[DEFAULT_TAINT, "batch=yes:NoSchedule"]).await.unwrap();
    fixture.until_idle().await.unwrap();

    let before = fixture.changes_of("move-1").unwrap();
    let history = Placement::start(&fixture, "move-1", "move").await.unwrap();
    fixture.edit_node("move-1", json!({ "metadata": { "labels": { "agentpool": "move-batch" } } })).await.unwrap();
    fixture.until_pool_of("move-1", Some("move-batch")).await.unwrap();
    fixture.until_condition("move", "NodesAssigned", "True", "NoNodes").await.unwrap();
    fixture.until_condition("move-batch", "NodesAssigned", "True", "Assigned").await.unwrap();
    fixture.until_idle().await.unwrap();
    assert_eq!(fixture.changes_of("move-1").unwrap(), before + 1);

    let moments = history.until_now().await.unwrap();
    for moment in &moments {
        let has = |key: &str| moment.labels.get(key).map(String::as_str);
        let state = (has("winpool.dev/pool"), has("team"), has("shift"), moment.taints.as_slice());
        let is_before = state == (Some("move"), Some("web"), None, &[DEFAULT_TAINT.to_owned()]);
        let is_after = state == (Some("move-batch"), None, Some("night"), &["batch=yes:NoSchedule".to_owned()]);
        assert!(is_before || is_after, "{moment:#?}");
    }
    assert_eq!(moments.last().unwrap().labels["winpool.dev/pool"], "move-batch");
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn another_value_is_not_overwritten_and_the_rest_is_applied() {
    let node = windows("conflict", 1, "10.0.20348.1").taint("os", "Windows", "NoSchedule").label("team", "theirs");
    let mut fixture = with_nodes("conflict", vec![node]).await;
    fixture
        .apply_pool("conflict", spec("conflict", json!({ "labels": { "team": "web", "shift": "night" } })))
        .await
        .unwrap();
    let message = fixture.until_condition("conflict", "NodesTainted", "False", "TaintConflict").await.unwrap().message;
    assert!(message.contains("conflict-1 (os=Windows:NoSchedule instead of os=windows:NoSchedule)"), "{message}");
    assert!(message.ends_with("kubectl get nodes -l winpool.dev/pool=conflict"), "{message}");
    assert_eq!(fixture.taints("conflict-1").await.unwrap(), ["os=Windows:NoSchedule"]);
    assert_eq!(fixture.label("conflict-1", "team").await.unwrap().as_deref(), Some("theirs"));
    assert_eq!(fixture.label("conflict-1", "shift").await.unwrap().as_deref(), Some("night"));
    fixture.add_nodes(vec![windows("conflict", 2, "10.0.20348.1")]).await.unwrap();
    fixture.until_taints("conflict-2", &[DEFAULT_TAINT]).await.unwrap();

    fixture.until_condition("conflict", "Ready", "False", "TaintConflict").await.unwrap();
    fixture
        .until_status("conflict", "its problem", |status| status.columns.problem.starts_with("Nodes/TaintConflict(1)"))
        .await
        .unwrap();

    fixture.edit_node("conflict-1", json!({ "spec": { "taints": null } })).await.unwrap();
    fixture.until_taints("conflict-1", &[DEFAULT_TAINT]).await.unwrap();
    let message = fixture.until_condition("conflict", "NodesTainted", "False", "LabelConflict").await.unwrap().message;
    assert!(message.contains("conflict-1 (team=theirs instead of team=web)"), "{message}");
    fixture.edit_node("conflict-1", json!({ "metadata": { "labels": { "team": null } } })).await.unwrap();
    fixture.until_condition("conflict", "NodesTainted", "True", "Applied").await.unwrap();
    fixture.until_condition("conflict", "Ready", "True", "AsSpecified").await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_forged_record_removes_no_taint_or_label_of_another_owner() {
    let node = windows("forged", 1, "10.0.20348.1").taint("gpu", "yes", "NoSchedule").label("rack", "r1");
    let fixture = with_nodes("forged", vec![node]).await;
    fixture.apply_pool_and_wait("forged", spec("forged", json!({ "labels": { "team": "web" } }))).await.unwrap();
    let forged = r#"{"pool":"forged","taints":{"gpu:NoSchedule":"added","os:NoSchedule":"added"},"labels":{"rack":"added","agentpool":"added","team":"added"}}"#;
    fixture
        .edit_node("forged-1", json!({ "metadata": { "annotations": { "winpool.dev/owned": forged } } }))
        .await
        .unwrap();
    fixture.until_idle().await.unwrap();
    fixture.edit_pool("forged", json!({ "spec": { "taints": [], "labels": null } })).await.unwrap();
    fixture.until_taints("forged-1", &["gpu=yes:NoSchedule", DEFAULT_TAINT]).await.unwrap();
    for (label, value) in [("rack", Some("r1")), ("agentpool", Some("forged")), ("team", Some("web"))] {
        assert_eq!(fixture.label("forged-1", label).await.unwrap().as_deref(), value, "{label}");
    }
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_node_that_reports_nothing_is_tainted_and_affects_no_other() {
    let mut fixture = with_one_node("silent").await;
    fixture.apply_profile("silent", json!({})).await.unwrap();
    let more = json!({ "profileRef": { "name": "silent" }, "runtimeClasses": [{ "name": "silent" }] });
    fixture.apply_pool_and_wait("silent", spec("silent", more.clone())).await.unwrap();
    fixture.apply_pool_and_wait("silent-2", spec("silent-2", more)).await.unwrap();
    let labels = json!({ "kubernetes.io/os": "windows", "agentpool": "silent-2" });
    create(&fixture.nodes(), json!({ "metadata": { "name": "silent-2", "labels": labels } })).await.unwrap();
    fixture.until_taints("silent-2", &[DEFAULT_TAINT]).await.unwrap();
    fixture.until_condition("silent-2", "RuntimeSupported", "Unknown", "UnknownVersion").await.unwrap();
    fixture.until_status("silent-2", "its node is tainted", |status| status.nodes.tainted == 1).await.unwrap();
    fixture.add_nodes(vec![windows("silent", 3, "10.0.20348.1")]).await.unwrap();
    fixture.until_taints("silent-3", &[DEFAULT_TAINT]).await.unwrap();
    for pool in ["silent", "silent-2"] {
        assert_eq!(fixture.condition(pool, "Ready").await.unwrap().status, "True", "{pool}");
    }
    let status = fixture.status("silent-2").await.unwrap();
    assert_eq!((status.builds[0].build.as_str(), status.columns.kubelet.as_str()), ("unknown", "-"));
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_node_without_the_build_label_gets_it_from_its_kernel() {
    let fixture = with_nodes("old", vec![windows("old", 1, "10.0.17763.5329").without_build_label()]).await;
    let more = json!({ "windowsVersion": "ltsc2019", "runtimeClasses": [{ "name": "old" }] });
    fixture.apply_pool_and_wait("old", spec("old", more)).await.unwrap();
    let build = || fixture.label("old-1", "node.kubernetes.io/windows-build");
    until("the build label is set", SOON, build, |build| build.as_deref() == Some("10.0.17763")).await.unwrap();
    fixture.kubelets.set_kernel_version("old-1", "10.0.20348.1").await.unwrap();
    until("the build label is updated", SOON, build, |build| build.as_deref() == Some("10.0.20348")).await.unwrap();
    fixture.until_condition("old", "OSMismatch", "True", "NodeBuildDiffers").await.unwrap();
    fixture.until_idle().await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}
