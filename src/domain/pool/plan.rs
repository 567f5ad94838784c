//! What has to be written for one pool, in order.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{
    Pool, Snapshot, Spec,
    assignment::Assigner,
    classes::{self, ClassPlan},
    configs::{self, ConfigPlan, Newcomer},
    delivery,
    evictions::Evictions,
    nodes::{self, Config, DesiredNode, NodePlan},
    status,
};
use crate::{
    api::{
        Applied, DeletionPolicy,
        names::{FINALIZER, label},
    },
    domain::{
        node::WindowsNode,
        operation::{AfterFailure, NodePatch, Operation},
        ownership::{AppliedKeys, Evidence, Ownership, TaintKey},
    },
};

/// The plan for one pool.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pool.
    pub pool: Arc<Pool>,
    /// What to write. The operations of one step are independent of each other; a step begins when all of the one
    /// before have ended. Cutting the list anywhere and planning again converges.
    pub steps: Vec<Vec<Operation>>,
    /// What a step that does not get through means for those behind it.
    pub after_failure: AfterFailure,
    /// What would be written if the pool enforced.
    pub withheld: Vec<Operation>,
    /// What the plan is about.
    pub phase: Phase,
}

/// What a plan is about.
#[derive(Clone, Debug)]
pub enum Phase {
    /// The spec has mistakes: nothing but status is written.
    Invalid,
    /// The pool is made so.
    Active(Box<Active>),
    /// The pool is being deleted and everything stays.
    Leaving,
    /// What is ours is taken off; nodes that another pool is about to take are waited for.
    CleaningUp {
        /// The nodes that are let go.
        nodes: usize,
        /// The nodes that another pool takes.
        handed_over: Vec<String>,
        /// The nodes whose records name the pool and cannot be verified: nothing on them may be removed.
        unverified: Vec<String>,
    },
}

/// The parts of a plan that makes a pool so.
#[derive(Clone, Debug)]
pub struct Active {
    /// The pool's nodes, by name.
    pub members: Vec<Member>,
    /// Nodes of others that this pool matches too, with the pools concerned.
    pub contested: Vec<(String, Vec<String>)>,
    /// The fallback pool that counts, if this is another.
    pub other_fallback: Option<String>,
    /// The RuntimeClasses.
    pub classes: Vec<ClassPlan>,
    /// The configurations.
    pub configs: ConfigPlan,
    /// Every key that this pool has set or is about to set.
    pub applied: Applied,
    /// Nodes with the pool's label that are no members, because no record proves that the pool labelled them.
    pub unproven: Vec<String>,
    /// Whether evictions by NoExecute taints are decided without knowing the pods.
    pub pods_unknown: bool,
}

/// A node of the pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// The node.
    pub node: Arc<WindowsNode>,
    /// Whether it no longer matches, and is kept guarded.
    pub held: bool,
    /// What changes on it.
    pub plan: Arc<NodePlan>,
    /// What its own numbers say about its configuration.
    pub delivery: Option<delivery::State>,
}

/// Plans the pool of that name; `None` if there is no such pool.
pub fn plan(snapshot: &Snapshot, name: &str) -> Option<Plan> {
    Planner::new(snapshot).plan(name)
}

/// Plans for these pools as if they were deleted with Cleanup, whatever they say: the clean-up by hand.
pub fn clean_up(snapshot: &Snapshot, names: &BTreeSet<String>) -> Vec<Plan> {
    let mut snapshot = snapshot.clone();
    for name in names {
        let pool = snapshot.pools.get(name).map_or_else(|| Pool::gone(name), |pool| pool.as_ref().clone());
        snapshot.pools.insert(name.clone(), Arc::new(Pool { deleting: true, ..pool }));
    }
    let mut planner = Planner::new(&snapshot);
    if matches!(*snapshot.ownership, Ownership::Trusting) {
        planner.applied = AppliedKeys::of_records_alone();
    }
    snapshot.pools.iter().filter(|(name, _)| names.contains(*name)).map(|(_, pool)| planner.clean_up(pool)).collect()
}

