//! Other ways to send what the policies reject.

use serde_json::{Value, json};

use super::{ADMIN, CLASSES, INVALID, KUBELET, NODES, PODS, POOLS, Request, Server, TENANT, node, os, pods, web};

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
    const FORCED: &str = "?fieldManager=someone&force=true";
    let server = Server::get().await;
    let stored = server.store(NODES, &node()).await;
    let patch = |user, content, body| Request::patch(user, NODES, &stored, content, body);
    let unmarked = json!({"metadata": {"labels": {"winpool.dev/pool": null}}});
    let applied = |more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": stored["metadata"]["name"]}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let other = json!({"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}});
    let moved = json!([{"op": "replace", "path": "/metadata/labels/winpool.dev~1pool", "value": "paused"}, {"op": "remove", "path": "/spec/taints"}]);
    let swapped = json!({"metadata": {"labels": {"winpool.dev/pool": "paused"}}, "spec": {"taints": null}});
    let labels = json!({"metadata": {"labels": {"Winpool.dev/pool": "web"}}});
    let rows = [
        ("a merge patch", "winpool-nodes", patch(ADMIN, MERGE, json!({"spec": {"taints": null}}))),
        ("a strategic merge patch", "winpool-nodes", patch(ADMIN, STRATEGIC, json!({"spec": {"taints": null}}))),
        ("a JSON patch", "winpool-nodes", patch(ADMIN, JSON, json!([{"op": "remove", "path": "/spec/taints"}]))),
        ("a JSON patch that swaps the pool first", "winpool-nodes", patch(ADMIN, JSON, moved)),
        ("a merge patch that swaps the pool", "winpool-nodes", patch(ADMIN, MERGE, swapped)),
        ("a forced apply of other taints", "winpool-nodes", at(patch(ADMIN, APPLY, applied(other)), FORCED)),
        (
            "a forced apply of another pool",
            "winpool-nodes",
            at(
                patch(
                    ADMIN,
                    APPLY,
                    applied(
                        json!({"metadata": {"name": stored["metadata"]["name"], "labels": {"winpool.dev/pool": "paused"}}}),
                    ),
                ),
                FORCED,
            ),
        ),
        ("the status", "winpool-nodes", at(patch(KUBELET, MERGE, unmarked.clone()), "/status")),
        (
            "the status, by a JSON patch",
            "winpool-nodes",
            at(
                patch(KUBELET, JSON, json!([{"op": "remove", "path": "/metadata/labels/winpool.dev~1pool"}])),
                "/status",
            ),
        ),
        ("a label in upper case", INVALID, patch(ADMIN, MERGE, labels)),
        (
            "fields of which the server warns only",
            "winpool-nodes",
            at(patch(ADMIN, MERGE, unmarked), "?fieldValidation=Ignore"),
        ),
    ];
    server
        .outcomes(rows.into_iter().map(|(what, expected, request)| (what.to_owned(), request, expected)).collect())
        .await;
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
        ("all pools".to_owned(), all(POOLS.0, "web"), "winpool-pool-deletion"),
        ("all classes".to_owned(), all(CLASSES.0, "windows-ltsc2022"), "winpool-runtime-classes"),
    ];
    for options in ["?propagationPolicy=Orphan", "?propagationPolicy=Foreground", "?gracePeriodSeconds=0"] {
        rows.push((options.to_owned(), at(Request::delete(ADMIN, POOLS, &pool), options), "winpool-pool-deletion"));
        rows.push((
            options.to_owned(),
            at(Request::delete(ADMIN, CLASSES, &class), options),
            "winpool-runtime-classes",
        ));
    }
    let applied = json!({
        "apiVersion": CLASSES.1, "kind": CLASSES.2, "metadata": {"name": "windows-ltsc2022"}, "handler": class["handler"],
        "scheduling": {"nodeSelector": {"kubernetes.io/os": "linux"}},
    });
    for (content, options, body) in [
        (MERGE, "", json!({"scheduling": null})),
        (JSON, "", json!([{"op": "remove", "path": "/scheduling"}])),
        (APPLY, "?fieldManager=someone&force=true", applied),
    ] {
        let request = at(Request::patch(ADMIN, CLASSES, &class, content, body), options);
        rows.push((content.to_owned(), request, "winpool-runtime-classes"));
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
    let fillers = (0..101)
        .map(|index| (format!("filler-{index}"), json!("x")))
        .chain([("runs.winpool.dev/x".into(), json!("true"))]);
    selecting.body["spec"]["nodeSelector"] = Value::Object(fillers.collect());
    let rows = [
        ("a generated name", unnamed),
        ("an empty node name", unbound),
        ("fillers in the selector", selecting),
        ("a field manager", at(pod(), "?fieldManager=kubelet")),
    ];
    server.outcomes(rows.map(|(what, request)| (what.to_owned(), request, "winpool-pods")).into()).await;
}
