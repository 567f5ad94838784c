//! The guard rails of `config/policies`: requests of every user and their outcomes.

use std::{fs, path::Path};

use k8s_openapi::api::admissionregistration::{
    v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    v1alpha1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding},
};
use proptest::{prelude::*, sample::select};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use winpool::{
    commands::output::{self, OutputFormat},
    policies::{FIRST_WITH_MUTATING, FIRST_WITH_MUTATING_BETA, MUTATING, Policy, VALIDATING},
};
use winpool_api::{
    LabelSelector,
    names::{DEFAULT_NAMESPACE, annotation, label},
};

use super::{
    ADMIN, ALLOWED, COLLECTOR, KUBELET, OPERATOR,
    evaluator::{Outcome, Request, evaluate},
};

pub const NODE_CONTROLLER: &str = "system:serviceaccount:kube-system:node-controller";
pub const CLOUD_CONTROLLER: &str = "system:serviceaccount:kube-system:cloud-node-controller";
pub const AUTOSCALER: &str = "system:serviceaccount:kube-system:cluster-autoscaler";
const REPLICA_SETS: &str = "system:serviceaccount:kube-system:replicaset-controller";
const DAEMON_SETS: &str = "system:serviceaccount:kube-system:daemon-set-controller";
const TENANT: &str = "jane";

/// The labels that kubelets and cloud controllers write.
pub const OF_CLOUD: [&str; 6] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
];

/// Everyone except the operator.
const OTHERS: [&str; 7] = [KUBELET, NODE_CONTROLLER, CLOUD_CONTROLLER, AUTOSCALER, COLLECTOR, ADMIN, TENANT];

const BY_NODES: &str = "winpool-nodes";
const BY_OPERATOR: &str = "winpool-operator";
const BY_CLASSES: &str = "winpool-runtime-classes";
const BY_DELETION: &str = "winpool-pool-deletion";
const BY_PODS: &str = "winpool-pods";

/// The objects of policies.
pub fn objects(policies: &[Policy]) -> Vec<Value> {
    policies.iter().flat_map(|policy| parsed(&policy.yaml(DEFAULT_NAMESPACE, FIRST_WITH_MUTATING))).collect()
}

/// The policy and its binding.
fn parsed(text: &str) -> [Value; 2] {
    serde_saphyr::from_multiple(text).unwrap().try_into().unwrap()
}

/// A request for an object that is in no namespace.
pub fn request(user: &str, operation: &'static str, (group, resource): (&'static str, &'static str)) -> Request {
    Request {
        user: user.to_owned(),
        extra: Value::Null,
        operation,
        group,
        resource,
        name: String::new(),
        namespace: None,
        old: Value::Null,
        new: Value::Null,
    }
}

/// The change of a Node.
pub fn update_of_node(user: &str, old: &Value, new: &Value) -> Request {
    Request { old: old.clone(), new: new.clone(), ..request(user, "UPDATE", ("", "nodes")) }
}

/// The change, creation or deletion of a RuntimeClass.
pub fn write_of_class(user: &str, old: &Value, new: &Value) -> Request {
    let operation = match (old, new) {
        (Value::Null, _) => "CREATE",
        (_, Value::Null) => "DELETE",
        _ => "UPDATE",
    };
    let request = request(user, operation, ("node.k8s.io", "runtimeclasses"));
    Request { old: old.clone(), new: new.clone(), ..request }
}

/// The outcome under all validating policies, without an error in any expression.
pub fn validate(pools: &[Value], request: &Request) -> Outcome {
    let outcome = evaluate(&objects(VALIDATING), pools, request);
    assert!(outcome.errors.is_empty(), "{:?}: {request:#?}", outcome.errors);
    outcome
}

fn mutate(pools: &[Value], request: &Request) -> Value {
    let outcome = evaluate(&objects(MUTATING), pools, request);
    assert!(outcome.errors.is_empty(), "{:?}: {request:#?}", outcome.errors);
    outcome.object
}

/// Pool web, as the API server stores it, with other fields in its spec.
pub fn pool(spec: &Value) -> Value {
    let mut pool = json!({
        "metadata": {"name": "web"},
        "spec": {
            "windowsVersion": "ltsc2022", "fallback": false, "mode": "Enforce", "paused": false,
            "deletionPolicy": "Retain",
            "nodeSelector": {"matchLabels": {"agentpool": "web"}},
            "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
            "labels": {"team": "web"},
        },
        "status": {
            "nodes": {"matched": 2},
            "runtimeClasses": [
                {"name": "windows-ltsc2022", "state": "Applied"},
                {"name": "windows-old", "state": "Unused"},
                {"name": "windows-hyperv", "state": "HandlerDiffers"},
            ],
        },
    });
    spec.as_object().unwrap().iter().for_each(|(field, value)| pool["spec"][field] = value.clone());
    pool
}

fn deleting(mut pool: Value) -> Value {
    pool["metadata"]["deletionTimestamp"] = json!("2026-06-01T12:00:00Z");
    pool
}

