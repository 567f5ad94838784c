//! The symptoms that people meet on Windows nodes: what shows each, its cause, what to do, and where that is written.
//!
//! Every source was read between 2026-11-26 and 2026-11-29. Texts of events, conditions and logs are those that the sources quote, in lower
//! case. Those of `hostname-override` are in `cmd/kube-proxy/app/server.go` of kubernetes/kubernetes as text before structured logging
//! and as a field since then, and the last one is the error of `NewNodeManager` in `pkg/proxy/node.go` (007caad7).
//!
//! A remedy has commands in backticks, in which NODE, NAMESPACE and POD are those of the first evidence. The first row with a text
//! explains an error, so that those of one cause are before those of several.

use winpool_facts::catalogue::Entry;

use super::{
    case::{Case, Checked, PodState, contains_one},
    checks,
    errors::{EXIT, FAILED},
    evidence::EvidencePart,
};

#[derive(Debug)]
pub struct Symptom {
    /// Its id, what people see, its cause, what to do, and the page or thread.
    pub entry: Entry,
    pub(super) detection: Detection,
    pub(super) rank: Rank,
}

/// The order in which symptoms are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Why something fails.
    Cause,
    /// What follows from a cause that another symptom may name.
    Effect,
    /// What need not have to do with a failure. It is reported last, and does not count.
    Also,
}

/// What shows a symptom. Texts are compared without case, and one of several is enough; without a text, every text is. In a text, `…` is
/// any part of the message or line.
#[derive(Debug)]
pub(super) enum Detection {
    /// Errors of pods in a state, with one of these reasons and texts, that no earlier row explains.
    Errors { about: PodState, reasons: &'static [&'static str], texts: &'static [&'static str] },
    /// A condition of a node, with one of these statuses and texts.
    Condition { of: &'static str, statuses: &'static [&'static str], texts: &'static [&'static str] },
    /// More than one field of these parts.
    Check { parts: &'static [EvidencePart], check: fn(&Case<'_>) -> Checked },
    /// A line of a log of one of these services, or of any if there is none, or the node itself, with this command. Logs never exclude it:
    /// see [`LogContent`].
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
            Detection::Errors { reasons: [EXIT], .. } => &[EvidencePart::Pods],
            Detection::Errors { .. } => &[EvidencePart::Pods, EvidencePart::Events],
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
            Detection::Errors { reasons: [EXIT], .. } => "state of the container".to_owned(),
            Detection::Errors { reasons, texts: [], .. } => format!("event {}, any other", reasons.join(", ")),
            Detection::Errors { reasons, texts: parts, .. } => format!("event {}{}", reasons.join(", "), texts(parts)),
            Detection::Condition { of, statuses, texts: parts } => {
                format!("condition {of} {}{}", statuses.join(", "), texts(parts))
            }
            Detection::Check { parts, .. } => parts.iter().map(|part| part.resource()).collect::<Vec<_>>().join(", "),
            Detection::Log { services, texts: parts, command } => {
                let services = if services.is_empty() { "any service".to_owned() } else { services.join(", ") };
                format!("log of {services}{}, or the node: `{command}`", texts(parts))
            }
            Detection::Agent { command, .. } => format!("the agent, or the node: `{command}`"),
            Detection::OnNode { command } => format!("the node: `{command}`"),
        }
    }
}

impl Symptom {
    /// What follows from a cause.
    const fn effect(self) -> Self {
        Self { rank: Rank::Effect, ..self }
    }

    /// What need not have to do with a failure.
    const fn also(self) -> Self {
        Self { rank: Rank::Also, ..self }
    }

    /// Whether one of its texts is in a text. A row without texts has none.
    pub fn has_text_in(&self, text: &str) -> bool {
        match self.detection {
            Detection::Errors { texts, .. } | Detection::Condition { texts, .. } | Detection::Log { texts, .. } => {
                !texts.is_empty() && contains_one(text, texts)
            }
            Detection::Check { .. } | Detection::Agent { .. } | Detection::OnNode { .. } => false,
        }
    }
}

/// The first row that explains an error with this reason of a pod; `holds` says in which states the pod is.
pub(super) fn row_of(holds: impl Fn(PodState) -> bool, reason: &str, text: &str) -> Option<&'static Symptom> {
    SYMPTOMS.iter().find(|symptom| match symptom.detection {
        Detection::Errors { about, reasons, texts } => {
            reasons.contains(&reason) && contains_one(text, texts) && holds(about)
        }
        _ => false,
    })
}

/// The first row that explains a line of the log of a service.
pub(super) fn row_of_line(service: &str, line: &str) -> Option<&'static Symptom> {
    SYMPTOMS.iter().find(|symptom| match symptom.detection {
        Detection::Log { services, texts, .. } => is_of(services, service) && contains_one(line, texts),
        _ => false,
    })
}

/// Whether the log of a service is one of these; every one is if there is none.
pub(super) fn is_of(services: &[&str], service: &str) -> bool {
    services.is_empty() || services.contains(&service)
}

/// The row of a text: an error with this reason, whatever the state of its pod, or a line of the log of this service.
pub fn explaining(source: &str, text: &str) -> Option<&'static Symptom> {
    row_of(|_| true, source, text).or_else(|| row_of_line(source, text))
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
    Symptom { entry: Entry { code, title, why, remedy, source }, detection, rank: Rank::Cause }
}

const SANDBOX: &[&str] = &["FailedCreatePodSandBox", "NetworkNotReady"];
const MOUNT: &[&str] = &["FailedMount", "FailedAttachVolume", "FailedMapVolume"];
const TIPS: &str = "https://kubernetes.io/docs/tasks/debug/debug-cluster/windows/";
const NODE_STATUS: &str = "https://kubernetes.io/docs/reference/node/node-status/";

const fn sandbox(texts: &'static [&'static str]) -> Detection {
    Detection::Errors { about: PodState::NotStarted, reasons: SANDBOX, texts }
}

const fn mount(texts: &'static [&'static str]) -> Detection {
    Detection::Errors { about: PodState::NotStarted, reasons: MOUNT, texts }
}

