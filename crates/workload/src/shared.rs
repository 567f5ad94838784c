//! What several pods have in common, each value stored once and only as long as a pod has it, within bounds.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{Hash, RandomState},
    sync::{Arc, Weak},
};

use winpool_core::bounded::{MAX_LABELS, measured};

use super::{Template, WorkloadName};

/// The most memory of the template of a pod, in bytes: about 300 tolerations or 200 containers.
const MAX_TEMPLATE: usize = 64 * 1024;
/// The most memory of the name of a workload, in bytes.
const MAX_WORKLOAD: usize = 1024;
/// The most memory of all templates, of all labels, and of all names of workloads, in bytes each.
const MAX_TOTAL: usize = 32 * 1024 * 1024;
/// After how many new values unused ones are removed, at least.
const MIN_NEW: usize = 64;

/// What several pods, or objects that create pods, have in common.
#[derive(Debug, Default)]
pub struct Shared {
    templates: Interned<Template>,
    workloads: Interned<WorkloadName>,
    labels: Interned<BTreeMap<String, String>>,
}

impl Shared {
    /// The template, which is only an excerpt if it exceeds a bound.
    pub(super) fn template(&mut self, template: Template) -> Arc<Template> {
        match self.templates.get(template, MAX_TEMPLATE) {
            Ok(shared) => shared,
            Err(oversized) => stored(self.templates.get(oversized.excerpt(), MAX_TEMPLATE)),
        }
    }

    /// The labels; `None` if they exceed a bound.
    pub(super) fn labels(&mut self, labels: BTreeMap<String, String>) -> Option<Arc<BTreeMap<String, String>>> {
        self.labels.get(labels, MAX_LABELS).ok()
    }

    /// The name of a workload, which must not be longer than a pod can have names.
    pub(super) fn workload(&mut self, workload: WorkloadName) -> Arc<WorkloadName> {
        stored(self.workloads.get(workload, MAX_WORKLOAD))
    }
}

/// The shared value, or one of its own.
fn stored<T>(value: Result<Arc<T>, T>) -> Arc<T> {
    match value {
        Ok(shared) => shared,
        Err(own) => Arc::new(own),
    }
}

/// Values that are stored once, by their hash. Of two values with the same hash, only the last is shared.
#[derive(Debug)]
struct Interned<T> {
    values: HashMap<u64, (Weak<T>, usize)>,
    hasher: RandomState,
    /// The memory of the values that were in use when unused ones were last removed, and of those that were added since.
    weight: usize,
    /// How many values were not found since then.
    new: usize,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { values: HashMap::new(), hasher: RandomState::new(), weight: 0, new: 0 }
    }
}

impl<T: Hash + Eq> Interned<T> {
    /// The equal value. If there is none, the value is inserted; it is returned as an error if it exceeds a bound, or all
    /// values together do.
    fn get(&mut self, value: T, bound: usize) -> Result<Arc<T>, T> {
        let (hash, weight) = measured(&self.hasher, &value);
        let equal = self.values.get(&hash).and_then(|(value, _)| value.upgrade());
        if let Some(equal) = equal.filter(|equal| **equal == value) {
            return Ok(equal);
        }
        if weight > bound {
            return Err(value);
        }
        self.new += 1;
        let exceeds = |all: &Self| all.weight + weight > MAX_TOTAL;
        let removed_after = if exceeds(self) { MIN_NEW } else { MIN_NEW.max(self.values.len() / 4) };
        if self.new >= removed_after {
            self.remove_unused();
        }
        if exceeds(self) {
            return Err(value);
        }
        let value = Arc::new(value);
        self.weight += weight;
        self.values.insert(hash, (Arc::downgrade(&value), weight));
        Ok(value)
    }

    /// Removes the places of unused values. What they allocated is freed already, with their last use.
    fn remove_unused(&mut self) {
        self.values.retain(|_, (value, _)| value.strong_count() > 0);
        self.weight = self.values.values().map(|(_, weight)| weight).sum();
        self.new = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: usize, length: usize) -> String {
        format!("{number:length$}")
    }

    #[test]
    fn equal_values_are_stored_once_and_a_value_is_dropped_with_its_last_use() {
        let mut texts = Interned::default();
        let used: Vec<_> = (0..10).map(|number| texts.get(text(number, 8), 1024).unwrap()).collect();
        let unused = Arc::downgrade(&texts.get(text(10, 8), 1024).unwrap());
        assert_eq!(unused.strong_count(), 0);
        for number in 10..100_000 {
            texts.get(text(number, 8), 1024).unwrap();
            assert!(texts.values.len() <= 100 && texts.weight < 100 * 256, "{} {}", texts.values.len(), texts.weight);
        }
        for value in &used {
            assert!(Arc::ptr_eq(value, &texts.get(value.as_str().to_owned(), 1024).unwrap()));
        }
    }

    #[test]
    fn a_value_over_the_bound_is_not_stored() {
        let mut texts = Interned::default();
        let long = text(1, 1024);
        assert_eq!(texts.get(long.clone(), 1024), Err(long));
        assert!(texts.values.is_empty());
    }

    #[test]
    fn all_values_together_are_bounded_and_room_is_found_again_when_some_are_dropped() {
        let mut texts = Interned::default();
        let length = MAX_TEMPLATE - 1024;
        let get = |texts: &mut Interned<String>, number| texts.get(text(number, length), MAX_TEMPLATE);
        let mut used: Vec<_> =
            (0..MAX_TOTAL / length + 100).filter_map(|number| get(&mut texts, number).ok()).collect();
        let bytes = used.iter().map(|text| text.len()).sum::<usize>();
        assert!((MAX_TOTAL * 9 / 10..=MAX_TOTAL).contains(&bytes), "{bytes}");
        used.truncate(used.len() / 2);
        let later = (10_000..10_000 + MIN_NEW).filter_map(|number| get(&mut texts, number).ok()).count();
        assert!(later > 0, "after at most {MIN_NEW} values");
    }
}
