//! `WindowsNodePool`: which nodes, which Windows, which rules.

mod status;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::status::{
    Applied, BuildCount, ClusterApiStatus, Columns, ConfigStatus, KubeletCount, MachineGroupStatus, NextTemplate,
    NodeCounts, Pending, RuntimeClassState, RuntimeClassStatus, RuntimeClassUse, WindowsNodePoolStatus, WorkloadCounts,
};
use super::{
    delivery::Delivery,
    pattern::{HANDLER, OBJECT_NAME},
    schema::{self, QuantityText},
    selector::{LABEL_KEYS, LabelSelector, label_keys_rule},
    taint::{Taint, TaintEffect},
    toleration::Toleration,
};
use winpool_facts::builds;

/// A set of Windows nodes that run one Windows version with one configuration.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "winpool.dev",
    version = "v1alpha1",
    kind = "WindowsNodePool",
    plural = "windowsnodepools",
    singular = "windowsnodepool",
    shortname = "wnp",
    category = "windows",
    status = "WindowsNodePoolStatus",
    derive = "PartialEq",
    doc = "A set of Windows nodes that run one Windows version with one configuration.",
    validation = Rule::new("self.metadata.name.size() <= 63").message("metadata.name becomes a label value on the nodes: write at most 63 characters"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.columns.nodes", description = "ready nodes / nodes of the pool"),
    printcolumn(name = "Tainted", type_ = "string", json_path = ".status.columns.tainted", description = "nodes with the labels and taints of the pool / nodes of the pool"),
    printcolumn(name = "Configured", type_ = "string", json_path = ".status.columns.configured", description = "nodes that are proven to run their configuration / nodes of the pool"),
    printcolumn(name = "Windows", type_ = "string", json_path = ".status.windowsBuild"),
    printcolumn(name = "Kubelet", type_ = "string", json_path = ".status.columns.kubelet"),
    printcolumn(name = "Support", type_ = "string", json_path = ".status.columns.support", description = "the day on which Microsoft ends the support of this Windows"),
    printcolumn(name = "Problem", type_ = "string", json_path = ".status.columns.problem", description = "the worst reason, with the number of nodes or objects"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Profile", type_ = "string", json_path = ".spec.profileRef.name", priority = 1),
    printcolumn(name = "RuntimeClass", type_ = "string", json_path = ".status.columns.runtimeClass", priority = 1),
    printcolumn(name = "Skewed", type_ = "integer", json_path = ".status.nodes.skewed", priority = 1, description = "nodes whose kubelet is outside the version skew policy"),
    printcolumn(name = "Mismatched", type_ = "integer", json_path = ".status.nodes.mismatched", priority = 1, description = "nodes whose Windows build differs from the pool"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1)
)]
#[x_kube(
    validation = Rule::new("has(self.nodeSelector) != (has(self.fallback) && self.fallback)")
        .message("write either spec.nodeSelector, or spec.fallback: true for the nodes that no other pool matches"),
    // By fields: for an API server, the items of two lists of the schema have different types, which == does not compare.
    validation = Rule::new("!has(self.replacesTaints) || self.replacesTaints.all(r, !self.taints.exists(t, t.key == r.key && t.effect == r.effect && (has(t.value) ? t.value : '') == (has(r.value) ? r.value : '')))")
        .message("spec.replacesTaints names a taint of spec.taints, which would be removed from the nodes: remove it from one of the two"),
    validation = Rule::new("!has(self.replacesTaints) || size(self.replacesTaints) == 0 || size(self.taints) > 0")
        .message("spec.replacesTaints needs a taint in spec.taints: without one Linux pods could be scheduled to the nodes")
)]
#[serde(rename_all = "camelCase")]
pub struct WindowsNodePoolSpec {
    /// The Windows version of the nodes: a base image tag name such as "ltsc2022", "1809" or "20H2", or a build
    /// such as "10.0.20348". Write it in quotes: YAML reads 1809 as a number.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new(windows_version_rule()).message(windows_version_message().as_str()))]
    pub windows_version: String,

    /// Selects the nodes of the pool among those with kubernetes.io/os=windows. Required, unless fallback is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,

    /// Instead of a selector, in one pool at most: selects the Windows nodes that no other pool matches.
    #[serde(default)]
    pub fallback: bool,

    /// The WindowsRuntimeProfile to render. Without it no configuration is rendered, as needed on managed clouds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_ref: Option<ProfileRef>,

