//! Other programs that write to the same nodes.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use e2e::{
    cluster::{Cluster, OS_WINDOWS, SOON},
    control_plane::User,
    kubelet::SimulatedNode,
    objects::{has_taint, taints},
    wait::until,
};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::{node, nodes};

const POOL: &str = "web";

/// A program that correctly adds and removes its own taint: with optimistic locking, and without changing other fields
/// of the node.
struct OtherWriter {
    nodes: Api<Node>,
    manager: &'static str,
    taint: Taint,
    /// Whether each node has the taint, according to the last write.
    has: BTreeMap<String, bool>,
    writes: usize,
}

impl OtherWriter {
    async fn new(cluster: &Cluster, user: User, manager: &'static str, names: &[String]) -> Self {
        let taint =
            Taint { key: format!("{manager}.example/busy"), effect: "NoSchedule".to_owned(), ..Taint::default() };
        let nodes = Api::all(cluster.control_plane.client(user).await.unwrap());
        let has = names.iter().map(|name| (name.clone(), false)).collect();
        Self { nodes, manager, taint, has, writes: 0 }
    }

    /// Writes twenty times a second to all nodes in turn, until `stop`, and five times to each.
    async fn work(mut self, stop: &AtomicBool) -> Result<Self> {
        let mut ticks = interval(Duration::from_millis(50));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let names: Vec<String> = self.has.keys().cloned().collect();
        for name in names.iter().cycle() {
            ticks.tick().await;
            if stop.load(Ordering::Relaxed) && self.writes >= 5 * names.len() {
                break;
            }
            self.toggle(name).await?;
        }
        Ok(self)
    }

    /// Adds or removes the taint, and checks before and after it that no other client has changed it.
    async fn toggle(&mut self, name: &str) -> Result<()> {
        loop {
            let node = self.check_own_taint(name).await?;
            let wanted = !self.has[name];
            let mut all: Vec<_> = taints(&node).iter().filter(|taint| taint.key != self.taint.key).cloned().collect();
            all.extend(wanted.then(|| self.taint.clone()));
            let body =
                json!({ "metadata": { "resourceVersion": node.metadata.resource_version }, "spec": { "taints": all } });
            let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
            match self.nodes.patch(name, &params, &Patch::Merge(body)).await {
                Err(kube::Error::Api(status)) if status.code == 409 => continue,
                other => other.context(self.manager)?,
            };
            self.has.insert(name.to_owned(), wanted);
            self.writes += 1;
            return self.check_own_taint(name).await.map(drop);
        }
    }

    /// The node; fails if another client has changed the taint.
    async fn check_own_taint(&self, name: &str) -> Result<Node> {
        let node = self.nodes.get(name).await?;
        let has = has_taint(&node, &self.taint.key, "");
        ensure!(has == self.has[name], "{}: {name} should have its taint: {}: {node:#?}", self.manager, self.has[name]);
        Ok(node)
    }
}

