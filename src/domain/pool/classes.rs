//! The RuntimeClasses of a pool: what they should be, and what may be done about it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::{Value, json};

use super::{Pool, RuntimeClass, RuntimeClassView, Snapshot, Spec};
use crate::{
    api::{
        Mode, RuntimeClassScope, RuntimeClassState, Taint, TolerationOperator,
        names::{annotation, label},
    },
    domain::{
        node::WindowsNode,
        operation::{Operation, existence},
        ownership::TaintKey,
        quantity::Quantity,
        revert::{FieldWrite, Persistence},
        workload::Scheduling,
    },
    facts::Build,
};

/// What is to be done about one RuntimeClass of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassPlan {
    /// Its name.
    pub name: String,
    /// What status says of it when the operations are done.
    pub state: RuntimeClassState,
    /// Why it is not as specified, with the remedy; empty when it is.
    pub message: String,
    /// Before the nodes are written: tolerations are widened, the selector is left as it was.
    pub widen: Option<Operation>,
    /// After the nodes are written: the class as it should be.
    pub settle: Option<Operation>,
    /// After that: what others put into the class is taken off.
    pub strip: Option<Operation>,
    /// The taints of the pool that the class, as it is now, does not tolerate: they wait until it is widened, and without
    /// [`Self::widen`] until somebody lets it be.
    pub untolerated: Vec<TaintKey>,
}

impl ClassPlan {
    fn left_alone(name: &str, state: RuntimeClassState, message: impl Into<String>) -> Self {
        let (name, message) = (name.to_owned(), message.into());
        Self { name, state, message, widen: None, settle: None, strip: None, untolerated: Vec::new() }
    }
}

/// The plans for every RuntimeClass that the pool names, and for those that it does not name any more.
pub fn plan(snapshot: &Snapshot, pool: &Pool, spec: &Spec, members: &[&WindowsNode]) -> Vec<ClassPlan> {
    let stranding = strands(snapshot, pool, spec, members);
    let named = spec.runtime_classes.iter().map(|class| {
        let plan = plan_one(snapshot, pool, spec, class, stranding);
        // Nobody can use a class that does not exist, and one of somebody else is not ours to widen: they hold no taint up.
        let existing = snapshot.runtime_classes.get(&class.name).filter(|existing| existing.ours());
        let existing = existing.filter(|_| plan.state != RuntimeClassState::NameTaken);
        let untolerated = existing.map(|existing| existing.does_not_tolerate(&spec.taints)).unwrap_or_default();
        ClassPlan { untolerated, ..plan }
    });
    let unused = unused(snapshot, pool).map(|class| {
        let message = format!("no pool names RuntimeClass {} any more; delete it when no pod does", class.name());
        ClassPlan::left_alone(class.name(), RuntimeClassState::Unused, message)
    });
    named.chain(unused).collect()
}

/// Our classes that were made for this pool and that no pool names.
pub fn unused<'a>(snapshot: &'a Snapshot, pool: &'a Pool) -> impl Iterator<Item = &'a RuntimeClassView> {
    let ours =
        snapshot.runtime_classes.values().filter(|class| class.ours() && class.label(label::POOL) == Some(&pool.name));
    ours.map(AsRef::as_ref).filter(|class| claimants(snapshot, class.name()).is_empty())
}

/// The pools that name a class, in order of precedence. A pool that is being cleaned up has given its classes up.
pub fn claimants<'a>(snapshot: &'a Snapshot, name: &str) -> Vec<Claimant<'a>> {
    let mut found: Vec<_> = snapshot
        .pools
        .values()
        .filter(|pool| !pool.deleting)
        .filter_map(|pool| {
            let spec = pool.spec.as_ref().ok()?;
            let class = spec.runtime_classes.iter().find(|class| class.name == name)?;
            Some((pool.as_ref(), spec, class))
        })
        .collect();
    found.sort_by(|a, b| a.0.precedence().cmp(&b.0.precedence()));
    found
}

/// A pool that names a class.
type Claimant<'a> = (&'a Pool, &'a Spec, &'a RuntimeClass);

/// The pools that have a say in a class: one that only observes takes no name from the others, and sees what it would get.
fn contenders<'a>(snapshot: &'a Snapshot, pool: &Pool, name: &str) -> Vec<Claimant<'a>> {
    let mut found = claimants(snapshot, name);
    found.retain(|(other, spec, _)| spec.mode == Mode::Enforce || other.name == pool.name);
    found.sort_by_key(|(_, spec, _)| spec.mode == Mode::Observe);
    found
}

