//! A Windows node under Wine, joined to the real API server: the kubelet and containerd as Windows services, and
//! `winpool-agent.exe run`.
//!
//! Its programs are upstream's, and differ from a node with Windows in this:
//! - No container runs, so that pods stay pending: instead of the libraries of the host compute services there are stand-ins
//!   (`e2e/windows/dll`), of which a test sets the answers, and there is no shim. Of the functions in them only those that containerd
//!   calls until then are there.
//! - Wine has no texts for codes of these services: messages have their numbers.
//! - There are no sockets of UNIX: the kubelet has no device plugins and no CSI drivers, and one line of it is changed, by which its own
//!   socket for device plugins listens on loopback (`program.sh`).
//! - The kubelet finds no address of the node: the API server does not reach it, tests do on loopback.
//! - What the kubelet measures of the node is what `e2e/windows/dll/pdh.c` answers; the memory that is committed, by which it evicts from
//!   1.31 on, is that of this machine.
//! - There are no symbolic links: the lab copies the newest certificate of a kubelet to the name that is a link on Windows.
//! - containerd is a child process of its service, as with a service wrapper: its own service needs a parent that Wine does not show.
//!
//! With [`Programs::Scripted`] they are stand-ins that fail as a test asks, in ways that upstream's do not show on request.

mod join;
mod system;
pub mod user_data;

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use kube::{Client, Config};
use serde_json::{Value, json};
use winpool_agent::journal::{JOURNAL, Journal};
use winpool_facts::{ContainerRuntime, containerd::PIPE};

pub use self::{join::Invitation, system::Release};
use crate::{
    assets,
    control_plane::{ControlPlane, User},
    network::{free_port, http_get},
    process::{Process, output, tail},
    wine::Prefix,
};

/// The file of the kubelet's flag `--config`, as kubeadm writes it.
pub const KUBELET_CONFIG: &str = r"C:\var\lib\kubelet\config.yaml";
/// The configuration of containerd.
pub const CONTAINERD_CONFIG: &str = r"C:\Program Files\containerd\config.toml";
/// The service that restores the former configuration after a reboot.
pub const RESTORE_SERVICE: &str = "winpool-restore";

const KUBELET: &str = "kubelet";
const CONTAINERD: &str = "containerd";
const KUBELET_PROGRAM: &str = r"C:\k\kubelet.exe";
const KUBELET_LOG: &str = r"C:\var\log\kubelet\kubelet.log";
/// A program in the place of nssm, which runs the kubelet as its start script does.
const NSSM: &str = r"C:\k\nssm.exe";
const START_SCRIPT: &str = r"C:\k\StartKubelet.ps1";
/// The flags that the start script adds to its own.
pub const KUBEADM_FLAGS: &str = r"C:\var\lib\kubelet\kubeadm-flags.env";
const LOG_RUNNER: &str = r"C:\k\kube-log-runner.exe";
const SERVICE_HOST: &str = r"C:\k\service-host.exe";
const CONTAINERD_PROGRAM: &str = r"C:\Program Files\containerd\containerd.exe";
const CONTAINERD_LOG: &str = r"C:\var\log\containerd.log";
const KUBELET_KUBECONFIG: &str = r"C:\etc\kubernetes\kubelet.conf";
const AGENT_KUBECONFIG: &str = r"C:\etc\kubernetes\agent.conf";
/// The endpoint of containerd for the kubelet and kubeadm.
const ENDPOINT: &str = ContainerRuntime::Containerd(()).endpoint();
/// What the stand-ins for libraries answer: `e2e/windows/dll/answers.h`.
const ANSWERS: &str = r"C:\answers.txt";
/// The network of pods, without which the kubelet reports that it is not ready. Its program is run only for a sandbox.
const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "win-bridge"}]}"#;

/// The programs of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programs {
    /// Upstream's kubelet, and the containerd of this name in `e2e/program.sh`.
    Upstream { containerd: &'static str },
    /// Stand-ins, whose failures are in a file beside their configuration.
    Scripted,
}

impl Programs {
    /// The time limits of the agent: enough for a busy machine, and not more than the services of a node need.
    fn limits(self) -> [&'static str; 3] {
        match self {
            Self::Upstream { .. } => ["--service-timeout=60s", "--stable=2s", "--verify-timeout=150s"],
            Self::Scripted => ["--service-timeout=5s", "--stable=1s", "--verify-timeout=8s"],
        }
    }
}

