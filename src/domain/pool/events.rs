//! What a person would ask about after a pass.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::plan::{Phase, Plan};
use crate::{
    api::{
        WindowsNodePoolStatus,
        names::{condition, reason},
    },
    domain::{
        conditions::{counted, some_of_many},
        note::{About, Note},
        operation::{Done, NodePatch, Operation, Outcome, Parts, Purpose},
    },
};

/// The events of a pass: what was changed, and which conditions turned.
pub fn notes(plan: &Plan, done: &Done, status: &WindowsNodePoolStatus) -> Vec<Note> {
    let about = About::Pool { name: plan.pool.name.clone(), uid: plan.pool.uid.clone() };
    let note = |warning: bool, reason: &str, action: &'static str, message: String| Note {
        about: about.clone(),
        warning,
        reason: reason.to_owned(),
        action,
        message,
    };
    let mut notes = Vec::new();
    if let Phase::CleaningUp { nodes, handed_over, .. } = &plan.phase {
        let already = plan.pool.status.conditions.iter().any(|old| old.reason == reason::DELETING);
        if !already {
            let message = format!(
                "The pool is deleted with Cleanup: taints, labels and annotations come off {}, other pools take {}",
                counted(*nodes, "node"),
                handed_over.len()
            );
            notes.push(note(true, "CleaningUp", "Cleanup", message));
        }
    }
    let asked_anew = plan.pool.status.observed_generation != Some(plan.pool.generation);
    let purposes = [
        (Purpose::Guard, "NodesGuarded", "Guard"),
        (Purpose::Repair, if asked_anew { "NodesUpdated" } else { "NodesRepaired" }, "Repair"),
        (Purpose::Configure, "NodesConfigured", "Configure"),
        (Purpose::Release, "NodesReleased", "Release"),
    ];
    for (purpose, reason, action) in purposes {
        let patches: Vec<_> = node_patches(done).filter(|(patch, _)| patch.change.purpose == purpose).collect();
        if !patches.is_empty() {
            let details = some_of_many(&patches, |(patch, parts)| {
                format!("{} ({})", patch.node, patch.change.words(*parts).join(", "))
            });
            notes.push(note(false, reason, action, details));
        }
    }
    for (operation, outcome) in &done.results {
        let reason = match operation {
            Operation::ApplyRuntimeClass { .. } => "RuntimeClassApplied",
            Operation::DeleteRuntimeClass { .. } => "RuntimeClassDeleted",
            Operation::ApplyConfigMap { .. } => "ConfigRendered",
            Operation::DeleteConfigMap { .. } => "ConfigDeleted",
            _ => continue,
        };
        if let (Outcome::Done, Some(words)) = (outcome, operation.words()) {
            notes.push(note(false, reason, "Apply", words));
        }
    }
    notes.extend(
        turns(&plan.pool.status.conditions, &status.conditions)
            .map(|(bad, turned)| note(bad, &turned.reason, "Check", format!("{}: {}", turned.type_, turned.message))),
    );
    notes
}

/// The patches of which something was written, with the parts that were.
fn node_patches(done: &Done) -> impl Iterator<Item = (&NodePatch, Parts)> {
    done.results.iter().filter_map(|(operation, outcome)| match (operation, outcome) {
        (Operation::PatchNode(patch), Outcome::Done) => Some((patch.as_ref(), Parts::ALL)),
        (Operation::PatchNode(patch), Outcome::Partly { written, .. }) if patch.change.has(*written) => {
            Some((patch.as_ref(), *written))
        }
        _ => None,
    })
}

/// The conditions whose status or reason turned, and whether for the worse. To observe is no change for the worse.
fn turns<'a>(before: &'a [Condition], after: &'a [Condition]) -> impl Iterator<Item = (bool, &'a Condition)> {
    // Without a profile there is nothing to render, which goes without saying.
    let unresolved = after.iter().any(|new| new.type_ == condition::PROFILE_RESOLVED && new.status == "False");
    let quiet = move |condition: &str| {
        [condition::READY, condition::RECONCILING, condition::STALLED].contains(&condition)
            || (unresolved && condition == condition::CONFIG_RENDERED)
    };
    let bad = |condition: &Condition| {
        let negative = [condition::VERSION_SKEW, condition::OS_MISMATCH].contains(&condition.type_.as_str());
        condition.status == if negative { "True" } else { "False" } && condition.reason != reason::OBSERVING
    };
    after.iter().filter(move |new| !quiet(&new.type_)).filter_map(move |new| {
        let old = before.iter().find(|old| old.type_ == new.type_);
        let turned = old
            .map_or(bad(new), |old| (old.status != new.status || old.reason != new.reason) && (bad(old) || bad(new)));
        turned.then(|| (bad(new), new))
    })
}
