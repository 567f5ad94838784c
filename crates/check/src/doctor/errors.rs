//! The errors that the cluster shows of pods: in events, in the states of containers, and in the status of the pod. The rows of
//! [`super::symptoms`] are about them, and an error that no row has a text of is reported as it is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use winpool_api::names::EVENT_REPORTER;
use winpool_facts::exit_codes::{exit_code, is_of_windows};

use super::{
    case::{Observation, PodState, START, containers, name, node_of, phase, pod_condition},
    evidence::{DiagnosisSubject, Evidence, Unavailable},
    symptoms::{Symptom, row_of},
};

/// The reason of an error that is the end of a container with a code of Windows.
pub(super) const EXIT: &str = "exit code of Windows";
/// The reason of the kubelet for a container that was not started, which the states of containers have too.
pub(super) const FAILED: &str = "Failed";
/// The reason of an error that is the end of a container with a code of its program.
pub(super) const PROGRAM: &str = "exit code of the program";
/// The reason of a pod that is not ready, without anything that says why.
const NOT_READY: &str = "NotReady";

/// The reasons of events that say that something is tried again, or that nothing fails because of it.
const GENERAL_REASONS: &[&str] =
    &["BackOff", "FailedSync", "DNSConfigForming", "FailedToRetrieveImagePullSecret", "SandboxChanged", NOT_READY];
/// What errors say that have the cause of another error.
const GENERAL_TEXTS: &[&str] = &[
    "error: errimagepull",
    "error: imagepullbackoff",
    "unable to attach or mount volumes",
    "back-off",
    "timed out waiting for the condition",
];
/// The states in which a container waits for its turn.
const WAITING: &[&str] = &["ContainerCreating", "PodInitializing"];
/// The reasons of ends that the container runtime reports, whose message is not that of a program: `errorStartReason` in
/// `pkg/cri/server/helpers.go` of containerd 1.7.35, and `ContainerCannotRun` in `kuberuntime_container.go` of kubelet 1.37.2.
pub(super) const NOT_STARTED: &[&str] = &["StartError", "ContainerCannotRun"];

/// An error of a pod.
#[derive(Debug)]
pub(super) struct PodError<'e> {
    pub pod: &'e Pod,
    /// That of the event, or of the state of the container.
    pub reason: &'e str,
    pub shown: Observation,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// The row that explains it: the first one with such a text.
    pub row: Option<&'static Symptom>,
}

impl<'e> PodError<'e> {
    fn new(pod: &'e Pod, reason: &'e str, place: String, text: String, at: [Option<Timestamp>; 2]) -> Self {
        let [first, last] = at;
        Self { pod, reason, shown: Observation::of_pod(pod, place, text), first: first.or(last), last, row: None }
    }

    fn is_general(&self) -> bool {
        let text = self.shown.text.to_lowercase();
        let is_reason = self.reason == FAILED && !text.contains(' ');
        is_reason || GENERAL_REASONS.contains(&self.reason) || GENERAL_TEXTS.iter().any(|one| text.starts_with(one))
    }
}

