//! Accepts connections within limits: there is no authentication, so nobody may hold much memory or keep others out.

use std::{collections::VecDeque, future::Future, io, net::SocketAddr, pin::pin, time::Duration};

use axum::{Router, extract::ConnectInfo};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::debug;

/// How many connections may be open. A further one closes the oldest: a client that sends its request at once is
/// answered, however many others send theirs slowly.
pub(super) const CONNECTIONS: usize = 128;
/// The largest request head that is read, in bytes.
const BUFFER: usize = 16 * 1024;
/// The most header fields of a request.
const FIELDS: usize = 64;
/// How long a client may take to send the head of a request, and a connection may be idle.
const HEAD: Duration = Duration::from_secs(5);
/// How long a connection may last, and with it a request whose body comes slowly or whose answer is not read.
const LIFETIME: Duration = Duration::from_secs(30);
/// How long an answer under way may take after that, or after the shutdown began.
const LAST: Duration = Duration::from_millis(500);
/// How long to wait when no connection can be accepted, for instance for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers requests until `stop` is cancelled, and then ends what is under way.
pub(super) async fn serve(listener: TcpListener, routes: Router, stop: CancellationToken) {
    let mut open = Open::default();
    loop {
        let accepted: io::Result<_> = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer)) => open.add(answer(stream, peer, routes.clone(), stop.clone())),
            Err(error) => {
                debug!(%error, "no connection can be accepted");
                sleep(PAUSE).await;
            }
        }
    }
    while open.tasks.join_next().await.is_some() {}
}

/// The open connections, each a task of its own.
#[derive(Default)]
struct Open {
    tasks: JoinSet<()>,
    /// The oldest first.
    order: VecDeque<AbortHandle>,
}

impl Open {
    fn add(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.order.retain(|task| !task.is_finished());
        if self.order.len() >= CONNECTIONS
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        self.order.push_back(self.tasks.spawn(connection));
    }
}

/// Answers the requests of one connection.
async fn answer(stream: TcpStream, peer: SocketAddr, routes: Router, stop: CancellationToken) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.clone().oneshot(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER).max_headers(FIELDS);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return ended.unwrap_or_else(|error| debug!(%peer, %error, "connection closed")),
        () = sleep(LIFETIME) => {}
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    // What does not end by itself ends with the connection.
    let _ = timeout(LAST, connection).await;
}
