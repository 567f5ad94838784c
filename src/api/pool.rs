//! `WindowsNodePool`: which nodes, which Windows, which rules.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{self, QuantityText};
use crate::facts::builds;

/// A set of Windows nodes that should run one Windows version under one set of rules.
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
    doc = "A set of Windows nodes that should run one Windows version under one set of rules.",
    validation = Rule::new("self.metadata.name.size() <= 63").message("metadata.name becomes a label value on the nodes: write at most 63 characters"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.columns.nodes", description = "nodes that are Ready / nodes of the pool"),
    printcolumn(name = "Guarded", type_ = "string", json_path = ".status.columns.guarded", description = "nodes with labels, taints and config name / nodes of the pool"),
    printcolumn(name = "Windows", type_ = "string", json_path = ".status.windowsBuild"),
    printcolumn(name = "Kubelet", type_ = "string", json_path = ".status.columns.kubelet"),
    printcolumn(name = "Skewed", type_ = "integer", json_path = ".status.nodes.skewed", description = "nodes whose kubelet is outside the version skew policy"),
    printcolumn(name = "Mismatched", type_ = "integer", json_path = ".status.nodes.mismatched", description = "nodes whose Windows build is not the pool's"),
    printcolumn(name = "Problem", type_ = "string", json_path = ".status.columns.problem", description = "the worst reason, with its count"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Profile", type_ = "string", json_path = ".spec.profileRef.name", priority = 1),
    printcolumn(name = "RuntimeClass", type_ = "string", json_path = ".status.columns.runtimeClass", priority = 1),
    printcolumn(name = "Support", type_ = "string", json_path = ".status.columns.support", priority = 1, description = "until when Microsoft supports this Windows"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1)
)]
#[x_kube(
    validation = Rule::new("has(self.nodeSelector) != (has(self.fallback) && self.fallback)")
        .message("write either spec.nodeSelector, to choose nodes by label, or spec.fallback: true, to take the Windows nodes that no other pool matches")
)]
#[serde(rename_all = "camelCase")]
pub struct WindowsNodePoolSpec {
    /// The Windows version of the nodes: a base image tag name such as "ltsc2022", "1809" or "20H2", or a build
    /// such as "10.0.20348". Write it in quotes: YAML reads 1809 as a number.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new(windows_version_rule()).message(windows_version_message().as_str()))]
    pub windows_version: String,

    /// Chooses the pool's nodes among those with kubernetes.io/os=windows. Required, unless fallback is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,

    /// Instead of a selector, in one pool at most: the Windows nodes that no other pool matches.
    #[serde(default)]
    pub fallback: bool,

    /// The WindowsRuntimeProfile to render. Without it no configuration is rendered, as on managed clouds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_ref: Option<ProfileRef>,

    /// Taints kept on the nodes, so that pods which do not tolerate them stay away. An empty list means none.
    /// The default is os=windows:NoSchedule.
    #[serde(default = "default_taints")]
    #[schemars(length(max = 16))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(t, self.exists_one(u, u.key == t.key && u.effect == t.effect))")
            .message("a node can have one taint of a key and effect: remove the duplicate")
    )]
    pub taints: Vec<Taint>,

    /// Labels kept on the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    #[x_kube(
        validation = Rule::new("self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))")
            .message("a label key is a name of at most 63 characters, with an optional DNS prefix: example.com/team"),
        validation = Rule::new("self.all(k, !k.startsWith('winpool.dev/') && !(k in ['kubernetes.io/os', 'kubernetes.io/arch', 'kubernetes.io/hostname', 'node.kubernetes.io/windows-build']))")
            .message("winpool.dev/ labels, kubernetes.io/os, kubernetes.io/arch, kubernetes.io/hostname and node.kubernetes.io/windows-build are set by the operator and the kubelet: remove them here")
    )]
    pub labels: BTreeMap<String, String>,

    /// The RuntimeClasses that lead pods to the nodes. When it is absent: one, named after spec.windowsVersion, such as
    /// windows-ltsc2022, of isolation Process and scope Build. An empty list means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(c, self.exists_one(d, d.name == c.name))")
            .message("each RuntimeClass of a pool needs a name of its own: rename the duplicate")
    )]
    pub runtime_classes: Option<Vec<RuntimeClassSpec>>,

    /// Enforce makes the nodes so and keeps them so. Observe reports what would change and writes nothing but status.
    #[serde(default)]
    pub mode: Mode,

    /// Stops all writes but status for as long as it is true.
    #[serde(default)]
    pub paused: bool,

    /// What happens when the pool is deleted: Retain leaves everything as it is, Cleanup takes off what the
    /// operator added.
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
        builds::TO_COME_PATTERN,
    )
}

