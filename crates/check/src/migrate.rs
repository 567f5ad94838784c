//! Predicts which workloads of a pool run if its nodes get another Windows version, or its pods move to another pool.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use serde::Serialize;
use winpool_api::names::label;
use winpool_core::image::{Compatibility, ImageEvidence, Reference, tag};
use winpool_facts::{Build, Minor, OsVersion};
use winpool_rules::{
    capacity::Capacity,
    operation::{Action, Body},
    pool::{
        Pool, RuntimeClassView, Snapshot, Spec,
        plan::{Plan, Planner},
    },
};

use winpool_core::{
    kubernetes::quantity::Quantity,
    release_labels,
    text::{counted, some_of},
};
use winpool_workload::{
    Amount, Attached, Container, Controller, Pod, Requests, SchedulingState, Storage, System, Template, WorkloadIndex,
    WorkloadName,
    check::{Lookups, image_issue},
    placement::EffectiveSpec,
    scheduling_state::{NodeGroup, PoolState},
};

use super::add_ons::{self, AddOnFit};

pub use steps::{Step, steps};

/// The destination of a pool's workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationTarget {
    /// The pool's nodes get this Windows version, with the name in `spec.windowsVersion`.
    Version { name: String, build: Build },
    /// The pods move to the nodes of this pool.
    Pool(String),
}

/// The outcome of a migration for a workload, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum MigrationOutcome {
    NoImage,
    NotSchedulable,
    /// The DaemonSet controller does not create pods for the new nodes.
    NoPods,
    /// The nodes do not mount a volume.
    NotMounted,
    /// There is no evidence about an image, or the volumes are not checked.
    Unknown,
    Runs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadMigration {
    pub workload: Arc<WorkloadName>,
    pub pods: usize,
    pub outcome: MigrationOutcome,
    /// The reason and the remedy; empty if it runs.
    pub message: String,
}

/// The capacity of the other pool, by sums over its nodes. Whether every pod fits a node depends on the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCapacity {
    /// The allocatable amount that is not requested.
    pub free: Amount,
    /// The amount that the moved pods request.
    pub required: Amount,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    pub workloads: Vec<WorkloadMigration>,
    /// Whether the add-ons fit the new nodes, worst first.
    pub add_ons: Vec<AddOnFit>,
    /// The capacity of the other pool; `None` if the pool's own nodes change.
    pub capacity: Option<PoolCapacity>,
}

impl PoolCapacity {
    pub fn is_enough(&self) -> bool {
        self.required.memory <= self.free.memory && self.required.pods <= self.free.pods
    }

    pub fn description(&self) -> String {
        let pods = |amount: Amount| counted(usize::try_from(amount.pods).unwrap_or_default(), "pod");
        let memory = |amount: Amount| Quantity::of_bytes(amount.memory.max(0));
        format!(
            "{} with memory requests of {} would move, and the pool has capacity for {} and {} of memory",
            pods(self.required),
            memory(self.required),
            pods(self.free),
            memory(self.free)
        )
    }
}

/// Predicts migrations from the objects of a cluster.
pub struct MigrationPlanner<'a> {
    pub snapshot: &'a Snapshot,
    pub pods: Vec<Arc<Pod>>,
    /// The objects that create pods.
    pub controllers: Vec<Arc<Controller>>,
}

struct PoolWorkload<'w> {
    name: Arc<WorkloadName>,
    /// The template of its controller, if it has one.
    template: Option<&'w Template>,
    /// Its pods on the nodes of the pool, and those that can be scheduled to it.
    pods: Vec<Arc<Pod>>,
}

impl PoolWorkload<'_> {
    /// The template of its next pods: of the controller, or else of the existing pod.
    fn next_template(&self) -> Option<&Template> {
        self.template.or_else(|| Some(&self.pods.first()?.template))
    }
}

impl<'a> MigrationPlanner<'a> {
    /// With the pods of a snapshot; `None` if they were not read.
    pub fn of(snapshot: &'a Snapshot) -> Option<Self> {
        let pods = snapshot.pods.as_ref()?.values().cloned().collect();
        Some(Self { snapshot, pods, controllers: snapshot.controllers.iter().cloned().collect() })
    }

