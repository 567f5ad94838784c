//! The labels for releases that the pods on nodes select.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

use winpool_core::{node::WindowsNode, release_labels};
use winpool_workload::Pod;

use crate::pool::Snapshot;

/// The labels for releases that the pods on nodes select. The pods are read at the first node with a label that may have to
/// be removed: almost no node has one.
pub struct SelectedReleases<'a> {
    snapshot: &'a Snapshot,
    /// Whether nodes keep the labels of the releases that they run.
    keeps_releases: bool,
    by_node: OnceCell<BTreeMap<&'a str, BTreeSet<String>>>,
}

impl<'a> SelectedReleases<'a> {
    /// Nodes that stay in a pool keep the labels of the releases that they run, those that leave it do not.
    pub fn new(snapshot: &'a Snapshot, keeps_releases: bool) -> Self {
        Self { snapshot, keeps_releases, by_node: OnceCell::new() }
    }

    /// The labels of a node that its pods select; empty if none may have to be removed.
    pub fn on(&self, node: &WindowsNode) -> BTreeSet<String> {
        let mut present = node.labels.keys().filter(|key| release_labels::is_release_label(key)).peekable();
        if present.peek().is_none() {
            return BTreeSet::new();
        }
        let kept = if self.keeps_releases { node.release_labels() } else { BTreeSet::new() };
        if present.all(|key| kept.contains(key)) {
            return BTreeSet::new();
        }
        self.by_node.get_or_init(|| by_node(self.snapshot)).get(node.name.as_str()).cloned().unwrap_or_default()
    }
}

fn by_node(snapshot: &Snapshot) -> BTreeMap<&str, BTreeSet<String>> {
    let mut by_node: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let pods = snapshot.pods.iter().flat_map(|pods| pods.values()).map(AsRef::as_ref);
    for (node, pod) in pods.filter(|pod: &&Pod| !pod.finished).filter_map(|pod| Some((pod.node.as_deref()?, pod))) {
        let keys = pod.template.selected_labels().filter(|key| release_labels::is_release_label(key));
        for key in keys {
            by_node.entry(node).or_default().insert(key.clone());
        }
    }
    by_node
}
