//! The request of each operation, and the outcome of each answer.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Request, Response, header};
use kube::client::Body;
use winpool_core::node::WindowsNode;
use winpool_rules::operation::{DeniedPart, Dependency, Edit, NodeEdit};

use super::*;

/// A request: method, path with query, content type, body.
type Seen = (String, String, Option<String>, Value);

/// A writer to a fake server with these answers, and the requests that the server received.
fn writer(answer: impl Fn(usize, &Seen) -> (u16, Value) + Send + Sync + 'static) -> (Writer, Arc<Mutex<Vec<Seen>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (log, answer) = (seen.clone(), Arc::new(answer));
    let server = tower::service_fn(move |request: Request<Body>| {
        let (log, answer) = (log.clone(), answer.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let content = head.headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap().to_owned());
            let seen: Seen =
                (head.method.to_string(), head.uri.to_string(), content, serde_json::from_slice(&body).unwrap());
            let number = log.lock().unwrap().len();
            let (code, answer) = answer(number, &seen);
            log.lock().unwrap().push(seen);
            let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    (Writer::new(Client::new(server, "default"), "winpool-system".into(), Metrics::default()), seen)
}

fn object() -> Value {
    json!({"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any", "resourceVersion": "77"}, "spec": {}, "handler": "h"})
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "message": message}))
}

/// A change of a label and the taints.
fn edit() -> NodeEdit {
    NodeEdit {
        labels: [("winpool.dev/pool".to_owned(), Some("web".to_owned()))].into(),
        taints: Some(vec![]),
        if_denied: Some(DeniedPart::Taints),
        ..NodeEdit::default()
    }
}

fn patch(node: &str) -> Write {
    patch_with(node, edit())
}

fn patch_with(node: &str, edit: NodeEdit) -> Write {
    let metadata = json!({"name": node, "uid": "u-1", "resourceVersion": "7"});
    let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    Write::edit_node(&WindowsNode::from(node), Arc::new(edit), Arc::default())
}

/// The error of an answer with this code and message.
fn status(code: u16, message: &str) -> WriteError {
    let cause = ErrorCause::Status { code, reason: String::new(), fields: BTreeSet::new() };
    WriteError { cause, message: message.into() }
}

fn add_finalizer() -> Write {
    Write::finalizers(Action::AddFinalizer, "web", "7", &["winpool.dev/cleanup".to_owned()])
}

fn create_config_map() -> Write {
    Write::create(Action::CreateConfigMap, WriteTarget::new(Kind::CONFIG_MAP, "web-1"), json!({"kind": "ConfigMap"}))
}

fn apply_node_config() -> Write {
    let object = WriteTarget::new(Kind::NODE_CONFIG, "win-1");
    Write::apply(Action::ApplyNodeConfig, object, None, json!({"metadata": {}}), String::new())
}

fn class() -> WriteTarget {
    WriteTarget::new(Kind::RUNTIME_CLASS, "win")
}

fn apply_class(version: Option<&str>) -> Write {
    Write::apply(Action::ApplyRuntimeClass, class(), version, json!({"metadata": {}}), String::new())
}

fn delete_class() -> Write {
    Write::delete(Action::DeleteRuntimeClass, class().with_uid("u-1"))
}

fn evict() -> Write {
    Write::evict_pod("shop", "web-1", "u-1")
}

fn pool_status(name: &str) -> Write {
    Write::status(Action::RecordApplied, WriteTarget::new(Kind::POOL, name), "7", &json!({"applied": {}}))
}

