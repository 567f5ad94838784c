//! The desired state of nodes, and the plan for one node.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use jiff::Timestamp;
use winpool_api::{Taint, TaintKey};

use crate::{operation::NodeChange, pool::evictions::Evictions, revert::MAX_BACKOFF};

/// The desired state of the nodes of a pool.
#[derive(Clone, Debug)]
pub struct DesiredNode<'a> {
    /// The name of the pool.
    pub pool: &'a str,
    /// The labels of the spec.
    pub labels: &'a BTreeMap<String, String>,
    /// The taints of the spec.
    pub taints: &'a [Taint],
    /// The taints of others that are removed once those of the spec are on the node.
    pub replaced: &'a [Taint],
    /// The taints that are not added yet, because pods would stay Pending.
    pub held: &'a BTreeSet<TaintKey>,
    /// The taints that a RuntimeClass of the pool tolerates only after this plan has changed it.
    pub untolerated: &'a BTreeSet<TaintKey>,
    /// These RuntimeClasses.
    pub extended_classes: &'a BTreeSet<String>,
    /// The taints that a RuntimeClass of the pool does not tolerate, if this class cannot be changed now.
    pub blocked: &'a BTreeSet<TaintKey>,
    /// The evictions that NoExecute taints would cause.
    pub evictions: &'a Evictions<'a>,
}

/// The desired configuration of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesiredConfig<'a> {
    /// The ConfigMap with this name.
    Named(&'a str),
    /// No configuration, because the pool names no profile.
    None,
    /// The current configuration, because the profile cannot be rendered for the node now.
    Unchanged,
}

/// The plan for one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePlan {
    /// The change, if anything changes.
    pub change: Option<Arc<NodeChange>>,
    /// Taints with another value, which is not overwritten.
    pub taint_conflicts: Vec<ValueConflict<TaintKey>>,
    /// Labels with another value, which is not overwritten.
    pub label_conflicts: Vec<ValueConflict<String>>,
    /// NoExecute taints that are held because they would evict pods.
    pub would_evict: Vec<TaintKey>,
    /// Taints that are held because pods would stay Pending.
    pub would_strand: Vec<TaintKey>,
    /// Taints that are held because a RuntimeClass of the pool does not tolerate them.
    pub untolerated: Vec<TaintKey>,
    /// Fields that another client repeatedly reverts.
    pub reverted: Vec<RevertedField>,
    /// When to reconcile again because of reverted fields.
    pub retry_at: Option<Timestamp>,
    /// The message with which admission rejected the taints.
    pub refused: Option<String>,
    /// The number of taints and labels that are not removed, because an earlier record could not be verified.
    pub unverified: usize,
}

/// A label or taint with another value than the desired one, which no pool has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueConflict<K> {
    /// The key.
    pub key: K,
    /// The value on the node.
    pub present: String,
    /// The value in the spec.
    pub desired: String,
}

/// A field of a node that another client repeatedly reverts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevertedField {
    /// The field, such as `taint os:NoSchedule`.
    pub field: String,
    /// The field manager of the other client, if it is known.
    pub writer: Option<String>,
    /// The time until which the field is not set; `None` if it is retried with a back-off.
    pub paused_until: Option<Timestamp>,
}

impl NodePlan {
    /// Whether the node is as specified after the change.
    pub fn complete(&self) -> bool {
        self.taint_conflicts.is_empty()
            && self.label_conflicts.is_empty()
            && self.would_evict.is_empty()
            && self.would_strand.is_empty()
            && self.untolerated.is_empty()
            && self.reverted.is_empty()
            && self.refused.is_none()
    }
}

impl fmt::Display for ValueConflict<String> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, present, desired } = self;
        write!(f, "{key}={present} instead of {key}={desired}")
    }
}

impl fmt::Display for ValueConflict<TaintKey> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instead of {}", self.key.with_value(&self.present), self.key.with_value(&self.desired))
    }
}

impl fmt::Display for RevertedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is reverted by {} and ", self.field, self.writer.as_deref().unwrap_or("another client"))?;
        match self.paused_until {
            Some(until) => write!(f, "not written again before {until:.0}"),
            None => write!(f, "written again after at most {} s", MAX_BACKOFF.as_secs()),
        }
    }
}
