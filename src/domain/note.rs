//! What a person would ask about: events, as values.

use std::sync::Arc;

use super::workload::WorkloadName;

/// An event on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The object.
    pub about: About,
    /// Whether somebody should look.
    pub warning: bool,
    /// A stable word for what happened.
    pub reason: String,
    /// What the operator did, in a word.
    pub action: &'static str,
    /// The whole story, in a sentence or two; at most a kilobyte is shown.
    pub message: String,
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A WindowsNodePool.
    Pool {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// A WindowsRuntimeProfile.
    Profile {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// A Node.
    Node {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// A workload.
    Workload {
        /// Kind, namespace and name.
        workload: Arc<WorkloadName>,
        /// Its uid.
        uid: String,
    },
}

impl About {
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
