//! Maps each change to the objects to reconcile.

use std::{collections::BTreeSet, sync::Arc};

use winpool_api::names::label;
use winpool_core::node::WindowsNode;
use winpool_rules::pool::{
    ConfigMapView, NodeConfigView, Pool, ProfileView, RuntimeClassView,
    affected::{self, ObservedObjects, PoolChange},
    cluster_api::InfrastructureReference,
    relevance::{changed_labels, is_relevant},
};

use super::{
    changes::{Changed, PendingChanges},
    queue::Enqueuer,
    trigger::Trigger,
    unassigned,
};
use crate::cluster::{Caches, ObjectChange, View};

/// Enqueues the objects that a change concerns.
#[derive(Clone)]
pub struct EventMapper {
    /// The caches, which already contain the change.
    pub caches: Arc<Caches>,
    pub pools: Enqueuer<Trigger>,
    pub profiles: Enqueuer<Trigger>,
    /// The queue of the nodes in no pool.
    pub unassigned: Enqueuer<Trigger>,
    /// The changes for the workload controller.
    pub workloads: PendingChanges,
}

impl EventMapper {
    /// A node: enqueues the pools that have it or select it, before or after the change. If only labels changed that
    /// are not relevant for any pool, only the workload controller is notified: workloads may select by any label.
    pub fn node(&self, change: &ObjectChange<WindowsNode>) {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let (pools, classes) = (self.caches.pools.all(), self.caches.runtime_classes.all());
        let all = || pools.values().map(AsRef::as_ref);
        let is_relevant = |(before, after)| is_relevant(all(), classes.values().map(AsRef::as_ref), before, after);
        if let Some((before, after)) = before.zip(after).filter(|both| !is_relevant(*both)) {
            let labels = changed_labels(before, after).into_iter().map(str::to_owned);
            return self.workloads.record(|changed| changed.labels.extend(labels));
        }
        enqueue(&self.pools, affected::by_node_change(&self.caches.assigner(), before, after), change);
        enqueue(&self.unassigned, [unassigned::KEY.to_owned()], change);
        self.workloads.record(|changed| changed.scheduling_state = true);
    }

    /// A pool: enqueues it, the other pools that the change affects, and, if its profile changed, both profiles.
    pub fn pool(&self, change: &ObjectChange<Pool>) {
        enqueue(&self.pools, [change.name().to_owned()], change);
        let changed = PoolChange { before: change.before.as_ref(), after: change.after.as_ref() };
        let (pools, nodes, runtime_classes) =
            (self.caches.pools.all(), self.caches.nodes.all(), self.caches.runtime_classes.all());
        let ownership = self.caches.ownership();
        let observed =
            ObservedObjects { pools: &pools, nodes: &nodes, runtime_classes: &runtime_classes, ownership: &ownership };
        enqueue(&self.pools, changed.affected_pools(&observed), change);
        if differs(change, profile_of) {
            enqueue(&self.profiles, either(change, profile_of), change);
        }
        if differs(change, |pool| (pool.deleting, pool.cluster_api())) {
            // Another pool may select the same machines.
            self.cluster_api(&change.description());
        }
        if changed.membership_differs() {
            enqueue(&self.unassigned, [unassigned::KEY.to_owned()], change);
        }
        if differs(change, |pool| (&pool.uid, pool.deleting, &pool.spec)) {
            self.workloads.record(|changed| changed.scheduling_state = true);
        }
    }

    /// A profile: enqueues it and, if its spec changed, the pools that use it.
    pub fn profile(&self, change: &ObjectChange<ProfileView>) {
        enqueue(&self.profiles, [change.name().to_owned()], change);
        if differs(change, |profile| &profile.profile) {
            let pools = self.caches.pools.all();
            let users = pools.values().filter(|pool| profile_of(pool).as_deref() == Some(change.name()));
            enqueue(&self.pools, users.map(|pool| pool.name.clone()), change);
            self.workloads.record(|changed| changed.scheduling_state = true);
        }
    }

    /// A RuntimeClass: enqueues the pools that name it and the pool in its label.
    pub fn runtime_class(&self, change: &ObjectChange<RuntimeClassView>) {
        let pools = self.caches.pools.all();
        let named = pools.values().filter(|pool| names_class(pool, change.name())).map(|pool| pool.name.clone());
        let labelled = either(change, |class| class.label(label::POOL).map(str::to_owned));
        enqueue(&self.pools, named.chain(labelled), change);
        self.workloads.record(|changed| changed.scheduling_state = true);
    }

