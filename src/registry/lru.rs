//! A map of bounded size, which evicts the least recently used entries.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

/// A map of bounded size.
#[derive(Debug)]
pub(super) struct LruMap<K, V> {
    entries: HashMap<K, Entry<V>>,
    capacity: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    last_used: u64,
}

impl<K: Hash + Eq + Clone, V> LruMap<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), capacity, clock: 0 }
    }

    /// The value of a key, which counts as a use.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.last_used = self.clock;
        Some(&mut entry.value)
    }

    /// Sets the value of a key. A full map evicts the least recently used entry that `may_evict` accepts.
    ///
    /// # Errors
    /// The value, if the map is full and no entry may be evicted.
    pub(super) fn insert(&mut self, key: K, value: V, may_evict: impl Fn(&V) -> bool) -> Result<(), V> {
        if self.entries.len() >= self.capacity && !self.entries.contains_key(&key) {
            let evictable = self.entries.iter().filter(|(_, entry)| may_evict(&entry.value));
            match evictable.min_by_key(|(_, entry)| entry.last_used).map(|(key, _)| key.clone()) {
                Some(oldest) => drop(self.entries.remove(&oldest)),
                None => return Err(value),
            }
        }
        self.clock += 1;
        self.entries.insert(key, Entry { value, last_used: self.clock });
        Ok(())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
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
