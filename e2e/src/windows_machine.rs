//! A Windows node with the programs that run on one: `kubelet.exe` on `containerd.exe`, under Wine. The API server is the real one.
//!
//! What differs from Windows: no container runs, because Wine has no host compute service, so that a pod on the node stays without a sandbox. There
//! are no sockets of UNIX, so that the kubelet has no device plugins (`program.sh`). It finds no address of the node. `pdh.dll` and
//! `vmcompute.dll` are those of `e2e/windows/dll`.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{
    assets,
    control_plane::{ControlPlane, User},
    network::{free_port, http_get},
    process::Process,
    windows_node::{CONTAINERD_CONFIG, KUBELET_CONFIG, KUBELET_KUBECONFIG, kubeconfig},
    wine::Prefix,
};

const PIPE: &str = r"npipe:////./pipe/containerd-containerd";
/// The network of pods, without which the kubelet reports that it is not ready. Its program is run only for a sandbox.
const NETWORK: &str = r#"{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "win-bridge"}]}"#;
/// Until containerd answers, on a busy machine.
const START: Duration = Duration::from_secs(120);

/// A release of Windows, as its registry shows it.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    pub build: u32,
    pub revision: u32,
    pub product: &'static str,
}

/// The files of a node, as they are on it.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    /// KubeletConfiguration.
    pub kubelet_yaml: String,
    /// The kubelet's flags.
    pub kubelet_args: Vec<String>,
    /// The configuration of containerd.
    pub containerd_toml: String,
}

/// A node. Everything that runs on it ends with this value.
#[derive(Debug)]
pub struct WindowsMachine {
    kubelet: Process,
    containerd: Process,
    /// It ends the programs of the node.
    _prefix: Prefix,
}

impl WindowsMachine {
    /// Installs a node and starts its programs. The kubelet registers it.
    pub async fn start(control_plane: &ControlPlane, name: &str, release: Release, files: &NodeFiles) -> Result<Self> {
        let prefix = Prefix::new()?;
        install_libraries(&prefix)?;
        set_registry(&prefix, release)?;
        for (path, text) in [
            (KUBELET_KUBECONFIG, kubeconfig(control_plane, User::Admin)?.as_str()),
            (KUBELET_CONFIG, &files.kubelet_yaml),
            (CONTAINERD_CONFIG, &files.containerd_toml),
            (r"C:\Program Files\containerd\cni\conf\10-pods.conflist", NETWORK),
        ] {
            prefix.write(path, text)?;
        }
        let log = |program: &str| control_plane.directory().join(format!("logs/{program}-{name}.log"));
        let containerd = start_containerd(&prefix, &log("containerd.exe")).await?;
        let kubelet = start_kubelet(&prefix, &log("kubelet.exe"), name, &files.kubelet_args).await?;
        Ok(Self { kubelet, containerd, _prefix: prefix })
    }

    /// The ends of the logs of its programs.
    pub fn logs(&self) -> String {
        format!("{}\n{}", self.containerd.log_tail(), self.kubelet.log_tail())
    }
}

async fn start_containerd(prefix: &Prefix, log: &Path) -> Result<Process> {
    let mut command = prefix.command(&assets::program("containerd.exe")?);
    command.args(["--config", CONTAINERD_CONFIG]).current_dir(prefix.drive_c());
    let containerd = Process::spawn("containerd.exe", command, log)?;
    let has_booted = || async {
        ensure!(fs::read_to_string(log)?.contains("successfully booted"), "not booted");
        Ok(())
    };
    containerd.ready(START, has_booted).await?;
    Ok(containerd)
}

/// Starts the kubelet until it stays, as the service manager of Windows does: under Wine its first connection to the pipe of a new containerd
/// stalls, and it ends.
async fn start_kubelet(prefix: &Prefix, log: &Path, name: &str, arguments: &[String]) -> Result<Process> {
    let (port, health) = (free_port()?, free_port()?);
    loop {
        let mut command = prefix.command(&prefix.drive_c().join("k/kubelet.exe"));
        // Paths without a drive are on that of the working directory.
        command.current_dir(prefix.drive_c());
        command.args(["--config", KUBELET_CONFIG, "--kubeconfig", KUBELET_KUBECONFIG, "--hostname-override", name]);
        command.args([r"--cert-dir=C:\var\lib\kubelet\pki", r"--root-dir=C:\var\lib\kubelet"]);
        command.args(["--container-runtime-endpoint", PIPE]);
        command.arg(format!("--port={port}")).arg(format!("--healthz-port={health}")).args(arguments);
        let kubelet = Process::spawn("kubelet.exe", command, log)?;
        let is_healthy = || async {
            let (status, text) = http_get((Ipv4Addr::LOCALHOST, health).into(), "/healthz").await?;
            ensure!(status == 200, "{text}");
            Ok(())
        };
        match kubelet.ready(START, is_healthy).await {
            Err(_) if kubelet.log_tail().contains("failed to write client preface") => {}
            ready => return ready.map(|()| kubelet),
        }
    }
}

/// The kubelet with the stand-ins for the libraries that Wine does not have.
fn install_libraries(prefix: &Prefix) -> Result<()> {
    let compiler = assets::windows_compiler()?.join("x86_64-w64-mingw32-gcc");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("windows/dll");
    let system = prefix.drive_c().join("windows/system32");
    let folder = prefix.drive_c().join("k");
    fs::create_dir_all(&folder)?;
    symlink(assets::program("kubelet-for-wine.exe")?, folder.join("kubelet.exe"))?;
    let libraries = [("pdh", folder.join("pdh.dll")), ("vmcompute", system.join("vmcompute.dll"))];
    for (name, library) in libraries {
        let mut build = Command::new(&compiler);
        build.args(["-O1", "-shared", "-o"]).arg(library).arg(sources.join(format!("{name}.c"))).arg("-lole32");
        let output = build.output().with_context(|| compiler.display().to_string())?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Writes what a kubelet reads of the registry: the release of Windows, and what identifies the machine and its start.
fn set_registry(prefix: &Prefix, release: Release) -> Result<()> {
    let Release { build, revision, product } = release;
    let text = format!(
        r#"Windows Registry Editor Version 5.00

[HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\Windows NT\CurrentVersion]
"CurrentBuild"="{build}"
"CurrentBuildNumber"="{build}"
"ProductName"="{product}"
"UBR"=dword:{revision:08x}

[HKEY_LOCAL_MACHINE\SYSTEM\HardwareConfig]
"LastConfig"="{{7ea2ebb8-5c2f-4c93-a6b3-1d8f2c1f4a11}}"

[HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters]
"BootId"=dword:00000001

[HKEY_CURRENT_USER\Software\Wine\DllOverrides]
"pdh"="native,builtin"
"vmcompute"="native,builtin"
"#
    );
    prefix.write(r"C:\node.reg", &text)?;
    let mut command = prefix.command(Path::new("regedit.exe"));
    let output = command.args(["/S", r"C:\node.reg"]).stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "regedit: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
