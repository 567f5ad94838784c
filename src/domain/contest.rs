//! Telling a war from a repair: after five reversals of one field within ten minutes we leave it for ten.

use std::collections::{HashMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

/// A field of an object, and the value that a write gives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Touch {
    /// The field, such as `taint os:NoSchedule`.
    pub field: String,
    /// The value, or `absent`.
    pub value: String,
}

/// How many times somebody may undo a write of ours before we leave the field.
const REVERSALS: usize = 5;
/// The time within which the reversals are counted, and for which the field is left.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);

/// When we last gave which field which value.
///
/// Writing the same value again means that somebody undid it: the first write is ours, each further one a reversal.
#[derive(Clone, Debug, Default)]
pub struct Contests {
    /// By the name of the object: those of nodes and of RuntimeClasses have no field in common.
    writes: HashMap<String, HashMap<Touch, VecDeque<Timestamp>>>,
}

impl Contests {
    /// Notes a write that was done.
    pub fn note(&mut self, object: &str, touches: &[Touch], now: Timestamp) {
        let of_object = self.writes.entry(object.to_owned()).or_default();
        for touch in touches {
            let times = of_object.entry(touch.clone()).or_default();
            times.push_back(now);
            if times.len() > REVERSALS + 1 {
                times.pop_front();
            }
        }
    }

    /// Until when a field is left alone, if it is.
    pub fn left_until(&self, object: &str, touch: &Touch, now: Timestamp) -> Option<Timestamp> {
        let times = self.writes.get(object)?.get(touch)?;
        if times.len() <= REVERSALS {
            return None;
        }
        let (first, last) = (*times.front()?, *times.back()?);
        let until = last + WINDOW;
        (last.duration_since(first) <= WINDOW && now < until).then_some(until)
    }

    /// Forgets what is too old to matter.
    pub fn forget(&mut self, now: Timestamp) {
        self.writes.retain(|_, of_object| {
            of_object.retain(|_, times| times.back().is_some_and(|last| now.duration_since(*last) < WINDOW));
            !of_object.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(value: &str) -> Touch {
        Touch { field: "taint os:NoSchedule".into(), value: value.into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_fifth_reversal_within_ten_minutes_makes_us_leave_the_field_for_ten() {
        let mut contests = Contests::default();
        for write in 0..6 {
            assert_eq!(contests.left_until("win-1", &touch("windows"), at(write * 60)), None, "write {write}");
            contests.note("win-1", &[touch("windows")], at(write * 60));
        }
        assert_eq!(contests.left_until("win-1", &touch("windows"), at(301)), Some(at(900)));
        assert_eq!(contests.left_until("win-1", &touch("windows"), at(900)), None);
        assert_eq!(contests.left_until("win-1", &touch("other"), at(301)), None, "another value is another wish");
    }

    #[test]
    fn slow_reversals_are_repairs() {
        let mut contests = Contests::default();
        for write in 0..20 {
            contests.note("win-1", &[touch("windows")], at(write * 121));
            assert_eq!(contests.left_until("win-1", &touch("windows"), at(write * 121 + 1)), None);
        }
    }

    #[test]
    fn what_is_too_old_is_forgotten() {
        let mut contests = Contests::default();
        contests.note("win-1", &[touch("windows")], at(0));
        contests.forget(at(601));
        assert!(contests.writes.is_empty());
    }
}