/// Whether two pools can share a class of one name.
fn can_share(one: (&Spec, &RuntimeClass), other: (&Spec, &RuntimeClass)) -> bool {
    let scoped_to_build = [one.1.scope, other.1.scope] == [RuntimeClassScope::Build; 2];
    scoped_to_build && one.0.build == other.0.build && one.1.handler == other.1.handler
}

/// Whether giving the pool's classes its new build would leave the pods of the old one without a node: the pool has
/// nodes of a build that its classes lead to now, and none that is ready of the new.
fn strands(snapshot: &Snapshot, pool: &Pool, spec: &Spec, members: &[&WindowsNode]) -> bool {
    let build = spec.build.to_string();
    let ours = || {
        let classes = snapshot.runtime_classes.values().filter(|class| class.ours());
        classes.filter(|class| class.label(label::POOL) == Some(&pool.name)).filter_map(|class| class.build())
    };
    let has_old = |old: &str| members.iter().any(|node| node.build().is_some_and(|build| build.to_string() == old));
    let ready_for_new = members.iter().any(|node| node.ready && node.build() == Some(spec.build));
    // One of a former name may have it, and leads no pod of the pool's classes of today anywhere.
    let named = spec.runtime_classes.iter().filter_map(|class| snapshot.runtime_classes.get(&class.name));
    let done = named.into_iter().any(|class| class.ours() && class.build() == Some(&build));
    !done
        && !ready_for_new
        && ours().any(|old| old != build && has_old(old))
        && !pool.allows(pool.allow_strand.as_ref())
}

fn plan_one(snapshot: &Snapshot, pool: &Pool, spec: &Spec, class: &RuntimeClass, stranding: bool) -> ClassPlan {
    let claimants = contenders(snapshot, pool, &class.name);
    let Some(first) = claimants.first() else {
        return ClassPlan::left_alone(&class.name, RuntimeClassState::Unused, "");
    };
    if first.0.name != pool.name && !can_share((first.1, first.2), (spec, class)) {
        let message = format!(
            "RuntimeClass {} is pool {}'s, and pools share a class only with scope Build, the same build and the same \
             handler: give it another name in spec.runtimeClasses",
            class.name, first.0.name
        );
        return ClassPlan::left_alone(&class.name, RuntimeClassState::NameTaken, message);
    }
    let sharers: Vec<_> = claimants
        .iter()
        .filter(|other| other.0.name == first.0.name || can_share((first.1, first.2), (other.1, other.2)))
        .collect();
    let existing = snapshot.runtime_classes.get(&class.name).map(AsRef::as_ref);
    let retained = existing.and_then(|existing| retained_by(snapshot, existing));
    let mut wanted = Wanted {
        name: &class.name,
        pool: retained.unwrap_or(&first.0.name),
        handler: &first.2.handler,
        overhead: Cow::Borrowed(&first.2.overhead),
        selector: selector(first.1.build, (first.2.scope == RuntimeClassScope::Pool).then_some(&first.0.name)),
        tolerations: tolerations(sharers.iter().map(|(_, spec, class)| (*spec, *class))),
        adopted: None,
    };
    if let Some((existing, former)) = existing.zip(retained) {
        if sharers.iter().any(|sharer| sharer.2.adopt) {
            wanted.pool = &first.0.name;
        } else if existing.selector() != wanted.selector || existing.object.handler != *wanted.handler {
            return left_by(former, existing, &wanted);
        } else {
            wanted.keep_as_it_is(existing);
        }
    }
    if let Some(existing) = existing {
        wanted.keep_tolerated(existing, snapshot);
    }
    if stranding {
        return hold(pool, class, existing, wanted, spec.build);
    }
    match existing {
        None => create(snapshot, &wanted),
        Some(existing) if existing.object.handler != *wanted.handler => handler_differs(existing, &wanted),
        Some(existing) if !existing.ours() && !sharers.iter().any(|sharer| sharer.2.adopt) => {
            not_ours(existing, &wanted)
        }
        Some(existing) => {
            wanted.keep_adopted(existing);
            change(snapshot, existing, wanted)
        }
    }
}

/// The pool that a class of ours was made for, if that pool is gone and left the class behind.
fn retained_by<'a>(snapshot: &Snapshot, class: &'a RuntimeClassView) -> Option<&'a str> {
    let former = class.label(label::POOL).filter(|_| class.ours())?;
    (!snapshot.pools.contains_key(former)).then_some(former)
}

