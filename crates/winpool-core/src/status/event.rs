//! Events on pools, profiles, nodes and workloads, as values.

use std::sync::Arc;

use crate::workload::WorkloadName;

/// An event on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub about: Regarding,
    /// Whether its type is Warning; else Normal.
    pub warning: bool,
    pub reason: String,
    pub action: &'static str,
    /// The message; at most a kilobyte is shown.
    pub message: String,
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Regarding {
    Pool { name: String, uid: String },
    Profile { name: String, uid: String },
    Node { name: String, uid: String },
    Workload { workload: Arc<WorkloadName>, uid: String },
}

impl Regarding {
    /// The uid of the object.
    pub fn uid(&self) -> &str {
        match self {
            Self::Pool { uid, .. }
            | Self::Profile { uid, .. }
            | Self::Node { uid, .. }
            | Self::Workload { uid, .. } => uid,
        }
    }
}
