//! The plans for the RuntimeClasses of a pool.

mod desired;
mod diff;
mod other_systems;

use std::{collections::BTreeSet, sync::Arc};

use self::desired::{ClassUser, DesiredClass, object, tolerated};

pub use self::diff::restored;
use self::other_systems::{OtherSystem, other_system};
use winpool_api::{Mode, RuntimeClassScope, RuntimeClassState, TaintKey, names::label};
use winpool_facts::Build;

use super::{Consent, Pool, RuntimeClass, RuntimeClassView, Snapshot, Spec, cluster_api};
use crate::{
    operation::{Action, Write},
    revert::FieldWrite,
};
use winpool_core::{Explanation, Named, kind::Kind, node::WindowsNode, release_labels, text::some_of};
use winpool_workload::Pod;

/// The remedy for an existing class that winpool did not create.
const ADOPT: &str = "Set adopt: true for it in spec.runtimeClasses, or use another name";

/// The plan for one RuntimeClass of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassPlan {
    pub name: String,
    /// The state after the operations.
    pub state: RuntimeClassState,
    /// Why the class is not as specified; `None` if it is.
    pub explanation: Option<Explanation>,
    /// Creates the class or adds tolerations, before nodes are written. The current selector is kept.
    pub extend: Option<Write>,
    /// Applies the desired class after nodes are written, or deletes a class that is not needed in this cluster.
    pub apply: Option<Write>,
    /// Removes keys that other clients added to the maps of the class, after `apply`.
    pub strip: Option<Write>,
    /// The taints of the pool that the current class does not tolerate. They are held until `extend` succeeded.
    pub untolerated: Vec<TaintKey>,
}

impl ClassPlan {
    /// Whether the plan changes the class to tolerate the taints of its pools.
    pub fn adds_tolerations(&self) -> bool {
        self.state != RuntimeClassState::Unused && (self.extend.is_some() || self.apply.is_some())
    }

    fn unchanged(name: &str, state: RuntimeClassState) -> Self {
        let (name, untolerated) = (name.to_owned(), Vec::new());
        Self { name, state, explanation: None, extend: None, apply: None, strip: None, untolerated }
    }

    fn held(name: &str, state: RuntimeClassState, problem: String, remedy: impl Into<String>) -> Self {
        let explanation = Some(Explanation { problem, remedy: remedy.into() });
        Self { explanation, ..Self::unchanged(name, state) }
    }
}

/// Plans the RuntimeClasses that the pool names, and those that were created for it and that no pool names any longer.
pub fn plan(snapshot: &Snapshot, pool: &Pool, spec: &Spec, members: &[&WindowsNode]) -> Vec<ClassPlan> {
    if snapshot.refused.contains(&Kind::RUNTIME_CLASS) {
        return Vec::new();
    }
    let would_strand = would_strand(snapshot, pool, spec, members);
    let elsewhere = members.is_empty() && cluster_api::are_elsewhere(snapshot, spec);
    let needed = |class: &&RuntimeClass| !elsewhere || is_used_here(snapshot, pool, &class.name);
    let superfluous = spec.runtime_classes.iter().filter(|class| !needed(class));
    let superfluous = superfluous.filter_map(|class| snapshot.runtime_classes.get(&class.name)).map(|class| {
        ClassPlan { apply: Some(delete(class)), ..ClassPlan::unchanged(class.name(), RuntimeClassState::Unused) }
    });
    let named = spec.runtime_classes.iter().filter(needed).map(|class| {
        let plan = plan_one(snapshot, ClassUser { pool, spec, class }, members, would_strand);
        // Taints do not wait for a class that does not exist or is not managed.
        let existing = snapshot.runtime_classes.get(&class.name).filter(|existing| existing.is_managed());
        let existing = existing.filter(|_| plan.state != RuntimeClassState::NameTaken);
        let untolerated = existing.map(|existing| existing.untolerated(&spec.taints)).unwrap_or_default();
        ClassPlan { untolerated, ..plan }
    });
    let unused = unused(snapshot, pool).map(|class| match given_back(snapshot, class) {
        Some((strip, apply)) => ClassPlan {
            extend: strip,
            apply: Some(apply),
            ..ClassPlan::unchanged(class.name(), RuntimeClassState::Unused)
        },
        None => {
            let problem = format!("RuntimeClass {} is no longer named by any pool", class.name());
            ClassPlan::held(class.name(), RuntimeClassState::Unused, problem, "Delete it when no pod uses it")
        }
    });
    named.chain(superfluous).chain(unused).collect()
}

