//! The verification that each node is selected by exactly one pool.

use std::collections::BTreeSet;

use derive_more::Display;
use winpool_core::{node::WindowsNode, text::some_of};
use winpool_rules::pool::Snapshot;

use super::pool::AdoptedPool;

/// A node that is not in exactly one pool.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
pub enum SelectionProblem {
    #[display("node {node} reports no Windows version, and is in no pool. Run winpool adopt again when it does")]
    NoVersion { node: String },
    #[display(
        "node {node} is in no pool{}",
        reason.as_ref().map_or(". Give it a label, and select by it".to_owned(), |reason| format!(": {reason}"))
    )]
    None {
        node: String,
        /// Why there is no pool for it, if that is known.
        reason: Option<String>,
    },
    #[display("node {node} is selected by several pools: {}. Change their selectors", some_of(pools))]
    Several { node: String, pools: Vec<String> },
}

/// The nodes that are not in exactly one pool, according to a snapshot with the pools.
pub fn problems(snapshot: &Snapshot, unassigned: &[&WindowsNode], pools: &[AdoptedPool]) -> Vec<SelectionProblem> {
    let membership = snapshot.membership();
    let unassigned: BTreeSet<&str> = unassigned.iter().map(|node| node.name.as_str()).collect();
    let new: BTreeSet<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
    let problem = |node: &WindowsNode| {
        let mut selected_by: BTreeSet<&str> = membership.assigner().selected_by(node).into_iter().collect();
        if !unassigned.contains(node.name.as_str()) {
            if selected_by.is_disjoint(&new) {
                return None;
            }
            selected_by.extend(membership.assigner().assign(node).pool);
            selected_by.extend(node.labelled_pool());
        }
        let name = node.name.clone();
        match selected_by.len() {
            0 if node.build().is_none() => Some(SelectionProblem::NoVersion { node: name }),
            0 => Some(SelectionProblem::None { reason: invalid(snapshot, node, pools), node: name }),
            1 if unassigned.contains(node.name.as_str()) => None,
            _ => {
                let pools = selected_by.into_iter().map(str::to_owned).collect();
                Some(SelectionProblem::Several { node: name, pools })
            }
        }
    };
    snapshot.nodes.values().filter_map(|node| problem(node)).collect()
}

/// Why the pool for a node is invalid, if it is.
fn invalid(snapshot: &Snapshot, node: &WindowsNode, pools: &[AdoptedPool]) -> Option<String> {
    let pool = pools.iter().find(|pool| pool.nodes.contains(&node.name))?;
    let problems = snapshot.pools.get(&pool.name)?.spec.as_ref().err()?;
    Some(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}
