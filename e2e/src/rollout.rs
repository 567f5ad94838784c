//! The course of rollouts, from the objects in the audit log: who was assigned a configuration when, and how that ended.
//!
//! The order is that of the resource versions, which all objects in etcd share, so that it does not depend on clocks, and
//! every state counts, however short it was.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::json;
use winpool_api::NodeConfigPhase;

use crate::audit::Stored;

const CORDONED: &str = "winpool.dev/cordoned";

/// The writes of rollouts, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutLog(Vec<Moment>);

/// A write that changed the rollout of a node or pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The resource version.
    pub version: u64,
    /// The time of an assignment is what the operator has stored, to the second. Any other write has the time at which the API server
    /// received it, which can be long after the operator decided on it.
    pub at: Timestamp,
    /// The node, or the pool.
    pub name: String,
    /// What happened.
    pub step: Step,
}

/// What happened to a node or pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The operator has cordoned the node.
    Cordoned,
    /// The operator has removed its cordon.
    Uncordoned,
    /// The operator has assigned a configuration to the node.
    Assigned { digest: String, attempt: u64 },
    /// The agent reports this phase of the assigned configuration.
    Reported(NodeConfigPhase),
    /// The operator has confirmed the configuration.
    Confirmed,
    /// The WindowsNodeConfig was deleted.
    Deleted,
    /// The Node was deleted.
    NodeDeleted,
    /// The pool reports that its rollout is halted.
    Halted,
    /// The pool reports that its rollout is not halted any more.
    Continued,
}

impl Step {
    /// Whether the agent has ended the assigned configuration without success.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Reported(NodeConfigPhase::RolledBack | NodeConfigPhase::Refused))
    }
}

impl RolloutLog {
    /// Reads the stored objects, in their order.
    pub fn read(stored: &[Stored]) -> Result<Self> {
        let mut moments = Vec::new();
        let mut states: BTreeMap<(&str, &str), State> = BTreeMap::new();
        for write in stored {
            let before = states.entry((&write.resource, &write.name)).or_default();
            let after = before.after(write).with_context(|| format!("{} {}", write.resource, write.name))?;
            moments.extend(before.steps_to(&after).into_iter().map(|step| Moment {
                version: write.version,
                at: after.time_of(&step).unwrap_or(write.received),
                name: write.name.clone(),
                step,
            }));
            *before = after;
        }
        Ok(Self(moments))
    }

    /// The moments, in order.
    pub fn moments(&self) -> &[Moment] {
        &self.0
    }

    /// The moments of a node or pool with a step that `wanted` selects.
    pub fn of<'l>(&'l self, name: &'l str, wanted: impl Fn(&Step) -> bool + 'l) -> impl Iterator<Item = &'l Moment> {
        self.0.iter().filter(move |moment| moment.name == name && wanted(&moment.step))
    }

    /// The number of moments with a step that `wanted` selects.
    pub fn count(&self, wanted: impl Fn(&Step) -> bool) -> usize {
        self.0.iter().filter(|moment| wanted(&moment.step)).count()
    }

    /// The most nodes that were in progress at once: from the cordon or the assignment to the confirmation, the failure or
    /// the end of the timeout, and as long as they are cordoned.
    pub fn most_in_progress(&self, timeout: Duration) -> usize {
        let mut progress = BTreeMap::<&str, InProgress>::new();
        let mut most = 0;
        for moment in &self.0 {
            progress.entry(&moment.name).or_default().advance(moment);
            most = most.max(progress.values().filter(|node| node.is_at(moment.at, timeout)).count());
        }
        most
    }

    /// Checks that each configuration was assigned to one node first, and to others only after its confirmation there, or
    /// after the first node was deleted.
    pub fn check_canaries(&self) -> Result<()> {
        for digest in self.digests() {
            let is_of = |moment: &&Moment| matches!(&moment.step, Step::Assigned { digest: of, .. } if of == digest);
            let mut assigned = self.0.iter().filter(is_of);
            let Some(first) = assigned.next() else { continue };
            let second = assigned.find(|other| other.name != first.name);
            let mut after = self.0.iter().skip_while(|moment| moment.version < first.version);
            let ends = |step: &Step| matches!(step, Step::Confirmed | Step::Deleted | Step::NodeDeleted);
            let proven = after.find(|moment| moment.name == first.name && ends(&moment.step));
            let follows = second.is_none_or(|second| proven.is_some_and(|proven| proven.version < second.version));
            ensure!(follows, "{digest} was assigned to {} and not confirmed before {second:?}", first.name);
        }
        Ok(())
    }

    /// The version at which a pool reported that its rollout is halted.
    pub fn halted(&self, pool: &str) -> Option<u64> {
        self.of(pool, |step| *step == Step::Halted).map(|moment| moment.version).next()
    }

    /// The nodes that were assigned a configuration after a version.
    pub fn assigned_after(&self, version: u64) -> Vec<&str> {
        let assigned = |moment: &&Moment| moment.version > version && matches!(moment.step, Step::Assigned { .. });
        self.0.iter().filter(assigned).map(|moment| moment.name.as_str()).collect()
    }

    fn digests(&self) -> BTreeSet<&str> {
        self.0
            .iter()
            .filter_map(|moment| match &moment.step {
                Step::Assigned { digest, .. } => Some(digest.as_str()),
                _ => None,
            })
            .collect()
    }
}

