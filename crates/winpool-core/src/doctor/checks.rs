//! The checks of symptoms that more than one field shows.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        apps::v1::DaemonSet,
        core::v1::{ContainerState, ContainerStatus, Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
};
use winpool_api::{
    conditions::READY,
    facts::{
        exit_codes::{IMAGE_MISMATCH, exit_code},
        runtime_errors::is_platform_mismatch,
    },
    names::label,
};

use super::{
    case::{
        Case, Checked, Observation, PodState, Undetermined, conditions, containers, contains_one, key, name, phase,
        pod_condition,
    },
    evidence::Patient,
};
use crate::{
    known_issues,
    node::WindowsNode,
    workload::{self, PoolWorkloads},
};

/// A kubelet that runs renews its Lease every 10 seconds, and a node without a renewal is Unknown after 40.
const LEASE: SignedDuration = SignedDuration::from_secs(40);
/// How long a pod may wait for its containers, as images for Windows are large.
const START: SignedDuration = SignedDuration::from_mins(10);
/// How long a machine may need to join.
const JOIN: SignedDuration = SignedDuration::from_mins(20);

/// The reasons of a container that waits for its image.
const PULLING: &[&str] = &["ErrImagePull", "ImagePullBackOff"];
/// What errors of a connection to a registry contain.
pub(super) const CONNECTION: &[&str] =
    &["connectex", "i/o timeout", "connection reset", "forcibly closed", "no such host", "tls handshake timeout"];

/// The conditions that a kubelet or the node controller writes.
const KNOWN_CONDITIONS: &[&str] = &["Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"];

/// What a node needs as a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeComponent {
    KubeProxy,
    Cni,
    Csi,
}

impl NodeComponent {
    const fn name(self) -> &'static str {
        match self {
            Self::KubeProxy => "kube-proxy",
            Self::Cni => "the CNI",
            Self::Csi => "a CSI driver",
        }
    }

    /// What the name of its DaemonSet or one of its images contains.
    const fn marks(self) -> &'static [&'static str] {
        match self {
            Self::KubeProxy => &["kube-proxy"],
            Self::Cni => &["flannel", "calico", "antrea", "cilium", "azure-cns", "-cni", "cni-"],
            Self::Csi => &["csi-"],
        }
    }

    fn is(self, set: &DaemonSet) -> bool {
        let spec = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let images = spec.into_iter().flat_map(|spec| &spec.containers).filter_map(|one| one.image.as_deref());
        let selects_windows = spec.and_then(|spec| spec.node_selector.as_ref()?.get(label::OS)).map(String::as_str);
        let is_marked = |text: &str| contains_one(text, self.marks());
        selects_windows != Some("linux") && (is_marked(name(&set.metadata)) || images.into_iter().any(is_marked))
    }
}

/// The codes with which containers ended.
fn exits(pod: &Pod) -> impl Iterator<Item = (&ContainerStatus, i32)> {
    let code = |state: &Option<ContainerState>| Some(state.as_ref()?.terminated.as_ref()?.exit_code);
    containers(pod).filter_map(move |one| Some((one, code(&one.state).or_else(|| code(&one.last_state))?)))
}

fn exits_with(case: &Case<'_>, is_asked: impl Fn(&str) -> bool) -> Checked {
    let pods = case.pods_in(PodState::NotReady)?;
    let ended = pods.into_iter().flat_map(|pod| exits(pod).map(move |(container, code)| (pod, container, code)));
    let observed = ended.filter_map(|(pod, container, code)| {
        let row = exit_code(code).filter(|row| is_asked(row.name))?;
        let text = format!("exit code {code} (0x{:08X} {}): {}", row.code, row.name, row.meaning);
        Some(Observation::of_pod(pod, format!("container {}", container.name), text))
    });
    Ok(observed.collect())
}

/// Containers that Windows ended.
pub(super) fn exit_codes(case: &Case<'_>) -> Checked {
    exits_with(case, |name| name != IMAGE_MISMATCH)
}

