//! Values of the metrics of a pool that its status does not have.

use std::collections::BTreeMap;

use jiff::Timestamp;
use winpool_api::{RuntimeClassState, TaintKey, names::reason};
use winpool_core::node::WindowsNode;
use winpool_facts::Minor;

use crate::{
    capacity::Capacity,
    known_issues::check,
    network,
    operation::{NodeEdit, Purpose, TaintEdit},
    pool::{
        Snapshot,
        plan::{ActivePool, Member, Plan},
    },
};

/// The number of changes that wait for a decision, by reason; every reason that a pool can have is listed. With
/// `Observing` these are operations, with `WouldStrand` RuntimeClasses, and else nodes.
pub fn holds(plan: &Plan) -> Vec<(&'static str, usize)> {
    let active = plan.active();
    let nodes = |holds: &dyn Fn(&Member) -> bool| {
        active.map_or(0, |active| active.members.iter().filter(|member| holds(member)).count())
    };
    let stranding = |active: &ActivePool| {
        active.classes.iter().filter(|class| class.state == RuntimeClassState::WouldStrand).count()
    };
    vec![
        (reason::OBSERVING, plan.withheld.len()),
        (reason::RELEASE_HELD, nodes(&|member| member.held)),
        (reason::TAINT_CONFLICT, nodes(&|member| member.has(reason::TAINT_CONFLICT))),
        (reason::LABEL_CONFLICT, nodes(&|member| member.has(reason::LABEL_CONFLICT))),
        (reason::WOULD_EVICT, nodes(&|member| member.has(reason::WOULD_EVICT))),
        (reason::WOULD_STRAND_PODS, nodes(&|member| member.has(reason::WOULD_STRAND_PODS))),
        (reason::REFUSED, nodes(&|member| member.has(reason::REFUSED))),
        (reason::WOULD_STRAND, active.map_or(0, stranding)),
    ]
}

/// The capacity of the nodes of a pool; `None` without the pods.
pub fn capacity(snapshot: &Snapshot, plan: &Plan) -> Option<Capacity> {
    let nodes = plan.active()?.members.iter().map(|member| member.node.as_ref());
    Some(Capacity::of(nodes, &snapshot.workloads.of(&plan.pool.name)?.requests))
}

/// The newest minor of the kubelets of a pool.
pub fn newest_minor(plan: &Plan) -> Option<Minor> {
    let members = plan.active()?.members.iter();
    members.filter_map(|member| member.node.kubelet_minor()).max()
}

/// The number of nodes by id, severity and state of known issues: `reported` in the status, `acknowledged`, `unreported`
/// because only another release line would help, or `undetermined` because an input is missing.
pub fn known_issues(snapshot: &Snapshot, plan: &Plan) -> Vec<([&'static str; 3], usize)> {
    let nodes = plan.active().into_iter().flat_map(|active| &active.members).map(|member| member.node.as_ref());
    let found = check(nodes, snapshot.workloads.of(&plan.pool.name));
    let rows = found.iter().flat_map(|finding| {
        let issue = finding.issue;
        let state = match finding.is_reported() {
            _ if plan.pool.consents.acknowledges(issue.entry.code) => "acknowledged",
            true => "reported",
            false => "unreported",
        };
        let undetermined = finding.undetermined.values().map(Vec::len).sum();
        let counts = [(state, finding.nodes.len()), ("undetermined", undetermined)];
        counts.map(|(state, nodes)| ([issue.entry.code, issue.severity.name(), state], nodes))
    });
    rows.filter(|(_, nodes)| *nodes > 0).collect()
}

/// The number of endpoints of HNS by node, and the number of nodes by the problem that HNS has there, as agents report them; nothing without
/// such a report.
pub fn networks(snapshot: &Snapshot, plan: &Plan) -> (Vec<(String, usize)>, BTreeMap<&'static str, usize>) {
    let members = plan.active().into_iter().flat_map(|active| &active.members);
    let (mut endpoints, mut problems) = (Vec::new(), BTreeMap::new());
    for (node, network) in
        members.filter_map(|Member { node, .. }| Some((node, snapshot.facts(node)?.network.as_ref()?)))
    {
        endpoints.push((node.name.clone(), network.endpoints as usize));
        for (reason, shown, _) in network::problems(network) {
            *problems.entry(reason).or_default() += usize::from(shown.is_some());
        }
    }
    (endpoints, problems)
}

/// The number of nodes that are Ready and lack a taint of the pool that excludes pods, if the pool writes.
pub fn ready_untainted(plan: &Plan) -> usize {
    let (Some(active), Ok(spec)) = (plan.active().filter(|_| plan.pool.enforces()), &plan.pool.spec) else { return 0 };
    let excluding = spec.taints.iter().filter(|taint| taint.excludes_pods());
    let keys: Vec<TaintKey> = excluding.map(TaintKey::from).collect();
    let lacks_taint =
        |node: &WindowsNode| !keys.iter().all(|key| node.taints.iter().any(|taint| TaintKey::from(taint) == *key));
    let untainted = |member: &&Member| member.node.ready && !is_written(member) && lacks_taint(&member.node);
    active.members.iter().filter(untainted).count()
}

/// Whether all taints were written.
fn is_written(member: &Member) -> bool {
    member.is_written() && !member.has(reason::REFUSED) && !member.has(reason::WRITE_FAILED)
}

/// How many seconds each new node that was tainted by `at` had been Ready, by the clock of the kubelet and that of the
/// operator; 0 for a node that was not Ready.
pub fn ready_before_taint(plan: &Plan, at: Timestamp) -> Vec<f64> {
    let members = plan.active().into_iter().flat_map(|active| &active.members);
    let tainted =
        members.filter(|member| member.is_written() && member.plan.edit.as_deref().is_some_and(taints_new_node));
    tainted.map(|member| seconds_ready(&member.node, at)).collect()
}

fn seconds_ready(node: &WindowsNode, at: Timestamp) -> f64 {
    let since = node.ready_since.filter(|_| node.ready);
    since.map_or(0.0, |since| at.duration_since(since).as_secs_f64().max(0.0))
}

fn taints_new_node(edit: &NodeEdit) -> bool {
    edit.purpose == Purpose::Taint && edit.taint_edits.iter().any(|edit| matches!(edit, TaintEdit::Set(..)))
}
