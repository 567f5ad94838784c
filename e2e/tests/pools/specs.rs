//! Specifications: what is stored for what was written, and what is said about mistakes.

use e2e::assets::say_skipped;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::{
    common::{GUARD, Scene, spec, windows},
    open, refused, stage, with_a_node,
};

#[tokio::test]
async fn mistakes_are_said_with_their_paths_and_nothing_is_written_or_let_go() {
    let mut scene = with_a_node("mistakes").await;
    scene.settled_pool("mistakes", spec("mistakes", json!({}))).await;
    // The schema takes it: a name that no profile can have, and so none will ever come.
    scene.edit_pool("mistakes", json!({ "spec": { "profileRef": { "name": "No Name" }, "taints": [] } })).await;
    let message = scene.until("mistakes", "SpecValid", "False", "Invalid").await;
    assert!(message.contains("spec.profileRef.name: not the name of an object"), "{message}");
    for (condition, status) in [("Ready", "False"), ("Stalled", "True"), ("Reconciling", "False")] {
        scene.until("mistakes", condition, status, "Invalid").await;
    }
    scene.add_nodes(vec![windows("mistakes", 2, "10.0.20348.1")]).await;
    scene.is_quiet().await;
    assert_eq!(scene.taints("mistakes-1").await.unwrap(), [GUARD]);
    assert_eq!(scene.pool_of("mistakes-2").await.unwrap(), None);

    scene.edit_pool("mistakes", json!({ "spec": { "profileRef": null, "taints": null } })).await;
    scene.until("mistakes", "SpecValid", "True", "Valid").await;
    scene.until_taints("mistakes-2", &[GUARD]).await;
    scene.until("mistakes", "Ready", "True", "AsSpecified").await;
    scene.close().await;
}

#[tokio::test]
async fn a_server_without_validation_rules_stores_mistakes_and_the_operator_says_them() {
    if stage().await.control_plane.version().minor >= 25 {
        eprintln!(
            "skipped: a_server_without_validation_rules_stores_mistakes_and_the_operator_says_them: this server has them"
        );
        return;
    }
    let scene = with_a_node("unruled").await;
    let mistakes = json!({
        "windowsVersion": "ltsc2032",
        "nodeSelector": { "matchLabels": {}, "matchExpressions": [{ "key": "test", "operator": "In" }] },
        "taints": [{ "key": "a", "effect": "NoSchedule" }, { "key": "a", "value": "b", "effect": "NoSchedule" }],
        "labels": { "kubernetes.io/os": "linux" },
        "runtimeClasses": [{ "name": "unruled" }, { "name": "unruled" }],
    });
    scene.pool("unruled", mistakes).await;
    let message = scene.until("unruled", "SpecValid", "False", "Invalid").await;
    for path in [
        "spec.windowsVersion: unknown Windows version \"ltsc2032\"",
        "spec.nodeSelector.matchExpressions[0].values:",
        "spec.taints[1]: a node can have one taint a:NoSchedule",
        "spec.labels[kubernetes.io/os]:",
        "spec.runtimeClasses[1].name: named twice",
    ] {
        assert!(message.contains(path), "{path} is not in: {message}");
    }
    scene.is_quiet().await;
    assert_eq!(scene.taints("unruled-1").await.unwrap(), [""; 0]);
    scene.close().await;
}

