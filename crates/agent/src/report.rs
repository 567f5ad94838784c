//! What the agent reports in the status of its WindowsNodeConfig.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use winpool_api::{ConfigReference, NodeConfigPhase, RejectedConfig, WindowsNodeConfigStatus, names::reason};

use super::{
    change_plan::Refusal,
    host::Host,
    journal::{ChangeStage, ConfigId, CurrentChange, Direction, Journal, PastRejection},
};

/// What the agent knows beside its journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedNode {
    /// Whether the programs of the node are checking the desired configuration.
    pub preflight: bool,
    pub refusal: Option<Refusal>,
    /// Why nothing could be done at the last attempt, which is repeated.
    pub error: Option<String>,
    /// The files and services that something else has changed since the configuration was applied.
    pub changed: Vec<String>,
    /// How kubelet and container runtime are installed, once it is known.
    pub layout: String,
}

/// Its value `LastConfig` has the UUID of a machine, such as `{4c4c4544-…}`.
pub const HARDWARE_CONFIG: &str = r"SYSTEM\HardwareConfig";

/// The UUID of a machine as the kubelet reports it: Kubernetes 1.36, `getSystemUUID` in
/// `pkg/kubelet/winstats/perfcounter_nodestats_windows.go`.
pub fn system_uuid(host: &dyn Host) -> String {
    let key = host.registry(HARDWARE_CONFIG).ok().flatten().unwrap_or_default();
    let last = key.values.get("LastConfig").map(String::as_str).unwrap_or_default();
    last.trim_matches('{').trim_matches('}').to_ascii_uppercase()
}

/// The status for the desired configuration, without what does not depend on it: the UUID of the machine, facts and a diagnosis.
pub fn status(journal: &Journal, desired: &ConfigId, observed: &ObservedNode) -> WindowsNodeConfigStatus {
    let (phase, reason, message) = phase(journal, desired, observed);
    WindowsNodeConfigStatus {
        phase,
        reason: reason.to_owned(),
        message: limited(message),
        applied: journal.applied.as_ref().map(reference),
        rejected: journal.rejected.iter().map(rejected).collect(),
        layout: observed.layout.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        system_uuid: String::new(),
        observed_digest: desired.digest.clone(),
        observed_attempt: desired.attempt,
        restarted_at: journal.restarted.map(Time),
        facts: None,
        diagnosis: None,
    }
}

/// The merge patch that replaces the status of a WindowsNodeConfig. Fields without a value are null, which removes them. Facts that
/// were not read yet stay, which server-side apply would remove: those of an agent that has ended are true until then.
pub fn patch(status: &WindowsNodeConfigStatus) -> Value {
    let mut fields: BTreeMap<&str, Value> = OPTIONAL.map(|field| (field, Value::Null)).into();
    let status = json!(status);
    fields.extend(status.as_object().into_iter().flatten().map(|(field, value)| (field.as_str(), value.clone())));
    json!({"status": fields})
}

/// The fields of the status that are not written without a value.
const OPTIONAL: [&str; 9] = [
    "reason",
    "message",
    "applied",
    "layout",
    "agentVersion",
    "systemUUID",
    "observedDigest",
    "restartedAt",
    "diagnosis",
];

fn phase(journal: &Journal, desired: &ConfigId, observed: &ObservedNode) -> (NodeConfigPhase, &'static str, String) {
    let error = observed.error.clone().unwrap_or_default();
    if let Some(change) = &journal.change {
        return match change.id == *desired {
            true => phase_of_change(change, error),
            false => (NodeConfigPhase::Pending, "", format!("{} is rolled back first", change.id.config)),
        };
    }
    if let Some(PastRejection { failure, .. }) = journal.rejection(desired) {
        return (NodeConfigPhase::RolledBack, failure.reason.name(), failure.message.clone());
    }
    match &observed.refusal {
        Some(refusal) => (NodeConfigPhase::Refused, refusal.reason.name(), refusal.message.clone()),
        None if observed.preflight => (NodeConfigPhase::Preflight, "", error),
        None if !journal.has_applied(desired) => (NodeConfigPhase::Pending, "", error),
        None if !observed.changed.is_empty() => {
            (NodeConfigPhase::Applied, reason::CHANGED_ON_NODE, changed_on_node(&observed.changed))
        }
        None if !error.is_empty() => (NodeConfigPhase::Applied, "", error),
        None => {
            let Journal { omitted, unobserved, .. } = journal;
            let message = omitted.iter().chain(unobserved).map(String::as_str).collect::<Vec<_>>().join(". ");
            (NodeConfigPhase::Applied, omitted.as_ref().map_or("", |_| reason::PARTLY_APPLIED), message)
        }
    }
}

