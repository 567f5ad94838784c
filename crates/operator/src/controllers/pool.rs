//! The pool controller: snapshot, plan, writes, status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tracing::info_span;
use winpool_api::{RollbackReason, WindowsNodePoolStatus};
use winpool_core::kind::Kind;
use winpool_facts::builds::{self, Release};
use winpool_rules::{
    pool::{
        Snapshot, delivery,
        plan::{Plan, give_back, plan},
        rollout::FailureReason,
    },
    status::{Report, event::Event, metrics, pool::report, rollout},
};
use winpool_workload::Workloads;

use super::context::{Context, ReconcileResult};
use crate::admin::PoolReport;

/// Applies the spec of the pool, and reports differences in its status.
pub async fn reconcile(context: Context, pool: &str) -> ReconcileResult {
    let mut snapshot = context.snapshot();
    let verified = delivery::awaiting_confirmation(&snapshot, pool);
    if !verified.is_empty() {
        snapshot.lease_renewals = context.leases.renewals(verified).await;
    }
    let plan = |snapshot: &Snapshot| info_span!("plan").in_scope(|| plan(snapshot, pool));
    let mut planned = plan(&snapshot);
    if planned.as_ref().is_some_and(Plan::awaits_unwatched) {
        snapshot.unwatched = context.unwatched.of_pool(pool, &snapshot.ownership).await;
        planned = plan(&snapshot);
    }
    if let Some(selector) = planned.as_ref().and_then(Plan::selector_without_nodes) {
        snapshot.linux_nodes = context.unwatched.linux(&selector).await;
    }
    let Some(plan) = planned else {
        context.metrics.remove_pool(pool);
        context.failed_nodes.update(pool, Vec::new());
        let Some(plan) = give_back(&snapshot, pool) else { return ReconcileResult::not_found() };
        let (_, writes) = context.write(plan).await;
        let nothing = Report { status: (), write: None, events: Vec::new(), requeue_after: None };
        return context.finish((Kind::POOL, pool), &writes, false, nothing).await;
    };
    let (plan, writes) = context.write(plan).await;
    let done = &writes.done;
    let mut report = report(&snapshot, &plan, done);
    context.metrics.pool(pool, metrics(&snapshot, &plan, &report.status));
    for seconds in metrics::ready_before_taint(&plan, Timestamp::now()) {
        context.metrics.ready_before_taint(pool, seconds);
    }
    report.events.extend(rollout::confirmed(&snapshot, done));
    report.events.extend(new_failures(&context, &snapshot, &plan));
    context.finish((Kind::POOL, pool), &writes, !plan.withheld.is_empty(), report).await
}

fn metrics(snapshot: &Snapshot, plan: &Plan, status: &WindowsNodePoolStatus) -> PoolReport {
    let pool = &plan.pool.name;
    let phases = delivery::phases(snapshot, pool);
    let has_agents = phases.iter().any(|(_, count)| *count > 0);
    let if_agents = |counts: &[(&'static str, usize)]| if has_agents { counts.to_vec() } else { Vec::new() };
    let triple = |condition: &Condition| [&condition.type_, &condition.status, &condition.reason].map(Clone::clone);
    let build = plan.pool.spec.as_ref().ok().map(|spec| spec.build);
    let (hns_endpoints, hns_problems) = metrics::networks(snapshot, plan);
    PoolReport {
        nodes: status.nodes,
        ready_untainted: metrics::ready_untainted(plan),
        holds: metrics::holds(plan),
        conditions: status.conditions.iter().map(triple).collect(),
        support_end: build.and_then(builds::release).map(Release::final_end),
        newest_minor: metrics::newest_minor(plan),
        workloads: match &snapshot.workloads {
            Workloads::Known(summaries) => Some(summaries.get(pool).cloned().unwrap_or_default()),
            Workloads::Off | Workloads::Waiting => None,
        },
        capacity: metrics::capacity(snapshot, plan),
        known_issues: metrics::known_issues(snapshot, plan),
        hns_endpoints,
        hns_problems: hns_problems.into_iter().collect(),
        node_configs: if_agents(&phases),
        rollout_failures: if_agents(&plan.rollout_failures()),
        rollout_start: plan.rollout_start(),
    }
}

/// Counts the rollbacks that were not there at the last reconcile, and returns the events about all such failures.
fn new_failures(context: &Context, snapshot: &Snapshot, plan: &Plan) -> Vec<Event> {
    let pool = &plan.pool.name;
    let failed = context.failed_nodes.update(pool, rollout::failed(snapshot, plan));
    for reason in failed.iter().map(|failed| &failed.reason) {
        if let FailureReason::RolledBack(reason) = reason {
            context.metrics.node_config_rollback(pool, RollbackReason::known_name(reason.raw()));
        }
    }
    failed.into_iter().map(|failed| failed.event).collect()
}
