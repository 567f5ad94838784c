//! The HTTP server for administrators: `/livez`, `/readyz`, `/metrics` and `/log`.

mod facts;
mod metrics;
mod pools;
mod ready;
mod server;

use std::net::SocketAddr;

use axum::{
    Router,
    extract::{ConnectInfo, DefaultBodyLimit, State},
    response::IntoResponse,
    routing::{get, put},
};
use http::{StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use metrics::{Metrics, ReconcileOutcome};
pub use pools::PoolReport;
pub use ready::{KindReadiness, Readiness};

use crate::telemetry::LogFilter;

/// The media type of OpenMetrics (OpenMetrics specification 1.0.0, 2020-11).
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The state of the server.
#[derive(Clone, Debug)]
pub struct Admin {
    /// For `/metrics`.
    pub metrics: Metrics,
    /// For `/readyz`.
    pub ready: Readiness,
    /// For `/log`.
    pub log: LogFilter,
}

/// The largest request body, which is a log filter, in bytes.
const MAX_BODY: usize = 4096;

/// Serves requests until `stop` is cancelled.
pub async fn serve(listener: TcpListener, admin: Admin, stop: CancellationToken) {
    let routes = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_text))
        .route("/log", put(set_log))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(admin);
    server::serve(listener, routes, stop).await;
}

async fn readyz(State(admin): State<Admin>) -> (StatusCode, String) {
    let status = if admin.ready.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, admin.ready.to_string())
}

async fn metrics_text(State(admin): State<Admin>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], admin.metrics.text())
}

/// Replaces the log filter by the body. Only for clients on loopback, such as through `kubectl port-forward`: a verbose
/// log may contain names that not every client in the cluster's network may see.
async fn set_log(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    State(admin): State<Admin>,
    filter: String,
) -> (StatusCode, String) {
    if !peer.ip().to_canonical().is_loopback() {
        return (StatusCode::FORBIDDEN, "allowed from loopback only: use kubectl port-forward\n".to_owned());
    }
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
    use std::{io::ErrorKind::WouldBlock, net::Ipv4Addr, time::Duration};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;
    use crate::api::NodeCounts;

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
        let mut stream = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        (response.split(' ').nth(1).unwrap().parse().unwrap(), response)
    }

    #[tokio::test]
    async fn readyz_names_the_caches_that_are_not_synced() {
        let (address, admin, ..) = start().await;
        assert_eq!(send(address, "GET", "/livez", "").await.0, 200);
        let (status, answer) = send(address, "GET", "/readyz", "").await;
        assert!(status == 503 && answer.ends_with("starting\n"), "{answer}");
        let (nodes, pools) = (admin.ready.required("nodes"), admin.ready.required("windowsnodepools"));
        let (status, answer) = send(address, "GET", "/readyz", "").await;
        assert!(status == 503 && answer.ends_with("caches not yet synced: nodes, windowsnodepools\n"), "{answer}");
        nodes.synced();
        pools.synced();
        assert_eq!(send(address, "GET", "/readyz", "").await.0, 200);
    }

    #[tokio::test]
    async fn metrics_are_open_metrics() {
        let (address, admin, ..) = start().await;
        let nodes = NodeCounts { matched: 3, ..NodeCounts::default() };
        admin.metrics.pool("web", PoolReport { nodes, ..PoolReport::default() });
        let (status, answer) = send(address, "GET", "/metrics", "").await;
        assert_eq!(status, 200);
        assert!(answer.contains(OPEN_METRICS), "{answer}");
        assert!(answer.contains("winpool_nodes{pool=\"web\",state=\"matched\"} 3"), "{answer}");
        assert!(answer.ends_with("# EOF\n"), "{answer}");
    }

    #[tokio::test]
    async fn the_log_filter_is_replaced_from_loopback_only() {
        let (_layer, log) = LogFilter::layer("info").unwrap();
        let admin = Admin { metrics: Metrics::default(), ready: Readiness::default(), log };
        let put = |peer: &str, filter: &str| {
            let peer = ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1));
            set_log(peer, State(admin.clone()), filter.to_owned())
        };
        assert_eq!(put("10.1.2.3", "debug").await.0, StatusCode::FORBIDDEN);
        assert_eq!(put("::ffff:10.1.2.3", "debug").await.0, StatusCode::FORBIDDEN);
        assert_eq!(put("127.0.0.1", "debug\n").await.0, StatusCode::OK);
        assert_eq!(put("::1", "debug").await.0, StatusCode::OK);
        assert_eq!(put("::ffff:127.0.0.1", "debug").await.0, StatusCode::OK);
        let (status, answer) = put("127.0.0.1", "winpool=loud").await;
        assert!(status == StatusCode::BAD_REQUEST && answer.contains("write a level"), "{answer}");
    }

    #[tokio::test]
    async fn the_log_filter_accepts_only_put_and_unknown_paths_are_not_found() {
        let (address, ..) = start().await;
        assert_eq!(send(address, "PUT", "/log", "debug").await.0, 200);
        assert_eq!(send(address, "GET", "/log", "").await.0, 405);
        assert_eq!(send(address, "GET", "/", "").await.0, 404);
        assert_eq!(send(address, "GET", "/debug/pprof", "").await.0, 404);
    }

    #[tokio::test]
    async fn many_connections_with_partial_headers_do_not_block_other_requests() {
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
    }

    #[tokio::test]
    async fn the_head_and_the_body_of_a_request_are_bounded() {
        let (address, ..) = start().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET /livez HTTP/1.1\r\nx: {}", "a".repeat(20_000)).as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
        let many: String = (0..100).map(|number| format!("x-{number}: a\r\n")).collect();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET /livez HTTP/1.1\r\n{many}\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
        assert_eq!(send(address, "PUT", "/log", &"debug,".repeat(1000)).await.0, 413);
    }

    #[tokio::test]
    async fn the_server_ends_when_stop_is_cancelled() {
        let (.., stop, server) = start().await;
        stop.cancel();
        server.await.unwrap();
    }
}
