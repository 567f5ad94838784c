//! RuntimeClasses that are owned by others, or cannot be applied as specified.

use e2e::{
    cluster::{DEFAULT_TAINT, SOON, create},
    fixture::{Fixture, spec},
    objects::selector_of,
    wait::until,
};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::with_one_node;

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
