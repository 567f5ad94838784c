//! What has to change on one node: one merge patch that keeps everything that others own.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint as NodeTaint;

use super::{Snapshot, evictions::Evictions};
use crate::{
    api::{Taint, TaintEffect, names::label},
    domain::{
        node::WindowsNode,
        operation::{Edit, NodeChange, NodePatch, Purpose, TaintChange, TolerationDependency},
        ownership::{AppliedKeys, Evidence, Origin, Ownership, Record, TaintKey},
        revert::{FieldWrite, ObjectId, Persistence, WINDOW},
    },
};

/// What a pool wants on its nodes.
#[derive(Clone, Debug)]
pub struct DesiredNode<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// Labels, beside those of ours.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints.
    pub taints: &'a [Taint],
    /// The taints that some RuntimeClass of the pool does not tolerate yet.
    pub waiting: &'a BTreeSet<TaintKey>,
    /// The RuntimeClasses that are widened for them in the same plan.
    pub widened: &'a BTreeSet<String>,
    /// The taints that some RuntimeClass of the pool does not tolerate, and that is not widened now.
    pub blocked: &'a BTreeSet<TaintKey>,
    /// Which NoExecute taints would evict pods.
    pub evictions: &'a Evictions<'a>,
}

/// The configuration that a node should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Config<'a> {
    /// This ConfigMap.
    Named(&'a str),
    /// None: no profile is named.
    None,
    /// Whatever it has: the profile cannot be rendered for it now.
    AsItIs,
}

/// The plan for one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePlan {
    /// What changes, if anything has to.
    pub change: Option<Arc<NodeChange>>,
    /// Taints of the same key and effect with another value: left as they are.
    pub taint_conflicts: Vec<String>,
    /// Labels with another value: left as they are.
    pub label_conflicts: Vec<String>,
    /// NoExecute taints that wait for a permission.
    pub would_evict: Vec<TaintKey>,
    /// Taints that wait until every RuntimeClass of the pool tolerates them.
    pub untolerated: Vec<TaintKey>,
    /// Fields that another client keeps reverting.
    pub contested: Vec<String>,
    /// When the first of them may be written again, if one waits.
    pub retry_at: Option<Timestamp>,
    /// What admission said when it refused the taints lately.
    pub refused: Option<String>,
    /// Entries of a record that could not be verified: they are kept, and never removed without a person.
    pub claimed: usize,
}

impl NodePlan {
    /// Whether the node will have everything when the patch is written.
    pub fn complete(&self) -> bool {
        self.taint_conflicts.is_empty()
            && self.label_conflicts.is_empty()
            && self.would_evict.is_empty()
            && self.untolerated.is_empty()
            && self.contested.is_empty()
            && self.refused.is_none()
    }
}

/// How many kinds of nodes are remembered: the nodes of a pool are mostly alike.
const KINDS: usize = 16;

/// Plans nodes: with a desired state to make them so, without one to remove what is ours.
///
/// Nodes that are alike in everything that matters have one plan, which is made once.
pub struct Planner<'a> {
    snapshot: &'a Snapshot,
    applied: &'a AppliedKeys,
    desired: Option<DesiredNode<'a>>,
    kinds: VecDeque<Kind<'a>>,
}

/// The plan of a node, and what it depends on.
struct Kind<'a> {
    node: &'a WindowsNode,
    evidence: Evidence<'a>,
    config: Config<'a>,
    registered: bool,
    /// NoExecute taints that would evict pods.
    evicting: Vec<TaintKey>,
    /// The labels that matter, with what the node has.
    labels: Vec<(&'a str, Option<&'a String>)>,
    plan: Arc<NodePlan>,
}

impl<'a> Planner<'a> {
    /// Prepares the plans for the nodes of one pool.
    pub fn new(snapshot: &'a Snapshot, applied: &'a AppliedKeys, desired: Option<DesiredNode<'a>>) -> Self {
        Self { snapshot, applied, desired, kinds: VecDeque::new() }
    }

