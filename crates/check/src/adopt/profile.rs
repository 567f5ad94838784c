//! A profile from the configuration that the kubelets of a group use, or from the resources that the nodes report: capacity
//! minus allocatable is the sum of `systemReserved`, `kubeReserved` and the hard eviction threshold. What exceeds the default
//! threshold becomes `systemReserved`, so that the sum stays the same where the profile is applied.

use std::collections::BTreeMap;

use winpool_api::{ContainerLogs, KubeletSettings, QuantityText, WindowsRuntimeProfileSpec};
use winpool_core::{
    kubernetes::quantity::{Quantity, Resource},
    node::WindowsNode,
};
use winpool_render::reserve::{Reservation, TOLERANCE, reservations};

use super::configz::{self, KubeletConfiguration};

/// The default of `containerLogMaxSize` (kubernetes/kubernetes, `pkg/kubelet/apis/config/v1beta1/defaults.go`, 2026-08),
/// which differs from that of a profile.
const DEFAULT_LOG_SIZE: &str = "10Mi";

/// A profile with the settings of most nodes of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct AdoptedProfile {
    pub spec: WindowsRuntimeProfileSpec,
    pub source: SettingsSource,
    pub nodes: Vec<String>,
    /// The names of the nodes with others.
    pub differing: Vec<String>,
    /// The names of the nodes whose settings are unknown.
    pub unknown: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsSource {
    /// Capacity and allocatable in the status of each node.
    Resources,
    /// The configuration that each kubelet uses.
    Configz,
}

impl AdoptedProfile {
    /// The profile of nodes, sorted by name; `None` if no settings are known. With the configuration of at least one kubelet,
    /// resources are not used, because they show less.
    pub fn of(nodes: &[&WindowsNode], kubelets: &BTreeMap<String, KubeletConfiguration>) -> Option<Self> {
        let configured = |node: &WindowsNode| Some(configz::settings(kubelets.get(&node.name)?, node.kubelet_minor()?));
        Self::most_frequent(nodes, SettingsSource::Configz, configured)
            .or_else(|| Self::most_frequent(nodes, SettingsSource::Resources, settings_of_resources))
    }

    fn most_frequent(
        nodes: &[&WindowsNode],
        source: SettingsSource,
        settings: impl Fn(&WindowsNode) -> Option<KubeletSettings>,
    ) -> Option<Self> {
        let mut by_settings: Vec<(KubeletSettings, Vec<String>)> = Vec::new();
        let mut unknown = Vec::new();
        for node in nodes {
            let name = node.name.clone();
            match settings(node) {
                None => unknown.push(name),
                Some(settings) => match by_settings.iter_mut().find(|(known, _)| *known == settings) {
                    Some((_, nodes)) => nodes.push(name),
                    None => by_settings.push((settings, vec![name])),
                },
            }
        }
        // Of equally frequent ones the first.
        let most = by_settings.iter().map(|(_, nodes)| nodes.len()).max()?;
        let position = by_settings.iter().position(|(_, nodes)| nodes.len() == most)?;
        let (kubelet, nodes) = by_settings.remove(position);
        let differing = by_settings.into_iter().flat_map(|(_, nodes)| nodes).collect();
        let spec = WindowsRuntimeProfileSpec { kubelet, ..WindowsRuntimeProfileSpec::default() };
        Some(Self { spec, source, nodes, differing, unknown })
    }
}

/// The settings that the resources of a node show.
fn settings_of_resources(node: &WindowsNode) -> Option<KubeletSettings> {
    let minor = node.kubelet_minor()?;
    let max_pods = node.capacity.pods.and_then(|pods| u32::try_from(pods).ok()).filter(|pods| *pods > 0)?;
    let container_logs =
        ContainerLogs { max_size: QuantityText(DEFAULT_LOG_SIZE.to_owned()), ..ContainerLogs::default() };
    let system_reserved = BTreeMap::new();
    let mut settings = KubeletSettings { max_pods, container_logs, system_reserved, ..KubeletSettings::default() };
    for Reservation { resource, reserved, signal, by_default } in reservations(minor, &node.capacity, &node.allocatable)
    {
        let tolerance = if resource == Resource::Cpu { 0 } else { TOLERANCE };
        let beyond = reserved - by_default;
        if let Some(signal) = signal.filter(|_| beyond < -tolerance) {
            let threshold = if reserved == 0 { "0%".to_owned() } else { Quantity::of_bytes(reserved).to_string() };
            settings.eviction_hard.insert(signal.name().to_owned(), QuantityText(threshold));
        }
        let beyond = if beyond > tolerance { beyond } else { 0 };
        // The default of a profile reserves memory, so an absent reserve is written too.
        if resource == Resource::Memory || beyond > 0 {
            let amount = |units| QuantityText(resource.quantity(units).to_string());
            settings.system_reserved.insert(resource.name().to_owned(), amount(beyond));
            settings.kube_reserved.insert(resource.name().to_owned(), amount(0));
        }
    }
    settings.system_reserved.contains_key(Resource::Memory.name()).then_some(settings)
}