    /// The workloads with pods in a pool, and those without pods whose pods would be scheduled to it.
    fn workloads(&self, pool: &str) -> Vec<PoolWorkload<'_>> {
        let mut index = WorkloadIndex::default();
        index.set_state(self.snapshot.scheduling_state());
        let mut pods: BTreeMap<Arc<WorkloadName>, Vec<Arc<Pod>>> = BTreeMap::new();
        let mut in_other_pools = HashSet::new();
        for pod in &self.pods {
            index.set_pod(&pod.key, Some(pod.clone()));
            match index.pool_of(&pod.key) {
                Some(own) if own == pool => pods.entry(pod.workload.clone()).or_default().push(pod.clone()),
                Some(_) => drop(in_other_pools.insert(pod.workload.as_ref())),
                None => {}
            }
        }
        let finished = |controller: &Controller| controller.workload.kind == "Job" && !controller.active;
        let without_pods = self.controllers.iter().filter(|controller| {
            !finished(controller)
                && !in_other_pools.contains(controller.workload.as_ref())
                && is_first_pool(pool, &controller.template, index.state())
        });
        for controller in without_pods {
            pods.entry(controller.workload.clone()).or_default();
        }
        let templates: HashMap<&WorkloadName, &Template> =
            self.controllers.iter().map(|one| (one.workload.as_ref(), one.template.as_ref())).collect();
        let workload = |(name, pods): (Arc<WorkloadName>, Vec<Arc<Pod>>)| PoolWorkload {
            template: templates.get(name.as_ref()).copied(),
            name,
            pods,
        };
        pods.into_iter().map(workload).collect()
    }

    /// The images of the next pods of a pool.
    pub fn images(&self, pool: &str) -> BTreeSet<String> {
        let workloads = self.workloads(pool);
        let templates = workloads.iter().filter_map(PoolWorkload::next_template);
        templates.flat_map(|template| &template.containers).map(|container| container.image.raw().to_owned()).collect()
    }

    /// Predicts the migration of the workloads of a pool; `None` if the pool does not exist or its spec is invalid.
    pub fn plan(&self, pool: &str, target: &MigrationTarget, lookups: &Lookups) -> Option<Migration> {
        self.plan_changed(pool, target, lookups, |_| None)
    }

    /// The same, after the templates of controllers were changed.
    fn plan_changed(
        &self,
        pool: &str,
        target: &MigrationTarget,
        lookups: &Lookups,
        change: impl Fn(&Template) -> Option<Template>,
    ) -> Option<Migration> {
        let after = snapshot_after(self.snapshot, pool, target)?;
        let state = after.scheduling_state();
        let destination = match target {
            MigrationTarget::Version { .. } => pool,
            MigrationTarget::Pool(other) => other,
        };
        let planner = Planner::new(&after);
        let hosts = planner.members(destination).filter_map(|node| node.labels.get(label::HOSTNAME).cloned()).collect();
        let nodes = planner.members(destination).map(|node| node.name.as_str()).collect();
        let storage = self.snapshot.storage.known();
        let storage = storage.map(|storage| (storage, storage.attached(self.pods.iter().map(AsRef::as_ref))));
        let destination = Destination { state: &state, pool: state.pool(destination)?, hosts, lookups, nodes, storage };
        let mut workloads = self.workloads(pool);
        let changed: Vec<_> = workloads.iter().map(|workload| workload.template.and_then(&change)).collect();
        for (workload, changed) in workloads.iter_mut().zip(&changed) {
            workload.template = changed.as_ref().or(workload.template);
        }
        let migration = |workload: &PoolWorkload| {
            let (outcome, message) = destination.outcome(workload);
            WorkloadMigration { workload: workload.name.clone(), pods: workload.pods.len(), outcome, message }
        };
        let mut migrations: Vec<WorkloadMigration> = workloads.iter().map(migration).collect();
        migrations.sort_by(|a, b| (a.outcome, &a.workload).cmp(&(b.outcome, &b.workload)));
        let add_ons = add_ons(&workloads, destination.pool, self.snapshot.api_server);
        let capacity = match target {
            MigrationTarget::Version { .. } => None,
            MigrationTarget::Pool(other) => {
                // The number of DaemonSet pods depends on the nodes only.
                let moved = workloads.iter().filter(|workload| workload.name.kind != "DaemonSet");
                Some(self.capacity(other, moved.flat_map(|workload| &workload.pods)))
            }
        };
        Some(Migration { workloads: migrations, add_ons, capacity })
    }

    /// Whether the add-ons of a pool fit its nodes in a cluster of this minor, worst first.
    pub fn add_ons(&self, pool: &str, minor: Option<Minor>) -> Vec<AddOnFit> {
        let state = self.snapshot.scheduling_state();
        state.pool(pool).map(|state| add_ons(&self.workloads(pool), state, minor)).unwrap_or_default()
    }

    fn capacity<'p>(&self, pool: &str, moved: impl Iterator<Item = &'p Arc<Pod>>) -> PoolCapacity {
        let planner = Planner::new(self.snapshot);
        let free = Capacity::of(planner.members(pool), &Requests::of(&self.pods)).free;
        PoolCapacity {
            free,
            required: moved.map(|pod| Amount::of(&pod.template)).fold(Amount::default(), Amount::plus),
        }
    }
}

