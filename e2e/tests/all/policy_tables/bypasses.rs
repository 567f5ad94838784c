//! Other ways to send what the policies reject.

use serde_json::{Value, json};

use super::{
    ADMIN, CLASSES, INVALID, KUBELET, NODES, PODS, POOLS, Request, Server, TENANT,
    classes::{BY_CLASSES, BY_DELETION},
    identified, node,
    nodes::BY_NODES,
    os,
    pods::{self, BY_PODS},
    web,
};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request to another path below the same object, or with these options.
fn at(request: Request, suffix: &str) -> Request {
    Request { path: request.path.clone() + suffix, ..request }
}

#[tokio::test]
async fn a_node_is_guarded_against_every_kind_of_patch() {
    let server = Server::get().await;
    let stored = server.store(NODES, &node()).await;
    let name = &stored["metadata"]["name"];
    let patch = |content, body| Request::patch(ADMIN, NODES, &stored, content, body);
    let apply = |object: Value| at(patch(APPLY, identified(NODES, &object)), "?fieldManager=someone&force=true");
    let untainted = || json!({"spec": {"taints": null}});
    let paused = || json!({"winpool.dev/pool": "paused"});
    let untaint = json!({"op": "remove", "path": "/spec/taints"});
    let to_paused = json!({"op": "replace", "path": "/metadata/labels/winpool.dev~1pool", "value": "paused"});
    let unmark = json!([{"op": "remove", "path": "/metadata/labels/winpool.dev~1pool"}]);
    let other = json!([{"key": "other", "effect": "NoSchedule"}]);
    let swapped = json!({"metadata": {"labels": paused()}, "spec": {"taints": null}});
    let by_kubelet = Request::patch(KUBELET, NODES, &stored, JSON, unmark);
    let upper = json!({"metadata": {"labels": {"Winpool.dev/pool": "web"}}});
    let rows = [
        ("a merge patch", patch(MERGE, untainted()), BY_NODES),
        ("a strategic merge patch", patch(STRATEGIC, untainted()), BY_NODES),
        ("a JSON patch", patch(JSON, json!([untaint])), BY_NODES),
        ("a JSON patch that swaps the pool first", patch(JSON, json!([to_paused, untaint])), BY_NODES),
        ("a merge patch that swaps the pool", patch(MERGE, swapped), BY_NODES),
        (
            "a forced apply of other taints",
            apply(json!({"metadata": {"name": name}, "spec": {"taints": other}})),
            BY_NODES,
        ),
        ("a forced apply of another pool", apply(json!({"metadata": {"name": name, "labels": paused()}})), BY_NODES),
        ("the status, by a JSON patch", at(by_kubelet, "/status"), BY_NODES),
        ("a label in upper case", patch(MERGE, upper), INVALID),
        ("fields of which the server warns only", at(patch(MERGE, untainted()), "?fieldValidation=Ignore"), BY_NODES),
    ];
    server.outcomes(rows).await;
}

#[tokio::test]
async fn pools_and_classes_are_guarded_against_every_kind_of_deletion() {
    let server = Server::get().await;
    let pool = server.store(POOLS, &web()).await;
    let class = server.requests.get(&format!("{}/windows-ltsc2022", CLASSES.0)).await.unwrap().1;
    let all = |path: &str, name: &str| {
        Request::new(ADMIN, "DELETE", format!("{path}?fieldSelector=metadata.name={name}"), Value::Null)
    };
    let mut rows = vec![
        ("all pools", all(POOLS.0, "web"), BY_DELETION),
        ("all classes", all(CLASSES.0, "windows-ltsc2022"), BY_CLASSES),
    ];
    for options in ["?propagationPolicy=Orphan", "?propagationPolicy=Foreground", "?gracePeriodSeconds=0"] {
        rows.push((options, at(Request::delete(ADMIN, POOLS, &pool), options), BY_DELETION));
        rows.push((options, at(Request::delete(ADMIN, CLASSES, &class), options), BY_CLASSES));
    }
    let applied = json!({
        "metadata": {"name": "windows-ltsc2022"}, "handler": class["handler"],
        "scheduling": {"nodeSelector": {"kubernetes.io/os": "linux"}},
    });
    for (content, options, body) in [
        (MERGE, "", json!({"scheduling": null})),
        (JSON, "", json!([{"op": "remove", "path": "/scheduling"}])),
        (APPLY, "?fieldManager=someone&force=true", identified(CLASSES, &applied)),
    ] {
        rows.push((content, at(Request::patch(ADMIN, CLASSES, &class, content, body), options), BY_CLASSES));
    }
    server.outcomes(rows).await;
}

#[tokio::test]
async fn a_pod_is_guarded_under_any_name_and_with_any_options() {
    let server = Server::get().await;
    let pod = || pods::create(TENANT, PODS, &json!({"tolerations": [os()]}));
    let mut unnamed = pod();
    unnamed.body["metadata"] = json!({"generateName": "app-"});
    let mut unbound = pod();
    unbound.body["spec"]["nodeName"] = json!("");
    let mut selecting = pod();
    let fillers = (0..101).map(|index| (format!("filler-{index}"), json!("x")));
    selecting.body["spec"]["nodeSelector"] = Value::Object(fillers.collect());
    selecting.body["spec"]["nodeSelector"]["runs.winpool.dev/x"] = json!("true");
    let rows = [
        ("a generated name", unnamed, BY_PODS),
        ("an empty node name", unbound, BY_PODS),
        ("fillers in the selector", selecting, BY_PODS),
        ("a field manager", at(pod(), "?fieldManager=kubelet"), BY_PODS),
    ];
    server.outcomes(rows).await;
}
