//! The nodes and workloads that a problem of a pool affects, all of them: the messages of conditions name five.

use std::collections::{BTreeMap, BTreeSet};

use winpool_api::{
    conditions::{
        CONFIG_IN_EFFECT, ConditionType, KNOWN_ISSUES, NODE_HYGIENE, NODES_ASSIGNED, NODES_TAINTED, OS_MISMATCH,
        OS_SUPPORTED, RUNTIME_SUPPORTED, VERSION_SKEW,
    },
    names::reason,
};
use winpool_facts::known_issues::KnownIssue;
use winpool_render::reserve::ConfigState;
use winpool_workload::{AffectedWorkloads, PoolWorkloads};

use super::{
    delivery, hygiene,
    input::{NodeMessages, ReportInput, names},
    known_issues, kubelet, runtime, windows,
};
use crate::{
    known_issues::{FoundIssue, Version},
    operation::Done,
    pool::{
        Snapshot,
        plan::{ActivePool, Phase, Plan},
        rollout::RolloutPlan,
    },
};

/// What a problem affects, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    pub nodes: Vec<String>,
    /// The workloads: kind, namespace and name.
    pub workloads: Vec<String>,
    /// The number of workloads, of which there may be more than named.
    pub workload_count: usize,
}

/// The nodes that a problem with this reason affects.
type Nodes = for<'a> fn(&'a ReportInput, &'a str) -> Vec<&'a str>;

static NODES: &[(&ConditionType, Nodes)] = &[
    (&CONFIG_IN_EFFECT, with_other_configuration),
    (&KNOWN_ISSUES, |input, _| {
        known_issues::reported(input)
            .into_iter()
            .flat_map(|finding| finding.nodes)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }),
    (&NODE_HYGIENE, |input, reason| of_reason(&hygiene::findings(input), reason)),
    (&NODES_ASSIGNED, held_or_shared),
    (&NODES_TAINTED, without_taints),
    (&OS_MISMATCH, |input, reason| {
        let is_of_build = reason == reason::NODE_BUILD_DIFFERS;
        names(&input.nodes(move |member| is_of_build && windows::is_mismatched(input.spec, &member.node)))
    }),
    (&OS_SUPPORTED, |input, reason| of_reason(&windows::support(input), reason)),
    (&RUNTIME_SUPPORTED, |input, reason| of_reason(&runtime::faults(input), reason)),
    (&VERSION_SKEW, |input, _| names(&input.nodes(move |member| kubelet::is_skewed(input.snapshot, &member.node)))),
];

fn with_other_configuration<'a>(input: &'a ReportInput, reason: &'a str) -> Vec<&'a str> {
    let failed = input.active.delivery.failures();
    let rollout = delivery::rollout(input);
    let is_in = move |list: fn(&RolloutPlan) -> &Vec<String>, node: &String| {
        rollout.is_some_and(|rollout| list(rollout).contains(node))
    };
    names(&input.nodes(move |member| match reason {
        reason::ROLLOUT_HALTED => failed.iter().any(|failure| failure.node == member.node.name),
        reason::CHANGED_ON_NODE => is_in(|plan| &plan.changed, &member.node.name),
        reason::PARTLY_APPLIED => is_in(|plan| &plan.partly, &member.node.name),
        reason::DIFFERS => matches!(member.config_state, Some(ConfigState::Differs(_))),
        _ => false,
    }))
}

fn held_or_shared<'a>(input: &'a ReportInput, reason: &'a str) -> Vec<&'a str> {
    match reason {
        reason::RELEASE_HELD => names(&input.nodes(move |member| member.held)),
        reason::NODE_CONFLICT => input.active.shared.iter().map(|shared| shared.node.as_str()).collect(),
        _ => Vec::new(),
    }
}

/// The nodes with an obstacle of this reason, or else all that lack something.
fn without_taints<'a>(input: &'a ReportInput, reason: &'a str) -> Vec<&'a str> {
    match input.nodes(move |member| member.has(reason)) {
        members if members.is_empty() => names(&input.nodes(move |member| !member.is_tainted())),
        members => names(&members),
    }
}

fn of_reason<'a>(found: &BTreeMap<&str, NodeMessages<'a>>, reason: &str) -> Vec<&'a str> {
    found.get(reason).into_iter().flat_map(NodeMessages::nodes).collect()
}

/// A known issue of nodes that is reported.
#[derive(Clone, Debug)]
pub struct ReportedIssue {
    pub issue: &'static KnownIssue,
    pub versions: BTreeSet<Version>,
    pub nodes: Vec<String>,
}

/// The known issues that the status of a pool reports, worst first.
pub fn reported_issues(snapshot: &Snapshot, plan: &Plan) -> Vec<ReportedIssue> {
    let pool = plan.pool.as_ref();
    let (Phase::Active(active), Ok(spec)) = (&plan.phase, &pool.spec) else { return Vec::new() };
    let input = ReportInput { snapshot, pool, spec, active, done: &Done::default(), withheld: !pool.enforces() };
    let owned = |FoundIssue { issue, versions, nodes, .. }| ReportedIssue {
        issue,
        versions,
        nodes: nodes.into_iter().map(str::to_owned).collect(),
    };
    known_issues::reported(&input).into_iter().map(owned).collect()
}

/// What a problem of a condition with this reason affects, from a snapshot and the plan of the pool for it.
pub fn affected(snapshot: &Snapshot, plan: &Plan, condition: &str, reason: &str) -> Affected {
    let pool = plan.pool.as_ref();
    let (Phase::Active(active), Ok(spec)) = (&plan.phase, &pool.spec) else { return Affected::default() };
    let done = &Done::default();
    let input = ReportInput { snapshot, pool, spec, active, done, withheld: !pool.enforces() };
    let rule = NODES.iter().find(|(of, _)| of.name == condition);
    let nodes = rule.map(|(_, nodes)| nodes(&input, reason)).unwrap_or_default();
    let (workloads, workload_count) = match reason {
        reason::WOULD_STRAND_PODS => stranded(active),
        reason => input.workloads().map(|workloads| with_issue(workloads, reason)).unwrap_or_default(),
    };
    Affected { nodes: nodes.into_iter().map(str::to_owned).collect(), workloads, workload_count }
}

/// The workloads that do not tolerate a new taint.
fn stranded(active: &ActivePool) -> (Vec<String>, usize) {
    let names: BTreeSet<_> = active.taints.workloads.values().flat_map(BTreeMap::keys).collect();
    (names.iter().map(ToString::to_string).collect(), names.len())
}

/// The workloads with an issue of this reason.
fn with_issue(workloads: &PoolWorkloads, reason: &str) -> (Vec<String>, usize) {
    let issue = workloads.issues.iter().find(|(kind, _)| kind.name() == reason);
    let names = |(_, affected): (_, &AffectedWorkloads)| {
        (affected.first.iter().map(|(name, _)| name.to_string()).collect(), affected.count)
    };
    issue.map(names).unwrap_or_default()
}
