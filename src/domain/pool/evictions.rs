//! Which NoExecute taints would evict pods from which node.

use std::collections::BTreeMap;

use super::{Pool, Snapshot, Spec};
use crate::{
    api::{Taint, TaintEffect},
    domain::{node::WindowsNode, ownership::TaintKey, workload::Pod},
};

/// The NoExecute taints of a pool, against the pods on each node.
#[derive(Clone, Debug)]
pub enum Evictions<'a> {
    /// The pool has no NoExecute taint, or an administrator allowed the evictions.
    Allowed,
    /// Pods are not known: every NoExecute taint may evict some.
    Unknown(Vec<TaintKey>),
    /// The taints that pods on a node do not tolerate for good, by node.
    Known(BTreeMap<&'a str, Vec<TaintKey>>),
}

impl<'a> Evictions<'a> {
    /// The evictions that the taints of a pool would cause.
    pub fn of_pool(snapshot: &'a Snapshot, pool: &Pool, spec: &Spec) -> Self {
        let no_execute = || spec.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute);
        if no_execute().next().is_none() || pool.allows(pool.allow_evict.as_ref()) {
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

/// Whether the taint would evict the pod, at once or after some time. A static pod stays whatever the taints are.
fn evicts(taint: &Taint, pod: &Pod) -> bool {
    !pod.finished && !pod.is_static && {
        let scheduling = &pod.template.scheduling;
        !scheduling.tolerates_for_good(&taint.key, &taint.value, taint.effect.as_str())
    }
}
