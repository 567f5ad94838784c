//! The changes that the workload controller has not processed: one entry for each object.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use winpool_core::{Named, image::RuntimeReport};
use winpool_workload::{Controller, ControllerView, Controllers, MemoryDefaults, Pod, Service, WorkloadName};

use crate::cluster::SandboxEvent;

/// The pending changes. Clones share them.
#[derive(Clone, Default)]
pub struct PendingChanges(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// `None` while the workload controller does not run: changes are dropped.
    pending: Mutex<Option<Changed>>,
    recorded: Notify,
}

/// The current state of each changed object; `None` for a deleted one.
#[derive(Default)]
pub struct Changed {
    /// Pods, by key.
    pub pods: HashMap<Arc<str>, Option<Arc<Pod>>>,
    /// Objects that create pods.
    pub controllers: HashMap<Arc<WorkloadName>, Option<Arc<Controller>>>,
    /// LimitRanges, by namespace and key.
    pub defaults: HashMap<(String, String), Option<Arc<MemoryDefaults>>>,
    /// Services, by namespace and key.
    pub services: HashMap<(String, Arc<str>), Option<Arc<Service>>>,
    pub services_are_read: bool,
    /// Whether volumes, or the drivers of nodes, changed.
    pub storage: bool,
    /// The reports in events about sandboxes, by the key of the pod and the name of the event.
    pub sandboxes: HashMap<(String, String), Option<RuntimeReport>>,
    /// Whether pools, nodes or RuntimeClasses changed.
    pub scheduling_state: bool,
    /// Changed labels of nodes that are not relevant for any pool.
    pub labels: BTreeSet<String>,
}

impl Changed {
    /// Adds a pod. `any` is any version of it.
    pub fn add_pod(&mut self, any: &Pod, now: Option<&Arc<Pod>>) {
        self.pods.insert(any.key.clone(), now.cloned());
    }

    /// Adds an object that creates pods.
    pub fn add_controller<T>(&mut self, any: &ControllerView<T>, now: Option<&Arc<ControllerView<T>>>) {
        self.controllers.insert(any.controller.workload.clone(), now.map(|view| view.controller.clone()));
    }

    /// Adds objects that create pods.
    pub fn add_controllers(&mut self, all: &Controllers) {
        self.controllers.extend(all.iter().map(|one| (one.workload.clone(), Some(one.clone()))));
    }

    /// Adds a LimitRange.
    pub fn add_defaults(&mut self, any: &MemoryDefaults, now: Option<&Arc<MemoryDefaults>>) {
        self.defaults.insert((any.namespace.clone(), any.key.clone()), now.cloned());
    }

    pub fn add_service(&mut self, any: &Service, now: Option<&Arc<Service>>) {
        self.services.insert((any.namespace.clone(), any.key.clone()), now.cloned());
    }

    /// Adds an event about the sandbox of a pod.
    pub fn add_sandbox(&mut self, any: &SandboxEvent, now: Option<&Arc<SandboxEvent>>) {
        let report = now.and_then(|event| event.report.clone());
        self.sandboxes.insert((any.pod.clone(), any.name().to_owned()), report);
    }
}

impl PendingChanges {
    /// Adds changes, if the workload controller runs.
    pub fn record(&self, change: impl FnOnce(&mut Changed)) {
        let mut pending = self.0.pending.lock();
        if let Some(changed) = pending.as_mut() {
            change(changed);
            drop(pending);
            self.0.recorded.notify_one();
        }
    }

    /// Starts to record changes. `add_all` adds all existing objects.
    pub fn open(&self, add_all: impl FnOnce(&mut Changed)) {
        let mut changed = Changed::default();
        let mut pending = self.0.pending.lock();
        // No change is recorded while `add_all` runs: a change that it misses is recorded afterwards.
        add_all(&mut changed);
        *pending = Some(changed);
        drop(pending);
        self.0.recorded.notify_one();
    }

    /// Ends the wait in [`Self::recorded`] without a change.
    pub fn notify(&self) {
        self.0.recorded.notify_one();
    }

    pub fn take(&self) -> Changed {
        self.0.pending.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Waits for changes or a notification.
    pub async fn recorded(&self) {
        self.0.recorded.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1 as core;
    use winpool_workload::Shared as PodParts;

    use super::*;

    fn known() -> Arc<Pod> {
        Arc::new(Pod::read(core::Pod::default(), &mut PodParts::default()))
    }

    fn pod(changes: &PendingChanges, key: &str, now: Option<&Arc<Pod>>) {
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
    fn the_changes_of_one_object_are_one_entry_with_its_last_state() {
        let (changes, known) = (PendingChanges::default(), known());
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
    fn no_change_is_kept_before_open_which_begins_with_all_objects() {
        let (changes, known) = (PendingChanges::default(), known());
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
    async fn a_change_that_is_recorded_before_the_wait_ends_it() {
        let changes = PendingChanges::default();
        changes.open(|_| {});
        pod(&changes, "shop/a", None);
        changes.recorded().await;
        changes.notify();
        changes.recorded().await;
    }
}
