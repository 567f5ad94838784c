//! What a plan asks for: writes as values, with everything the writer needs and nothing it has to decide.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Taint as NodeTaint;
use serde_json::{Value, json};

use super::{
    ownership::{Ownership, Record},
    revert::{FieldWrite, ObjectId, Persistence, Target},
};
use crate::api::names::annotation;

/// What follows when an operation of a plan does not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// The rest goes on, but for the parts that depend on what failed.
    GoOn,
    /// No further step begins: what is removed is removed in order.
    Stop,
}

/// The objects that could not be written, so that what depends on them waits.
#[derive(Clone, Debug, Default)]
pub struct Unwritten(BTreeSet<(Target, String)>);

impl Unwritten {
    /// Adds the object of an operation.
    pub fn add(&mut self, operation: &Operation) {
        self.0.insert((operation.target(), operation.object().to_owned()));
    }

    /// Whether the object of an operation could not be written before.
    pub fn has(&self, operation: &Operation) -> bool {
        self.has_object(operation.target(), operation.object())
    }

    fn has_object(&self, target: Target, name: &str) -> bool {
        self.0.contains(&(target, name.to_owned()))
    }
}

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
        /// The uid of the class as it was seen; `None` for one that is created.
        uid: Option<String>,
        /// What it sets, for the detection of reverts.
        writes: Vec<FieldWrite>,
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
#[derive(Clone, Debug)]
pub struct NodePatch {
    /// The node.
    pub node: String,
    /// Its uid.
    pub uid: String,
    /// Its version, as an optimistic lock.
    pub resource_version: String,
    /// What changes.
    pub change: Arc<NodeChange>,
    /// What signs the record.
    pub ownership: Arc<Ownership>,
}

/// What changes on a node; nodes that are alike share one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeChange {
    /// Labels to write; `None` removes one.
    pub labels: BTreeMap<String, Option<String>>,
    /// The name of its configuration.
    pub config: Edit<String>,
    /// The taints, with the record that is true when they are written.
    pub taints: TaintChange,
    /// The same without the taints that wait for a RuntimeClass to tolerate them.
    pub tolerated: Option<TolerationDependency>,
    /// The record that is true without any change of the taints; `None` where nothing may be written without them.
    pub record_without_taints: Option<Edit<Record>>,
    /// What it changes beside the taints, in words.
    pub words: Vec<String>,
    /// What it sets beside the taints, for the detection of reverts.
    pub writes: Vec<FieldWrite>,
    /// What it is for.
    pub purpose: Purpose,
}

/// What becomes of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Edit<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is removed.
    Remove,
    /// It is set.
    Set(T),
}

/// A change of the taints of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaintChange {
    /// All taints after the change; `None` where they stay as they are.
    pub taints: Option<Vec<NodeTaint>>,
    /// The record.
    pub record: Edit<Record>,
    /// What it changes, in words.
    pub words: Vec<String>,
    /// What it sets, for the detection of reverts.
    pub writes: Vec<FieldWrite>,
}

/// What is written of the taints while a RuntimeClass does not tolerate all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct TolerationDependency {
    /// The RuntimeClasses whose tolerations are widened in the same plan.
    pub classes: BTreeSet<String>,
    /// The change with those taints alone that every class tolerates already.
    pub change: TaintChange,
}

/// Which parts of a node's change are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The taints.
    pub taints: TaintPart,
    /// Whether the name of the configuration is written.
    pub config: bool,
    /// Whether labels and record are written.
    pub metadata: bool,
}

/// Which taints are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaintPart {
    /// All.
    All,
    /// Those that every RuntimeClass tolerates already.
    Tolerated,
    /// None.
    None,
}

/// What a change of a node is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The node joins the pool.
    #[default]
    Guard,
    /// What the pool asks for is not on the node.
    Repair,
    /// The node is to run another configuration, and has everything else.
    Configure,
    /// What is ours comes off.
    Release,
}

impl Parts {
    /// The whole change.
    pub const ALL: Self = Self { taints: TaintPart::All, config: true, metadata: true };
    /// The taints alone, for an admission that refuses the labels: without a record they are never removed, and Linux pods
    /// stay away.
    pub const TAINTS: Self = Self { taints: TaintPart::All, config: false, metadata: false };
}

