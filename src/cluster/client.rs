//! The client for the API server.

use std::time::Duration;

use kube::{Client, Config, client::Body};
use tokio::time::Instant;

use super::{deadline::WithDeadline, throttle::Throttled};
use crate::admin::Metrics;

/// How long a connection of the operator may be idle while a response is read. Longer than the timeout of a watch
/// ([`WATCH_TIMEOUT_SECONDS`](super::stall::WATCH_TIMEOUT_SECONDS)).
const READ_TIMEOUT: Duration = Duration::from_secs(25);

/// A client that retries only what the API server answers with 429. kube's own retries could delay a reconcile for
/// minutes, and every user of the client has its own back-off.
///
/// # Errors
/// If the configuration is invalid, for instance because its certificates cannot be read.
pub fn client(config: Config) -> kube::Result<Client> {
    throttled_client(config, &Metrics::default())
}

/// The client of the operator, which runs for months: it closes idle connections, so that it does not use one that the
/// other side has lost.
///
/// # Errors
/// As [`client`].
pub fn operator_client(mut config: Config, metrics: &Metrics) -> kube::Result<Client> {
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    throttled_client(config, metrics)
}

fn throttled_client(mut config: Config, metrics: &Metrics) -> kube::Result<Client> {
    config.default_retry = false;
    Ok(throttled(Client::try_from(config)?, metrics))
}

/// The same client with limits for concurrent requests, which adapt to 429 answers.
pub(super) fn throttled(client: Client, metrics: &Metrics) -> Client {
    wrapped(client, |client| Throttled::new(client, metrics))
}

/// The same client, which sends no request after the deadline.
pub(super) fn with_deadline(client: &Client, deadline: Instant) -> Client {
    wrapped(client.clone(), |client| WithDeadline::new(client, deadline))
}

/// A client whose requests pass through a service.
pub(super) fn wrapped<S, B>(client: Client, service: impl FnOnce(Client) -> S) -> Client
where
    S: tower::Service<http::Request<Body>, Response = http::Response<B>, Error = kube::Error> + Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = bytes::Bytes, Error = kube::Error> + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    Client::new(service(client), namespace)
}
