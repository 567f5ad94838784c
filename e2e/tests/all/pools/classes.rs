//! RuntimeClasses that are owned by others.

use e2e::{
    cluster::{DEFAULT_TAINT, SOON, create},
    fixture::spec,
    objects::selector_of,
    wait::until,
};
use kube::api::DeleteParams;
use serde_json::json;

use super::with_one_node;

#[tokio::test]
async fn a_class_of_another_owner_is_unchanged_until_it_is_adopted_and_is_restored_by_a_cleanup() {
    let fixture = with_one_node("adopt").await;
    let theirs = json!({
        "nodeSelector": { "sku": "windows" },
        "tolerations": [{ "key": "sku", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }],
    });
    let class = json!({ "metadata": { "name": "adopt" }, "handler": "runhcs-wcow-process", "scheduling": theirs });
    create(&fixture.classes(), class).await.unwrap();
    let before = fixture.class("adopt").await.unwrap();
    fixture.apply_pool("adopt", spec("adopt", json!({ "deletionPolicy": "Cleanup" }))).await.unwrap();
    fixture.until_condition("adopt", "RuntimeClassReady", "False", "NotOurs").await.unwrap();
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
