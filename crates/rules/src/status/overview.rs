//! What is wrong with pools, the worst first, and how far their rollouts are: what `winpool status` prints.

mod cluster_api;
mod commands;
mod issues;
mod progress;

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use winpool_api::{
    conditions::{CONDITIONS, ConditionType, Harm, READY, Role, Subject},
    names::reason,
};
use winpool_core::{Objects, text::counted};
use winpool_workload::{NodeDrivers, WorkloadIndex, Workloads};

use super::pool::{Affected, affected, reported_issues};
use crate::{
    capacity::Capacity,
    pool::{
        Pool, Snapshot,
        plan::{Plan, Planner},
    },
};

pub use cluster_api::{MachineObject, problems as machine_problems};
pub use commands::Places;
pub use issues::IssueOverview;
pub use progress::{PoolProgress, Share};

#[derive(Clone, Debug, Default)]
pub struct ObservedCluster {
    pub pools: Objects<Pool>,
    /// The other objects, with which affected nodes and workloads are named; `None` if they could not be read.
    pub snapshot: Option<Snapshot>,
    /// The MachineDeployments, MachinePools and MachineSets in the namespaces of pools.
    pub machines: Vec<MachineObject>,
    pub namespace: String,
    /// The CSI drivers of nodes; `None` unless the capacity is asked for.
    pub drivers: Option<Objects<NodeDrivers>>,
    /// What could not be read, and why.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The pools: those with the worst problem first, then by name.
    pub pools: Vec<PoolOverview>,
    pub nodes_in_no_pool: Vec<String>,
    /// The known issues of nodes, once for all pools, the worst first.
    pub known_issues: Vec<IssueOverview>,
    /// What could not be read, and why.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolOverview {
    pub name: String,
    pub nodes: u32,
    /// Of these, nodes that are Ready.
    pub ready_nodes: u32,
    /// The status of `Ready`; `None` without one.
    pub ready: Option<String>,
    pub reason: Option<String>,
    pub problems: Vec<PoolProblem>,
    /// The rollout of a configuration, or the rotation of machines, that is not complete.
    pub progress: Option<PoolProgress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolProblem {
    /// The type of the condition; `Operator` if the operator has written no status for the spec.
    #[serde(rename = "type")]
    pub condition: String,
    pub reason: String,
    /// The object of Cluster API that has the condition; `None` for the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    pub harm: Harm,
    pub subject: &'static str,
    /// As the column PROBLEM names it.
    pub problem: String,
    pub message: String,
    /// The number of affected nodes or else workloads, if it is known.
    pub count: Option<usize>,
    pub nodes: Vec<String>,
    pub workloads: Vec<String>,
    pub commands: Vec<String>,
}

impl Overview {
    /// The overview of these pools, or of all and of nodes without a pool.
    pub fn new(observed: &ObservedCluster, names: &BTreeSet<String>) -> Self {
        let planner = observed.snapshot.as_ref().map(Planner::new);
        let selected = observed.pools.values().filter(|pool| names.is_empty() || names.contains(&pool.name));
        let mut found = Vec::new();
        let overview = |pool: &Arc<Pool>| {
            let plan = planner.as_ref().and_then(|planner| planner.plan(&pool.name));
            if let (Some(snapshot), Some(plan)) = (&observed.snapshot, &plan) {
                found.push((pool.name.clone(), reported_issues(snapshot, plan)));
            }
            let capacity = planner.as_ref().and_then(|planner| capacity(observed, planner, &pool.name));
            PoolOverview { capacity, ..PoolOverview::new(observed, pool, plan.as_ref()) }
        };
        let mut pools: Vec<_> = selected.map(overview).collect();
        let known_issues = issues::of_pools(&found);
        // The order is otherwise that of the names. A pool without problems comes last.
        pools.sort_by_key(|pool| Reverse(pool.problems.iter().map(|problem| Reverse(problem.harm)).max()));
        let unassigned = planner.iter().filter(|_| names.is_empty()).flat_map(Planner::unassigned);
        let nodes_in_no_pool = unassigned.map(|node| node.name.clone()).collect();
        Self { pools, nodes_in_no_pool, known_issues, notes: observed.notes.clone() }
    }

    /// What is wrong, in one line; `None` if nothing.
    pub fn summary(&self) -> Option<String> {
        let wrong = self.pools.iter().filter(|pool| !pool.problems.is_empty());
        let problems = self.pools.iter().map(|pool| pool.problems.len()).sum();
        let summary = || format!("{} in {}", counted(problems, "problem"), counted(wrong.count(), "pool"));
        (problems > 0).then(summary)
    }

