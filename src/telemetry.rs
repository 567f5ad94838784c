//! Logs to stderr, and traces over OTLP when an endpoint is given. Nothing leaves the process otherwise.
//!
//! Traces are on when `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set; the other variables
//! of the OpenTelemetry specification (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, …) mean
//! what they mean there. Without a sampler every pass is traced, and a parent's decision is kept.

use std::{
    env, fmt,
    io::{self, IsTerminal as _},
};

use clap::ValueEnum;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_otlp::{WithTonicConfig as _, tonic_types::transport::ClientTlsConfig};
use opentelemetry_sdk::{Resource, resource::EnvResourceDetector, trace::SdkTracerProvider};
use tracing::{Event, Subscriber, dispatcher};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::ParseError,
    fmt::{FmtContext, FormatEvent, FormatFields, format, format::Writer},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    reload,
    util::{SubscriberInitExt as _, TryInitError},
};

/// The service's name in traces, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` says another.
pub const SERVICE_NAME: &str = "winpool";

/// What is traced, whatever the log shows. The exporter's own requests are below these levels.
const TRACED: &str = "info,winpool=debug";

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object a line, for log collectors
    Json,
}

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter is not one.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The OTLP endpoint cannot be used.
    #[error("traces cannot be sent: {0}: correct the OTEL_EXPORTER_OTLP_… variables, or unset them")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// Telemetry was started before in this process.
    #[error("telemetry is already started: {0}")]
    Started(#[from] TryInitError),
}

/// A text that is not a log filter.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a log filter: {reason}: write a level such as info, or levels by module: info,winpool=debug")]
pub struct FilterError {
    text: String,
    reason: ParseError,
}

/// What the log leaves out unless it is asked for by name: the client tells of each request that fails and each watch
/// that ends. So do we, once and with the object. What it says about TLS stays.
const LEFT_OUT: &str = "kube_client::client=error,kube_client::client::builder=off,kube_client::client::tls=warn";

fn filter(text: &str) -> Result<EnvFilter, FilterError> {
    let wrong = |reason| FilterError { text: text.to_owned(), reason };
    EnvFilter::builder().parse(text).map_err(wrong)?;
    EnvFilter::builder().parse(format!("{LEFT_OUT},{text}")).map_err(wrong)
}

/// The filter of the log; it can be replaced while the process runs.
#[derive(Clone, Debug)]
pub struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Replaces the filter.
    ///
    /// # Errors
    /// If `text` is not a filter; the filter stays as it was.
    pub fn set(&self, text: &str) -> Result<(), FilterError> {
        let filter = filter(text)?;
        // The only error is that the log is gone, at the very end of the process.
        let _ = self.0.reload(filter);
        Ok(())
    }

    /// A filter that can be replaced, and its part in a subscriber.
    pub(crate) fn layer(text: &str) -> Result<(reload::Layer<EnvFilter, Registry>, Self), FilterError> {
        let (layer, handle) = reload::Layer::new(filter(text)?);
        Ok((layer, Self(handle)))
    }
}

/// Running telemetry. [`Telemetry::stop`] sends what is still waiting.
#[derive(Debug)]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
    filter: LogFilter,
}

impl Telemetry {
    /// Starts logs, and traces where the environment asks for them. Must be called within a tokio runtime, once.
    ///
    /// # Errors
    /// If the filter is not one, the OTLP endpoint cannot be used, or telemetry runs already.
    pub fn start(log: &str, format: LogFormat) -> Result<Self, Error> {
        let (filter, handle) = LogFilter::layer(log)?;
        let provider = traces_wanted(|name| env::var(name).ok()).then(provider).transpose()?;
        let traces = provider.as_ref().map(|provider| {
            let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer(SERVICE_NAME));
            layer.with_filter(EnvFilter::new(TRACED))
        });
        tracing_subscriber::registry().with(log_layer(format).with_filter(filter)).with(traces).try_init()?;
        Ok(Self { provider, filter: handle })
    }

    /// The filter of the log.
    pub fn filter(&self) -> LogFilter {
        self.filter.clone()
    }

    /// Sends the spans that wait, and stops. Takes as long as the collector does, five seconds at most.
    pub fn stop(self) {
        if let Some(Err(error)) = self.provider.map(|provider| provider.shutdown()) {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}

fn traces_wanted(variable: impl Fn(&str) -> Option<String>) -> bool {
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
        .into_iter()
        .any(|name| variable(name).is_some_and(|value| !value.is_empty()))
}

fn provider() -> Result<SdkTracerProvider, opentelemetry_otlp::ExporterBuildError> {
    // For an endpoint of https: whom the system trusts.
    let tls = ClientTlsConfig::new().with_enabled_roots();
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_tls_config(tls).build()?;
    Ok(SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter).build())
}

/// Our name and version, below what the environment says.
fn resource() -> Resource {
    let ours = Resource::builder_empty()
        .with_service_name(SERVICE_NAME)
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty()) {
        Some(name) => ours.with_service_name(name).build(),
        None => ours.build(),
    }
}

fn log_layer<S>(log: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    match log {
        LogFormat::Text => {
            let colours = io::stderr().is_terminal();
            let lines = WithTraceId { inner: format().with_ansi(colours), log };
            layer.with_ansi(colours).event_format(lines).boxed()
        }
        LogFormat::Json => {
            let lines = WithTraceId { inner: format().json().flatten_event(true), log };
            layer.json().event_format(lines).boxed()
        }
    }
}

/// Adds the trace id to each line that is written within a traced span, so that a log leads to its trace.
struct WithTraceId<F> {
    inner: F,
    log: LogFormat,
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
        out.write_str(&join(self.log, line.trim_end(), &id))
    }
}

fn trace_id_of(span: &tracing::span::Id, dispatch: &dispatcher::Dispatch) -> Option<String> {
    let context = tracing_opentelemetry::get_otel_context(span, dispatch)?;
    let span = context.span().span_context().clone();
    span.is_valid().then(|| span.trace_id().to_string())
}

fn join(log: LogFormat, line: &str, trace_id: &str) -> String {
    match (log, line.strip_prefix('{')) {
        (LogFormat::Json, Some(fields)) => format!("{{\"trace_id\":\"{trace_id}\",{fields}\n"),
        _ => format!("{line} trace_id={trace_id}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_off_unless_an_endpoint_is_given() {
        for (set, wanted) in [
            (vec![], false),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "")], false),
            (vec![("OTEL_SERVICE_NAME", "a")], false),
            (vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317")], true),
            (vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a:4317")], true),
        ] {
            let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(traces_wanted(variable), wanted, "{set:?}");
        }
    }

    #[test]
    fn a_filter_is_replaced_and_a_bad_one_changes_nothing() {
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
    fn a_line_carries_its_trace_id_in_either_format() {
        assert_eq!(join(LogFormat::Text, "INFO done", "0af7"), "INFO done trace_id=0af7\n");
        assert_eq!(
            join(LogFormat::Json, "{\"level\":\"INFO\"}", "0af7"),
            "{\"trace_id\":\"0af7\",\"level\":\"INFO\"}\n"
        );
    }
}
