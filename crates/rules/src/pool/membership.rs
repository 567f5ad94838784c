//! The nodes of every pool, kept between reconciles, so that only changed nodes are assigned again.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use winpool_core::{Objects, node::WindowsNode};

use super::{Pool, assignment::Assigner};
use crate::ownership::Ownership;

/// The nodes of every pool, and the nodes that belong to no pool.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    assigner: Arc<Assigner>,
    nodes: Objects<WindowsNode>,
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

impl PoolNodes {
    pub fn nodes(&self) -> impl Iterator<Item = &WindowsNode> {
        self.members.iter().map(|(node, _)| node.as_ref())
    }
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
    pub node: String,
    /// The names of the pools, by precedence.
    pub pools: Vec<String>,
}

impl Membership {
    /// The membership of these nodes, computed from an earlier one: only the nodes that changed, or that a changed pool
    /// selects or has, are assigned again.
    pub fn updated(earlier: &Arc<Self>, assigner: &Arc<Assigner>, nodes: &Objects<WindowsNode>) -> Arc<Self> {
        let same_rules = Arc::ptr_eq(&earlier.assigner, assigner);
        if same_rules && earlier.nodes.is_shared_with(nodes) {
            return earlier.clone();
        }
        let mut updated = Self { assigner: assigner.clone(), nodes: nodes.clone(), ..earlier.as_ref().clone() };
        match Reassigned::between(&earlier.assigner, assigner) {
            Reassigned::All => {
                updated = Self { by_pool: HashMap::new(), unassigned: Vec::new(), ..updated };
                nodes.values().for_each(|node| updated.set(assigner, node, true));
            }
            Reassigned::Of(pools) => {
                let is_affected =
                    |node: &WindowsNode| pools.iter().any(|pool| may_have(pool, node, assigner.ownership()));
                let changed = changes(&earlier.nodes, nodes, is_affected);
                changed.removed.into_iter().for_each(|node| updated.set(&earlier.assigner, node, false));
                changed.added.into_iter().for_each(|node| updated.set(assigner, node, true));
            }
        }
        updated.by_pool.retain(|_, nodes| **nodes != PoolNodes::default());
        Arc::new(updated)
    }

    pub fn assigner(&self) -> &Arc<Assigner> {
        &self.assigner
    }

    pub fn of(&self, pool: &str) -> &PoolNodes {
        static NONE: LazyLock<PoolNodes> = LazyLock::new(PoolNodes::default);
        self.by_pool.get(pool).map_or(&*NONE, AsRef::as_ref)
    }

    /// The nodes that belong to no pool.
    pub fn unassigned(&self) -> impl Iterator<Item = &WindowsNode> {
        self.unassigned.iter().map(AsRef::as_ref)
    }

    /// The nodes that have the label of a pool without a valid record, and that the pool does not select, each with the
    /// pool.
    pub fn claims(&self) -> impl Iterator<Item = (&str, &str)> {
        let pools = self.by_pool.iter();
        pools.flat_map(|(pool, nodes)| nodes.unverified.iter().map(|node| (node.as_str(), pool.as_str())))
    }

    /// Adds a node to the lists that it belongs to, or removes it.
    fn set(&mut self, assigner: &Assigner, node: &Arc<WindowsNode>, exists: bool) {
        let assignment = assigner.assign(node);
        let (name, recorded) = (node.name.as_str(), assigner.ownership().pool_of(node));
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
            let keeps = |next: &str| next == pool || assigner.pools().get(next).is_some_and(|next| next.keeps_nodes());
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

/// The unchanged nodes that another assigner may assign to another pool.
enum Reassigned<'a> {
    All,
    /// Those that these pools select or have.
    Of(Vec<&'a Pool>),
}

impl<'a> Reassigned<'a> {
    fn between(earlier: &'a Arc<Assigner>, assigner: &'a Arc<Assigner>) -> Self {
        if Arc::ptr_eq(earlier, assigner) {
            return Self::Of(Vec::new());
        }
        let changed = earlier.changed_pools(assigner.pools());
        let all = earlier.ownership() != assigner.ownership() || changed.iter().any(|pool| pool.is_fallback());
        if all { Self::All } else { Self::Of(changed) }
    }
}

/// Whether a node may belong to a pool: by the selector, or by the record or label of the node.
pub(super) fn may_have(pool: &Pool, node: &WindowsNode, ownership: &Ownership) -> bool {
    pool.is_fallback()
        || pool.selects(node)
        || [node.labelled_pool(), ownership.pool_of(node)].contains(&Some(pool.name.as_str()))
}

/// The nodes that are removed from the lists, and those that are added to them.
#[derive(Default)]
struct Changes<'n> {
    removed: Vec<&'n Arc<WindowsNode>>,
    added: Vec<&'n Arc<WindowsNode>>,
}

/// The nodes that differ between two lists, and the unchanged ones that are affected.
fn changes<'n>(
    before: &'n Objects<WindowsNode>,
    after: &'n Objects<WindowsNode>,
    is_affected: impl Fn(&WindowsNode) -> bool,
) -> Changes<'n> {
    let mut changes = Changes::default();
    let mut before = before.values().peekable();
    for node in after {
        // Unchanged nodes are shared by both lists and need no comparison.
        match before.next_if(|known| Arc::ptr_eq(known, node)) {
            Some(_) if !is_affected(node) => continue,
            Some(known) => changes.removed.push(known),
            None => {
                while let Some(known) = before.next_if(|known| known.name <= node.name) {
                    changes.removed.push(known);
                }
            }
        }
        changes.added.push(node);
    }
    changes.removed.extend(before);
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
