//! The symptoms that people meet on Windows nodes: what shows each, its cause, what to do, and where that is written.
//!
//! Every source was read on 2026-11-26 or 2026-11-27. Texts of events, conditions and logs are those that the sources quote, in lower
//! case. Those of `hostname-override` are in `cmd/kube-proxy/app/server.go` of kubernetes/kubernetes as text before structured logging
//! and as a field since then, and the last one is the error of `NewNodeManager` in `pkg/proxy/node.go` (007caad7).

use super::{
    case::{Case, Checked, PodState},
    checks,
    evidence::EvidencePart,
};

/// A symptom.
#[derive(Debug)]
pub struct Symptom {
    pub id: &'static str,
    /// What people see.
    pub title: &'static str,
    pub(super) detection: Detection,
    pub cause: &'static str,
    pub remedy: &'static str,
    /// The page or thread.
    pub source: &'static str,
}

/// What shows a symptom. Texts are compared without case, and one of several is enough; without a text, every text is.
#[derive(Debug)]
pub(super) enum Detection {
    /// Events with one of these reasons and texts, about pods in a state.
    Events { about: PodState, reasons: &'static [&'static str], texts: &'static [&'static str] },
    /// Events with this reason that no other row has a text of.
    OtherEvents { about: PodState, reason: &'static str },
    /// A condition of a node, with one of these statuses and texts.
    Condition { of: &'static str, statuses: &'static [&'static str], texts: &'static [&'static str] },
    /// More than one field of these parts.
    Check { parts: &'static [EvidencePart], check: fn(&Case<'_>) -> Checked },
    /// A line of a log of one of these services, or the node itself, with this command. In a text, `…` is any part of the line. Logs never
    /// exclude it: see [`LogContent`].
    ///
    /// [`LogContent`]: super::LogContent
    Log { services: &'static [&'static str], texts: &'static [&'static str], command: &'static str },
    /// The answer of the agent of a node, with these parts, or the node itself, with this command.
    Agent { parts: &'static [EvidencePart], check: checks::AgentCheck, command: &'static str },
    /// Only the node itself, with this command.
    OnNode { command: &'static str },
}

impl Symptom {
    /// The parts that show it: nothing is excluded without them.
    pub fn parts(&self) -> &'static [EvidencePart] {
        match &self.detection {
            Detection::Events { .. } | Detection::OtherEvents { .. } => &[EvidencePart::Pods, EvidencePart::Events],
            Detection::Condition { .. } => &[EvidencePart::Nodes],
            Detection::Check { parts, .. } | Detection::Agent { parts, .. } => parts,
            Detection::Log { .. } => &[EvidencePart::NodeLogs],
            Detection::OnNode { .. } => &[],
        }
    }

    /// The command that shows it on the node, if the API has nothing of it.
    pub fn command(&self) -> Option<&'static str> {
        match self.detection {
            Detection::OnNode { command } | Detection::Log { command, .. } | Detection::Agent { command, .. } => {
                Some(command)
            }
            _ => None,
        }
    }

    /// What of the parts shows it, for a table.
    pub fn shown_by(&self) -> String {
        let texts = |texts: &[&str]| texts.iter().map(|text| format!(" `{text}`")).collect::<Vec<_>>().join(",");
        match &self.detection {
            Detection::Events { reasons, texts: parts, .. } => format!("event {}{}", reasons.join(", "), texts(parts)),
            Detection::OtherEvents { reason, .. } => format!("event {reason}, any other"),
            Detection::Condition { of, statuses, texts: parts } => {
                format!("condition {of} {}{}", statuses.join(", "), texts(parts))
            }
            Detection::Check { parts, .. } => parts.iter().map(|part| part.resource()).collect::<Vec<_>>().join(", "),
            Detection::Log { services, texts: parts, command } => {
                format!("log of {}{}, or the node: `{command}`", services.join(", "), texts(parts))
            }
            Detection::Agent { command, .. } => format!("the agent, or the node: `{command}`"),
            Detection::OnNode { command } => format!("the node: `{command}`"),
        }
    }
}

