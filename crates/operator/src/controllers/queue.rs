//! The work queue of a controller.
//!
//! The first event starts a reconcile at once; all events during the reconcile and shortly after it start one more.
//! Further events do not postpone it, so a client that writes without pause does not delay reconciles. An object has
//! one reconcile at a time, a failure delays only its object, and a panic is a failure.

use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::JoinError,
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::JoinMap};
use tracing::{error, warn};

/// How many reconciles of one controller run at once.
const CONCURRENCY: usize = 4;
/// The minimum time between the starts of two reconciles of one object; events in between start one reconcile.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
/// The delay after a first conflict; it doubles with each further one.
const FIRST_CONFLICT_DELAY: Duration = Duration::from_millis(100);
/// The longest delay after a conflict.
const MAX_CONFLICT_DELAY: Duration = Duration::from_secs(5);
/// The delay after a first failure; it doubles with each further one.
const FIRST_FAILURE_DELAY: Duration = Duration::from_millis(500);
/// The longest delay after a failure before the reconcile is retried without an event.
const MAX_FAILURE_DELAY: Duration = Duration::from_secs(10);
/// The longest time that an event after a failure is delayed.
const MAX_EVENT_DELAY: Duration = Duration::from_secs(5);
/// How long running reconciles may continue after the shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// When an object is reconciled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// After the next event.
    Wait,
    /// After this time, or after the next event.
    After(Duration),
    /// Soon, because of a conflict.
    Soon,
    /// After a back-off, because of a failure.
    Retry,
    /// Not at all: the object does not exist.
    Forget,
}

/// Enqueues objects. `T` is the cause.
pub struct Enqueuer<T>(Arc<Shared<T>>);

/// The enqueued objects, until [`Queue::run`] reconciles them.
pub struct Queue<T>(Arc<Shared<T>>);

/// One entry for each object.
struct Shared<T> {
    schedule: Mutex<Schedule<T>>,
    enqueued: Notify,
}

impl<T> Clone for Enqueuer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Enqueuer<T> {
    /// Enqueues an object.
    pub fn enqueue(&self, object: &str, cause: T) {
        self.0.schedule.lock().enqueue(object, cause, Instant::now());
        self.0.enqueued.notify_one();
    }
}

/// An empty queue.
pub fn queue<T>() -> (Enqueuer<T>, Queue<T>) {
    let shared = Arc::new(Shared { schedule: Mutex::default(), enqueued: Notify::new() });
    (Enqueuer(shared.clone()), Queue(shared))
}

impl<T: Send + 'static> Queue<T> {
    /// Counts the objects that wait for a reconcile.
    pub fn depth(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let shared = self.0.clone();
        move || shared.schedule.lock().depth(Instant::now())
    }

    /// Reconciles the objects until the shutdown, and then waits for the running reconciles.
    ///
    /// A reconcile gets the object and the first cause since its last reconcile; `None` if it was requeued.
    pub async fn run<F>(self, reconcile: impl Fn(String, Option<T>) -> F, shutdown: CancellationToken)
    where
        F: Future<Output = Requeue> + Send + 'static,
    {
        let Self(shared) = self;
        // Each has its own task, so that a panic ends only that reconcile.
        let mut reconciles = JoinMap::new();
        loop {
            while reconciles.len() < CONCURRENCY
                && let Some((object, cause)) = shared.schedule.lock().take(Instant::now())
            {
                reconciles.spawn(object.clone(), reconcile(object, cause));
            }
            let due = shared.schedule.lock().next_due().filter(|_| reconciles.len() < CONCURRENCY);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some((object, result)) = reconciles.join_next() => shared.schedule.lock().finish(&object, result),
                () = shared.enqueued.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        let all_finished = async { while reconciles.join_next().await.is_some() {} };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, all_finished).await.is_err() {
            warn!("reconciles cancelled: they did not end within {SHUTDOWN_TIMEOUT:?}");
        }
    }
}

