//! `winpool run`: the operator.

use std::{future::Future, net::SocketAddr, time::Duration};

use tokio::{net::TcpListener, task::spawn_blocking, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Failure, connect, input, registry, signals::Signals};
use crate::{
    admin::{self, Admin, Metrics, Readiness},
    api::names::DEFAULT_NAMESPACE,
    cluster::with_sources,
    controllers,
    domain::tables,
    telemetry::{self, LogFormat, Telemetry},
};

/// How long running reconciles may take after the first signal. Less than the default terminationGracePeriodSeconds.
const GRACE_PERIOD: Duration = Duration::from_secs(20);
/// How long the admin server may take to finish its responses.
const ADMIN_SHUTDOWN: Duration = Duration::from_secs(1);

/// The options as typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The namespace of the operator, where it stores ConfigMaps
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// The address to serve /livez, /readyz, /metrics and /log on. In a Pod use 0.0.0.0, so that the kubelet can probe
    /// it. Port 0 selects a free port, which is logged
    #[arg(long, env = "WINPOOL_ADMIN_ADDRESS", value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    admin_address: SocketAddr,
    /// The log level (error, warn, info, debug, trace), or levels by module such as info,winpool=debug
    #[arg(
        long,
        env = "WINPOOL_LOG",
        value_name = "FILTER",
        default_value = "info,kube_client=error,kube_runtime=error"
    )]
    log: String,
    /// Watch pods and their controllers, and report those that cannot run on the nodes of the pools. If off, condition
    /// WorkloadsPlaced is Unknown
    #[arg(long, env = "WINPOOL_WORKLOADS", value_enum, value_name = "ON|OFF", default_value_t)]
    workloads: Switch,
    /// Look up the platforms of images in their registries, anonymously. Requires --workloads=on
    #[arg(long, env = "WINPOOL_REGISTRY", value_enum, value_name = "ON|OFF", default_value_t)]
    registry: Switch,
    #[command(flatten)]
    registries: registry::Args,
    /// Use the pull secrets of pods for private registries. Requires permission to read them: apply config/pull-secrets
    #[arg(long, env = "WINPOOL_PULL_SECRETS")]
    pull_secrets: bool,
    /// The format of log lines
    #[arg(long, env = "WINPOOL_LOG_FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,
    #[command(flatten)]
    cluster: connect::Args,
}

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    #[default]
    On,
    Off,
}

/// The validated options.
#[derive(Debug)]
pub(super) struct Settings {
    namespace: String,
    workloads: bool,
    registry: Option<registry::Args>,
    pull_secrets: bool,
    admin_address: SocketAddr,
    log: String,
    log_format: LogFormat,
    cluster: connect::Args,
}

impl TryFrom<Args> for Settings {
    type Error = Failure;

    fn try_from(args: Args) -> Result<Self, Failure> {
        let Args { admin_address, log, log_format, pull_secrets, cluster, .. } = args;
        let namespace = input::namespace(args.namespace)?;
        let workloads = args.workloads == Switch::On;
        let registry = (workloads && args.registry == Switch::On).then_some(args.registries);
        Ok(Self { namespace, admin_address, log, log_format, workloads, registry, pull_secrets, cluster })
    }
}

/// Runs the operator until a signal or a bug ends it.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let runtime = connect::runtime()?;
    let result = runtime.block_on(with_telemetry(settings));
    // After the second signal running tasks are not awaited.
    runtime.shutdown_background();
    result
}

/// Runs the operator with logs and traces, and flushes them.
async fn with_telemetry(settings: Settings) -> Result<(), Failure> {
    let telemetry = Telemetry::start(&settings.log, settings.log_format).map_err(|error| match error {
        telemetry::Error::Filter(error) => Failure::Usage(format!("--log: {error}")),
        error => Failure::Usage(error.to_string()),
    })?;
    let result = operate(settings, &telemetry).await;
    let _ = spawn_blocking(|| telemetry.stop()).await;
    result
}

