//! An infrastructure provider whose machines are whatever a test makes of their user data: simulated nodes, or a node under Wine.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Node, Secret, Taint},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersion,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use winpool_facts::cluster_api::VERSION;

use super::NAMESPACE;
use crate::{
    cluster,
    kubelet::{KubeletConfiguration, Kubelets, SimulatedNode},
    progress::say,
};

pub(super) const GROUP: &str = "infrastructure.cluster.x-k8s.io";
pub(super) const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
const POLL: Duration = Duration::from_millis(200);

/// Its kinds. Cluster API finds their version by the label of its contract.
const KINDS: [(&str, &str); 7] = [
    ("TestCluster", GROUP),
    ("TestClusterTemplate", GROUP),
    ("TestControlPlane", CONTROL_PLANE_GROUP),
    ("TestControlPlaneTemplate", CONTROL_PLANE_GROUP),
    ("TestMachine", GROUP),
    ("TestMachinePool", GROUP),
    ("TestMachineTemplate", GROUP),
];

/// Their CustomResourceDefinitions, which accept every field.
pub(super) fn definitions() -> impl Iterator<Item = Value> {
    KINDS.into_iter().map(|(kind, group)| {
        let singular = kind.to_lowercase();
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{singular}s.{group}"), "labels": {format!("cluster.x-k8s.io/{VERSION}"): VERSION},
            },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {
                    "kind": kind, "listKind": format!("{kind}List"), "plural": format!("{singular}s"), "singular": singular,
                },
                "versions": [{
                    "name": VERSION, "served": true, "storage": true, "schema": {"openAPIV3Schema": any},
                    "subresources": {"status": {}},
                }],
            },
        })
    })
}

fn group_of(kind: &str) -> &'static str {
    KINDS.iter().find(|(name, _)| *name == kind).map_or(GROUP, |(_, group)| group)
}

/// The objects of one of its kinds.
pub fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersion::gv(group_of(kind), VERSION).with_kind(kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// Creates an object of one of its kinds.
pub async fn create(client: &Client, kind: &str, name: &str, spec: Value) -> Result<()> {
    let api_version = format!("{}/{VERSION}", group_of(kind));
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    cluster::create(&api(client, kind), object).await.map(drop)
}

/// Sets the status of an object of one of its kinds.
pub async fn set_status(client: &Client, kind: &str, name: &str, status: &Value) -> Result<()> {
    api(client, kind).patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    Ok(())
}

/// Reports that every control plane runs in this version and is managed elsewhere, and that the infrastructure of every cluster exists.
pub async fn report_clusters(client: &Client, version: &str) -> Result<()> {
    let control_plane = json!({
        "externalManagedControlPlane": true, "version": version, "initialization": {"controlPlaneInitialized": true},
    });
    let infrastructure = json!({"initialization": {"provisioned": true}});
    for (kind, status) in [("TestControlPlane", control_plane), ("TestCluster", infrastructure)] {
        for object in api(client, kind).list_metadata(&ListParams::default()).await? {
            set_status(client, kind, &object.name_any(), &status).await?;
        }
    }
    Ok(())
}

/// A machine that Cluster API wants, with what it starts with.
#[derive(Clone, Debug)]
pub struct WantedMachine {
    /// The name of its Machine.
    pub name: String,
    pub user_data: String,
}

/// The machines that have user data and do not run yet.
pub async fn wanted_machines(client: &Client) -> Result<Vec<WantedMachine>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = Vec::new();
    for machine in api(client, "TestMachine").list(&ListParams::default()).await? {
        let runs = machine.data.pointer("/status/initialization/provisioned").is_some();
        // The Machine, its infrastructure and its Secret have the same name.
        let name = machine.name_any();
        if runs || machine.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let data = secrets.get_opt(&name).await?.and_then(|secret| secret.data?.remove("value"));
        if let Some(ByteString(user_data)) = data {
            wanted.push(WantedMachine { name, user_data: String::from_utf8(user_data)? });
        }
    }
    Ok(wanted)
}

/// Reports that a machine runs as this Node, as an infrastructure provider and the cloud provider of the cluster do.
pub async fn report_running(client: &Client, machine: &str, node: &str) -> Result<()> {
    let id = json!({"spec": {"providerID": format!("test:///{machine}")}});
    cluster::edit(&Api::<Node>::all(client.clone()), node, id.clone()).await?;
    cluster::edit(&api(client, "TestMachine"), machine, id).await?;
    set_status(client, "TestMachine", machine, &json!({"initialization": {"provisioned": true}})).await
}

