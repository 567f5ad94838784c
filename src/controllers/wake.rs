//! Which passes follow from which change.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::mpsc::UnboundedSender;

use super::{cause::Cause, queue::Asker, unassigned, workloads::News};
use crate::{
    api::names::label,
    cluster::{Caches, Change, ControllerView, SandboxEvent, View},
    domain::{
        node::WindowsNode,
        pool::{
            ConfigMapView, Pool, ProfileView, RuntimeClassView, assignment,
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
    /// The verdicts on workloads, if they are looked at.
    pub workloads: Option<UnboundedSender<News>>,
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
            return self.news(|| News::Labels(changed_labels(before, after).into_iter().map(str::to_owned).collect()));
        }
        ask(&self.pools, assignment::affected(known(), before, after), change);
        ask(&self.unassigned, [unassigned::KEY.to_owned()], change);
        self.news(|| News::Ground);
    }

    /// A pool changed: itself; if it now says something else to others, all pools, since nodes and RuntimeClasses may
    /// move between them, and the profiles that it names.
    pub fn pool(&self, change: &Change<Pool>) {
        ask(&self.pools, [change.name().to_owned()], change);
        if concerns_others(change) {
            ask(&self.pools, self.caches.pools.all().keys().cloned(), change);
            ask(&self.profiles, either(change, profile_of), change);
            ask(&self.unassigned, [unassigned::KEY.to_owned()], change);
            self.news(|| News::Ground);
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
        self.news(|| News::Ground);
    }

    /// A ConfigMap changed: the pool that it was rendered for.
    pub fn config_map(&self, change: &Change<ConfigMapView>) {
        ask(&self.pools, either(change, |map| map.pool.clone()), change);
    }

    /// A pod changed: the verdict on it.
    pub fn pod(&self, change: &Change<Pod>) {
        self.news(|| News::Pod { key: change.name().to_owned(), now: change.after.clone() });
    }

    /// An object that makes pods changed: the verdict on it.
    pub fn controller<T: PodController + Send + 'static>(&self, change: &Change<ControllerView<T>>) {
        let of = |view: &Arc<ControllerView<T>>| view.controller.clone();
        let Some(known) = change.after.as_ref().or(change.before.as_ref()).map(of) else { return };
        self.news(|| News::Controller { name: known.workload, now: change.after.as_ref().map(of).map(Arc::new) });
    }

    /// A LimitRange changed: the verdicts on what makes pods in its namespace.
    pub fn defaults(&self, change: &Change<MemoryDefaults>) {
        let Some(known) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let (namespace, key) = (known.namespace.clone(), known.key.clone());
        self.news(|| News::Defaults { namespace, key, now: change.after.clone() });
    }

    /// A runtime said something of the sandbox of a pod: the verdict on the pod.
    pub fn sandbox(&self, change: &Change<SandboxEvent>) {
        let Some(event) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let said = change.after.as_ref().and_then(|event| event.said.clone());
        self.news(|| News::Sandbox { pod: event.pod.clone(), event: change.name().to_owned(), said });
    }

    fn news(&self, news: impl FnOnce() -> News) {
        if let Some(workloads) = &self.workloads {
            // After the end nobody listens, and nothing is to be done.
            let _ = workloads.send(news());
        }
    }

    /// The lowest version of the API servers changed: all pools.
    pub fn api_server(&self) {
        for pool in self.caches.pools.all().keys() {
            self.pools.ask(pool, Cause::here("version of the API server changed".to_owned()));
        }
    }
}

fn ask<V: View>(asker: &Asker<Cause>, objects: impl IntoIterator<Item = String>, change: &Change<V>) {
    for object in objects {
        asker.ask(&object, Cause::here(change.words()));
    }
}

/// Whether more than the pool's own pass depends on what changed. Its conditions, counts and annotations are its own.
fn concerns_others(change: &Change<Pool>) -> bool {
    differs(change, |pool| (&pool.uid, pool.deleting, &pool.spec, &pool.status.applied))
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
        let caches = Arc::new(Caches::new("winpool-system".into(), watch::channel(None).1));
        caches.pools.replace(vec![
            pool("web", json!({"profileRef": {"name": "standard"}})),
            pool("batch", json!({"profileRef": {"name": "standard"}, "runtimeClasses": [{"name": "shared"}]})),
            pool("edge", json!({"labels": {"team": "edge"}})),
        ]);
        let (pools, pool_queue) = queue();
        let (profiles, profile_queue) = queue();
        let (nodes, node_queue) = queue();
        act(&Wake { caches, pools, profiles, unassigned: nodes, workloads: None });
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
    async fn a_pool_that_says_something_else_wakes_all_and_the_profiles_it_named_and_names() {
        let (before, after) = (
            pool("web", json!({"profileRef": {"name": "old"}})),
            pool("web", json!({"profileRef": {"name": "standard"}})),
        );
        let all = ["pool batch", "pool edge", "pool web", "profile old", "profile standard", "unassigned nodes"];
        assert_eq!(asked(|wake| wake.pool(&change(before, after))).await, all);
        let gone = asked(|wake| wake.pool(&change(pool("gone", json!({})), None))).await;
        assert_eq!(gone, ["pool batch", "pool edge", "pool gone", "pool web", "unassigned nodes"]);
    }

    #[tokio::test]
    async fn a_status_that_changed_wakes_its_own_pool_and_what_it_set_on_nodes_wakes_all() {
        let plain = pool("web", json!({}));
        let mut counted = plain.clone();
        counted.status.nodes.matched = 3;
        counted.allow_release = Some("2".into());
        assert_eq!(asked(|wake| wake.pool(&change(plain.clone(), counted))).await, ["pool web"]);
        let mut applied = plain.clone();
        applied.status.applied.labels.push("team".into());
        let asked = asked(|wake| wake.pool(&change(plain, applied))).await;
        assert_eq!(asked, ["pool batch", "pool edge", "pool web", "unassigned nodes"]);
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
