//! The pool controller: snapshot, plan, writes, status.

use tracing::info_span;

use super::context::{Context, ReconcileResult, StatusUpdate};
use crate::{
    agent::journal,
    cluster::Resource,
    domain::{
        pool::{Snapshot, delivery, plan::Plan, plan::plan, rollout::FailureReason},
        status::{event::Event, pool::report, rollout},
    },
};

/// Applies the spec of the pool, and reports differences in its status.
pub async fn reconcile(context: Context, pool: &str) -> ReconcileResult {
    let mut snapshot = context.snapshot();
    let verified = delivery::awaiting_confirmation(&snapshot, pool);
    if !verified.is_empty() {
        snapshot.lease_renewals = context.leases.renewals(verified).await;
    }
    let Some(plan) = info_span!("plan").in_scope(|| plan(&snapshot, pool)) else {
        context.metrics.remove_pool(pool, journal::FailureReason::known_names());
        context.failed_nodes.update(pool, Vec::new());
        return ReconcileResult::not_found();
    };
    let done = context.write(&plan).await;
    let report = report(&snapshot, &plan, &done);
    context.metrics.pool_nodes(pool, &report.status.nodes);
    context.metrics.rollout(pool, delivery::phases(&snapshot, pool), plan.rollout_failures());
    context.metrics.rollout_start(pool, plan.rollout_start());
    let mut events = report.events;
    events.extend(rollout::confirmed(&snapshot, &done));
    events.extend(new_failures(&context, &snapshot, &plan));
    let update = StatusUpdate {
        resource: Resource::Pool,
        name: pool,
        held: !plan.withheld.is_empty(),
        status: report.body,
        events,
        requeue_after: report.requeue_after,
    };
    context.finish(&done, update).await
}

/// Counts the rollbacks that were not there at the last reconcile, and returns the events about all such failures.
fn new_failures(context: &Context, snapshot: &Snapshot, plan: &Plan) -> Vec<Event> {
    let pool = &plan.pool.name;
    let failed = context.failed_nodes.update(pool, rollout::failed(snapshot, plan));
    for reason in failed.iter().map(|failed| &failed.reason) {
        if let FailureReason::RolledBack(reason) = reason {
            context.metrics.node_config_rollback(pool, journal::FailureReason::known_name(reason));
        }
    }
    failed.into_iter().map(|failed| failed.event).collect()
}
