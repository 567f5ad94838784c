//! `WindowsNodeConfig`: the configuration that the agent of one node applies.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;
use winpool_facts::named_enum;

use super::{
    node_diagnosis::NodeDiagnosis,
    node_facts::NodeFacts,
    pattern::{DIGEST, DURATION, OBJECT_NAME},
};

/// The configuration of one node. It has the name of the node.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "winpool.dev",
    version = "v1alpha1",
    kind = "WindowsNodeConfig",
    plural = "windowsnodeconfigs",
    singular = "windowsnodeconfig",
    shortname = "wnc",
    category = "windows",
    status = "WindowsNodeConfigStatus",
    derive = "PartialEq",
    doc = "The configuration that the agent of one node applies. It has the name of the node. The operator writes spec, and the agent of the node writes status.",
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.pool"),
    printcolumn(
        name = "Desired",
        type_ = "string",
        json_path = ".spec.config",
        description = "the ConfigMap that the node should run"
    ),
    printcolumn(
        name = "Applied",
        type_ = "string",
        json_path = ".status.applied.config",
        description = "the ConfigMap that the node runs"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Layout",
        type_ = "string",
        json_path = ".status.layout",
        priority = 1,
        description = "how kubelet and container runtime are installed on the node"
    ),
    printcolumn(name = "Agent", type_ = "string", json_path = ".status.agentVersion", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[x_kube(
    validation = Rule::new("!has(self.confirmed) || self.confirmed == self.digest")
        .message("confirmed is the digest that the operator has verified on the node: write the value of digest, or remove it")
)]
#[serde(rename_all = "camelCase")]
pub struct WindowsNodeConfigSpec {
    /// The pool of the node. Example: web-2022.
    #[schemars(length(min = 1, max = 63))]
    pub pool: String,
    /// The uid of the node. An agent whose node has another uid does nothing. Example:
    /// 3f1c9d0e-2c4b-4d57-9a3a-6f4a1e0b7c11.
    #[serde(rename = "nodeUID")]
    #[schemars(length(min = 1, max = 128))]
    pub node_uid: String,
    /// The ConfigMap with the configuration, in the namespace of the operator. Example: web-2022-3f9a1c0d2e.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_NAME.pattern))]
    pub config: String,
    /// The SHA-256 of the settings in the ConfigMap, as 64 hexadecimal digits such as 3f9a1c…: for each key in order, the key and the parsed
    /// value as JSON with sorted keys, each after its length in bytes as a big-endian integer of 64 bits. Comments, quotes and blank
    /// lines do not count. An agent refuses other settings.
    #[schemars(length(min = 64, max = 64), regex(pattern = DIGEST.pattern))]
    pub digest: String,
    /// What the change interrupts. None: nothing. KubeletRestart: kubelet or kube-proxy restart. ContainerdRestart: the
    /// container runtime restarts too. Drain: services restart, and the operator has evicted the pods. Example:
    /// KubeletRestart.
    #[serde(default, deserialize_with = "known_or_default")]
    pub disruption: Disruption,
    /// The attempt. An agent applies a digest that failed on its node again only with a higher attempt. One that is applied, is applied
    /// again if it is not confirmed and something else has changed the node. Example: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub attempt: u32,
    /// The digest, such as 3f9a1c…, that the operator has verified on the node. Until it equals digest, the agent rolls back after
    /// confirmTimeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 64, max = 64), regex(pattern = DIGEST.pattern))]
    pub confirmed: Option<String>,
    /// How long the agent waits for the confirmation before it rolls back. Example: 5m.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION.pattern))]
    pub confirm_timeout: String,
    /// When the operator assigned digest and attempt, by the operator's clock. The timeout of the rollout begins here.
    /// Example: 2026-06-01T12:00:00Z.
    pub assigned_at: Time,
    /// When the annotation winpool.dev/diagnose of the pool requested a diagnosis of the node. It is removed after 15 minutes.
    /// Example: 2026-06-01T12:00:00Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnose: Option<Time>,
}

fn one() -> u32 {
    1
}

/// Reads a value that a newer version of winpool has written as the default: during an upgrade programs of two versions read the
/// same object.
fn known_or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(deserializer: D) -> Result<T, D::Error> {
    Value::deserialize(deserializer).map(|value| serde_json::from_value(value).unwrap_or_default())
}

named_enum! {
    /// What a change of the configuration interrupts on a node, from the least.
    #[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[allow(missing_docs)] // explained at the field
    pub enum Disruption {
        #[default]
        None,
        KubeletRestart,
        ContainerdRestart,
        Drain,
    }
}

/// What the agent of a node reports.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WindowsNodeConfigStatus {
    /// The phase of observedDigest and observedAttempt.
    #[serde(default, deserialize_with = "known_or_default")]
    pub phase: NodeConfigPhase,
    /// Why the phase is RolledBack or Refused, such as NotHealthy. With phase Applied: ChangedOnNode, if something else has
    /// changed the node since; PartlyApplied, if the node cannot have a part of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub reason: String,
    /// What is wrong, and what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub message: String,
    /// The configuration that was last confirmed on the node. It runs, unless phase is Applying or Verifying, and a rollback
    /// restores it; absent while the node has that which it had before winpool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<ConfigReference>,
    /// The digests that failed on this node, the latest last.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub rejected: Vec<RejectedConfig>,
    /// How kubelet and container runtime are installed on the node, such as kubeadm or RKE2.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub layout: String,
    /// The version of the agent. Example: 0.1.0.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub agent_version: String,
    /// The UUID of the machine on which the agent runs, as the kubelet reports it in status.nodeInfo.systemUUID of the Node. The
    /// operator ignores a status whose UUID is that of another machine.
    #[serde(default, rename = "systemUUID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub system_uuid: String,
    /// The digest that this status is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub observed_digest: String,
    /// The attempt that this status is about.
    #[serde(default)]
    pub observed_attempt: u32,
    /// When the agent last restarted a service of the node, by the node's clock, which is that of its heartbeats too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_at: Option<Time>,
    /// What the agent has read about Windows on the node. It is read at most every 10 minutes, and written when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<NodeFacts>,
    /// What the agent has read because of spec.diagnose, without which it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<NodeDiagnosis>,
}

