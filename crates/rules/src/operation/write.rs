//! A write of one object.

use std::{borrow::Cow, sync::Arc};

use derive_more::Display;
use serde::Serialize;
use serde_json::{Value, json};
use winpool_api::{WindowsNodeConfigSpec, names::annotation};
use winpool_core::{
    kind::Kind,
    node::{Cordon, WindowsNode},
};
use winpool_facts::named_enum;

use super::{
    dependency::{Dependency, Unwritten},
    node_edit::NodeEdit,
};
use crate::{
    ownership::Ownership,
    revert::{FieldWrite, ObjectId},
};

#[derive(Clone, Debug, PartialEq, Eq, Display)]
#[display("{kind} {}", self.key())]
pub struct WriteTarget {
    /// Its kind, in the version of the request.
    pub kind: Kind,
    /// Its namespace; `None` if it has none, or that of the operator.
    pub namespace: Option<String>,
    pub name: String,
    /// Its uid: an object that is created again with this name is another one. `None` if the object does not exist, or is
    /// not read.
    pub uid: Option<String>,
}

/// The request of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Creates the object, which fails if it exists.
    Create,
    /// Applies the object, with the fields of other managers.
    Apply,
    /// Applies the status.
    ApplyStatus,
    /// Sends a merge patch.
    Merge,
    /// Deletes the object with its uid.
    Delete,
    /// Evicts the pod with its uid, if its PodDisruptionBudgets allow it now.
    Evict,
}

named_enum! {
    /// What a write is for. The name is that in metrics and traces.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Action {
        /// Adds the finalizer to a pool, before the first write that a cleanup has to undo.
        AddFinalizer = "add-finalizer",
        /// Removes the finalizer from a pool, after all other writes.
        RemoveFinalizer = "remove-finalizer",
        /// Records in the status of a pool the keys that it is about to set on nodes.
        RecordApplied = "record-applied",
        /// Reports in the status of a resource.
        WriteStatus = "write-status",
        /// Creates a RuntimeClass, or applies it: winpool manages or adopts it.
        ApplyRuntimeClass = "apply-runtime-class",
        /// Removes keys of other managers from the maps of a managed RuntimeClass, because an apply does not remove them.
        StripRuntimeClass = "strip-runtime-class",
        /// Deletes a managed RuntimeClass.
        DeleteRuntimeClass = "delete-runtime-class",
        /// Creates the ConfigMap of a configuration.
        CreateConfigMap = "create-config-map",
        /// Records on the ConfigMap of a configuration what it is rendered from.
        RecordRendering = "record-rendering",
        /// Deletes the ConfigMap of a configuration.
        DeleteConfigMap = "delete-config-map",
        /// Changes labels, taints and annotations of a node.
        PatchNode = "patch-node",
        /// Creates a WindowsNodeConfig, which has the name of its node, or applies its spec.
        ApplyNodeConfig = "apply-node-config",
        /// Deletes a WindowsNodeConfig.
        DeleteNodeConfig = "delete-node-config",
        /// Cordons a node before its configuration changes.
        CordonNode = "cordon-node",
        /// Removes the operator's cordon from a node.
        UncordonNode = "uncordon-node",
        /// Removes from a node the record that it could not be drained.
        RemoveDrainRecord = "remove-drain-record",
        /// Evicts a pod from a node that the operator has cordoned.
        EvictPod = "evict-pod",
        /// Creates a template of machines, or the Secret that it refers to.
        CreateMachineObject = "create-machine-object",
        /// Patches a MachineDeployment or MachinePool.
        PatchMachineObject = "patch-machine-object",
        /// Deletes a template of machines, or its Secret.
        DeleteMachineObject = "delete-machine-object",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub action: Action,
    pub object: WriteTarget,
    pub verb: Verb,
    /// The `resourceVersion` that it was planned from. The writer sends it, or the version that an earlier write of the same
    /// plan has left. `None` if the object does not exist, or any version of it may be written.
    pub planned_from: Option<String>,
    /// What is sent, without the version.
    pub body: Body,
    /// What changes, as text; `None` for finalizers, status, and a change that another write describes.
    pub change: Option<String>,
    /// The fields that are written, for the detection of reverts.
    pub fields: Vec<FieldWrite>,
    /// The writes of other objects that must succeed first, if the same plan has them.
    pub needs: Vec<Dependency>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// An object, or a merge patch.
    Value(Value),
    /// The change of a node, from which the merge patch is built when it is sent: most nodes of a pool share one. The key
    /// signs the record.
    Node(Arc<NodeEdit>, Arc<Ownership>),
}

