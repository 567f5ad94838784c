//! Which passes follow from which change.

use std::{collections::BTreeSet, sync::Arc};

use super::{cause::Cause, changes::Changes, queue::Asker, unassigned};
use crate::{
    api::names::label,
    cluster::{Caches, Change, ControllerView, SandboxEvent, View},
    domain::{
        node::WindowsNode,
        pool::{
            ConfigMapView, Pool, ProfileView, RuntimeClassView,
            affected::{PoolChange, Surroundings},
            assignment,
            relevance::{changed_labels, concerns_pools},
        },
        workload::{MemoryDefaults, Pod, PodController},
    },
};

/// Asks for the passes that follow from a change.
#[derive(Clone)]
pub struct Wake {
    /// What is known, with the change in it.
    pub caches: Arc<Caches>,
    /// Passes of pools.
    pub pools: Asker<Cause>,
    /// Passes of profiles.
    pub profiles: Asker<Cause>,
    /// The pass over the nodes that are in no pool.
    pub unassigned: Asker<Cause>,
    /// What the verdicts on workloads are kept up to date with.
    pub workloads: Changes,
}

impl Wake {
    /// A node changed: the pools that have it, match it, or would take it. Where only labels changed that the rules of
    /// no pool read, the workloads alone, which may ask for any label.
    pub fn node(&self, change: &Change<WindowsNode>) {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let (pools, classes) = (self.caches.pools.all(), self.caches.runtime_classes.all());
        let known = || pools.values().map(AsRef::as_ref);
        let concerns = |(before, after)| concerns_pools(known(), classes.values().map(AsRef::as_ref), before, after);
        if let Some((before, after)) = before.zip(after).filter(|both| !concerns(*both)) {
            let labels = changed_labels(before, after).into_iter().map(str::to_owned);
            return self.workloads.record(|changed| changed.labels.extend(labels));
        }
        let ownership = self.caches.ownership();
        ask(&self.pools, assignment::affected(known(), &ownership, before, after), change);
        ask(&self.unassigned, [unassigned::KEY.to_owned()], change);
        self.workloads.record(|changed| changed.ground = true);
    }

    /// A pool changed: itself; the pools that share nodes or RuntimeClasses with it, as far as these are concerned; the
    /// profiles that it named and names, when these are others.
    pub fn pool(&self, change: &Change<Pool>) {
        ask(&self.pools, [change.name().to_owned()], change);
        let changed = PoolChange { before: change.before.as_deref(), after: change.after.as_deref() };
        let (pools, nodes, runtime_classes) =
            (self.caches.pools.all(), self.caches.nodes.all(), self.caches.runtime_classes.all());
        let ownership = self.caches.ownership();
        let surroundings =
            Surroundings { pools: &pools, nodes: &nodes, runtime_classes: &runtime_classes, ownership: &ownership };
        ask(&self.pools, changed.concerns(&surroundings), change);
        if differs(change, profile_of) {
            ask(&self.profiles, either(change, profile_of), change);
        }
        if changed.membership_differs() {
            ask(&self.unassigned, [unassigned::KEY.to_owned()], change);
        }
        if differs(change, |pool| (&pool.uid, pool.deleting, &pool.spec)) {
            self.workloads.record(|changed| changed.ground = true);
        }
    }

    /// A profile changed: itself; if it now says something else, the pools that name it.
    pub fn profile(&self, change: &Change<ProfileView>) {
        ask(&self.profiles, [change.name().to_owned()], change);
        if differs(change, |profile| &profile.profile) {
            let pools = self.caches.pools.all();
            let users = pools.values().filter(|pool| profile_of(pool).as_deref() == Some(change.name()));
            ask(&self.pools, users.map(|pool| pool.name.clone()), change);
        }
    }

    /// A RuntimeClass changed: the pools that name it and the pool that it was made for.
    pub fn runtime_class(&self, change: &Change<RuntimeClassView>) {
        let pools = self.caches.pools.all();
        let named = pools.values().filter(|pool| names_class(pool, change.name())).map(|pool| pool.name.clone());
        let made_for = either(change, |class| class.label(label::POOL).map(str::to_owned));
        ask(&self.pools, named.chain(made_for), change);
        self.workloads.record(|changed| changed.ground = true);
    }

    /// A ConfigMap changed: the pool that it was rendered for.
    pub fn config_map(&self, change: &Change<ConfigMapView>) {
        ask(&self.pools, either(change, |map| map.pool.clone()), change);
    }

