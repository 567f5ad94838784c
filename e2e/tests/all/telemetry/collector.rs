//! A collector of traces over OTLP, by gRPC.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use e2e::{certificates::Certificate, network};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
};
use tokio::runtime::Runtime;
use tonic::{
    Request, Response, Status,
    transport::{Identity, Server, ServerTlsConfig, server::TcpIncoming},
};

#[derive(Clone, Debug)]
pub struct Span {
    pub name: String,
    /// The trace that it belongs to, in hexadecimal digits.
    pub trace: String,
    pub id: String,
    /// The id of the parent span; empty for the root of a trace.
    pub parent: String,
    /// The attributes that are strings or integers.
    pub attributes: BTreeMap<String, String>,
    /// The string attributes of the resource.
    pub resource: BTreeMap<String, String>,
}

impl Span {
    /// An attribute; empty if there is none.
    pub fn attribute(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }
}

/// A running collector. Dropping it ends it.
pub struct Collector {
    spans: Spans,
    /// Apart from that of the test, so that the connections end with the collector.
    server: Option<Runtime>,
    endpoint: String,
}

impl Collector {
    /// Starts a collector on a free port of loopback.
    pub fn start() -> Result<Self> {
        Self::serve_grpc("http", network::listener()?, Server::builder())
    }

    /// Starts a collector on this port of loopback.
    pub async fn start_on(port: u16) -> Result<Self> {
        Self::serve_grpc("http", network::listener_on(port).await?, Server::builder())
    }

    /// Starts a collector with TLS.
    pub fn start_with_tls(certificate: &Certificate) -> Result<Self> {
        let identity = Identity::from_pem(&certificate.certificate, &certificate.key);
        let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity))?;
        Self::serve_grpc("https", network::listener()?, server)
    }

    fn serve_grpc(scheme: &str, listener: TcpListener, mut server: Server) -> Result<Self> {
        let address = listener.local_addr()?;
        let spans = Spans::default();
        let service = TraceServiceServer::new(spans.clone());
        let server = async move {
            let connections = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).unwrap());
            let _ = server.add_service(service).serve_with_incoming(connections).await;
        };
        let runtime = Runtime::new()?;
        runtime.spawn(server);
        Ok(Self { spans, server: Some(runtime), endpoint: format!("{scheme}://{address}") })
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
        self.server.take().into_iter().for_each(Runtime::shutdown_background);
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
        Value::IntValue(number) => Some((attribute.key, number.to_string())),
        _ => None,
    };
    attributes.into_iter().filter_map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
