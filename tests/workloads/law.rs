//! The law of the ledger: whatever happens, in whatever order, it says what a ledger says that hears of the outcome alone.

use std::sync::Arc;

use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use winpool::domain::{
    image::{Lookup, Said},
    workload::{Ground, Ledger, Trap},
};

use crate::{
    cluster::{
        CONTAINERD, Cluster, container, found, read_controller, read_pod, running, spec, tolerated, waiting, wanted,
    },
    model::{CLASS, NODE, POOL},
};

const PODS: [&str; 4] = ["app-1", "app-2", "web-5d8-x", "agent-x"];
const NODES: [&str; 5] = ["web-1", "web-2", "batch-1", "other-1", "linux-1"];
const POOLS: [&str; 3] = ["web", "batch", "other"];
const CLASSES: [&str; 3] = ["windows-ltsc2022", "windows-ltsc2019", "mine"];
const IMAGES: [&str; 4] = ["example.com/app:1", "example.com/app:ltsc2019", "example.com/other:ltsc2022", "::"];
const KINDS: [&str; 4] = ["Deployment", "StatefulSet", "DaemonSet", "Job"];
const EVENTS: [&str; 2] = ["first", "second"];

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    Pod(&'static str, Option<(Value, Value)>),
    Controller(&'static str, &'static str, Option<Value>),
    Node(&'static str, Option<(u32, &'static str, Value)>),
    /// A label of a node that the rules of no pool read.
    Label(&'static str, &'static str, Option<&'static str>),
    Pool(&'static str, Option<Value>),
    Class(&'static str, Option<Value>),
    Defaults(Option<(&'static str, &'static str)>),
    Answer(&'static str, Lookup),
    Sandbox(&'static str, &'static str, bool),
    /// The operator makes its passes.
    Settle,
}

fn selectors() -> impl Strategy<Value = Value> {
    select(vec![
        json!({}),
        json!({"kubernetes.io/os": "windows"}),
        json!({"kubernetes.io/os": "linux"}),
        json!({"kubernetes.io/os": "windows", "agentpool": "web"}),
        json!({"kubernetes.io/os": "windows", "kubernetes.io/hostname": "web-2"}),
        json!({"node.kubernetes.io/windows-build": "10.0.17763"}),
        json!({"disk": "ssd"}),
    ])
}

prop_compose! {
    fn any_spec()(
        selector in selectors(),
        tolerations in select(vec![json!([]), tolerated(), json!([{"operator": "Exists"}])]),
        class in prop::option::of(select(CLASSES.to_vec())),
        image in select(IMAGES.to_vec()),
        limit in select(vec![Some("1Gi"), Some("20Gi"), Some("9E"), None]),
        host in prop::option::weighted(0.2, select(NODES.to_vec())),
    ) -> Value {
        let mut one = container(image);
        match limit {
            Some(limit) => one["resources"]["limits"]["memory"] = json!(limit),
            None => one["resources"] = json!({}),
        }
        let mut fields = json!({"containers": [one], "nodeSelector": selector, "tolerations": tolerations, "runtimeClassName": class});
        if let Some(host) = host {
            fields["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]},
            ]}}});
        }
        spec(fields)
    }
}

