//! Whether a node can run the agent's pod, which has a HostProcess container.

use derive_more::Display;
use winpool_core::node::WindowsNode;
use winpool_facts::{Build, ContainerRuntime, ContainerdVersion, host_process::FIRST_WINDOWS};

/// Why a node cannot run the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum AgentObstacle {
    /// Its Windows has no HostProcess containers.
    #[display(
        "the agent needs Windows Server 2019 ({FIRST_WINDOWS}) or later, and this is {_0}. Replace the node, or move it to a \
         pool with delivery.method: None"
    )]
    Windows(Build),
    /// Its container runtime is not containerd.
    #[display(
        "the agent needs containerd, and this is Docker. Replace the node, or move it to a pool with delivery.method: None"
    )]
    OtherRuntime,
}

impl AgentObstacle {
    /// That of a node; `None` if the agent can run, or its versions are not known.
    pub fn of(node: &WindowsNode) -> Option<Self> {
        Self::between(node.build(), node.runtime.as_ref().ok())
    }

    fn between(windows: Option<Build>, runtime: Option<&ContainerRuntime<ContainerdVersion>>) -> Option<Self> {
        if let Some(build) = windows.filter(|build| *build < FIRST_WINDOWS) {
            return Some(Self::Windows(build));
        }
        match runtime? {
            ContainerRuntime::Containerd(_) => None,
            ContainerRuntime::CriDockerd => Some(Self::OtherRuntime),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_needs_a_windows_and_a_runtime_with_host_process_containers() {
        let containerd = || Some(ContainerRuntime::Containerd(ContainerdVersion::new(1, 7, 20)));
        let table = [
            (Some(14393), containerd(), Some("Windows Server 2019 (10.0.17763) or later, and this is 10.0.14393.")),
            (Some(17763), containerd(), None),
            (Some(20348), Some(ContainerRuntime::CriDockerd), Some("the agent needs containerd, and this is Docker.")),
            (None, containerd(), None),
            (Some(20348), None, None),
            (None, None, None),
        ];
        for (windows, runtime, expected) in table {
            let found =
                AgentObstacle::between(windows.map(Build), runtime.as_ref()).map(|obstacle| obstacle.to_string());
            match (&found, expected) {
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                _ => assert_eq!(found.is_some(), expected.is_some(), "{windows:?} {runtime:?}: {found:?}"),
            }
        }
    }
}
