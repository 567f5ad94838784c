//! A pass over a profile: gather, judge, tell. A profile is only looked at; the pools that name it render it.

use tracing::info_span;

use super::shell::{Ended, Shell, Word};
use crate::{
    cluster::Resource,
    domain::{operation::Done, profile::status::report},
};

/// Says in the profile's status whether it can be rendered and who uses it.
pub async fn pass(shell: Shell, profile: &str) -> Ended {
    let snapshot = shell.gather();
    let Some(report) = info_span!("plan").in_scope(|| report(&snapshot, profile)) else {
        return Ended::gone();
    };
    let word = Word {
        resource: Resource::Profile,
        name: profile,
        held: false,
        status: report.body,
        notes: report.notes,
        again: report.again,
    };
    shell.conclude(&Done::default(), word).await
}
