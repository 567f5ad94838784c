//! The ValidatingAdmissionPolicies of `config/agent`, and the guard rails of `config/policies`, evaluated by the code of
//! kube-apiserver.

pub mod evaluator;
pub mod guard_rails;
mod users;

use std::{fs, path::Path};

use serde_json::{Value, json};
use winpool::policies::VALIDATING;
use winpool_api::custom_resource_definitions;

const OPERATOR: &str = "system:serviceaccount:winpool-system:winpool";
const AGENT: &str = "system:serviceaccount:winpool-agent:winpool-agent";
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
const KUBELET: &str = "system:node:win-1";
/// In the group system:masters, whom RBAC cannot limit.
const ADMIN: &str = "kubernetes-admin";

const CONFIG: &str = "windowsnodeconfigs";
const STATUS: &str = "windowsnodeconfigs/status";
const MAP: &str = "configmaps";

/// The outcomes.
const ALLOWED: &str = "";
const BY_STATUS: &str = "winpool-agent-status";
const BY_CONFIGS: &str = "winpool-node-configs";
const BY_MAPS: &str = "winpool-configurations";

/// A request to the API server.
struct Request {
    user: &'static str,
    /// The name and the UID of the node in the token of the user; the token of a pod that is not on a node has other
    /// information.
    token_of: Option<(&'static str, Option<&'static str>)>,
    operation: &'static str,
    resource: &'static str,
    namespace: &'static str,
    old: Value,
    new: Value,
}

impl Request {
    fn new(user: &'static str, operation: &'static str, resource: &'static str, old: Value, new: Value) -> Self {
        let namespace = if resource == MAP { "winpool-system" } else { "" };
        Self { user, token_of: None, operation, resource, namespace, old, new }
    }

    fn attributes(&self) -> evaluator::Request {
        let extra = match self.token_of {
            Some((name, None)) => json!({"authentication.kubernetes.io/node-name": [name]}),
            Some((name, Some(uid))) => json!({
                "authentication.kubernetes.io/node-name": [name], "authentication.kubernetes.io/node-uid": [uid],
            }),
            None if self.user == AGENT => json!({"authentication.kubernetes.io/pod-name": ["agent-1"]}),
            None => Value::Null,
        };
        evaluator::Request {
            user: self.user.to_owned(),
            extra,
            operation: self.operation,
            group: if self.resource == MAP { "" } else { "winpool.dev" },
            resource: self.resource,
            name: "win-1".to_owned(),
            namespace: (!self.namespace.is_empty()).then(|| json!({"kubernetes.io/metadata.name": self.namespace})),
            old: self.old.clone(),
            new: self.new.clone(),
        }
    }
}

