//! What the logs of the operator and of the agent have in common: their format and their filter.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::ValueEnum;
use tracing::{
    Event, Metadata,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    EnvFilter,
    filter::ParseError,
    layer::{Context, Filter},
};

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal and outside of a cluster, JSON in a pod
    #[default]
    Auto,
    /// For people
    Text,
    /// One JSON object a line, for log collectors
    Json,
}

impl LogFormat {
    /// Whether lines are JSON. A pod has the variable `KUBERNETES_SERVICE_HOST`.
    pub fn is_json(self, in_pod: bool, on_terminal: bool) -> bool {
        match self {
            Self::Auto => in_pod && !on_terminal,
            Self::Text => false,
            Self::Json => true,
        }
    }
}

/// An invalid log filter.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a log filter: {reason}: write a level such as info, or levels by module: info,winpool=debug")]
pub struct FilterError {
    text: String,
    reason: ParseError,
}

/// The default levels of kube's client. Its lines about failed requests and ended watches are omitted, because the
/// programs log these themselves, once and with the object. Its warnings about TLS are logged.
const CLIENT_LEVELS: &str = "kube_client::client=error,kube_client::client::builder=off,kube_client::client::tls=warn";

/// The filter with this text, after the default levels of the client.
pub fn filter(text: &str) -> Result<EnvFilter, FilterError> {
    let invalid = |reason| FilterError { text: text.to_owned(), reason };
    EnvFilter::builder().parse(text).map_err(invalid)?;
    EnvFilter::builder().parse(format!("{CLIENT_LEVELS},{text}")).map_err(invalid)
}

/// Logs kube's warning about unverified server certificates (`insecure-skip-tls-verify`) only once. kube logs it for
/// each connection (kube-client 5.0.0, `src/client/tls.rs`), and both programs open several per minute.
#[derive(Debug, Default)]
pub struct UnverifiedCertificateOnce(AtomicBool);

/// `callsite_enabled` must stay the default: with a cached interest, an event that is filtered out disables the next one.
impl<S> Filter<S> for UnverifiedCertificateOnce {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        !is_unverified_certificate(event) || !self.0.swap(true, Ordering::Relaxed)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
}

fn is_unverified_certificate(event: &Event<'_>) -> bool {
    struct Message(bool);
    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0 |= field.name() == "message" && format!("{value:?}") == "Server cert bypassed";
        }
    }
    let mut message = Message(false);
    if event.metadata().target() == "kube_client::client::tls::rustls_tls" {
        event.record(&mut message);
    }
    message.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json_in_a_pod_unless_on_a_terminal_or_as_the_option_says() {
        for (format, in_pod, on_terminal, is_json) in [
            (LogFormat::Auto, true, false, true),
            (LogFormat::Auto, true, true, false),
            (LogFormat::Auto, false, false, false),
            (LogFormat::Auto, false, true, false),
            (LogFormat::Text, true, false, false),
            (LogFormat::Json, false, true, true),
        ] {
            assert_eq!(format.is_json(in_pod, on_terminal), is_json, "{format:?} {in_pod} {on_terminal}");
        }
    }
}