fn left_by(former: &str, existing: &RuntimeClassView, wanted: &Wanted) -> ClassPlan {
    let message = format!(
        "RuntimeClass {} was left by pool {former}, which was deleted with Retain, and it differs: {}. Set adopt: true on it in \
         spec.runtimeClasses to take it over, or give the pool's class another name",
        wanted.name,
        wanted.differences(existing).join(", ")
    );
    ClassPlan::left_alone(wanted.name, RuntimeClassState::NameTaken, message)
}

/// A class that others delete again and again is created with a delay.
fn create(snapshot: &Snapshot, wanted: &Wanted) -> ClassPlan {
    let operation = wanted.operation(None, "create");
    let identity = operation.identity();
    if let Some(until) = snapshot.reverts.waits_until(&identity, &existence(), snapshot.now) {
        let message =
            format!("another client keeps deleting RuntimeClass {}; not created before {until:.0}", wanted.name);
        return ClassPlan::left_alone(wanted.name, RuntimeClassState::Contested, message);
    }
    ClassPlan { widen: Some(operation), ..ClassPlan::left_alone(wanted.name, RuntimeClassState::Applied, "") }
}

fn handler_differs(existing: &RuntimeClassView, wanted: &Wanted) -> ClassPlan {
    let message = format!(
        "RuntimeClass {} has handler {}, {} is asked for, and Kubernetes lets nobody change a handler: give the class \
         another name in spec.runtimeClasses, or delete it so that it is made anew",
        wanted.name, existing.object.handler, wanted.handler
    );
    ClassPlan::left_alone(wanted.name, RuntimeClassState::HandlerDiffers, message)
}

fn not_ours(existing: &RuntimeClassView, wanted: &Wanted) -> ClassPlan {
    let differences = wanted.differences(existing);
    if differences.is_empty() {
        return ClassPlan::left_alone(wanted.name, RuntimeClassState::Found, "");
    }
    let message = format!(
        "somebody else made RuntimeClass {}, and it differs: {}; set adopt: true on it in spec.runtimeClasses to take it \
         over, or give the pool's class another name",
        wanted.name,
        differences.join(", ")
    );
    ClassPlan::left_alone(wanted.name, RuntimeClassState::NotOurs, message)
}

/// Leaves the class on the build that it leads to, and still widens its tolerations, so that a taint changed in the same
/// edit keeps nobody off.
fn hold(
    pool: &Pool,
    class: &RuntimeClass,
    existing: Option<&RuntimeClassView>,
    mut wanted: Wanted,
    build: Build,
) -> ClassPlan {
    let message = format!(
        "RuntimeClass {} is not moved to {build}: the pool has nodes of the old build and none ready of the new, so its \
         pods would have nowhere to run. Add nodes of {build}, or move it all the same with: {}",
        class.name,
        pool.allow_command(annotation::ALLOW_STRAND)
    );
    let mut plan = ClassPlan::left_alone(&class.name, RuntimeClassState::WouldStrand, message);
    if let Some(existing) = existing.filter(|existing| existing.ours() && existing.object.handler == *wanted.handler) {
        wanted.keep_adopted(existing);
        wanted.selector = existing.selector();
        wanted.widen(existing);
        if !wanted.differences(existing).is_empty() {
            plan.widen = Some(wanted.interim(existing));
        }
    }
    plan
}

/// First wider, then as it should be: tolerations come before the taints they are for, and a selector is narrowed when
/// the nodes carry its labels.
fn change(snapshot: &Snapshot, existing: &RuntimeClassView, settled: Wanted) -> ClassPlan {
    let differences = settled.differences(existing);
    if differences.is_empty() && existing.ours() {
        return ClassPlan::left_alone(settled.name, RuntimeClassState::Applied, "");
    }
    let words = if existing.ours() { differences.join(", ") } else { format!("adopt: {}", differences.join(", ")) };
    let settle = settled.operation(Some(existing), &words);
    let waits_until = snapshot.reverts.waits_until(&settle.identity(), &settled.write(), snapshot.now);
    if let Some(until) = waits_until {
        let rival = existing.other_writer.as_deref().unwrap_or("another writer");
        let message = format!(
            "RuntimeClass {}: {rival} keeps undoing what this pool asks ({words}); left alone until {until:.0}: make one of the two stop",
            settled.name
        );
        return ClassPlan::left_alone(settled.name, RuntimeClassState::Contested, message);
    }
    let mut wider = settled.clone();
    wider.widen(existing);
    wider.selector = existing.selector();
    let tolerated = existing.tolerations();
    let more = wider.tolerations.iter().any(|toleration| !tolerated.contains(toleration));
    // The rest follows when the wider class is seen: each write is bound to the version that it was planned from.
    let left_alone = |state| ClassPlan::left_alone(settled.name, state, "");
    let strip = settled.strip(existing);
    match more {
        true if wider.body() == settled.body() => {
            ClassPlan { widen: Some(settle), strip, ..left_alone(RuntimeClassState::Applied) }
        }
        true => {
            let widen = Some(wider.interim(existing));
            ClassPlan { widen, ..left_alone(RuntimeClassState::Pending) }
        }
        false => ClassPlan { settle: Some(settle), strip, ..left_alone(RuntimeClassState::Applied) },
    }
}

