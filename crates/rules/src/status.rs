//! The status of pools and profiles: conditions, columns and events.

pub mod condition;
pub mod event;
pub mod metrics;
pub mod nodes;
pub mod overview;
pub mod pool;
pub mod profile;
pub mod rollout;

use std::time::Duration;

use event::Event;

use crate::operation::Write;

/// The result of a reconcile: the status of its object, and what is done about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report<S> {
    pub status: S,
    /// The write of the status, if it differs from what is stored.
    pub write: Option<Write>,
    pub events: Vec<Event>,
    /// When to reconcile again without an event.
    pub requeue_after: Option<Duration>,
}
