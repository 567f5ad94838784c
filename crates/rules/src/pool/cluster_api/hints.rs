//! What an autoscaler has to know about the machines of a group that has none: labels, taints and capacity.

use std::collections::BTreeMap;

use derive_more::Display;
use winpool_api::{SelectorOperator, names::label};
use winpool_core::kubernetes::quantity::Resource;
use winpool_core::{
    kubernetes::quantity::Quantity,
    node::{Resources, labels_of_kubelet},
    release_labels,
};
use winpool_facts::{
    Minor,
    cluster_api::{capacity, is_synced_to_nodes},
    node_restriction::kubelet_accepts,
};
use winpool_render::{
    profile::Profile,
    reserve::{self, Reserves},
};

use super::{rules::MachineCapacity, views::Infrastructure};
use crate::pool::{Members, Spec};

/// The labels of the pool's selector with which a kubelet registers its node.
pub fn node_labels(spec: &Spec) -> BTreeMap<String, String> {
    let known = labels_of_kubelet(spec.build);
    let Members::Selector(selector) = &spec.members else { return BTreeMap::new() };
    let labels = selector.match_labels.clone().into_iter();
    let single = selector.match_expressions.iter().filter_map(|requirement| {
        match (requirement.operator, &requirement.values[..]) {
            (SelectorOperator::In, [value]) => Some((requirement.key.clone(), value.clone())),
            _ => None,
        }
    });
    labels.chain(single).filter(|(key, _)| kubelet_accepts(key) && !known.contains_key(key)).collect()
}

/// The labels that a new node has before winpool writes to it: those that the kubelet sets by itself, those with which it
/// registers, and those that Cluster API copies from the machine.
pub fn labels_at_registration(
    spec: &Spec,
    machine_labels: &BTreeMap<String, String>,
    node_labels: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let synced = machine_labels.iter().filter(|(key, _)| is_synced_to_nodes(key));
    let labels = node_labels.iter().chain(synced).map(|(key, value)| (key.clone(), value.clone()));
    labels_of_kubelet(spec.build).into_iter().chain(labels).collect()
}

/// The labels of a node of the pool, with those that winpool sets.
pub fn labels(
    pool: &str,
    spec: &Spec,
    machine_labels: &BTreeMap<String, String>,
    node_labels: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut labels = labels_at_registration(spec, machine_labels, node_labels);
    labels.extend(spec.labels.clone());
    release_labels::replace(&mut labels, release_labels::expected(spec.build));
    labels.insert(label::POOL.to_owned(), pool.to_owned());
    labels
}

/// The resources of a machine that annotations describe, each with its annotation.
const DESCRIBED: [(Resource, &str); 3] = [
    (Resource::Cpu, capacity::CPU),
    (Resource::Memory, capacity::MEMORY),
    (Resource::EphemeralStorage, capacity::EPHEMERAL_DISK),
];

/// The annotations of a group, without those that the provider makes unnecessary. The autoscaler reads them as what a new node
/// has for pods, so the reserves of the profile and the eviction thresholds of a kubelet of this minor are subtracted.
pub fn annotations(
    labels: &BTreeMap<String, String>,
    spec: &Spec,
    (profile, kubelet): (Option<&Profile>, Minor),
    capacity: Option<MachineCapacity>,
    provider: Option<&Infrastructure>,
) -> BTreeMap<&'static str, String> {
    let Some(rule) = capacity else { return BTreeMap::new() };
    let mut annotations =
        BTreeMap::from([(capacity::LABELS, joined(labels.iter().map(|(key, value)| format!("{key}={value}"))))]);
    if !spec.taints.is_empty() {
        annotations.insert(capacity::TAINTS, joined(spec.taints.iter().map(ToString::to_string)));
    }
    let left = reserve::allocatable(&reserves(profile), kubelet, &rule.resources());
    // Without it the autoscaler assumes 110, also where the provider reports another number.
    annotations.extend(profile.and(left.pods).map(|pods| (capacity::MAX_PODS, pods.to_string())));
    let reported =
        |resource: Resource| provider.is_some_and(|provider| provider.capacity.contains_key(resource.name()));
    for (resource, key) in DESCRIBED.into_iter().filter(|(resource, _)| !reported(*resource)) {
        annotations.extend(left.get(resource).map(|amount| (key, resource.quantity(amount).to_string())));
    }
    annotations
}

/// A resource of which a provider reports the capacity, so that the autoscaler expects more of it on a new node than there is for
/// pods.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
#[display("{} {capacity} instead of {allocatable}", resource.name())]
pub struct Overstated {
    pub resource: Resource,
    /// What the provider reports.
    pub capacity: Quantity,
    /// What a new node has for pods.
    pub allocatable: Quantity,
    /// The annotation with which another amount can be described.
    pub annotation: &'static str,
}

/// The resources that a provider overstates, unless an annotation of the group describes them.
pub fn overstated(
    annotations: &BTreeMap<String, String>,
    (profile, kubelet): (Option<&Profile>, Minor),
    provider: &Infrastructure,
) -> Vec<Overstated> {
    let reported = |resource: Resource| provider.capacity.get(resource.name())?.parse::<Quantity>().ok();
    let [cpu, memory, disk] = DESCRIBED.map(|(resource, _)| reported(resource));
    let capacity = Resources {
        cpu_milli: cpu.map(Quantity::milli),
        memory: memory.map(Quantity::bytes),
        ephemeral_storage: disk.map(Quantity::bytes),
        pods: None,
    };
    let left = reserve::allocatable(&reserves(profile), kubelet, &capacity);
    let described = DESCRIBED.into_iter().filter(|(_, key)| !annotations.contains_key(*key));
    let overstated = described.filter_map(|(resource, annotation)| {
        let (has, left) = (capacity.get(resource)?, left.get(resource)?);
        let [capacity, allocatable] = [has, left].map(|amount| resource.quantity(amount));
        (left < has).then_some(Overstated { resource, capacity, allocatable, annotation })
    });
    overstated.collect()
}

/// What a kubelet reserves, with its defaults if no profile decides.
fn reserves(profile: Option<&Profile>) -> Reserves {
    profile.map(|profile| Reserves::from(&profile.kubelet)).unwrap_or_default()
}

/// The format of the autoscaler, which trims no spaces.
fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(",")
}
