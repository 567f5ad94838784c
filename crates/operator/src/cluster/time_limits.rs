//! How long the API server may take to answer.

use std::time::Duration;

use http::{Method, Request, Response};
use kube::{Client, client::Body};
use tokio::time::timeout;

/// How long the API server may take to answer a write.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the API server may take to begin its response to a watch, which may be sent over a half-open connection.
const WATCH_TIMEOUT: Duration = Duration::from_secs(15);

/// The API server did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {0:?}")]
pub(super) struct ResponseTimeout(Duration);

/// Sends a request, and fails if it is not answered in time. Lists have no limit but that of the connection.
pub(super) async fn send(client: Client, request: Request<Body>) -> kube::Result<Response<Body>> {
    let limit = match *request.method() {
        Method::GET | Method::HEAD if is_watch(&request) => WATCH_TIMEOUT,
        Method::GET | Method::HEAD => return client.send(request).await,
        _ => WRITE_TIMEOUT,
    };
    let response = timeout(limit, client.send(request)).await;
    response.unwrap_or_else(|_| Err(kube::Error::Service(Box::new(ResponseTimeout(limit)))))
}

pub(super) fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().into_iter().flat_map(|query| query.split('&')).any(|one| one == "watch=true")
}
