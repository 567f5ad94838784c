//! A pass over the nodes that are in no pool: nothing guards them, so somebody should know.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    queue::Next,
    shell::{Ended, Shell},
};
use crate::{
    admin::Outcome,
    domain::{note::Note, pool::assignment::unassigned},
};

/// There is one such pass, over all nodes.
pub const KEY: &str = "nodes";

/// How soon the events that were lost are published again.
const AGAIN: Duration = Duration::from_secs(15);

/// The nodes of which an event was published, by uid.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<BTreeSet<String>>>);

/// Counts the nodes that are in no pool, and says so once on each.
pub async fn pass(shell: Shell, told: Told) -> Ended {
    let notes = unassigned(&shell.gather());
    shell.metrics.unassigned(notes.len());
    let news = told.news(notes);
    let published = shell.events.publish(&news).await;
    let lost = told.note(&news, &published);
    Ended { next: if lost { Next::After(AGAIN) } else { Next::Wait }, result: Outcome::Unchanged }
}

impl Told {
    /// The notes that were not published yet. A node that found a pool and lost it again is news again.
    fn news(&self, notes: Vec<Note>) -> Vec<Note> {
        let mut told = self.told();
        let before = std::mem::take(&mut *told);
        let (known, news): (Vec<_>, _) = notes.into_iter().partition(|note| before.contains(note.about.uid()));
        told.extend(known.into_iter().map(|note| note.about.uid().to_owned()));
        news
    }

    /// Notes what was published. Returns whether something was not.
    fn note(&self, news: &[Note], published: &[bool]) -> bool {
        let done = news.iter().zip(published).filter(|(_, published)| **published);
        self.told().extend(done.map(|(note, _)| note.about.uid().to_owned()));
        published.contains(&false)
    }

    fn told(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::note::About;

    fn alone(uid: &str) -> Note {
        Note {
            about: About::Node { name: "win-1".into(), uid: uid.into() },
            warning: true,
            reason: "NoPool".into(),
            action: "Assign",
            message: String::new(),
        }
    }

    #[test]
    fn a_node_without_a_pool_is_told_once_until_it_has_one() {
        let told = Told::default();
        let news = |notes: &[&str]| {
            let news = told.news(notes.iter().map(|uid| alone(uid)).collect());
            assert!(!told.note(&news, &vec![true; news.len()]));
            news
        };
        assert_eq!(news(&["a"]), [alone("a")]);
        assert_eq!(news(&["a", "b"]), [alone("b")]);
        assert_eq!(news(&["b"]), []);
        assert_eq!(news(&["a", "b"]), [alone("a")], "it was in a pool in between");
    }

    #[test]
    fn an_event_that_was_lost_is_published_again() {
        let told = Told::default();
        let notes = || vec![alone("a"), alone("b"), alone("c")];
        assert!(told.note(&told.news(notes()), &[true, false, true]));
        assert_eq!(told.news(notes()), [alone("b")]);
        assert!(!told.note(&[alone("b")], &[true]));
        assert_eq!(told.news(notes()), []);
    }
}
