//! The bodies of the writes for node agents: WindowsNodeConfigs, cordons and evictions.

use serde_json::{Value, json};
use winpool_api::{WindowsNodeConfigSpec, names::annotation};

use crate::node::Cordon;

/// A pod to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictedPod {
    /// The `namespace/name`.
    pub key: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid: a new pod of this name is not evicted.
    pub uid: String,
}

impl EvictedPod {
    /// The Eviction. Its version is that of the server: policy/v1, or policy/v1beta1 before Kubernetes 1.22.
    pub fn body(&self) -> Value {
        json!({
            "metadata": {"name": self.name, "namespace": self.namespace},
            "deleteOptions": {"preconditions": {"uid": self.uid}},
        })
    }
}

/// The object that sets the spec of a WindowsNodeConfig: of this version, or of a new one.
pub(super) fn node_config(node: &str, resource_version: Option<&str>, spec: &WindowsNodeConfigSpec) -> Value {
    let mut body = json!({
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodeConfig",
        "metadata": {"name": node},
        "spec": spec,
    });
    if let Some(version) = resource_version {
        body["metadata"]["resourceVersion"] = json!(version);
    }
    body
}

/// What a spec changes, as text.
pub(super) fn node_config_change(spec: &WindowsNodeConfigSpec) -> String {
    let WindowsNodeConfigSpec { config, disruption, attempt, .. } = spec;
    match (&spec.confirmed, attempt) {
        (Some(_), _) => format!("confirm {config}"),
        (None, 1) => format!("assign {config} ({})", disruption.name()),
        (None, attempt) => format!("assign {config} ({}), attempt {attempt}", disruption.name()),
    }
}

/// The merge patch of a node that sets the cordon of the operator, or removes it.
pub(super) fn cordon_patch(resource_version: &str, cordon: Option<&Cordon>) -> Value {
    let record = cordon.map(|cordon| json!(cordon).to_string());
    json!({
        "metadata": {"resourceVersion": resource_version, "annotations": {annotation::CORDONED: record}},
        "spec": {"unschedulable": cordon.map(|_| true)},
    })
}