async fn operate(settings: Settings, telemetry: &Telemetry) -> Result<(), Failure> {
    let signals = Signals::listen()?;
    let config = settings.cluster.config().await?;
    let address = settings.admin_address;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::Usage(format!("cannot listen on {address}: {error}. Choose another --admin-address"))
    })?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        api_server = %config.cluster_url,
        namespace = settings.namespace,
        admin = %listener.local_addr().unwrap_or(address),
        "winpool started"
    );
    if let Some(text) = tables::old(super::today()) {
        warn!("{text}");
    }

    let admin = Admin { metrics: Metrics::default(), ready: Readiness::default(), log: telemetry.filter() };
    let stop = CancellationToken::new();
    let controllers = controllers::run(
        controllers::Settings {
            config,
            namespace: settings.namespace,
            metrics: admin.metrics.clone(),
            readiness: admin.ready.clone(),
            workloads: settings.workloads,
            registry: settings.registry.map(registry::Args::registry_if_any).transpose()?.flatten(),
            pull_secrets: settings.pull_secrets,
        },
        stop.clone(),
    );
    let controllers = async { controllers.await.map_err(|error| Failure::Internal(with_sources(&error))) };
    let result = with_admin_server(listener, admin, run_until_signal(controllers, signals, stop)).await;
    info!("winpool stopped");
    result
}

/// Runs an operator while the admin server is serving.
async fn with_admin_server(
    listener: TcpListener,
    admin: Admin,
    operator: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    let mut server = tokio::spawn(admin::serve(listener, admin, stop.clone()));
    let result = tokio::select! {
        result = operator => result,
        result = &mut server => return Err(Failure::Internal(format!("the admin server stopped unexpectedly: {result:?}"))),
    };
    stop.cancel();
    if timeout(ADMIN_SHUTDOWN, server).await.is_err() {
        warn!("admin server did not shut down, a client is still connected");
    }
    result
}

/// Runs the controllers until the first signal, then waits for running reconciles.
async fn run_until_signal(
    controllers: impl Future<Output = Result<(), Failure>>,
    mut signals: Signals,
    stop: CancellationToken,
) -> Result<(), Failure> {
    tokio::pin!(controllers);
    tokio::select! {
        result = &mut controllers => return result,
        signal = signals.next() => info!(signal, grace_period = ?GRACE_PERIOD, "stopping, waiting for running reconciles"),
    }
    stop.cancel();
    tokio::select! {
        result = timeout(GRACE_PERIOD, controllers) => result.unwrap_or_else(|_| {
            warn!(grace_period = ?GRACE_PERIOD, "a reconcile did not finish within the grace period");
            Ok(())
        }),
        signal = signals.next() => Err(Failure::Interrupted(signal)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    fn settings(args: &[&str]) -> Result<Settings, Failure> {
        CommandLine::parse_from([&["run"], args].concat()).args.try_into()
    }

    #[test]
    fn by_default_the_operator_uses_its_own_namespace_and_serves_loopback_only() {
        let settings = settings(&[]).unwrap();
        assert_eq!(settings.namespace, "winpool-system");
        assert!(settings.admin_address.ip().is_loopback());
        assert_eq!(settings.log, "info,kube_client=error,kube_runtime=error");
        assert_eq!(settings.log_format, LogFormat::Text);
    }

    #[test]
    fn a_namespace_is_a_dns_label() {
        for good in ["a", "winpool-system", "0", &"a".repeat(63)] {
            assert!(settings(&["--namespace", good]).is_ok(), "{good}");
        }
        for bad in ["", "A", "a.b", "-a", "a-", "a_b", &"a".repeat(64)] {
            let failure = settings(&[&format!("--namespace={bad}")]).unwrap_err();
            assert!(matches!(&failure, Failure::Usage(text) if text.starts_with("--namespace: ")), "{bad}: {failure}");
        }
    }
}
