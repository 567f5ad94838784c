//! A Windows node as the rules see it: what was reported, parsed once when it arrives.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint as NodeTaint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use super::{ownership::SignedRecord, quantity::Quantity};
use crate::{
    api::names::{annotation, label, manager},
    facts::{
        Build, ContainerdVersion, KubeletVersion, OsVersion,
        containerd::{HYPERV_HANDLER, PROCESS_HANDLER, generation},
        runtimes::DOCKER_HANDLER,
    },
};

/// A Windows node.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowsNode {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version of the object, for the optimistic lock.
    pub resource_version: String,
    /// When it joined.
    pub created: Option<Timestamp>,
    /// All its labels.
    pub labels: BTreeMap<String, String>,
    /// All its taints, as they are.
    pub taints: Vec<NodeTaint>,
    /// The ConfigMap that it should run, from its annotation.
    pub config: Option<String>,
    /// The record of what is ours, as its annotation has it: see [`super::ownership`] for what it is worth.
    pub owned: Option<SignedRecord>,
    /// Whether its Ready condition is True.
    pub ready: bool,
    /// The Windows it runs: `Err` has the text that could not be read, empty when nothing was reported.
    pub os: Result<OsVersion, String>,
    /// Its kubelet: `Err` has the text that could not be read.
    pub kubelet: Result<KubeletVersion, String>,
    /// Its container runtime.
    pub runtime: ContainerRuntime,
    /// What it has.
    pub capacity: Resources,
    /// What it offers to pods.
    pub allocatable: Resources,
    /// Who else wrote its taints last.
    pub taints_writer: Option<String>,
    /// Who else wrote its labels last.
    pub labels_writer: Option<String>,
}

/// The container runtime that a node reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerRuntime {
    /// `containerd://1.7.27`
    Containerd(ContainerdVersion),
    /// `docker://…`: dockershim up to kubelet 1.23, cri-dockerd from 1.24.
    Docker,
    /// Anything else, as it was reported.
    Unknown(String),
}

/// Resources of a node. What is not reported is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// Processors, in thousandths.
    pub cpu_milli: Option<i64>,
    /// Memory in bytes.
    pub memory: Option<i64>,
    /// The disk of the node, in bytes.
    pub ephemeral_storage: Option<i64>,
    /// The number of pods.
    pub pods: Option<i64>,
}

impl WindowsNode {
    /// The release it runs: what the kernel says, else the label.
    pub fn build(&self) -> Option<Build> {
        match self.os {
            Ok(version) => Some(version.build),
            Err(_) => self.labels.get(label::WINDOWS_BUILD).and_then(|text| text.parse().ok()),
        }
    }

    /// The Windows it runs: what the kernel says, else the release of the label, whose revision nobody knows.
    pub fn os_version(&self) -> Option<OsVersion> {
        self.os.as_ref().ok().copied().or_else(|| self.build().map(|build| OsVersion { build, revision: None }))
    }

    /// The pool that its label names. A kubelet can write it: which pool keeps the node is in its record.
    pub fn labelled_pool(&self) -> Option<&str> {
        self.labels.get(label::POOL).map(String::as_str)
    }

    /// Whether another version of the node says the same to the rules.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let versionless = |node: &Self| Self { resource_version: String::new(), ..node.clone() };
        self.resource_version == other.resource_version || versionless(self) == versionless(other)
    }
}

impl From<Node> for WindowsNode {
    fn from(node: Node) -> Self {
        let metadata = node.metadata;
        let status = node.status.unwrap_or_default();
        let info = status.node_info.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let managed = metadata.managed_fields.unwrap_or_default();
        let ready = |condition: &k8s_openapi::api::core::v1::NodeCondition| {
            condition.type_ == "Ready" && condition.status == "True"
        };
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            labels: metadata.labels.unwrap_or_default(),
            taints: node.spec.and_then(|spec| spec.taints).unwrap_or_default(),
            config: annotations.get(annotation::CONFIG).cloned(),
            owned: annotations.get(annotation::OWNED).map(|text| SignedRecord::read(text)),
            ready: status.conditions.unwrap_or_default().iter().any(ready),
            os: info.kernel_version.parse().map_err(|_| info.kernel_version.clone()),
            kubelet: info.kubelet_version.parse().map_err(|_| info.kubelet_version.clone()),
            runtime: ContainerRuntime::read(&info.container_runtime_version),
            capacity: Resources::read(status.capacity.as_ref()),
            allocatable: Resources::read(status.allocatable.as_ref()),
            taints_writer: last_other_writer(&managed, "/spec/f:taints"),
            labels_writer: last_other_writer(&managed, "/metadata/f:labels"),
        }
    }
}

impl ContainerRuntime {
    fn read(text: &str) -> Self {
        match text.split_once("://") {
            Some(("containerd", version)) => {
                version.parse().map_or_else(|_| Self::Unknown(text.to_owned()), Self::Containerd)
            }
            Some(("docker", _)) => Self::Docker,
            _ => Self::Unknown(text.to_owned()),
        }
    }

    /// The RuntimeClass handlers that it has; `rendered`: whether the node runs the configuration that we render, which
    /// has both of containerd's. `None` if that is not known.
    pub fn handlers(&self, rendered: bool) -> Option<&'static [&'static str]> {
        match self {
            Self::Docker => Some(&[DOCKER_HANDLER]),
            Self::Containerd(_) if rendered => Some(&[PROCESS_HANDLER, HYPERV_HANDLER]),
            Self::Containerd(version) => Some(generation(*version)?.default_handlers),
            Self::Unknown(_) => None,
        }
    }

    /// The version of containerd, if that is the runtime.
    pub fn containerd(&self) -> Option<ContainerdVersion> {
        match self {
            Self::Containerd(version) => Some(*version),
            Self::Docker | Self::Unknown(_) => None,
        }
    }
}

impl Resources {
    fn read(map: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>) -> Self {
        let quantity = |name: &str| map?.get(name)?.0.parse::<Quantity>().ok();
        Self {
            cpu_milli: quantity("cpu").map(|quantity| quantity.milli()),
            memory: quantity("memory").map(|quantity| quantity.bytes()),
            ephemeral_storage: quantity("ephemeral-storage").map(|quantity| quantity.bytes()),
            pods: quantity("pods").map(|quantity| quantity.bytes()),
        }
    }
}

/// The field manager, other than ours, that wrote a field last.
fn last_other_writer(managed: &[ManagedFieldsEntry], path: &str) -> Option<String> {
    let (outer, inner) = path.trim_start_matches('/').split_once('/')?;
    managed
        .iter()
        .filter(|entry| entry.manager.as_deref() != Some(manager::NODES))
        .filter(|entry| {
            entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| fields.0.get(format!("f:{outer}")).is_some_and(|map| map.get(inner).is_some()))
        })
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))
        .and_then(|entry| entry.manager.clone())
}