impl NodeChange {
    /// Whether anything is left to write of these parts.
    pub fn has(&self, parts: Parts) -> bool {
        let (taints, record) = self.taint_part(parts.taints);
        (parts.metadata && (!self.labels.is_empty() || !matches!(record, None | Some(Edit::Keep))))
            || (parts.config && self.config != Edit::Keep)
            || taints.is_some_and(|change| change.taints.is_some())
    }

    /// Whether there is anything to write.
    pub fn has_any(&self) -> bool {
        self.has(Parts::ALL)
    }

    /// The taints of a part and the record that is true with them.
    fn taint_part(&self, part: TaintPart) -> (Option<&TaintChange>, Option<&Edit<Record>>) {
        match (part, &self.tolerated) {
            (TaintPart::All, _) | (TaintPart::Tolerated, None) => (Some(&self.taints), Some(&self.taints.record)),
            (TaintPart::Tolerated, Some(tolerated)) => (Some(&tolerated.change), Some(&tolerated.change.record)),
            (TaintPart::None, _) => (None, self.record_without_taints.as_ref()),
        }
    }

    /// What these parts change, in words.
    pub fn words(&self, parts: Parts) -> Vec<String> {
        let config = match &self.config {
            Edit::Set(name) if parts.config => Some(format!("config {name}")),
            Edit::Remove if parts.config && self.purpose != Purpose::Release => Some("remove the config".to_owned()),
            _ => None,
        };
        let taints = self.taint_part(parts.taints).0;
        let labels = self.words.iter().filter(|_| parts.metadata);
        let words = labels.chain(taints.into_iter().flat_map(|change| &change.words)).cloned();
        let words: Vec<_> = words.chain(config).collect();
        if words.is_empty() { vec!["update the record".to_owned()] } else { words }
    }

    /// What these parts set, for the detection of reverts.
    pub fn writes(&self, parts: Parts) -> Vec<FieldWrite> {
        let taints = self.taint_part(parts.taints).0;
        let labels = self.writes.iter().filter(|_| parts.metadata);
        labels.chain(taints.into_iter().flat_map(|change| &change.writes)).cloned().collect()
    }
}

impl PartialEq for NodePatch {
    /// What signs the record does not matter.
    fn eq(&self, other: &Self) -> bool {
        (&self.node, &self.uid, &self.resource_version, &self.change)
            == (&other.node, &other.uid, &other.resource_version, &other.change)
    }
}

