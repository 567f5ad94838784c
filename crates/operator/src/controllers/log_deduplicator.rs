//! Logs each failure once, not for every retry and every object.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use winpool_core::ForeignText;
use winpool_rules::operation::{Action, DeniedPart, Done, ErrorCause, Outcome, WriteError};

/// The minimum time between two log lines about the same failure.
const INTERVAL: Duration = Duration::from_secs(600);

/// Failures of a reconcile with the same cause, for one object or many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureReport {
    pub key: LogKey,
    pub objects: Vec<String>,
    /// The message of the first failure.
    pub message: ForeignText,
}

/// Identifies a failure: failures with the same key are logged once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogKey {
    /// The kind of the operation, such as `patch-node`.
    pub operation: &'static str,
    /// Whether only the taints were refused.
    pub taints_only: bool,
    pub cause: ErrorCause,
}

/// The logged failures with their time, by reconciled object. Clones share them.
#[derive(Clone, Default)]
pub struct LogDeduplicator(Arc<Mutex<HashMap<String, BTreeMap<LogKey, Instant>>>>);

/// What to log after a reconcile.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LogUpdate {
    /// The failures that were not logged in the last ten minutes.
    pub failures: Vec<FailureReport>,
    /// Whether the object had failures before, and none now.
    pub recovered: bool,
}

impl LogDeduplicator {
    /// Records the failures of a reconcile of an object.
    pub fn update(&self, object: &str, failures: Vec<FailureReport>) -> LogUpdate {
        let mut all = self.0.lock();
        all.retain(|other, logged| other == object || logged.values().any(|at| at.elapsed() < INTERVAL));
        if failures.is_empty() {
            return LogUpdate { failures, recovered: all.remove(object).is_some() };
        }
        let logged = all.entry(object.to_owned()).or_default();
        logged.retain(|_, at| at.elapsed() < INTERVAL);
        let is_new = |failure: &FailureReport| match logged.entry(failure.key.clone()) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(Instant::now());
                true
            }
        };
        LogUpdate { failures: failures.into_iter().filter(is_new).collect(), recovered: false }
    }
}

impl FailureReport {
    /// What an administrator can do.
    pub fn remedy(&self) -> &'static str {
        match self.key.taints_only {
            true => "allow the taints of the operator in the admission policy or webhook that rejects them",
            false => {
                "check config/default, the installed CRDs and admission policies if the write is refused. It is retried"
            }
        }
    }
}

/// The failures of a reconcile of the object with this name, by cause.
pub fn failures(name: &str, done: &Done, status: Option<&Outcome>) -> Vec<FailureReport> {
    let writes = done.results.iter();
    let writes = writes.map(|(write, outcome)| (write.action.name(), write.object.key().into_owned(), outcome));
    let status = status.map(|outcome| (Action::WriteStatus.name(), name.to_owned(), outcome));
    let mut reports = BTreeMap::<LogKey, FailureReport>::new();
    for (operation, object, outcome) in writes.chain(status) {
        let Some((error, taints_only)) = error_of(outcome) else { continue };
        let key = LogKey { operation, taints_only, cause: error.cause.clone() };
        let new = || FailureReport { key: key.clone(), objects: Vec::new(), message: error.message.clone() };
        reports.entry(key.clone()).or_insert_with(new).objects.push(object);
    }
    reports.into_values().collect()
}

/// The error of a write, and whether it concerns only the taints.
fn error_of(outcome: &Outcome) -> Option<(&WriteError, bool)> {
    match outcome {
        Outcome::Denied(part, error) => Some((error, *part == DeniedPart::Taints)),
        other => other.error().map(|error| (error, false)),
    }
}

#[cfg(test)]
mod tests {
    use winpool_rules::operation::Write;

    use super::*;

    fn deletion(name: &str, outcome: Outcome) -> (Write, Outcome) {
        (Write::delete_config_map(name, "u"), outcome)
    }

    fn error(code: u16, message: &str) -> WriteError {
        let cause = ErrorCause::Status { code, reason: "Forbidden".into(), fields: [].into() };
        WriteError { cause, message: message.into() }
    }

    #[test]
    fn failures_with_the_same_cause_are_one_report_whatever_their_messages() {
        let mut results: Vec<_> = (1..=9)
            .map(|number| deletion(&format!("web-{number}"), Outcome::Refused(error(403, &format!("denied {number}")))))
            .collect();
        results.push(deletion("web-10", Outcome::Failed("timed out".into())));
        results.push(deletion("web-11", Outcome::Done));
        results.push(deletion("web-12", Outcome::Failed("connection refused".into())));
        let refused = Outcome::Denied(DeniedPart::Taints, error(403, "no taints"));
        results.push(deletion("web-13", refused));
        let done = Done { results, complete: false };
        let reports = |status| {
            let reports = failures("web", &done, status).into_iter();
            reports.map(|one| (one.key.operation, one.objects.join(" "), one.message.to_string())).collect::<Vec<_>>()
        };
        let writes = [
            ("delete-config-map", "web-10 web-12".to_owned(), "timed out".to_owned()),
            (
                "delete-config-map",
                (1..=9).map(|number| format!("web-{number}")).collect::<Vec<_>>().join(" "),
                "denied 1".to_owned(),
            ),
            ("delete-config-map", "web-13".to_owned(), "no taints".to_owned()),
        ];
        assert_eq!(reports(None), writes);
        assert_eq!(reports(Some(&Outcome::Done)), writes);
        let status = ("write-status", "web".to_owned(), "too long".to_owned());
        let with_status = [writes.as_slice(), &[status]].concat();
        assert_eq!(reports(Some(&Outcome::Refused(error(422, "too long")))), with_status);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_logged_once_until_a_success_or_for_ten_minutes() {
        let reports = |codes: &[u16]| {
            let report = |code: &u16| {
                let error = error(*code, "message");
                let key = LogKey { operation: "patch-node", taints_only: false, cause: error.cause };
                FailureReport { key, objects: vec!["win-1".into()], message: error.message }
            };
            codes.iter().map(report).collect::<Vec<_>>()
        };
        let deduplicator = LogDeduplicator::default();
        for (wait, failures, logged, recovered) in [
            (0, &[][..], &[][..], false),
            (0, &[403], &[403], false),
            (1, &[403, 422], &[422], false),
            (1, &[422], &[], false),
            (1, &[403], &[], false),
            (600, &[403], &[403], false),
            (1, &[], &[], true),
            (1, &[], &[], false),
            (1, &[403], &[403], false),
        ] {
            tokio::time::advance(Duration::from_secs(wait)).await;
            let update = deduplicator.update("WindowsNodePool web", reports(failures));
            assert_eq!(update, LogUpdate { failures: reports(logged), recovered }, "{failures:?}");
            let other = deduplicator.update("WindowsNodePool batch", reports(failures));
            assert_eq!(other.failures.len(), logged.len());
        }
    }
}
