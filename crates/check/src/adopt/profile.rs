//! A profile from the configuration that the kubelets of a group use, or from the resources that the nodes report.
//!
//! Without the configuration, capacity minus allocatable is the sum of `systemReserved`, `kubeReserved` and the hard eviction
//! threshold, which cannot be distinguished. What exceeds the default threshold becomes `systemReserved`, and `kubeReserved`
//! zero, so that the sum stays the same on a node where the profile is applied.

use std::collections::BTreeMap;

use winpool_api::{ContainerLogs, KubeletSettings, QuantityText, WindowsRuntimeProfileSpec};
use winpool_core::kubernetes::quantity::Resource;
use winpool_core::{kubernetes::quantity::Quantity, node::WindowsNode};
use winpool_facts::eviction::Signal;
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

/// What the settings of nodes were read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsSource {
    /// Capacity and allocatable in the status of each node.
    Resources,
    /// The configuration that each kubelet uses.
    Configz,
}

/// The settings that the resources of a node show.
#[derive(Debug, Default)]
struct Shown {
    /// What is reserved in addition to the eviction threshold, in the units of the resource.
    reserved: BTreeMap<Resource, i64>,
    /// The thresholds in bytes that are lower than the default.
    evicted_at: BTreeMap<Signal, i64>,
    max_pods: u32,
}

impl AdoptedProfile {
    /// The profile of nodes, sorted by name; `None` if no settings are known. With the configuration of at least one kubelet,
    /// resources are not used, because they show less.
    pub fn of(nodes: &[&WindowsNode], kubelets: &BTreeMap<String, KubeletConfiguration>) -> Option<Self> {
        let configured = |node: &WindowsNode| Some(configz::settings(kubelets.get(&node.name)?, node.kubelet_minor()?));
        Self::most_frequent(nodes, SettingsSource::Configz, configured).or_else(|| {
            Self::most_frequent(nodes, SettingsSource::Resources, |node| Shown::on(node).map(Shown::settings))
        })
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

impl Shown {
    fn on(node: &WindowsNode) -> Option<Self> {
        let minor = node.kubelet_minor()?;
        let max_pods = node.capacity.pods.and_then(|pods| u32::try_from(pods).ok()).filter(|pods| *pods > 0)?;
        let mut shown = Self { max_pods, ..Self::default() };
        for Reservation { resource, reserved, signal, by_default } in
            reservations(minor, &node.capacity, &node.allocatable)
        {
            let tolerance = if resource == Resource::Cpu { 0 } else { TOLERANCE };
            let beyond = reserved - by_default;
            let lowered = signal.filter(|_| beyond < -tolerance);
            shown.evicted_at.extend(lowered.map(|signal| (signal, reserved)));
            shown.reserved.insert(resource, if beyond > tolerance { beyond } else { 0 });
        }
        shown.reserved.contains_key(&Resource::Memory).then_some(shown)
    }

    fn settings(self) -> KubeletSettings {
        let amount = |resource: Resource, units: i64| QuantityText(resource.quantity(units).to_string());
        // The default of a profile reserves memory, so an absent reserve is written too.
        let reserved =
            self.reserved.into_iter().filter(|(resource, units)| *resource == Resource::Memory || *units > 0);
        let reserved: Vec<(Resource, i64)> = reserved.collect();
        let by_name = |zero: bool| -> BTreeMap<String, QuantityText> {
            let amounts = reserved.iter().map(|(resource, units)| {
                (resource.name().to_owned(), amount(*resource, if zero { 0 } else { *units }))
            });
            amounts.collect()
        };
        let threshold = |bytes: i64| match bytes {
            0 => QuantityText("0%".to_owned()),
            bytes => QuantityText(Quantity::of_bytes(bytes).to_string()),
        };
        let evicted_at =
            self.evicted_at.into_iter().map(|(signal, bytes)| (signal.name().to_owned(), threshold(bytes)));
        KubeletSettings {
            system_reserved: by_name(false),
            kube_reserved: by_name(true),
            eviction_hard: evicted_at.collect(),
            max_pods: self.max_pods,
            container_logs: ContainerLogs {
                max_size: QuantityText(DEFAULT_LOG_SIZE.to_owned()),
                ..ContainerLogs::default()
            },
            ..KubeletSettings::default()
        }
    }
}
