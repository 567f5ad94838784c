//! `winpool run`: the operator.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    net::TcpListener,
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use super::Failure;
use crate::{
    admin::{self, Admin, Metrics, Readiness},
    api::names,
    controllers,
    telemetry::{LogFilter, LogFormat, Telemetry},
};

/// How long passes that are under way may take to end after a signal to stop.
const GRACE: Duration = Duration::from_secs(20);

/// What was typed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The namespace of the operator's own ConfigMaps
    #[arg(long, env = "WINPOOL_NAMESPACE", default_value = names::DEFAULT_NAMESPACE)]
    namespace: String,
    /// Where /livez, /readyz and /metrics are served; port 0 picks a free one
    #[arg(long, env = "WINPOOL_ADMIN_ADDRESS", default_value = "127.0.0.1:8080")]
    admin_address: SocketAddr,
    /// What is logged: a level, or levels by module such as info,winpool=debug
    #[arg(long, env = "WINPOOL_LOG", default_value = "info")]
    log: String,
    /// How log lines look
    #[arg(long, env = "WINPOOL_LOG_FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,
}

/// Runs the operator until it is told to stop.
///
/// # Errors
/// A setting that cannot be used, or no cluster to reach.
pub fn run(args: Args) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Usage(format!("no threads could be started: {error}")))?;
    runtime.block_on(async {
        let telemetry =
            Telemetry::start(&args.log, args.log_format).map_err(|error| Failure::Usage(error.to_string()))?;
        let ended = serve(args, telemetry.filter()).await;
        telemetry.stop();
        ended
    })
}

async fn serve(args: Args, log: LogFilter) -> Result<(), Failure> {
    let config = kube::Config::infer().await.map_err(|error| {
        Failure::Cluster(format!(
            "no cluster to reach: {error}: set KUBECONFIG, or run in a cluster with a service account"
        ))
    })?;
    let listener = TcpListener::bind(args.admin_address).await.map_err(|error| {
        Failure::Usage(format!("cannot listen on {}: {error}: choose another --admin-address", args.admin_address))
    })?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "winpool starts");
    }
    let (metrics, readiness, stop) = (Metrics::default(), Readiness::default(), CancellationToken::new());
    stop_on_signal(stop.clone())?;
    // The figures stay readable while the last passes end.
    let stop_admin = CancellationToken::new();
    let admin = Admin { metrics: metrics.clone(), ready: readiness.clone(), log };
    let admin = tokio::spawn(admin::serve(listener, admin, stop_admin.clone()));
    let settings = controllers::Settings { config, namespace: args.namespace, metrics, readiness };
    let grace = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    let ended = tokio::select! {
        ended = controllers::run(settings, stop.clone()) => ended.map_err(|error| Failure::Cluster(error.to_string())),
        () = grace => Err(Failure::Cluster(format!("passes did not end within {} s of the signal to stop", GRACE.as_secs()))),
    };
    stop_admin.cancel();
    if let Ok(Err(error)) = admin.await {
        tracing::warn!(%error, "the admin server failed");
    }
    tracing::info!("winpool ends");
    ended
}

/// The first SIGTERM or SIGINT stops gracefully, the second at once.
fn stop_on_signal(stop: CancellationToken) -> Result<(), Failure> {
    let handler = |kind| signal(kind).map_err(|error| Failure::Usage(format!("signals cannot be handled: {error}")));
    let (mut terminate, mut interrupt) = (handler(SignalKind::terminate())?, handler(SignalKind::interrupt())?);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stop.is_cancelled() {
                tracing::warn!("a second signal: ending at once");
                std::process::exit(3);
            }
            tracing::info!("ending after the passes that are under way; a second signal ends at once");
            stop.cancel();
        }
    });
    Ok(())
}
