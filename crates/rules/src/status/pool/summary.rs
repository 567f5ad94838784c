//! The summaries of the conditions: `Ready`, `Reconciling`, `Stalled`, and the column PROBLEM.

use std::time::Duration;

use jiff::SignedDuration;
use winpool_api::{
    TaintKey,
    conditions::{
        ComputedCondition, ConditionStatus, ConditionType, NODES_ASSIGNED, NODES_TAINTED, Next, PROFILE_RESOLVED,
        READY, RECONCILING, Role, STALLED,
    },
    names::reason,
};
use winpool_core::text::{about_nodes, counted};

use super::input::{ReportInput, names};
use crate::pool::{Pool, plan::Member};

/// How long nodes that were as specified can have a problem before Ready is False, because nodes join and leave.
const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(30);

/// What the conditions of a pool amount to.
pub struct Summary {
    /// `Ready`, and `Reconciling` or `Stalled` if it is True.
    pub conditions: Vec<ComputedCondition>,
    /// The worst problem, for the column PROBLEM.
    pub problem: String,
    /// The remaining grace period if it hides a problem.
    pub grace: Option<Duration>,
}

pub fn summary(input: &ReportInput, found: &[ComputedCondition]) -> Summary {
    let grace = |condition: &ComputedCondition| grace_left(input, condition);
    let (hidden, visible): (Vec<_>, Vec<_>) = found.iter().partition(|condition| grace(condition).is_some());
    let situation = Situation {
        delivers: input.spec.delivers(),
        withheld: input.withheld,
        refused: input.done.is_refused(),
        applying: is_applying(input).then_some(input.pool.generation),
    };
    let summaries = situation.summarise(&visible);
    let ready = summaries.ready.unwrap_or_else(|| as_specified(input));
    Summary {
        conditions: [ready].into_iter().chain(summaries.others).collect(),
        problem: problem(found),
        grace: hidden.into_iter().filter_map(grace).min().and_then(|left| Duration::try_from(left).ok()),
    }
}

/// What the summaries depend on in addition to the conditions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Situation {
    pub delivers: bool,
    /// Whether the pool does not write. Then only a profile that cannot be used is wrong, and a selector without nodes.
    pub withheld: bool,
    pub refused: bool,
    /// The generation that is still being applied.
    pub applying: Option<i64>,
}

#[derive(Debug, Default)]
pub struct Summaries {
    /// `Ready`, if it is False.
    pub ready: Option<ComputedCondition>,
    /// `Reconciling` or `Stalled`, if it is True.
    pub others: Option<ComputedCondition>,
}

impl Situation {
    pub fn summarise(&self, found: &[&ComputedCondition]) -> Summaries {
        // The reason is that of the worst condition, and the message refers to all. What is wrong is worse than what is at work.
        let because = |of: &'static ConditionType, holds: &dyn Fn(&ComputedCondition) -> bool| {
            let mut all: Vec<_> = found.iter().copied().filter(|condition| holds(condition)).collect();
            all.sort_by_key(|condition| (!self.is_wrong(condition), condition.harm()));
            all.first().map(|worst| of.because(worst.reason, see(&all)))
        };
        let applying = self.applying.map(|generation| {
            RECONCILING.because(reason::PROGRESSING, format!("generation {generation} is being applied"))
        });
        let stalled = || because(&STALLED, &|condition| self.is_wrong(condition) && self.needs_person(condition));
        let reconciling = || {
            let found = because(&RECONCILING, &|condition| self.is_wrong(condition) || self.is_at_work(condition));
            found.map(|reconciling| reconciling.with_status(ConditionStatus::True))
        };
        Summaries {
            ready: because(&READY, &|condition| self.is_wrong(condition)),
            others: applying.or_else(stalled).or_else(reconciling),
        }
    }

    /// Whether `Ready` is False because of a condition.
    fn is_wrong(&self, condition: &ComputedCondition) -> bool {
        match condition.of.role {
            _ if self.withheld => {
                let of_spec = *condition.of == PROFILE_RESOLVED || condition.reason == reason::SELECTS_NO_NODE;
                of_spec && condition.is_problem()
            }
            Role::Required => condition.status != ConditionStatus::True,
            Role::Delivery => {
                self.delivers && condition.is_problem() && matches!(condition.next(), Next::Person | Next::Passes)
            }
            Role::Summary | Role::Flag => false,
        }
    }

    fn needs_person(&self, condition: &ComputedCondition) -> bool {
        condition.next() == Next::Person || (condition.reason == reason::WRITE_FAILED && self.refused)
    }

    /// Whether the agents or Cluster API are at work, or nodes may be about to join.
    fn is_at_work(&self, condition: &ComputedCondition) -> bool {
        let is_of_delivery = condition.of.role == Role::Delivery && self.delivers;
        let is_problem = condition.status == condition.of.problem_when;
        let counts = condition.of.role == Role::Required || (is_of_delivery && is_problem);
        counts && condition.next() == Next::Proceeds && !self.withheld
    }
}

