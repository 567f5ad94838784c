//! The status of a `WindowsNodePool`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{conditions::ConditionType, schema};

/// The observed state of a pool.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WindowsNodePoolStatus {
    /// The generation of the spec that this status is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The build of spec.windowsVersion, such as 10.0.20348.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub windows_build: String,
    /// Counts of the pool's nodes.
    #[serde(default)]
    pub nodes: NodeCounts,
    /// The Windows builds of the nodes; empty if all run that of the pool in one revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub builds: Vec<BuildCount>,
    /// The kubelet versions of the nodes, newest first; empty if all are the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub kubelets: Vec<KubeletCount>,
    /// The RuntimeClasses that the pool names, each with its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub runtime_classes: Vec<RuntimeClassStatus>,
    /// The rendered variants: one for each combination of kubelet minor, container runtime minor and build. Empty if all nodes
    /// run the only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub configs: Vec<ConfigStatus>,
    /// The machines and their templates, with delivery.method ClusterAPI.
    #[serde(default, rename = "clusterAPI", skip_serializing_if = "Option::is_none")]
    pub cluster_api: Option<ClusterApiStatus>,
    /// What would change, with mode Observe; and what a new version of winpool renders otherwise, and existing nodes and
    /// machines keep.
    #[serde(default, skip_serializing_if = "Pending::is_empty")]
    pub pending: Pending,
    /// A digest of the last selector that has matched a Windows node. A pool without nodes that has it is scaled to zero.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub matched_selector: String,
    /// Since when the selector matches no Windows node, if it has never matched one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmatched_since: Option<Time>,
    /// Every key that this pool has set on nodes. The operator removes no other key.
    #[serde(default, skip_serializing_if = "Applied::is_empty")]
    pub applied: Applied,
    /// Counts of the pods on the nodes of the pool, or waiting for them; absent without pods, or when workloads are not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<WorkloadCounts>,
    /// The conditions; Ready comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::pool_conditions")]
    pub conditions: Vec<Condition>,
    /// The cells of kubectl get.
    #[serde(default)]
    pub columns: Columns,
    /// The number of entries that a list of this status omits because there are too many, by the path of the list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "omitted")]
    pub omitted: BTreeMap<String, u32>,
}

impl WindowsNodePoolStatus {
    /// The condition of a type.
    pub fn condition(&self, of: &ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == of.name)
    }
}

/// Whether a number is not written.
#[allow(clippy::trivially_copy_pass_by_ref)] // the signature of serde
pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn omitted(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": {"type": "integer", "format": "int32", "minimum": 0},
    })
}

/// Counts of the pods on the nodes of a pool, or waiting for them. What is 0 is not written.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadCounts {
    /// The number of pods on the nodes of the pool, and of those that wait for one of them.
    pub pods: u32,
    /// Of these, pods with an image that cannot run there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cannot_run: u32,
    /// Of these, pods with an image that cannot run there according to its name.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suspected: u32,
    /// Of these, pods with an image whose platforms are not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u32,
    /// Of these, pods with an image whose base is more updates behind than spec.maxImageUpdatesBehind of the profile allows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub updates_behind: u32,
    /// How many of the pods use each RuntimeClass; empty if all use the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub runtime_classes: Vec<RuntimeClassUse>,
}

/// How many pods use a RuntimeClass.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeClassUse {
    /// The RuntimeClass that the pods name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The pods that were created with it.
    pub pods: u32,
}

/// Counts of a pool's nodes. Problems are counted only where there are any.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes that belong to the pool.
    pub matched: u32,
    /// Of these, nodes that are Ready.
    pub ready: u32,
    /// Of these, nodes that have the labels and taints of the pool.
    pub tainted: u32,
    /// Of these, nodes that are proven to run their configuration.
    pub configured: u32,
    /// Of these, nodes whose Windows build differs from the pool.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mismatched: u32,
    /// Of these, nodes whose kubelet is outside the version skew policy.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skewed: u32,
    /// Of these, nodes whose reported resources differ from their configuration.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub behind: u32,
    /// Nodes that other pools match as well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contested: u32,
    /// Nodes with pending changes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pending: u32,
}

/// How many nodes have a Windows build.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct BuildCount {
    /// The build, such as 10.0.20348.
    #[schemars(length(max = 64))]
    pub build: String,
    /// The lowest and highest revision, such as 4529..4648.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub revisions: String,
    /// The number of nodes of the pool with this version.
    pub nodes: u32,
}