/// The objects in a file of `config`.
fn documents(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(file);
    serde_saphyr::from_multiple(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The policy that denies a request; empty if it is allowed.
fn denied_by(request: &Request) -> String {
    let objects = documents("agent/admission_policy.yaml");
    let outcome = evaluator::evaluate(&objects, &[], &request.attributes());
    assert!(outcome.errors.is_empty(), "{:?}: {}", outcome.errors, request.new);
    outcome.rejected_by()
}

fn config(digest: &str) -> Value {
    json!({"metadata": {"name": "win-1"}, "spec": {"digest": digest, "pool": "web", "nodeUID": "uid-1"}})
}

fn map(managed: bool, data: &str) -> Value {
    let labels = if managed {
        json!({"app.kubernetes.io/managed-by": "winpool", "winpool.dev/pool": "web"})
    } else {
        json!({"winpool.dev/pool": "web"})
    };
    json!({"metadata": {"name": "web-1", "labels": labels}, "data": {"kubelet.yaml": data}})
}

/// The object with a finalizer, as a deletion in the foreground adds it and the garbage collector removes it.
fn with_finalizer(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    object
}

#[test]
fn an_agent_writes_only_the_status_of_its_own_node() {
    let status =
        |user, token_of| Request { token_of, ..Request::new(user, "UPDATE", STATUS, config("a"), config("a")) };
    for (user, token_of, expected) in [
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
    ] {
        assert_eq!(denied_by(&status(user, token_of)), expected, "{user} {token_of:?}");
    }
}

#[test]
fn only_the_operator_writes_the_spec_of_a_node_config() {
    for (user, operation, old, new, expected) in [
        (OPERATOR, "CREATE", Value::Null, config("a"), ALLOWED),
        (OPERATOR, "UPDATE", config("a"), config("b"), ALLOWED),
        (AGENT, "CREATE", Value::Null, config("a"), BY_CONFIGS),
        (AGENT, "UPDATE", config("a"), config("b"), BY_CONFIGS),
        (KUBELET, "UPDATE", config("a"), config("b"), BY_CONFIGS),
        (ADMIN, "CREATE", Value::Null, config("a"), BY_CONFIGS),
        (ADMIN, "UPDATE", config("a"), config("b"), BY_CONFIGS),
        (ADMIN, "UPDATE", config("a"), json!({"metadata": {"name": "win-1"}}), BY_CONFIGS),
        // Deletions are allowed, also those that wait for the garbage collector.
        (ADMIN, "DELETE", config("a"), Value::Null, ALLOWED),
        (COLLECTOR, "UPDATE", with_finalizer(config("a")), config("a"), ALLOWED),
        (COLLECTOR, "UPDATE", with_finalizer(config("a")), config("b"), BY_CONFIGS),
    ] {
        let request =
            Request { token_of: Some(("win-1", Some("uid-1"))), ..Request::new(user, operation, CONFIG, old, new) };
        assert_eq!(denied_by(&request), expected, "{user} {operation} {}", request.new);
    }
}

#[test]
fn only_the_operator_writes_its_config_maps() {
    let (own, other) = (map(true, "a"), map(false, "a"));
    for (user, operation, old, new, expected) in [
        (OPERATOR, "CREATE", Value::Null, own.clone(), ALLOWED),
        (OPERATOR, "UPDATE", own.clone(), map(true, "b"), ALLOWED),
        (AGENT, "CREATE", Value::Null, own.clone(), BY_MAPS),
        (ADMIN, "CREATE", Value::Null, own.clone(), BY_MAPS),
        (ADMIN, "UPDATE", own.clone(), map(true, "b"), BY_MAPS),
        (ADMIN, "UPDATE", own.clone(), json!({"metadata": own["metadata"]}), BY_MAPS),
        (ADMIN, "UPDATE", own.clone(), other.clone(), BY_MAPS),
        (ADMIN, "UPDATE", other.clone(), own.clone(), BY_MAPS),
        (ADMIN, "UPDATE", json!({"metadata": {}, "data": own["data"]}), own.clone(), BY_MAPS),
        (ADMIN, "UPDATE", own.clone(), json!({"metadata": {"name": "web-1"}, "data": own["data"]}), BY_MAPS),
        (ADMIN, "UPDATE", own.clone(), json!({"metadata": {"name": "web-1"}}), BY_MAPS),
        (ADMIN, "DELETE", own.clone(), Value::Null, ALLOWED),
        (COLLECTOR, "UPDATE", with_finalizer(own.clone()), own.clone(), ALLOWED),
        // ConfigMaps that are not the operator's.
        (ADMIN, "CREATE", Value::Null, other.clone(), ALLOWED),
        (ADMIN, "UPDATE", other.clone(), map(false, "b"), ALLOWED),
    ] {
        let request = Request::new(user, operation, MAP, old, new);
        assert_eq!(denied_by(&request), expected, "{user} {operation} {}", request.new);
    }
    let elsewhere = Request { namespace: "default", ..Request::new(ADMIN, "CREATE", MAP, Value::Null, own) };
    assert_eq!(denied_by(&elsewhere), ALLOWED, "agents read the namespace of the operator only");
}

/// The definitions of our resources.
fn definitions() -> Vec<Value> {
    custom_resource_definitions().into_iter().map(|(_, crd)| json!(crd)).collect()
}

#[test]
fn the_expressions_of_every_policy_have_the_types_of_its_objects() {
    let all = [guard_rails::objects(VALIDATING), documents("agent/admission_policy.yaml")].concat();
    assert_eq!(evaluator::type_warnings(&all, &definitions()), [""; 0]);
}

#[test]
fn an_expression_that_reads_an_unknown_field_or_compares_two_types_is_found() {
    for (expression, finding) in [
        ("object.metadata.nme == 'web'", "undefined field 'nme'"),
        ("object.spec.minRevision == 'a'", "found no matching overload for '_==_'"),
    ] {
        let mut policies = guard_rails::objects(VALIDATING);
        policies.retain(|object| object["metadata"]["name"] == "winpool-pool-deletion");
        policies[0]["spec"]["validations"][0]["expression"] = json!(expression);
        let [warning] = &evaluator::type_warnings(&policies, &definitions())[..] else { panic!("{expression}") };
        assert!(warning.contains(finding), "{warning}");
    }
}