/// A node before it starts.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    pub programs: Programs,
    /// The folder of the project's programs for Windows.
    pub folder: &'a Path,
    pub name: &'a str,
    /// The value of the label `agentpool`.
    pub pool: &'a str,
    pub release: Release,
    /// Fields of its KubeletConfiguration, beside those that every node has.
    pub kubelet: Value,
    /// Further flags of the kubelet.
    pub kubelet_args: Vec<String>,
    /// The configuration of containerd; without one, containerd's default.
    pub containerd_toml: Option<String>,
    /// Whether nssm runs the kubelet with a start script, as kubeadm's tools for Windows install it, and not the service manager.
    pub nssm: bool,
}

impl<'a> Setup<'a> {
    /// A node with upstream's programs of today, which no profile has configured.
    pub fn new(folder: &'a Path, name: &'a str, pool: &'a str) -> Self {
        Self {
            programs: Programs::Upstream { containerd: "containerd.exe" },
            folder,
            name,
            pool,
            release: Release::LTSC2022,
            kubelet: json!({}),
            kubelet_args: Vec::new(),
            containerd_toml: None,
            nssm: false,
        }
    }
}

/// A node. Everything that runs on it ends with this value; if the test has failed, the ends of its logs are printed.
#[derive(Debug)]
pub struct WindowsNode {
    name: String,
    programs: Programs,
    folder: PathBuf,
    agent: Option<Process>,
    agents: u32,
    port: u16,
    health_port: u16,
    original_files: Vec<(&'static str, String)>,
    logs: PathBuf,
    prefix: Prefix,
}

impl WindowsNode {
    /// Installs a node and starts its services. The kubelet registers it.
    pub fn start(control_plane: &ControlPlane, setup: &Setup<'_>) -> Result<Self> {
        let mut node = Self::install(control_plane, setup)?;
        let mut kubelet = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": "127.0.0.1", "port": node.port, "healthzPort": node.health_port,
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "clusterDNS": ["10.96.0.10"], "clusterDomain": "cluster.local",
            // No pressure, however full the disk of this machine is.
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
            // Up to 1.30, a kubelet with Windows does not start with the defaults.
            "cgroupsPerQOS": false, "enforceNodeAllocatable": [],
        });
        json_patch::merge(&mut kubelet, &setup.kubelet);
        node.write_original(KUBELET_CONFIG, serde_saphyr::to_string(&kubelet)?)?;
        let kubeconfig = control_plane.kubelet_kubeconfig(&node.name)?;
        node.write(KUBELET_KUBECONFIG, &with_authority(control_plane, &kubeconfig)?)?;
        node.start_services()?;
        Ok(node)
    }

    /// Installs a node, with everything but the files of its kubelet.
    fn install(control_plane: &ControlPlane, setup: &Setup<'_>) -> Result<Self> {
        let (port, health_port) = (free_port()?, free_port()?);
        let mut node = Self {
            name: setup.name.to_owned(),
            programs: setup.programs,
            folder: setup.folder.to_owned(),
            agent: None,
            agents: 0,
            port,
            health_port,
            original_files: Vec::new(),
            logs: control_plane.directory().join("logs"),
            prefix: Prefix::new()?,
        };
        node.install_programs()?;
        if setup.programs != Programs::Scripted {
            system::set_registry(&node.prefix, setup.release, 1)?;
        }
        let containerd = setup.containerd_toml.clone().map_or_else(|| node.default_of_containerd(), Ok)?;
        node.write_original(CONTAINERD_CONFIG, containerd)?;
        node.write_files(control_plane)?;
        node.install_services(setup)?;
        Ok(node)
    }

    /// Writes one of the [`Self::original_files`], which an agent may change.
    fn write_original(&mut self, path: &'static str, text: String) -> Result<()> {
        self.write(path, &text)?;
        self.original_files.push((path, text));
        Ok(())
    }

    fn install_programs(&self) -> Result<()> {
        let own = |name: &str| self.folder.join(name);
        let programs = match self.programs {
            Programs::Upstream { containerd } => {
                system::install_libraries(&self.prefix)?;
                vec![
                    (KUBELET_PROGRAM, assets::program("kubelet-for-wine.exe")?),
                    (LOG_RUNNER, assets::program("kube-log-runner.exe")?),
                    (CONTAINERD_PROGRAM, assets::program(containerd)?),
                    (SERVICE_HOST, own("helper.exe")),
                    (NSSM, own("helper.exe")),
                ]
            }
            Programs::Scripted => {
                vec![(KUBELET_PROGRAM, own("fake-kubelet.exe")), (CONTAINERD_PROGRAM, own("fake-containerd.exe"))]
            }
        };
        for (path, program) in programs {
            let path = self.prefix.file(path);
            fs::create_dir_all(path.parent().context("a directory")?)?;
            symlink(program, path)?;
        }
        Ok(())
    }

    fn default_of_containerd(&self) -> Result<String> {
        match self.programs {
            Programs::Scripted => Ok("version = 2\n".to_owned()),
            Programs::Upstream { .. } => {
                output(self.prefix.command(&self.prefix.file(CONTAINERD_PROGRAM)).args(["config", "default"]))
            }
        }
    }

    fn write_files(&self, control_plane: &ControlPlane) -> Result<()> {
        self.write(r"C:\Program Files\containerd\cni\conf\10-pods.conflist", NETWORK)?;
        let agent = fs::read_to_string(control_plane.kubeconfig(User::Agent))?;
        self.write(AGENT_KUBECONFIG, &with_authority(control_plane, &agent)?)?;
        fs::create_dir_all(self.prefix.file(r"C:\var\log\kubelet"))?;
        Ok(())
    }

    /// As kubeadm's nodes have them (image-builder ae63061, `images/capi/ansible/windows/roles/kubernetes/tasks/sc.yml`).
    fn install_services(&self, setup: &Setup<'_>) -> Result<()> {
        let files = format!("--config={KUBELET_CONFIG} --kubeconfig={KUBELET_KUBECONFIG}");
        let identity = format!("--hostname-override={} --node-labels=agentpool={}", self.name, setup.pool);
        let mut kubelet = format!("{KUBELET_PROGRAM} --windows-service {files} {identity}");
        let containerd = match self.programs {
            Programs::Upstream { .. } => {
                kubelet = format!(
                    r"{LOG_RUNNER} --log-file={KUBELET_LOG} {kubelet} --cert-dir=C:\var\lib\kubelet\pki --root-dir=C:\var\lib\kubelet --container-runtime-endpoint={ENDPOINT}"
                );
                format!(
                    r#"{SERVICE_HOST} host {CONTAINERD_LOG} {PIPE} "{CONTAINERD_PROGRAM}" --config "{CONTAINERD_CONFIG}""#
                )
            }
            Programs::Scripted => format!(r#""{CONTAINERD_PROGRAM}" --run-service"#),
        };
        for arg in &setup.kubelet_args {
            kubelet = format!("{kubelet} {arg}");
        }
        if setup.nssm {
            let flags = format!(r"{files} {identity} --cert-dir=C:\var\lib\kubelet\pki --root-dir=C:\var\lib\kubelet");
            kubelet = format!("{NSSM} host {KUBELET_LOG} - {KUBELET_PROGRAM} {flags} @{KUBEADM_FLAGS}");
            self.write(START_SCRIPT, &format!("{KUBELET_PROGRAM} {flags} $kubeAdmArgs"))?;
            let endpoint = format!("--container-runtime-endpoint={ENDPOINT}");
            self.write(KUBEADM_FLAGS, &format!("KUBELET_KUBEADM_ARGS=\"{endpoint}\"\n"))?;
        }
        self.helper(&["install-service", CONTAINERD, &containerd])?;
        self.helper(&["install-service", KUBELET, &kubelet, CONTAINERD]).map(drop)
    }

    /// Starts the services, in the order in which Windows does.
    pub fn start_services(&self) -> Result<()> {
        for service in [CONTAINERD, KUBELET] {
            let state = self.start_service(service)?;
            ensure!(state == "Running", "{service} is {state}\n{}", self.logs());
        }
        Ok(())
    }

    /// Restarts Windows: its services end, and start again with another boot ID, and maybe after an update.
    pub fn reboot(&self, release: Release, boot: u32) -> Result<()> {
        for service in [KUBELET, CONTAINERD] {
            self.stop_service(service)?;
        }
        system::set_registry(&self.prefix, release, boot)?;
        self.start_services()
    }

    /// Starts the agent with further arguments, and with the permissions of `config/agent`.
    pub fn start_agent(&mut self, arguments: &[&str]) -> Result<()> {
        self.agents += 1;
        let mut command = self.prefix.command(&self.folder.join("winpool-agent.exe"));
        command.args(["run", "--node", &self.name]).args(self.programs.limits()).args(arguments);
        command.env("KUBECONFIG", AGENT_KUBECONFIG);
        let log = self.logs.join(format!("agent-{}-{}.log", self.name, self.agents));
        self.agent = Some(Process::spawn("agent", command, &log)?);
        Ok(())
    }

    /// Kills the agent, as when Windows ends it with its container.
    pub fn kill_agent(&mut self) -> Result<()> {
        self.agent.take().map_or(Ok(()), |agent| agent.kill().map(drop))
    }

    /// Restores the node as it was before its first configuration, without an agent.
    pub fn uninstall_agent(&self) -> Result<()> {
        let mut command = self.prefix.command(&self.folder.join("winpool-agent.exe"));
        output(command.arg("uninstall").args(self.programs.limits())).map(drop)
    }

    /// The configuration files of the node before any change.
    pub fn original_files(&self) -> &[(&'static str, String)] {
        &self.original_files
    }

    /// Whether a file or directory on the drive `C:` exists.
    pub fn exists(&self, path: &str) -> bool {
        self.prefix.file(path).exists()
    }

    /// The ends of the logs of its programs.
    pub fn logs(&self) -> String {
        let mut logs = self.agent.as_ref().map(Process::log_tail).unwrap_or_default();
        for path in [CONTAINERD_LOG, KUBELET_LOG] {
            logs = format!("{logs}\n{}", tail(&self.prefix.file(path)));
        }
        logs
    }

    /// How often containerd and the kubelet have started, by their logs.
    pub fn starts(&self) -> Result<(usize, usize)> {
        let count = |log, text| Ok::<_, anyhow::Error>(self.read(log)?.matches(text).count());
        Ok((count(CONTAINERD_LOG, "msg=\"starting containerd\"")?, count(KUBELET_LOG, "] \"Kubelet version\"")?))
    }

    /// Starts a service, and returns its state once it is no longer pending.
    pub fn start_service(&self, name: &str) -> Result<String> {
        self.helper(&["start-service", name])
    }

    /// Stops a service, and waits until it is stopped.
    pub fn stop_service(&self, name: &str) -> Result<()> {
        self.helper(&["stop-service", name]).map(drop)
    }

    /// The state of a service: `Running`, `Pending`, `Stopped` or `Absent`.
    pub fn service_state(&self, name: &str) -> Result<String> {
        self.helper(&["service-state", name])
    }

    /// The text of a file on the drive `C:`.
    pub fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.prefix.file(path)).with_context(|| path.to_owned())
    }

    /// Writes a file on the drive `C:`, with its directories.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        self.prefix.write(path, text)
    }

    /// Sets how a stand-in with this configuration file fails from its next start on.
    pub fn set_behavior(&self, config: &str, behavior: &str) -> Result<()> {
        self.write(&format!("{config}.behavior"), behavior)
    }

    /// Sets which functions of the host compute services fail, or what they answer, from now on: each with its HRESULT in hexadecimal,
    /// and maybe a text.
    pub fn set_answers(&self, answers: &[&str]) -> Result<()> {
        let new = format!("{ANSWERS}.new");
        self.write(&new, &answers.join("\n"))?;
        Ok(fs::rename(self.prefix.file(&new), self.prefix.file(ANSWERS))?)
    }

    /// The journal of the agent.
    pub fn journal(&self) -> Result<Journal> {
        Ok(serde_json::from_str(&self.read(JOURNAL)?)?)
    }

    /// The status of the kubelet's health endpoint.
    pub async fn health(&self) -> Result<u16> {
        let request = http_get((Ipv4Addr::LOCALHOST, self.health_port).into(), "/healthz");
        Ok(tokio::time::timeout(Duration::from_secs(2), request).await??.0)
    }

    /// The configuration that the kubelet uses.
    pub async fn configz(&self) -> Result<Value> {
        Ok(self.of_kubelet("/configz").await?["kubeletconfig"].take())
    }

    /// What the kubelet answers at a path.
    pub async fn of_kubelet(&self, path: &str) -> Result<Value> {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse()?);
        config.accept_invalid_certs = true;
        Ok(Client::try_from(config)?.request(http::Request::get(path).body(Vec::new())?).await?)
    }

    fn helper(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.prefix.command(&self.folder.join("helper.exe"));
        Ok(output(command.args(arguments)).with_context(|| format!("{arguments:?}"))?.trim().to_owned())
    }
}

impl Drop for WindowsNode {
    #[allow(clippy::print_stderr)] // in the output of the failed test
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}

/// A kubeconfig with the certificate authority in it, because a service finds no file of this system.
fn with_authority(control_plane: &ControlPlane, kubeconfig: &str) -> Result<String> {
    let authority = control_plane.directory().join("ca.crt");
    let file = format!("certificate-authority: \"{}\"", authority.display());
    ensure!(kubeconfig.contains(&file), "no {file} in {kubeconfig}");
    let data = format!("certificate-authority-data: {}", STANDARD.encode(fs::read(authority)?));
    Ok(kubeconfig.replace(&file, &data))
}
