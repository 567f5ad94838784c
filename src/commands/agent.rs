//! `winpool agent`: the node agent.

use clap::Subcommand;

#[cfg(not(windows))]
use super::Failure;
use crate::api::names::DEFAULT_NAMESPACE;

/// The options as typed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
#[cfg_attr(not(windows), allow(dead_code))] // the agent configures Windows
enum Action {
    /// Apply the configuration of this node's WindowsNodeConfig, verify it, and roll it back if it does not work
    Run(RunArgs),
    /// Restore the configuration that the node had before a change that is not confirmed yet
    Restore(RestoreArgs),
}

#[derive(Debug, clap::Args)]
#[cfg_attr(not(windows), allow(dead_code))]
struct RunArgs {
    /// The name of the node
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node: String,
    /// The namespace of the operator, where it stores ConfigMaps
    #[arg(long, env = "WINPOOL_NAMESPACE", value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,
    /// The log level (error, warn, info, debug, trace), or levels by module such as info,winpool=debug
    #[arg(
        long,
        env = "WINPOOL_LOG",
        value_name = "FILTER",
        default_value = "info,kube_client=error,kube_runtime=error"
    )]
    log: String,
}

#[derive(Debug, clap::Args)]
#[cfg_attr(not(windows), allow(dead_code))]
struct RestoreArgs {
    /// Run as the Windows service that the agent installs while a change is not confirmed
    #[arg(long)]
    service: bool,
}

#[cfg(not(windows))]
pub(super) fn run(args: Args) -> Result<(), Failure> {
    let Args { action: Action::Run(_) | Action::Restore(_) } = args;
    Err(Failure::Usage("the agent configures Windows nodes: run it on Windows, as config/agent does".to_owned()))
}

#[cfg(windows)]
pub(super) use windows::run;

#[cfg(windows)]
mod windows {
    use std::{
        fs::{self, File},
        io,
        path::Path,
    };

    use kube::{Client, Config};

    use super::{Action, Args, RestoreArgs, RunArgs};
    use crate::{
        agent::{
            credentials,
            cycle::{Cluster, Cycle, Limits, PodPhase},
            run::{self, Options},
            windows::Windows,
            windows_service,
        },
        cluster::with_sources,
        commands::{Failure, connect, signals::Signals},
        telemetry::{LogFormat, Telemetry},
    };

    /// Held by the process that changes the node: the agent, or the restore after a reboot.
    const LOCK: &str = r"C:\ProgramData\winpool\lock";

    pub(in super::super) fn run(args: Args) -> Result<(), Failure> {
        match args.action {
            Action::Run(args) => connect::runtime()?.block_on(agent(args)),
            Action::Restore(RestoreArgs { service: true }) => windows_service::run(restore).map_err(on_node),
            Action::Restore(RestoreArgs { service: false }) => restore().map_err(on_node),
        }
    }

    async fn agent(args: RunArgs) -> Result<(), Failure> {
        let telemetry =
            Telemetry::start(&args.log, LogFormat::default()).map_err(|error| Failure::Usage(with_sources(&error)))?;
        let config = match std::env::var_os(credentials::MOUNT_POINT) {
            Some(_) => credentials::in_cluster(|name| std::env::var(name).ok(), |path| fs::read(path))
                .map_err(|error| Failure::Cluster(error.to_string()))?,
            None => Config::infer().await.map_err(|error| Failure::Cluster(with_sources(&error)))?,
        };
        let client = Client::try_from(config).map_err(|error| Failure::Cluster(with_sources(&error)))?;
        let _lock = lock().map_err(on_node)?;
        let mut signals = Signals::listen()?;
        let options = Options { node: args.node, namespace: args.namespace, limits: Limits::default() };
        let stop = async move {
            let _ = signals.next().await;
        };
        let result = run::run(client, Windows, options, stop).await.map_err(on_node);
        telemetry.stop();
        result
    }

    /// Needs neither the network nor the API server.
    fn restore() -> io::Result<()> {
        let _lock = lock()?;
        Cycle::resume(&Windows, &NoCluster, Limits::default())?.restore()
    }

    fn lock() -> io::Result<File> {
        fs::create_dir_all(Path::new(LOCK).parent().unwrap_or(Path::new("")))?;
        let file = File::create(LOCK)?;
        file.lock()?;
        Ok(file)
    }

    fn on_node(error: io::Error) -> Failure {
        Failure::Problems(format!("this node: {error}"))
    }

    /// A restore reads nothing from the API server.
    struct NoCluster;

    impl Cluster for NoCluster {
        fn lease_renewed(&self) -> io::Result<Option<jiff::Timestamp>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn pods(&self) -> io::Result<std::collections::BTreeMap<String, PodPhase>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}
