//! The state of one node in a rollout.

use std::fmt;

use jiff::Timestamp;
use winpool_api::NodeConfigPhase;
use winpool_core::ForeignText;

use super::input::{Assigned, Desired, RolloutNode, RolloutRules};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRollout {
    /// No configuration is desired, and none is being applied.
    Idle,
    /// It does not run its desired configuration, and has not begun to change.
    Waiting,
    /// The operator has cordoned it, and evicts its pods.
    Draining {
        /// When this has failed.
        deadline: Timestamp,
    },
    /// Its agent applies a configuration: the desired one, or a former one that it finishes first.
    Applying {
        /// When this has failed.
        deadline: Timestamp,
        /// Whether the agent waits for the confirmation.
        verifying: bool,
    },
    /// It runs its desired configuration.
    Done,
    /// Its desired configuration failed in the present attempt.
    Failed(FailureReason),
}

/// Why a configuration failed on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// The agent has restored the previous configuration; with the agent's reason.
    RolledBack(ForeignText),
    /// The agent has refused the configuration; with the agent's reason.
    Refused(ForeignText),
    /// The agent did not report a result in time.
    TimedOut,
    /// Pods could not be evicted in time.
    DrainTimedOut,
}

impl FailureReason {
    /// Every kind of failure, as in the metrics.
    pub const KINDS: [&str; 4] = ["RolledBack", "Refused", "TimedOut", "DrainTimedOut"];

    /// The kind of failure, without the agent's reason.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RolledBack(_) => Self::KINDS[0],
            Self::Refused(_) => Self::KINDS[1],
            Self::TimedOut => Self::KINDS[2],
            Self::DrainTimedOut => Self::KINDS[3],
        }
    }

    /// Whether the operator's deadline has passed.
    pub const fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut | Self::DrainTimedOut)
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RolledBack(reason) if reason.is_empty() => f.write_str("rolled back"),
            Self::RolledBack(reason) => write!(f, "rolled back: {reason}"),
            Self::Refused(reason) if reason.is_empty() => f.write_str("refused"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::TimedOut => f.write_str("the agent did not report a result in time"),
            Self::DrainTimedOut => f.write_str("its pods could not be evicted in time"),
        }
    }
}

/// What became of an assigned configuration.
enum Outcome {
    Applied,
    Failed(FailureReason),
    Running { deadline: Timestamp, verifying: bool },
}

impl NodeRollout {
    pub(super) fn of(node: &RolloutNode<'_>, rules: &RolloutRules, now: Timestamp) -> Self {
        let outcome = node.assigned.map(|assigned| (assigned.spec, outcome(assigned, rules, now)));
        let Some(desired) = node.desired else {
            return match outcome {
                Some((_, Outcome::Running { deadline, verifying })) => Self::Applying { deadline, verifying },
                _ => Self::Idle,
            };
        };
        match outcome {
            Some((_, Outcome::Running { deadline, verifying })) => Self::Applying { deadline, verifying },
            Some((spec, Outcome::Applied)) if spec.digest == desired.digest && !is_reapplied(node, rules, now) => {
                Self::Done
            }
            Some((spec, Outcome::Failed(reason))) if spec.digest == desired.digest && spec.attempt >= rules.attempt => {
                Self::Failed(reason)
            }
            _ => draining(node, &desired, rules, now).unwrap_or(Self::Waiting),
        }
    }
}

/// Whether a changed node gets its configuration again now.
fn is_reapplied(node: &RolloutNode<'_>, rules: &RolloutRules, now: Timestamp) -> bool {
    node.assigned.and_then(|assigned| assigned.reapplied_from(rules)).is_some_and(|from| from <= now)
}

/// The state of a node that the operator drains, or has drained in vain, for the desired configuration.
fn draining(
    node: &RolloutNode<'_>,
    desired: &Desired<'_>,
    rules: &RolloutRules,
    now: Timestamp,
) -> Option<NodeRollout> {
    let cordon = node.last_cordon()?;
    let is_current = desired.drain && cordon.config == desired.config && cordon.attempt >= rules.attempt;
    // A kubelet can write the annotation: a time in the future is none of the operator.
    let deadline = cordon.since.min(now) + rules.timeout;
    is_current.then(|| match now < deadline && !cordon.released {
        true => NodeRollout::Draining { deadline },
        false => NodeRollout::Failed(FailureReason::DrainTimedOut),
    })
}

fn outcome(Assigned { spec, status }: Assigned<'_>, rules: &RolloutRules, now: Timestamp) -> Outcome {
    let reported = status.is_about(spec).then_some(status.phase);
    let applied = status.applied.as_ref().is_some_and(|applied| applied.digest == spec.digest);
    let deadline = spec.assigned_at() + rules.timeout;
    match reported {
        Some(NodeConfigPhase::RolledBack) => Outcome::Failed(FailureReason::RolledBack(status.reason.as_str().into())),
        Some(NodeConfigPhase::Refused) => Outcome::Failed(FailureReason::Refused(status.reason.as_str().into())),
        _ if applied && spec.is_confirmed() => Outcome::Applied,
        _ if now >= deadline => Outcome::Failed(FailureReason::TimedOut),
        reported => {
            let verifying = matches!(reported, Some(NodeConfigPhase::Verifying | NodeConfigPhase::Applied));
            Outcome::Running { deadline, verifying }
        }
    }
}
