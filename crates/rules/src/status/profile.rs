//! The status of a profile: whether it can be rendered, and which pools use it.

use winpool_api::{
    UsedBy, WindowsRuntimeProfileStatus,
    bounds::bounded,
    conditions::{ComputedCondition, READY, VALID},
    names::reason,
};
use winpool_core::{Problem, kind::Kind};

use super::{
    Report,
    condition::merge_conditions,
    event::{Event, Regarding},
};
use crate::{
    operation::{Action, Write, WriteTarget},
    pool::{ProfileView, Snapshot},
};

/// The number of pools that status names.
const LISTED: usize = 5;

/// The report on the profile with this name; `None` if it does not exist.
pub fn report(snapshot: &Snapshot, name: &str) -> Option<Report<WindowsRuntimeProfileStatus>> {
    let view = snapshot.profiles.get(name)?;
    let valid = valid(view);
    let ready_reason = if view.profile.is_ok() { reason::AS_SPECIFIED } else { reason::INVALID };
    let ready = READY.because(ready_reason, valid.message.clone());
    let status = bounded(WindowsRuntimeProfileStatus {
        observed_generation: Some(view.generation),
        used_by: used_by(snapshot, name),
        conditions: merge_conditions(&view.status.conditions, &[ready, valid.clone()], snapshot.now),
    });
    let changed = !view.status.conditions.iter().any(|old| old.type_ == valid.of.name && old.reason == valid.reason);
    let about = || Regarding::new(Kind::PROFILE, &view.name, &view.uid);
    let event = (changed && valid.reason != reason::VALID)
        .then(|| Event::new(about(), true, "Check", valid.reason, valid.message.clone()));
    let object = WriteTarget::new(Kind::PROFILE, name);
    let write = Write::status(Action::WriteStatus, object, &view.resource_version, &status);
    let write = (status != view.status).then_some(write);
    Some(Report { status, write, events: event.into_iter().collect(), requeue_after: None })
}

fn valid(view: &ProfileView) -> ComputedCondition {
    match &view.profile {
        Err(problems) => VALID.because(reason::INVALID, Problem::list(problems)),
        Ok(profile) if profile.warnings.is_empty() => VALID.because(reason::VALID, "the profile can be rendered"),
        Ok(profile) => VALID.because(reason::VALID_WITH_WARNINGS, Problem::list(&profile.warnings)),
    }
}

fn used_by(snapshot: &Snapshot, name: &str) -> UsedBy {
    let uses = |profile: Option<&String>| profile.is_some_and(|profile| profile == name);
    let pools: Vec<&String> = snapshot
        .pools
        .values()
        .filter(|pool| pool.spec.as_ref().is_ok_and(|spec| uses(spec.profile.as_ref())))
        .map(|pool| &pool.name)
        .collect();
    UsedBy {
        count: u32::try_from(pools.len()).unwrap_or(u32::MAX),
        pools: pools.into_iter().take(LISTED).cloned().collect(),
    }
}
