//! `winpool run`: the operator.

use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use futures::FutureExt as _;
use kube::Client;
use tokio::{
    net::TcpListener,
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use winpool_api::names::DEFAULT_NAMESPACE;
use winpool_core::{tables, text::with_sources};
use winpool_operator::{
    admin::{self, Admin, Certificate, CertificateError, CertificateSource, Metrics, Readiness},
    cluster::{self, Reviewer, identified, identity},
    controllers,
    telemetry::{self, LogFormat, Telemetry},
};
use winpool_render::allowances::{Allowances, AllowedHost, LabelPrefix};

use super::{CommandError, connect, input, registry, signals::Signals};

/// How long running reconciles may take after the first signal. Less than the default terminationGracePeriodSeconds.
const GRACE_PERIOD: Duration = Duration::from_secs(20);
/// How long the admin server may take to finish its responses.
const ADMIN_SHUTDOWN: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The namespace of the operator, where it stores ConfigMaps
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// The address to serve /livez and /readyz on, and /metrics and /log for clients on loopback. In a Pod use 0.0.0.0, so
    /// that the kubelet can probe it. Port 0 selects a free port, which is logged
    #[arg(long, env = "WINPOOL_ADMIN_ADDRESS", value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    admin_address: SocketAddr,
    #[command(flatten)]
    secure: SecureArgs,
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
    /// Also read volumes and the CSI drivers of nodes, and report the volumes of pods that their nodes do not mount. Requires
    /// --workloads=on, and the permission to read them: apply config/storage
    #[arg(long, env = "WINPOOL_STORAGE")]
    storage: bool,
    /// Look up the platforms of images in their registries, anonymously. Requires --workloads=on
    #[arg(long, env = "WINPOOL_REGISTRY", value_enum, value_name = "ON|OFF", default_value_t)]
    registry: Switch,
    #[command(flatten)]
    registries: registry::Args,
    /// Use the pull secrets of pods for private registries. Requires permission to read them: apply config/pull-secrets
    #[arg(long, env = "WINPOOL_PULL_SECRETS")]
    pull_secrets: bool,
    #[command(flatten)]
    allowed: AllowedArgs,
    /// Write only as the holder of Lease winpool in the namespace of the operator, so that several replicas can run. Without
    /// it, only one process may run
    #[arg(long, env = "WINPOOL_LEADER_ELECTION", value_enum, value_name = "ON|OFF", default_value_t)]
    leader_election: Switch,
    /// The format of log lines
    #[arg(long, env = "WINPOOL_LOG_FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,
    #[command(flatten)]
    cluster: connect::Args,
}

/// What pools and profiles may do only if the operator allows it, as typed.
#[derive(Debug, clap::Args)]
struct AllowedArgs {
    /// A host to which profiles may send image pulls, names of pods and proxied connections: HOST, HOST:PORT, *.DOMAIN or *, with http://
    /// before it if its certificate need not be verified; may be repeated
    #[arg(long = "allow-hosts", env = "WINPOOL_ALLOW_HOSTS", value_name = "HOST", value_delimiter = ',')]
    hosts: Vec<AllowedHost>,
    /// The beginning of labels that pools may set although Kubernetes reserves them, such as node-role.kubernetes.io/windows; may be
    /// repeated
    #[arg(
        long = "allow-label-prefixes",
        env = "WINPOOL_ALLOW_LABEL_PREFIXES",
        value_name = "PREFIX",
        value_delimiter = ','
    )]
    label_prefixes: Vec<LabelPrefix>,
}

/// The options of the HTTPS server as typed.
#[derive(Debug, clap::Args)]
struct SecureArgs {
    /// The address to serve the same on by HTTPS: /metrics and /log for clients with the bearer token of a user who may get
    /// /metrics or put /log (ClusterRole winpool-metrics-reader)
    #[arg(long = "secure-address", env = "WINPOOL_SECURE_ADDRESS", value_name = "IP:PORT")]
    address: Option<SocketAddr>,
    /// The certificate for --secure-address, as PEM. A changed file is read without a restart. Without it, the certificate
    /// is self-signed
    #[arg(
        long = "tls-cert-file",
        env = "WINPOOL_TLS_CERT_FILE",
        value_name = "FILE",
        requires = "key",
        requires = "address"
    )]
    certificate: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(
        long = "tls-private-key-file",
        env = "WINPOOL_TLS_PRIVATE_KEY_FILE",
        value_name = "FILE",
        requires = "certificate"
    )]
    key: Option<PathBuf>,
}