/// Whether a class is needed in this cluster although the machines of the pool are in another one: others name it, pods may
/// use it, or the pool did not create it.
fn is_used_here(snapshot: &Snapshot, pool: &Pool, name: &str) -> bool {
    let uses = |pod: &Pod| !pod.finished && pod.template.runtime_class.as_deref() == Some(name);
    let is_of_pool = |class: &Arc<RuntimeClassView>| {
        class.is_managed() && class.adopted().is_none() && class.label(label::POOL) == Some(&pool.name)
    };
    users(snapshot, name).iter().any(|user| user.pool.name != pool.name)
        || snapshot.runtime_classes.get(name).is_some_and(|class| {
            !is_of_pool(class) || snapshot.pods.as_ref().is_none_or(|pods| pods.values().any(|pod| uses(pod)))
        })
}

/// Why a cleanup leaves a managed class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left<'a> {
    /// These pools name it and are not cleaned up.
    NamedBy(Vec<&'a str>),
    /// It was created for this pool, which is not cleaned up, or not completely.
    Of(&'a str),
    /// It does not name its pool.
    OfNoPool,
}

/// The classes that winpool created or adopted.
fn managed(snapshot: &Snapshot) -> impl Iterator<Item = &RuntimeClassView> {
    snapshot.runtime_classes.values().map(AsRef::as_ref).filter(|class| class.is_managed())
}

/// The managed classes that these writes neither delete nor restore, each with the reason.
pub fn left<'a>(snapshot: &'a Snapshot, cleaned: &BTreeSet<String>, writes: &[&Write]) -> Vec<(&'a str, Left<'a>)> {
    let is_written = |class: &RuntimeClassView| {
        writes.iter().any(|write| write.object.kind == Kind::RUNTIME_CLASS && write.object.name == class.name())
    };
    let reason = |class: &'a RuntimeClassView| {
        let users = users(snapshot, class.name()).into_iter().map(|user| user.pool.name.as_str());
        let users: Vec<&str> = users.filter(|name| !cleaned.contains(*name)).collect();
        match class.label(label::POOL) {
            _ if !users.is_empty() => Left::NamedBy(users),
            Some(pool) => Left::Of(pool),
            None => Left::OfNoPool,
        }
    };
    managed(snapshot).filter(|class| !is_written(class)).map(|class| (class.name(), reason(class))).collect()
}

/// The managed classes that were created for this pool and that no pool names.
pub fn unused<'a>(snapshot: &'a Snapshot, pool: &'a Pool) -> impl Iterator<Item = &'a RuntimeClassView> {
    let of_pool = managed(snapshot).filter(|class| class.label(label::POOL) == Some(&pool.name));
    of_pool.filter(|class| users(snapshot, class.name()).is_empty())
}

/// Restores the state of an adopted class that no pool names any longer. Its tolerations for taints that nodes still have are kept: with
/// Retain nodes keep their taints.
pub fn given_back(snapshot: &Snapshot, class: &RuntimeClassView) -> Option<(Option<Write>, Write)> {
    restored(class, tolerated(class, class.former_selector()?, snapshot))
}

pub fn delete(class: &RuntimeClassView) -> Write {
    let fields = vec![FieldWrite::existence(false)];
    Write { fields, ..Write::delete(Action::DeleteRuntimeClass, object(class.name(), Some(class))) }
}

/// The pools that name a class and are not being deleted, by precedence.
fn users<'a>(snapshot: &'a Snapshot, name: &str) -> Vec<ClassUser<'a>> {
    let pools = snapshot.pools.values().filter(|pool| !pool.deleting);
    let mut users: Vec<_> = pools
        .filter_map(|pool| {
            let spec = pool.spec.as_ref().ok()?;
            let class = spec.runtime_classes.iter().find(|class| class.name == name)?;
            Some(ClassUser { pool, spec, class })
        })
        .collect();
    users.sort_by(|a, b| a.pool.precedence().cmp(&b.pool.precedence()));
    users
}

/// The pools that determine a class for this pool: those in mode Enforce, and last this pool in mode Observe.
fn users_seen_by<'a>(snapshot: &'a Snapshot, pool: &Pool, name: &str) -> Vec<ClassUser<'a>> {
    let mut users = users(snapshot, name);
    users.retain(|user| user.spec.mode == Mode::Enforce || user.pool.name == pool.name);
    users.sort_by_key(|user| user.spec.mode == Mode::Observe);
    users
}

/// Whether a class of the pool selects a node, after the node has its labels.
fn selects(spec: &Spec, node: &WindowsNode) -> bool {
    let compatible = spec.runtime_classes.iter().any(|class| class.scope == RuntimeClassScope::Compatible);
    let label = || release_labels::key_of(spec.build);
    node.build() == Some(spec.build) || (compatible && node.release_labels().contains(&label()))
}

