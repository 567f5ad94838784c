//! Limits for concurrent requests, which adapt to an API server that answers 429.
//!
//! Reads and writes have separate limits, as in the API server. A 429 halves the limit, to at least one, and delays all
//! requests of that limit for the time in `Retry-After`. The limit is raised by one after a number of accepted requests
//! that is a multiple of the limit, because raising it too soon causes another 429. A request that was answered with
//! 429 was not processed (kubernetes/apiserver, `pkg/server/filters/maxinflight.go` and `priority-and-fairness.go`
//! answer instead of the handler), so it is retried here.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, header::RETRY_AFTER};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};

use super::deadline::Deadline;
use crate::admin::Metrics;

/// How many requests may run at once: the initial limit and its maximum.
const MAX_LIMIT: usize = 32;
/// How many times as many requests as the limit must be accepted before it is raised by one, during [`SLOW_RAISE`].
/// Later the factor is one.
const ACCEPTED_ROUNDS: usize = 8;
/// How long after a 429 the limit is raised slowly, by [`ACCEPTED_ROUNDS`].
const SLOW_RAISE: Duration = Duration::from_secs(30);
/// How long to wait after a 429 without `Retry-After`.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);
/// The maximum of `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);
/// How many times a request is sent before its 429 is returned.
const ATTEMPTS: usize = 10;
/// How long the API server may take to answer a write, without the time that the write waited for a permit.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the API server may take to begin its response to a watch, which may be sent over a half-open connection.
const WATCH_TIMEOUT: Duration = Duration::from_secs(15);

/// The API server did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {0:?}")]
pub(super) struct ResponseTimeout(Duration);

/// The limits for the reads and the writes of a client.
#[derive(Clone)]
pub(super) struct Limiters {
    reads: Arc<Limiter>,
    writes: Arc<Limiter>,
}

impl Limiters {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let limiter = |requests| Arc::new(Limiter::new(requests, metrics.clone()));
        Self { reads: limiter("read"), writes: limiter("write") }
    }

    /// Sends a request when its limit allows it.
    pub(super) async fn send(self, client: Client, request: Request<Body>) -> kube::Result<Response<Body>> {
        let (limiter, limit) = match *request.method() {
            Method::GET | Method::HEAD => (self.reads, is_watch(&request).then_some(WATCH_TIMEOUT)),
            _ => (self.writes, Some(WRITE_TIMEOUT)),
        };
        limiter.send(request, |request| send_once(client.clone(), request, limit)).await
    }
}

async fn send_once(client: Client, request: Request<Body>, limit: Option<Duration>) -> kube::Result<Response<Body>> {
    match limit {
        Some(limit) => {
            let response = timeout(limit, client.send(request)).await;
            response.unwrap_or_else(|_| Err(kube::Error::Service(Box::new(ResponseTimeout(limit)))))
        }
        None => client.send(request).await,
    }
}

fn is_eviction(request: &Request<Body>) -> bool {
    request.uri().path().ends_with("/eviction")
}

/// Requests that share a limit.
struct Limiter {
    requests: &'static str,
    metrics: Metrics,
    state: Mutex<LimiterState>,
    /// Notified when a permit may be available.
    released: Notify,
}

/// The state of a limiter. The current time is a parameter.
#[derive(Debug)]
struct LimiterState {
    running: usize,
    limit: usize,
    /// How many requests were accepted since the limit last changed.
    accepted: usize,
    /// When requests may be sent again.
    resume: Option<Instant>,
    /// When the limit was last reduced.
    reduced: Option<Instant>,
}

/// Whether a request may be sent.
#[derive(Debug, PartialEq, Eq)]
enum Acquired {
    Yes,
    NotBefore(Instant),
    LimitReached,
}

impl Limiter {
    fn new(requests: &'static str, metrics: Metrics) -> Self {
        metrics.request_limit.set(requests, MAX_LIMIT);
        Self { requests, metrics, state: Mutex::new(LimiterState::default()), released: Notify::new() }
    }