named_enum! {
    /// The phase of a configuration on a node.
    #[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum NodeConfigPhase {
        /// The agent has not begun.
        #[default]
        Pending,
        /// The programs of the node check the configuration; nothing is changed.
        Preflight,
        /// Files are written and services restarted.
        Applying,
        /// The services work, and the agent waits for the confirmation.
        Verifying,
        /// The configuration is confirmed.
        Applied,
        /// The previous configuration is restored.
        RolledBack,
        /// The configuration was refused before anything was changed.
        Refused,
    }
}

/// A configuration: the name of its ConfigMap, and the digest of the settings in it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigReference {
    /// The name of the ConfigMap.
    #[schemars(length(max = 253))]
    pub config: String,
    /// The SHA-256 of the settings in its ConfigMap, in hexadecimal digits: see spec.digest.
    #[schemars(length(max = 64))]
    pub digest: String,
}

/// A configuration that failed on a node.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectedConfig {
    /// The SHA-256 of the data of the rejected ConfigMap, in hexadecimal digits.
    #[schemars(length(max = 64))]
    pub digest: String,
    /// The attempt that failed.
    pub attempt: u32,
    /// Why, as in status.reason.
    #[schemars(length(max = 64))]
    pub reason: String,
}

impl WindowsNodeConfigSpec {
    /// When digest and attempt were assigned.
    pub fn assigned_at(&self) -> Timestamp {
        self.assigned_at.0
    }

    /// Whether the operator has confirmed the digest.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed.as_deref() == Some(&self.digest)
    }
}

impl WindowsNodeConfigStatus {
    /// Whether the status is about the digest and attempt of this spec.
    pub fn is_about(&self, spec: &WindowsNodeConfigSpec) -> bool {
        self.observed_digest == spec.digest && self.observed_attempt == spec.attempt
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_of_a_newer_version_is_read() {
        let object = json!({
            "apiVersion": "winpool.dev/v1alpha1",
            "kind": "WindowsNodeConfig",
            "metadata": {"name": "win-1"},
            "spec": {
                "pool": "web", "nodeUID": "u", "config": "web-1", "digest": "d", "disruption": "Reboot", "attempt": 2,
                "confirmTimeout": "5m", "assignedAt": "2026-06-01T12:00:00Z", "window": "night",
            },
            "status": {"phase": "Scheduled", "reason": "Later", "observedDigest": "d", "observedAttempt": 2, "window": {}},
        });
        let WindowsNodeConfig { spec, status, .. } = serde_json::from_value(object).unwrap();
        let status = status.unwrap();
        assert_eq!((spec.disruption, spec.attempt), (Disruption::None, 2));
        assert_eq!((status.phase, status.reason.as_str()), (NodeConfigPhase::Pending, "Later"));
        assert!(status.is_about(&spec));
    }
}
