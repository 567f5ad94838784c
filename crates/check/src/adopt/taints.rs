//! The taints of the pools, from those of their nodes.

use std::collections::{BTreeMap, BTreeSet};

use winpool_api::{Taint, TaintEffect};
use winpool_core::node::WindowsNode;
use winpool_facts::taints::os_taint;

use super::groups::Group;

/// The taints of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTaints {
    /// The taints of the pool: those that all nodes have, and the most frequent one that keeps Linux pods off them.
    pub taints: Vec<TaintUse>,
    /// The others that keep Linux pods off the nodes, which the most frequent one replaces.
    pub replaced: Vec<TaintUse>,
    /// Taints for other purposes that only some nodes have. They are not in the pool, and stay on these nodes.
    pub partial: Vec<TaintUse>,
}

/// A taint and the nodes that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintUse {
    pub taint: Taint,
    pub nodes: Vec<String>,
    /// The names of the other nodes of the group.
    pub others: Vec<String>,
}

/// The preference among taints that keep Linux pods off Windows nodes.
///
/// It is the same for all pools, so that no two pools replace the taints of each other: first the most frequent one on the
/// nodes of groups that have several, then the order of [`OS_TAINTS`](winpool_facts::taints::OS_TAINTS).
#[derive(Clone, Debug, Default)]
pub struct Preference {
    counts: BTreeMap<Taint, usize>,
}

impl Preference {
    /// The preference for groups.
    pub fn new(groups: &[Group]) -> Self {
        let mut counts = BTreeMap::new();
        let os_taints_of = |group: &Group| {
            group.nodes.iter().flat_map(|node| node.lasting_taints().filter(is_for_windows)).collect::<Vec<_>>()
        };
        for found in groups.iter().map(os_taints_of) {
            if found.iter().collect::<BTreeSet<_>>().len() > 1 {
                found.into_iter().for_each(|taint| *counts.entry(taint).or_default() += 1);
            }
        }
        Self { counts }
    }

    fn rank(&self, taint: &Taint) -> (usize, usize) {
        let count = self.counts.get(taint).copied().unwrap_or_default();
        (usize::MAX - count, position(taint).unwrap_or(usize::MAX))
    }
}

impl GroupTaints {
    /// The taints of a group.
    pub fn of(group: &Group, preference: &Preference) -> Self {
        let found: BTreeSet<Taint> = group.nodes.iter().flat_map(|node| node.lasting_taints()).collect();
        let preferred = found.iter().filter(|taint| is_for_windows(taint)).min_by_key(|taint| preference.rank(taint));
        let mut taints = Self::default();
        for taint in &found {
            let used = TaintUse::of(taint, group);
            if Some(taint) == preferred || used.others.is_empty() {
                taints.taints.push(used);
            } else if is_for_windows(taint) {
                taints.replaced.push(used);
            } else {
                taints.partial.push(used);
            }
        }
        taints.taints.sort_by_key(|used| preference.rank(&used.taint));
        taints
    }
}

impl TaintUse {
    fn of(taint: &Taint, group: &Group) -> Self {
        let has_taint = |node: &&&WindowsNode| node.lasting_taints().any(|present| present == *taint);
        let (with, without): (Vec<&WindowsNode>, Vec<&WindowsNode>) =
            group.nodes.iter().partition(|node| has_taint(node));
        let names = |nodes: Vec<&WindowsNode>| nodes.into_iter().map(|node| node.name.clone()).collect();
        Self { taint: taint.clone(), nodes: names(with), others: names(without) }
    }
}

/// Whether a taint keeps Linux pods off Windows nodes.
pub fn is_for_windows(taint: &Taint) -> bool {
    position(taint).is_some()
}

/// The position of a taint in [`OS_TAINTS`](winpool_facts::taints::OS_TAINTS); `None` for a taint for another purpose.
fn position(taint: &Taint) -> Option<usize> {
    os_taint(&taint.key, &taint.value).filter(|_| taint.effect == TaintEffect::NoSchedule)
}
