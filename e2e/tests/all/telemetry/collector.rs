//! A collector of traces over OTLP, by gRPC or HTTP.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
};

use anyhow::Result;
use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use e2e::{certificates::Certificate, network};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
};
use prost::Message;
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

/// How a collector is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    Http,
}

impl Protocol {
    /// The value for `OTEL_EXPORTER_OTLP_PROTOCOL`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http/protobuf",
        }
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
    pub async fn start_on(port: u16, protocol: Protocol) -> Result<Self> {
        let listener = network::listener_on(port).await?;
        match protocol {
            Protocol::Grpc => Self::serve_grpc("http", listener, Server::builder()),
            Protocol::Http => Self::serve_http(listener),
        }
    }

    /// Starts a collector with TLS.
    pub fn start_with_tls(certificate: &Certificate) -> Result<Self> {
        let identity = Identity::from_pem(&certificate.certificate, &certificate.key);
        let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity))?;
        Self::serve_grpc("https", network::listener()?, server)
    }

    fn serve_http(listener: TcpListener) -> Result<Self> {
        let address = listener.local_addr()?;
        let spans = Spans::default();
        let routes = Router::new().route("/v1/traces", post(receive)).with_state(spans.clone());
        let server = async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let _ = axum::serve(listener, routes).await;
        };
        Self::run("http", address, spans, server)
    }

    fn serve_grpc(scheme: &str, listener: TcpListener, mut server: Server) -> Result<Self> {
        let address = listener.local_addr()?;
        let spans = Spans::default();
        let service = TraceServiceServer::new(spans.clone());
        let server = async move {
            let connections = TcpIncoming::from(tokio::net::TcpListener::from_std(listener).unwrap());
            let _ = server.add_service(service).serve_with_incoming(connections).await;
        };
        Self::run(scheme, address, spans, server)
    }

    fn run(
        scheme: &str,
        address: SocketAddr,
        spans: Spans,
        server: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Self> {
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

impl Spans {
    fn add(&self, request: ExportTraceServiceRequest) {
        for of_resource in request.resource_spans {
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
    }
}

/// A request by HTTP, in protobuf.
async fn receive(State(spans): State<Spans>, body: Bytes) -> StatusCode {
    match ExportTraceServiceRequest::decode(body) {
        Ok(request) => {
            spans.add(request);
            StatusCode::OK
        }
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.add(request.into_inner());
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
