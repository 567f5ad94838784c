//! The exporter of traces over OTLP, by gRPC or HTTP.

use std::{
    env, panic,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use opentelemetry_otlp::{
    SpanExporter, WithHttpConfig as _, WithTonicConfig as _, tonic_types::transport::ClientTlsConfig,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchSpanProcessor, SdkTracerProvider, SpanData},
};
use reqwest::{blocking::Client, redirect::Policy};
use tracing::{info, warn};

use super::{TelemetryError, first};

/// How long one export may take, unless the environment has another time (OpenTelemetry specification, "Protocol Exporter").
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How spans are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Grpc,
    HttpProtobuf,
}

impl Protocol {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, TelemetryError> {
        match first(variable, ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]).as_deref() {
            None | Some("grpc") => Ok(Self::Grpc),
            Some("http/protobuf") => Ok(Self::HttpProtobuf),
            Some(other) => Err(TelemetryError::Protocol(other.to_owned())),
        }
    }
}

/// The provider of traces, as the environment says. Call it in a tokio runtime, which sends the spans.
pub(super) fn provider(resource: Resource) -> Result<SdkTracerProvider, TelemetryError> {
    let variable = |name: &str| env::var(name).ok();
    let exporter = match Protocol::read(variable)? {
        Protocol::Grpc => {
            // The trusted certificates of the system, for an https endpoint.
            let tls = ClientTlsConfig::new().with_enabled_roots();
            SpanExporter::builder().with_tonic().with_tls_config(tls).build()?
        }
        Protocol::HttpProtobuf => SpanExporter::builder().with_http().with_http_client(http(variable)?).build()?,
    };
    let exporter = LoggedExporter { inner: exporter, is_failing: AtomicBool::new(false) };
    let processor = BatchSpanProcessor::builder(exporter).build();
    Ok(SdkTracerProvider::builder().with_resource(resource).with_span_processor(processor).build())
}

/// The HTTP client of the exporter, which calls it from a thread of its own. It follows no redirect.
fn http(variable: impl Fn(&str) -> Option<String>) -> Result<Client, TelemetryError> {
    let limit = first(variable, ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]);
    let limit = limit.and_then(|text| text.parse().ok()).map_or(DEFAULT_TIMEOUT, Duration::from_millis);
    // An error means that a provider is installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().timeout(limit).redirect(Policy::none());
    // A blocking client cannot be built in a thread of the tokio runtime.
    let built = thread::spawn(|| client.build()).join();
    Ok(built.unwrap_or_else(|panic| panic::resume_unwind(panic))?)
}

/// Logs when spans cannot be sent, and when they are sent again. Those of a failed export are lost.
#[derive(Debug)]
struct LoggedExporter<E> {
    inner: E,
    is_failing: AtomicBool,
}

impl<E: opentelemetry_sdk::trace::SpanExporter> opentelemetry_sdk::trace::SpanExporter for LoggedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.inner.export(batch).await;
        let failed_before = self.is_failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !failed_before => {
                let remedy = "check the OTEL_EXPORTER_OTLP_… variables and the receiver";
                warn!(%error, remedy, "traces cannot be sent, dropping them");
            }
            Ok(()) if failed_before => info!("traces are sent again"),
            _ => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::is_traced, *};

    fn variables(set: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn traces_are_off_unless_an_endpoint_is_given() {
        for (set, expected) in [
            (vec![], false),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "")], false),
            (vec![("OTEL_SERVICE_NAME", "a")], false),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317")], true),
            (vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a:4317")], true),
        ] {
            assert_eq!(is_traced(variables(&set)), expected, "{set:?}");
        }
    }

    #[test]
    fn the_protocol_is_grpc_unless_the_environment_has_another_one() {
        let (general, traces) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL");
        for (set, expected) in [
            (vec![], Ok(Protocol::Grpc)),
            (vec![(general, "")], Ok(Protocol::Grpc)),
            (vec![(general, "grpc")], Ok(Protocol::Grpc)),
            (vec![(general, "http/protobuf")], Ok(Protocol::HttpProtobuf)),
            (vec![(general, "grpc"), (traces, "http/protobuf")], Ok(Protocol::HttpProtobuf)),
            (vec![(general, "http/json")], Err("http/json")),
        ] {
            let read = Protocol::read(variables(&set)).map_err(|error| error.to_string());
            match expected {
                Ok(expected) => assert_eq!(read, Ok(expected), "{set:?}"),
                Err(part) => assert!(read.as_ref().is_err_and(|text| text.contains(part)), "{set:?}: {read:?}"),
            }
        }
    }
}
