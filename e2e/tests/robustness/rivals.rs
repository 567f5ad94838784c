//! Other programs that write to the same nodes.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use e2e::{
    control_plane::User,
    kubelet::{Kubelets, SimulatedNode},
    operator::Operator,
    wait::until,
    world::{SOON, World, has_taint, taints},
};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{OS_WINDOWS, node, nodes};

const POOL: &str = "web";

/// A program that adds and removes a taint of its own, as it should be done: with an optimistic lock, and nothing else
/// of the node touched.
struct Rival {
    nodes: Api<Node>,
    manager: &'static str,
    taint: Taint,
    /// Which nodes have the taint, as far as the API server has told the rival.
    has: BTreeMap<String, bool>,
    writes: usize,
}

impl Rival {
    async fn new(world: &World, user: User, manager: &'static str, names: &[String]) -> Self {
        let taint =
            Taint { key: format!("{manager}.example/busy"), effect: "NoSchedule".to_owned(), ..Taint::default() };
        let nodes = Api::all(world.control_plane.client(user).await.unwrap());
        let has = names.iter().map(|name| (name.clone(), false)).collect();
        Self { nodes, manager, taint, has, writes: 0 }
    }

    /// Twenty writes a second for `period`, over all nodes in turn.
    async fn work(mut self, period: Duration) -> Result<Self> {
        let mut ticks = interval(Duration::from_millis(50));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let end = Instant::now() + period;
        let names: Vec<String> = self.has.keys().cloned().collect();
        for name in names.iter().cycle() {
            ticks.tick().await;
            if Instant::now() > end {
                break;
            }
            self.toggle(name).await?;
        }
        Ok(self)
    }

    /// Adds the taint or removes it, and looks whether that is still so afterwards.
    async fn toggle(&mut self, name: &str) -> Result<()> {
        loop {
            let node = self.survives(name).await?;
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
            return self.survives(name).await.map(drop);
        }
    }

    /// The node, if the rival's last word on it still stands.
    async fn survives(&self, name: &str) -> Result<Node> {
        let node = self.nodes.get(name).await?;
        let has = has_taint(&node, &self.taint.key, "");
        ensure!(has == self.has[name], "{}: {name} should have its taint: {}: {node:#?}", self.manager, self.has[name]);
        Ok(node)
    }
}

#[tokio::test]
async fn two_writers_at_twenty_a_second_lose_nothing_to_the_operator_and_it_gets_its_way() {
    const PERIOD: Duration = Duration::from_secs(10);
    const COUNT: usize = 20;
    let world = World::start().await.unwrap();
    let _kubelets = Kubelets::start(world.client.clone(), nodes(POOL, COUNT)).await.unwrap();
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    let names: Vec<String> = nodes(POOL, COUNT).into_iter().map(|node| node.name).collect();
    let (a, b) = (
        Rival::new(&world, User::RivalA, "rival-a", &names).await,
        Rival::new(&world, User::RivalB, "rival-b", &names).await,
    );

    // A new taint as soon as the operator has brought the one before to every node.
    let change = async {
        let end = Instant::now() + PERIOD;
        let mut edition = 0;
        while Instant::now() < end {
            edition += 1;
            let value = format!("windows-{edition}");
            world.apply_pool(POOL, "ltsc2022", ("os", &value)).await?;
            world.until_guarded(POOL, ("os", &value), COUNT).await?;
        }
        anyhow::Ok(edition)
    };
    let (a, b, editions) = tokio::join!(a.work(PERIOD), b.work(PERIOD), change);
    let (a, b, editions) = (a.unwrap(), b.unwrap(), editions.unwrap());
    for rival in [&a, &b] {
        assert!(rival.writes >= 100, "{} wrote only {} times", rival.manager, rival.writes);
    }
    assert!(editions >= 3, "the operator wrote all nodes only {editions} times in the meantime");

    world.until_as_specified(POOL).await.unwrap();
    world.until_quiet().await.unwrap();
    let all = world.nodes().list(&ListParams::default()).await.unwrap().items;
    let own = |node: &Node| taints(node).iter().filter(|taint| taint.key == "os").count();
    assert!(all.iter().all(|node| own(node) == 1 && has_taint(node, "os", &format!("windows-{editions}"))));
    for name in &names {
        a.survives(name).await.unwrap();
        b.survives(name).await.unwrap();
    }
    let condition = world.condition(POOL, "NodesConfigured").await.unwrap();
    assert_eq!(condition.reason, "Applied", "neighbours are no war: {condition:?}");
    drop(operator);
    world.nothing_was_forbidden().unwrap();
}

