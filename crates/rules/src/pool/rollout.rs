//! The rollout of configurations to the nodes of a pool whose agents apply them.
//!
//! A configuration is first applied to one node, and to others when it is confirmed there. At any time at most
//! `maxUnavailable` nodes are unavailable because of the rollout; nodes that are unavailable for other causes count too.
//! After `maxFailures` failures no further node begins. The deadlines are those of the operator: an agent that does not
//! report in time has failed. A node that somebody else works on counts as unavailable, and nothing begins there.
//!
//! Outside of the maintenance windows nothing begins, except that a new node gets its first configuration, without a drain: few pods
//! run there yet. What has begun is finished.
//!
//! Two cases need no place among the unavailable nodes: a node that joined the pool after the rollout began and has no
//! configuration yet, and a node that an earlier configuration of the rollout made unavailable.

mod disruption;
mod input;
mod state;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

pub use self::{
    disruption::{differing_files, disruption_of},
    input::{Assigned, Cordoned, Desired, PodsToEvict, RolloutNode, RolloutRules},
    state::{FailureReason, NodeRollout},
};
use winpool_api::{Disruption, names::reason};

use super::maintenance::Maintenance;

/// How long after a reconcile that waits for pods or heartbeats, which cause no event, the next one follows.
const POLL_INTERVAL: SignedDuration = SignedDuration::from_secs(5);

/// How long after its creation a node is new.
const NEW_FOR: SignedDuration = SignedDuration::from_mins(10);

/// What to do with a node now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutAction {
    /// Cordon it for the desired configuration. Its pods are evicted when that is written.
    Cordon,
    Evict,
    /// Assign the desired configuration to its agent.
    Assign(Disruption),
    Confirm,
    /// Remove the operator's cordon.
    Uncordon,
    /// Remove the operator's cordon, and record that the node could not be drained.
    Release,
    /// Record at a node that needs nothing that this attempt has seen it: a change on the node that comes later is none of it.
    RecordAttempt,
}

/// What to do now, and the state of the rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutPlan {
    /// The actions by name of the node, in this order; at most one for each node.
    pub actions: Vec<(String, RolloutAction)>,
    pub state: RolloutState,
    pub progress: RolloutProgress,
    /// The nodes that run their desired configuration.
    pub done: BTreeSet<String>,
    /// Those of them that something else has changed since.
    pub changed: Vec<String>,
    /// Those of them that cannot have a part of it.
    pub partly: Vec<String>,
    /// Those that are not drained, because no available node has the CSI drivers of their pods.
    pub held: Vec<String>,
    /// When the first node began to change to a configuration that not all nodes run yet, by the operator's clock.
    pub begun: Option<Timestamp>,
    /// When to plan again without an event.
    pub next: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// Every node runs its desired configuration.
    Complete,
    /// Nodes are changing, or wait for others.
    RollingOut,
    /// The rollout is paused; nodes that have begun are finished.
    Paused,
    /// Nothing is in progress, and no further node begins before the next maintenance window.
    AwaitsWindow { begins: Timestamp },
    /// No further node begins, because the configuration failed.
    Halted,
}

/// How far a rollout is. Names are in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutProgress {
    /// The number of nodes that run their desired configuration.
    pub done: usize,
    /// The number of nodes with a desired configuration.
    pub total: usize,
    /// The nodes that are being changed.
    pub in_progress: Vec<String>,
    /// The nodes that are unavailable for other causes.
    pub unavailable: Vec<String>,
    /// The nodes where the desired configuration failed.
    pub failures: Vec<NodeFailure>,
}

/// A node where a configuration failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFailure {
    pub node: String,
    /// The name of the ConfigMap.
    pub config: String,
    pub reason: FailureReason,
}