    /// Sends a request when a permit is available, and again when it is answered with 429.
    async fn send<F>(
        &self,
        mut request: Request<Body>,
        send_once: impl Fn(Request<Body>) -> F,
    ) -> kube::Result<Response<Body>>
    where
        F: Future<Output = kube::Result<Response<Body>>>,
    {
        let is_eviction = is_eviction(&request);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let copy = copy(&request).filter(|_| attempt < ATTEMPTS);
            let permit = self.acquire().await;
            Deadline::check(&request)?;
            let sent = Instant::now();
            let response = send_once(request).await?;
            // A PodDisruptionBudget does not allow the eviction, or the API server is under load: it is retried later.
            if response.status() != StatusCode::TOO_MANY_REQUESTS || is_eviction {
                self.state.lock().accept(Instant::now());
                self.metrics.request_limit.set(self.requests, self.state.lock().limit);
                return Ok(response);
            }
            self.metrics.throttled_requests.inc(self.requests);
            let pause = retry_after(&response);
            self.state.lock().throttle(sent, Instant::now(), pause + jitter(pause));
            self.metrics.request_limit.set(self.requests, self.state.lock().limit);
            drop(permit);
            match copy {
                Some(copy) => request = copy,
                None => return Ok(response),
            }
        }
    }

    /// Waits for a permit.
    async fn acquire(&self) -> Permit<'_> {
        loop {
            let released = self.released.notified();
            let acquired = self.state.lock().try_acquire(Instant::now());
            match acquired {
                Acquired::Yes => return Permit(self),
                Acquired::LimitReached => released.await,
                Acquired::NotBefore(at) => {
                    drop(released);
                    sleep_until(at).await;
                }
            }
        }
    }
}

struct Permit<'l>(&'l Limiter);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let available = {
            let mut state = self.0.state.lock();
            state.running = state.running.saturating_sub(1);
            state.limit.saturating_sub(state.running)
        };
        // If the limit was raised, more than one permit may be available.
        for _ in 0..available.min(2) {
            self.0.released.notify_one();
        }
    }
}

impl Default for LimiterState {
    fn default() -> Self {
        Self { running: 0, limit: MAX_LIMIT, accepted: 0, resume: None, reduced: None }
    }
}

impl LimiterState {
    fn try_acquire(&mut self, now: Instant) -> Acquired {
        match self.resume {
            Some(resume) if now < resume => Acquired::NotBefore(resume),
            _ if self.running >= self.limit => Acquired::LimitReached,
            _ => {
                self.running += 1;
                Acquired::Yes
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        let raise_slowly = self.reduced.is_some_and(|reduced| now < reduced + SLOW_RAISE);
        self.accepted += 1;
        if self.accepted >= self.limit * if raise_slowly { ACCEPTED_ROUNDS } else { 1 } {
            self.limit = (self.limit + 1).min(MAX_LIMIT);
            self.accepted = 0;
        }
    }

    /// A request was answered with 429. It does not reduce the limit if it was sent before the last reduction.
    fn throttle(&mut self, sent: Instant, now: Instant, pause: Duration) {
        if self.reduced.is_none_or(|reduced| sent > reduced) {
            self.limit = (self.limit / 2).max(1);
            self.accepted = 0;
            self.reduced = Some(now);
        }
        self.resume = self.resume.max(Some(now + pause));
    }
}

/// A random delay of up to a fifth of the pause, so that clients that were throttled together do not retry together.
fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    pause.mul_f64(f64::from(u8::try_from(random % 200).unwrap_or_default()) / 1000.0)
}

/// The time in `Retry-After`.
fn retry_after(response: &Response<Body>) -> Duration {
    let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    header.map_or(DEFAULT_RETRY_AFTER, Duration::from_secs).min(MAX_RETRY_AFTER)
}

pub(super) fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().into_iter().flat_map(|query| query.split('&')).any(|one| one == "watch=true")
}