/// A RuntimeClass as it should be.
#[derive(Clone)]
struct Wanted<'a> {
    name: &'a str,
    /// The pool that the class is for: the first of those that share it.
    pool: &'a str,
    handler: &'a str,
    overhead: Cow<'a, BTreeMap<String, Quantity>>,
    selector: BTreeMap<String, String>,
    tolerations: Vec<Value>,
    /// What the class was before it was taken over, if it was.
    adopted: Option<String>,
}

/// The labels of the nodes that a class leads to.
fn selector(build: Build, pool: Option<&String>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (label::OS.to_owned(), "windows".to_owned()),
        (label::ARCH.to_owned(), "amd64".to_owned()),
        (label::WINDOWS_BUILD.to_owned(), build.to_string()),
    ]);
    labels.extend(pool.map(|pool| (label::POOL.to_owned(), pool.clone())));
    labels
}

/// The tolerations for the taints of all pools that share a class, and those that they add.
fn tolerations<'a>(sharers: impl Iterator<Item = (&'a Spec, &'a RuntimeClass)>) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let mut tolerated: BTreeSet<&Taint> = BTreeSet::new();
    let mut add = |toleration: Value| {
        if !all.contains(&toleration) {
            all.push(toleration);
        }
    };
    for (spec, class) in sharers {
        // Pools that share a class mostly have the same taints.
        spec.taints.iter().filter(|taint| tolerated.insert(*taint)).for_each(|taint| {
            add(tolerates(&taint.key, &taint.value, taint.effect.as_str()));
        });
        class.tolerations.iter().for_each(|toleration| add(written(toleration)));
    }
    all
}

/// The toleration for exactly this taint.
fn tolerates(key: &str, value: &str, effect: &str) -> Value {
    let mut toleration = json!({"effect": effect, "key": key, "operator": "Equal"});
    if !value.is_empty() {
        toleration["value"] = json!(value);
    }
    toleration
}

fn written(toleration: &crate::api::Toleration) -> Value {
    let operator = match toleration.operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
    };
    let mut value = json!({"operator": operator});
    if let Some(effect) = toleration.effect {
        value["effect"] = json!(effect.as_str());
    }
    for (field, text) in [("key", &toleration.key), ("value", &toleration.value)] {
        if !text.is_empty() {
            value[field] = json!(text);
        }
    }
    value
}

