//! Detects that another client reverts our writes.
//!
//! A revert is a value that we wrote and that is not there any more when we plan the same write again: our own writes of
//! another value start the count anew, and another object of the same name has another uid.

use std::collections::{HashMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

/// The kinds of objects that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A WindowsNodePool.
    Pool,
    /// The status of a WindowsNodePool.
    PoolStatus,
    /// A RuntimeClass.
    RuntimeClass,
    /// A ConfigMap in the operator's namespace.
    ConfigMap,
    /// A Node.
    Node,
}

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ObjectId {
    /// This object, and none that is created again under its name.
    Uid(String),
    /// Whatever has the name.
    Name(Target, String),
}

/// A field of an object, and the value that a write gives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldWrite {
    /// The field, such as `taint os:NoSchedule`.
    pub field: String,
    /// The value, or `absent`.
    pub value: String,
    /// What follows from reverts.
    pub persistence: Persistence,
}

/// What follows when a field is reverted again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Persistence {
    /// The field is left alone for [`WINDOW`]: labels and RuntimeClasses.
    Yield,
    /// The field is written again and again, with a delay that grows to [`LONGEST_DELAY`]: taints, which keep Linux pods
    /// off, and objects that others need.
    Insist,
}

/// How many reverts within [`WINDOW`] are taken for repairs.
const TOLERATED: usize = 5;
/// The time within which reverts are counted, and for which a field is left alone.
pub const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// The longest delay before a field of [`Persistence::Insist`] is written again.
pub const LONGEST_DELAY: SignedDuration = SignedDuration::from_secs(30);

/// What we last wrote into which field, and how often others reverted it.
#[derive(Clone, Debug, Default)]
pub struct RevertDetector {
    /// By field of each object.
    fields: HashMap<ObjectId, HashMap<String, History>>,
}

#[derive(Clone, Debug)]
struct History {
    value: String,
    written: Timestamp,
    reverts: VecDeque<Timestamp>,
}

impl RevertDetector {
    /// Notes writes that were done.
    pub fn note(&mut self, object: &ObjectId, writes: &[FieldWrite], now: Timestamp) {
        if writes.is_empty() {
            return;
        }
        let fields = self.fields.entry(object.clone()).or_default();
        for FieldWrite { field, value, .. } in writes {
            match fields.get_mut(field) {
                Some(history) if history.value == *value => {
                    history.revert(now);
                }
                _ => {
                    let history = History { value: value.clone(), written: now, reverts: VecDeque::new() };
                    fields.insert(field.clone(), history);
                }
            }
        }
    }

    /// Whether others keep reverting this field to another value than this.
    pub fn is_contested(&self, object: &ObjectId, write: &FieldWrite, now: Timestamp) -> bool {
        self.history(object, write).is_some_and(|history| history.count(now) >= TOLERATED)
    }

    /// Until when the write waits, if it does.
    pub fn waits_until(&self, object: &ObjectId, write: &FieldWrite, now: Timestamp) -> Option<Timestamp> {
        let history = self.history(object, write)?;
        let more = history.count(now).checked_sub(TOLERATED)?;
        let delay = match write.persistence {
            Persistence::Yield => WINDOW,
            Persistence::Insist => SignedDuration::from_secs(1_i64 << more.min(5)).min(LONGEST_DELAY),
        };
        let until = history.written.saturating_add(delay).ok()?;
        (now < until).then_some(until)
    }

    /// Whether others keep reverting any field of an object.
    pub fn has_contest(&self, object: &ObjectId, now: Timestamp) -> bool {
        self.fields.get(object).is_some_and(|fields| fields.values().any(|history| history.count(now) >= TOLERATED))
    }

    /// Forgets what is too old to matter.
    pub fn forget(&mut self, now: Timestamp) {
        self.fields.retain(|_, fields| {
            fields.retain(|_, history| now.duration_since(history.written) < WINDOW);
            !fields.is_empty()
        });
    }

    fn history(&self, object: &ObjectId, write: &FieldWrite) -> Option<&History> {
        self.fields.get(object)?.get(&write.field).filter(|history| history.value == write.value)
    }
}

