//! The cause of a reconcile, with which its trace begins.

use opentelemetry::Context;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The event that caused a reconcile.
pub struct Trigger {
    /// A description such as `Node win-1 changed`.
    pub description: String,
    context: Context,
}

impl Trigger {
    /// An event in the current span.
    pub fn new(description: String) -> Self {
        Self { description, context: Span::current().context() }
    }

    /// Makes a span part of the trace of the event.
    pub fn set_parent_of(&self, span: &Span) {
        // This fails only if traces are off.
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
    fn a_reconcile_belongs_to_the_trace_of_the_event_that_caused_it() {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(Registry::default().with(layer), || {
            let trace = |span: &Span| span.context().span().span_context().trace_id();
            let watch = info_span!("watch");
            let trigger = watch.in_scope(|| Trigger::new("Node win-1 changed".into()));
            let (reconcile, other) = (info_span!("reconcile"), info_span!("reconcile"));
            trigger.set_parent_of(&reconcile);
            assert_ne!(trace(&watch), TraceId::INVALID);
            assert_eq!(trace(&reconcile), trace(&watch));
            assert_ne!(trace(&other), trace(&watch));
            let request = reconcile.in_scope(|| info_span!("write"));
            assert_eq!(trace(&request), trace(&watch));
        });
    }
}
