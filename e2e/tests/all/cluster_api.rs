//! Machines of Cluster API: its real CustomResourceDefinitions on the real API server, and simulated controllers.

pub mod end_to_end;
mod permissions;
pub mod references;
mod templates;
mod user_data;
mod versions;

use anyhow::Result;
use e2e::{
    cluster::{Cluster, SOON, with_fields},
    cluster_api::{CLUSTER, Machines, NAMESPACE},
    control_plane::Options,
    operator::Operator,
    wait::until,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use winpool_api::{ClusterApiStatus, MachineGroupStatus};

pub const POOL: &str = "web";
/// The MachineDeployment of the pool.
pub const DEPLOYMENT: &str = "web-md";
/// The template of the platform team.
pub const BASE: &str = "base-windows";

/// A cluster with Cluster API, an operator, a profile, and a MachineDeployment that refers to the template of the platform
/// team.
pub struct Fixture {
    pub cluster: Cluster,
    pub machines: Machines,
    pub operator: Operator,
}

impl Fixture {
    async fn start() -> Self {
        let options = Options { cluster_api: true, ..Options::api_server_only() };
        let cluster = Cluster::start_with(options).await.unwrap();
        let machines = Machines::new(cluster.client.clone());
        machines.create_cluster().await.unwrap();
        machines.create("KubeadmConfigTemplate", BASE, json!({}), base()).await.unwrap();
        machines.create_deployment(DEPLOYMENT, json!({"winpool": POOL}), "v1.34.2", BASE).await.unwrap();
        let operator = cluster.start_operator(&[], &[]).await.unwrap();
        let fixture = Self { cluster, machines, operator };
        fixture.apply_profile(110).await;
        fixture
    }

    /// Limits the pods of a node, which changes the template.
    async fn apply_profile(&self, max_pods: u32) {
        self.cluster.apply_profile("standard", json!({"kubelet": {"maxPods": max_pods}})).await.unwrap();
    }

    /// Applies the pool with these fields of `clusterAPI`.
    async fn apply_pool(&self, fields: Value) {
        self.cluster.apply_pool(POOL, pool(fields)).await.unwrap();
    }

    /// Waits for a status and reason of `MachinesTemplated`, and returns the message.
    async fn until(&self, status: &str, reason: &str) -> String {
        self.cluster.until_condition(POOL, "MachinesTemplated", status, reason).await.unwrap().message
    }

    /// Waits until the condition has this status and reason, and a message with this part.
    async fn until_message(&self, status: &str, reason: &str, part: &str) {
        let read = || self.cluster.condition(POOL, "MachinesTemplated");
        let holds = |now: &Condition| now.status == status && now.reason == reason && now.message.contains(part);
        until(&format!("{reason}: {part}"), SOON, read, holds).await.unwrap();
    }

    /// The column CONFIGURED of the pool, and how many of its machines are up to date.
    pub async fn configured(&self) -> Result<(String, Option<(u32, u32)>)> {
        let status = self.cluster.status(POOL).await?;
        Ok((status.columns.configured, status.cluster_api.map(|of| (of.machines, of.up_to_date))))
    }

    /// The MachineDeployment in the status.
    async fn group(&self) -> MachineGroupStatus {
        let ClusterApiStatus { groups, .. } = self.cluster.status(POOL).await.unwrap().cluster_api.unwrap();
        let [group] = &groups[..] else { panic!("{groups:?}") };
        group.clone()
    }

    async fn until_two_machines_are_up_to_date(&self) {
        let counts = async || {
            let group = self.group().await;
            Ok((group.machines, group.up_to_date))
        };
        until("two machines are up to date", SOON, counts, |counts| *counts == (2, 2)).await.unwrap();
    }

    /// Waits until the operator writes nothing, and ends it.
    async fn stop(self) {
        self.cluster.until_idle().await.unwrap();
        self.cluster.nothing_was_forbidden().unwrap();
        self.operator.stop().await.unwrap();
    }
}

/// The spec of a pool with these fields of `clusterAPI`.
pub fn pool(fields: Value) -> Value {
    let rules = json!({
        "namespace": NAMESPACE,
        "clusterName": CLUSTER,
        "machineDeployments": {"matchLabels": {"winpool": POOL}},
        "templateFrom": {"name": BASE},
        "containerdVersion": "2.2",
    });
    json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": {"matchLabels": {"agentpool": POOL}},
        "profileRef": {"name": "standard"},
        "delivery": {"method": "ClusterAPI", "clusterAPI": with_fields(rules, fields)},
    })
}

/// A template in the shape of those of Cluster API's provider for Azure.
pub fn base() -> Value {
    let taint = "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule";
    json!({"template": {"spec": {
        "files": [{
            "path": "c:/k/azure.json", "owner": "root:root", "permissions": "0644",
            "contentFrom": {"secret": {"name": "azure-json", "key": "worker-node-azure.json"}},
        }],
        "joinConfiguration": {"nodeRegistration": {
            "criSocket": "npipe:////./pipe/containerd-containerd",
            "name": "{{ ds.meta_data[\"local_hostname\"] }}",
            "kubeletExtraArgs": [
                {"name": "cloud-provider", "value": "external"},
                {"name": "register-with-taints", "value": taint},
            ],
        }},
        "preKubeadmCommands": ["powershell C:/defender-exclude-calico.ps1"],
        "users": [{"name": "capi", "groups": "Administrators", "sshAuthorizedKeys": ["ssh-ed25519 AAAA"]}],
    }}})
}