/// Whether the pool has nodes, its classes select none of them, and this is not allowed. A node of unknown build may be
/// selected.
pub fn select_no_member<'n>(
    pool: &Pool,
    spec: &Spec,
    mut members: impl Iterator<Item = &'n WindowsNode> + Clone,
) -> bool {
    members.clone().next().is_some()
        && members.all(|node| node.build().is_some() && !selects(spec, node))
        && !pool.consents.allow(Consent::Strand(&spec.windows_version))
}

/// Whether a change of the classes to the new build would leave pods without a node: the pool has nodes of the build that its
/// classes select, or those of deleted pools if it has none, and no ready node of the new build.
fn would_strand(snapshot: &Snapshot, pool: &Pool, spec: &Spec, members: &[&WindowsNode]) -> bool {
    let own = || managed(snapshot).filter(|class| class.label(label::POOL) == Some(&pool.name));
    let has_own = own().next().is_some();
    let retained = managed(snapshot).filter(|class| !has_own && retained_by(snapshot, class).is_some());
    let mut present = own().chain(retained).filter_map(|class| class.build());
    let has_nodes = |old: Build| members.iter().any(|node| node.build() == Some(old));
    let is_ready = members.iter().any(|node| node.ready && selects(spec, node));
    // Only classes that the pool names now count: a class with a former name may select the new build.
    let is_changed = managed(snapshot).any(|class| {
        class.build() == Some(spec.build) && spec.runtime_classes.iter().any(|named| named.name == class.name())
    });
    !is_changed
        && !is_ready
        && present.any(|old| old != spec.build && has_nodes(old))
        && !pool.consents.allow(Consent::Strand(&spec.windows_version))
}

/// Plans a class that the pool names: first whether the pool decides about it, then whether it may be created or changed.
fn plan_one(snapshot: &Snapshot, user: ClassUser, members: &[&WindowsNode], would_strand: bool) -> ClassPlan {
    let (name, pool) = (&user.class.name, user.pool);
    let users = users_seen_by(snapshot, pool, name);
    let Some(first) = users.first().copied() else {
        return ClassPlan::unchanged(name, RuntimeClassState::Unused);
    };
    if first.pool.name != pool.name && !first.can_share(&user) {
        return name_taken(name, &first.pool.name);
    }
    let sharing = |other: &ClassUser| other.pool.name == first.pool.name || first.can_share(other);
    let users: Vec<ClassUser> = users.into_iter().filter(sharing).collect();
    let adopt = users.iter().any(|user| user.class.adopt);
    let desired = DesiredClass::new(first, &users);
    let existing = snapshot.runtime_classes.get(name).map(AsRef::as_ref);
    let is_taken = existing.is_none_or(|existing| !existing.is_managed() && adopt);
    if let Some(other) = is_taken.then(|| other_system(snapshot, existing, desired.handler, members)).flatten() {
        return not_for_windows(&desired, existing, other);
    }
    match existing {
        Some(existing) => plan_existing(snapshot, user, existing, desired, adopt, would_strand),
        None if would_strand => strand_held(user, None, desired),
        None => create(snapshot, &desired),
    }
}

/// Plans a class that exists. The first obstacle decides what is reported: another pool that was deleted, pods without a node,
/// the immutable handler, another owner. `adopt`: whether a class that winpool did not create may be taken over.
fn plan_existing<'a>(
    snapshot: &Snapshot,
    user: ClassUser,
    existing: &'a RuntimeClassView,
    mut desired: DesiredClass<'a>,
    adopt: bool,
    would_strand: bool,
) -> ClassPlan {
    let other_handler = existing.object.handler != *desired.handler;
    desired.keep_tolerated(existing, snapshot);
    if let Some(former) = retained_by(snapshot, existing).filter(|_| !adopt) {
        if other_handler || existing.selector() != desired.selector {
            desired.pool = former;
            return left_by(former, existing, &desired);
        }
        // The class is taken over only if nothing of it is removed. Otherwise it gets what it lacks, and stays the former pool's.
        if !desired.has_all_of(existing) {
            desired.pool = former;
            desired.keep_present(existing);
        }
    }
    if would_strand {
        return strand_held(user, Some(existing), desired);
    }
    if other_handler {
        return handler_differs(existing, &desired);
    }
    if !existing.is_managed() && !adopt {
        return not_managed(existing, &desired);
    }
    desired.keep_adopted(existing);
    change(snapshot, existing, desired)
}

