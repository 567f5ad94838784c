//! The policies of `config/agent`: who writes WindowsNodeConfigs, their status, and the ConfigMaps of the operator.

use serde_json::{Value, json};

use super::{
    ADMIN, AGENT, ALLOWED, COLLECTOR, CONFIGS, INVALID, KUBELET, MAPS, OPERATOR, Place, Request, Server, documents,
    with,
};

const BY_STATUS: &str = "winpool-agent-status";
const BY_CONFIGS: &str = "winpool-node-configs";
const BY_MAPS: &str = "winpool-configurations";

pub fn policies() -> Vec<Value> {
    documents("agent/admission_policy.yaml")
}

/// A WindowsNodeConfig of node win-1, with a digest of this digit.
pub fn config(digit: &str) -> Value {
    json!({"metadata": {"name": "win-1"}, "spec": {
        "config": "web-1", "digest": digit.repeat(64), "pool": "web", "nodeUID": "uid-1",
        "assignedAt": "2026-06-01T12:00:00Z", "confirmTimeout": "10m",
    }})
}

pub fn map(managed: bool, data: &str) -> Value {
    let mut labels = json!({"winpool.dev/pool": "web"});
    if managed {
        labels["app.kubernetes.io/managed-by"] = json!("winpool");
    }
    json!({"metadata": {"labels": labels}, "data": {"kubelet.yaml": data}})
}

/// The object with a finalizer, as a deletion in the foreground adds it and the garbage collector removes it.
fn with_finalizer(object: Value) -> Value {
    with(object, &["metadata", "finalizers"], json!(["foregroundDeletion"]))
}

#[tokio::test]
async fn an_agent_writes_only_the_status_of_its_own_node() {
    let server = Server::get().await;
    let stored = server.store(CONFIGS, &config("a")).await;
    let rows = [
        (AGENT, Some(("win-1", Some("uid-1"))), ALLOWED),
        (AGENT, Some(("win-2", Some("uid-1"))), BY_STATUS),
        (AGENT, Some(("win-10", Some("uid-1"))), BY_STATUS),
        (AGENT, Some(("", Some("uid-1"))), BY_STATUS),
        // The node was deleted and created again.
        (AGENT, Some(("win-1", Some("uid-0"))), BY_STATUS),
        (AGENT, Some(("win-1", None)), BY_STATUS),
        (AGENT, None, BY_STATUS),
        // RBAC limits them.
        (ADMIN, None, ALLOWED),
        (KUBELET, None, ALLOWED),
        (OPERATOR, None, ALLOWED),
    ];
    let status = |user, token_of| Request { token_of, ..Request::replace_status(user, CONFIGS, &stored, &config("a")) };
    let rows = rows.map(|(user, token_of, expected)| (format!("{token_of:?}"), status(user, token_of), expected));
    server.outcomes(rows).await;
}

/// The requests of a table: an object is created, replaced or deleted.
async fn writes(
    server: &Server,
    place: Place,
    table: Vec<(&'static str, Value, Value, &'static str)>,
) -> Vec<(String, Request, &'static str)> {
    let mut rows = Vec::new();
    for (user, old, new, expected) in table {
        let request = if old.is_null() {
            let new = with(new.clone(), &["metadata", "name"], json!("created"));
            Request::create(user, place, &new)
        } else {
            let stored = server.store(place, &old).await;
            if new.is_null() {
                Request::delete(user, place, &stored)
            } else {
                Request::replace(user, place, &stored, &new)
            }
        };
        let request = Request { token_of: Some(("win-1", Some("uid-1"))), ..request };
        rows.push((format!("{} {old} {new}", request.method), request, expected));
    }
    rows
}

#[tokio::test]
async fn only_the_operator_writes_the_spec_of_a_node_config() {
    let server = Server::get().await;
    let finalized = || with(with_finalizer(config("a")), &["metadata", "name"], json!("win-2"));
    let table = vec![
        (OPERATOR, Value::Null, config("a"), ALLOWED),
        (OPERATOR, config("a"), config("b"), ALLOWED),
        (AGENT, Value::Null, config("a"), BY_CONFIGS),
        (AGENT, config("a"), config("b"), BY_CONFIGS),
        (KUBELET, config("a"), config("b"), BY_CONFIGS),
        (ADMIN, Value::Null, config("a"), BY_CONFIGS),
        (ADMIN, config("a"), config("b"), BY_CONFIGS),
        (ADMIN, config("a"), json!({"metadata": {}}), INVALID),
        // Deletions are allowed, also those that wait for the garbage collector.
        (ADMIN, config("a"), Value::Null, ALLOWED),
        (COLLECTOR, finalized(), config("a"), ALLOWED),
        (COLLECTOR, finalized(), config("b"), BY_CONFIGS),
    ];
    server.outcomes(writes(&server, CONFIGS, table).await).await;
}

#[tokio::test]
async fn only_the_operator_writes_its_config_maps() {
    let server = Server::get().await;
    let (own, other) = (|| map(true, "a"), || map(false, "a"));
    let bare = || json!({"metadata": {}, "data": own()["data"]});
    let table = vec![
        (OPERATOR, Value::Null, own(), ALLOWED),
        (OPERATOR, own(), map(true, "b"), ALLOWED),
        (AGENT, Value::Null, own(), BY_MAPS),
        (ADMIN, Value::Null, own(), BY_MAPS),
        (ADMIN, own(), map(true, "b"), BY_MAPS),
        (ADMIN, own(), json!({"metadata": own()["metadata"]}), BY_MAPS),
        (ADMIN, own(), other(), BY_MAPS),
        (ADMIN, other(), own(), BY_MAPS),
        (ADMIN, bare(), own(), BY_MAPS),
        (ADMIN, own(), bare(), BY_MAPS),
        (ADMIN, own(), json!({"metadata": {}}), BY_MAPS),
        (ADMIN, own(), Value::Null, ALLOWED),
        (COLLECTOR, with_finalizer(own()), own(), ALLOWED),
        // ConfigMaps that are not the operator's.
        (ADMIN, Value::Null, other(), ALLOWED),
        (ADMIN, other(), map(false, "b"), ALLOWED),
    ];
    let mut rows = writes(&server, MAPS, table).await;
    // Agents read the namespace of the operator only.
    let elsewhere = Place("/api/v1/namespaces/default/configmaps", MAPS.1, MAPS.2);
    rows.extend(writes(&server, elsewhere, vec![(ADMIN, Value::Null, own(), ALLOWED)]).await);
    server.outcomes(rows).await;
}
