//! Restarts shared tasks after a panic.

use std::time::Duration;

use tokio::{
    spawn,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use super::queue::doubled;
use crate::admin::{Metrics, Readiness};

/// A task that ran this long has recovered.
const RECOVERY: Duration = Duration::from_secs(60);
/// The maximum number of failures in a row that `/readyz` does not report.
const TOLERATED: u32 = 2;
/// The delay before the first restart; it doubles with each failure in a row.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay before a restart.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Starts tasks, and restarts them.
#[derive(Clone)]
pub struct Supervisor {
    pub metrics: Metrics,
    /// Reports the tasks that do not recover.
    pub readiness: Readiness,
}

impl Supervisor {
    /// Runs a task, and starts it again whenever it panics or ends.
    pub async fn run<F>(self, task: &'static str, mut start: impl FnMut() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut failures = 0_u32;
        self.metrics.task_restarts.add(task);
        loop {
            let mut running = AbortOnDropHandle::new(spawn(start()));
            let ended = match timeout(RECOVERY, &mut running).await {
                Ok(ended) => ended,
                Err(_) => {
                    failures = 0;
                    self.readiness.set_failing(task, false);
                    running.await
                }
            };
            failures = failures.saturating_add(1);
            let cause = ended.map_or_else(|panic| panic.to_string(), |()| "the task ended".to_owned());
            error!(task, failures, cause, "task failed because of a bug in winpool, restarting it");
            self.metrics.task_restarts.inc(task);
            self.readiness.set_failing(task, failures > TOLERATED);
            sleep(doubled(FIRST_DELAY, failures, MAX_DELAY)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
    };

    use super::*;

    /// A supervised task that panics this many times and then runs, and the number of its starts.
    fn supervised(panics: u32) -> (Supervisor, Arc<AtomicU32>) {
        let readiness = Readiness::default();
        readiness.required("Node").synced();
        let (supervisor, starts) = (Supervisor { metrics: Metrics::default(), readiness }, Arc::new(AtomicU32::new(0)));
        let count = starts.clone();
        spawn(supervisor.clone().run("workloads", move || {
            let start = count.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(start >= panics, "a panic");
                pending().await
            }
        }));
        (supervisor, starts)
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_restarted_and_counted_and_reported_until_it_recovers() {
        let (supervisor, starts) = supervised(8);
        sleep(Duration::from_secs(2)).await;
        assert!(supervisor.readiness.is_ready(), "two failures are tolerated");
        sleep(Duration::from_secs(3)).await;
        assert_eq!(starts.load(Ordering::Relaxed), 3);
        assert!(supervisor.readiness.to_string().contains(": workloads"), "{}", supervisor.readiness);
        sleep(Duration::from_secs(150)).await;
        assert_eq!(starts.load(Ordering::Relaxed), 9, "delays of 1, 2, 4, 8, 16, 30, 30 and 30 s");
        assert!(!supervisor.readiness.is_ready(), "the task does not run for a minute yet");
        sleep(Duration::from_secs(60)).await;
        assert!(supervisor.readiness.is_ready());
        assert!(supervisor.metrics.text().contains("winpool_task_restarts_total{task=\"workloads\"} 8"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_is_restarted() {
        let supervisor = Supervisor { metrics: Metrics::default(), readiness: Readiness::default() };
        spawn(supervisor.clone().run("version", || async {}));
        sleep(Duration::from_secs(4)).await;
        assert!(supervisor.metrics.text().contains("winpool_task_restarts_total{task=\"version\"} 3"));
    }
}
