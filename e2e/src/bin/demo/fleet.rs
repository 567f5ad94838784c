//! The machines and workloads of the demonstration for an API server of a given minor version.

use e2e::kubelet::SimulatedNode;
use winpool_api::facts::support::OLDEST;

/// The nodes and the workloads.
pub struct Fleet {
    /// Eight Windows nodes and two Linux ones.
    pub nodes: Vec<SimulatedNode>,
    /// One Deployment for each pool of the samples, and one for Linux.
    pub workloads: Vec<Workload>,
    /// The workloads that are intentionally wrong.
    pub mistakes: Mistakes,
}

/// Two workloads for one pool that do not work: a Deployment of an image for another Windows, and a DaemonSet that
/// relies on its RuntimeClass.
#[derive(Clone, Copy)]
pub struct Mistakes {
    /// The pool that reports these mistakes.
    pub pool: &'static str,
    /// The RuntimeClass of both, which selects nodes of the pool.
    pub class: &'static str,
    /// The image of the DaemonSet, which would run there.
    pub fits: &'static str,
}

impl Mistakes {
    /// The name of the Deployment.
    pub const DEPLOYMENT: &str = "legacy";
    /// The name of the DaemonSet.
    pub const DAEMON_SET: &str = "agent";
    /// The Deployment's image, for Windows Server 2019.
    pub const IMAGE: &str = "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019";
    /// The error of containerd on other Windows versions, quoted from containerd/containerd issue 6989.
    pub const REFUSAL: &str = "rpc error: code = NotFound desc = failed to pull and unpack image \
        \"mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019\": no match for platform in manifest: not found";
}

/// A Deployment, and the placement of its Pods.
pub struct Workload {
    /// The Deployment's name.
    pub name: &'static str,
    /// The number of its Pods.
    pub replicas: usize,
    /// How its Pods are scheduled to a node.
    pub placement: Placement,
    /// The image of its container, which is not pulled.
    pub image: &'static str,
}

/// How Pods are scheduled to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// With a RuntimeClass that selects nodes of a build.
    RuntimeClass { name: &'static str, build: &'static str },
    /// With a build label in the node selector and a toleration in the Pod: a pool in mode Observe creates no
    /// RuntimeClass.
    ByHand { build: &'static str },
    /// Without constraints: only taints exclude the Windows nodes.
    Anywhere,
}

impl Placement {
    /// The Windows build that the Pods need; `None` for Linux.
    pub fn build(self) -> Option<&'static str> {
        match self {
            Self::RuntimeClass { build, .. } | Self::ByHand { build } => Some(build),
            Self::Anywhere => None,
        }
    }
}

const SERVER_2019: &str = "10.0.17763";
const SERVER_2022: &str = "10.0.20348";
const SERVER_2025: &str = "10.0.26100";

/// The fleet for an API server of `minor`: Windows Server 2022, 2019 and 2025. Kubernetes 1.34 is the last minor that supports 2019.
pub fn fleet(minor: u32) -> Fleet {
    let batch = minor.min(34);
    let older_by = |minors: u32| (minor - minors).max(OLDEST.0);
    let nodes = vec![
        windows("web-1", SERVER_2022, 4529, minor, "containerd://2.3.4").taking_configuration(),
        windows("web-2", SERVER_2022, 4648, older_by(1), "containerd://2.2.7"),
        windows("web-3", SERVER_2022, 4648, minor, "containerd://2.3.4"),
        windows("batch-1", SERVER_2019, 7009, batch, "containerd://2.0.11").taking_configuration(),
        windows("batch-2", SERVER_2025, 4652, batch, "containerd://2.0.11").taking_configuration(),
        windows("batch-3", SERVER_2019, 5329, older_by(4), "containerd://1.7.34").taking_configuration(),
        tainted_by_hand(windows("spare-1", SERVER_2025, 4652, minor, "containerd://2.3.4")),
        tainted_by_hand(windows("spare-2", SERVER_2025, 4652, older_by(1), "containerd://2.3.4")),
    ];
    let workloads = vec![
        by_class("shop", 3, "windows-ltsc2022", SERVER_2022, "mcr.microsoft.com/windows/nanoserver:ltsc2022"),
        by_class("payroll", 3, "windows-ltsc2019", SERVER_2019, "mcr.microsoft.com/windows/servercore:ltsc2019"),
        by_hand("trial", 2, SERVER_2025, "mcr.microsoft.com/windows/nanoserver:ltsc2025"),
        anywhere("proxy", 3),
    ];
    let mistakes =
        Mistakes { pool: "web-2022", class: "windows-ltsc2022", fits: "mcr.microsoft.com/windows/nanoserver:ltsc2022" };
    Fleet { nodes: with_linux(nodes), workloads, mistakes }
}

