//! The index equals an index of the final objects, after any changes in any order.

use std::sync::Arc;

use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use winpool_core::image::{Lookup, RuntimeReport};
use winpool_workload::{IssueKind, PoolWorkloads, WorkloadIndex};

use crate::{
    cases::cases,
    model::{CLASS, NODE, POOL},
    workloads::cluster::{
        CONTAINERD, Cluster, container, found, images_to_look_up, read_controller, read_pod, read_service, running,
        spec, tolerated, waiting,
    },
};

const PODS: [&str; 4] = ["app-1", "app-2", "web-5d8-x", "agent-x"];
const NODES: [&str; 5] = ["web-1", "web-2", "batch-1", "other-1", "linux-1"];
const POOLS: [&str; 3] = ["web", "batch", "other"];
const CLASSES: [&str; 3] = ["windows-ltsc2022", "windows-ltsc2019", "mine"];
const IMAGES: [&str; 4] = ["example.com/app:1", "example.com/app:ltsc2019", "example.com/other:ltsc2022", "::"];
const KINDS: [&str; 4] = ["Deployment", "StatefulSet", "DaemonSet", "Job"];
const EVENTS: [&str; 2] = ["first", "second"];
const SERVICES: [&str; 2] = ["front", "back"];

#[derive(Clone, Debug)]
enum Step {
    Pod(&'static str, Option<(Value, Value)>),
    Controller(&'static str, &'static str, Option<Value>),
    Node(&'static str, Option<(u32, &'static str, Value)>),
    /// A node label that no pool uses.
    Label(&'static str, &'static str, Option<&'static str>),
    Pool(&'static str, Option<Value>),
    Class(&'static str, Option<Value>),
    Defaults(Option<(&'static str, &'static str)>),
    /// A Service: the fields of its spec.
    Service(&'static str, Option<Value>),
    Answer(&'static str, Lookup),
    Sandbox(&'static str, &'static str, bool),
    /// The operator reconciles until nothing changes.
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
        select(vec![CONTAINERD, "containerd://1.7.5", "docker://20.10.9"]),
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
    let service = select(vec![
        json!({"selector": {"app": "web"}, "internalTrafficPolicy": "Local"}),
        json!({"selector": {"app": "web"}, "internalTrafficPolicy": "Local", "ipFamilyPolicy": "RequireDualStack"}),
        json!({"selector": {"app": "agent"}, "ipFamilyPolicy": "RequireDualStack"}),
        json!({"selector": {"app": "web"}}),
    ]);
    let lookup = select(vec![
        found(&["windows/amd64 10.0.20348.1"]),
        found(&["windows/amd64 10.0.17763.1"]),
        found(&["linux/amd64"]),
        Lookup::Failed("timed out".into()),
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
        2 => (select(SERVICES.to_vec()), prop::option::weighted(0.7, service)).prop_map(|(name, spec)| Step::Service(name, spec)),
        2 => (select(IMAGES.to_vec()), lookup).prop_map(|(image, lookup)| Step::Answer(image, lookup)),
        2 => (select(PODS.to_vec()), select(EVENTS.to_vec()), any::<bool>()).prop_map(|(pod, event, exists)| Step::Sandbox(pod, event, exists)),
        2 => Just(Step::Settle),
    ]
}

/// The metadata by which pods belong to workloads of every kind.
fn metadata(name: &str) -> Value {
    let owned = |kind: &str, owner: &str| json!([{"apiVersion": "v1", "kind": kind, "name": owner, "uid": "u", "controller": true}]);
    match name {
        "web-5d8-x" => {
            json!({"labels": {"app": "web", "pod-template-hash": "5d8"}, "ownerReferences": owned("ReplicaSet", "web-5d8")})
        }
        "agent-x" => json!({"labels": {"app": "agent"}, "ownerReferences": owned("DaemonSet", "agent")}),
        _ => json!({"labels": {"app": "web"}}),
    }
}

/// An index of a cluster whose Services are read.
fn index() -> WorkloadIndex {
    let mut index = WorkloadIndex::default();
    index.read_services();
    index
}

/// Applies a step to the cluster and to the index, as the watches do.
fn apply(cluster: &mut Cluster, index: &mut WorkloadIndex, step: &Step) {
    match step {
        Step::Pod(name, pod) => {
            let key = format!("shop/{name}");
            cluster.pods.remove(&key);
            if let Some((spec, status)) = pod {
                cluster.pod(name, metadata(name), spec.clone(), status.clone());
            }
            index.set_pod(&key, cluster.pods.get(&key).map(read_pod));
        }
        Step::Controller(kind, name, spec) => {
            let key = (*kind, format!("shop/{name}"));
            let before = cluster.controllers.remove(&key);
            if let Some(spec) = spec {
                cluster.named_controller(kind, name, spec.clone(), json!({}));
            }
            let now = cluster.controllers.get(&key).map(|object| read_controller(kind, object));
            let known = now.clone().or_else(|| before.map(|object| read_controller(kind, &object)));
            if let Some(known) = known {
                index.set_controller(&known.workload, now);
            }
        }
        Step::Defaults(defaults) => {
            cluster.defaults = *defaults;
            cluster.set_memory_defaults(index);
        }
        Step::Service(name, spec) => {
            let key = format!("shop/{name}");
            cluster.services.remove(&key);
            if let Some(spec) = spec {
                cluster.service(name, spec.clone());
            }
            index.set_service("shop", &key, cluster.services.get(&key).map(read_service));
        }
        Step::Answer(image, lookup) => {
            cluster.lookups.insert((*image).to_owned(), lookup.clone());
        }
        Step::Sandbox(pod, event, exists) => {
            let key = (format!("shop/{pod}"), format!("shop/{event}"));
            cluster.sandboxes.remove(&key);
            let report = exists.then(|| RuntimeReport::incompatible(&format!("{event}: 0xc0370101 {event}")));
            if let Some(report) = &report {
                cluster.sandboxes.insert(key.clone(), report.clone());
            }
            index.set_sandbox_report(&key.0, &key.1, report);
        }
        Step::Node(..) | Step::Pool(..) | Step::Class(..) | Step::Settle => {
            change_state(cluster, step);
            update_state(cluster, index);
        }
        Step::Label(name, key, value) => {
            if cluster.model.get(NODE, name).is_some() {
                cluster.model.edit(NODE, name, |node| {
                    let labels = node["metadata"]["labels"].as_object_mut().unwrap();
                    labels.remove(*key);
                    labels.extend(value.map(|value| ((*key).to_owned(), json!(value))));
                });
            }
            if index.selects_by(key) {
                update_state(cluster, index);
            }
        }
    }
    if index.needs_more_labels() {
        update_state(cluster, index);
    }
    // The operator sets all lookups in every round.
    for (image, lookup) in &cluster.lookups {
        index.set_lookup(image, Arc::new(lookup.clone()));
    }
    index.remove_unused_lookups();
}

/// Updates the state with the selected labels, as the operator does; a fresh index has all labels.
fn update_state(cluster: &Cluster, index: &mut WorkloadIndex) {
    index.set_state(cluster.model.snapshot().scheduling_state_for(index.selected_labels()));
    assert!(!index.needs_more_labels());
}

fn change_state(cluster: &mut Cluster, step: &Step) {
    match step {
        Step::Node("linux-1", _) => {}
        Step::Node(name, None) => cluster.model.delete(NODE, name),
        Step::Node(name, Some((build, runtime, taints))) => {
            cluster.node(name, *build, runtime);
            cluster.model.edit(NODE, name, |node| node["spec"]["taints"] = taints.clone());
        }
        Step::Pool(name, None) => cluster.model.delete(POOL, name),
        Step::Pool(name, Some(fields)) => cluster.pool(name, fields.clone()),
        Step::Class(name, None) => cluster.model.delete(CLASS, name),
        Step::Class(name, Some(selector)) => cluster.class(name, "runhcs-wcow-process", selector.clone()),
        _ => {
            for pool in cluster.model.names(POOL) {
                cluster.model.reconcile_until(&pool, usize::MAX, |_| {});
            }
        }
    }
}

#[test]
fn a_node_label_is_relevant_while_a_workload_selects_by_it() {
    let (mut cluster, mut index) = (Cluster::new(), index());
    cluster.node("web-1", 20348, CONTAINERD);
    cluster.pool("web", json!({"windowsVersion": "ltsc2022"}));
    change_state(&mut cluster, &Step::Settle);
    let selecting = |key: &str| {
        Some(spec(json!({
            "runtimeClassName": "windows-ltsc2022", "nodeSelector": {key: "ssd"}, "tolerations": tolerated(),
        })))
    };
    let is_unschedulable = |index: &WorkloadIndex| index.summary("web").issues.contains_key(&IssueKind::Unschedulable);
    update_state(&cluster, &mut index);
    let before = index.state().clone();

    apply(&mut cluster, &mut index, &Step::Label("web-1", "disk", Some("ssd")));
    assert!(!index.selects_by("disk"));
    update_state(&cluster, &mut index);
    assert_eq!(*index.state(), before, "a label that no workload selects by changes nothing");

    apply(&mut cluster, &mut index, &Step::Controller("Deployment", "a", selecting("disk")));
    assert!(index.selects_by("disk") && !is_unschedulable(&index), "the node has the label");
    apply(&mut cluster, &mut index, &Step::Label("web-1", "disk", None));
    assert!(is_unschedulable(&index), "the label was removed");
    apply(&mut cluster, &mut index, &Step::Controller("Deployment", "a", None));
    assert!(!index.selects_by("disk") && !is_unschedulable(&index));
}

#[test]
fn a_label_that_no_workload_selects_by_does_not_decide_which_host_an_issue_names() {
    for labelled in ["web-1", "web-2"] {
        let (mut cluster, mut index) = (Cluster::new(), index());
        let pod = spec(json!({"nodeSelector": {"kubernetes.io/os": "windows"}}));
        for step in [
            Step::Node("web-1", Some((20348, CONTAINERD, json!([])))),
            Step::Node("web-2", Some((26100, CONTAINERD, json!([])))),
            Step::Label(labelled, "disk", Some("ssd")),
            Step::Pod("app-1", Some((pod, waiting("no match for platform in manifest")))),
            Step::Pool("web", Some(json!({"windowsVersion": "ltsc2019", "taints": []}))),
        ] {
            apply(&mut cluster, &mut index, &step);
        }
        let summary = index.summary("web");
        let [(_, issue)] = summary.issues[&IssueKind::ImagesCannotRun].first.as_slice() else { panic!("{summary:?}") };
        assert!(issue.to_string().contains("10.0.20348"), "{issue}");
        assert_eq!(summary, cluster.index().summary("web"), "an index that knows all labels");
    }
}

#[test]
fn a_summary_has_the_services_of_the_pods_of_the_pool_once_services_are_read() {
    let (mut cluster, mut index) = (Cluster::new(), WorkloadIndex::default());
    let on = |node: &str| {
        let mut spec = spec(json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "tolerations": tolerated()}));
        spec["nodeName"] = json!(node);
        Some((spec, running()))
    };
    let service = |app: &str| Some(json!({"selector": {"app": app}, "internalTrafficPolicy": "Local"}));
    for step in [
        Step::Node("web-1", Some((20348, CONTAINERD, json!([])))),
        Step::Node("batch-1", Some((17763, CONTAINERD, json!([])))),
        Step::Pool("web", Some(json!({"windowsVersion": "ltsc2022"}))),
        Step::Pool("batch", Some(json!({"windowsVersion": "ltsc2019"}))),
        Step::Service("front", service("web")),
        Step::Service("back", service("agent")),
        Step::Pod("app-1", on("web-1")),
        Step::Pod("agent-x", on("batch-1")),
    ] {
        apply(&mut cluster, &mut index, &step);
    }
    let services = |index: &WorkloadIndex, pool: &str| {
        let services = index.summary(pool).services?;
        Some(services.into_values().flatten().map(|name| name.to_string()).collect::<Vec<_>>())
    };
    let none = Some(Vec::new());
    assert_eq!((services(&index, "web"), services(&index, "other")), (None, none.clone()), "they are not read");
    index.take_changed();
    index.read_services();
    assert_eq!(index.take_changed().into_iter().collect::<Vec<_>>(), ["batch", "web"]);
    let found = |name: &str| Some(vec![name.to_owned()]);
    assert_eq!((services(&index, "web"), services(&index, "batch")), (found("shop/front"), found("shop/back")));

    apply(&mut cluster, &mut index, &Step::Service("back", service("web")));
    let both = Some(vec!["shop/back".to_owned(), "shop/front".to_owned()]);
    assert_eq!((services(&index, "web"), services(&index, "batch")), (both, none.clone()));
    for gone in ["front", "back"] {
        apply(&mut cluster, &mut index, &Step::Service(gone, None));
    }
    assert_eq!(services(&index, "web"), none);
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn an_updated_index_equals_a_fresh_one(steps in prop::collection::vec(any_step(), 1..40)) {
        let (mut cluster, mut index) = (Cluster::new(), index());
        for step in &steps {
            let before = POOLS.map(|pool| index.summary(pool));
            apply(&mut cluster, &mut index, step);
            let changed = index.take_changed();
            for (pool, before) in POOLS.iter().zip(before) {
                prop_assert!(changed.contains(*pool) || index.summary(pool) == before, "pool {} is not in the changed ones", pool);
            }
        }
        let fresh = cluster.index();
        for pool in POOLS {
            prop_assert_eq!(index.summary(pool), fresh.summary(pool), "pool {}", pool);
        }
        prop_assert_eq!(images_to_look_up(&index), images_to_look_up(&fresh));
    }

    #[test]
    fn an_index_of_deleted_objects_is_empty(steps in prop::collection::vec(any_step(), 1..30), state_first in any::<bool>()) {
        let (mut cluster, mut index) = (Cluster::new(), index());
        for step in &steps {
            apply(&mut cluster, &mut index, step);
        }
        if state_first {
            index.set_state(Cluster::new().state());
        }
        for name in PODS {
            apply(&mut cluster, &mut index, &Step::Pod(name, None));
            for event in EVENTS {
                apply(&mut cluster, &mut index, &Step::Sandbox(name, event, false));
            }
        }
        for kind in KINDS {
            for name in ["a", "b"] {
                apply(&mut cluster, &mut index, &Step::Controller(kind, name, None));
            }
        }
        for pool in POOLS {
            prop_assert_eq!(index.summary(pool), PoolWorkloads::empty(), "pool {}", pool);
        }
        prop_assert!(index.is_empty() && index.image_requests().next().is_none());
    }
}
