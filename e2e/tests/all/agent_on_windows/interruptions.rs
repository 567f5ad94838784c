//! The end of the agent, and of Windows, while a change is not confirmed.

use e2e::{
    cluster::SOON,
    wait::{size, until},
    windows_node::RESTORE_SERVICE,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use winpool_agent::journal::{ChangeStage, Direction, Journal};
use winpool_api::{NodeConfigPhase, WindowsNodeConfig};

use super::{Fixture, NODE};

/// The moments at which the agent is killed, in their order: when the journal has this stage, or a later one. `make test` has one of them.
const MOMENTS: [&str; 5] = ["Preflight", "Write", "Restart", "Verify", "Confirm"];

/// The index of the moment that a stage is.
fn moment(stage: ChangeStage) -> usize {
    match stage {
        ChangeStage::Write => 1,
        ChangeStage::Restart => 2,
        ChangeStage::Verify(_) => 3,
        ChangeStage::Confirm(_) => 4,
    }
}

impl Fixture {
    /// Begins a change to this number of pods, and kills the agent at a moment.
    async fn interrupt(&mut self, pods: u32, at: usize) {
        let former = self.desired().await;
        self.apply_profile(json!({ "kubelet": { "maxPods": pods } })).await;
        let desired = || async { Ok(self.desired().await) };
        until("the change is assigned", SOON, desired, |digest| *digest != former).await.unwrap();
        let journal = || async { self.node.journal() };
        let is_reached = |journal: &Journal| match &journal.change {
            Some(change) => moment(change.stage) >= at,
            None => at == 0 || journal.applied.as_ref().is_some_and(|applied| applied.digest != former),
        };
        until(MOMENTS[at], SOON, journal, is_reached).await.unwrap();
        self.node.kill_agent().unwrap();
    }

    async fn desired(&self) -> String {
        self.cluster.api::<WindowsNodeConfig>().get(NODE).await.unwrap().spec.digest
    }
}

#[tokio::test]
async fn no_change_is_left_half_done() {
    let mut fixture = Fixture::start().await;
    an_agent_that_is_killed_at_any_moment_resumes_its_change(&mut fixture).await;
    after_a_reboot_the_former_configuration_is_restored_without_the_network(&mut fixture).await;
    fixture.stop().await;
}

async fn an_agent_that_is_killed_at_any_moment_resumes_its_change(fixture: &mut Fixture) {
    for &at in size(&[2][..], &[0, 1, 2, 3, 4][..]) {
        let former = fixture.status().await.observed_digest;
        let pods = 41 + u32::try_from(at).unwrap();
        fixture.interrupt(pods, at).await;
        fixture.node.start_agent(&[]).unwrap();
        let status = fixture.until_ended(&former).await;
        let end = (status.phase, status.reason.as_str());
        assert_eq!(end, (NodeConfigPhase::Applied, ""), "{}: {}", MOMENTS[at], status.message);
        fixture.until_in_effect().await;
        assert_eq!(fixture.max_pods(), Some(pods.to_string()), "{}", MOMENTS[at]);
    }
}

async fn after_a_reboot_the_former_configuration_is_restored_without_the_network(fixture: &mut Fixture) {
    let former = fixture.max_pods();
    fixture.interrupt(50, moment(ChangeStage::Verify(Timestamp::UNIX_EPOCH))).await;
    assert_eq!(fixture.max_pods().as_deref(), Some("50"));
    assert_eq!(fixture.node.service_state(RESTORE_SERVICE).unwrap(), "Stopped");
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
    assert_eq!(fixture.max_pods(), former);
    assert_eq!(fixture.node.service_state("kubelet").unwrap(), "Running");
    let change = fixture.node.journal().unwrap().change.unwrap();
    assert!(matches!(change.direction, Direction::RollBack(_)), "{:?}", change.direction);

    fixture.cluster.control_plane.start_api_server().await.unwrap();
    fixture.node.start_agent(&[]).unwrap();
    let status = || async { Ok(fixture.status().await) };
    let rolled_back = until("the agent reports", SOON, status, |status| status.phase == NodeConfigPhase::RolledBack);
    assert_eq!(rolled_back.await.unwrap().reason, "Rebooted");
    fixture.until_nothing_is_left().await;
}
