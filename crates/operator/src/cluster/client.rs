//! The client for the API server.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use kube::{Client, Config, client::Body};
use tokio::time::Instant;
use tower::service_fn;

use super::{
    Claim, requests,
    time_limits::{self, WRITE_TIMEOUT},
};
use crate::admin::Metrics;

/// How long a connection of the operator may be idle while a response is read. Longer than the timeout of a watch
/// ([`WATCH_TIMEOUT_SECONDS`](super::stall::WATCH_TIMEOUT_SECONDS)).
const READ_TIMEOUT: Duration = Duration::from_secs(25);

#[derive(Debug, thiserror::Error)]
#[error("not sent, because the plan is too old")]
pub(super) struct DeadlineExceeded;

/// The client of a command.
pub fn client(config: Config) -> kube::Result<Client> {
    Ok(with_time_limits(single_attempts(config)?))
}

/// The client of the operator. It closes idle connections, because the other side may have lost them, and sends no write
/// that the claim does not permit.
pub fn operator_client(config: Config, metrics: &Metrics, claim: Claim) -> kube::Result<Client> {
    // The claim is checked below every wait, last before the connection.
    Ok(with_time_limits(recorded(claimed(closing_client(config)?, claim), metrics)))
}

/// The client for one request of a probe, which is not sent again.
pub(super) fn probe_client(config: Config, metrics: &Metrics) -> kube::Result<Client> {
    Ok(recorded(single_attempts(config)?, metrics))
}

/// A client whose requests wait for no others and need no claim: for the Lease of the leader, and for reviews.
pub(super) fn direct_client(config: Config, metrics: &Metrics) -> kube::Result<Client> {
    Ok(recorded(closing_client(config)?, metrics))
}

fn closing_client(mut config: Config) -> kube::Result<Client> {
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    single_attempts(config)
}

/// A client that sends each request once. kube's retries delay an answer for minutes, repeat an eviction that a
/// PodDisruptionBudget does not allow (429), and ask again for a kubelet that the API server does not reach (503). Reconciles,
/// watches, the election and the probes have their own back-off.
fn single_attempts(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    Client::try_from(config)
}

/// The same client, which sends a write only if the claim lasts for the time that the write may take.
fn claimed(client: Client, claim: Claim) -> Client {
    wrapped(client, move |client, request| {
        let permission = claim.check(&request, WRITE_TIMEOUT);
        async move {
            permission?;
            client.send(request).await
        }
    })
}

/// The same client, whose requests fail if they are not answered in time.
pub(super) fn with_time_limits(client: Client) -> Client {
    wrapped(client, time_limits::send)
}

/// The same client, which records each request in metrics and traces.
pub(super) fn recorded(client: Client, metrics: &Metrics) -> Client {
    let metrics = metrics.clone();
    wrapped(client, move |client, request| requests::send(client, request, metrics.clone()))
}

/// The same client, which calls a function after each answered request.
pub fn observed(client: Client, on_answer: impl Fn() + Clone + Send + 'static) -> Client {
    wrapped(client, move |client, request| {
        let on_answer = on_answer.clone();
        async move { client.send(request).await.inspect(|_| on_answer()) }
    })
}

/// The same client, which sends no request after the deadline: after a suspension of the process, writes that are based on an old
/// snapshot must not be sent.
pub(super) fn with_deadline(client: &Client, deadline: Instant) -> Client {
    wrapped(client.clone(), move |client, request| async move {
        if Instant::now() >= deadline {
            return Err(kube::Error::Service(Box::new(DeadlineExceeded)));
        }
        client.send(request).await
    })
}

/// A client whose requests are sent by a function.
pub(super) fn wrapped<F, B>(client: Client, send: impl Fn(Client, Request<Body>) -> F + Send + 'static) -> Client
where
    F: Future<Output = kube::Result<Response<B>>> + Send + 'static,
    B: http_body::Body<Data = Bytes, Error = kube::Error> + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    Client::new(service_fn(move |request| send(client.clone(), request)), namespace)
}
