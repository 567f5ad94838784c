//! The nodes and the workloads.

use e2e::kubelet::SimulatedNode;
use serde_json::{Value, json};
use winpool_facts::support::OLDEST;

const SERVER_2019: &str = "10.0.17763.7009";
const SERVER_2022: &str = "10.0.20348.4529";
const SERVER_2025: &str = "10.0.26100.4652";

/// The nodes of the pools in `config/samples`, for an API server of this minor version.
pub fn nodes(minor: u32) -> Vec<SimulatedNode> {
    // Kubernetes 1.34 is the last one for Windows Server 2019.
    let batch = minor.min(34);
    let too_old = (minor - 4).max(OLDEST.0);
    vec![
        windows("web-1", SERVER_2022, minor).taking_configuration(),
        windows("web-2", SERVER_2022, minor).taking_configuration(),
        windows("web-3", SERVER_2022, minor).taking_configuration(),
        windows("batch-1", SERVER_2019, batch).taking_configuration(),
        // The two mistakes: another build than that of its pool, and a kubelet that is too old.
        windows("batch-2", SERVER_2025, batch).taking_configuration(),
        windows("batch-3", SERVER_2019, too_old).taking_configuration(),
        windows("spare-1", SERVER_2025, minor).taint("os", "windows", "NoSchedule"),
        windows("spare-2", SERVER_2025, minor).taint("os", "windows", "NoSchedule"),
        SimulatedNode::linux("linux-1").kubelet(&format!("v1.{minor}.2")),
    ]
}

/// A Windows node named `<agentpool>-<number>`.
fn windows(name: &str, kernel_version: &str, minor: u32) -> SimulatedNode {
    let agentpool = name.split('-').next().unwrap_or(name);
    SimulatedNode::windows(name, kernel_version)
        .kubelet(&format!("v1.{minor}.2"))
        .runtime("containerd://2.3.7")
        .label("agentpool", agentpool)
}

pub struct Workload {
    pub name: &'static str,
    pub replicas: usize,
    /// The RuntimeClass of its Pods, which selects their nodes and tolerates the taints there.
    class: Option<&'static str>,
    image: &'static str,
    /// The nodes on which its Pods run.
    pub nodes: &'static [&'static str],
}

/// The Deployments: one for each pool that writes, and one for Linux.
pub const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "shop",
        replicas: 3,
        class: Some("windows-ltsc2022"),
        image: "mcr.microsoft.com/windows/nanoserver:ltsc2022",
        nodes: &["web-1", "web-2", "web-3"],
    },
    Workload {
        name: "payroll",
        replicas: 2,
        class: Some("windows-ltsc2019"),
        image: "mcr.microsoft.com/windows/servercore:ltsc2019",
        nodes: &["batch-1", "batch-3"],
    },
    Workload { name: "proxy", replicas: 2, class: None, image: "docker.io/library/nginx:1.29", nodes: &["linux-1"] },
];

impl Workload {
    /// The Deployment. Its Pods have a memory limit, because Windows has no out-of-memory killer and pages instead.
    pub fn object(&self) -> Value {
        let (labels, memory) = (json!({ "app": self.name }), json!({ "memory": "512Mi" }));
        let resources = json!({ "requests": memory, "limits": memory });
        json!({
            "metadata": { "name": self.name },
            "spec": {
                "replicas": self.replicas,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "runtimeClassName": self.class,
                        "containers": [{ "name": "app", "image": self.image, "resources": resources }],
                    },
                },
            },
        })
    }
}