    /// Plans one node, which should run this configuration.
    ///
    /// `registered` says that the node runs a configuration that we rendered, so that its taints came with it.
    pub fn plan(&mut self, node: &'a WindowsNode, config: Config<'a>, registered: bool) -> Arc<NodePlan> {
        let evidence = self.snapshot.ownership.evidence(node);
        let evicting = self.desired.as_ref().map(|desired| desired.evictions.of(node)).unwrap_or_default();
        let now = self.snapshot.now;
        // What is contested or refused concerns one node alone.
        let alone = self.snapshot.reverts.has_contest(&ObjectId::Uid(node.uid.clone()), now)
            || self.snapshot.refusals.contains_key(&node.name);
        let alike = |kind: &&Kind| {
            kind.registered == registered
                && kind.config == config
                && kind.evidence == evidence
                && kind.evicting == evicting
                && kind.has(node)
        };
        if let Some(kind) = self.kinds.iter().find(alike).filter(|_| !alone) {
            return kind.plan.clone();
        }
        let draft = Draft {
            snapshot: self.snapshot,
            applied: self.applied,
            node,
            evidence,
            desired: self.desired.as_ref(),
            evicting: &evicting,
            registered,
        };
        let plan = Arc::new(draft.plan(config));
        if !alone {
            let labels = self.labels_that_matter(node).map(|key| (key, node.labels.get(key))).collect();
            self.kinds.push_front(Kind { node, evidence, config, registered, evicting, labels, plan: plan.clone() });
            self.kinds.truncate(KINDS);
        }
        plan
    }

    fn labels_that_matter(&self, node: &'a WindowsNode) -> impl Iterator<Item = &'a str> {
        let desired = self.desired.iter().flat_map(|desired| desired.labels.keys());
        let recorded = node.owned.iter().flat_map(|signed| signed.record.labels.keys());
        [label::POOL, label::WINDOWS_BUILD].into_iter().chain(desired.chain(recorded).map(String::as_str))
    }
}

impl Kind<'_> {
    /// Whether a node is of this kind, as far as the node itself tells.
    fn has(&self, node: &WindowsNode) -> bool {
        self.node.os == node.os
            && self.node.config == node.config
            && self.node.taints == node.taints
            && self.labels.iter().all(|(key, value)| node.labels.get(*key) == *value)
    }
}

/// The write of a plan, if it has any.
pub fn patch(node: &WindowsNode, plan: &NodePlan, ownership: &Arc<Ownership>) -> Option<Arc<NodePatch>> {
    let change = plan.change.clone()?;
    let (name, uid, resource_version) = (node.name.clone(), node.uid.clone(), node.resource_version.clone());
    Some(Arc::new(NodePatch { node: name, uid, resource_version, change, ownership: ownership.clone() }))
}

/// What a plan of one node is made from.
struct Draft<'a> {
    snapshot: &'a Snapshot,
    applied: &'a AppliedKeys,
    node: &'a WindowsNode,
    evidence: Evidence<'a>,
    desired: Option<&'a DesiredNode<'a>>,
    evicting: &'a [TaintKey],
    registered: bool,
}

/// The labels of a node, with the entries of the record.
#[derive(Default)]
struct Labels {
    edits: BTreeMap<String, Option<String>>,
    record: BTreeMap<String, Origin>,
    words: Vec<String>,
    writes: Vec<FieldWrite>,
}

/// The taints of a node, with the entries of the record.
struct Taints {
    all: Vec<NodeTaint>,
    record: BTreeMap<TaintKey, Origin>,
    words: Vec<String>,
    writes: Vec<FieldWrite>,
}