impl WriteTarget {
    pub fn new(kind: Kind, name: &str) -> Self {
        Self { kind, namespace: None, name: name.to_owned(), uid: None }
    }

    pub fn namespaced(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::new(kind, name) }
    }

    /// Only the object with this uid.
    pub fn with_uid(self, uid: &str) -> Self {
        Self { uid: Some(uid.to_owned()), ..self }
    }

    /// The name, or `namespace/name`.
    pub fn key(&self) -> Cow<'_, str> {
        match &self.namespace {
            Some(namespace) => Cow::Owned(format!("{namespace}/{}", self.name)),
            None => Cow::Borrowed(&self.name),
        }
    }
}

impl Write {
    /// A write without a description.
    pub fn new(action: Action, verb: Verb, object: WriteTarget, body: Value) -> Self {
        let (planned_from, change, fields, needs) = (None, None, Vec::new(), Vec::new());
        Self { action, object, verb, planned_from, body: Body::Value(body), change, fields, needs }
    }

    pub fn create(action: Action, object: WriteTarget, body: Value) -> Self {
        Self { change: Some("create".to_owned()), ..Self::new(action, Verb::Create, object, body) }
    }

    /// Applies an object to its observed version; `None` creates it.
    pub fn apply(action: Action, object: WriteTarget, version: Option<&str>, body: Value, change: String) -> Self {
        // An apply that is late would change an object that another leader has created.
        let verb = if version.is_some() { Verb::Apply } else { Verb::Create };
        let (planned_from, change) = (version.map(str::to_owned), Some(change));
        Self { planned_from, change, ..Self::new(action, verb, object, body) }
    }

    /// Sends a merge patch for a version of an object.
    pub fn merge(action: Action, object: WriteTarget, version: &str, body: Value) -> Self {
        Self { planned_from: Some(version.to_owned()), ..Self::new(action, Verb::Merge, object, body) }
    }

    pub fn delete(action: Action, object: WriteTarget) -> Self {
        Self { change: Some("delete".to_owned()), ..Self::new(action, Verb::Delete, object, Value::Null) }
    }

    /// Applies the status of a version of a custom resource of winpool.
    pub fn status(action: Action, object: WriteTarget, version: &str, status: &impl Serialize) -> Self {
        let mut body = object.kind.object(json!({"name": object.name}));
        body["status"] = json!(status);
        Self { planned_from: Some(version.to_owned()), ..Self::new(action, Verb::ApplyStatus, object, body) }
    }

    pub fn finalizers(action: Action, pool: &str, version: &str, finalizers: &[String]) -> Self {
        Self::merge(
            action,
            WriteTarget::new(Kind::POOL, pool),
            version,
            json!({"metadata": {"finalizers": finalizers}}),
        )
    }

    pub fn delete_config_map(name: &str, uid: &str) -> Self {
        Self::delete(Action::DeleteConfigMap, WriteTarget::new(Kind::CONFIG_MAP, name).with_uid(uid))
    }

    pub fn edit_node(node: &WindowsNode, edit: Arc<NodeEdit>, ownership: Arc<Ownership>) -> Self {
        let object = WriteTarget::new(Kind::NODE, &node.name).with_uid(&node.uid);
        let write = Self::merge(Action::PatchNode, object, &node.resource_version, Value::Null);
        Self { needs: edit.needs(), body: Body::Node(edit, ownership), ..write }
    }

    /// Applies the spec of the WindowsNodeConfig of a node to its observed version; `None` creates it.
    pub fn apply_node_config(node: &str, version: Option<&str>, spec: &WindowsNodeConfigSpec, change: String) -> Self {
        let object = WriteTarget::new(Kind::NODE_CONFIG, node);
        let mut body = object.kind.object(json!({"name": node}));
        body["spec"] = json!(spec);
        let needs = if spec.confirmed.is_none() { vec![Dependency::All(Kind::NODE_CONFIG)] } else { Vec::new() };
        Self { needs, ..Self::apply(Action::ApplyNodeConfig, object, version, body, change) }
    }

    /// Cordons a node, and records that the operator did.
    pub fn cordon_node(node: &WindowsNode, cordon: &Cordon) -> Self {
        // No change of a node begins while a WindowsNodeConfig could not be written: its place may be that of a node whose
        // confirmation failed.
        let needs = vec![Dependency::All(Kind::NODE_CONFIG)];
        Self { needs, change: Some("cordon".to_owned()), ..cordon_patch(Action::CordonNode, node, Some(cordon)) }
    }

