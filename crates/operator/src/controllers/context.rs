//! The common parts of all reconciles: snapshot, writes, status, events and logs.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::{Instrument, debug, info, info_span, warn};
use winpool_api::bounds::shortened;
use winpool_core::{
    kind::Kind,
    text::{some_of, some_of_many},
};
use winpool_rules::{
    operation::{Done, Outcome, Write},
    pool::{Snapshot, plan::Plan},
    status::Report,
};

use super::{
    failed_nodes::FailedNodes,
    log_deduplicator::{LogDeduplicator, failures},
    queue::Requeue,
};
use crate::{
    admin::{Metrics, ReconcileOutcome},
    cluster::{Caches, Events, Leases, UnwatchedNodes, Writer, WrittenVersion},
};

/// What the controllers need to run.
#[derive(Clone)]
pub struct Context {
    pub caches: Arc<Caches>,
    /// Writes the operations of a plan.
    pub writer: Writer,
    pub status_writer: Writer,
    pub events: Events,
    pub leases: Leases,
    /// Lists the nodes that no watch selects.
    pub unwatched: UnwatchedNodes,
    pub metrics: Metrics,
    pub failures: LogDeduplicator,
    pub failed_nodes: FailedNodes,
}

impl ReconcileResult {
    /// The object does not exist.
    pub fn not_found() -> Self {
        Self { requeue: Requeue::Forget, outcome: ReconcileOutcome::Unchanged }
    }

    /// The result of these writes. `after` is when to reconcile again without a failure or conflict.
    fn of(outcomes: &[&Outcome], held: bool, after: Option<Duration>) -> Self {
        let any = |matches: fn(&Outcome) -> bool| outcomes.iter().any(|outcome| matches(outcome));
        let failed = any(|outcome| matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)));
        let learned = any(|outcome| matches!(outcome, Outcome::Waits(_) | Outcome::Denied(..)));
        let requeue = match (failed, any(|outcome| *outcome == Outcome::Conflict)) {
            _ if learned => Requeue::Soon,
            (true, _) => Requeue::Retry,
            (false, true) => Requeue::Soon,
            (false, false) => after.map_or(Requeue::Wait, Requeue::After),
        };
        let outcome = match (failed, any(|outcome| *outcome == Outcome::Done), held) {
            (true, ..) => ReconcileOutcome::Failed,
            (false, true, _) => ReconcileOutcome::Changed,
            (false, false, true) => ReconcileOutcome::Held,
            (false, false, false) => ReconcileOutcome::Unchanged,
        };
        Self { requeue, outcome }
    }
}

/// What a reconcile has written before its status.
#[derive(Default)]
pub struct Writes {
    pub done: Done,
    versions: Vec<WrittenVersion>,
}

/// How a reconcile ended.
pub struct ReconcileResult {
    /// When to reconcile again.
    pub requeue: Requeue,
    pub outcome: ReconcileOutcome,
}

/// How long after its start a reconcile may write. Later its plan may be outdated: the rest is planned again.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// How long after its start a reconcile may write its status. Longer, so that the status includes writes that were sent
/// just before [`WRITE_DEADLINE`].
const STATUS_DEADLINE: Duration = Duration::from_secs(90);
/// The most characters of a list of changes in the log.
const MAX_CHANGES: usize = 1000;

impl Context {
    /// The context for a reconcile that starts now. It writes nothing after its deadlines, even if the process was
    /// suspended.
    pub fn begin(&self) -> Self {
        let now = Instant::now();
        let writer = self.writer.with_deadline(now + WRITE_DEADLINE);
        let status_writer = self.writer.with_deadline(now + STATUS_DEADLINE);
        Self { writer, status_writer, ..self.clone() }
    }

    /// The current state of the caches.
    pub fn snapshot(&self) -> Snapshot {
        info_span!("snapshot").in_scope(|| self.caches.snapshot())
    }

    /// Runs a plan, and waits until the caches contain its writes. Returns the plan with its outcomes.
    pub async fn write(&self, plan: Plan) -> (Plan, Writes) {
        let mut versions = Vec::new();
        let done = self.writer.run(plan.steps.iter(), plan.after_failure, &mut versions).await;
        let plan = plan.with_outcomes(&done);
        self.caches.record(&plan, &done);
        self.caches.wait_for_versions(&versions).await;
        (plan, Writes { done, versions })
    }

    /// Writes the status of an object, publishes the events, logs, and returns when to reconcile again. `held`: whether a change
    /// is held until an administrator allows it.
    pub async fn finish<S>(
        &self,
        object: (Kind, &str),
        writes: &Writes,
        held: bool,
        report: Report<S>,
    ) -> ReconcileResult {
        let Writes { done, versions } = writes;
        let status = self.write_status(report.write.as_ref(), versions).instrument(info_span!("status")).await;
        if !report.events.is_empty() {
            self.events.publish(&report.events).instrument(info_span!("events")).await;
        }
        log_changes(done, status.as_ref());
        self.log_failures(object, done, status.as_ref());
        let outcomes: Vec<&Outcome> = done.results.iter().map(|(_, outcome)| outcome).chain(&status).collect();
        let after = report.requeue_after.into_iter().chain(self.caches.next_retry()).min();
        ReconcileResult::of(&outcomes, held, after)
    }

