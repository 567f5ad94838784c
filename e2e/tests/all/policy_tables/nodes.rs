//! winpool-nodes: what winpool sets on the nodes of an enforced pool.

use serde_json::{Value, json};

use super::{ADMIN, AGENT, ALLOWED, KUBELET, NODE_CONTROLLER, NODES, Request, Server, for_everyone, node_of, os, with};

pub const BY_NODES: &str = "winpool-nodes";
/// Pools that are not enforced; there is no pool of the last name.
const UNGUARDED: [&str; 4] = ["observed", "paused", "deleting", "absent"];

fn taints(node: Value, taints: Value) -> Value {
    with(node, &["spec", "taints"], taints)
}

fn label(node: Value, key: &str, value: Value) -> Value {
    with(node, &["metadata", "labels", key], value)
}

fn annotation(node: Value, key: &str, value: Value) -> Value {
    with(node, &["metadata", "annotations", key], value)
}

/// Changes of a node and their outcomes.
fn changes(node: impl Fn() -> Value) -> Vec<(&'static str, &'static str, Value)> {
    let taint = |value: &str, effect: &str| json!([{"key": "os", "value": value, "effect": effect}]);
    let many: serde_json::Map<_, _> = (0..1000).map(|index| (format!("filler-{index}"), json!("x"))).collect();
    let filled = |field: &str| {
        let mut node = node();
        node["metadata"][field].as_object_mut().unwrap().extend(many.clone());
        node
    };
    let fillers = (0..1000).map(|index| json!({"key": format!("filler-{index}"), "effect": "NoSchedule"}));
    let to_paused = label(taints(node(), json!([])), "winpool.dev/pool", json!("paused"));
    let of_others = json!([
        {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}, os(),
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
    ]);
    vec![
        ("its taint is removed", BY_NODES, taints(node(), json!([]))),
        ("all taints are removed", BY_NODES, taints(node(), Value::Null)),
        ("its taint has another value", BY_NODES, taints(node(), taint("linux", "NoSchedule"))),
        ("its taint has another effect", BY_NODES, taints(node(), taint("windows", "PreferNoSchedule"))),
        ("the label of its pool is removed", BY_NODES, label(node(), "winpool.dev/pool", Value::Null)),
        ("the label of its pool names another pool", BY_NODES, label(node(), "winpool.dev/pool", json!("batch"))),
        ("the label of its pool names a paused pool", BY_NODES, to_paused),
        ("the label of a release is removed", BY_NODES, label(node(), "runs.winpool.dev/ltsc2022", Value::Null)),
        ("the label of a release is added", BY_NODES, label(node(), "runs.winpool.dev/ltsc2025", json!("true"))),
        ("a label of the spec is removed", BY_NODES, label(node(), "team", Value::Null)),
        ("a label of the spec is changed", BY_NODES, label(node(), "team", json!("other"))),
        ("the record is removed", BY_NODES, annotation(node(), "winpool.dev/owned", Value::Null)),
        ("the record is changed", BY_NODES, annotation(node(), "winpool.dev/owned", json!("{\"pool\":\"web\"}"))),
        ("another annotation of winpool is added", BY_NODES, annotation(node(), "winpool.dev/cordoned", json!("{}"))),
        ("its taint is removed among fillers", BY_NODES, taints(node(), fillers.collect())),
        ("more labels than a real node has", BY_NODES, filled("labels")),
        ("more annotations than a real node has", BY_NODES, filled("annotations")),
        ("a taint of the node controller is removed", ALLOWED, taints(node(), json!([os()]))),
        ("taints of others are added", ALLOWED, taints(node(), of_others)),
        ("another label is added", ALLOWED, label(node(), "example.com/zone", json!("a"))),
        ("another label is removed", ALLOWED, label(node(), "zone", Value::Null)),
        ("another annotation is changed", ALLOWED, annotation(node(), "example.com/note", json!("changed"))),
        ("the node is cordoned", ALLOWED, with(node(), &["spec", "unschedulable"], json!(true))),
        ("nothing is changed", ALLOWED, node()),
    ]
}

