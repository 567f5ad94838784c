//! Operations: the writes of a plan, as values.

mod agent;
mod machine;
mod node_patch;
mod unwritten;

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use serde::Serialize;
use serde_json::{Value, json};

pub use self::agent::EvictedPod;
pub use self::machine::MachineObject;
pub use self::node_patch::{
    Edit, NodeChange, NodePatch, Parts, Purpose, TaintChange, TaintEdit, TaintPart, TolerationDependency,
};
pub use self::unwritten::Unwritten;

use winpool_api::WindowsNodeConfigSpec;

use super::{
    node::{Cordon, WindowsNode},
    revert::{FieldWrite, ObjectId, Target},
};

/// What to do with the rest of a plan after an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Continue with operations that do not depend on the failed one.
    Continue,
    /// Start no further step, because a cleanup removes in order.
    Stop,
}

/// A write. Names and uids identify the object; a `resource_version` is for optimistic locking.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // fields without a comment are explained above
pub enum Operation {
    /// Adds the finalizer to a pool, before the first write that a cleanup has to undo.
    AddFinalizer {
        pool: String,
        resource_version: String,
        /// All finalizers after the write.
        finalizers: Vec<String>,
    },
    /// Removes the finalizer from a pool, after all other writes.
    RemoveFinalizer {
        pool: String,
        resource_version: String,
        /// All finalizers after the write.
        finalizers: Vec<String>,
    },
    /// Records in the status of a pool the keys that it is about to set on nodes.
    RecordApplied {
        pool: String,
        /// The object with the whole status and `metadata.resourceVersion`, for server-side apply.
        body: Value,
    },
    /// Creates a RuntimeClass, or applies it with the fields of other managers: winpool manages or adopts it.
    ApplyRuntimeClass {
        name: String,
        /// The object, for server-side apply, with `metadata.resourceVersion` if it exists.
        body: Value,
        /// What changes, as text.
        change: String,
        /// The uid of the existing class; `None` to create one.
        uid: Option<String>,
        /// The fields that are written, for the detection of reverts.
        writes: Vec<FieldWrite>,
    },
    /// Removes keys of other managers from the maps of a managed RuntimeClass, because an apply does not remove them.
    StripRuntimeClass {
        name: String,
        /// The merge patch, with `metadata.resourceVersion`.
        body: Value,
    },
    /// Deletes a managed RuntimeClass.
    DeleteRuntimeClass { name: String, uid: String },
    /// Creates the ConfigMap of a configuration in the operator's namespace.
    CreateConfigMap {
        name: String,
        /// The object.
        body: Value,
    },
    /// Deletes the ConfigMap of a configuration in the operator's namespace.
    DeleteConfigMap { name: String, uid: String },
    /// Patches a node.
    PatchNode(Arc<NodePatch>),
    /// Creates the template of machines, or the Secret that it refers to.
    CreateMachineObject {
        object: MachineObject,
        /// The object.
        body: Value,
    },
    /// Patches a MachineDeployment or MachinePool.
    PatchMachineObject {
        object: MachineObject,
        /// The merge patch, with `metadata.resourceVersion`.
        body: Value,
        /// What changes, as text.
        change: String,
        /// The template that it refers to afterwards, if that changes, as `namespace/name`.
        template: Option<String>,
    },
    /// Deletes a template of machines, or its Secret.
    DeleteMachineObject {
        object: MachineObject,
        /// The uid; `None` for a Secret, which is not read.
        uid: Option<String>,
    },
    /// Applies the spec of a WindowsNodeConfig, which has the name of its node, or creates it.
    ApplyNodeConfig {
        name: String,
        /// The object, for server-side apply, with `metadata.resourceVersion` if it exists.
        body: Value,
        /// What changes, as text.
        change: String,
    },
    /// Deletes a WindowsNodeConfig.
    DeleteNodeConfig { name: String, uid: String },
    /// Cordons a node before its configuration changes.
    CordonNode {
        node: String,
        /// The merge patch, with `metadata.resourceVersion`.
        body: Value,
    },
    /// Removes the operator's cordon from a node.
    UncordonNode {
        node: String,
        /// The merge patch, with `metadata.resourceVersion`.
        body: Value,
    },
    /// Evicts a pod from a node that the operator has cordoned, if its PodDisruptionBudgets allow it now.
    EvictPod(EvictedPod),
}

