//! What is known of one kind: the views of its objects, by name.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::View;
use crate::domain::Objects;

/// The views of one kind's objects. Clones share them.
#[derive(Debug)]
pub struct Store<V>(Arc<watch::Sender<Option<Objects<V>>>>);

impl<V> Clone for Store<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Default for Store<V> {
    /// A store that waits for its first full list.
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

/// An object as it was and as it is: at least one of the two is there.
#[derive(Debug)]
pub struct Change<V> {
    /// What was known of it; `None` for an object that is new.
    pub before: Option<Arc<V>>,
    /// What is known now; `None` for an object that is gone.
    pub after: Option<Arc<V>>,
}

impl<V: View> Change<V> {
    /// The object's name.
    pub fn name(&self) -> &str {
        self.after.as_deref().or(self.before.as_deref()).map_or("", View::name)
    }

    /// What happened, in a word.
    pub fn verb(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "appeared",
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "vanished",
        }
    }

    /// What happened, in words.
    pub fn words(&self) -> String {
        format!("{} {} {}", V::KIND, self.name(), self.verb())
    }
}

impl<V: View> Store<V> {
    /// One object.
    pub fn get(&self, name: &str) -> Option<Arc<V>> {
        self.0.borrow().as_ref()?.get(name).cloned()
    }

    /// All objects, by name: the map of the store itself, which the next change copies if it is still in use then.
    pub fn all(&self) -> Objects<V> {
        self.0.borrow().clone().unwrap_or_default()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.borrow().as_ref().map_or(0, |objects| objects.len())
    }

    /// Whether there is no object, or no list of them yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first full list is there.
    pub fn is_full(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits for the first full list.
    pub async fn full(&self) {
        // The channel cannot close: its sender is in `self`.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }

    /// Waits until the store shows writes that were answered with these versions (`None`: a deletion), at most for the
    /// limit. Returns whether it does.
    pub async fn shows(&self, mut writes: Vec<(&str, Option<&str>)>, limit: Duration) -> bool {
        let mut receiver = self.0.subscribe();
        let shown = receiver.wait_for(|objects| {
            // Looking at the last one alone keeps a change cheap while thousands are waited for.
            while writes.last().is_some_and(|(name, version)| shows(objects.as_ref(), name, *version)) {
                writes.pop();
            }
            writes.is_empty()
        });
        tokio::time::timeout(limit, shown).await.is_ok()
    }

    /// Takes in an object; `None` when it says nothing new.
    pub(crate) fn put(&self, view: V) -> Option<Change<V>> {
        let after = Arc::new(view);
        let mut before = None;
        self.0.send_modify(|objects| {
            before = objects.get_or_insert_default().insert(after.name().to_owned(), after.clone());
        });
        difference(before, Some(after))
    }

    /// Forgets an object; `None` when it was not known.
    pub(crate) fn remove(&self, name: &str) -> Option<Change<V>> {
        let mut before = None;
        self.0.send_modify(|objects| before = objects.as_mut().and_then(|objects| objects.remove(name)));
        difference(before, None)
    }

    /// Takes in a full list: what is not in it is gone.
    pub(crate) fn replace(&self, list: Vec<V>) -> Vec<Change<V>> {
        let now: Objects<V> = list.into_iter().map(|view| (view.name().to_owned(), Arc::new(view))).collect();
        let before = self.0.send_replace(Some(now.clone())).unwrap_or_default();
        let known = now.iter().filter_map(|(name, after)| difference(before.get(name).cloned(), Some(after.clone())));
        let gone = before.iter().filter(|(name, _)| !now.contains_key(*name));
        known.chain(gone.filter_map(|(_, gone)| difference(Some(gone.clone()), None))).collect()
    }
}

fn difference<V: View>(before: Option<Arc<V>>, after: Option<Arc<V>>) -> Option<Change<V>> {
    let same = match (&before, &after) {
        (Some(before), Some(after)) => before.says_the_same_as(after),
        (before, after) => before.is_none() && after.is_none(),
    };
    (!same).then_some(Change { before, after })
}

fn shows<V: View>(objects: Option<&Objects<V>>, name: &str, version: Option<&str>) -> bool {
    match (objects.and_then(|objects| objects.get(name)), version) {
        (None, None) => true,
        (Some(known), Some(version)) => known.resource_version().is_none_or(|known| reached(known, version)),
        _ => false,
    }
}

/// Whether a known version is the wanted one or a later one. Versions of one resource can be compared as numbers
/// (Kubernetes API concepts, "Resource versions"); what is not a number is not waited for.
fn reached(known: &str, wanted: &str) -> bool {
    match (known.parse::<u128>(), wanted.parse::<u128>()) {
        (Ok(known), Ok(wanted)) => known >= wanted,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers_and_others_are_not_waited_for() {
        assert!(reached("10", "9") && reached("9", "9") && !reached("9", "10"));
        assert!(reached("abc", "9") && reached("9", ""));
    }
}
