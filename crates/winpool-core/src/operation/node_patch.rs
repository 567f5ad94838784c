//! The write to a node: one merge patch, whose parts can be written separately.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use k8s_openapi::api::core::v1::Taint as NodeTaint;
use serde_json::{Value, json};
use winpool_api::{
    Taint, TaintKey,
    names::{annotation, label},
};

use super::unwritten::Unwritten;
use crate::{
    ownership::Ownership,
    record::Record,
    revert::{FieldWrite, Target},
};

/// The JSON merge patch of a node, with optimistic locking.
#[derive(Clone, Debug)]
pub struct NodePatch {
    /// The name of the node.
    pub node: String,
    /// The uid of the node.
    pub uid: String,
    /// The `resourceVersion` that the patch was planned from.
    pub resource_version: String,
    /// What changes.
    pub change: Arc<NodeChange>,
    /// Signs the record.
    pub ownership: Arc<Ownership>,
}

/// The change of a node. Equal nodes share one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeChange {
    /// The labels to set, or to remove where the value is `None`.
    pub labels: BTreeMap<String, Option<String>>,
    /// The annotation with the name of the configuration.
    pub config: Edit<String>,
    /// The taints.
    pub taints: TaintChange,
    /// The taints to write if a RuntimeClass could not be changed to tolerate all of them.
    pub tolerated: Option<TolerationDependency>,
    /// The record to write if no taints are written; `None` if nothing may be written without the taints.
    pub record_without_taints: Option<Edit<Record>>,
    /// Whether the record replaces the annotation of the admission policy that set the taints of the new node.
    pub replaces_registration: bool,
    /// The purpose of the change.
    pub purpose: Purpose,
}

/// The edit of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Edit<T> {
    /// The value is not changed.
    #[default]
    Keep,
    /// The value is removed.
    Remove,
    /// The value is set.
    Set(T),
}

/// A change of the taints of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaintChange {
    /// All taints after the change; `None` if they are not changed.
    pub taints: Option<Vec<NodeTaint>>,
    /// The edits that result in these taints.
    pub edits: Vec<TaintEdit>,
    /// The record after the change.
    pub record: Edit<Record>,
}

/// The edit of one taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaintEdit {
    /// The taint is added, or gets this value.
    Set(TaintKey, String),
    /// The taint is removed.
    Remove(TaintKey),
    /// The taint of another component is removed, because those of the pool replace it.
    RemoveReplaced(Taint),
}

/// The taints that can be written before some RuntimeClasses are changed.
#[derive(Clone, Debug, PartialEq)]
pub struct TolerationDependency {
    /// The RuntimeClasses that the same plan changes to tolerate the other taints.
    pub classes: BTreeSet<String>,
    /// The change with the taints that every RuntimeClass tolerates now.
    pub change: TaintChange,
}

/// The parts of a node's change that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The taints.
    pub taints: TaintPart,
    /// Whether the name of the configuration is written.
    pub config: bool,
    /// Whether labels and record are written.
    pub metadata: bool,
}

/// The taints that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaintPart {
    /// All.
    All,
    /// Those that every RuntimeClass tolerates now.
    Tolerated,
    /// None.
    None,
}

/// The purpose of a change of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Apply the labels and taints of a pool to a node that joins it.
    #[default]
    Taint,
    /// Apply what differs from the pool's spec.
    Repair,
    /// Assign another configuration, and nothing else.
    Configure,
    /// Remove the labels and taints of a pool from a node that leaves it.
    Release,
}

impl fmt::Display for TaintEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(key, value) => write!(f, "taint {}", key.with_value(value)),
            Self::Remove(key) => write!(f, "remove taint {key}"),
            Self::RemoveReplaced(taint) => write!(f, "remove taint {taint}"),
        }
    }
}

impl TaintEdit {
    fn field_write(&self) -> FieldWrite {
        match self {
            Self::Set(key, value) => FieldWrite::taint(key, Some(value)),
            Self::Remove(key) => FieldWrite::taint(key, None),
            Self::RemoveReplaced(taint) => FieldWrite::replaced_taint(taint),
        }
    }
}

impl Parts {
    /// The whole change.
    pub const ALL: Self = Self { taints: TaintPart::All, config: true, metadata: true };
    /// The taints only, if admission rejects the labels. They exclude Linux pods, and are never removed, because no
    /// record has them.
    pub const TAINTS: Self = Self { taints: TaintPart::All, config: false, metadata: false };
}

impl NodeChange {
    /// Whether these parts change anything.
    pub fn has(&self, parts: Parts) -> bool {
        let (taints, record) = self.taint_part(parts.taints);
        (parts.metadata && (!self.labels.is_empty() || !matches!(record, None | Some(Edit::Keep))))
            || (parts.config && self.config != Edit::Keep)
            || taints.is_some_and(|change| change.taints.is_some())
    }

