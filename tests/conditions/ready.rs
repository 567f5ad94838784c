//! When Ready may be True though nodes are not as specified: for 30 seconds, where they were under this generation.

use jiff::SignedDuration;
use serde_json::{Value, json};
use winpool::domain::{
    operation::{Done, Operation, Outcome, Parts, Shortfall, TaintPart, Unwritten},
    pool::{plan::plan, status::report},
};

use crate::{
    model::{NODE, POOL, World, node, pool},
    status,
};

const REFUSAL: &str = "admission webhook denied the request";

/// A pool `web` with one node `win-1`, on which nothing is written yet.
fn world() -> World {
    let mut world = World::new();
    join(&mut world, "win-1");
    let spec = json!({
        "windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}}, "labels": {"team": "web"},
    });
    world.put(POOL, "web", pool(spec));
    world
}

/// The same, as it was specified for an hour.
fn ready_world() -> World {
    let mut world = world();
    world.settle();
    world.now += SignedDuration::from_hours(1);
    world.settle();
    assert_eq!(ready(&world), ("True", 1));
    world
}

fn join(world: &mut World, name: &str) {
    world.put(NODE, name, node(20348, "containerd://2.3.4", &json!({"agentpool": "web"}), &json!([])));
}

/// A new generation, which the RuntimeClass of the pool has nothing to do with.
fn change_labels(world: &mut World) {
    world.edit(POOL, "web", |pool| pool["spec"]["labels"]["team"] = json!("next"));
}

fn remove_taints(world: &mut World, node: &str) {
    world.edit(NODE, node, |node| node["spec"]["taints"] = json!([]));
}

/// One reconcile, in which the API server answers each write to a node as `answer` says; `None` carries it out.
fn reconcile(world: &mut World, answer: impl Fn() -> Option<Outcome>) {
    let snapshot = world.snapshot();
    let plan = plan(&snapshot, "web").unwrap();
    let mut done = Done { results: Vec::new(), complete: true };
    for step in &plan.steps {
        for operation in step {
            let refused = matches!(operation, Operation::PatchNode(_)).then(&answer).flatten();
            let outcome = refused.unwrap_or_else(|| world.run_after(operation, &Unwritten::default()));
            done.complete &= matches!(outcome, Outcome::Done | Outcome::Gone | Outcome::Partly { .. });
            done.results.push((operation.clone(), outcome));
        }
        if !done.complete {
            break;
        }
    }
    if let Some(body) = report(&snapshot, &plan, &done).body {
        world.write_status(POOL, "web", &body);
    }
}

/// The status of Ready, and the generation that it is about.
fn ready(world: &World) -> (&'static str, i64) {
    let ready = status(world, "web").conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap();
    let status = ["True", "False"].into_iter().find(|status| *status == ready.status).unwrap();
    (status, ready.observed_generation.unwrap())
}

/// The ways in which a write to a node can fail.
fn failures() -> [Outcome; 3] {
    let written = Parts { taints: TaintPart::None, ..Parts::ALL };
    let without_taints = Outcome::Partly { written, why: Shortfall::Refused(REFUSAL.to_owned()) };
    [Outcome::Refused(REFUSAL.to_owned()), Outcome::Failed(REFUSAL.to_owned()), without_taints]
}

#[test]
fn a_generation_whose_nodes_were_never_written_is_never_ready() {
    for failure in failures() {
        for (mut world, generation) in [(world(), 1), (ready_world(), 2)] {
            if generation == 2 {
                change_labels(&mut world);
            }
            for seconds in [0, 1, 5, 29, 31, 3600] {
                world.now += SignedDuration::from_secs(seconds);
                reconcile(&mut world, || Some(failure.clone()));
                assert_eq!(ready(&world), ("False", generation), "{failure:?} after {seconds} s more");
            }
            reconcile(&mut world, || None);
            assert_eq!(ready(&world), ("True", generation), "the cause is gone");
        }
    }
}

#[test]
fn a_node_that_was_as_specified_may_be_wrong_for_thirty_seconds() {
    for failure in failures() {
        let mut world = ready_world();
        remove_taints(&mut world, "win-1");
        for (seconds, expected) in [(0, "True"), (29, "True"), (1, "False"), (3600, "False")] {
            world.now += SignedDuration::from_secs(seconds);
            reconcile(&mut world, || Some(failure.clone()));
            assert_eq!(ready(&world), (expected, 1), "{failure:?} after {seconds} s more");
        }
        reconcile(&mut world, || None);
        assert_eq!(ready(&world), ("True", 1));
        // Ready was True again, and so patience begins anew.
        remove_taints(&mut world, "win-1");
        reconcile(&mut world, || Some(failure.clone()));
        assert_eq!(ready(&world), ("True", 1));
    }
}

#[test]
fn patience_that_began_under_one_generation_ends_with_the_next() {
    let mut world = ready_world();
    remove_taints(&mut world, "win-1");
    reconcile(&mut world, || Some(Outcome::Failed(REFUSAL.to_owned())));
    assert_eq!(ready(&world), ("True", 1));
    change_labels(&mut world);
    reconcile(&mut world, || Some(Outcome::Failed(REFUSAL.to_owned())));
    assert_eq!(ready(&world), ("False", 2));
}

#[test]
fn a_node_that_joins_and_cannot_be_written_counts_at_once() {
    for failure in failures() {
        let mut world = ready_world();
        join(&mut world, "win-2");
        reconcile(&mut world, || Some(failure.clone()));
        assert_eq!(ready(&world), ("False", 1), "{failure:?}");
    }
}

#[test]
fn a_node_that_joins_and_is_written_leaves_the_pool_ready() {
    let mut world = ready_world();
    join(&mut world, "win-2");
    reconcile(&mut world, || None);
    assert_eq!(ready(&world), ("True", 1));
}

#[test]
fn a_conflict_among_pools_is_waited_for_under_the_generation_that_was_ready() {
    let mut world = ready_world();
    let late = json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"kubernetes.io/arch": "amd64"}}});
    world.put(POOL, "late", pool(late));
    reconcile(&mut world, || None);
    assert_eq!(ready(&world), ("True", 1));
    world.now += SignedDuration::from_secs(30);
    reconcile(&mut world, || None);
    assert_eq!(ready(&world), ("False", 1));
    let told: Value = json!(status(&world, "web").conditions);
    assert_eq!(told[0]["reason"], "NodeConflict");
}
