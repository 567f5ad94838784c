//! Configurations are applied, confirmed, rolled back and withdrawn.

use e2e::{
    agent::{CONTAINERD_CONFIG, KUBELET_CONFIG, Machine},
    cluster::{SOON, edit},
    wait::until,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use winpool_api::{NodeConfigPhase, WindowsNodeConfig};

use super::{Fleet, POOL};

#[tokio::test]
async fn a_configuration_reaches_every_node_within_the_budget_and_is_proven() {
    let fleet = Fleet::start(6, &[]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 2 })).await;
    fleet.until_complete().await;
    assert_eq!(fleet.check_budget(2), 2);
    for (name, machine) in &fleet.machines {
        assert!(machine.text(KUBELET_CONFIG).contains("maxPods: 42"), "{name}");
        assert_eq!((machine.kubelet_starts(), machine.has_restore_service()), (1, false), "{name}");
    }
    let status = fleet.cluster.status(POOL).await.unwrap();
    assert_eq!((status.nodes.matched, status.nodes.configured), (6, 6));

    // The next operator continues with what the agents report, and restarts nothing.
    operator.stop().await.unwrap();
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.cluster.until_idle().await.unwrap();
    assert!(fleet.machines.values().all(|machine| machine.kubelet_starts() == 1));
    fleet.cluster.nothing_was_forbidden().unwrap();
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn a_node_that_fails_is_rolled_back_and_halts_the_rollout_until_the_profile_is_corrected() {
    let fleet = Fleet::start(4, &["win-01"]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 1 })).await;
    fleet.until_complete().await;

    fleet.apply_profile(77).await;
    let halted = fleet.cluster.until_condition(POOL, "ConfigInEffect", "False", "RolloutHalted").await.unwrap();
    assert!(halted.message.contains("win-01"), "{}", halted.message);
    let event = fleet.cluster.until_event("win-01", "ConfigFailed").await.unwrap();
    assert!(event.contains("failed on the node, rolled back: NotHealthy"), "{event}");
    let rollbacks = [("pool", POOL), ("reason", "NotHealthy")];
    assert_eq!(operator.metric("winpool_node_config_rollbacks_total", &rollbacks).await.unwrap(), 1.0);
    assert!(operator.metric("winpool_rollout_start_timestamp_seconds", &[("pool", POOL)]).await.unwrap() > 1.0e9);
    let failed = &fleet.machines["win-01"];
    assert!(failed.text(KUBELET_CONFIG).contains("maxPods: 42"), "{}", failed.text(KUBELET_CONFIG));
    let restored = async || Ok(failed.kubelet_runs() && !failed.has_restore_service());
    until("the former configuration runs", SOON, restored, |restored| *restored).await.unwrap();
    let phases = fleet.phases().await;
    assert_eq!(phases["win-01"], NodeConfigPhase::RolledBack);
    for name in ["win-02", "win-03", "win-04"] {
        assert!(fleet.machines[name].text(KUBELET_CONFIG).contains("maxPods: 42"), "{name} was not changed");
    }

    fleet.apply_profile(55).await;
    fleet.until_complete().await;
    for (name, machine) in &fleet.machines {
        assert!(machine.text(KUBELET_CONFIG).contains("maxPods: 55"), "{name}");
        fleet.cluster.until_event(name, "ConfigConfirmed").await.unwrap();
    }
    let begun = async || operator.metric("winpool_rollout_start_timestamp_seconds", &[("pool", POOL)]).await;
    until("the rollout has no beginning", SOON, begun, |seconds| *seconds == 0.0).await.unwrap();
    assert_eq!(operator.metric("winpool_node_config_rollbacks_total", &rollbacks).await.unwrap(), 1.0);
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn a_killed_agent_resumes_its_change_and_a_paused_rollout_begins_nothing() {
    let mut fleet = Fleet::start(2, &[]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "paused": true })).await;
    fleet.cluster.until_condition(POOL, "ConfigInEffect", "False", "RolloutPaused").await.unwrap();
    assert!(fleet.machines.values().all(|machine| machine.kubelet_starts() == 0));

    // The operator waits, and the change of the first node stays unconfirmed until its agent was restarted.
    fleet.apply_pool(json!({ "paused": false })).await;
    let first = fleet.machines["win-01"].clone();
    let changed = async || Ok(first.kubelet_starts());
    until("the kubelet is restarted", SOON, changed, |starts| *starts == 1).await.unwrap();
    drop(fleet.agents.remove("win-01"));
    fleet.start_agent("win-01");
    fleet.until_complete().await;
    assert!(fleet.machines.values().all(|machine| machine.text(KUBELET_CONFIG).contains("maxPods: 42")));
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn what_something_else_changes_on_a_node_is_reported_and_applied_again_where_the_pool_says_so() {
    let mut fleet = Fleet::start(2, &[]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.until_complete().await;
    let is_reported = async |fleet: &Fleet| {
        fleet.cluster.until_condition(POOL, "ConfigInEffect", "False", "ChangedOnNode").await.unwrap()
    };

    fleet.change_file("win-02", KUBELET_CONFIG, "maxPods: 42", "maxPods: 250");
    let message = is_reported(&fleet).await.message;
    assert!(message.contains("win-02") && message.contains("attempt: 2"), "{message}");
    assert_eq!(fleet.machines["win-02"].kubelet_starts(), 1);
    fleet.apply_pool(json!({ "attempt": 2 })).await;
    fleet.until_complete().await;
    assert!(fleet.machines["win-02"].text(KUBELET_CONFIG).contains("maxPods: 42"));

    // An hour after the last time, which the operator has written.
    fleet.change_file("win-02", KUBELET_CONFIG, "maxPods: 42", "maxPods: 250");
    is_reported(&fleet).await;
    edit(&fleet.cluster.pools(), POOL, json!({ "spec": { "delivery": { "drift": "Reapply" } } })).await.unwrap();
    let earlier = Timestamp::now() - SignedDuration::from_hours(2);
    let configs = fleet.cluster.api::<WindowsNodeConfig>();
    edit(&configs, "win-02", json!({ "spec": { "assignedAt": earlier } })).await.unwrap();
    fleet.until_complete().await;
    assert!(fleet.machines["win-02"].text(KUBELET_CONFIG).contains("maxPods: 42"));
    let starts = fleet.machines.values().map(Machine::kubelet_starts).collect::<Vec<_>>();
    assert_eq!(starts, [1, 3], "only the changed node is changed");
    fleet.check_budget(1);
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn without_delivery_nothing_is_assigned_and_a_pool_that_ends_delivery_leaves_its_nodes_as_they_are() {
    let fleet = Fleet::start(1, &[]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.until_complete().await;
    edit(&fleet.cluster.pools(), POOL, json!({ "spec": { "delivery": { "method": "None" } } })).await.unwrap();
    let assigned = async || Ok(fleet.phases().await.len());
    until("nothing is assigned", SOON, assigned, |count| *count == 0).await.unwrap();
    assert!(fleet.machines["win-01"].text(KUBELET_CONFIG).contains("maxPods: 42"));
    assert_eq!(fleet.machines["win-01"].kubelet_starts(), 1);
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn what_a_stopped_operator_left_is_deleted_by_the_next_one_without_any_pool_with_agents() {
    let fleet = Fleet::start(2, &[]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.until_complete().await;
    operator.kill().unwrap();

    edit(&fleet.cluster.pools(), POOL, json!({ "spec": { "delivery": { "method": "None" } } })).await.unwrap();
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    let assigned = async || Ok(fleet.phases().await.len());
    until("nothing is assigned", SOON, assigned, |count| *count == 0).await.unwrap();
    assert!(fleet.machines.values().all(|machine| machine.kubelet_starts() == 1));
    fleet.cluster.nothing_was_forbidden().unwrap();
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn a_pause_image_that_a_node_cannot_pull_is_refused_and_the_node_keeps_its_own() {
    let mut fleet = Fleet::without_agents(1).await;
    fleet.change_machine("win-01", |machine| machine.cannot_pull_from("mcr.microsoft.com"));
    fleet.start_agents();
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({})).await;
    fleet.until_phase("win-01", NodeConfigPhase::Refused).await;
    let status = fleet.configs().await.remove("win-01").unwrap().status.unwrap();
    assert_eq!(status.reason, "PauseImageNotPulled", "{}", status.message);
    assert!(status.message.contains("401 Unauthorized"), "{}", status.message);
    let machine = &fleet.machines["win-01"];
    let untouched = (machine.text(CONTAINERD_CONFIG), machine.kubelet_starts(), machine.has_restore_service());
    assert_eq!(untouched, ("version = 3\n".to_owned(), 0, false));

    let own = json!({ "kubelet": { "maxPods": 42 }, "pauseImage": { "source": "Node" } });
    fleet.cluster.apply_profile("standard", own).await.unwrap();
    fleet.until_complete().await;
    let machine = &fleet.machines["win-01"];
    assert!(machine.text(KUBELET_CONFIG).contains("maxPods: 42"), "{}", machine.text(KUBELET_CONFIG));
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn a_node_whose_kube_proxy_is_no_service_gets_everything_else_and_is_reported() {
    let fleet = Fleet::start(1, &[]).await;
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    let profile = json!({ "kubelet": { "maxPods": 42 }, "kubeProxy": { "winDSR": true } });
    fleet.cluster.apply_profile("standard", profile).await.unwrap();
    fleet.apply_pool(json!({})).await;
    let found = fleet.cluster.until_condition(POOL, "ConfigInEffect", "Unknown", "PartlyApplied").await.unwrap();
    assert!(found.message.contains("no service with --config there: win-01"), "{}", found.message);
    assert!(fleet.machines["win-01"].text(KUBELET_CONFIG).contains("maxPods: 42"));
    let status = fleet.configs().await.remove("win-01").unwrap().status.unwrap();
    assert_eq!((status.phase, status.reason.as_str()), (NodeConfigPhase::Applied, "PartlyApplied"));
    assert_eq!(status.agent_version, env!("CARGO_PKG_VERSION"));
    operator.stop().await.unwrap();
    fleet.stop().await;
}
