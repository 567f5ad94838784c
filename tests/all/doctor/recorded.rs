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
    // kubelet.exe 1.37.2 with containerd.exe 2.4.2 under Wine (e2e/tests/all/a_windows_symptoms.rs); Windows has a text for the first code
    (
        &["hns-endpoint"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create network namespace for sandbox \
         \"eee162aff492ab34a7e6e64124b7fad804fdea8c4d2f945afaaebf9e786864fd\": hcnCreateNamespace failed in Win32: winapi error \
         #2151350291 (0x803b0013)",
    ),
    (
        &["hns-endpoint"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create network namespace for sandbox \
         \"ffbf5884f486177eb1e2e7375d4dba162fbfdde58978dcea064028c9a83172b9\": hcnCreateNamespace failed in Win32: Element not found. (0x490)",
    ),
    (
        &["cni-plugin-missing"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \
         \"71d4c2980eb0dac0ae9c5a69dd7b1dd8bf4543b4d22fc929e9ba9d8f199ed49d\": plugin type=\"win-bridge\" failed (add): failed to find \
         plugin \"win-bridge\" in path [C:\\Program Files\\containerd\\cni\\bin]",
    ),
    (
        &["pause-image-mismatch"],
        "Failed to create pod sandbox: rpc error: code = NotFound desc = failed to pull image \"127.0.0.1:25316/pause:1\": get image \
         config descriptor: no match for platform in manifest \
         sha256:8da1eb495d7f6b394a723590797cdf5830693e2b5b52b11bc9a9e6e1d8895285: not found",
    ),
    (
        &["pause-image-unavailable"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to pull image \"127.0.0.1:25316/pause:1\": failed to pull \
         and unpack image \"127.0.0.1:25316/pause:1\": failed to extract layer (application/vnd.oci.image.layer.v1.tar \
         sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef) to windows as \"extract-812678000-2448 \
         sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef\": hcsshim::ProcessBaseLayer \
         \\\\?\\C:\\ProgramData\\containerd\\root\\io.containerd.snapshotter.v1.windows\\snapshots\\1: Element not found.",
    ),
    (
        &["sandbox-other"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox \
         \"46777fe26f22888ac8277e14b88abdd85b72d16056b8b17545318c2de2d3a8b3\": failed to create containerd task: failed to start shim: \
         failed to resolve runtime path: runtime \"io.containerd.runhcs.v1\" binary not installed \
         \"containerd-shim-runhcs-v1.exe\": file does not exist",
    ),
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
    // aws/amazon-vpc-resource-controller-k8s#86
    (
        &["eks-address-label"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to set up sandbox container \"72a8cd08\" network for pod \
         \"app-0-0\": networkPlugin cni failed to set up pod \"app-0-0_shop\" network: failed to parse Kubernetes args: pod does not have \
         label vpc.amazonaws.com/PrivateIPv4Address",
    ),
    // projectcalico/calico, libcalico-go/lib/ipam/ipam.go
    (
        &["calico-strict-affinity"],
        "Failed to create pod sandbox: plugin type=\"calico\" failed (add): global strict affinity should not be false for Windows node",
    ),
    (
        &["calico-no-addresses"],
        "Failed to create pod sandbox: plugin type=\"calico\" failed (add): failed to request IPv4 addresses: No more free affine blocks and \
         strict affinity enabled",
    ),
    // containernetworking/cni, pkg/version/reconcile.go
    (
        &["cni-version"],
        "Failed to create pod sandbox: plugin type=\"win-overlay\" failed (add): incompatible CNI versions: config is \"1.1.0\", plugin \
         supports [\"0.1.0\" \"0.2.0\"]",
    ),
    // containernetworking/plugins, pkg/hns/endpoint_windows.go
    (
        &["hns-endpoint-left"],
        "Failed to create pod sandbox: plugin type=\"win-overlay\" failed (add): HNSEndpoint 7f3a_cbr0 is already existed",
    ),
    // awslabs/amazon-eks-ami#2166
    (
        &["pause-image-removed"],
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox image \"registry.example/eks/pause:3.5\": \
         failed to pull image \"registry.example/eks/pause:3.5\": pull access denied, repository does not exist or may require \
         authorization: authorization failed: no basic auth credentials",
    ),
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
    // kubelet.exe 1.37.2 with containerd.exe 2.4.2 under Wine
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
    // kubelet.exe 1.37.2 under Wine
    (
        &["node-memory-pressure"],
        ["MemoryPressure", "True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"],
    ),
    // kubernetes/website, node-status.md
    (&["node-disk-pressure"], ["DiskPressure", "True", "KubeletHasDiskPressure", ""]),
    // kubernetes/enhancements, KEP-5683
    (&["node-maintenance"], ["MaintenanceInProgress", "True", "AdminRequested", "firmware update"]),
    (&["node-maintenance"], ["MaintenancePlanned", "True", "MaintenanceWindow", ""]),
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
        &["image-not-found"],
        "ErrImagePull",
        "Failed",
        "failed to pull and unpack image \"x\": failed to resolve reference \"x\": not found",
    ),
    (
        &["image-pull"],
        "ErrImagePull",
        "Failed",
        "Failed to pull image \"x\": rpc error: code = Unknown desc = unexpected EOF",
    ),
    (
        &["image-pull-denied"],
        "ErrImagePull",
        "Failed",
        "Failed to pull image \"x\": failed to resolve reference \"x\": unexpected status from HEAD request to \
         https://registry.example/v2/x/manifests/1: 401 Unauthorized",
    ),
    (
        &["image-pull-tls"],
        "ErrImagePull",
        "Failed",
        "Failed to pull image \"x\": failed to do request: Head \"https://registry.example/v2/x\": tls: failed to verify certificate: x509: \
         certificate signed by unknown authority",
    ),
    (
        &["image-pull-limit"],
        "ErrImagePull",
        "Failed",
        "Failed to pull image \"x\": unexpected status from GET request: 429 Too Many Requests",
    ),
    (
        &["image-pull-disk"],
        "ErrImagePull",
        "Failed",
        "Failed to pull image \"x\": failed to extract layer sha256:1: hcsshim::ImportLayer failed in Win32: There is not enough space on the \
         disk. (0x70)",
    ),
    // containerd/containerd, core/unpack/unpacker.go; microsoft/hcsshim, internal/wclayer/importlayer.go
    (
        &["image-layer"],
        "ErrImagePull",
        "Failed",
        "failed to extract layer sha256:1: hcsshim::ImportLayer failed in Win32: The process cannot access the file because it is being used \
         by another process. (0x20)",
    ),
    // kubernetes/kubernetes, pkg/kubelet/images/image_manager.go
    (
        &["image-never-pulled"],
        "ErrImageNeverPull",
        "Failed",
        "Container image \"x\" is not present with pull policy of Never",
    ),
    (
        &["image-name-invalid"],
        "InvalidImageName",
        "Failed",
        "Failed to apply default image tag \"X Y\": couldn't parse image name \"X Y\": invalid reference format",
    ),
    // kubernetes/kubernetes, pkg/kubelet/kubelet_pods.go
    (&["object-missing"], "CreateContainerConfigError", "Failed", "Error: couldn't find key a in ConfigMap shop/b"),
    (
        &["object-missing"],
        "ContainerCreating",
        "FailedMount",
        "MountVolume.SetUp failed for volume \"settings\" : configmap \"settings\" not found",
    ),
    // kubernetes/kubernetes, pkg/kubelet/kuberuntime/security_context_windows.go
    (
        &["run-as-non-root"],
        "CreateContainerConfigError",
        "Failed",
        "Error: container's runAsUserName (ContainerAdministrator) which will be regarded as root identity and will break non-root policy \
         (pod: \"app-0-0_shop(1)\", container: app)",
    ),
    (
        &["disk-full"],
        "CreateContainerError",
        "Failed",
        "Error: create container log directory for container app failed: mkdir C:\\var\\log\\pods\\a: There is not enough space on the disk.",
    ),
    // microsoft/hcsshim, internal/hcs/errors.go
    (
        &["host-compute-lost"],
        "RunContainerError",
        "Failed",
        "Error: failed to create containerd task: hcs::System::CreateProcess 6b86: lost communication with compute service",
    ),
    // DataDog/helm-charts#957
    (
        &["docker-pipe-read-only"],
        "CreateContainerError",
        "Failed",
        "Error: Error response from daemon: invalid volume specification: '\\\\.\\pipe\\docker_engine:\\\\.\\pipe\\docker_engine:ro': invalid \
         mount config for type \"npipe\": field ReadOnly must not be specified",
    ),
    // Mirantis/cri-dockerd#446
    (
        &["docker-token"],
        "CreateContainerError",
        "Failed",
        "Error: Error response from daemon: invalid volume specification: 'C:\\k\\pods\\1\\volumes\\kubernetes.io~projected\\kube-api-access-\
         z1:/var/run/secrets/kubernetes.io/serviceaccount:ro'",
    ),
    // kubernetes/kubernetes#110325
    (
        &["docker-single-file"],
        "CreateContainerError",
        "Failed",
        "Error: Error response from daemon: invalid mount config for type \"bind\": source path must be a directory",
    ),
    // microsoft/hcsshim#919
    (
        &["layer-not-ready"],
        "RunContainerError",
        "Failed",
        "Error: failed to create containerd task: failed to mount container storage: hcsshim::PrepareLayer - failed failed in Win32: The \
         device is not ready. (0x15): unknown",
    ),
    (
        &["memory-used-up"],
        "RunContainerError",
        "Failed",
        "Error: failed to create containerd task: hcs::CreateComputeSystem 6b86: The paging file is too small for this operation to complete. \
         (0x5af): unknown",
    ),
    // docker/for-win#2679
    (
        &["program-missing"],
        "RunContainerError",
        "Failed",
        "Error: failed to start container: container 6b86 encountered an error during hcs::System::CreateProcess: failure in a Windows \
         system call: The system cannot find the file specified. (0x2)",
    ),
    // kubernetes/kubernetes#125012
    (
        &["token-owner"],
        "ContainerCreating",
        "FailedMount",
        "MountVolume.SetUp failed for volume \"kube-api-access-x1\" : chown c:\\var\\lib\\kubelet\\pods\\7358dc21\\volumes\\kubernetes.io~\
         projected\\kube-api-access-x1\\..2023_09_08\\token: not supported by windows",
    ),
    // kubernetes-csi/csi-driver-smb#294
    (
        &["smb-cluster-name"],
        "ContainerCreating",
        "FailedMount",
        "MountVolume.MountDevice failed for volume \"a\" : rpc error: code = Internal desc = volume(a) mount \
         \"\\\\smb-server.default.svc.cluster.local\\share\" failed with smb mapping failed with error: NewSmbGlobalMapping failed. output: \
         \"New-SmbGlobalMapping : The network path was not found. FullyQualifiedErrorId : Windows System Error 53,New-SmbGlobalMapping\"",
    ),
    (
        &["smb-server"],
        "ContainerCreating",
        "FailedMount",
        "MountVolume.MountDevice failed for volume \"a\" : mount \"\\\\files.example\\share\" failed with NewSmbGlobalMapping failed. output: \
         \"New-SmbGlobalMapping : The network name cannot be found. FullyQualifiedErrorId : Windows System Error 67,New-SmbGlobalMapping\"",
    ),
    // kubernetes-csi/csi-driver-smb#520
    (
        &["smb-credentials"],
        "ContainerCreating",
        "FailedMount",
        "MountVolume.MountDevice failed for volume \"a\" : mount \"//10.0.0.7/share\" failed with NewSmbGlobalMapping failed. output: \
         \"New-SmbGlobalMapping : The user name or password is incorrect. FullyQualifiedErrorId : Windows System Error 1326\"",
    ),
    // kubernetes-csi/csi-driver-smb#219
    (
        &["smb-two-users"],
        "ContainerCreating",
        "FailedMount",
        "MountVolume.MountDevice failed for volume \"a\" : NewSmbGlobalMapping failed. output: \"New-SmbGlobalMapping : Multiple connections \
         to a server or shared resource by the same user. FullyQualifiedErrorId : Windows System Error 1219\"",
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
    // kubernetes/kubernetes, pkg/proxy/winkernel/proxier.go
    (
        &["kube-proxy-options"],
        "kube-proxy",
        r#"E1126 02:00:00.803553    3388 run.go:74] "command failed" err="unable to create proxier: source-vip flag not set""#,
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
    // kubernetes/kubernetes#126965
    (
        &["kubelet-socket-left"],
        "kubelet",
        r#"E1126 02:15:28.934935 5404 kubelet.go:1566] "Failed to start ContainerManager" err="listen unix C:\\var\\lib\\kubelet\\device-plugins\\kubelet.sock: bind: Only one usage of each socket address (protocol/network address/port) is normally permitted.""#,
    ),
    // rancher/rke2#9591
    (
        &["unknown-flag"],
        "kubelet",
        r#"E1126 02:10:00.000000 4112 run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --cloud-config""#,
    ),
    // kubernetes/component-base, featuregate/feature_gate.go
    (
        &["feature-gate"],
        "kube-proxy",
        r#"E1126 02:10:00.000000 4112 run.go:72] "command failed" err="cannot set feature gate WinDSR to false, feature is locked to true""#,
    ),
    // kubernetes/kubernetes, cmd/kubelet/app/server.go
    (
        &["unknown-field"],
        "kubelet",
        r#"E1126 02:10:00.000000 4112 run.go:72] "command failed" err="failed to load kubelet config file, path: C:\\k\\config.yaml, error: yaml: line 3""#,
    ),
    (
        &["address-in-use"],
        "kube-proxy",
        "E1126 02:10:00.000000 4112 server.go:1] starting metrics server failed: listen tcp 127.0.0.1:10249: bind: Only one usage of each \
         socket address (protocol/network address/port) is normally permitted.",
    ),
    (
        &["certificate-expired"],
        "kubelet",
        "E1126 02:10:00.000000 4112 reflector.go:1] Failed to watch: tls: failed to verify certificate: x509: certificate has expired or is \
         not yet valid",
    ),
    // kubernetes/kubernetes, pkg/kubelet/certificate/bootstrap/bootstrap.go
    (
        &["not-authorized"],
        "kubelet",
        r#"E1126 02:10:00.000000 4112 run.go:72] "command failed" err="failed to run Kubelet: unable to load bootstrap kubeconfig: stat C:\\k\\bootstrap: The system cannot find the file specified.""#,
    ),
    // rancher/rke2#1691
    (
        &["calico-strict-affinity-logged"],
        "containerd",
        "2021-08-23 15:22:37.421 [ERROR][4616] startup/startup.go 231: Unable to ensure network for os error=global strict affinity should \
         not be false for Windows node",
    ),
    (
        &["cni-network"],
        "nssm",
        "E1126 02:10:00.000000 4112 main.go:1] Error registering network: failed to create HNSNetwork cbr0: hnsCall failed in Win32: The \
         parameter is incorrect. (0x57)",
    ),
    // kubernetes/kubernetes, pkg/proxy/winkernel/proxier.go
    (
        &["hns-lost"],
        "kube-proxy",
        r#"E1126 02:10:00.000000 4112 proxier.go:1243] "Querying HNS for endpoints failed" err="hcnEnumerateEndpoints failed in Win32: The RPC server is unavailable. (0x6ba)""#,
    ),
    // flannel-io/flannel, pkg/backend/hostgw/hostgw_windows.go
    (
        &["flannel-endpoint-left"],
        "nssm",
        "E1126 02:10:00.000000 4112 main.go:1] Error registering network: failed to create bridge HNSEndpoint cbr0_ep: hnsCall failed",
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
    let held = changed(|evidence| {
        evidence["pools"]["read"]["items"][0]["status"]["clusterAPI"] = json!({"namespace": "clusters", "machines": 1, "upToDate": 1, "groups": [{"name": "web", "machines": 1, "upToDate": 1}]});
        evidence["machineDeployments"]["read"]["items"] = json!([{
            "metadata": {"name": "web", "namespace": "clusters"},
            "status": {"conditions": [{"type": "Paused", "status": "True", "reason": "Paused", "message": "Cluster spec.paused is set to true"}]},
        }]);
    });
    // kubernetes/kubernetes#133779 removes the flag, which kubeadm wrote.
    let flag = changed(|evidence| {
        evidence["nodeConfigs"]["read"]["items"][0]["status"]["facts"] =
            json!({"kubeletFlags": ["pod-infra-container-image"]});
    });
    // Azure/AKS#5653
    let endpoints = changed(|evidence| {
        evidence["nodeConfigs"]["read"]["items"][0]["status"]["facts"]["network"] =
            json!({"endpoints": 5, "duplicates": ["10.244.5.23"], "loadBalancers": 12});
    });
    vec![
        (&["hns-problem"], endpoints),
        (&["ended-setting"], flag),
        (&["node-silent"], silent),
        (&["pool-not-ready"], unready_pool),
        (&["known-issue"], defect),
        (&["node-address"], address),
        (&["machine-not-joined"], machine),
        (&["machines-held"], held),
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
    // kubelet.exe 1.37.2 with containerd.exe 2.4.2 under Wine; Windows has a text for the code (projectcalico/calico#6974)
    let hcn = "error killing pod: failed to \"KillPodSandbox\" for \"b3b8bc4d-c6d5-401d-904f-8b98c4988bad\" with KillPodSandboxError: \
               \"rpc error: code = Unknown desc = failed to remove network namespace for sandbox \
               \\\"df4459814fbe3d69f9c5b1726704368476f5aeea3760abdcff94ccc3b0927844\\\": hcnDeleteNamespace failed in Win32: winapi \
               error #2151350293 (0x803b0015)\"";
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
    // kubernetes/ingress-nginx#7548
    let linux = fleet(|fleet| {
        fleet.pending("ContainerCreating", "");
        fleet.pod_spec = json!({"containers": [{"name": "create", "image": "registry.example/certgen:v1.0"}], "securityContext": {"runAsUser": 2000}});
        fleet.events(
            &["FailedMount"],
            "MountVolume.SetUp failed for volume \"t\" : chown c:\\var\\token: not supported by windows",
        );
    });
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
        (&["linux-pod", "token-owner"], linux),
    ]
}