impl Wanted<'_> {
    /// Keeps the tolerations that a class had when it was taken over, and remembers what it was.
    fn keep_adopted(&mut self, existing: &RuntimeClassView) {
        self.adopted = match existing.adopted() {
            Some(before) => Some(before.to_owned()),
            None if existing.ours() => None,
            None => Some(
                json!({"overhead": existing.object.overhead, "scheduling": existing.object.scheduling}).to_string(),
            ),
        };
        let before = self.adopted.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let tolerations = before.as_ref().and_then(|before| before["scheduling"]["tolerations"].as_array());
        self.add_tolerations(tolerations.into_iter().flatten());
    }

    /// Adds every toleration that the class has now.
    fn widen(&mut self, existing: &RuntimeClassView) {
        self.add_tolerations(&existing.tolerations());
    }

    /// Keeps the overhead of the class, every toleration that it has, and their order.
    fn keep_as_it_is(&mut self, existing: &RuntimeClassView) {
        self.overhead = Cow::Owned(existing.overhead());
        let missing = std::mem::replace(&mut self.tolerations, existing.tolerations());
        self.add_tolerations(&missing);
    }

    /// Keeps the tolerations that the class has for taints of nodes that it selects: their pods would not come back.
    fn keep_tolerated(&mut self, existing: &RuntimeClassView, snapshot: &Snapshot) {
        let present = existing.tolerations();
        let extra: Vec<_> = present.into_iter().filter(|toleration| !self.tolerations.contains(toleration)).collect();
        if extra.is_empty() {
            return;
        }
        let selectors = [existing.selector(), self.selector.clone()];
        let selected = |node: &&WindowsNode| {
            selectors.iter().any(|selector| selector.iter().all(|(key, value)| node.labels.get(key) == Some(value)))
        };
        let nodes = snapshot.nodes.values().map(AsRef::as_ref).filter(selected);
        let taints = nodes.flat_map(|node| &node.taints);
        // A toleration of many taints is nobody's repair.
        let needed: Vec<Value> = taints
            .map(|taint| tolerates(&taint.key, taint.value.as_deref().unwrap_or_default(), &taint.effect))
            .collect();
        self.add_tolerations(extra.iter().filter(|toleration| needed.contains(toleration)));
    }

    fn add_tolerations<'v>(&mut self, more: impl IntoIterator<Item = &'v Value>) {
        for toleration in more {
            if !self.tolerations.contains(toleration) {
                self.tolerations.push(toleration.clone());
            }
        }
    }

    /// How the class differs from this, in words.
    fn differences(&self, existing: &RuntimeClassView) -> Vec<String> {
        let mut words = Vec::new();
        let selector = existing.selector();
        if selector != self.selector {
            words.push(format!(
                "nodeSelector {} instead of {}",
                labels_in_words(&selector),
                labels_in_words(&self.selector)
            ));
        }
        let tolerations = existing.tolerations();
        let missing = self.tolerations.iter().filter(|toleration| !tolerations.contains(toleration));
        words.extend(missing.map(|toleration| format!("no toleration for {}", toleration_in_words(toleration))));
        if existing.ours() {
            let extra = tolerations.iter().filter(|toleration| !self.tolerations.contains(toleration));
            words.extend(
                extra.map(|toleration| format!("a toleration for {} too many", toleration_in_words(toleration))),
            );
            let labelled = existing.label(label::POOL) == Some(self.pool);
            words.extend((!labelled).then(|| format!("label {} is not {}", label::POOL, self.pool)));
            if words.is_empty() && tolerations != self.tolerations {
                words.push("tolerations in another order".to_owned());
            }
        }
        if existing.overhead() != *self.overhead {
            words.push("another overhead".to_owned());
        }
        words
    }

    fn body(&self) -> Value {
        let mut scheduling = json!({"nodeSelector": self.selector});
        if !self.tolerations.is_empty() {
            scheduling["tolerations"] = json!(self.tolerations);
        }
        let mut body = json!({
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {
                "name": self.name,
                "labels": {label::MANAGED_BY: label::MANAGED_BY_VALUE, label::POOL: self.pool},
            },
            "handler": self.handler,
            "scheduling": scheduling,
        });
        if let Some(before) = &self.adopted {
            body["metadata"]["annotations"] = json!({annotation::ADOPTED: before});
        }
        if !self.overhead.is_empty() {
            let amounts: BTreeMap<_, _> =
                self.overhead.iter().map(|(name, amount)| (name, amount.to_string())).collect();
            body["overhead"] = json!({"podFixed": amounts});
        }
        body
    }

    /// Takes off what others put into the maps of the class.
    fn strip(&self, existing: &RuntimeClassView) -> Option<Operation> {
        let keeps = |map: &str, key: &String| match map {
            SELECTOR => self.selector.contains_key(key),
            _ => self.overhead.contains_key(key),
        };
        strip(existing, keeps)
    }

    /// What an apply sets, for the detection of reverts.
    fn write(&self) -> FieldWrite {
        let value = self.body()["scheduling"].to_string();
        FieldWrite { field: "scheduling".to_owned(), value, persistence: Persistence::Yield }
    }

    /// Adds tolerations for now: only the class as it should be counts for the detection of reverts.
    fn interim(&self, existing: &RuntimeClassView) -> Operation {
        self.apply(Some(existing), "add tolerations", Vec::new())
    }

    /// The class as it should be.
    fn operation(&self, existing: Option<&RuntimeClassView>, words: &str) -> Operation {
        let write = if existing.is_some() { self.write() } else { existence() };
        self.apply(existing, words, vec![write])
    }

    /// Applies the class: over the one that was seen, and no other version of it, or as a new one.
    fn apply(&self, existing: Option<&RuntimeClassView>, words: &str, writes: Vec<FieldWrite>) -> Operation {
        let mut body = self.body();
        if let Some(existing) = existing {
            body["metadata"]["resourceVersion"] = json!(existing.object.metadata.resource_version);
        }
        Operation::ApplyRuntimeClass {
            name: self.name.to_owned(),
            body,
            force: existing.is_some(),
            words: words.to_owned(),
            uid: existing.and_then(|existing| existing.object.metadata.uid.clone()),
            writes,
        }
    }
}