/// A Windows node named `<agentpool>-<number>`.
fn windows(name: &str, build: &str, revision: u32, minor: u32, runtime: &str) -> SimulatedNode {
    let agentpool = name.split('-').next().unwrap_or(name);
    SimulatedNode::windows(name, &format!("{build}.{revision}"))
        .kubelet(&format!("v1.{minor}.2"))
        .runtime(runtime)
        .label("agentpool", agentpool)
}

fn tainted_by_hand(node: SimulatedNode) -> SimulatedNode {
    node.taint("os", "windows", "NoSchedule")
}

fn with_linux(mut nodes: Vec<SimulatedNode>) -> Vec<SimulatedNode> {
    nodes.extend(["linux-1", "linux-2"].map(SimulatedNode::linux));
    nodes
}

fn by_class(
    name: &'static str,
    replicas: usize,
    class: &'static str,
    build: &'static str,
    image: &'static str,
) -> Workload {
    Workload { name, replicas, placement: Placement::RuntimeClass { name: class, build }, image }
}

fn by_hand(name: &'static str, replicas: usize, build: &'static str, image: &'static str) -> Workload {
    Workload { name, replicas, placement: Placement::ByHand { build }, image }
}

fn anywhere(name: &'static str, replicas: usize) -> Workload {
    Workload { name, replicas, placement: Placement::Anywhere, image: "docker.io/library/nginx:1.29" }
}

#[cfg(test)]
mod tests {
    use winpool_api::facts::support::NEWEST;

    use super::*;

    #[test]
    fn every_minor_gets_eight_windows_nodes_of_several_builds_and_two_linux_nodes() {
        for minor in OLDEST.0..=NEWEST.0 {
            let nodes = fleet(minor).nodes;
            let builds: std::collections::BTreeSet<_> =
                nodes.iter().filter_map(|node| node.windows.as_ref()).map(e2e::kubelet::Windows::build).collect();
            let windows = nodes.iter().filter(|node| node.windows.is_some()).count();
            assert_eq!((windows, nodes.len()), (8, 10), "1.{minor}");
            assert!(builds.len() >= 3, "1.{minor}: {builds:?}");
        }
    }

    #[test]
    fn every_workload_has_a_node_of_its_build_that_is_within_the_version_skew_policy() {
        for minor in OLDEST.0..=NEWEST.0 {
            let Fleet { nodes, workloads, .. } = fleet(minor);
            for build in workloads.iter().filter_map(|workload| workload.placement.build()) {
                let fits = |node: &&SimulatedNode| {
                    let kubelet = node.kubelet_version.as_deref().and_then(|version| version.split('.').nth(1));
                    node.windows.as_ref().is_some_and(|windows| windows.build() == build)
                        && kubelet.and_then(|minor| minor.parse().ok()).is_some_and(|kubelet: u32| kubelet + 3 >= minor)
                };
                assert!(nodes.iter().any(|node| fits(&node)), "1.{minor}: {build}");
            }
        }
    }
}
