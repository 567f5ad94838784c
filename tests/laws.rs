//! Laws of the planner, for any pools and nodes: plans are run against a model of the API server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "laws/bounds.rs"]
mod bounds;
mod model;
#[path = "laws/relevance.rs"]
mod relevance;
#[path = "laws/reverts.rs"]
mod reverts;

use std::{collections::BTreeMap, sync::Arc};

use model::{CLASS, CONFIG, NODE, POOL, PROFILE, World, node, pool, profile, taints};
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use winpool::domain::{
    node::WindowsNode,
    operation::{Done, NodePatch, Operation, Outcome},
    pool::{
        Snapshot,
        plan::{Plan, plan},
        status::report,
    },
    revert::Target,
};

/// Taints that belong to others.
fn foreign_taints() -> impl Strategy<Value = Value> {
    let known = [
        json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}),
        json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}),
        json!({"key": "team", "value": "theirs", "effect": "NoSchedule"}),
        json!({"key": "os", "value": "windows", "effect": "NoSchedule"}),
        json!({"key": "os", "value": "Windows", "effect": "NoSchedule"}),
    ];
    prop::sample::subsequence(known.to_vec(), 0..=3).prop_map(|taints| json!(taints))
}

fn any_node() -> impl Strategy<Value = Value> {
    let labels = (select(vec!["a", "b", "c"]), any::<bool>(), any::<bool>());
    let builds = select(vec![17763, 20348, 26100]);
    let runtimes = select(vec!["containerd://1.7.27", "containerd://2.1.4", "docker://24.0", "cri-o://1.30"]);
    (labels, builds, runtimes, foreign_taints(), any::<bool>()).prop_map(
        |((group, team, marked), build, runtime, taints, old)| {
            let mut labels = json!({"group": group});
            if team {
                labels["team"] = json!(if marked { "web" } else { "other" });
            }
            if old {
                labels["node.kubernetes.io/windows-build"] = Value::Null;
            }
            node(build, runtime, &labels, &taints)
        },
    )
}

fn any_taints() -> impl Strategy<Value = Value> {
    let known = [
        json!({"key": "os", "value": "windows", "effect": "NoSchedule"}),
        json!({"key": "team", "value": "web", "effect": "NoSchedule"}),
        json!({"key": "dedicated", "effect": "PreferNoSchedule"}),
        json!({"key": "drain", "value": "now", "effect": "NoExecute"}),
    ];
    prop::sample::subsequence(known.to_vec(), 0..=3).prop_map(|taints| json!(taints))
}

fn any_selector() -> impl Strategy<Value = Value> {
    let group = select(vec!["a", "b", "c"]);
    prop_oneof![
        group.prop_map(|group| json!({"matchLabels": {"group": group}})),
        Just(json!({"matchExpressions": [{"key": "group", "operator": "In", "values": ["a", "b"]}]})),
        Just(json!({"matchExpressions": [{"key": "group", "operator": "NotIn", "values": ["a"]}]})),
        Just(json!({"matchLabels": {"group": "nobody"}})),
    ]
}

fn any_spec() -> impl Strategy<Value = Value> {
    let version = select(vec!["ltsc2019", "ltsc2022", "ltsc2025"]);
    let class = (select(vec!["shared", "own"]), select(vec!["Build", "Pool"]));
    let rest = (any::<bool>(), any::<bool>(), select(vec!["Retain", "Cleanup"]), 0..8);
    (version, any_selector(), any_taints(), class, rest).prop_map(
        |(version, selector, taints, (name, scope), (named, profiled, policy, fallback))| {
            let mut spec = json!({
                "windowsVersion": version, "taints": taints, "labels": {"team": "web"}, "deletionPolicy": policy,
            });
            match fallback {
                0 => spec["fallback"] = json!(true),
                _ => spec["nodeSelector"] = selector,
            }
            if named {
                spec["runtimeClasses"] = json!([{"name": name, "scope": scope}]);
            }
            if profiled {
                spec["profileRef"] = json!({"name": "standard"});
            }
            spec
        },
    )
}

prop_compose! {
    fn any_world()(specs in prop::collection::vec(any_spec(), 1..=3), nodes in prop::collection::vec(any_node(), 0..=5)) -> World {
        let mut world = World::new();
        world.put(PROFILE, "standard", profile(json!({})));
        for (index, object) in nodes.into_iter().enumerate() {
            world.put(NODE, &format!("win-{index}"), object);
        }
        for (index, spec) in specs.into_iter().enumerate() {
            world.put(POOL, &format!("pool-{index}"), pool(spec));
        }
        world
    }
}