#[tokio::test]
async fn each_operation_sends_one_request() {
    const MERGE: &str = "application/merge-patch+json";
    const APPLY: &str = "application/apply-patch+yaml";
    const JSON: &str = "application/json";
    let pool = "/apis/winpool.dev/v1alpha1/windowsnodepools/web";
    let table = [
        (
            add_finalizer(),
            ("PATCH", format!("{pool}?&fieldManager=winpool-finalizers"), MERGE),
            json!({"metadata": {"resourceVersion": "7", "finalizers": ["winpool.dev/cleanup"]}}),
        ),
        (
            Write::finalizers(Action::RemoveFinalizer, "web", "8", &[]),
            ("PATCH", format!("{pool}?&fieldManager=winpool-finalizers"), MERGE),
            json!({"metadata": {"resourceVersion": "8", "finalizers": []}}),
        ),
        (
            pool_status("web"),
            ("PATCH", format!("{pool}/status?&force=true&fieldManager=winpool-status"), APPLY),
            json!({
                "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool",
                "metadata": {"name": "web", "resourceVersion": "7"}, "status": {"applied": {}},
            }),
        ),
        (
            apply_class(None),
            (
                "POST",
                "/apis/node.k8s.io/v1/runtimeclasses?&fieldManager=winpool&fieldValidation=Strict".to_owned(),
                JSON,
            ),
            json!({"metadata": {}}),
        ),
        (
            apply_class(Some("7")),
            (
                "PATCH",
                "/apis/node.k8s.io/v1/runtimeclasses/win?&force=true&fieldManager=winpool&fieldValidation=Strict"
                    .to_owned(),
                APPLY,
            ),
            json!({"metadata": {"resourceVersion": "7"}}),
        ),
        (
            Write::merge(Action::StripRuntimeClass, class(), "7", json!({})),
            ("PATCH", "/apis/node.k8s.io/v1/runtimeclasses/win?&fieldManager=winpool".to_owned(), MERGE),
            json!({"metadata": {"resourceVersion": "7"}}),
        ),
        (
            delete_class(),
            ("DELETE", "/apis/node.k8s.io/v1/runtimeclasses/win?".to_owned(), JSON),
            json!({"propagationPolicy": "Background", "preconditions": {"uid": "u-1"}}),
        ),
        (
            create_config_map(),
            (
                "POST",
                "/api/v1/namespaces/winpool-system/configmaps?&fieldManager=winpool&fieldValidation=Strict".to_owned(),
                JSON,
            ),
            json!({"kind": "ConfigMap"}),
        ),
        (
            patch("win-1"),
            ("PATCH", "/api/v1/nodes/win-1?&fieldManager=winpool-nodes".to_owned(), MERGE),
            json!({
                "metadata": {"resourceVersion": "7", "labels": {"winpool.dev/pool": "web"}},
                "spec": {"taints": []},
            }),
        ),
        (
            evict(),
            ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction?&fieldManager=winpool-nodes".to_owned(), JSON),
            json!({
                "metadata": {"name": "web-1", "namespace": "shop"},
                "deleteOptions": {"preconditions": {"uid": "u-1"}},
            }),
        ),
    ];
    for (operation, (method, path, content), body) in table {
        let (writer, seen) = writer(|_, (method, ..)| match method.as_str() {
            "DELETE" => (200, json!({"apiVersion": "v1", "kind": "Status", "status": "Success"})),
            _ => (200, object()),
        });
        let mut versions = Vec::new();
        let done = writer.run([[operation.clone()].as_slice()], AfterFailure::Stop, &mut versions).await;
        assert_eq!(done.results, [(operation.clone(), Outcome::Done)]);
        assert!(done.complete);
        let request = (method.to_owned(), path, Some(content.to_owned()), body);
        assert_eq!(*seen.lock().unwrap(), [request], "{:?}", operation.action);
        let versions: Vec<_> = versions.into_iter().map(|written| written.version).collect();
        match (operation.action, operation.verb) {
            (Action::RemoveFinalizer | Action::EvictPod, _) => assert_eq!(versions, []),
            (_, Verb::Delete) => assert_eq!(versions, [None]),
            _ => assert_eq!(versions, [Some("77".to_owned())]),
        }
    }
}

#[tokio::test]
async fn a_later_write_of_the_same_object_has_the_version_that_the_earlier_one_left() {
    let (writer, seen) = writer(|_, _| (200, object()));
    let steps = [[add_finalizer()], [pool_status("web")], [pool_status("other")]];
    let mut versions = Vec::new();
    writer.run(steps.iter().map(<[_; 1]>::as_slice), AfterFailure::Stop, &mut versions).await;
    writer.send(&pool_status("other"), &versions).await;
    let version = |body: &Value| body["metadata"]["resourceVersion"].clone();
    let versions: Vec<Value> = seen.lock().unwrap().iter().skip(1).map(|(.., body)| version(body)).collect();
    assert_eq!(versions, ["77", "7", "77"]);
}