/// The pool that a managed class was created for, if it was deleted with Retain.
fn retained_by<'a>(snapshot: &Snapshot, class: &'a RuntimeClassView) -> Option<&'a str> {
    let former = class.label(label::POOL).filter(|_| class.is_managed())?;
    (!snapshot.pools.contains(former)).then_some(former)
}

fn name_taken(name: &str, other: &str) -> ClassPlan {
    let problem = format!(
        "RuntimeClass {name} belongs to pool {other}, and pools can share a class only with the same scope Build or \
         Compatible, the same build and the same handler"
    );
    ClassPlan::held(name, RuntimeClassState::NameTaken, problem, "Use another name in spec.runtimeClasses")
}

fn left_by(former: &str, existing: &RuntimeClassView, desired: &DesiredClass) -> ClassPlan {
    let problem = format!(
        "RuntimeClass {} was created for pool {former}, which was deleted with deletionPolicy Retain, and differs from this \
         pool's spec: {}",
        desired.name,
        desired.differences(existing).join(", ")
    );
    ClassPlan::held(desired.name, RuntimeClassState::NameTaken, problem, ADOPT)
}

/// Creates the class, with a delay if another client repeatedly deletes it.
fn create(snapshot: &Snapshot, desired: &DesiredClass) -> ClassPlan {
    let operation = desired.apply(None, "create", vec![FieldWrite::existence(true)]);
    let until = snapshot.reverts.delayed_until(&operation.identity(), &FieldWrite::existence(true), snapshot.now);
    if let Some(until) = until {
        let problem = format!(
            "another client repeatedly deletes RuntimeClass {}, which is not created again before {until:.0}",
            desired.name
        );
        let remedy = "Stop that client, or remove the class from spec.runtimeClasses";
        return ClassPlan::held(desired.name, RuntimeClassState::Contested, problem, remedy);
    }
    ClassPlan { extend: Some(operation), ..ClassPlan::unchanged(desired.name, RuntimeClassState::Applied) }
}

fn handler_differs(existing: &RuntimeClassView, desired: &DesiredClass) -> ClassPlan {
    let problem = format!(
        "RuntimeClass {} has handler {} instead of {}, and the handler is immutable",
        desired.name, existing.object.handler, desired.handler
    );
    let remedy = "Use another name in spec.runtimeClasses, or delete the class so that it is created again";
    ClassPlan::held(desired.name, RuntimeClassState::HandlerDiffers, problem, remedy)
}

fn not_for_windows(desired: &DesiredClass, existing: Option<&RuntimeClassView>, other: OtherSystem) -> ClassPlan {
    let (name, handler) = (desired.name, desired.handler);
    let verb = if existing.is_some() { "taken over" } else { "created" };
    let (state, why, remedy) = match other {
        OtherSystem::Handler => (
            RuntimeClassState::NotForWindows,
            format!("no node of the pool reports handler {handler}, and its name is not that of a handler of Windows"),
            "Use another handler in spec.runtimeClasses, or add a node that has it",
        ),
        OtherSystem::Selector => (
            RuntimeClassState::NotForWindows,
            "it selects nodes of another operating system".to_owned(),
            "Use another name in spec.runtimeClasses",
        ),
        OtherSystem::Workload(workload) => (
            RuntimeClassState::NotForWindows,
            format!("{workload} names it, and is for another operating system"),
            "Use another name in spec.runtimeClasses",
        ),
        OtherSystem::Unknown => {
            (RuntimeClassState::Pending, "the pods that name it are not known yet".to_owned(), "No action required")
        }
    };
    ClassPlan::held(name, state, format!("RuntimeClass {name} is not {verb}, because {why}"), remedy)
}

fn not_managed(existing: &RuntimeClassView, desired: &DesiredClass) -> ClassPlan {
    let differences = desired.differences(existing);
    if differences.is_empty() {
        return ClassPlan::unchanged(desired.name, RuntimeClassState::Found);
    }
    let problem = format!(
        "RuntimeClass {} was not created by winpool and differs from the spec: {}",
        desired.name,
        differences.join(", ")
    );
    ClassPlan::held(desired.name, RuntimeClassState::NotOurs, problem, ADOPT)
}

