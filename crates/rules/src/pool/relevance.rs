//! Whether a change of a node is relevant for any pool. Other clients often set labels that no plan depends on.

use winpool_api::names::{GROUP, label};
use winpool_core::node::WindowsNode;

use super::{Members, Pool, RuntimeClassView, Spec};

/// Labels that are always relevant, in addition to those in the domain of winpool.
const ALWAYS: [&str; 4] = [label::OS, label::BETA_OS, label::ARCH, label::WINDOWS_BUILD];

/// Whether the plan of a pool depends on the change. Labels that no selector, pool or record names are not relevant,
/// nor are the names of field managers, which are used only together with the fields that they wrote.
pub fn is_relevant<'a>(
    pools: impl IntoIterator<Item = &'a Pool>,
    classes: impl IntoIterator<Item = &'a RuntimeClassView>,
    before: &WindowsNode,
    after: &WindowsNode,
) -> bool {
    if !before.differs_in_labels_at_most(after) {
        return true;
    }
    let recorded = |key: &str| after.owned.as_ref().is_some_and(|signed| signed.record.labels.contains_key(key));
    let changed = changed_labels(before, after);
    if changed.iter().any(|key| ALWAYS.contains(key) || is_of_winpool(key) || recorded(key)) {
        return true;
    }
    let names = |spec: &Spec| changed.iter().any(|key| names_label(spec, key));
    let selects = |class: &RuntimeClassView| changed.iter().any(|key| selects_by(class, key));
    !changed.is_empty()
        && (pools.into_iter().filter_map(|pool| pool.spec.as_ref().ok()).any(names) || classes.into_iter().any(selects))
}

/// The keys of the labels that were added, removed or changed.
pub fn changed_labels<'n>(before: &'n WindowsNode, after: &'n WindowsNode) -> Vec<&'n str> {
    let changed = before.labels.iter().filter(|(key, value)| after.labels.get(*key) != Some(value));
    let added = after.labels.iter().filter(|(key, _)| !before.labels.contains_key(*key));
    changed.chain(added).map(|(key, _)| key.as_str()).collect()
}

/// Whether a label has the domain of winpool or a subdomain of it.
fn is_of_winpool(key: &str) -> bool {
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
