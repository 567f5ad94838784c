//! The HTTP server for administrators: `/livez` and `/readyz` for every client; `/metrics` and `/log` for clients on
//! loopback, and by HTTPS for those that RBAC permits it.

mod access;
mod certificate;
mod classic;
mod facts;
mod metrics;
mod pools;
mod queues;
mod ready;
mod server;

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    middleware,
    response::IntoResponse,
    routing::{get, put},
};
use http::{HeaderMap, StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use access::{Review, Verdict};
pub use certificate::{Certificate, CertificateError, CertificateSource};
pub use metrics::{Metrics, ReconcileOutcome};
pub use pools::PoolReport;
pub use ready::{KindReadiness, Readiness};

use access::{Access, Reviews};

use crate::telemetry::LogFilter;

/// The media type of OpenMetrics (OpenMetrics specification 1.0.0, 2020-11).
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The state of the server.
#[derive(Clone, Debug)]
pub struct Admin {
    pub metrics: Metrics,
    pub ready: Readiness,
    pub log: LogFilter,
}

/// The largest request body, which is a log filter, in bytes.
const MAX_BODY: usize = 4096;

/// Serves requests by HTTP until `stop` is cancelled: `/metrics` and `/log` for clients on loopback.
pub async fn serve(listener: TcpListener, admin: Admin, stop: CancellationToken) {
    server::serve(listener, None, routes(admin, Access::Loopback), stop).await;
}

/// Serves requests by HTTPS until `stop` is cancelled: `/metrics` and `/log` for clients whom the reviews allow them.
pub async fn serve_secure(
    listener: TcpListener,
    certificate: Certificate,
    review: Box<dyn Review>,
    admin: Admin,
    stop: CancellationToken,
) -> Result<(), CertificateError> {
    let routes = routes(admin, Access::Authorized(Reviews::new(review)));
    tokio::select! {
        () = server::serve(listener, Some(certificate.acceptor()?), routes, stop) => {}
        () = certificate.run() => {}
    }
    Ok(())
}

fn routes(admin: Admin, access: Access) -> Router {
    Router::new()
        .route("/metrics", get(metrics_text))
        .route("/log", put(set_log))
        .route_layer(middleware::from_fn_with_state(Arc::new(access), access::authorize))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(admin)
}

async fn readyz(State(admin): State<Admin>) -> (StatusCode, String) {
    let status = if admin.ready.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, admin.ready.to_string())
}

/// OpenMetrics for clients that accept it, such as Prometheus; else the Prometheus text format.
async fn metrics_text(State(admin): State<Admin>, headers: HeaderMap) -> impl IntoResponse {
    let text = admin.metrics.text();
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepted.into_iter().any(|types| types.contains("application/openmetrics-text")) {
        ([(header::CONTENT_TYPE, OPEN_METRICS)], text)
    } else {
        ([(header::CONTENT_TYPE, classic::MEDIA_TYPE)], classic::from_open_metrics(&text))
    }
}

