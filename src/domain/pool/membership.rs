//! The nodes of every pool, kept between reconciles, so that only changed nodes are assigned again.

use std::{collections::HashMap, sync::Arc};

use super::{Pool, assignment::Assigner};
use crate::domain::{Objects, node::WindowsNode, ownership::Ownership};

/// The nodes of every pool, and the nodes that belong to no pool.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    pools: Objects<Pool>,
    nodes: Objects<WindowsNode>,
    ownership: Arc<Ownership>,
    by_pool: HashMap<String, Arc<PoolNodes>>,
    unassigned: Vec<Arc<WindowsNode>>,
}

/// The nodes of one pool, each list ordered by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolNodes {
    /// The members, and whether they are held.
    pub members: Vec<(Arc<WindowsNode>, bool)>,
    /// The nodes whose verified record names the pool.
    pub recorded: Vec<Arc<WindowsNode>>,
    /// The recorded nodes that are released, because no pool in mode Enforce takes them.
    pub released: Vec<Arc<WindowsNode>>,
    /// The nodes that this pool and others select.
    pub shared: Vec<SharedNode>,
    /// The nodes that have the label of the pool without a valid record, and that the pool does not select.
    pub unverified: Vec<String>,
}

impl PartialEq for Membership {
    /// Ignores the inputs of the computation.
    fn eq(&self, other: &Self) -> bool {
        (&self.by_pool, &self.unassigned) == (&other.by_pool, &other.unassigned)
    }
}

/// A node that more than one pool selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedNode {
    /// The name of the node.
    pub node: String,
    /// The names of the pools, by precedence.
    pub pools: Vec<String>,
}

impl Membership {
    /// The membership of these nodes in these pools, computed from an earlier one.
    pub fn updated(
        earlier: &Arc<Self>,
        pools: &Objects<Pool>,
        nodes: &Objects<WindowsNode>,
        ownership: &Arc<Ownership>,
    ) -> Arc<Self> {
        let same_rules = earlier.ownership == *ownership && earlier.has_rules_of(pools);
        if same_rules && earlier.nodes.is_shared_with(nodes) {
            return earlier.clone();
        }
        let mut updated = if same_rules { earlier.as_ref().clone() } else { Self::default() };
        let assigner = Assigner::new(pools.values().map(AsRef::as_ref), ownership);
        for (node, exists) in changes(&updated.nodes.clone(), nodes) {
            updated.set(&assigner, pools, ownership, node, exists);
        }
        updated.by_pool.retain(|_, nodes| **nodes != PoolNodes::default());
        Arc::new(Self { pools: pools.clone(), nodes: nodes.clone(), ownership: ownership.clone(), ..updated })
    }

    /// The nodes of a pool; `None` if it has none.
    pub fn of(&self, pool: &str) -> Option<&PoolNodes> {
        self.by_pool.get(pool).map(AsRef::as_ref)
    }

    /// The nodes that belong to no pool.
    pub fn unassigned(&self) -> impl Iterator<Item = &WindowsNode> {
        self.unassigned.iter().map(AsRef::as_ref)
    }

    fn has_rules_of(&self, pools: &Objects<Pool>) -> bool {
        let equal = || self.pools.values().zip(pools.values()).all(|(one, other)| rules(one) == rules(other));
        self.pools.is_shared_with(pools) || (self.pools.len() == pools.len() && equal())
    }

    /// Adds a node to the lists that it belongs to, or removes it.
    fn set(
        &mut self,
        assigner: &Assigner<'_>,
        pools: &Objects<Pool>,
        ownership: &Ownership,
        node: &Arc<WindowsNode>,
        exists: bool,
    ) {
        let assignment = assigner.assign(node);
        let (name, recorded) = (node.name.as_str(), ownership.pool_of(node));
        let entry = || exists.then(|| node.clone());
        match assignment.pool {
            Some(pool) => {
                let member = entry().map(|node| (node, assignment.held));
                put(&mut self.of_mut(pool).members, |(node, _)| &node.name, name, member);
            }
            None => put(&mut self.unassigned, |node| &node.name, name, entry()),
        }
        if let Some(pool) = recorded {
            put(&mut self.of_mut(pool).recorded, |node| &node.name, name, entry());
            let keeps = |next: &str| next == pool || pools.get(next).is_some_and(|next| next.keeps_nodes());
            if !assignment.pool.is_some_and(keeps) {
                put(&mut self.of_mut(pool).released, |node| &node.name, name, entry());
            }
        }
        for pool in &assignment.shared_by {
            let pools = || assignment.shared_by.iter().map(|pool| (*pool).to_owned()).collect();
            let shared = exists.then(|| SharedNode { node: name.to_owned(), pools: pools() });
            put(&mut self.of_mut(pool).shared, |shared| &shared.node, name, shared);
        }
        if let Some(pool) = node.labelled_pool().filter(|pool| recorded.is_none() && assignment.pool != Some(*pool)) {
            put(&mut self.of_mut(pool).unverified, |node| node, name, exists.then(|| name.to_owned()));
        }
    }

    fn of_mut(&mut self, pool: &str) -> &mut PoolNodes {
        Arc::make_mut(self.by_pool.entry(pool.to_owned()).or_default())
    }
}

/// The fields of a pool that assignments depend on.
fn rules(pool: &Pool) -> impl PartialEq + '_ {
    let spec = pool.spec.as_ref().ok().map(|spec| (&spec.members, spec.mode, spec.paused));
    (&pool.name, pool.created, pool.deleting, spec, &pool.consents)
}

/// The nodes that differ between two maps: the previous version with `false`, the current one with `true`.
fn changes<'n>(before: &'n Objects<WindowsNode>, after: &'n Objects<WindowsNode>) -> Vec<(&'n Arc<WindowsNode>, bool)> {
    let mut changes = Vec::new();
    let mut before = before.values().peekable();
    for node in after.values() {
        // Unchanged nodes are shared by both maps and need no comparison.
        if before.next_if(|known| Arc::ptr_eq(known, node)).is_none() {
            while let Some(known) = before.next_if(|known| known.name <= node.name) {
                changes.push((known, false));
            }
            changes.push((node, true));
        }
    }
    changes.extend(before.map(|deleted| (deleted, false)));
    changes
}

/// Inserts or replaces an entry of a list that is ordered by name, or removes the entry of this name.
fn put<T>(list: &mut Vec<T>, name_of: impl Fn(&T) -> &String, name: &str, entry: Option<T>) {
    let position = match list.last() {
        Some(last) if name_of(last).as_str() >= name => list.binary_search_by(|one| name_of(one).as_str().cmp(name)),
        _ => Err(list.len()),
    };
    match (position, entry) {
        (Ok(position), Some(entry)) => list[position] = entry,
        (Ok(position), None) => drop(list.remove(position)),
        (Err(position), Some(entry)) => list.insert(position, entry),
        (Err(_), None) => {}
    }
}