/// A copy of a request, if its body can be copied.
pub(super) fn copy(request: &Request<Body>) -> Option<Request<Body>> {
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
    use crate::cluster::client::throttled;

    /// A server that accepts this many concurrent requests, each for 20 ms, and answers 429 to the others.
    struct Server {
        client: Client,
        metrics: Metrics,
        /// How many requests were answered with 429.
        rejected: Arc<AtomicUsize>,
    }

    fn server(capacity: usize, retry_after: &'static str) -> Server {
        let (running, rejected, metrics) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Metrics::default());
        let count = rejected.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let (running, rejected) = (running.clone(), count.clone());
            async move {
                if running.fetch_add(1, Ordering::Relaxed) >= capacity {
                    running.fetch_sub(1, Ordering::Relaxed);
                    rejected.fetch_add(1, Ordering::Relaxed);
                    let answer = Response::builder().status(429).header(RETRY_AFTER, retry_after);
                    return Ok::<_, Infallible>(answer.body(Body::empty()).unwrap());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                Ok(Response::new(Body::empty()))
            }
        });
        Server { client: throttled(Client::new(service, "default"), &metrics), metrics, rejected }
    }

    fn request(method: Method) -> Request<Body> {
        Request::builder().method(method).uri("/api/v1/nodes").body(Body::from(b"body".to_vec())).unwrap()
    }

    /// Sends this many writes at once. Returns how many were accepted, and how long it took.
    async fn burst(client: &Client, count: usize) -> (usize, Duration) {
        let begin = Instant::now();
        let all = (0..count).map(|_| client.send(request(Method::PATCH)));
        let answers = futures::future::join_all(all).await;
        (answers.iter().filter(|answer| answer.as_ref().unwrap().status() == 200).count(), begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_accepted_in_full_by_a_server_that_accepts_two_requests_at_once() {
        let server = server(2, "1");
        let (accepted, took) = burst(&server.client, 400).await;
        assert_eq!(accepted, 400);
        let rejected = server.rejected.load(Ordering::Relaxed);
        assert!(rejected < 80, "{rejected} of 400 were rejected");
        assert!(took < Duration::from_secs(45), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_limits_gets_thirty_two_requests_at_once_without_delays() {
        let server = server(usize::MAX, "1");
        let (accepted, took) = burst(&server.client, 320).await;
        assert_eq!((accepted, took.as_millis() / 20), (320, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn no_request_is_sent_before_retry_after_and_reads_and_writes_are_limited_separately() {
        let server = server(0, "7");
        let begin = Instant::now();
        let write = tokio::spawn({
            let client = server.client.clone();
            async move { client.send(request(Method::PATCH)).await }
        });
        let read = timeout(Duration::from_secs(6), server.client.send(request(Method::GET)));
        assert!(read.await.is_err());
        assert_eq!(server.rejected.load(Ordering::Relaxed), 2, "one read and one write");
        assert_eq!(write.await.unwrap().unwrap().status(), 429);
        let waited = begin.elapsed().as_secs();
        assert!((7 * 9..=9 * 9).contains(&waited), "nine waits of seven seconds with jitter: {waited}");
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
    async fn an_eviction_that_is_not_allowed_is_neither_repeated_nor_a_reason_to_slow_down() {
        let server = server(0, "7");
        let begin = Instant::now();
        let eviction = Request::post("/api/v1/namespaces/shop/pods/web-1/eviction").body(Body::empty()).unwrap();
        assert_eq!(server.client.send(eviction).await.unwrap().status(), 429);
        assert_eq!((server.rejected.load(Ordering::Relaxed), begin.elapsed()), (1, Duration::ZERO));
        let text = server.metrics.text();
        assert!(
            text.contains("winpool_request_limit{requests=\"write\"} 32")
                && !text.contains("throttled_requests_total{")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_releases_its_permit() {
        let silent = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
        let client = throttled(Client::new(silent, "default"), &Metrics::default());
        for _ in 0..3 {
            let all = (0..MAX_LIMIT).map(|_| timeout(Duration::from_secs(1), client.send(request(Method::GET))));
            assert!(futures::future::join_all(all).await.iter().all(Result::is_err));
        }
        let begin = Instant::now();
        let write = client.send(request(Method::PATCH)).await;
        assert!(write.is_err() && begin.elapsed() == WRITE_TIMEOUT, "writes have a time limit");
    }

    #[test]
    fn one_burst_reduces_the_limit_once_and_full_rounds_raise_it_one_by_one() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = LimiterState::default();
        for answered in [2, 2, 3] {
            state.throttle(at(1), at(answered), DEFAULT_RETRY_AFTER);
        }
        assert_eq!((state.limit, state.resume), (MAX_LIMIT / 2, Some(at(4))));
        assert_eq!(state.try_acquire(at(3)), Acquired::NotBefore(at(4)));
        for second in [5, 7, 9, 11, 13, 15] {
            state.throttle(at(second), at(second + 1), DEFAULT_RETRY_AFTER);
        }
        assert_eq!(state.limit, 1, "never zero");
        assert_eq!((state.try_acquire(at(17)), state.try_acquire(at(17))), (Acquired::Yes, Acquired::LimitReached));
        let accept = |state: &mut LimiterState, times: usize, now| (0..times).for_each(|_| state.accept(now));
        for (second, accepted, limit) in [(17, 7, 1), (17, 1, 2), (18, 15, 2), (18, 1, 3), (100, 2, 3), (100, 1, 4)] {
            accept(&mut state, accepted, at(second));
            assert_eq!(state.limit, limit, "{second} {accepted}");
        }
        accept(&mut state, 10_000, at(200));
        assert_eq!(state.limit, MAX_LIMIT);
    }

    #[test]
    fn retry_after_is_in_seconds_and_bounded() {
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
