//! A map that never holds more than it may: what was not used for the longest time makes room.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

/// A map of bounded size.
#[derive(Debug)]
pub(super) struct Bounded<K, V> {
    entries: HashMap<K, Used<V>>,
    most: usize,
    clock: u64,
}

#[derive(Debug)]
struct Used<V> {
    value: V,
    at: u64,
}

impl<K: Hash + Eq + Clone, V> Bounded<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { entries: HashMap::new(), most, clock: 0 }
    }

    /// The value of a key, which counts as a use of it.
    pub(super) fn get<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.clock += 1;
        let used = self.entries.get_mut(key)?;
        used.at = self.clock;
        Some(&mut used.value)
    }

    /// Sets the value of a key. If there is no room, the least used of those that `may_go` makes it.
    ///
    /// # Errors
    /// The value, if there is no room.
    pub(super) fn insert(&mut self, key: K, value: V, may_go: impl Fn(&V) -> bool) -> Result<(), V> {
        if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
            let idle = self.entries.iter().filter(|(_, used)| may_go(&used.value));
            match idle.min_by_key(|(_, used)| used.at).map(|(key, _)| key.clone()) {
                Some(oldest) => drop(self.entries.remove(&oldest)),
                None => return Err(value),
            }
        }
        self.clock += 1;
        self.entries.insert(key, Used { value, at: self.clock });
        Ok(())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|used| &used.value)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_the_longest_time_makes_room() {
        let mut map = Bounded::new(2);
        for (key, value) in [("a", 1), ("b", 2)] {
            map.insert(key, value, |_| true).unwrap();
        }
        assert_eq!(map.get("a"), Some(&mut 1));
        map.insert("c", 3, |_| true).unwrap();
        assert_eq!((map.get("a").copied(), map.get("b").copied(), map.get("c").copied()), (Some(1), None, Some(3)));
    }

    #[test]
    fn what_may_not_go_stays_and_a_full_map_takes_nothing_more() {
        let mut map = Bounded::new(2);
        for (key, value) in [("a", 1), ("b", 2)] {
            map.insert(key, value, |_| true).unwrap();
        }
        assert_eq!(map.insert("c", 3, |_| false), Err(3));
        map.insert("c", 3, |value| *value != 1).unwrap();
        assert!(map.get("a").is_some() && map.get("b").is_none() && map.len() == 2);
        // A value for a key that is there needs no room.
        map.insert("a", 5, |_| false).unwrap();
        assert_eq!(map.get("a"), Some(&mut 5));
    }
}
