//! Conditions: computed from a reconcile, and merged into the stored ones.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use winpool_api::{
    conditions::{ConditionStatus, condition_type},
    names::condition::READY,
};

/// A condition as a reconcile computes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedCondition {
    /// Its type.
    pub condition: &'static str,
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
    /// A condition without a number of objects. Status and reason must be in the table [`winpool_api::conditions`].
    pub fn new(
        condition: &'static str,
        status: impl Into<ConditionStatus>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let status = status.into();
        debug_assert!(
            condition_type(condition).is_some_and(|known| known.allows(status, reason)),
            "{condition}={} {reason} is not in the table of conditions",
            status.as_str()
        );
        Self { condition, status, reason, message: message.into(), count: 0 }
    }

    /// Whether it reports a problem.
    pub fn is_problem(&self) -> bool {
        condition_type(self.condition).is_some_and(|known| known.is_problem(self.status.as_str(), self.reason))
    }

    /// The same condition with a number of objects.
    pub fn about(self, count: usize) -> Self {
        Self { count, ..self }
    }
}

/// Merges computed conditions into the stored ones. A condition keeps its transition time while its status is the same;
/// `Ready` comes first, the others by type.
pub fn merge_conditions(
    previous: &[Condition],
    computed: &[ComputedCondition],
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    let mut merged: Vec<Condition> = computed
        .iter()
        .map(|computed| {
            let before = previous.iter().find(|condition| condition.type_ == computed.condition);
            let since = before.filter(|before| before.status == computed.status.as_str());
            Condition {
                type_: computed.condition.to_owned(),
                status: computed.status.as_str().to_owned(),
                reason: computed.reason.to_owned(),
                message: computed.message.clone(),
                observed_generation: Some(generation),
                last_transition_time: since
                    .map_or_else(|| Time(whole_second(now)), |before| before.last_transition_time.clone()),
            }
        })
        .collect();
    merged.sort_by(|a, b| (a.type_ != READY, &a.type_).cmp(&(b.type_ != READY, &b.type_)));
    merged
}

/// Kubernetes stores times to the second.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: bool, message: &str) -> ComputedCondition {
        ComputedCondition::new(READY, status, if status { "AsSpecified" } else { "WriteFailed" }, message)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_transition_time_moves_only_with_the_status() {
        let first = merge_conditions(&[], &[ready(true, "one")], 1, at(10));
        let same = merge_conditions(&first, &[ready(true, "two")], 2, at(20));
        let changed = merge_conditions(&same, &[ready(false, "three")], 2, at(30));
        assert_eq!(same[0].last_transition_time.0, at(10));
        assert_eq!((same[0].message.as_str(), same[0].observed_generation), ("two", Some(2)));
        assert_eq!(changed[0].last_transition_time.0, at(30));
    }

    #[test]
    fn ready_comes_first() {
        let computed = [
            ComputedCondition::new("NodesAssigned", true, "Assigned", ""),
            ready(true, ""),
            ComputedCondition::new("OSMismatch", ConditionStatus::Unknown, "UnknownVersion", ""),
        ];
        let types: Vec<_> =
            merge_conditions(&[], &computed, 1, at(0)).into_iter().map(|condition| condition.type_).collect();
        assert_eq!(types, [READY, "NodesAssigned", "OSMismatch"]);
    }
}
