//! Detects that another client reverts the writes of winpool.
//!
//! A revert is counted when a successful write is repeated with the same value. A write of another value resets the
//! count, and an object that was created again has another uid.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use winpool_api::{Taint, TaintKey};
use winpool_core::kind::Kind;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ObjectId {
    /// Only this object, not one that is created again with the same name.
    Uid(Arc<str>),
    /// Any object with this name.
    Name(Kind, Arc<str>),
}

/// A field of an object, and the value that a write sets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldWrite {
    /// The field, such as `taint os:NoSchedule`.
    pub field: String,
    /// The value; `None` if the field is removed.
    pub value: Option<String>,
    /// What to do when the field is reverted repeatedly.
    pub on_revert: RevertPolicy,
}

impl FieldWrite {
    pub fn label(key: &str, value: Option<&str>) -> Self {
        Self { field: format!("label {key}"), value: value.map(str::to_owned), on_revert: RevertPolicy::Pause }
    }

    pub fn taint(key: &TaintKey, value: Option<&str>) -> Self {
        Self { field: format!("taint {key}"), value: value.map(str::to_owned), on_revert: RevertPolicy::Retry }
    }

    /// The removal of a taint of another component that the taints of a pool replace.
    pub fn replaced_taint(taint: &Taint) -> Self {
        Self { field: format!("replaced taint {taint}"), value: None, on_revert: RevertPolicy::Pause }
    }

    pub fn annotation(key: &str, value: String) -> Self {
        Self { field: format!("annotation {key}"), value: Some(value), on_revert: RevertPolicy::Pause }
    }

    /// The scheduling of a RuntimeClass.
    pub fn scheduling(value: String) -> Self {
        Self { field: "scheduling".to_owned(), value: Some(value), on_revert: RevertPolicy::Pause }
    }

    /// The existence of an object, which is reverted by deleting the object.
    pub fn existence(exists: bool) -> Self {
        let value = exists.then(|| "present".to_owned());
        Self { field: "existence".to_owned(), value, on_revert: RevertPolicy::Retry }
    }
}

/// What to do when a field is reverted repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RevertPolicy {
    /// Do not write the field for [`WINDOW`]: labels, RuntimeClasses, and the removal of replaced taints.
    Pause,
    /// Continue to write the field, with a back-off of up to [`MAX_BACKOFF`]: taints, which exclude Linux pods, and
    /// objects that nodes and pods depend on.
    Retry,
}

/// The number of reverts within [`WINDOW`] at which a field is in conflict.
const THRESHOLD: usize = 5;
/// The time within which reverts are counted, and for which [`RevertPolicy::Pause`] stops writes.
pub const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// The minimum time between two removals of old fields.
const CLEANING_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// The longest back-off of [`RevertPolicy::Retry`].
pub const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(30);

/// The last value written to each field, and when it was reverted.
#[derive(Clone, Debug, Default)]
pub struct RevertDetector {
    /// By object and field. Snapshots share the maps: a write copies only the map of its object.
    fields: HashMap<ObjectId, Arc<HashMap<String, History>>>,
    /// When old fields were removed.
    cleaned: Timestamp,
}

#[derive(Clone, Debug)]
struct History {
    value: Option<String>,
    written: Timestamp,
    reverts: VecDeque<Timestamp>,
}

impl RevertDetector {
    /// Records writes that succeeded.
    pub fn note(&mut self, object: &ObjectId, writes: &[FieldWrite], now: Timestamp) {
        if writes.is_empty() {
            return;
        }
        let fields = Arc::make_mut(self.fields.entry(object.clone()).or_default());
        for FieldWrite { field, value, .. } in writes {
            match fields.get_mut(field) {
                Some(history) if history.value == *value => history.revert(now),
                _ => {
                    let history = History { value: value.clone(), written: now, reverts: VecDeque::new() };
                    fields.insert(field.clone(), history);
                }
            }
        }
    }

    /// Whether another client repeatedly reverts this write.
    pub fn in_conflict(&self, object: &ObjectId, write: &FieldWrite, now: Timestamp) -> bool {
        self.history(object, write).is_some_and(|history| history.count(now) >= THRESHOLD)
    }

