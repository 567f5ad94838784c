//! `kubeadm.exe join`: a node that gets its configuration and its certificate from the cluster.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{CONTAINERD, ENDPOINT, KUBELET, Setup, WindowsNode};
use crate::{
    assets,
    certificates::Certificate,
    control_plane::{ControlPlane, User},
    process::{Process, output},
    wait::until,
};

/// On the drive `C:`: kubeadm takes the drive of its program for paths of the kubelet.
const KUBEADM: &str = r"C:\k\kubeadm.exe";
const API: &str = "kubeadm.k8s.io/v1beta4";
const JOIN_CONFIG: &str = r"C:\k\join.yaml";
const PATCHES: &str = r"C:\k\patches";
/// Preflight checks: Wine shows no token of an administrator, and the kubelet has another port.
const IGNORED: &str = "IsPrivilegedUser,Port-10250";
/// The flag of a kubelet that asks for its certificate.
pub(super) const BOOTSTRAP_KUBECONFIG: &str = r"--bootstrap-kubeconfig=C:\etc\kubernetes\bootstrap-kubelet.conf";
/// The certificates of the kubelet.
const PKI: &str = r"C:\var\lib\kubelet\pki";
/// When a certificate expires that is to be replaced: on a busy machine, the kubelet starts before.
const NEAR_ITS_END: Duration = Duration::from_secs(60);
/// Until the kubelet has its certificate, and until kubeadm has found it, on a busy machine.
const JOINED: Duration = Duration::from_secs(600);

/// What a node needs to join a cluster.
#[derive(Clone, Debug)]
pub struct Invitation {
    endpoint: String,
    token: String,
    authority_hash: String,
}

impl Invitation {
    /// Stores in the cluster what `kubeadm init` does for nodes that join: its configuration, `kubelet` as fields of the
    /// KubeletConfiguration of all nodes, permissions, and a token. The control plane needs the option `bootstrap`.
    pub fn new(control_plane: &ControlPlane, kubelet: &Value) -> Result<Self> {
        let mut all_kubelets = json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"});
        json_patch::merge(&mut all_kubelets, kubelet);
        let documents = [
            // kubeadm refuses an address of loopback, and uses this one nowhere: the endpoint is another one.
            json!({
                "apiVersion": API, "kind": "InitConfiguration",
                "localAPIEndpoint": {"advertiseAddress": "192.0.2.1"}, "nodeRegistration": {"name": "control-plane"},
            }),
            json!({
                "apiVersion": API, "kind": "ClusterConfiguration",
                "kubernetesVersion": control_plane.version().text,
                "controlPlaneEndpoint": control_plane.url().trim_start_matches("https://"),
            }),
            all_kubelets,
        ];
        let config = control_plane.directory().join("kubeadm.yaml");
        fs::write(&config, documents.map(|document| document.to_string()).join("\n---\n"))?;
        let kubeadm = |arguments: &[&str]| {
            let mut command = Command::new(assets::program("kubeadm")?);
            command.args(arguments).arg("--kubeconfig").arg(control_plane.kubeconfig(User::Admin));
            output(&mut command).with_context(|| format!("kubeadm {arguments:?}"))
        };
        let config = format!("--config={}", config.display());
        kubeadm(&["init", "phase", "upload-config", "all", &config])?;
        kubeadm(&["init", "phase", "bootstrap-token", "--skip-token-print", &config])?;
        let command = kubeadm(&["token", "create", "--print-join-command"])?;
        // kubeadm join ENDPOINT --token TOKEN --discovery-token-ca-cert-hash HASH
        let words: Vec<_> = command.split_whitespace().collect();
        let ["kubeadm", "join", endpoint, _, token, _, hash] = words[..] else { bail!("{command}") };
        Ok(Self { endpoint: endpoint.to_owned(), token: token.to_owned(), authority_hash: hash.to_owned() })
    }

    /// The configuration of a node that uses patches.
    fn join_configuration(&self, setup: &Setup<'_>) -> Value {
        let arguments: Vec<_> =
            setup.kubelet_args.iter().filter_map(|arg| arg.strip_prefix("--")?.split_once('=')).collect();
        let arguments: Vec<_> = arguments.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!({
            "apiVersion": API, "kind": "JoinConfiguration",
            "discovery": {"bootstrapToken": {
                "apiServerEndpoint": self.endpoint, "token": self.token, "caCertHashes": [self.authority_hash],
            }},
            "nodeRegistration": {"name": setup.name, "criSocket": ENDPOINT, "kubeletExtraArgs": arguments},
            "patches": {"directory": PATCHES},
        })
    }
}

