//! What the API server is asked at once. One that answers 429 has too much to do: a burst of ours must not keep it there.
//!
//! Reads and writes are limited apart, as the API server does it. A 429 halves the limit, down to one request at a time,
//! and stops all requests of that lane for as long as `Retry-After` says. What is accepted raises the limit again, one by
//! one and only after some full rounds, because a limit that is tried too soon costs a wait. A request that was answered
//! 429 was not carried out (kubernetes/apiserver, `pkg/server/filters/maxinflight.go` and `priority-and-fairness.go`
//! answer instead of the handler), so it is sent again here.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response, StatusCode, header::RETRY_AFTER};
use kube::{Client, client::Body};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};
use tower::Service;

use super::expiry::Expiry;
use crate::admin::Metrics;

/// How many requests of a lane may be under way at once, at the beginning and at most.
const MOST: usize = 32;
/// How many full rounds have to be accepted before the limit is raised by one: many for a while after a 429, then one.
const ROUNDS: usize = 8;
/// That while.
const WHILE: Duration = Duration::from_secs(30);
/// How long to wait where the API server does not say.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest wait that the API server may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);
/// How often one request is sent, before its 429 is handed on.
const ATTEMPTS: usize = 10;
/// How long the API server may take to answer a write, without the time that the write waited here.
const WRITE: Duration = Duration::from_secs(10);
/// How long it may take to begin its answer to a watch. A new watch may be sent over an idle connection that is dead as
/// well.
const WATCH: Duration = Duration::from_secs(15);

/// The API server did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {0:?}")]
pub(super) struct NoAnswer(Duration);

impl NoAnswer {
    /// Whether a request failed for this reason.
    pub(super) fn is(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(error) if error.is::<Self>())
    }
}

/// A client whose requests keep to the limits.
#[derive(Clone)]
pub(super) struct Pressured {
    client: Client,
    reads: Arc<Lane>,
    writes: Arc<Lane>,
}

impl Pressured {
    /// Limits for this client.
    pub(super) fn new(client: Client, metrics: &Metrics) -> Self {
        let lane = |requests| Arc::new(Lane::new(requests, metrics.clone()));
        Self { client, reads: lane("read"), writes: lane("write") }
    }
}

impl Service<Request<Body>> for Pressured {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, kube::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.client.clone();
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        let lane = if reads { self.reads.clone() } else { self.writes.clone() };
        let limit = match reads {
            true => is_watch(&request).then_some(WATCH),
            false => Some(WRITE),
        };
        async move { lane.send(request, |request| answer(client.clone(), request, limit)).await }.boxed()
    }
}

/// The answer to one attempt.
async fn answer(client: Client, request: Request<Body>, limit: Option<Duration>) -> kube::Result<Response<Body>> {
    match limit {
        Some(limit) => {
            let answer = timeout(limit, client.send(request)).await;
            answer.unwrap_or_else(|_| Err(kube::Error::Service(Box::new(NoAnswer(limit)))))
        }
        None => client.send(request).await,
    }
}

/// Requests that share a limit.
struct Lane {
    requests: &'static str,
    metrics: Metrics,
    load: Mutex<Load>,
    /// A place may be free.
    freed: Notify,
}

/// How much is under way, and how much may be: plain data, told the time.
#[derive(Debug)]
struct Load {
    running: usize,
    limit: usize,
    /// What was accepted since the limit last changed.
    accepted: usize,
    /// When requests may be sent again.
    resume: Option<Instant>,
    /// When the limit was last reduced.
    reduced: Option<Instant>,
}

/// Whether a request may be sent.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Now,
    NotBefore(Instant),
    Full,
}

impl Lane {
    fn new(requests: &'static str, metrics: Metrics) -> Self {
        metrics.request_limit(requests, MOST);
        Self { requests, metrics, load: Mutex::new(Load::default()), freed: Notify::new() }
    }

