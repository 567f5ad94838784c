//! Requests with a deadline: after a suspension of the process or long waits for an overloaded API server, writes that
//! are based on an old snapshot must not be sent.

use http::Request;
use kube::client::Body;
use tokio::time::Instant;

/// The time after which a request must not be sent, stored as an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(pub(super) Instant);

/// The request was not sent.
#[derive(Debug, thiserror::Error)]
#[error("not sent, because the plan is too old")]
pub(super) struct DeadlineExceeded;

impl Deadline {
    /// Whether the request may be sent now. Call it after every wait.
    pub(super) fn check(request: &Request<Body>) -> kube::Result<()> {
        match request.extensions().get::<Self>() {
            Some(Self(at)) if Instant::now() >= *at => Err(kube::Error::Service(Box::new(DeadlineExceeded))),
            _ => Ok(()),
        }
    }
}