/// The errors of the pods in question, each with the row that explains it. Of a pod that shows a cause, the errors that follow from
/// it are omitted.
pub(super) fn pod_errors<'e>(evidence: &'e Evidence, pods: &[&'e Pod]) -> Result<Vec<PodError<'e>>, Unavailable> {
    let now = evidence.at;
    let is_concerned = |pod: &&&Pod| PodState::Unready.holds(pod, now) || PodState::StuckTerminating.holds(pod, now);
    let pods: Vec<_> = pods.iter().copied().filter(|pod| is_concerned(&pod)).collect();
    let is_subject = matches!(evidence.subject, DiagnosisSubject::Pod { .. });
    let mut errors: Vec<_> = events_of(evidence, &pods);
    for pod in &pods {
        errors.extend(containers(pod).flat_map(|container| of_container(pod, container, is_subject)));
        errors.extend(of_status(pod, now));
    }
    errors.retain(|error| !error.shown.text.is_empty());
    let mut has_cause: BTreeMap<String, bool> = BTreeMap::new();
    for error in &errors {
        *has_cause.entry(error.shown.object.clone()).or_default() |= !error.is_general();
    }
    errors.retain(|error| !(has_cause[&error.shown.object] && error.is_general()));
    for error in &mut errors {
        error.row = row_of(|about| about.holds(error.pod, now), error.reason, &error.shown.text);
    }
    Ok(errors)
}

fn events_of<'e>(evidence: &'e Evidence, pods: &[&'e Pod]) -> Vec<PodError<'e>> {
    let by_uid: BTreeMap<&str, &'e Pod> =
        pods.iter().filter_map(|pod| Some((pod.metadata.uid.as_deref()?, *pod))).collect();
    let error = |event: &'e Event| {
        let pod = by_uid.get(event.involved_object.uid.as_deref()?)?;
        let reason = event.reason.as_deref()?;
        // A pod that has a node was scheduled since.
        let is_over = reason == "FailedScheduling" && !node_of(pod).is_empty();
        let text = event.message.clone().unwrap_or_default();
        (event.type_.as_deref() != Some("Normal") && !is_over)
            .then(|| PodError::new(pod, reason, format!("event {reason}"), text, times(event)))
    };
    evidence.events().unwrap_or_default().iter().filter_map(error).collect()
}

/// The reasons of warnings about nodes that say nothing of their state: Windows was started, or the runtime has not measured its disk yet
/// (kubernetes/kubernetes 1.37.2, `pkg/kubelet/nodestatus/setters.go` and `images/image_gc_manager.go`, read 2026-11-29).
const USUAL_OF_NODES: &[&str] = &["Rebooted", "InvalidDiskCapacity"];

/// The warnings about the nodes that were read, with the name of the node, other than those of the operator, which the status of its pools has.
pub(super) fn events_of_nodes(evidence: &Evidence) -> Vec<(&str, &Event)> {
    let is_read = |of: &str| evidence.nodes().unwrap_or_default().iter().any(|node| name(&node.metadata) == of);
    let is_usual = |reason: &str| USUAL_OF_NODES.contains(&reason);
    let warning = |event: &&Event| event.type_.as_deref() == Some("Warning") && reporter(event) != Some(EVENT_REPORTER);
    let warnings = evidence.events().unwrap_or_default().iter().filter(warning);
    let of_nodes = warnings.filter_map(|event| {
        let about = &event.involved_object;
        let node = about.name.as_deref().filter(|of| about.kind.as_deref() == Some("Node") && is_read(of))?;
        (!event.reason.as_deref().is_some_and(is_usual)).then_some((node, event))
    });
    of_nodes.collect()
}

/// The program that reports an event.
pub(super) fn reporter(event: &Event) -> Option<&str> {
    let of_source = event.source.as_ref().and_then(|source| source.component.as_deref());
    [event.reporting_component.as_deref(), of_source].into_iter().flatten().find(|name| !name.is_empty())
}

/// The first and the last time of an event.
pub(super) fn times(event: &Event) -> [Option<Timestamp>; 2] {
    let of = |time: &Option<Time>| time.as_ref().map(|Time(at)| *at);
    let exact = event.event_time.as_ref().map(|time| time.0);
    [of(&event.first_timestamp).or(exact), of(&event.last_timestamp).or(exact)]
}

fn of_container<'e>(pod: &'e Pod, container: &'e ContainerStatus, is_subject: bool) -> Vec<PodError<'e>> {
    let place = |what: &str| format!("container {}, {what}", container.name);
    let state = |of: &'e Option<ContainerState>| of.as_ref();
    let (now, before) = (state(&container.state), state(&container.last_state));
    let waiting = now.and_then(|state| state.waiting.as_ref());
    let waits = waiting.and_then(|waiting| waiting.reason.as_deref()).filter(|reason| !WAITING.contains(reason));
    let message = waiting.and_then(|waiting| waiting.message.as_deref());
    let mut errors: Vec<_> = waits
        .map(|reason| {
            let text = message.filter(|text| !text.is_empty()).unwrap_or(reason);
            PodError::new(pod, FAILED, place(&format!("waiting: {reason}")), text.to_owned(), [None; 2])
        })
        .into_iter()
        .collect();
    let ended = [now, before].into_iter().flatten().find_map(|state| state.terminated.as_ref());
    let is_started_again = waits == Some("CrashLoopBackOff");
    if let Some(ended) = ended.filter(|_| !container.ready) {
        // A program that ends is an error if it ends again and again, or if the diagnosis is about this pod.
        let of_program = is_started_again || (is_subject && ended.exit_code != 0);
        errors.extend(of_end(pod, ended, &place, of_program));
    }
    errors
}

fn of_end<'e>(
    pod: &'e Pod,
    ended: &'e ContainerStateTerminated,
    place: &dyn Fn(&str) -> String,
    of_program: bool,
) -> Option<PodError<'e>> {
    let ContainerStateTerminated { exit_code: code, reason, message, started_at, finished_at, .. } = ended;
    let at = [started_at, finished_at].map(|time| time.as_ref().map(|Time(at)| *at));
    let reason = reason.as_deref().unwrap_or_default();
    let error = |kind, place, text| Some(PodError::new(pod, kind, place, text, [at[1], at[1]]));
    match message.as_deref().filter(|_| NOT_STARTED.contains(&reason)) {
        Some(message) => error(FAILED, place(&format!("ended: {reason}")), message.to_owned()),
        None if is_of_windows(*code) => error(EXIT, place("ended"), windows_code(*code)),
        None if of_program => error(PROGRAM, place("ended"), program_code(*code, reason)),
        None => None,
    }
}

