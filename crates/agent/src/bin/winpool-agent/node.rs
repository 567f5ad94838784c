//! The actions of the program.

use std::{
    fs::{self, File, TryLockError},
    io,
};

use http::Uri;
use kube::{Client, Config};
use tokio::{
    runtime::{Builder, Runtime},
    signal::windows::{ctrl_c, ctrl_shutdown},
};
use winpool_agent::{
    credentials,
    cycle::{Cycle, Limits, RestoreCause},
    lock,
    run::{self, AgentOptions},
    uninstall,
    windows::Windows,
    windows_service,
};
use winpool_core::text::with_sources;
use winpool_render::allowances::Allowances;

use super::{Action, Failure, LimitArgs, RestoreArgs, RunArgs, log};

/// Held by the process that changes the node: the agent, or the restore after a reboot.
const LOCK: &str = r"C:\Program Files\winpool\lock";

/// What the agent has created: its state, and its copy for restores after a reboot. Only administrators can write below
/// `C:\Program Files`, while every user can create files below `C:\ProgramData`.
const DIRECTORY: &str = r"C:\Program Files\winpool";
/// The kubelet's default address on its own node.
const KUBELET: &str = "https://127.0.0.1:10250";

/// Runs a command of the agent.
pub fn run(action: Action) -> Result<(), Failure> {
    match action {
        Action::Run(args) => runtime()?.block_on(agent(args)),
        Action::Restore(RestoreArgs { service: true }) => Ok(windows_service::run(restore_at_start)?),
        Action::Restore(RestoreArgs { service: false }) => Ok(restore()?),
        Action::Uninstall(limits) => Ok(uninstall(limits.into())?),
    }
}

async fn agent(args: RunArgs) -> Result<(), Failure> {
    log::start(&args.log).map_err(|error| Failure::Usage(error.to_string()))?;
    let config = match std::env::var_os(credentials::MOUNT_POINT) {
        Some(_) => credentials::in_cluster(|name| std::env::var(name).ok(), |path| fs::read(path))
            .map_err(|error| Failure::Cluster(error.to_string()))?,
        None => Config::infer().await.map_err(|error| Failure::Cluster(with_sources(&error)))?,
    };
    let client = |config| Client::try_from(config).map_err(|error| Failure::Cluster(with_sources(&error)));
    let kubelet = client(kubelet_config(&config))?;
    let client = client(config)?;
    let _lock = lock()?;
    let stop = stopped().map_err(|error| Failure::Usage(format!("cannot handle signals: {error}")))?;
    let RunArgs { node, namespace, allow_hosts, limits, check_interval, .. } = args;
    let allowances = Allowances { hosts: allow_hosts, ..Allowances::default() };
    let (limits, kubelet) = (limits.into(), Some(kubelet));
    let options = AgentOptions { node, namespace, limits, allowances, check_interval, kubelet };
    Ok(run::run(client, Windows, options, stop).await?)
}

/// One thread for the watch and one for the change that it interrupts.
fn runtime() -> Result<Runtime, Failure> {
    let failure = |error: io::Error| Failure::Usage(format!("cannot start threads: {error}"));
    Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failure)
}

/// Waits for the end of the container, which is `CTRL_SHUTDOWN_EVENT`, or for Ctrl-C.
fn stopped() -> io::Result<impl Future<Output = ()>> {
    let (mut shutdown, mut interrupt) = (ctrl_shutdown()?, ctrl_c()?);
    Ok(async move {
        tokio::select! {
            _ = shutdown.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// The kubelet of this node, which authenticates the agent by its token. Its certificate is usually signed by itself.
fn kubelet_config(config: &Config) -> Config {
    let mut kubelet = Config::new(Uri::from_static(KUBELET));
    kubelet.auth_info = config.auth_info.clone();
    kubelet.accept_invalid_certs = true;
    kubelet
}

/// Needs neither the network nor the API server.
fn restore_at_start() -> io::Result<()> {
    let _lock = lock()?;
    Cycle::resume(&Windows, Limits::default())?.restore(RestoreCause::Reboot)
}

fn restore() -> io::Result<()> {
    let _lock = lock_by_hand()?;
    Cycle::resume(&Windows, Limits::default())?.restore(RestoreCause::ByHand)
}

fn uninstall(limits: Limits) -> io::Result<()> {
    let lock = lock_by_hand()?;
    uninstall::uninstall(&Windows, limits)?;
    drop(lock);
    match fs::remove_dir_all(DIRECTORY) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Waits for the lock: the agent for another one that ends, the restore after a reboot for an agent that has just started.
fn lock() -> io::Result<File> {
    let file = lock_file()?;
    file.lock()?;
    Ok(file)
}

/// Does not wait for the lock, because the agent holds it as long as it runs.
fn lock_by_hand() -> io::Result<File> {
    let file = lock_file()?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(lock::held(&Windows, LOCK, std::process::id())),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn lock_file() -> io::Result<File> {
    fs::create_dir_all(DIRECTORY)?;
    File::create(LOCK)
}

impl From<LimitArgs> for Limits {
    fn from(args: LimitArgs) -> Self {
        let LimitArgs { service_timeout: service, stable, verify_timeout: verify } = args;
        Self { service, stable, verify, ..Self::default() }
    }
}
