//! What becomes of a pool's workloads if its nodes move to another build, or its pods to another pool.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{
    Controller, Ground, Ledger, Pod, System, Template, WorkloadName,
    ground::{Class, Kind, PoolGround},
    judge::{Lookups, image_story},
    placement::{Effective, Obstacle},
};
use crate::{
    api::names::label,
    domain::{
        conditions::counted,
        image::{Known, Reference, Verdict, judge, tag},
        node::WindowsNode,
        operation::Operation,
        pool::{
            Pool, RuntimeClassView, Snapshot, Spec,
            plan::{Plan, Planner},
        },
        quantity::Quantity,
    },
    facts::{Build, OsVersion},
};

/// The taint of a cordoned node: kubernetes/website, "Taints and Tolerations".
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// Where a pool's workloads are to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The pool's nodes get this Windows.
    Version {
        /// As `spec.windowsVersion` has it.
        name: String,
        /// The build that it means.
        build: Build,
    },
    /// The pods go to the nodes of this pool.
    Pool(String),
}

/// What becomes of a workload, worst first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// An image of it does not run there.
    NoImage(String),
    /// Selector, RuntimeClass or taints keep it from there.
    Pinned(String),
    /// A DaemonSet whose controller would make no pods there.
    WouldNotFollow(String),
    /// Of some image nobody knows.
    Unknown(String),
    /// It runs.
    Runs,
}

/// A workload, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The workload.
    pub workload: Arc<WorkloadName>,
    /// How many pods it has in the pool.
    pub pods: usize,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// Whether a pool has room for what comes, by sums over its nodes: whether each pod finds a node is for the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What the nodes offer and nobody has asked for: memory in bytes, and pods.
    pub free: (i64, i64),
    /// What comes: memory in bytes, and pods.
    pub comes: (i64, i64),
}

/// What a migration would meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// The workloads, worst first.
    pub moves: Vec<Move>,
    /// The room in the other pool; `None` when the pool's own nodes change.
    pub room: Option<Room>,
}

impl Room {
    /// Whether it is enough.
    pub fn is_enough(&self) -> bool {
        self.comes.0 <= self.free.0 && self.comes.1 <= self.free.1
    }

    /// What comes and what is free, in words.
    pub fn words(&self) -> String {
        let pods = |count: i64| counted(usize::try_from(count).unwrap_or_default(), "pod");
        let bytes = |amount: i64| Quantity::of_bytes(amount.max(0)).to_string();
        format!(
            "{} with requests for {} of memory would come, there is room for {} and {}",
            pods(self.comes.1),
            bytes(self.comes.0),
            pods(self.free.1),
            bytes(self.free.0)
        )
    }
}

/// The world as a migration is planned in it.
pub struct World<'a> {
    /// Pools, nodes and classes as they are.
    pub snapshot: &'a Snapshot,
    /// All pods.
    pub pods: Vec<Arc<Pod>>,
    /// What makes them.
    pub controllers: Vec<Arc<Controller>>,
}

/// A workload of a pool.
struct Moving<'w> {
    workload: Arc<WorkloadName>,
    /// What its pods are made of; `None` if nobody makes them anew.
    template: Option<&'w Template>,
    /// Its pods on the pool, and those that wait for it.
    pods: Vec<Arc<Pod>>,
}

impl Moving<'_> {
    /// The template of its next pods: of those that nobody makes anew, their own.
    fn next(&self) -> Option<&Template> {
        self.template.or_else(|| Some(&self.pods.first()?.template))
    }
}