/// A node of pool web with a taint, labels and annotations of others.
pub fn node() -> Value {
    json!({
        "metadata": {
            "name": "win-1",
            "labels": {
                "kubernetes.io/os": "windows", "winpool.dev/pool": "web", "runs.winpool.dev/ltsc2022": "true",
                "team": "web", "zone": "a",
            },
            "annotations": {"winpool.dev/owned": "{}", "winpool.dev/config": "web-1", "example.com/note": "keep"},
        },
        "spec": {"taints": [
            {"key": "os", "value": "windows", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        ]},
    })
}

/// A value with another one, or nothing, at a path.
pub fn with(mut object: Value, path: &[&str], value: Value) -> Value {
    let (last, parents) = path.split_last().unwrap();
    let parent = parents.iter().fold(&mut object, |object, field| &mut object[*field]);
    match value {
        Value::Null => drop(parent.as_object_mut().unwrap().remove(*last)),
        value => parent[*last] = value,
    }
    object
}

fn taints(taints: Value) -> Value {
    with(node(), &["spec", "taints"], taints)
}

fn label(key: &str, value: Value) -> Value {
    with(node(), &["metadata", "labels", key], value)
}

fn annotation(key: &str, value: Value) -> Value {
    with(node(), &["metadata", "annotations", key], value)
}

#[test]
fn only_the_operator_changes_its_taints_labels_and_annotations_on_nodes_of_an_enforced_pool() {
    let os = || json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
    let table = [
        ("its taint is removed", BY_NODES, taints(json!([]))),
        ("all taints are removed", BY_NODES, with(node(), &["spec", "taints"], Value::Null)),
        (
            "its taint has another value",
            BY_NODES,
            taints(json!([{"key": "os", "value": "linux", "effect": "NoSchedule"}])),
        ),
        (
            "its taint has another effect",
            BY_NODES,
            taints(json!([{"key": "os", "value": "windows", "effect": "PreferNoSchedule"}])),
        ),
        ("the label of its pool is removed", BY_NODES, label("winpool.dev/pool", Value::Null)),
        ("the label of its pool names another pool", BY_NODES, label("winpool.dev/pool", json!("batch"))),
        ("the label of a release is removed", BY_NODES, label("runs.winpool.dev/ltsc2022", Value::Null)),
        ("the label of a release is added", BY_NODES, label("runs.winpool.dev/ltsc2025", json!("true"))),
        ("a label of the spec is removed", BY_NODES, label("team", Value::Null)),
        ("a label of the spec is changed", BY_NODES, label("team", json!("other"))),
        ("the record is removed", BY_NODES, annotation("winpool.dev/owned", Value::Null)),
        ("the record is changed", BY_NODES, annotation("winpool.dev/owned", json!("{\"pool\":\"web\"}"))),
        ("another annotation of winpool is added", BY_NODES, annotation("winpool.dev/cordoned", json!("{}"))),
        ("a taint of the node controller is removed", ALLOWED, taints(json!([os()]))),
        (
            "taints of others are added",
            ALLOWED,
            taints(json!([
                {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}, os(),
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ])),
        ),
        ("another label is added", ALLOWED, label("topology.kubernetes.io/zone", json!("a"))),
        ("another label is removed", ALLOWED, label("zone", Value::Null)),
        ("another annotation is changed", ALLOWED, annotation("example.com/note", json!("changed"))),
        ("the node is cordoned", ALLOWED, with(node(), &["spec", "unschedulable"], json!(true))),
        ("nothing is changed", ALLOWED, node()),
    ];
    for (change, expected, changed) in table {
        for user in OTHERS {
            let outcome = validate(&[pool(&json!({}))], &update_of_node(user, &node(), &changed));
            assert_eq!(outcome.rejected_by(), expected, "{user}: {change}");
        }
        let by_operator = validate(&[pool(&json!({}))], &update_of_node(OPERATOR, &node(), &changed));
        assert_eq!(by_operator.rejected_by(), ALLOWED, "operator: {change}");
        for (reason, pools) in [
            ("no pool", vec![]),
            ("another pool", vec![with(pool(&json!({})), &["metadata", "name"], json!("other"))]),
            ("mode Observe", vec![pool(&json!({"mode": "Observe"}))]),
            ("paused", vec![pool(&json!({"paused": true}))]),
            ("being deleted", vec![deleting(pool(&json!({})))]),
        ] {
            let outcome = validate(&pools, &update_of_node(ADMIN, &node(), &changed));
            assert_eq!(outcome.rejected_by(), ALLOWED, "{reason}: {change}");
        }
    }
}

#[test]
fn only_the_operator_gives_a_node_the_label_of_an_enforced_pool() {
    let outside = || label("winpool.dev/pool", Value::Null);
    let bare = || with(outside(), &["metadata", "labels"], json!({"kubernetes.io/os": "windows"}));
    let table = [
        ("a node in no pool", BY_NODES, pool(&json!({})), outside()),
        ("a node without other labels", BY_NODES, pool(&json!({})), bare()),
        ("a node of another pool", BY_NODES, pool(&json!({})), label("winpool.dev/pool", json!("batch"))),
        ("a pool in mode Observe", ALLOWED, pool(&json!({"mode": "Observe"})), outside()),
    ];
    for (what, expected, pool, old) in table {
        for user in OTHERS {
            let outcome = validate(std::slice::from_ref(&pool), &update_of_node(user, &old, &node()));
            assert_eq!(outcome.rejected_by(), expected, "{user}: {what}");
        }
        let by_operator = validate(&[pool], &update_of_node(OPERATOR, &old, &node()));
        assert_eq!(by_operator.rejected_by(), ALLOWED, "operator: {what}");
    }
}

#[test]
fn a_kubelet_changes_labels_and_annotations_of_winpool_by_the_status_of_its_node_neither() {
    let table = [
        (BY_NODES, label("winpool.dev/pool", Value::Null)),
        (BY_NODES, annotation("winpool.dev/owned", Value::Null)),
        (ALLOWED, annotation("volumes.kubernetes.io/controller-managed-attach-detach", json!("true"))),
        (ALLOWED, with(node(), &["status"], json!({"conditions": [{"type": "Ready", "status": "True"}]}))),
    ];
    for (expected, changed) in table {
        let request = Request { resource: "nodes/status", ..update_of_node(KUBELET, &node(), &changed) };
        assert_eq!(validate(&[pool(&json!({}))], &request).rejected_by(), expected, "{changed}");
    }
}

#[test]
fn values_that_differ_from_the_spec_are_not_protected() {
    let conflict = || label("team", json!("theirs"));
    let other = with(conflict(), &["metadata", "labels", "team"], json!("others"));
    let table = [
        ("a label with another value", conflict(), other, json!({})),
        ("a former taint of the pool", node(), taints(json!([])), json!({"taints": []})),
        ("a former label of the pool", node(), label("team", Value::Null), json!({"labels": {}})),
    ];
    for (what, old, new, spec) in table {
        assert_eq!(validate(&[pool(&spec)], &update_of_node(ADMIN, &old, &new)).rejected_by(), ALLOWED, "{what}");
    }
}

#[test]
fn the_operator_changes_windows_nodes_only() {
    let linux = || label("kubernetes.io/os", json!("linux"));
    let unlabelled = || with(node(), &["metadata", "labels"], Value::Null);
    let tainted = |node: Value| with(node, &["spec", "taints"], json!([{"key": "a", "effect": "NoExecute"}]));
    let table = [
        ("a Windows node", ALLOWED, node(), tainted(node())),
        ("a Linux node", BY_OPERATOR, linux(), tainted(linux())),
        ("a node without labels", BY_OPERATOR, unlabelled(), tainted(unlabelled())),
        ("a Linux node becomes a Windows node", BY_OPERATOR, linux(), node()),
        ("a Windows node becomes a Linux node", BY_OPERATOR, node(), linux()),
        ("the label is removed", BY_OPERATOR, node(), label("kubernetes.io/os", Value::Null)),
    ];
    for (change, expected, old, new) in table {
        assert_eq!(validate(&[], &update_of_node(OPERATOR, &old, &new)).rejected_by(), expected, "{change}");
        for user in OTHERS {
            assert_eq!(validate(&[], &update_of_node(user, &old, &new)).rejected_by(), ALLOWED, "{user}: {change}");
        }
    }
}

#[test]
fn the_operator_removes_what_the_record_lists_from_a_node_that_has_lost_its_label() {
    let record =
        r#"{"pool":"web","taints":{"os:NoSchedule":"added","gpu:NoSchedule":"found"},"labels":{"team":"added"}}"#;
    let old = json!({
        "metadata": {
            "name": "win-1",
            "labels": {"winpool.dev/pool": "web", "runs.winpool.dev/ltsc2022": "true", "team": "web", "zone": "a"},
            "annotations": {"winpool.dev/owned": record, "winpool.dev/cordoned": "{}", "example.com/note": "keep"},
        },
        "spec": {"unschedulable": true, "taints": [
            {"key": "os", "value": "windows", "effect": "NoSchedule"},
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        ]},
    });
    let others = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    let released = || {
        let node = with(old.clone(), &["metadata", "labels"], json!({"zone": "a"}));
        let node = with(node, &["metadata", "annotations"], json!({"example.com/note": "keep"}));
        with(with(node, &["spec", "unschedulable"], Value::Null), &["spec", "taints"], others.clone())
    };
    let claimed = json!({"winpool.dev/owned": "{}", "example.com/note": "keep"});
    let table = [
        ("everything of winpool is removed", ALLOWED, released()),
        ("the record is kept", ALLOWED, with(released(), &["metadata", "annotations"], claimed)),
        ("a label of others is removed", BY_OPERATOR, with(released(), &["metadata", "labels"], json!({}))),
        ("a label is changed", BY_OPERATOR, with(released(), &["metadata", "labels", "zone"], json!("b"))),
        ("a label is added", BY_OPERATOR, with(released(), &["metadata", "labels", "team2"], json!("b"))),
        ("an annotation of others is removed", BY_OPERATOR, with(released(), &["metadata", "annotations"], json!({}))),
        (
            "a taint that the record has as found is removed",
            BY_OPERATOR,
            with(released(), &["spec", "taints"], json!([])),
        ),
        (
            "a taint is added",
            BY_OPERATOR,
            with(old.clone(), &["spec", "taints"], json!([{"key": "a", "effect": "NoExecute"}])),
        ),
    ];
    for (change, expected, new) in table {
        assert_eq!(validate(&[], &update_of_node(OPERATOR, &old, &new)).rejected_by(), expected, "{change}");
    }
    let schedulable = with(old.clone(), &["spec", "unschedulable"], Value::Null);
    let cordoned = validate(&[], &update_of_node(OPERATOR, &schedulable, &old));
    assert_eq!(cordoned.rejected_by(), BY_OPERATOR, "the node is cordoned");
    let unrecorded = with(old.clone(), &["metadata", "annotations", "winpool.dev/owned"], Value::Null);
    let without_record = validate(&[], &update_of_node(OPERATOR, &unrecorded, &released()));
    assert_eq!(without_record.rejected_by(), BY_OPERATOR, "there is no record");
}

pub fn class(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "winpool", "winpool.dev/pool": "web"}},
        "handler": "runhcs-wcow-process",
        "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}},
    })
}