    /// A ConfigMap: enqueues its pool.
    pub fn config_map(&self, change: &ObjectChange<ConfigMapView>) {
        enqueue(&self.pools, either(change, |map| map.pool.clone()), change);
    }

    /// A WindowsNodeConfig: enqueues its pool and the pool that has its node.
    pub fn node_config(&self, change: &ObjectChange<NodeConfigView>) {
        let assigned_by = either(change, |config| config.pool().map(str::to_owned));
        let node = self.caches.nodes.get(change.name());
        let of_node = affected::by_node_change(&self.caches.assigner(), None, node.as_deref());
        enqueue(&self.pools, assigned_by.into_iter().chain(of_node).collect::<BTreeSet<_>>(), change);
    }

    /// An object of Cluster API: enqueues the pools that use it.
    pub fn cluster_api_object<V: View>(&self, change: &ObjectChange<V>) {
        self.cluster_api(&change.description());
    }

    /// A MachineDeployment or MachinePool. If its template at the provider, its `infrastructure`, is another one, its capacity is
    /// read.
    pub fn machine_group<V: View>(
        &self,
        change: &ObjectChange<V>,
        infrastructure: fn(&V) -> &Option<InfrastructureReference>,
    ) {
        self.cluster_api_object(change);
        if differs(change, infrastructure) {
            self.caches.cluster_api_changed.notify_one();
        }
    }

    /// Something about Cluster API: enqueues the pools that use it.
    pub fn cluster_api(&self, trigger: &str) {
        let pools = self.caches.pools.all();
        for pool in pools.values().filter(|pool| pool.uses_cluster_api()) {
            self.pools.enqueue(&pool.name, Trigger::new(trigger.to_owned()));
        }
    }

    /// A claim, a volume, a StorageClass or the drivers of a node, which the workload controller reads with all others.
    pub fn storage<V>(&self, _: &ObjectChange<V>) {
        self.workloads.record(|changed| changed.storage = true);
    }

    /// A change that only the workload controller processes: records it by a function of [`Changed`].
    pub fn record<V>(&self, change: &ObjectChange<V>, add: impl FnOnce(&mut Changed, &V, Option<&Arc<V>>)) {
        let Some(any) = change.after.as_ref().or(change.before.as_ref()) else { return };
        self.workloads.record(|changed| add(changed, any, change.after.as_ref()));
    }

    /// The lowest version of the API servers: enqueues all pools.
    pub fn api_server(&self) {
        self.enqueue_pools("version of the API server changed");
    }

    /// The key that signs the records on nodes: enqueues all pools.
    pub fn ownership(&self) {
        const KEY_CHANGED: &str = "key of the records changed";
        self.enqueue_pools(KEY_CHANGED);
        self.unassigned.enqueue(unassigned::KEY, Trigger::new(KEY_CHANGED.to_owned()));
    }

    pub fn enqueue_pools(&self, trigger: &str) {
        for pool in self.caches.pools.all().names() {
            self.pools.enqueue(pool, Trigger::new(trigger.to_owned()));
        }
    }
}

fn enqueue<V: View>(enqueuer: &Enqueuer<Trigger>, objects: impl IntoIterator<Item = String>, change: &ObjectChange<V>) {
    for object in objects {
        enqueuer.enqueue(&object, Trigger::new(change.description()));
    }
}

fn profile_of(pool: &Pool) -> Option<String> {
    pool.spec.as_ref().ok()?.profile.clone()
}

fn names_class(pool: &Pool, name: &str) -> bool {
    pool.spec.as_ref().is_ok_and(|spec| spec.runtime_classes.iter().any(|class| class.name == name))
}

/// Whether a part of the object changed, or the object was added or deleted.
fn differs<'a, V, P: PartialEq>(change: &'a ObjectChange<V>, part: impl Fn(&'a V) -> P) -> bool {
    change.before.as_deref().map(&part) != change.after.as_deref().map(&part)
}