    /// The time until which the write is delayed, if it is.
    pub fn delayed_until(&self, object: &ObjectId, write: &FieldWrite, now: Timestamp) -> Option<Timestamp> {
        let history = self.history(object, write)?;
        let more = history.count(now).checked_sub(THRESHOLD)?;
        let delay = match write.on_revert {
            RevertPolicy::Pause => WINDOW,
            RevertPolicy::Retry => SignedDuration::from_secs(1_i64 << more.min(5)).min(MAX_BACKOFF),
        };
        let until = history.written.saturating_add(delay).ok()?;
        (now < until).then_some(until)
    }

    /// Whether another client repeatedly reverts any field of an object.
    pub fn any_conflict(&self, object: &ObjectId, now: Timestamp) -> bool {
        self.fields.get(object).is_some_and(|fields| fields.values().any(|history| history.count(now) >= THRESHOLD))
    }

    /// Removes fields that were not written within the window, at most once a minute: it checks all of them.
    pub fn forget(&mut self, now: Timestamp) {
        if now.duration_since(self.cleaned) < CLEANING_INTERVAL {
            return;
        }
        self.cleaned = now;
        self.fields.retain(|_, fields| {
            let is_recent = |history: &History| now.duration_since(history.written) < WINDOW;
            if !fields.values().all(is_recent) {
                Arc::make_mut(fields).retain(|_, history| is_recent(history));
            }
            !fields.is_empty()
        });
    }

    fn history(&self, object: &ObjectId, write: &FieldWrite) -> Option<&History> {
        self.fields.get(object)?.get(&write.field).filter(|history| history.value == write.value)
    }
}

impl History {
    /// Counts a revert. Only reverts within the window are kept, and only as many as affect the back-off.
    fn revert(&mut self, now: Timestamp) {
        self.written = now;
        self.reverts.push_back(now);
        self.reverts.retain(|at| now.duration_since(*at) < WINDOW);
        if self.reverts.len() > 2 * THRESHOLD {
            self.reverts.pop_front();
        }
    }

    /// The number of reverts within the window.
    fn count(&self, now: Timestamp) -> usize {
        self.reverts.iter().filter(|at| now.duration_since(**at) < WINDOW).count()
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    fn write(value: &str, on_revert: RevertPolicy) -> FieldWrite {
        FieldWrite { field: "taint os:NoSchedule".into(), value: Some(value.into()), on_revert }
    }

    fn uid(text: &str) -> ObjectId {
        ObjectId::Uid(text.into())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_label_is_not_written_for_ten_minutes_after_five_reverts_within_ten_minutes() {
        let (mut detector, label) = (RevertDetector::default(), write("windows", RevertPolicy::Pause));
        for minute in 0..6 {
            assert_eq!(detector.delayed_until(&uid("uid-1"), &label, at(minute * 60)), None, "minute {minute}");
            detector.note(&uid("uid-1"), slice::from_ref(&label), at(minute * 60));
        }
        assert!(detector.in_conflict(&uid("uid-1"), &label, at(301)));
        assert_eq!(detector.delayed_until(&uid("uid-1"), &label, at(301)), Some(at(900)));
        assert_eq!(detector.delayed_until(&uid("uid-1"), &label, at(900)), None);
    }

    #[test]
    fn a_taint_is_always_retried_with_a_backoff_of_up_to_thirty_seconds() {
        let (mut detector, taint) = (RevertDetector::default(), write("windows", RevertPolicy::Retry));
        let (mut now, mut delays) = (0, Vec::new());
        for _ in 0..14 {
            detector.note(&uid("uid-1"), slice::from_ref(&taint), at(now));
            let until = detector.delayed_until(&uid("uid-1"), &taint, at(now)).unwrap_or(at(now));
            delays.push(until.duration_since(at(now)).as_secs());
            now = until.as_second();
        }
        assert_eq!(delays, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30, 30]);
    }

    #[test]
    fn what_is_too_old_is_forgotten() {
        let mut detector = RevertDetector::default();
        detector.note(&uid("uid-1"), &[write("windows", RevertPolicy::Pause)], at(0));
        detector.forget(at(540));
        assert_eq!(detector.fields.len(), 1);
        detector.forget(at(600));
        assert_eq!(detector.fields.len(), 0);
    }
}
