//! Nodes that are deleted while a rollout runs.

use e2e::{agent::KUBELET_CONFIG, cluster::SOON, rollout::Step, wait::until};
use kube::ResourceExt;
use serde_json::json;
use winpool_api::NodeConfigPhase;

use super::Fleet;

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
