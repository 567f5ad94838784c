//! The desired state of nodes, and the plan for one node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use derive_more::Display;
use jiff::Timestamp;
use winpool_api::{Taint, TaintKey, names::reason};
use winpool_core::ForeignText;

use crate::{operation::NodeEdit, pool::evictions::Evictions, revert::MAX_BACKOFF};

/// The desired state of the nodes of a pool.
#[derive(Clone, Debug)]
pub struct DesiredNode<'a> {
    pub pool: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    /// The taints of others that are removed once those of the spec are on the node.
    pub replaced: &'a [Taint],
    /// The taints that are not added yet, because pods would stay Pending.
    pub held: &'a BTreeSet<TaintKey>,
    /// The taints that a RuntimeClass of the pool tolerates only after this plan has changed it.
    pub untolerated: &'a BTreeSet<TaintKey>,
    /// These RuntimeClasses.
    pub extended_classes: &'a BTreeSet<String>,
    /// The taints that wait for a RuntimeClass of the pool which could not be written lately.
    pub awaited: &'a BTreeSet<TaintKey>,
    /// The taints that a RuntimeClass of the pool does not tolerate, if this class cannot be changed now.
    pub blocked: &'a BTreeSet<TaintKey>,
    /// The evictions that NoExecute taints would cause.
    pub evictions: &'a Evictions<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesiredConfig<'a> {
    Named(&'a str),
    /// No configuration, because the pool names no profile.
    None,
    /// The current configuration, because the profile cannot be rendered for the node now.
    Unchanged,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePlan {
    /// The change, if anything changes.
    pub edit: Option<Arc<NodeEdit>>,
    /// What stands in the way of the desired state.
    pub obstacles: Vec<Obstacle>,
    /// When to reconcile again because of reverted fields.
    pub retry_at: Option<Timestamp>,
    /// The number of taints and labels that are not removed, because an earlier record could not be verified.
    pub unverified: usize,
}

/// What stands in the way of the desired state of a node.
#[derive(Clone, Debug, PartialEq, Display)]
pub enum Obstacle {
    /// A taint has another value, which is not overwritten: both values.
    TaintConflict(String),
    /// A label has another value, which is not overwritten: both values.
    LabelConflict(String),
    /// Admission rejected the taints with this message.
    Denied(ForeignText),
    /// A NoExecute taint is held, because it would evict pods.
    WouldEvict(TaintKey),
    /// A taint is held, because pods would stay Pending.
    WouldStrand(TaintKey),
    /// Another client repeatedly reverts a field.
    Reverted(RevertedField),
    /// A taint is held, because a RuntimeClass of the pool does not tolerate it and cannot be changed.
    Untolerated(TaintKey),
    /// A taint is held, because a RuntimeClass that has to tolerate it first could not be written.
    ClassNotWritten(TaintKey),
}

impl Obstacle {
    /// The reason in conditions and metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::TaintConflict(_) => reason::TAINT_CONFLICT,
            Self::LabelConflict(_) => reason::LABEL_CONFLICT,
            Self::Denied(_) => reason::REFUSED,
            Self::WouldEvict(_) => reason::WOULD_EVICT,
            Self::WouldStrand(_) => reason::WOULD_STRAND_PODS,
            Self::Reverted(_) => reason::CONTESTED,
            Self::Untolerated(_) => reason::PROGRESSING,
            Self::ClassNotWritten(_) => reason::WRITE_FAILED,
        }
    }
}

/// A field of a node that another client repeatedly reverts.
#[derive(Clone, Debug, PartialEq, Eq, Display)]
#[display(
    "{field} is reverted by {} and {}",
    writer.as_ref().map_or_else(|| "another client".to_owned(), ToString::to_string),
    paused_until.map_or_else(
        || format!("written again after at most {} s", MAX_BACKOFF.as_secs()),
        |until| format!("not written again before {until:.0}")
    )
)]
pub struct RevertedField {
    /// The field, such as `taint os:NoSchedule`.
    pub field: String,
    /// The field manager of the other client, if it is known.
    pub writer: Option<ForeignText>,
    /// The time until which the field is not set; `None` if it is retried with a back-off.
    pub paused_until: Option<Timestamp>,
}

impl NodePlan {
    pub fn obstacle(&self, reason: &str) -> Option<&Obstacle> {
        self.obstacles.iter().find(|obstacle| obstacle.reason() == reason)
    }

    /// Adds an obstacle once.
    pub(super) fn add(&mut self, obstacle: Obstacle) {
        if !self.obstacles.contains(&obstacle) {
            self.obstacles.push(obstacle);
        }
    }
}
