//! Why a pass is made, so that its trace begins with the event that led to it.

use opentelemetry::Context;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The first event that led to a pass.
pub struct Cause {
    /// What happened, in words.
    pub words: String,
    context: Context,
}

impl Cause {
    /// What happens in the present span.
    pub fn here(words: String) -> Self {
        Self { words, context: Span::current().context() }
    }

    /// Makes a span belong to the trace of the event.
    pub fn adopt(&self, span: &Span) {
        // It fails only without a collector of traces, and then there is nothing to join.
        let _ = span.set_parent(self.context.clone());
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{TraceContextExt, TraceId, TracerProvider};
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing::info_span;
    use tracing_subscriber::{Registry, layer::SubscriberExt};

    use super::*;

    #[test]
    fn a_pass_belongs_to_the_trace_of_the_event_that_led_to_it() {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            let trace = |span: &Span| span.context().span().span_context().trace_id();
            let watch = info_span!("watch");
            let cause = watch.in_scope(|| Cause::here("Node win-1 changed".into()));
            let (pass, other) = (info_span!("pass"), info_span!("pass"));
            cause.adopt(&pass);
            assert_ne!(trace(&watch), TraceId::INVALID);
            assert_eq!(trace(&pass), trace(&watch));
            assert_ne!(trace(&other), trace(&watch));
            let request = pass.in_scope(|| info_span!("write"));
            assert_eq!(trace(&request), trace(&watch));
        });
    }
}
