//! `etcd`, `kube-apiserver`, `kube-controller-manager` and `kube-scheduler` on loopback.

mod baseline;
mod database;
mod servers;

use std::{
    ops::Deref,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use tokio::sync::OnceCell;
use winpool_facts::cluster_api::VERSION;

use self::{baseline::Baseline, servers::Servers};

pub use crate::users::{AGENT, OPERATOR_NAMESPACE, User};
use crate::{
    cluster_api::{install_cluster_api, install_cluster_api_permissions},
    directory::Directory,
    install::{install, install_agent_permissions},
    shared::lock,
};

/// The programs to start, and their arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub scheduler: bool,
    pub controller_manager: bool,
    /// Further arguments of kube-apiserver.
    pub api_server_arguments: Vec<String>,
    /// Install Cluster API's resources, and the operator's permissions for them.
    pub cluster_api: bool,
    /// Install the permissions of the agents, and those that the operator needs for them.
    pub agents: bool,
    /// Accept nodes that join with a token, to which the controller manager issues their certificates.
    pub bootstrap: bool,
    /// Pods run on a [`LinuxNode`](crate::linux_node::LinuxNode): they need a ServiceAccount, whose token they get.
    pub pods: bool,
}

impl Options {
    /// Only etcd and kube-apiserver: starts faster, and is enough for tests that do not schedule Pods.
    pub fn api_server_only() -> Self {
        Self {
            scheduler: false,
            controller_manager: false,
            api_server_arguments: Vec::new(),
            cluster_api: false,
            agents: false,
            bootstrap: false,
            pods: false,
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

/// How many servers wait for a later test, at most. They are frozen, so that they need no time of the processor; each has about 400 MB.
const KEPT: usize = 8;

/// Servers that no test uses at the moment, those that wait for the longest time first.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Idle {
    servers: Arc<Servers>,
    baseline: Baseline,
}

impl ControlPlane {
    /// Starts it, with nothing but what Kubernetes creates, and waits until it answers.
    pub async fn start(options: Options) -> Result<Self> {
        let control_plane = Self::start_with(options.clone(), Content::Empty).await?;
        control_plane.start_components(&options).await?;
        Ok(control_plane)
    }

    /// Like [`Self::start`] and [`install`], but from a copy of a database in which everything is installed. The first call of
    /// this process makes the database, by running `kubectl` as a user does. Idle servers with the same options are used
    /// again, with the objects that they contained at first.
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
        while let Some(Idle { servers, baseline }) = take_idle(options) {
            servers.thaw();
            if let Some(baseline) = baseline.restore(&servers).await? {
                return Ok(Some(Self { servers, baseline: Some(baseline) }));
            }
        }
        Ok(None)
    }

    async fn start_reusable(options: Options) -> Result<Self> {
        let content = Content::of(&options);
        let mut control_plane = Self::start_with(options, content).await?;
        control_plane.serves_operator().await?;
        control_plane.baseline = Some(Baseline::read(&control_plane).await?);
        Ok(control_plane)
    }

    async fn start_with(options: Options, content: Content) -> Result<Self> {
        let database = content.database().await?;
        Ok(Self { servers: Arc::new(Servers::start(options, Some(database.path())).await?), baseline: None })
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
            self.servers.freeze();
            // The processes of those that are too many are ended without the lock.
            drop(keep(Idle { servers: self.servers.clone(), baseline }));
        }
    }
}

/// What a database contains, of which servers start with a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// What an API server creates when it starts for the first time.
    Empty,
    /// The operator's resources.
    Installed,
    /// These, and what the options name.
    More { cluster_api: bool, agents: bool },
}

impl Content {
    fn of(options: &Options) -> Self {
        match *options {
            Options { cluster_api: false, agents: false, .. } => Self::Installed,
            Options { cluster_api, agents, .. } => Self::More { cluster_api, agents },
        }
    }

    /// The database with this content, which the first call makes.
    async fn database(self) -> Result<Arc<Directory>> {
        type Made = Arc<OnceCell<Arc<Directory>>>;
        static DATABASES: Mutex<Vec<(Content, Made)>> = Mutex::new(Vec::new());
        let made = {
            let mut all = lock(&DATABASES);
            let known = all.iter().find(|(content, _)| *content == self).map(|(_, made)| made.clone());
            known.unwrap_or_else(|| {
                all.push((self.clone(), Made::default()));
                all[all.len() - 1].1.clone()
            })
        };
        // It needs the database with less.
        let make = async || Box::pin(self.make()).await.map(Arc::new);
        made.get_or_try_init(make).await.cloned()
    }

    async fn make(&self) -> Result<Directory> {
        let options = Options::api_server_only();
        let control_plane = match self {
            Self::Empty => ControlPlane { servers: Arc::new(Servers::start(options, None).await?), baseline: None },
            Self::Installed => {
                let control_plane = ControlPlane::start_with(options, Self::Empty).await?;
                install(&control_plane)?;
                control_plane
            }
            Self::More { cluster_api, agents } => {
                let control_plane = ControlPlane::start_with(options, Self::Installed).await?;
                control_plane.serves_operator().await?;
                if *cluster_api {
                    install_cluster_api(&control_plane, VERSION).await?;
                    install_cluster_api_permissions(&control_plane)?;
                }
                if *agents {
                    install_agent_permissions(&control_plane)?;
                }
                control_plane
            }
        };
        let directory = Directory::new()?;
        control_plane.copy_database(directory.path()).await?;
        Ok(directory)
    }
}

/// Of those with these options, the servers that have waited for the shortest time: others end when nothing uses them.
fn take_idle(options: &Options) -> Option<Idle> {
    let mut idle = lock(&IDLE);
    let position = idle.iter().rposition(|idle| idle.servers.options == *options)?;
    Some(idle.remove(position))
}

/// Keeps these servers for a later test. Returns those that are too many.
fn keep(servers: Idle) -> Option<Idle> {
    let mut idle = lock(&IDLE);
    idle.push(servers);
    (idle.len() > KEPT).then(|| idle.remove(0))
}
