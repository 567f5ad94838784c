//! What the checks of symptoms have in common: the objects in question, and what a check answers.

use derive_more::Display;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{ContainerStatus, Node, NodeCondition, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::core::DynamicObject;
use serde::{Serialize, Serializer};
use winpool_api::NodeDiagnosis;
use winpool_core::{Objects, object_key, text::some_of};
use winpool_rules::pool::NodeConfigView;

use super::{
    errors::{PodError, pod_errors},
    evidence::{DiagnosisSubject, Evidence, Unavailable},
};

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
    /// These are too new to be judged.
    #[display("too new to be judged: {_0}")]
    Young(String),
}

impl Undetermined {
    /// The reason, without what only one symptom needs.
    pub fn reason(&self) -> String {
        match self {
            Self::OnNode(_) => "only the node can show them".to_owned(),
            Self::NotShownByNode { because, .. } => because.clone(),
            Self::Unavailable(_) | Self::NotShown(_) | Self::Young(_) => self.to_string(),
        }
    }

    /// The command that can show it on the node.
    pub fn command(&self) -> Option<&'static str> {
        match self {
            Self::OnNode(command) | Self::NotShownByNode { command, .. } => Some(command),
            Self::Unavailable(_) | Self::NotShown(_) | Self::Young(_) => None,
        }
    }
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
    /// It is assigned to a node, and is not ready, or has failed.
    NotReady,
    /// The same, also if it has no node yet.
    Unready,
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
            Self::NotReady => is_assigned && Self::Unready.holds(pod, now),
            Self::Unready => {
                deleted.is_none() && phase(pod) != "Succeeded" && pod_condition(pod, "Ready") != Some("True")
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
    errors: Result<Vec<PodError<'e>>, Unavailable>,
}

/// How long the answer of an agent is used. The operator removes it after 15 minutes.
const ANSWER: SignedDuration = SignedDuration::from_mins(30);

impl<'e> Case<'e> {
    pub fn new(evidence: &'e Evidence) -> Self {
        let views = |configs: &[DynamicObject]| configs.iter().cloned().map(NodeConfigView::from_object).collect();
        let errors = pods_of(evidence).and_then(|pods| pod_errors(evidence, &pods));
        Self { evidence, node_configs: evidence.node_configs().map(views), errors }
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
        pods_of(self.evidence)
    }

    /// The pods in question that are in a state.
    pub fn pods_in(&self, state: PodState) -> Result<Vec<&'e Pod>, Unavailable> {
        let now = self.now();
        Ok(self.pods()?.into_iter().filter(|pod| state.holds(pod, now)).collect())
    }

    /// The errors of the pods in question.
    pub fn errors(&self) -> Result<&[PodError<'e>], Unavailable> {
        self.errors.as_deref().map_err(Clone::clone)
    }

    pub fn conditions(&self) -> Result<Vec<(&'e Node, &'e NodeCondition)>, Unavailable> {
        let nodes = self.evidence.nodes()?.iter();
        Ok(nodes.flat_map(|node| conditions(node).map(move |condition| (node, condition))).collect())
    }
}

/// The pods in question: one, or all on the nodes.
pub(super) fn pods_of(evidence: &Evidence) -> Result<Vec<&Pod>, Unavailable> {
    let is_subject = |pod: &&Pod| match &evidence.subject {
        DiagnosisSubject::Pod { namespace, name: of } => {
            pod.metadata.namespace.as_ref() == Some(namespace) && name(&pod.metadata) == of
        }
        DiagnosisSubject::Pool { .. } | DiagnosisSubject::Node { .. } => true,
    };
    Ok(evidence.pods()?.iter().filter(is_subject).collect())
}

/// Whether a text contains one of these in lower case; every text does if there is none. `…` in one of them is any part of the text.
pub(super) fn contains_one(text: &str, parts: &[&str]) -> bool {
    let text = text.to_lowercase();
    parts.is_empty() || parts.iter().any(|part| has_parts(&text, part))
}

/// Whether a text has the parts of another in their order, which `…` separates.
fn has_parts(text: &str, parts: &str) -> bool {
    let after = |rest: &str, part: &str| rest.find(part).map(|at| at + part.len());
    let mut at = 0;
    parts.split('…').all(|part| after(&text[at..], part).map(|length| at += length).is_some())
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
