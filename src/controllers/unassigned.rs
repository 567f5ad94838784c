//! A pass over the nodes that are in no pool: nothing guards them, so somebody should know.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
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

/// The nodes that were told of already, by uid.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<BTreeSet<String>>>);

/// Counts the nodes that are in no pool, and says so once on each.
pub async fn pass(shell: Shell, told: Told) -> Ended {
    let notes = unassigned(&shell.gather());
    shell.metrics.unassigned(notes.len());
    shell.events.publish(&told.news(notes)).await;
    Ended { next: Next::Wait, result: Outcome::Unchanged }
}

impl Told {
    /// The notes that were not told yet. A node that found a pool and lost it again is news again.
    fn news(&self, notes: Vec<Note>) -> Vec<Note> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *told);
        notes
            .into_iter()
            .filter(|note| {
                let uid = note.about.uid();
                told.insert(uid.to_owned());
                !before.contains(uid)
            })
            .collect()
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
        assert_eq!(told.news(vec![alone("a")]).len(), 1);
        assert_eq!(told.news(vec![alone("a"), alone("b")]), [alone("b")]);
        assert_eq!(told.news(vec![alone("b")]), []);
        assert_eq!(told.news(vec![alone("a"), alone("b")]), [alone("a")], "it was in a pool in between");
    }
}
