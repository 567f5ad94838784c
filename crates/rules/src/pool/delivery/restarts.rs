//! What the delivery of the planned configurations will restart.

use std::collections::BTreeSet;

use serde::Serialize;
use winpool_api::Disruption;

use super::{Inputs, restart};
use crate::pool::{
    Snapshot,
    config_in_effect::NodeConfigs,
    member::Member,
    plan::{Phase, Plan},
};

/// What the delivery of a configuration restarts on nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedRestart {
    pub config: String,
    /// The files that differ from those that the nodes run; `None` if those are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// What restarts: anything but [`Disruption::Drain`].
    pub restart: Disruption,
    /// Whether the nodes are drained before.
    pub drain: bool,
    pub nodes: Vec<String>,
}

/// What the delivery of the configurations in a plan restarts, without the nodes that run theirs already. Nodes with the
/// same restart are one entry.
pub fn restarts(snapshot: &Snapshot, plan: &Plan) -> Vec<PlannedRestart> {
    let (Phase::Active(active), Ok(spec)) = (&plan.phase, &plan.pool.spec) else { return Vec::new() };
    let Some(rules) = &spec.rollout else { return Vec::new() };
    let node_configs = NodeConfigs::new(snapshot, &plan.pool, spec);
    let inputs = Inputs { snapshot, pool: &plan.pool, rules, node_configs, configs: &active.configs };
    let mut restarts: Vec<PlannedRestart> = Vec::new();
    for (node, next) in active.members.iter().filter_map(|member| Some((member, inputs.next(member)?))) {
        let same = |known: &&mut PlannedRestart| {
            let PlannedRestart { config, files, restart, drain, nodes: _ } = known;
            (config, files, *restart, *drain) == (&next.config, &next.files, next.restart, next.drain)
        };
        match restarts.iter_mut().find(same) {
            Some(known) => known.nodes.push(node.node.name.clone()),
            None => restarts.push(PlannedRestart { nodes: vec![node.node.name.clone()], ..next }),
        }
    }
    restarts
}

impl Inputs<'_> {
    /// What the configuration of a member restarts; `None` if the node runs it. The list of nodes is empty.
    fn next(&self, member: &Member) -> Option<PlannedRestart> {
        let node = member.node.as_ref();
        let name = self.configs.name_for(node)?;
        let config = self.configs.configs.get(name)?;
        let assigned = self.config(node).and_then(|config| config.assigned(node));
        let changed = self.changed_files(&config.settings, &config.digest, assigned);
        if changed.as_ref().is_some_and(BTreeSet::is_empty) {
            return None;
        }
        let restart = restart(node, changed.as_ref());
        Some(PlannedRestart {
            config: name.to_owned(),
            files: changed.map(|files| files.into_iter().map(str::to_owned).collect()),
            restart,
            drain: self.drains(node, restart),
            nodes: Vec::new(),
        })
    }
}