/// Keeps the selector of the class. Its tolerations are still added, so that its pods tolerate taints that changed together
/// with the build.
fn strand_held(user: ClassUser, existing: Option<&RuntimeClassView>, mut desired: DesiredClass) -> ClassPlan {
    let build = user.spec.build;
    let problem = format!(
        "RuntimeClass {} is not changed to build {build}, because the pool has nodes of the previous build and no ready node \
         of the new one: its pods could not be scheduled",
        desired.name
    );
    let command = Consent::Strand(&user.spec.windows_version).command(&user.pool.name);
    let remedy = format!("Add nodes with build {build}, or allow the change with: {command}");
    let mut plan = ClassPlan::held(desired.name, RuntimeClassState::WouldStrand, problem, remedy);
    let has_handler = |existing: &&RuntimeClassView| existing.object.handler == *desired.handler;
    plan.extend = existing.filter(has_handler).and_then(|existing| {
        desired.keep_adopted(existing);
        extended(existing, &desired)
    });
    plan
}

/// Adds tolerations to a managed class whose selector does not change yet; `None` if it has them.
fn extended(existing: &RuntimeClassView, desired: &DesiredClass) -> Option<Write> {
    let mut extended = desired.clone();
    extended.extend(existing);
    let differs = existing.is_managed() && !extended.differences(existing).is_empty();
    differs.then(|| extended.apply_extended(existing))
}

/// A class whose selector changes to a release waits until all nodes that run the images have the label, because its pods
/// could not be scheduled to the others. Tolerations are added before.
fn waits_for_labels(snapshot: &Snapshot, existing: &RuntimeClassView, desired: &DesiredClass) -> Option<ClassPlan> {
    let key = desired.selector.keys().find(|key| release_labels::is_release_label(key))?;
    if existing.selector() == desired.selector {
        return None;
    }
    let membership = snapshot.membership();
    let enforces = |node: &WindowsNode| membership.assigner().pool(node).is_some_and(Pool::enforces);
    let lacks = |node: &&Arc<WindowsNode>| {
        !node.labels.contains_key(key) && node.release_labels().contains(key) && enforces(node)
    };
    let unlabelled: Vec<&str> = snapshot.nodes.values().filter(lacks).map(|node| node.name.as_str()).collect();
    if unlabelled.is_empty() {
        return None;
    }
    let problem = format!(
        "RuntimeClass {} is not changed to select {key}, because nodes that run these images do not have the label yet: {}",
        desired.name,
        some_of(unlabelled)
    );
    let remedy = "No action required; if this lasts, see NodesTainted of the pools of these nodes";
    let plan = ClassPlan::held(desired.name, RuntimeClassState::Pending, problem, remedy);
    Some(ClassPlan { extend: extended(existing, desired), ..plan })
}

/// First extends the class, then applies the desired one: tolerations are added before the taints that need them, and
/// the selector is changed after the nodes have its labels.
fn change(snapshot: &Snapshot, existing: &RuntimeClassView, desired: DesiredClass) -> ClassPlan {
    let differences = desired.differences(existing);
    if differences.is_empty() && existing.is_managed() {
        return ClassPlan::unchanged(desired.name, RuntimeClassState::Applied);
    }
    let differences = differences.join(", ");
    let change = match (existing.is_managed(), differences.as_str()) {
        (true, _) => format!("update ({differences})"),
        (false, "") => "adopt".to_owned(),
        (false, _) => format!("adopt ({differences})"),
    };
    let apply = desired.apply(Some(existing), &change, vec![desired.field_write()]);
    let delayed_until = snapshot.reverts.delayed_until(&apply.identity(), &desired.field_write(), snapshot.now);
    if let Some(until) = delayed_until {
        let writer = existing.other_writer.clone().unwrap_or_else(|| "another client".into());
        let problem = format!(
            "{writer} repeatedly reverts RuntimeClass {} ({differences}), which is not written again before {until:.0}",
            desired.name
        );
        let remedy = "Stop that client from writing the class, or change spec.runtimeClasses";
        return ClassPlan::held(desired.name, RuntimeClassState::Contested, problem, remedy);
    }
    if let Some(plan) = waits_for_labels(snapshot, existing, &desired) {
        return plan;
    }
    let mut extended = desired.clone();
    extended.extend(existing);
    let tolerated = existing.tolerations();
    let adds_tolerations = extended.tolerations.iter().any(|toleration| !tolerated.contains(toleration));
    let unchanged = |state| ClassPlan::unchanged(desired.name, state);
    let strip = desired.strip(existing);
    match adds_tolerations {
        true if extended.body() == desired.body() => {
            ClassPlan { extend: Some(apply), strip, ..unchanged(RuntimeClassState::Applied) }
        }
        // The desired class is applied after the extended one was observed, because each write is bound to a version.
        true => ClassPlan { extend: Some(extended.apply_extended(existing)), ..unchanged(RuntimeClassState::Pending) },
        false => ClassPlan { apply: Some(apply), strip, ..unchanged(RuntimeClassState::Applied) },
    }
}
