//! What a condition and its reasons are.

use serde::Serialize;
use winpool_facts::{catalogue::Entry, named_enum};

named_enum! {
    /// The status of a condition.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ConditionStatus {
        /// The condition holds.
        True,
        /// The condition does not hold.
        False,
        /// There is no evidence.
        Unknown,
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The role of a condition in `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It summarises the others, or is one of those that kstatus reads: `Ready`, `Reconciling`, `Stalled`.
    Summary,
    /// `Ready` requires it.
    Required,
    /// `Ready` requires it if the pool has a delivery method: see [`Next`]. Else it is a flag.
    Delivery,
    /// It is not part of `Ready`, and absent while there is nothing to report.
    Flag,
}

/// What a problem does to the cluster, the worst first. The column PROBLEM shows the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Harm {
    /// Linux pods can be scheduled to nodes of the pool.
    OpensNodes,
    /// Pods for Windows cannot run, or could not be scheduled again.
    StopsPods,
    /// Nodes, machines or objects are not as specified.
    NotApplied,
    /// A version is not supported.
    Unsupported,
    /// Nothing is wrong yet, or something waits for a decision that has time.
    Notice,
}

named_enum! {
    /// What a problem is about, as the column PROBLEM names it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)] // the names say it
    pub enum Subject {
        Nodes,
        Pods,
        Config,
        Kubelet,
        Runtime,
        Windows,
        Machines,
        Spec,
    }
}

/// What happens next with a problem of a condition that `Ready` requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A person has to change something: `Ready` is False and `Stalled` True.
    Person,
    /// It may pass by itself, or is retried: `Ready` is False and `Reconciling` True.
    Passes,
    /// The operator, the agents or Cluster API are at work as specified: `Reconciling` is True.
    Proceeds,
    /// It waits for a decision that has time: the summaries do not change.
    Waits,
}

/// A type of condition.
#[derive(Debug, PartialEq, Eq)]
pub struct ConditionType {
    /// Its name.
    pub name: &'static str,
    /// Its role in `Ready`.
    pub role: Role,
    /// The status that is a problem: `True` for conditions of negative polarity.
    pub problem_when: ConditionStatus,
    /// What it is about.
    pub subject: Subject,
    /// What most of its problems do.
    pub harm: Harm,
    /// What True means.
    pub meaning: &'static str,
    /// Its reasons. The summaries also have the reasons of the conditions that `Ready` requires.
    pub reasons: &'static [Reason],
}

/// A reason of a condition.
#[derive(Debug, PartialEq, Eq)]
pub struct Reason {
    /// Its name, what it means, and what to do.
    pub entry: Entry,
    /// The statuses that occur with this reason, the usual one first.
    pub status: &'static [ConditionStatus],
    /// Whether it is a problem: by default if the status is that of [`ConditionType::problem_when`].
    pub(super) problem: Option<bool>,
    /// What the problem does, if it is not [`ConditionType::harm`].
    pub(super) harm: Option<Harm>,
    /// What the problem is about, if it is not [`ConditionType::subject`].
    pub(super) subject: Option<Subject>,
    /// What happens next with the problem.
    pub next: Next,
}

impl Reason {
    pub(super) const fn harm(self, harm: Harm) -> Self {
        Self { harm: Some(harm), ..self }
    }

    pub(super) const fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    /// A reason that is expected although the status is that of a problem.
    pub(super) const fn expected(self, next: Next) -> Self {
        Self { problem: Some(false), next, ..self }
    }

    /// A problem although the condition holds.
    pub(super) const fn warns(self, harm: Harm) -> Self {
        Self { problem: Some(true), harm: Some(harm), ..self }
    }

    pub(super) const fn passes(self) -> Self {
        Self { next: Next::Passes, ..self }
    }

    pub(super) const fn proceeds(self) -> Self {
        Self { next: Next::Proceeds, ..self }
    }

    pub(super) const fn waits(self) -> Self {
        Self { next: Next::Waits, ..self }
    }
}

impl ConditionType {
    /// The row of a reason.
    pub fn reason(&self, name: &str) -> Option<&'static Reason> {
        self.reasons.iter().find(|listed| listed.entry.code == name)
    }

    /// Whether this status with this reason is a problem.
    pub fn is_problem(&self, status: &str, reason: &str) -> bool {
        let by_row = self.reason(reason).and_then(|row| row.problem);
        by_row.unwrap_or(status == self.problem_when.name())
    }

    /// What a problem with this reason does.
    pub fn harm_of(&self, reason: &str) -> Harm {
        self.reason(reason).and_then(|row| row.harm).unwrap_or(self.harm)
    }

    /// What a problem with this reason is about.
    pub fn subject_of(&self, reason: &str) -> Subject {
        self.reason(reason).and_then(|row| row.subject).unwrap_or(self.subject)
    }

    /// A problem as the column PROBLEM names it: `Kubelet/TooOld`.
    pub fn problem_name(&self, reason: &str) -> String {
        let subject = self.subject_of(reason).name();
        format!("{subject}/{}", reason.strip_prefix(subject).unwrap_or(reason))
    }
}
