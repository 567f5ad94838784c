//! Admission policies: optional guard rails, which the API server enforces without a webhook. They are the files of
//! `config/policies`, which are for [`DEFAULT_NAMESPACE`] and for an API server that serves their kinds in version v1.
//!
//! Expressions test for a field with `has` before they read it, because an absent field is an error. Each names the API version
//! of its resources: API servers check the types in its expressions only then (status.typeChecking).
//!
//! Sources: kubernetes/website, "Mutating Admission Policy"; KEP-3962 (v1beta1 in 1.34, off by default; v1 in 1.36).

use winpool_api::names::{DEFAULT_NAMESPACE, SERVICE_ACCOUNT};
use winpool_facts::Minor;

/// The first minor with MutatingAdmissionPolicies in version v1.
pub const FIRST_WITH_MUTATING: Minor = Minor(36);
/// The first minor with MutatingAdmissionPolicies in version v1beta1, which has to be enabled.
pub const FIRST_WITH_MUTATING_BETA: Minor = Minor(34);

/// An admission policy with its binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The file in `config/policies`, or in `config/policies/mutating`.
    pub file: &'static str,
    text: &'static str,
}

/// The policies that reject requests.
pub const VALIDATING: &[Policy] = &[
    Policy { file: "nodes.yaml", text: include_str!("../config/policies/nodes.yaml") },
    Policy { file: "operator.yaml", text: include_str!("../config/policies/operator.yaml") },
    Policy { file: "runtime_classes.yaml", text: include_str!("../config/policies/runtime_classes.yaml") },
    Policy { file: "pool_deletion.yaml", text: include_str!("../config/policies/pool_deletion.yaml") },
    Policy { file: "pods.yaml", text: include_str!("../config/policies/pods.yaml") },
];

/// The policies that change objects at their creation.
pub const MUTATING: &[Policy] = &[
    Policy { file: "node_registration.yaml", text: include_str!("../config/policies/mutating/node_registration.yaml") },
    Policy {
        file: "default_runtime_class.yaml",
        text: include_str!("../config/policies/mutating/default_runtime_class.yaml"),
    },
];

impl Policy {
    /// The policy and its binding as YAML, for an operator in a namespace and the version of an API server.
    pub fn yaml(&self, namespace: &str, api_server: Minor) -> String {
        let user = |namespace: &str| format!("system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}'");
        let text = self.text.replace(&user(DEFAULT_NAMESPACE), &user(namespace));
        if api_server >= FIRST_WITH_MUTATING {
            return text;
        }
        let kind = |version: &str| format!("apiVersion: admissionregistration.k8s.io/{version}\nkind: Mutating");
        text.replace(&kind("v1"), &kind("v1beta1"))
    }
}