#[test]
fn only_the_operator_changes_or_deletes_a_runtime_class_of_an_enforced_pool() {
    let ours = || class("windows-ltsc2022");
    let theirs = || with(ours(), &["metadata", "labels"], Value::Null);
    let changed = |class: Value| with(class, &["scheduling", "nodeSelector"], json!({}));
    let adopted = || with(ours(), &["metadata", "annotations"], json!({"winpool.dev/adopted": "{}"}));
    let table = [
        ("deletion", BY_CLASSES, ours(), Value::Null),
        ("another selector", BY_CLASSES, ours(), changed(ours())),
        ("no scheduling", BY_CLASSES, ours(), with(ours(), &["scheduling"], Value::Null)),
        ("an overhead", BY_CLASSES, ours(), with(ours(), &["overhead"], json!({"podFixed": {"cpu": "1"}}))),
        ("without its label", BY_CLASSES, ours(), theirs()),
        (
            "of another pool",
            BY_CLASSES,
            ours(),
            with(ours(), &["metadata", "labels", "winpool.dev/pool"], json!("batch")),
        ),
        ("without its former state", BY_CLASSES, adopted(), ours()),
        ("another label", ALLOWED, ours(), with(ours(), &["metadata", "labels", "team"], json!("a"))),
        ("a finalizer", ALLOWED, ours(), with(ours(), &["metadata", "finalizers"], json!(["foregroundDeletion"]))),
        ("creation", ALLOWED, Value::Null, ours()),
        // A remedy of winpool is to delete these.
        ("deletion of an unused class", ALLOWED, class("windows-old"), Value::Null),
        ("deletion of a class with another handler", ALLOWED, class("windows-hyperv"), Value::Null),
        // Not of winpool, or not of a pool.
        ("deletion of a class of others", ALLOWED, theirs(), Value::Null),
        ("change of a class of others", ALLOWED, theirs(), changed(theirs())),
        ("deletion of a class of no pool", ALLOWED, class("windows-retained"), Value::Null),
    ];
    for (change, expected, old, new) in table {
        for user in OTHERS {
            let outcome = validate(&[pool(&json!({}))], &write_of_class(user, &old, &new));
            assert_eq!(outcome.rejected_by(), expected, "{user}: {change}");
        }
        let allowed = [
            (OPERATOR, pool(&json!({}))),
            (ADMIN, pool(&json!({"paused": true}))),
            (ADMIN, deleting(pool(&json!({})))),
        ];
        for (user, pool) in allowed {
            assert_eq!(validate(&[pool], &write_of_class(user, &old, &new)).rejected_by(), ALLOWED, "{user}: {change}");
        }
    }
}