impl Operation {
    /// Applies the spec of the WindowsNodeConfig of a node to its observed version; `None` creates it.
    pub fn apply_node_config(node: &str, resource_version: Option<&str>, spec: &WindowsNodeConfigSpec) -> Self {
        let (body, change) = (agent::node_config(node, resource_version, spec), agent::node_config_change(spec));
        Self::ApplyNodeConfig { name: node.to_owned(), body, change }
    }

    /// Cordons a node, and records that the operator did.
    pub fn cordon_node(node: &WindowsNode, cordon: &Cordon) -> Self {
        let body = agent::cordon_patch(&node.resource_version, Some(cordon));
        Self::CordonNode { node: node.name.clone(), body }
    }

    /// Removes the operator's cordon from a node.
    pub fn uncordon_node(node: &WindowsNode) -> Self {
        Self::UncordonNode { node: node.name.clone(), body: agent::cordon_patch(&node.resource_version, None) }
    }

    /// The kind of write, for metrics and traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::AddFinalizer { .. } => "add-finalizer",
            Self::RemoveFinalizer { .. } => "remove-finalizer",
            Self::RecordApplied { .. } => "record-applied",
            Self::ApplyRuntimeClass { .. } => "apply-runtime-class",
            Self::StripRuntimeClass { .. } => "strip-runtime-class",
            Self::DeleteRuntimeClass { .. } => "delete-runtime-class",
            Self::CreateConfigMap { .. } => "create-config-map",
            Self::DeleteConfigMap { .. } => "delete-config-map",
            Self::PatchNode(_) => "patch-node",
            Self::ApplyNodeConfig { .. } => "apply-node-config",
            Self::DeleteNodeConfig { .. } => "delete-node-config",
            Self::CordonNode { .. } => "cordon-node",
            Self::UncordonNode { .. } => "uncordon-node",
            Self::EvictPod(_) => "evict-pod",
            Self::CreateMachineObject { .. } => "create-machine-object",
            Self::PatchMachineObject { .. } => "patch-machine-object",
            Self::DeleteMachineObject { .. } => "delete-machine-object",
        }
    }

    /// The name of the object.
    pub fn object(&self) -> &str {
        match self {
            Self::AddFinalizer { pool, .. } | Self::RemoveFinalizer { pool, .. } | Self::RecordApplied { pool, .. } => {
                pool
            }
            Self::ApplyRuntimeClass { name, .. }
            | Self::StripRuntimeClass { name, .. }
            | Self::DeleteRuntimeClass { name, .. }
            | Self::CreateConfigMap { name, .. }
            | Self::DeleteConfigMap { name, .. }
            | Self::ApplyNodeConfig { name, .. }
            | Self::DeleteNodeConfig { name, .. } => name,
            Self::PatchNode(patch) => &patch.node,
            Self::CordonNode { node, .. } | Self::UncordonNode { node, .. } => node,
            Self::EvictPod(pod) => &pod.key,
            Self::CreateMachineObject { object, .. }
            | Self::PatchMachineObject { object, .. }
            | Self::DeleteMachineObject { object, .. } => &object.key,
        }
    }

    /// The kind of the object.
    pub fn target(&self) -> Target {
        match self {
            Self::AddFinalizer { .. } | Self::RemoveFinalizer { .. } => Target::Pool,
            Self::RecordApplied { .. } => Target::PoolStatus,
            Self::ApplyRuntimeClass { .. } | Self::StripRuntimeClass { .. } | Self::DeleteRuntimeClass { .. } => {
                Target::RuntimeClass
            }
            Self::CreateConfigMap { .. } | Self::DeleteConfigMap { .. } => Target::ConfigMap,
            Self::PatchNode(_) | Self::CordonNode { .. } | Self::UncordonNode { .. } => Target::Node,
            Self::ApplyNodeConfig { .. } | Self::DeleteNodeConfig { .. } => Target::NodeConfig,
            Self::EvictPod(_) => Target::Pod,
            Self::CreateMachineObject { object, .. }
            | Self::PatchMachineObject { object, .. }
            | Self::DeleteMachineObject { object, .. } => object.target,
        }
    }

    /// Whether it may be written after these failures of earlier steps. No change of a node begins while a WindowsNodeConfig
    /// could not be written: its place may be that of a node whose confirmation failed.
    pub fn is_permitted(&self, unwritten: &Unwritten) -> bool {
        let begins_change = match self {
            Self::CordonNode { .. } => true,
            Self::ApplyNodeConfig { body, .. } => body["spec"]["confirmed"].is_null(),
            _ => false,
        };
        let depends = begins_change && unwritten.has_any(Target::NodeConfig);
        !depends && !self.refers_to(unwritten) && !unwritten.has(self.target(), self.object())
    }

    /// Whether it would refer to an object of Cluster API that could not be created. While a Secret is missing, no template is
    /// created.
    fn refers_to(&self, unwritten: &Unwritten) -> bool {
        let templates = [Target::KubeadmConfigTemplate, Target::KubeadmConfig];
        match self {
            Self::CreateMachineObject { object, .. } => {
                templates.contains(&object.target) && unwritten.has_any(Target::Secret)
            }
            // The template names its Secret, which could not be deleted.
            Self::DeleteMachineObject { object, .. } => {
                templates.contains(&object.target) && unwritten.has_any(Target::Secret)
            }
            Self::PatchMachineObject { template: Some(key), .. } => {
                unwritten.has_any(Target::Secret) || templates.iter().any(|target| unwritten.has(*target, key))
            }
            _ => false,
        }
    }

    /// The identity of the object for the detection of reverts: the uid, or the name for an object that is created.
    pub fn identity(&self) -> ObjectId {
        match self {
            Self::PatchNode(patch) => ObjectId::Uid(patch.uid.as_str().into()),
            Self::ApplyRuntimeClass { uid: Some(uid), .. } => ObjectId::Uid(uid.as_str().into()),
            _ => ObjectId::Name(self.target(), self.object().into()),
        }
    }

    /// The fields that were written with this outcome, for the detection of reverts.
    pub fn field_writes(&self, outcome: &Outcome) -> Vec<FieldWrite> {
        match (self, outcome) {
            (Self::PatchNode(patch), Outcome::Done) => patch.change.field_writes(Parts::ALL),
            (Self::PatchNode(patch), Outcome::Partly { written, .. }) => patch.change.field_writes(*written),
            (Self::ApplyRuntimeClass { writes, .. }, Outcome::Done) => writes.clone(),
            (Self::CreateConfigMap { .. }, Outcome::Done) => vec![FieldWrite::existence(true)],
            (Self::DeleteRuntimeClass { .. }, Outcome::Done) => vec![FieldWrite::existence(false)],
            _ => Vec::new(),
        }
    }

    /// The changes in these parts; `None` for finalizers, status, and a change that another operation describes.
    pub fn description(&self, parts: Parts) -> Option<String> {
        match self {
            Self::AddFinalizer { .. } | Self::RemoveFinalizer { .. } => None,
            Self::RecordApplied { .. } | Self::StripRuntimeClass { .. } => None,
            Self::ApplyRuntimeClass { change, .. }
            | Self::ApplyNodeConfig { change, .. }
            | Self::PatchMachineObject { change, .. } => Some(change.clone()),
            Self::CreateConfigMap { .. } | Self::CreateMachineObject { .. } => Some("create".to_owned()),
            Self::DeleteRuntimeClass { .. }
            | Self::DeleteConfigMap { .. }
            | Self::DeleteNodeConfig { .. }
            | Self::DeleteMachineObject { .. } => Some("delete".to_owned()),
            Self::CordonNode { .. } => Some("cordon".to_owned()),
            Self::UncordonNode { .. } => Some("uncordon".to_owned()),
            Self::EvictPod(_) => Some("evict".to_owned()),
            Self::PatchNode(patch) => Some(patch.change.descriptions(parts).join(", ")),
        }
    }

    /// The object and the change, such as `Node win-1: taint os=windows:NoSchedule`; `None` as for [`Self::description`].
    pub fn summary(&self) -> Option<String> {
        Some(self.with_object(&self.description(Parts::ALL)?))
    }

    /// The object and the changes that were written with this outcome; `None` as for [`Self::description`], and if
    /// nothing was written.
    pub fn summary_of(&self, outcome: &Outcome) -> Option<String> {
        let written = match outcome {
            Outcome::Done => Parts::ALL,
            Outcome::Partly { written, .. } => *written,
            _ => return None,
        };
        Some(self.with_object(&self.description(written)?))
    }

    fn with_object(&self, description: &str) -> String {
        format!("{} {}: {description}", self.target(), self.object())
    }
}

