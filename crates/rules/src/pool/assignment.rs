//! The assignment of nodes to pools.

use std::{collections::HashMap, sync::Arc};

use winpool_api::Mode;
use winpool_core::{Objects, node::WindowsNode};

use super::{Consent, Members, Pool};
use crate::ownership::Ownership;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment<'a> {
    /// The pool that the node belongs to, if any.
    pub pool: Option<&'a str>,
    /// Whether that pool no longer selects the node, and keeps it until its release is allowed.
    pub held: bool,
    /// The pools that select the node, by precedence, if there are several.
    pub shared_by: Vec<&'a str>,
}

/// Assigns nodes to pools.
#[derive(Clone, Debug, Default)]
pub struct Assigner {
    pools: Objects<Pool>,
    ownership: Arc<Ownership>,
    /// The pools with a selector, by precedence.
    selecting: Vec<Arc<Pool>>,
    /// Indexes of selecting pools by the key and value of one of their labels.
    by_label: HashMap<String, HashMap<String, Vec<usize>>>,
    /// Indexes of selecting pools without labels.
    without_label: Vec<usize>,
    fallback: Option<Arc<Pool>>,
}

impl Assigner {
    pub fn new(pools: &Objects<Pool>, ownership: &Arc<Ownership>) -> Self {
        let mut assigner = Self { pools: pools.clone(), ownership: ownership.clone(), ..Self::default() };
        let mut ordered: Vec<&Arc<Pool>> = pools.values().filter(|pool| !pool.deleting).collect();
        ordered.sort_by(|a, b| a.precedence().cmp(&b.precedence()));
        for pool in ordered {
            match pool.spec.as_ref().map(|spec| &spec.members) {
                Ok(Members::Selector(selector)) => assigner.add(pool, selector.match_labels.iter().next()),
                Ok(Members::Fallback)
                    if assigner.fallback.as_ref().is_none_or(|other| observes(other) && pool.enforces()) =>
                {
                    assigner.fallback = Some(pool.clone());
                }
                Ok(Members::Fallback) | Err(_) => {}
            }
        }
        assigner
    }

    /// The assigner of these pools: an earlier one, if it assigns all nodes to the same pools.
    pub fn updated(earlier: &Arc<Self>, pools: &Objects<Pool>, ownership: &Arc<Ownership>) -> Arc<Self> {
        let same_pools = || earlier.changed_pools(pools).is_empty();
        let is_same = earlier.ownership == *ownership && (earlier.pools.is_shared_with(pools) || same_pools());
        if is_same { earlier.clone() } else { Arc::new(Self::new(pools, ownership)) }
    }

    fn add(&mut self, pool: &Arc<Pool>, label: Option<(&String, &String)>) {
        let index = self.selecting.len();
        self.selecting.push(pool.clone());
        match label {
            Some((key, value)) => {
                let by_value = self.by_label.entry(key.clone()).or_default();
                by_value.entry(value.clone()).or_default().push(index);
            }
            None => self.without_label.push(index),
        }
    }

    pub fn pools(&self) -> &Objects<Pool> {
        &self.pools
    }

    /// Verifies the records of nodes.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// The fallback pool: the oldest, preferably in mode Enforce.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_ref().map(|pool| pool.name.as_str())
    }

    /// The pools that select a node, by precedence.
    pub fn selected_by(&self, node: &WindowsNode) -> Vec<&str> {
        self.selecting(node).map(|pool| pool.name.as_str()).collect()
    }

    fn selecting(&self, node: &WindowsNode) -> impl Iterator<Item = &Pool> {
        let labelled = self.by_label.iter().filter_map(|(key, by_value)| by_value.get(node.labels.get(key)?));
        let mut found: Vec<usize> = labelled
            .flatten()
            .chain(&self.without_label)
            .copied()
            .filter(|index| self.selecting[*index].selects(node))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|index| self.selecting[index].as_ref())
    }

    pub fn assign(&self, node: &WindowsNode) -> Assignment<'_> {
        let selecting: Vec<&Pool> = self.selecting(node).collect();
        let kept = self.ownership.pool_of(node).and_then(|name| self.pools.get(name)).map(AsRef::as_ref);
        let kept = kept.filter(|kept| !kept.deleting);
        let fallback = self.fallback.as_deref();
        let enforcing = selecting.iter().copied().find(|pool| !observes(pool));
        let enforcing = enforcing.or(fallback.filter(|pool| !observes(pool)));
        let is_selecting = |pool: &Pool| selecting.iter().any(|other| other.name == pool.name);
        let is_fallback = |pool: &Pool| self.fallback() == Some(&pool.name);
        let releases =
            |pool: &Pool| pool.spec.as_ref().is_ok_and(|spec| pool.consents.allow(Consent::Release(&spec.members)));
        let (pool, held) = match (kept, enforcing) {
            // A pool with an invalid spec keeps its nodes, and takes no others.
            (Some(kept), _) if kept.spec.is_err() || is_selecting(kept) => (Some(kept), false),
            (_, Some(enforcing)) => (Some(enforcing), false),
            (Some(kept), None) if is_fallback(kept) => (Some(kept), false),
            (Some(kept), None) if !releases(kept) => (Some(kept), true),
            // The node that a pool in mode Observe would take.
            _ => (selecting.first().copied().or(fallback), false),
        };
        let shared_by =
            if selecting.len() > 1 { selecting.iter().map(|pool| pool.name.as_str()).collect() } else { Vec::new() };
        Assignment { pool: pool.map(|pool| pool.name.as_str()), held, shared_by }
    }

    /// The pool of a node, as it was when the assigner was created: a part that assignments do not depend on may have changed.
    pub fn pool(&self, node: &WindowsNode) -> Option<&Pool> {
        self.pools.get(self.assign(node).pool?).map(AsRef::as_ref)
    }

    /// The earlier and the present states of the pools that differ in a field that assignments depend on.
    pub fn changed_pools<'p>(&'p self, pools: &'p Objects<Pool>) -> Vec<&'p Pool> {
        let differing = |these: &'p Objects<Pool>, others: &'p Objects<Pool>| {
            let is_same = |pool: &Pool| others.get(&pool.name).is_some_and(|other| rules(other) == rules(pool));
            these.values().map(AsRef::as_ref).filter(move |pool: &&Pool| !is_same(pool))
        };
        differing(&self.pools, pools).chain(differing(pools, &self.pools)).collect()
    }
}

/// Whether the mode of a pool is Observe. Such a pool takes no node from a pool in mode Enforce.
fn observes(pool: &Pool) -> bool {
    pool.spec.as_ref().is_ok_and(|spec| spec.mode == Mode::Observe)
}

/// The fields of a pool that assignments depend on.
fn rules(pool: &Pool) -> impl PartialEq + '_ {
    let spec = pool.spec.as_ref().ok().map(|spec| (&spec.members, spec.mode));
    (&pool.name, pool.created, pool.deleting, spec, &pool.consents)
}
