//! The plan of a pool: the ordered operations that result in its desired state.

use std::{cell::LazyCell, collections::BTreeSet, sync::Arc};

use jiff::Timestamp;

pub use super::member::Member;
use winpool_api::{
    Applied, DeletionPolicy, Taint, TaintKey, WindowsNodePoolStatus,
    bounds::bounded,
    names::{FINALIZER, label},
};

use super::{
    Members, Pool, Snapshot, Spec,
    classes::{self, ClassPlan},
    cluster_api::{self, ClusterApiPlan},
    config_in_effect::NodeConfigs,
    configs::{self, ConfigPlan, ExpectedNode, Rendering},
    delivery::{self, DeliveryPlan, DeliveryState},
    evictions::Evictions,
    membership::{Membership, SharedNode},
    nodes::{self, DesiredConfig, DesiredNode, NodePlanner},
    rollout::{FailureReason, NodeFailure},
    stranding::DeferredTaints,
    taint_replacement::{self, MutualReplacement},
};
use crate::{
    operation::{Action, AfterFailure, Done, Step, Steps, Verb, Write, WriteTarget},
    ownership::{AppliedKeys, Ownership, RecordState},
};
use winpool_core::{kind::Kind, node::WindowsNode};
use winpool_render::reserve::ConfigState;

#[derive(Clone, Debug)]
pub struct Plan {
    pub pool: Arc<Pool>,
    /// The operations. A plan that is interrupted anywhere and computed again converges.
    pub steps: Steps,
    /// What to do after an operation failed.
    pub after_failure: AfterFailure,
    /// The operations that are not run, because the mode is Observe.
    pub withheld: Vec<Write>,
    pub phase: Phase,
}

#[derive(Clone, Debug)]
pub enum Phase {
    /// The spec is invalid: only status is written.
    Invalid,
    /// Nodes cannot be listed: only status is written.
    NodesRefused,
    Active(Box<ActivePool>),
    /// The pool is being deleted with Retain: nothing is changed.
    Retained,
    /// The pool is being deleted with Cleanup.
    CleaningUp {
        nodes: usize,
        /// The nodes that another pool takes over. The cleanup waits for them, so that their taints stay in place.
        handed_over: Vec<String>,
        /// The nodes whose records name the pool and cannot be verified: nothing is removed from them.
        unverified: Vec<String>,
        /// Whether the finalizer stays only until the nodes that no watch selects are listed: see [`Snapshot::unwatched`].
        awaits_unwatched: bool,
    },
}

/// What keeps taints from being added to or removed from the nodes of a pool.
#[derive(Clone, Copy)]
struct Holds<'h> {
    evictions: &'h Evictions<'h>,
    taints: &'h DeferredTaints,
    replaced: &'h [Taint],
}

/// The parts of a plan that reconciles a pool.
#[derive(Clone, Debug, Default)]
pub struct ActivePool {
    /// The nodes of the pool, by name.
    pub members: Vec<Member>,
    /// The nodes that this pool and others select.
    pub shared: Vec<SharedNode>,
    /// The fallback pool that takes precedence, if this is another one.
    pub other_fallback: Option<String>,
    pub classes: Vec<ClassPlan>,
    pub configs: ConfigPlan,
    pub delivery: DeliveryPlan,
    pub cluster_api: ClusterApiPlan,
    /// Whether nodes that were in the pool are released, because the pool selects them no longer and no other one takes them.
    pub releases: bool,
    /// The keys of taints and labels that the pool has set or is about to set.
    pub applied: Applied,
    /// The nodes that have the label of the pool without a valid record, and that the pool does not select.
    pub unverified: Vec<String>,
    /// The taints that wait until pods tolerate them.
    pub taints: DeferredTaints,
    /// Another pool and this one replace taints of each other.
    pub mutual_replacement: Option<MutualReplacement>,
    /// Whether pods are unknown, so that any NoExecute taint may evict pods.
    pub pods_unknown: bool,
}

