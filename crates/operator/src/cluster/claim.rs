//! The claim to write: writes of a process that is no longer the leader must not be sent.

use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use tokio::{sync::watch, time::Instant};

/// Until when this process may write. Clones share one claim.
#[derive(Clone, Debug)]
pub struct Claim(watch::Sender<Right>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// Without leader election.
    Unlimited,
    /// Another process is the leader, or none.
    None,
    Until(Instant),
}

#[derive(Debug, thiserror::Error)]
#[error("not sent, because this process is not the leader")]
pub(super) struct NotLeader;

impl Claim {
    /// The claim of the only process that writes.
    pub fn unlimited() -> Self {
        Self(watch::Sender::new(Right::Unlimited))
    }

    /// The claim of a process that is not elected yet.
    pub(super) fn none() -> Self {
        Self(watch::Sender::new(Right::None))
    }

    /// Sets until when this process may write; `None`: it may not.
    pub(super) fn set(&self, until: Option<Instant>) {
        self.0.send_replace(until.map_or(Right::None, Right::Until));
    }

    /// Waits until this process may write.
    pub async fn wait(&self) {
        // The channel cannot close: its sender is in `self`.
        let _ = self.0.subscribe().wait_for(|right| *right != Right::None).await;
    }

    /// Whether a request may be sent now. A write may if the claim lasts for the time that the write may take.
    pub(super) fn check(&self, request: &Request<Body>, limit: Duration) -> kube::Result<()> {
        let is_write = !matches!(*request.method(), Method::GET | Method::HEAD);
        let is_permitted = match *self.0.borrow() {
            Right::Unlimited => true,
            Right::None => false,
            Right::Until(end) => Instant::now() + limit <= end,
        };
        if is_write && !is_permitted { Err(kube::Error::Service(Box::new(NotLeader))) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::is, *};

    #[tokio::test(start_paused = true)]
    async fn a_write_is_sent_only_if_the_claim_outlives_it() {
        let (limit, now) = (Duration::from_secs(10), Instant::now());
        let until = |seconds| {
            let claim = Claim::none();
            claim.set(Some(now + Duration::from_secs(seconds)));
            claim
        };
        for (case, claim, is_sent) in [
            ("without an election", Claim::unlimited(), true),
            ("without a claim", Claim::none(), false),
            ("with a claim that outlives it", until(10), true),
            ("with a claim that ends before it", until(9), false),
        ] {
            for (method, always) in
                [(Method::GET, true), (Method::HEAD, true), (Method::POST, false), (Method::PATCH, false)]
            {
                let request = Request::builder().method(method.clone()).body(Body::empty()).unwrap();
                let result = claim.check(&request, limit);
                assert_eq!(result.is_ok(), always || is_sent, "{method} {case}");
                assert!(result.err().is_none_or(|error| is::<NotLeader>(&error)));
            }
        }
    }
}
