//! Requests with a deadline. A process that was suspended during a reconcile, or whose writes wait for an API server
//! under load, must not send writes that are based on an old snapshot.

use std::task::{Context, Poll};

use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use kube::{Client, client::Body};
use tokio::time::Instant;
use tower::Service;

/// The time after which a request must not be sent. It is an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

/// The request was not sent.
#[derive(Debug, thiserror::Error)]
#[error("not sent, because the plan is too old")]
pub(super) struct DeadlineExceeded;

impl Deadline {
    /// Whether the request may be sent now. To be called after every wait.
    pub(super) fn check(request: &Request<Body>) -> kube::Result<()> {
        match request.extensions().get::<Self>() {
            Some(Self(at)) if Instant::now() >= *at => Err(kube::Error::Service(Box::new(DeadlineExceeded))),
            _ => Ok(()),
        }
    }
}

impl DeadlineExceeded {
    /// Whether a request failed for this reason.
    pub(super) fn is(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(error) if error.is::<Self>())
    }
}

/// Adds the same deadline to every request.
#[derive(Clone)]
pub(super) struct WithDeadline {
    client: Client,
    at: Instant,
}

impl WithDeadline {
    pub(super) fn new(client: Client, at: Instant) -> Self {
        Self { client, at }
    }
}

impl Service<Request<Body>> for WithDeadline {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, kube::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(Deadline(self.at));
        let client = self.client.clone();
        async move { client.send(request).await }.boxed()
    }
}
