//! The objects of one kind, by name, in a copy-on-write map.

use std::{
    collections::{BTreeMap, btree_map},
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// Objects by name. A clone shares the map, and a write to a shared map copies it first.
#[derive(Debug)]
pub struct Objects<V>(Arc<BTreeMap<String, Arc<V>>>);

impl<V> Objects<V> {
    /// Whether both share one map.
    pub fn is_shared_with(&self, other: &Self) -> bool {
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
    fn a_write_does_not_change_the_clones() {
        let mut objects: Objects<u32> = [("a".to_owned(), Arc::new(1))].into();
        let before = objects.clone();
        assert!(Arc::ptr_eq(&objects.0, &before.0));
        objects.insert("b".to_owned(), Arc::new(2));
        assert!(!Arc::ptr_eq(&objects.0, &before.0));
        assert_eq!((before.len(), objects.len()), (1, 2));
    }
}
