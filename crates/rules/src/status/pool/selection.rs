//! A selector without nodes: whether the pool is meant to be empty, or the selector is mistyped. Of a selector that has matched a node
//! before, the pool is scaled to zero.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest, Sha256};
use winpool_api::{
    LabelSelector,
    conditions::{ComputedCondition, NODES_ASSIGNED},
    hex,
    names::{label, reason},
};
use winpool_core::{
    kubernetes::whole_second,
    text::{closest, counted, some_of},
};

use super::input::ReportInput;
use crate::pool::{
    Consent, Members,
    cluster_api::{ClusterApiState, Selected},
};

/// How long a new selector may match no node.
const WAITS: SignedDuration = SignedDuration::from_mins(10);

/// The digest of the last selector that has matched a node.
pub fn matched_selector(input: &ReportInput) -> String {
    let matches = input.active.members.iter().any(|member| !member.held);
    match &input.spec.members {
        Members::Selector(selector) if matches => digest(selector),
        _ => input.pool.status.matched_selector.clone(),
    }
}

/// Since when the selector matches no node, if it has never matched one. A new generation may have another selector.
pub fn unmatched_since(input: &ReportInput) -> Option<Time> {
    let Members::Selector(selector) = &input.spec.members else { return None };
    let status = &input.pool.status;
    let is_same = status.observed_generation == Some(input.pool.generation);
    let since = status.unmatched_since.clone().filter(|_| is_same);
    let is_unmatched = input.active.members.is_empty() && digest(selector) != status.matched_selector;
    is_unmatched.then(|| since.unwrap_or_else(|| Time(whole_second(input.snapshot.now))))
}

fn digest(selector: &LabelSelector) -> String {
    format!("{:.10}", hex(&Sha256::digest(selector.to_string())))
}

/// `NodesAssigned` of a pool without nodes; `None` if it has some.
pub fn without_nodes(input: &ReportInput) -> Option<ComputedCondition> {
    if !input.active.members.is_empty() {
        return None;
    }
    let because = |reason, message: &str| Some(NODES_ASSIGNED.because(reason, message));
    let Members::Selector(selector) = &input.spec.members else {
        return because(reason::ASSIGNED, "other pools match all Windows nodes");
    };
    match (machines(input), decided_at(input).is_none()) {
        (Some(selected), _) if selected.elsewhere => {
            because(reason::ASSIGNED, "the nodes of the machines are in another cluster")
        }
        (Some(selected), _) if selected.groups.iter().all(|group| group.machines == 0) => {
            because(reason::SCALED_TO_ZERO, "no Windows node matches, and the machines of Cluster API have no replicas")
        }
        _ if unmatched_since(input).is_none() => {
            because(reason::SCALED_TO_ZERO, "no Windows node matches now, and some have matched before")
        }
        _ if input.pool.consents.allow(Consent::Empty(&input.spec.members)) => {
            because(reason::SCALED_TO_ZERO, "no Windows node matches, as is allowed")
        }
        (None, true) => Some(selects_no_node(input, selector)),
        _ => match input.snapshot.linux_nodes {
            0 => because(reason::NO_NODES, "no Windows node matches yet"),
            linux => {
                Some(NODES_ASSIGNED.because(reason::ONLY_LINUX_NODES, only_linux_nodes(input, linux)).about(linux))
            }
        },
    }
}

/// When a selector that matches no node becomes a problem, if that is later.
pub fn decided_at(input: &ReportInput) -> Option<Timestamp> {
    let decided = unmatched_since(input)?.0 + WAITS;
    (input.snapshot.now < decided).then_some(decided)
}

/// The machines that the pool selects, if it selects any.
fn machines<'a>(input: &'a ReportInput) -> Option<&'a Selected> {
    let Some(ClusterApiState::Installed(Some(selected))) = &input.active.cluster_api.state else { return None };
    Some(selected.as_ref()).filter(|selected| !selected.groups.is_empty())
}

fn selects_no_node(input: &ReportInput, selector: &LabelSelector) -> ComputedCondition {
    let hint = match input.snapshot.linux_nodes {
        0 => unmatched(input, selector),
        linux => only_linux_nodes(input, linux),
    };
    let message = format!(
        "the selector {selector} has matched no Windows node for {} minutes: {hint}. Correct spec.nodeSelector or the labels of the nodes. \
         If the pool is meant to be empty: {}",
        WAITS.as_mins(),
        Consent::Empty(&input.spec.members).command(&input.pool.name)
    );
    NODES_ASSIGNED.because(reason::SELECTS_NO_NODE, message)
}

/// A selector that matches this number of Linux nodes.
fn only_linux_nodes(input: &ReportInput, count: usize) -> String {
    let nodes = counted(count, "Linux node");
    format!(
        "no Windows node matches, but {nodes} {} this selector: {}. A pool has only nodes with the label {}=windows. Select by a \
         label of the Windows nodes: kubectl get nodes -l {}=windows --show-labels",
        nodes.agree("matches", "match"),
        input.spec.members,
        label::OS,
        label::OS,
    )
}

/// The first part of a selector that no Windows node matches, and what is like it.
fn unmatched(input: &ReportInput, selector: &LabelSelector) -> String {
    let nodes = || input.snapshot.nodes.values().map(|node| &node.labels);
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in nodes().flatten() {
        values.entry(key).or_default().insert(value);
    }
    let Some(part) = selector.parts().find(|part| !nodes().any(|labels| part.matches(labels))) else {
        return "each of its parts matches a Windows node, and none matches all".to_owned();
    };
    if values.is_empty() {
        return "the cluster has no Windows node".to_owned();
    }
    let (key, wanted) = match (part.match_labels.first_key_value(), part.match_expressions.first()) {
        (Some((key, value)), _) => (key.as_str(), Some(value)),
        (None, Some(requirement)) => (requirement.key.as_str(), requirement.values.first()),
        (None, None) => return String::new(),
    };
    let did_you_mean =
        |meant: Option<String>| meant.map(|meant| format!(", did you mean {meant}?")).unwrap_or_default();
    match values.get(key) {
        None => {
            let meant = closest(key, values.keys().copied()).map(str::to_owned);
            format!("no Windows node has the label {key}{}", did_you_mean(meant))
        }
        Some(present) => {
            let meant = wanted.and_then(|wanted| closest(wanted, present.iter().copied()));
            let meant = meant.map(|meant| format!("{key}={meant}"));
            format!("on Windows nodes {key} is {}{}", some_of(present), did_you_mean(meant))
        }
    }
}