#[test]
fn a_pool_with_nodes_is_deleted_only_if_its_annotation_confirms_it() {
    let annotated =
        |name: &str| with(pool(&json!({})), &["metadata", "annotations"], json!({"winpool.dev/allow-deletion": name}));
    let table = [
        ("not confirmed", BY_DELETION, pool(&json!({}))),
        ("confirmed for another pool", BY_DELETION, annotated("batch")),
        ("confirmed without a name", BY_DELETION, annotated("true")),
        ("confirmed", ALLOWED, annotated("web")),
        ("without nodes", ALLOWED, with(pool(&json!({})), &["status", "nodes", "matched"], json!(0))),
        ("not reconciled yet", ALLOWED, with(pool(&json!({})), &["status"], Value::Null)),
        ("being deleted already", ALLOWED, deleting(pool(&json!({})))),
    ];
    for (case, expected, old) in table {
        for user in OTHERS.iter().chain([&OPERATOR]) {
            let request = Request { old: old.clone(), ..request(user, "DELETE", ("winpool.dev", "windowsnodepools")) };
            assert_eq!(validate(std::slice::from_ref(&old), &request).rejected_by(), expected, "{user}: {case}");
        }
    }
    let update = Request {
        old: pool(&json!({})),
        new: annotated("web"),
        ..request(TENANT, "UPDATE", ("winpool.dev", "windowsnodepools"))
    };
    assert_eq!(validate(&[], &update).rejected_by(), ALLOWED);
}

