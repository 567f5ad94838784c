//! winpool-operator: the limits of the operator's own token.

use serde_json::{Value, json};

use super::{ALLOWED, NODES, OPERATOR, OTHERS, Request, Server, node_of, with};

const BY_OPERATOR: &str = "winpool-operator";

/// Replacements of nodes by the operator, and their outcomes.
async fn outcomes(server: &Server, table: Vec<(&'static str, &'static str, Value, Value)>) {
    let mut rows = Vec::new();
    for (change, expected, old, new) in table {
        let stored = server.store(NODES, &old).await;
        rows.push((change, Request::replace(OPERATOR, NODES, &stored, &new), expected));
    }
    server.outcomes(rows).await;
}

#[tokio::test]
async fn the_operator_changes_windows_nodes_only() {
    let server = Server::get().await;
    // Of a pool that does not exist, so that no other policy concerns them.
    let node = || node_of("absent");
    let system = |value| with(node(), &["metadata", "labels", "kubernetes.io/os"], value);
    let linux = || with(system(json!("linux")), &["metadata", "annotations", "winpool.dev/owned"], Value::Null);
    let unlabelled = || with(node(), &["metadata", "labels"], Value::Null);
    let tainted = |node: Value| with(node, &["spec", "taints"], json!([{"key": "a", "effect": "NoExecute"}]));
    let table = vec![
        ("a Windows node", ALLOWED, node(), tainted(node())),
        ("a Linux node", BY_OPERATOR, linux(), tainted(linux())),
        ("a node without labels", BY_OPERATOR, unlabelled(), tainted(unlabelled())),
        ("a Linux node becomes a Windows node", BY_OPERATOR, linux(), node()),
        ("a Windows node becomes a Linux node", BY_OPERATOR, node(), linux()),
        ("the label is removed", BY_OPERATOR, node(), system(Value::Null)),
        ("a Linux node gets a record", BY_OPERATOR, linux(), system(json!("linux"))),
    ];
    let mut rows = Vec::new();
    for (change, _, old, new) in &table {
        let stored = server.store(NODES, old).await;
        rows.extend(OTHERS.map(|user| (*change, Request::replace(user, NODES, &stored, new), ALLOWED)));
    }
    server.outcomes(rows).await;
    outcomes(&server, table).await;
    // The garbage collector deletes an object whose owners do not exist.
    let owner = json!([{"apiVersion": "v1", "kind": "Namespace", "name": "absent", "uid": "absent"}]);
    let owned = with(node(), &["metadata", "ownerReferences"], owner);
    outcomes(&server, vec![("an owner that does not exist", BY_OPERATOR, node(), owned)]).await;
}

#[tokio::test]
async fn the_operator_removes_what_the_record_lists_from_a_node_that_has_lost_its_label() {
    const RECORD: &str = "winpool.dev/owned";
    let server = Server::get().await;
    let record =
        r#"{"pool":"web","taints":{"os:NoSchedule":"added","gpu:NoSchedule":"found"},"labels":{"team":"added"}}"#;
    let old = json!({
        "metadata": {
            "labels": {"winpool.dev/pool": "web", "runs.winpool.dev/ltsc2022": "true", "team": "web", "zone": "a"},
            "annotations": {RECORD: record, "winpool.dev/cordoned": "{}", "example.com/note": "keep"},
        },
        "spec": {"unschedulable": true, "taints": [
            {"key": "os", "value": "windows", "effect": "NoSchedule"},
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ]},
    });
    let others = || Value::from(old["spec"]["taints"].as_array().unwrap()[1..].to_vec());
    let released = || {
        let node = with(old.clone(), &["metadata", "labels"], json!({"zone": "a"}));
        let node = with(node, &["metadata", "annotations"], json!({"example.com/note": "keep"}));
        with(with(node, &["spec", "unschedulable"], Value::Null), &["spec", "taints"], others())
    };
    let recorded = |value: &str| with(released(), &["metadata", "annotations", RECORD], json!(value));
    let taints = |taints| with(released(), &["spec", "taints"], taints);
    let labels = |labels| with(released(), &["metadata", "labels"], labels);
    let annotations = |annotations| with(released(), &["metadata", "annotations"], annotations);
    let forged = r#"{"labels":{"zone":"added"}}"#;
    let changes = [
        ("everything of winpool is removed", ALLOWED, released()),
        ("the record is kept", ALLOWED, recorded(record)),
        ("the record is emptied", BY_OPERATOR, recorded("{}")),
        ("the record gets other entries", BY_OPERATOR, recorded(forged)),
        (
            "another annotation of winpool is added",
            BY_OPERATOR,
            annotations(json!({"example.com/note": "keep", "winpool.dev/config": "web-1"})),
        ),
        ("an annotation of others is removed", BY_OPERATOR, annotations(json!({}))),
        ("a label of others is removed", BY_OPERATOR, labels(json!({}))),
        ("a label is changed", BY_OPERATOR, labels(json!({"zone": "b"}))),
        ("a label is added", BY_OPERATOR, labels(json!({"zone": "a", "team2": "b"}))),
        ("a taint that the record has as found is removed", BY_OPERATOR, taints(json!([]))),
        ("a taint is added", BY_OPERATOR, taints(json!([{"key": "a", "effect": "NoExecute"}]))),
    ];
    let of_record = |value| with(old.clone(), &["metadata", "annotations", RECORD], value);
    let uncordoned = with(old.clone(), &["spec", "unschedulable"], json!(false));
    let others = [
        ("an empty record gets entries", BY_OPERATOR, of_record(json!("{}")), of_record(json!(forged))),
        ("the node is cordoned", BY_OPERATOR, uncordoned, old.clone()),
        ("there is no record", BY_OPERATOR, of_record(Value::Null), released()),
    ];
    let changes = changes.map(|(change, expected, new)| (change, expected, old.clone(), new));
    outcomes(&server, changes.into_iter().chain(others).collect()).await;
}