/// Reports that the machines of a TestMachinePool run as these Nodes.
pub async fn report_pool_running(client: &Client, pool: &str, nodes: &[&str]) -> Result<()> {
    let ids: Vec<_> = nodes.iter().map(|node| format!("test:///{node}")).collect();
    for (node, id) in nodes.iter().zip(&ids) {
        cluster::edit(&Api::<Node>::all(client.clone()), node, json!({"spec": {"providerID": id}})).await?;
    }
    cluster::edit(&api(client, "TestMachinePool"), pool, json!({"spec": {"providerIDList": ids}})).await?;
    let status = json!({"initialization": {"provisioned": true}, "replicas": nodes.len()});
    set_status(client, "TestMachinePool", pool, &status).await
}

/// Makes a simulated node of every machine, as its user data describes it. It ends when this is dropped.
#[derive(Debug)]
pub struct SimulatedMachines(JoinHandle<()>);

impl SimulatedMachines {
    /// `like` has what the user data does not decide.
    pub fn start(client: Client, kubelets: Arc<Kubelets>, like: SimulatedNode) -> Self {
        Self(tokio::spawn(async move {
            loop {
                if let Err(error) = run_wanted(&client, &kubelets, &like).await {
                    say(format_args!("simulated machines: {error:#}"));
                }
                tokio::time::sleep(POLL).await;
            }
        }))
    }
}

impl Drop for SimulatedMachines {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run_wanted(client: &Client, kubelets: &Kubelets, like: &SimulatedNode) -> Result<()> {
    for WantedMachine { name, user_data } in wanted_machines(client).await? {
        let (node, configuration) = simulated_node(&user_data, like.clone())?;
        kubelets.add_with(SimulatedNode { name: name.clone(), ..node }, configuration).await?;
        report_running(client, &name, &name).await?;
    }
    Ok(())
}

/// The node of a machine with this user data, and the configuration of its kubelet. `like` has what the user data does not decide.
pub fn simulated_node(user_data: &str, mut like: SimulatedNode) -> Result<(SimulatedNode, KubeletConfiguration)> {
    let started = UserData::parse(user_data)?;
    like.labels.extend(started.labels()?);
    let mut configuration = started.kubelet()?;
    configuration.register_with_taints.extend(started.taints()?);
    Ok((like, configuration))
}

/// The user data of a machine, as far as it decides how its node registers.
#[derive(Debug, Deserialize)]
struct UserData {
    write_files: Vec<File>,
}

#[derive(Debug, Deserialize)]
struct File {
    path: String,
    content: String,
}

impl UserData {
    fn parse(text: &str) -> Result<Self> {
        serde_saphyr::from_str(text).with_context(|| format!("user data:\n{text}"))
    }

    fn file(&self, end: &str) -> Result<&str> {
        let found = self.write_files.iter().find(|file| file.path.ends_with(end));
        found.map(|file| file.content.as_str()).with_context(|| format!("no file {end} in {:?}", self.paths()))
    }

    fn paths(&self) -> Vec<&str> {
        self.write_files.iter().map(|file| file.path.as_str()).collect()
    }

    /// The partial KubeletConfiguration, which only a template of winpool has.
    fn kubelet(&self) -> Result<KubeletConfiguration> {
        self.file("kubeletconfiguration0+merge.yaml")
            .map_or_else(|_| Ok(KubeletConfiguration::default()), KubeletConfiguration::parse)
    }

    /// The field `nodeRegistration` for kubeadm.
    fn registration(&self) -> Result<Value> {
        let mut join: Value = serde_saphyr::from_str(self.file("kubeadm-join-config.yaml")?)?;
        Ok(join["nodeRegistration"].take())
    }

    fn taints(&self) -> Result<Vec<Taint>> {
        let taints = self.registration()?["taints"].take();
        Ok(serde_json::from_value::<Option<_>>(taints)?.unwrap_or_default())
    }

    fn labels(&self) -> Result<Vec<(String, String)>> {
        let registration = self.registration()?;
        let mut arguments = registration["kubeletExtraArgs"].as_array().into_iter().flatten();
        let labels = arguments.find(|argument| argument["name"] == "node-labels");
        let labels = labels.and_then(|argument| argument["value"].as_str()).unwrap_or_default();
        let pairs = labels.split(',').filter_map(|label| label.split_once('='));
        Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }
}
