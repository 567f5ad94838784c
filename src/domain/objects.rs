//! The objects of one kind, by name: a map that is shared until somebody changes it.

use std::{
    collections::{BTreeMap, btree_map},
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// Objects by name. A clone costs the same however many there are; a change to a map that is shared copies it first.
#[derive(Debug)]
pub struct Objects<V>(Arc<BTreeMap<String, Arc<V>>>);

impl<V> Objects<V> {
    /// Whether the other is the same map, and not only an equal one.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<V> Clone for Objects<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Default for Objects<V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<V> Deref for Objects<V> {
    type Target = BTreeMap<String, Arc<V>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<V> DerefMut for Objects<V> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl<V> FromIterator<(String, Arc<V>)> for Objects<V> {
    fn from_iter<I: IntoIterator<Item = (String, Arc<V>)>>(objects: I) -> Self {
        Self(Arc::new(objects.into_iter().collect()))
    }
}

impl<V> From<BTreeMap<String, Arc<V>>> for Objects<V> {
    fn from(objects: BTreeMap<String, Arc<V>>) -> Self {
        Self(Arc::new(objects))
    }
}

impl<V, const N: usize> From<[(String, Arc<V>); N]> for Objects<V> {
    fn from(objects: [(String, Arc<V>); N]) -> Self {
        objects.into_iter().collect()
    }
}

impl<'a, V> IntoIterator for &'a Objects<V> {
    type Item = (&'a String, &'a Arc<V>);
    type IntoIter = btree_map::Iter<'a, String, Arc<V>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_not_seen_by_those_who_share_the_map() {
        let mut objects: Objects<u32> = [("a".to_owned(), Arc::new(1))].into();
        let before = objects.clone();
        assert!(objects.is(&before));
        objects.insert("b".to_owned(), Arc::new(2));
        assert!(!objects.is(&before));
        assert_eq!((before.len(), objects.len()), (1, 2));
    }

    #[test]
    fn a_map_that_nobody_shares_is_changed_in_place() {
        let mut objects: Objects<u32> = [("a".to_owned(), Arc::new(1))].into();
        let place: *const _ = &raw const *objects;
        objects.insert("b".to_owned(), Arc::new(2));
        assert_eq!(place, &raw const *objects);
    }
}
