//! `winpool run`: the operator.

use std::{future::Future, net::SocketAddr, time::Duration};

use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Failure, connect, input, registry};
use crate::{
    admin::{self, Admin, Metrics, Readiness},
    api::names::DEFAULT_NAMESPACE,
    cluster::with_sources,
    controllers,
    domain::tables,
    telemetry::{self, LogFormat, Telemetry},
};

/// How long the passes under way may take to end after the first signal. Below the 30 s that Kubernetes gives a Pod.
const GRACE: Duration = Duration::from_secs(20);

/// What was typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The namespace in which the operator keeps its ConfigMaps
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// Where /livez, /readyz, /metrics and /log are served. In a Pod it has to be 0.0.0.0 and a port, so that the
    /// kubelet can ask. Port 0 takes a free one, which the log names
    #[arg(long, env = "WINPOOL_ADMIN_ADDRESS", value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    admin_address: SocketAddr,
    /// What is logged: a level (error, warn, info, debug, trace), or levels by module such as info,winpool=debug
    #[arg(
        long,
        env = "WINPOOL_LOG",
        value_name = "FILTER",
        default_value = "info,kube_client=error,kube_runtime=error"
    )]
    log: String,
    /// Whether pods, and what makes them, are looked at: what cannot run on the pools' nodes, and why. Without, none is
    /// watched, and WorkloadsPlaced is Unknown
    #[arg(long, env = "WINPOOL_WORKLOADS", value_enum, value_name = "ON|OFF", default_value_t)]
    workloads: Switch,
    /// Whether the registries of images are asked what these are for, anonymously, as far as workloads are looked at
    #[arg(long, env = "WINPOOL_REGISTRY", value_enum, value_name = "ON|OFF", default_value_t)]
    registry: Switch,
    #[command(flatten)]
    registries: registry::Args,
    /// Whether private registries are asked with the pull secrets that pods name. The operator has to be allowed to read
    /// these: apply config/pull-secrets
    #[arg(long, env = "WINPOOL_PULL_SECRETS")]
    pull_secrets: bool,
    /// How log lines look
    #[arg(long, env = "WINPOOL_LOG_FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,
}

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    #[default]
    On,
    Off,
}

/// What it means.
#[derive(Debug)]
pub(super) struct Settings {
    namespace: String,
    workloads: bool,
    registry: Option<registry::Args>,
    pull_secrets: bool,
    admin_address: SocketAddr,
    log: String,
    log_format: LogFormat,
}

impl TryFrom<Args> for Settings {
    type Error = Failure;

    fn try_from(args: Args) -> Result<Self, Failure> {
        let Args { admin_address, log, log_format, pull_secrets, .. } = args;
        let namespace = input::namespace(args.namespace)?;
        let workloads = args.workloads == Switch::On;
        let registry = (workloads && args.registry == Switch::On).then_some(args.registries);
        Ok(Self { namespace, admin_address, log, log_format, workloads, registry, pull_secrets })
    }
}

/// Runs the operator until a signal ends it, or a defect.
pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    let runtime = connect::runtime()?;
    let ended = runtime.block_on(observed(settings));
    // What is still under way after the second signal is not waited for.
    runtime.shutdown_background();
    ended
}

/// Runs the operator with logs and traces, and sends the last of them.
async fn observed(settings: Settings) -> Result<(), Failure> {
    let telemetry = Telemetry::start(&settings.log, settings.log_format).map_err(|error| match error {
        telemetry::Error::Filter(error) => Failure::Usage(format!("--log: {error}")),
        error => Failure::Usage(error.to_string()),
    })?;
    let ended = operate(settings, &telemetry).await;
    let _ = spawn_blocking(|| telemetry.stop()).await;
    ended
}

async fn operate(settings: Settings, telemetry: &Telemetry) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let config = connect::config().await?;
    let address = settings.admin_address;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::Usage(format!("cannot listen on {address}: {error}: choose another --admin-address"))
    })?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        api_server = %config.cluster_url,
        namespace = settings.namespace,
        admin = %listener.local_addr().unwrap_or(address),
        "winpool starts"
    );

    if let Some(text) = tables::old(super::today()) {
        warn!("{text}");
    }
    let admin = Admin { metrics: Metrics::default(), ready: Readiness::default(), log: telemetry.filter() };
    let stop = CancellationToken::new();
    let passes = controllers::run(
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
    let server_stop = CancellationToken::new();
    let mut server = tokio::spawn(admin::serve(listener, admin, server_stop.clone()));
    let passes = async { passes.await.map_err(|error| Failure::Defect(with_sources(&error))) };
    let ended = tokio::select! {
        ended = until_told(passes, &mut signals, &stop) => ended,
        ended = &mut server => return Err(Failure::Defect(format!("the admin server ended: {ended:?}"))),
    };
    server_stop.cancel();
    end(server).await;
    info!("winpool has stopped");
    ended
}

/// Lets the passes run until the first signal, then waits for those under way.
async fn until_told(
    passes: impl Future<Output = Result<(), Failure>>,
    signals: &mut Signals,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    tokio::pin!(passes);
    tokio::select! {
        ended = &mut passes => return ended,
        name = signals.next() => info!(signal = name, "stopping: no new pass begins, those under way have {GRACE:?}"),
    }
    stop.cancel();
    tokio::select! {
        ended = timeout(GRACE, passes) => ended.unwrap_or_else(|_| {
            warn!("a pass did not end within {GRACE:?}; the next start takes it up again");
            Ok(())
        }),
        name = signals.next() => Err(Failure::Interrupted(name)),
    }
}

/// Waits for the admin server's last answers, for a moment.
async fn end<T>(server: JoinHandle<T>) {
    if timeout(Duration::from_secs(1), server).await.is_err() {
        warn!("a client of the admin server did not let go");
    }
}

/// The signals that end the operator.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::Usage(format!("cannot wait for signals: {error}")));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// The name of the next one.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: Args,
    }

    fn settings(typed: &[&str]) -> Result<Settings, Failure> {
        Typed::parse_from([&["run"], typed].concat()).args.try_into()
    }

    #[test]
    fn without_options_the_operator_is_in_its_own_namespace_and_serves_loopback_alone() {
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