#[cfg(test)]
impl<T> Queue<T> {
    /// The enqueued objects, by name.
    pub fn objects(self) -> Vec<String> {
        self.0.schedule.lock().objects.keys().cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The due times of the objects. The current time is a parameter.
struct Schedule<T> {
    objects: HashMap<String, Entry<T>>,
    /// The due times of the objects without a running reconcile.
    due: BTreeSet<(Instant, String)>,
}

struct Entry<T> {
    due: Option<Instant>,
    cause: Option<T>,
    running: bool,
    /// The earliest start of the next reconcile.
    not_before: Instant,
    failures: u32,
    conflicts: u32,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self { objects: HashMap::new(), due: BTreeSet::new() }
    }
}

impl<T> Schedule<T> {
    fn enqueue(&mut self, object: &str, cause: T, now: Instant) {
        let entry = self.objects.entry(object.to_owned()).or_insert_with(|| Entry::new(now));
        entry.cause.get_or_insert(cause);
        self.schedule(object, now);
    }

    /// Makes the object due at a time, unless it is due earlier.
    fn schedule(&mut self, object: &str, at: Instant) {
        let Some(entry) = self.objects.get_mut(object) else { return };
        let at = at.max(entry.not_before);
        if entry.due.is_some_and(|due| due <= at) {
            return;
        }
        let former = entry.due.replace(at);
        if !entry.running {
            if let Some(former) = former {
                self.due.remove(&(former, object.to_owned()));
            }
            self.due.insert((at, object.to_owned()));
        }
    }

    /// When the next reconcile is due.
    fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The number of objects that are due, also those with a running reconcile.
    fn depth(&self, now: Instant) -> usize {
        self.objects.values().filter(|entry| entry.due.is_some_and(|due| due <= now)).count()
    }

    /// Removes an object that is due, for its reconcile. Returns it with the cause.
    fn take(&mut self, now: Instant) -> Option<(String, Option<T>)> {
        self.next_due().filter(|at| *at <= now)?;
        let (_, object) = self.due.pop_first()?;
        let entry = self.objects.get_mut(&object)?;
        entry.due = None;
        entry.running = true;
        entry.not_before = now + MIN_INTERVAL;
        Some((object, entry.cause.take()))
    }

    fn finish(&mut self, object: &str, result: Result<Requeue, JoinError>) {
        let requeue = result.unwrap_or_else(|panic| {
            error!(object, cause = panic.to_string(), "reconcile failed because of a bug in winpool, retrying");
            Requeue::Retry
        });
        self.requeue(object, requeue, Instant::now());
    }