impl World<'_> {
    /// The workloads of a pool: those with pods, and those that would have some there if they wanted any.
    fn workloads(&self, pool: &str) -> Vec<Moving<'_>> {
        let mut ledger = Ledger::default();
        ledger.stand_on(Ground::of(self.snapshot));
        let mut pods: BTreeMap<Arc<WorkloadName>, Vec<Arc<Pod>>> = BTreeMap::new();
        let mut elsewhere = HashSet::new();
        for pod in &self.pods {
            ledger.pod(&pod.key, Some(pod.clone()));
            match ledger.pool_of(&pod.key) {
                Some(own) if own == pool => pods.entry(pod.workload.clone()).or_default().push(pod.clone()),
                Some(_) => {
                    elsewhere.insert(pod.workload.as_ref());
                }
                None => {}
            }
        }
        let ended = |controller: &Controller| controller.workload.kind == "Job" && !controller.active;
        let idle = self.controllers.iter().filter(|one| !ended(one) && !elsewhere.contains(one.workload.as_ref()));
        let idle = idle.filter(|controller| is_bound_for(pool, &controller.template, ledger.ground()));
        for controller in idle {
            pods.entry(controller.workload.clone()).or_default();
        }
        let templates: HashMap<&WorkloadName, &Template> =
            self.controllers.iter().map(|one| (one.workload.as_ref(), one.template.as_ref())).collect();
        let moving = |(workload, pods): (Arc<WorkloadName>, Vec<Arc<Pod>>)| Moving {
            template: templates.get(workload.as_ref()).copied(),
            workload,
            pods,
        };
        pods.into_iter().map(moving).collect()
    }

    /// The images that the pods of a pool would have after a restart: what a registry may be asked for.
    pub fn images(&self, pool: &str) -> BTreeSet<String> {
        let workloads = self.workloads(pool);
        let next = workloads.iter().filter_map(Moving::next);
        next.flat_map(|template| &template.containers).map(|container| container.image.clone()).collect()
    }

    /// What becomes of the workloads of a pool; `None` if there is no such pool, or it has mistakes.
    pub fn migrate(&self, pool: &str, target: &Target, lookups: &dyn Lookups) -> Option<Migration> {
        let after = after(self.snapshot, pool, target)?;
        let ground = Ground::of(&after);
        let there = match target {
            Target::Version { .. } => pool,
            Target::Pool(other) => other,
        };
        let destination = ground.pool(there)?;
        let planner = Planner::new(&after);
        let hosts: HashSet<&str> = planner.members(there).filter_map(hostname).collect();
        let workloads = self.workloads(pool);
        let outcome = |moving: &Moving| {
            let host = moving.next().and_then(selected_host).filter(|host| !hosts.contains(host));
            match host {
                Some(host) => Outcome::Pinned(format!("it selects the node {host}, which is not there")),
                None => outcome(&ground, destination, moving, lookups),
            }
        };
        let mut moves: Vec<Move> = workloads
            .iter()
            .map(|moving| Move { workload: moving.workload.clone(), pods: moving.pods.len(), outcome: outcome(moving) })
            .collect();
        moves.sort_by(|a, b| (&a.outcome, &a.workload).cmp(&(&b.outcome, &b.workload)));
        let room = match target {
            Target::Version { .. } => None,
            Target::Pool(other) => {
                // A DaemonSet has its pods by the node, whatever else comes.
                let come = workloads.iter().filter(|moving| moving.workload.kind != "DaemonSet");
                Some(self.room(other, come.flat_map(|moving| &moving.pods)))
            }
        };
        Some(Migration { moves, room })
    }

    fn room<'p>(&self, pool: &str, coming: impl Iterator<Item = &'p Arc<Pod>>) -> Room {
        let planner = Planner::new(self.snapshot);
        let open = planner.members(pool).filter(|node| takes_pods(node));
        let nodes: HashMap<&str, &WindowsNode> = open.map(|node| (node.name.as_str(), node)).collect();
        let offered = nodes.values().fold((0, 0), |sum, node| {
            let allocatable = &node.allocatable;
            sums(sum, (allocatable.memory.unwrap_or_default(), allocatable.pods.unwrap_or_default()))
        });
        let there = |pod: &&Arc<Pod>| !pod.finished && pod.node.as_deref().is_some_and(|node| nodes.contains_key(node));
        let taken = self.pods.iter().filter(there).fold((0, 0), add);
        let free = (offered.0.saturating_sub(taken.0), offered.1.saturating_sub(taken.1));
        Room { free, comes: coming.fold((0, 0), add) }
    }
}