    /// A pod changed: the verdict on it.
    pub fn pod(&self, change: &Change<Pod>) {
        let Some(known) = change.after.as_ref().or(change.before.as_ref()) else { return };
        self.workloads.record(|changed| changed.pod(known, change.after.as_ref()));
    }

    /// An object that makes pods changed: the verdict on it.
    pub fn controller<T: PodController + Send + 'static>(&self, change: &Change<ControllerView<T>>) {
        let Some(known) = change.after.as_ref().or(change.before.as_ref()) else { return };
        self.workloads.record(|changed| changed.controller(known, change.after.as_ref()));
    }

    /// A LimitRange changed: the verdicts on what makes pods in its namespace.
    pub fn defaults(&self, change: &Change<MemoryDefaults>) {
        let Some(known) = change.after.as_ref().or(change.before.as_ref()) else { return };
        self.workloads.record(|changed| changed.defaults(known, change.after.as_ref()));
    }

    /// A runtime said something of the sandbox of a pod: the verdict on the pod.
    pub fn sandbox(&self, change: &Change<SandboxEvent>) {
        let Some(known) = change.after.as_ref().or(change.before.as_ref()) else { return };
        self.workloads.record(|changed| changed.sandbox(known, change.after.as_ref()));
    }

    /// The lowest version of the API servers changed: all pools.
    pub fn api_server(&self) {
        for pool in self.caches.pools.all().keys() {
            self.pools.ask(pool, Cause::here("version of the API server changed".to_owned()));
        }
    }

    /// Another key signs the records on nodes: all pools.
    pub fn ownership(&self) {
        for pool in self.caches.pools.all().keys() {
            self.pools.ask(pool, Cause::here("key of the records changed".to_owned()));
        }
        self.unassigned.ask(unassigned::KEY, Cause::here("key of the records changed".to_owned()));
    }
}

fn ask<V: View>(asker: &Asker<Cause>, objects: impl IntoIterator<Item = String>, change: &Change<V>) {
    for object in objects {
        asker.ask(&object, Cause::here(change.words()));
    }
}

fn profile_of(pool: &Pool) -> Option<String> {
    pool.spec.as_ref().ok()?.profile.clone()
}

fn names_class(pool: &Pool, name: &str) -> bool {
    pool.spec.as_ref().is_ok_and(|spec| spec.runtime_classes.iter().any(|class| class.name == name))
}

/// Whether a part of the object was or is another, or came or went.
fn differs<'a, V, P: PartialEq>(change: &'a Change<V>, part: impl Fn(&'a V) -> P) -> bool {
    change.before.as_deref().map(&part) != change.after.as_deref().map(&part)
}

