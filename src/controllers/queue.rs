//! Decides when which object has its pass.
//!
//! An event leads to a pass at once; those that come during a pass or shortly after it are one more pass. There is no
//! waiting for events to end: somebody who writes without pause cannot keep a pass from being made. One object has
//! one pass at a time, a failure delays that object alone, and a panic is a failure.

use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// How many passes of one controller run at once.
const AT_ONCE: usize = 4;
/// The least time from the start of a pass to the next of the same object: what happens in between is one pass.
const PACE: Duration = Duration::from_millis(200);
/// How soon to look again after a conflict; it doubles with each in a row.
const SOON: Duration = Duration::from_millis(100);
/// The delay after a first failure; it doubles with each in a row.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest delay after a failure: how long the cause may be gone before it is noticed.
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// How long events are not heeded after a failure, however long the delay is.
const DEAF: Duration = Duration::from_secs(5);
/// How long the passes under way may go on after the end was asked for.
const FAREWELL: Duration = Duration::from_secs(20);

/// What follows a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until something happens.
    Wait,
    /// Another pass after this time, if nothing happens before.
    After(Duration),
    /// Another pass soon: somebody wrote first.
    Soon,
    /// Another pass after a back-off: something failed.
    Retry,
    /// Nothing ever: the object is gone.
    Forget,
}

/// Asks for passes. `T` says why.
pub struct Asker<T>(Arc<Shared<T>>);

/// The passes that were asked for, until somebody [works](Queue::work) on them.
pub struct Queue<T>(Arc<Shared<T>>);

/// One entry for each object, however often and however early a pass of it is asked for.
struct Shared<T> {
    schedule: Mutex<Schedule<T>>,
    asked: Notify,
}

impl<T> Clone for Asker<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Asker<T> {
    /// Asks for a pass of an object.
    pub fn ask(&self, object: &str, why: T) {
        self.0.schedule().ask(object, why, Instant::now());
        self.0.asked.notify_one();
    }
}

impl<T> Shared<T> {
    /// An object that is due: its pass begins.
    fn take_due(&self) -> Option<(String, Option<T>)> {
        self.schedule().take(Instant::now())
    }

    /// The schedule is plain data: a panic elsewhere cannot leave it half-written.
    fn schedule(&self) -> MutexGuard<'_, Schedule<T>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue with nothing in it.
pub fn queue<T>() -> (Asker<T>, Queue<T>) {
    let shared = Arc::new(Shared { schedule: Mutex::default(), asked: Notify::new() });
    (Asker(shared.clone()), Queue(shared))
}

impl<T: Send + 'static> Queue<T> {
    /// Makes passes until the shutdown, and then lets those under way end.
    ///
    /// A pass gets the object and the first reason for it; there is none when only time went by.
    pub async fn work<F>(self, pass: impl Fn(String, Option<T>) -> F, shutdown: CancellationToken)
    where
        F: Future<Output = Next> + Send + 'static,
    {
        let Self(shared) = self;
        let mut passes = Passes::default();
        loop {
            while passes.running.len() < AT_ONCE
                && let Some((object, why)) = shared.take_due()
            {
                passes.start(object.clone(), pass(object, why));
            }
            let due = shared.schedule().next().filter(|_| passes.running.len() < AT_ONCE);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(ended) = passes.end() => shared.schedule().ended(ended),
                () = shared.asked.notified() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
        let farewell = async { while passes.end().await.is_some() {} };
        if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
            warn!("passes were cut short: they did not end within {FAREWELL:?}");
        }
    }
}

