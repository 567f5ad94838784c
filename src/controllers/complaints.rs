//! What goes wrong is said once, not with every retry and not for every node.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::domain::{
    conditions::some_of,
    operation::{Done, Outcome, Shortfall},
};

/// How long the same reason is not said again.
const AGAIN: Duration = Duration::from_secs(600);

/// Something that went wrong in a pass, the same for one object or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What went wrong, without the objects.
    pub reason: String,
    /// For a person, with the objects.
    pub line: String,
    /// What a person can do.
    pub remedy: &'static str,
}

/// What was said about which object, and when. Clones share it.
#[derive(Clone, Default)]
pub struct Complaints(Arc<Mutex<HashMap<String, BTreeMap<String, Instant>>>>);

/// What has to be said after a pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// What was not said of the object in the last ten minutes.
    pub complaints: Vec<Complaint>,
    /// Whether nothing is wrong any more.
    pub over: bool,
}

impl Complaints {
    /// Takes in what is wrong after a pass over an object.
    pub fn news(&self, object: &str, complaints: Vec<Complaint>) -> News {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other, said| other == object || said.values().any(|at| at.elapsed() < AGAIN));
        if complaints.is_empty() {
            return News { complaints, over: all.remove(object).is_some() };
        }
        let said = all.entry(object.to_owned()).or_default();
        said.retain(|_, at| at.elapsed() < AGAIN);
        let unsaid = |complaint: &Complaint| match said.entry(in_order(&complaint.reason)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(Instant::now());
                true
            }
        };
        News { complaints: complaints.into_iter().filter(unsaid).collect(), over: false }
    }
}

/// The words of a reason, sorted: API servers list the mistakes in an object in any order.
fn in_order(reason: &str) -> String {
    let mut words: Vec<&str> = reason.split(|c: char| c.is_whitespace() || "[],:".contains(c)).collect();
    words.sort_unstable();
    words.join(" ")
}

const RETRIED: &str =
    "it is tried again; if it is refused, look at config/rbac, the installed CRDs and admission policies";
const TAINTS: &str = "let the admission policy or webhook that refuses it allow the operator's taints";

/// What went wrong in a pass over the object of this name: one complaint for each reason.
pub fn complaints(name: &str, done: &Done, status: Option<&Outcome>) -> Vec<Complaint> {
    let mut objects = BTreeMap::<(String, &'static str), Vec<&str>>::new();
    for (operation, outcome) in &done.results {
        let (reason, remedy) = match outcome {
            Outcome::Refused(text) | Outcome::Failed(text) => (format!("{}: {text}", operation.kind()), RETRIED),
            Outcome::Partly { why: Shortfall::Refused(text), .. } => {
                (format!("the taints are refused: {text}"), TAINTS)
            }
            Outcome::Done | Outcome::Partly { .. } | Outcome::Conflict | Outcome::Gone => continue,
        };
        objects.entry((reason, remedy)).or_default().push(operation.object());
    }
    let status = match status {
        Some(Outcome::Refused(text) | Outcome::Failed(text)) => Some((format!("write-status: {text}"), RETRIED)),
        _ => None,
    };
    objects.extend(status.map(|reason| (reason, vec![name])));
    let complaint = |((reason, remedy), objects): ((String, _), Vec<_>)| {
        let line = format!("{}: {reason}", some_of(objects));
        Complaint { reason, line, remedy }
    };
    objects.into_iter().map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::operation::{Operation, Parts};

    fn deletion(name: &str, outcome: Outcome) -> (Operation, Outcome) {
        (Operation::DeleteConfigMap { name: name.into(), uid: "u".into() }, outcome)
    }

    fn failed(text: &str) -> Outcome {
        Outcome::Failed(text.into())
    }

    #[test]
    fn what_is_wrong_with_many_is_one_line_that_names_the_first_five() {
        let mut results: Vec<_> = (1..=9).map(|number| deletion(&format!("web-{number}"), failed("refused"))).collect();
        results.push(deletion("web-10", failed("timed out")));
        results.push(deletion("web-11", Outcome::Done));
        let refused = Outcome::Partly { written: Parts::ALL, why: Shortfall::Refused("denied".into()) };
        results.push(deletion("web-12", refused));
        let done = Done { results, complete: false };
        let lines = |status| complaints("web", &done, status).into_iter().map(|one| one.line).collect::<Vec<_>>();
        let of_nodes = [
            "web-1, web-2, web-3, web-4, web-5 and 4 more: delete-config-map: refused",
            "web-10: delete-config-map: timed out",
            "web-12: the taints are refused: denied",
        ];
        assert_eq!(lines(None), of_nodes);
        assert_eq!(lines(Some(&Outcome::Done)), of_nodes);
        assert_eq!(lines(Some(&failed("refused"))), [&of_nodes[..], &["web: write-status: refused"]].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reason_is_said_once_until_a_pass_gets_through_or_ten_minutes_are_over() {
        let wrong = |reasons: &[&str]| {
            let complaint =
                |reason: &&str| Complaint { reason: (*reason).into(), line: (*reason).into(), remedy: RETRIED };
            reasons.iter().map(complaint).collect::<Vec<_>>()
        };
        let complaints = Complaints::default();
        for (wait, now, said, over) in [
            (0, &[][..], &[][..], false),
            (0, &["a"], &["a"], false),
            (1, &["a", "b: [c, d]"], &["b: [c, d]"], false),
            (1, &["b: [d, c]"], &[], false),
            (1, &["a"], &[], false),
            (600, &["a"], &["a"], false),
            (1, &[], &[], true),
            (1, &[], &[], false),
            (1, &["a"], &["a"], false),
        ] {
            tokio::time::advance(Duration::from_secs(wait)).await;
            let news = complaints.news("WindowsNodePool web", wrong(now));
            assert_eq!(news, News { complaints: wrong(said), over }, "{now:?}");
            assert_eq!(complaints.news("WindowsNodePool batch", wrong(now)).complaints.len(), said.len());
        }
    }
}
