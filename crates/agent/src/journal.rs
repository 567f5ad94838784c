//! The state of the agent, durable on the node: the applied configuration, the change in progress with everything that is
//! needed to undo it, and the rejected configurations.
//!
//! It is one file that is replaced atomically, so that a crash leaves either the former or the new state.

use std::io;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use winpool_api::RollbackReason;

use super::{
    change_plan::ChangePlan,
    host::{Host, SandboxKind},
};

/// The file of the journal. An administrator of the node reads it, `winpool-agent restore` undoes its change.
pub const JOURNAL: &str = r"C:\Program Files\winpool\journal.json";

/// The number of rejected configurations that are kept; the oldest is dropped.
const REJECTIONS: usize = 16;

/// The state of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The last configuration that was verified and confirmed.
    pub applied: Option<ConfigId>,
    pub change: Option<CurrentChange>,
    /// What was not verified of the applied configuration, and why.
    #[serde(default)]
    pub unobserved: Option<String>,
    /// The part of the applied configuration that the node cannot have, and why.
    #[serde(default)]
    pub omitted: Option<String>,
    /// When services were last restarted, by the clock of the node.
    #[serde(default)]
    pub restarted: Option<Timestamp>,
    /// Configurations that were rolled back on this node, oldest first.
    #[serde(default)]
    pub rejected: Vec<PastRejection>,
}

/// A configuration, and how often its application was requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigId {
    pub config: String,
    pub digest: String,
    /// A higher number requests a rejected configuration again.
    pub attempt: u32,
}

/// A configuration that is not applied again until its digest changes or its attempt is raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRejection {
    pub id: ConfigId,
    pub failure: RollbackCause,
}

/// Why a change was rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackCause {
    pub reason: RollbackReason,
    pub message: String,
}

/// Whether a change is applied or undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    Apply,
    /// The former content is restored, because of a failure.
    RollBack(RollbackCause),
}

/// The next action of a change. Each can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeStage {
    Write,
    Restart,
    /// Wait until the services are healthy; since the restart.
    Verify(Timestamp),
    /// Wait for the operator's confirmation; since the restart.
    Confirm(Timestamp),
}

/// A change in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentChange {
    pub id: ConfigId,
    pub direction: Direction,
    pub stage: ChangeStage,
    /// The files and service definitions, former and new, and the services to restart.
    pub plan: ChangePlan,
    /// The uids of the pods that ran before the change.
    pub pods: Vec<String>,
    /// Why they are not known.
    #[serde(default)]
    pub pods_unknown: Option<String>,
    /// If containerd is restarted: the sandbox that it could start before the change, and has to start after it; or why it
    /// started none.
    #[serde(default)]
    pub sandbox: Option<Result<SandboxKind, String>>,
}

impl Journal {
    /// Reads the journal; empty on a node that the agent has not changed.
    /// After an error the agent must not change anything: it could not undo it.
    pub fn load(host: &dyn Host) -> io::Result<Self> {
        let Some(bytes) = host.read(JOURNAL)? else { return Ok(Self::default()) };
        serde_json::from_slice(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Replaces the journal on the node.
    pub fn save(&self, host: &dyn Host) -> io::Result<()> {
        host.replace(JOURNAL, &serde_json::to_vec_pretty(self).map_err(io::Error::other)?)
    }

    /// Whether a configuration is the last that was verified and confirmed.
    pub fn has_applied(&self, id: &ConfigId) -> bool {
        self.applied.as_ref().is_some_and(|applied| applied.digest == id.digest)
    }

    /// The rejection of a configuration, unless a higher attempt is requested.
    pub fn rejection(&self, id: &ConfigId) -> Option<&PastRejection> {
        self.rejected.iter().rev().find(|rejected| rejected.id.digest == id.digest && rejected.id.attempt >= id.attempt)
    }

    /// Ends a change that was rolled back. A superseded configuration is not rejected: it was not at fault.
    pub fn reject(&mut self, id: ConfigId, failure: RollbackCause) {
        self.change = None;
        self.rejected.retain(|rejected| rejected.id.digest != id.digest);
        if failure.reason != RollbackReason::Superseded {
            self.rejected.push(PastRejection { id, failure });
        }
        let excess = self.rejected.len().saturating_sub(REJECTIONS);
        self.rejected.drain(..excess);
    }

    /// Ends a change that was verified, but for what was not observed, and confirmed.
    pub fn commit(&mut self, CurrentChange { id, plan, pods_unknown, sandbox, .. }: CurrentChange) {
        self.change = None;
        let unobserved: Vec<_> = pods_unknown.into_iter().chain(sandbox.and_then(Result::err)).collect();
        (self.unobserved, self.omitted) = ((!unobserved.is_empty()).then(|| unobserved.join(". ")), plan.omitted);
        self.rejected.retain(|rejected| rejected.id.digest != id.digest);
        self.applied = Some(id);
    }
}

impl CurrentChange {
    /// A change that applies a plan.
    pub fn new(id: ConfigId, plan: ChangePlan) -> Self {
        let (direction, stage) = (Direction::Apply, ChangeStage::Write);
        Self { id, direction, stage, plan, pods: Vec::new(), pods_unknown: None, sandbox: None }
    }

    /// Begins to undo the change. The first failure is kept.
    pub fn roll_back(&mut self, failure: RollbackCause) {
        if self.direction == Direction::Apply {
            self.direction = Direction::RollBack(failure);
        }
        self.stage = ChangeStage::Write;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digest: &str, attempt: u32) -> ConfigId {
        ConfigId { config: format!("web-{digest}"), digest: digest.into(), attempt }
    }

    fn failure(reason: RollbackReason) -> RollbackCause {
        RollbackCause { reason, message: "kubelet".into() }
    }

    #[test]
    fn a_rejected_configuration_is_applied_again_only_by_a_higher_attempt() {
        let mut journal = Journal::default();
        journal.reject(id("a", 2), failure(RollbackReason::NotHealthy));
        for (requested, rejected) in [(id("a", 1), true), (id("a", 2), true), (id("a", 3), false), (id("b", 1), false)]
        {
            assert_eq!(journal.rejection(&requested).is_some(), rejected, "{requested:?}");
        }
        journal.commit(CurrentChange::new(id("a", 3), ChangePlan::default()));
        assert_eq!(journal.rejection(&id("a", 1)), None, "a confirmed configuration is no longer rejected");
    }

    #[test]
    fn a_superseded_configuration_is_not_rejected_and_the_oldest_rejections_are_dropped() {
        let mut journal = Journal::default();
        journal.reject(id("a", 0), failure(RollbackReason::Superseded));
        assert_eq!(journal.rejected, []);
        for number in 0..20 {
            journal.reject(id(&number.to_string(), 0), failure(RollbackReason::NotHealthy));
        }
        let digests: Vec<_> = journal.rejected.iter().map(|rejected| rejected.id.digest.as_str()).collect();
        assert_eq!((digests.len(), digests[0], digests[15]), (16, "4", "19"));
    }
}
