//! Values of the metrics of a pool that its status does not have.

use std::collections::BTreeSet;

use jiff::Timestamp;
use winpool_api::{Mode, RuntimeClassState, TaintKey, facts::Minor, names::reason};

use crate::{
    node::WindowsNode,
    operation::{Done, NodePatch, Operation, Outcome, Purpose, TaintEdit, TaintPart},
    pool::plan::{ActivePool, Member, Phase, Plan},
};

/// The number of changes that wait for a decision, by reason; every reason that a pool can have is listed. With
/// `Observing` and `Paused` these are operations, with `WouldStrand` RuntimeClasses, and else nodes.
pub fn holds(plan: &Plan) -> Vec<(&'static str, usize)> {
    let active = active(plan);
    let nodes = |holds: &dyn Fn(&Member) -> bool| {
        active.map_or(0, |active| active.members.iter().filter(|member| holds(member)).count())
    };
    let stranding = |active: &ActivePool| {
        active.classes.iter().filter(|class| class.state == RuntimeClassState::WouldStrand).count()
    };
    let observes = plan.pool.spec.as_ref().is_ok_and(|spec| spec.mode == Mode::Observe && !spec.paused);
    let withheld = |by_mode: bool| if observes == by_mode { plan.withheld.len() } else { 0 };
    vec![
        (reason::OBSERVING, withheld(true)),
        (reason::PAUSED, withheld(false)),
        (reason::RELEASE_HELD, nodes(&|member| member.held)),
        (reason::TAINT_CONFLICT, nodes(&|member| !member.plan.taint_conflicts.is_empty())),
        (reason::LABEL_CONFLICT, nodes(&|member| !member.plan.label_conflicts.is_empty())),
        (reason::WOULD_EVICT, nodes(&|member| !member.plan.would_evict.is_empty())),
        (reason::WOULD_STRAND_PODS, nodes(&|member| !member.plan.would_strand.is_empty())),
        (reason::REFUSED, nodes(&|member| member.plan.refused.is_some())),
        (reason::WOULD_STRAND, active.map_or(0, stranding)),
    ]
}

/// The newest minor of the kubelets of a pool.
pub fn newest_minor(plan: &Plan) -> Option<Minor> {
    let members = active(plan)?.members.iter();
    members.filter_map(|member| member.node.kubelet.as_ref().ok().map(|kubelet| kubelet.minor)).max()
}

/// The number of nodes that are Ready and lack a taint of the pool that excludes pods, if the pool writes.
pub fn ready_untainted(plan: &Plan, done: &Done) -> usize {
    let (Some(active), Ok(spec)) = (active(plan).filter(|_| plan.pool.enforces()), &plan.pool.spec) else { return 0 };
    let excluding = spec.taints.iter().filter(|taint| taint.excludes_pods());
    let keys: Vec<TaintKey> = excluding.map(TaintKey::from).collect();
    let written = done.by_node();
    let lacks_taint = |node: &WindowsNode| {
        let is_written = written.get(node.name.as_str()).is_some_and(|outcome| wrote_all_taints(outcome));
        !is_written && !keys.iter().all(|key| node.taints.iter().any(|taint| TaintKey::from(taint) == *key))
    };
    active.members.iter().filter(|member| member.node.ready && lacks_taint(&member.node)).count()
}

/// How many seconds each new node that was tainted by `at` had been Ready, by the clock of the kubelet and that of the
/// operator; 0 for a node that was not Ready.
pub fn ready_before_taint(plan: &Plan, done: &Done, at: Timestamp) -> Vec<f64> {
    let Some(active) = active(plan) else { return Vec::new() };
    let tainted = done.results.iter().filter_map(|(operation, outcome)| match operation {
        Operation::PatchNode(patch) if taints_new_node(patch) && wrote_all_taints(outcome) => Some(&patch.node),
        _ => None,
    });
    let tainted: BTreeSet<&String> = tainted.collect();
    let members = active.members.iter().filter(|member| tainted.contains(&member.node.name));
    members.map(|member| seconds_ready(&member.node, at)).collect()
}

fn seconds_ready(node: &WindowsNode, at: Timestamp) -> f64 {
    let since = node.ready_since.filter(|_| node.ready);
    since.map_or(0.0, |since| at.duration_since(since).as_secs_f64().max(0.0))
}

fn taints_new_node(patch: &NodePatch) -> bool {
    let sets = |edit: &TaintEdit| matches!(edit, TaintEdit::Set(..));
    patch.change.purpose == Purpose::Taint && patch.change.taints.edits.iter().any(sets)
}

fn wrote_all_taints(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done => true,
        Outcome::Partly { written, .. } => written.taints == TaintPart::All,
        _ => false,
    }
}

fn active(plan: &Plan) -> Option<&ActivePool> {
    match &plan.phase {
        Phase::Active(active) => Some(active),
        Phase::Invalid | Phase::Retained | Phase::CleaningUp { .. } => None,
    }
}
