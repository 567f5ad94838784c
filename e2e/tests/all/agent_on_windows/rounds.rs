//! Configurations that work, and the removal of the agent.

use e2e::{
    cluster::{SOON, edit},
    wait::{size, until},
    windows_node::{KUBELET_CONFIG, RESTORE_SERVICE},
};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use serde_json::json;
use winpool_api::{NodeConfigPhase, WindowsNodeConfig, WindowsNodeConfigStatus};

use super::{Fixture, NODE, POOL};

/// The number of changes, and that of `make test-long`.
const ROUNDS: (u32, u32) = (3, 20);

#[tokio::test]
async fn a_profile_is_applied_and_kept_until_the_agent_is_removed() {
    let mut fixture = Fixture::start().await;
    each_change_of_a_profile_is_applied_verified_and_confirmed(&fixture).await;
    what_something_else_changes_on_the_node_is_reported_until_it_is_undone(&mut fixture).await;
    an_agent_that_is_uninstalled_leaves_the_node_as_it_was(&mut fixture).await;
    fixture.stop().await;
}

async fn each_change_of_a_profile_is_applied_verified_and_confirmed(fixture: &Fixture) {
    let rounds = size(ROUNDS.0, ROUNDS.1);
    assert_eq!(fixture.max_pods().as_deref(), Some("40"));
    let (containerd, kubelet) = fixture.node.starts().unwrap();
    for round in 1..=rounds {
        let former = fixture.status().await.observed_digest;
        fixture.apply_profile(json!({ "kubelet": { "maxPods": 40 + round } })).await;
        let status = fixture.until_ended(&former).await;
        assert_eq!((status.phase, status.reason.as_str()), (NodeConfigPhase::Applied, ""), "round {round}");
        assert_eq!(fixture.max_pods(), Some((40 + round).to_string()));
    }
    // containerd runs on while its files stay as they are, and each change restarts a service once.
    let restarts = usize::try_from(rounds).unwrap();
    assert_eq!(fixture.node.starts().unwrap(), (containerd, kubelet + restarts));
    let settings = json!({"kubelet": {"maxPods": 40 + rounds}, "containerd": {"imagePullProgressTimeout": "31m"}});
    let former = fixture.status().await.observed_digest;
    fixture.apply_profile(settings).await;
    assert_eq!(fixture.until_ended(&former).await.phase, NodeConfigPhase::Applied);
    assert_eq!(fixture.node.starts().unwrap(), (containerd + 1, kubelet + restarts + 1));
    fixture.until_in_effect().await;
    let journal = fixture.node.journal().unwrap();
    assert_eq!((journal.change, journal.rejected), (None, Vec::new()));
    let applied = journal.applied.unwrap();
    let listed = fixture.cluster.kubectl(&["get", "wnc", NODE]).unwrap();
    assert!(listed.contains(&applied.config) && listed.contains("Applied"), "{listed}");
    answers_a_request(fixture).await;
}

async fn what_something_else_changes_on_the_node_is_reported_until_it_is_undone(fixture: &mut Fixture) {
    fixture.node.kill_agent().unwrap();
    fixture.node.start_agent(&["--check-interval=1s"]).unwrap();
    let applied = fixture.node.read(KUBELET_CONFIG).unwrap();
    let has_reason = async |reason: &str| {
        let status = || async { Ok(fixture.status().await) };
        let holds = |status: &WindowsNodeConfigStatus| status.reason == reason;
        until(&format!("the reason is {reason:?}"), SOON, status, holds).await.unwrap()
    };
    let max_pods = fixture.max_pods().unwrap();
    fixture.node.write(KUBELET_CONFIG, &applied.replace(&format!("maxPods: {max_pods}"), "maxPods: 250")).unwrap();
    let status = has_reason("ChangedOnNode").await;
    assert_eq!(status.phase, NodeConfigPhase::Applied);
    assert!(status.message.contains(KUBELET_CONFIG), "{}", status.message);
    // A setting that the profile does not have belongs to others.
    fixture.node.write(KUBELET_CONFIG, &format!("{applied}registerNode: true\n")).unwrap();
    has_reason("").await;
    fixture.node.write(KUBELET_CONFIG, &applied).unwrap();
}

async fn an_agent_that_is_uninstalled_leaves_the_node_as_it_was(fixture: &mut Fixture) {
    let max_pods = fixture.max_pods();
    edit(&fixture.cluster.pools(), POOL, json!({ "spec": { "delivery": { "method": "None" } } })).await.unwrap();
    let api = fixture.cluster.api::<WindowsNodeConfig>();
    let assigned = async || Ok(api.list(&ListParams::default()).await?.items.len());
    until("nothing is assigned", SOON, assigned, |count| *count == 0).await.unwrap();
    fixture.node.kill_agent().unwrap();
    assert_eq!(fixture.max_pods(), max_pods, "the node keeps its configuration");

    fixture.node.uninstall_agent().unwrap();
    for (path, text) in fixture.node.original_files() {
        assert_eq!(fixture.node.read(path).unwrap(), *text, "{path}");
    }
    assert!(!fixture.node.exists(r"C:\Program Files\winpool"));
    let states = ["containerd", "kubelet", RESTORE_SERVICE].map(|name| fixture.node.service_state(name).unwrap());
    assert_eq!(states, ["Running", "Running", "Absent"]);
    assert_eq!(fixture.node.health().await.unwrap(), 200);
}

/// The agent reads the services of its node when somebody asks. There is no PowerShell.
async fn answers_a_request(fixture: &Fixture) {
    let request = format!("{NODE}@{}", Timestamp::now());
    fixture.cluster.annotate_pool(POOL, "winpool.dev/diagnose", &request).await.unwrap();
    let diagnosis = || async { Ok(fixture.status().await.diagnosis) };
    let answer = until("the agent has answered", SOON, diagnosis, Option::is_some).await.unwrap().unwrap();
    let services: Vec<_> =
        answer.services.iter().map(|service| (service.name.as_str(), service.state.name())).collect();
    assert_eq!(services, [("containerd", "Running"), ("kubelet", "Running")]);
    assert_eq!(answer.networks, None);
}
