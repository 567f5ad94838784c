//! Servers on loopback with the responses of a test, which record their requests.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use e2e::certificates::Authority;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_rustls::{
    TlsAcceptor,
    rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::tls::{self, Tls};

#[derive(Clone, Debug)]
pub struct Seen {
    /// Path and query.
    pub path: String,
    pub headers: HeaderMap,
}

impl Seen {
    pub fn authorization(&self) -> Option<&str> {
        self.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok())
    }
}

/// A server. Dropping it ends it.
pub struct Server {
    pub address: SocketAddr,
    scheme: &'static str,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server: over TLS with a certificate of this authority, or over plain http.
    pub async fn start(authority: Option<&Authority>, router: Router) -> Result<Self> {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let log = Arc::clone(&seen);
        let remember = move |request: Request, next: Next| {
            let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
            let headers = request.headers().clone();
            log.lock().unwrap_or_else(PoisonError::into_inner).push(Seen { path, headers });
            next.run(request)
        };
        let router = router.layer(middleware::from_fn(remember));
        let tcp = TcpListener::bind("127.0.0.1:0").await?;
        let address = tcp.local_addr()?;
        let (task, scheme) = match authority {
            Some(authority) => {
                let listener = Tls { tcp, acceptor: acceptor(authority)? };
                (tokio::spawn(async move { drop(axum::serve(listener, router).await) }), "https")
            }
            None => (tokio::spawn(async move { drop(axum::serve(tcp, router).await) }), "http"),
        };
        Ok(Self { address, scheme, seen, task })
    }

    /// Starts a server over TLS whose response depends only on the path.
    pub async fn with_handler(
        authority: &Authority,
        answer: impl Fn(&str) -> Response + Clone + Send + Sync + 'static,
    ) -> Result<Self> {
        let router = Router::new().fallback(move |request: Request| {
            let answer = answer(request.uri().path());
            async move { answer }
        });
        Self::start(Some(authority), router).await
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A status with headers and a body.
pub fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut response = (StatusCode::from_u16(status).expect("a status"), body.into()).into_response();
    for (name, value) in headers {
        let name = axum::http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
        response.headers_mut().insert(name, value.parse().expect("a value"));
    }
    response
}

/// A body of `pieces` pieces, each after a pause. `taken` counts the bytes that were read.
pub fn slow_body(pieces: usize, piece: &'static [u8], pause: Duration, taken: Arc<AtomicU64>) -> Body {
    let stream = futures::stream::unfold(0, move |number| {
        let taken = Arc::clone(&taken);
        async move {
            if number == pieces {
                return None;
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            taken.fetch_add(piece.len() as u64, Ordering::Relaxed);
            Some((Ok::<_, std::io::Error>(piece), number + 1))
        }
    });
    Body::from_stream(stream)
}

fn acceptor(authority: &Authority) -> Result<TlsAcceptor> {
    let issued = authority.issue()?;
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes())?;
    Ok(tls::acceptor(vec![certificate], key)?)
}
