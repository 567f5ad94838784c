//! What the checks of symptoms have in common: the objects in question, and what a check answers.

use std::collections::BTreeMap;

use derive_more::Display;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{ContainerStatus, Event, Node, NodeCondition, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::core::DynamicObject;
use serde::{Serialize, Serializer};
use winpool_api::NodeDiagnosis;
use winpool_core::{Objects, object_key, text::some_of};
use winpool_rules::pool::NodeConfigView;

use super::evidence::{DiagnosisSubject, Evidence, Unavailable};

/// A text in the cluster that shows a symptom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Observation {
    /// The object, such as `Pod shop/web-1`.
    pub object: String,
    /// Where the text is, such as `event FailedCreatePodSandBox`.
    pub place: String,
    /// The text, as it was written.
    pub text: String,
}

impl Observation {
    pub(super) fn of_pod(pod: &Pod, place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { object: format!("Pod {}", object_key(&pod.metadata)), place: place.into(), text: text.into() }
    }

    pub(super) fn of_node(node: &str, place: impl Into<String>, text: impl Into<String>) -> Self {
        Self { object: format!("Node {node}"), place: place.into(), text: text.into() }
    }

    pub(super) fn of_event(pod: &Pod, event: &Event) -> Self {
        let reason = event.reason.as_deref().unwrap_or_default();
        Self::of_pod(pod, format!("event {reason}"), event.message.as_deref().unwrap_or_default())
    }

    pub(super) fn of_condition(node: &Node, condition: &NodeCondition) -> Self {
        let NodeCondition { type_, status, reason, message, .. } = condition;
        let reason = reason.as_deref().unwrap_or("no reason");
        let place = format!("condition {type_}={status} ({reason})");
        Self::of_node(name(&node.metadata), place, message.as_deref().unwrap_or_default())
    }
}

/// Why a symptom is not determinable.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
pub enum Undetermined {
    /// A part that shows it could not be read, or not completely.
    Unavailable(Unavailable),
    /// Only the node itself can show it, with this command.
    #[display("only the node can show this. Run there: {_0}")]
    OnNode(&'static str),
    /// No log that was read shows it, or no agent has read the node.
    #[display("{because}. Run on the node: {command}")]
    NotShownByNode {
        /// What was read, or why nothing was.
        because: String,
        /// The command that can show it on the node.
        command: &'static str,
    },
    /// What was read does not show it.
    NotShown(String),
}

impl From<Unavailable> for Undetermined {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

impl Serialize for Undetermined {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What shows a symptom; nothing if the symptom is excluded.
pub(super) type Checked = Result<Vec<Observation>, Undetermined>;

/// What was observed. Without an observation, the symptom is not determinable if something is unknown.
pub(super) fn unless_unknown(
    observed: Vec<Observation>,
    unknown: Vec<String>,
    because: impl FnOnce(String) -> Undetermined,
) -> Checked {
    match observed.is_empty() && !unknown.is_empty() {
        true => Err(because(some_of(unknown))),
        false => Ok(observed),
    }
}

/// The state of a pod in which a symptom concerns it. A pod in another state may have old events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It is assigned to a node, and none of its containers was started.
    NotStarted,
    /// It is not ready, or has failed.
    NotReady,
    /// It should have been removed for more than two minutes.
    StuckTerminating,
}

/// How long a pod may wait for its containers, as images for Windows are large.
pub(super) const START: SignedDuration = SignedDuration::from_mins(10);
/// How long a pod may be Terminating after its grace period.
const TERMINATION: SignedDuration = SignedDuration::from_mins(2);

impl PodState {
    pub(super) fn holds(self, pod: &Pod, now: Timestamp) -> bool {
        // The time of a deletion is the end of the grace period.
        let deleted = pod.metadata.deletion_timestamp.as_ref();
        let is_assigned = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        match self {
            Self::NotStarted => deleted.is_none() && is_assigned && phase(pod) == "Pending",
            Self::NotReady => {
                let is_finished = phase(pod) == "Succeeded";
                deleted.is_none() && is_assigned && !is_finished && pod_condition(pod, "Ready") != Some("True")
            }
            Self::StuckTerminating => deleted.is_some_and(|Time(at)| now.duration_since(*at) > TERMINATION),
        }
    }
}

/// The objects in question.
pub(super) struct Case<'e> {
    pub evidence: &'e Evidence,
    /// The WindowsNodeConfigs of the nodes.
    node_configs: Result<Objects<NodeConfigView>, Unavailable>,
}

/// How long the answer of an agent is used. The operator removes it after 15 minutes.
const ANSWER: SignedDuration = SignedDuration::from_mins(30);

impl<'e> Case<'e> {
    pub fn new(evidence: &'e Evidence) -> Self {
        let views = |configs: &[DynamicObject]| configs.iter().cloned().map(NodeConfigView::from_object).collect();
        Self { evidence, node_configs: evidence.node_configs().map(views) }
    }