prop_compose! {
    fn any_pod()(
        spec in any_spec(),
        node in prop::option::of(select(NODES.to_vec())),
        status in select(vec![json!({}), running(), waiting("no match for platform in manifest"), json!({"phase": "Failed"})]),
    ) -> (Value, Value) {
        let mut spec = spec;
        spec["nodeName"] = json!(node);
        (spec, status)
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let node = (
        select(vec![20348, 17763, 26100]),
        select(vec![CONTAINERD, "containerd://1.6.8", "docker://20.10.9"]),
        select(vec![json!([]), json!([{"key": "repair", "effect": "NoSchedule"}])]),
    );
    let pool = select(vec![
        json!({"windowsVersion": "ltsc2022"}),
        json!({"windowsVersion": "ltsc2019", "taints": []}),
        json!({"windowsVersion": "ltsc2022", "mode": "Observe"}),
        json!({"windowsVersion": "of glass"}),
    ]);
    let class = select(vec![
        json!({"kubernetes.io/os": "windows"}),
        json!({"kubernetes.io/os": "windows", "agentpool": "batch"}),
    ]);
    let lookup = select(vec![
        found(&["windows/amd64 10.0.20348.1"]),
        found(&["windows/amd64 10.0.17763.1"]),
        found(&["linux/amd64"]),
        Lookup::Failed("timed out".to_owned()),
    ]);
    prop_oneof![
        6 => (select(PODS.to_vec()), prop::option::weighted(0.8, any_pod())).prop_map(|(name, pod)| Step::Pod(name, pod)),
        3 => (select(KINDS.to_vec()), select(vec!["a", "b"]), prop::option::weighted(0.8, any_spec()))
            .prop_map(|(kind, name, spec)| Step::Controller(kind, name, spec)),
        4 => (select(NODES.to_vec()), prop::option::weighted(0.8, node)).prop_map(|(name, node)| Step::Node(name, node)),
        3 => (select(NODES.to_vec()), select(vec!["disk", "example.com/seen"]), select(vec![None, Some("ssd"), Some("hdd")]))
            .prop_map(|(name, key, value)| Step::Label(name, key, value)),
        2 => (select(POOLS.to_vec()), prop::option::weighted(0.8, pool)).prop_map(|(name, pool)| Step::Pool(name, pool)),
        1 => (select(CLASSES.to_vec()), prop::option::weighted(0.6, class)).prop_map(|(name, class)| Step::Class(name, class)),
        1 => select(vec![None, Some(("1Gi", "1Gi")), Some(("1Gi", "2Gi"))]).prop_map(Step::Defaults),
        2 => (select(IMAGES.to_vec()), lookup).prop_map(|(image, lookup)| Step::Answer(image, lookup)),
        2 => (select(PODS.to_vec()), select(EVENTS.to_vec()), any::<bool>()).prop_map(|(pod, event, says)| Step::Sandbox(pod, event, says)),
        2 => Just(Step::Settle),
    ]
}

/// The metadata by which pods belong to workloads of every kind.
fn metadata(name: &str) -> Value {
    let owned = |kind: &str, owner: &str| json!([{"apiVersion": "v1", "kind": kind, "name": owner, "uid": "u", "controller": true}]);
    match name {
        "web-5d8-x" => {
            json!({"labels": {"pod-template-hash": "5d8"}, "ownerReferences": owned("ReplicaSet", "web-5d8")})
        }
        "agent-x" => json!({"ownerReferences": owned("DaemonSet", "agent")}),
        _ => json!({}),
    }
}

/// Makes a step in the cluster and tells the ledger of it, as the watches do.
fn happen(cluster: &mut Cluster, ledger: &mut Ledger, step: &Step) {
    match step {
        Step::Pod(name, pod) => {
            let key = format!("shop/{name}");
            cluster.pods.remove(&key);
            if let Some((spec, status)) = pod {
                cluster.pod(name, metadata(name), spec.clone(), status.clone());
            }
            ledger.pod(&key, cluster.pods.get(&key).map(read_pod));
        }
        Step::Controller(kind, name, spec) => {
            let key = (*kind, format!("shop/{name}"));
            let before = cluster.controllers.remove(&key);
            if let Some(spec) = spec {
                cluster.named_controller(kind, name, spec.clone(), json!({}), json!({}));
            }
            let now = cluster.controllers.get(&key).map(|object| read_controller(kind, object));
            let known = now.clone().or_else(|| before.map(|object| read_controller(kind, &object)));
            if let Some(known) = known {
                ledger.controller(&known.workload, now);
            }
        }
        Step::Defaults(defaults) => {
            cluster.defaults = *defaults;
            cluster.tell_defaults(ledger);
        }
        Step::Answer(image, lookup) => {
            cluster.lookups.insert((*image).to_owned(), lookup.clone());
        }
        Step::Sandbox(pod, event, says) => {
            let key = (format!("shop/{pod}"), format!("shop/{event}"));
            cluster.sandboxes.remove(&key);
            let said = says.then(|| Said::misfit(&format!("{event}: 0xc0370101 {event}")));
            if let Some(said) = &said {
                cluster.sandboxes.insert(key.clone(), said.clone());
            }
            ledger.sandbox(&key.0, &key.1, said);
        }
        Step::Node(..) | Step::Pool(..) | Step::Class(..) | Step::Settle => {
            change_the_ground(cluster, step);
            stand_on_what_is_asked_for(cluster, ledger);
        }
        Step::Label(name, key, value) => {
            if cluster.world.get(NODE, name).is_some() {
                cluster.world.edit(NODE, name, |node| {
                    let labels = node["metadata"]["labels"].as_object_mut().unwrap();
                    labels.remove(*key);
                    labels.extend(value.map(|value| ((*key).to_owned(), json!(value))));
                });
            }
            if ledger.asks_for(key) {
                stand_on_what_is_asked_for(cluster, ledger);
            }
        }
    }
    if ledger.asks_for_more() {
        stand_on_what_is_asked_for(cluster, ledger);
    }
    // What registries said is told again at every round.
    for (image, lookup) in &cluster.lookups {
        ledger.answer(image, Arc::new(lookup.clone()));
    }
    ledger.forget_answers();
}

/// Takes the ground with the labels that matter, as the operator does; a fresh ledger has all of them.
fn stand_on_what_is_asked_for(cluster: &Cluster, ledger: &mut Ledger) {
    ledger.stand_on(Ground::for_labels(&cluster.world.snapshot(), ledger.asked_labels()));
    assert!(!ledger.asks_for_more());
}

fn change_the_ground(cluster: &mut Cluster, step: &Step) {
    match step {
        Step::Node("linux-1", _) => {}
        Step::Node(name, None) => cluster.world.delete(NODE, name),
        Step::Node(name, Some((build, runtime, taints))) => {
            cluster.node(name, *build, runtime);
            cluster.world.edit(NODE, name, |node| node["spec"]["taints"] = taints.clone());
        }
        Step::Pool(name, None) => cluster.world.delete(POOL, name),
        Step::Pool(name, Some(fields)) => cluster.pool(name, fields.clone()),
        Step::Class(name, None) => cluster.world.delete(CLASS, name),
        Step::Class(name, Some(selector)) => cluster.class(name, "runhcs-wcow-process", selector.clone()),
        _ => {
            for pool in cluster.world.names(POOL) {
                cluster.world.pass_until(&pool, usize::MAX, |_| {});
            }
        }
    }
}

#[test]
fn a_label_of_a_node_matters_from_when_a_workload_asks_for_it_until_none_does() {
    let (mut cluster, mut ledger) = (Cluster::new(), Ledger::default());
    cluster.node("web-1", 20348, CONTAINERD);
    cluster.pool("web", json!({"windowsVersion": "ltsc2022"}));
    change_the_ground(&mut cluster, &Step::Settle);
    let asking = |key: &str| {
        Some(spec(json!({
            "runtimeClassName": "windows-ltsc2022", "nodeSelector": {key: "ssd"}, "tolerations": tolerated(),
        })))
    };
    let refused = |ledger: &Ledger| ledger.summary("web").traps.contains_key(&Trap::NoPoolTakes);
    stand_on_what_is_asked_for(&cluster, &mut ledger);
    let before = ledger.ground().clone();

    happen(&mut cluster, &mut ledger, &Step::Label("web-1", "disk", Some("ssd")));
    assert!(!ledger.asks_for("disk"));
    stand_on_what_is_asked_for(&cluster, &mut ledger);
    assert_eq!(*ledger.ground(), before, "a label that nobody asks for changes nothing");

    happen(&mut cluster, &mut ledger, &Step::Controller("Deployment", "a", asking("disk")));
    assert!(ledger.asks_for("disk") && !refused(&ledger), "the label was there before");
    happen(&mut cluster, &mut ledger, &Step::Label("web-1", "disk", None));
    assert!(refused(&ledger), "the label is gone");
    happen(&mut cluster, &mut ledger, &Step::Controller("Deployment", "a", None));
    assert!(!ledger.asks_for("disk") && !refused(&ledger));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_ledger_says_what_a_fresh_one_says_of_the_same_world(steps in prop::collection::vec(any_step(), 1..40)) {
        let (mut cluster, mut ledger) = (Cluster::new(), Ledger::default());
        for step in &steps {
            let before = POOLS.map(|pool| ledger.summary(pool));
            happen(&mut cluster, &mut ledger, step);
            let changed = ledger.take_changed();
            for (pool, before) in POOLS.iter().zip(before) {
                prop_assert!(changed.contains(*pool) || ledger.summary(pool) == before, "nobody is told of pool {}", pool);
            }
        }
        let fresh = cluster.ledger();
        for pool in POOLS {
            prop_assert_eq!(ledger.summary(pool), fresh.summary(pool), "pool {}", pool);
        }
        prop_assert_eq!(wanted(&ledger), wanted(&fresh));
    }

    #[test]
    fn nothing_is_left_when_everything_is_gone(steps in prop::collection::vec(any_step(), 1..30), ground_first in any::<bool>()) {
        let (mut cluster, mut ledger) = (Cluster::new(), Ledger::default());
        for step in &steps {
            happen(&mut cluster, &mut ledger, step);
        }
        let ground = |ledger: &mut Ledger| ledger.stand_on(Cluster::new().ground());
        if ground_first {
            ground(&mut ledger);
        }
        for name in PODS {
            happen(&mut cluster, &mut ledger, &Step::Pod(name, None));
            for event in EVENTS {
                happen(&mut cluster, &mut ledger, &Step::Sandbox(name, event, false));
            }
        }
        for kind in KINDS {
            for name in ["a", "b"] {
                happen(&mut cluster, &mut ledger, &Step::Controller(kind, name, None));
            }
        }
        for pool in POOLS {
            prop_assert_eq!(ledger.summary(pool), Default::default(), "pool {}", pool);
        }
        prop_assert!(ledger.is_empty() && ledger.wants().next().is_none());
    }
}
