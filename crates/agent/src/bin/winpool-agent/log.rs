//! Logs to stderr, in the format of the operator's.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use tracing_subscriber::{
    Layer as _, Registry, filter::FilterExt as _, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};
use winpool_log::{FilterError, LogFormat, UnverifiedCertificateOnce, filter};

/// Starts the log. Call it once.
pub fn start(text: &str) -> Result<(), FilterError> {
    let filter = filter(text)?.and(UnverifiedCertificateOnce::default());
    let on_terminal = io::stderr().is_terminal();
    let lines = fmt::layer::<Registry>().with_writer(io::stderr).with_ansi(on_terminal);
    let lines = if LogFormat::Auto.is_json(env::var_os("KUBERNETES_SERVICE_HOST").is_some(), on_terminal) {
        lines.json().flatten_event(true).boxed()
    } else {
        lines.boxed()
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    Ok(())
}
