//! `etcd`, `kube-apiserver`, `kube-controller-manager` and `kube-scheduler` on loopback.

mod baseline;
mod database;
mod servers;

use std::{
    ops::Deref,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::sync::OnceCell;
use winpool_api::facts::cluster_api::ApiVersion;

use self::{baseline::Baseline, servers::Servers};
pub use crate::users::{AGENT, OPERATOR_NAMESPACE, OPERATOR_SERVICE_ACCOUNT, User};
use crate::{
    cluster_api::{install_cluster_api, install_cluster_api_permissions},
    directory::Directory,
    install::{install, install_agent_permissions},
};

/// The programs to start, and their arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Start kube-scheduler.
    pub scheduler: bool,
    /// Start kube-controller-manager.
    pub controller_manager: bool,
    /// Further arguments of kube-apiserver.
    pub api_server_arguments: Vec<String>,
    /// Install Cluster API's resources in these versions, and the operator's permissions for them, unless there is no version.
    pub cluster_api: Vec<ApiVersion>,
    /// Install the permissions of the agents, and those that the operator needs for them.
    pub agents: bool,
}

impl Options {
    /// Only etcd and kube-apiserver: starts faster, and is enough for tests that do not schedule Pods.
    #[must_use]
    pub fn api_server_only() -> Self {
        Self {
            scheduler: false,
            controller_manager: false,
            api_server_arguments: Vec::new(),
            cluster_api: Vec::new(),
            agents: false,
        }
    }

    /// Those of the servers that a later test can use again: controllers would still know the objects of the former one.
    fn reusable(&self) -> Self {
        Self { scheduler: false, controller_manager: false, ..self.clone() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { scheduler: true, controller_manager: true, ..Self::api_server_only() }
    }
}

/// A running control plane. Dropping it ends its servers; or keeps them for a later call of [`Self::start_installed`], if they can
/// be used again and the test did not fail.
#[derive(Debug)]
pub struct ControlPlane {
    servers: Arc<Servers>,
    /// What the servers contained before the test, if they can be used again.
    baseline: Option<Baseline>,
}

/// How long servers wait for a later test. In that time they need as much of the processor as new ones for their start.
const KEPT: Duration = Duration::from_secs(150);

/// Servers that no test uses at the moment.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Idle {
    servers: Arc<Servers>,
    baseline: Baseline,
    since: Instant,
}

impl ControlPlane {
    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// When a program is missing or does not become ready; the message contains the end of its log.
    pub async fn start(options: Options) -> Result<Self> {
        let control_plane = Self::start_from(options.clone(), None).await?;
        control_plane.start_components(&options).await?;
        Ok(control_plane)
    }

    /// Like [`Self::start`] and [`install`], but from a copy of a database in which everything is installed. The first call of
    /// this process makes the database, by running `kubectl` as a user does. Idle servers with the same options are used
    /// again, with the objects that they contained at first.
    ///
    /// # Errors
    /// As these.
    pub async fn start_installed(options: Options) -> Result<Self> {
        let reusable = options.reusable();
        let control_plane = match Self::reuse(&reusable).await? {
            Some(control_plane) => control_plane,
            None => Self::start_reusable(reusable).await?,
        };
        control_plane.start_components(&options).await?;
        Ok(control_plane)
    }

    async fn reuse(options: &Options) -> Result<Option<Self>> {
        while let Some(Idle { servers, baseline, .. }) = take_idle(options) {
            if let Some(baseline) = baseline.restore(&servers).await? {
                return Ok(Some(Self { servers, baseline: Some(baseline) }));
            }
        }
        Ok(None)
    }

    async fn start_reusable(options: Options) -> Result<Self> {
        let mut control_plane = Self::start_from(options, Some(installed().await?)).await?;
        control_plane.serves_operator().await?;
        control_plane.install_options().await?;
        control_plane.baseline = Some(Baseline::read(&control_plane).await?);
        Ok(control_plane)
    }

    async fn install_options(&self) -> Result<()> {
        if !self.options.cluster_api.is_empty() {
            install_cluster_api(self, &self.options.cluster_api).await?;
            install_cluster_api_permissions(self)?;
        }
        if self.options.agents {
            install_agent_permissions(self)?;
        }
        Ok(())
    }

    async fn start_from(options: Options, database: Option<&Path>) -> Result<Self> {
        Ok(Self { servers: Arc::new(Servers::start(options, database).await?), baseline: None })
    }
}

impl Deref for ControlPlane {
    type Target = Servers;

    fn deref(&self) -> &Servers {
        &self.servers
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some(baseline) = self.baseline.take().filter(|_| !std::thread::panicking()) {
            self.servers.stop_components();
            idle().push(Idle { servers: self.servers.clone(), baseline, since: Instant::now() });
        }
        // Their processes are ended without the lock.
        let old: Vec<_> = idle().extract_if(.., |idle| idle.since.elapsed() > KEPT).collect();
        drop(old);
    }
}

/// The folder of a database in which the operator's resources are installed.
async fn installed() -> Result<&'static Path> {
    static INSTALLED: OnceCell<Directory> = OnceCell::const_new();
    let make = async || {
        let control_plane = ControlPlane::start(Options::api_server_only()).await?;
        install(&control_plane)?;
        let directory = Directory::new()?;
        control_plane.copy_database(directory.path()).await?;
        anyhow::Ok(directory)
    };
    INSTALLED.get_or_try_init(make).await.map(Directory::path)
}

/// Of those with these options, the servers that have waited for the shortest time: others end when nothing uses them.
fn take_idle(options: &Options) -> Option<Idle> {
    let mut idle = idle();
    let position = idle.iter().rposition(|idle| idle.servers.options == *options)?;
    Some(idle.remove(position))
}

fn idle() -> MutexGuard<'static, Vec<Idle>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