/// The message of a summary: which conditions have the messages with the remedies.
pub fn see(conditions: &[&ComputedCondition]) -> String {
    let names: Vec<_> = conditions.iter().map(|condition| condition.of.name).collect();
    let messages = if names.len() == 1 { "message" } else { "messages" };
    format!("see the {messages} of {}", names.join(", "))
}

fn as_specified(input: &ReportInput) -> ComputedCondition {
    match input.active.members.len() {
        _ if input.withheld => READY.because(reason::OBSERVING, withheld_message(input)),
        0 => READY.because(reason::AS_SPECIFIED, "the spec is applied, and no Windows node matches"),
        nodes => READY.because(reason::AS_SPECIFIED, format!("the spec is applied to {}", counted(nodes, "node"))),
    }
}

fn withheld_message(input: &ReportInput) -> String {
    let differ = input.nodes(|member| member.plan.edit.is_some());
    let pending = about_nodes(names(&differ), |nodes, _| {
        let differs = nodes.agree("differs", "differ");
        format!("the mode is Observe, and {nodes} {differs} from the spec. status.pending lists the first changes")
    });
    pending.unwrap_or_else(|| "the mode is Observe, and no node differs from the spec".to_owned())
}

/// Whether a new generation is still being applied, and no write is refused.
fn is_applying(input: &ReportInput) -> bool {
    let new = input.pool.status.observed_generation != Some(input.pool.generation);
    let unfinished = || {
        input.pool.status.condition(&RECONCILING).is_some_and(|before| before.reason == reason::PROGRESSING)
            || input.pool.status.condition(&STALLED).is_some_and(|before| before.reason == reason::WRITE_FAILED)
    };
    !input.withheld && !input.done.complete && !input.done.is_refused() && (new || unfinished())
}

/// The worst problem and the number of further ones, such as `Kubelet/TooOld(3) +2`; `-` without problems.
fn problem(found: &[ComputedCondition]) -> String {
    let mut problems: Vec<_> = found.iter().filter(|condition| condition.is_problem()).collect();
    problems.sort_by_key(|condition| condition.harm());
    let worst = problems.first().map(|worst| {
        let count = if worst.count > 0 { format!("({})", worst.count) } else { String::new() };
        let more = if problems.len() > 1 { format!(" +{}", problems.len() - 1) } else { String::new() };
        format!("{}{count}{more}", worst.of.problem_name(worst.reason))
    });
    worst.unwrap_or_else(|| "-".to_owned())
}

/// The remaining grace period of a problem with nodes that were as specified in this generation.
fn grace_left(input: &ReportInput, wrong: &ComputedCondition) -> Option<SignedDuration> {
    let had_all = || input.active.members.iter().all(|member| member.is_tainted() || had_all(input, member));
    let is_of_nodes = *wrong.of == NODES_ASSIGNED || (*wrong.of == NODES_TAINTED && had_all());
    let is_late = wrong.reason == reason::SELECTS_NO_NODE;
    if wrong.status == ConditionStatus::True || input.withheld || is_late || !is_of_nodes || !was_ready(input.pool) {
        return None;
    }
    let before = input.pool.status.condition(wrong.of).filter(|before| before.status == wrong.status.name());
    let since = before.map(|before| before.last_transition_time.0);
    let lasted = since.map_or(SignedDuration::ZERO, |since| input.snapshot.now.duration_since(since));
    (lasted < GRACE_PERIOD).then(|| GRACE_PERIOD - lasted)
}

fn was_ready(pool: &Pool) -> bool {
    let of_generation = pool.status.observed_generation == Some(pool.generation);
    of_generation && pool.status.condition(&READY).is_some_and(|ready| ready.status == "True")
}

/// Whether the record of a node has all labels and taints of the spec. A node that has just joined has no record.
fn had_all(input: &ReportInput, member: &Member) -> bool {
    let record = input.snapshot.ownership.record_state(&member.node).verified();
    record.filter(|record| record.pool == input.pool.name).is_some_and(|record| {
        input.spec.taints.iter().all(|taint| record.taints.contains_key(&TaintKey::from(taint)))
            && input.spec.labels.keys().all(|key| record.labels.contains_key(key))
    })
}
