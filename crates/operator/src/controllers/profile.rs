//! The profile controller: snapshot, report, status. A profile is only checked; the pools that use it render it.

use tracing::info_span;
use winpool_core::kind::Kind;
use winpool_rules::status::profile::report;

use super::context::{Context, ReconcileResult, Writes};

/// Reports in the profile's status whether it is valid and which pools use it.
pub async fn reconcile(context: Context, profile: &str) -> ReconcileResult {
    let snapshot = context.snapshot();
    let Some(report) = info_span!("plan").in_scope(|| report(&snapshot, profile)) else {
        return ReconcileResult::not_found();
    };
    context.finish((Kind::PROFILE, profile), &Writes::default(), false, report).await
}
