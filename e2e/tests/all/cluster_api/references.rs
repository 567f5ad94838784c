//! References of MachineDeployments, and their annotations.

use e2e::{cluster::SOON, cluster_api::reference, wait::until};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{BASE, DEPLOYMENT, Fixture, POOL, pool};

/// Lets winpool switch the reference of the MachineDeployment.
pub async fn allow(fixture: &Fixture) {
    let patch = json!({"metadata": {"annotations": {"winpool.dev/manage-bootstrap": "true"}}});
    fixture.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &patch).await.unwrap();
}

fn automatic() -> Value {
    json!({"rotation": "Automatic"})
}

#[tokio::test]
async fn a_reference_is_switched_only_with_the_annotation_of_its_owner_and_machines_may_be_updated_in_place() {
    let fixture = Fixture::start().await;
    fixture.apply_pool(automatic()).await;
    let message = fixture.until("True", "RotationPending").await;
    assert!(message.contains("lacks the annotation winpool.dev/manage-bootstrap"), "{message}");
    assert_eq!(fixture.machines.template_of(DEPLOYMENT).await.unwrap(), BASE);

    allow(&fixture).await;
    let first = fixture.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    let class = async || Ok(fixture.cluster.classes().get_opt("windows-ltsc2022").await?.is_some());
    until("the RuntimeClass exists while no node is known", SOON, class, |exists| *exists).await.unwrap();
    fixture.machines.roll_out(DEPLOYMENT, ["a", "b"], "2.2.1").await.unwrap();
    fixture.until("Unknown", "ClusterIsElsewhere").await;
    until("the RuntimeClass is deleted", SOON, class, |exists| !*exists).await.unwrap();

    fixture.apply_profile(50).await;
    let second = fixture.machines.until_template(DEPLOYMENT, |name| name != first).await.unwrap();
    fixture.until_message("False", "Rotating", "web-md: 0 of 2 machines").await;
    fixture.machines.roll_out(DEPLOYMENT, ["c", "d"], "2.2.1").await.unwrap();
    fixture.until("Unknown", "ClusterIsElsewhere").await;

    fixture.apply_profile(60).await;
    let third = fixture.machines.until_template(DEPLOYMENT, |name| name != second).await.unwrap();
    fixture.until("False", "Rotating").await;
    fixture.machines.update_in_place(DEPLOYMENT).await.unwrap();
    fixture.until_two_machines_are_up_to_date().await;
    // A MachineSet without machines still refers to the former template.
    let names = fixture.machines.names("KubeadmConfigTemplate").await.unwrap();
    assert!(names.contains(&second) && names.contains(&third), "{names:?}");
    fixture.stop().await;
}

/// Nor is one that is paused or managed by a topology.
#[tokio::test]
async fn a_reference_that_another_client_changes_back_twice_is_not_switched_again() {
    let fixture = Fixture::start().await;
    allow(&fixture).await;
    let pause = |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    fixture.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &pause(json!(""))).await.unwrap();
    fixture.apply_pool(automatic()).await;
    let message = fixture.until("True", "RotationPending").await;
    assert!(message.contains("is paused"), "{message}");
    let cluster_paused = |value: Value| json!({"spec": {"paused": value}});
    fixture.machines.edit("Cluster", "prod", "gitops", &cluster_paused(json!(true))).await.unwrap();
    fixture.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &pause(Value::Null)).await.unwrap();
    fixture.cluster.until_idle().await.unwrap();
    assert_eq!(fixture.machines.template_of(DEPLOYMENT).await.unwrap(), BASE);

    let topology = |value: Value| json!({"metadata": {"labels": {"topology.cluster.x-k8s.io/owned": value}}});
    fixture.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &topology(json!(""))).await.unwrap();
    fixture.machines.edit("Cluster", "prod", "gitops", &cluster_paused(json!(false))).await.unwrap();
    let message = fixture.until("False", "TopologyManaged").await;
    assert!(message.contains("winpool render --target clusterclass-patch"), "{message}");
    fixture.cluster.until_idle().await.unwrap();
    assert_eq!(fixture.machines.template_of(DEPLOYMENT).await.unwrap(), BASE);
    fixture.machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &topology(Value::Null)).await.unwrap();

    // The owner changes the reference back twice.
    for _ in 0..2 {
        fixture.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
        fixture.machines.refer(DEPLOYMENT, BASE).await.unwrap();
    }
    let message = fixture.until("False", "ReferenceManagedElsewhere").await;
    assert!(message.contains("field manager gitops changed the reference of web-md"), "{message}");
    fixture.cluster.until_idle().await.unwrap();
    assert_eq!(fixture.machines.template_of(DEPLOYMENT).await.unwrap(), BASE);
    // Another template is another attempt.
    fixture.apply_profile(50).await;
    fixture.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    fixture.stop().await;
}

