//! `WindowsRuntimeProfile`: the configuration of Windows nodes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    pattern::{DURATION, IP_ADDRESS, PLAIN, PROXY, REGISTRY, REPOSITORY, TAG, WINDOWS_PATH},
    schema::{self, QuantityText},
};

/// The configuration of Windows nodes: kubelet, pause image, container runtime, kube-proxy and HTTP proxy.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "winpool.dev",
    version = "v1alpha1",
    kind = "WindowsRuntimeProfile",
    plural = "windowsruntimeprofiles",
    singular = "windowsruntimeprofile",
    shortname = "wrp",
    category = "windows",
    status = "WindowsRuntimeProfileStatus",
    derive = "PartialEq",
    doc = "The configuration of Windows nodes: kubelet, pause image, container runtime, kube-proxy and HTTP proxy. Pools render it for their nodes.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(
        name = "Pools",
        type_ = "integer",
        json_path = ".status.usedBy.count",
        description = "pools that use the profile"
    ),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Valid')].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Valid')].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct WindowsRuntimeProfileSpec {
    /// Settings of the kubelet: reserved resources, eviction, priority class and others.
    #[serde(default)]
    pub kubelet: KubeletSettings,
    /// The image of the sandbox of each pod, which must have an entry for the host's build.
    #[serde(default)]
    pub pause_image: PauseImageSettings,
    /// Settings of containerd: mirrors, CNI directories and the data directory.
    #[serde(default)]
    pub containerd: ContainerdSettings,
    /// Settings of kube-proxy. Without them, no configuration of kube-proxy is rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<KubeProxySettings>,
    /// The HTTP proxy of the node's services: kubelet and container runtime.
    #[serde(default, skip_serializing_if = "ProxySettings::is_empty")]
    pub proxy: ProxySettings,
    /// The number of monthly Windows updates, such as 3, that the base image of a container may be behind the newest one that winpool
    /// knows. Pods with older images are reported; for this the images of all pods are looked up in their registries. The default
    /// reports none. It changes nothing on nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 120))]
    pub max_image_updates_behind: Option<u32>,
}

/// Settings of the kubelet. A setting that is not set here keeps its value from the node's own configuration, except
/// for those that Windows requires.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
// By its path, because the schema is derived from a copy of the type under another name.
#[serde(default = "KubeletSettings::default", rename_all = "camelCase")]
pub struct KubeletSettings {
    /// The priority class of the kubelet process (--windows-priorityclass): Idle, BelowNormal, Normal, AboveNormal,
    /// High or Realtime.
    pub priority_class: PriorityClass,
    /// Resources reserved for Windows: cpu, memory, ephemeral-storage. The default is memory 2Gi. Less memory is
    /// allowed with a warning, because Windows has no OOM killer. A resource that is not set keeps its value from the
    /// node's own configuration.
    #[schemars(schema_with = "schema::resources")]
    #[x_kube(validation = Rule::new(RESERVES_RULE).message(RESERVES))]
    pub system_reserved: BTreeMap<String, QuantityText>,
    /// Resources reserved for the kubelet and the container runtime: cpu, memory, ephemeral-storage. A resource that is
    /// not set keeps its value from the node's own configuration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resources")]
    #[x_kube(validation = Rule::new(RESERVES_RULE).message(RESERVES))]
    pub kube_reserved: BTreeMap<String, QuantityText>,
    /// Thresholds at which the kubelet evicts pods: memory.available, nodefs.available, imagefs.available. The defaults
    /// of the other signals are rendered too, because a kubelet that has one threshold ignores the other defaults.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::thresholds")]
    #[x_kube(validation = Rule::new("self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])").message("a Windows kubelet supports the eviction signals memory.available, nodefs.available and imagefs.available: remove the other keys"))]
    pub eviction_hard: BTreeMap<String, QuantityText>,
    /// The maximum number of pods on a node.
    #[schemars(range(min = 1, max = 1000))]
    pub max_pods: u32,
    /// Garbage collection of unused images.
    #[serde(rename = "imageGC")]
    pub image_gc: ImageGarbageCollection,
    /// When the kubelet rotates the logs of a container, and how many files it keeps.
    pub container_logs: ContainerLogs,
    /// Feature gates of the kubelet. A gate that the kubelet's minor version does not know is rejected, because that
    /// kubelet would not start.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::feature_gates")]
    pub feature_gates: BTreeMap<String, bool>,
    /// How much the kubelet writes to its own log.
    #[serde(skip_serializing_if = "KubeletLogging::is_empty")]
    pub logging: KubeletLogging,
    /// Other fields of KubeletConfiguration. Fields that have no effect or fail on Windows are rejected. Objects are
    /// merged with those of the node's own configuration; lists replace them.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    #[schemars(schema_with = "schema::any_fields")]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Default for KubeletSettings {
    fn default() -> Self {
        Self {
            priority_class: PriorityClass::default(),
            system_reserved: BTreeMap::from([("memory".to_owned(), "2Gi".into())]),
            kube_reserved: BTreeMap::new(),
            eviction_hard: BTreeMap::new(),
            max_pods: 110,
            image_gc: ImageGarbageCollection::default(),
            container_logs: ContainerLogs::default(),
            feature_gates: BTreeMap::new(),
            logging: KubeletLogging::default(),
            extra: serde_json::Map::new(),
        }
    }
}