/// Whether a node is in progress.
#[derive(Default)]
struct InProgress {
    cordoned: bool,
    assigned: Option<Timestamp>,
}

impl InProgress {
    fn advance(&mut self, moment: &Moment) {
        match &moment.step {
            Step::Cordoned => self.cordoned = true,
            Step::Uncordoned => self.cordoned = false,
            Step::Assigned { .. } => self.assigned = Some(moment.at),
            Step::Confirmed | Step::Deleted => self.assigned = None,
            Step::NodeDeleted => *self = Self::default(),
            step if step.is_failure() => self.assigned = None,
            Step::Reported(_) | Step::Halted | Step::Continued => {}
        }
    }

    fn is_at(&self, now: Timestamp, timeout: Duration) -> bool {
        self.cordoned || self.assigned.is_some_and(|since| now < since + timeout)
    }
}

/// What the rollout is read from, of one object.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    deleted: bool,
    cordoned: bool,
    /// The digest, the attempt and the time of the assignment.
    assigned: Option<(String, u64, Timestamp)>,
    phase: Option<NodeConfigPhase>,
    confirmed: bool,
    halted: bool,
}

impl State {
    fn after(&self, write: &Stored) -> Result<Self> {
        let Some(object) = &write.object else {
            return Ok(Self { deleted: write.resource == "nodes", ..Self::default() });
        };
        let (spec, status) = (&object["spec"], &object["status"]);
        Ok(match write.resource.as_str() {
            "nodes" => Self {
                cordoned: object["metadata"]["annotations"][CORDONED].is_string()
                    && object["spec"]["unschedulable"] == true,
                ..Self::default()
            },
            "windowsnodeconfigs" => {
                let digest = spec["digest"].as_str().context("spec.digest")?.to_owned();
                let attempt = spec["attempt"].as_u64().context("spec.attempt")?;
                let assigned_at = spec["assignedAt"].as_str().context("spec.assignedAt")?.parse()?;
                let assigned = Some((digest, attempt, assigned_at));
                let is_about =
                    status["observedDigest"] == spec["digest"] && status["observedAttempt"] == spec["attempt"];
                let phase = match status.is_null() {
                    // The operator writes the spec only.
                    true => self.phase.filter(|_| self.assigned == assigned),
                    false => is_about.then(|| serde_json::from_value(status["phase"].clone())).transpose()?,
                };
                Self { assigned, phase, confirmed: spec["confirmed"] == spec["digest"], ..Self::default() }
            }
            _ => {
                let halted = json!("RolloutHalted");
                let conditions = status["conditions"].as_array().into_iter().flatten();
                Self { halted: conditions.into_iter().any(|found| found["reason"] == halted), ..Self::default() }
            }
        })
    }

    fn time_of(&self, step: &Step) -> Option<Timestamp> {
        let assigned = self.assigned.as_ref().filter(|_| matches!(step, Step::Assigned { .. }));
        assigned.map(|(.., at)| *at)
    }

