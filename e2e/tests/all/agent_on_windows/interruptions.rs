//! The end of the agent, and of Windows, while a change is not confirmed.

use e2e::{cluster::SOON, wait::until, windows_node::RESTORE_SERVICE};
use serde_json::json;
use winpool_agent::journal::{ChangeStage, CurrentChange, Direction};
use winpool_api::NodeConfigPhase;

use super::Fixture;

impl Fixture {
    /// Begins a change to this number of pods, and kills the agent while it is verified.
    async fn interrupt(&mut self, pods: u32) {
        self.apply_profile(json!({ "kubelet": { "maxPods": pods } })).await;
        let change = || async { Ok(self.node.journal()?.change) };
        let verifies = |change: &Option<CurrentChange>| {
            change.as_ref().is_some_and(|change| matches!(change.stage, ChangeStage::Verify(_)))
        };
        until("the change is verified", SOON, change, verifies).await.unwrap();
        self.node.kill_agent().unwrap();
        assert_eq!(self.max_pods(), Some(pods.to_string()));
        assert_eq!(self.node.service_state(RESTORE_SERVICE).unwrap(), "Stopped");
    }
}

#[tokio::test]
async fn a_killed_agent_resumes_its_change() {
    let mut fixture = Fixture::start().await;
    let former = fixture.status().await.observed_digest;
    fixture.interrupt(41).await;
    fixture.node.start_agent(&[]).unwrap();
    let status = fixture.until_ended(&former).await;
    assert_eq!((status.phase, status.reason.as_str()), (NodeConfigPhase::Applied, ""), "{}", status.message);
    fixture.until_in_effect().await;
    assert_eq!(fixture.max_pods().as_deref(), Some("41"));
    fixture.stop().await;
}

#[tokio::test]
async fn after_a_reboot_the_former_configuration_is_restored_without_the_network() {
    let mut fixture = Fixture::start().await;
    fixture.interrupt(41).await;
    fixture.cluster.control_plane.stop_api_server().await.unwrap();
    for service in ["kubelet", "containerd"] {
        fixture.node.stop_service(service).unwrap();
    }
    // Windows starts the services in any order.
    for service in ["containerd", "kubelet", RESTORE_SERVICE] {
        fixture.node.start_service(service).unwrap();
    }
    let state = || async { fixture.node.service_state(RESTORE_SERVICE) };
    until("the restore service has ended", SOON, state, |state| state == "Stopped").await.unwrap();
    assert_eq!(fixture.max_pods().as_deref(), Some("40"));
    assert_eq!(fixture.node.service_state("kubelet").unwrap(), "Running");
    let change = fixture.node.journal().unwrap().change.unwrap();
    assert!(matches!(change.direction, Direction::RollBack(_)), "{:?}", change.direction);

    fixture.cluster.control_plane.start_api_server().await.unwrap();
    fixture.node.start_agent(&[]).unwrap();
    let status = || async { Ok(fixture.status().await) };
    let rolled_back = until("the agent reports", SOON, status, |status| status.phase == NodeConfigPhase::RolledBack);
    assert_eq!(rolled_back.await.unwrap().reason, "Rebooted");
    fixture.until_nothing_is_left().await;
    fixture.stop().await;
}
