//! Configurations with which the kubelet or containerd does not work.

use e2e::{
    cluster::edit,
    wait::{size, until},
    windows_node::{CONTAINERD_CONFIG, KUBELET_CONFIG},
};
use serde_json::json;
use winpool_agent::journal::ChangeStage;
use winpool_api::{
    NodeConfigPhase::{Applied, RolledBack},
    WindowsNodeConfig,
};

use super::{CHANGE, Case, Fixture, NODE};

const KUBELET: &[Case] = &[
    ("crash=900", RolledBack, ENDED, "kubelet"),
    // It is killed.
    ("start-pending", RolledBack, &["RestartFailed"], "kubelet: it does not finish its start"),
    ("hang", RolledBack, &["NotHealthy"], "/healthz"),
    // It works, and is killed before the next configuration.
    ("ignore-stop", Applied, &[""], ""),
];

const CONTAINERD: &[Case] = &[
    ("crash=900", RolledBack, ENDED, "containerd"),
    ("no-sandbox", RolledBack, &["SandboxFailed"], "hcs::CreateComputeSystem"),
];

/// A service that ends soon is noticed by the start or by the verification.
pub(super) const ENDED: &[&str] = &["NotHealthy", "RestartFailed"];

#[tokio::test]
async fn a_configuration_with_which_the_node_does_not_work_is_rolled_back() {
    let fixture = Fixture::scripted().await;
    a_node_that_is_not_ready_is_not_confirmed(&fixture).await;
    what_does_not_work_is_rolled_back_with_its_reason(&fixture).await;
    fixture.stop().await;
}

async fn what_does_not_work_is_rolled_back_with_its_reason(fixture: &Fixture) {
    let (mut pods, mut good, mut minutes) = (50, "40".to_owned(), 30);
    for _ in 0..size(1, 3) {
        for case in KUBELET {
            pods += 1;
            fixture.node.set_behavior(KUBELET_CONFIG, &format!("{} if maxPods: {pods}", case.0)).unwrap();
            if case.1 == Applied {
                good = pods.to_string();
            }
            fixture.expect(json!({ "kubelet": { "maxPods": pods } }), *case, &good).await;
        }
        for case in CONTAINERD {
            minutes += 1;
            fixture.node.set_behavior(CONTAINERD_CONFIG, &format!("{} if {minutes}m", case.0)).unwrap();
            let containerd = json!({ "imagePullProgressTimeout": format!("{minutes}m") });
            let pods: u32 = good.parse().unwrap();
            fixture.expect(json!({ "kubelet": { "maxPods": pods }, "containerd": containerd }), *case, &good).await;
        }
    }
}

async fn a_node_that_is_not_ready_is_not_confirmed(fixture: &Fixture) {
    let former = fixture.status().await.observed_digest;
    fixture.node.set_behavior(KUBELET_CONFIG, "not-ready if maxPods: 49").unwrap();
    fixture.apply_profile(json!({ "kubelet": { "maxPods": 49 } })).await;
    // The time limit is that of the confirmation alone: a slow machine cannot exceed that of the verification.
    let is_verified = || async {
        let change = fixture.node.journal()?.change;
        Ok(change.is_some_and(|change| matches!(change.stage, ChangeStage::Confirm(_))))
    };
    until("the change is verified", CHANGE, is_verified, |verified| *verified).await.unwrap();
    let patch = json!({ "spec": { "confirmTimeout": "1s" } });
    edit(&fixture.cluster.api::<WindowsNodeConfig>(), NODE, patch).await.unwrap();
    let case = ("not-ready", RolledBack, &["NotConfirmed"][..], "the operator did not confirm");
    fixture.expect_end(&former, case, "40").await;
}
