//! The events of a reconcile.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use winpool_api::{
    WindowsNodePoolStatus,
    conditions::{CONFIG_RENDERED, PROFILE_RESOLVED, Role, condition_type},
    names::reason,
};
use winpool_core::{
    kind::Kind,
    text::{counted, some_of_many},
};

use crate::{
    operation::{Action, Done, Purpose},
    pool::plan::{Phase, Plan},
    status::event::{Event, Regarding},
};

/// The events of a reconcile: what was written, and which conditions changed.
pub fn events(plan: &Plan, done: &Done, status: &WindowsNodePoolStatus) -> Vec<Event> {
    let about = Regarding::new(Kind::POOL, &plan.pool.name, &plan.pool.uid);
    let event = |warning, reason: &str, action, message| Event::new(about.clone(), warning, action, reason, message);
    let cleanup = cleanup_message(plan).map(|message| event(true, "CleaningUp", "Cleanup", message));
    let nodes = node_changes(plan, done).map(|(reason, action, message)| event(false, reason, action, message));
    let objects = object_changes(done).map(|(reason, message)| event(false, reason, "Apply", message));
    let deliveries = delivery_changes(done).map(|(reason, message)| event(false, reason, "Deliver", message));
    let conditions = changes(&plan.pool.status.conditions, &status.conditions).map(|(problem, changed)| {
        event(problem, &changed.reason, "Check", format!("{}: {}", changed.type_, changed.message))
    });
    let resolved = resolved(&plan.pool.status.conditions, &status.conditions).map(|old| {
        event(false, "ProblemResolved", "Check", format!("{}: {} is no longer reported", old.type_, old.reason))
    });
    cleanup.into_iter().chain(nodes).chain(objects).chain(deliveries).chain(conditions).chain(resolved).collect()
}

fn cleanup_message(plan: &Plan) -> Option<String> {
    let Phase::CleaningUp { nodes, handed_over, .. } = &plan.phase else { return None };
    let begins = !plan.pool.status.conditions.iter().any(|old| old.reason == reason::DELETING);
    begins.then(|| {
        let (nodes, moved) = (counted(*nodes, "node"), counted(handed_over.len(), "node"));
        let moves = moved.agree("moves", "move");
        format!(
            "The pool is deleted with deletionPolicy Cleanup: taints, labels and annotations are removed from {nodes}; {moved} \
             {moves} to other pools"
        )
    })
}

/// Reason, action and message for each purpose of writes to nodes.
fn node_changes<'a>(
    plan: &Plan,
    done: &'a Done,
) -> impl Iterator<Item = (&'static str, &'static str, String)> + use<'a> {
    let spec_changed = plan.pool.status.observed_generation != Some(plan.pool.generation);
    let purposes = [
        (Purpose::Taint, "NodesTainted", "Taint"),
        (Purpose::Repair, if spec_changed { "NodesUpdated" } else { "NodesRepaired" }, "Repair"),
        (Purpose::Configure, "ConfigAssigned", "Configure"),
        (Purpose::Release, "NodesReleased", "Release"),
    ];
    purposes.into_iter().filter_map(|(purpose, reason, action)| {
        let edits = done.written().filter_map(|write| Some((&write.object.name, write.node_edit()?)));
        let edits: Vec<_> = edits.filter(|(_, edit)| edit.purpose == purpose).collect();
        let message = some_of_many(&edits, |(node, edit)| format!("{node} ({})", edit.description()));
        (!edits.is_empty()).then_some((reason, action, message))
    })
}

/// Reason and message for each RuntimeClass and ConfigMap that was written.
fn object_changes(done: &Done) -> impl Iterator<Item = (&'static str, String)> {
    done.written().filter_map(|write| {
        let reason = match write.action {
            Action::ApplyRuntimeClass => "RuntimeClassApplied",
            Action::DeleteRuntimeClass => "RuntimeClassDeleted",
            Action::CreateConfigMap => "ConfigRendered",
            Action::DeleteConfigMap => "ConfigDeleted",
            _ => return None,
        };
        Some((reason, write.summary()?))
    })
}

/// Reason and message for each kind of write for agents.
fn delivery_changes(done: &Done) -> impl Iterator<Item = (&'static str, String)> {
    let of_action = |(action, reason)| {
        let written: Vec<_> = done.written().filter(|write| write.action == action).collect();
        let message = some_of_many(&written, |write| write.summary().unwrap_or_default());
        (!written.is_empty()).then_some((reason, message))
    };
    DELIVERY_REASONS.into_iter().filter_map(of_action)
}

const DELIVERY_REASONS: [(Action, &str); 5] = [
    (Action::CordonNode, "NodesCordoned"),
    (Action::EvictPod, "PodsEvicted"),
    (Action::ApplyNodeConfig, "NodeConfigApplied"),
    (Action::UncordonNode, "NodesUncordoned"),
    (Action::DeleteNodeConfig, "NodeConfigDeleted"),
];

/// The conditions that changed to or from a problem, and whether they are a problem now. Summaries are omitted, because
/// they are derived from the others.
fn changes<'a>(before: &'a [Condition], after: &'a [Condition]) -> impl Iterator<Item = (bool, &'a Condition)> {
    // Without a valid profile nothing is rendered.
    let unresolved = after.iter().any(|new| new.type_ == PROFILE_RESOLVED.name && new.status == "False");
    let follows = move |condition: &str| {
        condition_type(condition).is_none_or(|known| known.role == Role::Summary)
            || (unresolved && condition == CONFIG_RENDERED.name)
    };
    after.iter().filter(move |new| !follows(&new.type_)).filter_map(move |new| {
        let changed = match before.iter().find(|old| old.type_ == new.type_) {
            Some(old) => {
                (&old.status, &old.reason) != (&new.status, &new.reason) && (is_problem(old) || is_problem(new))
            }
            None => is_problem(new),
        };
        changed.then(|| (is_problem(new), new))
    })
}

/// The problems whose conditions are absent now, because there is nothing to report. Summaries are omitted.
fn resolved<'a>(before: &'a [Condition], after: &'a [Condition]) -> impl Iterator<Item = &'a Condition> {
    let is_summary = |old: &Condition| condition_type(&old.type_).is_none_or(|known| known.role == Role::Summary);
    let is_absent = |old: &Condition| !after.iter().any(|new| new.type_ == old.type_);
    before.iter().filter(move |old| is_problem(old) && !is_summary(old) && is_absent(old))
}

fn is_problem(condition: &Condition) -> bool {
    condition_type(&condition.type_).is_some_and(|known| known.is_problem(&condition.status, &condition.reason))
}
