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