    /// The taints of the nodes. An empty list means none. The default is os=windows:NoSchedule.
    #[serde(default = "default_taints")]
    #[schemars(length(max = 16))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(t, self.exists_one(u, u.key == t.key && u.effect == t.effect))")
            .message("a node can have only one taint per key and effect: remove the duplicate")
    )]
    pub taints: Vec<Taint>,

    /// Taints of others that are removed from the nodes once those of the pool are on them, such as
    /// {key: os, value: Windows, effect: NoSchedule}. The RuntimeClasses of the pool tolerate them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(t, self.exists_one(u, u == t))").message("remove the duplicate from spec.replacesTaints")
    )]
    pub replaces_taints: Vec<Taint>,

    /// The lowest revision of Windows that the nodes should have: the last part of a version such as 10.0.20348.2402.
    /// 0 means no requirement.
    #[serde(default, skip_serializing_if = "status::is_zero")]
    #[schemars(range(max = 1_000_000))]
    pub min_revision: u32,

    /// The labels that every node of the pool gets. A label with another value is not overwritten. Example: {team: web}.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    #[x_kube(
        validation = Rule::new(label_keys_rule()).message(LABEL_KEYS),
        validation = Rule::new("self.all(k, !k.startsWith('winpool.dev/') && !k.startsWith('runs.winpool.dev/') && !(k in ['kubernetes.io/os', 'kubernetes.io/arch', 'kubernetes.io/hostname', 'node.kubernetes.io/windows-build']))")
            .message("labels of winpool.dev/ and runs.winpool.dev/, kubernetes.io/os, kubernetes.io/arch, kubernetes.io/hostname and node.kubernetes.io/windows-build are set by the operator and the kubelet: remove them here")
    )]
    pub labels: BTreeMap<String, String>,

    /// The RuntimeClasses that select the nodes. When it is absent: one, named after the Windows release, such as
    /// windows-ltsc2022, with isolation Process and scope Build. An empty list means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(c, self.exists_one(d, d.name == c.name))")
            .message("the names of the RuntimeClasses of a pool must be unique: rename the duplicate")
    )]
    pub runtime_classes: Option<Vec<RuntimeClassSpec>>,

    /// How the rendered configuration gets onto the nodes. When it is absent, your own tool copies it. Example:
    /// {method: Agent}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,

    /// Enforce applies the spec. Observe reports what would change and writes only status.
    #[serde(default)]
    pub mode: Mode,

    /// Deprecated: write mode: Observe. While true, the spec is invalid, and only status is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,

    /// What happens when the pool is deleted: Retain leaves everything unchanged, Cleanup removes what the operator
    /// added.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

/// Accepts every name and build of the table, and builds newer than the table in later series.
fn windows_version_rule() -> String {
    let names: Vec<_> = builds::names().collect();
    let known: Vec<_> = builds::RELEASES.iter().map(|release| release.build.0.to_string()).collect();
    format!(
        "self.matches('(?i)^({})$') || self.matches('^10\\\\.0\\\\.({}|{})$')",
        names.join("|"),
        known.join("|"),
        builds::FUTURE_PATTERN,
    )
}

fn windows_version_message() -> String {
    let names: Vec<_> = builds::names().collect();
    format!("unknown Windows version: write one of {}, or a build such as 10.0.20348", names.join(", "))
}

/// Names a WindowsRuntimeProfile.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ProfileRef {
    /// The name of a WindowsRuntimeProfile, such as standard.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

fn default_taints() -> Vec<Taint> {
    vec![Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule }]
}

/// A RuntimeClass that selects the nodes of the pool.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeClassSpec {
    /// The name that pods write as runtimeClassName. Example: windows-ltsc2022.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME.pattern))]
    pub name: String,
    /// Process or HyperV: the isolation of the containers. It decides handler, compatibility rule and overhead.
    #[serde(default)]
    pub isolation: RuntimeClassIsolation,
    /// The handler in the container runtime, such as docker. Default: runhcs-wcow-process or runhcs-wcow-hypervisor by the isolation;
    /// use docker for cri-dockerd. Another one, without the prefix runhcs-, must be in status.runtimeHandlers of a node of the
    /// pool. It is immutable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), regex(pattern = HANDLER.pattern))]
    pub handler: String,
    /// Build: the class selects every node of this Windows build. Pool: only nodes of this pool. Compatible: every node
    /// that runs the images of this Windows version in process isolation, such as ltsc2022 images on Windows Server 2022
    /// and 2025.
    #[serde(default)]
    pub scope: RuntimeClassScope,
    /// Tolerations in addition to those for the taints of the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Vec<Toleration>,
    /// The overhead of a pod in addition to its containers. Default with HyperV: cpu 100m, memory 512Mi.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resources")]
    pub overhead: BTreeMap<String, QuantityText>,
    /// Takes over an existing RuntimeClass of this name that winpool did not create. Tolerations that it already has are kept. It gets its
    /// former content when no pool names it any more. A class of Linux workloads is not taken over.
    #[serde(default)]
    pub adopt: bool,
}

/// The isolation of the containers of a class.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as named by Microsoft
pub enum RuntimeClassIsolation {
    #[default]
    Process,
    HyperV,
}

/// Which nodes a class selects.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum RuntimeClassScope {
    #[default]
    Build,
    Pool,
    Compatible,
}

/// Whether the operator applies the spec.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum Mode {
    #[default]
    Enforce,
    Observe,
}

/// What the deletion of a pool does.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum DeletionPolicy {
    #[default]
    Retain,
    Cleanup,
}
