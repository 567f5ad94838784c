//! What becomes of a pool's workloads if its nodes move to another build, or its pods to another pool.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    Controller, Ground, Ledger, Pod, System, Template, WorkloadName,
    ground::{Kind, PoolGround},
    judge::{Lookups, image_story, remedy},
    placement::Effective,
};
use crate::{
    api::names::label,
    domain::{
        conditions::counted,
        image::{Known, Reference, Verdict, judge, tag},
        node::WindowsNode,
        operation::Operation,
        pool::{Pool, RuntimeClassView, Snapshot, Spec, plan::Planner},
        quantity::Quantity,
    },
    facts::{Build, OsVersion},
};

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

impl World<'_> {
    /// The pods of a pool by workload: those on it, and those that wait for it.
    fn of_pool(&self, pool: &str) -> BTreeMap<Arc<WorkloadName>, Vec<Arc<Pod>>> {
        let mut ledger = Ledger::default();
        ledger.stand_on(Ground::of(self.snapshot));
        let mut by_workload: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for pod in &self.pods {
            ledger.pod(&pod.key, Some(pod.clone()));
            if ledger.pool_of(&pod.key) == Some(pool) {
                by_workload.entry(pod.workload.clone()).or_default().push(pod.clone());
            }
        }
        by_workload
    }

    /// The images of a pool's workloads: what a registry may be asked for.
    pub fn images(&self, pool: &str) -> Vec<String> {
        let pods = self.of_pool(pool).into_values().flatten();
        let mut images: Vec<String> = pods
            .flat_map(|pod| pod.template.containers.iter().map(|container| container.image.clone()).collect::<Vec<_>>())
            .collect();
        images.sort();
        images.dedup();
        images
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
        let templates: HashMap<&WorkloadName, &Template> = self
            .controllers
            .iter()
            .map(|controller| (controller.workload.as_ref(), controller.template.as_ref()))
            .collect();
        let pods = self.of_pool(pool);
        let mut moves: Vec<Move> = pods
            .iter()
            .map(|(workload, pods)| {
                let template = templates.get(workload.as_ref()).copied();
                let outcome = outcome(&ground, destination, workload, template, &pods[0], lookups);
                Move { workload: workload.clone(), pods: pods.len(), outcome }
            })
            .collect();
        moves.sort_by(|a, b| (&a.outcome, &a.workload).cmp(&(&b.outcome, &b.workload)));
        let room = match target {
            Target::Version { .. } => None,
            Target::Pool(other) => Some(self.room(other, pods.values().flatten())),
        };
        Some(Migration { moves, room })
    }

    fn room<'p>(&self, pool: &str, coming: impl Iterator<Item = &'p Arc<Pod>>) -> Room {
        let planner = Planner::new(self.snapshot);
        let nodes: HashMap<&str, &WindowsNode> = planner.members(pool).map(|node| (node.name.as_str(), node)).collect();
        let offered = nodes.values().fold((0, 0), |sum, node| {
            let allocatable = &node.allocatable;
            (sum.0 + allocatable.memory.unwrap_or_default(), sum.1 + allocatable.pods.unwrap_or_default())
        });
        let there = |pod: &&Arc<Pod>| !pod.finished && pod.node.as_deref().is_some_and(|node| nodes.contains_key(node));
        let taken = self.pods.iter().filter(there).fold((0, 0), add);
        Room { free: (offered.0 - taken.0, offered.1 - taken.1), comes: coming.fold((0, 0), add) }
    }
}

/// What a pod asks for on top of a sum: memory in bytes, and itself.
fn add(sum: (i64, i64), pod: &Arc<Pod>) -> (i64, i64) {
    let asked = |container: &super::Container| container.memory_request.or(container.memory_limit);
    (sum.0 + pod.template.containers.iter().filter_map(asked).sum::<i64>(), sum.1 + 1)
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
    for operation in plan.steps.into_iter().flatten().chain(plan.withheld) {
        if let Operation::ApplyRuntimeClass { name, body, .. } = operation
            && let Ok(class) = serde_json::from_value::<k8s_openapi::api::node::v1::RuntimeClass>(body)
        {
            after.runtime_classes.insert(name, Arc::new(RuntimeClassView::from(class)));
        }
    }
    Some(after)
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

fn outcome(
    ground: &Ground,
    there: &PoolGround,
    workload: &WorkloadName,
    template: Option<&Template>,
    pod: &Pod,
    lookups: &dyn Lookups,
) -> Outcome {
    let effective = match template {
        Some(template) => Effective::of(template, ground),
        None => Effective::of_pod(&pod.template, ground),
    };
    let effective = match effective {
        Ok(effective) => effective,
        Err(obstacle) => return Outcome::Pinned(obstacle.to_string()),
    };
    let template = template.unwrap_or(&pod.template);
    if effective.system() == Some(System::Linux) {
        return Outcome::Pinned("it is for Linux".to_owned());
    }
    if workload.kind == "DaemonSet" && !takes(&Effective::alone(template), ground, there) {
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
    let class = effective.class.map(|(name, _)| name);
    match (effective.places(&alone), class) {
        (Err(obstacle), Some(class)) => {
            let others = there.classes.iter().map(|(name, _)| name.as_str()).filter(|name| *name != class);
            match others.collect::<Vec<_>>().join(", ") {
                others if others.is_empty() => obstacle.to_string(),
                others => format!("{obstacle}; RuntimeClass {class} leads elsewhere, {others} leads there"),
            }
        }
        (Err(obstacle), None) => obstacle.to_string(),
        (Ok(_), _) => "another pool takes it first".to_owned(),
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
                let remedy = remedy(ground, &reference, &misfit, &kind.host, true);
                Outcome::NoImage(format!("{}: {remedy}", image_story(image, evidence, &misfit, &kind.host)))
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
