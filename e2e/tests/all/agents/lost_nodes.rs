//! Nodes that do not answer, are deleted, are not Ready, or join while a rollout runs.

use std::time::Duration;

use e2e::{agent::KUBELET_CONFIG, cluster::SOON, rollout::Step, wait::until};
use kube::ResourceExt;
use serde_json::json;
use winpool_api::NodeConfigPhase;

use super::{Fleet, POOL, is_assignment};

/// The shortest timeout of a rollout.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_node_that_never_comes_back_keeps_its_place_until_the_timeout_and_has_failed_then() {
    let mut fleet = Fleet::without_agents(4).await;
    // The agent of win-02 never runs, and the machine of win-03 dies when its kubelet is restarted.
    fleet.change_machine("win-03", |machine| machine.hangs_with("maxPods: 42"));
    for name in ["win-01", "win-03", "win-04"] {
        fleet.start_agent(name);
    }
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 2, "maxFailures": 3, "timeout": "1m", "drain": "Never" })).await;
    let restarted = async || Ok(fleet.machines["win-03"].kubelet_starts());
    until("the kubelet of win-03 is restarted", SOON, restarted, |starts| *starts == 1).await.unwrap();
    drop(fleet.agents.remove("win-03"));
    fleet.kubelets.set_ready("win-03", false).await.unwrap();

    // win-02 frees its place, and win-03, which is not Ready, does not.
    let condition = async || fleet.cluster.condition(POOL, "ConfigInEffect").await;
    let halted = until("the rollout ends", SOON * 3, condition, |found| found.reason == "RolloutHalted").await.unwrap();
    for text in
        ["win-02 (the agent did not report a result in time)", "win-03 (the agent did not report", "2 of 4 nodes"]
    {
        assert!(halted.message.contains(text), "{}", halted.message);
    }
    assert_eq!(fleet.phases().await["win-04"], NodeConfigPhase::Applied);
    let log = fleet.log();
    let assigned = |name| log.of(name, is_assignment).next().unwrap().at;
    assert!(assigned("win-04") >= assigned("win-02") + TIMEOUT);
    assert_eq!(log.most_in_progress(TIMEOUT), 2);
    log.check_canaries().unwrap();
    let timed_out = [("pool", POOL), ("reason", "TimedOut")];
    assert_eq!(operator.metric("winpool_rollout_failures", &timed_out).await.unwrap(), 2.0);
    fleet.cluster.until_event("win-02", "ConfigFailed").await.unwrap();
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn a_node_that_is_deleted_while_it_changes_frees_its_place_and_a_new_one_of_its_name_starts_anew() {
    let mut fleet = Fleet::without_agents(3).await;
    fleet.start_agent("win-02");
    fleet.start_agent("win-03");
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 1 })).await;
    fleet.until_assigned("win-01").await;
    let first = fleet.configs().await["win-01"].clone();
    fleet.delete_node("win-01").await;
    fleet.until_complete().await;
    assert_eq!(fleet.configs().await.into_keys().collect::<Vec<_>>(), ["win-02", "win-03"]);

    fleet.kubelets.register_again("win-01").await.unwrap();
    fleet.until_assigned("win-01").await;
    let second = fleet.configs().await["win-01"].clone();
    let node = fleet.cluster.node("win-01").await.unwrap();
    assert_eq!(Some(&second.spec.node_uid), node.metadata.uid.as_ref());
    assert!(first.spec.node_uid != second.spec.node_uid && first.uid() != second.uid());

    // The operator does not run while the node is replaced again.
    operator.kill().unwrap();
    fleet.delete_node("win-01").await;
    fleet.kubelets.register_again("win-01").await.unwrap();
    fleet.start_agent("win-01");
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    let node = fleet.cluster.node("win-01").await.unwrap().metadata.uid.unwrap();
    let assigned = async || Ok(fleet.configs().await.get("win-01").map(|config| config.spec.node_uid.clone()));
    until("the new node is assigned", SOON, assigned, |uid| uid.as_ref() == Some(&node)).await.unwrap();
    fleet.until_phase("win-01", NodeConfigPhase::Applied).await;
    fleet.until_complete().await;
    let third = fleet.configs().await["win-01"].clone();
    assert!(second.spec.node_uid != third.spec.node_uid && second.uid() != third.uid());
    for (name, machine) in &fleet.machines {
        assert!(machine.text(KUBELET_CONFIG).contains("maxPods: 42"), "{name}");
        assert_eq!(machine.kubelet_starts(), 1, "{name}");
    }
    assert_eq!(fleet.log().of("win-01", |step| *step == Step::Deleted).count(), 2);
    assert_eq!(fleet.check_budget(1), 1);
    fleet.cluster.nothing_was_forbidden().unwrap();
    operator.stop().await.unwrap();
    fleet.stop().await;
}

#[tokio::test]
async fn a_node_that_is_not_ready_counts_and_one_that_joins_is_configured_at_once() {
    let mut fleet = Fleet::without_agents(4).await;
    fleet.kubelets.set_ready("win-04", false).await.unwrap();
    for name in ["win-01", "win-03", "win-04"] {
        fleet.start_agent(name);
    }
    let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": 2 })).await;
    fleet.until_assigned("win-02").await;
    fleet.join("win-05").await;
    fleet.until_phase("win-05", NodeConfigPhase::Applied).await;
    let assigned: Vec<_> = fleet.configs().await.into_keys().collect();
    assert_eq!(assigned, ["win-01", "win-02", "win-05"], "win-02 and win-04 are unavailable, so that win-03 waits");

    fleet.start_agent("win-02");
    fleet.until_phase("win-03", NodeConfigPhase::Applied).await;
    assert!(!fleet.phases().await.contains_key("win-04"), "it is not Ready");
    fleet.kubelets.set_ready("win-04", true).await.unwrap();
    fleet.until_complete().await;
    assert_eq!(fleet.log().count(is_assignment), 5);
    operator.stop().await.unwrap();
    fleet.stop().await;
}