#[tokio::test]
async fn the_status_code_decides_the_outcome() {
    let refused = |code| Outcome::Refused(status(code, "because"));
    let failed = |code| Outcome::Failed(status(code, "because"));
    let table = [
        (add_finalizer(), 409, Outcome::Conflict),
        (add_finalizer(), 404, Outcome::NotFound),
        (add_finalizer(), 422, refused(422)),
        (add_finalizer(), 400, refused(400)),
        (add_finalizer(), 403, refused(403)),
        (add_finalizer(), 429, failed(429)),
        (add_finalizer(), 500, failed(500)),
        (add_finalizer(), 401, failed(401)),
        (apply_class(None), 409, Outcome::Conflict),
        (apply_class(Some("7")), 404, failed(404)),
        (create_config_map(), 404, failed(404)),
        (
            create_config_map(),
            409,
            Outcome::Refused(status(
                409,
                "because. It was written by another client: delete it, and it is created again",
            )),
        ),
        (apply_node_config(), 409, Outcome::Conflict),
        (delete_class(), 404, Outcome::NotFound),
        (Write::delete_config_map("web-1", "u-1"), 409, Outcome::Conflict),
        (patch("win-1"), 404, Outcome::NotFound),
        (patch("win-1"), 409, Outcome::Conflict),
        (patch("win-1"), 500, failed(500)),
        (evict(), 429, Outcome::Delayed),
        (evict(), 404, Outcome::NotFound),
        (evict(), 403, refused(403)),
        (evict(), 500, failed(500)),
    ];
    for (operation, code, outcome) in table {
        let (writer, seen) = writer(move |_, _| failure(code, "because"));
        let mut versions = Vec::new();
        let done = writer.run([[operation.clone()].as_slice()], AfterFailure::Stop, &mut versions).await;
        let complete = [Outcome::NotFound, Outcome::Delayed].contains(&outcome);
        assert_eq!(done.results, [(operation, outcome)], "{code}");
        assert_eq!(done.complete, complete, "{code}");
        assert!(versions.is_empty());
        assert_eq!(seen.lock().unwrap().len(), 1, "no request is retried: {code}");
    }
}

#[tokio::test]
async fn the_cause_of_a_failure_has_the_reason_and_the_fields_in_any_order() {
    let details = |fields: [&str; 2]| json!({"causes": fields.map(|field| json!({"reason": "FieldValueInvalid", "message": "m", "field": field}))});
    for fields in [["spec.a", "spec.b"], ["spec.b", "spec.a"]] {
        let (writer, _) = writer(move |_, _| {
            let (code, mut answer) = failure(422, "two mistakes");
            answer["reason"] = json!("Invalid");
            answer["details"] = details(fields);
            (code, answer)
        });
        let done = writer.run([[add_finalizer()].as_slice()], AfterFailure::Stop, &mut Vec::new()).await;
        let fields = ["spec.a".to_owned(), "spec.b".to_owned()].into();
        let cause = ErrorCause::Status { code: 422, reason: "Invalid".into(), fields };
        assert_eq!(done.results[0].1, Outcome::Refused(WriteError { cause, message: "two mistakes".into() }));
    }
}

