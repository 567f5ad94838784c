//! Logs to stderr: text on a terminal and outside of a cluster, one JSON object a line in a pod.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use tracing_subscriber::{EnvFilter, fmt};

/// Starts the log.
///
/// # Errors
/// When the filter is invalid.
pub fn start(filter: &str) -> Result<(), String> {
    let filter = EnvFilter::builder().parse(filter).map_err(|reason| {
        format!("--log: `{filter}` is not a log filter: {reason}: write a level such as info, or levels by module: info,winpool=debug")
    })?;
    let on_terminal = io::stderr().is_terminal();
    let log = fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(on_terminal);
    if env::var_os("KUBERNETES_SERVICE_HOST").is_some() && !on_terminal {
        log.json().flatten_event(true).init();
    } else {
        log.init();
    }
    Ok(())
}