/// The messages of the container runtime about containers.
fn messages(pod: &Pod) -> impl Iterator<Item = (&ContainerStatus, &str)> {
    containers(pod).flat_map(|one| {
        let states = [&one.state, &one.last_state].into_iter().flatten();
        states.flat_map(move |state| {
            let waiting = state.waiting.as_ref().and_then(|waiting| waiting.message.as_deref());
            let ended = state.terminated.as_ref().and_then(|ended| ended.message.as_deref());
            [waiting, ended].into_iter().flatten().map(move |message| (one, message))
        })
    })
}

/// Images that do not match the Windows of the node.
pub(super) fn image_mismatch(case: &Case<'_>) -> Checked {
    let mut observed = exits_with(case, |name| name == IMAGE_MISMATCH)?;
    let pods = case.pods_in(PodState::NotReady)?;
    let reported = pods.iter().flat_map(|pod| messages(pod).map(move |(container, text)| (pod, container, text)));
    observed.extend(
        reported
            .filter(|(_, _, text)| is_platform_mismatch(text))
            .map(|(pod, container, text)| Observation::of_pod(pod, format!("container {}", container.name), text)),
    );
    if observed.is_empty() {
        let events = case.events(&pods, &["Failed"])?;
        let is_mismatch = |text: &Option<String>| text.as_deref().is_some_and(is_platform_mismatch);
        let events = events.into_iter().filter(|(_, event)| is_mismatch(&event.message));
        observed.extend(events.map(|(pod, event)| Observation::of_event(pod, event)));
    }
    Ok(observed)
}

/// Images that cannot be pulled, for another reason than their platform or the network.
pub(super) fn image_pull(case: &Case<'_>) -> Checked {
    let is_pulling =
        |pod: &&Pod| containers(pod).any(|one| waiting(one).is_some_and(|(reason, _)| PULLING.contains(&reason)));
    let pods: Vec<_> = case.pods_in(PodState::NotReady)?.into_iter().filter(is_pulling).collect();
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let events = case.events(&pods, &["Failed"])?;
    let has_other_cause = |text: &str| is_platform_mismatch(text) || contains_one(text, CONNECTION);
    let observed = pods.into_iter().filter_map(|pod| {
        let of_pod = events.iter().filter(|(about, _)| about.metadata.uid == pod.metadata.uid);
        let of_pod = of_pod.filter_map(|(_, event)| event.message.as_deref());
        let texts: Vec<&str> = of_pod.chain(messages(pod).map(|(_, text)| text)).collect();
        let text = texts.iter().find(|text| contains_one(text, &["pull"])).copied().unwrap_or_default();
        (!texts.iter().any(|text| has_other_cause(text))).then(|| Observation::of_pod(pod, "image", text))
    });
    Ok(observed.collect())
}

fn waiting(container: &ContainerStatus) -> Option<(&str, &str)> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    Some((waiting.reason.as_deref()?, waiting.message.as_deref().unwrap_or_default()))
}

/// Pods that have waited for their containers for long, without an event that tells why.
pub(super) fn container_creating(case: &Case<'_>) -> Checked {
    let since = |pod: &Pod| pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|Time(at)| *at);
    let is_late = |pod: &&Pod| since(pod).is_some_and(|at| case.now().duration_since(at) > START);
    let pods: Vec<_> = case.pods_in(PodState::NotStarted)?.into_iter().filter(is_late).collect();
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let told = case.events(&pods, &["FailedCreatePodSandBox", "Failed", "FailedMount", "FailedAttachVolume"])?;
    let told: BTreeSet<_> = told.iter().map(|(pod, _)| &pod.metadata.uid).collect();
    let silent = pods.into_iter().filter(|pod| !told.contains(&pod.metadata.uid));
    let observed = silent.filter_map(|pod| {
        let (reason, _) = containers(pod).find_map(waiting).filter(|(reason, _)| !PULLING.contains(reason))?;
        Some(Observation::of_pod(
            pod,
            "state",
            format!("{reason} since {}, without an event of a failure", since(pod)?),
        ))
    });
    Ok(observed.collect())
}

