//! How the kubelet and containerd of a node are installed.

use std::{fs, os::unix::fs::symlink};

use anyhow::Result;
use serde_json::json;

use super::{
    CONTAINERD, CONTAINERD_LOG, CONTAINERD_PROGRAM, KUBELET, KUBELET_CONFIG, KUBELET_KUBECONFIG, KUBELET_LOG,
    KUBELET_PROGRAM, Setup, WindowsNode,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installation {
    /// Services of their own, as kubeadm's nodes have them.
    Services,
    /// nssm runs the kubelet with a start script, as kubeadm's tools for Windows install it.
    Nssm,
    /// The service of RKE2 runs both: `e2e/windows/src/rke2.rs`.
    Rke2,
}

/// Where an installation has its programs and files.
#[derive(Debug)]
pub(super) struct Places {
    /// The services, in the order in which Windows starts them.
    pub services: &'static [&'static str],
    pub kubelet: &'static str,
    pub containerd: &'static str,
    /// The configuration of the kubelet that the node starts with, and that which the agent writes.
    pub config: &'static str,
    pub changed: &'static str,
    pub kubeconfig: &'static str,
    pub network: &'static str,
    /// The logs of containerd and the kubelet.
    pub logs: [&'static str; 2],
}

const OF_KUBEADM: Places = Places {
    services: &[CONTAINERD, KUBELET],
    kubelet: KUBELET_PROGRAM,
    containerd: CONTAINERD_PROGRAM,
    config: KUBELET_CONFIG,
    changed: KUBELET_CONFIG,
    kubeconfig: KUBELET_KUBECONFIG,
    network: r"C:\Program Files\containerd\cni\conf\10-pods.conflist",
    logs: [CONTAINERD_LOG, KUBELET_LOG],
};

const OF_RKE2: Places = Places {
    services: &["rke2"],
    kubelet: r"C:\var\lib\rancher\rke2\bin\kubelet.exe",
    containerd: r"C:\var\lib\rancher\rke2\bin\containerd.exe",
    config: r"C:\var\lib\rancher\rke2\agent\etc\kubelet.conf.d\10-node.conf",
    changed: r"C:\var\lib\rancher\rke2\agent\etc\kubelet.conf.d\50-winpool.conf",
    kubeconfig: r"C:\var\lib\rancher\rke2\agent\kubelet.kubeconfig",
    network: r"C:\var\lib\rancher\rke2\agent\etc\cni\10-pods.conflist",
    logs: [
        r"C:\var\lib\rancher\rke2\agent\containerd\containerd.log",
        r"C:\var\lib\rancher\rke2\agent\logs\kubelet.log",
    ],
};

const RKE2_PROGRAM: &str = r"C:\usr\local\bin\rke2.exe";
const RKE2_CONFIG: &str = r"C:\etc\rancher\rke2\config.yaml";

impl Installation {
    pub(super) fn places(self) -> &'static Places {
        match self {
            Self::Services | Self::Nssm => &OF_KUBEADM,
            Self::Rke2 => &OF_RKE2,
        }
    }
}

impl WindowsNode {
    /// As its installer leaves it: rancher/rke2 6ce1a80, `windows/rke2-quickstart.ps1`, `pkg/cli/cmds/agent_service_windows.go`, and
    /// `pkg/bootstrap/bootstrap.go` for the folder of programs, which is a link to that of a release.
    pub(super) fn install_rke2(&self, setup: &Setup<'_>) -> Result<()> {
        let programs = self.prefix.file(r"C:\var\lib\rancher\rke2\data\v1.37.2-rke2r1-windows-amd64-64bd0e7f2a1c\bin");
        fs::create_dir_all(&programs)?;
        symlink(programs, self.prefix.file(r"C:\var\lib\rancher\rke2\bin"))?;
        self.install_programs()?;
        self.link(RKE2_PROGRAM, self.folder.join("helper.exe"))?;
        let label = format!("agentpool={}", setup.pool);
        let config =
            json!({"server": "https://192.0.2.1:9345", "token": "t", "node-name": setup.name, "node-label": [label]});
        self.write(RKE2_CONFIG, &serde_saphyr::to_string(&config)?)?;
        let command = format!("{RKE2_PROGRAM} agent --config /etc/rancher/rke2/config.yaml");
        self.helper(&["install-service", OF_RKE2.services[0], &command]).map(drop)
    }
}