/// Takes the operator's taint off a node whenever it is there, and leaves a taint of its own. Never ends.
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
async fn a_taint_that_is_reverted_again_and_again_is_never_given_up_and_the_other_client_is_named() {
    let world = World::start().await.unwrap();
    let both: Vec<SimulatedNode> = nodes(POOL, 3).into_iter().chain(nodes("calm", 3)).collect();
    let kubelets = Kubelets::start(world.client.clone(), both).await.unwrap();
    let _operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    for pool in [POOL, "calm"] {
        world.apply_pool(pool, "ltsc2022", OS_WINDOWS).await.unwrap();
        world.until_guarded(pool, OS_WINDOWS, 3).await.unwrap();
        world.until_as_specified(pool).await.unwrap();
    }
    world.until_quiet().await.unwrap();
    let before = world.writes().unwrap().len();

    let contested = "web-001";
    let rival = Api::all(world.control_plane.client(User::RivalA).await.unwrap());
    let war = tokio::spawn(sweep(rival, contested));
    let told = world.until_condition(POOL, "NodesConfigured", "False", "Contested").await.unwrap();
    for part in [contested, "taint os:NoSchedule", "taint-sweeper"] {
        assert!(told.message.contains(part), "{part}: {}", told.message);
    }
    // It is set again each time, after a second, two, four and so on.
    let changes = || async { Ok(world.node_changes()?.get(contested).copied().unwrap_or_default()) };
    let times = changes().await.unwrap();
    assert!(times > 5, "the first write, and one after each of five reverts: {times}");
    until("it is set again", SOON, changes, |now| *now >= times + 3).await.unwrap();
    assert!(changes().await.unwrap() < 20, "the delay grows");
    assert!(!war.is_finished(), "the other client goes on: {:?}", war.await);

    let touched: Vec<_> = world.writes().unwrap().split_off(before);
    let others =
        touched.iter().filter(|write| write.resource != "events" && ![contested, POOL].contains(&&*write.name));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&e2e::audit::Request>::new(), "nothing else is written");
    let newcomers = vec![node(POOL, "web-new"), node("calm", "calm-new")];
    kubelets.add(newcomers).await.unwrap();
    world.until_guarded("calm", OS_WINDOWS, 4).await.unwrap();
    world.until_guarded(POOL, OS_WINDOWS, 3).await.unwrap();
    world.until_as_specified("calm").await.unwrap();
    let guarded = || async { Ok(world.pool(POOL).await?["status"]["nodes"].clone()) };
    until("the pool counts it", SOON, guarded, |nodes| nodes["matched"] == 4 && nodes["guarded"] == 3).await.unwrap();
    war.abort();
    let all = || async { Ok(has_taint(&world.nodes().get(contested).await?, OS_WINDOWS.0, OS_WINDOWS.1)) };
    until("the taint is back for good", SOON, all, |has| *has).await.unwrap();
    world.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_node_that_is_made_again_and_a_value_that_the_pool_changes_are_no_contest() {
    let world = World::start().await.unwrap();
    let kubelets = Kubelets::start(world.client.clone(), nodes(POOL, 1)).await.unwrap();
    let _operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.apply_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    for _ in 0..8 {
        world.until_guarded(POOL, OS_WINDOWS, 1).await.unwrap();
        world.nodes().delete("web-000", &DeleteParams::default()).await.unwrap();
        kubelets.add(nodes(POOL, 1)).await.unwrap();
    }
    for edit in 0..14 {
        let taint = if edit % 2 == 0 { ("os", "Windows") } else { OS_WINDOWS };
        world.apply_pool(POOL, "ltsc2022", taint).await.unwrap();
        world.until_guarded(POOL, taint, 1).await.unwrap();
    }
    world.until_as_specified(POOL).await.unwrap();
    world.until_quiet().await.unwrap();
    assert_eq!(world.condition(POOL, "NodesConfigured").await.unwrap().reason, "Applied");
}
