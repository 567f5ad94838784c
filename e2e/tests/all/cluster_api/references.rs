//! References of MachineDeployments, and their annotations.

use e2e::{cluster::SOON, cluster_api::install_provider, wait::until};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{BASE, DEPLOYMENT, POOL, World, pool};

/// Lets winpool switch the reference of the MachineDeployment.
pub async fn allow(world: &World) {
    let patch = json!({"metadata": {"annotations": {"winpool.dev/manage-bootstrap": "true"}}});
    world.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &patch).await.unwrap();
}

fn automatic() -> Value {
    json!({"rotation": "Automatic"})
}

#[tokio::test]
async fn a_reference_is_switched_only_with_the_annotation_of_its_owner() {
    let world = World::v1beta2().await;
    world.apply_pool(automatic()).await;
    let message = world.until("True", "RotationPending").await;
    assert!(message.contains("lacks the annotation winpool.dev/manage-bootstrap"), "{message}");
    assert_eq!(world.machines.template_of(DEPLOYMENT).await.unwrap(), BASE);

    allow(&world).await;
    let first = world.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    world.machines.roll_out(DEPLOYMENT, ["a", "b"], "2.2.1").await.unwrap();
    world.until("Unknown", "ClusterIsElsewhere").await;

    world.apply_profile(50).await;
    world.machines.until_template(DEPLOYMENT, |name| name != first).await.unwrap();
    world.until_message("False", "Rotating", "web-md: 0 of 2 machines").await;
    world.machines.roll_out(DEPLOYMENT, ["c", "d"], "2.2.1").await.unwrap();
    world.until("Unknown", "ClusterIsElsewhere").await;
    world.stop().await;
}

#[tokio::test]
async fn machines_that_cluster_api_updates_in_place_are_up_to_date() {
    let world = World::v1beta2().await;
    allow(&world).await;
    world.apply_pool(automatic()).await;
    let first = world.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    world.machines.roll_out(DEPLOYMENT, ["a", "b"], "2.2.1").await.unwrap();
    world.apply_profile(50).await;
    let second = world.machines.until_template(DEPLOYMENT, |name| name != first).await.unwrap();
    world.until("False", "Rotating").await;
    world.machines.update_in_place(DEPLOYMENT).await.unwrap();
    let counts = async || {
        let group = world.group().await;
        Ok((group.machines, group.up_to_date))
    };
    until("the machines are up to date", SOON, counts, |counts| *counts == (2, 2)).await.unwrap();
    // A MachineSet without machines still refers to the former template.
    let names = world.machines.names("KubeadmConfigTemplate").await.unwrap();
    assert!(names.contains(&first) && names.contains(&second), "{names:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_reference_that_another_client_changes_back_twice_is_not_switched_again() {
    let world = World::v1beta2().await;
    allow(&world).await;
    world.apply_pool(automatic()).await;
    for _ in 0..2 {
        world.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
        world.machines.refer(DEPLOYMENT, BASE).await.unwrap();
    }
    let message = world.until("False", "ReferenceManagedElsewhere").await;
    assert!(message.contains("field manager gitops changed the reference of web-md"), "{message}");
    world.cluster.until_idle().await.unwrap();
    assert_eq!(world.machines.template_of(DEPLOYMENT).await.unwrap(), BASE);
    // Another template is another attempt.
    world.apply_profile(50).await;
    world.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    world.stop().await;
}

#[tokio::test]
async fn paused_and_topology_managed_machine_deployments_are_not_changed() {
    let world = World::v1beta2().await;
    allow(&world).await;
    let pause = |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    world.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &pause(json!(""))).await.unwrap();
    world.apply_pool(automatic()).await;
    let message = world.until("True", "RotationPending").await;
    assert!(message.contains("is paused"), "{message}");
    let cluster_paused = |value: Value| json!({"spec": {"paused": value}});
    world.machines.edit("Cluster", "prod", "gitops", &cluster_paused(json!(true))).await.unwrap();
    world.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &pause(Value::Null)).await.unwrap();
    world.cluster.until_idle().await.unwrap();
    assert_eq!(world.machines.template_of(DEPLOYMENT).await.unwrap(), BASE);

    let topology = |value: Value| json!({"metadata": {"labels": {"topology.cluster.x-k8s.io/owned": value}}});
    world.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &topology(json!(""))).await.unwrap();
    world.machines.edit("Cluster", "prod", "gitops", &cluster_paused(json!(false))).await.unwrap();
    let message = world.until("False", "TopologyManaged").await;
    assert!(message.contains("winpool render --target clusterclass-patch"), "{message}");
    world.cluster.until_idle().await.unwrap();
    assert_eq!(world.machines.template_of(DEPLOYMENT).await.unwrap(), BASE);
    world.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &topology(Value::Null)).await.unwrap();
    world.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    world.stop().await;
}

