//! Whether a change of a node concerns any pool: other clients label nodes all the time, and rules read few labels.

use super::{Members, Pool, RuntimeClassView, Spec};
use crate::{
    api::names::{GROUP, label},
    domain::node::WindowsNode,
};

/// Labels that the rules read whatever the pools ask for, beside those in domains of ours.
const ALWAYS: [&str; 4] = [label::OS, label::BETA_OS, label::ARCH, label::WINDOWS_BUILD];

/// Whether a change touches anything that the rules of a pool read: every field but labels that no selector, pool or
/// record names, and the names of the clients that wrote last, which are read together with what they wrote.
pub fn concerns_pools<'a>(
    pools: impl IntoIterator<Item = &'a Pool>,
    classes: impl IntoIterator<Item = &'a RuntimeClassView>,
    before: &WindowsNode,
    after: &WindowsNode,
) -> bool {
    if without_labels(before) != without_labels(after) {
        return true;
    }
    let recorded = |key: &str| after.owned.as_ref().is_some_and(|signed| signed.record.labels.contains_key(key));
    let changed = changed_labels(before, after);
    if changed.iter().any(|key| ALWAYS.contains(key) || is_ours(key) || recorded(key)) {
        return true;
    }
    let reads = |spec: &Spec| changed.iter().any(|key| names_label(spec, key));
    let selects = |class: &RuntimeClassView| changed.iter().any(|key| selects_by(class, key));
    !changed.is_empty()
        && (pools.into_iter().filter_map(|pool| pool.spec.as_ref().ok()).any(reads) || classes.into_iter().any(selects))
}

/// The node without what does not matter by itself.
fn without_labels(node: &WindowsNode) -> WindowsNode {
    WindowsNode {
        resource_version: String::new(),
        labels: Default::default(),
        labels_writer: None,
        taints_writer: None,
        ..node.clone()
    }
}

/// The keys of the labels that were added, removed or given another value.
pub fn changed_labels<'n>(before: &'n WindowsNode, after: &'n WindowsNode) -> Vec<&'n str> {
    let other = |of: &WindowsNode, key: &str, value: &String| of.labels.get(key) != Some(value);
    let gone = before.labels.iter().filter(|(key, value)| other(after, key, value));
    let new = after.labels.iter().filter(|(key, _)| !before.labels.contains_key(*key));
    gone.chain(new).map(|(key, _)| key.as_str()).collect()
}

/// Whether a label is in the domain of winpool or below it.
fn is_ours(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain.strip_suffix(GROUP).is_some_and(|below| below.is_empty() || below.ends_with('.'))
}

fn names_label(spec: &Spec, key: &str) -> bool {
    let selected = match &spec.members {
        Members::Selector(selector) => {
            selector.match_labels.contains_key(key)
                || selector.match_expressions.iter().any(|requirement| requirement.key == key)
        }
        Members::Fallback => false,
    };
    selected || spec.labels.contains_key(key)
}

fn selects_by(class: &RuntimeClassView, key: &str) -> bool {
    let selector = class.object.scheduling.as_ref().and_then(|scheduling| scheduling.node_selector.as_ref());
    selector.is_some_and(|selector| selector.contains_key(key))
}
