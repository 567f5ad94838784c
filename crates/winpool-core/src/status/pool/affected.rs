//! The nodes and workloads that a problem of a pool affects, all of them: the messages of conditions name five.

use std::collections::{BTreeMap, BTreeSet};

use winpool_api::names::reason;

use super::{input::names, kubelet, windows};
use crate::{
    pool::{
        Snapshot, Spec,
        plan::{ActivePool, Member, Phase, Plan},
    },
    render::reserve::ConfigState,
    workload::{PoolWorkloads, Workloads},
};

/// What a problem affects, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// The workloads: kind, namespace and name.
    pub workloads: Vec<String>,
    /// The number of workloads, of which there may be more than named.
    pub workload_count: usize,
}

/// What the predicates on members depend on.
struct Input<'a> {
    snapshot: &'a Snapshot,
    spec: &'a Spec,
    active: &'a ActivePool,
    reason: &'a str,
}

/// Whether a condition's problem affects a member, by the type of the condition.
type Affects = fn(&Input, &Member) -> bool;

const NODES: &[(&str, Affects)] = &[
    ("ConfigInEffect", has_other_configuration),
    ("NodesAssigned", is_held_or_shared),
    ("NodesTainted", |input, member| member.has(input.reason) || (!input.has_obstacles() && !member.is_tainted())),
    ("OSMismatch", |input, member| {
        input.reason == reason::NODE_BUILD_DIFFERS && windows::is_mismatched(input.spec, &member.node)
    }),
    ("VersionSkew", |input, member| kubelet::is_skewed(input.snapshot, &member.node)),
];

impl Input<'_> {
    fn has_obstacles(&self) -> bool {
        self.active.members.iter().any(|member| member.has(self.reason))
    }
}

fn has_other_configuration(input: &Input, member: &Member) -> bool {
    let failed = input.active.delivery.failures();
    match input.reason {
        reason::ROLLOUT_HALTED => failed.iter().any(|failure| failure.node == member.node.name),
        reason::DIFFERS => matches!(member.config_state, Some(ConfigState::Differs(_))),
        _ => false,
    }
}

fn is_held_or_shared(input: &Input, member: &Member) -> bool {
    match input.reason {
        reason::RELEASE_HELD => member.held,
        reason::NODE_CONFLICT => input.active.shared.iter().any(|shared| shared.node == member.node.name),
        _ => false,
    }
}

/// What a problem of a condition with this reason affects, from a snapshot and the plan of the pool for it.
pub fn affected(snapshot: &Snapshot, plan: &Plan, condition: &str, reason: &str) -> Affected {
    let (Phase::Active(active), Ok(spec)) = (&plan.phase, &plan.pool.spec) else { return Affected::default() };
    let input = Input { snapshot, spec, active, reason };
    let rule = NODES.iter().find(|(name, _)| *name == condition);
    let members = rule.map(|(_, affects)| active.members.iter().filter(|member| affects(&input, member)).collect());
    let nodes = names(&members.unwrap_or_else(Vec::new)).into_iter().map(str::to_owned).collect();
    let of_pool = match &snapshot.workloads {
        Workloads::Known(pools) => pools.get(&plan.pool.name).map(AsRef::as_ref),
        Workloads::Off | Workloads::Waiting => None,
    };
    let (workloads, workload_count) = match reason {
        reason::WOULD_STRAND_PODS => stranded(active),
        reason => of_pool.map(|workloads| with_issue(workloads, reason)).unwrap_or_default(),
    };
    Affected { nodes, workloads, workload_count }
}

/// The workloads that do not tolerate a new taint.
fn stranded(active: &ActivePool) -> (Vec<String>, usize) {
    let names: BTreeSet<_> = active.taints.workloads.values().flat_map(BTreeMap::keys).collect();
    (names.iter().map(ToString::to_string).collect(), names.len())
}

/// The workloads with an issue of this reason.
fn with_issue(workloads: &PoolWorkloads, reason: &str) -> (Vec<String>, usize) {
    let issue = workloads.issues.iter().find(|(kind, _)| kind.reason() == reason);
    let names = |(_, affected): (_, &crate::workload::AffectedWorkloads)| {
        (affected.first.iter().map(|(name, _)| name.to_string()).collect(), affected.count)
    };
    issue.map(names).unwrap_or_default()
}
