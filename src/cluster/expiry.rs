//! Requests that are not sent late. A process that was stopped in the middle of a pass, or whose writes wait for an API
//! server under load, must not write later what was right before.

use std::task::{Context, Poll};

use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use kube::{Client, client::Body};
use tokio::time::Instant;
use tower::Service;

/// The time after which a request is not sent any more; it travels with the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiry(Instant);

/// The request was not sent: what it is based on is too old.
#[derive(Debug, thiserror::Error)]
#[error("not sent, because the plan behind it is too old")]
pub(super) struct Expired;

impl Expiry {
    /// Whether the request may be sent now. Asked last, after every wait.
    pub(super) fn check(request: &Request<Body>) -> kube::Result<()> {
        match request.extensions().get::<Self>() {
            Some(Self(at)) if Instant::now() >= *at => Err(kube::Error::Service(Box::new(Expired))),
            _ => Ok(()),
        }
    }
}

impl Expired {
    /// Whether a request failed for this reason.
    pub(super) fn is(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(error) if error.is::<Self>())
    }
}

/// Gives every request its time.
#[derive(Clone)]
pub(super) struct Expiring {
    client: Client,
    at: Instant,
}

impl Expiring {
    pub(super) fn new(client: Client, at: Instant) -> Self {
        Self { client, at }
    }
}

impl Service<Request<Body>> for Expiring {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, kube::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<kube::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(Expiry(self.at));
        let client = self.client.clone();
        async move { client.send(request).await }.boxed()
    }
}