    fn requeue(&mut self, object: &str, requeue: Requeue, now: Instant) {
        let Some(entry) = self.objects.get_mut(object) else { return };
        entry.running = false;
        // Set if it was enqueued during the reconcile. It is scheduled again, because the delay may be longer now.
        let enqueued = entry.due.take();
        let requeued = match requeue {
            Requeue::Wait | Requeue::Forget => None,
            Requeue::After(delay) => Some(now + delay),
            Requeue::Soon => {
                entry.conflicts += 1;
                Some(now + doubled(FIRST_CONFLICT_DELAY, entry.conflicts, MAX_CONFLICT_DELAY))
            }
            Requeue::Retry => {
                entry.failures += 1;
                let delay = back_off(object, entry.failures);
                entry.not_before = entry.not_before.max(now + delay.min(MAX_EVENT_DELAY));
                Some(now + delay)
            }
        };
        if matches!(requeue, Requeue::Wait | Requeue::After(_) | Requeue::Forget) {
            (entry.failures, entry.conflicts) = (0, 0);
        }
        if requeue == Requeue::Forget && enqueued.is_none() {
            self.objects.remove(object);
        }
        for at in enqueued.into_iter().chain(requeued) {
            self.schedule(object, at);
        }
    }
}

impl<T> Entry<T> {
    fn new(now: Instant) -> Self {
        Self { due: None, cause: None, running: false, not_before: now, failures: 0, conflicts: 0 }
    }
}

/// The delay after this many failures in a row, with a jitter of up to 25 %, so that objects that failed together are
/// not retried together.
fn back_off(object: &str, failures: u32) -> Duration {
    let mut hasher = DefaultHasher::new();
    (object, failures).hash(&mut hasher);
    let quarter = f64::from(u16::try_from(hasher.finish() % 1000).unwrap_or_default()) / 2000.0 - 0.25;
    doubled(FIRST_FAILURE_DELAY, failures, MAX_FAILURE_DELAY).mul_f64(1.0 + quarter).min(MAX_FAILURE_DELAY)
}

/// The delay after this many failures in a row: each is twice as long as the one before.
pub(super) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1))).min(longest)
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    type Log = Arc<Mutex<Vec<(Duration, String)>>>;

    /// A running queue; the log has the time and object of each reconcile.
    struct Bench {
        enqueuer: Enqueuer<&'static str>,
        log: Log,
        shutdown: CancellationToken,
        worker: tokio::task::JoinHandle<()>,
    }

    fn bench(lasts: Duration, outcome: impl Fn(&str, usize) -> Requeue + Send + Sync + 'static) -> Bench {
        let (enqueuer, queue) = queue();
        let log = Log::default();
        let (start, shutdown, outcome) = (Instant::now(), CancellationToken::new(), Arc::new(outcome));
        let (reconciles, until) = (log.clone(), shutdown.clone());
        let worker = tokio::spawn(async move {
            let reconcile = move |object: String, _| {
                let (reconciles, outcome) = (reconciles.clone(), outcome.clone());
                async move {
                    let number = {
                        let mut reconciles = reconciles.lock();
                        reconciles.push((start.elapsed(), object.clone()));
                        reconciles.iter().filter(|(_, other)| *other == object).count()
                    };
                    sleep(lasts).await;
                    outcome(&object, number)
                }
            };
            queue.run(reconcile, until).await;
        });
        Bench { enqueuer, log, shutdown, worker }
    }

    impl Bench {
        fn times(&self, object: &str) -> Vec<u128> {
            let log = self.log.lock();
            log.iter().filter(|(_, other)| other == object).map(|(at, _)| at.as_millis()).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_starts_a_reconcile_at_once_and_a_burst_one_more() {
        let bench = bench(Duration::from_millis(50), |_, _| Requeue::Wait);
        for _ in 0..100 {
            bench.enqueuer.enqueue("a", "event");
        }
        sleep(Duration::from_millis(10)).await;
        for _ in 0..100 {
            bench.enqueuer.enqueue("a", "event");
        }
        sleep(Duration::from_secs(5)).await;
        assert_eq!(bench.times("a"), [0, 200]);
    }

    #[tokio::test(start_paused = true)]
    async fn twenty_events_a_second_do_not_delay_the_reconciles() {
        let bench = bench(Duration::from_millis(30), |_, _| Requeue::Wait);
        for _ in 0..200 {
            bench.enqueuer.enqueue("a", "event");
            sleep(Duration::from_millis(50)).await;
        }
        let reconciles = bench.times("a").len();
        assert!((45..=51).contains(&reconciles), "{reconciles} reconciles in ten seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn one_object_has_one_reconcile_at_a_time_and_four_objects_are_reconciled_at_once() {
        let bench = bench(Duration::from_secs(1), |_, _| Requeue::Wait);
        for object in ["a", "b", "c", "d", "e"] {
            bench.enqueuer.enqueue(object, "event");
        }
        sleep(Duration::from_millis(500)).await;
        bench.enqueuer.enqueue("a", "event");
        sleep(Duration::from_secs(5)).await;
        let starts: Vec<_> = ["a", "b", "c", "d", "e"].map(|object| bench.times(object)).into();
        assert_eq!(starts, [vec![0, 1000], vec![0], vec![0], vec![0], vec![1000]]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_up_to_ten_seconds_and_success_resets() {
        let bench = bench(Duration::ZERO, |_, number| if number == 15 { Requeue::Wait } else { Requeue::Retry });
        bench.enqueuer.enqueue("a", "event");
        sleep(Duration::from_secs(3600)).await;
        let gaps = |times: Vec<u128>| times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
        let first = gaps(bench.times("a"));
        assert_eq!(first.len(), 14, "{first:?}");
        for (number, gap) in first.iter().enumerate() {
            let full = (500_u128 << number).min(10_000);
            assert!((full * 3 / 4..=full * 5 / 4 + 1).contains(gap) && *gap <= 10_001, "{number}: {gap}");
        }
        bench.enqueuer.enqueue("a", "event");
        sleep(Duration::from_millis(900)).await;
        let again = gaps(bench.times("a").split_off(15));
        assert!(again.first().is_some_and(|gap| (375..=626).contains(gap)), "{again:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_shortens_a_long_back_off_but_not_below_five_seconds() {
        let bench = bench(Duration::ZERO, |_, _| Requeue::Retry);
        bench.enqueuer.enqueue("a", "event");
        sleep(Duration::from_secs(600)).await;
        let before = bench.times("a").len();
        for _ in 0..1200 {
            bench.enqueuer.enqueue("a", "event");
            sleep(Duration::from_millis(50)).await;
        }
        let reconciles = bench.times("a").len() - before;
        assert!((11..=13).contains(&reconciles), "{reconciles} reconciles in a minute of events");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_the_failure_of_one_object() {
        let bench = bench(Duration::ZERO, |object, number| match (object, number) {
            ("bad", 1) => panic!("boom"),
            _ => Requeue::Wait,
        });
        bench.enqueuer.enqueue("bad", "event");
        bench.enqueuer.enqueue("good", "event");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(bench.times("good").len(), 1);
        let bad = bench.times("bad");
        assert!(bad.len() == 2 && (375..=626).contains(&bad[1]), "retried after a back-off: {bad:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_requeued_after_the_returned_time_or_by_an_earlier_event() {
        let bench = bench(Duration::ZERO, |_, number| match number {
            1 => Requeue::After(Duration::from_secs(60)),
            2 => Requeue::After(Duration::from_secs(10)),
            3 => Requeue::Soon,
            _ => Requeue::Wait,
        });
        bench.enqueuer.enqueue("a", "event");
        sleep(Duration::from_secs(5)).await;
        bench.enqueuer.enqueue("a", "event");
        sleep(Duration::from_secs(100)).await;
        let seconds: Vec<_> = bench.times("a").iter().map(|at| at / 100).collect();
        assert_eq!(seconds, [0, 50, 150, 152], "tenths of seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_shutdown_running_reconciles_finish_and_no_other_starts() {
        let bench = bench(Duration::from_secs(3), |_, _| Requeue::Wait);
        bench.enqueuer.enqueue("a", "event");
        sleep(Duration::from_millis(5)).await;
        bench.enqueuer.enqueue("a", "event");
        bench.enqueuer.enqueue("b", "event");
        bench.shutdown.cancel();
        let shutdown = Instant::now();
        bench.worker.await.unwrap();
        assert!(shutdown.elapsed() >= Duration::from_millis(2990));
        assert_eq!(bench.log.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_shutdown_does_not_wait_longer_than_twenty_seconds() {
        let bench = bench(Duration::from_secs(3600), |_, _| Requeue::Wait);
        bench.enqueuer.enqueue("a", "event");
        sleep(Duration::from_millis(5)).await;
        bench.shutdown.cancel();
        let shutdown = Instant::now();
        bench.worker.await.unwrap();
        assert_eq!(shutdown.elapsed().as_secs(), 20);
    }

    #[tokio::test]
    async fn a_queue_that_does_not_run_keeps_one_entry_for_each_object() {
        let (enqueuer, queue) = queue();
        let cause = Arc::new("event");
        for _ in 0..10_000 {
            enqueuer.enqueue("a", cause.clone());
            enqueuer.enqueue("b", cause.clone());
        }
        assert_eq!(Arc::strong_count(&cause), 3, "the first cause for each object");
        assert_eq!(queue.objects(), ["a", "b"]);
    }

    #[test]
    fn a_forgotten_object_has_no_entry() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.enqueue("a", "event", now);
        assert_eq!(schedule.take(now), Some(("a".into(), Some("event"))));
        schedule.requeue("a", Requeue::Forget, now);
        assert!(schedule.objects.is_empty() && schedule.due.is_empty());
    }

    #[test]
    fn a_reconcile_gets_the_first_cause() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.enqueue("a", "first", now);
        schedule.enqueue("a", "second", now);
        assert_eq!(schedule.depth(now), 1);
        assert_eq!(schedule.take(now), Some(("a".into(), Some("first"))));
        assert_eq!(schedule.depth(now), 0);
        schedule.enqueue("a", "third", now);
        assert_eq!((schedule.depth(now), schedule.depth(now + MIN_INTERVAL)), (0, 1));
        schedule.requeue("a", Requeue::Wait, now);
        assert_eq!(schedule.take(now), None, "not before the minimum interval");
        assert_eq!(schedule.take(now + MIN_INTERVAL), Some(("a".into(), Some("third"))));
    }
}
