//! The taints of the pools, from those of their nodes.

use std::collections::{BTreeMap, BTreeSet};

use winpool_api::{Taint, TaintEffect};
use winpool_core::node::WindowsNode;
use winpool_facts::taints::os_taint;

use super::groups::Group;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTaints {
    /// The taints of the pool: those that all nodes have, and the most frequent one that keeps Linux pods off them.
    pub taints: Vec<Taint>,
    /// The others that keep Linux pods off the nodes, which the most frequent one replaces.
    pub replaced: Vec<Taint>,
    /// Taints for other purposes that only these nodes have. They are not in the pool, and stay on these nodes.
    pub partial: Vec<(Taint, Vec<String>)>,
}

/// The preference among taints that keep Linux pods off Windows nodes: the most frequent one on the nodes of groups that have
/// several, then the order of `OS_TAINTS`. It is the same for all pools, so that no two replace the taints of each other.
#[derive(Clone, Debug, Default)]
pub struct Preference {
    counts: BTreeMap<Taint, usize>,
}

impl Preference {
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
    pub fn of(group: &Group, preference: &Preference) -> Self {
        let found: BTreeSet<Taint> = group.nodes.iter().flat_map(|node| node.lasting_taints()).collect();
        let preferred = found.iter().filter(|taint| is_for_windows(taint)).min_by_key(|taint| preference.rank(taint));
        let mut taints = Self::default();
        for taint in &found {
            let has_taint = |node: &&&WindowsNode| node.lasting_taints().any(|present| present == *taint);
            let nodes: Vec<String> = group.nodes.iter().filter(has_taint).map(|node| node.name.clone()).collect();
            if Some(taint) == preferred || nodes.len() == group.nodes.len() {
                taints.taints.push(taint.clone());
            } else if is_for_windows(taint) {
                taints.replaced.push(taint.clone());
            } else {
                taints.partial.push((taint.clone(), nodes));
            }
        }
        taints.taints.sort_by_key(|taint| preference.rank(taint));
        taints
    }
}

/// Whether a taint keeps Linux pods off Windows nodes.
pub fn is_for_windows(taint: &Taint) -> bool {
    position(taint).is_some()
}

/// The position of a taint in `OS_TAINTS`; `None` for a taint for another purpose.
fn position(taint: &Taint) -> Option<usize> {
    os_taint(&taint.key, &taint.value).filter(|_| taint.effect == TaintEffect::NoSchedule)
}