#[tokio::test]
async fn only_the_operator_changes_its_taints_labels_and_annotations_on_nodes_of_an_enforced_pool() {
    let server = Server::get().await;
    let mut rows = Vec::new();
    let stored = server.store(NODES, &node_of("web")).await;
    for (change, expected, changed) in changes(|| node_of("web")) {
        for (user, expected) in for_everyone(expected) {
            rows.push((change.to_owned(), Request::replace(user, NODES, &stored, &changed), expected));
        }
    }
    let untainted = taints(node_of("web"), json!([]));
    rows.push(("its taint is removed".to_owned(), Request::replace(AGENT, NODES, &stored, &untainted), BY_NODES));
    rows.push(("deletion".to_owned(), Request::delete(NODE_CONTROLLER, NODES, &stored), ALLOWED));
    for pool in UNGUARDED {
        let stored = server.store(NODES, &node_of(pool)).await;
        for (change, _, changed) in changes(|| node_of(pool)) {
            rows.push((format!("{pool}: {change}"), Request::replace(ADMIN, NODES, &stored, &changed), ALLOWED));
        }
    }
    server.outcomes(rows).await;
}

#[tokio::test]
async fn only_the_operator_gives_a_node_the_label_of_an_enforced_pool() {
    let server = Server::get().await;
    let outside = |pool| label(node_of(pool), "winpool.dev/pool", Value::Null);
    let bare = with(outside("web"), &["metadata", "labels"], json!({"kubernetes.io/os": "windows"}));
    let mut rows = Vec::new();
    for (what, expected, old, new) in [
        ("a node in no pool", BY_NODES, outside("web"), node_of("web")),
        ("a node without other labels", BY_NODES, bare, node_of("web")),
        ("a node of a pool that does not exist", BY_NODES, node_of("batch"), node_of("web")),
        ("a node of a paused pool", BY_NODES, node_of("paused"), node_of("web")),
        ("a pool in mode Observe", ALLOWED, outside("observed"), node_of("observed")),
    ] {
        let stored = server.store(NODES, &old).await;
        for (user, expected) in for_everyone(expected) {
            rows.push((what, Request::replace(user, NODES, &stored, &new), expected));
        }
    }
    server.outcomes(rows).await;
}

#[tokio::test]
async fn a_kubelet_changes_labels_and_annotations_of_winpool_by_the_status_of_its_node_neither() {
    let server = Server::get().await;
    let node = || node_of("web");
    let stored = server.store(NODES, &node()).await;
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let attached = "volumes.kubernetes.io/controller-managed-attach-detach";
    let status = |changed| Request::replace_status(KUBELET, NODES, &stored, &changed);
    let rows = [
        ("it leaves its pool", status(label(node(), "winpool.dev/pool", Value::Null)), BY_NODES),
        ("it removes the record", status(annotation(node(), "winpool.dev/owned", Value::Null)), BY_NODES),
        ("it adds an annotation", status(annotation(node(), attached, json!("true"))), ALLOWED),
        ("it is ready", status(with(node(), &["status"], ready)), ALLOWED),
    ];
    server.outcomes(rows).await;
}

#[tokio::test]
async fn values_that_differ_from_the_spec_are_not_protected() {
    let server = Server::get().await;
    let conflict = || label(node_of("web"), "team", json!("theirs"));
    let former = || taints(node_of("bare"), json!([os()]));
    let mut rows = Vec::new();
    for (what, old, new) in [
        ("a label with another value", conflict(), label(conflict(), "team", json!("others"))),
        ("a former taint of the pool", former(), taints(former(), json!([]))),
        ("a former label of the pool", former(), label(former(), "team", Value::Null)),
    ] {
        let stored = server.store(NODES, &old).await;
        rows.push((what, Request::replace(ADMIN, NODES, &stored, &new), ALLOWED));
    }
    server.outcomes(rows).await;
}