/// Plans the rollout. The order of the nodes does not matter.
pub fn plan(rules: &RolloutRules, maintenance: Maintenance, nodes: &[RolloutNode<'_>], now: Timestamp) -> RolloutPlan {
    let mut nodes: Vec<_> = nodes.iter().map(|node| Entry::new(node, rules, now)).collect();
    nodes.sort_by_key(|entry| entry.node.name);
    let starts = Starts::of(&nodes);
    for entry in &mut nodes {
        entry.joining = starts.joins(entry.node);
    }
    let failures = nodes.iter().filter(|entry| matches!(entry.state, NodeRollout::Failed(_))).count();
    let halted = failures >= rules.max_failures;
    let frozen = halted || rules.paused;
    let held: Vec<bool> =
        (0..nodes.len()).map(|index| nodes[index].is_unfinished() && is_held(&nodes, index)).collect();
    for (entry, held) in nodes.iter_mut().zip(&held) {
        entry.action = entry.continuation(frozen).filter(|action| !held || *action != RolloutAction::Evict);
    }
    if !frozen {
        begin(rules, maintenance, &mut nodes, now);
    }
    for entry in &mut nodes {
        entry.action = entry.action.or_else(|| entry.removal_of_cordon(frozen)).or_else(|| entry.record(rules));
    }
    let progress = progress_of(&nodes);
    RolloutPlan {
        begun: starts.begun(&nodes),
        held: nodes
            .iter()
            .zip(held)
            .filter(|(entry, held)| *held && entry.drains())
            .map(|(entry, _)| entry.name())
            .collect(),
        state: state_of(rules, maintenance, &nodes, &progress, halted),
        progress,
        done: nodes.iter().filter(|entry| entry.state == NodeRollout::Done).map(Entry::name).collect(),
        changed: done_with(&nodes, reason::CHANGED_ON_NODE),
        partly: done_with(&nodes, reason::PARTLY_APPLIED),
        next: nodes.iter().filter_map(|entry| entry.next(rules, now)).min(),
        actions: nodes.iter().filter_map(|entry| Some((entry.name(), entry.action?))).collect(),
    }
}

/// The nodes that run their desired configuration, with this reservation of the agent.
fn done_with(nodes: &[Entry<'_>], reason: &str) -> Vec<String> {
    let done = nodes.iter().filter(|entry| entry.state == NodeRollout::Done);
    done.filter(|entry| entry.node.assigned.is_some_and(|assigned| assigned.is_applied_with(reason)))
        .map(Entry::name)
        .collect()
}

/// A node with its state, and what to do with it.
struct Entry<'a> {
    node: &'a RolloutNode<'a>,
    state: NodeRollout,
    /// Whether it joined after the rollout began, and has no configuration yet.
    joining: bool,
    action: Option<RolloutAction>,
    /// The deadline of an action that begins now.
    begun_until: Option<Timestamp>,
}

impl<'a> Entry<'a> {
    fn new(node: &'a RolloutNode<'a>, rules: &RolloutRules, now: Timestamp) -> Self {
        let state = NodeRollout::of(node, rules, now);
        Self { node, state, joining: false, action: None, begun_until: None }
    }

    fn name(&self) -> String {
        self.node.name.to_owned()
    }

    fn desired_digest(&self) -> &'a str {
        self.node.desired.map_or("", |desired| desired.digest)
    }

    fn is_available(&self) -> bool {
        self.node.ready && !self.node.occupied && self.node.cordoned == Cordoned::No
    }

    fn is_in_progress(&self) -> bool {
        matches!(self.state, NodeRollout::Draining { .. } | NodeRollout::Applying { .. })
    }

    /// Whether the operator has confirmed its configuration, so that the agent restarts nothing any more.
    fn is_finishing(&self) -> bool {
        let confirmed = self.node.assigned.is_some_and(|assigned| assigned.spec.is_confirmed());
        matches!(self.state, NodeRollout::Applying { .. }) && (confirmed || self.action == Some(RolloutAction::Confirm))
    }

    /// Whether it counts as unavailable. A change of a joining node is no disruption, because few pods run there yet.
    fn is_occupied(&self) -> bool {
        !self.is_available() || (self.is_in_progress() && !self.joining && !self.is_finishing())
    }

    /// Whether it was created lately, and has no configuration yet.
    fn is_new(&self, now: Timestamp) -> bool {
        is_first(self.node) && self.node.created.is_some_and(|created| now < created + NEW_FOR)
    }

    fn is_changing_to_desired(&self) -> bool {
        match self.state {
            NodeRollout::Draining { .. } => true,
            NodeRollout::Applying { .. } => {
                self.node.assigned.is_some_and(|assigned| assigned.spec.digest == self.desired_digest())
            }
            _ => false,
        }
    }

    /// Whether it waits for the rollout, and nobody else works on it.
    fn may_begin(&self) -> bool {
        self.state == NodeRollout::Waiting && !self.node.occupied
    }

    /// Whether the rollout may change it: it is available, or unavailable because of the rollout, and can be drained.
    fn is_eligible(&self) -> bool {
        if self.node.desired.is_some_and(|desired| desired.drain) && self.node.pods == PodsToEvict::Unknown {
            return false;
        }
        let unconfirmed = self.node.assigned.is_some_and(|assigned| !assigned.spec.is_confirmed());
        match self.node.cordoned {
            Cordoned::No => self.node.ready || unconfirmed,
            Cordoned::ByOperator(_) => true,
            Cordoned::ByOthers => false,
        }
    }

    /// Whether it waits, or is drained.
    fn is_unfinished(&self) -> bool {
        matches!(self.state, NodeRollout::Waiting | NodeRollout::Draining { .. })
    }

    /// Whether it waits for a drain, or is drained.
    fn drains(&self) -> bool {
        self.is_unfinished() && self.node.desired.is_some_and(|desired| desired.drain)
    }

    /// The next action of a node that has begun.
    fn continuation(&self, frozen: bool) -> Option<RolloutAction> {
        match &self.state {
            NodeRollout::Draining { .. } if frozen => None,
            NodeRollout::Draining { .. } => match self.node.pods {
                PodsToEvict::None => Some(RolloutAction::Assign(Disruption::Drain)),
                PodsToEvict::Some => Some(RolloutAction::Evict),
                PodsToEvict::Unknown => None,
            },
            NodeRollout::Applying { verifying: true, .. } => {
                let confirmed = self.node.assigned.is_some_and(|assigned| assigned.spec.is_confirmed());
                (self.node.ready && self.node.verified && !confirmed).then_some(RolloutAction::Confirm)
            }
            _ => None,
        }
    }

    /// How the cordon of the operator is removed, if it is no longer needed. A node whose agent did not answer in time stays cordoned,
    /// because its state is not known. That a node could not be drained stays recorded for the attempt.
    fn removal_of_cordon(&self, frozen: bool) -> Option<RolloutAction> {
        let is_cordoned = matches!(self.node.cordoned, Cordoned::ByOperator(_));
        let is_recorded = self.node.cordoned == Cordoned::No && self.node.released.is_some();
        match &self.state {
            NodeRollout::Failed(FailureReason::DrainTimedOut) => is_cordoned.then_some(RolloutAction::Release),
            NodeRollout::Failed(FailureReason::TimedOut) | NodeRollout::Applying { .. } => None,
            NodeRollout::Draining { .. } if !frozen => None,
            _ => (is_cordoned || is_recorded).then_some(RolloutAction::Uncordon),
        }
    }

    fn record(&self, rules: &RolloutRules) -> Option<RolloutAction> {
        let is_unseen = self.state == NodeRollout::Done
            && self.node.assigned.is_some_and(|assigned| assigned.spec.attempt < rules.attempt);
        is_unseen.then_some(RolloutAction::RecordAttempt)
    }

    /// When it has to be planned again without an event.
    fn next(&self, rules: &RolloutRules, now: Timestamp) -> Option<Timestamp> {
        let deadline = match self.state {
            NodeRollout::Draining { deadline } | NodeRollout::Applying { deadline, .. } => Some(deadline),
            NodeRollout::Done => self.node.assigned.and_then(|assigned| assigned.reapplied_from(rules)),
            _ => None,
        };
        let waits = match self.state {
            NodeRollout::Draining { .. } => true,
            NodeRollout::Applying { verifying, .. } => verifying && self.action.is_none(),
            _ => false,
        };
        let poll = waits.then_some(now + POLL_INTERVAL);
        deadline.into_iter().chain(self.begun_until).chain(poll).min()
    }
}

