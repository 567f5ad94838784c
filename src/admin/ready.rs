//! Whether every cache is full.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Which caches there are, and which of them are full. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<&'static str, bool>>>);

/// Says that one cache is full.
#[derive(Clone, Debug)]
pub struct Handle {
    kind: &'static str,
    all: Readiness,
}

impl Handle {
    /// The cache is full. It stays so: a later gap in a watch is filled behind an old copy, which can still be read.
    pub fn ready(&self) {
        self.all.list().insert(self.kind, true);
    }
}

impl Readiness {
    /// Adds a cache that has to be full before the process is ready.
    pub fn register(&self, kind: &'static str) -> Handle {
        self.list().entry(kind).or_insert(false);
        Handle { kind, all: self.clone() }
    }

    /// The caches that are not yet full, by name.
    pub fn missing(&self) -> Vec<&'static str> {
        self.list().iter().filter(|(_, full)| !**full).map(|(kind, _)| *kind).collect()
    }

    /// Whether every cache is full. A process without any has not begun, and is not ready.
    pub fn is_ready(&self) -> bool {
        let list = self.list();
        !list.is_empty() && list.values().all(|full| *full)
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<&'static str, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_every_registered_cache_is_full() {
        let readiness = Readiness::default();
        assert!(!readiness.is_ready(), "nothing is registered yet");
        let (nodes, pools) = (readiness.register("nodes"), readiness.register("windowsnodepools"));
        assert_eq!(readiness.missing(), ["nodes", "windowsnodepools"]);
        pools.ready();
        assert_eq!(readiness.missing(), ["nodes"]);
        assert!(!readiness.is_ready());
        nodes.ready();
        assert!(readiness.is_ready() && readiness.missing().is_empty());
        readiness.register("nodes");
        assert!(readiness.is_ready(), "a cache that is registered again keeps its state");
    }
}