fn add_ons(workloads: &[PoolWorkload<'_>], pool: &PoolState, minor: Option<Minor>) -> Vec<AddOnFit> {
    let templates = workloads.iter().filter_map(|workload| Some((workload.name.as_ref(), workload.next_template()?)));
    let hosts = pool.groups.iter().map(|group| group.host.os).collect();
    add_ons::of(templates, &hosts, minor)
}

/// Whether a pool is the first that pods of a template can be scheduled to.
fn is_first_pool(pool: &str, template: &Template, state: &SchedulingState) -> bool {
    let pools = EffectiveSpec::of(template, state).map(|effective| effective.windows_pools(state)).unwrap_or_default();
    pools.first().is_some_and(|first| first.pool.name == pool)
}

/// The snapshot after the migration and the next reconcile.
fn snapshot_after(snapshot: &Snapshot, pool: &str, target: &MigrationTarget) -> Option<Snapshot> {
    let migrated = snapshot.pools.get(pool)?;
    let spec = migrated.spec.as_ref().ok()?;
    let planner = Planner::new(snapshot);
    let members: Vec<String> = planner.members(pool).map(|node| node.name.clone()).collect();
    let mut after = snapshot.clone();
    let MigrationTarget::Version { name, build } = target else {
        members.iter().for_each(|node| drop(after.nodes.remove(node)));
        return Some(after);
    };
    let runtime_classes = runtime_classes_after(spec, name);
    let spec = Spec { windows_version: name.clone(), build: *build, runtime_classes, ..spec.clone() };
    after.pools.insert(Pool { spec: Ok(spec), ..migrated.as_ref().clone() });
    for node in members {
        let Some(node) = after.nodes.get(&node) else { continue };
        let mut upgraded = node.as_ref().clone();
        upgraded.os = Ok(OsVersion { build: *build, revision: None });
        upgraded.labels.insert(label::WINDOWS_BUILD.to_owned(), build.to_string());
        let releases = upgraded.release_labels();
        release_labels::replace(&mut upgraded.labels, releases);
        after.nodes.insert(upgraded);
    }
    let plan = Planner::new(&after).plan(pool)?;
    planned_classes(plan).for_each(|class| drop(after.runtime_classes.insert(class)));
    Some(after)
}

/// The RuntimeClasses that a plan creates or changes.
fn planned_classes(plan: Plan) -> impl Iterator<Item = RuntimeClassView> {
    let writes = plan.steps.into_writes().chain(plan.withheld);
    writes.filter(|write| write.action == Action::ApplyRuntimeClass).filter_map(|write| {
        let Body::Value(body) = write.body else { return None };
        let class = serde_json::from_value::<k8s_openapi::api::node::v1::RuntimeClass>(body).ok()?;
        Some(RuntimeClassView::from(class))
    })
}

/// The RuntimeClasses of a pool after a change of its version: the name of the default one has the version.
fn runtime_classes_after(spec: &Spec, version: &str) -> Vec<winpool_rules::pool::RuntimeClass> {
    let default = format!("windows-{}", spec.windows_version.to_lowercase());
    let mut classes = spec.runtime_classes.clone();
    if let [only] = classes.as_mut_slice()
        && only.name == default
    {
        only.name = format!("windows-{}", version.to_lowercase());
    }
    classes
}

/// The pool that workloads move to, after the migration.
struct Destination<'d> {
    state: &'d SchedulingState,
    pool: &'d PoolState,
    hosts: HashSet<String>,
    lookups: &'d Lookups,
    nodes: Vec<&'d str>,
    storage: Option<(&'d Storage, Attached<'d>)>,
}