#[tokio::test]
async fn of_two_pools_that_select_a_machine_deployment_the_older_one_changes_it() {
    let world = World::v1beta2().await;
    allow(&world).await;
    world.apply_pool(automatic()).await;
    let template = world.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    world.cluster.until_younger_than(POOL).await.unwrap();
    let mut second = pool(json!({"rotation": "Automatic", "autoscaling": {"cpu": "4", "memory": "16Gi"}}));
    second["nodeSelector"]["matchLabels"]["agentpool"] = json!("second");
    world.cluster.apply_pool("second", second).await.unwrap();
    let conflict =
        world.cluster.until_condition("second", "MachinesTemplated", "False", "MachinesConflict").await.unwrap();
    assert!(conflict.message.contains("web-md (pool web)"), "{}", conflict.message);
    world.cluster.until_idle().await.unwrap();
    assert_eq!(world.machines.template_of(DEPLOYMENT).await.unwrap(), template);
    assert!(
        !world
            .machines
            .annotations("MachineDeployment", DEPLOYMENT)
            .await
            .unwrap()
            .contains_key("winpool.dev/autoscaling")
    );
    // Without the older pool, the other one changes it.
    world.cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    world.machines.until_template(DEPLOYMENT, |name| name.starts_with("second-")).await.unwrap();
    world.cluster.until_condition("second", "MachinesTemplated", "True", "UpToDate").await.unwrap();
    world.stop().await;
}

/// The annotations of the autoscaler, by the last part of their key.
async fn capacity(world: &World) -> anyhow::Result<Vec<(String, String)>> {
    let annotations = world.machines.annotations("MachineDeployment", DEPLOYMENT).await?;
    let key = |key: &str| key.strip_prefix("capacity.cluster-autoscaler.kubernetes.io/").map(str::to_owned);
    Ok(annotations.iter().filter_map(|(name, value)| Some((key(name)?, value.clone()))).collect())
}

