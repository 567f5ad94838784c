//! The client for the API server.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use kube::{Client, Config, client::Body};
use tokio::time::Instant;
use tower::service_fn;

use super::{
    Claim,
    deadline::Deadline,
    requests,
    throttle::{Limiters, WRITE_TIMEOUT},
};
use crate::admin::Metrics;

/// How long a connection of the operator may be idle while a response is read. Longer than the timeout of a watch
/// ([`WATCH_TIMEOUT_SECONDS`](super::stall::WATCH_TIMEOUT_SECONDS)).
const READ_TIMEOUT: Duration = Duration::from_secs(25);

/// A client that retries only requests that the API server answers with 429. kube's own retries could delay a reconcile
/// for minutes, and every user of the client has its own back-off.
///
/// # Errors
/// If the configuration is invalid, for instance because its certificates cannot be read.
pub fn client(config: Config) -> kube::Result<Client> {
    Ok(throttled(unlimited_client(config)?, &Metrics::default()))
}

/// The client of the operator. It closes idle connections, because the other side may have lost them, and sends no write
/// that the claim does not permit.
pub fn operator_client(config: Config, metrics: &Metrics, claim: Claim) -> kube::Result<Client> {
    // The claim is checked below every wait, last before the connection.
    Ok(throttled(claimed(closing_client(config)?, claim), metrics))
}

/// The client for one request of a probe, which is not sent again.
pub(super) fn probe_client(config: Config, metrics: &Metrics) -> kube::Result<Client> {
    Ok(recorded(unlimited_client(config)?, metrics))
}

/// A client whose requests wait for no others and need no claim: for the Lease of the leader, and for reviews.
pub(super) fn direct_client(config: Config, metrics: &Metrics) -> kube::Result<Client> {
    Ok(recorded(closing_client(config)?, metrics))
}

fn closing_client(mut config: Config) -> kube::Result<Client> {
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    unlimited_client(config)
}

fn unlimited_client(mut config: Config) -> kube::Result<Client> {
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

/// The same client with limits for concurrent requests, which adapt to 429 answers.
pub(super) fn throttled(client: Client, metrics: &Metrics) -> Client {
    let limiters = Limiters::new(metrics);
    wrapped(recorded(client, metrics), move |client, request| limiters.clone().send(client, request))
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

/// The same client, which sends no request after the deadline.
pub(super) fn with_deadline(client: &Client, deadline: Instant) -> Client {
    wrapped(client.clone(), move |client, mut request| async move {
        request.extensions_mut().insert(Deadline(deadline));
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
