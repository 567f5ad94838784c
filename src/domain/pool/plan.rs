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
    nodes::{self, Config, NodePlan, Wish},
    status,
};
use crate::{
    api::{
        Applied, DeletionPolicy, TaintEffect,
        names::{FINALIZER, label},
    },
    domain::{
        node::WindowsNode,
        operation::{NodePatch, Operation},
        owned::{Origin, Proof, TaintKey},
    },
};

/// The plan for one pool.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pool.
    pub pool: Arc<Pool>,
    /// What to write. The operations of one step are independent of each other; a step begins when all of the one
    /// before are done. Cutting the list anywhere and planning again converges.
    pub steps: Vec<Vec<Operation>>,
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
    for (_, pool) in snapshot.pools.iter_mut().filter(|(name, _)| names.contains(*name)) {
        *pool = Arc::new(Pool { deleting: true, ..pool.as_ref().clone() });
    }
    let planner = Planner::new(&snapshot);
    snapshot.pools.iter().filter(|(name, _)| names.contains(*name)).map(|(_, pool)| planner.clean_up(pool)).collect()
}

/// Plans the pools of one snapshot: what their plans have in common is worked out once.
pub struct Planner<'a> {
    snapshot: &'a Snapshot,
    assigner: Assigner<'a>,
    proof: Proof,
    territories: HashMap<&'a str, Territory>,
    newcomers: Vec<Newcomer>,
}

/// The nodes that concern a pool.
#[derive(Default)]
struct Territory {
    /// Nodes of the pool, and whether they are held.
    members: Vec<(Arc<WindowsNode>, bool)>,
    /// Nodes that no pool has any more and that this one may let go.
    released: Vec<Arc<WindowsNode>>,
    contested: Vec<(String, Vec<String>)>,
}

impl<'a> Planner<'a> {
    /// Prepares the plans for a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let assigner = snapshot.assigner();
        let mut territories: HashMap<&str, Territory> = HashMap::new();
        for node in snapshot.nodes.values() {
            let assignment = assigner.assign(node);
            match (assignment.pool, node.pool()) {
                (Some(pool), _) => {
                    territories.entry(pool).or_default().members.push((node.clone(), assignment.held));
                }
                (None, Some(former)) => territories.entry(former).or_default().released.push(node.clone()),
                (None, None) => {}
            }
            for pool in &assignment.contested {
                let others = assignment.contested.iter().map(|name| (*name).to_owned()).collect();
                territories.entry(pool).or_default().contested.push((node.name.clone(), others));
            }
        }
        Self {
            snapshot,
            assigner,
            proof: Proof::of(snapshot.pools.values().map(|pool| &pool.status)),
            territories,
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
        self.territories.get(name).into_iter().flat_map(|territory| &territory.members).map(|(node, _)| node.as_ref())
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
            (Err(_), false) => {
                Plan { pool: pool.clone(), steps: Vec::new(), withheld: Vec::new(), phase: Phase::Invalid }
            }
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
        let nobodys = Territory::default();
        let territory = self.territories.get(pool.name.as_str()).unwrap_or(&nobodys);
        let nodes: Vec<&WindowsNode> = territory.members.iter().map(|(node, _)| node.as_ref()).collect();
        let may_evict = nodes.is_empty() || pool.allows(pool.allow_evict.as_ref());
        let withheld = withheld_taints(pool, spec, may_evict);
        let wish =
            Wish { pool: &pool.name, labels: &spec.labels, taints: &spec.taints, withheld: &withheld, may_evict };
        let configs = configs::plan(snapshot, pool, spec, &nodes, &self.newcomers);
        let classes = classes::plan(snapshot, pool, spec, &nodes);
        let mut judge = delivery::Judge::new(snapshot, spec);
        let mut planner = nodes::Planner::new(snapshot, &self.proof, Some(wish));
        let mut members = Vec::with_capacity(territory.members.len());
        for (node, held) in &territory.members {
            let delivery = judge.of(node);
            let registered = delivery == Some(delivery::State::InEffect);
            let config = match (&configs.state, configs.name_for(node)) {
                (configs::ConfigState::NotUsed, _) => Config::None,
                (_, Some(name)) => Config::Named(name),
                (_, None) => Config::AsItIs,
            };
            let plan = planner.plan(node, config, registered);
            members.push(Member { node: node.clone(), held: *held, plan, delivery });
        }
        let guarded = members.iter().filter_map(|member| nodes::patch(&member.node, &member.plan));
        let patches: Vec<_> = guarded.chain(self.released(&territory.released)).collect();
        let applied = applied(snapshot, &self.proof, pool, spec, &withheld, &members);

        let before = [finalizer(pool, spec, has_finalizer), record(pool, &applied)];
        let steps = vec![
            before.into_iter().flatten().collect(),
            classes.iter().filter_map(|class| class.widen.clone()).chain(configs.create.iter().cloned()).collect(),
            patches.into_iter().map(Operation::PatchNode).collect(),
            classes.iter().filter_map(|class| class.settle.clone()).chain(configs.prune.iter().cloned()).collect(),
            classes.iter().filter_map(|class| class.strip.clone()).collect(),
        ];
        let falls_back = spec.members == super::Members::Fallback;
        let active = Active {
            members,
            contested: territory.contested.clone(),
            other_fallback: self.assigner.fallback().filter(|name| falls_back && *name != pool.name).map(str::to_owned),
            classes,
            configs,
            applied,
        };
        Plan { pool: pool.clone(), steps, withheld: Vec::new(), phase: Phase::Active(Box::new(active)) }
    }