    /// Sends a request when there is a place, and again when it is answered 429.
    async fn send<F>(
        &self,
        mut request: Request<Body>,
        answer: impl Fn(Request<Body>) -> F,
    ) -> kube::Result<Response<Body>>
    where
        F: Future<Output = kube::Result<Response<Body>>>,
    {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let copy = copy(&request).filter(|_| attempt < ATTEMPTS);
            let place = self.place().await;
            Expiry::check(&request)?;
            let sent = Instant::now();
            let response = answer(request).await?;
            if response.status() != StatusCode::TOO_MANY_REQUESTS {
                self.load().accept(Instant::now());
                self.metrics.request_limit(self.requests, self.load().limit);
                return Ok(response);
            }
            self.metrics.throttled(self.requests);
            let pause = retry_after(&response);
            self.load().throttle(sent, Instant::now(), pause + jitter(pause));
            self.metrics.request_limit(self.requests, self.load().limit);
            drop(place);
            match copy {
                Some(copy) => request = copy,
                None => return Ok(response),
            }
        }
    }

    /// Waits for a place.
    async fn place(&self) -> Place<'_> {
        loop {
            let freed = self.freed.notified();
            let admission = self.load().admit(Instant::now());
            match admission {
                Admission::Now => return Place(self),
                Admission::Full => freed.await,
                Admission::NotBefore(at) => {
                    drop(freed);
                    sleep_until(at).await;
                }
            }
        }
    }

    /// The load is plain data: a panic elsewhere cannot leave it half-written.
    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is under way.
struct Place<'l>(&'l Lane);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let free = {
            let mut load = self.0.load();
            load.running = load.running.saturating_sub(1);
            load.limit.saturating_sub(load.running)
        };
        // More than one may be free when the limit was raised.
        for _ in 0..free.min(2) {
            self.0.freed.notify_one();
        }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self { running: 0, limit: MOST, accepted: 0, resume: None, reduced: None }
    }
}

impl Load {
    fn admit(&mut self, now: Instant) -> Admission {
        match self.resume {
            Some(resume) if now < resume => Admission::NotBefore(resume),
            _ if self.running >= self.limit => Admission::Full,
            _ => {
                self.running += 1;
                Admission::Now
            }
        }
    }

    /// A request was accepted.
    fn accept(&mut self, now: Instant) {
        let lately = self.reduced.is_some_and(|reduced| now < reduced + WHILE);
        self.accepted += 1;
        if self.accepted >= self.limit * if lately { ROUNDS } else { 1 } {
            self.limit = (self.limit + 1).min(MOST);
            self.accepted = 0;
        }
    }

    /// A request that was sent at a time was answered 429. Those of one burst reduce the limit once.
    fn throttle(&mut self, sent: Instant, now: Instant, pause: Duration) {
        if self.reduced.is_none_or(|reduced| sent > reduced) {
            self.limit = (self.limit / 2).max(1);
            self.accepted = 0;
            self.reduced = Some(now);
        }
        self.resume = self.resume.max(Some(now + pause));
    }
}

/// Up to a fifth, so that clients which were refused together do not come back together.
fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    pause.mul_f64(f64::from(u8::try_from(random % 200).unwrap_or_default()) / 1000.0)
}

/// How long the API server asks to wait.
fn retry_after(response: &Response<Body>) -> Duration {
    let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    header.map_or(PAUSE, Duration::from_secs).min(LONGEST_RETRY_AFTER)
}

/// Whether a request asks for changes as they happen.
pub(super) fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().into_iter().flat_map(|query| query.split('&')).any(|one| one == "watch=true")
}

