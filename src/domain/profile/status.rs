//! The status of a profile: whether it can be rendered, and who uses it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    api::{
        UsedBy, WindowsRuntimeProfileStatus,
        bounds::bounded,
        names::{condition, reason},
    },
    domain::{
        Problem,
        conditions::{Verdict, settle},
        note::{About, Note},
        pool::{ProfileView, Snapshot},
    },
};

/// How many pools status names.
const LISTED: usize = 5;

/// What a pass over a profile leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The object to apply, if the status differs from what is stored.
    pub body: Option<Value>,
    /// Events.
    pub notes: Vec<Note>,
    /// When to look again without an event.
    pub again: Option<Duration>,
}

/// The report on the profile of that name; `None` if there is no such profile.
pub fn report(snapshot: &Snapshot, name: &str) -> Option<Report> {
    let view = snapshot.profiles.get(name)?;
    let valid = valid(view);
    let ready_reason = if view.profile.is_ok() { reason::AS_SPECIFIED } else { reason::INVALID };
    let ready = Verdict::new(condition::READY, valid.status, ready_reason, valid.message.clone());
    let status = bounded(WindowsRuntimeProfileStatus {
        observed_generation: Some(view.generation),
        used_by: used_by(snapshot, name),
        conditions: settle(&view.status.conditions, &[ready, valid.clone()], view.generation, snapshot.now),
    });
    let turned = !view.status.conditions.iter().any(|old| old.type_ == valid.condition && old.reason == valid.reason);
    let note = (turned && valid.reason != reason::VALID).then(|| Note {
        about: About::Profile { name: view.name.clone(), uid: view.uid.clone() },
        warning: true,
        reason: valid.reason.to_owned(),
        action: "Check",
        message: valid.message.clone(),
    });
    let body = json!({
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsRuntimeProfile",
        "metadata": {"name": name},
        "status": status,
    });
    Some(Report { body: (status != view.status).then_some(body), notes: note.into_iter().collect(), again: None })
}

fn valid(view: &ProfileView) -> Verdict {
    match &view.profile {
        Err(problems) => Verdict::new(condition::VALID, false, reason::INVALID, Problem::list(problems)),
        Ok(profile) if profile.warnings.is_empty() => {
            Verdict::new(condition::VALID, true, reason::VALID, "the profile can be rendered")
        }
        Ok(profile) => {
            Verdict::new(condition::VALID, true, reason::VALID_WITH_WARNINGS, Problem::list(&profile.warnings))
        }
    }
}

/// The pools that name a profile.
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
