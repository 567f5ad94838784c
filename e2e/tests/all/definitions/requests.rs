//! Writes by clients, and what the server stores.

use e2e::{
    cluster::SOON,
    requests::{Answer, Requests},
    wait::eventually,
};
use serde_json::{Value, json};

use super::{
    DEFINITIONS, collection, definitions, object, path_of, renamed, shared,
    specs::{POOL, pool},
};

/// A request for pool `written`.
enum Step {
    Create(&'static str),
    /// By server-side apply, as a field manager.
    Apply(&'static str, &'static str),
    /// By server-side apply that takes over the fields of others, with an old version of the object.
    ForceOld(&'static str),
    Merge(Value),
    /// Of the stored object, with another value at a path.
    Replace(&'static str, Value),
    /// Of its status.
    ReplaceStatus(&'static str, Value),
}

use Step::{Apply, Create, ForceOld, Merge, Replace, ReplaceStatus};

async fn answer(requests: &Requests, step: &Step) -> Answer {
    let written = |part: &str| object(POOL, "written", &pool(part));
    let path = path_of(&written(""));
    match step {
        Create(part) => requests.create(&collection(&written("")), &written(part)).await.unwrap(),
        Apply(manager, spec) => {
            let applied = object(POOL, "written", spec);
            requests.apply(&format!("{path}?fieldManager={manager}"), &applied).await.unwrap()
        }
        ForceOld(spec) => {
            let mut applied = object(POOL, "written", spec);
            applied["metadata"]["resourceVersion"] = json!("1");
            requests.apply(&format!("{path}?fieldManager=late&force=true"), &applied).await.unwrap()
        }
        Merge(patch) => requests.merge(&path, patch).await.unwrap(),
        Replace(pointer, value) | ReplaceStatus(pointer, value) => {
            let (_, mut stored) = requests.get(&path).await.unwrap();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            stored.pointer_mut(parent).unwrap()[field] = value.clone();
            let sub = if matches!(step, ReplaceStatus(..)) { "/status" } else { "" };
            requests.replace(&format!("{path}{sub}"), &stored).await.unwrap()
        }
    }
}

#[tokio::test]
async fn each_request_is_answered_and_stored_as_this_table_has_it() {
    let (requests, _running) = shared().await;
    let os = json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}]);
    let batch = json!([{"key": "batch", "effect": "NoExecute"}]);
    let other = "{windowsVersion: ltsc2022, fallback: true, taints: [{key: batch, effect: NoExecute}]}";
    let taints = |value| Some(("/spec/taints", value));
    let labels = |value| Some(("/spec/labels", value));
    let observed = |generation: i64| Some(("/status/observedGeneration", json!(generation)));
    let status = json!({"observedGeneration": 5});
    let old = json!({"metadata": {"resourceVersion": "1"}, "spec": {"paused": true}});
    // The step, the status code, and what a path has then.
    let steps = [
        ("a default is stored", Create(""), 201, taints(os.clone())),
        ("another object of the name", Create(""), 409, None),
        ("a list is replaced as a whole", Apply("git", other), 409, None),
        ("each field of a map has owners", Apply("git", "{labels: {team: web}}"), 200, labels(json!({"team": "web"}))),
        (
            "another owner adds a field",
            Apply("cost", "{labels: {center: a}}"),
            200,
            labels(json!({"team": "web", "center": "a"})),
        ),
        ("a field of another owner conflicts", Apply("cost", "{labels: {team: b}}"), 409, None),
        ("a field that its owner leaves out is removed", Apply("cost", "{}"), 200, labels(json!({"team": "web"}))),
        ("a merge patch replaces a list", Merge(json!({"spec": {"taints": batch}})), 200, taints(batch.clone())),
        ("an empty list stays empty", Merge(json!({"spec": {"taints": []}})), 200, taints(json!([]))),
        ("null restores the default", Merge(json!({"spec": {"taints": null}})), 200, taints(os)),
        ("null removes a field", Merge(json!({"spec": {"labels": null}})), 200, labels(Value::Null)),
        ("an unknown field is dropped", Replace("/spec/unknown", json!(1)), 200, Some(("/spec/unknown", Value::Null))),
        ("the status is not written with the object", Replace("/status", status.clone()), 200, observed(-1)),
        ("the status is stored", ReplaceStatus("/status", status), 200, observed(5)),
        (
            "nor is the object written with the status",
            ReplaceStatus("/spec/paused", json!(true)),
            200,
            Some(("/spec/paused", Value::Null)),
        ),
        ("an old version conflicts", Replace("/metadata/resourceVersion", json!("1")), 409, None),
        ("in a patch too", Merge(old), 409, None),
        ("and if fields are taken over by force", ForceOld("{paused: true}"), 409, None),
        ("a value outside its bounds is refused", Merge(json!({"spec": {"mode": "Watch"}})), 422, None),
    ];
    for (what, step, expected, stored) in steps {
        let (status, body) = answer(&requests, &step).await;
        assert_eq!(status, expected, "{what}: {body}");
        if let Some((pointer, value)) = stored {
            assert_eq!(body.pointer(pointer).cloned().unwrap_or_default(), value, "{what}");
        }
    }
    let (status, _) = requests.delete(&path_of(&object(POOL, "written", "{}"))).await.unwrap();
    assert_eq!(status, 200);
}

/// On a definition of its own, whose earlier schema allows more labels and has no rules.
#[tokio::test]
async fn stored_values_that_a_new_schema_refuses_are_kept_until_they_change() {
    let (requests, _running) = shared().await;
    let kind = "Upgraded";
    let of_pools = definitions().into_iter().find(|one| one["spec"]["names"]["kind"] == POOL).unwrap();
    let definition = renamed(of_pools, kind);
    let mut earlier = definition.clone();
    let spec = earlier.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
    spec["properties"]["labels"]["maxProperties"] = json!(100);
    spec["x-kubernetes-validations"] = json!([]);
    let pool = |name: &str, spec: &str| object(kind, name, spec);
    requests.install(&earlier).await.unwrap();
    let mut old = pool("old", "{windowsVersion: ltsc2022, fallback: true}");
    old["spec"]["labels"] = (0..40).map(|n| (format!("a{n}"), json!("b"))).collect::<serde_json::Map<_, _>>().into();
    let (status, body) = requests.create(&collection(&old), &old).await.unwrap();
    assert_eq!(status, 201, "{body}");
    requests.upgrade(&definition).await.unwrap();

    let neither = pool("neither", "{windowsVersion: ltsc2022}");
    let checked = || async {
        let (status, body) = requests.create(&format!("{}?dryRun=All", collection(&neither)), &neither).await?;
        anyhow::ensure!(status == 422, "{status}: {body}");
        Ok(())
    };
    // The handler with the new schema takes over after a moment.
    eventually("the new schema is in use", SOON, checked).await.unwrap();
    let path = format!("{}?dryRun=All", path_of(&old));
    for (patch, expected) in [
        (json!({"spec": {"paused": true}}), 200),
        (json!({"spec": {"labels": {"a0": "c"}}}), 422),
        (json!({"spec": {"fallback": false}}), 422),
    ] {
        let (status, body) = requests.merge(&path, &patch).await.unwrap();
        assert_eq!(status, expected, "{patch}: {body}");
    }
    let installed = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap());
    requests.delete(&installed).await.unwrap();
    let gone = || async {
        let (status, _) = requests.get(&installed).await?;
        anyhow::ensure!(status == 404, "{status}");
        Ok(())
    };
    eventually("the definition is deleted with its objects", SOON, gone).await.unwrap();
}