#[tokio::test]
async fn of_two_pools_that_select_a_machine_deployment_the_older_one_changes_it() {
    let fixture = Fixture::start().await;
    allow(&fixture).await;
    fixture.apply_pool(automatic()).await;
    let template = fixture.machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    fixture.cluster.until_younger_than(POOL).await.unwrap();
    let mut second = pool(json!({"rotation": "Automatic", "autoscaling": {"cpu": "4", "memory": "16Gi"}}));
    second["nodeSelector"]["matchLabels"]["agentpool"] = json!("second");
    fixture.cluster.apply_pool("second", second).await.unwrap();
    let conflict =
        fixture.cluster.until_condition("second", "MachinesTemplated", "False", "MachinesConflict").await.unwrap();
    assert!(conflict.message.contains("web-md (pool web)"), "{}", conflict.message);
    fixture.cluster.until_idle().await.unwrap();
    assert_eq!(fixture.machines.template_of(DEPLOYMENT).await.unwrap(), template);
    let annotations = fixture.machines.annotations("MachineDeployment", DEPLOYMENT).await.unwrap();
    assert!(!annotations.contains_key("winpool.dev/autoscaling"));
    // Without the older pool, the other one changes it.
    fixture.cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    fixture.machines.until_template(DEPLOYMENT, |name| name.starts_with("second-")).await.unwrap();
    fixture.cluster.until_condition("second", "MachinesTemplated", "True", "UpToDate").await.unwrap();
    fixture.stop().await;
}

/// The annotations of the autoscaler, by the last part of their key.
async fn capacity(fixture: &Fixture) -> anyhow::Result<Vec<(String, String)>> {
    let annotations = fixture.machines.annotations("MachineDeployment", DEPLOYMENT).await?;
    let key = |key: &str| key.strip_prefix("capacity.cluster-autoscaler.kubernetes.io/").map(str::to_owned);
    Ok(annotations.iter().filter_map(|(name, value)| Some((key(name)?, value.clone()))).collect())
}

/// Creates a MachinePool whose reference winpool may switch.
pub async fn create_machine_pool(fixture: &Fixture) {
    let spec = json!({
        "clusterName": "prod",
        "template": {"spec": {
            "clusterName": "prod",
            "version": "v1.34.2",
            "bootstrap": {"configRef": reference("bootstrap.cluster.x-k8s.io", "KubeadmConfig", "former")},
            "infrastructureRef": reference("infrastructure.cluster.x-k8s.io", "TestMachinePool", "windows"),
        }},
    });
    let metadata = json!({
        "labels": {"winpool": "web"}, "annotations": {"winpool.dev/manage-bootstrap": "true"},
    });
    fixture.machines.create("MachinePool", "web-mp", metadata, spec).await.unwrap();
}

#[tokio::test]
async fn a_machine_pool_gets_a_kubeadm_config_to_which_cluster_api_adds_the_discovery() {
    let fixture = Fixture::start().await;
    create_machine_pool(&fixture).await;
    let selector = json!({"matchLabels": {"winpool": "web"}});
    fixture.apply_pool(json!({"machineDeployments": null, "machinePools": selector, "rotation": "Automatic"})).await;
    fixture.until("True", "UpToDate").await;
    let group = fixture.group().await;
    assert_eq!((group.name.as_str(), &group.current), ("web-mp", &group.template));
    let config = fixture.machines.api("KubeadmConfig").get(&group.template).await.unwrap();
    assert_eq!(config.data["spec"]["joinConfiguration"]["patches"]["directory"], "C:/k/winpool/patches");

    let discovery = json!({"spec": {"joinConfiguration": {"discovery": {"bootstrapToken": {
        "token": "abcdef.0123456789abcdef", "apiServerEndpoint": "prod.example:6443", "unsafeSkipCAVerification": true,
    }}}}});
    fixture.machines.edit("KubeadmConfig", &group.template, "manager", &discovery).await.unwrap();
    fixture.cluster.until_idle().await.unwrap();
    fixture.until("True", "UpToDate").await;
    fixture.apply_profile(50).await;
    let changed = async || Ok(fixture.group().await.current);
    until("another KubeadmConfig", SOON, changed, |name| *name != group.template).await.unwrap();
    fixture.stop().await;
}

#[tokio::test]
async fn a_pool_reports_what_it_would_write_and_its_deletion_with_cleanup_keeps_templates_in_use() {
    let fixture = Fixture::start().await;
    let mut spec = pool(json!({"autoscaling": {"cpu": "4", "memory": "16Gi"}}));
    spec["mode"] = json!("Observe");
    fixture.cluster.apply_pool(POOL, spec.clone()).await.unwrap();
    fixture.until("False", "Observing").await;
    assert_eq!(fixture.machines.names("KubeadmConfigTemplate").await.unwrap(), [BASE]);
    let first = fixture.cluster.status(POOL).await.unwrap().pending.first;
    assert!(first.iter().any(|change| change.starts_with("KubeadmConfigTemplate default/web-")), "{first:?}");

    spec["mode"] = json!("Enforce");
    spec["deletionPolicy"] = json!("Cleanup");
    fixture.cluster.apply_pool(POOL, spec).await.unwrap();
    fixture.until("True", "RotationPending").await;
    let template = fixture.group().await.template;
    fixture.machines.refer(DEPLOYMENT, &template).await.unwrap();
    fixture.until("True", "UpToDate").await;
    fixture.cluster.pools().delete(POOL, &DeleteParams::default()).await.unwrap();
    fixture.cluster.until_pool_gone(POOL).await.unwrap();
    assert_eq!(capacity(&fixture).await.unwrap(), []);
    let names = fixture.machines.names("KubeadmConfigTemplate").await.unwrap();
    assert_eq!(names, [BASE.to_owned(), template]);
    fixture.stop().await;
}
