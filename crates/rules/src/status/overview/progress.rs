//! How far the rollout of a configuration, or the rotation of machines, is.

use jiff::Timestamp;
use serde::Serialize;
use winpool_api::{
    conditions::{Next, RECONCILING, condition_type},
    names::reason,
};

use super::observed_generation;
use crate::pool::{
    Pool,
    delivery::DeliveryState,
    plan::{ActivePool, Plan},
    rollout::{RolloutPlan, RolloutProgress, RolloutState},
};

/// A rollout or rotation that is not complete, or a spec that is being applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolProgress {
    /// Whether the operator, the agents or Cluster API are at work, or the operator has not reconciled the spec yet.
    pub running: bool,
    /// The nodes that run their configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Share>,
    /// The machines from the current template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<Share>,
    pub in_work: Vec<String>,
    /// The nodes that wait, in their order.
    pub next: Vec<String>,
    /// When the maintenance window begins that nodes or machines wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_window: Option<Timestamp>,
    /// When the first node began to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    pub done: usize,
    pub total: usize,
}

impl Share {
    fn incomplete(done: impl TryInto<usize>, total: impl TryInto<usize>) -> Option<Self> {
        let (done, total) = (done.try_into().ok()?, total.try_into().ok()?);
        (done < total).then_some(Self { done, total })
    }
}

impl PoolProgress {
    /// The progress of a pool, by its status and, if it is known, its plan; `None` if everything is complete.
    pub fn of(pool: &Pool, plan: Option<&Plan>) -> Option<Self> {
        let machines = pool.status.cluster_api.as_ref();
        let progress = Self {
            running: is_running(pool),
            machines: machines.and_then(|machines| Share::incomplete(machines.up_to_date, machines.machines)),
            next_window: plan.and_then(awaited_window),
            ..plan.and_then(Self::of_rollout).unwrap_or_else(|| Self::of_status(pool))
        };
        let is_incomplete = progress.running || progress.nodes.is_some() || progress.machines.is_some();
        is_incomplete.then_some(progress)
    }

    /// The nodes of a rollout by agents; `None` without agents.
    fn of_rollout(plan: &Plan) -> Option<Self> {
        let active = plan.active()?;
        let DeliveryState::Rollout(rollout) = &active.delivery.state else { return None };
        if rollout.state == RolloutState::Complete {
            return Some(Self::default());
        }
        let (progress, continues) = (&rollout.progress, rollout.state == RolloutState::RollingOut);
        Some(Self {
            nodes: Share::incomplete(progress.done, progress.total),
            in_work: progress.in_progress.clone(),
            next: if continues { waiting(active, rollout) } else { Vec::new() },
            since: rollout.begun,
            ..Self::default()
        })
    }

    /// The nodes of a pool that has a delivery method, by its status.
    fn of_status(pool: &Pool) -> Self {
        let nodes = pool.spec.as_ref().is_ok_and(|spec| spec.delivers()).then_some(pool.status.nodes);
        Self { nodes: nodes.and_then(|nodes| Share::incomplete(nodes.configured, nodes.matched)), ..Self::default() }
    }
}

fn awaited_window(plan: &Plan) -> Option<Timestamp> {
    let active = plan.active().filter(|_| plan.pool.enforces())?;
    match &active.delivery.state {
        DeliveryState::Rollout(rollout) => match rollout.state {
            RolloutState::AwaitsWindow { begins } => Some(begins),
            _ => None,
        },
        _ => active.cluster_api.awaited_window(),
    }
}

/// The members that wait for the nodes in progress, by name.
fn waiting(active: &ActivePool, rollout: &RolloutPlan) -> Vec<String> {
    let RolloutProgress { in_progress, failures, .. } = &rollout.progress;
    let has_failed = |name: &String| failures.iter().any(|failure| failure.node == *name);
    let waits = |name: &String| !rollout.done.contains(name) && !in_progress.contains(name) && !has_failed(name);
    let desired = active.members.iter().filter(|member| active.configs.name_for(&member.node).is_some());
    desired.map(|member| &member.node.name).filter(|name| waits(name)).cloned().collect()
}

fn is_running(pool: &Pool) -> bool {
    let applying = pool.status.condition(&RECONCILING).is_some_and(|reconciling| {
        reconciling.status == "True" && [reason::PROGRESSING, reason::DELETING].contains(&reconciling.reason.as_str())
    });
    let proceeds = pool.status.conditions.iter().any(|condition| {
        condition_type(&condition.type_).is_some_and(|of| {
            condition.status == of.problem_when.name()
                && of.reason(&condition.reason).is_some_and(|row| row.next == Next::Proceeds)
        })
    });
    observed_generation(pool).is_none_or(|observed| observed < pool.generation) || applying || proceeds
}
