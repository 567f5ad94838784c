//! What the agent of a node reports about Windows on it, beside the configuration.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use winpool_facts::named_enum;

/// Facts about a node that change rarely. One that could not be read is absent.
// A member without a value is written as null, which removes it: the agent sends merge patches.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeFacts {
    /// The directories in which the kubelet and the container runtime keep Secrets of pods.
    #[serde(default)]
    #[schemars(length(max = 4))]
    pub directories: Vec<DirectoryFacts>,
    /// The services of kubelet, container runtime and kube-proxy.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub services: Vec<ServiceFacts>,
    /// Whether an installed component or update waits for a restart of Windows.
    #[serde(default)]
    pub reboot_pending: Option<bool>,
    /// The revision of the build that Windows updates have installed. Example: 4529.
    #[serde(default)]
    pub revision: Option<u32>,
    /// When Windows was started, to the second, by the node's clock.
    #[serde(default)]
    pub booted_at: Option<Time>,
    /// By how many seconds the node's clock is ahead of that of the API server, if they differ by more than 5 seconds.
    #[serde(default)]
    pub clock_offset_seconds: Option<i32>,
    /// Whether the volume of the images is filled to imageGCHighThresholdPercent of the kubelet, so that it removes unused images;
    /// until it is below imageGCLowThresholdPercent.
    #[serde(default)]
    pub images_fill_disk: Option<bool>,
    /// Whether the node belongs to a domain.
    #[serde(default)]
    pub domain_joined: Option<bool>,
    /// The class identifiers of the plugins that fetch the credentials of group Managed Service Accounts for nodes that belong to no domain.
    /// Example: {e4781092-f116-4b79-b55e-28eb6a224e26}.
    #[serde(default)]
    #[schemars(length(max = 8), inner(length(max = 64)))]
    pub ccg_plugins: Option<Vec<String>>,
    /// Whether EnableCompartmentNamespace is set, with which pods reach SMB shares by their host names.
    #[serde(default)]
    pub compartment_namespace: Option<bool>,
    /// The names of the pipes of csi-proxy, which plugins for storage without HostProcess containers need. Example: csi-proxy-disk-v1.
    #[serde(default)]
    #[schemars(length(max = 16), inner(length(max = 64)))]
    pub csi_proxy_pipes: Option<Vec<String>>,
    /// The names of the flags of the kubelet, without their values. Example: cloud-config.
    #[serde(default)]
    #[schemars(length(max = 96), inner(length(max = 64)))]
    pub kubelet_flags: Option<Vec<String>>,
    /// The feature gates that the configuration of the kubelet sets. Example: WinOverlay=false.
    #[serde(default)]
    #[schemars(length(max = 64), inner(length(max = 96)))]
    pub feature_gates: Option<Vec<String>>,
    /// The feature gates that the flags or the configuration file of kube-proxy set. Example: WinDSR=true.
    #[serde(default)]
    #[schemars(length(max = 64), inner(length(max = 96)))]
    pub kube_proxy_gates: Option<Vec<String>>,
    /// Whether a file of containerd sets cni.bin_dir in the table of configuration version 3, and none sets bin_dirs.
    #[serde(default)]
    pub cni_bin_dir: Option<bool>,
    /// What the host network service (HNS) has. A problem is reported when two readings that follow each other have shown it.
    #[serde(default)]
    pub network: Option<NetworkFacts>,
}

/// What the host network service of a node has.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NetworkFacts {
    /// The number of endpoints on this node: of pods, of the node itself and of its CNI.
    #[serde(default)]
    pub endpoints: u32,
    /// The IP addresses, and the MAC addresses of endpoints on this node, that more than one endpoint of a network has. Example: 10.244.5.23.
    #[serde(default)]
    #[schemars(length(max = 16), inner(length(max = 64)))]
    pub duplicates: Vec<String>,
    /// The IP addresses of endpoints on this node that are of no running pod: they were detached, or are in a namespace and attached to
    /// nothing. Example: 10.244.5.24.
    #[serde(default)]
    #[schemars(length(max = 16), inner(length(max = 64)))]
    pub lost: Vec<String>,
    /// The number of load balancers, of which kube-proxy creates some for each Service.
    #[serde(default)]
    pub load_balancers: Option<u32>,
    /// Whether there is no load balancer, although there were some since the agent was started.
    #[serde(default)]
    pub load_balancers_lost: bool,
}

/// A directory with Secrets of pods.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryFacts {
    /// The path, such as C:\var\lib\kubelet.
    #[schemars(length(max = 260))]
    pub path: String,
    /// Who can read the files below it, apart from SYSTEM, Administrators, the installer of Windows and the accounts of containers, as a
    /// name such as BUILTIN\Users, or as a SID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(max = 192)))]
    pub readers: Option<Vec<String>>,
    /// Whether BitLocker protects its volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
}

/// A service of a node.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ServiceFacts {
    /// The name, such as kubelet.
    #[schemars(length(max = 256))]
    pub name: String,
    /// How it is started. Automatic: with Windows. Manual: by an administrator or a program. Disabled: never. Example: Automatic.
    pub start: ServiceStart,
    /// Whether the service manager, or nssm, starts it again when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<bool>,
}

named_enum! {
    /// How a service is started.
    #[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)] // explained at the field
    pub enum ServiceStart {
        Automatic,
        Manual,
        Disabled,
    }
}