const RESERVES_RULE: &str = "self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])";
const RESERVES: &str = "a Windows kubelet can reserve cpu, memory and ephemeral-storage: remove the other keys";

/// The priority class of the kubelet process.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as named by Microsoft
pub enum PriorityClass {
    Idle,
    BelowNormal,
    Normal,
    #[default]
    AboveNormal,
    High,
    Realtime,
}

/// Garbage collection of unused images.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[x_kube(validation = Rule::new("self.lowThresholdPercent < self.highThresholdPercent").message("lowThresholdPercent must be lower than highThresholdPercent: write a lower value"))]
#[serde(default = "ImageGarbageCollection::default", rename_all = "camelCase")]
pub struct ImageGarbageCollection {
    /// The disk usage in percent at which garbage collection starts.
    #[schemars(range(min = 1, max = 100))]
    pub high_threshold_percent: u8,
    /// The disk usage in percent at which garbage collection stops.
    #[schemars(range(min = 0, max = 99))]
    pub low_threshold_percent: u8,
}

impl Default for ImageGarbageCollection {
    fn default() -> Self {
        Self { high_threshold_percent: 85, low_threshold_percent: 80 }
    }
}

/// Rotation of container logs.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(default = "ContainerLogs::default", rename_all = "camelCase")]
pub struct ContainerLogs {
    /// The size at which a log file is rotated, such as 50Mi.
    pub max_size: QuantityText,
    /// The maximum number of log files of a container.
    #[schemars(range(min = 2, max = 100))]
    pub max_files: u32,
}

impl Default for ContainerLogs {
    fn default() -> Self {
        Self { max_size: "50Mi".into(), max_files: 5 }
    }
}

/// Logging of the kubelet.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct KubeletLogging {
    /// The verbosity, as in --v. The default is the value of the node's own configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub verbosity: Option<u32>,
}

impl KubeletLogging {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The pause image.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("self.source == 'Custom' ? has(self.repository) && self.repository != '' : !has(self.repository) || self.repository == ''")
    .message("the repository is required with source Custom and not allowed with other sources: set both source: Custom and repository"))]
#[x_kube(validation = Rule::new("self.source != 'Node' || !has(self.tag) || self.tag == ''")
    .message("the tag is not allowed with source Node: remove the tag, or set another source"))]
#[serde(rename_all = "camelCase")]
pub struct PauseImageSettings {
    /// Microsoft (signed for Windows, from mcr.microsoft.com), Upstream (registry.k8s.io), Custom, or Node, which leaves the pause image
    /// of the node's own configuration.
    #[serde(default)]
    pub source: PauseImageSource,
    /// The repository with source Custom, such as registry.example/kubernetes/pause.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255), regex(pattern = REPOSITORY.pattern))]
    pub repository: String,
    /// The tag, such as 3.10. The default is that of the kubelet's minor version, or the next later tag with an entry that the host
    /// can run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128), regex(pattern = TAG.pattern))]
    pub tag: String,
}

/// The source of the pause image.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum PauseImageSource {
    #[default]
    Microsoft,
    Upstream,
    Custom,
    Node,
}

/// Settings of containerd. A setting that is not set here keeps its value from the node's own configuration.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(default = "ContainerdSettings::default", rename_all = "camelCase")]
pub struct ContainerdSettings {
    /// Mirrors of registries, which are tried before the registry itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic, validation = Rule::new("self.all(m, self.exists_one(n, n.registry == m.registry))").message("write the endpoints of a registry in one entry: merge the duplicates"))]
    pub registry_mirrors: Vec<RegistryMirror>,
    /// The directories of the CNI plugins and their configuration.
    pub cni: Cni,
    /// The time without progress, such as 30m, after which an image pull is cancelled. Unpacking the layers of Windows images takes
    /// minutes in which nothing is transferred. With Docker Engine it is the deadline of cri-dockerd.
    #[schemars(length(min = 2, max = 32), regex(pattern = DURATION.pattern))]
    #[x_kube(validation = Rule::new("self.matches('[1-9]')").message("the timeout must not be zero: write hours and minutes, such as 30m"))]
    pub image_pull_progress_timeout: String,
    /// The directory for images and containers on the node, such as D:\containerd. The default is the value of the node's
    /// own configuration. After a change, images are pulled again.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 260), regex(pattern = WINDOWS_PATH.pattern))]
    pub root: String,
    /// TOML that is merged last into the configuration of containerd, without a version. Use the table names of version
    /// 2 for containerd 1.x and of version 3 for 2.x.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub extra_config: String,
}

