//! Conditions: from this pass' verdicts to the stored form.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::names::condition::READY;

/// How many objects a message names.
const NAMED: usize = 5;

/// Whether something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It is.
    True,
    /// It is not.
    False,
    /// Nobody can say.
    Unknown,
}

impl Truth {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(is_so: bool) -> Self {
        if is_so { Self::True } else { Self::False }
    }
}

/// What this pass says of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The type of the condition.
    pub condition: &'static str,
    /// Whether it holds.
    pub status: Truth,
    /// The stable reason.
    pub reason: &'static str,
    /// The story, and the remedy where one is needed.
    pub message: String,
    /// How many nodes or objects it is about; 0 where no count makes sense.
    pub count: usize,
}

impl Verdict {
    /// A verdict that is about no particular number of objects.
    pub fn new(
        condition: &'static str,
        status: impl Into<Truth>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { condition, status: status.into(), reason, message: message.into(), count: 0 }
    }

    /// The same about so many objects.
    pub fn about(self, count: usize) -> Self {
        Self { count, ..self }
    }
}

/// Turns verdicts into the stored form. A condition keeps its transition time while its status is the same; `Ready`
/// comes first, the others by type.
pub fn settle(previous: &[Condition], verdicts: &[Verdict], generation: i64, now: Timestamp) -> Vec<Condition> {
    let mut settled: Vec<Condition> = verdicts
        .iter()
        .map(|verdict| {
            let before = previous.iter().find(|condition| condition.type_ == verdict.condition);
            let since = before.filter(|before| before.status == verdict.status.as_str());
            Condition {
                type_: verdict.condition.to_owned(),
                status: verdict.status.as_str().to_owned(),
                reason: verdict.reason.to_owned(),
                message: verdict.message.clone(),
                observed_generation: Some(generation),
                last_transition_time: since
                    .map_or_else(|| Time(whole_second(now)), |before| before.last_transition_time.clone()),
            }
        })
        .collect();
    settled.sort_by(|a, b| (a.type_ != READY, &a.type_).cmp(&(b.type_ != READY, &b.type_)));
    settled
}

/// Kubernetes stores times to the second.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// A number of things that make their plural with an s.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// At most five names, and how many more there are.
pub fn some_of<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> String {
    first_five(all, ", ")
}

/// At most five stories, which may have commas of their own, and how many more there are.
pub fn some_stories<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> String {
    first_five(all, "; ")
}

fn first_five<T: AsRef<str>>(all: impl IntoIterator<Item = T>, separator: &str) -> String {
    let all: Vec<T> = all.into_iter().collect();
    let told: Vec<&str> = all.iter().take(NAMED).map(AsRef::as_ref).collect();
    match all.len().saturating_sub(NAMED) {
        0 => told.join(separator),
        more => format!("{} and {more} more", told.join(separator)),
    }
}

/// At most five of very many, of which only these are put into words, and how many more there are.
pub fn some_of_many<T>(all: &[T], words: impl Fn(&T) -> String) -> String {
    let told = all.iter().take(NAMED).map(words).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// Different texts, each once, in order of first appearance.
pub fn distinct(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    texts.into_iter().filter(|text| seen.insert(text.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: bool, message: &str) -> Verdict {
        Verdict::new(READY, status, "Because", message)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_transition_time_moves_only_with_the_status() {
        let first = settle(&[], &[ready(true, "one")], 1, at(10));
        let same = settle(&first, &[ready(true, "two")], 2, at(20));
        let changed = settle(&same, &[ready(false, "three")], 2, at(30));
        assert_eq!(same[0].last_transition_time.0, at(10));
        assert_eq!((same[0].message.as_str(), same[0].observed_generation), ("two", Some(2)));
        assert_eq!(changed[0].last_transition_time.0, at(30));
    }

    #[test]
    fn ready_comes_first() {
        let verdicts = [Verdict::new("A", true, "R", ""), ready(true, ""), Verdict::new("B", Truth::Unknown, "R", "")];
        let types: Vec<_> = settle(&[], &verdicts, 1, at(0)).into_iter().map(|condition| condition.type_).collect();
        assert_eq!(types, [READY, "A", "B"]);
    }

    #[test]
    fn a_message_names_at_most_five() {
        assert_eq!(some_of(["a", "b"]), "a, b");
        assert_eq!(some_of(["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
        assert_eq!(some_stories(["a: b, c", "d: e"]), "a: b, c; d: e");
        assert_eq!(some_of_many(&[1, 2, 3, 4, 5, 6], u32::to_string), "1, 2, 3, 4, 5 and 1 more");
    }
}
