//! What an autoscaler has to know about the machines of a group that has none: labels, taints and capacity.

use std::collections::BTreeMap;

use winpool_api::{
    SelectorOperator, Taint,
    facts::{
        Build,
        cluster_api::{capacity, is_synced_to_nodes},
        node_restriction::kubelet_accepts,
    },
    names::label,
};

use super::{rules::MachineCapacity, views::Infrastructure};
use crate::{
    pool::{Members, Spec},
    profile::Profile,
    release_labels,
};

/// The labels of the pool's selector with which a kubelet registers its node.
pub fn node_labels(spec: &Spec) -> BTreeMap<String, String> {
    let known = known_labels(spec.build);
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
    known_labels(spec.build).into_iter().chain(labels).collect()
}

/// The labels that the kubelet sets by itself.
fn known_labels(build: Build) -> BTreeMap<String, String> {
    let labels = [
        (label::OS, "windows".to_owned()),
        (label::ARCH, "amd64".to_owned()),
        (label::WINDOWS_BUILD, build.to_string()),
    ];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
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

/// The annotations of a group, without those that the provider makes unnecessary.
pub fn annotations(
    labels: &BTreeMap<String, String>,
    spec: &Spec,
    profile: Option<&Profile>,
    capacity: Option<MachineCapacity>,
    provider: Option<&Infrastructure>,
) -> BTreeMap<&'static str, String> {
    let Some(rule) = capacity else { return BTreeMap::new() };
    let mut annotations = BTreeMap::from([(capacity::LABELS, joined_labels(labels))]);
    if !spec.taints.is_empty() {
        annotations.insert(capacity::TAINTS, joined_taints(&spec.taints));
    }
    // Without it the autoscaler assumes 110, also where the provider reports another number.
    annotations.extend(profile.map(|profile| (capacity::MAX_PODS, profile.kubelet.max_pods.to_string())));
    let reported = |resource: &str| provider.is_some_and(|provider| provider.capacity.contains_key(resource));
    let disk = rule.ephemeral_disk.map(|disk| disk.to_string());
    for (resource, key, value) in [
        ("cpu", capacity::CPU, Some(rule.cpu.to_string())),
        ("memory", capacity::MEMORY, Some(rule.memory.to_string())),
        ("ephemeral-storage", capacity::EPHEMERAL_DISK, disk),
    ] {
        annotations.extend(value.filter(|_| !reported(resource)).map(|value| (key, value)));
    }
    annotations
}

/// The format of the autoscaler, which trims no spaces.
fn joined_labels(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn joined_taints(taints: &[Taint]) -> String {
    let one = |taint: &Taint| match taint.value.as_str() {
        "" => format!("{}:{}", taint.key, taint.effect.as_str()),
        value => format!("{}={value}:{}", taint.key, taint.effect.as_str()),
    };
    taints.iter().map(one).collect::<Vec<_>>().join(",")
}
