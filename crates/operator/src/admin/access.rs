//! Who may read `/metrics` and set the log filter.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    extract::{ConnectInfo, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::future::BoxFuture;
use http::{Method, StatusCode, header};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tracing::{debug, warn};

/// What the API server says about a token and a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// The token is of no user: invalid, expired, or for other audiences.
    NotAuthenticated,
    /// The user may not make the request.
    NotAuthorized {
        user: String,
    },
}

/// Asks the API server whether the user of a token may make a request.
pub trait Review: Send + Sync {
    /// The verdict for a verb, such as `get`, and a path; an error if there is none.
    fn review<'r>(&'r self, token: &'r str, verb: &'r str, path: &'r str) -> BoxFuture<'r, Result<Verdict, String>>;
}

pub(super) enum Access {
    /// Clients on loopback, such as through `kubectl port-forward`.
    Loopback,
    /// Clients with the token of a user whom RBAC permits the request.
    Authorized(Reviews),
}

/// Reviews by the API server, a few at once, whose verdicts are kept for a while.
pub(super) struct Reviews {
    api_server: Box<dyn Review>,
    verdicts: Mutex<Verdicts>,
    permits: Semaphore,
    /// Why the last review failed; `None` after one that did not.
    failure: Mutex<Option<String>>,
}

/// How many reviews run at once. Clients without a valid token must not use much of the API server.
const CONCURRENCY: usize = 4;
/// How long a review may take.
const LIMIT: Duration = Duration::from_secs(5);

impl Reviews {
    pub(super) fn new(api_server: Box<dyn Review>) -> Self {
        Self { api_server, verdicts: Mutex::default(), permits: Semaphore::new(CONCURRENCY), failure: Mutex::default() }
    }

    /// The verdict about a request, of the last minute or by a new review.
    async fn verdict(&self, token: &str, verb: &str, path: &str) -> Result<Verdict, String> {
        let key = Verdicts::key(token, verb, path);
        let review = async {
            let _permit = self.permits.acquire().await.map_err(|error| error.to_string())?;
            // Another request with this token may have been reviewed in the meantime.
            if let Some(known) = self.verdicts.lock().get(&key, Instant::now()) {
                return Ok(known);
            }
            let verdict = self.api_server.review(token, verb, path).await?;
            self.verdicts.lock().insert(key, verdict.clone(), Instant::now());
            Ok(verdict)
        };
        let result = timeout(LIMIT, review).await.unwrap_or_else(|_| Err(format!("no answer within {LIMIT:?}")));
        self.log(result.as_ref().err());
        result
    }

    /// Logs a failure, unless the one before was the same.
    fn log(&self, failure: Option<&String>) {
        let mut last = self.failure.lock();
        if let Some(error) = failure.filter(|failure| last.as_ref() != Some(failure)) {
            warn!(error, remedy = REMEDY, "clients of the port for metrics cannot be reviewed");
        }
        *last = failure.cloned();
    }
}

const REMEDY: &str = "apply the ClusterRole and its binding from config/default, and check the API server";

/// A digest of a token and a request, so that no token is kept.
type Key = [u8; 32];

/// The last verdicts, each with the time until which it holds.
#[derive(Debug, Default)]
struct Verdicts(HashMap<Key, (Verdict, Instant)>);

impl Verdicts {
    /// The most verdicts that are kept.
    const LIMIT: usize = 256;

    fn key(token: &str, verb: &str, path: &str) -> Key {
        Sha256::digest(format!("{verb} {path} {token}")).into()
    }

    /// How long a verdict holds: a removed permission ends within a minute, and a new one is found sooner.
    fn duration(verdict: &Verdict) -> Duration {
        match verdict {
            Verdict::Allowed => Duration::from_secs(60),
            Verdict::NotAuthenticated | Verdict::NotAuthorized { .. } => Duration::from_secs(10),
        }
    }

    fn get(&self, key: &Key, now: Instant) -> Option<Verdict> {
        self.0.get(key).filter(|(_, until)| now < *until).map(|(verdict, _)| verdict.clone())
    }

    fn insert(&mut self, key: Key, verdict: Verdict, now: Instant) {
        if self.0.len() >= Self::LIMIT {
            self.0.retain(|_, (_, until)| now < *until);
        }
        // Many clients with different tokens: allowed ones are reviewed again, too.
        if self.0.len() >= Self::LIMIT {
            self.0.clear();
        }
        let until = now + Self::duration(&verdict);
        self.0.insert(key, (verdict, until));
    }
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error(
        "{path} is served to clients on loopback only: use kubectl port-forward, or the address of --secure-address"
    )]
    NotLoopback { path: String },
    #[error("send the bearer token of a user who may {verb} {path}")]
    NoToken { verb: String, path: String },
    #[error("the token is invalid or expired")]
    NotAuthenticated,
    #[error(
        "user {user} may not {verb} {path}: bind a ClusterRole with verb {verb} for nonResourceURLs [{path}] to the user"
    )]
    NotAuthorized { user: String, verb: String, path: String },
    #[error("the token cannot be reviewed: {why}")]
    NotReviewed { why: String },
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotLoopback { .. } | Self::NotAuthorized { .. } => StatusCode::FORBIDDEN,
            Self::NoToken { .. } | Self::NotAuthenticated => StatusCode::UNAUTHORIZED,
            Self::NotReviewed { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status(), format!("{self}\n")).into_response();
        if self.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl Access {
    async fn check(&self, peer: SocketAddr, request: &Parts) -> Result<(), Refusal> {
        let Parts { method, path, token } = request;
        let (verb, path) = (method.as_str().to_lowercase(), path.clone());
        let reviews = match self {
            Self::Loopback if peer.ip().to_canonical().is_loopback() => return Ok(()),
            Self::Loopback => return Err(Refusal::NotLoopback { path }),
            Self::Authorized(reviews) => reviews,
        };
        let Some(token) = token else { return Err(Refusal::NoToken { verb, path }) };
        match reviews.verdict(token, &verb, &path).await {
            Ok(Verdict::Allowed) => Ok(()),
            Ok(Verdict::NotAuthenticated) => Err(Refusal::NotAuthenticated),
            Ok(Verdict::NotAuthorized { user }) => Err(Refusal::NotAuthorized { user, verb, path }),
            Err(why) => Err(Refusal::NotReviewed { why }),
        }
    }
}