const SANDBOX: &[&str] = &["FailedCreatePodSandBox"];
const MOUNT: &[&str] = &["FailedMount", "FailedAttachVolume", "FailedMapVolume"];
const TIPS: &str = "https://kubernetes.io/docs/tasks/debug/debug-cluster/windows/";
const NODE_STATUS: &str = "https://kubernetes.io/docs/reference/node/node-status/";

const fn sandbox(texts: &'static [&'static str]) -> Detection {
    Detection::Events { about: PodState::NotStarted, reasons: SANDBOX, texts }
}

const fn mount(texts: &'static [&'static str]) -> Detection {
    Detection::Events { about: PodState::NotStarted, reasons: MOUNT, texts }
}

const fn pressure(of: &'static str) -> Detection {
    Detection::Condition { of, statuses: &["True"], texts: &[] }
}

const fn not_ready(texts: &'static [&'static str]) -> Detection {
    Detection::Condition { of: "Ready", statuses: &["False", "Unknown"], texts }
}

const fn check(parts: &'static [EvidencePart], check: fn(&Case<'_>) -> Checked) -> Detection {
    Detection::Check { parts, check }
}

const fn on_node(command: &'static str) -> Detection {
    Detection::OnNode { command }
}

/// What the agent of a node shows by itself.
const fn agent(check: checks::AgentCheck, command: &'static str) -> Detection {
    Detection::Agent { parts: &[EvidencePart::Nodes, EvidencePart::NodeConfigs], check, command }
}

/// What it shows together with the pods on the node.
const fn agent_and_pods(check: checks::AgentCheck, command: &'static str) -> Detection {
    let parts = &[EvidencePart::Nodes, EvidencePart::NodeConfigs, EvidencePart::Pods];
    Detection::Agent { parts, check, command }
}

const fn log(services: &'static [&'static str], texts: &'static [&'static str], command: &'static str) -> Detection {
    Detection::Log { services, texts, command }
}