/// Nodes that are not ready, by whether the kubelet renews its Lease.
fn not_ready(case: &Case<'_>, renewed: bool) -> Checked {
    let conditions = case.conditions()?.into_iter();
    let not_ready: Vec<_> = conditions.filter(|(_, of)| of.type_ == "Ready" && of.status != "True").collect();
    if not_ready.is_empty() {
        return Ok(Vec::new());
    }
    let leases = case.evidence.leases()?;
    let renewals: BTreeMap<&str, Timestamp> = leases
        .iter()
        .filter_map(|lease| {
            let MicroTime(at) = lease.spec.as_ref()?.renew_time.as_ref()?;
            Some((name(&lease.metadata), *at))
        })
        .collect();
    let observed = not_ready.into_iter().filter_map(|(node, condition)| {
        let at = renewals.get(name(&node.metadata));
        let is_renewed = at.is_some_and(|at| case.now().duration_since(*at) <= LEASE);
        let lease = at.map_or_else(|| "no Lease".to_owned(), |at| format!("Lease renewed at {at}"));
        let mut observed = Observation::of_condition(node, condition);
        observed.place = format!("{}, {lease}", observed.place);
        (is_renewed == renewed).then_some(observed)
    });
    Ok(observed.collect())
}

/// Nodes that are not ready although the kubelet runs.
pub(super) fn kubelet_alive(case: &Case<'_>) -> Checked {
    not_ready(case, true)
}

/// Nodes whose kubelet does not reach the API server.
pub(super) fn kubelet_silent(case: &Case<'_>) -> Checked {
    not_ready(case, false)
}

/// Conditions of nodes that neither the kubelet nor the node controller writes.
pub(super) fn other_conditions(case: &Case<'_>) -> Checked {
    let others = case.conditions()?.into_iter().filter(|(_, of)| !KNOWN_CONDITIONS.contains(&of.type_.as_str()));
    let others: BTreeSet<_> =
        others.filter(|(_, of)| of.status != "False").map(|(_, of)| format!("{}={}", of.type_, of.status)).collect();
    match others.is_empty() {
        true => Ok(Vec::new()),
        false => Err(Undetermined::NotShown(format!(
            "another program writes these conditions, and only it defines which status is a problem: {}",
            crate::text::some_of(others)
        ))),
    }
}

/// DaemonSets of a component whose pod on a node is missing or not ready.
fn component(case: &Case<'_>, component: NodeComponent) -> Checked {
    let nodes = case.evidence.nodes()?;
    let sets: Vec<_> = case.evidence.daemon_sets()?.iter().filter(|set| component.is(set)).collect();
    let pods = case.evidence.pods()?;
    if sets.is_empty() && component != NodeComponent::Csi && !nodes.is_empty() {
        let what = component.name();
        let reason = format!("no DaemonSet of {what} for Windows was found: it may run as a service of the node");
        return Err(Undetermined::NotShown(reason));
    }
    let pairs = sets.iter().flat_map(|set| nodes.iter().map(move |node| (*set, node)));
    Ok(pairs.filter_map(|(set, node)| pod_problem(case, pods, set, node)).collect())
}

fn pod_problem(case: &Case<'_>, pods: &[Pod], set: &DaemonSet, node: &Node) -> Option<Observation> {
    let place = format!("DaemonSet {}", key(&set.metadata));
    let node_name = name(&node.metadata);
    let of_set = |pod: &&Pod| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        node_of(pod) == node_name && owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
    };
    let Some(pod) = pods.iter().find(of_set) else {
        return selects(set, node).then(|| Observation::of_node(node_name, place, "has no pod on this node"));
    };
    let age = pod.metadata.creation_timestamp.as_ref().map(|Time(at)| case.now().duration_since(*at));
    let is_new = age.is_some_and(|age| age < START);
    let is_ready = pod_condition(pod, "Ready") == Some("True");
    let text = || format!("pod {} is {} and not ready", key(&pod.metadata), phase(pod));
    (!is_ready && !is_new).then(|| Observation::of_node(node_name, place, text()))
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
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

