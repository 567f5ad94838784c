//! What people have reported, as evidence: one case for each symptom. A text is quoted from the thread that is named before it.

use serde_json::{Value, json};

use super::fleet::Fleet;

type Case = (&'static [&'static str], Value);

/// Events about sandboxes that were not created.
const SANDBOXES: &[(&[&str], &str)] = &[
    // kubernetes-sigs/sig-windows-tools#76
    (
        &["flannel-subnet-env"],
        "failed to set up sandbox container \"6c360699\" network for pod \"kube-proxy-windows-pz26m\": networkPlugin cni failed to set up \
         pod \"kube-proxy-windows-pz26m_kube-system\" network: open /run/flannel/subnet.env: The system cannot find the path specified.",
    ),
    // rancher-sandbox/rancher-desktop#1644
    (
        &["cni-plugin-missing"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \"HASH\": failed to find \
         plugin \"flannel\" in path [/usr/libexec/cni]",
    ),
    // kubernetes-sigs/sig-windows-tools#88
    (
        &["flannel-network"],
        "networkPlugin cni failed to set up pod \"kube-proxy-windows-j2chr_kube-system\" network: error while \
         GETHNSNewtorkByName(flannel.4096): Network flannel.4096 not found",
    ),
    // kubernetes-sigs/sig-windows-tools#94
    (
        &["docker-network-host"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox container for pod \
         \"kube-flannel-ds-windows-amd64-hbv8t\": Error response from daemon: network host not found",
    ),
    // Azure/acs-engine#4046
    (
        &["hns-endpoint"],
        "Failed create pod sandbox: rpc error: code = Unknown desc = NetworkPlugin cni failed to set up pod \
         \"dev-fossil-api-777f779f74-fhx88_default\" network: Failed to create endpoint: HNS failed with error : Element not found.",
    ),
    // kubelet.exe 1.37.2 with containerd.exe 2.4.2 under Wine, which has no host compute network
    (
        &["hns-endpoint"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create network namespace for sandbox \
         \"06254a9306f07a13b6a0876b75851fce65962411ad0ec10f773ecee49de07d0e\": hcnCreateNamespace failed in Win32: Module not found. (0x7e)",
    ),
    // The same programs
    (
        &["handler-unknown"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = unable to get OCI runtime for sandbox \
         \"94d445a31c5a9ac43a8eb641f5bddce1a5d42741e2481b8076d94eaab78fbd3b\": no runtime for \"runhcs-unknown\" is configured",
    ),
    // kubernetes-sigs/sig-windows-tools#72
    (
        &["pause-image-mismatch"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox container for pod \
         \"kube-flannel-ds-windows-amd64-9tffg\": Error response from daemon: hcsshim::CreateComputeSystem e20e69aa: The container \
         operating system does not match the host operating system.",
    ),
    // kubernetes-sigs/sig-windows-dev-tools#64
    (
        &["pause-image-unavailable"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox image \
         \"mcr.microsoft.com/oss/kubernetes/pause:1.4.0\": failed to pull image \"mcr.microsoft.com/oss/kubernetes/pause:1.4.0\": dial \
         tcp: lookup mcr.microsoft.com: no such host",
    ),
    // kubelet.exe 1.37.2 with containerd.exe 2.4.2, for a pod on the network of the host
    (
        &["pause-image-unavailable"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to pull image \
         \"mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.2\": failed to pull and unpack image \
         \"mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.2\": failed to resolve image: failed to do request: Head \
         \"https://mcr.microsoft.com/v2/oss/v2/kubernetes/pause/manifests/3.10.2\": dial tcp: lookup mcr.microsoft.com: no such host",
    ),
    // kubernetes/kubernetes#107561
    (
        &["sandbox-name-reserved"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to reserve sandbox name",
    ),
    // The same thread.
    (&["sandbox-other"], "hcs::System::Start f9b676f7: context deadline exceeded"),
];

/// Conditions of nodes: type, status, reason, message.
const CONDITIONS: &[(&[&str], [&str; 4])] = &[
    // kubernetes/kubernetes#88153
    (
        &["node-pleg"],
        [
            "Ready",
            "False",
            "KubeletNotReady",
            "PLEG is not healthy: pleg was last seen active 3m8.068354s ago; threshold is 3m0s",
        ],
    ),
    // projectcalico/calico#6122
    (
        &["node-cni-not-initialized"],
        [
            "Ready",
            "False",
            "KubeletNotReady",
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: \
             cni plugin not initialized",
        ],
    ),
    (&["node-not-ready"], ["Ready", "False", "KubeletNotReady", "container runtime is down"]),
    // kubernetes/website, node-status.md
    (&["node-memory-pressure"], ["MemoryPressure", "True", "KubeletHasInsufficientMemory", ""]),
    (&["node-disk-pressure"], ["DiskPressure", "True", "KubeletHasDiskPressure", ""]),
    (&["node-pid-pressure"], ["PIDPressure", "True", "KubeletHasInsufficientPID", ""]),
    (&["node-network-unavailable"], ["NetworkUnavailable", "True", "NoRouteCreated", ""]),
    (
        &["node-condition-unknown"],
        ["DiskPressure", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."],
    ),
];

/// Events about pods whose containers do not start: symptom, reason of the wait, reason of the event, text.
const STARTS: &[(&[&str], &str, &str, &str)] = &[
    // nginx/nginx-gateway-fabric#3661, on a Windows node of AKS
    (
        &["image-mismatch"],
        "ErrImagePull",
        "Failed",
        "Failed to pull image \"ghcr.io/nginx/nginx-gateway-fabric:2.0.2\": rpc error: code = NotFound desc = failed to pull and unpack \
         image \"ghcr.io/nginx/nginx-gateway-fabric:2.0.2\": no match for platform in manifest: not found",
    ),
    // containerd/containerd#7676
    (
        &["image-pull-network"],
        "ImagePullBackOff",
        "Failed",
        "failed to copy: httpReadSeeker: failed open: failed to do request: Get \"https://mcr.microsoft.com/v2/windows/servercore/blobs\": \
         dial tcp 204.79.197.219:443: connectex: A connection attempt failed because the connected party did not properly respond",
    ),
    (
        &["image-pull"],
        "ErrImagePull",
        "Failed",
        "failed to pull and unpack image \"x\": failed to resolve reference \"x\": not found",
    ),
    // kubernetes-csi/csi-driver-smb#233
    (
        &["csi-proxy"],
        "ContainerCreating",
        "FailedMount",
        "MountVolume.MountDevice failed for volume \"my-config-development2\" : rpc error: code = Unavailable desc = connection error: \
         desc = \"transport: Error while dialing open \\\\\\\\.\\\\\\\\pipe\\\\\\\\csi-proxy-filesystem-v1beta1: The system cannot find the file \
         specified.\"",
    ),
    // kubernetes-csi/csi-driver-smb#427
    (
        &["csi-driver-not-registered"],
        "ContainerCreating",
        "FailedMount",
        "attacher.MountDevice failed to create newCsiDriverClient: driver name smb.csi.k8s.io not found in the list of registered CSI \
         drivers",
    ),
    // kubernetes/kubernetes#94213
    (
        &["mount-symlink"],
        "CreateContainerError",
        "Failed",
        "Error: failed to generate container \"44bea7c0\" spec: failed to generate spec: failed to resolve symlink \"\": The system \
         cannot find the file specified.",
    ),
];

/// Lines of the logs of nodes: symptom, service, line.
const LOGS: &[(&[&str], &str, &str)] = &[
    // kubernetes/kubernetes#79515
    (
        &["kube-proxy-network"],
        "kube-proxy",
        "E0628 16:57:08.673912    1180 proxier.go:564] Unable to find HNS Network specified by cbr0. Please check network name and CNI \
         deployment",
    ),
    // microsoft/hcsshim#1043
    (
        &["load-balancer-refused"],
        "kube-proxy",
        "E1222 10:21:07.484910    5948 proxier.go:1202] \"Policy creation failed\" err=\"hcnCreateLoadBalancer failed in Win32: The \
         switch-port was not found. (0x803b0007)",
    ),
    // kubernetes/kubernetes#139519
    (
        &["load-balancer-exists"],
        "kube-proxy",
        "hcnCreateLoadBalancer failed in Win32: Cannot create a file when that file already exists. (0xb7)",
    ),
    // kubernetes/kubernetes#93945
    (
        &["node-pleg-logged"],
        "kubelet",
        "E0812 18:08:07.745562    2168 kubelet.go:1762] skipping pod synchronization - PLEG is not healthy: pleg was last seen active \
         3m0.273647s ago; threshold is 3m0s",
    ),
    // kubernetes/kubernetes#107561
    (
        &["host-compute-slow"],
        "kubelet",
        "E0105 22:28:21.149791    2984 remote_runtime.go:198] \"RunPodSandbox from runtime service failed\" err=\"rpc error: code = Unknown \
         desc = failed to reserve sandbox name \\\"ss2-1_statefulset-8250_f1c4daf1-6df3-453a-9e79-ba00655a2b14_0\\\"",
    ),
    // att-comdev/halcyon-kubernetes#35; aws/containers-roadmap#273 has the same on Windows
    (
        &["hostname-override"],
        "kube-proxy",
        "W0112 06:07:10.277165       1 server.go:468] Failed to retrieve node info: nodes \"kube1\" not found",
    ),
    // kubernetes/kubernetes, cmd/kube-proxy/app/server.go with logger.Error
    (
        &["hostname-override"],
        "kube-proxy",
        r#"E1126 02:00:00.803553    3388 server.go:1030] "Failed to retrieve node info" err="nodes \"worker-3\" not found""#,
    ),
    // kubernetes/kubernetes, pkg/proxy/node.go
    (
        &["hostname-override"],
        "kube-proxy",
        r#"E1126 02:00:00.803553    3388 run.go:74] "command failed" err="node \"worker-3\" not found""#,
    ),
    // puppetlabs/nssm, messages.mc
    (&["service-exits"], "nssm", r"Program C:\k\kubelet.exe for service kubelet exited with return code 1."),
];

/// What differs in the answer of an agent.
fn answers() -> Vec<(&'static [&'static str], Value)> {
    let endpoints = json!(["10.244.0.0", "10.244.0.0"]);
    let adapters = json!([{"name": "vEthernet (Ethernet 2)", "mtu": 1500}, {"name": "Ethernet 2", "mtu": 1460}]);
    let log = json!({"path": r"C:\var\log\pods\shop_app_1\app\0.log", "mebibytes": 51, "maximumMebibytes": 10});
    vec![
        // Azure/acs-engine#4352
        (&["hns-network"], json!({"networks": [{"name": "nat", "type": "nat"}]})),
        // Azure/AKS#5653
        (&["duplicate-hns-endpoint"], json!({ "endpoints": endpoints })),
        // docker/for-win#12425
        (&["hns-endpoint-missing"], json!({"endpoints": []})),
        // kubernetes/kubernetes#110849
        (&["load-balancers-lost"], json!({"loadBalancers": 0})),
        // microsoft/SDN#84
        (&["mtu"], json!({ "adapters": adapters })),
        // kubernetes/website, ports-and-protocols.md
        (&["kubelet-port"], json!({"ports": [135, 445]})),
        (&["service-stopped"], json!({"services": [{"name": "kube-proxy", "state": "Stopped"}]})),
        (&["exception-list"], json!({"exceptions": ["10.96.0.0/12", "0.0.0.0/0"]})),
        // containerd/containerd#7075
        (&["log-rotation"], json!({ "largestLog": log })),
    ]
}

fn fleet(change: impl FnOnce(&mut Fleet)) -> Value {
    let mut fleet = Fleet::default();
    change(&mut fleet);
    fleet.evidence()
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut evidence = Fleet::default().evidence();
    change(&mut evidence);
    evidence
}

/// The pods of the components, in the order of the fleet.
fn component_not_ready(index: usize) -> Value {
    changed(|evidence| {
        evidence["pods"]["read"]["items"][index]["status"]["conditions"] =
            json!([{"type": "Ready", "status": "False"}]);
    })
}

/// Containers of the pods that ended with a code, and were started again.
fn ended(code: i32) -> Value {
    fleet(|fleet| {
        fleet.pending("CrashLoopBackOff", "back-off");
        fleet.pod_status["phase"] = json!("Running");
        fleet.pod_status["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"exitCode": code, "reason": "Error"}});
    })
}

/// The symptoms of each case.
pub fn recorded() -> Vec<Case> {
    let sandboxes = SANDBOXES.iter().map(|(ids, text)| (*ids, fleet(|fleet| fleet.sandbox(text))));
    let of_condition =
        |[of, status, reason, message]: &[&str; 4]| fleet(|fleet| fleet.condition(of, status, reason, message));
    let conditions = CONDITIONS.iter().map(|(ids, condition)| (*ids, of_condition(condition)));
    let starts = STARTS.iter().map(|(ids, waiting, reason, text)| {
        let case = fleet(|fleet| {
            fleet.pending(waiting, "");
            fleet.events(&[reason], text);
        });
        (*ids, case)
    });
    let of_log = |service, line: &str| fleet(|fleet| fleet.logs.push((service, line.to_owned())));
    let logs = LOGS.iter().map(|(ids, service, line)| (*ids, of_log(*service, line)));
    let answers = answers().into_iter().map(|(ids, answer)| (ids, fleet(|fleet| fleet.answer = answer)));
    sandboxes.chain(answers).chain(conditions).chain(starts).chain(logs).chain(of_nodes()).chain(of_pods()).collect()
}

fn of_nodes() -> Vec<Case> {
    let silent = fleet(|fleet| {
        fleet.condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
        fleet.condition("MemoryPressure", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
        fleet.renewed = "2026-11-26T02:50:00Z";
    });
    let unready_pool = changed(|evidence| {
        evidence["pools"]["read"]["items"][0]["status"]["conditions"][0] = json!({"type": "Ready", "status": "False", "reason": "NodesTainted", "message": "1 node is not tainted", "lastTransitionTime": "2026-11-25T03:00:00Z"});
    });
    // projectcalico/calico#4611
    let mut address = Fleet { nodes: 2, ..Fleet::default() }.evidence();
    address["nodes"]["read"]["items"][0]["metadata"]["annotations"] =
        json!({"projectcalico.org/IPv4Address": "192.168.0.1/16"});
    // kubernetes/kubernetes#119339
    let defect = changed(|evidence| {
        evidence["nodes"]["read"]["items"][0]["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.28.0");
    });
    let machine = changed(|evidence| {
        evidence["machines"]["read"]["items"] = json!([{
            "metadata": {"name": "web-x7k2p", "namespace": "clusters", "creationTimestamp": "2026-11-26T01:00:00Z"},
            "status": {"phase": "Provisioned"},
        }]);
    });
    vec![
        (&["node-silent"], silent),
        (&["pool-not-ready"], unready_pool),
        (&["known-issue"], defect),
        (&["node-address"], address),
        (&["machine-not-joined"], machine),
        (&["kube-proxy-not-ready"], component_not_ready(0)),
        (&["cni-not-ready"], component_not_ready(1)),
        (&["csi-not-ready"], component_not_ready(2)),
    ]
}

fn of_pods() -> Vec<Case> {
    let waiting = fleet(|fleet| {
        fleet.pending("ContainerCreating", "");
        fleet.pod_status["startTime"] = json!("2026-11-26T02:30:00Z");
    });
    // tigera/operator#3193: the containers restart, the sandbox does not.
    let before_cni = changed(|evidence| {
        let pods = &mut evidence["pods"]["read"]["items"];
        pods[1]["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = json!("2026-11-26T02:00:00Z");
        pods[3]["status"]["startTime"] = json!("2026-11-26T01:59:00Z");
        pods[3]["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
        pods[3]["status"]["containerStatuses"][0]["restartCount"] = json!(7);
    });
    let terminating = |text: &str| {
        fleet(|fleet| {
            fleet.pod_metadata = json!({"deletionTimestamp": "2026-11-26T02:00:00Z"});
            fleet.events(&["FailedKillPod"], text);
        })
    };
    // projectcalico/calico#6974
    let hcn = "error killing pod: failed to \"KillPodSandbox\" for \"206c8fee\" with KillPodSandboxError: \"rpc error: code = Unknown desc = \
               failed to remove network namespace for sandbox \\\"2e9f06d1\\\": hcnDeleteNamespace failed in Win32: The specified request \
               is unsupported. (0x803b0015)\"";
    // Azure/AKS#5653
    let duplicate = changed(|evidence| {
        evidence["endpointSlices"]["read"]["items"][0]["endpoints"][0]["targetRef"]["name"] = json!("former");
        let again = evidence["endpointSlices"]["read"]["items"][0].clone();
        evidence["endpointSlices"]["read"]["items"].as_array_mut().unwrap().push(again);
    });
    // nginx/nginx-gateway-fabric#3661, before the kubelet has tried
    let mut platform = fleet(|fleet| fleet.pending("ContainerCreating", ""));
    let linux = json!([{"os": "linux", "architecture": "amd64"}, {"os": "linux", "architecture": "arm64"}]);
    platform["images"]["read"]["items"][0]["content"] = json!({ "read": linux });
    let dns = fleet(|fleet| fleet.pod_spec["dnsPolicy"] = json!("ClusterFirstWithHostNet"));
    vec![
        (&["container-creating"], waiting),
        (&["exit-code"], ended(-1_073_741_502)),
        (&["image-mismatch"], ended(-1_070_137_087)),
        (&["image-platform"], platform),
        (&["before-cni"], before_cni),
        (&["hcn-namespace", "stuck-terminating"], terminating(hcn)),
        (&["stuck-terminating"], terminating("")),
        (&["duplicate-address"], duplicate),
        (&["dns-policy"], dns),
    ]
}
