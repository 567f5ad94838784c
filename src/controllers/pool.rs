//! The pool controller: snapshot, plan, writes, status.

use tracing::info_span;

use super::context::{Context, ReconcileResult, StatusUpdate};
use crate::{
    cluster::Resource,
    domain::{
        pool::{delivery, plan::plan},
        status::pool::report,
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
        context.metrics.remove_pool(pool);
        return ReconcileResult::not_found();
    };
    let done = context.write(&plan).await;
    let report = report(&snapshot, &plan, &done);
    context.metrics.pool_nodes(pool, &report.status.nodes);
    context.metrics.rollout(pool, delivery::phases(&snapshot, pool), plan.rollout_failures());
    let update = StatusUpdate {
        resource: Resource::Pool,
        name: pool,
        held: !plan.withheld.is_empty(),
        status: report.body,
        events: report.events,
        requeue_after: report.requeue_after,
    };
    context.finish(&done, update).await
}
