//! Flags about the kubelet: its version, and the configuration that it runs.

use winpool_api::{
    conditions::{CONFIG_IN_EFFECT, ComputedCondition, VERSION_SKEW},
    names::reason,
};
use winpool_core::{
    node::WindowsNode,
    tables,
    text::{counted, some_of},
};
use winpool_facts::{
    skew::{Skew, skew},
    support,
};
use winpool_render::reserve::ConfigState;

use super::{
    delivery::{self, DeliveryDecision},
    input::{NodeMessages, ReportInput, about, names, unreadable, worst_of},
    rendering,
};
use crate::pool::{Snapshot, configs::Rendering, plan::Member};

/// `VersionSkew`, unless every kubelet is within the policy and in the tables.
pub fn version_skew(input: &ReportInput) -> Option<ComputedCondition> {
    let Some(api_server) = input.snapshot.api_server else {
        return Some(VERSION_SKEW.because(reason::UNKNOWN_VERSION, "the version of the API server is not known yet"));
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
    let not_checked = newer_than_tables(input);
    let outside = |reason, found: &[String], wrong: &str, remedy: &str| {
        about(&VERSION_SKEW, reason, found, |nodes, names| {
            let run = nodes.agree("runs", "run");
            format!("{nodes} {run} a kubelet that is {wrong} API server {api_server}: {names}. {remedy}")
        })
    };
    let newer = outside(reason::KUBELET_NEWER_THAN_API_SERVER, &newer, "newer than", "Upgrade the control plane first");
    let older = outside(reason::KUBELET_TOO_OLD, &older, "too old for", "Upgrade or replace the nodes");
    let Some(worst) = worst_of([newer, older, unknown.because(&VERSION_SKEW, reason::UNKNOWN_VERSION)]) else {
        return Some(VERSION_SKEW.because(reason::TABLES_END_AT, format!("{}. {}", not_checked?, input.list())));
    };
    let parts: Vec<_> = [worst.message].into_iter().chain(not_checked).chain([input.list()]).collect();
    Some(ComputedCondition { message: parts.join(". "), ..worst })
}

/// The sentence about kubelets that are newer than the tables.
pub fn newer_than_tables(input: &ReportInput) -> Option<String> {
    let newer = input.nodes(|member| member.node.kubelet_minor().and_then(support::treated_as).is_some());
    let newest = newer.iter().filter_map(|member| member.node.kubelet_minor()).max()?;
    Some(format!("{}: {}", some_of(names(&newer)), tables::not_checked(newest, input.today())?))
}

/// Whether a kubelet is outside the policy.
pub fn is_skewed(snapshot: &Snapshot, node: &WindowsNode) -> bool {
    match (&node.kubelet, snapshot.api_server) {
        (Ok(kubelet), Some(api_server)) => skew(kubelet.minor, api_server) != Skew::Within,
        _ => false,
    }
}

/// `ConfigInEffect`; `None` without a rendered configuration or without nodes. `machines` is `MachinesTemplated`.
pub fn config_in_effect(input: &ReportInput, machines: Option<&ComputedCondition>) -> Option<ComputedCondition> {
    let is_rendered = matches!(input.active.configs.state, Rendering::Rendered(_));
    if !is_rendered || input.active.members.is_empty() {
        return None;
    }
    let changed = rendering::changed(input);
    if let Some(by_agents) = delivery::config_in_effect(input) {
        return Some(worst_of([Some(by_agents.clone()), changed]).unwrap_or(by_agents));
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
    let list = input.list();
    let delivery = DeliveryDecision::of(input.withheld, input.spec.rollout.is_some(), machines);
    let differ = about(&CONFIG_IN_EFFECT, delivery.reason(reason::DIFFERS), &differ, |nodes, names| {
        let problem = format!("reserved resources differ from the configuration on {nodes}: {names}");
        format!("{problem}. {}. {list}", delivery.remedy(nodes))
    });
    let waiting = about(&CONFIG_IN_EFFECT, delivery.reason(reason::NOT_DELIVERED), &waiting, |nodes, names| {
        let run = nodes.agree("runs", "run");
        let problem = format!("{nodes} {run} a kubelet without the rendered configuration: {names}");
        format!("{problem}. {}. {list}", delivery.remedy(nodes))
    });
    let unknown = about(&CONFIG_IN_EFFECT, reason::NOT_DELIVERED, &unknown, |nodes, names| {
        format!(
            "{nodes} cannot be compared, because the kubelet version is not known: {names}. See VersionSkew. {list}"
        )
    });
    let problem = worst_of([differ, changed]);
    let reservation = problem.or(waiting).or(unknown).or_else(|| delivery::partly_applied(input));
    Some(reservation.unwrap_or_else(|| in_effect(input)))
}

fn in_effect(input: &ReportInput) -> ComputedCondition {
    let nodes = counted(input.active.members.len(), "node");
    let message = match delivery::rollout(input) {
        Some(_) => {
            format!(
                "the agents of {nodes} report the configuration as applied, and the reported resources are those of it"
            )
        }
        None => format!("the reported resources of {nodes} are those of the configuration"),
    };
    CONFIG_IN_EFFECT.because(reason::IN_EFFECT, message)
}
