//! What every pass has in common: reading, writing, and telling what came of it.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::Instant;
use tracing::{Instrument, debug, info, info_span, warn};

use super::{
    complaints::{Complaint, Complaints, complaints},
    queue::Next,
};
use crate::{
    admin::{Metrics, Outcome as Result},
    cluster::{Caches, Events, Resource, Writer},
    domain::{
        conditions::some_of,
        note::Note,
        operation::{Done, Outcome},
        pool::{Snapshot, plan::Plan},
    },
};

/// The hands of the controllers. The rules decide; these do.
#[derive(Clone)]
pub struct Shell {
    /// What is known.
    pub caches: Arc<Caches>,
    /// The way to write.
    pub writer: Writer,
    /// The way to write a status.
    pub reporter: Writer,
    /// The way to tell people.
    pub events: Events,
    /// What is counted.
    pub metrics: Metrics,
    /// What went wrong and was said.
    pub complaints: Complaints,
}

impl Ended {
    /// The object is gone, and nothing was done.
    pub fn gone() -> Self {
        Self { next: Next::Forget, result: Result::Unchanged }
    }
}

/// What a pass has to say about its object.
pub struct Word<'a> {
    /// The kind of the object.
    pub resource: Resource,
    /// Its name.
    pub name: &'a str,
    /// Whether something waits for a person.
    pub held: bool,
    /// Its status, if that has to be written.
    pub status: Option<Value>,
    /// Events.
    pub notes: Vec<Note>,
    /// When to look again though nothing happens.
    pub again: Option<Duration>,
}

/// How a pass ended.
pub struct Ended {
    /// What follows.
    pub next: Next,
    /// What is counted.
    pub result: Result,
}

/// How long after its begin a pass may write: what it planned may be wrong later. What is left is planned anew.
const WRITES_FOR: Duration = Duration::from_secs(30);
/// How long after its begin a pass may write its status: a write that was sent in time may take as long as it may, and
/// what was done is told.
const REPORTS_FOR: Duration = Duration::from_secs(90);

impl Shell {
    /// The shell for a pass that begins now. It writes nothing when its time is over, such as after the process was
    /// stopped in the middle.
    pub fn begin(&self) -> Self {
        let now = Instant::now();
        let until = |time| self.writer.until(now + time);
        Self { writer: until(WRITES_FOR), reporter: until(REPORTS_FOR), ..self.clone() }
    }

    /// The world as it is known now.
    pub fn gather(&self) -> Snapshot {
        info_span!("gather").in_scope(|| self.caches.snapshot())
    }

    /// Runs a plan, remembers what matters of it, and waits until the caches show it.
    pub async fn write(&self, plan: &Plan) -> Done {
        let (done, marks) = self.writer.run_marking(&plan.steps, plan.after_failure).await;
        self.caches.remember(&done);
        self.caches.catch_up(&marks).await;
        done
    }

    /// Writes the status, publishes the events, and says when to look again.
    pub async fn conclude(&self, done: &Done, word: Word<'_>) -> Ended {
        let status = self.write_status(&word).instrument(info_span!("status")).await;
        self.events.publish(&word.notes).await;
        log(done, status.as_ref());
        self.complain(done, &word, status.as_ref());
        let any =
            |wanted: fn(&Outcome) -> bool| done.results.iter().map(|(_, outcome)| outcome).chain(&status).any(wanted);
        let failed = any(|outcome| matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)));
        let conflict = any(|outcome| *outcome == Outcome::Conflict);
        let changed = any(wrote);
        let next = match (failed, conflict) {
            (true, _) => Next::Retry,
            (false, true) => Next::Soon,
            (false, false) => {
                word.again.into_iter().chain(self.caches.next_retry()).min().map_or(Next::Wait, Next::After)
            }
        };
        let result = match (failed, changed, word.held) {
            (true, ..) => Result::Failed,
            (false, true, _) => Result::Changed,
            (false, false, true) => Result::Held,
            (false, false, false) => Result::Unchanged,
        };
        Ended { next, result }
    }

    /// Says what went wrong, once for each reason.
    fn complain(&self, done: &Done, word: &Word<'_>, status: Option<&Outcome>) {
        let object = format!("{} {}", word.resource.kind(), word.name);
        let news = self.complaints.news(&object, complaints(word.name, done, status));
        for Complaint { line, remedy, .. } in news.complaints {
            warn!(remedy, "{line}");
        }
        if news.over {
            info!("everything gets through again");
        }
    }

    async fn write_status(&self, word: &Word<'_>) -> Option<Outcome> {
        let body = word.status.as_ref()?;
        let (outcome, mark) = self.reporter.write_status(word.resource, word.name, body).await;
        self.caches.catch_up(mark.as_slice()).await;
        Some(outcome)
    }
}

/// One line for a pass that wrote.
fn log(done: &Done, status: Option<&Outcome>) {
    let count = |wanted: fn(&Outcome) -> bool| done.results.iter().filter(|(_, outcome)| wanted(outcome)).count();
    let written = count(wrote);
    let conflicts = count(|outcome| *outcome == Outcome::Conflict);
    if written > 0 {
        let changes = done.results.iter().filter(|(_, outcome)| wrote(outcome)).map(|(operation, outcome)| {
            operation.words_done(outcome).unwrap_or_else(|| format!("{} {}", operation.kind(), operation.object()))
        });
        info!(written, conflicts, complete = done.complete, "changed: {}", some_of(changes));
    } else {
        debug!(conflicts, status = status.is_some(), "nothing to change");
    }
}

fn wrote(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done | Outcome::Partly { .. })
}