impl Draft<'_> {
    fn plan(&self, config: Config) -> NodePlan {
        match self.desired {
            Some(desired) => self.apply(desired, config),
            None => self.release(),
        }
    }

    /// Everything that the pool asks for.
    fn apply(&self, desired: &DesiredNode, config: Config) -> NodePlan {
        let mut plan = NodePlan::default();
        let labels = self.desired_labels(desired, &mut plan);
        let taints = self.desired_taints(desired, |_| true, &mut plan);
        let change_of = |taints: Taints| {
            let record =
                Record { pool: desired.pool.to_owned(), taints: taints.record.clone(), labels: labels.record.clone() };
            let taints = self.change_of(taints);
            let record = self.record(record, !labels.edits.is_empty() || taints.taints.is_some());
            TaintChange { record, ..taints }
        };
        let all = change_of(taints);
        let tolerated = (!desired.waiting.is_empty() && all.taints.is_some()).then(|| {
            let tolerated = |key: &TaintKey| !desired.waiting.contains(key);
            change_of(self.desired_taints(desired, tolerated, &mut NodePlan::default()))
        });
        let tolerated = tolerated
            .filter(|tolerated| *tolerated != all)
            .map(|change| TolerationDependency { classes: desired.widened.clone(), change });
        let untouched = change_of(self.desired_taints(desired, |_| false, &mut NodePlan::default()));
        plan.claimed = match &all.record {
            Edit::Set(record) => claims(record),
            Edit::Keep | Edit::Remove => self.evidence.record().map(claims).unwrap_or_default(),
        };
        let wanted = match config {
            Config::Named(name) => Some(name),
            Config::None => None,
            Config::AsItIs => self.node.config.as_deref(),
        };
        let joins = self.evidence.verified().is_none_or(|record| record.pool != desired.pool);
        let change = NodeChange {
            config: edit(self.node.config.as_deref(), wanted),
            purpose: match () {
                () if joins => Purpose::Guard,
                () if labels.edits.is_empty() && all.taints.is_none() => Purpose::Configure,
                () => Purpose::Repair,
            },
            taints: all,
            tolerated,
            record_without_taints: Some(untouched.record),
            labels: labels.edits,
            words: labels.words,
            writes: labels.writes,
        };
        plan.change = change.has_any().then(|| Arc::new(change));
        plan
    }

    /// Everything that is ours is removed, with label, configuration and record; if the taints are refused, nothing is.
    fn release(&self) -> NodePlan {
        let mut labels = Labels::default();
        // What others do about it does not hold the removal up; it is noted, so that it is not taken for a revert later.
        let noted = |write: FieldWrite, writes: &mut Vec<FieldWrite>| {
            writes.push(write);
            true
        };
        self.remove_labels(&mut labels, |key, writes| noted(label_write(key, ABSENT), writes));
        let mut taints = self.taints_as_they_are();
        self.remove_taints(&mut taints, |key, writes| noted(taint_write(key, ABSENT), writes));
        if self.node.labelled_pool().is_some() {
            labels.writes.push(label_write(label::POOL, ABSENT));
            labels.edits.insert(label::POOL.to_owned(), None);
            labels.words.push(format!("remove label {}", label::POOL));
        }
        let record = if self.node.owned.is_some() { Edit::Remove } else { Edit::Keep };
        let taints = TaintChange { record, ..self.change_of(taints) };
        let change = NodeChange {
            config: edit(self.node.config.as_deref(), None),
            taints,
            tolerated: None,
            record_without_taints: None,
            labels: labels.edits,
            words: labels.words,
            writes: labels.writes,
            purpose: Purpose::Release,
        };
        NodePlan { change: change.has_any().then(|| Arc::new(change)), ..NodePlan::default() }
    }

    fn desired_labels(&self, desired: &DesiredNode, plan: &mut NodePlan) -> Labels {
        let mut labels = Labels::default();
        // The pool's label is ours by its name; no record is kept of it.
        if self.node.labelled_pool() != Some(desired.pool)
            && self.may_write(&label_write(label::POOL, desired.pool), plan, &mut labels.writes)
        {
            labels.edits.insert(label::POOL.to_owned(), Some(desired.pool.to_owned()));
            labels.words.push(format!("label {}={}", label::POOL, desired.pool));
        }
        for (key, value) in desired.labels {
            self.desired_label(key, value, &mut labels, plan);
        }
        // Kubelets before 1.17 did not set it, and RuntimeClasses select by it.
        if let Ok(version) = self.node.os {
            self.desired_label(label::WINDOWS_BUILD, &version.build.to_string(), &mut labels, plan);
        }
        self.remove_labels(&mut labels, |key, writes| self.may_write(&label_write(key, ABSENT), plan, writes));
        labels
    }

    fn desired_label(&self, key: &str, value: &str, labels: &mut Labels, plan: &mut NodePlan) {
        let present = self.node.labels.get(key);
        let recorded = self.recorded().and_then(|record| record.labels.get(key)).map(|origin| self.carried(*origin));
        if present.map(String::as_str) == Some(value) {
            labels.record.insert(key.to_owned(), recorded.unwrap_or(Origin::Found));
            return;
        }
        let conflict = present.filter(|_| !self.applied.has_label(self.evidence, key));
        if let Some(present) = conflict {
            plan.label_conflicts.push(format!("{key}={present} instead of {key}={value}"));
        } else if self.may_write(&label_write(key, value), plan, &mut labels.writes) {
            labels.record.insert(key.to_owned(), Origin::Added);
            labels.edits.insert(key.to_owned(), Some(value.to_owned()));
            labels.words.push(format!("label {key}={value}"));
            return;
        }
        labels.record.extend(recorded.map(|origin| (key.to_owned(), origin)));
    }

    /// Removes the labels that are recorded and not desired. What is not proven ours stays, on record too.
    fn remove_labels(&self, labels: &mut Labels, mut may_write: impl FnMut(&str, &mut Vec<FieldWrite>) -> bool) {
        for (key, origin) in self.recorded().into_iter().flat_map(|record| &record.labels) {
            let gone = !self.node.labels.contains_key(key);
            if *origin == Origin::Found || gone || labels.record.contains_key(key) {
                continue;
            }
            if self.applied.has_label(self.evidence, key) && may_write(key, &mut labels.writes) {
                labels.edits.insert(key.clone(), None);
                labels.words.push(format!("remove label {key}"));
            } else {
                labels.record.insert(key.clone(), self.carried(*origin));
            }
        }
    }

    /// The taints as the pool asks for them, as far as `writable` says that they may be written now.
    fn desired_taints(
        &self,
        desired: &DesiredNode,
        writable: impl Fn(&TaintKey) -> bool,
        plan: &mut NodePlan,
    ) -> Taints {
        let mut taints = self.taints_as_they_are();
        for taint in desired.taints {
            let key = TaintKey::from(taint);
            let blocked = desired.blocked.contains(&key);
            self.desired_taint(taint, writable(&key), blocked, &mut taints, plan);
        }
        self.remove_taints(&mut taints, |key, writes| {
            writable(key) && self.may_write_taint(&taint_write(key, ABSENT), plan, writes)
        });
        taints
    }

    fn taints_as_they_are(&self) -> Taints {
        Taints { all: self.node.taints.clone(), record: BTreeMap::new(), words: Vec::new(), writes: Vec::new() }
    }

    fn desired_taint(&self, taint: &Taint, writable: bool, blocked: bool, taints: &mut Taints, plan: &mut NodePlan) {
        let key = TaintKey::from(taint);
        let position = taints.all.iter().position(|present| TaintKey::from(present) == key);
        let recorded = self.recorded().and_then(|record| record.taints.get(&key)).map(|origin| self.carried(*origin));
        let present = position.map(|position| taints.all[position].value.clone().unwrap_or_default());
        let evicts = taint.effect == TaintEffect::NoExecute && self.evicting.contains(&key);
        let write = taint_write(&key, &taint.value);
        match (position, present) {
            (_, Some(value)) if value == taint.value => {
                self.report_contest(&write, plan);
                // A kubelet that registered with our configuration brought the taint.
                let brought = self.evidence == Evidence::None && self.registered;
                let origin = recorded.unwrap_or(if brought { Origin::Added } else { Origin::Found });
                taints.record.insert(key, origin);
                return;
            }
            (Some(_), Some(value)) if !self.applied.has_taint(self.evidence, &key) => {
                let (present, wanted) = (in_words(&key, &value), in_words(&key, &taint.value));
                plan.taint_conflicts.push(format!("{present} instead of {wanted}"));
            }
            _ if evicts => plan.would_evict.push(key.clone()),
            // One that was on the node before is set again: whoever keeps a RuntimeClass from us must not open a node.
            (position, _) if blocked && (position.is_some() || recorded != Some(Origin::Added)) => {
                plan.untolerated.push(key.clone());
            }
            (Some(position), _) if writable && self.may_write_taint(&write, plan, &mut taints.writes) => {
                taints.all[position].value = some_text(&taint.value);
                return taints.added(key, &taint.value);
            }
            (None, _) if writable && self.may_write_taint(&write, plan, &mut taints.writes) => {
                let (name, effect) = (key.key.clone(), key.effect.clone());
                taints.all.push(NodeTaint { key: name, effect, value: some_text(&taint.value), time_added: None });
                return taints.added(key, &taint.value);
            }
            _ => {}
        }
        taints.record.extend(recorded.map(|origin| (key, origin)));
    }

    /// Removes the taints that are recorded and not desired. What is not proven ours stays, on record too.
    fn remove_taints(&self, taints: &mut Taints, mut may_write: impl FnMut(&TaintKey, &mut Vec<FieldWrite>) -> bool) {
        for (key, origin) in self.recorded().into_iter().flat_map(|record| &record.taints) {
            let position = taints.all.iter().position(|present| TaintKey::from(present) == *key);
            let Some(position) = position.filter(|_| *origin != Origin::Found) else { continue };
            if taints.record.contains_key(key) {
                continue;
            }
            if self.applied.has_taint(self.evidence, key) && may_write(key, &mut taints.writes) {
                taints.all.remove(position);
                taints.words.push(format!("remove taint {key}"));
            } else {
                taints.record.insert(key.clone(), self.carried(*origin));
            }
        }
    }

    fn change_of(&self, taints: Taints) -> TaintChange {
        let changed = taints.all != self.node.taints;
        let Taints { all, words, writes, .. } = taints;
        TaintChange { taints: changed.then_some(all), record: Edit::Keep, words, writes }
    }

    /// What becomes of the record. One that cannot be verified is left alone until something else has to be written: it
    /// may be valid again when its key is back.
    fn record(&self, record: Record, writes: bool) -> Edit<Record> {
        let keep = match self.evidence {
            Evidence::None => false,
            Evidence::Verified { record: present, current } => current && *present == record,
            Evidence::Unverified(_) => !writes,
        };
        if keep { Edit::Keep } else { Edit::Set(record) }
    }

    fn id(&self) -> ObjectId {
        ObjectId::Uid(self.node.uid.clone())
    }

    fn recorded(&self) -> Option<&Record> {
        self.evidence.record()
    }

    /// The origin of an entry in the next record.
    fn carried(&self, origin: Origin) -> Origin {
        match (origin, self.evidence) {
            (Origin::Added, Evidence::Unverified(_)) => Origin::Claimed,
            _ => origin,
        }
    }

    fn may_write_taint(&self, write: &FieldWrite, plan: &mut NodePlan, writes: &mut Vec<FieldWrite>) -> bool {
        if let Some(refusal) = self.snapshot.refusals.get(&self.node.name) {
            plan.refused = Some(refusal.clone());
            return false;
        }
        self.may_write(write, plan, writes)
    }

    /// Whether a field may be written now, or waits because another client keeps reverting it.
    fn may_write(&self, write: &FieldWrite, plan: &mut NodePlan, writes: &mut Vec<FieldWrite>) -> bool {
        self.report_contest(write, plan);
        let waits = self.snapshot.reverts.waits_until(&self.id(), write, self.snapshot.now);
        if waits.is_none() {
            writes.push(write.clone());
        }
        plan.retry_at = plan.retry_at.into_iter().chain(waits).min();
        waits.is_none()
    }

    fn report_contest(&self, write: &FieldWrite, plan: &mut NodePlan) {
        let (reverts, now) = (&self.snapshot.reverts, self.snapshot.now);
        if !reverts.is_contested(&self.id(), write, now) {
            return;
        }
        let field = &write.field;
        let text = match write.persistence {
            Persistence::Insist => {
                let writer = self.node.taints_writer.as_deref().unwrap_or("another client");
                format!("{field} is reverted by {writer}; it is set again each time, after at most 30 s")
            }
            Persistence::Yield => {
                let writer = self.node.labels_writer.as_deref().unwrap_or("another client");
                let until = reverts.waits_until(&self.id(), write, now).unwrap_or(now);
                format!("{field} is reverted by {writer}; not set again before {until:.0}")
            }
        };
        if !plan.contested.contains(&text) {
            plan.contested.push(text);
        }
        plan.retry_at = plan.retry_at.into_iter().chain(now.checked_add(WINDOW)).min();
    }
}

