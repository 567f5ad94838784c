//! Failed writes to objects other than nodes: taints are applied anyway, and everything else soon after the cause is
//! removed.

use anyhow::Result;
use e2e::{
    cluster::{Cluster, OS_WINDOWS, SOON, create, pool_spec},
    control_plane::OPERATOR_NAMESPACE,
    kubelet::{CONFIG_ANNOTATION, Kubelets},
    operator::Operator,
    wait::until,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{node, nodes};

const POOL: &str = "web";
const COUNT: usize = 3;

/// A pool with a profile and its nodes, all as specified.
async fn converged() -> (Cluster, Kubelets, Operator) {
    let cluster = Cluster::start().await.unwrap();
    let kubelets = cluster.start_kubelets(nodes(POOL, COUNT)).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    apply_profile(&cluster, 100).await;
    cluster.apply_pool(POOL, pool_spec(POOL, json!({ "profileRef": { "name": "standard" } }))).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    (cluster, kubelets, operator)
}

/// Applies a profile; each number of pods gives another configuration.
async fn apply_profile(cluster: &Cluster, max_pods: u32) {
    let profile = json!({ "kubelet": { "maxPods": max_pods } });
    cluster.apply_profile("standard", profile).await.unwrap();
}

async fn config_of(cluster: &Cluster, node: &str) -> String {
    cluster.annotation(node, CONFIG_ANNOTATION).await.unwrap().unwrap()
}

/// Checks that a new node and a node whose taint was removed are tainted.
async fn taints_are_kept(cluster: &Cluster, kubelets: &Kubelets, new: &str) {
    cluster.edit_node("web-000", json!({ "spec": { "taints": null } })).await.unwrap();
    kubelets.add(vec![node(POOL, new)]).await.unwrap();
    let all = cluster.nodes().list(&ListParams::default()).await.unwrap().items.len();
    cluster.until_tainted(POOL, OS_WINDOWS, all).await.unwrap();
}

/// Waits until the pool has its new configuration on every node.
async fn recovers(cluster: &Cluster, former: &str) {
    cluster.until_condition(POOL, "ConfigRendered", "True", "Rendered").await.unwrap();
    let config = || async { Ok(config_of(cluster, "web-001").await) };
    until("the new configuration is named", SOON, config, |now| now != former).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
}

/// Applies a quota of 0 ConfigMaps, and sets its status, because its controller does not run.
async fn apply_quota(cluster: &Cluster) -> Result<Api<ResourceQuota>> {
    let quotas: Api<ResourceQuota> = cluster.namespaced(OPERATOR_NAMESPACE);
    let hard = json!({ "count/configmaps": "0" });
    let quota = json!({ "metadata": { "name": "none" }, "spec": { "hard": hard } });
    create(&quotas, quota).await?;
    let status = json!({ "status": { "hard": hard, "used": { "count/configmaps": "0" } } });
    quotas.patch_status("none", &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(quotas)
}

#[tokio::test]
async fn a_quota_on_config_maps_delays_configurations_and_no_taint() {
    let (cluster, kubelets, _operator) = converged().await;
    let former = config_of(&cluster, "web-001").await;
    let quotas = apply_quota(&cluster).await.unwrap();
    apply_profile(&cluster, 101).await;
    let found = cluster.until_condition(POOL, "ConfigRendered", "False", "WriteFailed").await.unwrap();
    assert!(found.message.contains("exceeded quota: none"), "{}", found.message);
    taints_are_kept(&cluster, &kubelets, "web-new").await;
    assert_eq!(config_of(&cluster, "web-001").await, former, "no node names a ConfigMap that is not there");
    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    recovers(&cluster, &former).await;
    cluster.until_idle().await.unwrap();
}

#[tokio::test]
async fn a_config_map_of_another_owner_is_unchanged_and_delays_its_configuration_only() {
    let (cluster, kubelets, operator) = converged().await;
    let first = config_of(&cluster, "web-001").await;
    apply_profile(&cluster, 101).await;
    let second = || async { Ok(config_of(&cluster, "web-001").await) };
    until("the second configuration is named", SOON, second, |now| *now != first).await.unwrap();
    operator.stop().await.unwrap();
    drop(operator);
    // The profile needs the first configuration again, and another owner's ConfigMap has its name.
    cluster.config_maps().delete(&first, &DeleteParams::default()).await.unwrap();
    let foreign = json!({ "metadata": { "name": first }, "data": { "theirs": "x" } });
    create(&cluster.config_maps(), foreign).await.unwrap();
    apply_profile(&cluster, 100).await;
    let _operator = cluster.start_operator(&[], &[]).await.unwrap();
    let found = cluster.until_condition(POOL, "ConfigRendered", "False", "WriteFailed").await.unwrap();
    assert!(
        found.message.contains(&first)
            && found.message.contains("already exists. It was written by another client: delete it"),
        "{}",
        found.message
    );
    taints_are_kept(&cluster, &kubelets, "web-new").await;
    assert_eq!(cluster.config_maps().get(&first).await.unwrap().data.unwrap()["theirs"], "x");
    let former = config_of(&cluster, "web-001").await;
    cluster.config_maps().delete(&first, &DeleteParams::default()).await.unwrap();
    recovers(&cluster, &former).await;
}
