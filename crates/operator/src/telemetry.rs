//! Logs to stderr, and traces over OTLP if an endpoint is set.
//!
//! Traces are on when `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set; the other variables
//! of the OpenTelemetry specification (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, …) have
//! their standard meaning. By default every reconcile is traced, and sent by gRPC.

#[cfg(feature = "otlp")]
mod otlp;

use std::{
    env, fmt,
    io::{self, IsTerminal as _},
};

use opentelemetry::trace::{SpanContext, TraceContextExt as _, TracerProvider as _};
use opentelemetry_sdk::{Resource, resource::EnvResourceDetector, trace::SdkTracerProvider};
use tracing::{Event, Span, Subscriber, dispatcher};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::FilterExt as _,
    fmt::{FmtContext, FormatEvent, FormatFields, format, format::Writer},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    reload,
    util::{SubscriberInitExt as _, TryInitError},
};
use winpool_log::{UnverifiedCertificateOnce, filter};

pub use winpool_log::{FilterError, LogFormat};

/// The default service name in traces.
pub const SERVICE_NAME: &str = "winpool";

/// The filter of traces, independent of the log filter. It excludes the exporter's own requests.
const TRACED: &str = "info,winpool=debug";

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[cfg(not(feature = "otlp"))]
    #[error(
        "traces cannot be sent: this program was built without the feature otlp: unset the OTEL_EXPORTER_OTLP_… variables"
    )]
    WithoutOtlp,
    #[cfg(feature = "otlp")]
    #[error("traces cannot be sent: {0}: correct the OTEL_EXPORTER_OTLP_… variables, or unset them")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    #[cfg(feature = "otlp")]
    #[error("traces cannot be sent: OTEL_EXPORTER_OTLP_PROTOCOL is `{0}`: write grpc or http/protobuf")]
    Protocol(String),
    #[cfg(feature = "otlp")]
    #[error("traces cannot be sent: {0}")]
    Http(#[from] reqwest::Error),
    #[error("telemetry is already started: {0}")]
    Started(#[from] TryInitError),
}

/// The filter of the log, which can be replaced at run time.
#[derive(Clone, Debug)]
pub struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Replaces the filter. After an error the former one remains in use.
    pub fn set(&self, text: &str) -> Result<(), FilterError> {
        let filter = filter(text)?;
        // This fails only after the log was dropped, at the end of the process.
        let _ = self.0.reload(filter);
        Ok(())
    }

    /// A filter that can be replaced at run time, and its layer.
    pub(crate) fn layer(text: &str) -> Result<(reload::Layer<EnvFilter, Registry>, Self), FilterError> {
        let (layer, handle) = reload::Layer::new(filter(text)?);
        Ok((layer, Self(handle)))
    }
}

/// Running telemetry. [`Telemetry::stop`] sends the remaining spans.
#[derive(Debug)]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
    filter: LogFilter,
}

impl Telemetry {
    /// Starts logs, and traces if the environment enables them. Call it once, in a tokio runtime.
    pub fn start(log: &str, format: LogFormat) -> Result<Self, TelemetryError> {
        let (filter, handle) = LogFilter::layer(log)?;
        let filter = filter.and(UnverifiedCertificateOnce::default());
        let is_enabled = is_traced(|name| env::var(name).ok());
        let provider = is_enabled.then(|| provider(resource())).transpose()?;
        let traces = provider.as_ref().map(|provider| {
            let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer(SERVICE_NAME));
            layer.with_filter(EnvFilter::new(TRACED))
        });
        tracing_subscriber::registry().with(log_layer(format).with_filter(filter)).with(traces).try_init()?;
        Ok(Self { provider, filter: handle })
    }

    pub fn filter(&self) -> LogFilter {
        self.filter.clone()
    }

    /// Sends the remaining spans, for at most five seconds, and stops.
    pub fn stop(self) {
        if let Some(Err(error)) = self.provider.map(|provider| provider.shutdown()) {
            tracing::warn!(%error, "cannot send the last spans");
        }
    }
}

fn is_traced(variable: impl Fn(&str) -> Option<String>) -> bool {
    first(variable, ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]).is_some()
}

/// The value of the first of these variables that is not empty.
fn first(variable: impl Fn(&str) -> Option<String>, names: [&str; 2]) -> Option<String> {
    names.into_iter().find_map(|name| variable(name).filter(|value| !value.is_empty()))
}

#[cfg(feature = "otlp")]
use otlp::provider;

#[cfg(not(feature = "otlp"))]
fn provider(_: Resource) -> Result<SdkTracerProvider, TelemetryError> {
    Err(TelemetryError::WithoutOtlp)
}

