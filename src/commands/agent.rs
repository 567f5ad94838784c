//! `winpool agent`: the node agent.

use std::time::Duration;

use clap::Subcommand;

#[cfg(not(windows))]
use super::Failure;
use crate::{api::names::DEFAULT_NAMESPACE, domain::kubernetes::duration};

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
    /// Restore the configuration that the node had before the first change, and remove the files of the agent. Stop the agent
    /// before
    Uninstall(LimitArgs),
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
    #[command(flatten)]
    limits: LimitArgs,
    /// How often to compare the node with the applied configuration, and to check a refused one again
    #[arg(long, env = "WINPOOL_CHECK_INTERVAL", value_name = "DURATION", default_value = "5m", value_parser = positive)]
    check_interval: Duration,
    /// The log level (error, warn, info, debug, trace), or levels by module such as info,winpool=debug
    #[arg(
        long,
        env = "WINPOOL_LOG",
        value_name = "FILTER",
        default_value = "info,kube_client=error,kube_runtime=error"
    )]
    log: String,
}

/// The time limits of a change. How long the operator may take to confirm it is in the WindowsNodeConfig.
#[derive(Debug, clap::Args)]
#[cfg_attr(not(windows), allow(dead_code))]
struct LimitArgs {
    /// How long a service may take to stop before its processes are killed, and to start
    #[arg(long, env = "WINPOOL_SERVICE_TIMEOUT", value_name = "DURATION", default_value = "1m", value_parser = positive)]
    service_timeout: Duration,
    /// How long the restarted services must be healthy without interruption
    #[arg(long, env = "WINPOOL_STABLE", value_name = "DURATION", default_value = "15s", value_parser = positive)]
    stable: Duration,
    /// How long the restarted services may take to be healthy, before the change is rolled back
    #[arg(long, env = "WINPOOL_VERIFY_TIMEOUT", value_name = "DURATION", default_value = "3m", value_parser = positive)]
    verify_timeout: Duration,
}

/// A duration in the format of Go that is not zero.
fn positive(text: &str) -> Result<Duration, &'static str> {
    let nanos = duration::parse(text).and_then(|nanos| u64::try_from(nanos).ok()).filter(|nanos| *nanos > 0);
    nanos.map(Duration::from_nanos).ok_or("write a number and a unit, such as 15s or 1m30s")
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
    let Args { action: Action::Run(_) | Action::Restore(_) | Action::Uninstall(_) } = args;
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

    use http::Uri;
    use kube::{Client, Config};

    use super::{Action, Args, LimitArgs, RestoreArgs, RunArgs};
    use crate::{
        agent::{
            credentials,
            cycle::{Cycle, Limits},
            run::{self, Options},
            uninstall,
            windows::Windows,
            windows_service,
        },
        cluster::with_sources,
        commands::{Failure, connect, signals::Signals},
        telemetry::{LogFormat, Telemetry},
    };

    /// Held by the process that changes the node: the agent, or the restore after a reboot.
    const LOCK: &str = r"C:\ProgramData\winpool\lock";

    /// What the agent has created: its state, and its copy for restores after a reboot.
    const DIRECTORIES: [&str; 2] = [r"C:\ProgramData\winpool", r"C:\Program Files\winpool"];
    /// The kubelet's default address on its own node.
    const KUBELET: &str = "https://127.0.0.1:10250";

    pub(in super::super) fn run(args: Args) -> Result<(), Failure> {
        match args.action {
            Action::Run(args) => connect::runtime()?.block_on(agent(args)),
            Action::Restore(RestoreArgs { service: true }) => windows_service::run(restore).map_err(on_node),
            Action::Restore(RestoreArgs { service: false }) => restore().map_err(on_node),
            Action::Uninstall(limits) => uninstall(limits.into()).map_err(on_node),
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
        let client = |config| Client::try_from(config).map_err(|error| Failure::Cluster(with_sources(&error)));
        let kubelet = client(kubelet_config(&config))?;
        let client = client(config)?;
        let _lock = lock().map_err(on_node)?;
        let mut signals = Signals::listen()?;
        let RunArgs { node, namespace, limits, check_interval, .. } = args;
        let options = Options { node, namespace, limits: limits.into(), check_interval, kubelet: Some(kubelet) };
        let stop = async move {
            let _ = signals.next().await;
        };
        let result = run::run(client, Windows, options, stop).await.map_err(on_node);
        telemetry.stop();
        result
    }

    /// The kubelet of this node, which authenticates the agent by its token. Its certificate is usually signed by itself.
    fn kubelet_config(config: &Config) -> Config {
        let mut kubelet = Config::new(Uri::from_static(KUBELET));
        kubelet.auth_info = config.auth_info.clone();
        kubelet.accept_invalid_certs = true;
        kubelet
    }

    /// Needs neither the network nor the API server.
    fn restore() -> io::Result<()> {
        let _lock = lock()?;
        Cycle::resume(&Windows, Limits::default())?.restore()
    }

    fn uninstall(limits: Limits) -> io::Result<()> {
        let lock = lock()?;
        uninstall::uninstall(&Windows, limits)?;
        drop(lock);
        for directory in DIRECTORIES {
            match fs::remove_dir_all(directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
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

    impl From<LimitArgs> for Limits {
        fn from(args: LimitArgs) -> Self {
            let LimitArgs { service_timeout: service, stable, verify_timeout: verify } = args;
            Self { service, stable, verify, ..Self::default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_units_and_is_not_zero() {
        for (text, expected) in [("15s", Some(15_000)), ("1m30s", Some(90_000)), ("0", None), ("15", None), ("", None)]
        {
            assert_eq!(positive(text).ok(), expected.map(Duration::from_millis), "{text}");
        }
    }
}
