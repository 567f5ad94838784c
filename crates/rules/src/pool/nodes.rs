//! The changes of nodes: each is one merge patch that keeps the labels and taints of other owners.

mod desired;
mod inputs;
mod selected_releases;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

pub use self::desired::{DesiredConfig, DesiredNode, NodePlan, Obstacle, RevertedField};
use winpool_api::{TaintKey, names::label};

use self::{inputs::NodeInputs, selected_releases::SelectedReleases};
use super::Snapshot;
use crate::{
    operation::Write,
    ownership::{AppliedKeys, Ownership, RecordState},
    revert::ObjectId,
};
use winpool_core::{node::WindowsNode, release_labels};

/// The number of plans that are kept for reuse, because most nodes of a pool are equal.
const REUSED_PLANS: usize = 16;

/// Plans the nodes of one pool: to reach the desired state or, without one, to remove what pools added.
///
/// Nodes with equal inputs share one plan.
pub struct NodePlanner<'a> {
    snapshot: &'a Snapshot,
    applied: &'a AppliedKeys,
    desired: Option<DesiredNode<'a>>,
    selected: SelectedReleases<'a>,
    reusable: VecDeque<ReusablePlan<'a>>,
}

/// A plan with its inputs.
struct ReusablePlan<'a> {
    node: &'a WindowsNode,
    record_state: RecordState<'a>,
    config: DesiredConfig<'a>,
    configured: bool,
    evicting: Vec<TaintKey>,
    /// The labels for releases that pods on the node select.
    selected: BTreeSet<String>,
    /// The labels that the plan depends on, with their values on the node.
    labels: Vec<(&'a str, Option<&'a String>)>,
    plan: Arc<NodePlan>,
}

impl<'a> NodePlanner<'a> {
    /// Creates the planner of one pool.
    pub fn new(snapshot: &'a Snapshot, applied: &'a AppliedKeys, desired: Option<DesiredNode<'a>>) -> Self {
        let selected = SelectedReleases::new(snapshot, desired.is_some());
        Self { snapshot, applied, desired, selected, reusable: VecDeque::new() }
    }

    /// Plans one node. `configured`: whether the kubelet registered with a rendered configuration, which has the taints.
    pub fn plan(&mut self, node: &'a WindowsNode, config: DesiredConfig<'a>, configured: bool) -> Arc<NodePlan> {
        let record_state = self.snapshot.ownership.record_state(node);
        let evicting = self.desired.as_ref().map(|desired| desired.evictions.of(node)).unwrap_or_default();
        let selected = self.selected.on(node);
        // Reverts and rejections are specific to one node.
        let reusable = !self.snapshot.reverts.any_conflict(&ObjectId::Uid(node.uid.as_str().into()), self.snapshot.now)
            && !self.snapshot.rejections.contains_key(&node.name);
        let is_equal = |other: &&ReusablePlan| {
            other.configured == configured
                && other.config == config
                && other.record_state == record_state
                && other.evicting == evicting
                && other.selected == selected
                && other.has_equal_node(node)
        };
        if let Some(equal) = self.reusable.iter().find(is_equal).filter(|_| reusable) {
            return equal.plan.clone();
        }
        let (snapshot, applied) = (self.snapshot, self.applied);
        let inputs =
            NodeInputs { snapshot, applied, node, record_state, evicting: &evicting, configured, selected: &selected };
        let plan = Arc::new(match &self.desired {
            Some(desired) => inputs.apply(desired, config),
            None => inputs.release(),
        });
        if reusable {
            let labels = self.relevant_labels(node).map(|key| (key, node.labels.get(key))).collect();
            let plan = plan.clone();
            let reusable = ReusablePlan { node, record_state, config, configured, evicting, selected, labels, plan };
            self.reusable.push_front(reusable);
            self.reusable.truncate(REUSED_PLANS);
        }
        plan
    }

    fn relevant_labels(&self, node: &'a WindowsNode) -> impl Iterator<Item = &'a str> {
        let desired = self.desired.iter().flat_map(|desired| desired.labels.keys());
        let recorded = node.owned.iter().flat_map(|signed| signed.record.labels.keys());
        [label::OS, label::POOL, label::WINDOWS_BUILD].into_iter().chain(desired.chain(recorded).map(String::as_str))
    }
}

impl ReusablePlan<'_> {
    fn has_equal_node(&self, node: &WindowsNode) -> bool {
        self.node.os == node.os
            && self.node.runtime == node.runtime
            && self.node.config == node.config
            && self.node.registered_with == node.registered_with
            && (node.registered_with.is_none() || self.node.created == node.created)
            && self.node.taints == node.taints
            && self.labels.iter().all(|(key, value)| node.labels.get(*key) == *value)
            && release_labels_of(self.node).eq(release_labels_of(node))
    }
}

/// The labels of a node for releases, with their values.
fn release_labels_of(node: &WindowsNode) -> impl Iterator<Item = (&String, &String)> {
    node.labels.iter().filter(|(key, _)| release_labels::is_release_label(key))
}

/// The write of a plan, if anything changes.
pub fn write(node: &WindowsNode, plan: &NodePlan, ownership: &Arc<Ownership>) -> Option<Write> {
    Some(Write::edit_node(node, plan.edit.clone()?, ownership.clone()))
}

#[cfg(test)]
mod tests;