/// The outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The write succeeded.
    Done,
    /// Some parts of a node's change were written.
    Partly {
        /// These parts.
        written: Parts,
        /// Why the other parts were not written.
        why: Shortfall,
    },
    /// The object has changed since the plan.
    Conflict,
    /// The object does not exist.
    NotFound,
    /// The API server does not allow the write now, as the eviction of a pod with a PodDisruptionBudget.
    Delayed,
    /// The API server rejected the write.
    Refused(WriteError),
    /// The write failed for another reason.
    Failed(WriteError),
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriteError {
    /// Identifies the failure, because messages differ between objects and attempts.
    pub cause: ErrorCause,
    /// The message of the API server or of the client.
    pub message: String,
}

/// The cause of a failure, without the texts that differ between objects and attempts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCause {
    /// The API server did not answer.
    NoResponse,
    /// The API server answered with a `Status`.
    Status {
        /// The HTTP status code.
        code: u16,
        /// The reason, such as `Forbidden`.
        reason: String,
        /// The fields of the object in the details.
        fields: BTreeSet<String>,
    },
}

/// A failure without a response of the API server.
impl<T: Into<String>> From<T> for WriteError {
    fn from(message: T) -> Self {
        Self { cause: ErrorCause::NoResponse, message: message.into() }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Why a part of a node's change was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// Admission rejected it.
    Refused(WriteError),
    /// The part depends on this object, which could not be written.
    Waits(Target, String),
}

/// The outcomes of a plan's operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// The operations that were attempted, with their outcomes.
    pub results: Vec<(Operation, Outcome)>,
    /// Whether all operations of the plan succeeded.
    pub complete: bool,
}

impl Done {
    /// The outcomes of the writes to nodes, by node.
    pub fn by_node(&self) -> HashMap<&str, &Outcome> {
        let of_nodes = self.results.iter().filter_map(|(operation, outcome)| match operation {
            Operation::PatchNode(patch) => Some((patch.node.as_str(), outcome)),
            _ => None,
        });
        of_nodes.collect()
    }

    /// The failures, such as `Node win-1: connection refused`.
    pub fn failures(&self) -> impl Iterator<Item = String> + '_ {
        self.results.iter().filter_map(|(operation, outcome)| match outcome {
            Outcome::Refused(error) | Outcome::Failed(error) => Some(operation.with_object(&error.message)),
            Outcome::Done | Outcome::Partly { .. } | Outcome::Conflict | Outcome::NotFound | Outcome::Delayed => None,
        })
    }
}

/// The object that sets the status of this version of a custom resource by server-side apply.
pub fn status_body(kind: &str, name: &str, resource_version: &str, status: &impl Serialize) -> Value {
    json!({
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "resourceVersion": resource_version},
        "status": status,
    })
}