pub fn create_pod(user: &str, spec: Value) -> Request {
    let new = json!({"metadata": {"name": "app", "namespace": "default"}, "spec": spec});
    let namespace = Some(json!({"kubernetes.io/metadata.name": "default"}));
    Request { new, namespace, ..request(user, "CREATE", ("", "pods")) }
}

#[test]
fn a_pod_that_tolerates_the_taints_of_a_pool_by_key_selects_an_operating_system() {
    let os = || json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    let exists = || json!([{"key": "os", "operator": "Exists"}]);
    let affinity = |terms: Value| {
        let required = json!({"nodeSelectorTerms": terms});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
    };
    let one_node = || json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["win-1"]}]});
    let of_class = || json!({"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.20348"});
    let by = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
    let table = [
        ("a toleration of the taint", BY_PODS, json!({"tolerations": os()})),
        ("a toleration of the key", BY_PODS, json!({"tolerations": exists()})),
        (
            "a toleration without operator and effect",
            BY_PODS,
            json!({"tolerations": [{"key": "os", "value": "windows"}]}),
        ),
        (
            "a toleration of everything and one of the key",
            BY_PODS,
            json!({"tolerations": [{"operator": "Exists"}, {"key": "os", "operator": "Exists"}]}),
        ),
        ("another selector", BY_PODS, json!({"tolerations": os(), "nodeSelector": {"disk": "ssd"}})),
        ("an affinity to one node", BY_PODS, json!({"tolerations": os(), "affinity": affinity(json!([one_node()]))})),
        (
            "an affinity with a term without system",
            BY_PODS,
            json!({"tolerations": os(), "affinity": affinity(json!([by("kubernetes.io/os"), by("disk")]))}),
        ),
        ("an affinity to pods", BY_PODS, json!({"tolerations": os(), "affinity": {"podAffinity": {}}})),
        ("os.name", ALLOWED, json!({"tolerations": os(), "os": {"name": "windows"}})),
        (
            "a selector of the system",
            ALLOWED,
            json!({"tolerations": os(), "nodeSelector": {"kubernetes.io/os": "linux"}}),
        ),
        (
            "a selector of the deprecated label",
            ALLOWED,
            json!({"tolerations": os(), "nodeSelector": {"beta.kubernetes.io/os": "windows"}}),
        ),
        (
            "a selector of a build",
            ALLOWED,
            json!({"tolerations": os(), "nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}}),
        ),
        ("a selector of a pool", ALLOWED, json!({"tolerations": os(), "nodeSelector": {"winpool.dev/pool": "web"}})),
        (
            "a selector of a release",
            ALLOWED,
            json!({"tolerations": os(), "nodeSelector": {"runs.winpool.dev/ltsc2022": "true"}}),
        ),
        (
            "an affinity to the system",
            ALLOWED,
            json!({"tolerations": os(), "affinity": affinity(json!([by("kubernetes.io/os")]))}),
        ),
        // The plugin RuntimeClass merges selector and tolerations of the class before policies are evaluated.
        (
            "a RuntimeClass of a pool",
            ALLOWED,
            json!({"tolerations": os(), "runtimeClassName": "windows-ltsc2022", "nodeSelector": of_class()}),
        ),
        // kube-proxy and network plugins on all nodes.
        ("a toleration of everything", ALLOWED, json!({"tolerations": [{"operator": "Exists"}]})),
        (
            "a toleration of every NoSchedule",
            ALLOWED,
            json!({"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}),
        ),
        ("a toleration of another value", ALLOWED, json!({"tolerations": [{"key": "os", "value": "Windows"}]})),
        (
            "a toleration of another effect",
            ALLOWED,
            json!({"tolerations": [{"key": "os", "operator": "Exists", "effect": "NoExecute"}]}),
        ),
        (
            "a toleration with an operator for numbers",
            ALLOWED,
            json!({"tolerations": [{"key": "os", "operator": "Gt", "value": "windows"}]}),
        ),
        (
            "other tolerations",
            ALLOWED,
            json!({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}),
        ),
        ("no toleration", ALLOWED, json!({})),
        ("a pod of a kubelet", ALLOWED, json!({"tolerations": os(), "nodeName": "win-1"})),
    ];
    for (case, expected, spec) in table {
        for user in [TENANT, ADMIN, REPLICA_SETS, DAEMON_SETS, KUBELET] {
            let request = create_pod(user, spec.clone());
            assert_eq!(validate(&[pool(&json!({}))], &request).rejected_by(), expected, "{user}: {case}");
        }
        let other = json!({"taints": [
            {"key": "os", "value": "windows", "effect": "NoSchedule"},
            {"key": "team", "value": "web", "effect": "NoExecute"},
        ]});
        for pools in
            [vec![], vec![pool(&json!({"taints": []}))], vec![pool(&json!({"mode": "Observe"}))], vec![pool(&other)]]
        {
            let keyless = spec["tolerations"][0]["key"].is_null() && expected != ALLOWED;
            let expected = if keyless && pools == [pool(&other)] { BY_PODS } else { ALLOWED };
            let outcome = validate(&pools, &create_pod(TENANT, spec.clone()));
            assert_eq!(outcome.rejected_by(), expected, "{case}: {pools:?}");
        }
    }
}

pub fn created_node(labels: Value, rest: Value) -> Value {
    let mut node = json!({"metadata": {"name": "win-2", "labels": {"kubernetes.io/os": "windows"}}, "spec": rest});
    labels.as_object().unwrap().iter().for_each(|(key, value)| node["metadata"]["labels"][key] = value.clone());
    node
}

pub fn create_node(new: Value) -> Request {
    Request { new, ..request("system:node:win-2", "CREATE", ("", "nodes")) }
}

#[test]
fn a_node_that_a_pool_selects_is_created_with_the_taints_of_the_pool() {
    let web = json!({"agentpool": "web"});
    let os = json!({"key": "os", "value": "windows", "effect": "NoSchedule"});
    let team = json!({"key": "team", "effect": "NoExecute"});
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let other = json!({"key": "os", "value": "Windows", "effect": "NoSchedule"});
    let two = json!({"taints": [os, team]});
    let table = [
        ("no taint", json!({}), web.clone(), json!({}), json!([os]), Some("web os:NoSchedule")),
        (
            "a taint of others",
            json!({}),
            web.clone(),
            json!({"taints": [not_ready]}),
            json!([not_ready, os]),
            Some("web os:NoSchedule"),
        ),
        ("the taint", json!({}), web.clone(), json!({"taints": [os]}), json!([os]), Some("web")),
        ("one of two", two, web.clone(), json!({"taints": [os]}), json!([os, team]), Some("web team:NoExecute")),
        // The API server rejects two taints with one key and effect.
        ("another value", json!({}), web.clone(), json!({"taints": [other]}), json!([other]), Some("web")),
        ("another label", json!({}), json!({"agentpool": "batch"}), json!({}), Value::Null, None),
        (
            "a Linux node",
            json!({}),
            json!({"agentpool": "web", "kubernetes.io/os": "linux"}),
            json!({}),
            Value::Null,
            None,
        ),
        ("mode Observe", json!({"mode": "Observe"}), web.clone(), json!({}), Value::Null, None),
        ("paused", json!({"paused": true}), web.clone(), json!({}), Value::Null, None),
        ("a pool without taints", json!({"taints": []}), web.clone(), json!({}), Value::Null, None),
        ("a pool without selector", json!({"fallback": true, "nodeSelector": null}), web, json!({}), Value::Null, None),
    ];
    for (case, spec, labels, rest, expected, mark) in table {
        let mut pool = pool(&spec);
        if pool["spec"]["nodeSelector"].is_null() {
            pool = with(pool, &["spec", "nodeSelector"], Value::Null);
        }
        let created = mutate(&[pool], &create_node(created_node(labels, rest)));
        assert_eq!(created["spec"]["taints"], expected, "{case}");
        assert_eq!(created["metadata"]["annotations"]["winpool.dev/registered-with"].as_str(), mark, "{case}");
    }
}

#[test]
fn a_node_that_two_pools_select_gets_the_taints_of_one() {
    let batch = json!({"taints": [{"key": "batch", "effect": "NoSchedule"}]});
    let pools = [pool(&json!({})), with(pool(&batch), &["metadata", "name"], json!("batch"))];
    let annotated = json!({"example.com/note": "keep"});
    let new = with(created_node(json!({"agentpool": "web"}), json!({})), &["metadata", "annotations"], annotated);
    let created = mutate(&pools, &create_node(new));
    // An API server has no order of parameters.
    let pool = created["metadata"]["annotations"]["winpool.dev/registered-with"].clone();
    let taint = match pool.as_str().unwrap() {
        "web os:NoSchedule" => json!({"key": "os", "value": "windows", "effect": "NoSchedule"}),
        "batch batch:NoSchedule" => json!({"key": "batch", "effect": "NoSchedule"}),
        other => panic!("{other}"),
    };
    assert_eq!(created["spec"]["taints"], json!([taint]));
    let annotations = json!({"example.com/note": "keep", "winpool.dev/registered-with": pool});
    assert_eq!(created["metadata"]["annotations"], annotations);
}

proptest! {
    /// The expression for the selector of a pool is the rule of the operator.
    #[test]
    fn a_node_is_tainted_at_its_creation_if_the_operator_would_select_it(
        value in select(vec![None, Some("web"), Some("batch")]),
        operators in prop::collection::vec(
            (select(vec!["In", "NotIn", "Exists", "DoesNotExist"]), select(vec!["agentpool", "zone"])),
            0..=2,
        ),
        matched in select(vec![None, Some("web")]),
    ) {
        let expressions: Vec<Value> = operators.into_iter().map(|(operator, key)| {
            let values = if operator.ends_with("In") { json!(["web", "other"]) } else { json!([]) };
            json!({"key": key, "operator": operator, "values": values})
        }).collect();
        let mut selector = json!({"matchExpressions": expressions});
        if let Some(matched) = matched {
            selector["matchLabels"] = json!({"agentpool": matched});
        }
        let labels = value.map_or(json!({}), |value| json!({"agentpool": value}));
        let node = created_node(labels, json!({}));
        let typed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
        let expected = typed.matches(&serde_json::from_value(node["metadata"]["labels"].clone()).unwrap());
        let created = mutate(&[pool(&json!({"nodeSelector": selector}))], &create_node(node));
        prop_assert_eq!(!created["spec"]["taints"].is_null(), expected);
    }
}

#[test]
fn a_windows_pod_without_a_class_gets_that_of_its_namespace() {
    let windows = || json!({"os": {"name": "windows"}});
    let and = |mut spec: Value, field: &str, value: Value| {
        spec[field] = value;
        spec
    };
    let host_process = || json!({"windowsOptions": {"hostProcess": true}});
    let on =
        |key: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]});
    let one_node = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["win-1"]}]});
    let affinity = |terms: &[Value]| {
        let required = json!({"nodeSelectorTerms": terms});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})
    };
    let (given, none) = (Some("windows-ltsc2022"), None);
    let table = [
        ("os.name", given, windows()),
        ("the selector", given, json!({"nodeSelector": {"kubernetes.io/os": "windows"}})),
        ("an empty class", given, and(windows(), "runtimeClassName", json!(""))),
        ("a Linux pod", none, json!({"os": {"name": "linux"}})),
        ("the selector of Linux", none, json!({"nodeSelector": {"kubernetes.io/os": "linux"}})),
        ("no system", none, json!({})),
        ("a class", Some("own"), and(windows(), "runtimeClassName", json!("own"))),
        (
            "a selector of a build",
            none,
            and(windows(), "nodeSelector", json!({"node.kubernetes.io/windows-build": "10.0.17763"})),
        ),
        ("a selector of a pool", none, and(windows(), "nodeSelector", json!({"winpool.dev/pool": "web"}))),
        ("a selector of a release", none, and(windows(), "nodeSelector", json!({"runs.winpool.dev/ltsc2022": "true"}))),
        ("a node", none, and(windows(), "nodeName", json!("win-1"))),
        ("a selector of a node", none, and(windows(), "nodeSelector", json!({"kubernetes.io/hostname": "win-1"}))),
        ("an affinity to Windows", given, json!({"affinity": affinity(&[on("kubernetes.io/os", &["windows"])])})),
        (
            "an affinity to Windows or a disk",
            none,
            json!({"affinity": affinity(&[on("kubernetes.io/os", &["windows"]), on("disk", &["ssd"])])}),
        ),
        (
            "an affinity to both systems",
            none,
            json!({"affinity": affinity(&[on("kubernetes.io/os", &["linux", "windows"])])}),
        ),
        ("a preferred affinity to Windows", none, json!({"affinity": {"nodeAffinity": {}}})),
        ("an affinity to a disk", given, and(windows(), "affinity", affinity(&[on("disk", &["ssd"])]))),
        (
            "an affinity to a build",
            none,
            and(windows(), "affinity", affinity(&[on("node.kubernetes.io/windows-build", &["10.0.17763"])])),
        ),
        (
            "an affinity to a pool in one of two terms",
            none,
            and(windows(), "affinity", affinity(&[on("disk", &["ssd"]), on("winpool.dev/pool", &["web"])])),
        ),
        (
            "an affinity to a release",
            none,
            and(windows(), "affinity", affinity(&[on("runs.winpool.dev/ltsc2019", &["true"])])),
        ),
        ("an affinity to a node", none, and(windows(), "affinity", affinity(&[one_node]))),
        ("a HostProcess pod", none, and(windows(), "securityContext", host_process())),
        (
            "a HostProcess container",
            none,
            and(windows(), "containers", json!([{"name": "a", "securityContext": host_process()}])),
        ),
    ];
    for (case, expected, mut spec) in table {
        if spec["containers"].is_null() {
            spec["containers"] =
                json!([{"name": "app", "securityContext": {"windowsOptions": {"hostProcess": false}}}]);
        }
        for (namespace, expected) in [
            (json!({"winpool.dev/default-runtime-class": "windows-ltsc2022"}), expected),
            (json!({}), expected.filter(|class| *class == "own")),
        ] {
            let request = Request { namespace: Some(namespace), ..create_pod(REPLICA_SETS, spec.clone()) };
            let class = mutate(&[], &request)["spec"]["runtimeClassName"].as_str().map(str::to_owned);
            assert_eq!(class.as_deref().filter(|class| !class.is_empty()), expected, "{case}");
        }
    }
    for (owner, expected) in [("ReplicaSet", given), ("DaemonSet", none)] {
        let mut request = create_pod(DAEMON_SETS, and(windows(), "containers", json!([])));
        request.namespace = Some(json!({"winpool.dev/default-runtime-class": "windows-ltsc2022"}));
        request.new["metadata"]["ownerReferences"] = json!([{"kind": owner, "name": "app"}]);
        assert_eq!(mutate(&[], &request)["spec"]["runtimeClassName"].as_str(), expected, "{owner}");
    }
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn the_files_in_config_policies_are_those_of_their_kustomization_and_print_as_they_are() {
    for (name, policies) in [("config/policies", VALIDATING), ("config/policies/mutating", MUTATING)] {
        for policy in policies {
            let found = fs::read_to_string(folder(name).join(policy.file)).unwrap_or_default();
            let text = policy.yaml(DEFAULT_NAMESPACE, FIRST_WITH_MUTATING);
            assert_eq!(found, text, "{name}/{}", policy.file);
            assert_eq!(
                output::text(&parsed(&text), OutputFormat::Yaml),
                text,
                "{name}/{} is not in order",
                policy.file
            );
        }
        let listed = fs::read_to_string(folder(name).join("kustomization.yaml")).unwrap();
        let listed: Value = serde_saphyr::from_str(&listed).unwrap();
        assert_eq!(listed["resources"], json!(policies.iter().map(|policy| policy.file).collect::<Vec<_>>()));
    }
}