/// Plans the pools of one snapshot: what their plans have in common is worked out once.
pub struct Planner<'a> {
    snapshot: &'a Snapshot,
    assigner: Assigner<'a>,
    applied: AppliedKeys,
    nodes: HashMap<&'a str, PoolNodes>,
    newcomers: Vec<Newcomer>,
}

/// The nodes that concern a pool.
#[derive(Default)]
struct PoolNodes {
    /// Nodes of the pool, and whether they are held.
    members: Vec<(Arc<WindowsNode>, bool)>,
    /// Nodes that the pool keeps by their record and that it may release, because no pool that enforces takes them.
    released: Vec<Arc<WindowsNode>>,
    /// Nodes that more than one pool selects, with these pools.
    contested: Vec<(String, Vec<String>)>,
    /// Nodes with the pool's label and no valid record, which the pool does not select.
    unproven: Vec<String>,
}

impl<'a> Planner<'a> {
    /// Prepares the plans for a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let assigner = snapshot.assigner();
        let mut nodes: HashMap<&str, PoolNodes> = HashMap::new();
        for node in snapshot.nodes.values() {
            let assignment = assigner.assign(node);
            let former = snapshot.ownership.pool_of(node);
            if let Some(pool) = assignment.pool {
                nodes.entry(pool).or_default().members.push((node.clone(), assignment.held));
            }
            let taken = |pool: &str| snapshot.pools.get(pool).is_some_and(|pool| pool.keeps_nodes());
            if let Some(former) =
                former.filter(|former| !assignment.pool.is_some_and(|pool| pool == *former || taken(pool)))
            {
                nodes.entry(former).or_default().released.push(node.clone());
            }
            for pool in &assignment.contested {
                let others = assignment.contested.iter().map(|name| (*name).to_owned()).collect();
                nodes.entry(pool).or_default().contested.push((node.name.clone(), others));
            }
            let labelled = node.labelled_pool().filter(|pool| former.is_none() && assignment.pool != Some(*pool));
            if let Some(pool) = labelled {
                nodes.entry(pool).or_default().unproven.push(node.name.clone());
            }
        }
        Self {
            snapshot,
            assigner,
            applied: applied_keys(snapshot),
            nodes,
            newcomers: snapshot
                .api_server
                .map(|minor| Newcomer { kubelet: minor, containerd: None })
                .into_iter()
                .collect(),
        }
    }

    /// The same, but nodes like these are those that will join a pool without nodes. Without this it is a node of the
    /// API server's minor.
    pub fn expecting(self, newcomers: Vec<Newcomer>) -> Self {
        Self { newcomers, ..self }
    }

    /// The nodes of a pool.
    pub fn members(&self, name: &str) -> impl Iterator<Item = &WindowsNode> {
        self.nodes.get(name).into_iter().flat_map(|nodes| &nodes.members).map(|(node, _)| node.as_ref())
    }

    /// The nodes that no pool takes: nothing guards them.
    pub fn in_no_pool(&self) -> impl Iterator<Item = &'a WindowsNode> {
        let nodes = self.snapshot.nodes.values().map(AsRef::as_ref);
        nodes.filter(|node| self.assigner.assign(node).pool.is_none())
    }

    /// Plans the pool of that name; `None` if there is no such pool.
    pub fn plan(&self, name: &str) -> Option<Plan> {
        let pool = self.snapshot.pools.get(name)?;
        let cleans_up = has_finalizer(pool);
        let mut plan = match (&pool.spec, pool.deleting) {
            (spec, true)
                if cleans_up && spec.as_ref().map_or(true, |spec| spec.deletion_policy == DeletionPolicy::Cleanup) =>
            {
                self.clean_up(pool)
            }
            (_, true) => leave(pool, cleans_up),
            (Err(_), false) => Plan::of(pool, Vec::new(), Phase::Invalid),
            (Ok(spec), false) => self.enforce(pool, spec, cleans_up),
        };
        plan.steps.retain(|step| !step.is_empty());
        let observing = pool.spec.as_ref().is_ok_and(|spec| spec.paused || (!pool.deleting && !pool.enforces()));
        // A pool that leaves everything as it is has nothing to wait for.
        if observing && !matches!(plan.phase, Phase::Leaving) {
            plan.withheld = std::mem::take(&mut plan.steps).into_iter().flatten().collect();
        }
        Some(plan)
    }

    fn enforce(&self, pool: &Arc<Pool>, spec: &Spec, has_finalizer: bool) -> Plan {
        let snapshot = self.snapshot;
        let none = PoolNodes::default();
        let of_pool = self.nodes.get(pool.name.as_str()).unwrap_or(&none);
        let nodes: Vec<&WindowsNode> = of_pool.members.iter().map(|(node, _)| node.as_ref()).collect();
        let configs = configs::plan(snapshot, pool, spec, &nodes, &self.newcomers);
        let classes = classes::plan(snapshot, pool, spec, &nodes);
        let evictions = Evictions::of_pool(snapshot, pool, spec);
        let (widening, stuck): (Vec<_>, Vec<_>) =
            classes.iter().filter(|class| !class.untolerated.is_empty()).partition(|class| class.widen.is_some());
        let untolerated =
            |classes: &[&ClassPlan]| classes.iter().flat_map(|class| &class.untolerated).cloned().collect();
        let (waiting, blocked) = (untolerated(&widening), untolerated(&stuck));
        let widened = widening.iter().map(|class| class.name.clone()).collect();
        let desired = DesiredNode {
            pool: &pool.name,
            labels: &spec.labels,
            taints: &spec.taints,
            waiting: &waiting,
            widened: &widened,
            blocked: &blocked,
            evictions: &evictions,
        };
        let mut judge = delivery::Judge::new(snapshot, spec);
        let mut planner = nodes::Planner::new(snapshot, &self.applied, Some(desired));
        let mut members = Vec::with_capacity(of_pool.members.len());
        for (node, held) in &of_pool.members {
            let delivery = judge.of(node);
            let registered = delivery == Some(delivery::State::InEffect);
            let config = match (&configs.state, configs.name_for(node)) {
                (configs::ConfigState::NotUsed, _) => Config::None,
                (_, Some(name)) if !configs.delayed.contains(name) => Config::Named(name),
                (_, _) => Config::AsItIs,
            };
            let plan = planner.plan(node, config, registered);
            members.push(Member { node: node.clone(), held: *held, plan, delivery });
        }
        let written = members.iter().filter_map(|member| nodes::patch(&member.node, &member.plan, &snapshot.ownership));
        let patches: Vec<_> = written.chain(self.released(&of_pool.released)).collect();
        let applied = self.applied(pool, spec, &members);

        let steps = vec![
            finalizer(pool, spec, has_finalizer).into_iter().collect(),
            record(pool, &applied).into_iter().chain(configs.discard.iter().cloned()).collect(),
            classes.iter().filter_map(|class| class.widen.clone()).chain(configs.create.iter().cloned()).collect(),
            patches.into_iter().map(Operation::PatchNode).collect(),
            classes.iter().filter_map(|class| class.settle.clone()).chain(configs.prune.iter().cloned()).collect(),
            classes.iter().filter_map(|class| class.strip.clone()).collect(),
        ];
        let falls_back = spec.members == super::Members::Fallback;
        let active = Active {
            members,
            contested: of_pool.contested.clone(),
            other_fallback: self.assigner.fallback().filter(|name| falls_back && *name != pool.name).map(str::to_owned),
            classes,
            configs,
            applied,
            unproven: of_pool.unproven.clone(),
            pods_unknown: matches!(evictions, Evictions::Unknown(_)),
        };
        Plan::of(pool, steps, Phase::Active(Box::new(active)))
    }

    /// The writes that take what is ours off nodes.
    fn released<'n>(
        &'n self,
        nodes: impl IntoIterator<Item = &'n Arc<WindowsNode>>,
    ) -> impl Iterator<Item = Arc<NodePatch>> {
        let mut planner = nodes::Planner::new(self.snapshot, &self.applied, None);
        let ownership = &self.snapshot.ownership;
        nodes
            .into_iter()
            .filter_map(move |node| nodes::patch(node, &planner.plan(node, Config::None, false), ownership))
    }

    /// Takes off what is ours, in reverse order: nodes, then classes and configurations, then the finalizer. A node that
    /// another pool is about to take is left to it, so that it is never unguarded between the two.
    fn clean_up(&self, pool: &Arc<Pool>) -> Plan {
        let snapshot = self.snapshot;
        let taken = |node: &WindowsNode| {
            let next = self.assigner.assign(node).pool.and_then(|name| snapshot.pools.get(name));
            next.is_some_and(|next| next.enforces())
        };
        let ours = snapshot.nodes.values().filter(|node| snapshot.ownership.pool_of(node) == Some(&pool.name));
        let (handed_over, let_go): (Vec<_>, Vec<_>) = ours.partition(|node| taken(node));
        let patches = self.released(let_go.iter().copied());
        let mut steps = vec![patches.map(Operation::PatchNode).collect::<Vec<_>>()];
        // Records that name the pool and cannot be verified: with the former key they could be.
        let unverified: Vec<String> = snapshot
            .nodes
            .values()
            .filter(|node| match snapshot.ownership.evidence(node) {
                Evidence::Unverified(record) => record.pool == pool.name && node.labelled_pool() == Some(&pool.name),
                Evidence::None | Evidence::Verified { .. } => false,
            })
            .map(|node| node.name.clone())
            .collect();
        if handed_over.is_empty() && unverified.is_empty() {
            let (stripped, given_up) = given_up_classes(snapshot, pool);
            let of_pool =
                snapshot.config_maps.values().filter(|map| map.pool.as_ref() == Some(&pool.name) && !map.deleting);
            let configs =
                of_pool.map(|map| Operation::DeleteConfigMap { name: map.name.clone(), uid: map.uid.clone() });
            steps.push(stripped);
            steps.push(given_up.into_iter().chain(configs).collect());
            steps.push(has_finalizer(pool).then(|| remove_finalizer(pool)).into_iter().collect());
        }
        steps.retain(|step| !step.is_empty());
        let phase = Phase::CleaningUp {
            nodes: let_go.len(),
            handed_over: handed_over.iter().map(|node| node.name.clone()).collect(),
            unverified,
        };
        Plan { after_failure: AfterFailure::Stop, ..Plan::of(pool, steps, phase) }
    }

    /// Every key that the pool sets, and those it has set that are still on some node.
    fn applied(&self, pool: &Pool, spec: &Spec, members: &[Member]) -> Applied {
        let desired: Vec<TaintKey> = spec.taints.iter().map(TaintKey::from).collect();
        let mut taints: BTreeSet<&TaintKey> = desired.iter().collect();
        let mut labels: BTreeSet<&str> = spec.labels.keys().map(String::as_str).collect();
        let ownership = &self.snapshot.ownership;
        // The build is a label that only some nodes need; a node taken over from another pool may have it from there.
        let has_our_build = |member: &Member| {
            let added = member.plan.change.as_ref().and_then(|change| change.labels.get(label::WINDOWS_BUILD));
            added.is_some_and(Option::is_some)
                || self.applied.has_label(ownership.evidence(&member.node), label::WINDOWS_BUILD)
        };
        labels.extend(members.iter().any(has_our_build).then_some(label::WINDOWS_BUILD));
        for node in self.snapshot.nodes.values() {
            let evidence = ownership.evidence(node);
            let Some(record) = evidence.verified().filter(|record| record.pool == pool.name) else { continue };
            taints.extend(record.taints.keys().filter(|key| self.applied.has_taint(evidence, key)));
            let removable = record.labels.keys().filter(|key| self.applied.has_label(evidence, key));
            labels.extend(removable.map(String::as_str));
        }
        let taints: BTreeSet<String> = taints.into_iter().map(ToString::to_string).collect();
        Applied { taints: taints.into_iter().collect(), labels: labels.into_iter().map(str::to_owned).collect() }
    }
}

