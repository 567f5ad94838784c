//! What a rollout is computed from.

use jiff::{SignedDuration, Timestamp};
use winpool_api::{Disruption, DrainPolicy, NodeLimit, WindowsNodeConfigSpec, WindowsNodeConfigStatus};

use crate::node::Cordon;

/// The settings of a rollout.
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
}

/// A node of the pool.
#[derive(Clone, Copy, Debug)]
pub struct RolloutNode<'a> {
    pub name: &'a str,
    pub created: Option<Timestamp>,
    pub ready: bool,
    /// Whether pods can be scheduled to it.
    pub cordoned: Cordoned<'a>,
    /// The configuration that it should run; `None` if it is not known or not rendered.
    pub desired: Option<Desired<'a>>,
    /// What the operator assigned, and what the agent reports.
    pub assigned: Option<Assigned<'a>>,
    /// Whether the operator's own checks agree with an agent that reports the assigned configuration as working.
    pub verified: bool,
    pub pods: PodsToEvict,
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

/// The WindowsNodeConfig of a node.
#[derive(Clone, Copy, Debug)]
pub struct Assigned<'a> {
    /// What the operator wrote.
    pub spec: &'a WindowsNodeConfigSpec,
    pub status: &'a WindowsNodeConfigStatus,
}