fn windows_version_message() -> String {
    let names: Vec<_> = builds::names().collect();
    format!("unknown Windows version: write one of {}, or a build such as 10.0.20348", names.join(", "))
}

/// Chooses objects by their labels; the parts are joined by and.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(
    validation = Rule::new("(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)")
        .message("an empty selector would match every Windows node: write matchLabels or matchExpressions, or spec.fallback: true instead of the selector")
)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that a node has, with exactly these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    #[x_kube(
        validation = Rule::new("self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))")
            .message("a label key is a name of at most 63 characters, with an optional DNS prefix: example.com/team"),
        validation = Rule::new("!self.exists(k, k.startsWith('winpool.dev/'))")
            .message("winpool.dev/ labels are set from this selector: select by a label of your own")
    )]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on a node's labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One requirement on a label.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[x_kube(
    validation = Rule::new("self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0")
        .message("In and NotIn need at least one value; Exists and DoesNotExist take none"),
    validation = Rule::new("!self.key.startsWith('winpool.dev/')")
        .message("winpool.dev/ labels are set from this selector: select by a label of your own")
)]
#[serde(rename_all = "camelCase")]
pub struct SelectorRequirement {
    /// The label's key.
    #[schemars(
        length(min = 1, max = 317),
        regex(pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
    )]
    pub key: String,
    /// How the label relates to the values: In, NotIn, Exists or DoesNotExist.
    pub operator: SelectorOperator,
    /// The values, for In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::label_values")]
    pub values: Vec<String>,
}

/// How a label relates to the values of a requirement.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the words are Kubernetes' own
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Names a WindowsRuntimeProfile.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct ProfileRef {
    /// The profile's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A taint of a node.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The taint's key: a name of at most 63 characters, with an optional DNS prefix.
    #[schemars(
        length(min = 1, max = 317),
        regex(pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
    )]
    pub key: String,
    /// The taint's value; it may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), regex(pattern = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"))]
    pub value: String,
    /// What happens to pods that do not tolerate the taint: NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the words are Kubernetes' own
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

fn default_taints() -> Vec<Taint> {
    vec![Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule }]
}

/// A RuntimeClass that leads pods to the pool's nodes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeClassSpec {
    /// The name that pods write as runtimeClassName.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: String,
    /// Process or HyperV: how the containers of the class are kept apart from the host. It decides the handler, the
    /// compatibility rule and the overhead.
    #[serde(default)]
    pub isolation: RuntimeClassIsolation,
    /// The handler in the container runtime. Default: runhcs-wcow-process or runhcs-wcow-hypervisor by the isolation;
    /// write docker for dockershim and cri-dockerd. It cannot be changed once the class exists.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), regex(pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"))]
    pub handler: String,
    /// Build: pods of the class go to any node of this Windows build. Pool: only to nodes of this pool.
    #[serde(default)]
    pub scope: RuntimeClassScope,
    /// Tolerations added to those for the pool's taints, for other spellings in use in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Vec<Toleration>,
    /// Resources that a pod of the class costs beside its containers. Default with HyperV: cpu 100m, memory 512Mi.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resources")]
    pub overhead: BTreeMap<String, QuantityText>,
    /// Takes over a RuntimeClass of this name that somebody else made. Its other tolerations are kept.
    #[serde(default)]
    pub adopt: bool,
}

/// How the containers of a class are kept apart from the host.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the words are Microsoft's own
pub enum RuntimeClassIsolation {
    #[default]
    Process,
    HyperV,
}

/// Which nodes a class leads to.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum RuntimeClassScope {
    #[default]
    Build,
    Pool,
}

