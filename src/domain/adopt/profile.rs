//! A profile from the resources that the nodes of a group report.
//!
//! Capacity minus allocatable is the sum of `systemReserved`, `kubeReserved` and the hard eviction threshold, which cannot
//! be told apart. What exceeds the default threshold becomes `systemReserved`, and `kubeReserved` zero, so that the sum
//! stays the same on a node where the profile is applied.

use std::collections::BTreeMap;

use crate::{
    api::{ContainerLogs, KubeletSettings, QuantityText, WindowsRuntimeProfileSpec},
    domain::{
        kubernetes::quantity::Quantity,
        node::WindowsNode,
        profile::Resource,
        render::reserve::{Reservation, TOLERANCE, reservations},
    },
    facts::eviction::Signal,
};

/// The default of `containerLogMaxSize` (kubernetes/kubernetes, `pkg/kubelet/apis/config/v1beta1/defaults.go`, 2026-08),
/// which differs from that of a profile.
const DEFAULT_LOG_SIZE: &str = "10Mi";

/// A profile with the settings of most nodes of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct AdoptedProfile {
    /// The spec of the profile.
    pub spec: WindowsRuntimeProfileSpec,
    /// The names of the nodes that report these resources.
    pub nodes: Vec<String>,
    /// The names of the nodes that report others.
    pub differing: Vec<String>,
    /// The names of the nodes that report none, or an unknown kubelet.
    pub unknown: Vec<String>,
}

/// The settings that the resources of a node show.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    /// What is reserved in addition to the eviction threshold, in the units of the resource.
    reserved: BTreeMap<Resource, i64>,
    /// The thresholds in bytes that are lower than the default.
    evicted_at: BTreeMap<Signal, i64>,
    max_pods: u32,
}

impl AdoptedProfile {
    /// The profile of nodes; `None` if none reports its resources.
    pub fn of(nodes: &[&WindowsNode]) -> Option<Self> {
        let mut by_settings: BTreeMap<Shown, Vec<String>> = BTreeMap::new();
        let mut unknown = Vec::new();
        for node in nodes {
            match Shown::on(node) {
                Some(shown) => by_settings.entry(shown).or_default().push(node.name.clone()),
                None => unknown.push(node.name.clone()),
            }
        }
        // Of equally frequent ones the first, so that the result does not depend on the order of the nodes.
        let most = by_settings.values().map(Vec::len).max()?;
        let (shown, _) = by_settings.iter().find(|(_, nodes)| nodes.len() == most)?;
        let shown = shown.clone();
        let nodes = by_settings.remove(&shown)?;
        let differing = by_settings.into_values().flatten().collect();
        let spec = WindowsRuntimeProfileSpec { kubelet: shown.settings(), ..WindowsRuntimeProfileSpec::default() };
        Some(Self { spec, nodes, differing, unknown })
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
            match signal {
                Some(signal) if beyond < -tolerance => {
                    shown.evicted_at.insert(signal, reserved);
                    shown.reserved.insert(resource, 0);
                }
                _ => {
                    shown.reserved.insert(resource, if beyond > tolerance { beyond } else { 0 });
                }
            }
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