/// What the server says when it is asked to store a pool or profile.
async fn refusal(scene: &Scene, kind: &str, name: &str, spec: &Value) -> String {
    let api = if kind == "WindowsNodePool" { scene.pools() } else { scene.profiles() };
    let object =
        json!({ "apiVersion": "winpool.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let answer = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await;
    answer.err().map(|error| error.to_string()).unwrap_or_default()
}

#[tokio::test]
async fn a_server_with_validation_rules_refuses_mistakes_in_the_words_of_the_rules() {
    let test = "a_server_with_validation_rules_refuses_mistakes_in_the_words_of_the_rules";
    if stage().await.control_plane.version().minor < 25 {
        say_skipped(test, &"an API server with validation rules (Kubernetes 1.25)");
        return;
    }
    let scene = open("ruled", vec![]).await;
    let yaml = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
    let pools = refused::pools().into_iter().map(|(spec, said)| ("WindowsNodePool", yaml(&spec), said));
    let profiles = refused::profiles().into_iter().map(|(spec, said)| ("WindowsRuntimeProfile", yaml(spec), said));
    for (kind, spec, said) in pools.chain(profiles) {
        let (path, message) = said.split_once(": ").unwrap();
        let answer = refusal(&scene, kind, "ruled", &spec).await;
        assert!(answer.contains(&format!("{path}: Invalid value")) && answer.contains(message), "{spec}: {answer}");
    }
    for version in refused::UNKNOWN_VERSIONS {
        let answer =
            refusal(&scene, "WindowsNodePool", "ruled", &spec("ruled", json!({ "windowsVersion": version }))).await;
        assert!(answer.contains("spec.windowsVersion: Invalid value"), "{version}: {answer}");
        assert!(version.is_empty() || answer.contains(refused::UNKNOWN_VERSION), "{version}: {answer}");
    }
    let answer = refusal(&scene, "WindowsNodePool", &"a".repeat(64), &spec("ruled", json!({}))).await;
    assert!(answer.contains(refused::LONG_NAME), "{answer}");
    scene.close().await;
}

#[tokio::test]
async fn every_server_refuses_what_the_schema_cannot_hold() {
    let scene = open("schema", vec![]).await;
    for (kind, spec, path) in refused::by_schema() {
        let answer = refusal(&scene, kind, "schema", &serde_saphyr::from_str::<Value>(&spec).unwrap()).await;
        // Servers differ in whether a path has the index in a list.
        let [answer, path] = [answer.replace("[0]", ""), path.replace("[0]", "")];
        assert!(answer.contains(&path), "{spec}: {answer}");
    }
    scene.close().await;
}

/// How a person can apply a pool.
#[derive(Clone, Copy, Debug)]
enum Apply {
    ClientSide,
    ServerSide,
}

async fn apply(scene: &Scene, name: &str, how: Apply, taints: Option<&Value>) -> Value {
    let mut spec = spec("defaults", json!({ "runtimeClasses": [] }));
    if let Some(taints) = taints {
        spec["taints"] = taints.clone();
    }
    let pool = json!({
        "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": { "name": name }, "spec": spec,
    });
    let arguments = match how {
        Apply::ClientSide => &["apply", "-f", "-"][..],
        Apply::ServerSide => &["apply", "--server-side", "-f", "-"],
    };
    scene.stage.kubectl_with_input(arguments, &pool).unwrap();
    scene.pools().get(name).await.unwrap().data["spec"]["taints"].clone()
}

#[tokio::test]
async fn the_taints_that_are_written_are_the_taints_that_are_stored() {
    let scene = open("defaults", vec![]).await;
    let (none, one) = (json!([]), json!([{ "key": "team", "value": "web", "effect": "NoSchedule" }]));
    let default = json!([{ "key": "os", "value": "windows", "effect": "NoSchedule" }]);
    let values = [(None, &default), (Some(&none), &none), (Some(&one), &one)];
    for how in [Apply::ClientSide, Apply::ServerSide] {
        for (number, (first, stored)) in values.iter().enumerate() {
            let name =
                format!("defaults-{}-{number}", if matches!(how, Apply::ClientSide) { "client" } else { "server" });
            assert_eq!(apply(&scene, &name, how, *first).await, **stored, "{how:?} {first:?}");
            // From every value to every value, there and back.
            for (next, next_stored) in values {
                assert_eq!(apply(&scene, &name, how, next).await, *next_stored, "{how:?} {first:?} to {next:?}");
                assert_eq!(apply(&scene, &name, how, *first).await, **stored, "{how:?} {next:?} to {first:?}");
            }
        }
    }
    for (number, taints) in [Value::Null, none, one].into_iter().enumerate() {
        let name = format!("defaults-{number}");
        scene.pool(&name, spec("defaults", json!({ "runtimeClasses": [], "taints": taints }))).await;
        let stored = scene.pools().get(&name).await.unwrap().data["spec"]["taints"].clone();
        assert_eq!(stored, if taints.is_null() { default.clone() } else { taints });
    }
    scene.close().await;
}

#[tokio::test]
async fn no_taints_means_none() {
    let scene = with_a_node("bare").await;
    scene.settled_pool("bare", spec("bare", json!({ "taints": [], "runtimeClasses": [] }))).await;
    scene.until_pool_of("bare-1", Some("bare")).await;
    assert_eq!(scene.taints("bare-1").await.unwrap(), [""; 0]);
    let status = scene.status("bare").await.unwrap();
    assert_eq!((status.nodes.guarded, status.columns.runtime_class.as_str()), (1, ""));
    scene.is_quiet().await;
    scene.close().await;
}
