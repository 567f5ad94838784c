//! What a plan asks for: writes as values, with everything the writer needs and nothing it has to decide.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};

use super::{contest::Touch, owned::Owned};
use crate::api::names::annotation;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Puts the finalizer on a pool, before anything that it must undo.
    AddFinalizer {
        /// The pool.
        pool: String,
        /// Its version, as an optimistic lock.
        resource_version: String,
        /// All its finalizers after the write.
        finalizers: Vec<String>,
    },
    /// Takes the finalizer off a pool: the last write about it.
    RemoveFinalizer {
        /// The pool.
        pool: String,
        /// Its version, as an optimistic lock.
        resource_version: String,
        /// All its finalizers after the write.
        finalizers: Vec<String>,
    },
    /// Writes into a pool's status which keys it is about to set on nodes.
    RecordApplied {
        /// The pool.
        pool: String,
        /// The whole status, applied by the status manager.
        body: Value,
    },
    /// Applies a RuntimeClass, as a whole.
    ApplyRuntimeClass {
        /// Its name.
        name: String,
        /// The object.
        body: Value,
        /// Whether fields of other managers are taken over: only for a class that is ours or is being adopted.
        force: bool,
        /// What it changes, in words.
        words: String,
        /// What it sets, for telling a war from a repair.
        touches: Vec<Touch>,
    },
    /// Takes off a RuntimeClass of ours what others put into its maps and an apply leaves there.
    StripRuntimeClass {
        /// Its name.
        name: String,
        /// The merge patch; it carries `metadata.uid`.
        body: Value,
    },
    /// Deletes a RuntimeClass of ours.
    DeleteRuntimeClass {
        /// Its name.
        name: String,
        /// Its uid, so that a class made again under the name is left alone.
        uid: String,
    },
    /// Applies the ConfigMap of a variant in the operator's namespace.
    ApplyConfigMap {
        /// Its name.
        name: String,
        /// The object.
        body: Value,
    },
    /// Deletes the ConfigMap of a variant in the operator's namespace.
    DeleteConfigMap {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Patches a node.
    PatchNode(Arc<NodePatch>),
}

/// Everything that has to change on a node, in one JSON merge patch with an optimistic lock.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePatch {
    /// The node.
    pub node: String,
    /// Its version, as an optimistic lock.
    pub resource_version: String,
    /// What changes.
    pub change: Arc<NodeChange>,
}

/// What changes on a node; nodes that are alike share one.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeChange {
    /// The merge patch, without the version of a node.
    pub body: Value,
    /// The record of what is ours if the taints are not written; `None` where the patch has no taints.
    pub record_without_taints: Option<Owned>,
    /// What it changes, in words.
    pub words: Vec<String>,
    /// What it sets, for telling a war from a repair.
    pub touches: Vec<Touch>,
    /// What it is for.
    pub purpose: Purpose,
}

/// What a change of a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The node joins the pool.
    Guard,
    /// What the pool asks for is not on the node.
    Repair,
    /// The node is to run another configuration, and has everything else.
    Configure,
    /// What is ours comes off.
    Release,
}

impl NodePatch {
    /// The merge patch.
    pub fn body(&self) -> Value {
        let mut body = self.change.body.clone();
        body["metadata"]["resourceVersion"] = json!(self.resource_version);
        body
    }

    /// The same patch without the taints, for an admission that refuses them; `None` where it has none. The record of what
    /// is ours must not claim what is not written.
    pub fn without_taints(&self) -> Option<Value> {
        let record = self.change.record_without_taints.as_ref()?;
        let mut metadata = self.body()["metadata"].take();
        if !metadata["annotations"][annotation::OWNED].is_null() {
            metadata["annotations"][annotation::OWNED] = json!(record.write());
        }
        Some(json!({"metadata": metadata}))
    }
}

impl Operation {
    /// What kind of write this is, for metrics and traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::AddFinalizer { .. } => "add-finalizer",
            Self::RemoveFinalizer { .. } => "remove-finalizer",
            Self::RecordApplied { .. } => "record-applied",
            Self::ApplyRuntimeClass { .. } => "apply-runtime-class",
            Self::StripRuntimeClass { .. } => "strip-runtime-class",
            Self::DeleteRuntimeClass { .. } => "delete-runtime-class",
            Self::ApplyConfigMap { .. } => "apply-config-map",
            Self::DeleteConfigMap { .. } => "delete-config-map",
            Self::PatchNode(_) => "patch-node",
        }
    }

    /// The object that is written.
    pub fn object(&self) -> &str {
        match self {
            Self::AddFinalizer { pool, .. } | Self::RemoveFinalizer { pool, .. } | Self::RecordApplied { pool, .. } => {
                pool
            }
            Self::ApplyRuntimeClass { name, .. }
            | Self::StripRuntimeClass { name, .. }
            | Self::DeleteRuntimeClass { name, .. }
            | Self::ApplyConfigMap { name, .. }
            | Self::DeleteConfigMap { name, .. } => name,
            Self::PatchNode(patch) => &patch.node,
        }
    }

    /// What it sets on its object, for telling a war from a repair.
    pub fn touches(&self) -> &[Touch] {
        match self {
            Self::ApplyRuntimeClass { touches, .. } => touches,
            Self::PatchNode(patch) => &patch.change.touches,
            _ => &[],
        }
    }

    /// What it does, in words for a person; `None` for our own book-keeping and for what another operation says already.
    pub fn words(&self) -> Option<String> {
        match self {
            Self::AddFinalizer { .. } | Self::RemoveFinalizer { .. } => None,
            Self::RecordApplied { .. } | Self::StripRuntimeClass { .. } => None,
            Self::ApplyRuntimeClass { name, words, .. } => Some(format!("RuntimeClass {name}: {words}")),
            Self::DeleteRuntimeClass { name, .. } => Some(format!("RuntimeClass {name}: delete")),
            Self::ApplyConfigMap { name, .. } => Some(format!("ConfigMap {name}: create")),
            Self::DeleteConfigMap { name, .. } => Some(format!("ConfigMap {name}: delete")),
            Self::PatchNode(patch) => Some(format!("Node {}: {}", patch.node, patch.change.words.join(", "))),
        }
    }
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The node's labels and annotations are written; its taints were refused with this text.
    WithoutTaints(String),
    /// Somebody wrote first: look again.
    Conflict,
    /// The object is gone.
    Gone,
    /// The API server refused it with this text.
    Refused(String),
    /// It did not get through, for the reason in the text.
    Failed(String),
}

/// What became of a plan's operations. Those of steps behind the first that failed are not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// Each operation that was tried, with how it ended.
    pub results: Vec<(Operation, Outcome)>,
    /// Whether every step was tried and all of it got through.
    pub complete: bool,
}

impl Done {
    /// How the writes to nodes ended, by node.
    pub fn by_node(&self) -> HashMap<&str, &Outcome> {
        let of_nodes = self.results.iter().filter_map(|(operation, outcome)| match operation {
            Operation::PatchNode(patch) => Some((patch.node.as_str(), outcome)),
            _ => None,
        });
        of_nodes.collect()
    }

    /// The failures, in words.
    pub fn failures(&self) -> impl Iterator<Item = String> + '_ {
        self.results.iter().filter_map(|(operation, outcome)| match outcome {
            Outcome::Refused(text) | Outcome::Failed(text) => {
                Some(format!("{} {}: {text}", operation.kind(), operation.object()))
            }
            Outcome::Done | Outcome::WithoutTaints(_) | Outcome::Conflict | Outcome::Gone => None,
        })
    }
}