/// How many nodes run a kubelet version.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct KubeletCount {
    /// The version, such as v1.34.2.
    #[schemars(length(max = 64))]
    pub version: String,
    /// The number of nodes of the pool with this version.
    pub nodes: u32,
}

/// The state of a RuntimeClass.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct RuntimeClassStatus {
    /// The name of the RuntimeClass, such as windows-ltsc2022.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Whether it is as specified.
    pub state: RuntimeClassState,
}

/// Whether a RuntimeClass is as specified.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // mostly the reasons of RuntimeClassReady
pub enum RuntimeClassState {
    Applied,
    /// It was not created by winpool, and is as specified.
    Found,
    /// It will be written.
    Pending,
    NotOurs,
    NameTaken,
    HandlerDiffers,
    /// It is not for Windows, by its handler, its selector or its pods.
    NotForWindows,
    WouldStrand,
    Contested,
    /// No pool specifies it any more. It is kept for pods that use it.
    Unused,
}

/// A rendered variant.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// The name of the ConfigMap with the files, such as web-2022-3f9a1c0d2e.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The kubelet minors that it is for, such as 1.34.
    #[schemars(length(max = 64))]
    pub kubelet: String,
    /// The container runtime versions that it is for: containerd minors such as 2.1, or docker.
    #[schemars(length(max = 64))]
    pub containerd: String,
    /// The Windows builds that it is for, such as 10.0.20348.
    #[schemars(length(max = 128))]
    pub build: String,
    /// The number of nodes that should run it.
    pub wanted: u32,
    /// The number of nodes whose reported resources show that they do.
    pub in_effect: u32,
}

/// The machines of Cluster API that become nodes of a pool.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClusterApiStatus {
    /// The namespace of its objects: objects elsewhere with the label of the pool are not its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// The number of machines in all groups, in any state.
    pub machines: u32,
    /// Of these, machines that were created from the current template.
    pub up_to_date: u32,
    /// The selected MachineDeployments or MachinePools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub groups: Vec<MachineGroupStatus>,
}

/// A MachineDeployment or MachinePool.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MachineGroupStatus {
    /// The name of the MachineDeployment or MachinePool.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The Kubernetes minor of its machines, such as 1.36.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub kubernetes: String,
    /// The template that it should refer to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub template: String,
    /// The template that it refers to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub current: String,
    /// The template to refer to when its version becomes the next minor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NextTemplate>,
    /// The number of its machines, in any state.
    pub machines: u32,
    /// Of these, machines that were created from the template that it should refer to.
    pub up_to_date: u32,
    /// How often winpool has switched it to the template that it should refer to.
    #[serde(default)]
    pub switches: u32,
}

/// The template for the next Kubernetes minor.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct NextTemplate {
    /// The minor, such as 1.37.
    #[schemars(length(max = 32))]
    pub kubernetes: String,
    /// The name of the KubeadmConfigTemplate or KubeadmConfig.
    #[schemars(length(max = 253))]
    pub template: String,
}

/// Changes that are not written.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The number of changes.
    pub count: u32,
    /// The first five, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::short_texts")]
    pub first: Vec<String>,
}

impl Pending {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Every key that a pool has set on nodes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    /// Taints, as key:Effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "applied_keys")]
    pub taints: Vec<String>,
    /// Keys of labels that the pool has set, such as team.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "applied_keys")]
    pub labels: Vec<String>,
    /// Taints of the spec that the pool has begun to set, as key=value:Effect. They are set on new nodes too, without
    /// another check of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "applied_keys")]
    pub taint_values: Option<Vec<String>>,
}

impl Applied {
    /// Whether the pool has set nothing.
    pub fn is_empty(&self) -> bool {
        self.taints.is_empty() && self.labels.is_empty() && self.taint_values.is_none()
    }
}

fn applied_keys(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 340},
    })
}

/// The cells of `kubectl get`.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Columns {
    /// Ready nodes / nodes of the pool, such as 11/12.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub nodes: String,
    /// Tainted nodes / nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub tainted: String,
    /// Configured nodes / nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub configured: String,
    /// The kubelet version, or the lowest and highest.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub kubelet: String,
    /// The worst reason with its count, Paused, or -.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub problem: String,
    /// The names of the RuntimeClasses.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub runtime_class: String,
    /// The day on which Microsoft ends the support of this Windows.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub support: String,
}
