//! A Linux node that runs pods: upstream's kubelet and containerd, with runc of Debian, joined to a control plane.
//!
//! It needs root, and in a container the rights of a privileged one: its processes, networks and mounts are in namespaces of their own,
//! which end with it, and the control groups of its pods are below one that is removed. The machine differs from a node in this:
//! - There is no kube-proxy and no DNS. Pods find the API server at the address of the Service `kubernetes`, which is that of the node:
//!   what connects to it is forwarded to the API server, and what connects to the port of the kubelet is forwarded to the kubelet.
//! - Pods reach nothing else outside of the node.
//! - The API server permits it what its kubelet asks as if it had the certificate of a node.

mod images;
mod network;

use std::{
    env, fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

pub use self::images::Archive;
use self::{
    images::PAUSE,
    network::{Forwarding, Side},
};
use crate::{
    assets,
    cluster::Cluster,
    control_plane::ControlPlane,
    network::listener,
    process::{Guard, Process, tail},
};

/// The name of the node: the API server connects to its kubelet by this name.
pub const NAME: &str = "localhost";

/// The address of the Service `kubernetes`.
const SERVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));
const START_TIMEOUT: Duration = Duration::from_secs(180);
const NEEDS: &str = "a Linux node needs root, for namespaces, mounts and control groups; in a container, that must be a privileged one \
                     with the control groups of its host";

/// A running node. Dropping it ends everything that runs on it; if the test has failed, the ends of its logs are printed.
#[derive(Debug)]
pub struct LinuxNode {
    folder: PathBuf,
    forwarding: Forwarding,
    process: Process,
    groups: Option<Guard>,
}

impl LinuxNode {
    /// Starts a node that has these images, and waits until it is ready. The control plane has the option `pods`.
    pub async fn start(cluster: &Cluster, images: &[Archive]) -> Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), NEEDS);
        let control_plane = &cluster.control_plane;
        let folder = control_plane.directory().join("linux-node");
        // Unique on this machine.
        let group = control_plane.directory().file_name().context("a name")?.display().to_string();
        let kubelet = listener()?;
        let address = kubelet.local_addr()?;
        for name in ["logs", "network"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let pause = Archive::of_pause(&folder)?;
        let line = |image: &Archive| format!("{} {}\n", image.repository, image.path.display());
        let images: String = images.iter().chain([&pause]).map(line).collect();
        let kubeconfig = control_plane.kubelet_kubeconfig(NAME)?.replace(&control_plane.url(), "https://10.96.0.1");
        for (name, text) in [
            ("images", images),
            ("kubeconfig", kubeconfig),
            ("containerd.toml", containerd_toml(&folder)?),
            ("network/pods.conflist", network().to_string()),
            ("kubelet.json", kubelet_configuration(&group, address.port()).to_string()),
        ] {
            fs::write(folder.join(name), text).with_context(|| format!("writing {name}"))?;
        }
        let groups = Some(Guard::over_control_groups(&group)?);
        let process = Process::spawn("the Linux node", command(&folder, &group)?, &folder.join("logs/start.log"))?;
        let node = Self { folder, forwarding: Forwarding::new()?, process, groups };
        node.forward(control_plane, kubelet, address.port()).await.context(NEEDS)?;
        node.until_ready(cluster).await.context(NEEDS)?;
        Ok(node)
    }

    /// Forwards the connections to the API server and to the kubelet.
    async fn forward(&self, control_plane: &ControlPlane, kubelet: TcpListener, port: u16) -> Result<()> {
        let node = Side::Of(self.process.pid());
        self.forwarding.add(kubelet, node, SocketAddr::new(SERVICE, port))?;
        let server = control_plane.url().trim_start_matches("https://").parse()?;
        let listen = || async { self.forwarding.add(node.listen(SocketAddr::new(SERVICE, 443))?, Side::Own, server) };
        self.process.ready(START_TIMEOUT, listen).await
    }

    async fn until_ready(&self, cluster: &Cluster) -> Result<()> {
        let ready = || async {
            ensure!(self.folder.join("imported").exists(), "the images are being imported");
            let conditions = cluster.node(NAME).await?.status.and_then(|status| status.conditions);
            let mut conditions = conditions.into_iter().flatten();
            ensure!(conditions.any(|one| one.type_ == "Ready" && one.status == "True"), "{NAME} is not ready");
            Ok(())
        };
        self.process.ready(START_TIMEOUT, ready).await.with_context(|| self.logs())
    }

    /// The ends of the logs of its programs, and of its pods.
    pub fn logs(&self) -> String {
        let mut logs = Vec::new();
        let mut folders = vec![self.folder.join("logs")];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()).filter(|path| !path.is_symlink()) {
                if path.is_dir() { folders.push(path) } else { logs.push(tail(&path)) }
            }
        }
        logs.join("\n")
    }

    /// What is left of the node of a control plane, whose folder this was, after its end: mounts, control groups and processes.
    pub fn rest(folder: &Path) -> Result<Vec<String>> {
        let name = folder.file_name().context("a name")?.display().to_string();
        let processes = fs::read_dir("/proc")?.flatten().filter_map(|process| {
            let arguments = fs::read(process.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&arguments).replace('\0', " ")).filter(|arguments| arguments.contains(&name))
        });
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let mounts = mounts.lines().filter(|line| line.contains(&name)).map(str::to_owned);
        let hierarchies = fs::read_dir("/sys/fs/cgroup")?.map(|entry| Ok(entry?.path().join(&name)));
        let groups: Vec<_> = hierarchies.collect::<Result<_>>()?;
        let groups = groups.into_iter().chain([Path::new("/sys/fs/cgroup").join(&name)]).filter(|path| path.exists());
        Ok(mounts.chain(groups.map(|path| path.display().to_string())).chain(processes).collect())
    }
}

