//! WindowsNodeConfigs as observed.

use std::sync::LazyLock;

use jiff::Timestamp;
use kube::core::DynamicObject;
use winpool_api::{WindowsNodeConfigSpec, WindowsNodeConfigStatus};
use winpool_core::{ResourceVersion, kind::Kind, named, node::WindowsNode};

use super::{check, rollout::Assigned};
use crate::operation::{Action, Write, WriteTarget};

/// A `WindowsNodeConfig`. It has the name of its node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeConfigView {
    pub name: String,
    pub uid: String,
    pub resource_version: ResourceVersion,
    pub deleting: bool,
    /// What the operator wrote; `None` if it was stored with another schema.
    pub spec: Option<WindowsNodeConfigSpec>,
    /// What the agent reports.
    pub status: WindowsNodeConfigStatus,
}

named!(NodeConfigView: name);

impl NodeConfigView {
    /// Parses a stored object, which may have another schema.
    pub fn from_object(object: DynamicObject) -> Self {
        let DynamicObject { metadata, data, .. } = object;
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.into(),
            deleting: metadata.deletion_timestamp.is_some(),
            spec: serde_json::from_value(data.get("spec").cloned().unwrap_or_default()).ok(),
            status: check::status(data.get("status")),
        }
    }

    pub fn pool(&self) -> Option<&str> {
        self.spec.as_ref().map(|spec| spec.pool.as_str())
    }

    /// Whether it was written for the node with this uid.
    pub fn is_for(&self, node_uid: &str) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.node_uid == node_uid)
    }

    /// The assignment to a node, unless it is being deleted. The report of an agent on another machine is none.
    pub fn assigned(&self, node: &WindowsNode) -> Option<Assigned<'_>> {
        static NOT_REPORTED: LazyLock<WindowsNodeConfigStatus> = LazyLock::new(Default::default);
        let spec = self.spec.as_ref().filter(|spec| spec.node_uid == node.uid && !self.deleting)?;
        let status = if self.is_of_other_machine(node) { &NOT_REPORTED } else { &self.status };
        Some(Assigned { spec, status })
    }

    /// Whether the agent runs on another machine than the kubelet of the node, by the UUIDs that both report.
    pub fn is_of_other_machine(&self, node: &WindowsNode) -> bool {
        let (agent, kubelet) = (&self.status.system_uuid, &node.system_uuid);
        !agent.is_empty() && !kubelet.is_empty() && !agent.eq_ignore_ascii_case(kubelet)
    }

    /// When a diagnosis of the node was requested.
    pub fn diagnosis_request(&self) -> Option<Timestamp> {
        self.spec.as_ref()?.diagnose.as_ref().map(|at| at.0)
    }

    /// Whether an agent has reported about a configuration.
    pub fn has_report(&self) -> bool {
        !self.status.observed_digest.is_empty()
    }

    /// The ConfigMaps that the agent runs, applies or would restore.
    pub fn config_maps(&self) -> impl Iterator<Item = &str> {
        let reported = self.status.applied.iter().map(|reference| &reference.config);
        self.spec.iter().map(|spec| &spec.config).chain(reported).map(String::as_str)
    }

    pub fn delete(&self) -> Write {
        Write::delete(Action::DeleteNodeConfig, WriteTarget::new(Kind::NODE_CONFIG, &self.name).with_uid(&self.uid))
    }
}