/// kube-proxy on the nodes.
pub(super) fn kube_proxy(case: &Case<'_>) -> Checked {
    component(case, NodeComponent::KubeProxy)
}

/// The CNI on the nodes.
pub(super) fn cni(case: &Case<'_>) -> Checked {
    component(case, NodeComponent::Cni)
}

/// CSI drivers on the nodes.
pub(super) fn csi(case: &Case<'_>) -> Checked {
    component(case, NodeComponent::Csi)
}

/// Pods that are not ready, and began before the CNI that runs now on their node.
pub(super) fn before_cni(case: &Case<'_>) -> Checked {
    let all = case.evidence.pods()?;
    let sets = case.evidence.daemon_sets()?.iter().filter(|set| NodeComponent::Cni.is(set));
    let sets: BTreeSet<_> = sets.filter_map(|set| set.metadata.uid.as_ref()).collect();
    let is_cni = |pod: &&Pod| pod.metadata.owner_references.iter().flatten().any(|owner| sets.contains(&owner.uid));
    let begun = all.iter().filter(is_cni).filter_map(|pod| Some((node_of(pod), running_since(pod)?)));
    let begun: BTreeMap<&str, Timestamp> = begun.collect();
    let observed = case.pods_in(PodState::NotReady)?.into_iter().filter_map(|pod| {
        let Time(started) = pod.status.as_ref()?.start_time.as_ref()?;
        let cni = begun.get(node_of(pod)).filter(|cni| started < *cni)?;
        let is_restarted = containers(pod).any(|one| one.restart_count > 0);
        let has_network = !pod.spec.as_ref()?.host_network.unwrap_or_default() && phase(pod) == "Running";
        let text = format!("the pod began at {started}, and the CNI of the node at {cni}");
        (is_restarted && has_network).then(|| Observation::of_pod(pod, "start", text))
    });
    Ok(observed.collect())
}

fn running_since(pod: &Pod) -> Option<Timestamp> {
    let of = |one: &ContainerStatus| Some(one.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0);
    containers(pod).filter_map(of).max()
}

/// Pods that should have been removed.
pub(super) fn terminating(case: &Case<'_>) -> Checked {
    let observed = case.pods_in(PodState::StuckTerminating)?.into_iter().filter_map(|pod| {
        let Time(at) = pod.metadata.deletion_timestamp.as_ref()?;
        Some(Observation::of_pod(pod, "deletionTimestamp", format!("the grace period ended at {at}")))
    });
    Ok(observed.collect())
}

/// Addresses that two pods have, or that an EndpointSlice has for another pod.
pub(super) fn duplicate_addresses(case: &Case<'_>) -> Checked {
    let has_own = |pod: &&Pod| {
        let uses_host = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default();
        !uses_host && !matches!(phase(pod), "Succeeded" | "Failed") && pod.metadata.deletion_timestamp.is_none()
    };
    let address = |pod: &'_ Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let asked: BTreeSet<String> = case.pods()?.into_iter().filter(has_own).filter_map(address).collect();
    for pod in case.evidence.pods()?.iter().filter(has_own) {
        if let Some(address) = address(pod).filter(|address| asked.contains(address)) {
            users.entry(address).or_default().insert(key(&pod.metadata));
        }
    }
    let slices = case.evidence.endpoint_slices()?.iter().flat_map(|slice| &slice.endpoints);
    for endpoint in slices {
        let Some(target) = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod")) else {
            continue;
        };
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        let pod = format!("{}/{}", part(&target.namespace), part(&target.name));
        for address in endpoint.addresses.iter().filter(|address| asked.contains(*address)) {
            users.entry(address.clone()).or_default().insert(pod.clone());
        }
    }
    let observed = users.into_iter().filter(|(_, pods)| pods.len() > 1).map(|(address, pods)| Observation {
        object: format!("address {address}"),
        place: "pods and endpoints".into(),
        text: format!("{} have this address", crate::text::some_of(pods)),
    });
    Ok(observed.collect())
}

