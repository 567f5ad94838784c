//! The client for the API server.

use std::time::Duration;

use kube::{Client, Config, client::Body};
use tokio::time::Instant;

use super::{expiry::Expiring, pressure::Pressured};
use crate::admin::Metrics;

/// How long a connection of the operator may be silent before it is closed. Longer than a watch is silent, whose end the
/// API server is asked for after [`WATCH`](super::liveness::WATCH).
const SILENCE: Duration = Duration::from_secs(25);

/// A client that does not retry by itself, but for what the API server answers with 429: kube's own retries could hold a
/// pass for minutes, and every user of the client here has a back-off of its own.
///
/// # Errors
/// When the configuration cannot be used, for instance because its certificates cannot be read.
pub fn client(config: Config) -> kube::Result<Client> {
    under_pressure(config, &Metrics::default())
}

/// The client of the operator, which runs for months: a connection over which nothing comes is closed, so that none is
/// used that only this side believes in.
///
/// # Errors
/// As [`client`].
pub fn operator_client(mut config: Config, metrics: &Metrics) -> kube::Result<Client> {
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    under_pressure(config, metrics)
}

fn under_pressure(mut config: Config, metrics: &Metrics) -> kube::Result<Client> {
    config.default_retry = false;
    Ok(limited(Client::try_from(config)?, metrics))
}

/// The same client, which keeps its requests to what the API server takes.
pub(super) fn limited(client: Client, metrics: &Metrics) -> Client {
    wrapped(client, |client| Pressured::new(client, metrics))
}

/// The same client, whose requests are not sent after this time.
pub fn expiring(client: &Client, at: Instant) -> Client {
    wrapped(client.clone(), |client| Expiring::new(client, at))
}

/// A client whose requests go through a service of ours.
pub(super) fn wrapped<S, B>(client: Client, service: impl FnOnce(Client) -> S) -> Client
where
    S: tower::Service<http::Request<Body>, Response = http::Response<B>, Error = kube::Error> + Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = bytes::Bytes, Error = kube::Error> + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    Client::new(service(client), namespace)
}
