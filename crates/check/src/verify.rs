//! The checks of a first deployment: the objects that make them, and what the pods of these objects amount to.
//!
//! Sources, read on 2026-11-29: kubernetes/website, `content/en/docs/concepts/windows/user-guide.md` (099ccc3f), "Getting Started", for
//! the checks and that a Windows host does not reach Services on it, and `content/en/docs/concepts/services-networking/windows-networking.md`
//! (038a69be), "Limitations" and "Networking", for NodePorts from the node itself, ICMP, and that only names without a dot get a suffix;
//! kubernetes/kubernetes v1.37.2, `test/images/agnhost`, for the commands.

mod objects;
mod verdict;

use serde::Serialize;
use winpool_api::Taint;
use winpool_core::node::WindowsNode;
use winpool_facts::named_enum;
use winpool_rules::pool::{Snapshot, plan::Planner};

pub use verdict::{CheckResult, LogRead, Outcome, verdicts};

/// The port that `netexec` listens on.
const PORT: u16 = 8080;
/// The pods on each node that the others reach.
const SERVERS: usize = 2;
/// After how many ends of its container with an error a connection counts as failed.
const ATTEMPTS: i32 = 3;

named_enum! {
    /// A check, in the order of its source.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Check {
        /// Two pods run on each node.
        PodsRun = "pods-run",
        /// The kubelet of each node reaches the pods on it, and a Linux node every pod.
        NodeToPod = "node-to-pod",
        /// A pod on each node reaches the pods on it and on the others.
        PodToPod = "pod-to-pod",
        /// A Linux node and the pods reach a Service.
        Service = "service",
        /// The pods find a Service by its DNS name.
        ServiceDiscovery = "service-discovery",
        /// A Linux node reaches the NodePort of each node.
        NodePort = "node-port",
        /// The pods reach an address outside of the cluster.
        Outbound = "outbound",
        /// The API server reads logs, and the kubelet runs a command in a container.
        LogsAndExec = "logs-and-exec",
    }
}

/// What Windows does not do by design, so that it is not checked.
const BY_DESIGN: [(Check, &str, &str); 3] = [
    (Check::Service, "Windows hosts", "a Windows host does not reach Services that are scheduled on it; pods do"),
    (Check::NodePort, "Windows hosts", "a Windows host does not reach its own NodePorts; other nodes do"),
    (Check::Outbound, "pods, by ICMP", "Windows does not translate ICMP to other networks; TCP and UDP are"),
];

/// Where connections come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// A pod on each node of the pool.
    Pods,
    /// A pod in the network of a Linux node.
    LinuxNode,
}

/// A Job other than that of the servers. It connects to its targets, or serves if it has none.
struct Probe {
    name: &'static str,
    check: Check,
    side: Side,
    targets: fn(&Verification, &[Option<String>]) -> Vec<Target>,
}

/// What is reached, as people call it, and the address with its port.
struct Target {
    what: String,
    address: String,
}

/// The Job of the servers.
const PODS: &str = "pods";
/// The Job without targets, whose container a command is run in, and whose logs are read.
pub const LOGS_AND_EXEC: &str = "logs-and-exec";

const PROBES: [Probe; 8] = [
    Probe { name: "node-to-pod", check: Check::NodeToPod, side: Side::LinuxNode, targets: Verification::servers },
    Probe { name: "pod-to-pod", check: Check::PodToPod, side: Side::Pods, targets: Verification::servers },
    Probe { name: "node-to-service", check: Check::Service, side: Side::LinuxNode, targets: Verification::service },
    Probe { name: "pod-to-service", check: Check::Service, side: Side::Pods, targets: Verification::service },
    Probe { name: "discovery", check: Check::ServiceDiscovery, side: Side::Pods, targets: Verification::name },
    Probe { name: "node-port", check: Check::NodePort, side: Side::LinuxNode, targets: Verification::node_ports },
    Probe { name: "outbound", check: Check::Outbound, side: Side::Pods, targets: Verification::outside },
    Probe { name: LOGS_AND_EXEC, check: Check::LogsAndExec, side: Side::Pods, targets: |_, _| Vec::new() },
];

/// What is verified, and how.
#[derive(Clone, Debug)]
pub struct Verification {
    pub pool: String,
    /// The namespace of its objects.
    pub namespace: String,
    pub nodes: Vec<VerifiedNode>,
    /// The taints of the pool, which pods tolerate.
    pub taints: Vec<Taint>,
    pub runtime_class: Option<String>,
    /// agnhost, for Windows and Linux.
    pub image: String,
    /// The host and port outside of the cluster.
    pub outbound: String,
    pub cluster_domain: String,
    pub node_port: u16,
    /// The limit of each Job, in seconds.
    pub limit: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifiedNode {
    pub name: String,
    /// Its label `kubernetes.io/hostname`.
    pub hostname: String,
    /// Its InternalIP.
    pub address: String,
}

/// The nodes of a pool that are ready and not cordoned, by name.
pub fn eligible(snapshot: &Snapshot, pool: &str) -> Vec<WindowsNode> {
    let planner = Planner::new(snapshot);
    let mut nodes: Vec<_> = planner.members(pool).filter(|node| node.is_schedulable()).cloned().collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

impl Verification {
    /// The name that its objects begin with: a DNS label of at most 40 characters.
    pub fn name_of(pool: &str) -> String {
        let pool: String = pool.replace('.', "-").chars().take(33).collect();
        format!("verify-{}", pool.trim_end_matches('-'))
    }

    fn base(&self) -> String {
        Self::name_of(&self.pool)
    }

    /// The number of servers.
    pub fn server_count(&self) -> usize {
        self.nodes.len() * SERVERS
    }

    /// By address if it is known, so that these checks do not depend on DNS.
    fn servers(&self, addresses: &[Option<String>]) -> Vec<Target> {
        let (base, namespace, domain) = (self.base(), &self.namespace, &self.cluster_domain);
        let target = |index: usize| {
            let by_name = || format!("{base}-{PODS}-{index}.{base}-{PODS}.{namespace}.svc.{domain}");
            let host = addresses.get(index).cloned().flatten().unwrap_or_else(by_name);
            Target { what: format!("pod {base}-{PODS}-{index}"), address: with_port(&host, PORT) }
        };
        (0..self.server_count()).map(target).collect()
    }

    /// By the variable that the kubelet sets, so that it does not depend on DNS.
    fn service(&self, _: &[Option<String>]) -> Vec<Target> {
        let variable = format!("{}_SERVICE_HOST", self.base().replace('-', "_").to_uppercase());
        vec![Target { what: format!("Service {}", self.base()), address: format!("$({variable}):{PORT}") }]
    }

    fn name(&self, _: &[Option<String>]) -> Vec<Target> {
        let host = format!("{}.{}.svc.{}", self.base(), self.namespace, self.cluster_domain);
        vec![Target { what: host.clone(), address: with_port(&host, PORT) }]
    }

    fn node_ports(&self, _: &[Option<String>]) -> Vec<Target> {
        let target = |node: &VerifiedNode| Target {
            what: format!("port {} of node {}", self.node_port, node.name),
            address: with_port(&node.address, self.node_port),
        };
        self.nodes.iter().map(target).collect()
    }

    fn outside(&self, _: &[Option<String>]) -> Vec<Target> {
        vec![Target { what: self.outbound.clone(), address: self.outbound.clone() }]
    }
}

/// An IPv6 address is in brackets.
fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests;
