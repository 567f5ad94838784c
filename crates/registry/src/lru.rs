//! A map that evicts the least recently used entries.

use std::{borrow::Borrow, hash::Hash};

use lru::LruCache;

#[derive(Debug)]
pub(super) struct LruMap<K: Hash + Eq, V> {
    entries: LruCache<K, V>,
    capacity: usize,
}

impl<K: Hash + Eq + Clone, V> LruMap<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        // Unbounded, because a bounded one allocates its capacity at once.
        Self { entries: LruCache::unbounded(), capacity }
    }

    /// The value of a key, which counts as a use.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.get_mut(key)
    }

    /// Sets the value of a key. A full map evicts the least recently used entry that `may_evict` accepts.
    /// Returns the value if no entry may be evicted.
    pub(super) fn insert(&mut self, key: K, value: V, may_evict: impl Fn(&V) -> bool) -> Result<(), V> {
        if self.len() >= self.capacity && !self.entries.contains(&key) {
            let oldest = self.entries.iter().rev().find(|(_, value)| may_evict(value)).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return Err(value) };
            self.entries.pop(&oldest);
        }
        self.entries.put(key, value);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> LruMap<&'static str, u32> {
        let mut map = LruMap::new(2);
        for (key, value) in [("a", 1), ("b", 2)] {
            map.insert(key, value, |_| true).unwrap();
        }
        map
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut map = full();
        assert_eq!(map.get("a"), Some(&mut 1));
        map.insert("c", 3, |_| true).unwrap();
        assert_eq!((map.get("a").copied(), map.get("b").copied(), map.get("c").copied()), (Some(1), None, Some(3)));
    }

    #[test]
    fn a_full_map_without_evictable_entries_rejects_new_keys() {
        let mut map = full();
        assert_eq!(map.insert("c", 3, |_| false), Err(3));
        map.insert("c", 3, |value| *value != 1).unwrap();
        assert!(map.get("a").is_some() && map.get("b").is_none() && map.len() == 2);
        map.insert("a", 5, |_| false).unwrap();
        assert_eq!(map.get("a"), Some(&mut 5), "an existing key needs no eviction");
    }
}
