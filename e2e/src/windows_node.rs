//! A Windows node under Wine: `winpool-agent.exe run`, and the stand-ins for the kubelet and containerd as Windows services.
//! The API server is the real one.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use winpool_agent::journal::{JOURNAL, Journal};

use crate::{
    control_plane::{ControlPlane, User},
    network::{free_port, http_get},
    process::Process,
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
const CONTAINERD_PROGRAM: &str = r"C:\Program Files\containerd\containerd.exe";
pub(crate) const KUBELET_KUBECONFIG: &str = r"C:\etc\kubernetes\kubelet.conf";
const AGENT_KUBECONFIG: &str = r"C:\etc\kubernetes\agent.conf";
/// The time limits of the agent. The services of a simulated node need little time.
const LIMITS: [&str; 3] = ["--service-timeout=5s", "--stable=1s", "--verify-timeout=8s"];

/// A node. Everything that runs on it ends with this value.
#[derive(Debug)]
pub struct WindowsNode {
    name: String,
    agent: Option<Process>,
    agents: u32,
    health_port: u16,
    programs: PathBuf,
    logs: PathBuf,
    prefix: Prefix,
}

impl WindowsNode {
    /// Installs a node and starts its kubelet, which registers it with the label `agentpool=<pool>`. `programs` is the
    /// directory of the Windows programs.
    pub fn start(control_plane: &ControlPlane, programs: &Path, name: &str, pool: &str) -> Result<Self> {
        let prefix = Prefix::new()?;
        let node = Self {
            name: name.to_owned(),
            agent: None,
            agents: 0,
            health_port: free_port()?,
            programs: programs.to_owned(),
            logs: control_plane.directory().join("logs"),
            prefix,
        };
        node.install_programs()?;
        node.write_files(control_plane)?;
        node.install_services(pool)?;
        for service in [CONTAINERD, KUBELET] {
            let state = node.helper(&["start-service", service])?;
            ensure!(state == "Running", "{service} is {state}");
        }
        Ok(node)
    }

    fn install_programs(&self) -> Result<()> {
        for (name, path) in [("fake-kubelet", KUBELET_PROGRAM), ("fake-containerd", CONTAINERD_PROGRAM)] {
            let path = self.prefix.file(path);
            fs::create_dir_all(path.parent().context("a directory")?)?;
            symlink(self.programs.join(format!("{name}.exe")), path)?;
        }
        Ok(())
    }

    /// The content of the configuration files of a new node.
    pub fn original_files(&self) -> [(&'static str, String); 2] {
        let kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        let kubelet = format!("{kind}healthzPort: {}\n", self.health_port);
        [(KUBELET_CONFIG, kubelet), (CONTAINERD_CONFIG, "version = 2\n".to_owned())]
    }

    fn write_files(&self, control_plane: &ControlPlane) -> Result<()> {
        for (path, text) in self.original_files() {
            self.write(path, &text)?;
        }
        for (user, path) in [(User::Admin, KUBELET_KUBECONFIG), (User::Agent, AGENT_KUBECONFIG)] {
            self.write(path, &kubeconfig(control_plane, user)?)?;
        }
        Ok(())
    }

    fn install_services(&self, pool: &str) -> Result<()> {
        let containerd = format!(r#""{CONTAINERD_PROGRAM}" --run-service"#);
        self.helper(&["install-service", CONTAINERD, &containerd])?;
        let flags = format!("--config={KUBELET_CONFIG} --kubeconfig={KUBELET_KUBECONFIG}");
        let identity = format!("--hostname-override={} --node-labels=agentpool={pool}", self.name);
        let command = format!("{KUBELET_PROGRAM} --windows-service {flags} {identity}");
        self.helper(&["install-service", KUBELET, &command, CONTAINERD]).map(drop)
    }

    /// Starts the agent with further arguments, and with the permissions of `config/agent`.
    pub fn start_agent(&mut self, arguments: &[&str]) -> Result<()> {
        self.agents += 1;
        let mut command = self.prefix.command(&self.programs.join("winpool-agent.exe"));
        command.args(["run", "--node", &self.name]).args(LIMITS).args(arguments).env("KUBECONFIG", AGENT_KUBECONFIG);
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
        let mut command = self.prefix.command(&self.programs.join("winpool-agent.exe"));
        let output = command.arg("uninstall").args(LIMITS).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Whether a file or directory on the drive `C:` exists.
    pub fn exists(&self, path: &str) -> bool {
        self.prefix.file(path).exists()
    }

    /// The end of the agent's log.
    pub fn agent_log(&self) -> String {
        self.agent.as_ref().map(Process::log_tail).unwrap_or_default()
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

    /// Sets how the program of a configuration file fails from its next start on.
    pub fn set_behavior(&self, config: &str, behavior: &str) -> Result<()> {
        self.write(&format!("{config}.behavior"), behavior)
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

    fn helper(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.prefix.command(&self.programs.join("helper.exe"));
        let output = command.args(arguments).stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }
}

/// A kubeconfig with the certificate authority in it, because a service finds no file of this system.
pub(crate) fn kubeconfig(control_plane: &ControlPlane, user: User) -> Result<String> {
    let authority = control_plane.directory().join("ca.crt");
    let text = fs::read_to_string(control_plane.kubeconfig(user))?;
    let file = format!("certificate-authority: \"{}\"", authority.display());
    ensure!(text.contains(&file), "no {file} in {text}");
    Ok(text.replace(&file, &format!("certificate-authority-data: {}", STANDARD.encode(fs::read(authority)?))))
}
