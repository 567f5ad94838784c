//! The plan of a single node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint as NodeTaint;
use winpool_api::{
    Taint, TaintEffect, TaintKey,
    names::{label, reason},
};
use winpool_core::{ForeignText, node::WindowsNode, release_labels};
use winpool_facts::{ContainerdVersion, OsVersion};

use super::desired::{DesiredConfig, DesiredNode, NodePlan, Obstacle, RevertedField};
use crate::{
    operation::{Denial, DeniedPart, Edit, NodeEdit, Purpose, TaintEdit},
    ownership::{AppliedKeys, RecordState},
    pool::{Snapshot, relevance::ReadLabels},
    revert::{FieldWrite, ObjectId, RevertPolicy, WINDOW},
};
use winpool_core::record::{Origin, Record};

/// The age of a node up to which its taints count as those with which it was created, because its annotation names the
/// pool, or it has the rendered configuration. A kubelet can cause both later, when an administrator may have set the taints.
const REGISTRATION: SignedDuration = SignedDuration::from_mins(10);

/// All that the plan of a node depends on, in addition to the snapshot and to what is desired of all nodes of the pool. A plan
/// reads nothing else of its node, except [`Specifics`]: nodes with equal inputs share one plan.
#[derive(Debug, PartialEq)]
pub struct NodeInputs<'a> {
    /// The labels that the plan reads.
    pub labels: Vec<(&'a str, &'a str)>,
    pub taints: &'a [NodeTaint],
    /// The name of the current configuration.
    pub config: Option<&'a str>,
    pub registered_with: Option<&'a str>,
    /// Whether the node was created within [`REGISTRATION`].
    pub is_new: bool,
    /// The Windows version that the kernel reports.
    pub os: Option<OsVersion>,
    pub containerd: Option<ContainerdVersion>,
    pub record_state: RecordState<'a>,
    pub desired_config: DesiredConfig<'a>,
    /// Whether the kubelet registered with a rendered configuration.
    pub configured: bool,
    /// The NoExecute taints that would evict pods.
    pub evicting: Vec<TaintKey>,
    /// The labels for releases that pods on the node select.
    pub selected: BTreeSet<String>,
}

/// What is specific to one node. A plan that depends on it is not shared.
pub struct Specifics<'a> {
    id: ObjectId,
    /// What admission has rejected of the change of this node.
    denial: Option<&'a Denial>,
    /// Whether other clients repeatedly revert fields of this node.
    has_conflict: bool,
    taints_writer: &'a Option<ForeignText>,
    labels_writer: &'a Option<ForeignText>,
}

pub struct NodePlanning<'a> {
    pub snapshot: &'a Snapshot,
    pub applied: &'a AppliedKeys,
    pub inputs: &'a NodeInputs<'a>,
    pub specifics: &'a Specifics<'a>,
}

/// The edits of the labels, and the labels in the next record.
#[derive(Default)]
struct EditedLabels {
    edits: BTreeMap<String, Option<String>>,
    /// First those that are desired, with the origin that they have or keep. Then those of the former record that are not
    /// desired and stay on the node, because no pool owns them or they may not be removed now.
    record: BTreeMap<String, Origin>,
}

/// All taints after the edits, and the taints in the next record.
struct EditedTaints {
    all: Vec<NodeTaint>,
    edits: Vec<TaintEdit>,
    /// As for labels: [`EditedLabels::record`].
    record: BTreeMap<TaintKey, Origin>,
}

impl<'a> NodeInputs<'a> {
    /// The inputs of a node in no pool and without pods.
    pub fn of(node: &'a WindowsNode, read: &ReadLabels, now: Timestamp) -> Self {
        Self {
            labels: read.of(node).map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            taints: &node.taints,
            config: node.config.as_deref(),
            registered_with: node.registered_with.as_deref(),
            is_new: node.created.is_some_and(|created| now.duration_since(created) < REGISTRATION),
            os: node.os.as_ref().ok().copied(),
            containerd: node.containerd(),
            record_state: RecordState::None,
            desired_config: DesiredConfig::None,
            configured: false,
            evicting: Vec::new(),
            selected: BTreeSet::new(),
        }
    }