impl Plan {
    fn of(pool: &Arc<Pool>, steps: Vec<Vec<Operation>>, phase: Phase) -> Self {
        Self { pool: pool.clone(), steps, after_failure: AfterFailure::GoOn, withheld: Vec::new(), phase }
    }
}

/// The keys that pools have applied, by their status. A pool that was created again under the name of one that was
/// deleted with Retain has no status yet: then the records are all there is.
fn applied_keys(snapshot: &Snapshot) -> AppliedKeys {
    let mut keys = AppliedKeys::default();
    for pool in snapshot.pools.values() {
        keys.add_status(&pool.name, &pool.status.applied);
    }
    let is_new = |name: &str| snapshot.pools.get(name).is_some_and(|pool| pool.status.observed_generation.is_none());
    if !snapshot.pools.keys().any(|name| is_new(name)) {
        return keys;
    }
    for record in snapshot.nodes.values().filter_map(|node| snapshot.ownership.evidence(node).verified()) {
        if is_new(&record.pool) {
            keys.add_record(record);
        }
    }
    keys
}

/// Status learns what is about to be set before it is set: else a crash between the two would leave on a node what
/// nothing proves to be ours.
fn record(pool: &Pool, applied: &Applied) -> Option<Operation> {
    let before = &pool.status.applied;
    let grows = applied.taints.iter().any(|key| !before.taints.contains(key))
        || applied.labels.iter().any(|key| !before.labels.contains(key));
    let mut all = before.clone();
    all.taints.extend(applied.taints.iter().filter(|key| !before.taints.contains(key)).cloned());
    all.labels.extend(applied.labels.iter().filter(|key| !before.labels.contains(key)).cloned());
    let status = crate::api::WindowsNodePoolStatus { applied: all, ..pool.status.clone() };
    grows.then(|| Operation::RecordApplied { pool: pool.name.clone(), body: status::body(&pool.name, &status) })
}

