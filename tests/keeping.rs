//! What a pool keeps and what it leaves to others: configurations that no node should run any more, and RuntimeClasses
//! that somebody changes back again and again. On a model of the API server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod model;

use std::sync::Arc;

use jiff::SignedDuration;
use model::{CLASS, CONFIG, NODE, POOL, PROFILE, World, node, pool, profile, taints};
use serde_json::{Value, json};
use winpool::{
    api::RuntimeClassState,
    domain::{
        operation::{Done, Operation, Unwritten},
        pool::{
            Snapshot,
            plan::plan,
            status::{Report, report},
        },
        revert::RevertDetector,
    },
};

const CLASS_NAME: &str = "windows-ltsc2022";

/// A pool `web` with one node `win-1` and a profile `standard`.
fn world() -> World {
    let mut world = World::new();
    world.put(PROFILE, "standard", profile(json!({})));
    world.put(NODE, "win-1", node(20348, "containerd://2.1.4", &json!({"agentpool": "web"}), &json!([])));
    let spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": {"matchLabels": {"agentpool": "web"}},
        "profileRef": {"name": "standard"},
    });
    world.put(POOL, "web", pool(spec));
    world
}

/// Has the nodes run with so many pods at most, and gives the configuration that this makes.
fn configured(world: &mut World, max_pods: u32) -> String {
    world.edit(PROFILE, "standard", |profile| profile["spec"]["kubelet"] = json!({"maxPods": max_pods}));
    world.settle();
    named(world, "win-1")
}

/// The configuration that a node should run.
fn named(world: &World, node: &str) -> String {
    let annotations = &world.get(NODE, node).unwrap()["metadata"]["annotations"];
    annotations["winpool.dev/config"].as_str().unwrap().to_owned()
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}

#[test]
fn at_most_three_unused_configurations_are_kept_and_they_are_the_youngest() {
    let mut world = world();
    let mut made = Vec::new();
    for max_pods in 101..=106 {
        made.push(configured(&mut world, max_pods));
        let kept = made.len().saturating_sub(4);
        assert_eq!(world.names(CONFIG), sorted(&made[kept..]), "after {} configurations", made.len());
    }
}

#[test]
fn a_configuration_that_was_kept_is_gone_back_to_and_is_not_made_anew() {
    let mut world = world();
    let made: Vec<String> = (101..=104).map(|max_pods| configured(&mut world, max_pods)).collect();
    let before: Vec<Value> = world.all(CONFIG).cloned().collect();
    assert_eq!(before.len(), 4);
    assert_eq!(configured(&mut world, 101), made[0]);
    assert_eq!(world.all(CONFIG).cloned().collect::<Vec<_>>(), before);
}

#[test]
fn a_configuration_that_a_node_still_names_is_kept_however_old_it_is() {
    let mut world = world();
    let oldest = configured(&mut world, 101);
    // A node that has left the pool, and that nobody may write.
    world.put(NODE, "win-2", node(20348, "containerd://2.1.4", &json!({}), &json!([])));
    world.edit(NODE, "win-2", |node| node["metadata"]["annotations"]["winpool.dev/config"] = json!(oldest));
    let made: Vec<String> = (102..=107).map(|max_pods| configured(&mut world, max_pods)).collect();
    let mut expected = made[2..].to_vec();
    expected.push(oldest.clone());
    assert_eq!(world.names(CONFIG), sorted(&expected));

    world.edit(NODE, "win-2", |node| {
        node["metadata"]["annotations"].as_object_mut().unwrap().remove("winpool.dev/config");
    });
    world.settle();
    assert_eq!(world.names(CONFIG), sorted(&made[2..]));
}

#[test]
fn the_configurations_of_another_pool_do_not_count() {
    let mut world = world();
    let of_batch =
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "winpool", "winpool.dev/pool": "batch"}}});
    for number in 1..=5 {
        world.put(CONFIG, &format!("batch-{number}"), of_batch.clone());
    }
    let made: Vec<String> = (101..=105).map(|max_pods| configured(&mut world, max_pods)).collect();
    let expected = (1..=5).map(|number| format!("batch-{number}")).chain(sorted(&made[1..])).collect::<Vec<_>>();
    assert_eq!(world.names(CONFIG), expected);
}

