//! A machine of Cluster API: cloudbase-init writes the files of its user data and runs its commands, one of which is `kubeadm join`.
//!
//! The commands that run PowerShell are carried out by this module, because Wine has none: `containerd.ps1` adds the first arguments to the
//! service of the kubelet and restarts containerd, and `kubelet.ps1` restarts the kubelet with the flags of kubeadm.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;

use super::{CONTAINERD, KUBELET, Setup, WindowsNode, join::BOOTSTRAP_KUBECONFIG};
use crate::{control_plane::ControlPlane, process::output};

/// A file that cloudbase-init writes.
#[derive(Clone, Debug, Deserialize)]
pub struct Written {
    /// With backslashes; without a drive it is on `C:`.
    pub path: String,
    /// As base64.
    content: String,
    pub append: bool,
}

/// What cloudbase-init does with user data.
#[derive(Clone, Debug, Deserialize)]
pub struct Done {
    pub files: Vec<Written>,
    /// For cmd.exe.
    pub scripts: Vec<String>,
}

impl Written {
    pub fn text(&self) -> Result<String> {
        Ok(String::from_utf8(STANDARD.decode(&self.content)?)?)
    }
}

impl Done {
    /// Reads user data with cloudbase-init's own package. The machine is `web-1`.
    pub fn read(user_data: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("user-data");
        fs::write(&path, user_data)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("cloudbase-init.sh");
        Ok(serde_json::from_str(&output(Command::new(script).arg(path))?)?)
    }

    /// The arguments that `containerd.ps1` adds to the service of the kubelet.
    fn first_arguments(&self) -> Result<Vec<String>> {
        let script =
            self.files.iter().find(|file| file.path.ends_with(r"\containerd.ps1")).context("containerd.ps1")?;
        let text = script.text()?;
        let (_, rest) = text.split_once("$arguments = @(").context("its arguments")?;
        let quoted = rest.lines().skip(1).map_while(|line| line.trim().strip_prefix('\'')?.strip_suffix('\''));
        Ok(quoted.map(str::to_owned).collect())
    }

    fn join_command(&self) -> Result<&str> {
        let mut lines = self.scripts.iter().flat_map(|script| script.lines());
        lines.find(|line| line.starts_with("kubeadm join ")).context("a command kubeadm join")
    }
}

impl WindowsNode {
    /// Installs a machine from the image of `setup`, and carries out its user data. Returns what kubeadm printed.
    pub async fn start_with_user_data(
        control_plane: &ControlPlane,
        setup: &Setup<'_>,
        user_data: &str,
    ) -> Result<(Self, String)> {
        let done = Done::read(user_data)?;
        let mut service = setup.clone();
        service.kubelet_args.push(BOOTSTRAP_KUBECONFIG.to_owned());
        service.kubelet_args.extend(done.first_arguments()?);
        let node = Self::install(control_plane, &service)?;
        for file in &done.files {
            ensure!(!file.append, "{}", file.path);
            node.write(&format!(r"C:\{}", file.path.trim_start_matches("C:").trim_start_matches('\\')), &file.text()?)?;
        }
        node.write_ports(r"C:\k\winpool\patches")?;
        node.start_service(CONTAINERD)?;
        // Wine takes a path that begins with a slash for one of Unix.
        let command = done.join_command()?.replace(" /run/", " C:/run/");
        let printed = node.run_kubeadm(&["cmd.exe", "/c", &command]).await?;
        node.stop_service(KUBELET)?;
        node.start_service(KUBELET)?;
        ensure!(node.exists(r"C:\run\cluster-api\bootstrap-success.complete"), "{printed}");
        Ok((node, printed))
    }
}