/// Plans the pool with this name; `None` if it does not exist.
pub fn plan(snapshot: &Snapshot, name: &str) -> Option<Plan> {
    Planner::new(snapshot).plan(name)
}

/// Plans what a pool that was deleted with Retain leaves to be done: the RuntimeClasses that it had adopted are those of others again.
/// `None` if there is nothing to do, or the pool exists.
pub fn give_back(snapshot: &Snapshot, name: &str) -> Option<Plan> {
    if snapshot.pools.contains(name) || !snapshot.refused.is_empty() {
        return None;
    }
    let pool = Arc::new(Pool::deleted(name));
    let classes = classes::unused(snapshot, &pool).filter_map(|class| classes::given_back(snapshot, class));
    let (strips, applies): (Vec<_>, Vec<_>) = classes.unzip();
    let mut steps = Steps::default();
    steps.add(Step::Replace, strips.into_iter().flatten());
    steps.add(Step::Delete, applies);
    (!steps.is_empty()).then(|| Plan::new(&pool, steps, Phase::Retained))
}

/// Plans the cleanup of pools as if they were deleted with Cleanup, regardless of their deletionPolicy.
pub fn clean_up(snapshot: &Snapshot, names: &BTreeSet<String>) -> Vec<Plan> {
    let mut snapshot = snapshot.clone();
    for name in names {
        let pool = snapshot.pools.get(name).map_or_else(|| Pool::deleted(name), |pool| pool.as_ref().clone());
        snapshot.pools.insert(Pool { deleting: true, ..pool });
    }
    let mut planner = Planner::new(&snapshot);
    if matches!(*snapshot.ownership, Ownership::TrustAll) {
        planner.applied = AppliedKeys::from_records_only();
    }
    snapshot.pools.values().filter(|pool| names.contains(&pool.name)).map(|pool| planner.clean_up(pool)).collect()
}

/// Plans the pools of a snapshot. Common parts of their plans are computed once.
pub struct Planner<'a> {
    snapshot: &'a Snapshot,
    applied: AppliedKeys,
    membership: Arc<Membership>,
    expected_nodes: Vec<ExpectedNode>,
}

