//! The profile controller: snapshot, report, status. A profile is only checked; the pools that use it render it.

use tracing::info_span;
use winpool_core::{kind::Kind, status::profile::report};

use super::context::{Context, ReconcileResult, StatusUpdate, Writes};

/// Reports in the profile's status whether it is valid and which pools use it.
pub async fn reconcile(context: Context, profile: &str) -> ReconcileResult {
    let snapshot = context.snapshot();
    let Some(report) = info_span!("plan").in_scope(|| report(&snapshot, profile)) else {
        return ReconcileResult::not_found();
    };
    let update = StatusUpdate {
        kind: Kind::PROFILE,
        name: profile,
        held: false,
        status: report.write,
        events: report.events,
        requeue_after: report.requeue_after,
    };
    context.finish(&Writes::default(), update).await
}
