//! `ConfigInEffect` of a pool whose agents apply the configurations.

use winpool_api::{
    DrainPolicy,
    conditions::{CONFIG_IN_EFFECT, ComputedCondition},
    names::reason,
};

use super::input::ReportInput;
use crate::{
    operation::{Action, WriteError},
    pool::{
        delivery::DeliveryState,
        plan::Member,
        rollout::{Progress, RolloutPlan, RolloutState},
    },
    render::reserve::ConfigState,
    text::{about_nodes, counted, some_of},
};

/// The rollout of a pool that writes; `None` without agents.
pub fn rollout<'a>(input: &'a ReportInput) -> Option<&'a RolloutPlan> {
    match &input.active.delivery.state {
        DeliveryState::Rollout(rollout) if !input.withheld => Some(rollout),
        DeliveryState::Off | DeliveryState::Unknown | DeliveryState::Rollout(_) => None,
    }
}

/// Whether a member is proven to run its configuration: by the resources that it reports, and by its agent if it has one.
pub fn is_configured(input: &ReportInput, member: &Member) -> bool {
    let by_agent = rollout(input).is_none_or(|rollout| rollout.done.contains(&member.node.name));
    by_agent && member.config_state == Some(ConfigState::InEffect)
}

/// The condition while not every agent reports that its node runs its configuration; `None` if all do, or without agents.
pub fn config_in_effect(input: &ReportInput) -> Option<ComputedCondition> {
    if matches!(input.active.delivery.state, DeliveryState::Unknown) && !input.withheld {
        let message =
            "WindowsNodeConfigs cannot be read, so no configuration is delivered. Apply crds and config/default";
        return Some(CONFIG_IN_EFFECT.because(reason::NOT_DELIVERED, message));
    }
    let rollout = rollout(input)?;
    if let Some((name, error)) = unwritten(input) {
        let message = format!(
            "WindowsNodeConfig {name} cannot be written: {error}. Apply crds and config/agent, or remove the cause. {}",
            input.list()
        );
        return Some(CONFIG_IN_EFFECT.because(reason::WRITE_FAILED, message));
    }
    let (reason, progress, message) = match &rollout.state {
        RolloutState::Complete => return None,
        RolloutState::RollingOut(progress) => (reason::ROLLING_OUT, progress, waiting(input, progress)),
        RolloutState::Paused(progress) => {
            let message = "the rollout is paused. Set spec.delivery.rollout.paused: false to continue";
            (reason::ROLLING_OUT, progress, message.to_owned())
        }
        RolloutState::Halted(progress) => (reason::ROLLOUT_HALTED, progress, halted(input, progress)),
    };
    let total = counted(progress.total, "node");
    let done = format!("{} of {total} {} configuration", progress.done, total.agree("runs its", "run their"));
    let changing = match progress.in_progress.len() {
        0 => String::new(),
        _ => format!(", in progress: {}", some_of(&progress.in_progress)),
    };
    let count = match &rollout.state {
        RolloutState::Halted(progress) => progress.failures.len(),
        _ => progress.total - progress.done,
    };
    let text = [message, format!("{done}{changing}"), input.list()].into_iter().filter(|part| !part.is_empty());
    let text = text.collect::<Vec<_>>().join(". ");
    Some(CONFIG_IN_EFFECT.because(reason, text).about(count))
}

/// What a rollout waits for that is not in progress.
fn waiting(input: &ReportInput, progress: &Progress) -> String {
    if !progress.in_progress.is_empty() {
        return String::new();
    }
    let unavailable = about_nodes(&progress.unavailable, |nodes, names| {
        let (are, them) = (nodes.agree("is", "are"), nodes.agree("it", "them"));
        format!(
            "the rollout waits, because {nodes} {are} not Ready or cordoned: {names}. Repair or delete {them}, or raise \
             spec.delivery.rollout.maxUnavailable"
        )
    });
    let drains = input.spec.rollout.is_some_and(|rules| rules.drain != DrainPolicy::Never);
    let unread = "pods are not read (--workloads), so nodes cannot be drained. Set spec.delivery.rollout.drain: Never, or read pods";
    let unread = (drains && input.snapshot.pods.is_none()).then(|| unread.to_owned());
    unavailable.or(unread).unwrap_or_default()
}

fn halted(input: &ReportInput, progress: &Progress) -> String {
    let failures = progress.failures.iter().map(|failure| format!("{} ({})", failure.node, failure.reason));
    let config = progress.failures.first().map_or("", |failure| failure.config.as_str());
    let next = input.spec.rollout.map_or(1, |rules| rules.attempt.saturating_add(1));
    format!(
        "the rollout of {config} is halted, because it failed on {}: {}. Correct the profile, or set \
         spec.delivery.rollout.attempt: {next} to try it again",
        counted(progress.failures.len(), "node"),
        some_of(failures.collect::<Vec<_>>())
    )
}

/// The first WindowsNodeConfig that could not be written, with the error.
fn unwritten<'a>(input: &ReportInput<'a>) -> Option<(&'a str, &'a WriteError)> {
    let failed = input.done.failed().find(|(write, _)| write.action == Action::ApplyNodeConfig);
    failed.map(|(write, error)| (write.object.name.as_str(), error))
}