/// What an API server may refuse beside the nodes: ConfigMaps, RuntimeClasses, the status.
fn any_refusal() -> impl Strategy<Value = fn(&Operation) -> bool> {
    let refusals: [fn(&Operation) -> bool; 4] = [
        |operation| operation.target() == Target::ConfigMap,
        |operation| operation.target() == Target::RuntimeClass,
        |operation| operation.target() == Target::Pool,
        |operation| operation.target() != Target::Node,
    ];
    select(refusals.to_vec())
}

/// What others own on a node: everything but our names, and what our pools may set.
fn foreign(node: &Value) -> Value {
    let ours = ["winpool.dev/pool", "team", "node.kubernetes.io/windows-build"];
    let labels: Vec<_> = node["metadata"]["labels"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| !ours.contains(&key.as_str()))
        .collect();
    let annotations: Vec<_> = node["metadata"]["annotations"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| !key.starts_with("winpool.dev/"))
        .collect();
    let taints: Vec<_> = node["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|taint| !["dedicated", "drain"].contains(&taint["key"].as_str().unwrap()))
        .collect();
    json!({"labels": labels, "annotations": annotations, "taints": taints})
}

/// What people change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Taints,
    Labels,
    Deletion,
}

/// The same world, in which the nodes have other names.
fn with_names(snapshot: &Snapshot, names: &BTreeMap<String, String>) -> Snapshot {
    let renamed = snapshot.nodes.iter().map(|(name, node)| {
        let name = names[name].clone();
        (name.clone(), Arc::new(WindowsNode { name, ..node.as_ref().clone() }))
    });
    Snapshot { nodes: renamed.collect(), ..snapshot.clone() }
}

/// The steps of a plan with the nodes renamed; the operations of one step are independent of each other.
fn in_any_order(steps: &[Vec<Operation>], rename: impl Fn(&str) -> String) -> Vec<Vec<String>> {
    let text = |operation: &Operation| match operation {
        Operation::PatchNode(patch) => {
            format!("{:?}", NodePatch { node: rename(&patch.node), ..patch.as_ref().clone() })
        }
        other => format!("{other:?}"),
    };
    let sorted = |step: &Vec<Operation>| {
        let mut texts: Vec<String> = step.iter().map(text).collect();
        texts.sort();
        texts
    };
    steps.iter().map(sorted).collect()
}

/// What a pool says once its plan has been run, but for the names in its messages.
fn said(snapshot: &Snapshot, plan: &Plan) -> Value {
    let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), Outcome::Done)).collect();
    let mut status = json!(report(snapshot, plan, &Done { results, complete: true }).status);
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition["message"].take();
    }
    status["pending"]["first"].take();
    status
}

