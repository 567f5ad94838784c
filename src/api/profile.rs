//! `WindowsRuntimeProfile`: how a Windows node should run.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{self, QuantityText};

/// How a Windows node should run: kubelet, pause image and containerd settings, which pools render for their nodes.
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
    doc = "How a Windows node should run: kubelet, pause image and containerd settings, which pools render for their nodes.",
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
    /// Settings of the kubelet.
    #[serde(default)]
    pub kubelet: KubeletSettings,
    /// Which pause image the nodes use.
    #[serde(default)]
    pub pause_image: PauseImageSettings,
    /// Settings of containerd.
    #[serde(default)]
    pub containerd: ContainerdSettings,
    /// Settings of kube-proxy. Without them, kube-proxy is left as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<KubeProxySettings>,
    /// The HTTP proxy of the node's services: kubelet and container runtime.
    #[serde(default, skip_serializing_if = "ProxySettings::is_empty")]
    pub proxy: ProxySettings,
}

/// Settings of the kubelet. Settings that are not listed here stay as the node's own configuration has them, except for
/// those that Windows needs.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct KubeletSettings {
    /// The priority class of the kubelet's process (--windows-priorityclass): Idle, BelowNormal, Normal, AboveNormal,
    /// High or Realtime.
    #[serde(default)]
    pub priority_class: PriorityClass,
    /// Resources kept for Windows itself: cpu, memory, ephemeral-storage. The default is memory 2Gi; less memory
    /// is allowed and warned about, because Windows never kills a process for memory. A resource that is not listed
    /// stays as the node's own configuration has it.
    #[serde(default = "default_system_reserved")]
    #[schemars(schema_with = "schema::resources")]
    #[x_kube(validation = Rule::new("self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])").message("a Windows kubelet reserves cpu, memory and ephemeral-storage: remove the other keys"))]
    pub system_reserved: BTreeMap<String, QuantityText>,
    /// Resources kept for the kubelet and the container runtime: cpu, memory, ephemeral-storage. A resource that is not
    /// listed stays as the node's own configuration has it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::resources")]
    #[x_kube(validation = Rule::new("self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'])").message("a Windows kubelet reserves cpu, memory and ephemeral-storage: remove the other keys"))]
    pub kube_reserved: BTreeMap<String, QuantityText>,
    /// Thresholds at which the kubelet evicts pods: memory.available, nodefs.available, imagefs.available. Defaults
    /// that are left out here are written out, because setting one key zeroes the rest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::thresholds")]
    #[x_kube(validation = Rule::new("self.all(k, k in ['memory.available', 'nodefs.available', 'imagefs.available'])").message("Windows knows the eviction signals memory.available, nodefs.available and imagefs.available: remove the other keys"))]
    pub eviction_hard: BTreeMap<String, QuantityText>,
    /// The most pods on a node.
    #[serde(default = "default_max_pods")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_pods: u32,
    /// When unused images are removed.
    #[serde(default, rename = "imageGC")]
    pub image_gc: ImageGarbageCollection,
    /// How much of the containers' logs is kept.
    #[serde(default)]
    pub container_logs: ContainerLogs,
    /// Feature gates. One that the minor of a kubelet does not know is refused by name: that kubelet would not start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::feature_gates")]
    pub feature_gates: BTreeMap<String, bool>,
    /// How much the kubelet logs.
    #[serde(default, skip_serializing_if = "KubeletLogging::is_empty")]
    pub logging: KubeletLogging,
    /// Any other field of KubeletConfiguration. One that does nothing or fails on Windows is refused by name. Objects
    /// are merged with those of the node's own configuration, lists replace them.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    #[schemars(schema_with = "schema::any_fields")]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Default for KubeletSettings {
    fn default() -> Self {
        Self {
            priority_class: PriorityClass::default(),
            system_reserved: default_system_reserved(),
            kube_reserved: BTreeMap::new(),
            eviction_hard: BTreeMap::new(),
            max_pods: default_max_pods(),
            image_gc: ImageGarbageCollection::default(),
            container_logs: ContainerLogs::default(),
            feature_gates: BTreeMap::new(),
            logging: KubeletLogging::default(),
            extra: serde_json::Map::new(),
        }
    }
}

fn default_system_reserved() -> BTreeMap<String, QuantityText> {
    BTreeMap::from([("memory".to_owned(), "2Gi".into())])
}