/// Pods with a DNS policy that Windows does not support.
pub(super) fn dns_policy(case: &Case<'_>) -> Checked {
    let has_policy =
        |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.dns_policy.as_deref()) == Some("ClusterFirstWithHostNet");
    let pods = case.pods()?.into_iter().filter(has_policy);
    Ok(pods.map(|pod| Observation::of_pod(pod, "dnsPolicy", "ClusterFirstWithHostNet")).collect())
}

/// Machines without a node.
pub(super) fn machines(case: &Case<'_>) -> Checked {
    let observed = case.evidence.machines()?.iter().filter_map(|machine| {
        let created: Timestamp = machine["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
        let is_late = case.now().duration_since(created) > JOIN && machine["metadata"]["deletionTimestamp"].is_null();
        let phase = machine["status"]["phase"].as_str().unwrap_or("unknown");
        let part = |field: &str| machine["metadata"][field].as_str().unwrap_or_default();
        (is_late && machine["status"]["nodeRef"]["name"].is_null()).then(|| Observation {
            object: format!("Machine {}/{}", part("namespace"), part("name")),
            place: format!("phase {phase}"),
            text: format!("has no node, and was created at {created}"),
        })
    });
    Ok(observed.collect())
}

/// Known issues of the versions on the nodes.
pub(super) fn known_defects(case: &Case<'_>) -> Checked {
    let nodes: Vec<_> = case.evidence.nodes()?.iter().cloned().map(WindowsNode::from).collect();
    let used = used(case.evidence.pods()?);
    let findings = known_issues::check(&nodes, Some(&used));
    let reported = findings.iter().filter(|finding| finding.is_reported());
    let observed = reported.map(|finding| Observation {
        object: format!("Node {}", crate::text::some_of(&finding.nodes)),
        place: "versions".into(),
        text: finding.message(Some(&used)),
    });
    Ok(observed.collect())
}

/// What known issues depend on in these pods.
fn used(pods: &[Pod]) -> PoolWorkloads {
    let (mut used, mut shared) = (PoolWorkloads::default(), workload::Shared::default());
    for pod in pods.iter().cloned().map(|pod| workload::Pod::read(pod, &mut shared)) {
        for feature in pod.template.features.iter() {
            used.features.entry(feature).or_default().insert(pod.workload.clone());
        }
        used.components.extend(&pod.template.components);
    }
    used
}

/// Pools that are not ready by their status.
pub(super) fn pools(case: &Case<'_>) -> Checked {
    let labels = case.evidence.nodes()?.iter().filter_map(|node| node.metadata.labels.as_ref()?.get(label::POOL));
    let mut names: BTreeSet<&str> = labels.map(String::as_str).collect();
    if let Patient::Pool { name } = &case.evidence.patient {
        names.insert(name);
    }
    let pools = case.evidence.pools()?.iter().filter(|pool| names.contains(name(&pool.metadata)));
    let observed = pools.filter_map(|pool| {
        let ready = pool.status.as_ref()?.condition(&READY).filter(|ready| ready.status == "False")?;
        Some(Observation {
            object: format!("WindowsNodePool {}", name(&pool.metadata)),
            place: format!("condition Ready=False ({})", ready.reason),
            text: ready.message.clone(),
        })
    });
    Ok(observed.collect())
}

/// Nodes whose kubelet has stopped reporting a condition.
pub(super) fn unknown_conditions(case: &Case<'_>) -> Checked {
    let nodes = case.evidence.nodes()?.iter();
    let unknown = nodes.flat_map(|node| conditions(node).map(move |condition| (node, condition)));
    let is_unknown =
        |type_: &str, status: &str| type_ != "Ready" && status == "Unknown" && KNOWN_CONDITIONS.contains(&type_);
    let unknown = unknown.filter(|(_, of)| is_unknown(&of.type_, &of.status));
    Ok(unknown.map(|(node, condition)| Observation::of_condition(node, condition)).collect())
}