    /// The writes that take what is ours off nodes.
    fn released<'n>(
        &'n self,
        nodes: impl IntoIterator<Item = &'n Arc<WindowsNode>>,
    ) -> impl Iterator<Item = Arc<NodePatch>> {
        let mut planner = nodes::Planner::new(self.snapshot, &self.proof, None);
        nodes.into_iter().filter_map(move |node| nodes::patch(node, &planner.plan(node, Config::None, false)))
    }

    /// Takes off what is ours, in reverse order: nodes, then classes and configurations, then the finalizer. A node that
    /// another pool is about to take is left to it, so that it is never unguarded between the two.
    fn clean_up(&self, pool: &Arc<Pool>) -> Plan {
        let snapshot = self.snapshot;
        let taken = |node: &WindowsNode| {
            let next = self.assigner.assign(node).pool.and_then(|name| snapshot.pools.get(name));
            next.is_some_and(|next| next.enforces())
        };
        let ours = snapshot.nodes.values().filter(|node| node.pool() == Some(&pool.name));
        let (handed_over, let_go): (Vec<_>, Vec<_>) = ours.partition(|node| taken(node));
        let patches = self.released(let_go.iter().copied());
        let mut steps = vec![patches.map(Operation::PatchNode).collect::<Vec<_>>()];
        if handed_over.is_empty() {
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
        };
        Plan { pool: pool.clone(), steps, withheld: Vec::new(), phase }
    }
}

/// NoExecute taints that the pool has not set before and that would evict pods from nodes it has.
fn withheld_taints(pool: &Pool, spec: &Spec, may_evict: bool) -> Vec<TaintKey> {
    if may_evict {
        return Vec::new();
    }
    let evicting = spec.taints.iter().filter(|taint| taint.effect == TaintEffect::NoExecute).map(TaintKey::from);
    evicting.filter(|key| !pool.status.applied.taints.contains(&key.to_string())).collect()
}

/// Every key that the pool sets, and those it has set that are still on some node.
fn applied(
    snapshot: &Snapshot,
    proof: &Proof,
    pool: &Pool,
    spec: &Spec,
    withheld: &[TaintKey],
    members: &[Member],
) -> Applied {
    let wanted =
        spec.taints.iter().map(TaintKey::from).filter(|key| !withheld.contains(key)).map(|key| key.to_string());
    let mut taints: BTreeSet<String> = wanted.collect();
    let mut labels: BTreeSet<String> = spec.labels.keys().cloned().collect();
    // The build is a label that only some nodes need; a node taken over from another pool may have it from there.
    let has_our_build = |member: &Member| {
        let change = member.plan.change.as_ref();
        let added = change.and_then(|change| change.body["metadata"]["labels"].get(label::WINDOWS_BUILD));
        added.is_some_and(|value| !value.is_null()) || proof.has_label(member.node.owned.as_ref(), label::WINDOWS_BUILD)
    };
    labels.extend(members.iter().any(has_our_build).then(|| label::WINDOWS_BUILD.to_owned()));
    let before = &pool.status.applied;
    if before.taints.is_empty() && before.labels.is_empty() {
        return Applied { taints: taints.into_iter().collect(), labels: labels.into_iter().collect() };
    }
    let (mut owned_taints, mut owned_labels) = (BTreeSet::new(), BTreeSet::new());
    for owned in snapshot.nodes.values().filter_map(|node| node.owned.as_ref()) {
        owned_taints.extend(owned.taints.iter().filter(|(_, origin)| **origin == Origin::Added).map(|(key, _)| key));
        owned_labels.extend(owned.labels.iter().filter(|(_, origin)| **origin == Origin::Added).map(|(key, _)| key));
    }
    taints.extend(owned_taints.into_iter().map(ToString::to_string).filter(|key| before.taints.contains(key)));
    labels.extend(owned_labels.into_iter().filter(|key| before.labels.contains(key)).cloned());
    Applied { taints: taints.into_iter().collect(), labels: labels.into_iter().collect() }
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
    let steps = vec![has_finalizer.then(|| remove_finalizer(pool)).into_iter().collect()];
    Plan { pool: pool.clone(), steps, withheld: Vec::new(), phase: Phase::Leaving }
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