/// The operator in a war: it remembers its writes, as its caches do.
struct War {
    world: World,
    reverts: RevertDetector,
}

impl War {
    fn snapshot(&self) -> Snapshot {
        Snapshot { reverts: Arc::new(self.reverts.clone()), ..self.world.snapshot() }
    }

    /// A pass over the pool; what came of it, and how often it wrote the class.
    fn pass(&mut self) -> (Report, usize) {
        let snapshot = self.snapshot();
        let plan = plan(&snapshot, "web").unwrap();
        let mut done = Done { results: Vec::new(), complete: true };
        for operation in plan.steps.iter().flatten() {
            let outcome = self.world.run_after(operation, &Unwritten::default());
            self.reverts.note(&operation.identity(), &operation.writes(&outcome), self.world.now);
            done.results.push((operation.clone(), outcome));
        }
        let report = report(&snapshot, &plan, &done);
        if let Some(body) = &report.body {
            self.world.write_status(POOL, "web", body);
        }
        let of_class = |operation: &&Operation| operation.object() == CLASS_NAME;
        let writes = plan.steps.iter().flatten().filter(of_class).count();
        (report, writes)
    }

    /// Reconciles the deleted pool until it is gone.
    fn clean_up(&mut self) {
        while self.world.get(POOL, "web").is_some() {
            let plan = plan(&self.snapshot(), "web").unwrap();
            for operation in plan.steps.iter().flatten() {
                let outcome = self.world.run_after(operation, &Unwritten::default());
                self.reverts.note(&operation.identity(), &operation.writes(&outcome), self.world.now);
            }
        }
    }

    /// Somebody takes the tolerations off the class.
    fn undo(&mut self) {
        self.world.now += SignedDuration::from_secs(30);
        self.world.edit(CLASS, CLASS_NAME, |class| {
            class["scheduling"]["tolerations"] = json!([]);
            class["metadata"]["managedFields"] =
                json!([{"manager": "their-controller", "time": "2026-06-01T12:00:00Z"}]);
        });
    }

    fn tolerates(&self) -> bool {
        let class = self.world.get(CLASS, CLASS_NAME).unwrap();
        class["scheduling"]["tolerations"].as_array().is_some_and(|tolerations| !tolerations.is_empty())
    }
}

