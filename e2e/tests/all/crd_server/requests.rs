//! Writes by clients: the same on the oldest server that is supported and on that of today, or the difference is here.

use e2e::{
    crd_server::CrdServer,
    requests::{Answer, Requests},
};
use serde_json::{Value, json};

use super::{POOL, collection, definitions, object, path_of, rejected::pool};

/// A request for pool `web`.
enum Step {
    Create(&'static str),
    /// By server-side apply, as a field manager.
    Apply(&'static str, &'static str),
    Merge(Value),
    /// Of the stored object, with a change.
    Replace(fn(&mut Value)),
    /// Of the status, with a change.
    ReplaceStatus(fn(&mut Value)),
}

use Step::{Apply, Create, Merge, Replace, ReplaceStatus};

async fn answer(requests: &Requests, step: &Step) -> Answer {
    let web = |part: &str| object(POOL, "web", &pool(part));
    let path = path_of(&web(""));
    match step {
        Create(part) => requests.create(&collection(&web("")), &web(part)).await.unwrap(),
        Apply(manager, spec) => {
            let applied = object(POOL, "web", spec);
            requests.apply(&format!("{path}?fieldManager={manager}"), &applied).await.unwrap()
        }
        Merge(patch) => requests.merge(&path, patch).await.unwrap(),
        Replace(change) | ReplaceStatus(change) => {
            let (_, mut stored) = requests.get(&path).await.unwrap();
            change(&mut stored);
            let sub = if matches!(step, ReplaceStatus(_)) { "/status" } else { "" };
            requests.replace(&format!("{path}{sub}"), &stored).await.unwrap()
        }
    }
}

#[tokio::test]
async fn both_servers_answer_the_same_requests_in_the_same_way() {
    let server = CrdServer::start_beside_new().await.unwrap();
    let today = server.requests().await.unwrap();
    let oldest = Requests::to(&server.control_plane).await.unwrap();
    for definition in definitions(&e2e::install::path("crds")) {
        today.install(&definition).await.unwrap();
        oldest.install(&definition).await.unwrap();
    }
    let os = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    let batch = json!([{"key": "batch", "effect": "NoExecute"}]);
    // The step, the status code, and what a path has then.
    let steps = [
        ("a default is stored", Create(""), 201, "/spec/taints", os.clone()),
        ("another object of the name", Create(""), 409, "/spec/taints", Value::Null),
        (
            "a list is replaced as a whole",
            Apply("git", "{windowsVersion: ltsc2022, fallback: true, taints: [{key: batch, effect: NoExecute}]}"),
            409,
            "/spec/taints",
            Value::Null,
        ),
        (
            "the fields of a map have owners of their own",
            Apply("git", "{labels: {team: web}}"),
            200,
            "/spec/labels",
            json!({"team": "web"}),
        ),
        (
            "another owner adds a field",
            Apply("cost", "{labels: {center: a}}"),
            200,
            "/spec/labels",
            json!({"team": "web", "center": "a"}),
        ),
        ("a field of another owner conflicts", Apply("cost", "{labels: {team: b}}"), 409, "/spec/labels", Value::Null),
        (
            "a field that its owner leaves out is removed",
            Apply("cost", "{}"),
            200,
            "/spec/labels",
            json!({"team": "web"}),
        ),
        (
            "a merge patch replaces a list",
            Merge(json!({"spec": {"taints": batch}})),
            200,
            "/spec/taints",
            batch.clone(),
        ),
        ("an empty list stays empty", Merge(json!({"spec": {"taints": []}})), 200, "/spec/taints", json!([])),
        ("null restores the default", Merge(json!({"spec": {"taints": null}})), 200, "/spec/taints", os.clone()),
        ("null removes a field", Merge(json!({"spec": {"labels": null}})), 200, "/spec/labels", Value::Null),
        (
            "an unknown field is dropped",
            Replace(|web| web["spec"]["unknown"] = json!(1)),
            200,
            "/spec/unknown",
            Value::Null,
        ),
        (
            "the status is not written with the object",
            Replace(|web| web["status"] = json!({"observedGeneration": 5})),
            200,
            "/status/observedGeneration",
            json!(-1),
        ),
        (
            "nor the object with the status",
            ReplaceStatus(|web| {
                web["spec"]["paused"] = json!(true);
                web["status"] = json!({"observedGeneration": 2});
            }),
            200,
            "/spec/paused",
            json!(false),
        ),
        (
            "the status is stored",
            Merge(json!({"metadata": {"labels": {"a": "b"}}})),
            200,
            "/status/observedGeneration",
            json!(2),
        ),
        (
            "an old version of the object conflicts",
            Replace(|web| web["metadata"]["resourceVersion"] = json!("1")),
            409,
            "/spec",
            Value::Null,
        ),
        ("a value outside its bounds is refused", Merge(json!({"spec": {"mode": "Watch"}})), 422, "/spec", Value::Null),
    ];
    for (what, step, expected, pointer, value) in steps {
        for (server, requests) in [("today", &today), ("oldest", &oldest)] {
            let (status, body) = answer(requests, &step).await;
            assert_eq!(status, expected, "{server}: {what}: {body}");
            assert_eq!(body.pointer(pointer).cloned().unwrap_or_default(), value, "{server}: {what}");
        }
    }
}

/// The differences: rules in CEL (1.25), strict validation (1.25), and unchanged values that the schema of today would refuse,
/// which a server keeps since 1.30.
#[tokio::test]
async fn a_server_has_rules_strict_validation_and_keeps_unchanged_values_that_a_new_schema_refuses_since_a_version() {
    let server = CrdServer::start_beside_new().await.unwrap();
    let today = server.requests().await.unwrap();
    let control_plane = Requests::to(&server.control_plane).await.unwrap();
    let definitions = definitions(&e2e::install::path("crds"));
    let pools = definitions.iter().find(|one| one["spec"]["names"]["kind"] == POOL).unwrap();
    let mut permissive = pools.clone();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let spec = permissive.pointer_mut(schema).unwrap();
    spec["properties"]["labels"]["maxProperties"] = json!(100);
    spec["x-kubernetes-validations"] = json!([]);
    let labels: Value = (0..40).map(|n| (format!("a{n}"), json!("b"))).collect::<serde_json::Map<_, _>>().into();
    let minor = server.control_plane.version().minor;
    // Rules in CEL and strict validation are in 1.25, and unchanged values are kept from 1.30 on.
    let (ruled, strict) = if minor >= 25 { (422, 400) } else { (201, 201) };
    let kept = if minor >= 30 { 200 } else { 422 };
    let expected = [("today", &today, 422, 400, 200), ("control plane", &control_plane, ruled, strict, kept)];
    for (name, requests, ruled, strict, kept) in expected {
        requests.install(&permissive).await.unwrap();
        let mut old = object(POOL, "old", "{windowsVersion: ltsc2022, fallback: true}");
        old["spec"]["labels"] = labels.clone();
        let (status, body) = requests.create(&collection(&old), &old).await.unwrap();
        assert_eq!(status, 201, "{name}: {body}");
        requests.upgrade(pools).await.unwrap();

        let neither = object(POOL, "neither", "{windowsVersion: ltsc2022}");
        let checked = || async {
            let (status, body) = requests.create(&format!("{}?dryRun=All", collection(&neither)), &neither).await?;
            anyhow::ensure!(status == ruled, "{name}: {status}: {body}");
            Ok(())
        };
        // The handler with the new schema takes over after a moment.
        e2e::wait::eventually("the new schema is in use", e2e::cluster::SOON, checked).await.unwrap();
        let unknown = object(POOL, "unknown", "{windowsVersion: ltsc2022, fallback: true, unknown: 1}");
        let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(&unknown));
        assert_eq!(requests.create(&path, &unknown).await.unwrap().0, strict, "{name}");
        let paused = json!({"spec": {"paused": true}});
        let (status, body) = requests.merge(&path_of(&old), &paused).await.unwrap();
        assert_eq!(status, kept, "{name}: {body}");
        let changed = json!({"spec": {"labels": {"a0": "c"}}});
        assert_eq!(requests.merge(&path_of(&old), &changed).await.unwrap().0, 422, "{name}");
    }
}