/// The symptoms, those of nodes first.
pub static SYMPTOMS: &[Symptom] = {
    use EvidencePart::{DaemonSets, EndpointSlices, Events, Images, Leases, Machines, Nodes, Pods, Pools};
    &[
        Symptom {
            id: "pool-not-ready",
            title: "The pool is not Ready",
            detection: check(&[Pools, Nodes], checks::pools),
            cause: "the operator reports a problem in the status of the pool",
            remedy: "run `winpool status` with the name of the pool: it has the affected nodes and the commands that help",
            source: "docs/status.md",
        },
        Symptom {
            id: "node-pleg",
            title: "A node is NotReady: PLEG is not healthy",
            detection: not_ready(checks::PLEG),
            cause: "the container runtime or the host compute service answers slowly or not at all, often when memory or CPU is \
                    used up or many pods begin or end at once",
            remedy: "drain the node and restart it. Reserve memory and CPU for the system (`systemReserved` in the profile), and \
                     start fewer pods at once",
            source: "https://github.com/kubernetes/kubernetes/issues/110143",
        },
        Symptom {
            id: "node-cni-not-initialized",
            title: "A node is NotReady: its network plugin is not initialized",
            detection: not_ready(checks::NO_CNI),
            cause: "the container runtime finds no configuration of a CNI, or the plugin in another directory than it is configured for",
            remedy: "compare the directories of the CNI on the node with `bin_dir` and `conf_dir` of containerd, and look at the \
                     pods of the CNI on the node",
            source: "https://github.com/projectcalico/calico/issues/6122",
        },
        Symptom {
            id: "node-not-ready",
            title: "A node is NotReady, and its kubelet runs",
            detection: check(&[Nodes, Leases], checks::renewed_lease),
            cause: "the kubelet renews its Lease, and reports that the node is not healthy; the message of the condition says why",
            remedy: "act on the message. If it names the container runtime, restart containerd on the node",
            source: NODE_STATUS,
        },
        Symptom {
            id: "node-silent",
            title: "A node is NotReady, and its kubelet does not renew its Lease",
            detection: check(&[Nodes, Leases], checks::expired_lease),
            cause: "the machine or the kubelet does not run, or does not reach the API server",
            remedy: "look at the machine, at the service kubelet on it, and at its network to the API server",
            source: NODE_STATUS,
        },
        Symptom {
            id: "node-memory-pressure",
            title: "A node has MemoryPressure",
            detection: pressure("MemoryPressure"),
            cause: "memory of the node is low. Windows has no OOM killer: processes page to disk, and the kubelet and the \
                    container runtime become slow too",
            remedy: "set memory limits for the pods, reserve memory for the system (`systemReserved` in the profile), and remove \
                     pods from the node",
            source: "https://github.com/Azure/AKS/issues/2820",
        },
        Symptom {
            id: "node-disk-pressure",
            title: "A node has DiskPressure",
            detection: pressure("DiskPressure"),
            cause: "the disk of the node is nearly full, for instance of images or logs",
            remedy: "remove images and logs that are not used, or give the node a larger disk",
            source: NODE_STATUS,
        },
        Symptom {
            id: "node-pid-pressure",
            title: "A node has PIDPressure",
            detection: pressure("PIDPressure"),
            cause: "there are too many processes on the node",
            remedy: "find the pods whose processes do not end, and remove them",
            source: NODE_STATUS,
        },
        Symptom {
            id: "node-network-unavailable",
            title: "A node has NetworkUnavailable",
            detection: pressure("NetworkUnavailable"),
            cause: "the network of the node is not configured: its route or its CNI is missing",
            remedy: "look at the pods of the CNI on the node, and at the routes of the cloud provider",
            source: NODE_STATUS,
        },
        Symptom {
            id: "node-condition-unknown",
            title: "A condition of a node is Unknown",
            detection: check(&[Nodes], checks::unknown_conditions),
            cause: "the node controller has not heard from the kubelet",
            remedy: "look at the machine and at the service kubelet on it",
            source: NODE_STATUS,
        },
        Symptom {
            id: "node-other-condition",
            title: "A node has a condition of another program",
            detection: check(&[Nodes], checks::other_conditions),
            cause: "only the program that writes the condition defines which status is a problem",
            remedy: "look at its documentation",
            source: NODE_STATUS,
        },
        Symptom {
            id: "node-address",
            title: "Pods do not reach those of a node whose address has changed",
            detection: check(&[Nodes], checks::cni_address),
            cause: "the CNI reads the address of its node when it starts, and other nodes send the packets for its pods to the former one",
            remedy: "restart the CNI on the node: its pod, or its service",
            source: "https://github.com/projectcalico/calico/issues/8700",
        },
        Symptom {
            id: "kube-proxy-not-ready",
            title: "kube-proxy is missing or not ready on a node",
            detection: check(&[Nodes, Pods, DaemonSets], |case| checks::component(case, checks::KUBE_PROXY)),
            cause: "without kube-proxy, Services do not work on the node",
            remedy: "look at the events and logs of the pod, and at taints that the DaemonSet does not tolerate",
            source: "https://github.com/kubernetes-sigs/sig-windows-tools/issues/76",
        },
        Symptom {
            id: "cni-not-ready",
            title: "The CNI is missing or not ready on a node",
            detection: check(&[Nodes, Pods, DaemonSets], |case| checks::component(case, checks::CNI)),
            cause: "without the CNI, pods on the node get no network",
            remedy: "look at the events and logs of the pod, and at taints that the DaemonSet does not tolerate",
            source: "https://github.com/kubernetes-sigs/sig-windows-tools/issues/72",
        },
        Symptom {
            id: "csi-not-ready",
            title: "A CSI driver is missing or not ready on a node",
            detection: check(&[Nodes, Pods, DaemonSets], |case| checks::component(case, checks::CSI)),
            cause: "without the DaemonSet of the driver for Windows, its volumes are not mounted on the node",
            remedy: "look at the events and logs of the pod, and at csi-proxy if the driver needs it",
            source: "https://github.com/kubernetes-csi/csi-driver-smb/issues/427",
        },
        Symptom {
            id: "known-issue",
            title: "A version on a node has a known defect",
            detection: check(&[Nodes, Pods], checks::known_defects),
            cause: "the versions of kubelet, containerd, Windows or kube-proxy are in the table of known issues",
            remedy: "act on the text; `winpool explain` with the id has its source",
            source: "docs/known-issues.md",
        },
        Symptom {
            id: "machine-not-joined",
            title: "A machine of Cluster API does not become a node",
            detection: check(&[Machines], checks::machines),
            cause: "no node has the provider ID of the machine: it does not boot, kubeadm fails, or the kubelet does not register",
            remedy: "look at the infrastructure object of the machine, and at the log of cloudbase-init on it",
            source: "https://cluster-api.sigs.k8s.io/developer/core/controllers/machine",
        },
        Symptom {
            id: "flannel-subnet-env",
            title: "Pods do not start: /run/flannel/subnet.env is missing",
            detection: sandbox(&["subnet.env"]),
            cause: "flannel did not start on the node, so that it has not written this file",
            remedy: "restart flanneld on the node, or its pod. After a node has joined again, remove C:\\k\\SourceVip.json and \
                     C:\\k\\SourceVipRequest.json on it",
            source: TIPS,
        },
        Symptom {
            id: "cni-plugin-missing",
            title: "Pods do not start: a plugin of the CNI is missing on the node",
            detection: sandbox(&["failed to find plugin", "cni plugin not initialized", "cni config uninitialized"]),
            cause: "the program or the configuration of the CNI is not in the directory that containerd is configured for",
            remedy: "compare `bin_dir` and `conf_dir` of containerd with the directories into which the CNI is installed",
            source: "https://github.com/rancher-sandbox/rancher-desktop/issues/1644",
        },
        Symptom {
            id: "flannel-network",
            title: "Pods do not start: the HNS network of flannel is missing",
            detection: sandbox(&["gethnsnewtorkbyname", "gethnsnetworkbyname", "cbr0"]),
            cause: "flannel has not created its network on the node: it does not run, or its network adapter has another name",
            remedy: "run on the node: Get-HnsNetwork | ? Name -ieq \"cbr0\". If it prints nothing, start flannel with the name of \
                     the network adapter of the node",
            source: "https://github.com/kubernetes-sigs/sig-windows-tools/issues/88",
        },
        Symptom {
            id: "docker-network-host",
            title: "Pods do not start: Docker has no network host",
            detection: sandbox(&["network host not found"]),
            cause: "pods with the network of the node need a network of Docker with this name, which a restart removes",
            remedy: "run on the node, also at its start: docker network create -d nat host",
            source: "https://github.com/kubernetes-sigs/sig-windows-tools/issues/94",
        },
        Symptom {
            id: "hns-endpoint",
            title: "Pods do not start: HNS creates no endpoint",
            detection: sandbox(&[
                "hnscall failed",
                "hns failed",
                "hcncreateendpoint",
                "hnsendpoint",
                "hcncreatenamespace",
            ]),
            cause: "the state of the CNI and of the host network service differ, or the network of the CNI is missing on the node",
            remedy: "drain the node, and restart the CNI on it. If pods still do not start, restart the node",
            source: "https://github.com/Azure/acs-engine/issues/4046",
        },
        Symptom {
            id: "pause-image-mismatch",
            title: "Pods do not start: the pause image does not match the Windows of the node",
            detection: sandbox(&winpool_facts::runtime_errors::MISMATCH_ERRORS),
            cause: "the sandbox is made from the pause image, which has no variant for the build of the node",
            remedy: "set a pause image for this build: `sandbox_image` of containerd, which a profile of winpool renders",
            source: "https://github.com/kubernetes/kubernetes/issues/99157",
        },
        Symptom {
            id: "pause-image-unavailable",
            title: "Pods do not start: the pause image cannot be pulled",
            detection: sandbox(&["failed to get sandbox image"]),
            cause: "containerd does not reach the registry of `sandbox_image`, or there is no such tag",
            remedy: "set a pause image that exists for Windows, from a registry or mirror that the node reaches",
            source: "https://github.com/kubernetes-sigs/sig-windows-dev-tools/issues/64",
        },
        Symptom {
            id: "sandbox-name-reserved",
            title: "Pods do not start: the name of the sandbox is reserved",
            detection: sandbox(&["failed to reserve sandbox name"]),
            cause: "an earlier attempt to create the sandbox has not ended: the host compute service is slow or does not answer",
            remedy: "wait until the attempts end. If they do not, drain the node and restart it; start fewer pods at once",
            source: "https://github.com/kubernetes/kubernetes/issues/107561",
        },
        Symptom {
            id: "sandbox-other",
            title: "Pods do not start: their sandbox is not created, for another reason",
            detection: Detection::OtherEvents { about: PodState::NotStarted, reason: "FailedCreatePodSandBox" },
            cause: "the container runtime or the CNI failed; the text of the event says where",
            remedy: "look at the logs of the CNI and of containerd on the node",
            source: TIPS,
        },
        Symptom {
            id: "container-creating",
            title: "Pods stay in ContainerCreating without an event of a failure",
            detection: check(&[Pods, Events], checks::container_creating),
            cause: "the kubelet still works on the pod, or its events have expired; a pause image that does not match is frequent",
            remedy: "delete one of the pods, and read the events of the pod that replaces it",
            source: TIPS,
        },
        Symptom {
            id: "image-mismatch",
            title: "Containers do not start: the image does not match the Windows of the node",
            detection: check(&[Pods, Events], checks::image_mismatch),
            cause: "an image runs with process isolation only on a Windows that its base image matches (0xC0370101)",
            remedy: "use an image that has a variant for the build of the node, or a node that matches: a RuntimeClass of a pool \
                     selects one",
            source: "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility",
        },
        Symptom {
            id: "image-platform",
            title: "Containers do not start: the registry has no variant of their image for the node",
            detection: check(&[Nodes, Pods, Images], checks::image_platforms),
            cause: "none of the platforms of the image fits the Windows and the processor of the node",
            remedy: "push a variant of the image for the build of the node, or use a node that matches: a RuntimeClass of a pool selects \
                     one",
            source: "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility",
        },
        Symptom {
            id: "image-pull-network",
            title: "Images are not pulled: the node does not reach the registry",
            detection: Detection::Events { about: PodState::NotReady, reasons: &["Failed"], texts: checks::CONNECTION },
            cause: "the connection of containerd fails or is interrupted: a proxy, DNS, a firewall or the MTU of the node. Layers of \
                    Windows may come from mcr.microsoft.com even if the image is in another registry",
            remedy: "open the named address from the node: curl.exe -v. Allow mcr.microsoft.com, or set the proxy for the service containerd",
            source: "https://github.com/containerd/containerd/issues/7676",
        },
        Symptom {
            id: "image-pull",
            title: "Images are not pulled, for another reason",
            detection: check(&[Pods, Events], checks::image_pull),
            cause: "there is no such image or tag, or the pull secret is missing or not valid",
            remedy: "compare the name of the image with the registry, and look at `imagePullSecrets`",
            source: TIPS,
        },
        Symptom {
            id: "exit-code",
            title: "Containers are ended by Windows",
            detection: check(&[Pods], checks::exit_codes),
            cause: "the exit code is a status of Windows, not one of the program",
            remedy: "act on the meaning of the code. 0xC0000142 and 0xC0000135: use a base image that has the DLLs, such as Server \
                     Core instead of Nano Server. 0xC000012D: raise the memory limit",
            source: "https://github.com/microsoft/windows-rs/tree/master/crates/libs/sys",
        },
        Symptom {
            id: "before-cni",
            title: "Pods have no network after a restart of their node",
            detection: check(&[Pods, DaemonSets], checks::before_cni),
            cause: "the pod began before the CNI on the node, and its containers restart in the same sandbox, which has no network",
            remedy: "delete the pod: the new one gets a sandbox with a network. To avoid it, drain nodes before they restart",
            source: "https://github.com/tigera/operator/issues/3193",
        },
        Symptom {
            id: "csi-proxy",
            title: "Volumes are not mounted: csi-proxy does not answer",
            detection: mount(&["csi-proxy"]),
            cause: "csi-proxy is not installed on the node or does not run, or the driver uses another version of its API",
            remedy: "install csi-proxy as a service of the node, or use a version of the driver that runs as HostProcess container",
            source: "https://github.com/kubernetes-csi/csi-driver-smb/issues/233",
        },
        Symptom {
            id: "csi-driver-not-registered",
            title: "Volumes are not mounted: the CSI driver is not registered on the node",
            detection: mount(&["not found in the list of registered csi drivers"]),
            cause: "the DaemonSet of the driver for Windows is not installed, or has no ready pod on the node",
            remedy: "install the DaemonSet of the driver for Windows, and csi-proxy if it needs it",
            source: "https://github.com/kubernetes-csi/csi-driver-smb/issues/427",
        },
        Symptom {
            id: "mount-symlink",
            title: "Containers do not start: a link of a volume cannot be resolved",
            detection: Detection::Events {
                about: PodState::NotReady,
                reasons: &["Failed", "FailedMount"],
                texts: &["failed to resolve symlink", "cannot read link"],
            },
            cause: "the mounted path is a link that this version of containerd or of the kubelet does not follow on Windows, as with SMB \
                    shares and `subPath`",
            remedy: "upgrade containerd and the kubelet, or mount the share without `subPath`",
            source: "https://github.com/kubernetes/kubernetes/issues/94213",
        },
        Symptom {
            id: "hcn-namespace",
            title: "Pods stay Terminating: HNS does not remove their namespace",
            detection: Detection::Events {
                about: PodState::StuckTerminating,
                reasons: &["FailedKillPod"],
                texts: &["hcndeletenamespace"],
            },
            cause: "the network of the sandbox cannot be removed, for instance after a restart of the host network service",
            remedy: "delete the pod with --force --grace-period=0 after its containers have ended. If it recurs, restart the node",
            source: "https://github.com/projectcalico/calico/issues/6974",
        },
        Symptom {
            id: "stuck-terminating",
            title: "Pods stay Terminating",
            detection: check(&[Pods], checks::terminating),
            cause: "a handle to a file of a volume is open, the container runtime does not end a container, or the node does not answer",
            remedy: "look at the node first: if it is not ready, solve that. Pods with several subPath mounts: see known issue \
                     kubernetes-112630",
            source: "https://github.com/kubernetes/kubernetes/issues/112630",
        },
        Symptom {
            id: "duplicate-address",
            title: "Two pods have the same address",
            detection: check(&[Pods, EndpointSlices], checks::duplicate_addresses),
            cause: "an endpoint of a former pod was not removed, or the address was given twice",
            remedy: "drain the node of the affected pods, and delete the pods. On the node, see duplicate-hns-endpoint",
            source: "https://github.com/Azure/AKS/issues/5653",
        },
        Symptom {
            id: "dns-policy",
            title: "DNS does not resolve names of the cluster in a pod",
            detection: check(&[Pods], checks::dns_policy),
            cause: "`ClusterFirstWithHostNet` is not supported for pods on Windows nodes",
            remedy: "use `ClusterFirst`, or `None` with `dnsConfig` for HostProcess pods",
            source: "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-windows",
        },
        Symptom {
            id: "service-vip-from-node",
            title: "The node does not reach Services by their IP",
            detection: on_node("curl.exe -v http://SERVICE-IP:PORT"),
            cause: "this is a known limitation of the network of Windows: pods on Windows reach it, the node does not",
            remedy: "test from a pod",
            source: TIPS,
        },
        Symptom {
            id: "node-port-from-node",
            title: "The node does not reach its own NodePorts",
            detection: on_node("curl.exe -v http://localhost:NODE-PORT"),
            cause: "this is a known limitation of Windows",
            remedy: "test from another node or from outside",
            source: TIPS,
        },
        Symptom {
            id: "icmp",
            title: "Pods cannot ping addresses outside of the cluster",
            detection: on_node("curl IP"),
            cause: "pods on Windows have no rules for outgoing ICMP; TCP and UDP work",
            remedy: "test with curl instead of ping",
            source: TIPS,
        },
        Symptom {
            id: "exception-list",
            title: "Pods do not reach addresses outside of the cluster",
            detection: agent(checks::public_exception, "Get-HnsEndpoint | ConvertTo-Json -Depth 10"),
            cause: "`ExceptionList` in the configuration of the CNI contains the address, so that it is not translated",
            remedy: "list only the networks of pods, Services and nodes in `ExceptionList`",
            source: TIPS,
        },
        Symptom {
            id: "mac-spoofing",
            title: "Pods on a virtual machine have no network",
            detection: on_node(
                "Get-VMNetworkAdapter -VMName NAME | Set-VMNetworkAdapter -MacAddressSpoofing On (on the hypervisor)",
            ),
            cause: "the hypervisor drops packets with the MAC addresses of pods",
            remedy: "enable MAC spoofing on all network adapters of the machine",
            source: TIPS,
        },
        Symptom {
            id: "hns-network",
            title: "The kubelet finds no network adapter",
            detection: agent(
                checks::no_network,
                "Get-HnsNetwork | ? Name -ieq \"cbr0\"; Get-NetAdapter | ? Name -Like \"vEthernet (Ethernet*\"",
            ),
            cause: "if one of them prints nothing, the virtual network was not created",
            remedy: "set the name of the network adapter of the node in the configuration of the CNI",
            source: TIPS,
        },
        Symptom {
            id: "hostname-override",
            title: "Network adapters and HNS endpoints of containers are deleted",
            detection: log(
                &["kube-proxy"],
                &["failed to retrieve node info…not found", "command failed…err=\"node…not found"],
                "C:\\k\\kube-proxy.exe --hostname-override=$(hostname)",
            ),
            cause: "kube-proxy runs without --hostname-override or with another name than that of its node, and finds no such node",
            remedy: "start kube-proxy with this option; in a HostProcess container with the name of the node from the downward API",
            source: TIPS,
        },
        Symptom {
            id: "duplicate-hns-endpoint",
            title: "Pods lose their network, and HNS has two endpoints with one address",
            detection: agent(
                checks::duplicate_endpoints,
                "Get-HnsEndpoint | Group-Object IPAddress | Where-Object { $_.Count -gt 1 }",
            ),
            cause: "endpoints of former pods stay on the node",
            remedy: "drain the node, so that the pods are created elsewhere",
            source: "https://github.com/Azure/AKS/issues/5653",
        },
        Symptom {
            id: "hns-endpoint-missing",
            title: "Running pods have no network, because HNS has lost their endpoints",
            detection: agent_and_pods(checks::missing_endpoints, "hnsdiag list endpoints"),
            cause: "the host network service was restarted, and does not create the endpoints of running pods again",
            remedy: "delete the named pods: the new ones get endpoints. To avoid it, drain a node before HNS restarts",
            source: "https://github.com/docker/for-win/issues/12425",
        },
        Symptom {
            id: "service-stopped",
            title: "A service that the node needs does not run",
            detection: agent(checks::stopped_service, "Get-Service kubelet, containerd, kube-proxy, hns, vmcompute"),
            cause: "the service has ended or was stopped; the end of its own log, or the event log of the system, says why",
            remedy: "start the service, and look at its log. In the facts of the node is whether Windows starts it again: \
                     status.facts of its WindowsNodeConfig",
            source: TIPS,
        },
        Symptom {
            id: "kubelet-port",
            title: "kubectl logs, exec and port-forward do not reach the pods of a node",
            detection: agent(checks::kubelet_port, "Get-NetTCPConnection -State Listen -LocalPort 10250"),
            cause: "the kubelet runs, and its server does not: it has not started yet, or `enableServer` is false in its configuration",
            remedy: "look at the configuration of the kubelet, and at the end of its log",
            source: "https://kubernetes.io/docs/reference/networking/ports-and-protocols/",
        },
        Symptom {
            id: "mtu",
            title: "Large packets are lost: transfers begin and then stop",
            detection: agent(checks::larger_mtu, "netsh interface ipv4 show subinterfaces"),
            cause: "a virtual adapter for containers has another MTU than the adapter or the network of the machine: HNS does not take \
                    it over when it creates its switch",
            remedy: "set the MTU of the machine's network at each virtual adapter: netsh interface ipv4 set subinterface NAME mtu=MTU \
                     store=persistent",
            source: "https://github.com/microsoft/SDN/issues/84",
        },
        Symptom {
            id: "load-balancers-lost",
            title: "Services do not answer after a restart of the host network service",
            detection: agent_and_pods(checks::no_load_balancer, "hnsdiag list loadbalancers"),
            cause: "kube-proxy does not create load balancers again that others have removed",
            remedy: "restart kube-proxy on the node",
            source: "https://github.com/kubernetes/kubernetes/issues/135802",
        },
        Symptom {
            id: "kube-proxy-network",
            title: "kube-proxy does not find its network",
            detection: log(&["kube-proxy"], &["unable to find hns network"], "Get-HnsNetwork | ? Name -ieq \"cbr0\""),
            cause: "the network of the CNI is missing, or has another name than kube-proxy is configured for",
            remedy: "set KUBE_NETWORK of kube-proxy to the name of the network of the CNI",
            source: "https://github.com/kubernetes/kubernetes/issues/79515",
        },
        Symptom {
            id: "load-balancer-refused",
            title: "HNS refuses the load balancer of a Service",
            detection: log(
                &["kube-proxy"],
                &["the specified port already exists", "the switch-port was not found"],
                "hnsdiag list loadbalancers",
            ),
            cause: "a port of the Service is reserved on the node, or HNS has no endpoint of a pod that kube-proxy names. Without its \
                    load balancer the Service does not answer on the node",
            remedy: "restart kube-proxy on the node. If it recurs, install a newer update of Windows",
            source: "https://github.com/microsoft/hcsshim/issues/1043",
        },
        Symptom {
            id: "load-balancer-exists",
            title: "HNS has a load balancer that kube-proxy does not know",
            detection: log(
                &["kube-proxy"],
                &["cannot create a file when that file already exists"],
                "hnsdiag list loadbalancers",
            ),
            cause: "while the host network service restarted, kube-proxy took its load balancers for removed",
            remedy: "restart kube-proxy on the node, and use a version of kube-proxy with the correction kubernetes/kubernetes#139503",
            source: "https://github.com/kubernetes/kubernetes/issues/139519",
        },
        Symptom {
            id: "node-pleg-logged",
            title: "PLEG was not healthy lately, also if the node is Ready now",
            detection: log(
                &["kubelet"],
                checks::PLEG,
                "Select-String 'PLEG is not healthy' C:\\var\\log\\kubelet\\*.log",
            ),
            cause: "the container runtime or the host compute service answers slowly, for instance because of pods whose limits are too low",
            remedy: "look for pods that began at this time. Reserve memory and CPU for the system (`systemReserved` in the profile), and \
                     raise limits that are too low",
            source: "https://github.com/kubernetes/kubernetes/issues/93945",
        },
        Symptom {
            id: "host-compute-slow",
            title: "The host compute service answers slowly",
            detection: log(
                &["kubelet", "containerd"],
                &["failed to reserve sandbox name", "syscall did not complete within operation timeout"],
                "Select-String 'failed to reserve sandbox name' C:\\var\\log\\kubelet\\*.log",
            ),
            cause: "sandboxes take longer to create than the kubelet waits, so that it tries again while the first attempt goes on",
            remedy: "start fewer pods at once. If the attempts do not end, drain the node and restart it",
            source: "https://github.com/kubernetes/kubernetes/issues/107561",
        },
        Symptom {
            id: "service-exits",
            title: "nssm starts a service again, such as kubelet or flanneld",
            detection: log(
                &["nssm"],
                &["exited with return code"],
                "Get-WinEvent -FilterHashtable @{LogName='Application'; ProviderName='nssm'}",
            ),
            cause: "the program of the service ends, for instance because of a wrong option; the end of its own log says why",
            remedy: "look at the end of the log of the service, and correct its options or configuration",
            source: "https://github.com/puppetlabs/nssm/blob/a1c32603645df5c4b0b0a13b89a51db06340c1b2/messages.mc",
        },
        Symptom {
            id: "log-rotation",
            title: "The log of a container grows without limit",
            detection: agent(
                checks::large_log,
                "dir C:\\var\\log\\pods -Recurse | sort Length -Descending | select -First 5",
            ),
            cause: "after the first rotation, containerd writes on to the same file",
            remedy: "restart the pods whose logs are large, and write less to the output",
            source: "https://github.com/containerd/containerd/issues/7075",
        },
    ]
};
