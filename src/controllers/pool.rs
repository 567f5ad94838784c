//! A pass over a pool: gather, plan, write, tell.

use tracing::info_span;

use super::{
    queue::Next,
    shell::{Shell, Word},
};
use crate::{
    cluster::Resource,
    domain::pool::{plan::plan, status::report},
};

/// Makes the world as the pool wants it, and says in its status what is not.
pub async fn pass(shell: Shell, pool: &str) -> Next {
    let snapshot = shell.gather();
    let Some(plan) = info_span!("plan").in_scope(|| plan(&snapshot, pool)) else {
        shell.metrics.forget_pool(pool);
        return Next::Forget;
    };
    let done = shell.write(&plan.steps).await;
    let report = report(&snapshot, &plan, &done);
    shell.metrics.pool(pool, &report.status.nodes);
    let (status, notes, again) = (report.body, report.notes, report.again);
    shell.conclude(&done, Word { resource: Resource::Pool, name: pool, status, notes, again }).await
}
