//! Computed conditions are merged into the stored ones.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use winpool_api::conditions::{ComputedCondition, READY};
use winpool_core::kubernetes::whole_second;

/// Merges computed conditions into the stored ones. A condition keeps its transition time while its status is the same;
/// `Ready` comes first, the others by type. They are about the generation of the status, so that none has one of its own.
pub fn merge_conditions(previous: &[Condition], computed: &[ComputedCondition], now: Timestamp) -> Vec<Condition> {
    let mut merged: Vec<Condition> = computed
        .iter()
        .map(|computed| {
            let before = previous.iter().find(|condition| condition.type_ == computed.of.name);
            let since = before.filter(|before| before.status == computed.status.name());
            Condition {
                type_: computed.of.name.to_owned(),
                status: computed.status.name().to_owned(),
                reason: computed.reason.to_owned(),
                message: computed.message.clone(),
                observed_generation: None,
                last_transition_time: since
                    .map_or_else(|| Time(whole_second(now)), |before| before.last_transition_time.clone()),
            }
        })
        .collect();
    sort(&mut merged);
    merged
}

/// `Ready` first, the others by type.
pub fn sort(conditions: &mut [Condition]) {
    conditions.sort_by(|a, b| (a.type_ != READY.name, &a.type_).cmp(&(b.type_ != READY.name, &b.type_)));
}

#[cfg(test)]
mod tests {
    use winpool_api::{
        conditions::{NODES_ASSIGNED, OS_MISMATCH},
        names::reason,
    };

    use super::*;

    fn ready(status: bool, message: &str) -> ComputedCondition {
        READY.because(if status { reason::AS_SPECIFIED } else { reason::WRITE_FAILED }, message)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_transition_time_moves_only_with_the_status() {
        let first = merge_conditions(&[], &[ready(true, "one")], at(10));
        let same = merge_conditions(&first, &[ready(true, "two")], at(20));
        let changed = merge_conditions(&same, &[ready(false, "three")], at(30));
        assert_eq!(same[0].last_transition_time.0, at(10));
        assert_eq!(same[0].message, "two");
        assert_eq!(changed[0].last_transition_time.0, at(30));
    }

    #[test]
    fn ready_comes_first() {
        let computed = [
            NODES_ASSIGNED.because(reason::ASSIGNED, ""),
            ready(true, ""),
            OS_MISMATCH.because(reason::UNKNOWN_VERSION, ""),
        ];
        let types: Vec<_> =
            merge_conditions(&[], &computed, at(0)).into_iter().map(|condition| condition.type_).collect();
        assert_eq!(types, ["Ready", "NodesAssigned", "OSMismatch"]);
    }
}
