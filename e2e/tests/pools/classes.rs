//! RuntimeClasses that are shared, somebody else's, or cannot be as asked.

use e2e::wait::until;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::{
    common::{GUARD, SOON, Scene, selector_of, spec, windows},
    open, with_a_node,
};

async fn create_class(scene: &Scene, name: &str, scheduling: Value) {
    let class = json!({ "metadata": { "name": name }, "handler": "runhcs-wcow-process", "scheduling": scheduling });
    let class: RuntimeClass = serde_json::from_value(class).unwrap();
    scene.api::<RuntimeClass>().create(&PostParams::default(), &class).await.unwrap();
}

#[tokio::test]
async fn a_class_that_somebody_else_made_is_left_alone_until_it_is_adopted_and_is_given_back() {
    let scene = with_a_node("adopt").await;
    let theirs = json!({
        "nodeSelector": { "sku": "windows" },
        "tolerations": [{ "key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }],
    });
    create_class(&scene, "adopt", theirs).await;
    let before = scene.class("adopt").await.unwrap();
    scene.pool("adopt", spec("adopt", json!({ "deletionPolicy": "Cleanup" }))).await;
    let message = scene.until("adopt", "RuntimeClassReady", "False", "NotOurs").await;
    assert!(message.contains("somebody else made RuntimeClass adopt"), "{message}");
    assert!(message.contains("no toleration for os=windows:NoSchedule"), "{message}");
    scene.until_taints("adopt-1", &[GUARD]).await;
    assert_eq!(scene.class("adopt").await.unwrap(), before);

    scene.edit_pool("adopt", json!({ "spec": { "runtimeClasses": [{ "name": "adopt", "adopt": true }] } })).await;
    scene.until("adopt", "RuntimeClassReady", "True", "Applied").await;
    scene.until_tolerations("adopt", &[GUARD, "sku=windows:NoSchedule"]).await;
    let class = scene.class("adopt").await.unwrap();
    assert_eq!(class.metadata.uid, before.metadata.uid);
    assert_eq!(selector_of(&class).get("sku"), None);
    assert_eq!(selector_of(&class)["node.kubernetes.io/windows-build"], "10.0.20348");
    scene.is_quiet().await;

    scene.pools().delete("adopt", &DeleteParams::background()).await.unwrap();
    let scheduling = || async { Ok(scene.class("adopt").await?.scheduling) };
    until("the class is given back", SOON, scheduling, |now| *now == before.scheduling).await.unwrap();
    scene.until_taints("adopt-1", &[]).await;
    assert_eq!(scene.class("adopt").await.unwrap().metadata.uid, before.metadata.uid);
    scene.close().await;
}

#[tokio::test]
async fn a_class_of_somebody_else_that_is_as_asked_is_fine() {
    let scene = with_a_node("found").await;
    let theirs = json!({
        "nodeSelector": {
            "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": "10.0.20348",
        },
        "tolerations": [{ "key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }],
    });
    create_class(&scene, "found", theirs).await;
    let before = scene.class("found").await.unwrap();
    scene.settled_pool("found", spec("found", json!({}))).await;
    let state = serde_json::to_value(scene.status("found").await.unwrap().runtime_classes).unwrap();
    assert_eq!(state, json!([{ "name": "found", "state": "Found" }]));
    scene.is_quiet().await;
    assert_eq!(scene.class("found").await.unwrap(), before);
    scene.close().await;
}

#[tokio::test]
async fn a_handler_cannot_be_changed_and_the_remedy_works() {
    let scene = with_a_node("handler").await;
    scene.settled_pool("handler", spec("handler", json!({}))).await;
    let before = scene.class("handler").await.unwrap();
    let hyperv = json!([{ "name": "handler", "isolation": "HyperV" }]);
    scene.edit_pool("handler", json!({ "spec": { "runtimeClasses": hyperv } })).await;
    let message = scene.until("handler", "RuntimeClassReady", "False", "HandlerDiffers").await;
    assert!(message.contains("delete it so that it is made anew"), "{message}");
    assert_eq!(scene.class("handler").await.unwrap(), before);

    scene.api::<RuntimeClass>().delete("handler", &DeleteParams::default()).await.unwrap();
    scene.until("handler", "RuntimeClassReady", "True", "Applied").await;
    let class = scene.class("handler").await.unwrap();
    assert_eq!(class.handler, "runhcs-wcow-hypervisor");
    let overhead = json!(class.overhead.and_then(|overhead| overhead.pod_fixed));
    assert_eq!(overhead, json!({ "cpu": "100m", "memory": "512Mi" }));
    scene.is_quiet().await;
    scene.close().await;
}

#[tokio::test]
async fn pools_of_one_build_and_handler_share_a_class_with_the_tolerations_of_all() {
    let scene = open(
        "shared",
        vec![windows("shared", 1, "10.0.20348.1"), windows("shared", 2, "10.0.20348.1").label("test", "shared-batch")],
    )
    .await;
    scene.settled_pool("shared", spec("shared", json!({}))).await;
    let batch = json!({
        "taints": [{ "key": "batch", "value": "yes", "effect": "NoSchedule" }],
        "runtimeClasses": [{ "name": "shared" }],
    });
    scene.settled_pool("shared-batch", spec("shared-batch", batch)).await;
    scene.until_tolerations("shared", &[GUARD, "batch=yes:NoSchedule"]).await;
    scene.until_taints("shared-2", &["batch=yes:NoSchedule"]).await;
    scene.is_quiet().await;

    let other = json!([{ "name": "shared", "scope": "Pool" }]);
    scene.edit_pool("shared-batch", json!({ "spec": { "runtimeClasses": other } })).await;
    let message = scene.until("shared-batch", "RuntimeClassReady", "False", "NameTaken").await;
    assert!(message.contains("RuntimeClass shared is pool shared's"), "{message}");
    scene.until("shared", "RuntimeClassReady", "True", "Applied").await;

    scene.edit_pool("shared-batch", json!({ "spec": { "runtimeClasses": [{ "name": "shared-own" }] } })).await;
    scene.until("shared-batch", "RuntimeClassReady", "True", "Applied").await;
    // A node that the class selects still has the taint.
    scene.until_tolerations("shared", &[GUARD, "batch=yes:NoSchedule"]).await;
    scene.until_tolerations("shared-own", &["batch=yes:NoSchedule"]).await;
    scene.close().await;
}
