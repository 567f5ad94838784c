//! Accepts connections within limits: without authentication, no client may use much memory or block others.

use std::{collections::VecDeque, future::Future, io, net::SocketAddr, pin::pin, time::Duration};

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

/// How many connections may be open. A new one closes the oldest, so that slow clients do not block the others.
pub(super) const MAX_CONNECTIONS: usize = 128;
/// The largest request head, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// The most header fields of a request.
const MAX_HEADERS: usize = 64;
/// How long a client may take for the TLS handshake, and to send the head of a request, and a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
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
            Ok((stream, peer)) => open.add(serve_connection(stream, peer, tls.clone(), routes.clone(), stop.clone())),
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
    /// The oldest first.
    order: VecDeque<AbortHandle>,
}

impl OpenConnections {
    fn add(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.order.retain(|task| !task.is_finished());
        if self.order.len() >= MAX_CONNECTIONS
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        self.order.push_back(self.tasks.spawn(connection));
    }
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
