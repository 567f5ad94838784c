//! What changed of workloads since it was last looked at: one entry for each object, however often it changes, and nothing
//! while nobody looks.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    cluster::{ControllerView, SandboxEvent, View},
    domain::{
        image::Said,
        workload::{Controller, MemoryDefaults, Pod, WorkloadName},
    },
};

/// The changes that wait to be taken. Clones share them.
#[derive(Clone, Default)]
pub struct Changes(Arc<Shared>);

#[derive(Default)]
struct Shared {
    pending: Mutex<Pending>,
    recorded: Notify,
}

/// What waits.
#[derive(Default)]
struct Pending {
    /// Whether somebody takes the changes. Until then none is kept.
    taken: bool,
    changed: Changed,
}

/// What changed: the state that each object has now, `None` where it is gone.
#[derive(Default)]
pub struct Changed {
    /// Pods, by key.
    pub pods: HashMap<Arc<str>, Option<Arc<Pod>>>,
    /// Objects that make pods.
    pub controllers: HashMap<Arc<WorkloadName>, Option<Arc<Controller>>>,
    /// LimitRanges, by namespace and key.
    pub defaults: HashMap<(String, String), Option<Arc<MemoryDefaults>>>,
    /// What events report of sandboxes, by the key of the pod and the name of the event.
    pub sandboxes: HashMap<(String, String), Option<Said>>,
    /// Whether pools, nodes or RuntimeClasses changed.
    pub ground: bool,
    /// Labels of nodes that changed, and that the rules of no pool read.
    pub labels: BTreeSet<String>,
}

impl Changed {
    /// A pod that was known as this, and is now that.
    pub fn pod(&mut self, known: &Pod, now: Option<&Arc<Pod>>) {
        self.pods.insert(known.key.clone(), now.cloned());
    }

    /// An object that makes pods.
    pub fn controller<T>(&mut self, known: &ControllerView<T>, now: Option<&Arc<ControllerView<T>>>) {
        let now = now.map(|view| Arc::new(view.controller.clone()));
        self.controllers.insert(known.controller.workload.clone(), now);
    }

    /// A LimitRange.
    pub fn defaults(&mut self, known: &MemoryDefaults, now: Option<&Arc<MemoryDefaults>>) {
        self.defaults.insert((known.namespace.clone(), known.key.clone()), now.cloned());
    }

    /// An event that reports of the sandbox of a pod.
    pub fn sandbox(&mut self, known: &SandboxEvent, now: Option<&Arc<SandboxEvent>>) {
        let said = now.and_then(|event| event.said.clone());
        self.sandboxes.insert((known.pod.clone(), known.name().to_owned()), said);
    }
}

impl Changes {
    /// Adds changes, if somebody takes them.
    pub fn record(&self, change: impl FnOnce(&mut Changed)) {
        let mut pending = self.pending();
        if pending.taken {
            change(&mut pending.changed);
            drop(pending);
            self.0.recorded.notify_one();
        }
    }

    /// Begins to keep changes, after everything that there is now. What is recorded from now on replaces what `all` adds.
    pub fn open(&self, all: impl FnOnce(&mut Changed)) {
        let mut changed = Changed::default();
        let mut pending = self.pending();
        // While `all` reads, no change can be recorded: one that it misses is recorded afterwards.
        all(&mut changed);
        *pending = Pending { taken: true, changed };
        drop(pending);
        self.0.recorded.notify_one();
    }

    /// Wakes who waits, though nothing changed.
    pub fn wake(&self) {
        self.0.recorded.notify_one();
    }

    /// Takes everything that waits.
    pub fn take(&self) -> Changed {
        std::mem::take(&mut self.pending().changed)
    }

    /// Waits for changes.
    pub async fn recorded(&self) {
        self.0.recorded.notified().await;
    }

    /// The changes are plain data: a panic elsewhere leaves at worst one of them out, and the next start reads all again.
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1 as core;

    use super::*;
    use crate::domain::workload::Shared as PodParts;

    fn known() -> Arc<Pod> {
        Arc::new(Pod::read(core::Pod::default(), &mut PodParts::default()))
    }

    fn pod(changes: &Changes, key: &str, now: Option<&Arc<Pod>>) {
        changes.record(|changed| {
            changed.pods.insert(key.into(), now.cloned());
        });
    }

    fn pods(changed: &Changed) -> Vec<(&str, bool)> {
        let mut all: Vec<_> = changed.pods.iter().map(|(key, now)| (&**key, now.is_some())).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn changes_of_one_object_are_one_entry_with_its_last_state() {
        let (changes, known) = (Changes::default(), known());
        changes.open(|_| {});
        for _ in 0..10_000 {
            pod(&changes, "shop/a", Some(&known));
        }
        pod(&changes, "shop/b", Some(&known));
        pod(&changes, "shop/b", None);
        assert_eq!(pods(&changes.take()), [("shop/a", true), ("shop/b", false)]);
        assert_eq!(Arc::strong_count(&known), 1, "nothing is kept");
        assert_eq!(pods(&changes.take()), []);
    }

    #[test]
    fn nothing_is_kept_until_somebody_takes_it_and_then_everything_that_there_is() {
        let (changes, known) = (Changes::default(), known());
        for number in 0..10_000 {
            pod(&changes, &format!("shop/{number}"), Some(&known));
        }
        assert_eq!(Arc::strong_count(&known), 1);
        for _ in 0..2 {
            changes.open(|all| {
                all.pods.insert("shop/a".into(), Some(known.clone()));
            });
        }
        pod(&changes, "shop/a", None);
        assert_eq!(pods(&changes.take()), [("shop/a", false)]);
    }

    #[tokio::test]
    async fn what_is_recorded_before_somebody_waits_ends_the_wait() {
        let changes = Changes::default();
        changes.open(|_| {});
        pod(&changes, "shop/a", None);
        changes.recorded().await;
        changes.wake();
        changes.recorded().await;
    }
}
