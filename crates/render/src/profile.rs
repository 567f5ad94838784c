//! Profiles: their parsed values, and the checks that produce them.

mod check;
mod containerd;
mod diversions;
mod eviction;
mod extra;
mod gates;
mod network;
mod paths;
mod problems;
mod settings;

use std::collections::BTreeMap;

use winpool_api::{ContainerdSettings, KubeProxySettings, PriorityClass, ProxySettings};
use winpool_facts::{eviction::Signal, kubelet_fields::Field, pause::PausePublisher};

use winpool_core::{
    Problem,
    kubernetes::quantity::{Quantity, Resource, Threshold},
};

pub use check::check;
pub use containerd::selects_cimfs;
pub use diversions::{DIVERTING_FIELDS, DivertingField, diversions, kubelet_diversions};
pub use extra::{is_resolv_conf, type_problem};
pub use gates::{GatedProgram, gate_problems};
pub use paths::is_windows_path;
pub use settings::{SettingWriter, UnwrittenSetting, destinations, local_paths, node_directories, unwritten};

#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub kubelet: Kubelet,
    pub pause: Pause,
    pub containerd: ContainerdSettings,
    pub containerd_extra: toml::Table,
    pub kube_proxy: Option<KubeProxySettings>,
    /// The HTTP proxy of the node's services.
    pub proxy: ProxySettings,
    /// The number of monthly updates that an image may be behind; `None` if none is reported.
    pub max_image_updates_behind: Option<u32>,
    pub warnings: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // fields without a comment are as in the API
pub struct Kubelet {
    pub priority_class: PriorityClass,
    pub system_reserved: BTreeMap<Resource, Quantity>,
    pub kube_reserved: BTreeMap<Resource, Quantity>,
    /// The eviction thresholds of the profile. Other signals have the minor's defaults.
    pub eviction_hard: BTreeMap<Signal, Threshold>,
    pub max_pods: u32,
    /// The disk usage in percent at which image garbage collection starts.
    pub image_gc_high: u8,
    /// The disk usage in percent at which image garbage collection stops.
    pub image_gc_low: u8,
    pub log_max_size: Quantity,
    pub log_max_files: u32,
    pub feature_gates: BTreeMap<String, bool>,
    /// The verbosity of the log; `None` for the value of the node's own configuration.
    pub verbosity: Option<u32>,
    /// Other fields of KubeletConfiguration, in its order.
    pub extra: Vec<(&'static Field, serde_json::Value)>,
}

impl Kubelet {
    pub fn extra(&self, name: &str) -> Option<&serde_json::Value> {
        self.extra.iter().find(|(field, _)| field.name == name).map(|(_, value)| value)
    }
}

impl Profile {
    /// The mirrors of a registry, in order of preference.
    pub fn mirrors(&self, registry: &str) -> impl Iterator<Item = &String> {
        let mirrors = self.containerd.registry_mirrors.iter().filter(move |mirror| mirror.registry == registry);
        mirrors.flat_map(|mirror| &mirror.endpoints)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// From a registry with known tags: this tag, or a compatible one.
    Known(PausePublisher, Option<String>),
    /// From another repository: this tag, or the default tag of the kubelet's minor.
    Custom(String, Option<String>),
    /// That of the node's own configuration.
    Node,
}