fn changed_on_node(changed: &[String]) -> String {
    let remedy = "Restore them on the node, or set spec.delivery.drift: Reapply in the pool, or raise spec.delivery.rollout.attempt";
    format!("on the node these differ from the applied configuration: {}. {remedy}", changed.join(", "))
}

fn phase_of_change(change: &CurrentChange, error: String) -> (NodeConfigPhase, &'static str, String) {
    match (&change.direction, change.stage) {
        (Direction::Apply, ChangeStage::Confirm(_)) => (NodeConfigPhase::Verifying, "", error),
        (Direction::Apply, ChangeStage::Restart) if error.is_empty() => {
            (NodeConfigPhase::Applying, "", format!("restarting {}", change.plan.restarted_services()))
        }
        (Direction::Apply, _) => (NodeConfigPhase::Applying, "", error),
        (Direction::RollBack(failure), _) => {
            let progress =
                if error.is_empty() { "the former configuration is being restored".to_owned() } else { error };
            (NodeConfigPhase::Applying, failure.reason.name(), format!("{}; {progress}", failure.message))
        }
    }
}

fn reference(id: &ConfigId) -> ConfigReference {
    ConfigReference { config: id.config.clone(), digest: id.digest.clone() }
}

fn rejected(PastRejection { id, failure }: &PastRejection) -> RejectedConfig {
    RejectedConfig { digest: id.digest.clone(), attempt: id.attempt, reason: failure.reason.name().to_owned() }
}

