//! How the configurations of a pool get onto its nodes, and `ConfigInEffect` of a pool whose agents apply them.

use jiff::Timestamp;
use winpool_api::{
    DrainPolicy, DriftPolicy,
    conditions::{CONFIG_IN_EFFECT, ComputedCondition},
    names::{annotation, reason},
};
use winpool_core::text::{Counted, about_nodes, counted, some_of};
use winpool_render::reserve::ConfigState;

use super::input::{NodeMessages, ReportInput, worst_of};
use crate::{
    operation::Action,
    pool::{
        delivery::DeliveryState,
        plan::Member,
        rollout::{RolloutPlan, RolloutProgress, RolloutState},
    },
};

/// The rollout of a pool that writes; `None` without agents.
pub fn rollout<'a>(input: &'a ReportInput) -> Option<&'a RolloutPlan> {
    match &input.active.delivery.state {
        DeliveryState::Rollout(rollout) if !input.withheld => Some(rollout),
        DeliveryState::Off | DeliveryState::Unknown | DeliveryState::Rollout(_) => None,
    }
}

/// How nodes get a configuration that they do not run, as far as it is decided.
pub enum DeliveryDecision {
    Withheld,
    /// A person or a tool of the user delivers the ConfigMap.
    Manual,
    /// The agents report that they have applied it.
    AppliedByAgents,
    MachinesAreReplaced,
    /// The machines are not from the current template.
    MachinesAreOld,
    MachinesAreCurrent,
}

impl DeliveryDecision {
    /// The delivery of a pool that may not write, and whose agents, if it has any, have completed the rollout. `machines` is
    /// `MachinesTemplated`.
    pub fn of(withheld: bool, has_agents: bool, machines: Option<&ComputedCondition>) -> Self {
        match machines {
            _ if withheld => Self::Withheld,
            None if has_agents => Self::AppliedByAgents,
            None => Self::Manual,
            Some(condition) if condition.reason == reason::ROTATING => Self::MachinesAreReplaced,
            Some(condition) if condition.reason == reason::UP_TO_DATE => Self::MachinesAreCurrent,
            Some(_) => Self::MachinesAreOld,
        }
    }

    /// The reason of `ConfigInEffect`, if `found` is the reason of a node whose delivery has ended.
    pub const fn reason(&self, found: &'static str) -> &'static str {
        match self {
            Self::MachinesAreReplaced => reason::ROLLING_OUT,
            Self::MachinesAreOld => reason::NOT_DELIVERED,
            Self::Withheld | Self::Manual | Self::AppliedByAgents | Self::MachinesAreCurrent => found,
        }
    }

    /// What to do about nodes that do not run their configuration.
    pub fn remedy(&self, nodes: Counted) -> String {
        let config = annotation::CONFIG;
        match self {
            Self::Withheld => "The pool does not write, so its nodes cannot have the rendered configuration".to_owned(),
            Self::Manual => format!(
                "Deliver the files of the ConfigMap in annotation {config} and restart the kubelet, or find the other source of \
                 its configuration"
            ),
            Self::AppliedByAgents => format!(
                "{} the configuration as applied, so another file or flag overrides it: kubectl describe wnc NODE",
                nodes.agree("Its agent reports", "Their agents report")
            ),
            Self::MachinesAreReplaced => {
                format!("Cluster API replaces {}. See MachinesTemplated", nodes.agree("the machine", "the machines"))
            }
            Self::MachinesAreOld => {
                "A machine gets the configuration when it is created. See MachinesTemplated".to_owned()
            }
            Self::MachinesAreCurrent => format!(
                "{} created from the current template, so something else configures the kubelet, such as the machine image or \
                 preKubeadmCommands. Remove it, and replace {}",
                nodes.agree("Its machine was", "Their machines were"),
                nodes.agree("the machine", "the machines")
            ),
        }
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
    if let Some((object, error)) = input.unwritten(|write| write.action == Action::ApplyNodeConfig) {
        let message = format!(
            "{object} cannot be written: {error}. Apply crds and config/agent, or remove the cause. {}",
            input.list()
        );
        return Some(CONFIG_IN_EFFECT.because(reason::WRITE_FAILED, message));
    }
    let progress = &rollout.progress;
    let (reason, message) = match rollout.state {
        RolloutState::Complete => {
            let without = without_agent(input).because(&CONFIG_IN_EFFECT, reason::NOT_DELIVERED);
            let changed = changed_on_nodes(input, rollout);
            return worst_of([of_done(input, reason::CHANGED_ON_NODE, &rollout.changed, changed), without]);
        }
        RolloutState::RollingOut => (reason::ROLLING_OUT, waiting(input, progress)),
        RolloutState::Paused => {
            let message = "the rollout is paused. Set spec.delivery.rollout.paused: false to continue";
            (reason::ROLLOUT_PAUSED, message.to_owned())
        }
        RolloutState::AwaitsWindow { begins } => (reason::AWAITS_WINDOW, awaits_window(begins)),
        RolloutState::Halted => (reason::ROLLOUT_HALTED, halted(input, progress)),
    };
    let total = counted(progress.total, "node");
    let done = format!("{} of {total} {} configuration", progress.done, total.agree("runs its", "run their"));
    let changing = match progress.in_progress.len() {
        0 => String::new(),
        _ => format!(", in progress: {}", some_of(&progress.in_progress)),
    };
    let count = match rollout.state {
        RolloutState::Halted => progress.failures.len(),
        _ => progress.total - progress.done,
    };
    let [changed, partly] = [changed_on_nodes(input, rollout), partly_on_nodes(rollout)].map(Option::unwrap_or_default);
    let parts = [message, format!("{done}{changing}"), changed, partly, without_agent(input).to_string(), input.list()];
    let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(". ");
    Some(CONFIG_IN_EFFECT.because(reason, text).about(count))
}

/// The nodes that cannot have a part of their configuration.
pub fn partly_applied(input: &ReportInput) -> Option<ComputedCondition> {
    let rollout = rollout(input)?;
    of_done(input, reason::PARTLY_APPLIED, &rollout.partly, partly_on_nodes(rollout))
}

/// The condition about nodes that run their configuration, from a text about them.
fn of_done(
    input: &ReportInput,
    reason: &'static str,
    nodes: &[String],
    text: Option<String>,
) -> Option<ComputedCondition> {
    text.map(|text| CONFIG_IN_EFFECT.because(reason, format!("{text}. {}", input.list())).about(nodes.len()))
}

/// What something else has changed on nodes since they got their configuration.
fn changed_on_nodes(input: &ReportInput, rollout: &RolloutPlan) -> Option<String> {
    let rules = input.spec.rollout?;
    about_nodes(&rollout.changed, |nodes, names| {
        let remedy = match rules.drift {
            DriftPolicy::Report => format!(
                "Restore {}, or set spec.delivery.drift: Reapply, or spec.delivery.rollout.attempt: {} to apply the configuration again",
                nodes.agree("it", "them"),
                rules.attempt.saturating_add(1)
            ),
            DriftPolicy::Reapply => {
                "The configuration is applied again at most once in an hour. Find what changes it".to_owned()
            }
        };
        format!(
            "something else has changed {nodes} since the configuration was applied: {names}. kubectl describe wnc NODE names the \
             files. {remedy}"
        )
    })
}

fn partly_on_nodes(rollout: &RolloutPlan) -> Option<String> {
    about_nodes(&rollout.partly, |nodes, names| {
        format!(
            "kube-proxy.yaml is not applied on {nodes}, because kube-proxy is no service with --config there: {names}. Configure it \
             where it is started, or remove spec.kubeProxy from the profile"
        )
    })
}

/// The nodes that cannot run the agent.
fn without_agent<'a>(input: &'a ReportInput) -> NodeMessages<'a> {
    let mut messages = NodeMessages::default();
    for (node, obstacle) in &input.active.delivery.without_agent {
        messages.add(obstacle.to_string(), [node.as_str()]);
    }
    messages
}

