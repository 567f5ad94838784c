//! The order of the writes of a plan.

use std::collections::BTreeMap;

use super::Write;

/// A step of a plan. Its writes are independent of each other, and it starts after all writes of the former steps have ended. The order of
/// the variants is that of the steps, and keeps pods and nodes safe if a plan is interrupted anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Sets the finalizer, or removes the one that is not needed: nothing is added before that could not be cleaned up.
    Finalizer,
    /// Records in the status what nodes are about to get, so that it is removable after a crash. Discards failed configurations.
    Record,
    /// Adds tolerations to RuntimeClasses, before nodes get the taints, and creates configurations, before nodes name them.
    Prepare,
    /// Makes nodes schedulable that leave the pool: their record, which the next step changes, has the reason of the cordon.
    Uncordon,
    /// Sets and removes labels and taints.
    Nodes,
    /// Confirms configurations that agents have applied, before further nodes get one.
    Confirm,
    /// Assigns configurations to agents, and drains nodes for them.
    RollOut,
    /// Creates the Secrets that templates of machines name.
    CreateSecrets,
    /// Creates templates of machines, before groups name them.
    CreateTemplates,
    /// Makes groups of machines use the templates. Of a pool that is deleted, removes its annotations from groups.
    Groups,
    /// Deletes the Secrets of templates that no group uses any more: only the template names its Secret.
    PruneSecrets,
    /// Deletes these templates.
    PruneTemplates,
    /// Removes tolerations and selectors that nodes need no longer from RuntimeClasses, and configurations that no node names. Of a pool
    /// that is deleted, removes what the former content of its RuntimeClasses does not have.
    Replace,
    /// Removes fields of RuntimeClasses that belonged to another field manager.
    Strip,
    /// Deletes the RuntimeClasses and configurations of a pool that is deleted, and restores the classes that it had adopted.
    Delete,
    /// Lets Kubernetes delete the pool.
    RemoveFinalizer,
}

/// The writes of a plan by step. A step has at least one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps(BTreeMap<Step, Vec<Write>>);

impl Steps {
    pub fn add(&mut self, step: Step, writes: impl IntoIterator<Item = Write>) {
        let mut writes = writes.into_iter().peekable();
        if writes.peek().is_some() {
            self.0.entry(step).or_default().extend(writes);
        }
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The writes of each step, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[Write]> + Clone {
        self.0.values().map(Vec::as_slice)
    }

    /// All writes, in order.
    pub fn into_writes(self) -> impl Iterator<Item = Write> {
        self.0.into_values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{self, *};

    #[test]
    fn what_an_object_needs_is_written_before_it_and_removed_after_it() {
        let laws: &[(Step, Step, &str)] = &[
            (Finalizer, Nodes, "what is on nodes can be cleaned up"),
            (Record, Nodes, "what is on nodes is known after a crash"),
            (Prepare, Nodes, "pods tolerate the taints of a node, and the configuration that it names exists"),
            (Uncordon, Nodes, "the reason of a cordon is in the record"),
            (Nodes, RollOut, "a drained node takes no pods that its taints keep off"),
            (Confirm, RollOut, "nodes that are done do not count as in progress"),
            (CreateSecrets, CreateTemplates, "a template names a Secret"),
            (CreateTemplates, Groups, "a group names a template"),
            (Groups, PruneTemplates, "a template is in use as long as a group names it"),
            (PruneSecrets, PruneTemplates, "a Secret is found by its template"),
            (Nodes, Replace, "a taint that pods tolerate no longer is gone, and so is the name of a configuration"),
            (Nodes, Delete, "pods of a RuntimeClass tolerate the taints of a node as long as it has them"),
            (Replace, Strip, "a field has an owner until its new one has written it"),
            (Delete, RemoveFinalizer, "a pool exists as long as something of it does"),
        ];
        for (first, then, law) in laws {
            assert!(first < then, "{first:?} before {then:?}: {law}");
        }
    }
}
