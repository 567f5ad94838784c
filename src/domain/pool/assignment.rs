//! Which node belongs to which pool.

use std::collections::{BTreeMap, HashMap};

use super::{Members, Pool, Snapshot};
use crate::{
    api::{LabelSelector, Mode},
    domain::{
        node::WindowsNode,
        note::{About, Note},
        ownership::Ownership,
    },
};

/// The pool of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment<'a> {
    /// The pool that should own the node, if any.
    pub pool: Option<&'a str>,
    /// Whether the node no longer matches that pool, which keeps it guarded until its release is allowed.
    pub held: bool,
    /// All pools whose selector matches the node, when they are more than one.
    pub contested: Vec<&'a str>,
}

/// The rules of membership, prepared once for many nodes.
pub struct Assigner<'a> {
    ownership: &'a Ownership,
    pools: HashMap<&'a str, &'a Pool>,
    /// Pools that claim nodes, in order of precedence.
    claimants: Vec<(&'a str, &'a LabelSelector)>,
    /// Claimants by one label that their nodes must have; a node looks up its labels here.
    by_label: HashMap<&'a str, HashMap<&'a str, Vec<usize>>>,
    /// Claimants that ask for no label of a fixed value.
    without_label: Vec<usize>,
    fallback: Option<&'a str>,
}

impl<'a> Assigner<'a> {
    /// Prepares the rules for these pools.
    pub fn new(pools: impl IntoIterator<Item = &'a Pool>, ownership: &'a Ownership) -> Self {
        let mut ordered: Vec<&Pool> = pools.into_iter().collect();
        ordered.sort_by(|a, b| a.precedence().cmp(&b.precedence()));
        let mut assigner = Self {
            ownership,
            pools: ordered.iter().map(|pool| (pool.name.as_str(), *pool)).collect(),
            claimants: Vec::new(),
            by_label: HashMap::new(),
            without_label: Vec::new(),
            fallback: None,
        };
        for pool in ordered.into_iter().filter(|pool| !pool.deleting) {
            match pool.spec.as_ref().map(|spec| &spec.members) {
                Ok(Members::Selector(selector)) => assigner.add(&pool.name, selector),
                Ok(Members::Fallback)
                    if assigner.fallback.is_none_or(|other| assigner.observes(other) && pool.enforces()) =>
                {
                    assigner.fallback = Some(&pool.name);
                }
                Ok(Members::Fallback) => {}
                Err(_) => {}
            }
        }
        assigner
    }

    /// Whether a pool only observes: it takes no node that another pool keeps, or would take.
    fn observes(&self, name: &str) -> bool {
        let spec = self.pools.get(name).and_then(|pool| pool.spec.as_ref().ok());
        spec.is_some_and(|spec| spec.mode == Mode::Observe)
    }

    fn add(&mut self, pool: &'a str, selector: &'a LabelSelector) {
        let index = self.claimants.len();
        self.claimants.push((pool, selector));
        match selector.match_labels.iter().next() {
            Some((key, value)) => self.by_label.entry(key).or_default().entry(value).or_default().push(index),
            None => self.without_label.push(index),
        }
    }

    /// The fallback pool that counts: the oldest, of those that enforce if there is one.
    pub fn fallback(&self) -> Option<&'a str> {
        self.fallback
    }

    /// The pools whose selector matches a node, in order of precedence.
    pub fn claims(&self, node: &WindowsNode) -> Vec<&'a str> {
        let labelled = self.by_label.iter().filter_map(|(key, by_value)| by_value.get(node.labels.get(*key)?.as_str()));
        let mut found: Vec<usize> = labelled
            .flatten()
            .chain(&self.without_label)
            .copied()
            .filter(|index| self.claimants[*index].1.matches(&node.labels))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|index| self.claimants[index].0).collect()
    }

    /// The pool of a node.
    pub fn assign(&self, node: &WindowsNode) -> Assignment<'a> {
        let claims = self.claims(node);
        let current = self.ownership.pool_of(node).and_then(|name| self.pools.get(name)).copied();
        let (observing, mut takers): (Vec<&str>, Vec<&str>) = claims.iter().partition(|name| self.observes(name));
        takers.extend(self.fallback.filter(|name| takers.is_empty() && !self.observes(name)));
        let keeps = current.filter(|current| !current.deleting).map(|current| current.name.as_str());
        let (pool, held) = match current {
            // A pool that cannot be read claims nothing new and lets nothing go.
            Some(current) if current.spec.is_err() && !current.deleting => (keeps, false),
            Some(current) if claims.contains(&current.name.as_str()) => (keeps, false),
            _ if !takers.is_empty() => (takers.first().copied(), false),
            _ if keeps.is_some() && self.fallback == keeps => (keeps, false),
            Some(current) if keeps.is_some() && !current.allows(current.allow_release.as_ref()) => (keeps, true),
            // A preview of what a pool that observes would take.
            _ => (observing.first().copied().or(self.fallback), false),
        };
        Assignment { pool, held, contested: if claims.len() > 1 { claims } else { Vec::new() } }
    }
}

impl Snapshot {
    /// The rules of membership for the pools of this snapshot.
    pub fn assigner(&self) -> Assigner<'_> {
        Assigner::new(self.pools.values().map(AsRef::as_ref), &self.ownership)
    }
}

/// The Windows nodes that are in no pool: nothing guards them.
pub fn unassigned(snapshot: &Snapshot) -> Vec<Note> {
    let assigner = snapshot.assigner();
    let alone = snapshot.nodes.values().filter(|node| assigner.assign(node).pool.is_none());
    alone
        .map(|node| Note {
            about: About::Node { name: node.name.clone(), uid: node.uid.clone() },
            warning: true,
            reason: "NoPool".to_owned(),
            action: "Assign",
            message: "No WindowsNodePool matches this Windows node, so no pool keeps Linux pods off it. \
                      Label it for a pool, or make a pool with spec.fallback: true."
                .to_owned(),
        })
        .collect()
}

/// The pools that a change of a node concerns: those that have it, match it, or would take it.
pub fn affected<'a>(
    pools: impl IntoIterator<Item = &'a Pool>,
    ownership: &'a Ownership,
    before: Option<&'a WindowsNode>,
    after: Option<&'a WindowsNode>,
) -> Vec<String> {
    let assigner = Assigner::new(pools, ownership);
    let mut concerned = BTreeMap::new();
    for node in before.into_iter().chain(after) {
        let assigned = assigner.assign(node).pool;
        let named = node.labelled_pool().into_iter().chain(ownership.pool_of(node));
        for pool in assigner.claims(node).into_iter().chain(assigned).chain(named) {
            concerned.insert(pool.to_owned(), ());
        }
    }
    concerned.into_keys().collect()
}
