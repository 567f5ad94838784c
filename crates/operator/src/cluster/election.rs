//! Leader election: keeps the Lease of the operator, and the claim that permits its writes.

#![allow(clippy::disallowed_types)] // writes

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Config,
    api::{ObjectMeta, PostParams},
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Claim, client::direct_client, limited};
use crate::{
    admin::Metrics,
    election::{Attempt, Election, LeaseView},
};

/// The name of the Lease, in the namespace of the operator.
pub const LEASE: &str = "winpool";
/// How long the leader may write after a renewal, and how long others wait before they take over. Twice the time that a
/// write may take, so that a leader whose renewals are slow can still write.
const DURATION: Duration = Duration::from_secs(20);
/// The time between two attempts.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(5);
/// The time between two warnings about the same failure.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Another process has become the leader, or the Lease could not be renewed in time.
#[derive(Debug, thiserror::Error)]
#[error("this process is no longer the leader: {why}")]
pub struct LeadershipLost {
    why: String,
}

/// The election of one process.
pub struct Elector {
    api: Api<Lease>,
    namespace: String,
    identity: String,
    election: Election,
    claim: Claim,
    metrics: Metrics,
    /// The moment from which the times of the election are measured.
    start: Instant,
    /// The last failure, and when it was logged.
    failure: Option<(String, Instant)>,
    stated: Option<i32>,
}

impl Elector {
    /// The election for the Lease in a namespace, with an identity that is unique for each process.
    pub fn new(config: Config, namespace: String, identity: String, metrics: Metrics) -> kube::Result<Self> {
        let client = direct_client(config, &metrics)?;
        let election = Election::new(identity.clone(), DURATION);
        let (api, claim) = (Api::namespaced(client, &namespace), Claim::none());
        Ok(Self {
            api,
            namespace,
            identity,
            election,
            claim,
            metrics,
            start: Instant::now(),
            failure: None,
            stated: None,
        })
    }

    /// The claim that this election keeps.
    pub fn claim(&self) -> Claim {
        self.claim.clone()
    }

    /// Takes part in the election until this process was the leader and is no longer, or until `stop`, after which the Lease
    /// is released, so that another process need not wait.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), LeadershipLost> {
        info!(
            lease = LEASE,
            namespace = self.namespace,
            identity = self.identity,
            "waiting for the Lease of the leader"
        );
        loop {
            let was_leader = self.election.claimed_until().is_some();
            // A request that is cancelled may have been received, so it is not interrupted by `stop`.
            let failure = limited(LIMIT, self.step()).await.err();
            self.log(failure);
            self.publish(was_leader)?;
            tokio::select! {
                () = sleep(INTERVAL) => {}
                () = stop.cancelled() => break,
            }
        }
        self.release().await;
        Ok(())
    }

    /// Reads the Lease, and creates, takes or renews it.
    async fn step(&mut self) -> kube::Result<()> {
        let lease = self.api.get_opt(LEASE).await?;
        self.report_duration(lease.as_ref());
        let view = lease.as_ref().map(view);
        let sent = self.start.elapsed();
        let attempt = self.election.attempt(view, sent);
        let (lease, params) = (self.held(lease.unwrap_or_default()), PostParams::default());
        let written = match attempt {
            Attempt::Wait => return Ok(()),
            Attempt::Create => self.api.create(&params, &lease).await,
            Attempt::Replace => self.api.replace(LEASE, &params, &lease).await,
        };
        match written {
            Ok(_) => {
                self.election.accepted(sent);
                Ok(())
            }
            // Another process was faster; the next attempt reads what it wrote.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reports the duration in the Lease, which has no effect.
    fn report_duration(&mut self, lease: Option<&Lease>) {
        let stated = lease.and_then(|lease| lease.spec.as_ref()?.lease_duration_seconds);
        if let Some(seconds) = stated {
            self.metrics.lease_duration.set(seconds.into());
        }
        let differs = stated.is_some_and(|seconds| u64::try_from(seconds) != Ok(DURATION.as_secs()));
        if differs && stated != self.stated {
            warn!(
                lease = LEASE,
                namespace = self.namespace,
                seconds = stated,
                used = DURATION.as_secs(),
                remedy = "find the client that writes the Lease, and remove its permission",
                "the duration in the Lease is not that of this operator, and is ignored"
            );
        }
        self.stated = stated;
    }

    /// A Lease, with the version that was read, held by this process.
    fn held(&self, read: Lease) -> Lease {
        let (before, now) = (read.spec.unwrap_or_default(), MicroTime(Timestamp::now()));
        let is_renewed = before.holder_identity.as_ref() == Some(&self.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: before.acquire_time.filter(|_| is_renewed).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if is_renewed { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        };
        Lease { metadata: ObjectMeta { name: Some(LEASE.to_owned()), ..read.metadata }, spec: Some(spec) }
    }

    /// Publishes the claim after an attempt.
    fn publish(&self, was_leader: bool) -> Result<(), LeadershipLost> {
        let until = self.election.claimed_until().map(|until| self.start + until);
        let claim = until.filter(|until| Instant::now() < *until);
        self.claim.set(claim);
        self.metrics.leader.set(claim.is_some().into());
        let why = match (claim, until) {
            (Some(_), _) if !was_leader => {
                info!(lease = LEASE, identity = self.identity, "this process is the leader");
                return Ok(());
            }
            (Some(_), _) => return Ok(()),
            (None, None) if !was_leader => return Ok(()),
            (None, None) => "another process has the Lease".to_owned(),
            (None, Some(_)) => format!("the Lease was not renewed for {} seconds", DURATION.as_secs()),
        };
        Err(LeadershipLost { why })
    }

    /// Gives the Lease back. Nothing is written afterwards.
    async fn release(mut self) {
        self.claim.set(None);
        self.metrics.leader.set(0);
        if self.election.claimed_until().is_none() {
            return;
        }
        let released = limited(LIMIT, async {
            let lease = self.api.get_opt(LEASE).await?;
            let Some(lease) = lease.filter(|lease| view(lease).holder == self.identity) else { return Ok(()) };
            let spec = LeaseSpec { holder_identity: Some(String::new()), ..lease.spec.unwrap_or_default() };
            let lease = Lease { spec: Some(spec), ..lease };
            self.api.replace(LEASE, &PostParams::default(), &lease).await.map(drop)
        });
        match released.await {
            Ok(()) => info!(lease = LEASE, "Lease released"),
            Err(error) => self.log(Some(error)),
        }
    }

    /// Logs a failure, and its repetition once a minute.
    fn log(&mut self, failure: Option<String>) {
        let Some(failure) = failure else { return self.failure = None };
        let is_repeated = |(text, at): &(String, Instant)| *text == failure && at.elapsed() < WARNING_INTERVAL;
        if !self.failure.as_ref().is_some_and(is_repeated) {
            warn!(
                lease = LEASE,
                namespace = self.namespace,
                error = failure,
                remedy = REMEDY,
                "Lease of the leader not updated"
            );
            self.failure = Some((failure, Instant::now()));
        }
    }
}

const REMEDY: &str = "create the namespace of the operator, apply its roles (config/default), and check the API server";

fn view(lease: &Lease) -> LeaseView {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    LeaseView {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: holder.unwrap_or_default(),
    }
}