fn ready(report: &Report) -> (String, String, String) {
    let found = report.status.conditions.iter().find(|condition| condition.type_ == "RuntimeClassReady").unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn a_class_that_is_reverted_again_and_again_is_left_alone_for_ten_minutes() {
    let mut war = War { world: world(), reverts: RevertDetector::default() };
    assert_eq!(war.pass().1, 1, "it is made");
    for reversal in 1..=6 {
        war.undo();
        let (report, writes) = war.pass();
        assert_eq!((writes, war.tolerates()), (1, true), "reversal {reversal} is repaired");
        assert_eq!(ready(&report).1, "Applied");
    }

    war.undo();
    let (report, writes) = war.pass();
    assert_eq!((writes, war.tolerates()), (0, false), "it is left as it is");
    let (status, reason, message) = ready(&report);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Contested"));
    assert!(message.contains("RuntimeClass windows-ltsc2022: their-controller keeps undoing"), "{message}");
    assert!(message.contains("no toleration for os=windows:NoSchedule"), "{message}");
    assert!(message.contains("make one of the two stop"), "{message}");
    let states: Vec<_> = report.status.runtime_classes.iter().map(|class| (class.name.as_str(), class.state)).collect();
    assert_eq!(states, [(CLASS_NAME, RuntimeClassState::Contested)]);
    assert!(report.again.is_some(), "it is looked at again without an event");

    // The nodes are none of this war's.
    war.world.edit(NODE, "win-1", |node| node["spec"]["taints"] = json!([]));
    assert_eq!(war.pass().1, 0);
    assert_eq!(taints(war.world.get(NODE, "win-1").unwrap()), ["os=windows:NoSchedule"]);

    war.world.now += SignedDuration::from_mins(10);
    let (report, writes) = war.pass();
    assert_eq!((writes, war.tolerates()), (1, true), "after ten minutes it is tried again");
    assert_eq!(ready(&report).1, "Applied");
}

#[test]
fn another_wish_for_a_contested_class_is_written_at_once() {
    let mut war = War { world: world(), reverts: RevertDetector::default() };
    war.pass();
    for _ in 0..7 {
        war.undo();
        war.pass();
    }
    assert!(!war.tolerates());
    war.world.edit(POOL, "web", |pool| {
        pool["spec"]["taints"] = json!([{"key": "team", "value": "web", "effect": "NoSchedule"}]);
    });
    let (report, _) = war.pass();
    assert!(war.tolerates(), "the war was about another value");
    assert_eq!(ready(&report).1, "Applied");
}

#[test]
fn a_class_whose_tolerations_another_client_replaces_by_its_own_is_contested_too() {
    let mut war = War { world: world(), reverts: RevertDetector::default() };
    war.pass();
    let mut writes = 0;
    for _ in 0..12 {
        war.undo();
        war.world.edit(CLASS, CLASS_NAME, |class| {
            class["scheduling"]["tolerations"] = json!([{"key": "theirs", "operator": "Exists"}]);
        });
        // First the tolerations are added, then the class is as it should be.
        writes += war.pass().1 + war.pass().1;
    }
    assert_eq!(writes, 2 * 6, "each of six reverts is repaired in two steps, and then the class is left alone");
    assert_eq!(ready(&war.pass().0).1, "Contested");
}

#[test]
fn a_new_taint_waits_for_a_class_that_is_left_alone_and_a_taint_that_was_there_does_not() {
    let mut war = War { world: world(), reverts: RevertDetector::default() };
    war.pass();
    let os = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
    // The handler of the class is another: the operator cannot change it any more.
    war.world.edit(CLASS, CLASS_NAME, |class| class["handler"] = json!("other"));
    war.world.edit(POOL, "web", |pool| {
        pool["spec"]["taints"] = json!([os, {"key": "team", "value": "web", "effect": "NoSchedule"}]);
    });
    war.world.edit(NODE, "win-1", |node| node["spec"]["taints"] = json!([]));
    let (report, _) = war.pass();
    assert_eq!(taints(war.world.get(NODE, "win-1").unwrap()), ["os=windows:NoSchedule"]);
    let found = report.status.conditions.iter().find(|condition| condition.type_ == "NodesConfigured").unwrap();
    assert_eq!((found.status.as_str(), found.reason.as_str()), ("False", "Progressing"));
    assert!(found.message.contains("win-1 (team:NoSchedule)"), "{}", found.message);
}

#[test]
fn a_pool_that_is_cleaned_up_and_created_again_is_no_contest() {
    let mut war = War { world: world(), reverts: RevertDetector::default() };
    let spec = war.world.get(POOL, "web").unwrap().clone();
    for _ in 0..8 {
        war.world.edit(POOL, "web", |pool| pool["spec"]["deletionPolicy"] = json!("Cleanup"));
        war.pass();
        war.pass();
        assert_eq!(taints(war.world.get(NODE, "win-1").unwrap()), ["os=windows:NoSchedule"]);
        war.world.delete(POOL, "web");
        war.clean_up();
        assert_eq!(taints(war.world.get(NODE, "win-1").unwrap()), Vec::<String>::new());
        war.world.put(POOL, "web", pool(spec["spec"].clone()));
    }
    let (report, _) = war.pass();
    assert_eq!(report.status.nodes.guarded, 1);
    assert_eq!(ready(&report).1, "Applied");
}
