//! Properties of the planner, for any pools and nodes: plans are run against a model of the API server.

mod adoption;
mod health;
mod membership;
mod relevance;
mod reverts;

use std::collections::BTreeMap;

use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use winpool_core::{kind::Kind, node::WindowsNode};
use winpool_rules::{
    operation::{Done, Outcome, Steps, Unwritten, Verb, Write, WriteTarget},
    pool::{
        Snapshot,
        plan::{Plan, plan},
    },
    status::pool::report,
};

use winpool_model::{CLASS, CONFIG, Model, NODE, POOL, PROFILE, cases, node, pool, profile, taints};

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
        Just(json!({"matchLabels": {"group": "none"}})),
    ]
}

fn any_spec() -> impl Strategy<Value = Value> {
    let version = select(vec!["ltsc2019", "ltsc2022", "ltsc2025"]);
    let class = (select(vec!["shared", "own"]), select(vec!["Build", "Pool", "Compatible"]));
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
    fn any_model()(specs in prop::collection::vec(any_spec(), 1..=3), nodes in prop::collection::vec(any_node(), 0..=5)) -> Model {
        let mut model = Model::new();
        model.put(PROFILE, "standard", profile(json!({})));
        for (index, object) in nodes.into_iter().enumerate() {
            model.put(NODE, &format!("win-{index}"), object);
        }
        for (index, spec) in specs.into_iter().enumerate() {
            model.put(POOL, &format!("pool-{index}"), pool(spec));
        }
        model
    }
}

/// Writes that the API server rejects: all or some of those to other objects than nodes.
fn any_refusal() -> impl Strategy<Value = fn(&Write) -> bool> {
    let refusals: [fn(&Write) -> bool; 4] = [
        |write| write.object.kind == Kind::CONFIG_MAP,
        |write| write.object.kind == Kind::RUNTIME_CLASS,
        |write| write.object.kind == Kind::POOL && write.verb == Verb::Merge,
        |write| write.object.kind != Kind::NODE,
    ];
    select(refusals.to_vec())
}

/// The fields of other owners on a node: all except the annotations, labels and taints of winpool.
fn foreign(node: &Value) -> Value {
    let own = ["winpool.dev/pool", "team", "node.kubernetes.io/windows-build"];
    let labels: Vec<_> = node["metadata"]["labels"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| !own.contains(&key.as_str()) && !key.starts_with("runs.winpool.dev/"))
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

/// A change by an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Taints,
    Labels,
    Deletion,
}

/// The same snapshot with other names of the nodes.
fn with_names(snapshot: &Snapshot, names: &BTreeMap<String, String>) -> Snapshot {
    let renamed = snapshot.nodes.values().map(|node| {
        let name = names[&node.name].clone();
        WindowsNode { name, ..node.as_ref().clone() }
    });
    Snapshot { nodes: renamed.collect(), ..snapshot.clone() }
}

/// The steps of a plan with the nodes renamed; the operations of one step are independent of each other.
fn in_any_order(steps: &Steps, rename: impl Fn(&str) -> String) -> Vec<Vec<String>> {
    let text = |write: &Write| {
        let name = if write.node_edit().is_some() { rename(&write.object.name) } else { write.object.name.clone() };
        format!("{:?}", Write { object: WriteTarget { name, ..write.object.clone() }, ..write.clone() })
    };
    let sorted = |step: &[Write]| {
        let mut texts: Vec<String> = step.iter().map(text).collect();
        texts.sort();
        texts
    };
    steps.iter().map(sorted).collect()
}

/// The status of a pool after its plan has been run, without messages, because they contain names of nodes.
fn status_without_names(snapshot: &Snapshot, plan: &Plan) -> Value {
    let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), Outcome::Done)).collect();
    let done = Done { results, complete: true };
    let mut status = json!(report(snapshot, &plan.clone().with_outcomes(&done), &done).status);
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition["message"].take();
    }
    status["pending"]["first"].take();
    status
}

/// Whether `large` contains the items of `small` in the same order.
fn in_order(small: &Value, large: &Value) -> bool {
    let mut rest = large.as_array().unwrap().iter();
    small.as_array().unwrap().iter().all(|expected| rest.any(|taint| taint == expected))
}

