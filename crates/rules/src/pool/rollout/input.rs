//! What a rollout is computed from.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use winpool_api::{
    Disruption, DrainPolicy, DriftPolicy, NodeConfigPhase, NodeLimit, WindowsNodeConfigSpec, WindowsNodeConfigStatus,
    names::reason,
};
use winpool_core::node::Cordon;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutRules {
    /// The number or percentage of nodes that may be unavailable.
    pub max_unavailable: NodeLimit,
    /// The number of failures after which no further node begins.
    pub max_failures: usize,
    /// How long a drain may take, and then the application of a configuration.
    pub timeout: SignedDuration,
    pub drain: DrainPolicy,
    /// The attempt: failures of earlier ones do not count.
    pub attempt: u32,
    /// Whether no further node begins.
    pub paused: bool,
    /// Whether a configuration is applied again to a node that something else has changed.
    pub drift: DriftPolicy,
}

#[derive(Clone, Copy, Debug)]
pub struct RolloutNode<'a> {
    pub name: &'a str,
    pub created: Option<Timestamp>,
    pub ready: bool,
    /// Whether somebody else works on it, by a condition such as MaintenanceInProgress.
    pub occupied: bool,
    /// Whether pods can be scheduled to it.
    pub cordoned: Cordoned<'a>,
    /// The last cordon of the operator, if it was removed because the pods could not be evicted in time.
    pub released: Option<&'a Cordon>,
    /// The configuration that it should run; `None` if it is not known or not rendered.
    pub desired: Option<Desired<'a>>,
    /// What the operator assigned, and what the agent reports.
    pub assigned: Option<Assigned<'a>>,
    /// Whether the operator's own checks agree with an agent that reports the assigned configuration as working.
    pub verified: bool,
    pub pods: PodsToEvict,
    /// The nodes that have the CSI drivers of these pods; `None` if they need none, or it is not known.
    pub takers: Option<&'a BTreeSet<&'a str>>,
}

impl<'a> RolloutNode<'a> {
    /// The cordon of the operator, present or released.
    pub fn last_cordon(&self) -> Option<&'a Cordon> {
        match self.cordoned {
            Cordoned::ByOperator(cordon) => Some(cordon),
            Cordoned::No | Cordoned::ByOthers => self.released,
        }
    }
}

/// The pods on a node that a drain evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodsToEvict {
    None,
    Some,
    /// Pods are not read, so the node cannot be drained.
    Unknown,
}

/// Whether a node is cordoned, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cordoned<'a> {
    /// It is not.
    No,
    /// By the operator, for a configuration.
    ByOperator(&'a Cordon),
    /// By another client.
    ByOthers,
}

/// The configuration that a node should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desired<'a> {
    /// The name of its ConfigMap.
    pub config: &'a str,
    pub digest: &'a str,
    /// What its application restarts: anything but [`Disruption::Drain`].
    pub restart: Disruption,
    /// Whether the node is drained before.
    pub drain: bool,
}

/// How often a configuration is applied again at most to a node that something else changes again and again.
const REAPPLY_INTERVAL: SignedDuration = SignedDuration::from_hours(1);

/// The WindowsNodeConfig of a node.
#[derive(Clone, Copy, Debug)]
pub struct Assigned<'a> {
    /// What the operator wrote.
    pub spec: &'a WindowsNodeConfigSpec,
    pub status: &'a WindowsNodeConfigStatus,
}

impl Assigned<'_> {
    /// Whether the node has the assigned configuration from an earlier assignment.
    pub fn is_repeated(&self) -> bool {
        self.status.applied.as_ref().is_some_and(|applied| applied.digest == self.spec.digest)
    }

    /// Whether the agent reports that something else has changed the node since the configuration was applied.
    pub fn has_changed(&self) -> bool {
        self.is_applied_with(reason::CHANGED_ON_NODE)
    }

    /// Whether the agent reports the configuration as applied, with this reservation.
    pub fn is_applied_with(&self, reason: &str) -> bool {
        let Self { spec, status } = self;
        status.phase == NodeConfigPhase::Applied && status.reason == reason && status.is_about(spec)
    }

    /// When a changed node gets its configuration again; `None` if it does not.
    pub fn reapplied_from(&self, rules: &RolloutRules) -> Option<Timestamp> {
        let again = match rules.drift {
            _ if self.spec.attempt < rules.attempt => self.spec.assigned_at(),
            DriftPolicy::Reapply => self.spec.assigned_at() + REAPPLY_INTERVAL,
            DriftPolicy::Report => return None,
        };
        self.has_changed().then_some(again)
    }
}
