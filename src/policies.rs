//! Admission policies: optional guard rails, which the API server enforces without a webhook.
//!
//! The files of `config/policies` are generated from these objects. Keys, names and values in the expressions come from
//! the modules that the operator uses too.
//!
//! Sources: kubernetes/website, "Validating Admission Policy" (v1 since 1.30) and "Mutating Admission Policy"; KEP-3962
//! (v1beta1 in 1.34, off by default; v1 in 1.36).

mod cel;
mod nodes;
mod objects;
mod pods;

use kube::Resource as _;
use serde_json::{Value, json};
use winpool_api::{
    WindowsNodePool,
    facts::Minor,
    names::{DEFAULT_NAMESPACE, SERVICE_ACCOUNT},
};

/// The first minor with ValidatingAdmissionPolicies in version v1.
pub const FIRST_WITH_VALIDATING: Minor = Minor(30);
/// The first minor with MutatingAdmissionPolicies in version v1.
pub const FIRST_WITH_MUTATING: Minor = Minor(36);
/// The first minor with MutatingAdmissionPolicies in version v1beta1, which has to be enabled.
pub const FIRST_WITH_MUTATING_BETA: Minor = Minor(34);

const GROUP: &str = "admissionregistration.k8s.io";

/// What a policy does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Effect {
    /// Each expression must be true, otherwise the request is rejected with its message.
    Validate(Vec<(String, String)>),
    /// Each expression is a list of operations of a JSON patch.
    Mutate(Vec<String>),
}

/// What an error in an expression, or a missing parameter kind, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnError {
    /// The request is rejected: for objects of winpool, and for the operator.
    Fail,
    /// The policy is ignored: for nodes and pods, which a mistake in a policy must not stop.
    Ignore,
}

/// An admission policy with its binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name of the policy, and of its binding.
    pub name: &'static str,
    /// The file in `config/policies`, or in `config/policies/mutating`.
    pub file: &'static str,
    description: String,
    on_error: OnError,
    /// Whether it is evaluated once for each pool, with the pool as parameter.
    per_pool: bool,
    constraints: Value,
    conditions: Vec<(&'static str, String)>,
    variables: Vec<(&'static str, String)>,
    effect: Effect,
}

/// The policies that reject requests, for an operator in this namespace.
pub fn validating(namespace: &str) -> Vec<Policy> {
    let operator = user(namespace);
    vec![
        nodes::protected(&operator),
        nodes::of_the_operator(&operator),
        objects::runtime_classes(&operator),
        objects::pool_deletion(),
        pods::os_selector(),
    ]
}

/// The policies that change objects at their creation.
pub fn mutating() -> Vec<Policy> {
    vec![nodes::registration(), pods::default_runtime_class()]
}

/// The policies in `config/policies`.
pub fn shipped() -> Vec<Policy> {
    validating(DEFAULT_NAMESPACE)
}

/// The user name of the operator in a namespace.
fn user(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}")
}

/// The constraints of a policy for these operations on these resources. Requests for another version are converted to this
/// one; for a named version, unlike `*`, an API server checks the types in the expressions (status.typeChecking).
fn constraints((group, version): (&str, &str), operations: &[&str], resources: &[&str]) -> Value {
    json!({"resourceRules": [{
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": operations,
        "resources": resources,
    }]})
}

impl Policy {
    /// The policy and its binding. For MutatingAdmissionPolicies the API version depends on that of the API server.
    pub fn objects(&self, api_server: Minor) -> [Value; 2] {
        let kind = match self.effect {
            Effect::Validate(_) => "ValidatingAdmissionPolicy",
            Effect::Mutate(_) => "MutatingAdmissionPolicy",
        };
        let version = match self.effect {
            Effect::Mutate(_) if api_server < FIRST_WITH_MUTATING => "v1beta1",
            _ => "v1",
        };
        let object = |kind: &str, metadata: Value, spec: Value| {
            let api_version = format!("{GROUP}/{version}");
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
        };
        let metadata = json!({"name": self.name, "annotations": {"kubernetes.io/description": self.description}});
        [
            object(kind, metadata, self.spec()),
            object(&format!("{kind}Binding"), json!({"name": self.name}), self.binding()),
        ]
    }

    fn spec(&self) -> Value {
        let mut spec = json!({
            "failurePolicy": match self.on_error { OnError::Fail => "Fail", OnError::Ignore => "Ignore" },
            "matchConstraints": self.constraints,
        });
        if self.per_pool {
            let api_version = WindowsNodePool::api_version(&());
            spec["paramKind"] = json!({"apiVersion": api_version, "kind": WindowsNodePool::kind(&())});
        }
        let named = |entries: &[(&str, String)]| -> Vec<Value> {
            entries.iter().map(|(name, text)| json!({"name": name, "expression": cel::indented(text)})).collect()
        };
        if !self.conditions.is_empty() {
            spec["matchConditions"] = json!(named(&self.conditions));
        }
        if !self.variables.is_empty() {
            spec["variables"] = json!(named(&self.variables));
        }
        match &self.effect {
            Effect::Validate(validations) => {
                let validations = validations.iter().map(|(expression, message)| {
                    json!({"expression": cel::indented(expression), "message": message, "reason": "Forbidden"})
                });
                spec["validations"] = validations.collect();
            }
            Effect::Mutate(patches) => {
                let mutations = patches
                    .iter()
                    .map(|patch| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": cel::indented(patch)}}));
                spec["mutations"] = mutations.collect();
                spec["reinvocationPolicy"] = json!("Never");
            }
        }
        spec
    }

    fn binding(&self) -> Value {
        let mut spec = json!({"policyName": self.name});
        if self.per_pool {
            spec["paramRef"] = json!({"selector": {}, "parameterNotFoundAction": "Allow"});
        }
        if let Effect::Validate(_) = self.effect {
            spec["validationActions"] = json!(["Deny"]);
        }
        spec
    }
}