/// Whether pods of a template would go to a pool first.
fn is_bound_for(pool: &str, template: &Template, ground: &Ground) -> bool {
    let places = Effective::of(template, ground).map(|effective| effective.destinations(ground)).unwrap_or_default();
    places.first().is_some_and(|(first, _)| first.name == pool)
}

/// Whether a node takes pods at the moment: it is ready and not cordoned.
fn takes_pods(node: &WindowsNode) -> bool {
    node.ready && node.taints.iter().all(|taint| taint.key != CORDONED)
}

/// What a node calls its host.
fn hostname(node: &WindowsNode) -> Option<&str> {
    node.labels.get(label::HOSTNAME).map(String::as_str)
}

/// The host that a template selects.
fn selected_host(template: &Template) -> Option<&str> {
    template.scheduling.node_selector.get(label::HOSTNAME).map(String::as_str)
}

/// What a pod asks for on top of a sum: memory in bytes, and itself.
fn add(sum: (i64, i64), pod: &Arc<Pod>) -> (i64, i64) {
    sums(sum, (pod.template.memory_request(), 1))
}

/// Memory and pods, each added up to `i64::MAX` at most.
fn sums(one: (i64, i64), other: (i64, i64)) -> (i64, i64) {
    (one.0.saturating_add(other.0), one.1.saturating_add(other.1))
}

/// The world after the migration, as the operator would make it.
fn after(snapshot: &Snapshot, pool: &str, target: &Target) -> Option<Snapshot> {
    let moving = snapshot.pools.get(pool)?;
    let spec = moving.spec.as_ref().ok()?;
    let planner = Planner::new(snapshot);
    let members: Vec<String> = planner.members(pool).map(|node| node.name.clone()).collect();
    let mut after = snapshot.clone();
    let Target::Version { name, build } = target else {
        after.nodes.retain(|node, _| !members.contains(node));
        return Some(after);
    };
    let spec =
        Spec { windows_version: name.clone(), build: *build, runtime_classes: classes(spec, name), ..spec.clone() };
    after.pools.insert(pool.to_owned(), Arc::new(Pool { spec: Ok(spec), ..moving.as_ref().clone() }));
    for node in members {
        let Some(node) = after.nodes.get_mut(&node) else { continue };
        let mut moved = node.as_ref().clone();
        moved.os = Ok(OsVersion { build: *build, revision: None });
        moved.labels.insert(label::WINDOWS_BUILD.to_owned(), build.to_string());
        *node = Arc::new(moved);
    }
    let plan = Planner::new(&after).plan(pool)?;
    after.runtime_classes.extend(planned_classes(plan));
    Some(after)
}

/// The RuntimeClasses that a plan makes or changes.
fn planned_classes(plan: Plan) -> impl Iterator<Item = (String, Arc<RuntimeClassView>)> {
    plan.steps.into_iter().flatten().chain(plan.withheld).filter_map(|operation| {
        let Operation::ApplyRuntimeClass { name, body, .. } = operation else { return None };
        let class = serde_json::from_value::<k8s_openapi::api::node::v1::RuntimeClass>(body).ok()?;
        Some((name, Arc::new(RuntimeClassView::from(class))))
    })
}

/// The RuntimeClasses of the pool after a change of its version: the one that is made by default has the version in its
/// name.
fn classes(spec: &Spec, version: &str) -> Vec<crate::domain::pool::RuntimeClass> {
    let default = format!("windows-{}", spec.windows_version.to_lowercase());
    let mut classes = spec.runtime_classes.clone();
    if let [only] = classes.as_mut_slice()
        && only.name == default
    {
        only.name = format!("windows-{}", version.to_lowercase());
    }
    classes
}

