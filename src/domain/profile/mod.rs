//! A profile whose values are understood, the check that gets there, and the status of the resource.

mod check;
mod containerd;
mod extra;
mod gates;
mod network;
pub mod status;

use std::collections::BTreeMap;

use super::{
    Problem,
    quantity::{Quantity, Threshold},
};
use crate::{
    api::{ContainerdSettings, KubeProxySettings, PriorityClass, ProxySettings},
    facts::{eviction::Signal, kubelet_fields::Field, pause::Registry},
};

pub use check::check;
pub use gates::unmet_dependencies;

/// What a `WindowsRuntimeProfile` asks for, in values that the rules can work with.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Settings of the kubelet.
    pub kubelet: Kubelet,
    /// Which pause image.
    pub pause: Pause,
    /// Settings of containerd.
    pub containerd: ContainerdSettings,
    /// `extraConfig` of containerd, parsed.
    pub containerd_extra: toml::Table,
    /// Settings of kube-proxy, if it is not left alone.
    pub kube_proxy: Option<KubeProxySettings>,
    /// The proxy of the node's services.
    pub proxy: ProxySettings,
    /// What is allowed and may not be what was meant.
    pub warnings: Vec<Problem>,
}

/// Settings of the kubelet.
#[derive(Clone, Debug, PartialEq)]
pub struct Kubelet {
    /// The priority class of its process.
    pub priority_class: PriorityClass,
    /// What is kept for Windows.
    pub system_reserved: BTreeMap<Resource, Quantity>,
    /// What is kept for the kubelet and the container runtime.
    pub kube_reserved: BTreeMap<Resource, Quantity>,
    /// The eviction thresholds that the profile names; the others are the minor's defaults.
    pub eviction_hard: BTreeMap<Signal, Threshold>,
    /// The most pods on a node.
    pub max_pods: u32,
    /// Disk use in percent above which images are removed.
    pub image_gc_high: u8,
    /// Disk use in percent at which the removal stops.
    pub image_gc_low: u8,
    /// The size at which a log file is rotated.
    pub log_max_size: Quantity,
    /// How many log files are kept for a container.
    pub log_max_files: u32,
    /// Feature gates.
    pub feature_gates: BTreeMap<String, bool>,
    /// The verbosity of its log; without one, that of the node's own configuration.
    pub verbosity: Option<u32>,
    /// Other fields of KubeletConfiguration, in the order in which a configuration has them.
    pub extra: Vec<(&'static Field, serde_json::Value)>,
}

impl Kubelet {
    /// The value of a field in `extra`.
    pub fn extra(&self, name: &str) -> Option<&serde_json::Value> {
        self.extra.iter().find(|(field, _)| field.name == name).map(|(_, value)| value)
    }
}

impl Profile {
    /// The mirrors of a registry, in the order in which they are asked.
    pub fn mirrors(&self, registry: &str) -> impl Iterator<Item = &String> {
        let mirrors = self.containerd.registry_mirrors.iter().filter(move |mirror| mirror.registry == registry);
        mirrors.flat_map(|mirror| &mirror.endpoints)
    }
}

/// A resource that a Windows kubelet can reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Processors.
    Cpu,
    /// Memory.
    Memory,
    /// The disk with the kubelet's files.
    EphemeralStorage,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::EphemeralStorage];

    /// The name, as Kubernetes has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
        }
    }

    /// The resource of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == name)
    }
}

/// Which pause image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// From a registry whose tags are known: this tag, or the one that fits.
    Known(Registry, Option<String>),
    /// From a repository of the user's own: this tag, or the one that the kubelet's minor asks for.
    Custom(String, Option<String>),
}
