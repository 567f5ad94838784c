//! A field is in conflict after five reverts of the same value within ten minutes, whatever else is written.

use jiff::Timestamp;
use proptest::prelude::*;
use winpool_rules::revert::{FieldWrite, ObjectId, RevertDetector, RevertPolicy};

/// A write: the object, the value, and the seconds since the previous write.
fn any_write() -> impl Strategy<Value = (u8, u8, i64)> {
    (0..2_u8, prop_oneof![4 => Just(0_u8), 1 => Just(1)], prop_oneof![4 => 0..60_i64, 1 => 0..700_i64])
}

fn field(value: u8) -> FieldWrite {
    FieldWrite { field: "taint os:NoSchedule".into(), value: Some(value.to_string()), on_revert: RevertPolicy::Retry }
}

fn id(object: u8) -> ObjectId {
    ObjectId::Uid(format!("uid-{object}").into())
}

/// The number of repeated writes of the last value within the window, each after a change by another client.
fn reverts(writes: &[(u8, u8, i64)], object: u8, now: i64) -> usize {
    let of_object: Vec<_> = writes.iter().filter(|(written, ..)| *written == object).collect();
    let Some((_, last, _)) = of_object.last() else { return 0 };
    let same: Vec<_> = of_object.iter().rev().take_while(|(_, value, _)| value == last).collect();
    // The first write is not a revert.
    same[..same.len() - 1].iter().filter(|(.., at)| now - at < 600).count()
}

proptest! {
    #[test]
    fn only_reverts_of_the_same_value_of_the_same_object_count(writes in prop::collection::vec(any_write(), 1..40)) {
        let mut detector = RevertDetector::default();
        let mut written = Vec::new();
        let mut now = 0;
        for (object, value, after) in writes {
            now += after;
            let at = Timestamp::from_second(now).unwrap();
            detector.note(&id(object), &[field(value)], at);
            written.push((object, value, now));
            for object in 0..2 {
                let last = written.iter().rev().find(|(of, ..)| *of == object);
                let Some((_, value, at_last)) = last else { continue };
                let count = reverts(&written, object, now);
                prop_assert_eq!(detector.in_conflict(&id(object), &field(*value), at), count >= 5);
                prop_assert!(!detector.in_conflict(&id(object), &field(*value + 1), at), "another value");
                if let Some(until) = detector.delayed_until(&id(object), &field(*value), at) {
                    prop_assert!(until.as_second() <= at_last + 30, "a taint is always retried");
                }
            }
        }
    }
}
