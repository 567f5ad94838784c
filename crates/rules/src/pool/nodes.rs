//! The changes of nodes: each is one merge patch that keeps the labels and taints of other owners.

mod desired;
mod inputs;
mod selected_releases;

use std::{collections::VecDeque, sync::Arc};

pub use self::desired::{DesiredConfig, DesiredNode, NodePlan, Obstacle, RevertedField};

use self::{
    inputs::{NodeInputs, NodePlanning, Specifics},
    selected_releases::SelectedReleases,
};
use super::{Snapshot, relevance::ReadLabels};
use crate::{
    operation::Write,
    ownership::{AppliedKeys, Ownership},
};
use winpool_core::node::WindowsNode;

/// The number of plans that are kept for reuse, because most nodes of a pool are equal.
const REUSED_PLANS: usize = 16;

/// Plans the nodes of one pool: to reach the desired state or, without one, to remove what pools added.
///
/// Nodes with equal inputs share one plan.
pub struct NodePlanner<'a> {
    snapshot: &'a Snapshot,
    applied: &'a AppliedKeys,
    desired: Option<DesiredNode<'a>>,
    read: ReadLabels<'a>,
    selected: SelectedReleases<'a>,
    reusable: VecDeque<(NodeInputs<'a>, Arc<NodePlan>)>,
}

impl<'a> NodePlanner<'a> {
    pub fn new(snapshot: &'a Snapshot, applied: &'a AppliedKeys, desired: Option<DesiredNode<'a>>) -> Self {
        let selected = SelectedReleases::new(snapshot, desired.is_some());
        let read = ReadLabels::named(desired.iter().flat_map(|desired| desired.labels.keys()));
        Self { snapshot, applied, desired, read, selected, reusable: VecDeque::new() }
    }

    /// Plans one node. `configured`: whether the kubelet registered with a rendered configuration, which has the taints.
    pub fn plan(&mut self, node: &'a WindowsNode, config: DesiredConfig<'a>, configured: bool) -> Arc<NodePlan> {
        let (snapshot, applied) = (self.snapshot, self.applied);
        let inputs = NodeInputs {
            record_state: snapshot.ownership.record_state(node),
            evicting: self.desired.as_ref().map(|desired| desired.evictions.of(node)).unwrap_or_default(),
            selected: self.selected.on(node),
            desired_config: config,
            configured,
            ..NodeInputs::of(node, &self.read, snapshot.now)
        };
        let specifics = Specifics::of(node, snapshot);
        let equal = || self.reusable.iter().find(|(other, _)| *other == inputs).map(|(_, plan)| plan.clone());
        if let Some(plan) = specifics.is_empty().then(equal).flatten() {
            return plan;
        }
        let planning = NodePlanning { snapshot, applied, inputs: &inputs, specifics: &specifics };
        let plan = Arc::new(match &self.desired {
            Some(desired) => planning.apply(desired),
            None => planning.release(),
        });
        if specifics.is_empty() {
            self.reusable.push_front((inputs, plan.clone()));
            self.reusable.truncate(REUSED_PLANS);
        }
        plan
    }
}

/// The write of a plan, if anything changes.
pub fn write(node: &WindowsNode, plan: &NodePlan, ownership: &Arc<Ownership>) -> Option<Write> {
    Some(Write::edit_node(node, plan.edit.clone()?, ownership.clone()))
}

#[cfg(test)]
mod tests;