/// That nothing begins before a time.
pub fn awaits_window(begins: Timestamp) -> String {
    format!("no maintenance window is open, and the next begins at {begins} (spec.delivery.maintenanceWindows)")
}

/// What a rollout waits for that is not in progress.
fn waiting(input: &ReportInput, progress: &RolloutProgress) -> String {
    if !progress.in_progress.is_empty() {
        return String::new();
    }
    let unavailable = about_nodes(&progress.unavailable, |nodes, names| {
        let (are, them) = (nodes.agree("is", "are"), nodes.agree("it", "them"));
        format!(
            "the rollout waits, because {nodes} {are} not Ready, cordoned or under maintenance: {names}. Repair or delete {them}, or raise \
             spec.delivery.rollout.maxUnavailable"
        )
    });
    let drains = input.spec.rollout.is_some_and(|rules| rules.drain != DrainPolicy::Never);
    let unread = "pods are not read (--workloads), so nodes cannot be drained. Set spec.delivery.rollout.drain: Never, or read pods";
    let unread = (drains && input.snapshot.pods.is_none()).then(|| unread.to_owned());
    let mut held = NodeMessages::default();
    for (node, drivers) in &input.active.delivery.held {
        let missing = format!(
            "not drained, because no other available node of the pool has the CSI drivers of its pods: {}. Install them on another \
             node, or set spec.delivery.rollout.drain: Never",
            some_of(drivers)
        );
        held.add(missing, [node.as_str()]);
    }
    let held = Some(held.to_string()).filter(|held| !held.is_empty());
    unavailable.or(unread).or(held).unwrap_or_default()
}

fn halted(input: &ReportInput, progress: &RolloutProgress) -> String {
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

#[cfg(test)]
mod tests {
    use winpool_api::conditions::MACHINES_TEMPLATED;

    use super::*;

    #[test]
    fn the_remedy_fits_how_nodes_get_their_configuration() {
        let machines = |reason| Some(MACHINES_TEMPLATED.because(reason, ""));
        let withheld = "The pool does not write, so its nodes cannot have the rendered configuration";
        let manual = "Deliver the files of the ConfigMap in annotation winpool.dev/config and restart the kubelet, or find the \
                      other source of its configuration";
        let by_agent = "Its agent reports the configuration as applied, so another file or flag overrides it: kubectl describe \
                        wnc NODE";
        let current = "Its machine was created from the current template, so something else configures the kubelet, such as the \
                       machine image or preKubeadmCommands. Remove it, and replace the machine";
        let replaced = "Cluster API replaces the machine. See MachinesTemplated";
        let old = "A machine gets the configuration when it is created. See MachinesTemplated";
        let table = [
            (true, true, None, reason::DIFFERS, withheld),
            (true, false, machines(reason::ROTATING), reason::DIFFERS, withheld),
            (false, false, None, reason::DIFFERS, manual),
            (false, true, None, reason::DIFFERS, by_agent),
            (false, false, machines(reason::ROTATING), reason::ROLLING_OUT, replaced),
            (false, false, machines(reason::ROTATION_PENDING), reason::NOT_DELIVERED, old),
            (false, false, machines(reason::UP_TO_DATE), reason::DIFFERS, current),
        ];
        for (withheld, has_agents, machines, reason, remedy) in table {
            let delivery = DeliveryDecision::of(withheld, has_agents, machines.as_ref());
            assert_eq!(delivery.reason(reason::DIFFERS), reason, "{remedy}");
            assert_eq!(delivery.remedy(counted(1, "node")), remedy);
        }
    }
}