#[cfg(test)]
impl<T> Queue<T> {
    /// The objects that were asked for, each once, by name.
    pub fn objects(self) -> Vec<String> {
        self.0.schedule().objects.keys().cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The passes under way, each a task of its own, so that a panic ends that pass and nothing else.
#[derive(Default)]
struct Passes {
    running: JoinSet<Next>,
    objects: HashMap<Id, String>,
}

impl Passes {
    fn start(&mut self, object: String, pass: impl Future<Output = Next> + Send + 'static) {
        let task = self.running.spawn(pass);
        self.objects.insert(task.id(), object);
    }

    /// Waits for a pass to end; `None` when none is under way.
    async fn end(&mut self) -> Option<(String, Result<Next, JoinError>)> {
        let (id, result) = match self.running.join_next_with_id().await? {
            Ok((id, next)) => (id, Ok(next)),
            Err(error) => (error.id(), Err(error)),
        };
        Some((self.objects.remove(&id).unwrap_or_default(), result))
    }
}

/// When which object is due: plain data, told the time.
struct Schedule<T> {
    objects: HashMap<String, Entry<T>>,
    /// The objects that are due and have no pass under way, by time.
    due: BTreeSet<(Instant, String)>,
}

struct Entry<T> {
    due: Option<Instant>,
    why: Option<T>,
    running: bool,
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
    fn ask(&mut self, object: &str, why: T, now: Instant) {
        let entry = self.objects.entry(object.to_owned()).or_insert_with(|| Entry::new(now));
        entry.why.get_or_insert(why);
        self.plan(object, now);
    }

    /// Makes the object due at a time, if it is not due before.
    fn plan(&mut self, object: &str, at: Instant) {
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

    /// When the next pass is due.
    fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes an object that is due: its pass begins.
    fn take(&mut self, now: Instant) -> Option<(String, Option<T>)> {
        self.next().filter(|at| *at <= now)?;
        let (_, object) = self.due.pop_first()?;
        let entry = self.objects.get_mut(&object)?;
        entry.due = None;
        entry.running = true;
        entry.not_before = now + PACE;
        Some((object, entry.why.take()))
    }

    fn ended(&mut self, (object, result): (String, Result<Next, JoinError>)) {
        let next = result.unwrap_or_else(|failure| {
            error!(object, "a defect in the operator ended a pass, which is tried again: {failure}");
            Next::Retry
        });
        self.finish(&object, next, Instant::now());
    }

    fn finish(&mut self, object: &str, next: Next, now: Instant) {
        let Some(entry) = self.objects.get_mut(object) else { return };
        entry.running = false;
        // What was asked for during the pass waits in `due`, now with the delays that the end of the pass brings.
        let asked = entry.due.take();
        let again = match next {
            Next::Wait | Next::Forget => None,
            Next::After(delay) => Some(now + delay),
            Next::Soon => {
                entry.conflicts += 1;
                Some(now + doubled(SOON, entry.conflicts, DEAF))
            }
            Next::Retry => {
                entry.failures += 1;
                let delay = back_off(object, entry.failures);
                entry.not_before = entry.not_before.max(now + delay.min(DEAF));
                Some(now + delay)
            }
        };
        if matches!(next, Next::Wait | Next::After(_) | Next::Forget) {
            (entry.failures, entry.conflicts) = (0, 0);
        }
        if next == Next::Forget && asked.is_none() {
            self.objects.remove(object);
        }
        for at in asked.into_iter().chain(again) {
            self.plan(object, at);
        }
    }
}

impl<T> Entry<T> {
    fn new(now: Instant) -> Self {
        Self { due: None, why: None, running: false, not_before: now, failures: 0, conflicts: 0 }
    }
}

/// The delay after so many failures in a row, moved by up to a quarter so that objects which failed together do not
/// come back together.
fn back_off(object: &str, failures: u32) -> Duration {
    let mut hasher = DefaultHasher::new();
    (object, failures).hash(&mut hasher);
    let quarter = f64::from(u16::try_from(hasher.finish() % 1000).unwrap_or_default()) / 2000.0 - 0.25;
    doubled(FIRST_DELAY, failures, LONGEST_DELAY).mul_f64(1.0 + quarter).min(LONGEST_DELAY)
}

fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1))).min(longest)
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    type Log = Arc<Mutex<Vec<(Duration, String)>>>;

    /// Runs a queue for some time; the log has the time and object of each pass.
    struct Bench {
        asker: Asker<&'static str>,
        log: Log,
        shutdown: CancellationToken,
        worker: tokio::task::JoinHandle<()>,
    }

    fn bench(lasts: Duration, outcome: impl Fn(&str, usize) -> Next + Send + Sync + 'static) -> Bench {
        let (asker, queue) = queue();
        let log = Log::default();
        let (start, shutdown, outcome) = (Instant::now(), CancellationToken::new(), Arc::new(outcome));
        let (passes, until) = (log.clone(), shutdown.clone());
        let worker = tokio::spawn(async move {
            let pass = move |object: String, _| {
                let (passes, outcome) = (passes.clone(), outcome.clone());
                async move {
                    let number = {
                        let mut passes = passes.lock().unwrap();
                        passes.push((start.elapsed(), object.clone()));
                        passes.iter().filter(|(_, other)| *other == object).count()
                    };
                    sleep(lasts).await;
                    outcome(&object, number)
                }
            };
            queue.work(pass, until).await;
        });
        Bench { asker, log, shutdown, worker }
    }

    impl Bench {
        fn times(&self, object: &str) -> Vec<u128> {
            let log = self.log.lock().unwrap();
            log.iter().filter(|(_, other)| other == object).map(|(at, _)| at.as_millis()).collect()
        }
    }

    async fn run_for(time: Duration) {
        for _ in 0..time.as_millis() {
            advance(Duration::from_millis(1)).await;
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_leads_to_a_pass_at_once_and_a_burst_to_one_more() {
        let bench = bench(Duration::from_millis(50), |_, _| Next::Wait);
        for _ in 0..100 {
            bench.asker.ask("a", "event");
        }
        sleep(Duration::from_millis(10)).await;
        for _ in 0..100 {
            bench.asker.ask("a", "event");
        }
        sleep(Duration::from_secs(5)).await;
        assert_eq!(bench.times("a"), [0, 200]);
    }

    #[tokio::test(start_paused = true)]
    async fn twenty_events_a_second_do_not_starve_the_passes() {
        let bench = bench(Duration::from_millis(30), |_, _| Next::Wait);
        for _ in 0..200 {
            bench.asker.ask("a", "event");
            sleep(Duration::from_millis(50)).await;
        }
        let passes = bench.times("a").len();
        assert!((45..=51).contains(&passes), "{passes} passes in ten seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn one_object_has_one_pass_at_a_time_and_four_objects_have_theirs_together() {
        let bench = bench(Duration::from_secs(1), |_, _| Next::Wait);
        for object in ["a", "b", "c", "d", "e"] {
            bench.asker.ask(object, "event");
        }
        sleep(Duration::from_millis(500)).await;
        bench.asker.ask("a", "event");
        sleep(Duration::from_secs(5)).await;
        let starts: Vec<_> = ["a", "b", "c", "d", "e"].map(|object| bench.times(object)).into();
        assert_eq!(starts, [vec![0, 1000], vec![0], vec![0], vec![0], vec![1000]]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_up_to_ten_seconds_and_success_resets() {
        let bench = bench(Duration::ZERO, |_, number| if number == 15 { Next::Wait } else { Next::Retry });
        bench.asker.ask("a", "event");
        sleep(Duration::from_secs(3600)).await;
        let gaps = |times: Vec<u128>| times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
        let first = gaps(bench.times("a"));
        assert_eq!(first.len(), 14, "{first:?}");
        for (number, gap) in first.iter().enumerate() {
            let full = (500_u128 << number).min(10_000);
            assert!((full * 3 / 4..=full * 5 / 4 + 1).contains(gap) && *gap <= 10_001, "{number}: {gap}");
        }
        bench.asker.ask("a", "event");
        sleep(Duration::from_millis(900)).await;
        let again = gaps(bench.times("a").split_off(15));
        assert!(again.first().is_some_and(|gap| (375..=626).contains(gap)), "{again:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_shortens_a_long_back_off_but_not_below_five_seconds() {
        let bench = bench(Duration::ZERO, |_, _| Next::Retry);
        bench.asker.ask("a", "event");
        sleep(Duration::from_secs(600)).await;
        let before = bench.times("a").len();
        for _ in 0..1200 {
            bench.asker.ask("a", "event");
            sleep(Duration::from_millis(50)).await;
        }
        let passes = bench.times("a").len() - before;
        assert!((11..=13).contains(&passes), "{passes} passes in a minute of events");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_the_failure_of_one_object() {
        let bench = bench(Duration::ZERO, |object, number| match (object, number) {
            ("bad", 1) => panic!("boom"),
            _ => Next::Wait,
        });
        bench.asker.ask("bad", "event");
        bench.asker.ask("good", "event");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(bench.times("good").len(), 1);
        let bad = bench.times("bad");
        assert!(bad.len() == 2 && (375..=626).contains(&bad[1]), "tried again after a back-off: {bad:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_comes_again_when_it_asked_for_that_and_an_event_comes_first() {
        let bench = bench(Duration::ZERO, |_, number| match number {
            1 => Next::After(Duration::from_secs(60)),
            2 => Next::After(Duration::from_secs(10)),
            3 => Next::Soon,
            _ => Next::Wait,
        });
        bench.asker.ask("a", "event");
        sleep(Duration::from_secs(5)).await;
        bench.asker.ask("a", "event");
        sleep(Duration::from_secs(100)).await;
        let seconds: Vec<_> = bench.times("a").iter().map(|at| at / 100).collect();
        assert_eq!(seconds, [0, 50, 150, 152], "tenths of seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_lets_a_pass_finish_and_begins_no_other() {
        let bench = bench(Duration::from_secs(3), |_, _| Next::Wait);
        bench.asker.ask("a", "event");
        run_for(Duration::from_millis(5)).await;
        bench.asker.ask("a", "event");
        bench.asker.ask("b", "event");
        bench.shutdown.cancel();
        let asked = Instant::now();
        bench.worker.await.unwrap();
        assert!(asked.elapsed() >= Duration::from_millis(2990));
        assert_eq!(bench.log.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_does_not_wait_for_ever() {
        let bench = bench(Duration::from_secs(3600), |_, _| Next::Wait);
        bench.asker.ask("a", "event");
        run_for(Duration::from_millis(5)).await;
        bench.shutdown.cancel();
        let asked = Instant::now();
        bench.worker.await.unwrap();
        assert_eq!(asked.elapsed().as_secs(), 20);
    }

    #[tokio::test]
    async fn a_queue_that_nobody_works_on_keeps_one_entry_for_each_object() {
        let (asker, queue) = queue();
        let why = Arc::new("event");
        for _ in 0..10_000 {
            asker.ask("a", why.clone());
            asker.ask("b", why.clone());
        }
        assert_eq!(Arc::strong_count(&why), 3, "the first reason of each");
        assert_eq!(queue.objects(), ["a", "b"]);
    }

    #[test]
    fn what_is_forgotten_takes_no_room() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.ask("a", "event", now);
        assert_eq!(schedule.take(now), Some(("a".into(), Some("event"))));
        schedule.finish("a", Next::Forget, now);
        assert!(schedule.objects.is_empty() && schedule.due.is_empty());
    }

    #[test]
    fn the_first_reason_is_the_one_that_a_pass_is_told() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.ask("a", "first", now);
        schedule.ask("a", "second", now);
        assert_eq!(schedule.take(now), Some(("a".into(), Some("first"))));
        schedule.ask("a", "third", now);
        schedule.finish("a", Next::Wait, now);
        assert_eq!(schedule.take(now), None, "not before its pace");
        assert_eq!(schedule.take(now + PACE), Some(("a".into(), Some("third"))));
    }
}
