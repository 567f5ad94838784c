//! Flags about the kubelet: its version, and the configuration that it runs.

use winpool_api::{
    conditions::ConditionStatus,
    facts::{
        Minor,
        skew::{Skew, skew},
        support,
    },
    names::{annotation, condition, reason},
};

use super::{
    delivery,
    input::{NodeMessages, ReportInput, names, unreadable, worst_of},
};
use crate::{
    node::WindowsNode,
    pool::{Snapshot, configs::Rendering, plan::Member},
    render::reserve::ConfigState,
    status::condition::ComputedCondition,
    tables,
    text::{agree, counted, some_of},
};

/// `VersionSkew`.
pub fn version_skew(input: &ReportInput) -> ComputedCondition {
    let condition = |status: ConditionStatus, reason, message: String| {
        ComputedCondition::new(condition::VERSION_SKEW, status, reason, message)
    };
    let Some(api_server) = input.snapshot.api_server else {
        return condition(
            ConditionStatus::Unknown,
            reason::UNKNOWN_VERSION,
            "the version of the API server is not known yet".to_owned(),
        );
    };
    let (mut newer, mut older, mut unknown) = (Vec::new(), Vec::new(), NodeMessages::default());
    for Member { node, .. } in &input.active.members {
        match &node.kubelet {
            Err(text) => unknown.add(unreadable("kubelet version", text), [node.name.as_str()]),
            Ok(kubelet) => match skew(kubelet.minor, api_server) {
                Skew::Within => {}
                Skew::KubeletNewer => newer.push(format!("{} ({kubelet})", node.name)),
                Skew::KubeletTooOld { oldest } => {
                    older.push(format!("{} ({kubelet}, oldest allowed {oldest})", node.name));
                }
            },
        }
    }
    let not_checked = newer_than_tables(input).map(|newer| format!(". {newer}")).unwrap_or_default();
    let mut found = Vec::new();
    if !newer.is_empty() {
        let message = format!(
            "{} {} a kubelet that is newer than API server {api_server}: {}. Upgrade the control plane first",
            counted(newer.len(), "node"),
            agree(newer.len(), "runs", "run"),
            some_of(&newer)
        );
        found.push(condition(ConditionStatus::True, reason::KUBELET_NEWER_THAN_API_SERVER, message).about(newer.len()));
    }
    if !older.is_empty() {
        let message = format!(
            "{} {} a kubelet that is too old for API server {api_server}: {}. Upgrade or replace the nodes",
            counted(older.len(), "node"),
            agree(older.len(), "runs", "run"),
            some_of(&older)
        );
        found.push(condition(ConditionStatus::True, reason::KUBELET_TOO_OLD, message).about(older.len()));
    }
    if !unknown.is_empty() {
        found.push(
            condition(ConditionStatus::Unknown, reason::UNKNOWN_VERSION, unknown.to_string()).about(unknown.count()),
        );
    }
    match worst_of(found) {
        Some(worst) => {
            ComputedCondition { message: format!("{}{not_checked}. {}", worst.message, input.list()), ..worst }
        }
        None => {
            let list = if not_checked.is_empty() { String::new() } else { format!(". {}", input.list()) };
            let message = format!("every kubelet is within the policy for API server {api_server}{not_checked}{list}");
            condition(ConditionStatus::False, reason::WITHIN_POLICY, message)
        }
    }
}

/// The sentence about kubelets that are newer than the tables.
pub fn newer_than_tables(input: &ReportInput) -> Option<String> {
    let newer = input.nodes(|member| minor_of(member).is_some_and(|minor| support::treated_as(minor).is_some()));
    let newest = newer.iter().filter_map(|member| minor_of(member)).max()?;
    Some(format!("{}: {}", some_of(names(&newer)), tables::not_checked(newest)?))
}

fn minor_of(member: &Member) -> Option<Minor> {
    member.node.kubelet.as_ref().ok().map(|kubelet| kubelet.minor)
}

/// Whether a kubelet is outside the policy.
pub fn is_skewed(snapshot: &Snapshot, node: &WindowsNode) -> bool {
    match (&node.kubelet, snapshot.api_server) {
        (Ok(kubelet), Some(api_server)) => skew(kubelet.minor, api_server) != Skew::Within,
        _ => false,
    }
}

/// `ConfigInEffect`.
pub fn config_in_effect(input: &ReportInput) -> ComputedCondition {
    let condition = |status: ConditionStatus, reason, message: String| {
        ComputedCondition::new(condition::CONFIG_IN_EFFECT, status, reason, message)
    };
    let not_delivered = |message: String| condition(ConditionStatus::Unknown, reason::NOT_DELIVERED, message);
    match input.active.configs.state {
        Rendering::NotUsed => {
            let message = "the pool names no profile, so there is nothing to compare";
            return condition(ConditionStatus::True, reason::NOT_USED, message.to_owned());
        }
        Rendering::NotFound | Rendering::Invalid(_) => {
            let message = "the profile cannot be used. See ProfileResolved";
            return not_delivered(message.to_owned());
        }
        Rendering::Rendered(_) if input.active.members.is_empty() => {
            return not_delivered("the pool has no nodes".to_owned());
        }
        Rendering::Rendered(_) => {}
    }
    if let Some(by_agents) = delivery::config_in_effect(input) {
        return by_agents;
    }
    let (mut differ, mut waiting, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for Member { node, config_state, .. } in &input.active.members {
        match config_state {
            Some(ConfigState::InEffect) => {}
            Some(ConfigState::Differs(differences)) => {
                let differences: Vec<_> = differences.iter().map(ToString::to_string).collect();
                differ.push(format!("{} ({})", node.name, differences.join(", ")));
            }
            Some(ConfigState::NotDelivered) => waiting.push(node.name.as_str()),
            None => unknown.push(node.name.as_str()),
        }
    }
    if !differ.is_empty() {
        let message = format!(
            "reserved resources differ from the configuration on {}: {}. Deliver the files of the ConfigMap in annotation {} and \
             restart the kubelet, or find the other source of its configuration. {}",
            counted(differ.len(), "node"),
            some_of(&differ),
            annotation::CONFIG,
            input.list()
        );
        return condition(ConditionStatus::False, reason::DIFFERS, message).about(differ.len());
    }
    if !waiting.is_empty() && input.withheld {
        let message = "the pool does not write, so its nodes cannot have the rendered configuration";
        return not_delivered(message.to_owned()).about(waiting.len());
    }
    if !waiting.is_empty() {
        let message = format!(
            "{} {} a kubelet without the rendered configuration: {}. Deliver the files of the ConfigMap in annotation {}. {}",
            counted(waiting.len(), "node"),
            agree(waiting.len(), "runs", "run"),
            some_of(&waiting),
            annotation::CONFIG,
            input.list()
        );
        return not_delivered(message).about(waiting.len());
    }
    if !unknown.is_empty() {
        let message = format!(
            "{} cannot be compared, because the kubelet version is not known: {}. See VersionSkew. {}",
            counted(unknown.len(), "node"),
            some_of(&unknown),
            input.list()
        );
        return not_delivered(message).about(unknown.len());
    }
    let count = input.active.members.len();
    let message = match delivery::rollout(input) {
        Some(_) => format!(
            "the agents of {} report the configuration as applied, and the reported resources are those of it",
            counted(count, "node")
        ),
        None => format!("the reported resources of {} are those of the configuration", counted(count, "node")),
    };
    condition(ConditionStatus::True, reason::IN_EFFECT, message)
}
