//! The steps of an adoption, each followed by a revert in Git.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    cluster::edit,
    wait::{eventually, stays},
};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::json;

use super::{
    fleet::{Fleet, PARTS, Part},
    shared,
};

/// How long to check that nothing happens.
const A_WHILE: Duration = Duration::from_millis(1500);
const NEW: &str = "os=windows:NoSchedule";

/// Whether workloads of a part tolerate the new taint at the start, themselves or by the adopted class.
fn all_tolerate(part: Part) -> bool {
    part.taint == Some(("os", "windows"))
}

#[tokio::test]
async fn a_fleet_with_every_taint_is_adopted_and_reverted_without_a_pending_pod() {
    let fleet = Fleet::new(shared().await, "fleet").await.unwrap();
    let parts = || PARTS.into_iter();

    // Observe: nothing is written to nodes, the pools are ready, and the conditions say what would happen.
    fleet.apply_pools(|part| part.pool("fleet", "Observe")).await.unwrap();
    for part in parts() {
        fleet.cluster.until_condition(&part.object("fleet"), "Ready", "True", "Observing").await.unwrap();
        assert_eq!(fleet.taints(part).await.unwrap(), part.taint_text().into_iter().collect());
    }
    fleet.restart_pods().await.unwrap();
    fleet.check().await.unwrap();

    // Enforce: the taint waits for the workloads that do not tolerate it.
    fleet.apply_pools(|part| part.pool("fleet", "Enforce")).await.unwrap();
    for part in parts() {
        let name = part.object("fleet");
        if all_tolerate(part) {
            fleet.cluster.until_ready(&name).await.unwrap();
        } else {
            let held = fleet.cluster.until_condition(&name, "NodesTainted", "False", "WouldStrandPods").await.unwrap();
            let daemon_set = format!("DaemonSet fleet/{name}-logs: add toleration {{key: os, value: \"windows\"");
            assert!(held.message.contains(&daemon_set), "{}", held.message);
            // The adopted class tolerates both taints now, so its Deployment need not be changed.
            let deployment = format!("Deployment fleet/{name}-web: add toleration");
            assert_eq!(held.message.contains(&deployment), !part.has_class, "{}", held.message);
        }
        fleet.until_tainted(part, part.taint_text()).await.unwrap();
    }
    fleet.restart_pods().await.unwrap();

    // A revert of that commit, and the commit again.
    fleet.apply_pools(|part| part.pool("fleet", "Observe")).await.unwrap();
    fleet.restart_pods().await.unwrap();
    fleet.apply_pools(|part| part.pool("fleet", "Enforce")).await.unwrap();
    fleet.restart_pods().await.unwrap();
    fleet.check().await.unwrap();

    // The workloads tolerate both taints: the new one replaces the other.
    fleet.tolerate_both_taints().await.unwrap();
    for part in parts() {
        fleet.until_tainted(part, Some(NEW.to_owned())).await.unwrap();
        fleet.cluster.until_ready(&part.object("fleet")).await.unwrap();
    }
    fleet.restart_pods().await.unwrap();
    fleet.check().await.unwrap();

    // A revert to the former taints, and the commit again.
    fleet.apply_pools(|part| part.reverted_pool("fleet")).await.unwrap();
    for part in parts() {
        let former = part.taint_text().unwrap_or_else(|| NEW.to_owned());
        fleet.until_tainted(part, Some(former)).await.unwrap();
    }
    fleet.restart_pods().await.unwrap();
    fleet.apply_pools(|part| part.pool("fleet", "Enforce")).await.unwrap();
    for part in parts() {
        fleet.until_tainted(part, Some(NEW.to_owned())).await.unwrap();
    }
    fleet.restart_pods().await.unwrap();
    fleet.check().await.unwrap();
}

#[tokio::test]
async fn a_component_that_restores_a_replaced_taint_is_named_and_the_removal_pauses() {
    let fixture = e2e::fixture::Fixture::with_one_node(shared().await, "restored").await.unwrap();
    let former = json!({ "key": "node.kubernetes.io/os", "value": "windows", "effect": "NoSchedule" });
    let spec = e2e::fixture::spec("restored", json!({ "replacesTaints": [former] }));
    fixture.apply_pool_and_wait("restored", spec).await.unwrap();
    fixture.until_taints("restored-1", &[NEW]).await.unwrap();
    let restored = || async {
        let node: Node = fixture.node("restored-1").await?;
        let mut taints = serde_json::to_value(node.spec.clone().unwrap_or_default().taints)?;
        let all = taints.as_array_mut().expect("a list");
        if !all.iter().any(|taint| taint["key"] == former["key"]) {
            all.push(former.clone());
        }
        let patch = json!({ "metadata": { "resourceVersion": node.resource_version() }, "spec": { "taints": taints } });
        edit(&fixture.nodes(), "restored-1", patch).await
    };
    let contested = || async {
        restored().await?;
        let condition = fixture.condition("restored", "NodesTainted").await?;
        ensure!(condition.reason == "Contested", "{condition:?}");
        Ok(())
    };
    eventually("the removal pauses", e2e::cluster::SOON, contested).await.unwrap();
    let contested = fixture.until_condition("restored", "NodesTainted", "False", "Contested").await.unwrap();
    let text = "replaced taint node.kubernetes.io/os=windows:NoSchedule is reverted by";
    assert!(contested.message.contains(text), "{}", contested.message);
    // The last removal may be later than the last restoration above.
    eventually("the taint is restored", e2e::cluster::SOON, restored).await.unwrap();
    let taints = || fixture.taints("restored-1");
    let both = |taints: &Vec<String>| taints.len() == 2;
    stays("the taint is not removed again", A_WHILE, taints, both).await.unwrap();
}