/// When the rollout of each digest began: its first assignment in the pool.
struct Starts<'a>(BTreeMap<&'a str, Timestamp>);

impl<'a> Starts<'a> {
    fn of(nodes: &[Entry<'a>]) -> Self {
        let mut starts = BTreeMap::new();
        for spec in nodes.iter().filter_map(|entry| entry.node.assigned).map(|assigned| assigned.spec) {
            let start = starts.entry(spec.digest.as_str()).or_insert(spec.assigned_at());
            *start = (*start).min(spec.assigned_at());
        }
        Self(starts)
    }

    /// When the first node began to change to a configuration that not all nodes run yet. A node that joins later begins when
    /// it is created, and one that gets its configuration again, when that is assigned again.
    fn begun(&self, nodes: &[Entry<'a>]) -> Option<Timestamp> {
        let unfinished = nodes.iter().filter(|entry| entry.state != NodeRollout::Done);
        let begun = unfinished.filter_map(|entry| {
            let desired = entry.node.desired?;
            let cordon = entry.node.last_cordon().filter(|cordon| cordon.config == desired.config);
            let cordoned = cordon.map(|cordon| cordon.since);
            let assigned = entry.node.assigned.filter(|assigned| assigned.spec.digest == desired.digest);
            let begun = match assigned.filter(Assigned::is_repeated) {
                Some(Assigned { spec, .. }) => (!spec.is_confirmed()).then(|| spec.assigned_at()),
                None => self.0.get(desired.digest).copied(),
            };
            let begun = begun.into_iter().chain(cordoned).min();
            begun.map(|begun| entry.node.created.map_or(begun, |created| created.max(begun)))
        });
        begun.min()
    }

    /// Whether a node joined after the rollout of its desired configuration began, and has none yet.
    fn joins(&self, node: &RolloutNode<'_>) -> bool {
        let start = node.desired.and_then(|desired| self.0.get(desired.digest));
        is_first(node) && start.zip(node.created).is_some_and(|(start, created)| *start < created)
    }
}

/// Whether the desired configuration of a node is its first.
fn is_first(node: &RolloutNode<'_>) -> bool {
    node.assigned.is_none_or(|assigned| {
        assigned.status.applied.is_none() && assigned.spec.digest == node.desired.map_or("", |it| it.digest)
    })
}

/// Begins with as many nodes as the rules allow, outside of the maintenance windows only with new ones.
fn begin(rules: &RolloutRules, maintenance: Maintenance, nodes: &mut [Entry<'_>], now: Timestamp) {
    let is_open = maintenance.awaited().is_none();
    let limit = rules.max_unavailable.of(nodes.len());
    let mut occupied = nodes.iter().filter(|entry| entry.is_occupied()).count();
    let done = nodes.iter().filter(|entry| entry.state == NodeRollout::Done);
    let proven: BTreeSet<&str> = done.map(Entry::desired_digest).collect();
    let is_canary = |entry: &Entry| !proven.contains(entry.desired_digest());
    let mut canary = nodes.iter().any(|entry| entry.is_changing_to_desired() && !entry.joining && is_canary(entry));
    let may_begin = |entry: &Entry| entry.may_begin() && (is_open || entry.joining || entry.is_new(now));
    let mut candidates: Vec<usize> = (0..nodes.len()).filter(|index| may_begin(&nodes[*index])).collect();
    // Those that make no further node unavailable come first; the order is otherwise that of the names.
    candidates.sort_by_key(|index| (!nodes[*index].joining, !nodes[*index].is_occupied()));
    for index in candidates {
        let entry = &nodes[index];
        if !entry.joining {
            let cost = usize::from(!entry.is_occupied());
            let fits = cost == 0 || occupied + cost <= limit;
            let held = entry.drains() && is_held(nodes, index);
            if !entry.is_eligible() || !fits || held || (canary && is_canary(entry)) {
                continue;
            }
            occupied += cost;
            canary |= is_canary(entry);
        }
        let action = entry.node.desired.map(|desired| match desired.drain && !entry.joining && is_open {
            true => RolloutAction::Cordon,
            false => RolloutAction::Assign(desired.restart),
        });
        let entry = &mut nodes[index];
        entry.action = action;
        entry.begun_until = Some(now + rules.timeout);
    }
}

/// Whether nodes would take over the pods of a node, and none of them has their CSI drivers: the pods would not start, also when the node
/// is back. Nodes that begin now take over nothing. Without a node that does, the pods wait for this one.
fn is_held(nodes: &[Entry<'_>], index: usize) -> bool {
    let Some(takers) = nodes[index].node.takers else { return false };
    let others = nodes.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, entry)| entry);
    let mut others = others.filter(|entry| entry.is_available() && entry.action.is_none()).peekable();
    others.peek().is_some() && !others.any(|entry| takers.contains(entry.node.name))
}

fn progress_of(nodes: &[Entry<'_>]) -> RolloutProgress {
    let names = |wanted: &dyn Fn(&Entry) -> bool| nodes.iter().filter(|entry| wanted(entry)).map(Entry::name).collect();
    let begins = |entry: &Entry| entry.state == NodeRollout::Waiting && entry.begun_until.is_some();
    let failure = |entry: &Entry| match (&entry.state, entry.node.desired) {
        (NodeRollout::Failed(reason), Some(desired)) => {
            Some(NodeFailure { node: entry.name(), config: desired.config.to_owned(), reason: reason.clone() })
        }
        _ => None,
    };
    let wanted = || nodes.iter().filter(|entry| entry.node.desired.is_some());
    RolloutProgress {
        done: wanted().filter(|entry| entry.state == NodeRollout::Done).count(),
        total: wanted().count(),
        in_progress: names(&|entry| entry.is_in_progress() || begins(entry)),
        unavailable: names(&|entry| !entry.is_available() && !entry.is_in_progress() && !begins(entry)),
        failures: nodes.iter().filter_map(failure).collect(),
    }
}

fn state_of(
    rules: &RolloutRules,
    maintenance: Maintenance,
    nodes: &[Entry<'_>],
    progress: &RolloutProgress,
    halted: bool,
) -> RolloutState {
    let waits = |entry: &Entry| entry.state == NodeRollout::Waiting || entry.is_in_progress();
    let waits = nodes.iter().any(|entry| entry.node.desired.is_some() && waits(entry));
    if halted || (!waits && !progress.failures.is_empty()) {
        RolloutState::Halted
    } else if progress.done == progress.total {
        RolloutState::Complete
    } else if rules.paused {
        RolloutState::Paused
    } else {
        let begins = maintenance.awaited().filter(|_| progress.in_progress.is_empty());
        begins.map_or(RolloutState::RollingOut, |begins| RolloutState::AwaitsWindow { begins })
    }
}