#[tokio::test]
async fn a_rejected_part_of_a_patch_is_left_out_of_the_next_plan_and_other_failures_are_not() {
    let rejected = |part, code, message| Outcome::Denied(part, status(code, message));
    let forbidden = "nodes \"win-1\" is forbidden: User \"x\" cannot patch resource \"nodes\"";
    let table = [
        (Some(DeniedPart::Taints), 403, "denied", rejected(DeniedPart::Taints, 403, "denied")),
        (Some(DeniedPart::Taints), 422, "invalid", rejected(DeniedPart::Taints, 422, "invalid")),
        (Some(DeniedPart::Metadata), 403, "denied", rejected(DeniedPart::Metadata, 403, "denied")),
        // RBAC forbids all patches.
        (Some(DeniedPart::Taints), 403, forbidden, Outcome::Refused(status(403, forbidden))),
        // A patch that must not be written without its taints.
        (None, 403, "denied", Outcome::Refused(status(403, "denied"))),
    ];
    for (if_denied, code, message, outcome) in table {
        let write = patch_with("win-1", NodeEdit { if_denied, ..edit() });
        let (writer, seen) = writer(move |_, _| failure(code, message));
        let done = writer.run([[write.clone()].as_slice()], AfterFailure::Stop, &mut Vec::new()).await;
        assert_eq!(done.results, [(write, outcome)]);
        assert_eq!(seen.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn after_a_failure_with_stop_no_further_step_begins() {
    let steps = [
        vec![add_finalizer()],
        vec![patch("gone"), patch("win-3")],
        vec![patch("win-4"), patch("conflicts"), patch("win-5")],
        vec![patch("never")],
    ];
    let (writer, seen) = writer(|_, (_, path, ..)| match path {
        path if path.contains("gone") => failure(404, "not found"),
        path if path.contains("conflicts") => failure(409, "changed"),
        _ => (200, object()),
    });
    let done = writer.run(steps.iter().map(Vec::as_slice), AfterFailure::Stop, &mut Vec::new()).await;
    assert!(!done.complete);
    let ends: Vec<_> =
        done.results.iter().map(|(operation, outcome)| (operation.object.name.as_str(), outcome.clone())).collect();
    assert_eq!(
        ends,
        [
            ("web", Outcome::Done),
            ("gone", Outcome::NotFound),
            ("win-3", Outcome::Done),
            ("win-4", Outcome::Done),
            ("conflicts", Outcome::Conflict),
            ("win-5", Outcome::Done),
        ]
    );
    assert!(!seen.lock().unwrap().iter().any(|(_, path, ..)| path.contains("never")));
}

#[tokio::test]
async fn after_a_failure_with_go_on_only_dependent_writes_wait() {
    let depends = NodeEdit { classes: ["win".to_owned()].into(), ..edit() };
    let names_config = NodeEdit { config: Edit::Set("web-1".into()), ..edit() };
    let steps = [
        vec![add_finalizer()],
        vec![apply_class(Some("7")), create_config_map()],
        vec![patch_with("depends", depends), patch_with("config", names_config), patch("free")],
        vec![apply_class(Some("7")), Write::delete_config_map("old", "u-1")],
    ];
    let (writer, seen) = writer(|_, (method, path, ..)| match path {
        path if path.contains("runtimeclasses") || path.contains("configmaps?") => failure(403, "denied"),
        _ if method == "DELETE" => (200, json!({"apiVersion": "v1", "kind": "Status", "status": "Success"})),
        _ => (200, object()),
    });
    let done = writer.run(steps.iter().map(Vec::as_slice), AfterFailure::Continue, &mut Vec::new()).await;
    let denied = || Outcome::Refused(status(403, "denied"));
    let waits = |kind, name: &str| Outcome::Waits(Dependency::Object(kind, name.into()));
    let ends: Vec<_> =
        done.results.iter().map(|(operation, outcome)| (operation.object.name.as_str(), outcome.clone())).collect();
    assert_eq!(
        ends,
        [
            ("web", Outcome::Done),
            ("win", denied()),
            ("web-1", denied()),
            ("depends", waits(Kind::RUNTIME_CLASS, "win")),
            ("config", waits(Kind::CONFIG_MAP, "web-1")),
            ("free", Outcome::Done),
            ("old", Outcome::Done),
        ]
    );
    assert!(!done.complete);
    let seen = seen.lock().unwrap();
    assert!(!seen.iter().any(|(_, path, ..)| path.contains("depends") || path.contains("nodes/config")));
}

#[tokio::test(start_paused = true)]
async fn a_write_fails_after_ten_seconds_without_an_answer() {
    let silent = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let client = crate::cluster::client::with_time_limits(Client::new(silent, "default"));
    let writer = Writer::new(client, "winpool-system".into(), Metrics::default());
    let begin = Instant::now();
    let done = writer.run([[patch("win-1")].as_slice()], AfterFailure::Stop, &mut Vec::new()).await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    let failures: Vec<_> = done.failures().collect();
    assert_eq!(failures, ["Node win-1: the API server did not answer within 10s"]);
}

#[tokio::test(start_paused = true)]
async fn no_request_is_sent_after_the_deadline() {
    // The process is suspended for an hour during the first request.
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = sent.clone();
    let server = tower::service_fn(move |request: Request<Body>| {
        let log = log.clone();
        async move {
            log.lock().unwrap().push(request.uri().path().to_owned());
            tokio::time::advance(Duration::from_secs(3600)).await;
            Ok::<_, Infallible>(Response::new(Body::from(object().to_string().into_bytes())))
        }
    });
    let client = crate::cluster::client::with_time_limits(Client::new(server, "default"));
    let writer = Writer::new(client, "winpool-system".into(), Metrics::default());
    let fresh = writer.with_deadline(Instant::now() + Duration::from_secs(30));
    let class = Write::merge(Action::StripRuntimeClass, class(), "7", json!({}));
    let done = fresh
        .run([[patch("win-1")].as_slice(), std::slice::from_ref(&class)], AfterFailure::Stop, &mut Vec::new())
        .await;
    assert_eq!(sent.lock().unwrap().as_slice(), ["/api/v1/nodes/win-1"], "the write of the class is not sent");
    assert_eq!(done.results.last(), Some(&(class, Outcome::Conflict)));
    assert!(!done.complete);
}

#[tokio::test(start_paused = true)]
async fn sixteen_requests_of_a_step_run_at_once() {
    let (now, most) = (Arc::new(Mutex::new((0, 0))), 16);
    let busy = now.clone();
    let server = tower::service_fn(move |_: Request<Body>| {
        let busy = busy.clone();
        async move {
            {
                let mut busy = busy.lock().unwrap();
                busy.0 += 1;
                busy.1 = busy.0.max(busy.1);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            busy.lock().unwrap().0 -= 1;
            Ok::<_, Infallible>(Response::new(Body::from(object().to_string().into_bytes())))
        }
    });
    let writer = Writer::new(Client::new(server, "default"), "winpool-system".into(), Metrics::default());
    let step: Vec<_> = (0..50).map(|number| patch(&format!("win-{number}"))).collect();
    let done = writer.run([step.as_slice()], AfterFailure::Stop, &mut Vec::new()).await;
    assert_eq!(now.lock().unwrap().1, most);
    assert_eq!(done.results.into_iter().map(|(operation, _)| operation).collect::<Vec<_>>(), step, "in order");
}
