//! The container runtimes of Windows nodes.
//!
//! Sources: endpoints from kubernetes/website,
//! `content/en/docs/setup/production-environment/tools/kubeadm/install-kubeadm.md` (pull request 31309, 2022-01),
//! Mirantis/cri-dockerd, `cmd/cri/options/options.go` and `core/sandbox_helpers.go` (246bd65, 2026-04-27), that of
//! containerd also from kubernetes-sigs/cluster-api-provider-azure, `templates/cluster-template-windows.yaml`
//! (69ec3a40, 2026-08-19), and kubernetes/kubernetes pull request 106973 for dockershim; handler `docker` from
//! `core/sandbox_run.go` of cri-dockerd v0.3.0, which inherited it from dockershim.

use std::fmt;

use super::{
    ContainerdVersion, Minor,
    containerd::{HYPERV_HANDLER, PROCESS_HANDLER, release_line},
    kubelet_flags::LAST_WITH_DOCKERSHIM,
};

/// The handler for Docker Engine's default runtime, the only one that every version of both adapters accepts.
pub const DOCKER_HANDLER: &str = "docker";

/// The known handlers. Other handlers are defined by the configuration of a node.
pub const HANDLERS: [&str; 3] = [PROCESS_HANDLER, HYPERV_HANDLER, DOCKER_HANDLER];

/// Whether only container runtimes of Windows have a handler of this name: the built-in ones of containerd, those that are named after
/// its shim for Windows, such as `runhcs-wcow-hypervisor-17763`, and that of Docker Engine's adapters, for which a class of Linux is
/// recognized by its pods.
pub fn is_windows_handler(name: &str) -> bool {
    name.starts_with("runhcs-") || name == DOCKER_HANDLER
}

/// A container runtime. `V` is the representation of the version of containerd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerRuntime<V = ()> {
    /// containerd.
    Containerd(V),
    /// Docker Engine with the adapter in the kubelet, up to kubelet 1.23.
    Dockershim,
    /// Docker Engine, or Mirantis Container Runtime, with the adapter that replaced dockershim.
    CriDockerd,
}

impl<V> ContainerRuntime<V> {
    /// Docker Engine with the adapter that a kubelet supports.
    pub fn docker(kubelet: Minor) -> Self {
        if kubelet <= LAST_WITH_DOCKERSHIM { Self::Dockershim } else { Self::CriDockerd }
    }

    /// The same runtime with another representation of the version of containerd.
    pub fn map_version<W>(self, map: impl FnOnce(V) -> W) -> ContainerRuntime<W> {
        match self {
            Self::Containerd(version) => ContainerRuntime::Containerd(map(version)),
            Self::Dockershim => ContainerRuntime::Dockershim,
            Self::CriDockerd => ContainerRuntime::CriDockerd,
        }
    }

    /// The CRI endpoint on Windows.
    pub const fn endpoint(&self) -> &'static str {
        match self {
            Self::Containerd(_) => "npipe:////./pipe/containerd-containerd",
            Self::Dockershim => "npipe:////./pipe/dockershim",
            Self::CriDockerd => "npipe:////./pipe/cri-dockerd",
        }
    }
}

impl ContainerRuntime<ContainerdVersion> {
    /// Parses `nodeInfo.containerRuntimeVersion`. `None` for an unknown runtime and an invalid version. `docker://` of
    /// an unknown kubelet counts as cri-dockerd.
    pub fn read(text: &str, kubelet: Option<Minor>) -> Option<Self> {
        match text.split_once("://")? {
            ("containerd", version) => version.parse().ok().map(Self::Containerd),
            ("docker", _) => Some(kubelet.map_or(Self::CriDockerd, Self::docker)),
            _ => None,
        }
    }

    /// The version of containerd, if this is containerd.
    pub const fn containerd(self) -> Option<ContainerdVersion> {
        match self {
            Self::Containerd(version) => Some(version),
            Self::Dockershim | Self::CriDockerd => None,
        }
    }

    /// The RuntimeClass handlers of the runtime; `None` if they are not known. containerd has both of its handlers with
    /// a `rendered` configuration.
    pub fn handlers(self, rendered: bool) -> Option<&'static [&'static str]> {
        match self {
            Self::Containerd(_) if rendered => Some(&[PROCESS_HANDLER, HYPERV_HANDLER]),
            Self::Containerd(version) => Some(release_line(version)?.default_handlers),
            Self::Dockershim | Self::CriDockerd => Some(&[DOCKER_HANDLER]),
        }
    }
}

impl<V: fmt::Display> fmt::Display for ContainerRuntime<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Containerd(version) => write!(f, "containerd {version}"),
            Self::Dockershim => f.write_str("dockershim"),
            Self::CriDockerd => f.write_str("cri-dockerd"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_is_dockershim_up_to_1_23_and_cri_dockerd_from_1_24() {
        for minor in 14..=37 {
            let docker = if minor <= 23 { ContainerRuntime::Dockershim } else { ContainerRuntime::CriDockerd };
            assert_eq!(ContainerRuntime::read("docker://19.3.14", Some(Minor(minor))), Some(docker), "1.{minor}");
        }
        assert_eq!(ContainerRuntime::read("docker://19.3.14", None), Some(ContainerRuntime::CriDockerd));
    }

    #[test]
    fn a_runtime_is_parsed_with_the_version_of_containerd() {
        let table = [
            ("containerd://1.7.27", Some(ContainerdVersion::new(1, 7, 27))),
            ("containerd://2.0.4-rc.1", Some(ContainerdVersion::new(2, 0, 4))),
            ("containerd://1.6.20~ds1", Some(ContainerdVersion::new(1, 6, 20))),
            ("containerd://unknown", None),
            ("containerd", None),
            ("cri-o://1.30.0", None),
            ("docker:/19.3", None),
            ("", None),
        ];
        for (text, version) in table {
            let runtime = ContainerRuntime::read(text, Some(Minor(34)));
            assert_eq!(runtime, version.map(ContainerRuntime::Containerd), "{text}");
        }
    }

    #[test]
    fn handlers_depend_on_the_runtime_its_version_and_its_configuration() {
        let containerd = |minor| ContainerRuntime::Containerd(ContainerdVersion::new(1, minor, 20));
        let both = ["runhcs-wcow-process", "runhcs-wcow-hypervisor"];
        let table: [(_, _, Option<&[&str]>); 6] = [
            (containerd(7), false, Some(&both)),
            (containerd(6), false, Some(&both[..1])),
            (containerd(6), true, Some(&both)),
            (containerd(2), false, None),
            (ContainerRuntime::Dockershim, true, Some(&["docker"])),
            (ContainerRuntime::CriDockerd, false, Some(&["docker"])),
        ];
        for (runtime, rendered, handlers) in table {
            assert_eq!(runtime.handlers(rendered), handlers, "{runtime}, rendered: {rendered}");
        }
    }
}
