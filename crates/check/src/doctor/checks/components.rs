//! What a Windows node needs as DaemonSets.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::DaemonSet,
        core::v1::{ContainerStatus, Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use winpool_api::names::label;
use winpool_core::object_key;

use crate::doctor::case::{
    Case, Checked, Observation, PodState, START, Undetermined, containers, contains_one, name, node_of, phase,
    pod_condition, unless_unknown, uses_host_network,
};

use super::young_pod;

/// What a node needs as a DaemonSet.
#[derive(Clone, Copy)]
pub struct RequiredSet {
    name: &'static str,
    /// What the name of its DaemonSet or one of its images contains.
    marks: &'static [&'static str],
    /// Whether every cluster needs one.
    always: bool,
}

/// kube-proxy on the nodes.
pub const KUBE_PROXY: RequiredSet = RequiredSet { name: "kube-proxy", marks: &["kube-proxy"], always: true };

/// The CNI on the nodes.
pub const CNI: RequiredSet = RequiredSet {
    name: "the CNI",
    marks: &["flannel", "calico", "antrea", "cilium", "azure-cns", "-cni", "cni-"],
    always: true,
};

/// CSI drivers on the nodes.
pub const CSI: RequiredSet = RequiredSet { name: "a CSI driver", marks: &["csi-"], always: false };

impl RequiredSet {
    fn is(self, set: &DaemonSet) -> bool {
        let spec = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let images = spec.into_iter().flat_map(|spec| &spec.containers).filter_map(|one| one.image.as_deref());
        let selects_windows = spec.and_then(|spec| spec.node_selector.as_ref()?.get(label::OS)).map(String::as_str);
        let is_marked = |text: &str| contains_one(text, self.marks);
        selects_windows != Some("linux") && (is_marked(name(&set.metadata)) || images.into_iter().any(is_marked))
    }
}

/// The DaemonSets of a component, if they could be read.
pub fn sets_of<'e>(case: &Case<'e>, component: RequiredSet) -> Vec<&'e DaemonSet> {
    case.evidence.daemon_sets().unwrap_or_default().iter().filter(|set| component.is(set)).collect()
}

/// DaemonSets of a component whose pod on a node is missing or not ready.
pub fn component(case: &Case<'_>, component: RequiredSet) -> Checked {
    let nodes = case.evidence.nodes()?;
    case.evidence.daemon_sets()?;
    let sets = sets_of(case, component);
    let pods = case.evidence.pods()?;
    if sets.is_empty() && component.always && !nodes.is_empty() {
        let what = component.name;
        let reason = format!("no DaemonSet of {what} for Windows was found: it may run as a service of the node");
        return Err(Undetermined::NotShown(reason));
    }
    let pairs = sets.iter().flat_map(|set| nodes.iter().map(move |node| (*set, node)));
    let (mut observed, mut young) = (Vec::new(), Vec::new());
    for (set, node) in pairs {
        match pod_problem(case, pods, set, node) {
            Some(Ok(problem)) => observed.push(problem),
            Some(Err(pod)) => young.push(pod),
            None => {}
        }
    }
    unless_unknown(observed, young, Undetermined::Young)
}

/// The problem of the pod of a set on a node; `Err` if the pod is new.
fn pod_problem(case: &Case<'_>, pods: &[Pod], set: &DaemonSet, node: &Node) -> Option<Result<Observation, String>> {
    let place = format!("DaemonSet {}", object_key(&set.metadata));
    let node_name = name(&node.metadata);
    let of_set = |pod: &&Pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        node_of(pod) == node_name && owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
    };
    let Some(pod) = pods.iter().find(of_set) else {
        return selects(set, node).then(|| Ok(Observation::of_node(node_name, place, "has no pod on this node")));
    };
    let age = pod.metadata.creation_timestamp.as_ref().map(|Time(at)| case.now().duration_since(*at));
    let is_new = age.is_some_and(|age| age < START);
    let is_ready = pod_condition(pod, "Ready") == Some("True");
    let text = || format!("pod {} is {} and not ready", object_key(&pod.metadata), phase(pod));
    (!is_ready).then(|| if is_new { Err(young_pod(pod)) } else { Ok(Observation::of_node(node_name, place, text())) })
}

/// Whether a DaemonSet certainly selects a node: by a selector that names Windows, and without an affinity.
fn selects(set: &DaemonSet, node: &Node) -> bool {
    let Some(spec) = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()) else { return false };
    let Some(selector) = spec.node_selector.as_ref() else { return false };
    let labels = node.metadata.labels.as_ref();
    let matches = |(key, value): (&String, &String)| labels.is_some_and(|labels| labels.get(key) == Some(value));
    let is_windows = selector.get(label::OS).is_some_and(|os| os == "windows");
    spec.affinity.is_none() && is_windows && selector.iter().all(matches)
}

/// Pods that are not ready, and began before the CNI that runs now on their node.
pub fn before_cni(case: &Case<'_>) -> Checked {
    let all = case.evidence.pods()?;
    let sets = case.evidence.daemon_sets()?.iter().filter(|set| CNI.is(set));
    let sets: BTreeSet<_> = sets.filter_map(|set| set.metadata.uid.as_ref()).collect();
    let is_cni = |pod: &&Pod| pod.metadata.owner_references.iter().flatten().any(|owner| sets.contains(&owner.uid));
    let begun = all.iter().filter(is_cni).filter_map(|pod| Some((node_of(pod), running_since(pod)?)));
    let begun: BTreeMap<&str, Timestamp> = begun.collect();
    let observed = case.pods_in(PodState::NotReady)?.into_iter().filter_map(|pod| {
        let Time(started) = pod.status.as_ref()?.start_time.as_ref()?;
        let cni = begun.get(node_of(pod)).filter(|cni| started < *cni)?;
        let is_restarted = containers(pod).any(|one| one.restart_count > 0);
        let has_network = !uses_host_network(pod) && phase(pod) == "Running";
        let text = format!("the pod began at {started}, and the CNI of the node at {cni}");
        (is_restarted && has_network).then(|| Observation::of_pod(pod, "start", text))
    });
    Ok(observed.collect())
}

fn running_since(pod: &Pod) -> Option<Timestamp> {
    let of = |one: &ContainerStatus| Some(one.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0);
    containers(pod).filter_map(of).max()
}