#[test]
fn the_keys_in_expressions_are_those_of_the_operator() {
    let prefixes = ["winpool.dev/", label::RUNS];
    let of_others = [&["beta.kubernetes.io/arch"], &OF_CLOUD[..]].concat();
    let known = [
        label::OS,
        label::BETA_OS,
        label::ARCH,
        label::HOSTNAME,
        label::WINDOWS_BUILD,
        label::MANAGED_BY,
        label::POOL,
        label::DEFAULT_RUNTIME_CLASS,
        annotation::REGISTERED_WITH,
        annotation::ALLOW_DELETION,
        annotation::OWNED,
    ];
    for object in objects(VALIDATING).into_iter().chain(objects(MUTATING)) {
        let text = object["spec"].to_string();
        let literals = text.split('\'').skip(1).step_by(2);
        let keys = literals.filter(|text| text.contains('/') && !text.contains(':') && !text.starts_with('/'));
        for key in keys {
            let is_known = known.contains(&key) || of_others.contains(&key) || prefixes.contains(&key);
            assert!(is_known, "{key} in {}", object["metadata"]["name"]);
        }
    }
}

#[test]
fn the_version_of_mutating_policies_is_that_of_the_api_server_and_their_fields_exist_in_it() {
    fn known<K: DeserializeOwned + Serialize>(object: &Value) {
        let typed = json!(serde_json::from_value::<K>(object.clone()).unwrap());
        assert_eq!(typed["spec"], object["spec"]);
    }
    for (minor, version) in [(FIRST_WITH_MUTATING_BETA, "v1beta1"), (FIRST_WITH_MUTATING, "v1")] {
        for policy in MUTATING {
            for mut object in parsed(&policy.yaml(DEFAULT_NAMESPACE, minor)) {
                assert_eq!(object["apiVersion"], format!("admissionregistration.k8s.io/{version}"));
                // The fields are those of v1alpha1.
                object["apiVersion"] = json!("admissionregistration.k8s.io/v1alpha1");
                match object["kind"].as_str().unwrap() {
                    "MutatingAdmissionPolicy" => known::<MutatingAdmissionPolicy>(&object),
                    _ => known::<MutatingAdmissionPolicyBinding>(&object),
                }
            }
        }
        for policy in VALIDATING {
            let [policy, binding] = parsed(&policy.yaml(DEFAULT_NAMESPACE, minor));
            assert_eq!(policy["apiVersion"], "admissionregistration.k8s.io/v1");
            known::<ValidatingAdmissionPolicy>(&policy);
            known::<ValidatingAdmissionPolicyBinding>(&binding);
        }
    }
}

