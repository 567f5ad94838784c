//! A pass over a pool: gather, plan, write, tell.

use tracing::info_span;

use super::shell::{Ended, Shell, Word};
use crate::{
    cluster::Resource,
    domain::pool::{plan::plan, status::report},
};

/// Makes the world as the pool wants it, and says in its status what is not.
pub async fn pass(shell: Shell, pool: &str) -> Ended {
    let snapshot = shell.gather();
    let Some(plan) = info_span!("plan").in_scope(|| plan(&snapshot, pool)) else {
        shell.metrics.forget_pool(pool);
        return Ended::gone();
    };
    let done = shell.write(&plan).await;
    let report = report(&snapshot, &plan, &done);
    shell.metrics.pool_nodes(pool, &report.status.nodes);
    let word = Word {
        resource: Resource::Pool,
        name: pool,
        held: !plan.withheld.is_empty(),
        status: report.body,
        notes: report.notes,
        again: report.again,
    };
    shell.conclude(&done, word).await
}
