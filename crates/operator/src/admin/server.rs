//! Accepts connections within limits: without authentication, no client may use much memory or block others.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    time::Duration,
};

use axum::{Router, extract::ConnectInfo};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::debug;

/// How many connections may be open. A new one closes the oldest of the address that has the most, so that a client that opens many
/// does not close those of others.
pub(super) const MAX_CONNECTIONS: usize = 128;
/// The largest request head, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// The most header fields of a request.
const MAX_HEADERS: usize = 64;
/// How long a client may take for the TLS handshake, and to send the head of a request, and a connection may be idle.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may be open, also with a slow request or response.
const MAX_LIFETIME: Duration = Duration::from_secs(30);
/// How long a running response may take after [`MAX_LIFETIME`], or after the shutdown.
const GRACE_PERIOD: Duration = Duration::from_millis(500);
/// The pause after a connection could not be accepted, for instance because there are no file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// Serves requests, by HTTPS with a TLS acceptor, until `stop` is cancelled, and then waits for running responses.
pub(super) async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, routes: Router, stop: CancellationToken) {
    let mut open = OpenConnections::default();
    loop {
        let accepted: io::Result<_> = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = serve_connection(stream, peer, tls.clone(), routes.clone(), stop.clone());
                open.add(peer.ip().to_canonical(), connection);
            }
            Err(error) => {
                debug!(%error, "cannot accept connections");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
    while open.tasks.join_next().await.is_some() {}
}

/// The open connections, each with its own task.
#[derive(Default)]
struct OpenConnections {
    tasks: JoinSet<()>,
    /// The address of the client of each, the oldest first.
    order: VecDeque<(IpAddr, AbortHandle)>,
}

impl OpenConnections {
    fn add(&mut self, peer: IpAddr, connection: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.order.retain(|(_, task)| !task.is_finished());
        if self.order.len() >= MAX_CONNECTIONS
            && let Some((_, oldest)) =
                most_frequent(self.order.iter().map(|(peer, _)| peer)).and_then(|oldest| self.order.remove(oldest))
        {
            oldest.abort();
        }
        self.order.push_back((peer, self.tasks.spawn(connection)));
    }
}

/// The first position of the value that is there most often: the first of several.
fn most_frequent<'v>(values: impl Iterator<Item = &'v IpAddr>) -> Option<usize> {
    let mut counts: HashMap<&IpAddr, (usize, Reverse<usize>)> = HashMap::new();
    for (position, value) in values.enumerate() {
        counts.entry(value).or_insert((0, Reverse(position))).0 += 1;
    }
    counts.into_values().max().map(|(_, Reverse(first))| first)
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    routes: Router,
    stop: CancellationToken,
) {
    let Some(tls) = tls else { return serve_http(stream, peer, routes, stop).await };
    match timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve_http(stream, peer, routes, stop).await,
        Ok(Err(error)) => debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => debug!(%peer, "TLS handshake timed out"),
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    routes: Router,
    stop: CancellationToken,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.clone().oneshot(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD).max_headers(MAX_HEADERS);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return ended.unwrap_or_else(|error| debug!(%peer, %error, "connection closed")),
        () = sleep(MAX_LIFETIME) => {}
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    // A response that takes longer is cut off.
    let _ = timeout(GRACE_PERIOD, connection).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_of_the_address_that_has_the_most_is_closed() {
        for (addresses, closed) in [
            (&[][..], None),
            (&[1], Some(0)),
            (&[1, 2], Some(0)),
            (&[1, 2, 2, 1, 2], Some(1)),
            (&[3, 2, 2, 1, 1], Some(1)),
        ] {
            let addresses: Vec<_> = addresses.iter().map(|last| IpAddr::from([127, 0, 0, *last])).collect();
            assert_eq!(most_frequent(addresses.iter()), closed, "{addresses:?}");
        }
    }
}
