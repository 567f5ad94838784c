//! Configurations are applied, confirmed, rolled back and withdrawn.

use e2e::{
    agent::KUBELET_CONFIG,
    cluster::{SOON, edit},
    wait::until,
};
use serde_json::json;
use winpool_api::NodeConfigPhase;

use super::{Fleet, POOL};

#[tokio::test]
async fn a_configuration_reaches_every_node_within_the_budget_is_proven_and_withdrawn() {
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
    operator.kill().unwrap();

    // What it left is deleted by the next one, which has no pool with agents.
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
