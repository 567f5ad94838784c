//! Symptoms of pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use winpool_api::names::label;
use winpool_core::{
    image::{Reference, tag},
    object_key,
    text::some_of,
};
use winpool_facts::runtime_errors::MISMATCH_ERRORS;

use crate::{
    doctor::{
        case::{
            Case, Checked, Observation, PodState, START, Undetermined, containers, is_host_process, phase,
            unless_unknown, uses_host_network,
        },
        errors::is_young,
    },
    lint::image_name,
};

/// What errors of a connection to a registry contain.
pub const CONNECTION: &[&str] =
    &["connectex", "i/o timeout", "connection reset", "forcibly closed", "no such host", "tls handshake timeout"];
/// What errors about an image that does not match the host contain, also as the exit code of a container.
pub const MISMATCH: &[&str] = &{
    let mut texts = ["hcs_e_image_mismatch"; MISMATCH_ERRORS.len() + 1];
    let mut index = 0;
    while index < MISMATCH_ERRORS.len() {
        texts[index] = MISMATCH_ERRORS[index];
        index += 1;
    }
    texts
};

/// Pods that have waited for their containers for long, without an error.
pub fn container_creating(case: &Case<'_>) -> Checked {
    let with_error: BTreeSet<_> = case.errors()?.iter().map(|error| &error.pod.metadata.uid).collect();
    let pods = case.pods_in(PodState::NotStarted)?.into_iter();
    let waiting = pods.filter(|pod| !with_error.contains(&pod.metadata.uid));
    let (young, late): (Vec<_>, Vec<_>) = waiting.partition(|pod| is_young(pod, case.now()));
    let observed = late.into_iter().filter_map(|pod| {
        let Time(since) = pod.status.as_ref()?.start_time.as_ref()?;
        let reason = containers(pod).find_map(|one| one.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
        let text = format!("{} since {since}, without an event of a failure", reason.unwrap_or("Pending"));
        Some(Observation::of_pod(pod, "state", text))
    });
    unless_unknown(observed.collect(), young.into_iter().map(young_pod).collect(), Undetermined::Young)
}

/// A pod that is new.
pub fn young_pod(pod: &Pod) -> String {
    let began = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let since = began.map(|Time(at)| format!(", which began at {at}")).unwrap_or_default();
    format!(
        "Pod {}{since}: images for Windows are large, so look again after {} minutes",
        object_key(&pod.metadata),
        START.as_mins()
    )
}

/// Pods for Linux by what they have, that are on a node and do not run.
pub fn linux_pods(case: &Case<'_>) -> Checked {
    let pods = case.pods_in(PodState::NotReady)?.into_iter();
    let observed = pods.filter_map(|pod| Some(Observation::of_pod(pod, "spec", linux_mark(pod)?)));
    Ok(observed.collect())
}

/// What shows that a pod is for Linux, if nothing shows that it is for Windows.
fn linux_mark(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let selected = spec.node_selector.as_ref().and_then(|selector| selector.get(label::OS)).map(String::as_str);
    let os = spec.os.as_ref().map(|os| os.name.as_str());
    let images: Vec<Reference> =
        spec.containers.iter().filter_map(|container| container.image.as_deref()?.parse().ok()).collect();
    let is_for_windows = selected == Some("windows")
        || os == Some("windows")
        || spec.runtime_class_name.is_some()
        || is_host_process(pod)
        || images.iter().any(|image| tag::suggested(image).is_some());
    let user = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    match (os, user) {
        _ if is_for_windows => None,
        (Some("linux"), _) => Some("os.name is linux".to_owned()),
        (_, Some(user)) => Some(format!("runAsUser is {user}, and nothing selects Windows nodes")),
        _ => {
            let image = images.iter().find(|image| image_name::suggests_linux(image))?;
            Some(format!("the image {image} is for Linux by its name, and nothing selects Windows nodes"))
        }
    }
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
    // A HostProcess container uses the names of the host.
    let pods = case.pods()?.into_iter().filter(has_policy).filter(|pod| !is_host_process(pod));
    Ok(pods.map(|pod| Observation::of_pod(pod, "dnsPolicy", "ClusterFirstWithHostNet")).collect())
}