fn finalizer(pool: &Pool, spec: &Spec, has_finalizer: bool) -> Option<Operation> {
    match (spec.deletion_policy, has_finalizer) {
        (DeletionPolicy::Cleanup, false) => Some(Operation::AddFinalizer {
            pool: pool.name.clone(),
            resource_version: pool.resource_version.clone(),
            finalizers: pool.finalizers.iter().cloned().chain([FINALIZER.to_owned()]).collect(),
        }),
        (DeletionPolicy::Retain, true) => Some(remove_finalizer(pool)),
        _ => None,
    }
}

fn has_finalizer(pool: &Pool) -> bool {
    pool.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

fn remove_finalizer(pool: &Pool) -> Operation {
    Operation::RemoveFinalizer {
        pool: pool.name.clone(),
        resource_version: pool.resource_version.clone(),
        finalizers: pool.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect(),
    }
}

/// Everything stays as it is.
fn leave(pool: &Arc<Pool>, has_finalizer: bool) -> Plan {
    Plan::of(pool, vec![has_finalizer.then(|| remove_finalizer(pool)).into_iter().collect()], Phase::Leaving)
}

/// Our classes that only this pool named, in two steps: adopted ones are given back as they were, the others deleted.
fn given_up_classes(snapshot: &Snapshot, pool: &Pool) -> (Vec<Operation>, Vec<Operation>) {
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for class in classes::unused(snapshot, pool) {
        match classes::restored(class) {
            Some((strip, apply)) => {
                first.extend(strip);
                then.push(apply);
            }
            None => then.push(Operation::DeleteRuntimeClass {
                name: class.name().to_owned(),
                uid: class.object.metadata.uid.clone().unwrap_or_default(),
            }),
        }
    }
    (first, then)
}