#[tokio::test]
async fn two_writers_at_twenty_writes_a_second_and_the_operator_lose_no_write() {
    const COUNT: usize = 20;
    const EDITIONS: usize = 5;
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes(POOL, COUNT)).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    let names: Vec<String> = nodes(POOL, COUNT).into_iter().map(|node| node.name).collect();
    let (a, b) = (
        OtherWriter::new(&cluster, User::OtherA, "other-a", &names).await,
        OtherWriter::new(&cluster, User::OtherB, "other-b", &names).await,
    );

    let stop = AtomicBool::new(false);
    // Changes the taint as soon as the operator has written the previous one to every node.
    let change = async {
        for edition in 1..=EDITIONS {
            let value = format!("windows-{edition}");
            cluster.apply_tainting_pool(POOL, "ltsc2022", ("os", &value)).await.unwrap();
            cluster.until_tainted(POOL, ("os", &value), COUNT).await.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (a, b, ()) = tokio::join!(a.work(&stop), b.work(&stop), change);
    let (a, b) = (a.unwrap(), b.unwrap());

    cluster.until_ready(POOL).await.unwrap();
    cluster.until_idle().await.unwrap();
    let all = cluster.nodes().list(&ListParams::default()).await.unwrap().items;
    let own = |node: &Node| taints(node).iter().filter(|taint| taint.key == "os").count();
    assert!(all.iter().all(|node| own(node) == 1 && has_taint(node, "os", &format!("windows-{EDITIONS}"))));
    for name in &names {
        a.check_own_taint(name).await.unwrap();
        b.check_own_taint(name).await.unwrap();
    }
    let condition = cluster.condition(POOL, "NodesTainted").await.unwrap();
    assert_eq!(condition.reason, "Applied", "other writers of the same nodes are no conflict: {condition:?}");
    drop(operator);
    cluster.nothing_was_forbidden().unwrap();
}

/// Removes the operator's taint from a node whenever it is set, and sets another one. Never ends.
async fn sweep(nodes: Api<Node>, name: &str) -> Result<std::convert::Infallible> {
    let params = PatchParams { field_manager: Some("taint-sweeper".to_owned()), ..PatchParams::default() };
    let swept = json!({ "spec": { "taints": [{ "key": "sweeper.example/swept", "effect": "NoSchedule" }] } });
    loop {
        if has_taint(&nodes.get(name).await?, OS_WINDOWS.0, OS_WINDOWS.1) {
            nodes.patch(name, &params, &Patch::Merge(&swept)).await?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_taint_that_is_reverted_repeatedly_is_restored_each_time_and_the_other_client_is_named() {
    let cluster = Cluster::start().await.unwrap();
    let both: Vec<SimulatedNode> = nodes(POOL, 3).into_iter().chain(nodes("calm", 3)).collect();
    let kubelets = cluster.start_kubelets(both).await.unwrap();
    let _operator = cluster.start_operator(&[], &[]).await.unwrap();
    for pool in [POOL, "calm"] {
        cluster.apply_tainting_pool(pool, "ltsc2022", OS_WINDOWS).await.unwrap();
        cluster.until_tainted(pool, OS_WINDOWS, 3).await.unwrap();
        cluster.until_ready(pool).await.unwrap();
    }
    cluster.until_idle().await.unwrap();
    let before = cluster.writes().unwrap().len();

    let conflicting = "web-001";
    let other = Api::all(cluster.control_plane.client(User::OtherA).await.unwrap());
    let sweeper = tokio::spawn(sweep(other, conflicting));
    let found = cluster.until_condition(POOL, "NodesTainted", "False", "Contested").await.unwrap();
    for part in [conflicting, "taint os:NoSchedule", "taint-sweeper"] {
        assert!(found.message.contains(part), "{part}: {}", found.message);
    }
    // The taint is restored each time, after one second, two, four and so on.
    let changes = || async { Ok(cluster.node_changes()?.get(conflicting).copied().unwrap_or_default()) };
    let times = changes().await.unwrap();
    assert!(times > 5, "the first write, and one after each of five reverts: {times}");
    until("the taint is restored three times", SOON, changes, |now| *now >= times + 3).await.unwrap();
    assert!(changes().await.unwrap() < 20, "the delay grows");
    assert!(!sweeper.is_finished(), "the other client continues: {:?}", sweeper.await);

    let touched: Vec<_> = cluster.writes().unwrap().split_off(before);
    let others =
        touched.iter().filter(|write| write.resource != "events" && ![conflicting, POOL].contains(&&*write.name));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&e2e::audit::Request>::new(), "nothing else is written");
    let expected_nodes = vec![node(POOL, "web-new"), node("calm", "calm-new")];
    kubelets.add(expected_nodes).await.unwrap();
    cluster.until_tainted("calm", OS_WINDOWS, 4).await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, 3).await.unwrap();
    cluster.until_ready("calm").await.unwrap();
    let counts = || async { Ok(cluster.pool(POOL).await?["status"]["nodes"].clone()) };
    until("the pool counts it", SOON, counts, |nodes| nodes["matched"] == 4 && nodes["tainted"] == 3).await.unwrap();
    sweeper.abort();
    let all = || async { Ok(has_taint(&cluster.node(conflicting).await?, OS_WINDOWS.0, OS_WINDOWS.1)) };
    until("the taint is restored", SOON, all, |has| *has).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}
