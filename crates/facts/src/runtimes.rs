//! The container runtimes of Windows nodes.
//!
//! Sources: endpoints from kubernetes/website,
//! `content/en/docs/setup/production-environment/tools/kubeadm/install-kubeadm.md` (pull request 31309, 2022-01),
//! Mirantis/cri-dockerd, `cmd/cri/options/options.go` and `core/sandbox_helpers.go` (246bd65, 2026-04-27), that of
//! containerd also from kubernetes-sigs/cluster-api-provider-azure, `templates/cluster-template-windows.yaml`
//! (69ec3a40, 2026-08-19); handler `docker` from `core/sandbox_run.go` of cri-dockerd v0.3.0; `RuntimeConfig` from KEP-4033 of
//! kubernetes/enhancements (pull request 6087), `getCgroupDriverFromCRI` in `cmd/kubelet/app/server.go` of kubernetes/kubernetes at v1.37.2,
//! which calls it on every system, and Mirantis/cri-dockerd pull request 425 (read 2026-11-29). Pull request 136731, which removes the
//! fallback, was open in September 2026, and v1.38.0-beta.0 still has the fallback, with the metric `kubelet_cri_losing_support` for 1.38.0.

use std::fmt;

use super::{
    ContainerdVersion, Minor,
    containerd::{BUILT_IN_HANDLERS, HYPERV_HANDLER, PROCESS_HANDLER, release_line},
};

/// The first minor whose kubelet is announced to fail at its start without the call `RuntimeConfig` of the runtime.
pub const RUNTIME_CONFIG_REQUIRED: Minor = Minor(38);
/// The first containerd with the call.
pub const CONTAINERD_WITH_RUNTIME_CONFIG: ContainerdVersion = ContainerdVersion::new(2, 0, 0);
/// The first cri-dockerd with the call. Nodes report the version of Docker Engine only.
pub const CRI_DOCKERD_WITH_RUNTIME_CONFIG: &str = "0.3.17";

/// The handler for Docker Engine's default runtime, the only one that every version of cri-dockerd accepts.
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
    Containerd(V),
    /// Docker Engine, or Mirantis Container Runtime, with the adapter cri-dockerd.
    CriDockerd,
}

impl<V> ContainerRuntime<V> {
    /// The same runtime with another representation of the version of containerd.
    pub fn map_version<W>(self, map: impl FnOnce(V) -> W) -> ContainerRuntime<W> {
        match self {
            Self::Containerd(version) => ContainerRuntime::Containerd(map(version)),
            Self::CriDockerd => ContainerRuntime::CriDockerd,
        }
    }

    /// The CRI endpoint on Windows.
    pub const fn endpoint(&self) -> &'static str {
        match self {
            Self::Containerd(_) => "npipe:////./pipe/containerd-containerd",
            Self::CriDockerd => "npipe:////./pipe/cri-dockerd",
        }
    }
}

impl ContainerRuntime<ContainerdVersion> {
    /// Parses `nodeInfo.containerRuntimeVersion`. `None` for an unknown runtime and an invalid version.
    pub fn read(text: &str) -> Option<Self> {
        match text.split_once("://")? {
            ("containerd", version) => version.parse().ok().map(Self::Containerd),
            ("docker", _) => Some(Self::CriDockerd),
            _ => None,
        }
    }

    pub const fn containerd(self) -> Option<ContainerdVersion> {
        match self {
            Self::Containerd(version) => Some(version),
            Self::CriDockerd => None,
        }
    }

    /// The RuntimeClass handlers that the runtime has without a configuration of them; `None` if they are not known.
    pub fn handlers(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Containerd(version) => release_line(version).map(|_| BUILT_IN_HANDLERS.as_slice()),
            Self::CriDockerd => Some(&[DOCKER_HANDLER]),
        }
    }
}

impl<V: fmt::Display> fmt::Display for ContainerRuntime<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Containerd(version) => write!(f, "containerd {version}"),
            Self::CriDockerd => f.write_str("cri-dockerd"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_parsed_with_the_version_of_containerd() {
        let table = [
            ("containerd://1.7.27", Some(ContainerRuntime::Containerd(ContainerdVersion::new(1, 7, 27)))),
            ("containerd://2.0.4-rc.1", Some(ContainerRuntime::Containerd(ContainerdVersion::new(2, 0, 4)))),
            ("containerd://1.6.20~ds1", Some(ContainerRuntime::Containerd(ContainerdVersion::new(1, 6, 20)))),
            ("docker://27.5.1", Some(ContainerRuntime::CriDockerd)),
            ("containerd://unknown", None),
            ("containerd", None),
            ("cri-o://1.30.0", None),
            ("docker:/19.3", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(ContainerRuntime::read(text), expected, "{text}");
        }
    }

    #[test]
    fn handlers_depend_on_the_runtime() {
        let containerd = |minor| ContainerRuntime::Containerd(ContainerdVersion::new(1, minor, 20));
        let both = ["runhcs-wcow-process", "runhcs-wcow-hypervisor"];
        let table: [(_, Option<&[&str]>); 3] =
            [(containerd(7), Some(&both)), (containerd(6), None), (ContainerRuntime::CriDockerd, Some(&["docker"]))];
        for (runtime, handlers) in table {
            assert_eq!(runtime.handlers(), handlers, "{runtime}");
        }
    }
}