/// A toleration that a class gives to its pods.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''")
        .message("operator Exists takes no value: remove the value, or write operator Equal"),
    validation = Rule::new("has(self.key) && self.key != '' || has(self.operator) && self.operator == 'Exists'")
        .message("a toleration without a key tolerates every taint and needs operator Exists: write a key, or operator Exists")
)]
pub struct Toleration {
    /// The taint's key; empty with operator Exists means every key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 317))]
    pub key: String,
    /// Equal (the default) compares the value, Exists takes any.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// The taint's value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub value: String,
    /// The taint's effect; absent means every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

/// How a toleration's value relates to the taint's.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the words are Kubernetes' own
pub enum TolerationOperator {
    #[default]
    Equal,
    Exists,
}

/// Whether the operator writes.
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

/// What the operator saw and did.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WindowsNodePoolStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What spec.windowsVersion means, such as 10.0.20348.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub windows_build: String,
    /// Counts of the pool's nodes.
    #[serde(default)]
    pub nodes: NodeCounts,
    /// The Windows builds of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub builds: Vec<BuildCount>,
    /// The kubelet versions of the nodes, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub kubelets: Vec<KubeletCount>,
    /// The RuntimeClasses of the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub runtime_classes: Vec<RuntimeClassStatus>,
    /// The rendered variants: one for each combination of kubelet minor, container runtime minor and build.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub configs: Vec<ConfigStatus>,
    /// What would change, with mode Observe or paused.
    #[serde(default)]
    pub pending: Pending,
    /// Every key that this pool has set on nodes. Nothing else is ever taken off.
    #[serde(default, skip_serializing_if = "Applied::is_empty")]
    pub applied: Applied,
    /// Counts of the pods on or bound for the pool's nodes; absent when workloads are not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<WorkloadCounts>,
    /// The conditions; Ready comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Ready-made cells for kubectl get.
    #[serde(default)]
    pub columns: Columns,
    /// How many entries the lists of this status leave out because there are too many, by the path of the list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "omitted")]
    pub omitted: BTreeMap<String, u32>,
}

fn omitted(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": {"type": "integer", "format": "int32", "minimum": 0},
    })
}

/// Counts of the pods on or bound for a pool's nodes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadCounts {
    /// The pods.
    pub pods: u32,
    /// Of these, pods with an image that cannot run there.
    pub cannot_run: u32,
    /// Of these, pods with an image that by its name cannot run there.
    pub suspected: u32,
    /// Of these, pods with an image of which nobody knows.
    pub unknown: u32,
    /// How many of the pods use each RuntimeClass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub runtime_classes: Vec<RuntimeClassUse>,
}

/// How many pods use a RuntimeClass.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeClassUse {
    /// The RuntimeClass.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The pods that were created with it.
    pub pods: u32,
}

/// Counts of a pool's nodes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes that belong to the pool.
    pub matched: u32,
    /// Of these, nodes that are Ready.
    pub ready: u32,
    /// Of these, nodes that have the labels, the taints and the config name.
    pub guarded: u32,
    /// Of these, nodes whose Windows build is not the pool's.
    pub mismatched: u32,
    /// Of these, nodes whose kubelet is outside the version skew policy.
    pub skewed: u32,
    /// Of these, nodes whose numbers do not show their configuration in effect.
    pub behind: u32,
    /// Nodes that other pools match as well.
    pub contested: u32,
    /// Nodes with changes that wait.
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
    /// The number of nodes.
    pub nodes: u32,
}

/// How many nodes run a kubelet version.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct KubeletCount {
    /// The version, such as v1.34.2.
    #[schemars(length(max = 64))]
    pub version: String,
    /// The number of nodes.
    pub nodes: u32,
}

/// The state of a RuntimeClass.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct RuntimeClassStatus {
    /// The class's name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Whether it is as specified.
    pub state: RuntimeClassState,
}

/// Whether a RuntimeClass is as specified.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the words are the reasons of RuntimeClassReady, and three more
pub enum RuntimeClassState {
    Applied,
    /// Somebody else made it, and it is as specified.
    Found,
    /// It will be written.
    Pending,
    NotOurs,
    NameTaken,
    HandlerDiffers,
    WouldStrand,
    Contested,
    /// No pool names it any more; it stays for the pods that do.
    Unused,
}

/// A rendered variant.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStatus {
    /// The ConfigMap's name.
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
    /// How many nodes should run it.
    pub wanted: u32,
    /// How many nodes show by their own numbers that they do.
    pub in_effect: u32,
}

/// Differences that wait.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The number of differences.
    pub count: u32,
    /// The first five, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::short_texts")]
    pub first: Vec<String>,
}

/// Every key that a pool has set on nodes.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Taints, as key:Effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "applied_keys")]
    pub taints: Vec<String>,
    /// Keys of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "applied_keys")]
    pub labels: Vec<String>,
}

impl Applied {
    /// Whether the pool has set nothing.
    pub fn is_empty(&self) -> bool {
        self.taints.is_empty() && self.labels.is_empty()
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

/// Ready-made cells for `kubectl get`.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Columns {
    /// Ready nodes of all nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub nodes: String,
    /// Guarded nodes of all nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub guarded: String,
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
    /// Until when Microsoft supports this Windows.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub support: String,
}
