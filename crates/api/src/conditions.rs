//! Every condition as data: what it means, which status is a problem, and its reasons. Status, events, `winpool plan`
//! and docs/status.md are derived from the rows of [`CONDITIONS`].

mod row;
mod table;

pub use self::{row::*, table::*};

impl ConditionType {
    /// The condition with a reason of its row, which has the status.
    pub fn because(&'static self, reason: &'static str, message: impl Into<String>) -> ComputedCondition {
        let listed = self.reason(reason);
        let status = listed.and_then(|listed| listed.status.first()).copied().unwrap_or(self.problem_when);
        debug_assert!(self.allows(status, reason), "{}/{reason} is not in the table of conditions", self.name);
        ComputedCondition { of: self, status, reason, message: message.into(), count: 0 }
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
        self.of.is_problem(self.status.name(), self.reason)
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
                let twice = known.reasons[..index].iter().any(|other| other.entry.code == reason.entry.code);
                assert!(!twice && !reason.status.is_empty(), "{} {}", known.name, reason.entry.code);
            }
        }
    }

    #[test]
    fn a_status_is_a_problem_by_the_polarity_of_its_condition() {
        let table = [
            (&READY, ConditionStatus::False, reason::TAINT_CONFLICT, true),
            (&NODES_TAINTED, ConditionStatus::False, reason::OBSERVING, false),
            (&OS_MISMATCH, ConditionStatus::True, reason::NODE_BUILD_DIFFERS, true),
            (&VERSION_SKEW, ConditionStatus::False, reason::TABLES_END_AT, false),
            (&OS_MISMATCH, ConditionStatus::Unknown, reason::UNKNOWN_VERSION, false),
            (&OS_SUPPORTED, ConditionStatus::False, reason::END_OF_LIFE, true),
        ];
        for (of, status, reason, expected) in table {
            assert_eq!(of.is_problem(status.name(), reason), expected, "{} {status:?} {reason}", of.name);
            let computed = of.because(reason, "");
            assert_eq!(computed.status, status, "{} {reason}", of.name);
            assert_eq!(computed.with_status(status).is_problem(), expected, "{} {status:?} {reason}", of.name);
        }
    }
}