impl Args {
    /// Checks the options. Returns the address and the certificate of the HTTPS server; `None` without an address.
    fn check(&self) -> Result<Option<(SocketAddr, Certificate)>, CommandError> {
        input::namespace(self.namespace.clone())?;
        let Some(address) = self.secure.address else { return Ok(None) };
        let source = match (self.secure.certificate.clone(), self.secure.key.clone()) {
            (Some(certificate), Some(key)) => CertificateSource::Files { certificate, key },
            _ => CertificateSource::SelfSigned,
        };
        let certificate = Certificate::new(source).map_err(|error| {
            CommandError::Usage(format!("{error}. Check --tls-cert-file and --tls-private-key-file, or omit both"))
        })?;
        Ok(Some((address, certificate)))
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    #[default]
    On,
    Off,
}

/// Runs the operator until a signal or a bug ends it.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let secure = args.check()?;
    let runtime = connect::runtime()?;
    let result = runtime.block_on(with_telemetry(args, secure));
    // After the second signal running tasks are not awaited.
    runtime.shutdown_background();
    result
}

/// Runs the operator with logs and traces, and flushes them.
async fn with_telemetry(args: Args, secure: Option<(SocketAddr, Certificate)>) -> Result<(), CommandError> {
    let telemetry = Telemetry::start(&args.log, args.log_format).map_err(|error| match error {
        telemetry::TelemetryError::Filter(error) => CommandError::Usage(format!("--log: {error}")),
        error => CommandError::Usage(error.to_string()),
    })?;
    let result = operate(args, secure, &telemetry).await;
    let _ = spawn_blocking(|| telemetry.stop()).await;
    result
}

async fn operate(
    args: Args,
    secure: Option<(SocketAddr, Certificate)>,
    telemetry: &Telemetry,
) -> Result<(), CommandError> {
    let signals = Signals::listen()?;
    let identity = identity().map_err(|error| CommandError::Internal(with_sources(&error)))?;
    let config = identified(args.cluster.operator_config().await?, &identity);
    let workloads = args.workloads == Switch::On;
    let registries = (workloads && args.registry == Switch::On).then_some(args.registries);
    let registry = registries.map(registry::Args::registry_if_any).transpose()?.flatten();
    let listener = listen(args.admin_address, "--admin-address").await?;
    let secure = match secure {
        Some((address, certificate)) => Some((listen(address, "--secure-address").await?, certificate)),
        None => None,
    };
    let address = |listener: &TcpListener| listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
    info!(
        version = env!("CARGO_PKG_VERSION"),
        api_server = %config.cluster_url,
        namespace = args.namespace,
        admin = address(&listener),
        secure = secure.as_ref().map(|(listener, _)| address(listener)),
        "winpool started"
    );
    if let Some(text) = tables::old(super::today()) {
        warn!("{text}");
    }
    if let Ok(client) = Client::try_from(config.clone()) {
        tokio::spawn(report_definitions(client));
    }

    let admin = Admin { metrics: Metrics::default(), ready: Readiness::default(), log: telemetry.filter() };
    let mut servers = Servers::default();
    if let Some((listener, certificate)) = secure {
        let reviewer = Reviewer::new(config.clone(), &admin.metrics);
        let reviewer = reviewer.map_err(|error| CommandError::Internal(with_sources(&error)))?;
        servers.add(|stop| admin::serve_secure(listener, certificate, Box::new(reviewer), admin.clone(), stop));
    }
    servers.add(|stop| admin::serve(listener, admin.clone(), stop).map(Ok));
    let stop = CancellationToken::new();
    let AllowedArgs { hosts, label_prefixes } = args.allowed;
    let controllers = controllers::run(
        controllers::OperatorSettings {
            config,
            identity,
            namespace: args.namespace,
            metrics: admin.metrics.clone(),
            readiness: admin.ready.clone(),
            workloads,
            storage: args.storage,
            registry,
            pull_secrets: args.pull_secrets,
            allowances: Arc::new(Allowances { hosts, label_prefixes }),
            leader_election: args.leader_election == Switch::On,
        },
        stop.clone(),
    );
    let controllers = async {
        controllers.await.map_err(|error| match error {
            controllers::StartError::Lost(error) => CommandError::NotLeader(error.to_string()),
            controllers::StartError::Unsupported(error) => CommandError::Unsupported(error.to_string()),
            error => CommandError::Internal(with_sources(&error)),
        })
    };
    let result = servers.serve_during(run_until_signal(controllers, signals, stop)).await;
    info!("winpool stopped");
    result
}