impl WindowsNode {
    /// Installs a node, and runs `kubeadm.exe join` on it with the patches in a folder. Returns what kubeadm printed.
    pub async fn join(
        control_plane: &ControlPlane,
        setup: &Setup<'_>,
        invitation: &Invitation,
        patches: &Path,
    ) -> Result<(Self, String)> {
        let mut service = setup.clone();
        service.kubelet_args.push(BOOTSTRAP_KUBECONFIG.to_owned());
        let node = Self::install(control_plane, &service)?;
        for entry in fs::read_dir(patches)? {
            let entry = entry?;
            let name = entry.file_name();
            node.write(&format!(r"{PATCHES}\{}", name.display()), &fs::read_to_string(entry.path())?)?;
        }
        node.write_ports(PATCHES)?;
        node.write(JOIN_CONFIG, &invitation.join_configuration(setup).to_string())?;
        node.start_service(CONTAINERD)?;
        let command = [KUBEADM, "join", "--config", JOIN_CONFIG, "--ignore-preflight-errors", IGNORED];
        let printed = node.run_kubeadm(&command).await?;
        // It reads the certificate when it starts.
        node.restart_kubelet()?;
        Ok((node, printed))
    }

    /// Gives the kubelet a certificate that it replaces at its next start, and waits until it has expired.
    pub async fn rotate_certificate(&self, control_plane: &ControlPlane) -> Result<()> {
        let pki = self.prefix.file(PKI);
        let former = make_current(&pki)?;
        let clients = control_plane.clients.as_ref().context("a control plane with the option `bootstrap`")?;
        let Certificate { certificate, key } = clients.issue_near_its_end(&self.name, NEAR_ITS_END)?;
        let expired = Instant::now() + NEAR_ITS_END;
        fs::write(pki.join(&former), certificate + &key)?;
        make_current(&pki)?;
        self.restart_kubelet()?;
        until("the certificate is replaced", JOINED, async || make_current(&pki), |newest| *newest != former).await?;
        self.restart_kubelet()?;
        until("the former one has expired", JOINED, async || Ok(Instant::now()), |now| *now > expired).await.map(drop)
    }

    fn restart_kubelet(&self) -> Result<()> {
        self.stop_service(KUBELET)?;
        self.start_service(KUBELET).map(drop)
    }

    /// Adds a patch with the ports of the kubelet, which are free ones of this machine.
    pub(super) fn write_ports(&self, patches: &str) -> Result<()> {
        let ports = json!({"address": "127.0.0.1", "port": self.port, "healthzPort": self.health_port});
        self.write(&format!(r"{patches}\kubeletconfiguration1+merge.json"), &ports.to_string())
    }

    /// Runs a command that runs `kubeadm join`. Returns what it printed.
    pub(super) async fn run_kubeadm(&self, command: &[&str]) -> Result<String> {
        symlink(assets::program("kubeadm.exe")?, self.prefix.file(KUBEADM))?;
        fs::create_dir_all(self.prefix.file(PKI))?;
        let (program, arguments) = command.split_first().context("a program")?;
        let mut command = self.prefix.command(Path::new(program));
        // It writes to paths without a drive, and runs `kubelet --version`.
        command.current_dir(self.prefix.drive_c()).env("WINEPATH", r"C:\k").args(arguments);
        let log = self.logs.join(format!("kubeadm-{}.log", self.name));
        let kubeadm = Process::spawn("kubeadm.exe", command, &log)?;
        let pki = self.prefix.file(PKI);
        kubeadm.ready(JOINED, async || make_current(&pki).map(drop)).await.with_context(|| self.logs())?;
        let status = || async { Ok(kubeadm.exit_status()) };
        let status = until("kubeadm.exe has ended", JOINED, status, Option::is_some).await?;
        ensure!(status.is_some_and(|status| status.success()), "{status:?}\n{}\n{}", kubeadm.log_tail(), self.logs());
        Ok(fs::read_to_string(log)?)
    }
}

/// Copies the newest certificate to the name that kubelet and kubeadm read, for which the kubelet makes a symbolic link: Wine has none,
/// and without it the kubelet asks for one certificate after the other. Returns its name.
fn make_current(pki: &Path) -> Result<String> {
    // Their names have the time at which they were issued.
    let mut certificates = BTreeMap::new();
    for entry in fs::read_dir(pki)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let text = fs::read_to_string(&path)?;
        // The key is written last.
        if name.starts_with("kubelet-client-2") && text.trim_end().ends_with("PRIVATE KEY-----") {
            certificates.insert(name, text);
        }
    }
    let (name, newest) = certificates.last_key_value().context("no certificate of the kubelet")?;
    let current = pki.join("kubelet-client-current.pem");
    fs::write(current.with_extension("new"), newest)?;
    fs::rename(current.with_extension("new"), current)?;
    Ok(name.clone())
}