    fn label(&self, key: &str) -> Option<&'a str> {
        self.labels.iter().find(|(present, _)| *present == key).map(|(_, value)| *value)
    }

    fn present_release_labels(&self) -> impl Iterator<Item = &'a str> {
        self.labels.iter().map(|(key, _)| *key).filter(|key| release_labels::is_release_label(key))
    }

    /// Whether an admission policy has added this taint at the creation of the node, for this pool.
    fn is_registered_with(&self, pool: &str, taint: &TaintKey) -> bool {
        let added = self.registered_with.and_then(|text| text.strip_prefix(pool)?.strip_prefix(' '));
        added.is_some_and(|added| added.split(' ').any(|added| added == taint.to_string()))
    }
}

impl<'a> Specifics<'a> {
    pub fn of(node: &'a WindowsNode, snapshot: &'a Snapshot) -> Self {
        let id = ObjectId::Uid(node.uid.as_str().into());
        Self {
            denial: snapshot.denials.get(&node.name),
            has_conflict: snapshot.reverts.any_conflict(&id, snapshot.now),
            taints_writer: &node.taints_writer,
            labels_writer: &node.labels_writer,
            id,
        }
    }

    /// Whether no plan of the node depends on it.
    pub fn is_empty(&self) -> bool {
        !self.has_conflict && self.denial.is_none()
    }
}

