//! How writes ended.

use std::collections::BTreeSet;

use derive_more::Display;
use winpool_core::ForeignText;

use super::{dependency::Dependency, node_edit::DeniedPart, write::Write};

/// What to do with the rest of a plan after a write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Continue with writes that do not depend on the failed one.
    Continue,
    /// Start no further step, because a cleanup removes in order.
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The object has changed since the plan.
    Conflict,
    /// The object does not exist.
    NotFound,
    /// The API server does not allow the write now, as the eviction of a pod with a PodDisruptionBudget.
    Delayed,
    /// The change of a node was not sent, because it needs an object that could not be written. The next plan does without it.
    Waits(Dependency),
    /// Admission rejected the change of a node. The next plan leaves out this part.
    Denied(DeniedPart, WriteError),
    /// The API server rejected the write.
    Refused(WriteError),
    /// The write failed for another reason.
    Failed(WriteError),
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Display)]
#[display("{message}")]
pub struct WriteError {
    /// Identifies the failure, because messages differ between objects and attempts.
    pub cause: ErrorCause,
    /// The message of the API server or of the client.
    pub message: ForeignText,
}

/// The cause of a failure, without the texts that differ between objects and attempts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCause {
    /// The API server did not answer.
    NoResponse,
    /// The API server answered with a `Status`.
    Status {
        code: u16,
        /// The reason, such as `Forbidden`.
        reason: String,
        /// The fields of the object in the details.
        fields: BTreeSet<String>,
    },
}

/// The outcomes of a plan's writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// The writes that were attempted, with their outcomes.
    pub results: Vec<(Write, Outcome)>,
    /// Whether all writes of the plan succeeded.
    pub complete: bool,
}

impl Outcome {
    /// Whether writes that depend on it can continue.
    pub fn succeeded(&self) -> bool {
        matches!(self, Self::Done | Self::NotFound | Self::Delayed)
    }

    /// Whether the object is planned again at once: it has changed, or the next plan takes into account what was learned.
    pub fn is_superseded(&self) -> bool {
        matches!(self, Self::Conflict | Self::Waits(_) | Self::Denied(..))
    }

    /// The error, if the write was refused or failed.
    pub fn error(&self) -> Option<&WriteError> {
        match self {
            Self::Refused(error) | Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

/// A failure without a response of the API server.
impl<T: Into<ForeignText>> From<T> for WriteError {
    fn from(message: T) -> Self {
        Self { cause: ErrorCause::NoResponse, message: message.into() }
    }
}

impl Done {
    pub fn written(&self) -> impl Iterator<Item = &Write> {
        self.results.iter().filter(|(_, outcome)| *outcome == Outcome::Done).map(|(write, _)| write)
    }

    /// Whether the plan is superseded, so that the state after it is not reported.
    pub fn is_superseded(&self) -> bool {
        self.results.iter().any(|(_, outcome)| outcome.is_superseded())
    }

    /// The writes that were refused or failed, with their errors.
    pub fn failed(&self) -> impl Iterator<Item = (&Write, &WriteError)> {
        self.results.iter().filter_map(|(write, outcome)| Some((write, outcome.error()?)))
    }

    /// Whether the API server refused a write, and no other one failed for a cause that may pass: a quota, a policy, a webhook,
    /// a missing permission or an invalid object remains until a person acts.
    pub fn is_refused(&self) -> bool {
        let any = |matches: fn(&Outcome) -> bool| self.results.iter().any(|(_, outcome)| matches(outcome));
        any(|outcome| matches!(outcome, Outcome::Refused(_))) && !any(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    /// The failures, such as `Node win-1: connection refused`.
    pub fn failures(&self) -> impl Iterator<Item = String> + '_ {
        self.failed().map(|(write, error)| format!("{}: {error}", write.object))
    }
}