/// Replaces the log filter by the body.
async fn set_log(State(admin): State<Admin>, filter: String) -> (StatusCode, String) {
    match admin.log.set(filter.trim()) {
        Ok(()) => {
            tracing::info!(filter = filter.trim(), "log filter set");
            (StatusCode::OK, "ok\n".to_owned())
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        io::ErrorKind::WouldBlock,
        net::{Ipv4Addr, SocketAddr},
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpSocket, TcpStream},
        task::{JoinSet, yield_now},
    };
    use winpool_api::NodeCounts;

    use super::*;

    /// Starts the server on a free port of loopback.
    async fn start() -> (SocketAddr, Admin, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_layer, log) = LogFilter::layer("info").unwrap();
        let admin = Admin { metrics: Metrics::default(), ready: Readiness::default(), log };
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, admin.clone(), stop.clone()));
        (address, admin, stop, server)
    }

    /// Sends one request. Returns the status code and the whole response.
    async fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
        send_with(address, method, path, "x: y", body).await
    }

    /// The same with a further header.
    async fn send_with(address: SocketAddr, method: &str, path: &str, header: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        request(&mut stream, method, path, header, body).await.unwrap()
    }

    async fn request(
        stream: &mut TcpStream,
        method: &str,
        path: &str,
        header: &str,
        body: &str,
    ) -> std::io::Result<(u16, String)> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{header}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        Ok((response.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_default(), response))
    }

    /// Connects from another address of loopback.
    async fn connect_from(last: u8, address: SocketAddr) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, last], 0)))?;
        socket.connect(address).await
    }

    #[tokio::test]
    async fn metrics_are_open_metrics_for_a_client_that_accepts_it_and_else_the_prometheus_text_format() {
        let (address, admin, ..) = start().await;
        let nodes = NodeCounts { matched: 3, ..NodeCounts::default() };
        admin.metrics.pool("web", PoolReport { nodes, ..PoolReport::default() });
        let open = "accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        for (accept, media_type, has_end) in [
            (open, OPEN_METRICS, true),
            ("accept: */*", classic::MEDIA_TYPE, false),
            ("x: y", classic::MEDIA_TYPE, false),
        ] {
            let (status, answer) = send_with(address, "GET", "/metrics", accept, "").await;
            assert_eq!(status, 200);
            assert!(answer.contains(media_type), "{answer}");
            assert!(answer.contains("winpool_nodes{pool=\"web\",state=\"matched\"} 3"), "{answer}");
            assert_eq!(answer.ends_with("# EOF\n"), has_end, "{answer}");
        }
    }

    #[tokio::test]
    async fn each_path_has_its_method_and_unknown_paths_are_not_found() {
        let (address, admin, ..) = start().await;
        assert_eq!(send(address, "GET", "/livez", "").await.0, 200);
        let (status, answer) = send(address, "GET", "/readyz", "").await;
        assert!(status == 503 && answer.ends_with("starting\n"), "{answer}");
        admin.ready.required("nodes").synced();
        assert_eq!(send(address, "GET", "/readyz", "").await.0, 200);
        assert_eq!(send(address, "PUT", "/log", "debug\n").await.0, 200);
        let (status, answer) = send(address, "PUT", "/log", "winpool=loud").await;
        assert!(status == 400 && answer.contains("write a level"), "{answer}");
        assert_eq!(send(address, "GET", "/log", "").await.0, 405);
        assert_eq!(send(address, "GET", "/", "").await.0, 404);
        assert_eq!(send(address, "GET", "/debug/pprof", "").await.0, 404);
    }

    #[tokio::test]
    async fn many_connections_with_partial_headers_do_not_block_other_requests_and_are_closed() {
        let (address, ..) = start().await;
        let mut slow = Vec::new();
        for number in 0..1600 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // The connection may be closed already.
            let _ =
                stream.write_all(format!("GET /livez HTTP/1.1\r\nx-{number}: {}", "a".repeat(8000)).as_bytes()).await;
            slow.push(stream);
            if number % 200 == 199 {
                let request = tokio::time::timeout(Duration::from_secs(2), send(address, "GET", "/livez", ""));
                assert_eq!(request.await.unwrap().0, 200, "after {number} others");
            }
        }
        let open =
            slow.iter().filter(|stream| stream.try_read(&mut [0]).is_err_and(|error| error.kind() == WouldBlock));
        let open = open.count();
        assert!((1..=server::MAX_CONNECTIONS).contains(&open), "{open} are open");
        let (mut last, mut answer) = (slow.pop().unwrap(), String::new());
        let closed = tokio::time::timeout(2 * server::HEAD_TIMEOUT, last.read_to_string(&mut answer)).await;
        assert!(closed.is_ok(), "the last one is closed");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_flood_of_connections_of_one_client_closes_none_of_another() {
        let (address, ..) = start().await;
        let flooded = Arc::new(AtomicUsize::new(0));
        let mut flood = JoinSet::new();
        for _ in 0..4 {
            let flooded = flooded.clone();
            flood.spawn(async move {
                let mut open = VecDeque::new();
                while let Ok(stream) = connect_from(2, address).await {
                    flooded.fetch_add(1, Ordering::Relaxed);
                    open.push_back(stream);
                    if open.len() > server::MAX_CONNECTIONS {
                        open.pop_front();
                    }
                }
            });
        }
        for probe in 0..20 {
            let before = flooded.load(Ordering::Relaxed);
            let mut stream = connect_from(3, address).await.unwrap();
            // More connections than may be open are made before the request is sent.
            while flooded.load(Ordering::Relaxed) < before + server::MAX_CONNECTIONS {
                yield_now().await;
            }
            let (status, _) = request(&mut stream, "GET", "/livez", "x: y", "").await.unwrap();
            assert_eq!(status, 200, "probe {probe}");
        }
    }

    #[tokio::test]
    async fn the_head_and_the_body_of_a_request_are_bounded() {
        let (address, ..) = start().await;
        let many: String = (0..100).map(|number| format!("x-{number}: a\r\n")).collect();
        for headers in [format!("x: {}", "a".repeat(20_000)), format!("{many}\r\n")] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(format!("GET /livez HTTP/1.1\r\n{headers}").as_bytes()).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            assert!(answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
        }
        assert_eq!(send(address, "PUT", "/log", &"debug,".repeat(1000)).await.0, 413);
    }

    #[tokio::test]
    async fn the_server_ends_when_stop_is_cancelled() {
        let (.., stop, server) = start().await;
        stop.cancel();
        server.await.unwrap();
    }
}