/// At most 1,024 characters, the bound of the schema being 2,048: programs of the node may print much.
fn limited(message: String) -> String {
    message.chars().take(1024).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kube::CustomResourceExt;
    use winpool_api::{NodeFacts, RollbackReason, WindowsNodeConfig};

    use super::*;
    use crate::{
        change_plan::{ChangePlan, RefusalReason, Restart},
        journal::RollbackCause,
    };

    fn id(digest: &str, attempt: u32) -> ConfigId {
        ConfigId { config: format!("web-{digest}"), digest: digest.into(), attempt }
    }

    fn failure() -> RollbackCause {
        RollbackCause { reason: RollbackReason::NotHealthy, message: "kubelet does not run".into() }
    }

    #[test]
    fn the_phase_is_that_of_the_desired_configuration() {
        let change = |stage, rolled_back: bool| {
            let kubelet = Restart { service: "kubelet".into(), program: None, children: Vec::new(), health: None };
            let plan = ChangePlan { restarts: vec![kubelet], ..ChangePlan::default() };
            let mut change = CurrentChange::new(id("b", 1), plan);
            change.stage = stage;
            if rolled_back {
                change.direction = Direction::RollBack(failure());
            }
            Journal { applied: Some(id("a", 1)), change: Some(change), ..Journal::default() }
        };
        let since = Timestamp::UNIX_EPOCH;
        let applied = Journal { applied: Some(id("b", 1)), ..Journal::default() };
        let unobserved = Journal { unobserved: Some("a new pod was not observed".into()), ..applied.clone() };
        let omitted = Journal { omitted: Some("kube-proxy.yaml is not applied".into()), ..unobserved.clone() };
        let rejected =
            Journal { rejected: vec![PastRejection { id: id("b", 1), failure: failure() }], ..Journal::default() };
        for (journal, desired, expected) in [
            (Journal::default(), id("b", 1), "Pending   "),
            (change(ChangeStage::Write, false), id("b", 1), "Applying   web-a"),
            (change(ChangeStage::Restart, false), id("b", 1), "Applying  restarting kubelet web-a"),
            (change(ChangeStage::Verify(since), false), id("b", 1), "Applying   web-a"),
            (change(ChangeStage::Confirm(since), false), id("b", 1), "Verifying   web-a"),
            (
                change(ChangeStage::Write, true),
                id("b", 1),
                "Applying NotHealthy kubelet does not run; the former configuration is being restored web-a",
            ),
            (change(ChangeStage::Write, true), id("c", 1), "Pending  web-b is rolled back first web-a"),
            (applied.clone(), id("b", 1), "Applied   web-b"),
            (
                omitted,
                id("b", 1),
                "Applied PartlyApplied kube-proxy.yaml is not applied. a new pod was not observed web-b",
            ),
            (unobserved, id("b", 1), "Applied  a new pod was not observed web-b"),
            (applied, id("c", 1), "Pending   web-b"),
            (
                Journal { applied: Some(id("b", 1)), ..rejected.clone() },
                id("b", 1),
                "RolledBack NotHealthy kubelet does not run web-b",
            ),
            (rejected.clone(), id("b", 1), "RolledBack NotHealthy kubelet does not run "),
            (rejected, id("b", 2), "Pending   "),
        ] {
            let status = status(&journal, &desired, &ObservedNode::default());
            let applied = status.applied.map_or(String::new(), |reference| reference.config);
            let found = format!("{} {} {} {applied}", status.phase.name(), status.reason, status.message);
            assert_eq!(found, expected, "{journal:?} {desired:?}");
            assert_eq!((status.observed_digest, status.observed_attempt), (desired.digest, desired.attempt));
        }
    }

    #[test]
    fn a_patch_sets_or_removes_every_field() {
        let fields = |patch: &Value| patch["status"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let schema = json!(WindowsNodeConfig::crd())["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let all = schema["properties"]["status"]["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let empty = patch(&WindowsNodeConfigStatus::default());
        let without_facts = all.iter().filter(|field| *field != "facts").cloned().collect::<Vec<_>>();
        assert_eq!(fields(&empty), without_facts);
        assert_eq!((&empty["status"]["applied"], &empty["status"]["rejected"]), (&Value::Null, &json!([])));
        let applied = Some(ConfigReference { config: "web-b".into(), digest: "b".into() });
        let facts = Some(NodeFacts { revision: Some(4529), ..NodeFacts::default() });
        let patch = patch(&WindowsNodeConfigStatus { applied, facts, ..WindowsNodeConfigStatus::default() });
        assert_eq!(patch["status"]["applied"], json!({"config": "web-b", "digest": "b"}));
        assert_eq!(fields(&patch), all);
        let facts = patch["status"]["facts"].as_object().unwrap();
        let of_facts = schema["properties"]["status"]["properties"]["facts"]["properties"].as_object().unwrap();
        assert!(facts.keys().eq(of_facts.keys()), "a fact that is not known any more is removed");
    }

    #[test]
    fn what_something_else_has_changed_is_reported_for_the_applied_configuration_only() {
        let applied = Journal { applied: Some(id("b", 1)), ..Journal::default() };
        let changed = vec![r"C:\k\config.yaml".to_owned(), "the service kubelet".to_owned()];
        let observed = ObservedNode { changed, ..ObservedNode::default() };
        let reported = status(&applied, &id("b", 1), &observed);
        assert_eq!((reported.phase, reported.reason.as_str()), (NodeConfigPhase::Applied, "ChangedOnNode"));
        let message =
            r"on the node these differ from the applied configuration: C:\k\config.yaml, the service kubelet.";
        assert!(reported.message.starts_with(message), "{}", reported.message);
        let pending = status(&applied, &id("c", 1), &observed);
        assert_eq!((pending.phase, pending.reason.as_str()), (NodeConfigPhase::Pending, ""));
    }

    #[test]
    fn a_refusal_has_its_reason_and_message() {
        let refusal = Refusal { reason: RefusalReason::PreflightFailed, message: "maxPods: -1".into() };
        let observed = ObservedNode { refusal: Some(refusal), layout: "RKE2".into(), ..ObservedNode::default() };
        let status = status(&Journal::default(), &id("b", 1), &observed);
        assert_eq!((status.phase, status.reason.as_str()), (NodeConfigPhase::Refused, "PreflightFailed"));
        assert_eq!((status.message.as_str(), status.layout.as_str()), ("maxPods: -1", "RKE2"));
    }
}
