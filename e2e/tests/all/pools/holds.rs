//! Changes that are held until an administrator allows them with the command in the message.

use e2e::{cluster::DEFAULT_TAINT, fixture::spec};
use serde_json::json;
use winpool_api::WindowsNodePoolStatus;

use super::with_one_node;

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