fn windows_code(code: i32) -> String {
    match exit_code(code) {
        Some(row) => format!("exit code {code} (0x{:08X} {}): {}", row.code, row.name, row.meaning),
        None => format!("exit code {code} (0x{code:08X}): a status of Windows"),
    }
}

fn program_code(code: i32, reason: &str) -> String {
    match (code, reason) {
        (_, "OOMKilled") => format!("exit code {code}: the container was ended because of its memory"),
        (0, _) => "exit code 0: the program has ended without an error, and the kubelet starts it again".to_owned(),
        _ => format!("exit code {code}: a code of the program itself, whose output says why"),
    }
}

/// What the status of the pod has: that it is not scheduled, was ended by the kubelet, or is not ready for an unknown reason.
fn of_status(pod: &Pod, now: Timestamp) -> Vec<PodError<'_>> {
    let Some(status) = &pod.status else { return Vec::new() };
    let conditions = status.conditions.iter().flatten();
    let error = |reason, place: String, message: &Option<String>, at: &Option<Time>| {
        let at = at.as_ref().map(|Time(at)| *at);
        PodError::new(pod, reason, place, message.clone().unwrap_or_default(), [at, at])
    };
    let unscheduled = conditions.clone().filter(|of| of.type_ == "PodScheduled" && of.status == "False");
    let unscheduled = unscheduled.map(|of| {
        let place = format!("condition PodScheduled=False ({})", of.reason.as_deref().unwrap_or("no reason"));
        error("FailedScheduling", place, &of.message, &of.last_transition_time)
    });
    let ended = status.reason.as_deref().filter(|_| phase(pod) == "Failed");
    let ended = ended.map(|reason| error(reason, format!("status {reason}"), &status.message, &None));
    let began = status.start_time.as_ref().map(|Time(at)| *at);
    let is_late = phase(pod) == "Running" && began.is_some_and(|at| now.duration_since(at) > START);
    let unready = conditions.filter(|of| of.type_ == "Ready" && of.status != "True" && is_late);
    let unready = unready.map(|of| {
        let place = format!("condition Ready={} ({})", of.status, of.reason.as_deref().unwrap_or("no reason"));
        error(NOT_READY, place, &of.message, &of.last_transition_time)
    });
    unscheduled.chain(ended).chain(unready).collect()
}

/// Whether a pod is new, and has no error yet.
pub(super) fn is_young(pod: &Pod, now: Timestamp) -> bool {
    let began = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    let began = began.or(pod.metadata.creation_timestamp.as_ref());
    pod_condition(pod, "Ready") != Some("True") && began.is_some_and(|Time(at)| now.duration_since(*at) <= START)
}