    /// Logs each failure once.
    fn log_failures(&self, (kind, name): (Kind, &str), done: &Done, status: Option<&Outcome>) {
        let logged = self.failures.update(&format!("{kind} {name}"), failures(name, done, status));
        for failure in logged.failures {
            let (remedy, objects) = (failure.remedy(), some_of(&failure.objects));
            let what = if failure.key.taints_only { "taints refused" } else { "write failed" };
            warn!(operation = failure.key.operation, objects, error = %failure.message, remedy, "{what}");
        }
        if logged.recovered {
            info!("writes succeed again");
        }
    }

    async fn write_status(&self, write: Option<&Write>, written: &[WrittenVersion]) -> Option<Outcome> {
        let (outcome, version) = self.status_writer.send(write?, written).await;
        self.caches.wait_for_versions(version.as_slice()).await;
        Some(outcome)
    }
}

/// Logs one line for a reconcile that wrote something.
fn log_changes(done: &Done, status: Option<&Outcome>) {
    let conflicts = done.results.iter().filter(|(_, outcome)| *outcome == Outcome::Conflict).count();
    let written: Vec<_> = done.written().collect();
    let status = status == Some(&Outcome::Done);
    let (count, changes) = (written.len(), changes(&written));
    match (count, status) {
        (0, false) => debug!(conflicts, "nothing changed"),
        (0, true) => info!(conflicts, "status changed"),
        _ => info!(written = count, conflicts, complete = done.complete, status, changes, "changed"),
    }
}

/// The first changes, and how many more there are, in a bounded number of characters.
fn changes(written: &[&Write]) -> String {
    let description =
        |write: &&Write| write.summary().unwrap_or_else(|| format!("{} {}", write.action.name(), write.object.key()));
    shortened(&some_of_many(written, description), MAX_CHANGES)
}

#[cfg(test)]
mod tests {
    use winpool_rules::operation::{DeniedPart, Dependency};

    use super::*;

    #[test]
    fn a_failure_is_retried_a_conflict_is_reconciled_soon_and_everything_else_waits() {
        let (refused, failed) = (Outcome::Refused("denied".into()), Outcome::Failed("no route to host".into()));
        let rejected = Outcome::Denied(DeniedPart::Taints, "denied".into());
        let waits = Outcome::Waits(Dependency::All(Kind::SECRET));
        let (done, conflict, gone) = (Outcome::Done, Outcome::Conflict, Outcome::NotFound);
        let (minute, after) = (Some(Duration::from_secs(60)), Requeue::After(Duration::from_secs(60)));
        let table = [
            (vec![], false, None, Requeue::Wait, ReconcileOutcome::Unchanged),
            (vec![], false, minute, after, ReconcileOutcome::Unchanged),
            (vec![], true, minute, after, ReconcileOutcome::Held),
            (vec![&gone], false, None, Requeue::Wait, ReconcileOutcome::Unchanged),
            (vec![&done], false, None, Requeue::Wait, ReconcileOutcome::Changed),
            (vec![&done, &rejected], true, minute, Requeue::Soon, ReconcileOutcome::Changed),
            (vec![&refused, &waits], false, minute, Requeue::Soon, ReconcileOutcome::Failed),
            (vec![&conflict], false, minute, Requeue::Soon, ReconcileOutcome::Unchanged),
            (vec![&conflict], true, None, Requeue::Soon, ReconcileOutcome::Held),
            (vec![&done, &conflict], false, minute, Requeue::Soon, ReconcileOutcome::Changed),
            (vec![&done, &refused], false, minute, Requeue::Retry, ReconcileOutcome::Failed),
            (vec![&conflict, &failed], true, minute, Requeue::Retry, ReconcileOutcome::Failed),
        ];
        for (outcomes, held, after, requeue, outcome) in table {
            let result = ReconcileResult::of(&outcomes, held, after);
            assert_eq!((result.requeue, result.outcome), (requeue, outcome), "{outcomes:?}, {held}, {after:?}");
        }
    }

    #[test]
    fn the_log_describes_the_first_five_changes_in_a_bounded_number_of_characters() {
        let written =
            |names: &[&str]| -> Vec<Write> { names.iter().map(|name| Write::delete_config_map(name, "1")).collect() };
        let text = |names: &[&str]| changes(&written(names).iter().collect::<Vec<_>>());
        assert_eq!(text(&["a", "b"]), "ConfigMap a: delete, ConfigMap b: delete");
        assert!(text(&["a", "b", "c", "d", "e", "f", "g"]).ends_with("ConfigMap e: delete and 2 more"));
        let long = text(&["n".repeat(5000).as_str()]);
        assert!(long.contains(" characters omitted)... ") && long.chars().count() <= MAX_CHANGES, "{long}");
    }
}