proptest! {
    #![proptest_config(cases(48))]

    /// After the plans have been run, nothing is left to do.
    #[test]
    fn plans_converge(mut model in any_model()) {
        model.converge();
        for pool in model.names(POOL) {
            prop_assert_eq!(plan(&model.snapshot(), &pool).unwrap().steps, Steps::default());
        }
    }

    /// If a reconcile is interrupted after any operation, the next ones give the same state.
    #[test]
    fn an_interrupted_reconcile_leads_to_the_same_state(model in any_model(), cut in 0usize..12, again in 0usize..6) {
        let mut whole = model.clone();
        whole.converge();
        let mut broken = model;
        for limit in [cut, again] {
            for pool in broken.names(POOL) {
                broken.reconcile_until(&pool, limit, |_| {});
            }
        }
        broken.converge();
        for (kind, name) in [NODE, CLASS, CONFIG].into_iter().flat_map(|kind| whole.names(kind).into_iter().map(move |name| (kind, name))) {
            let strip = |model: &Model| {
                let mut object = model.get(kind, &name).cloned().unwrap_or_default();
                for changing in ["resourceVersion", "uid", "creationTimestamp", "generation"] {
                    object["metadata"].as_object_mut().map(|metadata| metadata.remove(changing));
                }
                object
            };
            prop_assert_eq!(strip(&broken), strip(&whole));
        }
    }

    /// If writes to other objects than nodes fail, every taint is added that no RuntimeClass must tolerate first. When
    /// all writes succeed again, the state is the same as without failures.
    #[test]
    fn a_failed_write_delays_only_what_depends_on_it(model in any_model(), refuses in any_refusal()) {
        let mut whole = model.clone();
        whole.converge();
        let mut broken = model;
        broken.refuses = Some(refuses);
        let before: Vec<Vec<String>> = broken.all(NODE).map(taints).collect();
        for _ in 0..4 {
            for pool in broken.names(POOL) {
                broken.reconcile_until(&pool, usize::MAX, |_| {});
            }
        }
        // No class exists whose tolerations could be missing.
        prop_assert!(broken.names(CLASS).is_empty() || broken.names(CLASS) == whole.names(CLASS));
        for ((node, expected), before) in broken.all(NODE).zip(whole.all(NODE)).zip(before) {
            prop_assert_eq!(taints(node), taints(expected), "before: {:?}", before);
        }
        broken.refuses = None;
        broken.converge();
        for (node, expected) in broken.all(NODE).zip(whole.all(NODE)) {
            prop_assert_eq!(&node["spec"], &expected["spec"]);
            prop_assert_eq!(&node["metadata"]["labels"], &expected["metadata"]["labels"]);
            prop_assert_eq!(&node["metadata"]["annotations"], &expected["metadata"]["annotations"]);
        }
        prop_assert_eq!(broken.names(CONFIG), whole.names(CONFIG));
        prop_assert_eq!(broken.names(CLASS), whole.names(CLASS));
    }

    /// Each write is bound to what its plan has read, so that two leaders for a moment, after the Lease was deleted, lose
    /// nothing: an outdated plan changes nothing that was written since.
    #[test]
    fn the_plan_of_a_former_leader_changes_nothing_that_was_written_since(mut model in any_model(), deletes in any::<bool>()) {
        if deletes {
            model.converge();
            for pool in model.names(POOL) {
                model.set_spec(&pool, "deletionPolicy", json!("Cleanup"));
            }
            model.converge();
            model.names(POOL).iter().for_each(|pool| model.delete(POOL, pool));
        }
        let snapshot = model.snapshot();
        let outdated: Vec<Plan> = model.names(POOL).iter().filter_map(|pool| plan(&snapshot, pool)).collect();
        model.converge();
        let before: Vec<Value> = [NODE, CLASS, CONFIG, POOL].into_iter().flat_map(|kind| model.all(kind)).cloned().collect();
        let _ = model.snapshot();
        for write in outdated.iter().flat_map(|plan| plan.steps.iter().flatten()) {
            match write.verb {
                Verb::Merge | Verb::Apply | Verb::ApplyStatus => prop_assert!(write.planned_from.is_some(), "{:?}", write),
                Verb::Delete | Verb::Evict => prop_assert!(write.object.uid.is_some(), "{:?}", write),
                Verb::Create => {}
            }
            model.run_after(write, &Unwritten::default());
        }
        let after: Vec<Value> = [NODE, CLASS, CONFIG, POOL].into_iter().flat_map(|kind| model.all(kind)).cloned().collect();
        prop_assert_eq!(before, after);
    }

    /// Labels, annotations and taints of other owners are kept in their order.
    #[test]
    fn foreign_labels_annotations_and_taints_are_kept_in_order(mut model in any_model()) {
        let before: Vec<Value> = model.all(NODE).map(foreign).collect();
        model.converge();
        for (before, after) in before.iter().zip(model.all(NODE).map(foreign)) {
            prop_assert_eq!(&before["labels"], &after["labels"]);
            prop_assert_eq!(&before["annotations"], &after["annotations"]);
            prop_assert!(in_order(&before["taints"], &after["taints"]), "{} became {}", before["taints"], after["taints"]);
        }
    }

    /// Deleting all pools with Cleanup restores the nodes and deletes all managed objects.
    #[test]
    fn a_cleanup_restores_the_initial_state(mut model in any_model()) {
        for pool in model.names(POOL) {
            model.set_spec(&pool, "deletionPolicy", json!("Cleanup"));
        }
        let before = model.clone();
        model.converge();
        for pool in model.names(POOL) {
            model.delete(POOL, &pool);
        }
        model.converge();
        prop_assert_eq!(model.names(POOL), Vec::<String>::new());
        prop_assert_eq!(model.names(CLASS), Vec::<String>::new());
        prop_assert_eq!(model.names(CONFIG), Vec::<String>::new());
        for (before, after) in before.all(NODE).zip(model.all(NODE)) {
            prop_assert_eq!(&before["metadata"]["labels"], &after["metadata"]["labels"]);
            prop_assert_eq!(&before["metadata"]["annotations"], &after["metadata"]["annotations"]);
            prop_assert_eq!(taints(before), taints(after));
        }
    }

    /// An edit of selectors never removes the taint from a node, not even between two operations.
    #[test]
    fn an_edit_of_selectors_never_removes_a_taint(mut model in any_model(), selectors in prop::collection::vec(any_selector(), 3)) {
        let windows_taint = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
        for pool in model.names(POOL) {
            model.set_spec(&pool, "taints", windows_taint.clone());
        }
        model.converge();
        let is_tainted = |node: &Value| taints(node).contains(&"os=windows:NoSchedule".to_owned());
        let tainted: Vec<String> = model.all(NODE).filter(|node| is_tainted(node)).map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        for (pool, selector) in model.names(POOL).into_iter().zip(selectors) {
            model.set_spec(&pool, "nodeSelector", selector); model.set_spec(&pool, "fallback", json!(false));
        }
        model.converge_watched(|model| {
            for name in &tainted {
                assert!(is_tainted(model.get(NODE, name).unwrap()), "{name} has lost its taint");
            }
        });
    }

    /// A node always has a taint of a pool while a pool changes its taints, nodes move to another pool, or a pool is
    /// deleted with Cleanup and other pools take its nodes.
    #[test]
    fn nodes_are_tainted_in_all_intermediate_states(
        mut model in any_model(),
        change in select(vec![Change::Taints, Change::Labels, Change::Deletion]),
        groups in prop::collection::vec(select(vec!["a", "b", "c"]), 5),
    ) {
        let pool_taint = |name: &str, value: &str| json!([{"key": format!("pool-taint-{name}"), "value": value, "effect": "NoSchedule"}]);
        // A fallback pool takes the other nodes.
        model.put(POOL, "rest", pool(json!({"windowsVersion": "ltsc2022", "fallback": true})));
        for pool in model.names(POOL) {
            model.set_spec(&pool, "taints", pool_taint(&pool, "old")); model.set_spec(&pool, "deletionPolicy", json!("Cleanup"));
        }
        model.converge();
        let has_pool_taint = |node: &Value| taints(node).iter().any(|taint| taint.starts_with("pool-taint-"));
        let pool_of = |node: &Value| node["metadata"]["labels"]["winpool.dev/pool"].as_str().map(str::to_owned);
        prop_assert!(model.all(NODE).all(has_pool_taint));
        let first = model.names(POOL)[0].clone();
        let before: Vec<_> = model.all(NODE).map(pool_of).collect();
        match change {
            Change::Taints => model.names(POOL).iter().for_each(|pool| {
                model.set_spec(pool, "taints", pool_taint(pool, "new"));
            }),
            Change::Labels => model.names(NODE).iter().zip(groups).for_each(|(node, group)| {
                model.edit(NODE, node, |object| object["metadata"]["labels"]["group"] = json!(group));
            }),
            Change::Deletion => model.delete(POOL, &first),
        }
        model.converge_watched(|model| {
            for node in model.all(NODE) {
                assert!(has_pool_taint(node), "{} has no taint of a pool", node["metadata"]["name"]);
            }
        });
        // In the end each node has the taint of its pool, and no other.
        for (node, before) in model.all(NODE).zip(before) {
            let pool = pool_of(node).unwrap();
            prop_assert!(change != Change::Taints || Some(&pool) == before.as_ref());
            prop_assert!(change != Change::Deletion || pool != first);
            let value = if change == Change::Taints { "new" } else { "old" };
            let of_pools: Vec<String> = taints(node).into_iter().filter(|taint| taint.starts_with("pool-taint-")).collect();
            prop_assert_eq!(of_pools, [format!("pool-taint-{pool}={value}:NoSchedule")]);
        }
    }

    /// Nodes are sorted by name; with other names of equal nodes, operations and statuses are the same.
    #[test]
    fn the_order_of_nodes_does_not_matter(
        mut model in any_model(),
        order in Just((0..5).collect::<Vec<usize>>()).prop_shuffle(),
        operations in 0usize..12,
        selectors in prop::collection::vec(any_selector(), 3),
    ) {
        for pool in model.names(POOL) {
            model.reconcile_until(&pool, operations, |_| {});
        }
        for (pool, selector) in model.names(POOL).into_iter().zip(selectors) {
            model.set_spec(&pool, "nodeSelector", selector);
        }
        let one = model.snapshot();
        let names: BTreeMap<String, String> = one.nodes.names().enumerate().map(|(index, name)| (name.to_owned(), format!("win-{}", order[index]))).collect();
        let other = with_names(&one, &names);
        for pool in model.names(POOL) {
            let (plan_of_one, plan_of_other) = (plan(&one, &pool).unwrap(), plan(&other, &pool).unwrap());
            prop_assert_eq!(in_any_order(&plan_of_one.steps, |name| names[name].clone()), in_any_order(&plan_of_other.steps, str::to_owned));
            prop_assert_eq!(status_without_names(&one, &plan_of_one), status_without_names(&other, &plan_of_other));
        }
    }

    /// The status of a converged model is the same a few hours later.
    #[test]
    fn status_is_stable_in_time(mut model in any_model()) {
        model.converge();
        model.now += jiff::SignedDuration::from_mins(11);
        model.converge();
        let converged = model.clone();
        for hours in [1, 2, 3] {
            model.now = converged.now + jiff::SignedDuration::from_hours(hours);
            prop_assert_eq!(model.converge(), 0);
        }
    }

    /// With an invalid spec only the status is written, and nothing is released.
    #[test]
    fn an_invalid_spec_writes_only_status(mut model in any_model(), broken in select(vec!["windowsVersion", "taints", "nodeSelector"])) {
        model.converge();
        let pool = model.names(POOL)[0].clone();
        model.edit(POOL, &pool, |pool| pool["spec"][broken] = json!("nonsense"));
        let before = model.clone();
        let (plan, report) = model.reconcile_until(&pool, usize::MAX, |_| {}).unwrap();
        prop_assert!(plan.steps.is_empty());
        prop_assert_eq!(&report.status.conditions[0].reason, "Invalid");
        for kind in [NODE, CLASS, CONFIG] {
            prop_assert_eq!(before.all(kind).collect::<Vec<_>>(), model.all(kind).collect::<Vec<_>>());
        }
    }
}