impl<'a> Planner<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let membership = snapshot.membership();
        let expected = snapshot.api_server.map(|minor| ExpectedNode { kubelet: minor, containerd: None });
        let applied = applied_keys(snapshot, &membership);
        Self { snapshot, applied, membership, expected_nodes: expected.into_iter().collect() }
    }

    /// Sets the nodes that are expected to join a pool without nodes. The default is a node of the API server's minor.
    pub fn expecting(self, expected_nodes: Vec<ExpectedNode>) -> Self {
        Self { expected_nodes, ..self }
    }

    pub fn members(&self, name: &str) -> impl Iterator<Item = &WindowsNode> {
        self.membership.of(name).nodes()
    }

    /// The nodes that belong to no pool, and so have no taints of a pool.
    pub fn unassigned(&self) -> impl Iterator<Item = &WindowsNode> {
        self.membership.unassigned()
    }

    /// Plans the pool with this name; `None` if it does not exist.
    pub fn plan(&self, name: &str) -> Option<Plan> {
        let pool = self.snapshot.pools.get(name)?;
        let has_finalizer = has_finalizer(pool);
        let cleans_up = pool.spec.as_ref().map_or(true, |spec| spec.deletion_policy == DeletionPolicy::Cleanup);
        let mut plan = match &pool.spec {
            _ if pool.deleting && !(has_finalizer && cleans_up) => retain(pool, has_finalizer),
            _ if self.snapshot.refused.contains(&Kind::NODE) => Plan::new(pool, Steps::default(), Phase::NodesRefused),
            _ if pool.deleting && !pool.paused => self.clean_up(pool),
            Err(_) => Plan::new(pool, Steps::default(), Phase::Invalid),
            Ok(spec) => self.reconcile(pool, spec, has_finalizer),
        };
        let withheld = pool.spec.is_ok() && !pool.deleting && !pool.enforces();
        // The deletion of a pool with Retain is not withheld, because it changes nothing else.
        if withheld && !matches!(plan.phase, Phase::Retained) {
            plan.withheld = std::mem::take(&mut plan.steps).into_writes().collect();
        }
        Some(plan)
    }

    fn reconcile(&self, pool: &Arc<Pool>, spec: &Spec, has_finalizer: bool) -> Plan {
        let snapshot = self.snapshot;
        let of_pool = self.membership.of(&pool.name);
        let nodes: Vec<&WindowsNode> = of_pool.nodes().collect();
        let configs = configs::plan(snapshot, pool, spec, &nodes, &self.expected_nodes);
        let classes = classes::plan(snapshot, pool, spec, &nodes);
        let evictions = Evictions::of_pool(snapshot, pool, spec);
        let taints = DeferredTaints::of_pool(snapshot, (pool, spec), of_pool, &self.applied, &|name| {
            will_tolerate(&classes, name)
        });
        let mutual_replacement = taint_replacement::mutual(snapshot, pool, spec);
        let replaced = if mutual_replacement.is_some() { &[] } else { spec.replaces_taints.as_slice() };
        let holds = Holds { evictions: &evictions, taints: &taints, replaced };
        let members = self.plan_members(&of_pool.members, (pool, spec), &configs, &classes, holds);
        let written = members.iter().filter_map(|member| nodes::write(&member.node, &member.plan, &snapshot.ownership));
        let patches = written.chain(self.released(of_pool.released.iter().map(AsRef::as_ref)));
        let applied = self.applied(pool, spec, &members, &of_pool.recorded, &taints);
        let delivery = delivery::plan(snapshot, (pool, spec), &members, &configs, |node| self.has_agent(node));
        let cluster_api = cluster_api::plan(snapshot, (pool, spec), &nodes);
        let uncordoned = delivery::uncordoned(of_pool.released.iter().map(AsRef::as_ref));
        let mut steps = Steps::default();
        steps.add(Step::Finalizer, finalizer(pool, spec, has_finalizer));
        steps.add(Step::Record, record(pool, &applied).into_iter().chain(configs.discard.iter().cloned()));
        steps.add(Step::Prepare, classes.iter().filter_map(|class| class.extend.clone()));
        steps.add(Step::Prepare, configs.create.iter().cloned());
        steps.add(Step::Uncordon, uncordoned);
        steps.add(Step::Nodes, patches);
        steps.add(Step::Confirm, delivery.confirmations.iter().cloned());
        steps.add(Step::RollOut, delivery.operations.iter().cloned());
        cluster_api.add_steps(&mut steps);
        steps.add(Step::Replace, classes.iter().filter_map(|class| class.apply.clone()));
        steps.add(Step::Replace, configs.record.iter().chain(&configs.prune).cloned());
        steps.add(Step::Strip, classes.iter().filter_map(|class| class.strip.clone()));
        let (is_fallback, fallback) = (pool.is_fallback(), self.membership.assigner().fallback());
        let active = ActivePool {
            members,
            shared: of_pool.shared.clone(),
            other_fallback: fallback.filter(|name| is_fallback && *name != pool.name).map(str::to_owned),
            classes,
            configs,
            delivery,
            cluster_api,
            releases: !of_pool.released.is_empty(),
            applied,
            unverified: of_pool.unverified.clone(),
            taints,
            mutual_replacement,
            pods_unknown: matches!(evictions, Evictions::Unknown(_)),
        };
        Plan::new(pool, steps, Phase::Active(Box::new(active)))
    }

    /// The taints of a pool that wait until pods tolerate them.
    pub fn held_taints(&self, pool: &Pool, spec: &Spec) -> DeferredTaints {
        let nodes = self.membership.of(&pool.name);
        // Needed only while a taint is new.
        let classes = LazyCell::new(|| classes::plan(self.snapshot, pool, spec, &nodes.nodes().collect::<Vec<_>>()));
        DeferredTaints::of_pool(self.snapshot, (pool, spec), nodes, &self.applied, &|name| {
            will_tolerate(&classes, name)
        })
    }

    fn has_agent(&self, node: &WindowsNode) -> bool {
        let pool = self.membership.assigner().assign(node).pool.and_then(|name| self.snapshot.pools.get(name));
        pool.is_some_and(|pool| pool.enforces() && pool.spec.as_ref().is_ok_and(|spec| spec.rollout.is_some()))
    }

    fn plan_members(
        &self,
        nodes: &[(Arc<WindowsNode>, bool)],
        (pool, spec): (&Pool, &Spec),
        configs: &ConfigPlan,
        classes: &[ClassPlan],
        holds: Holds,
    ) -> Vec<Member> {
        let (extended, unchanged): (Vec<_>, Vec<_>) =
            classes.iter().filter(|class| !class.untolerated.is_empty()).partition(|class| class.extend.is_some());
        // What could not be written lately is tried again, and nodes do not wait for it.
        let is_unwritten = |class: &&ClassPlan| self.snapshot.unwritten.has(Kind::RUNTIME_CLASS, &class.name);
        let (failed, extended): (Vec<_>, Vec<_>) = extended.into_iter().partition(is_unwritten);
        let taints_of = |classes: &[&ClassPlan]| classes.iter().flat_map(|class| &class.untolerated).cloned().collect();
        let (untolerated, awaited, blocked) = (taints_of(&extended), taints_of(&failed), taints_of(&unchanged));
        let desired = DesiredNode {
            pool: &pool.name,
            labels: &spec.labels,
            taints: &spec.taints,
            untolerated: &untolerated,
            extended_classes: &extended.iter().map(|class| class.name.clone()).collect(),
            awaited: &awaited,
            blocked: &blocked,
            evictions: holds.evictions,
            held: &holds.taints.held,
            replaced: holds.replaced,
        };
        let mut node_configs = NodeConfigs::new(self.snapshot, pool, spec);
        let mut planner = NodePlanner::new(self.snapshot, &self.applied, Some(desired));
        let mut members = Vec::with_capacity(nodes.len());
        for (node, held) in nodes {
            let config_state = node_configs.state_of(node);
            let config = match (&configs.state, configs.name_for(node)) {
                (Rendering::NotUsed, _) => DesiredConfig::None,
                (_, Some(name)) if !configs.awaits(name, self.snapshot) => DesiredConfig::Named(name),
                (_, _) => DesiredConfig::Unchanged,
            };
            let plan = planner.plan(node, config, config_state == Some(ConfigState::InEffect));
            members.push(Member { node: node.clone(), held: *held, plan, outcome: None, config_state });
        }
        members
    }

    fn released<'n>(&'n self, nodes: impl IntoIterator<Item = &'n WindowsNode>) -> impl Iterator<Item = Write> {
        let mut planner = NodePlanner::new(self.snapshot, &self.applied, None);
        let ownership = &self.snapshot.ownership;
        nodes
            .into_iter()
            .filter_map(move |node| nodes::write(node, &planner.plan(node, DesiredConfig::None, false), ownership))
    }

    /// Removes everything in reverse order: labels and taints, RuntimeClasses and configurations, the finalizer. A node
    /// that another pool takes over is not changed, so that it always has the taints of one of the pools. The finalizer
    /// is removed after the nodes that no watch selects were listed and released.
    fn clean_up(&self, pool: &Arc<Pool>) -> Plan {
        let snapshot = self.snapshot;
        let is_taken_over = |node: &WindowsNode| self.membership.assigner().pool(node).is_some_and(Pool::enforces);
        let recorded = self.membership.of(&pool.name).recorded.iter().map(AsRef::as_ref);
        let (handed_over, mut released): (Vec<&WindowsNode>, Vec<_>) = recorded.partition(|node| is_taken_over(node));
        let unwatched = snapshot.unwatched.iter().flatten();
        released.extend(unwatched.filter(|node| snapshot.ownership.pool_of(node) == Some(&pool.name)));
        let patches = self.released(released.iter().copied());
        let uncordoned = delivery::uncordoned(released.iter().copied());
        let mut steps = Steps::default();
        steps.add(Step::Uncordon, uncordoned.chain(delivery::deleted(snapshot, &pool.name)));
        steps.add(Step::Nodes, patches);
        let unverified = unverified_members(snapshot, pool);
        let mut awaits_unwatched = false;
        if handed_over.is_empty() && unverified.is_empty() && snapshot.refused.is_empty() {
            let (stripped, removed) = remove_classes(snapshot, pool);
            let configs =
                snapshot.config_maps.values().filter(|map| map.pool.as_ref() == Some(&pool.name) && !map.deleting);
            let [first, templates] = cluster_api::removed(snapshot, pool);
            let (secrets, annotations): (Vec<_>, Vec<_>) =
                first.into_iter().partition(|write| write.verb == Verb::Delete);
            steps.add(Step::Groups, annotations);
            steps.add(Step::PruneSecrets, secrets);
            steps.add(Step::PruneTemplates, templates);
            steps.add(Step::Replace, stripped);
            steps.add(Step::Delete, removed.into_iter().chain(configs.map(|map| map.delete())));
            let is_last = has_finalizer(pool) && !cluster_api::is_unknown(snapshot, pool);
            awaits_unwatched = is_last && snapshot.unwatched.is_none();
            steps.add(Step::RemoveFinalizer, (is_last && !awaits_unwatched).then(|| remove_finalizer(pool)));
        }
        let phase = Phase::CleaningUp {
            nodes: released.len(),
            handed_over: handed_over.iter().map(|node| node.name.clone()).collect(),
            unverified,
            awaits_unwatched,
        };
        Plan { after_failure: AfterFailure::Stop, ..Plan::new(pool, steps, phase) }
    }

    /// The keys that the pool sets, and the keys that it has set before and that are still on a node.
    fn applied(
        &self,
        pool: &Pool,
        spec: &Spec,
        members: &[Member],
        recorded: &[Arc<WindowsNode>],
        held: &DeferredTaints,
    ) -> Applied {
        let desired: Vec<TaintKey> = held.begun.iter().map(TaintKey::from).collect();
        let mut taints: BTreeSet<&TaintKey> = desired.iter().collect();
        let mut labels: BTreeSet<&str> = spec.labels.keys().map(String::as_str).collect();
        let ownership = &self.snapshot.ownership;
        // Only some nodes need the label of the build. Another pool may have added it.
        let has_build = |member: &Member| {
            let added = member.plan.edit.as_ref().and_then(|edit| edit.labels.get(label::WINDOWS_BUILD));
            added.is_some_and(Option::is_some)
                || self.applied.owns_label(ownership.record_state(&member.node), label::WINDOWS_BUILD)
        };
        labels.extend(members.iter().any(has_build).then_some(label::WINDOWS_BUILD));
        for record_state in recorded.iter().map(|node| ownership.record_state(node)) {
            let Some(record) = record_state.verified() else { continue };
            taints.extend(record.taints.keys().filter(|key| self.applied.owns_taint(record_state, key)));
            let removable = record.labels.keys().filter(|key| self.applied.owns_label(record_state, key));
            labels.extend(removable.map(String::as_str));
        }
        // Records that cannot be verified now are valid again with their key.
        let before = &pool.status.applied;
        for member in members {
            let RecordState::Unverified(record) = ownership.record_state(&member.node) else { continue };
            taints.extend(record.taints.keys().filter(|key| before.taints.contains(&key.to_string())));
            labels.extend(record.labels.keys().filter(|key| before.labels.contains(key)).map(String::as_str));
        }
        let taints: BTreeSet<String> = taints.into_iter().map(ToString::to_string).collect();
        let begun = || held.begun.iter().map(ToString::to_string).collect();
        Applied {
            taints: taints.into_iter().collect(),
            labels: labels.into_iter().map(str::to_owned).collect(),
            taint_values: if pool.enforces() { Some(begun()) } else { pool.status.applied.taint_values.clone() },
        }
    }
}

