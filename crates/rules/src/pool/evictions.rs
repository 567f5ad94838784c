//! The evictions that NoExecute taints would cause.

use std::collections::BTreeMap;

use winpool_api::{Taint, TaintEffect, TaintKey};
use winpool_core::node::WindowsNode;
use winpool_workload::Pod;

use super::{Consent, Pool, Snapshot, Spec};

/// The evictions that the NoExecute taints of a pool would cause.
#[derive(Clone, Debug)]
pub enum Evictions<'a> {
    /// The pool has no NoExecute taint, or the evictions of all of them are allowed.
    Allowed,
    /// Pods are not known: each of these taints may evict some.
    Unknown(Vec<TaintKey>),
    /// The taints that pods on a node do not tolerate without a time limit, by node.
    Known(BTreeMap<&'a str, Vec<TaintKey>>),
}

impl<'a> Evictions<'a> {
    pub fn of_pool(snapshot: &'a Snapshot, pool: &Pool, spec: &Spec) -> Self {
        let held =
            |taint: &&Taint| taint.effect == TaintEffect::NoExecute && !pool.consents.allow(Consent::Evict(&[taint]));
        let no_execute = || spec.taints.iter().filter(held);
        if no_execute().next().is_none() {
            return Self::Allowed;
        }
        let Some(pods) = &snapshot.pods else { return Self::Unknown(no_execute().map(TaintKey::from).collect()) };
        let mut by_node: BTreeMap<&str, Vec<TaintKey>> = BTreeMap::new();
        for (node, pod) in pods.values().filter_map(|pod| Some((pod.node.as_deref()?, pod))) {
            for taint in no_execute().filter(|taint| evicts(taint, pod)) {
                let keys = by_node.entry(node).or_default();
                let key = TaintKey::from(taint);
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        by_node.values_mut().for_each(|keys| keys.sort());
        Self::Known(by_node)
    }

    /// The taints that would evict pods from a node.
    pub fn of(&self, node: &WindowsNode) -> Vec<TaintKey> {
        match self {
            Self::Allowed => Vec::new(),
            Self::Unknown(keys) => keys.clone(),
            Self::Known(by_node) => by_node.get(node.name.as_str()).cloned().unwrap_or_default(),
        }
    }
}

/// Whether the taint would evict the pod, at once or after some time. Taints do not evict static pods.
fn evicts(taint: &Taint, pod: &Pod) -> bool {
    !pod.finished && !pod.is_static && !pod.template.scheduling.tolerates_without_limit(taint)
}
