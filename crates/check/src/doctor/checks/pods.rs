//! Symptoms of pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStatus, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use winpool_core::{object_key, text::some_of};
use winpool_facts::{
    exit_codes::{IMAGE_MISMATCH, exit_code},
    runtime_errors::is_platform_mismatch,
};
use winpool_workload::runtime_messages;

use crate::doctor::case::{
    Case, Checked, Observation, PodState, START, containers, contains_one, phase, uses_host_network,
};

/// The reasons of a container that waits for its image.
const PULLING: &[&str] = &["ErrImagePull", "ImagePullBackOff"];
/// What errors of a connection to a registry contain.
pub const CONNECTION: &[&str] =
    &["connectex", "i/o timeout", "connection reset", "forcibly closed", "no such host", "tls handshake timeout"];

/// The codes with which containers ended.
fn exits(pod: &Pod) -> impl Iterator<Item = (&ContainerStatus, i32)> {
    let code = |state: &Option<ContainerState>| Some(state.as_ref()?.terminated.as_ref()?.exit_code);
    containers(pod).filter_map(move |one| Some((one, code(&one.state).or_else(|| code(&one.last_state))?)))
}

fn exits_with(case: &Case<'_>, has_name: impl Fn(&str) -> bool) -> Checked {
    let pods = case.pods_in(PodState::NotReady)?;
    let ended = pods.into_iter().flat_map(|pod| exits(pod).map(move |(container, code)| (pod, container, code)));
    let observed = ended.filter_map(|(pod, container, code)| {
        let row = exit_code(code).filter(|row| has_name(row.name))?;
        let text = format!("exit code {code} (0x{:08X} {}): {}", row.code, row.name, row.meaning);
        Some(Observation::of_pod(pod, format!("container {}", container.name), text))
    });
    Ok(observed.collect())
}

/// Containers that Windows ended.
pub fn exit_codes(case: &Case<'_>) -> Checked {
    exits_with(case, |name| name != IMAGE_MISMATCH)
}

/// The messages of the container runtime about containers.
fn messages(pod: &Pod) -> impl Iterator<Item = (&ContainerStatus, &str)> {
    containers(pod).flat_map(|one| runtime_messages(one).map(move |message| (one, message)))
}

/// Images that do not match the Windows of the node.
pub fn image_mismatch(case: &Case<'_>) -> Checked {
    let mut observed = exits_with(case, |name| name == IMAGE_MISMATCH)?;
    let pods = case.pods_in(PodState::NotReady)?;
    let reported = pods.iter().flat_map(|pod| messages(pod).map(move |(container, text)| (pod, container, text)));
    observed.extend(
        reported
            .filter(|(_, _, text)| is_platform_mismatch(text))
            .map(|(pod, container, text)| Observation::of_pod(pod, format!("container {}", container.name), text)),
    );
    if observed.is_empty() {
        observed = case.events_with(PodState::NotReady, &["Failed"], is_platform_mismatch)?;
    }
    Ok(observed)
}

/// Images that cannot be pulled, for another reason than their platform or the network.
pub fn image_pull(case: &Case<'_>) -> Checked {
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

/// Pods that have waited for their containers for long, without an event of a failure.
pub fn container_creating(case: &Case<'_>) -> Checked {
    let since = |pod: &Pod| pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|Time(at)| *at);
    let is_late = |pod: &&Pod| since(pod).is_some_and(|at| case.now().duration_since(at) > START);
    let pods: Vec<_> = case.pods_in(PodState::NotStarted)?.into_iter().filter(is_late).collect();
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let with_event = case.events(&pods, &["FailedCreatePodSandBox", "Failed", "FailedMount", "FailedAttachVolume"])?;
    let with_event: BTreeSet<_> = with_event.iter().map(|(pod, _)| &pod.metadata.uid).collect();
    let without_event = pods.into_iter().filter(|pod| !with_event.contains(&pod.metadata.uid));
    let observed = without_event.filter_map(|pod| {
        let (reason, _) = containers(pod).find_map(waiting).filter(|(reason, _)| !PULLING.contains(reason))?;
        Some(Observation::of_pod(
            pod,
            "state",
            format!("{reason} since {}, without an event of a failure", since(pod)?),
        ))
    });
    Ok(observed.collect())
}

/// Pods that should have been removed.
pub fn terminating(case: &Case<'_>) -> Checked {
    let observed = case.pods_in(PodState::StuckTerminating)?.into_iter().filter_map(|pod| {
        let Time(at) = pod.metadata.deletion_timestamp.as_ref()?;
        Some(Observation::of_pod(pod, "deletionTimestamp", format!("the grace period ended at {at}")))
    });
    Ok(observed.collect())
}

/// Addresses that two pods have, or that an EndpointSlice has for another pod.
pub fn duplicate_addresses(case: &Case<'_>) -> Checked {
    let has_own = |pod: &&Pod| {
        !uses_host_network(pod)
            && !matches!(phase(pod), "Succeeded" | "Failed")
            && pod.metadata.deletion_timestamp.is_none()
    };
    let address = |pod: &'_ Pod| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let addresses: BTreeSet<String> = case.pods()?.into_iter().filter(has_own).filter_map(address).collect();
    for pod in case.evidence.pods()?.iter().filter(has_own) {
        if let Some(address) = address(pod).filter(|address| addresses.contains(address)) {
            users.entry(address).or_default().insert(object_key(&pod.metadata));
        }
    }
    let slices = case.evidence.endpoint_slices()?.iter().flat_map(|slice| &slice.endpoints);
    for endpoint in slices {
        let Some(target) = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod")) else {
            continue;
        };
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        let pod = format!("{}/{}", part(&target.namespace), part(&target.name));
        for address in endpoint.addresses.iter().filter(|address| addresses.contains(*address)) {
            users.entry(address.clone()).or_default().insert(pod.clone());
        }
    }
    let observed = users.into_iter().filter(|(_, pods)| pods.len() > 1).map(|(address, pods)| Observation {
        object: format!("address {address}"),
        place: "pods and endpoints".into(),
        text: format!("{} have this address", some_of(pods)),
    });
    Ok(observed.collect())
}

/// Pods with a DNS policy that Windows does not support.
pub fn dns_policy(case: &Case<'_>) -> Checked {
    let has_policy =
        |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.dns_policy.as_deref()) == Some("ClusterFirstWithHostNet");
    let pods = case.pods()?.into_iter().filter(has_policy);
    Ok(pods.map(|pod| Observation::of_pod(pod, "dnsPolicy", "ClusterFirstWithHostNet")).collect())
}
