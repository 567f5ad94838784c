//! The change of a node: one merge patch.

use std::collections::{BTreeMap, BTreeSet};

use derive_more::Display;
use k8s_openapi::api::core::v1::Taint as NodeTaint;
use serde_json::{Value, json};
use winpool_api::{
    Taint, TaintKey,
    names::{annotation, label},
};
use winpool_core::{ForeignText, kind::Kind};

use super::dependency::Dependency;
use crate::{ownership::Ownership, revert::FieldWrite};
use winpool_core::record::Record;

/// The change of a node. Equal nodes share one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeEdit {
    /// The labels to set, or to remove where the value is `None`.
    pub labels: BTreeMap<String, Option<String>>,
    /// The annotation with the name of the configuration.
    pub config: Edit<String>,
    /// All taints after the change; `None` if they are not changed.
    pub taints: Option<Vec<NodeTaint>>,
    pub taint_edits: Vec<TaintEdit>,
    /// The RuntimeClasses that the same plan changes to tolerate the taints.
    pub classes: BTreeSet<String>,
    pub record: Edit<Record>,
    /// Whether the record replaces the annotation of the admission policy that set the taints of the new node.
    pub replaces_registration: bool,
    pub purpose: Purpose,
    /// What the next plan leaves out if admission rejects the change; `None` if the change is all or nothing.
    pub if_denied: Option<DeniedPart>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Edit<T> {
    /// The value is not changed.
    #[default]
    Keep,
    Remove,
    Set(T),
}

#[derive(Clone, Debug, PartialEq, Eq, Display)]
pub enum TaintEdit {
    /// The taint is added, or gets this value.
    #[display("taint {}", _0.with_value(_1))]
    Set(TaintKey, String),
    #[display("remove taint {_0}")]
    Remove(TaintKey),
    /// The taint of another component is removed, because those of the pool replace it.
    #[display("remove taint {_0}")]
    RemoveReplaced(Taint),
}

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

/// The part of a node's change that admission rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeniedPart {
    Taints,
    /// Labels and annotations, with the taints or without. The taints are written alone: they exclude Linux pods, and are
    /// never removed, because no record has them.
    Metadata,
}

/// That admission rejected a part of a node's change, until it is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub message: ForeignText,
    pub part: DeniedPart,
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

impl NodeEdit {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.record == Edit::Keep && self.config == Edit::Keep && self.taints.is_none()
    }

    /// What must be written before: RuntimeClasses that tolerate the taints, and the ConfigMap that the node names.
    pub(super) fn needs(&self) -> Vec<Dependency> {
        let classes = self.classes.iter().map(|class| Dependency::Object(Kind::RUNTIME_CLASS, class.clone()));
        let config = match &self.config {
            Edit::Set(name) => Some(Dependency::Object(Kind::CONFIG_MAP, name.clone())),
            Edit::Keep | Edit::Remove => None,
        };
        classes.chain(config).collect()
    }

    /// The changes, such as `label team=web, remove taint os:NoSchedule`.
    pub fn description(&self) -> String {
        let mut labels: Vec<_> = self.labels.iter().collect();
        labels.sort_by_key(|(key, value)| (value.is_none(), *key != label::POOL));
        let labels = labels.into_iter().map(|(key, value)| match value {
            Some(value) => format!("label {key}={value}"),
            None => format!("remove label {key}"),
        });
        let config = match &self.config {
            Edit::Set(name) => Some(format!("config {name}")),
            Edit::Remove if self.purpose != Purpose::Release => Some("remove the config".to_owned()),
            Edit::Remove | Edit::Keep => None,
        };
        let changes: Vec<_> = labels.chain(self.taint_edits.iter().map(TaintEdit::to_string)).chain(config).collect();
        if changes.is_empty() { "update the record".to_owned() } else { changes.join(", ") }
    }

    /// The fields that are written, for the detection of reverts.
    pub fn field_writes(&self) -> Vec<FieldWrite> {
        let labels = self.labels.iter().map(|(key, value)| FieldWrite::label(key, value.as_deref()));
        labels.chain(self.taint_edits.iter().map(TaintEdit::field_write)).collect()
    }

    /// The merge patch of the node with this uid, with a signed record.
    pub(super) fn body(&self, uid: &str, ownership: &Ownership) -> Value {
        let mut body = json!({"metadata": {}});
        if !self.labels.is_empty() {
            body["metadata"]["labels"] = json!(self.labels);
        }
        let annotations = [
            (annotation::CONFIG, patched(&self.config, Clone::clone)),
            (annotation::OWNED, patched(&self.record, |record| ownership.write(uid, record))),
            (annotation::REGISTERED_WITH, self.replaces_registration.then_some(None)),
        ];
        for (name, value) in annotations {
            if let Some(value) = value {
                body["metadata"]["annotations"][name] = json!(value);
            }
        }
        if let Some(taints) = &self.taints {
            body["spec"] = json!({"taints": taints});
        }
        body
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
