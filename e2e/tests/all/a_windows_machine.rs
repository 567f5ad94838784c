//! A Windows machine of Cluster API: from a profile through the controllers, user data, cloudbase-init and `kubeadm.exe` to a node that
//! registers as its profile says.

use crate::{
    a_windows_node::{amount, condition, until_node},
    agent_programs::stripped_programs,
    cluster_api::{BASE, DEPLOYMENT, POOL, base, end_to_end::start_controllers, pool, references::allow},
};
use e2e::{
    cluster::SOON,
    cluster_api::{controllers::create_cluster, provider},
    control_plane::Options,
    history::History,
    wait::until,
    windows_node::{Invitation, Setup, WindowsNode},
};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::json;

/// The name that cloudbase-init gives to the machine.
const NODE: &str = "web-1";

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_of_cluster_api_joins_as_its_profile_says() {
    let (fixture, _controllers) = start_controllers(Options { bootstrap: true, ..Options::default() }).await;
    let (cluster, machines) = (&fixture.cluster, &fixture.machines);
    let profile = json!({"kubelet": {
        "systemReserved": {"memory": "2Gi"},
        // No pressure, however full the disk of this machine is.
        "evictionHard": {"memory.available": "500Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "maxPods": 47,
    }});
    cluster.apply_profile("standard", profile).await.unwrap();
    let mut base = base();
    let spec = &mut base["template"]["spec"];
    // Wine shows no token of an administrator, and the kubelet has another port.
    spec["joinConfiguration"]["nodeRegistration"]["ignorePreflightErrors"] = json!(["IsPrivilegedUser", "Port-10250"]);
    spec.as_object_mut().unwrap().remove("files");
    machines.create("KubeadmConfigTemplate", BASE, json!({}), base).await.unwrap();
    // The configuration of the cluster that kubeadm reads; the token is that of the Machine.
    Invitation::new(&cluster.control_plane, &json!({"maxPods": 250})).unwrap();
    let version = &cluster.control_plane.version().text;
    create_cluster(cluster, version).await.unwrap();
    machines.create_deployment(DEPLOYMENT, json!({"winpool": POOL}), version, BASE).await.unwrap();
    machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &json!({"spec": {"replicas": 0}})).await.unwrap();
    allow(&fixture).await;
    cluster.apply_pool(POOL, pool(json!({"rotation": "Automatic", "containerdVersion": "2.4"}))).await.unwrap();
    machines.until_template(DEPLOYMENT, |name| name != BASE).await.unwrap();
    machines.edit("MachineDeployment", DEPLOYMENT, "gitops", &json!({"spec": {"replicas": 1}})).await.unwrap();
    let wanted = || provider::wanted_machines(&cluster.client);
    let wanted = until("a machine has user data", SOON, wanted, |wanted| wanted.len() == 1).await.unwrap();

    let setup = Setup::new(stripped_programs(), NODE, POOL);
    let nodes = History::<Node>::start(cluster.nodes()).await.unwrap();
    let started = WindowsNode::start_with_user_data(&cluster.control_plane, &setup, &wanted[0].user_data).await;
    let (_machine, printed) = started.unwrap();
    assert!(printed.contains("This node has joined the cluster"), "{printed}");

    let node = until_node(cluster, NODE, "it is ready", |node| condition(node, "Ready") == "True").await;
    provider::report_running(&cluster.client, &wanted[0].name, NODE).await.unwrap();
    let status = node.status.as_ref().unwrap();
    assert_eq!(amount(status.allocatable.as_ref(), "pods").milli(), 47_000);
    let states = nodes.until_now().await.unwrap();
    let born = states.iter().find(|node| node.name_any() == NODE).unwrap();
    let mut taints: Vec<_> =
        born.spec.as_ref().unwrap().taints.iter().flatten().map(|taint| taint.key.as_str()).collect();
    taints.sort_unstable();
    let of_kubelet = ["node.cloudprovider.kubernetes.io/uninitialized", "node.cluster.x-k8s.io/uninitialized", "os"];
    assert!(of_kubelet.iter().all(|key| taints.iter().filter(|taint| taint == &key).count() == 1), "{taints:?}");
    assert_eq!(born.labels()["agentpool"], POOL);

    let expected = ("1/1".to_owned(), Some((1, 1)));
    until("the node counts as configured", SOON, || fixture.configured(), |found| *found == expected).await.unwrap();
    fixture.operator.stop().await.unwrap();
}