    /// Removes the operator's cordon from a node, and records that its pods could not be evicted in time.
    pub fn release_node(node: &WindowsNode, cordon: &Cordon) -> Self {
        let released = Cordon { released: true, ..cordon.clone() };
        Self { change: Some("uncordon".to_owned()), ..cordon_patch(Action::UncordonNode, node, Some(&released)) }
    }

    /// Removes the operator's cordon from a node, or the record of a released one.
    pub fn uncordon_node(node: &WindowsNode) -> Self {
        let is_released = node.cordon.as_ref().is_some_and(|cordon| cordon.released);
        let (action, change) = match is_released {
            true => (Action::RemoveDrainRecord, "remove the record of a drain that took too long"),
            false => (Action::UncordonNode, "uncordon"),
        };
        Self { change: Some(change.to_owned()), ..cordon_patch(action, node, None) }
    }

    /// Evicts a pod. The server reads the body as an Eviction of policy/v1.
    pub fn evict_pod(namespace: &str, name: &str, uid: &str) -> Self {
        let body = json!({
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let object = WriteTarget::namespaced(Kind::POD, namespace, name).with_uid(uid);
        Self { change: Some("evict".to_owned()), ..Self::new(Action::EvictPod, Verb::Evict, object, body) }
    }

    pub fn node_edit(&self) -> Option<&NodeEdit> {
        match &self.body {
            Body::Node(edit, _) => Some(edit),
            Body::Value(_) => None,
        }
    }

    /// What is sent, without the version.
    pub fn body(&self) -> Cow<'_, Value> {
        match &self.body {
            Body::Node(edit, ownership) => {
                Cow::Owned(edit.body(self.object.uid.as_deref().unwrap_or_default(), ownership))
            }
            Body::Value(value) => Cow::Borrowed(value),
        }
    }

    /// Whether the object could not be written by an earlier step. A status is not an object that others depend on.
    pub fn is_blocked(&self, unwritten: &Unwritten) -> bool {
        self.verb != Verb::ApplyStatus && unwritten.has(self.object.kind, &self.object.key())
    }

    /// What it needs and an earlier step could not write.
    pub fn waits_for(&self, unwritten: &Unwritten) -> Option<&Dependency> {
        self.needs.iter().find(|need| unwritten.contains(need))
    }

    /// The identity of the object for the detection of reverts: the uid, or the name for an object that is created.
    pub fn identity(&self) -> ObjectId {
        let by_uid = self.object.uid.as_deref().filter(|_| self.verb != Verb::Delete);
        match by_uid {
            Some(uid) => ObjectId::Uid(uid.into()),
            None => ObjectId::Name(self.object.kind, self.object.key().into()),
        }
    }

    /// The fields that it writes, for the detection of reverts.
    pub fn field_writes(&self) -> Cow<'_, [FieldWrite]> {
        match &self.body {
            Body::Node(edit, _) => Cow::Owned(edit.field_writes()),
            Body::Value(_) => Cow::Borrowed(&self.fields),
        }
    }

    /// The changes; `None` for finalizers, status, and a change that another write describes.
    pub fn description(&self) -> Option<String> {
        match &self.body {
            Body::Node(edit, _) => Some(edit.description()),
            Body::Value(_) => self.change.clone(),
        }
    }

    /// The object and the change, such as `Node win-1: taint os=windows:NoSchedule`; `None` as for [`Self::description`].
    pub fn summary(&self) -> Option<String> {
        Some(format!("{}: {}", self.object, self.description()?))
    }
}

impl Unwritten {
    /// Adds the object of a write. Nothing depends on a status.
    pub fn add(&mut self, write: &Write) {
        if write.verb != Verb::ApplyStatus {
            self.0.insert((write.object.kind, write.object.key().into_owned()));
        }
    }
}

/// The merge patch of a node that sets the cordon of the operator, or removes it. A cordon that the operator has removed before is
/// that of another client.
fn cordon_patch(action: Action, node: &WindowsNode, cordon: Option<&Cordon>) -> Write {
    let record = cordon.map(|cordon| json!(cordon).to_string());
    let spec = match (cordon, &node.cordon) {
        (Some(cordon), _) if !cordon.released => json!({"unschedulable": true}),
        (None, Some(former)) if former.released => json!({}),
        _ => json!({"unschedulable": null}),
    };
    let body = json!({"metadata": {"annotations": {annotation::CORDONED: record}}, "spec": spec});
    Write::merge(action, WriteTarget::new(Kind::NODE, &node.name), &node.resource_version, body)
}
