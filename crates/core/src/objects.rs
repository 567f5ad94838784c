//! The objects of one kind, ordered by name, in a copy-on-write list.

use std::{ops::Deref, slice, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// `namespace/name` of an object.
pub fn object_key(metadata: &ObjectMeta) -> String {
    format!("{}/{}", metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// A value that does not count when objects are compared, because a change of it alone changes nothing for the rules: objects
/// are equal if they do not differ in anything else.
#[derive(Clone, Debug, Default)]
pub struct Uncompared<T>(pub T);

/// The `resourceVersion` of an object, for optimistic locking.
pub type ResourceVersion = Uncompared<String>;

impl From<Option<String>> for ResourceVersion {
    fn from(version: Option<String>) -> Self {
        Self(version.unwrap_or_default())
    }
}

impl<T> Deref for Uncompared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> PartialEq for Uncompared<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// An object with a name that is unique among the objects of its kind.
pub trait Named {
    /// The name, or `namespace/name`.
    fn name(&self) -> &str;
}

/// Types with the field that is their name.
#[macro_export]
macro_rules! named {
    ($($type:ty: $($field:tt).+),*) => {
        $(impl $crate::Named for $type {
            #[allow(clippy::misnamed_getters)] // a field `name` beside `key` has no namespace, and is not unique
            fn name(&self) -> &str {
                &self.$($field).+
            }
        })*
    };
}

/// Objects by name. A clone shares the list, and a write to a shared list copies it first: only pointers, because one change
/// of thousands of objects must not allocate for each of them.
#[derive(Debug)]
pub struct Objects<V>(Arc<Vec<Arc<V>>>);

impl<V> Objects<V> {
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub fn values(&self) -> slice::Iter<'_, Arc<V>> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: Named> Objects<V> {
    pub fn get(&self, name: &str) -> Option<&Arc<V>> {
        self.position(name).ok().map(|position| &self.0[position])
    }

    pub fn contains(&self, name: &str) -> bool {
        self.position(name).is_ok()
    }

    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.values().map(|object| object.name())
    }

    /// Adds or replaces an object. Returns the previous one.
    pub fn insert(&mut self, object: impl Into<Arc<V>>) -> Option<Arc<V>> {
        let object = object.into();
        let position = self.position(object.name());
        let objects = Arc::make_mut(&mut self.0);
        match position {
            Ok(position) => Some(std::mem::replace(&mut objects[position], object)),
            Err(position) => {
                objects.insert(position, object);
                None
            }
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Arc<V>> {
        self.position(name).ok().map(|position| Arc::make_mut(&mut self.0).remove(position))
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|object| object.name().cmp(name))
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

impl<V: Named> FromIterator<Arc<V>> for Objects<V> {
    /// Of several objects with the same name, the last.
    fn from_iter<I: IntoIterator<Item = Arc<V>>>(objects: I) -> Self {
        let mut objects: Vec<_> = objects.into_iter().collect();
        objects.reverse();
        objects.sort_by(|a, b| a.name().cmp(b.name()));
        objects.dedup_by(|duplicate, kept| duplicate.name() == kept.name());
        Self(Arc::new(objects))
    }
}

impl<V: Named> FromIterator<V> for Objects<V> {
    fn from_iter<I: IntoIterator<Item = V>>(objects: I) -> Self {
        objects.into_iter().map(Arc::new).collect()
    }
}

impl<'a, V> IntoIterator for &'a Objects<V> {
    type Item = &'a Arc<V>;
    type IntoIter = slice::Iter<'a, Arc<V>>;

    fn into_iter(self) -> Self::IntoIter {
        self.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Named for (&str, u32) {
        fn name(&self) -> &str {
            self.0
        }
    }

    #[test]
    fn objects_are_ordered_by_name_and_the_last_of_equal_names_counts() {
        let mut objects: Objects<(&str, u32)> = [("c", 1), ("a", 1), ("c", 2)].into_iter().collect();
        assert_eq!(objects.insert(("b", 1)), None);
        assert_eq!(objects.insert(("a", 2)).map(|former| former.1), Some(1));
        assert_eq!(objects.values().map(|object| **object).collect::<Vec<_>>(), [("a", 2), ("b", 1), ("c", 2)]);
        assert_eq!(objects.remove("b").map(|removed| removed.1), Some(1));
        assert_eq!((objects.remove("b"), objects.contains("b"), objects.len()), (None, false, 2));
        assert_eq!(objects.names().collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn a_write_does_not_change_the_clones() {
        let mut objects: Objects<(&str, u32)> = [("a", 1)].into_iter().collect();
        let before = objects.clone();
        assert!(objects.is_shared_with(&before));
        objects.insert(("b", 2));
        assert!(!objects.is_shared_with(&before));
        assert_eq!((before.len(), objects.len()), (1, 2));
    }
}
