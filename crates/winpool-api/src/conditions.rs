//! Every condition as data: what it means, which status is a problem, and its reasons. Status, events, `winpool plan`
//! and docs/status.md are derived from the rows of [`CONDITIONS`].

mod table;

use serde::Serialize;

pub use self::table::*;
use super::named_enum;

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

impl ConditionStatus {
    /// As Kubernetes spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
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
    /// Its name.
    pub name: &'static str,
    /// The statuses that occur with this reason, the usual one first.
    pub status: &'static [ConditionStatus],
    /// What it means.
    pub meaning: &'static str,
    /// What to do.
    pub action: &'static str,
    /// Whether it is a problem: by default if the status is that of [`ConditionType::problem_when`].
    problem: Option<bool>,
    /// What the problem does, if it is not [`ConditionType::harm`].
    harm: Option<Harm>,
    /// What the problem is about, if it is not [`ConditionType::subject`].
    subject: Option<Subject>,
    /// What happens next with the problem.
    pub next: Next,
}

impl Reason {
    const fn harm(self, harm: Harm) -> Self {
        Self { harm: Some(harm), ..self }
    }

    const fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    /// A reason that is expected although the status is that of a problem.
    const fn expected(self, next: Next) -> Self {
        Self { problem: Some(false), next, ..self }
    }

    /// A problem although the condition holds.
    const fn warns(self, harm: Harm) -> Self {
        Self { problem: Some(true), harm: Some(harm), ..self }
    }

    const fn passes(self) -> Self {
        Self { next: Next::Passes, ..self }
    }

    const fn waits(self) -> Self {
        Self { next: Next::Waits, ..self }
    }
}

impl ConditionType {
    /// The condition with a reason of its row, which has the status.
    pub fn because(&'static self, reason: &'static str, message: impl Into<String>) -> ComputedCondition {
        let listed = self.reason(reason);
        let status = listed.and_then(|listed| listed.status.first()).copied().unwrap_or(self.problem_when);
        debug_assert!(self.allows(status, reason), "{}/{reason} is not in the table of conditions", self.name);
        ComputedCondition { of: self, status, reason, message: message.into(), count: 0 }
    }

    /// The row of a reason.
    pub fn reason(&self, name: &str) -> Option<&'static Reason> {
        self.reasons.iter().find(|listed| listed.name == name)
    }

    /// Whether this status with this reason is a problem.
    pub fn is_problem(&self, status: &str, reason: &str) -> bool {
        let by_row = self.reason(reason).and_then(|row| row.problem);
        by_row.unwrap_or(status == self.problem_when.as_str())
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

    /// Whether the condition may have this status with this reason.
    pub fn allows(&self, status: ConditionStatus, reason: &str) -> bool {
        let listed = |of: &Self| of.reason(reason).is_some_and(|known| known.status.contains(&status));
        let of_others = |role| of_role(role).any(|of| of.reason(reason).is_some());
        listed(self) || (self.role == Role::Summary && (of_others(Role::Required) || of_others(Role::Delivery)))
    }
}

/// A condition as a reconcile computes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedCondition {
    /// Its type.
    pub of: &'static ConditionType,
    /// Its status.
    pub status: ConditionStatus,
    /// The stable reason.
    pub reason: &'static str,
    /// The problem and the remedy, or the state without a problem.
    pub message: String,
    /// The number of nodes or objects with the problem; 0 if a number does not apply.
    pub count: usize,
}

impl ComputedCondition {
    /// Whether it reports a problem.
    pub fn is_problem(&self) -> bool {
        self.of.is_problem(self.status.as_str(), self.reason)
    }

    /// What its problem does.
    pub fn harm(&self) -> Harm {
        self.of.harm_of(self.reason)
    }

    /// What happens next.
    pub fn next(&self) -> Next {
        self.of.reason(self.reason).map_or(Next::Person, |row| row.next)
    }

    /// The same condition with a number of objects.
    pub fn about(self, count: usize) -> Self {
        Self { count, ..self }
    }

    /// The same condition with another status of its reason.
    pub fn with_status(self, status: ConditionStatus) -> Self {
        debug_assert!(self.of.allows(status, self.reason), "{}/{} has no such status", self.of.name, self.reason);
        Self { status, ..self }
    }
}

/// The type with this name.
pub fn condition_type(name: &str) -> Option<&'static ConditionType> {
    CONDITIONS.iter().copied().find(|known| known.name == name)
}

/// The types with this role in `Ready`.
pub fn of_role(role: Role) -> impl Iterator<Item = &'static ConditionType> {
    CONDITIONS.iter().copied().filter(move |known| known.role == role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::reason;

    #[test]
    fn a_condition_is_listed_once_and_its_reasons_are_listed_once() {
        for (index, known) in CONDITIONS.iter().enumerate() {
            assert!(CONDITIONS[..index].iter().all(|other| other.name != known.name), "{}", known.name);
            for (index, reason) in known.reasons.iter().enumerate() {
                let twice = known.reasons[..index].iter().any(|other| other.name == reason.name);
                assert!(!twice && !reason.status.is_empty(), "{} {}", known.name, reason.name);
            }
        }
    }

    #[test]
    fn a_status_is_a_problem_by_the_polarity_of_its_condition() {
        let table = [
            (&READY, ConditionStatus::False, reason::TAINT_CONFLICT, true),
            (&READY, ConditionStatus::False, reason::PAUSED, false),
            (&NODES_TAINTED, ConditionStatus::False, reason::OBSERVING, false),
            (&OS_MISMATCH, ConditionStatus::True, reason::NODE_BUILD_DIFFERS, true),
            (&VERSION_SKEW, ConditionStatus::False, reason::TABLES_END_AT, false),
            (&OS_MISMATCH, ConditionStatus::Unknown, reason::UNKNOWN_VERSION, false),
            (&OS_SUPPORTED, ConditionStatus::False, reason::END_OF_LIFE, true),
        ];
        for (of, status, reason, expected) in table {
            assert_eq!(of.is_problem(status.as_str(), reason), expected, "{} {status:?} {reason}", of.name);
            let computed = of.because(reason, "");
            // `Paused` is usually no problem: False is the exception.
            let usual = if reason == reason::PAUSED { ConditionStatus::True } else { status };
            assert_eq!(computed.status, usual, "{} {reason}", of.name);
            assert_eq!(computed.with_status(status).is_problem(), expected, "{} {status:?} {reason}", of.name);
        }
    }
}
