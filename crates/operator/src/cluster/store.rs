//! The cache of one kind: the views of its objects, by name.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use winpool_core::{Named, Objects};

use super::{View, WrittenVersion};

/// The views of one kind's objects. Clones share them.
#[derive(Debug)]
pub struct Store<V>(Arc<watch::Sender<Contents<V>>>);

/// What the watch has received since the start.
#[derive(Debug)]
enum Contents<V> {
    /// No answer yet.
    Awaited,
    /// The API server refuses the list.
    Refused,
    /// The objects of a complete list, and the changes since.
    Synced(Objects<V>),
}

impl<V> Contents<V> {
    fn synced(&self) -> Option<&Objects<V>> {
        match self {
            Self::Synced(objects) => Some(objects),
            Self::Awaited | Self::Refused => None,
        }
    }
}

impl<V> Clone for Store<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Default for Store<V> {
    /// A store that is not synced.
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Contents::Awaited)))
    }
}

/// An object before and after a change; at least one of the two is `Some`.
#[derive(Debug)]
pub struct ObjectChange<V> {
    /// `None` for a new object.
    pub before: Option<Arc<V>>,
    /// `None` for a deleted object.
    pub after: Option<Arc<V>>,
}

impl<V: View> ObjectChange<V> {
    pub fn name(&self) -> &str {
        self.after.as_deref().or(self.before.as_deref()).map_or("", Named::name)
    }

    pub fn verb(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "added",
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "deleted",
        }
    }

    /// Such as `Node win-1 changed`.
    pub fn description(&self) -> String {
        format!("{} {} {}", V::KIND, self.name(), self.verb())
    }
}

impl<V: View> Store<V> {
    /// One object.
    pub fn get(&self, name: &str) -> Option<Arc<V>> {
        self.0.borrow().synced()?.get(name).cloned()
    }

    /// All objects, by name. The list is shared: the next change copies it if it is still in use (copy-on-write).
    pub fn all(&self) -> Objects<V> {
        self.0.borrow().synced().cloned().unwrap_or_default()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.0.borrow().synced().map_or(0, Objects::len)
    }

    /// Whether there is no object, or the store is not synced.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records that the API server refuses the list. A list that was received before stays.
    pub fn refuse(&self) {
        self.0.send_if_modified(|contents| {
            let is_awaited = matches!(contents, Contents::Awaited);
            if is_awaited {
                *contents = Contents::Refused;
            }
            is_awaited
        });
    }

    /// Whether the API server refused the list, and no list was received since the start.
    pub fn is_refused(&self) -> bool {
        matches!(*self.0.borrow(), Contents::Refused)
    }

    /// Whether the store received a complete list.
    pub fn is_synced(&self) -> bool {
        self.0.borrow().synced().is_some()
    }

    /// Waits for the first complete list.
    pub async fn wait_for_sync(&self) {
        // The channel cannot close: its sender is in `self`.
        let _ = self.0.subscribe().wait_for(|contents| contents.synced().is_some()).await;
    }

    /// Waits for the first complete list, or until the API server refuses it.
    pub async fn wait_for_answer(&self) {
        let _ = self.0.subscribe().wait_for(|contents| !matches!(contents, Contents::Awaited)).await;
    }

    /// Waits for a complete list for which something holds.
    pub async fn wait_until(&self, holds: impl Fn(&Objects<V>) -> bool) {
        let _ = self.0.subscribe().wait_for(|contents| contents.synced().is_some_and(&holds)).await;
    }

    /// Waits until the store has the objects of its kind in these versions, for at most `limit`. Returns whether it has them.
    pub async fn wait_for_versions(&self, written: &[WrittenVersion], limit: Duration) -> bool {
        let mut versions: Vec<_> = written.iter().filter(|written| written.kind == V::KIND).collect();
        let mut receiver = self.0.subscribe();
        let reached = receiver.wait_for(|contents| {
            // Only the last one is checked for each change, because there may be thousands.
            while versions.last().is_some_and(|written| has_version(contents.synced(), written)) {
                versions.pop();
            }
            versions.is_empty()
        });
        tokio::time::timeout(limit, reached).await.is_ok()
    }

    /// Adds or replaces an object; `None` if its view is equivalent to the previous one.
    pub(crate) fn put(&self, view: V) -> Option<ObjectChange<V>> {
        let after = Arc::new(view);
        let mut before = None;
        self.0.send_modify(|contents| match contents {
            Contents::Synced(objects) => before = objects.insert(after.clone()),
            Contents::Awaited | Contents::Refused => {
                *contents = Contents::Synced([after.clone()].into_iter().collect())
            }
        });
        difference(before, Some(after))
    }

    /// Removes an object; `None` if there was none.
    pub(crate) fn remove(&self, name: &str) -> Option<ObjectChange<V>> {
        let mut before = None;
        self.0.send_modify(|contents| {
            if let Contents::Synced(objects) = contents {
                before = objects.remove(name);
            }
        });
        difference(before, None)
    }

    pub(crate) fn replace(&self, list: Vec<V>) -> Vec<ObjectChange<V>> {
        let now: Objects<V> = list.into_iter().collect();
        let before = self.0.send_replace(Contents::Synced(now.clone()));
        let before = before.synced().cloned().unwrap_or_default();
        let listed = now.values().map(|after| (before.get(after.name()).cloned(), Some(after.clone())));
        let deleted = before.values().filter(|object| !now.contains(object.name()));
        let deleted = deleted.map(|object| (Some(object.clone()), None));
        listed.chain(deleted).filter_map(|(before, after)| difference(before, after)).collect()
    }
}

fn difference<V: View>(before: Option<Arc<V>>, after: Option<Arc<V>>) -> Option<ObjectChange<V>> {
    (before != after).then_some(ObjectChange { before, after })
}

fn has_version<V: View>(objects: Option<&Objects<V>>, written: &WrittenVersion) -> bool {
    match (objects.and_then(|objects| objects.get(&written.name)), &written.version) {
        (None, None) => true,
        (Some(object), Some(version)) => object.resource_version().is_none_or(|cached| is_at_least(cached, version)),
        _ => false,
    }
}

/// Whether a cached version is the written one or a later one. Versions of one resource can be compared as numbers
/// (Kubernetes API concepts, "Resource versions"). Versions that are not numbers are not waited for.
fn is_at_least(cached: &str, written: &str) -> bool {
    match (cached.parse::<u128>(), written.parse::<u128>()) {
        (Ok(cached), Ok(written)) => cached >= written,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers_and_others_are_not_waited_for() {
        assert!(is_at_least("10", "9") && is_at_least("9", "9") && !is_at_least("9", "10"));
        assert!(is_at_least("abc", "9") && is_at_least("9", ""));
    }
}