#[tokio::test]
async fn an_autoscaler_gets_labels_taints_and_the_capacity_that_the_provider_does_not_report() {
    let world = World::v1beta2().await;
    let own = json!({"metadata": {"annotations": {
        "capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk": "80Gi",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "0",
    }}});
    world.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &own).await.unwrap();
    world.apply_pool(json!({"autoscaling": {"cpu": "4", "memory": "16Gi", "ephemeralDisk": "120Gi"}})).await;
    let expected = [
        ("cpu", "4"),
        ("ephemeral-disk", "80Gi"),
        (
            "labels",
            "agentpool=web,kubernetes.io/arch=amd64,kubernetes.io/os=windows,node.kubernetes.io/windows-build=10.0.20348,runs.winpool.dev/ltsc2022=true,winpool.dev/pool=web",
        ),
        ("maxPods", "110"),
        ("memory", "16Gi"),
        ("taints", "os=windows:NoSchedule"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    until("annotations", SOON, || capacity(&world), |found| *found == expected).await.unwrap();
    let message = world.until("True", "RotationPending").await;
    assert!(message.contains("ephemeral-disk of web-md set by another client and left unchanged"), "{message}");
    world.cluster.until_idle().await.unwrap();

    // The autoscaling ends: what winpool wrote goes, and the rest stays.
    world.apply_pool(json!({})).await;
    let theirs = [("ephemeral-disk".to_owned(), "80Gi".to_owned())];
    until("annotations removed", SOON, || capacity(&world), |found| *found == theirs).await.unwrap();
    let annotations = world.machines.annotations("MachineDeployment", DEPLOYMENT).await.unwrap();
    assert_eq!(annotations["cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"], "0");
    assert!(!annotations.contains_key("winpool.dev/autoscaling"));
    world.stop().await;
}

#[tokio::test]
async fn the_capacity_that_a_provider_reports_is_not_annotated() {
    let world = World::v1beta2().await;
    world.apply_pool(json!({"autoscaling": {"cpu": "4", "memory": "16Gi", "ephemeralDisk": "120Gi"}})).await;
    let keys = |found: &[(String, String)]| found.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let all = ["cpu", "ephemeral-disk", "labels", "maxPods", "memory", "taints"];
    until("annotations", SOON, || capacity(&world), |found| keys(found) == all).await.unwrap();
    let reported = json!({"cpu": "8", "memory": "32Gi"});
    install_provider(&world.cluster.control_plane, &world.cluster.client, &reported).await.unwrap();
    let rest = ["ephemeral-disk", "labels", "maxPods", "taints"];
    until("what is reported is removed", SOON, || capacity(&world), |found| keys(found) == rest).await.unwrap();
    world.stop().await;
}

/// Creates a MachinePool whose reference winpool may switch.
pub async fn create_machine_pool(world: &World) {
    let spec = json!({
        "clusterName": "prod",
        "template": {"spec": {
            "clusterName": "prod",
            "version": "v1.34.2",
            "bootstrap": {"configRef": world.machines.reference("bootstrap.cluster.x-k8s.io", "KubeadmConfig", "former")},
            "infrastructureRef": world.machines.reference("infrastructure.cluster.x-k8s.io", "TestMachinePool", "windows"),
        }},
    });
    let metadata = json!({
        "labels": {"winpool": "web"}, "annotations": {"winpool.dev/manage-bootstrap": "true"},
    });
    world.machines.create("MachinePool", "web-mp", metadata, spec).await.unwrap();
}

#[tokio::test]
async fn a_machine_pool_gets_a_kubeadm_config_to_which_cluster_api_adds_the_discovery() {
    let world = World::v1beta2().await;
    create_machine_pool(&world).await;
    let selector = json!({"matchLabels": {"winpool": "web"}});
    world.apply_pool(json!({"machineDeployments": null, "machinePools": selector, "rotation": "Automatic"})).await;
    world.until("True", "UpToDate").await;
    let group = world.group().await;
    assert_eq!((group.name.as_str(), &group.current), ("web-mp", &group.template));
    let config = world.machines.api("KubeadmConfig").get(&group.template).await.unwrap();
    assert_eq!(config.data["spec"]["joinConfiguration"]["patches"]["directory"], "C:/k/winpool/patches");

    let discovery = json!({"spec": {"joinConfiguration": {"discovery": {"bootstrapToken": {
        "token": "abcdef.0123456789abcdef", "apiServerEndpoint": "prod.example:6443", "unsafeSkipCAVerification": true,
    }}}}});
    world.machines.edit("KubeadmConfig", &group.template, "manager", &discovery).await.unwrap();
    world.cluster.until_idle().await.unwrap();
    world.until("True", "UpToDate").await;
    world.apply_profile(50).await;
    let changed = async || Ok(world.group().await.current);
    until("another KubeadmConfig", SOON, changed, |name| *name != group.template).await.unwrap();
    world.stop().await;
}

#[tokio::test]
async fn a_pool_that_is_deleted_with_cleanup_removes_its_annotations_and_keeps_templates_in_use() {
    let world = World::v1beta2().await;
    let mut spec = pool(json!({"autoscaling": {"cpu": "4", "memory": "16Gi"}}));
    spec["deletionPolicy"] = json!("Cleanup");
    world.cluster.apply_pool(POOL, spec).await.unwrap();
    world.until("True", "RotationPending").await;
    let template = world.group().await.template;
    world.machines.refer(DEPLOYMENT, &template).await.unwrap();
    world.until("True", "UpToDate").await;
    world.cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    world.cluster.until_pool_gone(POOL).await.unwrap();
    assert_eq!(capacity(&world).await.unwrap(), []);
    let names = world.machines.names("KubeadmConfigTemplate").await.unwrap();
    assert_eq!(names, [BASE.to_owned(), template]);
    world.stop().await;
}
