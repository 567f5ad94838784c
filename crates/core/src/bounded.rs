//! How much of an object is kept. Kubernetes bounds an object as a whole, at about 1.5 MB, but not the number of its labels,
//! tolerations or containers, which take about ten times as much memory as text.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hash, Hasher},
};

use winpool_facts::node_restriction::kubelet_may_set;

/// The most memory of the labels of an object, in bytes: about 100 labels of a pod.
pub const MAX_LABELS: usize = 16 * 1024;
/// The most memory of the labels of a node or a group of machines, which are few, in bytes.
const MAX_NODE_LABELS: usize = 256 * 1024;
/// The memory of a field besides its bytes, about: its place in a list or map, and its allocation.
const FIELD: usize = 24;

/// Adds the memory of a value to what its hash reads.
struct Measure<H> {
    hasher: H,
    weight: usize,
}

impl<H: Hasher> Hasher for Measure<H> {
    fn write(&mut self, bytes: &[u8]) {
        self.weight += bytes.len() + FIELD;
        self.hasher.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.hasher.finish()
    }
}

/// The hash of a value, and its memory in bytes, about.
pub fn measured<T: Hash>(hasher: &impl BuildHasher, value: &T) -> (u64, usize) {
    let mut measure = Measure { hasher: hasher.build_hasher(), weight: size_of::<T>() };
    value.hash(&mut measure);
    (measure.finish(), measure.weight)
}

/// The memory of a value in bytes, about.
pub fn weight<T: Hash>(value: &T) -> usize {
    let mut measure = Measure { hasher: std::hash::DefaultHasher::new(), weight: size_of::<T>() };
    value.hash(&mut measure);
    measure.weight
}

/// The labels of a node or a group of machines, and whether there are more than are kept. Of more than 256 KiB, the first are
/// kept, and those that no kubelet can write: any other it could also remove.
pub fn bounded(mut labels: BTreeMap<String, String>) -> (BTreeMap<String, String>, bool) {
    let oversized = weight(&labels) > MAX_NODE_LABELS;
    if oversized {
        let mut kept = 0;
        labels.retain(|key, value| {
            kept += weight(&(key, value.as_str()));
            kept <= MAX_NODE_LABELS || !kubelet_may_set(key)
        });
    }
    (labels, oversized)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(count: usize, others: &[&str]) -> BTreeMap<String, String> {
        let many = (0..count).map(|number| (format!("l{number:05}"), "v".to_owned()));
        many.chain(others.iter().map(|key| ((*key).to_owned(), "v".to_owned()))).collect()
    }

    #[test]
    fn a_label_weighs_about_what_it_takes() {
        let each = (weight(&labels(2000, &[])) - weight(&labels(1000, &[]))) / 1000;
        // A key and a value in a node of the map, and two allocations.
        assert!((80..=130).contains(&each), "{each}");
    }

    #[test]
    fn labels_beyond_the_bound_are_dropped_but_those_that_no_kubelet_can_write() {
        let restricted = ["node-restriction.kubernetes.io/pool", "z.node-restriction.kubernetes.io/a"];
        let others = ["znode-restriction.kubernetes.io/a", "z.example.com/node-restriction.kubernetes.io"];
        let usual = labels(1000, &restricted);
        assert_eq!(bounded(usual.clone()), (usual, false));
        let (kept, oversized) = bounded(labels(60_000, &[restricted, others].concat()));
        assert!(oversized && kept.len() < 4000 && kept.contains_key("l00000"), "{}", kept.len());
        assert!(restricted.iter().all(|key| kept.contains_key(*key)));
        assert!(others.iter().all(|key| !kept.contains_key(*key)));
    }
}