const SELECTOR: &str = "/scheduling/nodeSelector";
const OVERHEAD: &str = "/overhead/podFixed";

/// Takes keys off the maps of a class: an apply leaves those of other managers in the overhead, and in API servers of
/// 1.20 in the nodeSelector too.
fn strip(existing: &RuntimeClassView, keeps: impl Fn(&str, &String) -> bool) -> Option<Operation> {
    let (selector, overhead) = (existing.selector(), existing.overhead());
    let labels = nulls(selector.keys().filter(|key| !keeps(SELECTOR, key)));
    let amounts = nulls(overhead.keys().filter(|key| !keeps(OVERHEAD, key)));
    let mut body = json!({"metadata": {"uid": existing.object.metadata.uid}});
    if labels.is_empty() && amounts.is_empty() {
        return None;
    }
    if !labels.is_empty() {
        body["scheduling"] = json!({"nodeSelector": labels});
    }
    if !amounts.is_empty() {
        body["overhead"] = json!({"podFixed": amounts});
    }
    Some(Operation::StripRuntimeClass { name: existing.name().to_owned(), body })
}

/// The class as it was before it was taken over, when its pool is cleaned up: first what we put into its maps comes off,
/// then the rest is applied.
pub fn restored(class: &RuntimeClassView) -> Option<(Option<Operation>, Operation)> {
    let before: Value = serde_json::from_str(class.adopted()?).ok()?;
    let kept = |map: &str, key: &String| before.pointer(map).is_some_and(|map| map.get(key).is_some());
    let strip = strip(class, kept);
    let mut body = json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": class.name()},
        "handler": class.object.handler,
    });
    for field in ["overhead", "scheduling"] {
        if !before[field].is_null() {
            body[field] = before[field].clone();
        }
    }
    let words = "give back as it was before it was adopted".to_owned();
    let (name, uid) = (class.name().to_owned(), class.object.metadata.uid.clone());
    Some((strip, Operation::ApplyRuntimeClass { name, body, force: true, words, uid, writes: Vec::new() }))
}

impl RuntimeClassView {
    fn selector(&self) -> BTreeMap<String, String> {
        self.object.scheduling.as_ref().and_then(|scheduling| scheduling.node_selector.clone()).unwrap_or_default()
    }

    fn tolerations(&self) -> Vec<Value> {
        let tolerations = self.object.scheduling.as_ref().and_then(|scheduling| scheduling.tolerations.as_ref());
        tolerations.into_iter().flatten().filter_map(|toleration| serde_json::to_value(toleration).ok()).collect()
    }

    /// Which of these taints the class does not tolerate.
    fn does_not_tolerate(&self, taints: &[Taint]) -> Vec<TaintKey> {
        let scheduling = Scheduling::of_class(&self.object);
        let tolerated = |taint: &&Taint| scheduling.tolerates(&taint.key, &taint.value, taint.effect.as_str());
        taints.iter().filter(|taint| !tolerated(taint)).map(TaintKey::from).collect()
    }

    fn overhead(&self) -> BTreeMap<String, Quantity> {
        let amounts = self.object.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.as_ref());
        let parsed = |(name, amount): (&String, &k8s_openapi::apimachinery::pkg::api::resource::Quantity)| {
            Some((name.clone(), amount.0.parse().ok()?))
        };
        amounts.into_iter().flatten().filter_map(parsed).collect()
    }
}

/// A part of a merge patch that takes these keys off.
fn nulls<'k>(keys: impl Iterator<Item = &'k String>) -> serde_json::Map<String, Value> {
    keys.map(|key| (key.clone(), Value::Null)).collect()
}

fn labels_in_words(labels: &BTreeMap<String, String>) -> String {
    let words: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if words.is_empty() { "(none)".to_owned() } else { words.join(",") }
}

fn toleration_in_words(toleration: &Value) -> String {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    match (text("value"), text("effect")) {
        ("", effect) => format!("{}:{effect}", text("key")),
        (value, effect) => format!("{}={value}:{effect}", text("key")),
    }
}