fn default_max_pods() -> u32 {
    110
}

/// The priority class of the kubelet's process.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the words are Microsoft's own
pub enum PriorityClass {
    Idle,
    BelowNormal,
    Normal,
    #[default]
    AboveNormal,
    High,
    Realtime,
}

/// When unused images are removed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[x_kube(validation = Rule::new("self.lowThresholdPercent < self.highThresholdPercent").message("lowThresholdPercent is where garbage collection stops: write less than highThresholdPercent"))]
#[serde(rename_all = "camelCase")]
pub struct ImageGarbageCollection {
    /// Disk use in percent above which images are removed.
    #[serde(default = "default_high_threshold")]
    #[schemars(range(min = 1, max = 100))]
    pub high_threshold_percent: u8,
    /// Disk use in percent at which the removal stops.
    #[serde(default = "default_low_threshold")]
    #[schemars(range(min = 0, max = 99))]
    pub low_threshold_percent: u8,
}

impl Default for ImageGarbageCollection {
    fn default() -> Self {
        Self { high_threshold_percent: default_high_threshold(), low_threshold_percent: default_low_threshold() }
    }
}

fn default_high_threshold() -> u8 {
    85
}

fn default_low_threshold() -> u8 {
    80
}

/// How much of the containers' logs is kept.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerLogs {
    /// The size at which a log file is rotated.
    #[serde(default = "default_log_size")]
    pub max_size: QuantityText,
    /// How many files are kept for a container.
    #[serde(default = "default_log_files")]
    #[schemars(range(min = 2, max = 100))]
    pub max_files: u32,
}

impl Default for ContainerLogs {
    fn default() -> Self {
        Self { max_size: default_log_size(), max_files: default_log_files() }
    }
}

fn default_log_size() -> QuantityText {
    "50Mi".into()
}

fn default_log_files() -> u32 {
    5
}

/// How much the kubelet logs.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct KubeletLogging {
    /// The verbosity, as in --v. Default: as the node's own configuration has it.
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

/// Which pause image the nodes use.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("self.source == 'Custom' ? has(self.repository) && self.repository != '' : !has(self.repository) || self.repository == ''")
    .message("source Custom needs a repository, the other sources have their own: write source: Custom together with repository"))]
#[serde(rename_all = "camelCase")]
pub struct PauseImageSettings {
    /// Microsoft (signed for Windows, from mcr.microsoft.com), Upstream (registry.k8s.io) or Custom.
    #[serde(default)]
    pub source: PauseImageSource,
    /// The repository, with source Custom: registry.example/kubernetes/pause.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255), regex(pattern = r"^([a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+)?$"))]
    pub repository: String,
    /// The tag. Default: that of the kubelet's minor if the registry has it with an entry that the host can run,
    /// else the lowest later tag there that has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128), regex(pattern = r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$"))]
    pub tag: String,
}

/// Where the pause image comes from.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // explained at the field
pub enum PauseImageSource {
    #[default]
    Microsoft,
    Upstream,
    Custom,
}

/// Settings of containerd. Settings that are not listed here stay as the node's own configuration has them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerdSettings {
    /// Mirrors to ask before a registry itself, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic, validation = Rule::new("self.all(m, self.exists_one(n, n.registry == m.registry))").message("write the endpoints of a registry in one entry: merge the duplicates"))]
    pub registry_mirrors: Vec<RegistryMirror>,
    /// Where the network plugins and their configuration are.
    #[serde(default)]
    pub cni: Cni,
    /// How long an image pull may go on without progress before it is cancelled. The layers of Windows images are
    /// unpacked for minutes while nothing is transferred. containerd has this setting from 1.7 on; with Docker Engine it
    /// is the deadline of dockershim or cri-dockerd.
    #[serde(default = "default_pull_progress_timeout")]
    #[schemars(length(min = 2, max = 32), regex(pattern = r"^([0-9]+(\.[0-9]+)?(h|m|s))+$"))]
    #[x_kube(validation = Rule::new("self.matches('[1-9]')").message("a pull would be cancelled at once, or never: write hours and minutes, such as 30m"))]
    pub image_pull_progress_timeout: String,
    /// The folder for images and containers on the node, such as D:\containerd. Default: as the node's own configuration
    /// has it. On a node that has run containers, the images of the former folder are pulled again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 260), regex(pattern = r#"^([A-Za-z]:[\\/][^<>:"|?*]*)?$"#))]
    pub root: String,
    /// TOML that is merged last into the configuration of containerd, without a version: winpool writes version 2 for
    /// containerd 1.x and version 3 for 2.x, and the names of the tables have to be those of that version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub extra_config: String,
}

