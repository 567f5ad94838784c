//! The container runtimes of Windows nodes.
//!
//! Sources: endpoints from kubernetes/website,
//! `content/en/docs/setup/production-environment/tools/kubeadm/install-kubeadm.md` (pull request 31309, 2022-01),
//! Mirantis/cri-dockerd, `cmd/cri/options/options.go` (2026-04-27), and kubernetes/kubernetes pull request 106973 for
//! dockershim; handler `docker` from `core/sandbox_run.go` of cri-dockerd v0.3.0, which took it over from dockershim;
//! minors from kubernetes/enhancements, KEP 1001 (containerd on Windows: alpha 1.18, stable 1.20), and the Kubernetes
//! 1.24 release notes (dockershim removed).

use jiff::civil::{Date, date};

use super::{
    ContainerdVersion, Minor,
    containerd::{HYPERV_HANDLER, PROCESS_HANDLER},
};

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 4, 27);

/// What runs the containers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    /// containerd.
    Containerd,
    /// Docker Engine behind the adapter built into the kubelet.
    Dockershim,
    /// Docker Engine, or Mirantis Container Runtime, behind the adapter that followed dockershim.
    CriDockerd,
}

/// The facts about a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// The runtime they are about.
    pub runtime: Runtime,
    /// Its CRI endpoint on Windows.
    pub endpoint: &'static str,
    /// The RuntimeClass handlers it can have out of the box, the default one first. Which of them a containerd has
    /// depends on its [generation](super::containerd::Generation::default_handlers).
    pub handlers: &'static [&'static str],
    /// What `nodeInfo.containerRuntimeVersion` begins with.
    pub version_prefix: &'static str,
    /// The first kubelet minor with it on Windows.
    pub first: Minor,
    /// The last kubelet minor with it, if there is one.
    pub last: Option<Minor>,
}

/// The handler that means Docker Engine's default runtime, the only one that every version of both adapters takes.
pub const DOCKER_HANDLER: &str = "docker";

/// The handlers that we know. What others mean, only the configuration of the node says.
pub const HANDLERS: [&str; 3] = [PROCESS_HANDLER, HYPERV_HANDLER, DOCKER_HANDLER];

const CONTAINERD_PREFIX: &str = "containerd://";
const DOCKER_PREFIX: &str = "docker://";

/// Every runtime.
pub const RUNTIMES: &[RuntimeFacts] = &[
    RuntimeFacts {
        runtime: Runtime::Containerd,
        endpoint: "npipe:////./pipe/containerd-containerd",
        handlers: &[PROCESS_HANDLER, HYPERV_HANDLER],
        version_prefix: CONTAINERD_PREFIX,
        first: Minor(18),
        last: None,
    },
    RuntimeFacts {
        runtime: Runtime::Dockershim,
        endpoint: "npipe:////./pipe/dockershim",
        handlers: &[DOCKER_HANDLER],
        version_prefix: DOCKER_PREFIX,
        first: Minor(14),
        last: Some(Minor(23)),
    },
    RuntimeFacts {
        runtime: Runtime::CriDockerd,
        endpoint: "npipe:////./pipe/cri-dockerd",
        handlers: &[DOCKER_HANDLER],
        version_prefix: DOCKER_PREFIX,
        first: Minor(24),
        last: None,
    },
];

impl Runtime {
    /// The runtime of a node, from its `nodeInfo.containerRuntimeVersion` and its kubelet's minor, since `docker://` is
    /// dockershim or cri-dockerd by the age of the kubelet. `None` for a runtime that Windows does not have.
    pub fn of(container_runtime_version: &str, kubelet: Minor) -> Option<Self> {
        let fits = |facts: &&RuntimeFacts| {
            container_runtime_version.starts_with(facts.version_prefix) && facts.last.is_none_or(|last| kubelet <= last)
        };
        RUNTIMES.iter().find(fits).map(|facts| facts.runtime)
    }

    /// The facts about it.
    pub const fn facts(self) -> &'static RuntimeFacts {
        match self {
            Self::Containerd => &RUNTIMES[0],
            Self::Dockershim => &RUNTIMES[1],
            Self::CriDockerd => &RUNTIMES[2],
        }
    }
}

/// The version of containerd in `nodeInfo.containerRuntimeVersion`; `None` for another runtime, or for a version nobody
/// can read.
pub fn containerd_version(container_runtime_version: &str) -> Option<ContainerdVersion> {
    container_runtime_version.strip_prefix(CONTAINERD_PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_has_an_endpoint_and_handlers_of_its_own() {
        let table = [
            (Runtime::Containerd, "containerd-containerd", &["runhcs-wcow-process", "runhcs-wcow-hypervisor"][..]),
            (Runtime::Dockershim, "dockershim", &["docker"][..]),
            (Runtime::CriDockerd, "cri-dockerd", &["docker"][..]),
        ];
        assert_eq!(table.len(), RUNTIMES.len(), "the table has every runtime");
        for (runtime, pipe, handlers) in table {
            let facts = runtime.facts();
            assert_eq!(facts.runtime, runtime);
            assert_eq!(facts.endpoint, format!("npipe:////./pipe/{pipe}"));
            assert_eq!(facts.handlers, handlers);
        }
    }

    #[test]
    fn docker_is_dockershim_until_1_23_and_cri_dockerd_from_1_24() {
        for minor in 14..=37 {
            let docker = if minor <= 23 { Runtime::Dockershim } else { Runtime::CriDockerd };
            let of = |version| Runtime::of(version, Minor(minor));
            assert_eq!(of("docker://19.3.14"), Some(docker), "1.{minor}");
            assert_eq!(of("containerd://1.7.27"), Some(Runtime::Containerd), "1.{minor}");
            for unknown in ["", "cri-o://1.30.0", "containerd", "docker:/19.3"] {
                assert_eq!(of(unknown), None, "{unknown}");
            }
            let facts = docker.facts();
            assert!(facts.first <= Minor(minor) && facts.last.is_none_or(|last| Minor(minor) <= last), "1.{minor}");
        }
    }

    #[test]
    fn the_version_of_containerd_is_read_or_unknown() {
        let table = [
            ("containerd://1.7.27", Some(ContainerdVersion::new(1, 7, 27))),
            ("containerd://2.0.4-rc.1", Some(ContainerdVersion::new(2, 0, 4))),
            ("containerd://1.6.20~ds1", Some(ContainerdVersion::new(1, 6, 20))),
            ("containerd://unknown", None),
            ("docker://19.3.14", None),
            ("", None),
        ];
        for (text, version) in table {
            assert_eq!(containerd_version(text), version, "{text}");
        }
    }
}