impl Drop for LinuxNode {
    #[allow(clippy::print_stderr)] // in the output of the failed test
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        let _ = self.process.kill();
        if let Some(groups) = self.groups.take() {
            groups.run();
        }
    }
}

/// What runs the node, in namespaces of its own.
fn command(folder: &Path, group: &str) -> Result<Command> {
    let programs = ["kubelet", "containerd", "containerd-shim-runc-v2", "ctr"].map(assets::program);
    let mut path = vec![assets::runc()?];
    for program in programs {
        path.push(program?.parent().context("a folder")?.to_owned());
    }
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new("unshare");
    command
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/linux_node/start.sh"))
        .arg(folder)
        .arg(group)
        .env("PATH", env::join_paths(path)?);
    Ok(command)
}

/// The default but for images, networks, and what would be written outside of its folders. A container may not be killed later than
/// containerd: the permission to lower its score is missing in some containers.
fn containerd_toml(folder: &Path) -> Result<String> {
    let (programs, network) = (assets::runc()?, folder.join("network"));
    let (name, version) = PAUSE;
    Ok(format!(
        r#"version = 3
[plugins.'io.containerd.internal.v1.opt']
path = "/var/lib/containerd/opt"
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{name}:{version}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [{programs:?}]
conf_dir = {network:?}
use_internal_loopback = true
"#
    ))
}

/// Pods have addresses of a bridge, which is their way to the node.
fn network() -> Value {
    let addresses = json!({"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]]});
    let bridge = json!({"type": "bridge", "bridge": "pods", "isDefaultGateway": true, "ipam": addresses});
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]})
}

fn kubelet_configuration(group: &str, port: u16) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "port": port,
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "clusterDNS": ["10.96.0.10"], "resolvConf": "",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": "/var/lib/kubelet/plugins",
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{group}"), "enforceNodeAllocatable": [],
        "failSwapOn": false, "failCgroupV1": false,
        // No pressure, however full the disk of this machine is.
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
    })
}