impl Default for ContainerdSettings {
    fn default() -> Self {
        Self {
            registry_mirrors: Vec::new(),
            cni: Cni::default(),
            image_pull_progress_timeout: default_pull_progress_timeout(),
            root: String::new(),
            extra_config: String::new(),
        }
    }
}

fn default_pull_progress_timeout() -> String {
    "30m".to_owned()
}

/// The mirrors of one registry.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!(has(self.skipVerify) && self.skipVerify) || !has(self.caFile) || self.caFile == ''").message("without verification the certificate authority has no effect: remove skipVerify, or remove caFile"))]
#[serde(rename_all = "camelCase")]
pub struct RegistryMirror {
    /// The registry's host, with a port where it has one: docker.io, registry.example:5000.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]{1,5})?$")
    )]
    pub registry: String,
    /// The mirrors' addresses, in the order in which they are asked.
    #[schemars(schema_with = "schema::addresses")]
    pub endpoints: Vec<String>,
    /// The path, on the node, of the certificate authority that signed the mirrors' certificates, such as
    /// C:\certs\mirror.pem. Default: the authorities that Windows trusts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 260), regex(pattern = r#"^([A-Za-z]:[\\/][^<>:"|?*]*)?$"#))]
    pub ca_file: String,
    /// Whether the mirrors' certificates are taken without verification.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_verify: bool,
}

/// Where the network plugins and their configuration are on the node. Default: as the node's own configuration has it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Cni {
    /// The folder of the plugins.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 260))]
    pub bin_dir: String,
    /// The folder of their configuration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 260))]
    pub conf_dir: String,
}

/// Settings of kube-proxy on Windows. Settings that are not listed here stay as the node's own configuration has them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!(has(self.winDSR) && self.winDSR) || !has(self.featureGates) || !('WinDSR' in self.featureGates) || self.featureGates['WinDSR']").message("kube-proxy does not start with winDSR and without the gate WinDSR: remove the gate, or write winDSR: false"))]
#[serde(rename_all = "camelCase")]
pub struct KubeProxySettings {
    /// How Services are implemented: kernelspace, which programs Windows' Host Networking Service.
    #[serde(default)]
    pub mode: KubeProxyMode,
    /// Whether replies go back to clients directly (Direct Server Return). Up to Kubernetes 1.32 the feature gate that
    /// it needs is written as well. Default: as the node's own configuration has it.
    #[serde(default, rename = "winDSR", skip_serializing_if = "Option::is_none")]
    pub win_dsr: Option<bool>,
    /// The name of the HNS network in which endpoints and policies are made, such as Calico or vxlan0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256), regex(pattern = r#"^[^\s"']*$"#))]
    pub network_name: String,
    /// The IP address that traffic to Services is sent from. Overlay networks need it, and each node has its own: set it
    /// only in a profile for a single node.
    #[serde(default, rename = "sourceVIP", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 45), regex(pattern = r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)?$"))]
    pub source_vip: String,
    /// Feature gates of kube-proxy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::feature_gates")]
    pub feature_gates: BTreeMap<String, bool>,
}

/// How kube-proxy implements Services on Windows.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum KubeProxyMode {
    /// By policies of Windows' Host Networking Service.
    #[default]
    Kernelspace,
}

/// The HTTP proxy of a node's services.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ProxySettings {
    /// HTTP_PROXY: the address of the proxy for http, without credentials.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512), regex(pattern = r#"^(https?://[^\s"'@]+)?$"#))]
    pub http_proxy: String,
    /// HTTPS_PROXY: the address of the proxy for https, without credentials.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512), regex(pattern = r#"^(https?://[^\s"'@]+)?$"#))]
    pub https_proxy: String,
    /// NO_PROXY: hosts, domains and address ranges that are reached without the proxy, separated by commas. The API
    /// server and the addresses of pods and Services belong here.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096), regex(pattern = r#"^[^\s"']*$"#))]
    pub no_proxy: String,
}

impl ProxySettings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What the operator found.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WindowsRuntimeProfileStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The pools that use the profile.
    #[serde(default)]
    pub used_by: UsedBy,
    /// The conditions; Ready comes first.
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