/// Whether `small` is within `large`, in order.
fn in_order(small: &Value, large: &Value) -> bool {
    let mut rest = large.as_array().unwrap().iter();
    small.as_array().unwrap().iter().all(|wanted| rest.any(|taint| taint == wanted))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Plans are run, and then there is nothing left to do.
    #[test]
    fn plans_converge(mut world in any_world()) {
        world.settle();
        for pool in world.names(POOL) {
            prop_assert_eq!(plan(&world.snapshot(), &pool).unwrap().steps, Vec::<Vec<Operation>>::new());
        }
    }

    /// A pass may be cut off after any operation: the passes after it end where they would have ended anyway.
    #[test]
    fn a_crash_anywhere_changes_nothing_in_the_end(world in any_world(), cut in 0usize..12, again in 0usize..6) {
        let mut whole = world.clone();
        whole.settle();
        let mut broken = world;
        for limit in [cut, again] {
            for pool in broken.names(POOL) {
                broken.pass_until(&pool, limit, |_| {});
            }
        }
        broken.settle();
        for (kind, name) in [NODE, CLASS, CONFIG].into_iter().flat_map(|kind| whole.names(kind).into_iter().map(move |name| (kind, name))) {
            let strip = |world: &World| {
                let mut object = world.get(kind, &name).cloned().unwrap_or_default();
                for changing in ["resourceVersion", "uid", "creationTimestamp", "generation"] {
                    object["metadata"].as_object_mut().map(|metadata| metadata.remove(changing));
                }
                object
            };
            prop_assert_eq!(strip(&broken), strip(&whole));
        }
    }

    /// Whatever is refused beside the nodes, every taint is on that no RuntimeClass has to tolerate first; and when nothing is
    /// refused any more, the world becomes what it would have been anyway.
    #[test]
    fn a_failed_write_holds_up_what_depends_on_it_and_nothing_else(world in any_world(), refuses in any_refusal()) {
        let mut whole = world.clone();
        whole.settle();
        let mut broken = world;
        broken.refuses = Some(refuses);
        let before: Vec<Vec<String>> = broken.all(NODE).map(taints).collect();
        for _ in 0..4 {
            for pool in broken.names(POOL) {
                broken.pass_until(&pool, usize::MAX, |_| {});
            }
        }
        // No class exists whose tolerations could be missing.
        prop_assert!(broken.names(CLASS).is_empty() || broken.names(CLASS) == whole.names(CLASS));
        for ((node, expected), before) in broken.all(NODE).zip(whole.all(NODE)).zip(before) {
            prop_assert_eq!(taints(node), taints(expected), "before: {:?}", before);
        }
        broken.refuses = None;
        broken.settle();
        for (node, expected) in broken.all(NODE).zip(whole.all(NODE)) {
            prop_assert_eq!(&node["spec"], &expected["spec"]);
            prop_assert_eq!(&node["metadata"]["labels"], &expected["metadata"]["labels"]);
            prop_assert_eq!(&node["metadata"]["annotations"], &expected["metadata"]["annotations"]);
        }
        prop_assert_eq!(broken.names(CONFIG), whole.names(CONFIG));
        prop_assert_eq!(broken.names(CLASS), whole.names(CLASS));
    }

    /// What others put on a node stays, in its order.
    #[test]
    fn foreign_things_survive_in_order(mut world in any_world()) {
        let before: Vec<Value> = world.all(NODE).map(foreign).collect();
        world.settle();
        for (before, after) in before.iter().zip(world.all(NODE).map(foreign)) {
            prop_assert_eq!(&before["labels"], &after["labels"]);
            prop_assert_eq!(&before["annotations"], &after["annotations"]);
            prop_assert!(in_order(&before["taints"], &after["taints"]), "{} became {}", before["taints"], after["taints"]);
        }
    }

    /// Deleting every pool with Cleanup gives the nodes back as they were, and leaves no object of ours.
    #[test]
    fn a_clean_up_is_the_inverse(mut world in any_world()) {
        for pool in world.names(POOL) {
            world.edit(POOL, &pool, |pool| pool["spec"]["deletionPolicy"] = json!("Cleanup"));
        }
        let before = world.clone();
        world.settle();
        for pool in world.names(POOL) {
            world.delete(POOL, &pool);
        }
        world.settle();
        prop_assert_eq!(world.names(POOL), Vec::<String>::new());
        prop_assert_eq!(world.names(CLASS), Vec::<String>::new());
        prop_assert_eq!(world.names(CONFIG), Vec::<String>::new());
        for (before, after) in before.all(NODE).zip(world.all(NODE)) {
            prop_assert_eq!(&before["metadata"]["labels"], &after["metadata"]["labels"]);
            prop_assert_eq!(&before["metadata"]["annotations"], &after["metadata"]["annotations"]);
            prop_assert_eq!(taints(before), taints(after));
        }
    }

    /// No edit of selectors alone ever takes the guard off a node, not even between two operations.
    #[test]
    fn an_edit_of_a_selector_never_unguards_a_node(mut world in any_world(), selectors in prop::collection::vec(any_selector(), 3)) {
        let guard = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
        for pool in world.names(POOL) {
            world.edit(POOL, &pool, |pool| pool["spec"]["taints"] = guard.clone());
        }
        world.settle();
        let is_guarded = |node: &Value| taints(node).contains(&"os=windows:NoSchedule".to_owned());
        let guarded: Vec<String> = world.all(NODE).filter(|node| is_guarded(node)).map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        for (pool, selector) in world.names(POOL).into_iter().zip(selectors) {
            world.edit(POOL, &pool, |pool| {
                pool["spec"]["nodeSelector"] = selector;
                pool["spec"]["fallback"] = json!(false);
            });
        }
        world.settle_watched(|world| {
            for name in &guarded {
                assert!(is_guarded(world.get(NODE, name).unwrap()), "{name} lost its guard");
            }
        });
    }

    /// A pool that changes its taints, nodes whose labels now lead to another pool, and a pool that is deleted with Cleanup
    /// while others take its nodes: in no moment has a node none of the taints that the pools ask for.
    #[test]
    fn no_intermediate_state_is_unguarded(
        mut world in any_world(),
        change in select(vec![Change::Taints, Change::Labels, Change::Deletion]),
        groups in prop::collection::vec(select(vec!["a", "b", "c"]), 5),
    ) {
        let guard = |name: &str, value: &str| json!([{"key": format!("guard-{name}"), "value": value, "effect": "NoSchedule"}]);
        // Somebody takes every node, whatever becomes of the others.
        world.put(POOL, "rest", pool(json!({"windowsVersion": "ltsc2022", "fallback": true})));
        for pool in world.names(POOL) {
            world.edit(POOL, &pool, |object| {
                object["spec"]["taints"] = guard(&pool, "old");
                object["spec"]["deletionPolicy"] = json!("Cleanup");
            });
        }
        world.settle();
        let guards = |node: &Value| taints(node).iter().any(|taint| taint.starts_with("guard-"));
        let pool_of = |node: &Value| node["metadata"]["labels"]["winpool.dev/pool"].as_str().map(str::to_owned);
        prop_assert!(world.all(NODE).all(guards));
        let first = world.names(POOL)[0].clone();
        let before: Vec<_> = world.all(NODE).map(pool_of).collect();
        match change {
            Change::Taints => world.names(POOL).iter().for_each(|pool| {
                world.edit(POOL, pool, |object| object["spec"]["taints"] = guard(pool, "new"));
            }),
            Change::Labels => world.names(NODE).iter().zip(groups).for_each(|(node, group)| {
                world.edit(NODE, node, |object| object["metadata"]["labels"]["group"] = json!(group));
            }),
            Change::Deletion => world.delete(POOL, &first),
        }
        world.settle_watched(|world| {
            for node in world.all(NODE) {
                assert!(guards(node), "{} has no guard", node["metadata"]["name"]);
            }
        });
        // What was to happen has happened: the guard on each node is that of its pool as it is now, and no other.
        for (node, before) in world.all(NODE).zip(before) {
            let pool = pool_of(node).unwrap();
            prop_assert!(change != Change::Taints || Some(&pool) == before.as_ref());
            prop_assert!(change != Change::Deletion || pool != first);
            let value = if change == Change::Taints { "new" } else { "old" };
            let guards: Vec<String> = taints(node).into_iter().filter(|taint| taint.starts_with("guard-")).collect();
            prop_assert_eq!(guards, [format!("guard-{pool}={value}:NoSchedule")]);
        }
    }

    /// Nodes are known in the order of their names. With other names for the same nodes, wherever the world stands, each is
    /// written as before, and the pools say the same.
    #[test]
    fn the_order_of_nodes_does_not_matter(
        mut world in any_world(),
        order in Just((0..5).collect::<Vec<usize>>()).prop_shuffle(),
        passes in 0usize..12,
        selectors in prop::collection::vec(any_selector(), 3),
    ) {
        for pool in world.names(POOL) {
            world.pass_until(&pool, passes, |_| {});
        }
        for (pool, selector) in world.names(POOL).into_iter().zip(selectors) {
            world.edit(POOL, &pool, |pool| pool["spec"]["nodeSelector"] = selector);
        }
        let one = world.snapshot();
        let names: BTreeMap<String, String> = one.nodes.keys().enumerate().map(|(index, name)| (name.clone(), format!("win-{}", order[index]))).collect();
        let other = with_names(&one, &names);
        for pool in world.names(POOL) {
            let (plan_of_one, plan_of_other) = (plan(&one, &pool).unwrap(), plan(&other, &pool).unwrap());
            prop_assert_eq!(in_any_order(&plan_of_one.steps, |name| names[name].clone()), in_any_order(&plan_of_other.steps, str::to_owned));
            prop_assert_eq!(said(&one, &plan_of_one), said(&other, &plan_of_other));
        }
    }

    /// A settled world has nothing new to say a few hours later.
    #[test]
    fn status_is_stable_in_time(mut world in any_world()) {
        world.settle();
        world.now += jiff::SignedDuration::from_mins(5);
        world.settle();
        let settled = world.clone();
        for hours in [1, 2, 3] {
            world.now = settled.now + jiff::SignedDuration::from_hours(hours);
            prop_assert_eq!(world.settle(), 0);
        }
    }

    /// A spec with mistakes writes its status and nothing else, and lets nothing go.
    #[test]
    fn an_invalid_spec_writes_only_status(mut world in any_world(), broken in select(vec!["windowsVersion", "taints", "nodeSelector"])) {
        world.settle();
        let pool = world.names(POOL)[0].clone();
        world.edit(POOL, &pool, |pool| pool["spec"][broken] = json!("nonsense"));
        let before = world.clone();
        let (plan, report) = world.pass_until(&pool, usize::MAX, |_| {}).unwrap();
        prop_assert!(plan.steps.is_empty());
        prop_assert_eq!(&report.status.conditions[0].reason, "Invalid");
        for kind in [NODE, CLASS, CONFIG] {
            prop_assert_eq!(before.all(kind).collect::<Vec<_>>(), world.all(kind).collect::<Vec<_>>());
        }
    }
}