    /// The taint change of a part, and the record to write with it.
    fn taint_part(&self, part: TaintPart) -> (Option<&TaintChange>, Option<&Edit<Record>>) {
        match (part, &self.tolerated) {
            (TaintPart::All, _) | (TaintPart::Tolerated, None) => (Some(&self.taints), Some(&self.taints.record)),
            (TaintPart::Tolerated, Some(tolerated)) => (Some(&tolerated.change), Some(&tolerated.change.record)),
            (TaintPart::None, _) => (None, self.record_without_taints.as_ref()),
        }
    }

    fn taint_edits(&self, parts: Parts) -> impl Iterator<Item = &TaintEdit> {
        self.taint_part(parts.taints).0.into_iter().flat_map(|change| &change.edits)
    }

    /// The changes in these parts, such as `label team=web` and `remove taint os:NoSchedule`.
    pub fn descriptions(&self, parts: Parts) -> Vec<String> {
        let mut labels: Vec<_> = self.labels.iter().filter(|_| parts.metadata).collect();
        labels.sort_by_key(|(key, value)| (value.is_none(), *key != label::POOL));
        let labels = labels.into_iter().map(|(key, value)| match value {
            Some(value) => format!("label {key}={value}"),
            None => format!("remove label {key}"),
        });
        let config = match &self.config {
            Edit::Set(name) if parts.config => Some(format!("config {name}")),
            Edit::Remove if parts.config && self.purpose != Purpose::Release => Some("remove the config".to_owned()),
            _ => None,
        };
        let taints = self.taint_edits(parts).map(TaintEdit::to_string);
        let changes: Vec<_> = labels.chain(taints).chain(config).collect();
        if changes.is_empty() { vec!["update the record".to_owned()] } else { changes }
    }

    /// The fields that these parts write, for the detection of reverts.
    pub fn field_writes(&self, parts: Parts) -> Vec<FieldWrite> {
        let labels = self.labels.iter().filter(|_| parts.metadata);
        let labels = labels.map(|(key, value)| FieldWrite::label(key, value.as_deref()));
        labels.chain(self.taint_edits(parts).map(TaintEdit::field_write)).collect()
    }
}

impl PartialEq for NodePatch {
    /// Ignores the key that signs the record.
    fn eq(&self, other: &Self) -> bool {
        (&self.node, &self.uid, &self.resource_version, &self.change)
            == (&other.node, &other.uid, &other.resource_version, &other.change)
    }
}

impl NodePatch {
    /// The parts that do not depend on unwritten objects, and the first unwritten object that another part depends on.
    pub fn writable(&self, unwritten: &Unwritten) -> (Parts, Option<(Target, String)>) {
        let mut classes = self.change.tolerated.iter().flat_map(|tolerated| &tolerated.classes);
        let class = classes.find(|class| unwritten.has(Target::RuntimeClass, class));
        let class = class.map(|name| (Target::RuntimeClass, name.clone()));
        let config = match &self.change.config {
            Edit::Set(name) if unwritten.has(Target::ConfigMap, name) => Some((Target::ConfigMap, name.clone())),
            _ => None,
        };
        let taints = if class.is_some() { TaintPart::Tolerated } else { TaintPart::All };
        (Parts { taints, config: config.is_none(), metadata: true }, class.or(config))
    }

    /// The merge patch that writes these parts.
    pub fn body(&self, parts: Parts) -> Value {
        let (taints, record) = self.change.taint_part(parts.taints);
        let mut metadata = json!({"resourceVersion": self.resource_version});
        if parts.metadata && !self.change.labels.is_empty() {
            metadata["labels"] = json!(self.change.labels);
        }
        let config = if parts.config { patched(&self.change.config, Clone::clone) } else { None };
        let record = record
            .filter(|_| parts.metadata)
            .and_then(|record| patched(record, |record| self.ownership.write(&self.uid, record)));
        let registration = (self.change.replaces_registration && record.is_some()).then_some(None);
        let annotations =
            [(annotation::CONFIG, config), (annotation::OWNED, record), (annotation::REGISTERED_WITH, registration)];
        for (name, value) in annotations {
            if let Some(value) = value {
                metadata["annotations"][name] = json!(value);
            }
        }
        let mut body = json!({"metadata": metadata});
        if let Some(taints) = taints.and_then(|change| change.taints.as_ref()) {
            body["spec"] = json!({"taints": taints});
        }
        body
    }

    /// Whether the taints change.
    pub fn has_taints(&self) -> bool {
        self.change.taints.taints.is_some()
    }

    /// Whether the rest may be written without the taints, if admission rejects them.
    pub fn may_leave_taints(&self) -> bool {
        self.has_taints() && self.change.record_without_taints.is_some()
    }
}

/// A value in a merge patch: `Some(None)` removes it.
fn patched<T>(edit: &Edit<T>, text: impl FnOnce(&T) -> String) -> Option<Option<String>> {
    match edit {
        Edit::Keep => None,
        Edit::Remove => Some(None),
        Edit::Set(value) => Some(Some(text(value))),
    }
}