#[test]
fn an_operator_in_another_namespace_is_the_operator_of_its_policies() {
    let elsewhere = "system:serviceaccount:windows:winpool";
    let policies: Vec<_> =
        VALIDATING.iter().flat_map(|policy| parsed(&policy.yaml("windows", FIRST_WITH_MUTATING))).collect();
    for (user, expected) in [(elsewhere, ALLOWED), (OPERATOR, BY_NODES)] {
        let request = update_of_node(user, &node(), &taints(json!([])));
        assert_eq!(evaluate(&policies, &[pool(&json!({}))], &request).rejected_by(), expected, "{user}");
    }
}

#[test]
fn an_error_in_an_expression_rejects_only_requests_of_the_operator_and_for_its_objects() {
    let fails: Vec<_> =
        objects(VALIDATING).into_iter().filter(|object| object["spec"]["failurePolicy"] == "Fail").collect();
    let names: Vec<_> = fails.iter().map(|policy| policy["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, [BY_OPERATOR, BY_DELETION]);
    assert!(objects(MUTATING).iter().all(|object| object["spec"]["failurePolicy"] != "Fail"));
}

#[test]
fn every_message_says_what_to_do() {
    for object in objects(VALIDATING) {
        for validation in object["spec"]["validations"].as_array().into_iter().flatten() {
            let message = validation["message"].as_str().unwrap();
            assert!(message.contains(": ") && !message.ends_with('.'), "{message}");
        }
    }
}