fn outcome(ground: &Ground, there: &PoolGround, moving: &Moving, lookups: &dyn Lookups) -> Outcome {
    let Some(template) = moving.next() else { return Outcome::Runs };
    let effective = match moving.template {
        Some(template) => Effective::of(template, ground),
        None => Effective::of_pod(template, ground),
    };
    let effective = match effective {
        Ok(effective) => effective,
        Err(obstacle) => return Outcome::Pinned(obstacle.to_string()),
    };
    if effective.system() == Some(System::Linux) {
        return Outcome::Pinned("it is for Linux".to_owned());
    }
    if moving.workload.kind == "DaemonSet" && !takes(&Effective::alone(template), ground, there) {
        let story = "the DaemonSet controller makes no pods there: its template selects other nodes, or does not tolerate their taints";
        return Outcome::WouldNotFollow(story.to_owned());
    }
    if !takes(&effective, ground, there) {
        return Outcome::Pinned(in_the_way(&effective, ground, there));
    }
    images(ground, there, template, lookups)
}

fn takes(effective: &Effective, ground: &Ground, there: &PoolGround) -> bool {
    effective.places(ground).is_ok_and(|places| places.iter().any(|(pool, _)| pool.name == there.name))
}

/// What keeps a pod from a pool.
fn in_the_way(effective: &Effective, ground: &Ground, there: &PoolGround) -> String {
    let alone = Ground { pools: vec![there.clone()], ..ground.clone() };
    let Err(obstacle) = effective.places(&alone) else { return "another pool takes it first".to_owned() };
    let leads_elsewhere = |class: &Class| there.kinds.iter().all(|kind| kind.lacks(&class.scheduling));
    match (effective.class.filter(|(_, class)| leads_elsewhere(class)), obstacle) {
        (Some((class, _)), _) => {
            let others = there.classes.iter().map(|(name, _)| name.as_str()).filter(|name| *name != class);
            match others.collect::<Vec<_>>().join(", ") {
                others if others.is_empty() => {
                    format!("RuntimeClass {class} leads elsewhere: remove it, and select the nodes")
                }
                others => format!("RuntimeClass {class} leads elsewhere: use {others}"),
            }
        }
        (None, Obstacle::Selector { missed, .. }) => format!("no node there has {missed}: correct the selector"),
        (None, obstacle) => obstacle.to_string(),
    }
}

/// The worst of the images on the kinds of nodes there. What runs on the nodes of today proves nothing for those.
fn images(ground: &Ground, there: &PoolGround, template: &Template, lookups: &dyn Lookups) -> Outcome {
    let isolation = ground.isolation(template.runtime_class.as_deref());
    let judged = template.containers.iter().flat_map(|container| there.kinds.iter().map(move |kind| (container, kind)));
    let outcome = |(container, kind): (&super::Container, &Kind)| {
        let image = &container.image;
        let Ok(reference) = image.parse::<Reference>() else {
            return Outcome::Unknown(format!("{image:?} is not the name of an image"));
        };
        let lookup = lookups.get(image);
        let known = Known { said: None, lookup: lookup.as_deref(), reference: &reference };
        match judge(known, &kind.host, isolation, container.host_process) {
            Verdict::Runs(_) => Outcome::Runs,
            Verdict::CannotRun(evidence, misfit) => {
                Outcome::NoImage(image_story(ground, image, evidence, &misfit, &kind.host))
            }
            Verdict::Unknown(Some(why)) => Outcome::Unknown(format!("the registry of {image} does not say: {why}")),
            Verdict::Unknown(None) => Outcome::Unknown(match tag::suggested(&reference) {
                Some(_) => format!("by its name {image} fits; ask its registry to be sure"),
                None => format!("nothing tells of {image}; ask its registry"),
            }),
        }
    };
    judged.map(outcome).min().unwrap_or(Outcome::Runs)
}

#[cfg(test)]
mod tests;