impl History {
    /// Counts a revert. Only those within the window are kept, and no more than a delay can grow by.
    fn revert(&mut self, now: Timestamp) {
        self.written = now;
        self.reverts.push_back(now);
        self.reverts.retain(|at| now.duration_since(*at) < WINDOW);
        if self.reverts.len() > 2 * TOLERATED {
            self.reverts.pop_front();
        }
    }

    /// The reverts within the window.
    fn count(&self, now: Timestamp) -> usize {
        self.reverts.iter().filter(|at| now.duration_since(**at) < WINDOW).count()
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    fn write(value: &str, persistence: Persistence) -> FieldWrite {
        FieldWrite { field: "taint os:NoSchedule".into(), value: value.into(), persistence }
    }

    fn uid(text: &str) -> ObjectId {
        ObjectId::Uid(text.to_owned())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_label_is_left_alone_for_ten_minutes_after_the_fifth_revert_within_ten() {
        let (mut detector, label) = (RevertDetector::default(), write("windows", Persistence::Yield));
        for minute in 0..6 {
            assert_eq!(detector.waits_until(&uid("uid-1"), &label, at(minute * 60)), None, "minute {minute}");
            detector.note(&uid("uid-1"), slice::from_ref(&label), at(minute * 60));
        }
        assert!(detector.is_contested(&uid("uid-1"), &label, at(301)));
        assert_eq!(detector.waits_until(&uid("uid-1"), &label, at(301)), Some(at(900)));
        assert_eq!(detector.waits_until(&uid("uid-1"), &label, at(900)), None);
    }

    #[test]
    fn a_taint_is_written_again_for_ever_with_a_delay_that_grows_to_half_a_minute() {
        let (mut detector, taint) = (RevertDetector::default(), write("windows", Persistence::Insist));
        let (mut now, mut delays) = (0, Vec::new());
        for _ in 0..14 {
            detector.note(&uid("uid-1"), slice::from_ref(&taint), at(now));
            let until = detector.waits_until(&uid("uid-1"), &taint, at(now)).unwrap_or(at(now));
            delays.push(until.duration_since(at(now)).as_secs());
            now = until.as_second();
        }
        assert_eq!(delays, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30, 30]);
    }

    #[test]
    fn what_is_not_a_revert_by_others_never_counts() {
        let (taint, value) = (write("windows", Persistence::Insist), write("Windows", Persistence::Insist));
        let mut recreated = RevertDetector::default();
        let mut edited = RevertDetector::default();
        let mut slow = RevertDetector::default();
        for time in 0..20 {
            recreated.note(&uid(&format!("uid-{time}")), slice::from_ref(&taint), at(time));
            edited.note(&uid("uid-1"), &[if time % 2 == 0 { taint.clone() } else { value.clone() }], at(time));
            slow.note(&uid("uid-1"), slice::from_ref(&taint), at(time * 151));
            assert!(!recreated.is_contested(&uid(&format!("uid-{time}")), &taint, at(time)), "a node made again");
            assert!(!edited.is_contested(&uid("uid-1"), &taint, at(time)), "a value that the pool changes to and fro");
            assert!(!slow.is_contested(&uid("uid-1"), &taint, at(time * 151)), "a repair now and then");
        }
    }

    #[test]
    fn our_own_change_ends_a_contest() {
        let (mut detector, taint) = (RevertDetector::default(), write("windows", Persistence::Insist));
        (0..9).for_each(|second| detector.note(&uid("uid-1"), slice::from_ref(&taint), at(second)));
        assert!(detector.is_contested(&uid("uid-1"), &taint, at(9)));
        detector.note(&uid("uid-1"), &[write("Windows", Persistence::Insist)], at(9));
        detector.note(&uid("uid-1"), slice::from_ref(&taint), at(10));
        assert!(!detector.is_contested(&uid("uid-1"), &taint, at(10)));
    }

    #[test]
    fn what_is_too_old_is_forgotten() {
        let mut detector = RevertDetector::default();
        detector.note(&uid("uid-1"), &[write("windows", Persistence::Yield)], at(0));
        detector.forget(at(599));
        assert_eq!(detector.fields.len(), 1);
        detector.forget(at(600));
        assert_eq!(detector.fields.len(), 0);
    }
}
