//! A node with upstream's kubelet and containerd for Windows, under Wine.

use std::env;

use anyhow::{Context, Result};
use e2e::{
    cluster::Cluster,
    control_plane::OPERATOR_NAMESPACE,
    kubelet::CONFIG_ANNOTATION,
    windows_node::{Setup, WindowsNode},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use winpool_render::{CONTAINERD_TOML, KUBELET_ARGS, KUBELET_YAML};

use crate::progress::blocking;

pub const NAME: &str = "web-wine";
const POOL_LABEL: &str = "web";
/// A node of the same pool, whose configuration it is installed with.
const SAME: &str = "web-1";
/// The folder of `helper.exe`, beside this program in cargo's target directory.
const FOLDER: &str = "../x86_64-pc-windows-gnu/debug/stripped";

/// Installs the node with the configuration that the operator has rendered for its pool, and starts its services.
pub async fn start(cluster: &Cluster) -> Result<WindowsNode> {
    let node = cluster.nodes().get(SAME).await?;
    let config = node.annotations().get(CONFIG_ANNOTATION).context("no configuration")?;
    let config = cluster.namespaced::<ConfigMap>(OPERATOR_NAMESPACE).get(config).await?;
    let files = config.data.unwrap_or_default();
    let file = |key: &str| files.get(key).map_or("", String::as_str);
    let kubelet = serde_saphyr::from_str(file(KUBELET_YAML))?;
    let kubelet_args = file(KUBELET_ARGS).lines().map(str::to_owned).collect();
    let containerd_toml = Some(file(CONTAINERD_TOML).to_owned());
    let control_plane = cluster.control_plane.clone();
    blocking(move || {
        let folder = env::current_exe()?.parent().context("a folder")?.join(FOLDER);
        let setup = Setup { kubelet, kubelet_args, containerd_toml, ..Setup::new(&folder, NAME, POOL_LABEL) };
        WindowsNode::start(&control_plane, &setup)
    })
    .await
}
