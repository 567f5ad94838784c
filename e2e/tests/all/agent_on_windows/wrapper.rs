//! A kubelet that nssm starts, and starts again whenever it ends: the service runs all the time.

use e2e::windows_node::{Installation, KUBELET_CONFIG};
use serde_json::json;
use winpool_api::NodeConfigPhase::{Applied, RolledBack};

use super::Fixture;

#[tokio::test]
async fn a_kubelet_that_is_started_again_for_ever_does_not_pass_the_verification() {
    let fixture = Fixture::start(Installation::Nssm).await;
    assert_eq!(fixture.status().await.layout, "kubeadm-nssm");
    fixture.expect(json!({ "kubelet": { "maxPods": 41 } }), ("", Applied, &[""], ""), "41").await;
    // It is healthy at most times: only its process shows that it was started again.
    fixture.node.set_behavior(KUBELET_CONFIG, "crash=900 if maxPods: 42").unwrap();
    let case = ("crash=900", RolledBack, &["NotHealthy"][..], "kubelet");
    fixture.expect(json!({ "kubelet": { "maxPods": 42 } }), case, "41").await;
    fixture.stop().await;
}
