//! A collector of traces over OTLP.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use e2e::{
    certificates::Certificate,
    network::{accepts_connections, free_port},
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
};
use tokio::task::JoinHandle;
use tonic::{
    Request, Response, Status,
    transport::{Identity, Server, ServerTlsConfig},
};

/// A received span.
#[derive(Clone, Debug)]
pub struct Span {
    /// The name.
    pub name: String,
    /// The trace that it belongs to, in hexadecimal digits.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// The id of the parent span; empty for the root of a trace.
    pub parent: String,
    /// The string attributes.
    pub attributes: BTreeMap<String, String>,
    /// The string attributes of the resource.
    pub resource: BTreeMap<String, String>,
}

impl Span {
    /// A string attribute; empty if there is none.
    pub fn attribute(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }
}

/// A running collector. Dropping it ends it.
pub struct Collector {
    spans: Spans,
    server: JoinHandle<()>,
    endpoint: String,
}

impl Collector {
    /// Starts a collector on a free port of loopback.
    pub async fn start() -> Result<Self> {
        Self::serve("http", Server::builder()).await
    }

    /// Starts a collector with TLS.
    pub async fn start_with_tls(certificate: &Certificate) -> Result<Self> {
        let identity = Identity::from_pem(&certificate.certificate, &certificate.key);
        Self::serve("https", Server::builder().tls_config(ServerTlsConfig::new().identity(identity))?).await
    }

    async fn serve(scheme: &str, mut server: Server) -> Result<Self> {
        let (port, spans) = (free_port()?, Spans::default());
        let service = TraceServiceServer::new(spans.clone());
        let server = tokio::spawn(async move {
            let _ = server.add_service(service).serve(([127, 0, 0, 1], port).into()).await;
        });
        let listens = || accepts_connections(port);
        e2e::wait::eventually("the collector listens", e2e::cluster::SOON, listens).await?;
        Ok(Self { spans, server, endpoint: format!("{scheme}://127.0.0.1:{port}") })
    }

    /// The value for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The spans that were received so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.0.lock().unwrap().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of_resource in request.into_inner().resource_spans {
            let resource = texts(of_resource.resource.map(|resource| resource.attributes).unwrap_or_default());
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans).map(|span| Span {
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                attributes: texts(span.attributes),
                resource: resource.clone(),
            });
            self.0.lock().unwrap().extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |attribute: KeyValue| match attribute.value?.value? {
        Value::StringValue(text) => Some((attribute.key, text)),
        _ => None,
    };
    attributes.into_iter().filter_map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
