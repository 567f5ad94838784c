//! RuntimeClasses that are shared, owned by others, or cannot be applied as specified.

use e2e::{
    cluster::{DEFAULT_TAINT, SOON, create},
    fixture::{Fixture, spec, windows},
    objects::selector_of,
    wait::until,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};
use winpool_api::WindowsNodePoolStatus;

use super::{with_nodes, with_one_node};

async fn create_class(fixture: &Fixture, name: &str, scheduling: Value) {
    let class = json!({ "metadata": { "name": name }, "handler": "runhcs-wcow-process", "scheduling": scheduling });
    create(&fixture.classes(), class).await.unwrap();
}

#[tokio::test]
async fn a_class_of_another_owner_is_unchanged_until_it_is_adopted_and_is_restored_by_a_cleanup() {
    let fixture = with_one_node("adopt").await;
    let theirs = json!({
        "nodeSelector": { "sku": "windows" },
        "tolerations": [{ "key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }],
    });
    create_class(&fixture, "adopt", theirs).await;
    let before = fixture.class("adopt").await.unwrap();
    fixture.apply_pool("adopt", spec("adopt", json!({ "deletionPolicy": "Cleanup" }))).await.unwrap();
    let message = fixture.until_condition("adopt", "RuntimeClassReady", "False", "NotOurs").await.unwrap().message;
    assert!(message.contains("RuntimeClass adopt was not created by winpool and differs from the spec"), "{message}");
    assert!(message.contains("no toleration for os=windows:NoSchedule"), "{message}");
    fixture.until_taints("adopt-1", &[DEFAULT_TAINT]).await.unwrap();
    assert_eq!(fixture.class("adopt").await.unwrap(), before);

    fixture
        .edit_pool("adopt", json!({ "spec": { "runtimeClasses": [{ "name": "adopt", "adopt": true }] } }))
        .await
        .unwrap();
    fixture.until_condition("adopt", "RuntimeClassReady", "True", "Applied").await.unwrap();
    fixture.until_tolerations("adopt", &[DEFAULT_TAINT, "sku=windows:NoSchedule"]).await.unwrap();
    let class = fixture.class("adopt").await.unwrap();
    assert_eq!(class.metadata.uid, before.metadata.uid);
    assert_eq!(selector_of(&class).get("sku"), None);
    assert_eq!(selector_of(&class)["node.kubernetes.io/windows-build"], "10.0.20348");
    fixture.until_idle().await.unwrap();

    fixture.pools().delete("adopt", &DeleteParams::background()).await.unwrap();
    let scheduling = || async { Ok(fixture.class("adopt").await?.scheduling) };
    until("the class is restored", SOON, scheduling, |now| *now == before.scheduling).await.unwrap();
    fixture.until_taints("adopt-1", &[]).await.unwrap();
    assert_eq!(fixture.class("adopt").await.unwrap().metadata.uid, before.metadata.uid);
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_class_of_linux_workloads_is_not_taken_and_an_adopted_one_is_given_back_when_its_pool_is_deleted_with_retain()
{
    let fixture = with_one_node("taken").await;
    let pod = json!({
        "os": { "name": "linux" }, "runtimeClassName": "taken", "containers": [{ "name": "a", "image": "a:1" }],
    });
    let labels = json!({ "app": "taken" });
    let deployment = json!({
        "metadata": { "name": "taken" },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    });
    let deployments: Api<Deployment> = Api::default_namespaced(fixture.client.clone());
    create(&deployments, deployment).await.unwrap();
    let scheduling = json!({ "nodeSelector": { "sku": "any" } });
    let class = json!({ "metadata": { "name": "taken" }, "handler": "docker", "scheduling": scheduling });
    create(&fixture.classes(), class).await.unwrap();
    let before = fixture.class("taken").await.unwrap();
    let adopting =
        |handler: &str| json!({ "runtimeClasses": [{ "name": "taken", "handler": handler, "adopt": true }] });
    for (handler, expected) in [
        ("runsc", "no node of the pool reports handler runsc"),
        ("docker", "Deployment default/taken names it, and is for another operating system"),
    ] {
        fixture.apply_pool("taken", spec("taken", adopting(handler))).await.unwrap();
        let held = |status: &WindowsNodePoolStatus| {
            let mut conditions = status.conditions.iter();
            conditions.any(|one| one.reason == "NotForWindows" && one.message.contains(expected))
        };
        fixture.until_status("taken", expected, held).await.unwrap();
    }
    fixture.until_taints("taken-1", &[DEFAULT_TAINT]).await.unwrap();
    assert_eq!(fixture.class("taken").await.unwrap(), before);

    deployments.delete("taken", &DeleteParams::background()).await.unwrap();
    // What others do to their workloads is no reason to plan a pool again; this is.
    fixture.edit_pool("taken", json!({ "spec": { "labels": { "team": "web" } } })).await.unwrap();
    fixture.until_condition("taken", "RuntimeClassReady", "True", "Applied").await.unwrap();
    fixture.until_tolerations("taken", &[DEFAULT_TAINT]).await.unwrap();

    fixture.pools().delete("taken", &DeleteParams::background()).await.unwrap();
    let labels = || async { Ok(fixture.class("taken").await?.metadata.labels) };
    until("the class is not managed", SOON, labels, |labels| *labels == before.metadata.labels).await.unwrap();
    let class = fixture.class("taken").await.unwrap();
    assert_eq!(selector_of(&class), selector_of(&before));
    assert_eq!((class.metadata.uid, class.metadata.annotations), (before.metadata.uid, before.metadata.annotations));
    // The node keeps its taint, which pods of the class must tolerate.
    fixture.until_tolerations("taken", &[DEFAULT_TAINT]).await.unwrap();
    fixture.until_taints("taken-1", &[DEFAULT_TAINT]).await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_class_of_another_owner_that_is_as_specified_is_used() {
    let fixture = with_one_node("found").await;
    let theirs = json!({
        "nodeSelector": {
            "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348",
        },
        "tolerations": [{ "key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }],
    });
    create_class(&fixture, "found", theirs).await;
    let before = fixture.class("found").await.unwrap();
    fixture.apply_pool_and_wait("found", spec("found", json!({}))).await.unwrap();
    let state = serde_json::to_value(fixture.status("found").await.unwrap().runtime_classes).unwrap();
    assert_eq!(state, json!([{ "name": "found", "state": "Found" }]));
    fixture.until_idle().await.unwrap();
    assert_eq!(fixture.class("found").await.unwrap(), before);
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_handler_cannot_be_changed_and_deleting_the_class_helps() {
    let fixture = with_one_node("handler").await;
    fixture.apply_pool_and_wait("handler", spec("handler", json!({}))).await.unwrap();
    let before = fixture.class("handler").await.unwrap();
    let hyperv = json!([{ "name": "handler", "isolation": "HyperV" }]);
    fixture.edit_pool("handler", json!({ "spec": { "runtimeClasses": hyperv } })).await.unwrap();
    let message =
        fixture.until_condition("handler", "RuntimeClassReady", "False", "HandlerDiffers").await.unwrap().message;
    assert!(message.contains("delete the class so that it is created again"), "{message}");
    assert_eq!(fixture.class("handler").await.unwrap(), before);

    fixture.classes().delete("handler", &DeleteParams::default()).await.unwrap();
    fixture.until_condition("handler", "RuntimeClassReady", "True", "Applied").await.unwrap();
    let class = fixture.class("handler").await.unwrap();
    assert_eq!(class.handler, "runhcs-wcow-hypervisor");
    let overhead = json!(class.overhead.and_then(|overhead| overhead.pod_fixed));
    assert_eq!(overhead, json!({ "cpu": "100m", "memory": "512Mi" }));
    fixture.until_idle().await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn pools_of_one_build_and_handler_share_a_class_with_the_tolerations_of_all() {
    let fixture = with_nodes(
        "shared",
        vec![
            windows("shared", 1, "10.0.20348.1"),
            windows("shared", 2, "10.0.20348.1").label("agentpool", "shared-batch"),
        ],
    )
    .await;
    fixture.apply_pool_and_wait("shared", spec("shared", json!({}))).await.unwrap();
    let batch = json!({
        "taints": [{ "key": "batch", "value": "yes", "effect": "NoSchedule" }],
        "runtimeClasses": [{ "name": "shared" }],
    });
    fixture.apply_pool_and_wait("shared-batch", spec("shared-batch", batch)).await.unwrap();
    fixture.until_tolerations("shared", &[DEFAULT_TAINT, "batch=yes:NoSchedule"]).await.unwrap();
    fixture.until_taints("shared-2", &["batch=yes:NoSchedule"]).await.unwrap();
    fixture.until_idle().await.unwrap();

    let other = json!([{ "name": "shared", "scope": "Pool" }]);
    fixture.edit_pool("shared-batch", json!({ "spec": { "runtimeClasses": other } })).await.unwrap();
    let message =
        fixture.until_condition("shared-batch", "RuntimeClassReady", "False", "NameTaken").await.unwrap().message;
    assert!(message.contains("RuntimeClass shared belongs to pool shared"), "{message}");
    fixture.until_condition("shared", "RuntimeClassReady", "True", "Applied").await.unwrap();

    fixture
        .edit_pool("shared-batch", json!({ "spec": { "runtimeClasses": [{ "name": "shared-own" }] } }))
        .await
        .unwrap();
    fixture.until_condition("shared-batch", "RuntimeClassReady", "True", "Applied").await.unwrap();
    // The toleration is kept while a node that the class selects has the taint.
    fixture.until_tolerations("shared", &[DEFAULT_TAINT, "batch=yes:NoSchedule"]).await.unwrap();
    fixture.until_tolerations("shared-own", &["batch=yes:NoSchedule"]).await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}