/// The names that the object refers to, before or after the change.
fn either<V>(change: &ObjectChange<V>, named: impl Fn(&V) -> Option<String>) -> BTreeSet<String> {
    change.before.as_deref().into_iter().chain(change.after.as_deref()).filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::{Value, json};
    use tokio::sync::watch;
    use winpool_rules::pool::Consents;

    use super::*;
    use crate::controllers::queue::queue;

    fn object<V: View<Object = DynamicObject, Shared = ()>>(name: &str, rest: Value) -> V {
        let mut object = json!({"apiVersion": "winpool.dev/v1alpha1", "kind": V::KIND.name, "metadata": {"name": name, "uid": name}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        V::read(serde_json::from_value(object).unwrap(), &mut ())
    }

    fn pool(name: &str, more: Value) -> Pool {
        let mut spec = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": name}}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let pool: Pool = object(name, json!({"spec": spec}));
        assert!(pool.spec.is_ok(), "{:?}", pool.spec);
        pool
    }

    fn node(name: &str, agentpool: &str) -> WindowsNode {
        let labels = json!({"kubernetes.io/os": "windows", "agentpool": agentpool});
        WindowsNode::read(
            serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap(),
            &mut (),
        )
    }

    fn class(name: &str, pool: &str) -> RuntimeClassView {
        let labels = json!({"winpool.dev/pool": pool});
        let class = json!({"metadata": {"name": name, "labels": labels}, "handler": "runhcs-wcow-process"});
        RuntimeClassView::read(serde_json::from_value(class).unwrap(), &mut ())
    }

    fn change<V>(before: impl Into<Option<V>>, after: impl Into<Option<V>>) -> ObjectChange<V> {
        ObjectChange { before: before.into().map(Arc::new), after: after.into().map(Arc::new) }
    }

    /// Three pools: `web` and `batch` with the profile `standard`, `batch` with a RuntimeClass `shared`, and `edge`.
    /// Returns the objects that `handle` enqueues.
    async fn enqueued(handle: impl FnOnce(&EventMapper)) -> Vec<String> {
        let (version, ownership) = (watch::channel(None).1, watch::channel(Arc::default()).1);
        let caches = Arc::new(Caches::new("winpool-system".into(), version, ownership));
        caches.pools.replace(vec![
            pool("web", json!({"profileRef": {"name": "standard"}})),
            pool("batch", json!({"profileRef": {"name": "standard"}, "runtimeClasses": [{"name": "shared"}]})),
            pool("edge", json!({"labels": {"team": "edge"}})),
        ]);
        let (pools, pool_queue) = queue();
        let (profiles, profile_queue) = queue();
        let (nodes, node_queue) = queue();
        handle(&EventMapper { caches, pools, profiles, unassigned: nodes, workloads: PendingChanges::default() });
        let mut enqueued = Vec::new();
        for (kind, queue) in [("pool", pool_queue), ("profile", profile_queue), ("unassigned", node_queue)] {
            enqueued.extend(queue.objects().into_iter().map(|object| format!("{kind} {object}")));
        }
        enqueued
    }

    #[tokio::test]
    async fn a_node_enqueues_the_pools_that_it_leaves_and_joins() {
        let enqueued = enqueued(|mapper| mapper.node(&change(node("a", "web"), node("a", "batch")))).await;
        assert_eq!(enqueued, ["pool batch", "pool web", "unassigned nodes"]);
    }

    #[tokio::test]
    async fn a_change_of_a_node_that_no_pool_reads_enqueues_nothing() {
        let (before, unread) = (node("a", "web"), node("a", "web"));
        let labelled = |key: &str| {
            let mut labelled = before.clone();
            labelled.labels.insert(key.into(), "x".into());
            labelled
        };
        for key in ["example.com/seen", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "notwinpool.dev/pool"]
        {
            let unread = WindowsNode { labels_writer: Some("another".into()), ..labelled(key) };
            assert_eq!(
                enqueued(|mapper| mapper.node(&change(before.clone(), unread))).await,
                Vec::<String>::new(),
                "{key}"
            );
        }
        assert_eq!(enqueued(|mapper| mapper.node(&change(before.clone(), unread))).await, Vec::<String>::new());
        let both = ["pool web", "unassigned nodes"];
        for key in ["node.kubernetes.io/windows-build", "kubernetes.io/arch", "runs.winpool.dev/ltsc2022", "team"] {
            assert_eq!(enqueued(|mapper| mapper.node(&change(before.clone(), labelled(key)))).await, both, "{key}");
        }
        let ready = WindowsNode { ready: true, ..before.clone() };
        assert_eq!(enqueued(|mapper| mapper.node(&change(before.clone(), ready))).await, both);
        assert_eq!(enqueued(|mapper| mapper.node(&change(None, before.clone()))).await, both, "added");
        assert_eq!(enqueued(|mapper| mapper.node(&change(before.clone(), None))).await, both, "deleted");
    }

    #[tokio::test]
    async fn a_pool_with_another_profile_enqueues_itself_and_both_profiles() {
        let (before, after) = (
            pool("web", json!({"profileRef": {"name": "old"}})),
            pool("web", json!({"profileRef": {"name": "standard"}})),
        );
        let enqueued = enqueued(|mapper| mapper.pool(&change(before, after))).await;
        assert_eq!(enqueued, ["pool web", "profile old", "profile standard"]);
    }

    #[tokio::test]
    async fn a_pool_that_is_added_or_deleted_enqueues_those_with_the_same_class() {
        // Pools `web` and `edge` have the default class.
        let all = ["pool edge", "pool other", "pool web", "unassigned nodes"];
        assert_eq!(enqueued(|mapper| mapper.pool(&change(pool("other", json!({})), None))).await, all);
        assert_eq!(enqueued(|mapper| mapper.pool(&change(None, pool("other", json!({}))))).await, all);
        let apart = pool("other", json!({"runtimeClasses": [{"name": "other"}]}));
        assert_eq!(enqueued(|mapper| mapper.pool(&change(apart, None))).await, ["pool other", "unassigned nodes"]);
    }

    #[tokio::test]
    async fn a_changed_status_or_annotation_enqueues_only_its_pool() {
        let plain = pool("web", json!({}));
        let mut changed = plain.clone();
        changed.status.nodes.matched = 3;
        changed.consents = Consents::read(&[("winpool.dev/allow-release".to_owned(), "a=b".to_owned())].into());
        changed.status.applied.labels.push("team".into());
        changed.status.applied.taints.push("os:NoSchedule".into());
        assert_eq!(enqueued(|mapper| mapper.pool(&change(plain, changed))).await, ["pool web"]);
    }

    #[tokio::test]
    async fn a_profile_enqueues_itself_and_if_its_spec_changed_its_pools() {
        let profile = |memory: &str| {
            object::<ProfileView>("standard", json!({"spec": {"kubelet": {"systemReserved": {"memory": memory}}}}))
        };
        let enqueued_by = async |change: ObjectChange<ProfileView>| enqueued(|mapper| mapper.profile(&change)).await;
        assert_eq!(enqueued_by(change(None, profile("2Gi"))).await, ["pool batch", "pool web", "profile standard"]);
        let mut other_status = profile("2Gi");
        other_status.status.used_by.count = 2;
        assert_eq!(enqueued_by(change(profile("2Gi"), other_status)).await, ["profile standard"]);
        assert_eq!(enqueued_by(change(profile("2Gi"), None)).await, ["pool batch", "pool web", "profile standard"]);
    }

    #[tokio::test]
    async fn a_runtime_class_enqueues_the_pools_that_name_it_and_the_pool_in_its_label() {
        let enqueued = enqueued(|mapper| mapper.runtime_class(&change(class("shared", "edge"), None))).await;
        assert_eq!(enqueued, ["pool batch", "pool edge"]);
    }

    #[tokio::test]
    async fn a_config_map_enqueues_its_pool() {
        let labels = json!({"winpool.dev/pool": "web"});
        let map = json!({"metadata": {"name": "web-1", "labels": labels}});
        let map = ConfigMapView::read(serde_json::from_value(map).unwrap(), &mut ());
        assert_eq!(enqueued(|mapper| mapper.config_map(&change(map, None))).await, ["pool web"]);
    }

    #[tokio::test]
    async fn a_node_config_enqueues_the_pool_that_wrote_it_and_the_pool_that_has_its_node() {
        let config = |pool: &str, phase: &str| -> NodeConfigView {
            let spec = json!({
                "pool": pool, "nodeUID": "u", "config": "c", "digest": "d", "attempt": 1, "confirmTimeout": "5m",
                "assignedAt": "2026-06-01T12:00:00Z",
            });
            object("win-1", json!({"spec": spec, "status": {"phase": phase}}))
        };
        let change = change(config("web", "Pending"), config("web", "Applied"));
        assert_eq!(enqueued(|mapper| mapper.node_config(&change)).await, ["pool web"]);
        let moved = enqueued(|mapper| {
            mapper.caches.nodes.replace(vec![node("win-1", "batch")]);
            mapper.node_config(&change);
        });
        assert_eq!(moved.await, ["pool batch", "pool web"]);
    }

    #[tokio::test]
    async fn another_version_of_the_api_server_enqueues_all_pools() {
        assert_eq!(enqueued(EventMapper::api_server).await, ["pool batch", "pool edge", "pool web"]);
    }
}
