//! What a pool would change in mode Enforce, besides the labels and annotations of winpool.

use std::collections::BTreeMap;

use winpool_api::RuntimeClassState;
use winpool_rules::{
    operation::{Action, TaintEdit},
    pool::{nodes::Obstacle, plan::Plan},
};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdoptionChanges {
    /// The edits of taints, each with the names of the nodes.
    pub edits: Vec<(TaintEdit, Vec<String>)>,
    /// The taints that are not added because the nodes have another value.
    pub conflicts: Vec<(String, Vec<String>)>,
    /// The changes of RuntimeClasses, and why others are not as specified, by name.
    pub classes: BTreeMap<String, String>,
}

impl AdoptionChanges {
    pub fn of(plan: &Plan) -> Self {
        let mut changes = Self::default();
        for write in plan.steps.iter().flatten() {
            let name = &write.object.name;
            let edits = write.node_edit().into_iter().flat_map(|edit| &edit.taint_edits);
            edits.for_each(|edit| add(&mut changes.edits, edit, name));
            if let (Action::ApplyRuntimeClass, Some(change)) = (write.action, &write.change) {
                changes.classes.insert(name.clone(), change.clone());
            }
        }
        let Some(active) = plan.active() else { return changes };
        for member in &active.members {
            for obstacle in &member.plan.obstacles {
                if let Obstacle::TaintConflict(conflict) = obstacle {
                    add(&mut changes.conflicts, conflict, &member.node.name);
                }
            }
        }
        // Classes that a former pool of the same name has left are not changed.
        for class in active.classes.iter().filter(|class| class.state != RuntimeClassState::Unused) {
            if let Some(explanation) = &class.explanation {
                changes.classes.entry(class.name.clone()).or_insert_with(|| explanation.problem.clone());
            }
        }
        changes
    }

    pub fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.conflicts.is_empty() && self.classes.is_empty()
    }
}

/// Adds a node to those with an equal value.
fn add<T: Clone + PartialEq>(found: &mut Vec<(T, Vec<String>)>, value: &T, node: &str) {
    match found.iter_mut().find(|(other, _)| other == value) {
        Some((_, nodes)) => nodes.push(node.to_owned()),
        None => found.push((value.clone(), vec![node.to_owned()])),
    }
}