impl NodePatch {
    /// The parts that can be written when these objects could not be, and the first object that the others wait for.
    pub fn writable(&self, unwritten: &Unwritten) -> (Parts, Option<(Target, String)>) {
        let classes = self.change.tolerated.iter().flat_map(|tolerated| &tolerated.classes);
        let class = classes.into_iter().find(|class| unwritten.has_object(Target::RuntimeClass, class));
        let class = class.map(|name| (Target::RuntimeClass, name.clone()));
        let config = match &self.change.config {
            Edit::Set(name) if unwritten.has_object(Target::ConfigMap, name) => Some((Target::ConfigMap, name.clone())),
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
        let config = if parts.config { edited(&self.change.config, Clone::clone) } else { None };
        let record = record
            .filter(|_| parts.metadata)
            .and_then(|record| edited(record, |record| self.ownership.write(&self.uid, record)));
        for (name, value) in [(annotation::CONFIG, config), (annotation::OWNED, record)] {
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

    /// Whether the rest may be written without the taints, for an admission that refuses them.
    pub fn may_leave_taints(&self) -> bool {
        self.has_taints() && self.change.record_without_taints.is_some()
    }
}

/// A value of a merge patch: `Some(None)` removes it.
fn edited<T>(edit: &Edit<T>, text: impl FnOnce(&T) -> String) -> Option<Option<String>> {
    match edit {
        Edit::Keep => None,
        Edit::Remove => Some(None),
        Edit::Set(value) => Some(Some(text(value))),
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

    /// The kind of the object that is written.
    pub fn target(&self) -> Target {
        match self {
            Self::AddFinalizer { .. } | Self::RemoveFinalizer { .. } => Target::Pool,
            Self::RecordApplied { .. } => Target::PoolStatus,
            Self::ApplyRuntimeClass { .. } | Self::StripRuntimeClass { .. } | Self::DeleteRuntimeClass { .. } => {
                Target::RuntimeClass
            }
            Self::ApplyConfigMap { .. } | Self::DeleteConfigMap { .. } => Target::ConfigMap,
            Self::PatchNode(_) => Target::Node,
        }
    }

    /// What identifies its object for the detection of reverts: the uid, but for objects that it creates.
    pub fn identity(&self) -> ObjectId {
        match self {
            Self::PatchNode(patch) => ObjectId::Uid(patch.uid.clone()),
            Self::ApplyRuntimeClass { uid: Some(uid), .. } => ObjectId::Uid(uid.clone()),
            _ => ObjectId::Name(self.target(), self.object().to_owned()),
        }
    }

    /// What it sets on its object if it ends like this, for the detection of reverts.
    pub fn writes(&self, outcome: &Outcome) -> Vec<FieldWrite> {
        match (self, outcome) {
            (Self::PatchNode(patch), Outcome::Done) => patch.change.writes(Parts::ALL),
            (Self::PatchNode(patch), Outcome::Partly { written, .. }) => patch.change.writes(*written),
            (Self::ApplyRuntimeClass { writes, .. }, Outcome::Done) => writes.clone(),
            (Self::ApplyConfigMap { .. }, Outcome::Done) => vec![existence()],
            (Self::DeleteRuntimeClass { .. }, Outcome::Done) => {
                vec![FieldWrite { value: "absent".to_owned(), ..existence() }]
            }
            _ => Vec::new(),
        }
    }

    /// What it does, in words for a person; `None` for our own book-keeping and for what another operation says already.
    pub fn words(&self) -> Option<String> {
        self.words_of(Parts::ALL)
    }

    /// What it did, in words for a person, by how it ended; `None` where nothing was written.
    pub fn words_done(&self, outcome: &Outcome) -> Option<String> {
        match outcome {
            Outcome::Done => self.words(),
            Outcome::Partly { written, .. } => self.words_of(*written),
            _ => None,
        }
    }

    fn words_of(&self, parts: Parts) -> Option<String> {
        match self {
            Self::AddFinalizer { .. } | Self::RemoveFinalizer { .. } => None,
            Self::RecordApplied { .. } | Self::StripRuntimeClass { .. } => None,
            Self::ApplyRuntimeClass { name, words, .. } => Some(format!("RuntimeClass {name}: {words}")),
            Self::DeleteRuntimeClass { name, .. } => Some(format!("RuntimeClass {name}: delete")),
            Self::ApplyConfigMap { name, .. } => Some(format!("ConfigMap {name}: create")),
            Self::DeleteConfigMap { name, .. } => Some(format!("ConfigMap {name}: delete")),
            Self::PatchNode(patch) => Some(format!("Node {}: {}", patch.node, patch.change.words(parts).join(", "))),
        }
    }
}

/// That an object of ours is there: others revert it by deleting the object.
pub fn existence() -> FieldWrite {
    FieldWrite { field: "existence".to_owned(), value: "present".to_owned(), persistence: Persistence::Insist }
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// Only these parts of a node's change are written.
    Partly {
        /// The parts.
        written: Parts,
        /// Why not the rest.
        why: Shortfall,
    },
    /// Somebody wrote first: look again.
    Conflict,
    /// The object is gone.
    Gone,
    /// The API server refused it with this text.
    Refused(String),
    /// It did not get through, for the reason in the text.
    Failed(String),
}

/// Why a part of a node's change is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// Admission refused the taints with this text.
    Refused(String),
    /// It waits for this object, which could not be written.
    Waits(Target, String),
}

/// What became of a plan's operations. Those that were not tried are not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// Each operation that was tried, with how it ended.
    pub results: Vec<(Operation, Outcome)>,
    /// Whether every operation was tried and got through.
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
            Outcome::Done | Outcome::Partly { .. } | Outcome::Conflict | Outcome::Gone => None,
        })
    }
}