impl Plan {
    /// The plan after it was run: each member has the outcome of its change.
    pub fn with_outcomes(mut self, done: &Done) -> Self {
        if let Phase::Active(active) = &mut self.phase {
            let edits = done.results.iter().filter(|(write, _)| write.node_edit().is_some());
            let mut edits = edits.peekable();
            // Both are ordered by name.
            for member in &mut active.members {
                let of_member = edits.next_if(|(write, _)| write.object.name == member.node.name);
                member.outcome = of_member.map(|(_, outcome)| outcome.clone());
            }
        }
        self
    }

    /// The nodes where the desired configuration failed.
    pub fn failures(&self) -> &[NodeFailure] {
        self.delivery().map_or(&[], DeliveryPlan::failures)
    }

    /// The number of nodes where the desired configuration failed, by kind of failure.
    pub fn rollout_failures(&self) -> [(&'static str, usize); 4] {
        let of_kind = |kind| self.failures().iter().filter(|failure| failure.reason.kind() == kind).count();
        FailureReason::KINDS.map(|kind| (kind, of_kind(kind)))
    }

    /// When the first node of a rollout that has not ended began, in seconds since 1970.
    pub fn rollout_start(&self) -> Option<i64> {
        match &self.delivery()?.state {
            DeliveryState::Rollout(rollout) => rollout.begun.map(Timestamp::as_second),
            DeliveryState::Off | DeliveryState::Unknown => None,
        }
    }

    /// The delivery, if the pool is reconciled and writes.
    fn delivery(&self) -> Option<&DeliveryPlan> {
        self.active().filter(|_| self.pool.enforces()).map(|active| &active.delivery)
    }

    /// The parts of the plan, if the pool is reconciled.
    pub fn active(&self) -> Option<&ActivePool> {
        match &self.phase {
            Phase::Active(active) => Some(active),
            Phase::Invalid | Phase::NodesRefused | Phase::Retained | Phase::CleaningUp { .. } => None,
        }
    }

    /// The selector of a pool that matches no Windows node, as the argument of `kubectl get nodes -l`.
    pub fn selector_without_nodes(&self) -> Option<String> {
        let has_nodes = !self.active()?.members.is_empty();
        match &self.pool.spec.as_ref().ok()?.members {
            selector @ Members::Selector(_) if !has_nodes => Some(selector.to_string()),
            Members::Selector(_) | Members::Fallback => None,
        }
    }

    /// Whether the plan goes on when the nodes that no watch selects are listed: see [`Snapshot::unwatched`].
    pub fn awaits_unwatched(&self) -> bool {
        matches!(self.phase, Phase::CleaningUp { awaits_unwatched: true, .. })
    }

    /// The nodes of a pool that is reconciled.
    pub fn members(&self) -> &[Member] {
        self.active().map_or(&[], |active| &active.members)
    }

    /// A plan that is run.
    pub fn new(pool: &Arc<Pool>, steps: Steps, phase: Phase) -> Self {
        Self { pool: pool.clone(), steps, after_failure: AfterFailure::Continue, withheld: Vec::new(), phase }
    }
}

/// Whether the RuntimeClass of this name is changed to tolerate the taints of the pool.
fn will_tolerate(classes: &[ClassPlan], name: &str) -> bool {
    classes.iter().any(|class| class.name == name && class.adds_tolerations())
}

/// The keys that pools have applied, from their status. A pool that has not recorded any yet may have been deleted with
/// Retain and created again, so its keys are taken from the verified records: also if it has written nothing but a status,
/// because it observes, or its spec is invalid.
fn applied_keys(snapshot: &Snapshot, membership: &Membership) -> AppliedKeys {
    let mut keys = AppliedKeys::default();
    for pool in snapshot.pools.values() {
        keys.add_status(&pool.name, &pool.status.applied);
    }
    let new = snapshot.pools.values().filter(|pool| pool.status.applied.taint_values.is_none());
    let recorded = new.flat_map(|pool| &membership.of(&pool.name).recorded);
    let is_new = |node: &&WindowsNode| {
        let pool = snapshot.ownership.pool_of(node).and_then(|pool| snapshot.pools.get(pool));
        pool.is_some_and(|pool| pool.status.applied.taint_values.is_none())
    };
    let unwatched = snapshot.unwatched.iter().flatten().filter(is_new);
    recorded
        .map(AsRef::as_ref)
        .chain(unwatched)
        .filter_map(|node| snapshot.ownership.record_state(node).verified())
        .for_each(|record| keys.add_record(record));
    keys
}

/// Records keys in the status before they are set on nodes. Otherwise a crash in between would leave taints and labels
/// that the pool does not own.
fn record(pool: &Pool, applied: &Applied) -> Option<Write> {
    let before = &pool.status.applied;
    let begun = |applied: &Applied| applied.taint_values.clone().unwrap_or_default();
    let grows = begun(applied).iter().any(|taint| !begun(before).contains(taint))
        || applied.taints.iter().any(|key| !before.taints.contains(key))
        || applied.labels.iter().any(|key| !before.labels.contains(key));
    let mut all = before.clone();
    all.taints.extend(applied.taints.iter().filter(|key| !before.taints.contains(key)).cloned());
    all.labels.extend(applied.labels.iter().filter(|key| !before.labels.contains(key)).cloned());
    all.taint_values.clone_from(&applied.taint_values);
    let status = WindowsNodePoolStatus { applied: all, ..pool.status.clone() };
    let object = || WriteTarget::new(Kind::POOL, &pool.name);
    grows.then(|| Write::status(Action::RecordApplied, object(), &pool.resource_version, &bounded(status)))
}

fn finalizer(pool: &Pool, spec: &Spec, has_finalizer: bool) -> Option<Write> {
    match (spec.deletion_policy, has_finalizer) {
        (DeletionPolicy::Cleanup, false) => {
            let finalizers: Vec<_> = pool.finalizers.iter().cloned().chain([FINALIZER.to_owned()]).collect();
            Some(Write::finalizers(Action::AddFinalizer, &pool.name, &pool.resource_version, &finalizers))
        }
        (DeletionPolicy::Retain, true) => Some(remove_finalizer(pool)),
        _ => None,
    }
}

fn has_finalizer(pool: &Pool) -> bool {
    pool.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

fn remove_finalizer(pool: &Pool) -> Write {
    let others: Vec<_> = pool.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
    Write::finalizers(Action::RemoveFinalizer, &pool.name, &pool.resource_version, &others)
}

/// Deletes the pool and changes nothing else.
fn retain(pool: &Arc<Pool>, has_finalizer: bool) -> Plan {
    let mut steps = Steps::default();
    steps.add(Step::RemoveFinalizer, has_finalizer.then(|| remove_finalizer(pool)));
    Plan::new(pool, steps, Phase::Retained)
}

/// The nodes whose records name the pool and cannot be verified. The records may be valid with a former key.
fn unverified_members(snapshot: &Snapshot, pool: &Pool) -> Vec<String> {
    let is_unverified = |node: &WindowsNode| match snapshot.ownership.record_state(node) {
        RecordState::Unverified(record) => record.pool == pool.name && node.labelled_pool() == Some(&pool.name),
        RecordState::None | RecordState::Verified { .. } => false,
    };
    snapshot.nodes.values().filter(|node| is_unverified(node)).map(|node| node.name.clone()).collect()
}

/// Restores the adopted RuntimeClasses that no other pool names, and deletes the other managed ones, in two steps.
fn remove_classes(snapshot: &Snapshot, pool: &Pool) -> (Vec<Write>, Vec<Write>) {
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for class in classes::unused(snapshot, pool) {
        match classes::restored(class, Vec::new()) {
            Some((strip, apply)) => {
                first.extend(strip);
                then.push(apply);
            }
            None => then.push(classes::delete(class)),
        }
    }
    (first, then)
}