/// A container that the kubelet or the container runtime does not start.
const fn start(texts: &'static [&'static str]) -> Detection {
    Detection::Errors { about: PodState::NotReady, reasons: &[FAILED], texts }
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
    use EvidencePart::{
        AccessReviews, Claims, CredentialSpecs, CsiNodes, DaemonSets, EndpointSlices, Events, Images, Leases, MachineDeployments,
        MachinePools, MachineSets, Machines, MutatingWebhooks, NodeConfigs, Nodes, Pods, Pools, StorageClasses, Volumes,
    };
    &[
        symptom("pool-not-ready", "The pool is not Ready", check(&[Pools, Nodes], checks::pools),
            "the operator reports a problem in the status of the pool",
            "run `winpool status` with the name of the pool: it has the affected nodes and the commands that help",
            "docs/status.md").effect(),
        symptom("node-pleg", "A node is NotReady: PLEG is not healthy", not_ready(checks::PLEG),
            "the container runtime or the host compute service answers slowly or not at all, often when memory or CPU is used up or many pods begin or end at once",
            "`kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`, and on the node `Restart-Computer`. Reserve memory and CPU for the system (`systemReserved` in the profile), and start fewer pods at once",
            "https://github.com/kubernetes/kubernetes/issues/110143"),
        symptom("node-cni-not-initialized", "A node is NotReady: its network plugin is not initialized", not_ready(checks::NO_CNI),
            "the container runtime finds no configuration of a CNI, or the plugin in another directory than it is configured for",
            "look at the pods of the CNI: `kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`. On the node, compare the directories in `containerd config dump | Select-String bin_dir,conf_dir` with those of the CNI; containerd 2.4 reads `bin_dirs` and ignores `bin_dir`",
            "https://github.com/projectcalico/calico/issues/6122"),
        symptom("node-not-ready", "A node is NotReady, and its kubelet runs", check(&[Nodes, Leases], checks::renewed_lease),
            "the kubelet renews its Lease, and reports that the node is not healthy; the message of the condition says why",
            "act on the message: `kubectl describe node NODE`. If it names the container runtime, on the node: `Restart-Service containerd`",
            NODE_STATUS).effect(),
        symptom("node-silent", "A node is NotReady, and its kubelet does not renew its Lease",
            check(&[Nodes, Leases], checks::expired_lease),
            "the machine or the kubelet does not run, or does not reach the API server",
            "look at the machine. On the node: `Get-Service kubelet, containerd`, and the end of its log, `Get-Content C:\\var\\log\\kubelet\\kubelet.log -Tail 50`, and its network to the API server",
            NODE_STATUS).effect(),
        symptom("node-memory-pressure", "A node has MemoryPressure", pressure("MemoryPressure"),
            "memory of the node is low. Windows has no OOM killer: processes page to disk, and the kubelet and the container runtime become slow too",
            "find the pods that use most: `kubectl top pods -A --sort-by=memory`. Set memory limits for them, reserve memory for the system (`systemReserved` in the profile), and remove pods from the node",
            "https://github.com/Azure/AKS/issues/2820"),
        symptom("node-disk-pressure", "A node has DiskPressure", pressure("DiskPressure"),
            "the disk of the node is nearly full, for instance of images or logs",
            "on the node: `crictl rmi --prune`, and `dir C:\\var\\log\\pods -Recurse | sort Length -Descending | select -First 5`. Or give the node a larger disk",
            NODE_STATUS),
        symptom("node-pid-pressure", "A node has PIDPressure", pressure("PIDPressure"),
            "there are too many processes on the node",
            "find the processes that do not end, on the node: `Get-Process | group Name | sort Count -Descending | select -First 5`, and remove their pods",
            NODE_STATUS),
        symptom("node-network-unavailable", "A node has NetworkUnavailable", pressure("NetworkUnavailable"),
            "the network of the node is not configured: its route or its CNI is missing",
            "look at the pods of the CNI, `kubectl get pods -A -o wide --field-selector spec.nodeName=NODE`, and at the routes of the cloud provider",
            NODE_STATUS),
        symptom("node-condition-unknown", "A condition of a node is Unknown", check(&[Nodes], checks::unknown_conditions),
            "the node controller has not heard from the kubelet",
            "look at the machine, and on it: `Get-Service kubelet`",
            NODE_STATUS).effect(),
        symptom("node-maintenance", "A node is under maintenance, or maintenance is planned", check(&[Nodes], checks::lifecycle_conditions),
            "an administrator or a controller for maintenance has set the condition. Pods may be evicted, and not be scheduled there",
            "wait until the work has ended. Whoever has set the condition removes it: `kubectl get node NODE -o jsonpath='{.status.conditions}'` has its reason and time",
            "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/5683-lifecycle-conditions").also(),
        symptom("node-other-condition", "A node has a condition of another program", check(&[Nodes], checks::other_conditions),
            "only the program that writes the condition defines which status is a problem",
            "look at its documentation, and at `kubectl describe node NODE`",
            NODE_STATUS).effect(),
        symptom("node-address", "Pods do not reach those of a node whose address has changed", check(&[Nodes], checks::cni_address),
            "the CNI reads the address of its node when it starts, and other nodes send the packets for its pods to the former one",
            "restart the CNI on the node: its service, or its pod, which `kubectl get pods -A -o wide --field-selector spec.nodeName=NODE` lists",
            "https://github.com/projectcalico/calico/issues/8700"),
        symptom("kube-proxy-not-ready", "kube-proxy is missing or not ready on a node",
            check(&[Nodes, Pods, DaemonSets], |case| checks::component(case, checks::KUBE_PROXY)),
            "without kube-proxy, Services do not work on the node",
            "look at the events and logs of the pod, which `kubectl get pods -A -o wide --field-selector spec.nodeName=NODE` lists, and at taints that the DaemonSet does not tolerate",
            "https://github.com/kubernetes-sigs/sig-windows-tools/issues/76").effect(),
        symptom("cni-not-ready", "The CNI is missing or not ready on a node",
            check(&[Nodes, Pods, DaemonSets], |case| checks::component(case, checks::CNI)),
            "without the CNI, pods on the node get no network",
            "look at the events and logs of the pod, which `kubectl get pods -A -o wide --field-selector spec.nodeName=NODE` lists, and at taints that the DaemonSet does not tolerate",
            "https://github.com/kubernetes-sigs/sig-windows-tools/issues/72").effect(),
        symptom("csi-not-ready", "A CSI driver is missing or not ready on a node",
            check(&[Nodes, Pods, DaemonSets], |case| checks::component(case, checks::CSI)),
            "without the DaemonSet of the driver for Windows, its volumes are not mounted on the node",
            "look at the events and logs of the pod, which `kubectl get pods -A -o wide --field-selector spec.nodeName=NODE` lists, and at csi-proxy if the driver needs it",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/427").effect(),
        symptom("volume-not-mounted", "The node of a pod does not mount one of its volumes",
            check(&[Nodes, Pods, Claims, Volumes, StorageClasses, CsiNodes], checks::volumes),
            "the CSI driver of the volume is not registered on the node or attaches no more, or Windows does not have the type or the file \
             system",
            "act on the text. `kubectl get csinode NODE -o jsonpath='{.spec.drivers[*].name}'` has the drivers of the node",
            "docs/storage.md"),
        symptom("known-issue", "A version on a node has a known defect", check(&[Nodes, Pods], checks::known_defects),
            "the versions of kubelet, containerd, Windows or kube-proxy are in the table of known issues",
            "act on the text; `winpool explain` with the id has its source",
            "docs/known-issues.md").also(),
        symptom("ended-setting", "A node has a setting that an upgrade ends", check(&[Nodes, NodeConfigs], checks::ended_settings),
            "a kubelet does not start with a flag or a feature gate that its minor does not have, and containerd 2.4 ignores settings of earlier releases. Agents report what nodes have",
            "remove the setting before the upgrade: `winpool plan --kubernetes MINOR` lists all of them, with the product that sets it",
            "https://github.com/rancher/rke2/issues/9591").also(),
        symptom("machine-not-joined", "A machine of Cluster API does not become a node", check(&[Machines], checks::machines),
            "no node has the provider ID of the machine: it does not boot, kubeadm fails, or the kubelet does not register",
            "look at the infrastructure object of the machine, `kubectl get machines -A -o wide`, and at the log of cloudbase-init on it",
            "https://cluster-api.sigs.k8s.io/developer/core/controllers/machine"),
        symptom("machines-held", "Cluster API reports a problem with the machines of a pool",
            check(&[Pools, MachineDeployments, MachinePools, MachineSets], checks::held_machines),
            "its controllers create no machine, or replace none: the Cluster is paused, a template or a Secret is missing, or a version is not allowed yet",
            "the message names what is missing: `kubectl describe` the object. The dead ends are listed in docs/delivery/cluster-api.md",
            "https://cluster-api.sigs.k8s.io/reference/api/condition-semantics"),
        symptom("flannel-subnet-env", "Pods do not start: /run/flannel/subnet.env is missing", sandbox(&["subnet.env"]),
            "flannel did not start on the node, so that it has not written this file",
            "restart flannel on the node: `Restart-Service flanneld`, or delete its pod. After a node has joined again, remove C:\\k\\SourceVip.json and C:\\k\\SourceVipRequest.json on it",
            TIPS),
        symptom("cni-plugin-missing", "Pods do not start: a plugin of the CNI is missing on the node",
            sandbox(&["failed to find plugin", "cni plugin not initialized", "cni config uninitialized"]),
            "the program or the configuration of the CNI is not in the directory that containerd is configured for. containerd 2.4 reads only `bin_dirs`, and ignores `bin_dir`",
            "on the node, compare `containerd config dump | Select-String bin_dir,conf_dir` with the directories into which the CNI is installed. With containerd 2.4 write `bin_dirs = ['C:\\opt\\cni\\bin']` instead of `bin_dir`",
            "https://github.com/kubernetes-sigs/windows-testing/issues/593"),
        symptom("hns-endpoint-left", "Pods do not start: HNS has an endpoint of a former sandbox or start",
            sandbox(&["is already existed", "endpoint already exists"]),
            "an endpoint with this name stayed in HNS after a restart of the node or of the CNI",
            "on the node: `Get-HnsEndpoint | ? Name -eq NAME | Remove-HnsEndpoint` with the name in the text, and restart the CNI. If it recurs, `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data` and restart the node",
            "https://github.com/containernetworking/plugins/blob/v1.9.1/pkg/hns/endpoint_windows.go#L90"),
        symptom("flannel-network", "Pods do not start: the HNS network of flannel is missing",
            sandbox(&["gethnsnewtorkbyname", "gethnsnetworkbyname", "cbr0", "network flannel…not found"]),
            "flannel has not created its network on the node: it does not run, or its network adapter has another name",
            "run on the node: `Get-HnsNetwork | ? Name -ieq \"cbr0\"`. If it prints nothing, start flannel with the name of the network adapter of the node",
            "https://github.com/kubernetes-sigs/sig-windows-tools/issues/88"),
        symptom("docker-network-host", "Pods do not start: Docker has no network host", sandbox(&["network host not found"]),
            "pods with the network of the node need a network of Docker with this name, which a restart removes",
            "run on the node, also at its start: `docker network create -d nat host`",
            "https://github.com/kubernetes-sigs/sig-windows-tools/issues/94"),
        symptom("eks-address-label", "Pods do not start on EKS: they get no address of the VPC",
            sandbox(&["vpc.amazonaws.com/privateipv4address"]),
            "nothing has requested an address for the pod: Windows support is not enabled in the ConfigMap amazon-vpc-cni, the role of the cluster lacks the policy AmazonEKSVPCResourceController, or the pod has no nodeSelector for Windows, which is all that the webhook of EKS reads (an affinity is not)",
            "`kubectl -n kube-system patch configmap amazon-vpc-cni --type merge -p '{\"data\":{\"enable-windows-ipam\":\"true\"}}'`, attach the policy, and write `nodeSelector: {kubernetes.io/os: windows}` into the pod. Then `kubectl -n NAMESPACE delete pod POD`, as only new pods get an address",
            "https://github.com/aws/amazon-vpc-resource-controller-k8s/blob/03d2f2511781fc55bbd894b9193b45e4f6cca5ef/webhooks/core/pod_webhook.go"),
        symptom("calico-strict-affinity", "Pods do not start: Calico may lend addresses of Windows nodes",
            sandbox(&["strict affinity should not be false"]),
            "the IPAM of Calico gives a Windows node no addresses while Linux nodes may borrow from its blocks",
            "`kubectl patch ipamconfigurations default --type merge -p '{\"spec\":{\"strictAffinity\":true}}'`, or `calicoctl ipam configure --strictaffinity=true`",
            "https://github.com/projectcalico/calico/blob/87c15906f20c4ca1fda55af92295e7678b0cc0b2/libcalico-go/lib/ipam/ipam.go#L75"),
        symptom("calico-no-addresses", "Pods do not start: the node has no address of Calico left",
            sandbox(&["no more free affine blocks"]),
            "the blocks of the node are full, and with strict affinity, which Windows needs, it may not use those of others",
            "`calicoctl ipam show --show-blocks`. Add an IPPool, or make its blocks larger, and start fewer pods on the node (`maxPods` in the profile)",
            "https://github.com/projectcalico/calico/blob/87c15906f20c4ca1fda55af92295e7678b0cc0b2/libcalico-go/lib/ipam/ipam.go#L785"),
        symptom("cni-version", "Pods do not start: CNI plugin and configuration are of different versions of the CNI specification",
            sandbox(&["incompatible cni versions", "does not support config version"]),
            "`cniVersion` in the configuration of the CNI is newer than the plugin on the node, or older than containerd accepts",
            "on the node: `Get-Content C:\\etc\\cni\\net.d\\* | Select-String cniVersion`. Write a version that the plugin supports, which the text names, or install newer plugins",
            "https://github.com/containernetworking/cni/blob/v1.3.1/pkg/version/reconcile.go#L29"),
        symptom("hns-endpoint", "Pods do not start: HNS creates no endpoint",
            sandbox(&["hnscall failed", "hns failed", "hcncreateendpoint", "hnsendpoint", "hcncreatenamespace"]),
            "the state of the CNI and of the host network service differ, or the network of the CNI is missing on the node",
            "`kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`, and restart the CNI on the node. If pods still do not start, restart the node: `Restart-Computer`",
            "https://github.com/Azure/acs-engine/issues/4046"),
        symptom("pause-image-mismatch", "Pods do not start: the pause image does not match the Windows of the node",
            sandbox(&winpool_facts::runtime_errors::MISMATCH_ERRORS),
            "the sandbox is made from the pause image, which has no variant for the build of the node",
            "set a pause image for this build, which a profile of winpool renders. On the node: `containerd config dump | Select-String sandbox`",
            "https://github.com/kubernetes/kubernetes/issues/99157"),
        symptom("pause-image-removed", "Pods do not start: the pause image is not on the node, and its registry needs credentials",
            sandbox(&["sandbox image…no basic auth credentials", "sandbox image…pull access denied", "sandbox image…401 unauthorized"]),
            "the image was on the node and was removed, as by the garbage collection of images when the disk is nearly full, and containerd pulls a pause image without credentials",
            "on the node, pull it again with credentials: `crictl pull --creds USER:PASSWORD IMAGE`, and pin it: `ctr -n k8s.io images label IMAGE io.cri-containerd.pinned=pinned`. Or use a pause image of a registry that needs none. Look at DiskPressure of the node",
            "https://github.com/awslabs/amazon-eks-ami/issues/2166"),
        symptom("pause-image-unavailable", "Pods do not start: the pause image cannot be pulled",
            // The second text is that of containerd 2.x, whose `ensurePauseImageExists` pulls before a sandbox is started.
            sandbox(&["failed to get sandbox image", "failed to pull image"]),
            "containerd does not reach the registry of `sandbox_image`, there is no such tag, or Windows does not import a layer of it. An image that was on the node may have been removed by the garbage collection of images",
            "on the node: `crictl pull IMAGE` with the image in the text. Set a pause image that exists for Windows, from a registry or mirror that the node reaches",
            "https://github.com/kubernetes-sigs/sig-windows-dev-tools/issues/64"),
        symptom("handler-unknown", "Pods do not start: containerd does not have the handler of their RuntimeClass",
            sandbox(&["no runtime for"]),
            "the RuntimeClass names a handler that is not among the runtimes of containerd on the node, and the pod was not scheduled by what the nodes report",
            "correct the handler of the class, or add the runtime to containerd: `containerd.extraConfig` of a profile. A node reports its handlers: `kubectl get node NODE -o jsonpath='{.status.runtimeHandlers}'`",
            "https://github.com/containerd/containerd/blob/v2.4.2/internal/cri/config/config.go#L718"),
        symptom("sandbox-name-reserved", "Pods do not start: the name of the sandbox is reserved",
            sandbox(&["failed to reserve sandbox name"]),
            "an earlier attempt to create the sandbox has not ended: the host compute service is slow or does not answer",
            "wait until the attempts end. If they do not, `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data` and restart the node; start fewer pods at once",
            "https://github.com/kubernetes/kubernetes/issues/107561"),
        symptom("sandbox-other", "Pods do not start: their sandbox is not created, for another reason",
            sandbox(&[]),
            "the container runtime or the CNI failed; the text of the event says where",
            "look at the logs of the CNI and of containerd: `winpool doctor node/NODE --node-logs`",
            TIPS),
        symptom("container-creating", "Pods stay in ContainerCreating without an event of a failure",
            check(&[Pods, Events], checks::container_creating),
            "the kubelet still works on the pod, or its events have expired; a pause image that does not match is frequent",
            "`kubectl -n NAMESPACE delete pod POD`, and read the events of the pod that replaces it",
            TIPS),
        symptom("linux-pod", "A pod for Linux was scheduled to a Windows node", check(&[Pods], checks::linux_pods),
            "nothing restricts the pod to Linux nodes, and the node has no taint that it does not tolerate",
            "write `nodeSelector: {kubernetes.io/os: linux}` into the pod, and taint the nodes, as a pool of winpool does by default: `kubectl taint nodes NODE os=windows:NoSchedule`",
            "https://github.com/kubernetes/ingress-nginx/issues/7548"),
        symptom("image-mismatch", "Containers do not start: the image does not match the Windows of the node",
            Detection::Errors { about: PodState::NotReady, reasons: &[FAILED, EXIT], texts: checks::MISMATCH },
            "an image runs with process isolation only on a Windows that its base image matches (0xC0370101)",
            "use an image that has a variant for the build of the node, or a node that matches: a RuntimeClass of a pool selects one. The variants: `docker manifest inspect IMAGE`, or `winpool doctor` with `--registry`",
            "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility"),
        symptom("image-platform", "Containers do not start: the registry has no variant of their image for the node",
            check(&[Nodes, Pods, Images], checks::image_platforms),
            "none of the platforms of the image fits the Windows and the processor of the node",
            "push a variant of the image for the build of the node, or use a node that matches: a RuntimeClass of a pool selects one. `docker manifest inspect IMAGE` has the variants",
            "https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility"),
        symptom("image-pull-tls", "Images are not pulled: the node does not trust the certificate of the registry",
            start(&["pull…x509:", "pull…certificate signed by unknown authority"]),
            "the certificate of the registry, or of a proxy between, is not signed by an authority that Windows trusts, is for another name, or has expired",
            "on the node: `Import-Certificate -FilePath CA.crt -CertStoreLocation Cert:\\LocalMachine\\Root`, or set `ca` in the hosts.toml of the registry, which a profile of winpool renders",
            "https://github.com/containerd/containerd/blob/v2.4.2/docs/hosts.md"),
        symptom("image-pull-limit", "Images are not pulled: the registry limits the number of pulls",
            start(&["pull…429 too many requests", "pull…toomanyrequests"]),
            "too many images were pulled from the address of the node, or by its account, within a time",
            "wait, or pull with an account: `kubectl -n NAMESPACE create secret docker-registry NAME --docker-server=REGISTRY --docker-username=USER --docker-password=PASSWORD` and `imagePullSecrets`, or use a mirror: `mirrors` in the profile",
            "https://docs.docker.com/docker-hub/usage/pulls/"),
        symptom("image-pull-disk", "Images are not pulled: the disk of the node is full",
            start(&["pull…not enough space on the disk", "extract…not enough space on the disk"]),
            "the layers of Windows images have several GiB, and the disk of containerd has less",
            "on the node: `crictl rmi --prune`, and `Get-Volume`. Give the node a larger disk",
            "https://learn.microsoft.com/windows/win32/debug/system-error-codes--0-499-"),
        symptom("disk-full", "Containers do not start: the disk of the node is full",
            Detection::Errors {
                about: PodState::NotReady,
                reasons: &[FAILED, "FailedCreatePodSandBox", "FailedMount"],
                texts: &["not enough space on the disk", "(0x70)"],
            },
            "the directories of the kubelet, of containerd or of the logs are on a disk that is full",
            "on the node: `Get-Volume`, `crictl rmi --prune`, and `dir C:\\var\\log\\pods -Recurse | sort Length -Descending | select -First 5`. Give the node a larger disk",
            "https://learn.microsoft.com/windows/win32/debug/system-error-codes--0-499-"),
        symptom("host-compute-lost", "Containers do not start: the host compute or network service does not answer",
            Detection::Errors {
                about: PodState::NotReady,
                reasons: &[FAILED, "FailedCreatePodSandBox"],
                texts: &["lost communication with compute service", "hcsshim: timeout waiting for notification",
                    "rpc server is unavailable", "(0x6ba)"],
            },
            "the service vmcompute or hns has ended, was restarted, or is overloaded",
            "on the node: `Get-Service vmcompute, hns`, and `Restart-Service hns` after `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`. If it recurs, start fewer pods at once, and restart the node",
            "https://github.com/microsoft/hcsshim/blob/v0.15.0-rc.4/internal/hcs/errors.go#L51"),
        symptom("image-pull-network", "Images are not pulled: the node does not reach the registry", start(checks::CONNECTION),
            "the connection of containerd fails or is interrupted: a proxy, DNS, a firewall or the MTU of the node. Layers of Windows may come from mcr.microsoft.com even if the image is in another registry",
            "open the named address from the node: `curl.exe -v ADDRESS`. Allow mcr.microsoft.com, or set the proxy for the service containerd",
            "https://github.com/containerd/containerd/issues/7676"),
        symptom("image-pull-denied", "Images are not pulled: the registry refuses the access",
            start(&["pull…401 unauthorized", "pull…403 forbidden", "pull access denied", "pull…authorization failed",
                "pull…insufficient_scope", "no basic auth credentials", "pull…unauthorized:"]),
            "the pull secret is missing, not valid, or in another namespace than the pod; registries say the same of images that do not exist",
            "`kubectl -n NAMESPACE get pod POD -o jsonpath='{.spec.imagePullSecrets}'`, and `kubectl -n NAMESPACE get secret NAME` for each. Try it on the node: `crictl pull --creds USER:PASSWORD IMAGE`",
            "https://kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry/"),
        symptom("image-not-found", "Images are not pulled: there is no such image or tag",
            start(&["pull…not found", "pull…manifest unknown", "pull…name unknown", "pull…repository does not exist"]),
            "the registry does not have the image, or not this tag",
            "compare the name with the registry, on the node: `crictl pull IMAGE`",
            "https://kubernetes.io/docs/concepts/containers/images/"),
        symptom("image-never-pulled", "Containers do not start: their image is not on the node, and is never pulled",
            start(&["is not present with pull policy of never", "errimageneverpull"]),
            "`imagePullPolicy` is Never, and the image was not loaded into containerd, or into another namespace than k8s.io",
            "on the node: `ctr -n k8s.io images import FILE`, or set `imagePullPolicy: IfNotPresent`",
            "https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/kubelet/images/image_manager.go#L163"),
        symptom("image-name-invalid", "Containers do not start: the name of their image is invalid",
            start(&["failed to apply default image tag", "invalidimagename", "invalid reference format"]),
            "the name has for instance upper case, a space or a scheme, or a variable that was not replaced",
            "`kubectl -n NAMESPACE get pod POD -o jsonpath='{.spec.containers[*].image}'`, and correct it",
            "https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/kubelet/images/image_manager.go#L185"),
        symptom("image-layer", "Images are pulled, and a layer cannot be unpacked",
            start(&["failed to extract layer", "failed to register layer", "hcsshim::importlayer", "hcsshim::processbaselayer"]),
            "Windows could not import a layer: another program, such as a virus scanner, holds its files, the layer is for another Windows, or the disk is full or damaged; the code in the text says which",
            "exclude the directories of containerd from the virus scanner, on the node: `Add-MpPreference -ExclusionPath C:\\ProgramData\\containerd`. Then `crictl rmi IMAGE` and `crictl pull IMAGE`",
            "https://learn.microsoft.com/virtualization/windowscontainers/troubleshooting"),
        symptom("image-pull", "Images are not pulled, for another reason", start(&["pull"]),
            "the text says what the registry or containerd has reported",
            "pull it on the node: `crictl pull IMAGE`. Compare the name of the image with the registry, and look at `imagePullSecrets`",
            TIPS),
        symptom("object-missing", "Containers do not start: a ConfigMap or Secret that they use does not exist",
            Detection::Errors {
                about: PodState::NotReady,
                reasons: &[FAILED, "FailedMount"],
                texts: &["error: configmap \"…\" not found", "error: secret \"…\" not found", "configmap \"…\" not found",
                    "secret \"…\" not found", "couldn't find key", "references non-existent"],
            },
            "the object is missing in the namespace of the pod, or has no such key",
            "`kubectl -n NAMESPACE get configmaps,secrets`, and create it, or mark it as `optional: true` in the pod",
            "https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/kubelet/kubelet_pods.go#L917"),
        symptom("run-as-non-root", "Containers do not start: runAsNonRoot does not permit their user",
            start(&["will break non-root policy", "runasnonroot"]),
            "with `runAsNonRoot: true` the kubelet on Windows starts no container as ContainerAdministrator",
            "write `windowsOptions: {runAsUserName: ContainerUser}` into the securityContext, or remove runAsNonRoot: `kubectl -n NAMESPACE get pod POD -o jsonpath='{.spec.securityContext}'`",
            "https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/kubelet/kuberuntime/security_context_windows.go#L65"),
        symptom("gmsa-webhook", "The webhook that gives pods their gMSA is missing, or will not work",
            check(&[Pods, MutatingWebhooks, EndpointSlices], checks::webhooks),
            "the webhook of windows-gmsa writes the credential spec into each new pod; while it does not answer, its failurePolicy decides \
             whether pods are refused or start without a gMSA",
            "`kubectl get mutatingwebhookconfigurations -o yaml` has its Service: look at the pods of it. Install it with the chart of \
             windows-gmsa, in which cert-manager renews the certificate",
            "https://github.com/kubernetes-sigs/windows-gmsa/tree/993de21c8f98a4def841b8de89aed688a95630d8/charts"),
        symptom("gmsa-spec", "The credential spec of a gMSA is missing or invalid, or was not written into the pod",
            check(&[Pods, CredentialSpecs], checks::credential_specs),
            "without its GMSACredentialSpec the webhook refuses the next pod; with another shape the container does not start or does not \
             log on to the domain; and a pod that the webhook has not changed has no gMSA, nor have its init containers by themselves",
            "`kubectl get gmsacredentialspecs -o yaml`, and correct the name or the field. After the webhook runs, \
             `kubectl -n NAMESPACE delete pod POD`",
            "https://learn.microsoft.com/virtualization/windowscontainers/manage-containers/gmsa-troubleshooting"),
        symptom("gmsa-not-allowed", "The ServiceAccount of a pod may not use its gMSA",
            check(&[Pods, AccessReviews], checks::refused_accounts),
            "no role permits the verb use for the credential spec, so that the webhook refuses the next pod",
            "apply a ClusterRole gmsa-SPEC with `apiGroups: [windows.k8s.io]`, `resources: [gmsacredentialspecs]`, `verbs: [use]` and \
             `resourceNames: [SPEC]`, and \
             `kubectl -n NAMESPACE create rolebinding gmsa-SPEC --clusterrole=gmsa-SPEC --serviceaccount=NAMESPACE:ACCOUNT`",
            "https://kubernetes.io/docs/tasks/configure-pod-container/configure-gmsa/"),
        symptom("docker-pipe-read-only", "Containers do not start with Docker: a named pipe is mounted read-only",
            start(&["type \"npipe\": field readonly must not be specified"]),
            "Docker mounts named pipes only for reading and writing",
            "remove `readOnly: true` from the volumeMount of the pipe: `kubectl -n NAMESPACE get pod POD -o yaml`",
            "https://github.com/DataDog/helm-charts/pull/957"),
        symptom("docker-token", "Containers do not start with Docker: the token of the ServiceAccount cannot be mounted",
            start(&["invalid volume specification…/var/run/secrets/kubernetes.io"]),
            "this version of cri-dockerd passes the path of the token to Docker as the kubelet has it, and it is none of Windows",
            "install a newer cri-dockerd on the node (`cri-dockerd --version`), or write `automountServiceAccountToken: false` into pods that do not use the API",
            "https://github.com/Mirantis/cri-dockerd/issues/446"),
        symptom("docker-single-file", "Containers do not start with Docker: a single file is mounted",
            start(&["source path must be a directory", "only directories can be mapped on this platform"]),
            "Docker mounts only directories and named pipes on Windows, and not single files, as `subPath` or a hostPath of a file needs",
            "mount the directory and not the file: remove `subPath` from the volumeMounts that `kubectl -n NAMESPACE get pod POD -o yaml` shows, or use containerd",
            "https://github.com/kubernetes/kubernetes/issues/110325"),
        symptom("layer-not-ready", "Containers do not start: the disk of the container is not ready",
            start(&["preparelayer…0x15", "preparelayer…the device is not ready", "activatelayer…the device is not ready"]),
            "the disk of the container was attached and is not ready yet, mostly when many containers start at once; the kubelet tries again. The thread does not say why",
            "start fewer pods at once: `maxSurge` of the Deployment and `maxPods` of the profile. If it does not end, `kubectl -n NAMESPACE delete pod POD`, and install a newer containerd",
            "https://github.com/microsoft/hcsshim/issues/919"),
        symptom("memory-used-up", "Containers do not start: the memory of the node is used up",
            start(&["0x5af)", "0x800705af", "0x5aa)", "0x800705aa", "paging file is too small",
                "insufficient system resources exist"]),
            "Windows could not commit memory: the sum of memory and paging file of the node is used up",
            "`kubectl top pods -A --sort-by=memory`, and on the node `Get-Counter '\\Memory\\Committed Bytes','\\Memory\\Commit Limit'`. Move pods to other nodes, enlarge the paging file, or lower requests and `maxPods`",
            "https://learn.microsoft.com/windows/win32/debug/system-error-codes--1300-1699-"),
        symptom("program-missing", "Containers do not start: Windows does not find the program of the container",
            start(&["createprocess…the system cannot find the file specified", "createprocess…the system cannot find the path specified",
                "createprocess…(0x2)", "createprocess…(0x3)", "createprocess…(0x7b)"]),
            "the image has no such program in its PATH, or it is a Linux program such as /bin/sh, or its ENTRYPOINT or CMD is in shell form (`cmd /S /C …` as one word), which containerd before 1.7 starts as the name of a program",
            "`kubectl -n NAMESPACE get pod POD -o jsonpath='{.spec.containers[*].command}'`. Write ENTRYPOINT and CMD as JSON arrays in the Dockerfile, or `command: [cmd, /S, /C, PROGRAM]` in the pod",
            "https://github.com/containerd/containerd/issues/5067"),
        symptom("exit-code", "Containers are ended by Windows",
            Detection::Errors { about: PodState::NotReady, reasons: &[EXIT], texts: &[] },
            "the exit code is a status of Windows, not one of the program",
            "act on the meaning of the code, and look at `kubectl -n NAMESPACE logs POD --previous`. 0xC0000142 and 0xC0000135: use a base image that has the DLLs, such as Server Core instead of Nano Server. 0xC000012D: raise the memory limit",
            "https://github.com/microsoft/windows-rs/tree/master/crates/libs/sys"),
        symptom("before-cni", "Pods have no network after a restart of their node", check(&[Pods, DaemonSets], checks::before_cni),
            "the pod began before the CNI on the node, and its containers restart in the same sandbox, which has no network",
            "`kubectl -n NAMESPACE delete pod POD`: the new one gets a sandbox with a network. To avoid it, drain nodes before they restart",
            "https://github.com/tigera/operator/issues/3193"),
        symptom("token-owner", "Volumes are not mounted: the kubelet cannot give a token an owner on Windows",
            mount(&["chown…not supported by windows"]),
            "the pod has runAsUser, so that the kubelet sets the owner of its token, which Windows does not have; kubelets since 1.30.9 and 1.31 leave it out. A pod with runAsUser is often one for Linux, without a nodeSelector",
            "for Linux: write `nodeSelector: {kubernetes.io/os: linux}` into the pod. For Windows: remove runAsUser from its securityContext, which `kubectl -n NAMESPACE get pod POD -o jsonpath='{.spec.securityContext}'` shows, or upgrade the kubelet",
            "https://github.com/kubernetes/kubernetes/pull/125040"),
        symptom("csi-proxy", "Volumes are not mounted: csi-proxy does not answer", mount(&["csi-proxy"]),
            "csi-proxy is not installed on the node or does not run, or the driver uses another version of its API",
            "install csi-proxy as a service of the node (`Get-Service csi-proxy`), or use a version of the driver that runs as HostProcess container",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/233"),
        symptom("csi-driver-not-registered", "Volumes are not mounted: the CSI driver is not registered on the node",
            mount(&["not found in the list of registered csi drivers"]),
            "the DaemonSet of the driver for Windows is not installed, or has no ready pod on the node",
            "`kubectl get csinode NODE -o jsonpath='{.spec.drivers[*].name}'` has those that are. Install the DaemonSet of the driver for Windows, and csi-proxy if it needs it",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/427"),
        symptom("smb-cluster-name", "Volumes are not mounted: the SMB server has a name that only pods know",
            mount(&[".svc.…smbglobalmapping", ".svc\\…smbglobalmapping", ".svc/…smbglobalmapping"]),
            "the node mounts the share, and not the pod, and a node does not use the DNS of the cluster",
            "write an address or a name that the node resolves into `source` of the volume: `kubectl get pv -o custom-columns=NAME:.metadata.name,SOURCE:.spec.csi.volumeAttributes.source`. On the node: `Resolve-DnsName SERVER`",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/294"),
        symptom("smb-server", "Volumes are not mounted: the node does not reach the SMB server or its share",
            mount(&["smbglobalmapping…system error 53", "smbglobalmapping…system error 67", "smbglobalmapping…network path was not found"]),
            "the node does not resolve the name of the server, TCP port 445 is closed, or the server has no such share",
            "on the node: `Test-NetConnection SERVER -Port 445`, with the server in the text. Correct `source` of the volume",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/294"),
        symptom("smb-credentials", "Volumes are not mounted: the SMB server refuses the user",
            mount(&["smbglobalmapping…system error 1326", "smbglobalmapping…system error 86", "smbglobalmapping…system error 65",
                "smbglobalmapping…user name or password is incorrect", "smbglobalmapping…network access is denied",
                "smbglobalmapping…access is denied"]),
            "user or password in the Secret are wrong, the domain is missing before the user, or the user may not open the share",
            "`kubectl get pv -o custom-columns=NAME:.metadata.name,SECRET:.spec.csi.nodeStageSecretRef.name` names the Secret: write `DOMAIN\\\\USER` as its username",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/520"),
        symptom("smb-two-users", "Volumes are not mounted: the node is connected to the SMB server with another user",
            mount(&["smbglobalmapping…system error 1219"]),
            "Windows connects to a server as one user only",
            "use one Secret for all shares of the server. On the node: `Get-SmbGlobalMapping`, and `Remove-SmbGlobalMapping -RemotePath PATH` for those that no pod uses",
            "https://github.com/kubernetes-csi/csi-driver-smb/issues/219"),
        symptom("mount-symlink", "Containers do not start: a link of a volume cannot be resolved",
            Detection::Errors {
                about: PodState::NotReady,
                reasons: &[FAILED, "FailedMount"],
                texts: &["failed to resolve symlink", "cannot read link"],
            },
            "the mounted path is a link that this version of containerd or of the kubelet does not follow on Windows, as with SMB shares and `subPath`",
            "upgrade containerd and the kubelet (`kubectl get node NODE -o wide` has the versions), or mount the share without `subPath`",
            "https://github.com/kubernetes/kubernetes/issues/94213"),
        symptom("hcn-namespace", "Pods stay Terminating: HNS does not remove their namespace",
            Detection::Errors { about: PodState::StuckTerminating, reasons: &["FailedKillPod"], texts: &["hcndeletenamespace"] },
            "the network of the sandbox cannot be removed, for instance after a restart of the host network service",
            "`kubectl -n NAMESPACE delete pod POD --force --grace-period=0` after its containers have ended. If it recurs, restart the node",
            "https://github.com/projectcalico/calico/issues/6974"),
        symptom("stuck-terminating", "Pods stay Terminating", check(&[Pods], checks::terminating),
            "a handle to a file of a volume is open, the container runtime does not end a container, or the node does not answer",
            "look at the node first, `kubectl get node NODE`: if it is not ready, solve that. Pods with several subPath mounts: see known issue kubernetes-112630",
            "https://github.com/kubernetes/kubernetes/issues/112630").effect(),
        symptom("duplicate-address", "Two pods have the same address", check(&[Pods, EndpointSlices], checks::duplicate_addresses),
            "an endpoint of a former pod was not removed, or the address was given twice",
            "`kubectl get pods -A -o wide` has the addresses. Drain the node of the affected pods, and delete the pods. On the node, see duplicate-hns-endpoint",
            "https://github.com/Azure/AKS/issues/5653"),
        symptom("dns-policy", "DNS does not resolve names of the cluster in a pod", check(&[Pods], checks::dns_policy),
            "`ClusterFirstWithHostNet` is not supported for pods on Windows nodes with a network of their own",
            "write `dnsPolicy: ClusterFirst` into the pod",
            "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-windows"),
        symptom("service-vip-from-node", "The node does not reach Services by their IP", on_node("curl.exe -v http://SERVICE-IP:PORT"),
            "this is a known limitation of the network of Windows: pods on Windows reach it, the node does not",
            "test from a pod: `kubectl exec -n NAMESPACE POD -- curl.exe -v http://SERVICE-IP:PORT`",
            TIPS),
        symptom("node-port-from-node", "The node does not reach its own NodePorts", on_node("curl.exe -v http://localhost:NODE-PORT"),
            "this is a known limitation of Windows",
            "test from another node or from outside: `curl -v http://NODE-IP:NODE-PORT`",
            TIPS),
        symptom("icmp", "Pods cannot ping addresses outside of the cluster", on_node("curl IP"),
            "pods on Windows have no rules for outgoing ICMP; TCP and UDP work",
            "test with `curl.exe -v` instead of ping",
            TIPS),
        symptom("exception-list", "Pods do not reach addresses outside of the cluster",
            agent(checks::public_exception, "Get-HnsEndpoint | ConvertTo-Json -Depth 10"),
            "`ExceptionList` in the configuration of the CNI contains the address, so that it is not translated",
            "list only the networks of pods, Services and nodes in `ExceptionList`, on the node: `Get-Content C:\\etc\\cni\\net.d\\*`",
            TIPS),
        symptom("mac-spoofing", "Pods on a virtual machine have no network",
            on_node("Get-VMNetworkAdapter -VMName NAME | Set-VMNetworkAdapter -MacAddressSpoofing On (on the hypervisor)"),
            "the hypervisor drops packets with the MAC addresses of pods",
            "enable MAC spoofing on all network adapters of the machine, on the hypervisor: `Set-VMNetworkAdapter -VMName NAME -MacAddressSpoofing On`",
            TIPS),
        symptom("hns-network", "The kubelet finds no network adapter",
            agent(checks::no_network, "Get-HnsNetwork | ? Name -ieq \"cbr0\"; Get-NetAdapter | ? Name -Like \"vEthernet (Ethernet*\""),
            "if one of them prints nothing, the virtual network was not created",
            "set the name of the network adapter of the node, which `Get-NetAdapter` prints, in the configuration of the CNI",
            TIPS),
        symptom("hostname-override", "Network adapters and HNS endpoints of containers are deleted",
            log(&["kube-proxy"], &["failed to retrieve node info…not found", "command failed…err=\"node…not found"],
                "C:\\k\\kube-proxy.exe --hostname-override=$(hostname)"),
            "kube-proxy runs without --hostname-override or with another name than that of its node, and finds no such node",
            "start kube-proxy with `--hostname-override=NODE`; in a HostProcess container with the name of the node from the downward API",
            TIPS),
        symptom("duplicate-hns-endpoint", "Pods lose their network, and HNS has two endpoints with one address",
            agent(checks::duplicate_endpoints, "Get-HnsEndpoint | Group-Object IPAddress | Where-Object { $_.Count -gt 1 }"),
            "endpoints of former pods stay on the node",
            "`kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`, so that the pods are created elsewhere",
            "https://github.com/Azure/AKS/issues/5653"),
        symptom("hns-problem", "An agent reports a problem of the host network service", check(&[Nodes, NodeConfigs], checks::network_problems),
            "HNS has two endpoints with one address, endpoints of former pods, or has lost the load balancers of kube-proxy",
            "act on the text: `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data` for endpoints, and a restart of kube-proxy for load balancers",
            "docs/delivery/agent.md#the-network-of-nodes"),
        symptom("hns-endpoint-missing", "Running pods have no network, because HNS has lost their endpoints",
            agent_and_pods(checks::missing_endpoints, "hnsdiag list endpoints"),
            "the host network service was restarted, and does not create the endpoints of running pods again",
            "`kubectl -n NAMESPACE delete pod POD` for the named pods: the new ones get endpoints. To avoid it, drain a node before HNS restarts",
            "https://github.com/docker/for-win/issues/12425"),
        symptom("service-stopped", "A service that the node needs does not run",
            agent(checks::stopped_service, "Get-Service kubelet, containerd, kube-proxy, hns, vmcompute"),
            "the service has ended or was stopped; the end of its own log, or the event log of the system, says why",
            "start the service, `Start-Service NAME`, and look at its log. In the facts of the node is whether Windows starts it again: status.facts of its WindowsNodeConfig",
            TIPS).effect(),
        symptom("kubelet-port", "kubectl logs, exec and port-forward do not reach the pods of a node",
            agent(checks::kubelet_port, "Get-NetTCPConnection -State Listen -LocalPort 10250"),
            "the kubelet runs, and its server does not: it has not started yet, or `enableServer` is false in its configuration",
            "look at the configuration of the kubelet, and at the end of its log: `winpool doctor node/NODE --node-logs`",
            "https://kubernetes.io/docs/reference/networking/ports-and-protocols/"),
        symptom("mtu", "Large packets are lost: transfers begin and then stop",
            agent(checks::larger_mtu, "netsh interface ipv4 show subinterfaces"),
            "a virtual adapter for containers has another MTU than the adapter or the network of the machine: HNS does not take it over when it creates its switch",
            "set the MTU of the machine's network at each virtual adapter: `netsh interface ipv4 set subinterface NAME mtu=MTU store=persistent`",
            "https://github.com/microsoft/SDN/issues/84"),
        symptom("load-balancers-lost", "Services do not answer after a restart of the host network service",
            agent_and_pods(checks::no_load_balancer, "hnsdiag list loadbalancers"),
            "kube-proxy does not create load balancers again that others have removed",
            "restart kube-proxy on the node: `Restart-Service kube-proxy`, or delete its pod",
            "https://github.com/kubernetes/kubernetes/issues/135802"),
        symptom("kube-proxy-network", "kube-proxy does not find its network",
            log(&["kube-proxy"], &["unable to find hns network", "could not find hns network"], "Get-HnsNetwork | ? Name -ieq \"cbr0\""),
            "the network of the CNI is missing, or has another name than kube-proxy is configured for",
            "set KUBE_NETWORK of kube-proxy to the name of the network of the CNI, which `Get-HnsNetwork | select Name` prints on the node",
            "https://github.com/kubernetes/kubernetes/issues/79515"),
        symptom("kube-proxy-options", "kube-proxy does not start: an option for its network is missing",
            log(&["kube-proxy"], &["windsr feature gate not enabled", "winoverlay feature gate not enabled", "source-vip flag not set",
                "kube_network and network-flag not initialized"],
                "Select-String 'not enabled|not set|not initialized' C:\\var\\log\\kube-proxy\\*.log"),
            "with Direct Server Return or an overlay network kube-proxy needs their feature gates, and with an overlay network an address for its own packets; without KUBE_NETWORK it does not know its network",
            "start kube-proxy with `--feature-gates=WinDSR=true,WinOverlay=true --source-vip=ADDRESS`, as far as the text names them, and with KUBE_NETWORK, which a profile of winpool renders",
            "https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/proxy/winkernel/proxier.go#L777"),
        symptom("load-balancer-refused", "HNS refuses the load balancer of a Service",
            log(&["kube-proxy"], &["the specified port already exists", "the switch-port was not found"], "hnsdiag list loadbalancers"),
            "a port of the Service is reserved on the node, or HNS has no endpoint of a pod that kube-proxy names. Without its load balancer the Service does not answer on the node",
            "restart kube-proxy on the node: `Restart-Service kube-proxy`, or delete its pod. If it recurs, install a newer update of Windows",
            "https://github.com/microsoft/hcsshim/issues/1043"),
        symptom("load-balancer-exists", "HNS has a load balancer that kube-proxy does not know",
            log(&["kube-proxy"], &["cannot create a file when that file already exists"], "hnsdiag list loadbalancers"),
            "while the host network service restarted, kube-proxy took its load balancers for removed",
            "restart kube-proxy on the node (`Restart-Service kube-proxy`, or delete its pod), and use a version of kube-proxy with the correction kubernetes/kubernetes#139503",
            "https://github.com/kubernetes/kubernetes/issues/139519"),
        symptom("kubelet-socket-left", "The kubelet does not start again: its socket of a former start is left",
            log(&[], &["kubelet.sock: bind: only one usage of each socket address"],
                "Select-String 'kubelet.sock: bind' C:\\var\\log\\kubelet\\*.log"),
            "kubelet 1.31.0 does not remove this file before it listens on it; 1.31.1 does",
            "on the node: `Remove-Item C:\\var\\lib\\kubelet\\device-plugins\\kubelet.sock; Start-Service kubelet`, and install a kubelet of 1.31.1 or later",
            "https://github.com/kubernetes/kubernetes/issues/126965"),
        symptom("unknown-flag", "A service does not start: it does not know an option",
            log(&[], &["unknown flag", "unknown shorthand flag", "flag provided but not defined"],
                "Select-String 'unknown flag' C:\\var\\log\\*.log, C:\\var\\log\\*\\*.log"),
            "the option was removed in this version of the program, or is misspelt; what starts the service still passes it",
            "remove the named option. On the node: `nssm get kubelet AppParameters`, or `sc.exe qc kubelet`. With a distribution such as RKE2, which passes options itself, install a version that fits the kubelet: --cloud-config, for instance, was removed in 1.34, and RKE2 stopped to pass it in its next patch",
            "https://github.com/rancher/rke2/issues/9591"),
        symptom("feature-gate", "A service does not start: a feature gate is unknown or locked",
            log(&[], &["unrecognized feature gate", "cannot set feature gate…locked to"],
                "Select-String 'feature gate' C:\\var\\log\\*.log, C:\\var\\log\\*\\*.log"),
            "the gate was removed in this version, or can no longer be switched off",
            "remove the gate from `--feature-gates` and `featureGates`: `winpool render` refuses those that a version does not have. \
             RKE2 sets WinDSR=true of kube-proxy itself: install a release of it that fits",
            "https://github.com/kubernetes/component-base/blob/v0.37.2/featuregate/feature_gate.go#L421"),
        symptom("unknown-field", "A service does not accept its configuration",
            log(&[], &["strict decoding error", "failed to load kubelet config file", "failed to load kubelet dropin file", "failed to validate kubelet configuration",
                "unable to load client ca file",
                "no kind \"…\" is registered for version", "failed to load toml", "failed to unmarshal toml"],
                "Select-String 'strict decoding error' C:\\var\\log\\*.log, C:\\var\\log\\*\\*.log"),
            "a field of the file does not exist in this version of the program, or has an invalid value; the text names it",
            "correct the file, which the text names, and restart the service: `Restart-Service kubelet`. A file of a profile that winpool renders for this version has only its fields",
            "https://github.com/kubernetes/kubernetes/blob/v1.37.2/cmd/kubelet/app/server.go#L220"),
        symptom("address-in-use", "A service does not start: another process listens on its address",
            log(&[], &["only one usage of each socket address", "address already in use"],
                "Get-NetTCPConnection -State Listen | sort LocalPort"),
            "a second instance of the service, or another program, has the port or the socket",
            "on the node: `Get-NetTCPConnection -State Listen -LocalPort PORT | select OwningProcess`, with the port in the text, and end one of the two",
            "https://learn.microsoft.com/windows/win32/winsock/windows-sockets-error-codes-2"),
        symptom("certificate-expired", "A service does not reach another: a certificate has expired or is not valid yet",
            log(&[], &["certificate has expired or is not yet valid", "part of the existing bootstrap client certificate…is expired"],
                "Select-String 'certificate has expired' C:\\var\\log\\*.log, C:\\var\\log\\*\\*.log"),
            "the certificate of the kubelet was not renewed while the node was off, that of the API server has expired, or the clock of the node is wrong",
            "on the node: `w32tm /query /status`, and `kubectl get csr` for requests that nobody has approved. Join the node again if its certificate has expired: `kubeadm token create --print-join-command`",
            "https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/"),
        symptom("not-authorized", "A service is refused by the API server",
            log(&[], &["unable to load bootstrap kubeconfig", "the server has asked for the client to provide credentials"],
                "Select-String 'Unauthorized' C:\\var\\log\\*.log, C:\\var\\log\\*\\*.log"),
            "the token or the certificate of the service is not valid any more, or its kubeconfig is missing",
            "join the node again: `kubeadm token create --print-join-command`, or write its kubeconfig",
            "https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/"),
        symptom("calico-strict-affinity-logged", "Calico does not start on a Windows node: it may lend addresses",
            log(&[], &["strict affinity should not be false"], "Select-String 'strict affinity' C:\\CalicoWindows\\logs\\*.log"),
            "the IPAM of Calico gives a Windows node no addresses while Linux nodes may borrow from its blocks",
            "`kubectl patch ipamconfigurations default --type merge -p '{\"spec\":{\"strictAffinity\":true}}'`, or `calicoctl ipam configure --strictaffinity=true`",
            "https://github.com/rancher/rke2/issues/1691"),
        symptom("cni-network", "The CNI does not create its HNS network on a node",
            log(&[], &["failed to create hnsnetwork", "failed to create hostcomputenetwork", "failed to delete existing hnsnetwork",
                "failed to get management ip from", "unable to create network ["],
                "Get-HnsNetwork | select Name, Type, ManagementIP; Get-NetAdapter"),
            "the adapter that the CNI is configured for does not exist or has no address, or a network of a former start is in the way; the code in the text says which",
            "on the node: `Get-NetAdapter`, and set the name of the adapter in the configuration of the CNI. Remove what is left, after `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`: `Get-HnsNetwork | ? Name -eq NAME | Remove-HnsNetwork`, and start the CNI again",
            "https://github.com/flannel-io/flannel/blob/cdf760595c23292fd03ff4daf03638ac1ceef417/pkg/backend/hostgw/hostgw_windows.go#L158"),
        symptom("hns-lost", "kube-proxy does not reach the host network service",
            log(&["kube-proxy"], &["rpc server is unavailable", "(0x6ba)"], "Get-Service hns"),
            "the service hns has ended or was restarted, so that kube-proxy cannot read or write its endpoints and load balancers",
            "on the node: `Restart-Service hns`, and then `Restart-Service kube-proxy`, or delete its pod",
            "https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/proxy/winkernel/proxier.go#L1243"),
        symptom("flannel-endpoint-left", "flannel does not start after a restart of the node: its bridge endpoint is left",
            log(&[], &["failed to delete existing bridge hnsendpoint", "failed to create bridge hnsendpoint",
                "failed to hot attach bridge hnsendpoint"],
                "Get-HnsEndpoint | ? Name -like '*_ep'"),
            "the endpoint of the former start stayed in HNS, and cannot be attached again",
            "on the node: `Get-HnsEndpoint | ? Name -eq cbr0_ep | Remove-HnsEndpoint`, and start flannel again",
            "https://github.com/flannel-io/flannel/issues/1391"),
        symptom("node-pleg-logged", "PLEG was not healthy lately, also if the node is Ready now",
            log(&["kubelet"], checks::PLEG, "Select-String 'PLEG is not healthy' C:\\var\\log\\kubelet\\*.log"),
            "the container runtime or the host compute service answers slowly, for instance because of pods whose limits are too low",
            "look for pods that began at this time: `kubectl get pods -A --field-selector spec.nodeName=NODE --sort-by=.status.startTime`. Reserve memory and CPU for the system (`systemReserved` in the profile), and raise limits that are too low",
            "https://github.com/kubernetes/kubernetes/issues/93945").effect(),
        symptom("host-compute-slow", "The host compute service answers slowly",
            log(&["kubelet", "containerd"],
                &["failed to reserve sandbox name", "syscall did not complete within operation timeout"],
                "Select-String 'failed to reserve sandbox name' C:\\var\\log\\kubelet\\*.log"),
            "sandboxes take longer to create than the kubelet waits, so that it tries again while the first attempt goes on",
            "start fewer pods at once. If the attempts do not end, `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data` and restart the node",
            "https://github.com/kubernetes/kubernetes/issues/107561"),
        symptom("service-exits", "nssm starts a service again, such as kubelet or flanneld",
            log(&["nssm"], &["exited with return code"], "Get-WinEvent -FilterHashtable @{LogName='Application'; ProviderName='nssm'}"),
            "the program of the service ends, for instance because of a wrong option; the end of its own log says why",
            "look at the end of the log of the service, `winpool doctor node/NODE --node-logs`, and correct its options or configuration: `nssm dump SERVICE` on the node",
            "https://github.com/puppetlabs/nssm/blob/a1c32603645df5c4b0b0a13b89a51db06340c1b2/messages.mc").effect(),
        symptom("log-rotation", "The log of a container grows without limit",
            agent(checks::large_log, "dir C:\\var\\log\\pods -Recurse | sort Length -Descending | select -First 5"),
            "after the first rotation, containerd writes on to the same file",
            "restart the pods whose logs are large, `kubectl -n NAMESPACE delete pod POD`, and write less to the output",
            "https://github.com/containerd/containerd/issues/7075"),
    ]
};