    fn steps_to(&self, after: &Self) -> Vec<Step> {
        if after.deleted {
            return vec![Step::NodeDeleted];
        }
        let turned = |before: bool, now: bool, on: Step, off: Step| match (before, now) {
            (false, true) => Some(on),
            (true, false) => Some(off),
            _ => None,
        };
        let mut steps: Vec<_> = turned(self.cordoned, after.cordoned, Step::Cordoned, Step::Uncordoned)
            .into_iter()
            .chain(turned(self.halted, after.halted, Step::Halted, Step::Continued))
            .collect();
        let Some((digest, attempt, _)) = &after.assigned else {
            steps.extend(self.assigned.as_ref().map(|_| Step::Deleted));
            return steps;
        };
        let digest_of = |state: &Self| state.assigned.as_ref().map(|(digest, ..)| digest.clone());
        // A confirmed configuration stays that with another attempt.
        let is_kept = self.confirmed && after.confirmed && digest_of(self) == digest_of(after);
        let is_new = after.assigned != self.assigned && !is_kept;
        if is_new {
            steps.push(Step::Assigned { digest: digest.clone(), attempt: *attempt });
        }
        if after.confirmed && (is_new || !self.confirmed) {
            steps.push(Step::Confirmed);
        }
        if let Some(phase) = after.phase.filter(|phase| is_new || self.phase != Some(*phase)) {
            steps.push(Step::Reported(phase));
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: usize) -> Timestamp {
        Timestamp::from_second(1_780_000_000 + i64::try_from(second).unwrap()).unwrap()
    }

    /// Writes of WindowsNodeConfigs, one per second: `<node> <digest>` and the phase, `confirmed` or `deleted`.
    fn stored(writes: &[(&str, &str, &str)]) -> Vec<Stored> {
        let write = writes.iter().enumerate().map(|(index, (node, digest, what))| {
            let confirmed = ["confirmed", "Applied"].contains(what).then_some(digest);
            let phase = if ["assigned", "confirmed"].contains(what) { "Pending" } else { what };
            let observed = if *what == "assigned" { "" } else { digest };
            let first = writes.iter().position(|write| (write.0, write.1) == (*node, *digest)).unwrap();
            let object = json!({
                "spec": { "digest": digest, "attempt": 1, "assignedAt": at(first), "confirmed": confirmed },
                "status": { "phase": phase, "observedDigest": observed, "observedAttempt": 1 },
            });
            Stored {
                user: "operator".into(),
                resource: "windowsnodeconfigs".into(),
                name: (*node).into(),
                received: at(index),
                version: u64::try_from(index).unwrap() + 1,
                object: (*what != "deleted").then_some(object),
            }
        });
        write.collect()
    }

    fn log(writes: &[(&str, &str, &str)]) -> RolloutLog {
        RolloutLog::read(&stored(writes)).unwrap()
    }

    #[test]
    fn a_node_is_in_progress_from_the_assignment_to_confirmation_failure_deletion_or_timeout() {
        let minute = Duration::from_secs(60);
        for (writes, timeout, expected) in [
            (&[][..], minute, 0),
            (&[("a", "1", "assigned"), ("a", "1", "confirmed"), ("b", "1", "assigned")], minute, 1),
            (&[("a", "1", "assigned"), ("b", "1", "assigned"), ("a", "1", "confirmed")], minute, 2),
            (&[("a", "1", "assigned"), ("a", "1", "RolledBack"), ("b", "1", "assigned")], minute, 1),
            (&[("a", "1", "assigned"), ("a", "1", "Refused"), ("b", "1", "assigned")], minute, 1),
            (&[("a", "1", "assigned"), ("a", "1", "Verifying"), ("b", "1", "assigned")], minute, 2),
            (&[("a", "1", "assigned"), ("a", "1", "deleted"), ("b", "1", "assigned")], minute, 1),
            (&[("a", "1", "Applied"), ("a", "2", "assigned"), ("b", "2", "assigned")], minute, 2),
            (&[("a", "1", "assigned"), ("b", "1", "assigned")], Duration::from_secs(1), 1),
        ] {
            assert_eq!(log(writes).most_in_progress(timeout), expected, "{writes:?}");
        }
    }

    #[test]
    fn an_assignment_that_the_api_server_received_late_counts_from_its_stored_time() {
        let mut writes = stored(&[("a", "1", "assigned"), ("b", "1", "assigned")]);
        writes[0].received += Duration::from_millis(900);
        assert_eq!(RolloutLog::read(&writes).unwrap().most_in_progress(Duration::from_secs(1)), 1);
    }

    #[test]
    fn a_second_node_before_the_confirmation_of_the_first_violates_the_order() {
        for (writes, valid) in [
            (&[][..], true),
            (&[("a", "1", "assigned"), ("a", "1", "confirmed"), ("b", "1", "assigned")], true),
            (&[("a", "1", "assigned"), ("a", "1", "deleted"), ("b", "1", "assigned")], true),
            (&[("a", "1", "assigned"), ("b", "1", "assigned"), ("a", "1", "confirmed")], false),
            (&[("a", "1", "assigned"), ("b", "1", "assigned")], false),
            (&[("a", "1", "assigned"), ("b", "2", "assigned")], true),
        ] {
            assert_eq!(log(writes).check_canaries().is_ok(), valid, "{writes:?}");
        }
    }

    #[test]
    fn a_write_whose_answer_is_missing_is_found_in_the_next_one() {
        let moments = log(&[("a", "1", "Verifying"), ("a", "1", "Applied")]);
        let steps: Vec<_> = moments.moments().iter().map(|moment| moment.step.clone()).collect();
        let expected = [
            Step::Assigned { digest: "1".into(), attempt: 1 },
            Step::Reported(NodeConfigPhase::Verifying),
            Step::Confirmed,
            Step::Reported(NodeConfigPhase::Applied),
        ];
        assert_eq!(steps, expected);
    }
}