/// The same request once more, if its body can be copied.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    *copy.version_mut() = request.version();
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::cluster::client::limited;

    /// A server that takes so many requests at once, each for 20 ms, and answers 429 to the others.
    struct Server {
        client: Client,
        metrics: Metrics,
        /// How many answers were 429.
        refused: Arc<AtomicUsize>,
    }

    fn server(takes: usize, retry_after: &'static str) -> Server {
        let (running, refused, metrics) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Metrics::default());
        let count = refused.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let (running, refused) = (running.clone(), count.clone());
            async move {
                if running.fetch_add(1, Ordering::Relaxed) >= takes {
                    running.fetch_sub(1, Ordering::Relaxed);
                    refused.fetch_add(1, Ordering::Relaxed);
                    let answer = Response::builder().status(429).header(RETRY_AFTER, retry_after);
                    return Ok::<_, Infallible>(answer.body(Body::empty()).unwrap());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                Ok(Response::new(Body::empty()))
            }
        });
        Server { client: limited(Client::new(service, "default"), &metrics), metrics, refused }
    }

    fn request(method: Method) -> Request<Body> {
        Request::builder().method(method).uri("/api/v1/nodes").body(Body::from(b"body".to_vec())).unwrap()
    }

    /// Sends so many writes at once. How many were accepted, and how long it took.
    async fn burst(client: &Client, count: usize) -> (usize, Duration) {
        let begin = Instant::now();
        let all = (0..count).map(|_| client.send(request(Method::PATCH)));
        let answers = futures::future::join_all(all).await;
        (answers.iter().filter(|answer| answer.as_ref().unwrap().status() == 200).count(), begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_taken_in_full_by_a_server_that_takes_two_requests_at_once() {
        let server = server(2, "1");
        let (accepted, took) = burst(&server.client, 400).await;
        assert_eq!(accepted, 400);
        let refused = server.refused.load(Ordering::Relaxed);
        assert!(refused < 80, "{refused} of 400 were refused");
        assert!(took < Duration::from_secs(45), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_limits_is_asked_thirty_two_things_at_once_and_never_waited_for() {
        let server = server(usize::MAX, "1");
        let (accepted, took) = burst(&server.client, 320).await;
        assert_eq!((accepted, took.as_millis() / 20), (320, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_before_retry_after_is_over_and_reads_and_writes_are_apart() {
        let server = server(0, "7");
        let begin = Instant::now();
        let write = tokio::spawn({
            let client = server.client.clone();
            async move { client.send(request(Method::PATCH)).await }
        });
        let read = timeout(Duration::from_secs(6), server.client.send(request(Method::GET)));
        assert!(read.await.is_err());
        assert_eq!(server.refused.load(Ordering::Relaxed), 2, "one of each lane");
        assert_eq!(write.await.unwrap().unwrap().status(), 429);
        let waited = begin.elapsed().as_secs();
        assert!((7 * 9..=9 * 9).contains(&waited), "nine waits of seven seconds, and a little: {waited}");
        let text = server.metrics.text();
        for line in [
            "winpool_throttled_requests_total{requests=\"write\"} 10",
            "winpool_throttled_requests_total{requests=\"read\"} 1",
            "winpool_request_limit{requests=\"write\"} 1",
            "winpool_request_limit{requests=\"read\"} 16",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_leaves_its_place() {
        let silent = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
        let client = limited(Client::new(silent, "default"), &Metrics::default());
        for _ in 0..3 {
            let all = (0..MOST).map(|_| timeout(Duration::from_secs(1), client.send(request(Method::GET))));
            assert!(futures::future::join_all(all).await.iter().all(Result::is_err));
        }
        let begin = Instant::now();
        let write = client.send(request(Method::PATCH)).await;
        assert!(write.is_err() && begin.elapsed() == WRITE, "writes have a limit of their own");
    }

    #[test]
    fn one_burst_reduces_the_limit_once_and_full_rounds_raise_it_one_by_one() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut load = Load::default();
        for answered in [2, 2, 3] {
            load.throttle(at(1), at(answered), PAUSE);
        }
        assert_eq!((load.limit, load.resume), (MOST / 2, Some(at(4))));
        assert_eq!(load.admit(at(3)), Admission::NotBefore(at(4)));
        for second in [5, 7, 9, 11, 13, 15] {
            load.throttle(at(second), at(second + 1), PAUSE);
        }
        assert_eq!(load.limit, 1, "never nothing");
        assert_eq!((load.admit(at(17)), load.admit(at(17))), (Admission::Now, Admission::Full));
        let accepts = |load: &mut Load, times: usize, now| (0..times).for_each(|_| load.accept(now));
        for (second, accepted, limit) in [(17, 7, 1), (17, 1, 2), (18, 15, 2), (18, 1, 3), (100, 2, 3), (100, 1, 4)] {
            accepts(&mut load, accepted, at(second));
            assert_eq!(load.limit, limit, "{second} {accepted}");
        }
        accepts(&mut load, 10_000, at(200));
        assert_eq!(load.limit, MOST);
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_bounded() {
        let table = [(None, 1), (Some("3"), 3), (Some(" 3 "), 3), (Some("0"), 0), (Some("600"), 30), (Some("soon"), 1)];
        for (header, seconds) in table {
            let mut response = Response::builder().status(429);
            if let Some(header) = header {
                response = response.header(RETRY_AFTER, header);
            }
            let response = response.body(Body::empty()).unwrap();
            assert_eq!(retry_after(&response).as_secs(), seconds, "{header:?}");
        }
    }
}