impl Default for ContainerdSettings {
    fn default() -> Self {
        Self {
            registry_mirrors: Vec::new(),
            cni: Cni::default(),
            image_pull_progress_timeout: "30m".to_owned(),
            root: String::new(),
            extra_config: String::new(),
        }
    }
}

/// The mirrors of one registry.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!(has(self.skipVerify) && self.skipVerify) || !has(self.caFile) || self.caFile == ''").message("caFile has no effect with skipVerify: remove skipVerify, or remove caFile"))]
#[serde(rename_all = "camelCase")]
pub struct RegistryMirror {
    /// The host of the registry with an optional port, such as docker.io or registry.example:5000.
    #[schemars(length(min = 1, max = 253), regex(pattern = REGISTRY.pattern))]
    pub registry: String,
    /// The addresses of the mirrors, in order of preference.
    #[schemars(schema_with = "schema::addresses")]
    pub endpoints: Vec<String>,
    /// The path on the node of the CA certificate of the mirrors, such as C:\certs\mirror.pem. The default is the CAs
    /// that Windows trusts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 260), regex(pattern = WINDOWS_PATH.pattern))]
    pub ca_file: String,
    /// Whether the certificates of the mirrors are not verified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_verify: bool,
}

/// The directories of the CNI plugins and their configuration on the node. The default is the value of the node's own
/// configuration.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Cni {
    /// The directory of the plugins.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 260))]
    pub bin_dir: String,
    /// The directory of their configuration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 260))]
    pub conf_dir: String,
}

/// Settings of kube-proxy. A setting that is not set here keeps its value from the node's own configuration.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!(has(self.winDSR) && self.winDSR) || !has(self.featureGates) || !('WinDSR' in self.featureGates) || self.featureGates['WinDSR']").message("kube-proxy does not start with winDSR if the gate WinDSR is disabled: remove the gate, or write winDSR: false"))]
#[serde(rename_all = "camelCase")]
pub struct KubeProxySettings {
    /// The implementation of Services: kernelspace, which uses the Host Networking Service (HNS) of Windows.
    #[serde(default)]
    pub mode: KubeProxyMode,
    /// Whether replies are sent directly to clients (Direct Server Return). Up to Kubernetes 1.32 the required feature
    /// gate is rendered too. The default is the value of the node's own configuration.
    #[serde(default, rename = "winDSR", skip_serializing_if = "Option::is_none")]
    pub win_dsr: Option<bool>,
    /// The name of the HNS network for endpoints and policies, such as Calico or vxlan0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256), regex(pattern = PLAIN.pattern))]
    pub network_name: String,
    /// The source IP address, such as 10.244.3.2, of traffic to Services, for overlay networks. It differs between nodes: set it only in a
    /// profile for a single node.
    #[serde(default, rename = "sourceVIP", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 45), regex(pattern = IP_ADDRESS.pattern))]
    pub source_vip: String,
    /// Feature gates of kube-proxy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::feature_gates")]
    pub feature_gates: BTreeMap<String, bool>,
}

/// The implementation of Services on Windows.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum KubeProxyMode {
    /// Policies of the Host Networking Service.
    #[default]
    Kernelspace,
}

/// The HTTP proxy of a node's services.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ProxySettings {
    /// HTTP_PROXY: the address of the proxy for http, without credentials. Example: `http://proxy.example:3128`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512), regex(pattern = PROXY.pattern))]
    pub http_proxy: String,
    /// HTTPS_PROXY: the address of the proxy for https, without credentials. Example: `http://proxy.example:3128`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512), regex(pattern = PROXY.pattern))]
    pub https_proxy: String,
    /// NO_PROXY, such as .svc,10.0.0.0/8: hosts, domains and address ranges that are reached without the proxy, separated by commas. Include the
    /// API server and the addresses of pods and Services.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096), regex(pattern = PLAIN.pattern))]
    pub no_proxy: String,
}

impl ProxySettings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The observed state of a profile.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WindowsRuntimeProfileStatus {
    /// The generation of the spec that this status is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The pools that use the profile.
    #[serde(default)]
    pub used_by: UsedBy,
    /// Whether the profile is valid, in condition Valid, and Ready for tools that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// The pools that use a profile.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedBy {
    /// Their number.
    pub count: u32,
    /// The first five names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::object_names")]
    pub pools: Vec<String>,
}