/// The parts of a request that decide.
struct Parts {
    method: Method,
    path: String,
    token: Option<String>,
}

impl From<&Request> for Parts {
    fn from(request: &Request) -> Self {
        let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|header| header.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            token: token.filter(|token| !token.is_empty()).map(str::to_owned),
        }
    }
}

/// Answers a request if the client is allowed.
pub(super) async fn authorize(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    // A request cannot be shared between threads, because its body cannot.
    let parts = Parts::from(&request);
    match access.check(peer, &parts).await {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            debug!(%peer, method = %parts.method, path = parts.path, %refusal, "request refused");
            refusal.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// An API server with one reader of metrics. It counts the reviews.
    #[derive(Clone, Debug, Default)]
    struct Server(Arc<AtomicUsize>);

    impl Review for Server {
        fn review<'r>(
            &'r self,
            token: &'r str,
            verb: &'r str,
            path: &'r str,
        ) -> BoxFuture<'r, Result<Verdict, String>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                match (token, verb, path) {
                    ("reader", "get", "/metrics") => Ok(Verdict::Allowed),
                    ("reader" | "other", ..) => Ok(Verdict::NotAuthorized { user: token.to_owned() }),
                    ("slow", ..) => std::future::pending().await,
                    ("down", ..) => Err("connection refused".to_owned()),
                    _ => Ok(Verdict::NotAuthenticated),
                }
            })
        }
    }

    fn request(method: Method, path: &str, authorization: Option<&str>) -> Parts {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        Parts::from(&request.body(axum::body::Body::empty()).unwrap())
    }

    #[tokio::test]
    async fn without_reviews_only_loopback_is_allowed() {
        for (peer, expected) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.1.2.3", false),
            ("::ffff:10.1.2.3", false),
        ] {
            let peer = SocketAddr::new(peer.parse().unwrap(), 1);
            let checked = Access::Loopback.check(peer, &request(Method::PUT, "/log", None)).await;
            let refused = Refusal::NotLoopback { path: "/log".into() };
            assert_eq!(checked, if expected { Ok(()) } else { Err(refused) }, "{peer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn with_reviews_a_token_is_required_from_loopback_too() {
        let access = Access::Authorized(Reviews::new(Box::<Server>::default()));
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        for (method, path, authorization, status, text) in [
            (Method::GET, "/metrics", Some("Bearer reader"), 200, ""),
            (Method::GET, "/metrics?x=y", Some("bearer  reader"), 200, ""),
            (Method::PUT, "/log", Some("Bearer reader"), 403, "user reader may not put /log: bind a ClusterRole"),
            (Method::GET, "/metrics", Some("Bearer other"), 403, "user other may not get /metrics"),
            (Method::GET, "/metrics", Some("Bearer unknown"), 401, "the token is invalid or expired"),
            (
                Method::GET,
                "/metrics",
                Some("Basic reader"),
                401,
                "send the bearer token of a user who may get /metrics",
            ),
            (Method::GET, "/metrics", Some("Bearer "), 401, "send the bearer token"),
            (Method::GET, "/metrics", None, 401, "send the bearer token"),
            (Method::GET, "/metrics", Some("Bearer down"), 503, "cannot be reviewed: connection refused"),
            (Method::GET, "/metrics", Some("Bearer slow"), 503, "cannot be reviewed: no answer within 5s"),
        ] {
            let result = access.check(peer, &request(method.clone(), path, authorization)).await;
            let refusal = result.err();
            let found = refusal.as_ref().map_or(200, |refusal| refusal.status().as_u16());
            assert_eq!(found, status, "{method} {path} {authorization:?}");
            assert!(refusal.is_none_or(|refusal| refusal.to_string().contains(text)), "{method} {path} {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_verdict_holds_for_a_minute_and_a_refusal_for_ten_seconds() {
        let server = Server::default();
        let reviews = Reviews::new(Box::new(server.clone()));
        for (token, seconds, reviewed) in
            [("reader", 0, 1), ("reader", 59, 1), ("reader", 1, 2), ("other", 0, 3), ("other", 9, 3), ("other", 1, 4)]
        {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            reviews.verdict(token, "get", "/metrics").await.unwrap();
            assert_eq!(server.0.load(Ordering::Relaxed), reviewed, "{token}");
        }
        reviews.verdict("reader", "put", "/log").await.unwrap();
        assert_eq!(server.0.load(Ordering::Relaxed), 5, "a verdict is for one verb and path");
        reviews.verdict("down", "get", "/metrics").await.unwrap_err();
        reviews.verdict("down", "get", "/metrics").await.unwrap_err();
        assert_eq!(server.0.load(Ordering::Relaxed), 7, "a failed review is repeated");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_kept_verdicts_is_bounded() {
        let reviews = Reviews::new(Box::<Server>::default());
        for number in 0..1000 {
            reviews.verdict(&number.to_string(), "get", "/metrics").await.unwrap();
            assert!(reviews.verdicts.lock().0.len() <= Verdicts::LIMIT);
        }
    }
}
