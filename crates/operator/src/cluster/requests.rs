//! Metrics and traces of the requests to the API server. A request that is sent again counts again.

use std::time::Instant;

use http::{HeaderValue, Method, Request, Response};
use kube::{Client, client::Body};
use tracing::{Instrument, Span, field::Empty, info_span};

use super::time_limits::is_watch;
use crate::{admin::Metrics, telemetry};

/// Sends a request, and records it in the metrics and, within a reconcile, in its trace.
pub(super) async fn send(client: Client, mut request: Request<Body>, metrics: Metrics) -> kube::Result<Response<Body>> {
    let mut record = Record { verb: verb(&request), code: None, start: Instant::now(), span: span(&request), metrics };
    if let Some(parent) = telemetry::traceparent(&record.span).and_then(|text| HeaderValue::try_from(text).ok()) {
        request.headers_mut().insert("traceparent", parent);
    }
    let answer = client.send(request).instrument(record.span.clone()).await;
    record.code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
    answer
}

/// The span of a request within a reconcile. Watches and probes have no traces.
fn span(request: &Request<Body>) -> Span {
    if Span::current().is_none() {
        return Span::none();
    }
    info_span!(
        "request",
        otel.kind = "client",
        otel.status_code = Empty,
        http.request.method = request.method().as_str(),
        http.response.status_code = Empty,
        url.path = request.uri().path(),
    )
}

/// Records a request when it is dropped, because a timeout drops a request without an answer.
struct Record {
    verb: &'static str,
    code: Option<u16>,
    start: Instant,
    span: Span,
    metrics: Metrics,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.metrics.api_request(self.verb, self.code, self.start.elapsed().as_secs_f64());
        if let Some(code) = self.code {
            self.span.record("http.response.status_code", code);
        }
        if self.code.is_none_or(|code| code >= 400) {
            self.span.record("otel.status_code", "ERROR");
        }
    }
}

/// The verb of a request, as in RBAC (Kubernetes documentation, "Authorization", "Request verbs").
fn verb(request: &Request<Body>) -> &'static str {
    match *request.method() {
        Method::GET | Method::HEAD if is_watch(request) => "watch",
        Method::GET | Method::HEAD if is_collection(request.uri().path()) => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_collection(request.uri().path()) => "deletecollection",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// Whether a path names all objects of a resource: `/api/v1/nodes` or `/apis/apps/v1/namespaces/a/deployments`.
fn is_collection(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let below_version = match parts.next() {
        Some("api") => parts.next().is_some(),
        Some("apis") => parts.nth(1).is_some(),
        _ => false,
    };
    match parts.collect::<Vec<_>>()[..] {
        [_] | ["namespaces", _, _] => below_version,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::{Registry, layer::SubscriberExt};

    use super::*;
    use crate::cluster::client::recorded;

    #[test]
    fn the_verb_is_that_of_rbac() {
        for (method, uri, expected) in [
            (Method::GET, "/api/v1/nodes?limit=500", "list"),
            (Method::GET, "/api/v1/nodes?allowWatchBookmarks=true&watch=true", "watch"),
            (Method::GET, "/api/v1/nodes/win-1", "get"),
            (Method::GET, "/api/v1/namespaces/winpool-system/configmaps", "list"),
            (Method::GET, "/api/v1/namespaces/winpool-system", "get"),
            (Method::GET, "/apis/winpool.dev/v1alpha1/windowsnodepools", "list"),
            (Method::GET, "/apis/apps/v1/namespaces/shop/deployments/web", "get"),
            (Method::GET, "/version", "get"),
            (Method::GET, "/apis", "get"),
            (Method::POST, "/api/v1/namespaces/shop/pods/web-1/eviction", "create"),
            (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/winpool-system/leases/winpool", "update"),
            (Method::PATCH, "/api/v1/nodes/win-1", "patch"),
            (Method::DELETE, "/apis/node.k8s.io/v1/runtimeclasses/windows-ltsc2022", "delete"),
            (Method::DELETE, "/apis/node.k8s.io/v1/runtimeclasses", "deletecollection"),
        ] {
            let request = Request::builder().method(&method).uri(uri).body(Body::empty()).unwrap();
            assert_eq!(verb(&request), expected, "{method} {uri}");
        }
    }

    /// A server that answers with this status code, or never, and the `traceparent` headers that it received.
    fn server(code: Option<u16>) -> (Client, Arc<Mutex<Vec<Option<String>>>>) {
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = received.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let parent = request.headers().get("traceparent").map(|value| value.to_str().unwrap().to_owned());
            log.lock().unwrap().push(parent);
            async move {
                match code {
                    Some(code) => Ok::<_, Infallible>(Response::builder().status(code).body(Body::empty()).unwrap()),
                    None => std::future::pending().await,
                }
            }
        });
        (Client::new(service, "default"), received)
    }

    fn request() -> Request<Body> {
        Request::get("/api/v1/nodes/win-1").body(Body::empty()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_counts_with_its_status_code_also_without_an_answer() {
        let metrics = Metrics::default();
        for code in [Some(200), Some(200), Some(429), None] {
            let client = recorded(server(code).0, &metrics);
            let _ = tokio::time::timeout(std::time::Duration::from_secs(1), client.send(request())).await;
        }
        let text = metrics.text();
        for (code, count) in [("200", 2), ("429", 1), ("<error>", 1)] {
            let line = format!("winpool_api_requests_total{{verb=\"get\",code=\"{code}\"}} {count}");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test]
    async fn a_request_in_a_traced_span_has_the_header_traceparent_and_others_have_none() {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let _default = tracing::subscriber::set_default(Registry::default().with(layer));
        let (client, received) = server(Some(200));
        let client = recorded(client, &Metrics::default());
        client.send(request()).await.unwrap();
        let reconcile = info_span!("reconcile");
        let trace = telemetry::traceparent(&reconcile).unwrap();
        client.send(request()).instrument(reconcile).await.unwrap();
        let received = received.lock().unwrap();
        let [None, Some(parent)] = &received[..] else { panic!("{received:?}") };
        let parts = |text: &str| text.split('-').map(str::to_owned).collect::<Vec<_>>();
        let (trace, parent) = (parts(&trace), parts(parent));
        assert_eq!((parent.len(), &parent[0], &parent[1], &parent[3]), (4, &trace[0], &trace[1], &trace[3]));
        assert_ne!(parent[2], trace[2], "the parent is the span of the request");
    }
}