impl Destination<'_> {
    fn outcome(&self, workload: &PoolWorkload) -> (MigrationOutcome, String) {
        let Some(template) = workload.next_template() else { return (MigrationOutcome::Runs, String::new()) };
        let not_schedulable = |message: String| (MigrationOutcome::NotSchedulable, message);
        let selector = &template.scheduling.node_selector;
        if let Some(host) = selector.get(label::HOSTNAME).filter(|host| !self.hosts.contains(*host)) {
            let pool = &self.pool.name;
            return not_schedulable(format!(
                "nodeSelector selects node {host}, which is not in pool {pool}. Remove the selector"
            ));
        }
        let effective = match workload.template {
            Some(template) => EffectiveSpec::of(template, self.state),
            None => EffectiveSpec::of_pod(template, self.state),
        };
        let effective = match effective {
            Ok(effective) => effective,
            Err(reason) => return not_schedulable(reason.to_string()),
        };
        if effective.system() == Some(System::Linux) {
            return not_schedulable("it is for Linux".to_owned());
        }
        if workload.name.kind == "DaemonSet" && !self.fits(&EffectiveSpec::without_class(template)) {
            let message = format!(
                "the DaemonSet controller would create no pods in pool {}, because the template selects other nodes or does \
                 not tolerate their taints. Change the template",
                self.pool.name
            );
            return (MigrationOutcome::NoPods, message);
        }
        if !self.fits(&effective) {
            return not_schedulable(self.obstacle(&effective));
        }
        let outcomes = [self.worst_image(template), self.volumes(workload)];
        outcomes.into_iter().min_by_key(|(outcome, _)| *outcome).unwrap_or((MigrationOutcome::Runs, String::new()))
    }

    /// The outcome of the volumes of the existing pods, which have their claims.
    fn volumes(&self, workload: &PoolWorkload) -> (MigrationOutcome, String) {
        let mut pods = workload.pods.iter().filter(|pod| !pod.template.volumes.is_empty());
        match &self.storage {
            None if pods.next().is_some() => (MigrationOutcome::Unknown, "its volumes are not checked".to_owned()),
            None => (MigrationOutcome::Runs, String::new()),
            Some((storage, attached)) => {
                let issue = pods.find_map(|pod| storage.obstacle(pod, &self.nodes, attached));
                issue.map_or((MigrationOutcome::Runs, String::new()), |issue| {
                    (MigrationOutcome::NotMounted, issue.to_string())
                })
            }
        }
    }

    fn fits(&self, effective: &EffectiveSpec) -> bool {
        let pools = effective.schedulable_pools(self.state);
        pools.is_ok_and(|pools| pools.iter().any(|matching| matching.pool.name == self.pool.name))
    }

    /// Why pods cannot be scheduled to the pool.
    fn obstacle(&self, effective: &EffectiveSpec) -> String {
        let pool = &self.pool.name;
        let selects_others =
            effective.class.filter(|(_, class)| self.pool.groups.iter().all(|group| group.lacks(&class.scheduling)));
        if let Some((class, _)) = selects_others {
            let others = self.pool.classes.iter().map(|(name, _)| name.as_str()).filter(|name| *name != class);
            let remedy = match some_of(others) {
                others if others.is_empty() => "Remove runtimeClassName, and select the nodes".to_owned(),
                others => format!("Use RuntimeClass {others}"),
            };
            return format!("RuntimeClass {class} does not select the nodes of pool {pool}. {remedy}");
        }
        let only = SchedulingState { pools: vec![self.pool.clone()], ..self.state.clone() };
        match effective.schedulable_pools(&only) {
            Err(reason) => reason.to_string(),
            Ok(_) => format!("it is not scheduled to pool {pool} first"),
        }
    }

    /// The worst outcome of the images of a template on the groups of nodes. Reports of container runtimes are ignored,
    /// because they are about the current nodes.
    fn worst_image(&self, template: &Template) -> (MigrationOutcome, String) {
        let groups = &self.pool.groups;
        let pairs = template.containers.iter().flat_map(|container| groups.iter().map(move |group| (container, group)));
        let outcomes = pairs.map(|(container, group)| self.image_outcome(template, container, group));
        outcomes.min_by_key(|(outcome, _)| *outcome).unwrap_or((MigrationOutcome::Runs, String::new()))
    }

    fn image_outcome(
        &self,
        template: &Template,
        container: &Container,
        group: &NodeGroup,
    ) -> (MigrationOutcome, String) {
        let image = &container.image;
        let unknown = |message: String| (MigrationOutcome::Unknown, message);
        let Ok(reference) = image.raw().parse::<Reference>() else {
            return unknown(format!("\"{image}\" is not an image reference. Correct it"));
        };
        let lookup = self.lookups.get(image.raw()).map(Arc::as_ref);
        let isolation = self.state.isolation(template.runtime_class.as_deref());
        let evidence = ImageEvidence { report: None, lookup, reference: &reference };
        match evidence.compatibility(&group.host, isolation, container.host_process) {
            Compatibility::Compatible(_) => (MigrationOutcome::Runs, String::new()),
            Compatibility::Incompatible(source, incompatibility) => {
                let issue = image_issue(self.state, image, source, incompatibility, &group.host, true);
                (MigrationOutcome::NoImage, issue.to_string())
            }
            Compatibility::Unknown(Some(error)) => unknown(format!("the registry lookup of {image} failed: {error}")),
            Compatibility::Unknown(None) => unknown(match tag::suggested(&reference) {
                Some(_) => format!("{image} fits by its name only. Use --registry to look it up"),
                None => format!("there is no evidence about {image}. Use --registry to look it up"),
            }),
        }
    }
}

mod steps;
#[cfg(test)]
mod tests;
