//! Properties of the adoption of existing clusters: taints are held, added, exchanged and removed in any order of events.

use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::{any_model, any_taints};
use winpool_model::{CLASS, Model, NODE, POD, POOL, cases, taints};

/// The taints that pools replace.
fn replaced() -> Value {
    json!([{"key": "os", "value": "Windows", "effect": "NoSchedule"}, {"key": "team", "value": "theirs", "effect": "NoSchedule"}])
}

/// Tolerations of pods: of none of the taints, of the former one, of both, or of everything.
fn any_tolerations() -> impl Strategy<Value = Value> {
    select(vec![
        json!([]),
        json!([{"key": "os", "value": "Windows"}]),
        json!([{"key": "os", "operator": "Exists"}, {"key": "team", "operator": "Exists"}]),
        json!([{"operator": "Exists"}]),
    ])
}

prop_compose! {
    /// Pools that replace taints of others, and pods on the nodes.
    fn any_fleet()(mut model in any_model(), own in any_taints(), pods in prop::collection::vec((0usize..5, any_tolerations()), 0..5)) -> Model {
        let default = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
        let others = own.as_array().unwrap().iter().filter(|taint| taint["key"] != "os").cloned();
        let own: Vec<Value> = others.chain([default]).collect();
        for pool in model.names(POOL) {
            model.set_spec(&pool, "taints", json!(own)); model.set_spec(&pool, "replacesTaints", replaced());
        }
        for (index, (node, tolerations)) in pods.into_iter().enumerate() {
            model.put(POD, &format!("pod-{index}"), windows_pod(node, &tolerations));
        }
        model
    }
}

fn windows_pod(node: usize, tolerations: &Value) -> Value {
    json!({
        "metadata": {"namespace": "shop"},
        "spec": {
            "nodeName": format!("win-{node}"), "nodeSelector": {"kubernetes.io/os": "windows"},
            "tolerations": tolerations, "containers": [],
        },
    })
}

/// The nodes with one of the taints that keep Linux pods off.
fn protected(model: &Model) -> Vec<String> {
    let is_protected = |node: &&Value| taints(node).iter().any(|taint| taint.starts_with("os="));
    model.all(NODE).filter(is_protected).map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

proptest! {
    #![proptest_config(cases(48))]

    /// After every write, the nodes that had such a taint have one.
    #[test]
    fn a_protected_node_stays_protected(mut model in any_fleet()) {
        let before = protected(&model);
        model.converge_watched(|model| {
            let now = protected(model);
            assert!(before.iter().all(|node| now.contains(node)), "{before:?} became {now:?}");
        });
    }

    /// A taint is not added to a node of a pool while a pod on any node of the pool does not tolerate it.
    #[test]
    fn a_new_taint_is_added_only_when_all_pods_of_the_pool_tolerate_it(mut model in any_fleet()) {
        let had: Vec<Vec<String>> = model.all(NODE).map(taints).collect();
        model.converge();
        let snapshot = model.snapshot();
        let membership = snapshot.membership();
        let pools: Vec<Option<&str>> = model.names(NODE).iter().map(|name| {
            membership.assigner().assign(snapshot.nodes.get(name).unwrap()).pool
        }).collect();
        let tolerates = |pod: &Value, taint: &str| {
            let key = taint.split(['=', ':']).next().unwrap();
            let value = taint.split_once('=').map_or("", |(_, rest)| rest.split(':').next().unwrap());
            pod["spec"]["tolerations"].as_array().unwrap().iter().any(|toleration| match toleration.get("key") {
                None => true,
                Some(own) if toleration["operator"] == "Exists" => own == key,
                Some(own) => own == key && toleration["value"] == value,
            })
        };
        for ((node, had), pool) in model.all(NODE).zip(&had).zip(&pools) {
            for taint in taints(node).iter().filter(|taint| !had.contains(taint) && !taint.ends_with("PreferNoSchedule")) {
                for pod in model.all(POD) {
                    let on = model.names(NODE).iter().position(|name| pod["spec"]["nodeName"] == name.as_str());
                    let same_pool = on.is_some_and(|on| pools[on] == *pool);
                    prop_assert!(!same_pool || tolerates(pod, taint), "{taint} was added in spite of {pod}");
                }
            }
        }
    }

    /// The pods are corrected at some time, and the operator is interrupted at any time: the state is the same as if the
    /// pods had been correct, and nothing is left to do.
    #[test]
    fn holding_extending_and_exchanging_converge_after_any_cut(model in any_fleet(), cut in 0usize..12, again in 0usize..6) {
        let correct = |model: &mut Model| {
            for pod in model.names(POD) {
                model.edit(POD, &pod, |pod| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]));
            }
        };
        let (mut whole, mut broken) = (model.clone(), model);
        correct(&mut whole);
        whole.converge();
        for (step, limit) in [cut, again].into_iter().enumerate() {
            if step == 1 {
                correct(&mut broken);
            }
            for pool in broken.names(POOL) {
                broken.reconcile_until(&pool, limit, |_| {});
            }
        }
        correct(&mut broken);
        broken.converge();
        // The order of taints depends on the order in which they could be added.
        let sorted = |model: &Model| model.all(NODE).map(|node| {
            let mut taints = taints(node);
            taints.sort();
            (taints, node["metadata"]["labels"].clone())
        }).collect::<Vec<_>>();
        prop_assert_eq!(sorted(&broken), sorted(&whole));
        let scheduling = |model: &Model| model.all(CLASS).map(|class| class["scheduling"].clone()).collect::<Vec<_>>();
        prop_assert_eq!(scheduling(&broken), scheduling(&whole));
        prop_assert_eq!(broken.converge(), 0);
    }
}
