//! What fails beside the nodes: taints are kept all the same, and everything else follows soon after the cause is gone.

use std::time::{Duration, Instant};

use anyhow::Result;
use e2e::{
    control_plane::OPERATOR_NAMESPACE,
    kubelet::Kubelets,
    operator::Operator,
    wait::until,
    world::{SOON, World},
};
use k8s_openapi::api::{
    core::v1::{ConfigMap, ResourceQuota},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{OS_WINDOWS, node, nodes};

const POOL: &str = "web";
const COUNT: usize = 3;
/// How soon after a cause is gone everything is as it should be.
const RECOVERY: Duration = Duration::from_secs(15);

/// A pool with a profile and its nodes, all as specified.
async fn settled() -> (World, Kubelets, Operator) {
    let world = World::start().await.unwrap();
    let kubelets = Kubelets::start(world.client.clone(), nodes(POOL, COUNT)).await.unwrap();
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    apply_profile(&world, 100).await;
    let spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": { "matchLabels": { "agentpool": POOL } },
        "profileRef": { "name": "standard" },
    });
    world.apply("WindowsNodePool", POOL, &spec).await.unwrap();
    world.until_as_specified(POOL).await.unwrap();
    (world, kubelets, operator)
}

/// Every number of pods makes another configuration.
async fn apply_profile(world: &World, max_pods: u32) {
    let profile = json!({ "kubelet": { "maxPods": max_pods } });
    world.apply("WindowsRuntimeProfile", "standard", &profile).await.unwrap();
}

fn config_maps(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.client.clone(), OPERATOR_NAMESPACE)
}

async fn config_of(world: &World, node: &str) -> String {
    world.nodes().get(node).await.unwrap().annotations()["winpool.dev/config"].clone()
}

/// Whatever is refused: a new node is tainted, and so is one that lost its taint.
async fn taints_are_kept(world: &World, kubelets: &Kubelets, new: &str) {
    let stripped = Patch::Merge(json!({ "spec": { "taints": null } }));
    world.nodes().patch("web-000", &PatchParams::default(), &stripped).await.unwrap();
    kubelets.add(vec![node(POOL, new)]).await.unwrap();
    let all = world.nodes().list(&ListParams::default()).await.unwrap().items.len();
    world.until_guarded(POOL, OS_WINDOWS, all).await.unwrap();
}

/// Waits until the pool has its new configuration everywhere, which must be soon.
async fn recovers(world: &World, former: &str, begin: Instant) {
    world.until_condition(POOL, "ConfigRendered", "True", "Rendered").await.unwrap();
    world.until_as_specified(POOL).await.unwrap();
    let took = begin.elapsed();
    assert!(took < RECOVERY, "recovery took {took:?}");
    assert_ne!(config_of(world, "web-001").await, former);
}

/// No ConfigMap fits into the quota. The controller that would compute its status does not run here.
async fn apply_quota(world: &World) -> Result<Api<ResourceQuota>> {
    let quotas: Api<ResourceQuota> = Api::namespaced(world.client.clone(), OPERATOR_NAMESPACE);
    let hard = json!({ "count/configmaps": "0" });
    let quota = json!({ "metadata": { "name": "none" }, "spec": { "hard": hard } });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    let status = json!({ "status": { "hard": hard, "used": { "count/configmaps": "0" } } });
    quotas.patch_status("none", &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(quotas)
}

#[tokio::test]
async fn a_quota_on_config_maps_holds_up_configurations_and_no_taint() {
    let (world, kubelets, _operator) = settled().await;
    let former = config_of(&world, "web-001").await;
    let quotas = apply_quota(&world).await.unwrap();
    apply_profile(&world, 101).await;
    let told = world.until_condition(POOL, "ConfigRendered", "False", "WriteFailed").await.unwrap();
    assert!(told.message.contains("exceeded quota: none"), "{}", told.message);
    taints_are_kept(&world, &kubelets, "web-new").await;
    assert_eq!(config_of(&world, "web-001").await, former, "no node names a ConfigMap that is not there");
    let begin = Instant::now();
    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    recovers(&world, &former, begin).await;
    world.until_quiet().await.unwrap();
}

#[tokio::test]
async fn an_immutable_config_map_of_somebody_else_holds_up_its_configuration_alone() {
    let (world, kubelets, operator) = settled().await;
    let first = config_of(&world, "web-001").await;
    apply_profile(&world, 101).await;
    let second = || async { Ok(config_of(&world, "web-001").await) };
    until("the second configuration is named", SOON, second, |now| *now != first).await.unwrap();
    operator.stop().await.unwrap();
    drop(operator);
    // The first configuration is asked for again, and somebody else has its name.
    config_maps(&world).delete(&first, &DeleteParams::default()).await.unwrap();
    let foreign = json!({ "metadata": { "name": first }, "immutable": true, "data": { "theirs": "x" } });
    config_maps(&world).create(&PostParams::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
    apply_profile(&world, 100).await;
    let _operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    let told = world.until_condition(POOL, "ConfigRendered", "False", "WriteFailed").await.unwrap();
    assert!(told.message.contains(&first) && told.message.contains("immutable"), "{}", told.message);
    taints_are_kept(&world, &kubelets, "web-new").await;
    assert_eq!(config_maps(&world).get(&first).await.unwrap().data.unwrap()["theirs"], "x");
    let (begin, former) = (Instant::now(), config_of(&world, "web-001").await);
    config_maps(&world).delete(&first, &DeleteParams::default()).await.unwrap();
    recovers(&world, &former, begin).await;
}

#[tokio::test]
async fn without_its_role_the_operator_keeps_the_taints_running_or_newly_started() {
    let (world, kubelets, operator) = settled().await;
    let former = config_of(&world, "web-001").await;
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), OPERATOR_NAMESPACE);
    let mut binding = bindings.get("winpool").await.unwrap();
    bindings.delete("winpool", &DeleteParams::default()).await.unwrap();
    apply_profile(&world, 101).await;
    world.until_condition(POOL, "ConfigRendered", "False", "WriteFailed").await.unwrap();
    taints_are_kept(&world, &kubelets, "web-new-1").await;

    operator.kill().unwrap();
    drop(operator);
    // It is not ready, because it cannot list its ConfigMaps, and it keeps the taints all the same.
    let _operator = Operator::spawn(&world.control_plane, &[], &[]).unwrap();
    taints_are_kept(&world, &kubelets, "web-new-2").await;
    let begin = Instant::now();
    binding.metadata.resource_version = None;
    binding.metadata.uid = None;
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    recovers(&world, &former, begin).await;
}

#[tokio::test]
async fn a_config_map_of_ours_that_is_changed_or_deleted_is_restored() {
    let (world, _kubelets, _operator) = settled().await;
    let name = config_of(&world, "web-001").await;
    let before = config_maps(&world).get(&name).await.unwrap();
    config_maps(&world).delete(&name, &DeleteParams::default()).await.unwrap();
    let mut tampered = before.clone();
    (tampered.metadata.resource_version, tampered.metadata.uid) = (None, None);
    tampered.data.as_mut().unwrap().insert("kubelet.args".to_owned(), "--evil".to_owned());
    // The operator may be quicker: then its ConfigMap is deleted again.
    while config_maps(&world).create(&PostParams::default(), &tampered).await.is_err() {
        let _ = config_maps(&world).delete(&name, &DeleteParams::default()).await;
    }
    let data = || async { Ok(config_maps(&world).get(&name).await?.data) };
    until("its content is what its name says", SOON, data, |data| *data == before.data).await.unwrap();
}