impl NodePlanning<'_> {
    /// The change to the desired state.
    pub fn apply(&self, desired: &DesiredNode) -> NodePlan {
        let mut plan = NodePlan::default();
        let labels = self.desired_labels(desired, &mut plan);
        let taints = self.desired_taints(desired, &mut plan);
        let is_tainted = taints.all != self.inputs.taints;
        let waits = |edit: &TaintEdit| matches!(edit, TaintEdit::Set(key, _) if desired.untolerated.contains(key));
        let waits = taints.edits.iter().any(waits);
        let joins = self.inputs.record_state.verified().is_none_or(|record| record.pool != desired.pool);
        let purpose = if joins {
            Purpose::Taint
        } else if labels.edits.is_empty() && !is_tainted {
            Purpose::Configure
        } else {
            Purpose::Repair
        };
        let record = Record { pool: desired.pool.to_owned(), taints: taints.record, labels: labels.record };
        let record = self.edit_of_record(record, !labels.edits.is_empty() || is_tainted);
        plan.unverified = match &record {
            Edit::Set(record) => unverified(record),
            Edit::Keep | Edit::Remove => self.inputs.record_state.record().map(unverified).unwrap_or_default(),
        };
        let config = match self.inputs.desired_config {
            DesiredConfig::Named(name) => Some(name),
            DesiredConfig::None => None,
            DesiredConfig::Unchanged => self.inputs.config,
        };
        let edit = NodeEdit {
            labels: labels.edits,
            config: self.edit_of_config(config),
            taints: is_tainted.then_some(taints.all),
            taint_edits: taints.edits,
            classes: if waits { desired.extended_classes.clone() } else { BTreeSet::new() },
            record,
            replaces_registration: self.inputs.record_state == RecordState::None
                && self.inputs.registered_with.is_some(),
            purpose,
            if_denied: None,
        };
        let edit = self.without_denied(edit, &mut plan);
        plan.edit = (!edit.is_empty()).then(|| Arc::new(edit));
        plan
    }

    /// Leaves out what admission has rejected, and plans what to leave out next: first the taints, and if admission rejects the
    /// rest too, everything but the taints.
    fn without_denied(&self, edit: NodeEdit, plan: &mut NodePlan) -> NodeEdit {
        let is_tainted = edit.taints.is_some();
        let if_denied = match self.specifics.denial {
            None => is_tainted.then_some(DeniedPart::Taints),
            Some(Denial { part: DeniedPart::Metadata, message }) if is_tainted => {
                plan.add(Obstacle::Denied(message.clone()));
                let NodeEdit { taints, taint_edits, classes, purpose, .. } = edit;
                return NodeEdit { taints, taint_edits, classes, purpose, ..NodeEdit::default() };
            }
            Some(_) => plan.obstacle(reason::REFUSED).map(|_| DeniedPart::Metadata),
        };
        NodeEdit { if_denied, ..edit }
    }

    /// The change that removes everything that pools added, including label, configuration and record. It is not
    /// written without the taints. What pools added and the pool does not own stays on the node, with its record. On a node
    /// without the label of Windows, the policy winpool-operator allows no other record.
    pub fn release(&self) -> NodePlan {
        let (mut labels, mut taints) = (EditedLabels::default(), self.present_taints());
        self.remove_labels(&mut labels, |_| true);
        self.remove_taints(&mut taints, |_| true);
        if self.inputs.label(label::POOL).is_some() {
            labels.edits.insert(label::POOL.to_owned(), None);
        }
        // Unknown pods may select them.
        let unselected = self.inputs.present_release_labels().filter(|key| !self.inputs.selected.contains(*key));
        let removable = unselected.filter(|_| self.snapshot.pods.is_some());
        labels.edits.extend(removable.map(|key| (key.to_owned(), None)));
        let record = match self.inputs.record_state {
            RecordState::None => Edit::Keep,
            RecordState::Verified { record, .. } if !(taints.record.is_empty() && labels.record.is_empty()) => {
                let left = Record { pool: record.pool.clone(), taints: taints.record, labels: labels.record };
                if self.inputs.label(label::OS) == Some("windows") {
                    self.edit_of_record(left, false)
                } else {
                    Edit::Keep
                }
            }
            RecordState::Verified { .. } | RecordState::Unverified(_) => Edit::Remove,
        };
        let edit = NodeEdit {
            labels: labels.edits,
            config: self.edit_of_config(None),
            taints: (taints.all != self.inputs.taints).then_some(taints.all),
            taint_edits: taints.edits,
            record,
            purpose: Purpose::Release,
            ..NodeEdit::default()
        };
        NodePlan { edit: (!edit.is_empty()).then(|| Arc::new(edit)), ..NodePlan::default() }
    }

    fn desired_labels(&self, desired: &DesiredNode, plan: &mut NodePlan) -> EditedLabels {
        let mut labels = EditedLabels::default();
        // The label with the name of the pool is not recorded, because only winpool sets it.
        if self.inputs.label(label::POOL) != Some(desired.pool)
            && self.may_write(&FieldWrite::label(label::POOL, Some(desired.pool)), plan)
        {
            labels.edits.insert(label::POOL.to_owned(), Some(desired.pool.to_owned()));
        }
        for (key, value) in desired.labels {
            self.desired_label(key, value, &mut labels, plan);
        }
        // RuntimeClasses select by it. The kubelet sets it only when it starts, and other clients can remove it.
        if let Some(version) = self.inputs.os {
            self.desired_label(label::WINDOWS_BUILD, &version.build.to_string(), &mut labels, plan);
        }
        self.remove_labels(&mut labels, |key| self.may_write(&FieldWrite::label(key, None), plan));
        self.release_labels(&mut labels, plan);
        labels
    }

    /// Sets the labels for the releases whose images the node runs. Like the label with the name of the pool they are not
    /// recorded. A label is not removed while pods on the node select it: a kubelet that restarts would reject them.
    fn release_labels(&self, labels: &mut EditedLabels, plan: &mut NodePlan) {
        let runs = self.inputs.os.map(|os| release_labels::of_host(os, self.inputs.containerd)).unwrap_or_default();
        let is_set = |key: &str| self.inputs.label(key) == Some(label::RUNS_VALUE);
        for key in runs.iter().filter(|key| !is_set(key)) {
            if self.may_write(&FieldWrite::label(key, Some(label::RUNS_VALUE)), plan) {
                labels.edits.insert(key.clone(), Some(label::RUNS_VALUE.to_owned()));
            }
        }
        for key in self
            .inputs
            .present_release_labels()
            .filter(|key| !runs.contains(*key) && !self.inputs.selected.contains(*key))
        {
            if self.may_write(&FieldWrite::label(key, None), plan) {
                labels.edits.insert(key.to_owned(), None);
            }
        }
    }

    fn desired_label(&self, key: &str, value: &str, labels: &mut EditedLabels, plan: &mut NodePlan) {
        let present = self.inputs.label(key);
        let recorded = self.recorded().and_then(|record| record.labels.get(key)).map(|origin| self.carried(*origin));
        if present == Some(value) {
            labels.record.insert(key.to_owned(), recorded.unwrap_or(Origin::Found));
            return;
        }
        let foreign = present.filter(|_| !self.applied.owns_label(self.inputs.record_state, key));
        if let Some(present) = foreign {
            plan.add(Obstacle::LabelConflict(format!("{key}={present} instead of {key}={value}")));
        } else if self.may_write(&FieldWrite::label(key, Some(value)), plan) {
            labels.record.insert(key.to_owned(), Origin::Added);
            labels.edits.insert(key.to_owned(), Some(value.to_owned()));
            return;
        }
        labels.record.extend(recorded.map(|origin| (key.to_owned(), origin)));
    }

    /// Removes recorded labels that are not desired. Labels that no pool owns stay on the node and in the record.
    fn remove_labels(&self, labels: &mut EditedLabels, mut may_write: impl FnMut(&str) -> bool) {
        for (key, origin) in self.recorded().into_iter().flat_map(|record| &record.labels) {
            let is_present = self.inputs.label(key).is_some();
            if *origin == Origin::Found || !is_present || labels.record.contains_key(key) {
                continue;
            }
            if self.applied.owns_label(self.inputs.record_state, key) && may_write(key) {
                labels.edits.insert(key.clone(), None);
            } else {
                labels.record.insert(key.clone(), self.carried(*origin));
            }
        }
    }

    fn desired_taints(&self, desired: &DesiredNode, plan: &mut NodePlan) -> EditedTaints {
        let mut taints = self.present_taints();
        for taint in desired.taints {
            self.desired_taint(desired, taint, &mut taints, plan);
        }
        // While a taint of the spec is missing, the former ones keep Linux pods off the node.
        let complete = desired.taints.iter().all(|taint| taints.has(taint));
        self.remove_taints(&mut taints, |key| complete && self.may_write_taint(&FieldWrite::taint(key, None), plan));
        if complete {
            self.remove_replaced(desired, &mut taints, plan);
        }
        taints
    }

    fn present_taints(&self) -> EditedTaints {
        EditedTaints { all: self.inputs.taints.to_vec(), edits: Vec::new(), record: BTreeMap::new() }
    }

    fn desired_taint(&self, desired: &DesiredNode, taint: &Taint, taints: &mut EditedTaints, plan: &mut NodePlan) {
        let key = TaintKey::from(taint);
        let recorded = self.recorded().and_then(|record| record.taints.get(&key)).map(|origin| self.carried(*origin));
        let present = taints.all.iter().find(|present| TaintKey::from(*present) == key);
        let present = present.map(|present| present.value.clone().unwrap_or_default());
        let evicts = taint.effect == TaintEffect::NoExecute && self.inputs.evicting.contains(&key);
        let write = FieldWrite::taint(&key, Some(&taint.value));
        let is_replaced =
            |present: &String| desired.replaced.contains(&Taint { value: present.clone(), ..taint.clone() });
        match present {
            Some(value) if value == taint.value => {
                self.report_conflict(&write, plan);
                // A kubelet that registered with a rendered configuration, or an admission policy, has added the taint.
                let registered = self.inputs.record_state == RecordState::None
                    && self.inputs.is_new
                    && (self.inputs.configured || self.inputs.is_registered_with(desired.pool, &key));
                let origin = recorded.unwrap_or(if registered { Origin::Added } else { Origin::Found });
                taints.record.insert(key, origin);
                return;
            }
            Some(present) if !self.applied.owns_taint(self.inputs.record_state, &key) && !is_replaced(&present) => {
                let [present, wanted] = [&present, &taint.value].map(|value| key.with_value(value));
                plan.add(Obstacle::TaintConflict(format!("{present} instead of {wanted}")));
            }
            _ if evicts => plan.add(Obstacle::WouldEvict(key.clone())),
            _ if desired.held.contains(&key) => plan.add(Obstacle::WouldStrand(key.clone())),
            // A taint that was removed from the node is added again, so that the taint of a node cannot be removed by
            // making a RuntimeClass unchangeable.
            _ if desired.blocked.contains(&key) && (present.is_some() || recorded != Some(Origin::Added)) => {
                plan.add(Obstacle::Untolerated(key.clone()));
            }
            _ if desired.awaited.contains(&key) => plan.add(Obstacle::ClassNotWritten(key.clone())),
            _ if self.may_write_taint(&write, plan) => return taints.set(key, &taint.value),
            _ => {}
        }
        taints.record.extend(recorded.map(|origin| (key, origin)));
    }

    /// Removes recorded taints that are not desired. Taints that no pool owns stay on the node and in the record.
    fn remove_taints(&self, taints: &mut EditedTaints, mut may_write: impl FnMut(&TaintKey) -> bool) {
        for (key, origin) in self.recorded().into_iter().flat_map(|record| &record.taints) {
            let position = taints.all.iter().position(|present| TaintKey::from(present) == *key);
            let Some(position) = position.filter(|_| *origin != Origin::Found) else { continue };
            if taints.record.contains_key(key) {
                continue;
            }
            if self.applied.owns_taint(self.inputs.record_state, key) && may_write(key) {
                taints.all.remove(position);
                taints.edits.push(TaintEdit::Remove(key.clone()));
            } else {
                taints.record.insert(key.clone(), self.carried(*origin));
            }
        }
    }

    /// Removes the taints of others that those of the pool replace.
    fn remove_replaced(&self, desired: &DesiredNode, taints: &mut EditedTaints, plan: &mut NodePlan) {
        for taint in desired.replaced {
            let write = FieldWrite::replaced_taint(taint);
            if taints.has(taint) && self.may_write_taint(&write, plan) {
                taints.all.retain(|present| taint != present);
                taints.record.remove(&TaintKey::from(taint));
                taints.edits.push(TaintEdit::RemoveReplaced(taint.clone()));
            } else {
                self.report_conflict(&write, plan);
            }
        }
    }

    /// The edit that sets a record. A record that cannot be verified is kept until something else is written, because
    /// it is valid again when its key is restored.
    fn edit_of_record(&self, record: Record, writes: bool) -> Edit<Record> {
        let keep = match self.inputs.record_state {
            RecordState::None => false,
            RecordState::Verified { record: present, current } => current && *present == record,
            RecordState::Unverified(_) => !writes,
        };
        if keep { Edit::Keep } else { Edit::Set(record) }
    }

    fn edit_of_config(&self, desired: Option<&str>) -> Edit<String> {
        match desired {
            _ if self.inputs.config == desired => Edit::Keep,
            Some(name) => Edit::Set(name.to_owned()),
            None => Edit::Remove,
        }
    }

    fn recorded(&self) -> Option<&Record> {
        self.inputs.record_state.record()
    }

    /// The origin of an entry in the next record.
    fn carried(&self, origin: Origin) -> Origin {
        match (origin, self.inputs.record_state) {
            (Origin::Added, RecordState::Unverified(_)) => Origin::Unverified,
            _ => origin,
        }
    }

    fn may_write_taint(&self, write: &FieldWrite, plan: &mut NodePlan) -> bool {
        if let Some(Denial { part: DeniedPart::Taints, message }) = self.specifics.denial {
            plan.add(Obstacle::Denied(message.clone()));
            return false;
        }
        self.may_write(write, plan)
    }

    /// Whether a field may be written now, or the write is delayed because another client repeatedly reverts it.
    fn may_write(&self, write: &FieldWrite, plan: &mut NodePlan) -> bool {
        self.report_conflict(write, plan);
        let delayed = self.delayed_until(write);
        plan.retry_at = plan.retry_at.into_iter().chain(delayed).min();
        delayed.is_none()
    }

    fn report_conflict(&self, write: &FieldWrite, plan: &mut NodePlan) {
        let now = self.snapshot.now;
        if !self.snapshot.reverts.in_conflict(&self.specifics.id, write, now) {
            return;
        }
        let (writer, paused_until) = match write.on_revert {
            RevertPolicy::Retry => (self.specifics.taints_writer, None),
            RevertPolicy::Pause => (self.specifics.labels_writer, Some(self.delayed_until(write).unwrap_or(now))),
        };
        plan.add(Obstacle::Reverted(RevertedField {
            field: write.field.clone(),
            writer: writer.clone(),
            paused_until,
        }));
        plan.retry_at = plan.retry_at.into_iter().chain(now.checked_add(WINDOW)).min();
    }

    fn delayed_until(&self, write: &FieldWrite) -> Option<Timestamp> {
        self.snapshot.reverts.delayed_until(&self.specifics.id, write, self.snapshot.now)
    }
}

impl EditedTaints {
    fn has(&self, taint: &Taint) -> bool {
        self.all.iter().any(|present| taint == present)
    }

    fn set(&mut self, key: TaintKey, value: &str) {
        let text = (!value.is_empty()).then(|| value.to_owned());
        match self.all.iter_mut().find(|present| TaintKey::from(&**present) == key) {
            Some(present) => present.value = text,
            None => {
                let (name, effect) = (key.key.clone(), key.effect.clone());
                self.all.push(NodeTaint { key: name, effect, value: text, time_added: None });
            }
        }
        self.edits.push(TaintEdit::Set(key.clone(), value.to_owned()));
        self.record.insert(key, Origin::Added);
    }
}

/// The number of entries that were `added` in an earlier record without a valid signature.
fn unverified(record: &Record) -> usize {
    let origins = record.taints.values().chain(record.labels.values());
    origins.filter(|origin| **origin == Origin::Unverified).count()
}