    /// Whether a rollout or rotation runs, or the operator has not reconciled the spec yet.
    pub fn is_running(&self) -> bool {
        self.pools.iter().filter_map(|pool| pool.progress.as_ref()).any(|progress| progress.running)
    }
}

impl PoolOverview {
    fn new(observed: &ObservedCluster, pool: &Pool, plan: Option<&Plan>) -> Self {
        let status = &pool.status;
        let ready = status.condition(&READY);
        let affected_by = |condition: &Condition| match (&observed.snapshot, plan) {
            (Some(snapshot), Some(plan)) => affected(snapshot, plan, &condition.type_, &condition.reason),
            _ => Affected::default(),
        };
        let places = commands::Places::new(pool, &observed.namespace);
        let mut problems: Vec<_> = found(pool)
            .map(|(of, condition)| PoolProblem::of_condition(of, condition, affected_by(condition), &places))
            .chain(cluster_api::problems(pool, &observed.machines))
            .chain(not_reconciled(pool, &places))
            .collect();
        if let Some(ready) = ready.filter(|ready| problems.is_empty() && ready.status == "False") {
            problems.push(PoolProblem::of_condition(&READY, ready, Affected::default(), &places));
        }
        problems.sort_by_key(|problem| problem.harm);
        Self {
            name: pool.name.clone(),
            nodes: status.nodes.matched,
            ready_nodes: status.nodes.ready,
            ready: ready.map(|ready| ready.status.clone()),
            reason: ready.map(|ready| ready.reason.clone()),
            progress: PoolProgress::of(pool, plan),
            problems,
            capacity: None,
        }
    }
}

impl PoolProblem {
    fn of_condition(of: &ConditionType, condition: &Condition, affected: Affected, places: &commands::Places) -> Self {
        let Affected { nodes, workloads, workload_count } = affected;
        let mut commands = places.commands(of.name, &condition.reason);
        commands.push(format!("winpool explain {}/{}", of.name, condition.reason));
        let found = (of.name, condition.reason.as_str(), condition.message.clone());
        Self {
            problem: of.problem_name(&condition.reason),
            message: places.message(&condition.message, &commands),
            count: [nodes.len(), workload_count].into_iter().find(|count| *count > 0),
            nodes,
            workloads,
            commands,
            ..Self::new(found, of.harm_of(&condition.reason), of.subject_of(&condition.reason))
        }
    }

    /// A problem from its type, reason and message, that affects no known objects.
    fn new((condition, reason, message): (&str, &str, String), harm: Harm, subject: Subject) -> Self {
        Self {
            condition: condition.to_owned(),
            reason: reason.to_owned(),
            object: None,
            harm,
            subject: subject.name(),
            problem: format!("{}/{reason}", subject.name()),
            message,
            count: None,
            nodes: Vec::new(),
            workloads: Vec::new(),
            commands: Vec::new(),
        }
    }
}

/// The capacity of a pool, if it is asked for and the pods were read.
fn capacity(observed: &ObservedCluster, planner: &Planner, pool: &str) -> Option<Capacity> {
    let (drivers, workloads) = (observed.drivers.as_ref()?, observed.snapshot.as_ref()?.workloads.of(pool)?);
    let mut capacity = Capacity::of(planner.members(pool), &workloads.requests);
    let of_members = planner.members(pool).filter_map(|node| drivers.get(&node.name)).flat_map(|node| &node.limits);
    for (driver, limit) in of_members.filter_map(|(driver, limit)| Some((driver, (*limit)?))) {
        let lowest = capacity.attach_limits.entry(driver.clone()).or_insert(limit);
        *lowest = (*lowest).min(limit);
    }
    Some(capacity)
}

/// The conditions other than summaries that report problems, in the order of the table.
fn found(pool: &Pool) -> impl Iterator<Item = (&'static ConditionType, &Condition)> {
    let stored = CONDITIONS.iter().filter_map(|of| Some((*of, pool.status.condition(of)?)));
    stored.filter(|(of, condition)| of.role != Role::Summary && of.is_problem(&condition.status, &condition.reason))
}

/// The generation that the status is for; `None` if the operator has not written it. -1 is the default of the schema.
fn observed_generation(pool: &Pool) -> Option<i64> {
    pool.status.observed_generation.filter(|generation| *generation > 0)
}

/// That the status is not that of the spec.
fn not_reconciled(pool: &Pool, places: &commands::Places) -> Option<PoolProblem> {
    let (reason, harm, message) = match observed_generation(pool) {
        None => (
            "NotReconciled",
            Harm::NotApplied,
            "the pool has no status: the operator has not reconciled it yet, or does not run".to_owned(),
        ),
        Some(observed) if observed < pool.generation => (
            "StatusOutdated",
            Harm::Notice,
            format!(
                "the status is for generation {observed}, and the spec has generation {}: the operator has not reconciled \
                 it yet, or does not run",
                pool.generation
            ),
        ),
        Some(_) => return None,
    };
    let commands = places.commands("Operator", reason);
    let problem = format!("Operator/{reason}");
    Some(PoolProblem { commands, problem, ..PoolProblem::new(("Operator", reason, message), harm, Subject::Spec) })
}

/// Whether the problems of a pool may be about pods, which are read only then.
pub fn needs_pods(pool: &Pool) -> bool {
    const ABOUT_PODS: &[&str] = &[reason::WOULD_EVICT, reason::WOULD_STRAND_PODS];
    let is_about = |(of, condition): (&ConditionType, &Condition)| {
        of.subject_of(&condition.reason) == Subject::Pods || ABOUT_PODS.contains(&condition.reason.as_str())
    };
    found(pool).any(is_about)
}

/// The workloads of the pools of a snapshot that has pods.
pub fn workloads(snapshot: &Snapshot) -> Workloads {
    let mut index = WorkloadIndex::default();
    for controller in snapshot.controllers.iter() {
        index.set_controller(&controller.workload, Some(controller.clone()));
    }
    for pod in snapshot.pods.iter().flat_map(Objects::values) {
        index.set_pod(&pod.key, Some(pod.clone()));
    }
    index.set_state(snapshot.scheduling_state());
    Workloads::Known(snapshot.pools.names().map(|pool| (pool.to_owned(), Arc::new(index.summary(pool)))).collect())
}

#[cfg(test)]
mod tests;