/// The name and version of the service, overridden by the environment.
fn resource() -> Resource {
    let builder = Resource::builder_empty()
        .with_service_name(SERVICE_NAME)
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty()) {
        Some(name) => builder.with_service_name(name).build(),
        None => builder.build(),
    }
}

fn log_layer<S>(log: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let on_terminal = io::stderr().is_terminal();
    if log.is_json(env::var_os("KUBERNETES_SERVICE_HOST").is_some(), on_terminal) {
        let lines = WithTraceId { inner: format().json().flatten_event(true), is_json: true };
        layer.json().event_format(lines).boxed()
    } else {
        let lines = WithTraceId { inner: format().with_ansi(on_terminal), is_json: false };
        layer.with_ansi(on_terminal).event_format(lines).boxed()
    }
}

/// Adds the trace id to each line that is logged within a traced span.
struct WithTraceId<F> {
    inner: F,
    is_json: bool,
}

impl<S, N, F> FormatEvent<S, N> for WithTraceId<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let span = context.lookup_current().map(|span| span.id());
        let Some(id) = span.and_then(|span| dispatcher::get_default(|dispatch| trace_id_of(&span, dispatch))) else {
            return self.inner.format_event(context, out, event);
        };
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        out.write_str(&join(self.is_json, line.trim_end(), &id))
    }
}

fn trace_id_of(span: &tracing::span::Id, dispatch: &dispatcher::Dispatch) -> Option<String> {
    let context = tracing_opentelemetry::get_otel_context(span, dispatch)?;
    let span = context.span().span_context().clone();
    span.is_valid().then(|| span.trace_id().to_string())
}

fn span_context(span: &Span) -> SpanContext {
    span.context().span().span_context().clone()
}

/// The id of the current trace, if it is sent.
pub fn trace_id() -> Option<String> {
    let span = span_context(&Span::current());
    (span.is_valid() && span.is_sampled()).then(|| span.trace_id().to_string())
}

/// The header `traceparent` of a request in a span; `None` if traces are off (W3C Trace Context, level 1).
pub fn traceparent(span: &Span) -> Option<String> {
    let span = span_context(span);
    let flags = span.trace_flags().to_u8();
    span.is_valid().then(|| format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id()))
}

fn join(is_json: bool, line: &str, trace_id: &str) -> String {
    match (is_json, line.strip_prefix('{')) {
        (true, Some(fields)) => format!("{{\"trace_id\":\"{trace_id}\",{fields}\n"),
        _ => format!("{line} trace_id={trace_id}\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn an_unverified_certificate_is_logged_once_and_other_warnings_always() {
        #[derive(Clone, Default)]
        struct Lines(Arc<Mutex<Vec<u8>>>);
        impl io::Write for Lines {
            fn write(&mut self, line: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().extend(line);
                Ok(line.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (filter, handle) = LogFilter::layer("info").unwrap();
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let filter = filter.and(UnverifiedCertificateOnce::default());
        tracing::subscriber::with_default(Registry::default().with(log.with_filter(filter)), || {
            for _ in 0..3 {
                tracing::warn!(target: "kube_client::client::tls::rustls_tls", "Server cert bypassed");
                tracing::warn!(target: "kube_client::client::tls::rustls_tls", "failed to reload CA bundle");
                tracing::warn!(target: "winpool", "Server cert bypassed");
                tracing::info!(target: "kube_client::client::tls::rustls_tls", "below the level");
                handle.set("debug").unwrap();
            }
        });
        let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        assert_eq!(count("rustls_tls: Server cert bypassed"), 1, "{log}");
        assert_eq!(count("failed to reload CA bundle"), 3, "{log}");
        assert_eq!((count("winpool: Server cert bypassed"), count("below the level")), (3, 0), "{log}");
    }

    #[test]
    fn a_filter_is_replaced_unless_the_new_one_is_invalid() {
        let (layer, handle) = LogFilter::layer("info").unwrap();
        let now = || handle.0.with_current(ToString::to_string).unwrap();
        let shown = |text: &str| filter(text).unwrap().to_string();
        handle.set("warn,winpool=trace").unwrap();
        assert_eq!(now(), shown("winpool=trace,warn"));
        let error = handle.set("winpool=loud").unwrap_err().to_string();
        assert!(error.starts_with("`winpool=loud` is not a log filter") && error.contains("winpool=debug"), "{error}");
        assert_eq!(now(), shown("winpool=trace,warn"));
        drop(layer);
        handle.set("info").unwrap();
    }

    #[test]
    fn a_line_has_its_trace_id_in_both_formats() {
        assert_eq!(join(false, "INFO done", "0af7"), "INFO done trace_id=0af7\n");
        assert_eq!(join(true, "{\"level\":\"INFO\"}", "0af7"), "{\"trace_id\":\"0af7\",\"level\":\"INFO\"}\n");
    }
}