/// Logs once that the CustomResourceDefinitions are missing or of another version: with those of another version everything
/// seems to work, but what they do not know is lost.
async fn report_definitions(client: Client) {
    match cluster::problem_of_definitions(&client).await {
        Ok(None) => {}
        Ok(Some(problem)) => warn!(remedy = cluster::DEFINITIONS_REMEDY, "{problem}"),
        Err(error) => warn!(error, "cannot check whether the CustomResourceDefinitions are of this version"),
    }
}

async fn listen(address: SocketAddr, option: &str) -> Result<TcpListener, CommandError> {
    let listener = TcpListener::bind(address).await;
    listener
        .map_err(|error| CommandError::Usage(format!("cannot listen on {address}: {error}. Choose another {option}")))
}

#[derive(Default)]
struct Servers {
    tasks: JoinSet<Result<(), CertificateError>>,
    stop: CancellationToken,
}

impl Servers {
    /// Starts a server, which ends when its token is cancelled.
    fn add<F>(&mut self, serve: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<(), CertificateError>> + Send + 'static,
    {
        self.tasks.spawn(serve(self.stop.clone()));
    }

    /// Runs an operator, and stops the servers when it ends.
    async fn serve_during(
        mut self,
        operator: impl Future<Output = Result<(), CommandError>>,
    ) -> Result<(), CommandError> {
        let result = tokio::select! {
            result = operator => result,
            ended = self.tasks.join_next() => {
                return Err(CommandError::Internal(format!("an admin server stopped unexpectedly: {ended:?}")));
            }
        };
        self.stop.cancel();
        if timeout(ADMIN_SHUTDOWN, self.tasks.join_all()).await.is_err() {
            warn!("admin server did not shut down, a client is still connected");
        }
        result
    }
}

/// Runs the controllers until the first signal, then waits for running reconciles.
async fn run_until_signal(
    controllers: impl Future<Output = Result<(), CommandError>>,
    mut signals: Signals,
    stop: CancellationToken,
) -> Result<(), CommandError> {
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
        signal = signals.next() => Err(CommandError::Interrupted(signal)),
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

    fn checked(args: &[&str]) -> Result<Args, CommandError> {
        let args = CommandLine::parse_from([&["run"], args].concat()).args;
        args.check().map(|_| args)
    }

    #[test]
    fn by_default_the_operator_uses_its_own_namespace_and_serves_loopback_only() {
        let args = checked(&[]).unwrap();
        assert_eq!(args.namespace, "winpool-system");
        assert!(args.admin_address.ip().is_loopback());
        assert_eq!(args.log, "info,kube_client=error,kube_runtime=error");
        assert_eq!(args.log_format, LogFormat::Auto);
    }

    #[test]
    fn a_certificate_requires_its_key_and_an_address() {
        let parse = |args: &[&str]| CommandLine::try_parse_from([&["run"], args].concat()).is_ok();
        for (args, is_valid) in [
            (&["--secure-address=0.0.0.0:1", "--tls-cert-file=a", "--tls-private-key-file=b"][..], true),
            (&["--secure-address=0.0.0.0:1"], true),
            (&["--secure-address=0.0.0.0:1", "--tls-cert-file=a"], false),
            (&["--secure-address=0.0.0.0:1", "--tls-private-key-file=b"], false),
            (&["--tls-cert-file=a", "--tls-private-key-file=b"], false),
        ] {
            assert_eq!(parse(args), is_valid, "{args:?}");
        }
        let failure = checked(&["--secure-address=0.0.0.0:1", "--tls-cert-file=/a", "--tls-private-key-file=/b"]);
        let text = failure.unwrap_err().to_string();
        assert!(text.starts_with("/a: No such file or directory") && text.contains("--tls-cert-file"), "{text}");
    }

    #[test]
    fn a_namespace_is_a_dns_label() {
        for good in ["a", "winpool-system", "0", &"a".repeat(63)] {
            assert!(checked(&["--namespace", good]).is_ok(), "{good}");
        }
        for bad in ["", "A", "a.b", "-a", "a-", "a_b", &"a".repeat(64)] {
            let failure = checked(&[&format!("--namespace={bad}")]).unwrap_err();
            assert!(failure.to_string().starts_with("--namespace: "), "{bad}: {failure}");
        }
    }
}
