//! The versions of Cluster API's resources, and its installation and removal while the operator runs.

use e2e::{
    cluster::Cluster,
    cluster_api::{Machines, install_cluster_api, install_cluster_api_permissions, uninstall_cluster_api},
};
use serde_json::json;
use winpool_facts::cluster_api::VERSION;

use super::{BASE, DEPLOYMENT, Fixture, POOL, base, pool};

/// What the operator writes is stored without a loss, and machines are replaced once.
#[tokio::test]
async fn templates_are_stored_without_a_loss_and_the_operator_that_follows_writes_nothing() {
    let fixture = Fixture::start().await;
    fixture.apply_pool(json!({"autoscaling": {"cpu": "4", "memory": "16Gi"}})).await;
    let message = fixture.until("True", "RotationPending").await;
    let group = fixture.group().await;
    assert!(message.contains(&group.template) && group.current == BASE, "{message}");
    stored_completely(&fixture.machines, &group.template).await;

    fixture.machines.refer(DEPLOYMENT, &group.template).await.unwrap();
    fixture.until("True", "UpToDate").await;
    fixture.machines.roll_out(DEPLOYMENT, ["win-1", "win-2"], "2.2.1").await.unwrap();
    fixture.until("Unknown", "ClusterIsElsewhere").await;
    fixture.until_two_machines_are_up_to_date().await;
    let Fixture { cluster, operator, .. } = fixture;
    cluster.until_idle().await.unwrap();
    operator.stop().await.unwrap();

    let before = cluster.writes().unwrap().len();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.until_idle().await.unwrap();
    assert_eq!(cluster.writes().unwrap().split_off(before), []);
    cluster.nothing_was_forbidden().unwrap();
    operator.stop().await.unwrap();
}

/// The template has the patch, the merged taints and arguments, and everything of the base.
async fn stored_completely(machines: &Machines, template: &str) {
    let stored = machines.api("KubeadmConfigTemplate").get(template).await.unwrap().data;
    let (spec, base) = (&stored["spec"]["template"]["spec"], &base()["template"]["spec"]);
    let paths: Vec<_> = spec["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    let expected = [
        "c:/k/azure.json",
        "C:/k/winpool/patches/kubeletconfiguration0+merge.yaml",
        "C:/Program Files/containerd/conf.d/50-winpool.toml",
        "C:/k/winpool/containerd.ps1",
        "C:/k/winpool/kubelet.ps1",
    ];
    assert_eq!(paths, expected);
    assert_eq!((&spec["files"][0], &spec["users"]), (&base["files"][0], &base["users"]));
    assert_eq!(spec["joinConfiguration"]["patches"]["directory"], "C:/k/winpool/patches");
    let registration = &spec["joinConfiguration"]["nodeRegistration"];
    assert_eq!(registration["name"], base["joinConfiguration"]["nodeRegistration"]["name"]);
    assert_eq!(registration["taints"], json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]));
    let arguments = json!([
        {"name": "cloud-provider", "value": "external"},
        {"name": "node-labels", "value": "agentpool=web"},
        {
            "name": "register-with-taints",
            "value": "os=windows:NoSchedule,node.cluster.x-k8s.io/uninitialized=:NoSchedule",
        },
        {"name": "windows-priorityclass", "value": "ABOVE_NORMAL_PRIORITY_CLASS"},
    ]);
    assert_eq!(registration["kubeletExtraArgs"], arguments);
}

#[tokio::test]
async fn cluster_api_may_be_installed_removed_and_too_old_while_the_operator_runs() {
    let cluster = Cluster::start().await.unwrap();
    install_cluster_api_permissions(&cluster.control_plane).unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_profile("standard", json!({})).await.unwrap();
    cluster.apply_pool(POOL, pool(json!({}))).await.unwrap();
    cluster.until_condition(POOL, "MachinesTemplated", "False", "ClusterAPINotInstalled").await.unwrap();
    for (summary, status) in [("Ready", "False"), ("Reconciling", "True")] {
        cluster.until_condition(POOL, summary, status, "ClusterAPINotInstalled").await.unwrap();
    }

    install_cluster_api(&cluster.control_plane, VERSION).await.unwrap();
    cluster.until_condition(POOL, "MachinesTemplated", "False", "ClusterNotFound").await.unwrap();
    let machines = Machines::new(cluster.client.clone());
    machines.create_cluster().await.unwrap();
    let none = cluster.until_condition(POOL, "MachinesTemplated", "False", "NoMachinesSelected").await.unwrap();
    assert!(none.message.contains("winpool=web matches no MachineDeployment of cluster prod"), "{}", none.message);
    machines.create_deployment(DEPLOYMENT, json!({"winpool": POOL}), "v1.34.2", BASE).await.unwrap();
    let missing = cluster.until_condition(POOL, "MachinesTemplated", "False", "TemplateInvalid").await.unwrap();
    assert!(missing.message.contains("there is no KubeadmConfigTemplate base-windows"), "{}", missing.message);
    for (summary, status) in [("Ready", "False"), ("Stalled", "True")] {
        cluster.until_condition(POOL, summary, status, "TemplateInvalid").await.unwrap();
    }
    machines.create("KubeadmConfigTemplate", BASE, json!({}), base()).await.unwrap();
    cluster.until_condition(POOL, "MachinesTemplated", "True", "RotationPending").await.unwrap();
    cluster.until_ready(POOL).await.unwrap();

    uninstall_cluster_api(&cluster.control_plane).unwrap();
    cluster.until_condition(POOL, "MachinesTemplated", "False", "ClusterAPINotInstalled").await.unwrap();

    // Cluster API up to 1.10 serves v1beta1 alone.
    install_cluster_api(&cluster.control_plane, "v1beta1").await.unwrap();
    let older = cluster.until_condition(POOL, "MachinesTemplated", "False", "ContractUnsupported").await.unwrap();
    let expected = "winpool needs Cluster API's resources in v1beta2, and the cluster serves only bootstrap.cluster.x-k8s.io/v1beta1, \
                    cluster.x-k8s.io/v1beta1. Upgrade Cluster API to 1.11 or later";
    assert_eq!(older.message, expected);
    for (summary, status) in [("Ready", "False"), ("Stalled", "True")] {
        cluster.until_condition(POOL, summary, status, "ContractUnsupported").await.unwrap();
    }
    operator.stop().await.unwrap();
}
