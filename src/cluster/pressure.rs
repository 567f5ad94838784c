//! What the API server is asked at once. One that answers 429 has too much to do: a burst of ours must not keep it there.
//!
//! Reads and writes are limited apart, as the API server does it. A 429 halves the limit and stops all requests of that
//! lane for as long as `Retry-After` says, longer with each in a row; what is accepted raises the limit again, by one for
//! each full round. A request that was answered 429 was not carried out (kubernetes/apiserver, filters `maxinflight.go`
//! and `priority-and-fairness.go` answer instead of the handler), so it is sent again here.

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
/// How long to wait where the API server does not say.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest wait that follows from 429s in a row, unless the API server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The longest wait that the API server may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);
/// How often one request is sent, before its 429 is handed on.
const ATTEMPTS: usize = 10;
/// How long the API server may take to answer a write, without the time that the write waited here.
const WRITE: Duration = Duration::from_secs(10);

/// The API server did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {WRITE:?}")]
struct NoAnswer;

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
        async move {
            let limit = (!reads).then_some(WRITE);
            lane.send(request, |request| answer(client.clone(), request, limit)).await
        }
        .boxed()
    }
}

/// The answer to one attempt.
async fn answer(client: Client, request: Request<Body>, limit: Option<Duration>) -> kube::Result<Response<Body>> {
    match limit {
        Some(limit) => {
            let answer = timeout(limit, client.send(request)).await;
            answer.unwrap_or_else(|_| Err(kube::Error::Service(Box::new(NoAnswer))))
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
    /// How often in a row it was reduced.
    in_a_row: u32,
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
        for attempt in 1.. {
            let copy = copy(&request).filter(|_| attempt < ATTEMPTS);
            let place = self.place().await;
            Expiry::check(&request)?;
            let sent = Instant::now();
            let response = answer(request).await?;
            if response.status() != StatusCode::TOO_MANY_REQUESTS {
                self.load().accept();
                self.metrics.request_limit(self.requests, self.load().limit);
                return Ok(response);
            }
            self.metrics.throttled(self.requests);
            self.load().throttle(sent, Instant::now(), retry_after(&response));
            self.metrics.request_limit(self.requests, self.load().limit);
            drop(place);
            match copy {
                Some(copy) => request = copy,
                None => return Ok(response),
            }
        }
        // The range has no end.
        Err(kube::Error::Service(Box::new(NoAnswer)))
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
        Self { running: 0, limit: MOST, accepted: 0, resume: None, reduced: None, in_a_row: 0 }
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
    fn accept(&mut self) {
        self.in_a_row = 0;
        self.accepted += 1;
        if self.accepted >= self.limit {
            self.limit = (self.limit + 1).min(MOST);
            self.accepted = 0;
        }
    }

    /// A request that was sent at a time was answered 429. Those of one burst reduce the limit once.
    fn throttle(&mut self, sent: Instant, now: Instant, retry_after: Duration) {
        let mut pause = retry_after;
        if self.reduced.is_none_or(|reduced| sent > reduced) {
            self.limit = (self.limit / 2).max(1);
            self.accepted = 0;
            self.reduced = Some(now);
            self.in_a_row = self.in_a_row.saturating_add(1);
            let growing = PAUSE.saturating_mul(2_u32.saturating_pow(self.in_a_row.saturating_sub(1)));
            pause = pause.max(growing.min(LONGEST_PAUSE));
        }
        self.resume = self.resume.max(Some(now + pause + jitter(pause)));
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