impl Taints {
    fn added(&mut self, key: TaintKey, value: &str) {
        self.words.push(format!("taint {}", in_words(&key, value)));
        self.record.insert(key, Origin::Added);
    }
}

/// The entries of a record that no valid record proves.
fn claims(record: &Record) -> usize {
    let origins = record.taints.values().chain(record.labels.values());
    origins.filter(|origin| **origin == Origin::Claimed).count()
}

fn edit(present: Option<&str>, wanted: Option<&str>) -> Edit<String> {
    match wanted {
        _ if present == wanted => Edit::Keep,
        Some(name) => Edit::Set(name.to_owned()),
        None => Edit::Remove,
    }
}

/// The value of a field that is removed.
const ABSENT: &str = "absent";

fn label_write(key: &str, value: &str) -> FieldWrite {
    FieldWrite { field: format!("label {key}"), value: value.to_owned(), persistence: Persistence::Yield }
}

fn taint_write(key: &TaintKey, value: &str) -> FieldWrite {
    FieldWrite { field: format!("taint {key}"), value: value.to_owned(), persistence: Persistence::Insist }
}

fn in_words(key: &TaintKey, value: &str) -> String {
    if value.is_empty() { key.to_string() } else { format!("{}={value}:{}", key.key, key.effect) }
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
