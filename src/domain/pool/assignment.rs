//! The assignment of nodes to pools.

use std::collections::HashMap;

use super::{Members, Pool};
use crate::{
    api::{LabelSelector, Mode},
    domain::{node::WindowsNode, ownership::Ownership},
};

/// The assignment of a node.
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
pub struct Assigner<'a> {
    ownership: &'a Ownership,
    pools: HashMap<&'a str, &'a Pool>,
    /// The selectors of pools, by precedence.
    selectors: Vec<(&'a str, &'a LabelSelector)>,
    /// Indexes of selectors by the key and value of one of their labels.
    by_label: HashMap<&'a str, HashMap<&'a str, Vec<usize>>>,
    /// Indexes of selectors without labels.
    without_label: Vec<usize>,
    fallback: Option<&'a str>,
}

impl<'a> Assigner<'a> {
    /// Creates the assigner of these pools.
    pub fn new(pools: impl IntoIterator<Item = &'a Pool>, ownership: &'a Ownership) -> Self {
        let mut ordered: Vec<&Pool> = pools.into_iter().collect();
        ordered.sort_by(|a, b| a.precedence().cmp(&b.precedence()));
        let mut assigner = Self {
            ownership,
            pools: ordered.iter().map(|pool| (pool.name.as_str(), *pool)).collect(),
            selectors: Vec::new(),
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

    /// Whether the mode of a pool is Observe. Such a pool takes no node from a pool in mode Enforce.
    fn observes(&self, name: &str) -> bool {
        let spec = self.pools.get(name).and_then(|pool| pool.spec.as_ref().ok());
        spec.is_some_and(|spec| spec.mode == Mode::Observe)
    }

    fn add(&mut self, pool: &'a str, selector: &'a LabelSelector) {
        let index = self.selectors.len();
        self.selectors.push((pool, selector));
        match selector.match_labels.iter().next() {
            Some((key, value)) => self.by_label.entry(key).or_default().entry(value).or_default().push(index),
            None => self.without_label.push(index),
        }
    }

    /// The fallback pool: the oldest, preferably in mode Enforce.
    pub fn fallback(&self) -> Option<&'a str> {
        self.fallback
    }

    /// The pools that select a node, by precedence.
    pub fn selected_by(&self, node: &WindowsNode) -> Vec<&'a str> {
        let labelled = self.by_label.iter().filter_map(|(key, by_value)| by_value.get(node.labels.get(*key)?.as_str()));
        let mut found: Vec<usize> = labelled
            .flatten()
            .chain(&self.without_label)
            .copied()
            .filter(|index| self.selectors[*index].1.matches(&node.labels))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|index| self.selectors[index].0).collect()
    }

    /// Assigns a node.
    pub fn assign(&self, node: &WindowsNode) -> Assignment<'a> {
        let selected_by = self.selected_by(node);
        let current = self.ownership.pool_of(node).and_then(|name| self.pools.get(name)).copied();
        let (observing, mut enforcing): (Vec<&str>, Vec<&str>) =
            selected_by.iter().partition(|name| self.observes(name));
        enforcing.extend(self.fallback.filter(|name| enforcing.is_empty() && !self.observes(name)));
        let kept = current.filter(|current| !current.deleting).map(|current| current.name.as_str());
        let releases = |pool: &Pool| pool.spec.as_ref().is_ok_and(|spec| pool.consents.allow_release(&spec.members));
        let (pool, held) = match current {
            // A pool with an invalid spec keeps its nodes, and takes no others.
            Some(current) if current.spec.is_err() && !current.deleting => (kept, false),
            Some(current) if selected_by.contains(&current.name.as_str()) => (kept, false),
            _ if !enforcing.is_empty() => (enforcing.first().copied(), false),
            _ if kept.is_some() && self.fallback == kept => (kept, false),
            Some(current) if kept.is_some() && !releases(current) => (kept, true),
            // The node that a pool in mode Observe would take.
            _ => (observing.first().copied().or(self.fallback), false),
        };
        Assignment { pool, held, shared_by: if selected_by.len() > 1 { selected_by } else { Vec::new() } }
    }
}
