//! Upstream's server of CustomResourceDefinitions of today: it compiles and type-checks the rules in CEL, limits their cost,
//! ratchets, and knows strict validation of fields. It serves custom resources only, so that built-in kinds are tested on the
//! whole control plane beside it, which also says who a token is and what it may do.
//!
//! Where it cannot be built, an API server of 1.30 or later in `KUBEBUILDER_ASSETS` takes its place.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{
    assets,
    control_plane::{ControlPlane, Options, User},
    network::{accepts_connections, free_port},
    process::Process,
    requests::Requests,
    wait::eventually,
};

const START_TIMEOUT: Duration = Duration::from_secs(240);

/// The server, and the control plane beside it. Dropping it ends both.
#[derive(Debug)]
pub struct CrdServer {
    /// The server, unless the API server of the control plane takes its place.
    process: Option<Process>,
    pub control_plane: ControlPlane,
    port: u16,
}

/// The first minor whose API server checks what this server checks.
const FIRST_IN_ITS_PLACE: u32 = 30;

impl CrdServer {
    /// Starts it beside a control plane that has served another test, if there is one.
    ///
    /// # Errors
    /// When a program is missing or does not become ready; the message contains the end of its log.
    pub async fn start() -> Result<Self> {
        if assets::crd_server().is_err() {
            return Self::start_beside_new().await;
        }
        Self::start_beside(ControlPlane::start_installed(Options::api_server_only()).await?).await
    }

    /// Starts it beside a control plane in which nothing is installed.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_beside_new() -> Result<Self> {
        Self::start_beside(ControlPlane::start(Options::api_server_only()).await?).await
    }

    async fn start_beside(control_plane: ControlPlane) -> Result<Self> {
        let program = match assets::crd_server() {
            Ok(program) => program,
            Err(_) if control_plane.version().minor >= FIRST_IN_ITS_PLACE => {
                return Ok(Self { process: None, control_plane, port: 0 });
            }
            Err(error) => return Err(error),
        };
        let port = free_port()?;
        let admin = control_plane.kubeconfig(User::Admin);
        let certificates = control_plane.directory().join("crd-server");
        let mut command = Command::new(program);
        command.current_dir(control_plane.directory());
        command.args([
            format!("--etcd-servers={}", control_plane.etcd_url()),
            // The port is no other server's.
            format!("--etcd-prefix=/crd-server-{port}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", certificates.display()),
            format!("--kubeconfig={}", admin.display()),
            format!("--authentication-kubeconfig={}", admin.display()),
            format!("--authorization-kubeconfig={}", admin.display()),
            // They would wait for kinds that an old control plane does not serve.
            "--disable-admission-plugins=MutatingAdmissionPolicy,ValidatingAdmissionPolicy".to_owned(),
        ]);
        let process = Process::spawn("crd-server", command, &control_plane.log_of("crd-server"))?;
        process.ready(START_TIMEOUT, || accepts_connections(port)).await?;
        let server = Self { process: Some(process), control_plane, port };
        server.write_kubeconfig(&certificates)?;
        let requests = server.requests().await?;
        let answers = || async {
            let (status, body) = requests.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await?;
            ensure!(status == 200, "{status}: {body}");
            Ok(())
        };
        eventually("it answers", START_TIMEOUT, answers).await?;
        Ok(server)
    }

    /// Requests to this server. They belong to the async runtime in which they are made.
    ///
    /// # Errors
    /// When no client can be built.
    pub async fn requests(&self) -> Result<Requests> {
        if self.process.is_none() {
            return Requests::to(&self.control_plane).await;
        }
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Requests::new(Client::try_from(config)?))
    }

    fn kubeconfig(&self) -> std::path::PathBuf {
        self.control_plane.directory().join("crd-server.kubeconfig")
    }

    fn write_kubeconfig(&self, certificates: &Path) -> Result<()> {
        let chain = fs::read_to_string(certificates.join("apiserver.crt"))?;
        let start = chain.rfind("-----BEGIN").context("no certificate")?;
        let authority = certificates.join("ca.crt");
        fs::write(&authority, &chain[start..])?;
        let url = format!("https://127.0.0.1:{}", self.port);
        Ok(fs::write(self.kubeconfig(), User::Admin.kubeconfig(&url, &authority))?)
    }
}