/// What the object named before and what it names now.
fn either<V>(change: &Change<V>, named: impl Fn(&V) -> Option<String>) -> BTreeSet<String> {
    change.before.as_deref().into_iter().chain(change.after.as_deref()).filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::{Value, json};
    use tokio::sync::watch;

    use super::*;
    use crate::controllers::queue::queue;

    fn object<V: View<Object = DynamicObject, Shared = ()>>(name: &str, rest: Value) -> V {
        let mut object =
            json!({"apiVersion": "winpool.dev/v1alpha1", "kind": V::KIND, "metadata": {"name": name, "uid": name}});
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

    fn change<V>(before: impl Into<Option<V>>, after: impl Into<Option<V>>) -> Change<V> {
        Change { before: before.into().map(Arc::new), after: after.into().map(Arc::new) }
    }

    /// Three pools: `web` and `batch` with the profile `standard`, `batch` with a RuntimeClass `shared`, and `edge`.
    /// Gives what is asked for by what is done with the change.
    async fn asked(act: impl FnOnce(&Wake)) -> Vec<String> {
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
        act(&Wake { caches, pools, profiles, unassigned: nodes, workloads: Changes::default() });
        let mut asked = Vec::new();
        for (kind, queue) in [("pool", pool_queue), ("profile", profile_queue), ("unassigned", node_queue)] {
            asked.extend(queue.objects().into_iter().map(|object| format!("{kind} {object}")));
        }
        asked
    }

    #[tokio::test]
    async fn a_node_wakes_the_pools_that_it_leaves_and_joins() {
        let asked = asked(|wake| wake.node(&change(node("a", "web"), node("a", "batch")))).await;
        assert_eq!(asked, ["pool batch", "pool web", "unassigned nodes"]);
    }

    #[tokio::test]
    async fn a_change_of_a_node_that_the_rules_of_no_pool_read_enqueues_none() {
        let (before, unread) = (node("a", "web"), node("a", "web"));
        let labelled = |key: &str| {
            let mut labelled = before.clone();
            labelled.labels.insert(key.into(), "x".into());
            labelled
        };
        for key in ["example.com/seen", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "notwinpool.dev/pool"]
        {
            let unread = WindowsNode { labels_writer: Some("somebody".into()), ..labelled(key) };
            assert_eq!(asked(|wake| wake.node(&change(before.clone(), unread))).await, Vec::<String>::new(), "{key}");
        }
        assert_eq!(asked(|wake| wake.node(&change(before.clone(), unread))).await, Vec::<String>::new());
        let both = ["pool web", "unassigned nodes"];
        for key in ["node.kubernetes.io/windows-build", "kubernetes.io/arch", "runs.winpool.dev/ltsc2022", "team"] {
            assert_eq!(asked(|wake| wake.node(&change(before.clone(), labelled(key)))).await, both, "{key}");
        }
        let ready = WindowsNode { ready: true, ..before.clone() };
        assert_eq!(asked(|wake| wake.node(&change(before.clone(), ready))).await, both);
        assert_eq!(asked(|wake| wake.node(&change(None, before.clone()))).await, both, "it joins");
        assert_eq!(asked(|wake| wake.node(&change(before.clone(), None))).await, both, "it is gone");
    }

    #[tokio::test]
    async fn a_pool_that_names_another_profile_wakes_itself_and_both_profiles() {
        let (before, after) = (
            pool("web", json!({"profileRef": {"name": "old"}})),
            pool("web", json!({"profileRef": {"name": "standard"}})),
        );
        let asked = asked(|wake| wake.pool(&change(before, after))).await;
        assert_eq!(asked, ["pool web", "profile old", "profile standard"]);
    }

    #[tokio::test]
    async fn a_pool_that_comes_or_goes_wakes_those_that_share_a_class_with_it() {
        // The class of `web` and `edge` is the default one.
        let all = ["pool edge", "pool other", "pool web", "unassigned nodes"];
        assert_eq!(asked(|wake| wake.pool(&change(pool("other", json!({})), None))).await, all);
        assert_eq!(asked(|wake| wake.pool(&change(None, pool("other", json!({}))))).await, all);
        let apart = pool("other", json!({"runtimeClasses": [{"name": "other"}]}));
        assert_eq!(asked(|wake| wake.pool(&change(apart, None))).await, ["pool other", "unassigned nodes"]);
    }

    #[tokio::test]
    async fn a_status_or_an_annotation_that_changed_wakes_its_own_pool() {
        let plain = pool("web", json!({}));
        let mut changed = plain.clone();
        changed.status.nodes.matched = 3;
        changed.allow_release = Some("2".into());
        changed.status.applied.labels.push("team".into());
        changed.status.applied.taints.push("os:NoSchedule".into());
        assert_eq!(asked(|wake| wake.pool(&change(plain, changed))).await, ["pool web"]);
    }

    #[tokio::test]
    async fn a_profile_wakes_itself_and_if_it_says_something_else_its_users() {
        let profile = |memory: &str| {
            object::<ProfileView>("standard", json!({"spec": {"kubelet": {"systemReserved": {"memory": memory}}}}))
        };
        let asked_for = async |change: Change<ProfileView>| asked(|wake| wake.profile(&change)).await;
        assert_eq!(asked_for(change(None, profile("2Gi"))).await, ["pool batch", "pool web", "profile standard"]);
        let mut told = profile("2Gi");
        told.status.used_by.count = 2;
        assert_eq!(asked_for(change(profile("2Gi"), told)).await, ["profile standard"]);
        assert_eq!(asked_for(change(profile("2Gi"), None)).await, ["pool batch", "pool web", "profile standard"]);
    }

    #[tokio::test]
    async fn a_runtime_class_wakes_the_pools_that_name_it_and_the_one_that_it_was_made_for() {
        let asked = asked(|wake| wake.runtime_class(&change(class("shared", "edge"), None))).await;
        assert_eq!(asked, ["pool batch", "pool edge"]);
    }

    #[tokio::test]
    async fn a_config_map_wakes_its_pool() {
        let labels = json!({"winpool.dev/pool": "web"});
        let map = json!({"metadata": {"name": "web-1", "labels": labels}});
        let map = ConfigMapView::read(serde_json::from_value(map).unwrap(), &mut ());
        assert_eq!(asked(|wake| wake.config_map(&change(map, None))).await, ["pool web"]);
    }

    #[tokio::test]
    async fn another_version_of_the_api_server_wakes_all_pools() {
        assert_eq!(asked(Wake::api_server).await, ["pool batch", "pool edge", "pool web"]);
    }
}
