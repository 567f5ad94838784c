//! A pass over a profile: gather, judge, tell. A profile is only looked at; the pools that name it render it.

use tracing::info_span;

use super::{
    queue::Next,
    shell::{Shell, Word},
};
use crate::{
    cluster::Resource,
    domain::{operation::Done, profile::status::report},
};

/// Says in the profile's status whether it can be rendered and who uses it.
pub async fn pass(shell: Shell, profile: &str) -> Next {
    let snapshot = shell.gather();
    let Some(report) = info_span!("plan").in_scope(|| report(&snapshot, profile)) else {
        return Next::Forget;
    };
    let (status, notes, again) = (report.body, report.notes, report.again);
    shell.conclude(&Done::default(), Word { resource: Resource::Profile, name: profile, status, notes, again }).await
}
