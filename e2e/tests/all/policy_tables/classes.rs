//! winpool-runtime-classes and winpool-pool-deletion: the classes of an enforced pool, and pools with nodes.

use serde_json::{Value, json};

use super::{
    ADMIN, ALLOWED, CLASSES, OPERATOR, OTHERS, POOLS, Request, Server, TENANT, deleting, for_everyone, os, pool, with,
};

pub const BY_CLASSES: &str = "winpool-runtime-classes";
pub const BY_DELETION: &str = "winpool-pool-deletion";

/// The status of a pool with nodes and classes, whose names have this prefix.
pub fn status(prefix: &str) -> Value {
    let class = |name: &str, state: &str| json!({"name": format!("{prefix}-{name}"), "state": state});
    json!({
        "nodes": {"matched": 2, "configured": 2, "ready": 2, "tainted": 2},
        "runtimeClasses": [
            class("ltsc2022", "Applied"), class("adopted", "Applied"), class("theirs", "Applied"),
            class("old", "Unused"), class("hyperv", "HandlerDiffers"),
        ],
    })
}

/// Pools with nodes and classes that are not enforced, and an enforced one without taints and labels.
pub fn pools() -> Vec<Value> {
    let with_status = |name: &str, spec: Value| {
        let spec = with(spec, &["taints"], json!([{"key": name, "value": "windows", "effect": "NoSchedule"}]));
        with(pool(name, &spec), &["status"], status(name))
    };
    vec![
        with_status("observed", json!({"mode": "Observe"})),
        with_status("paused", json!({"paused": true})),
        deleting(with_status("deleting", json!({}))),
        pool("bare", &json!({"taints": [], "labels": {}})),
    ]
}

fn class(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "winpool", "winpool.dev/pool": "web"}},
        "handler": "runhcs-wcow-process",
        "scheduling": {"nodeSelector": {"kubernetes.io/os": "windows"}},
    })
}

fn adopted(name: &str) -> Value {
    with(class(name), &["metadata", "annotations"], json!({"winpool.dev/adopted": "{}"}))
}

fn theirs(name: &str) -> Value {
    with(class(name), &["metadata", "labels"], Value::Null)
}

/// The classes of all pools, one of no pool, and one that is not of winpool.
pub fn stored() -> Vec<Value> {
    let of_pool = |prefix: &str| {
        let name = |name: &str| format!("{prefix}-{name}");
        let others = ["ltsc2022", "old", "hyperv"].map(|suffix| class(&name(suffix)));
        [&others[..], &[adopted(&name("adopted")), theirs(&name("theirs"))]].concat()
    };
    let all = ["windows", "observed", "paused", "deleting"].into_iter().flat_map(of_pool);
    all.chain([class("windows-retained"), theirs("own")]).collect()
}

/// Writes of classes whose names have this prefix; the deletion has no new object.
fn writes(prefix: &str) -> Vec<(&'static str, &'static str, Value, Value)> {
    let name = |name: &str| format!("{prefix}-{name}");
    let ours = || class(&name("ltsc2022"));
    let labelled = |key: &str, value: &str| with(ours(), &["metadata", "labels", key], json!(value));
    let changed = |class: Value| with(class, &["scheduling", "nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    let many: serde_json::Map<_, _> = (0..1000).map(|index| (format!("filler-{index}"), json!("x"))).collect();
    let mut filled = ours();
    filled["metadata"]["labels"].as_object_mut().unwrap().extend(many);
    vec![
        ("deletion", BY_CLASSES, ours(), Value::Null),
        ("another selector", BY_CLASSES, ours(), changed(ours())),
        ("no scheduling", BY_CLASSES, ours(), with(ours(), &["scheduling"], Value::Null)),
        ("an overhead", BY_CLASSES, ours(), with(ours(), &["overhead"], json!({"podFixed": {"cpu": "1"}}))),
        ("without its label", BY_CLASSES, ours(), theirs("")),
        ("of another pool", BY_CLASSES, ours(), labelled("winpool.dev/pool", "batch")),
        ("without its former state", BY_CLASSES, adopted(&name("adopted")), class("")),
        ("more labels than a real class has", BY_CLASSES, ours(), filled),
        ("another label", ALLOWED, ours(), labelled("team", "a")),
        ("a finalizer", ALLOWED, ours(), with(ours(), &["metadata", "finalizers"], json!(["foregroundDeletion"]))),
        // A remedy of winpool is to delete these.
        ("deletion of an unused class", ALLOWED, class(&name("old")), Value::Null),
        ("deletion of a class with another handler", ALLOWED, class(&name("hyperv")), Value::Null),
        // Not of winpool, or not of a pool.
        ("deletion of a class of others", ALLOWED, theirs(&name("theirs")), Value::Null),
        ("change of a class of others", ALLOWED, theirs(&name("theirs")), changed(theirs(""))),
        ("deletion of a class of no pool", ALLOWED, class("windows-retained"), Value::Null),
    ]
}

#[tokio::test]
async fn only_the_operator_changes_or_deletes_a_runtime_class_of_an_enforced_pool() {
    let server = Server::get().await;
    let mut rows = Vec::new();
    for (prefix, enforced) in [("windows", true), ("observed", false), ("paused", false), ("deleting", false)] {
        for (change, expected, old, new) in writes(prefix) {
            let stored = server.store(CLASSES, &old).await;
            let request = |user| match &new {
                Value::Null => Request::delete(user, CLASSES, &stored),
                new => Request::replace(user, CLASSES, &stored, new),
            };
            let what = format!("{prefix}: {change}");
            if enforced {
                rows.extend(for_everyone(expected).map(|(user, expected)| (what.clone(), request(user), expected)));
            } else {
                rows.push((what, request(ADMIN), ALLOWED));
            }
        }
    }
    rows.push(("creation".into(), Request::create(ADMIN, CLASSES, &class("new")), ALLOWED));
    server.outcomes(rows).await;
}

#[tokio::test]
async fn a_pool_with_nodes_is_deleted_only_if_its_annotation_confirms_it() {
    let server = Server::get().await;
    let populated = |name: &str| with(pool(name, &json!({"taints": [os()]})), &["status"], status(name));
    let confirmed = |name: &str, value: &str| {
        with(populated(name), &["metadata", "annotations"], json!({"winpool.dev/allow-deletion": value}))
    };
    let empty = with(populated("empty"), &["status", "nodes", "matched"], json!(0));
    let mut rows = Vec::new();
    for (case, expected, pool) in [
        ("not confirmed", BY_DELETION, populated("plain")),
        ("confirmed for another pool", BY_DELETION, confirmed("other", "batch")),
        ("confirmed without a name", BY_DELETION, confirmed("nameless", "true")),
        ("confirmed in upper case", BY_DELETION, confirmed("upper", "UPPER")),
        ("confirmed", ALLOWED, confirmed("confirmed", "confirmed")),
        ("without nodes", ALLOWED, empty),
        ("not reconciled yet", ALLOWED, pool("new", &json!({}))),
        ("being deleted already", ALLOWED, deleting(populated("ending"))),
    ] {
        let stored = server.store(POOLS, &pool).await;
        for user in OTHERS.into_iter().chain([OPERATOR]) {
            rows.push((case, Request::delete(user, POOLS, &stored), expected));
        }
    }
    let stored = server.store(POOLS, &populated("plain")).await;
    let confirmation = Request::replace(TENANT, POOLS, &stored, &confirmed("plain", "plain"));
    rows.push(("the confirmation", confirmation, ALLOWED));
    server.outcomes(rows).await;
}
