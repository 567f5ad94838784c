//! The symptoms that people meet on Windows nodes: what shows each, its cause, what to do, and where that is written.
//!
//! Every source was read on 2026-11-26 or 2026-11-27. Texts of events, conditions and logs are those that the sources quote, in lower
//! case. Those of `hostname-override` are in `cmd/kube-proxy/app/server.go` of kubernetes/kubernetes as text before structured logging
//! and as a field since then, and the last one is the error of `NewNodeManager` in `pkg/proxy/node.go` (007caad7).

use winpool_facts::catalogue::Entry;

use super::{
    case::{Case, Checked, PodState},
    checks,
    evidence::EvidencePart,
};

#[derive(Debug)]
pub struct Symptom {
    /// Its id, what people see, its cause, what to do, and the page or thread.
    pub entry: Entry,
    pub(super) detection: Detection,
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

/// A row: id and what people see; what shows it; its cause, what to do, and the page or thread.
const fn symptom(
    code: &'static str,
    title: &'static str,
    detection: Detection,
    why: &'static str,
    remedy: &'static str,
    source: &'static str,
) -> Symptom {
    Symptom { entry: Entry { code, title, why, remedy, source }, detection }
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
#[rustfmt::skip]
pub static SYMPTOMS: &[Symptom] = {
    use EvidencePart::{DaemonSets, EndpointSlices, Events, Images, Leases, Machines, Nodes, Pods, Pools};
    &[
        symptom("pool-not-ready", "The pool is not Ready", check(&[Pools, Nodes], checks::pools),
            "the operator reports a problem in the status of the pool",
            "run `winpool status` with the name of the pool: it has the affected nodes and the commands that help",
            "docs/status.md"),
        symptom("node-pleg", "A node is NotReady: PLEG is not healthy", not_ready(checks::PLEG),
            "the container runtime or the host compute service answers slowly or not at all, often when memory or CPU is \
             used up or many pods begin or end at once",
            "drain the node and restart it. Reserve memory and CPU for the system (`systemReserved` in the profile), and \
             start fewer pods at once",
            "https://github.com/kubernetes/kubernetes/issues/110143"),
        symptom("node-cni-not-initialized", "A node is NotReady: its network plugin is not initialized", not_ready(checks::NO_CNI),
            "the container runtime finds no configuration of a CNI, or the plugin in another directory than it is configured for",
            "compare the directories of the CNI on the node with `bin_dir` and `conf_dir` of containerd, and look at the \
             pods of the CNI on the node",
            "https://github.com/projectcalico/calico/issues/6122"),
        symptom("node-not-ready", "A node is NotReady, and its kubelet runs", check(&[Nodes, Leases], checks::renewed_lease),
            "the kubelet renews its Lease, and reports that the node is not healthy; the message of the condition says why",
            "act on the message. If it names the container runtime, restart containerd on the node",
            NODE_STATUS),
        symptom("node-silent", "A node is NotReady, and its kubelet does not renew its Lease",
            check(&[Nodes, Leases], checks::expired_lease),
            "the machine or the kubelet does not run, or does not reach the API server",
            "look at the machine, at the service kubelet on it, and at its network to the API server",
            NODE_STATUS),
        symptom("node-memory-pressure", "A node has MemoryPressure", pressure("MemoryPressure"),
            "memory of the node is low. Windows has no OOM killer: processes page to disk, and the kubelet and the \
             container runtime become slow too",
            "set memory limits for the pods, reserve memory for the system (`systemReserved` in the profile), and remove \
             pods from the node",
            "https://github.com/Azure/AKS/issues/2820"),
        symptom("node-disk-pressure", "A node has DiskPressure", pressure("DiskPressure"),
            "the disk of the node is nearly full, for instance of images or logs",
            "remove images and logs that are not used, or give the node a larger disk",
            NODE_STATUS),
        symptom("node-pid-pressure", "A node has PIDPressure", pressure("PIDPressure"),
            "there are too many processes on the node",
            "find the pods whose processes do not end, and remove them",
            NODE_STATUS),
        symptom("node-network-unavailable", "A node has NetworkUnavailable", pressure("NetworkUnavailable"),
            "the network of the node is not configured: its route or its CNI is missing",
            "look at the pods of the CNI on the node, and at the routes of the cloud provider",
            NODE_STATUS),
        symptom("node-condition-unknown", "A condition of a node is Unknown", check(&[Nodes], checks::unknown_conditions),
            "the node controller has not heard from the kubelet",
            "look at the machine and at the service kubelet on it",
            NODE_STATUS),
        symptom("node-other-condition", "A node has a condition of another program", check(&[Nodes], checks::other_conditions),
            "only the program that writes the condition defines which status is a problem",
            "look at its documentation",
            NODE_STATUS),
        symptom("node-address", "Pods do not reach those of a node whose address has changed", check(&[Nodes], checks::cni_address),
            "the CNI reads the address of its node when it starts, and other nodes send the packets for its pods to the former one",
            "restart the CNI on the node: its pod, or its service",
            "https://github.com/projectcalico/calico/issues/8700"),
        symptom("kube-proxy-not-ready", "kube-proxy is missing or not ready on a node",
            check(&[Nodes, Pods, DaemonSets], |case| checks::component(case, checks::KUBE_PROXY)),
            "without kube-proxy, Services do not work on the node",
            "look at the events and logs of the pod, and at taints that the DaemonSet does not tolerate",
            "https://github.com/kubernetes-sigs/sig-windows-tools/issues/76"),
        symptom("cni-not-ready", "The CNI is missing or not ready on a node",
            check(&[Nodes, Pods, DaemonSets], |case| checks::component(case, checks::CNI)),
            "without the CNI, pods on the node get no network",
            "look at the events and logs of the pod, and at taints that the DaemonSet does not tolerate",
            "https://github.com/kubernetes-sigs/sig-windows-tools/issues/72"),
        symptom("csi-not-ready", "A CSI driver is missing or not ready on a node",
            check(&[Nodes, Pods, DaemonSets], |case| checks::component(case, checks::CSI)),
            "without the DaemonSet of the driver for Windows, its volumes are not mounted on the node",
            "look at the events and logs of the pod, and at csi-proxy if the driver needs it",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/427"),
        symptom("known-issue", "A version on a node has a known defect", check(&[Nodes, Pods], checks::known_defects),
            "the versions of kubelet, containerd, Windows or kube-proxy are in the table of known issues",
            "act on the text; `winpool explain` with the id has its source",
            "docs/known-issues.md"),
        symptom("machine-not-joined", "A machine of Cluster API does not become a node", check(&[Machines], checks::machines),
            "no node has the provider ID of the machine: it does not boot, kubeadm fails, or the kubelet does not register",
            "look at the infrastructure object of the machine, and at the log of cloudbase-init on it",
            "https://cluster-api.sigs.k8s.io/developer/core/controllers/machine"),
        symptom("flannel-subnet-env", "Pods do not start: /run/flannel/subnet.env is missing", sandbox(&["subnet.env"]),
            "flannel did not start on the node, so that it has not written this file",
            "restart flanneld on the node, or its pod. After a node has joined again, remove C:\\k\\SourceVip.json and \
             C:\\k\\SourceVipRequest.json on it",
            TIPS),
        symptom("cni-plugin-missing", "Pods do not start: a plugin of the CNI is missing on the node",
            sandbox(&["failed to find plugin", "cni plugin not initialized", "cni config uninitialized"]),
            "the program or the configuration of the CNI is not in the directory that containerd is configured for",
            "compare `bin_dir` and `conf_dir` of containerd with the directories into which the CNI is installed",
            "https://github.com/rancher-sandbox/rancher-desktop/issues/1644"),
        symptom("flannel-network", "Pods do not start: the HNS network of flannel is missing",
            sandbox(&["gethnsnewtorkbyname", "gethnsnetworkbyname", "cbr0"]),
            "flannel has not created its network on the node: it does not run, or its network adapter has another name",
            "run on the node: Get-HnsNetwork | ? Name -ieq \"cbr0\". If it prints nothing, start flannel with the name of \
             the network adapter of the node",
            "https://github.com/kubernetes-sigs/sig-windows-tools/issues/88"),
        symptom("docker-network-host", "Pods do not start: Docker has no network host", sandbox(&["network host not found"]),
            "pods with the network of the node need a network of Docker with this name, which a restart removes",
            "run on the node, also at its start: docker network create -d nat host",
            "https://github.com/kubernetes-sigs/sig-windows-tools/issues/94"),
        symptom("hns-endpoint", "Pods do not start: HNS creates no endpoint",
            sandbox(&["hnscall failed", "hns failed", "hcncreateendpoint", "hnsendpoint", "hcncreatenamespace"]),
            "the state of the CNI and of the host network service differ, or the network of the CNI is missing on the node",
            "drain the node, and restart the CNI on it. If pods still do not start, restart the node",
            "https://github.com/Azure/acs-engine/issues/4046"),
        symptom("pause-image-mismatch", "Pods do not start: the pause image does not match the Windows of the node",
            sandbox(&winpool_facts::runtime_errors::MISMATCH_ERRORS),
            "the sandbox is made from the pause image, which has no variant for the build of the node",
            "set a pause image for this build: `sandbox_image` of containerd, which a profile of winpool renders",
            "https://github.com/kubernetes/kubernetes/issues/99157"),
        symptom("pause-image-unavailable", "Pods do not start: the pause image cannot be pulled",
            // The second text is that of containerd 2.x, whose `ensurePauseImageExists` pulls before a sandbox is started.
            sandbox(&["failed to get sandbox image", "failed to pull image"]),
            "containerd does not reach the registry of `sandbox_image`, or there is no such tag",
            "set a pause image that exists for Windows, from a registry or mirror that the node reaches",
            "https://github.com/kubernetes-sigs/sig-windows-dev-tools/issues/64"),
        symptom("handler-unknown", "Pods do not start: containerd does not have the handler of their RuntimeClass",
            sandbox(&["no runtime for"]),
            "the RuntimeClass names a handler that is not among the runtimes of containerd on the node, and the pod was not scheduled by \
             what the nodes report",
            "correct the handler of the class, or add the runtime to containerd: `containerd.extraConfig` of a profile. A node reports its \
             handlers in `status.runtimeHandlers`",
            "https://github.com/containerd/containerd/blob/v2.4.2/internal/cri/config/config.go#L718"),
        symptom("sandbox-name-reserved", "Pods do not start: the name of the sandbox is reserved",
            sandbox(&["failed to reserve sandbox name"]),
            "an earlier attempt to create the sandbox has not ended: the host compute service is slow or does not answer",
            "wait until the attempts end. If they do not, drain the node and restart it; start fewer pods at once",
            "https://github.com/kubernetes/kubernetes/issues/107561"),
        symptom("sandbox-other", "Pods do not start: their sandbox is not created, for another reason",
            Detection::OtherEvents { about: PodState::NotStarted, reason: "FailedCreatePodSandBox" },
            "the container runtime or the CNI failed; the text of the event says where",
            "look at the logs of the CNI and of containerd on the node",
            TIPS),
        symptom("container-creating", "Pods stay in ContainerCreating without an event of a failure",
            check(&[Pods, Events], checks::container_creating),
            "the kubelet still works on the pod, or its events have expired; a pause image that does not match is frequent",
            "delete one of the pods, and read the events of the pod that replaces it",
            TIPS),
        symptom("image-mismatch", "Containers do not start: the image does not match the Windows of the node",
            check(&[Pods, Events], checks::image_mismatch),
            "an image runs with process isolation only on a Windows that its base image matches (0xC0370101)",
            "use an image that has a variant for the build of the node, or a node that matches: a RuntimeClass of a pool \
             selects one",
            "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility"),
        symptom("image-platform", "Containers do not start: the registry has no variant of their image for the node",
            check(&[Nodes, Pods, Images], checks::image_platforms),
            "none of the platforms of the image fits the Windows and the processor of the node",
            "push a variant of the image for the build of the node, or use a node that matches: a RuntimeClass of a pool selects \
             one",
            "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility"),
        symptom("image-pull-network", "Images are not pulled: the node does not reach the registry",
            Detection::Events { about: PodState::NotReady, reasons: &["Failed"], texts: checks::CONNECTION },
            "the connection of containerd fails or is interrupted: a proxy, DNS, a firewall or the MTU of the node. Layers of \
             Windows may come from mcr.microsoft.com even if the image is in another registry",
            "open the named address from the node: curl.exe -v. Allow mcr.microsoft.com, or set the proxy for the service containerd",
            "https://github.com/containerd/containerd/issues/7676"),
        symptom("image-pull", "Images are not pulled, for another reason", check(&[Pods, Events], checks::image_pull),
            "there is no such image or tag, or the pull secret is missing or not valid",
            "compare the name of the image with the registry, and look at `imagePullSecrets`",
            TIPS),
        symptom("exit-code", "Containers are ended by Windows", check(&[Pods], checks::exit_codes),
            "the exit code is a status of Windows, not one of the program",
            "act on the meaning of the code. 0xC0000142 and 0xC0000135: use a base image that has the DLLs, such as Server \
             Core instead of Nano Server. 0xC000012D: raise the memory limit",
            "https://github.com/microsoft/windows-rs/tree/master/crates/libs/sys"),
        symptom("before-cni", "Pods have no network after a restart of their node", check(&[Pods, DaemonSets], checks::before_cni),
            "the pod began before the CNI on the node, and its containers restart in the same sandbox, which has no network",
            "delete the pod: the new one gets a sandbox with a network. To avoid it, drain nodes before they restart",
            "https://github.com/tigera/operator/issues/3193"),
        symptom("csi-proxy", "Volumes are not mounted: csi-proxy does not answer", mount(&["csi-proxy"]),
            "csi-proxy is not installed on the node or does not run, or the driver uses another version of its API",
            "install csi-proxy as a service of the node, or use a version of the driver that runs as HostProcess container",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/233"),
        symptom("csi-driver-not-registered", "Volumes are not mounted: the CSI driver is not registered on the node",
            mount(&["not found in the list of registered csi drivers"]),
            "the DaemonSet of the driver for Windows is not installed, or has no ready pod on the node",
            "install the DaemonSet of the driver for Windows, and csi-proxy if it needs it",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/427"),
        symptom("mount-symlink", "Containers do not start: a link of a volume cannot be resolved",
            Detection::Events {
                about: PodState::NotReady,
                reasons: &["Failed", "FailedMount"],
                texts: &["failed to resolve symlink", "cannot read link"],
            },
            "the mounted path is a link that this version of containerd or of the kubelet does not follow on Windows, as with SMB \
             shares and `subPath`",
            "upgrade containerd and the kubelet, or mount the share without `subPath`",
            "https://github.com/kubernetes/kubernetes/issues/94213"),
        symptom("hcn-namespace", "Pods stay Terminating: HNS does not remove their namespace",
            Detection::Events { about: PodState::StuckTerminating, reasons: &["FailedKillPod"], texts: &["hcndeletenamespace"] },
            "the network of the sandbox cannot be removed, for instance after a restart of the host network service",
            "delete the pod with --force --grace-period=0 after its containers have ended. If it recurs, restart the node",
            "https://github.com/projectcalico/calico/issues/6974"),
        symptom("stuck-terminating", "Pods stay Terminating", check(&[Pods], checks::terminating),
            "a handle to a file of a volume is open, the container runtime does not end a container, or the node does not answer",
            "look at the node first: if it is not ready, solve that. Pods with several subPath mounts: see known issue \
             kubernetes-112630",
            "https://github.com/kubernetes/kubernetes/issues/112630"),
        symptom("duplicate-address", "Two pods have the same address", check(&[Pods, EndpointSlices], checks::duplicate_addresses),
            "an endpoint of a former pod was not removed, or the address was given twice",
            "drain the node of the affected pods, and delete the pods. On the node, see duplicate-hns-endpoint",
            "https://github.com/Azure/AKS/issues/5653"),
        symptom("dns-policy", "DNS does not resolve names of the cluster in a pod", check(&[Pods], checks::dns_policy),
            "`ClusterFirstWithHostNet` is not supported for pods on Windows nodes",
            "use `ClusterFirst`, or `None` with `dnsConfig` for HostProcess pods",
            "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-windows"),
        symptom("service-vip-from-node", "The node does not reach Services by their IP", on_node("curl.exe -v http://SERVICE-IP:PORT"),
            "this is a known limitation of the network of Windows: pods on Windows reach it, the node does not",
            "test from a pod",
            TIPS),
        symptom("node-port-from-node", "The node does not reach its own NodePorts", on_node("curl.exe -v http://localhost:NODE-PORT"),
            "this is a known limitation of Windows",
            "test from another node or from outside",
            TIPS),
        symptom("icmp", "Pods cannot ping addresses outside of the cluster", on_node("curl IP"),
            "pods on Windows have no rules for outgoing ICMP; TCP and UDP work",
            "test with curl instead of ping",
            TIPS),
        symptom("exception-list", "Pods do not reach addresses outside of the cluster",
            agent(checks::public_exception, "Get-HnsEndpoint | ConvertTo-Json -Depth 10"),
            "`ExceptionList` in the configuration of the CNI contains the address, so that it is not translated",
            "list only the networks of pods, Services and nodes in `ExceptionList`",
            TIPS),
        symptom("mac-spoofing", "Pods on a virtual machine have no network",
            on_node("Get-VMNetworkAdapter -VMName NAME | Set-VMNetworkAdapter -MacAddressSpoofing On (on the hypervisor)"),
            "the hypervisor drops packets with the MAC addresses of pods",
            "enable MAC spoofing on all network adapters of the machine",
            TIPS),
        symptom("hns-network", "The kubelet finds no network adapter",
            agent(checks::no_network, "Get-HnsNetwork | ? Name -ieq \"cbr0\"; Get-NetAdapter | ? Name -Like \"vEthernet (Ethernet*\""),
            "if one of them prints nothing, the virtual network was not created",
            "set the name of the network adapter of the node in the configuration of the CNI",
            TIPS),
        symptom("hostname-override", "Network adapters and HNS endpoints of containers are deleted",
            log(&["kube-proxy"], &["failed to retrieve node info…not found", "command failed…err=\"node…not found"],
                "C:\\k\\kube-proxy.exe --hostname-override=$(hostname)"),
            "kube-proxy runs without --hostname-override or with another name than that of its node, and finds no such node",
            "start kube-proxy with this option; in a HostProcess container with the name of the node from the downward API",
            TIPS),
        symptom("duplicate-hns-endpoint", "Pods lose their network, and HNS has two endpoints with one address",
            agent(checks::duplicate_endpoints, "Get-HnsEndpoint | Group-Object IPAddress | Where-Object { $_.Count -gt 1 }"),
            "endpoints of former pods stay on the node",
            "drain the node, so that the pods are created elsewhere",
            "https://github.com/Azure/AKS/issues/5653"),
        symptom("hns-endpoint-missing", "Running pods have no network, because HNS has lost their endpoints",
            agent_and_pods(checks::missing_endpoints, "hnsdiag list endpoints"),
            "the host network service was restarted, and does not create the endpoints of running pods again",
            "delete the named pods: the new ones get endpoints. To avoid it, drain a node before HNS restarts",
            "https://github.com/docker/for-win/issues/12425"),
        symptom("service-stopped", "A service that the node needs does not run",
            agent(checks::stopped_service, "Get-Service kubelet, containerd, kube-proxy, hns, vmcompute"),
            "the service has ended or was stopped; the end of its own log, or the event log of the system, says why",
            "start the service, and look at its log. In the facts of the node is whether Windows starts it again: \
             status.facts of its WindowsNodeConfig",
            TIPS),
        symptom("kubelet-port", "kubectl logs, exec and port-forward do not reach the pods of a node",
            agent(checks::kubelet_port, "Get-NetTCPConnection -State Listen -LocalPort 10250"),
            "the kubelet runs, and its server does not: it has not started yet, or `enableServer` is false in its configuration",
            "look at the configuration of the kubelet, and at the end of its log",
            "https://kubernetes.io/docs/reference/networking/ports-and-protocols/"),
        symptom("mtu", "Large packets are lost: transfers begin and then stop",
            agent(checks::larger_mtu, "netsh interface ipv4 show subinterfaces"),
            "a virtual adapter for containers has another MTU than the adapter or the network of the machine: HNS does not take \
             it over when it creates its switch",
            "set the MTU of the machine's network at each virtual adapter: netsh interface ipv4 set subinterface NAME mtu=MTU \
             store=persistent",
            "https://github.com/microsoft/SDN/issues/84"),
        symptom("load-balancers-lost", "Services do not answer after a restart of the host network service",
            agent_and_pods(checks::no_load_balancer, "hnsdiag list loadbalancers"),
            "kube-proxy does not create load balancers again that others have removed",
            "restart kube-proxy on the node",
            "https://github.com/kubernetes/kubernetes/issues/135802"),
        symptom("kube-proxy-network", "kube-proxy does not find its network",
            log(&["kube-proxy"], &["unable to find hns network"], "Get-HnsNetwork | ? Name -ieq \"cbr0\""),
            "the network of the CNI is missing, or has another name than kube-proxy is configured for",
            "set KUBE_NETWORK of kube-proxy to the name of the network of the CNI",
            "https://github.com/kubernetes/kubernetes/issues/79515"),
        symptom("load-balancer-refused", "HNS refuses the load balancer of a Service",
            log(&["kube-proxy"], &["the specified port already exists", "the switch-port was not found"], "hnsdiag list loadbalancers"),
            "a port of the Service is reserved on the node, or HNS has no endpoint of a pod that kube-proxy names. Without its \
             load balancer the Service does not answer on the node",
            "restart kube-proxy on the node. If it recurs, install a newer update of Windows",
            "https://github.com/microsoft/hcsshim/issues/1043"),
        symptom("load-balancer-exists", "HNS has a load balancer that kube-proxy does not know",
            log(&["kube-proxy"], &["cannot create a file when that file already exists"], "hnsdiag list loadbalancers"),
            "while the host network service restarted, kube-proxy took its load balancers for removed",
            "restart kube-proxy on the node, and use a version of kube-proxy with the correction kubernetes/kubernetes#139503",
            "https://github.com/kubernetes/kubernetes/issues/139519"),
        symptom("node-pleg-logged", "PLEG was not healthy lately, also if the node is Ready now",
            log(&["kubelet"], checks::PLEG, "Select-String 'PLEG is not healthy' C:\\var\\log\\kubelet\\*.log"),
            "the container runtime or the host compute service answers slowly, for instance because of pods whose limits are too low",
            "look for pods that began at this time. Reserve memory and CPU for the system (`systemReserved` in the profile), and \
             raise limits that are too low",
            "https://github.com/kubernetes/kubernetes/issues/93945"),
        symptom("host-compute-slow", "The host compute service answers slowly",
            log(&["kubelet", "containerd"],
                &["failed to reserve sandbox name", "syscall did not complete within operation timeout"],
                "Select-String 'failed to reserve sandbox name' C:\\var\\log\\kubelet\\*.log"),
            "sandboxes take longer to create than the kubelet waits, so that it tries again while the first attempt goes on",
            "start fewer pods at once. If the attempts do not end, drain the node and restart it",
            "https://github.com/kubernetes/kubernetes/issues/107561"),
        symptom("service-exits", "nssm starts a service again, such as kubelet or flanneld",
            log(&["nssm"], &["exited with return code"], "Get-WinEvent -FilterHashtable @{LogName='Application'; ProviderName='nssm'}"),
            "the program of the service ends, for instance because of a wrong option; the end of its own log says why",
            "look at the end of the log of the service, and correct its options or configuration",
            "https://github.com/puppetlabs/nssm/blob/a1c32603645df5c4b0b0a13b89a51db06340c1b2/messages.mc"),
        symptom("log-rotation", "The log of a container grows without limit",
            agent(checks::large_log, "dir C:\\var\\log\\pods -Recurse | sort Length -Descending | select -First 5"),
            "after the first rotation, containerd writes on to the same file",
            "restart the pods whose logs are large, and write less to the output",
            "https://github.com/containerd/containerd/issues/7075"),
    ]
};