    pub fn node_configs(&self) -> Result<&Objects<NodeConfigView>, Unavailable> {
        self.node_configs.as_ref().map_err(Clone::clone)
    }

    /// What the agent of a node has read lately.
    pub fn answer<'c>(&self, config: &'c NodeConfigView) -> Option<&'c NodeDiagnosis> {
        let answer = config.status.diagnosis.as_ref();
        answer.filter(|answer| self.now().duration_since(answer.requested_at.0) < ANSWER)
    }

    pub fn now(&self) -> Timestamp {
        self.evidence.at
    }

    /// The pods in question: one, or all on the nodes.
    pub fn pods(&self) -> Result<Vec<&'e Pod>, Unavailable> {
        let pods = self.evidence.pods()?;
        let is_subject = |pod: &&Pod| match &self.evidence.subject {
            DiagnosisSubject::Pod { namespace, name: of } => {
                pod.metadata.namespace.as_ref() == Some(namespace) && name(&pod.metadata) == of
            }
            DiagnosisSubject::Pool { .. } | DiagnosisSubject::Node { .. } => true,
        };
        Ok(pods.iter().filter(is_subject).collect())
    }

    /// The pods in question that are in a state.
    pub fn pods_in(&self, state: PodState) -> Result<Vec<&'e Pod>, Unavailable> {
        let now = self.now();
        Ok(self.pods()?.into_iter().filter(|pod| state.holds(pod, now)).collect())
    }

    /// The events with one of these reasons about pods, with the pod.
    pub fn events<'p>(&self, pods: &[&'p Pod], reasons: &[&str]) -> Result<Vec<(&'p Pod, &'e Event)>, Unavailable> {
        let events = self.evidence.events()?;
        let by_uid: BTreeMap<&str, &Pod> =
            pods.iter().filter_map(|pod| Some((pod.metadata.uid.as_deref()?, *pod))).collect();
        let about = |event: &'e Event| {
            let has_reason = reasons.contains(&event.reason.as_deref()?);
            let pod = by_uid.get(event.involved_object.uid.as_deref()?).filter(|_| has_reason)?;
            Some((*pod, event))
        };
        Ok(events.iter().filter_map(about).collect())
    }

    /// The events with one of these reasons, and such a message, about pods in a state.
    pub fn events_with(&self, state: PodState, reasons: &[&str], has_text: impl Fn(&str) -> bool) -> Checked {
        let events = self.events(&self.pods_in(state)?, reasons)?.into_iter();
        let events = events.filter(|(_, event)| has_text(event.message.as_deref().unwrap_or_default()));
        Ok(events.map(|(pod, event)| Observation::of_event(pod, event)).collect())
    }

    pub fn conditions(&self) -> Result<Vec<(&'e Node, &'e NodeCondition)>, Unavailable> {
        let nodes = self.evidence.nodes()?.iter();
        Ok(nodes.flat_map(|node| conditions(node).map(move |condition| (node, condition))).collect())
    }
}

/// Whether a text contains one of these in lower case; every text does if there is none.
pub(super) fn contains_one(text: &str, parts: &[&str]) -> bool {
    let text = text.to_lowercase();
    parts.is_empty() || parts.iter().any(|part| text.contains(part))
}

pub(super) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

pub(super) fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// Whether a pod has the network of its node, as those with HostProcess containers have.
pub(super) fn uses_host_network(pod: &Pod) -> bool {
    is_host_process(pod) || pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default()
}

/// Whether the containers of a pod are HostProcess containers: all are, or none.
pub(super) fn is_host_process(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let of_pod = spec.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
    let of_containers =
        spec.containers.iter().filter_map(|one| one.security_context.as_ref()?.windows_options.as_ref());
    of_containers.chain(of_pod).any(|options| options.host_process.unwrap_or_default())
}

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

pub(super) fn pod_condition<'p>(pod: &'p Pod, of: &str) -> Option<&'p str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == of).map(|condition| condition.status.as_str())
}

pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let lists = status.map(|status| [&status.init_container_statuses, &status.container_statuses]);
    lists.into_iter().flatten().flatten().flatten()
}

pub(super) fn conditions(node: &Node) -> impl Iterator<Item = &NodeCondition> {
    node.status.iter().flat_map(|status| &status.conditions).flatten()
}
