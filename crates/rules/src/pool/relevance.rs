//! What the rules read of a node, and so whether a change of it is relevant for any pool. Other clients often set labels
//! that no plan depends on.

use std::collections::HashSet;

use winpool_api::names::{GROUP, label};
use winpool_core::node::WindowsNode;

use super::{Members, Pool, RuntimeClassView, Spec};

/// Labels that are always read, in addition to those in the domain of winpool.
const ALWAYS: [&str; 4] = [label::OS, label::BETA_OS, label::ARCH, label::WINDOWS_BUILD];

/// The labels of nodes that the rules read.
pub struct ReadLabels<'a> {
    /// The keys that pools, RuntimeClasses or workloads name.
    named: HashSet<&'a str>,
}

impl<'a> ReadLabels<'a> {
    /// These labels, and those that are always read.
    pub fn named(keys: impl IntoIterator<Item = &'a String>) -> Self {
        Self { named: keys.into_iter().map(String::as_str).collect() }
    }

    /// Whether the label with this key is read on every node.
    pub fn contains(&self, key: &str) -> bool {
        ALWAYS.contains(&key) || is_of_winpool(key) || self.named.contains(key)
    }

    /// The labels of a node that are read: also those in its record.
    pub fn of<'n>(&self, node: &'n WindowsNode) -> impl Iterator<Item = (&'n String, &'n String)> {
        let recorded = |key: &str| node.owned.as_ref().is_some_and(|signed| signed.record.labels.contains_key(key));
        node.labels.iter().filter(move |(key, _)| self.contains(key) || recorded(key))
    }
}

/// Whether a plan of a pool may depend on the change.
pub fn is_relevant<'a>(
    pools: impl IntoIterator<Item = &'a Pool>,
    classes: impl IntoIterator<Item = &'a RuntimeClassView>,
    before: &WindowsNode,
    after: &WindowsNode,
) -> bool {
    // Every field counts that is not taken from the former node here, so that none is forgotten. The names of field managers are read only
    // together with the fields that they wrote.
    let with_former_labels = WindowsNode {
        labels: before.labels.clone(),
        oversized: before.oversized,
        labels_writer: before.labels_writer.clone(),
        taints_writer: before.taints_writer.clone(),
        ..after.clone()
    };
    if with_former_labels != *before {
        return true;
    }
    if before.labels == after.labels {
        return false;
    }
    let by_pools = pools.into_iter().filter_map(|pool| pool.spec.as_ref().ok()).flat_map(keys_of_pool);
    let read = ReadLabels::named(by_pools.chain(classes.into_iter().flat_map(keys_of_class)));
    !read.of(before).eq(read.of(after))
}

/// The keys of the labels that were added, removed or changed.
pub fn changed_labels<'n>(before: &'n WindowsNode, after: &'n WindowsNode) -> Vec<&'n str> {
    let changed = before.labels.iter().filter(|(key, value)| after.labels.get(*key) != Some(value));
    let added = after.labels.iter().filter(|(key, _)| !before.labels.contains_key(*key));
    changed.chain(added).map(|(key, _)| key.as_str()).collect()
}

/// The keys of the labels that a RuntimeClass selects by.
pub fn keys_of_class(class: &RuntimeClassView) -> impl Iterator<Item = &String> {
    class.object.scheduling.iter().filter_map(|scheduling| scheduling.node_selector.as_ref()).flat_map(|map| map.keys())
}

/// The keys of the labels that a pool selects by or sets.
fn keys_of_pool(spec: &Spec) -> impl Iterator<Item = &String> {
    let selector = match &spec.members {
        Members::Selector(selector) => Some(selector),
        Members::Fallback => None,
    };
    let selected = selector.into_iter().flat_map(|selector| {
        selector.match_labels.keys().chain(selector.match_expressions.iter().map(|requirement| &requirement.key))
    });
    selected.chain(spec.labels.keys())
}

/// Whether a label has the domain of winpool or a subdomain of it.
fn is_of_winpool(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain.strip_suffix(GROUP).is_some_and(|below| below.is_empty() || below.ends_with('.'))
}
