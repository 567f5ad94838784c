//! The table of all codes of findings. The SARIF rules and the section Codes of docs/lint.md are generated from it.

use std::str::FromStr;

use derive_more::Display;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use winpool_core::text::closest;
use winpool_facts::{catalogue::Entry, named_enum};

named_enum! {
    /// The severity of a finding.
    #[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
    #[display("{}", self.name())]
    #[serde(rename_all = "lowercase")]
    pub enum Severity {
        /// The API server rejects the object, or the pod cannot run.
        Error = "error",
        /// A field has no effect, or the pod may fail.
        Warning = "warning",
        /// Information.
        Note = "note",
    }
}

use Severity::{Error, Note, Warning};

/// What the table has of a code.
#[derive(Debug)]
pub struct CodeRow {
    /// Its name, the problem, why it matters, and what to do.
    pub entry: Entry,
    pub severity: Severity,
    /// The fields of the pod spec whose absence is the reason for a finding.
    pub(super) reads: &'static [&'static str],
    /// Whether a finding is about something that another part of the object may have.
    pub(super) is_about_absence: bool,
}

const fn row(
    code: &'static str,
    severity: Severity,
    title: &'static str,
    why: &'static str,
    remedy: &'static str,
) -> CodeRow {
    let entry = Entry { code, title, why, remedy, source: "" };
    CodeRow { entry, severity, reads: &[], is_about_absence: false }
}

impl CodeRow {
    const fn reads(self, reads: &'static [&'static str]) -> Self {
        Self { reads, ..self }
    }

    const fn of_absence(self) -> Self {
        Self { is_about_absence: true, ..self }
    }
}

const PLACEMENT: &[&str] = &["affinity", "nodeName", "nodeSelector", "os", "runtimeClassName", "tolerations"];
const HOST_PROCESS: &[&str] = &["hostNetwork", "securityContext"];

/// Generates the type and its table from one list.
macro_rules! codes {
    ($($variant:ident = $row:expr;)*) => {
        /// The kind of a finding. Names are stable, because comments and annotations refer to them.
        #[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[display("{}", self.name())]
        pub enum Code {
            $($variant,)*
        }

        /// The row of each code, in the order of [`Code::ALL`].
        static ROWS: &[CodeRow] = &[$($row,)*];

        impl Code {
            /// All codes, in the order of docs/lint.md.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
        }
    };
}

#[rustfmt::skip]
codes! {
    Unreadable = row("unreadable", Error, "The file is not a Kubernetes manifest",
        "Nothing in an unreadable document is checked.",
        "correct the YAML, or render a template first: helm template … | winpool lint -f -");
    ResourceInvalid = row("resource-invalid", Error, "A WindowsNodePool or WindowsRuntimeProfile is invalid",
        "The operator does not apply an invalid pool or profile.",
        "follow the message");
    NeedsAllowance = row("needs-allowance", Warning, "A host in a profile, or a label of a pool, that the operator must allow",
        "Without an entry in its own configuration the operator refuses it: whoever writes profiles and pools could decide with it which images run as SYSTEM, with whom pods talk, or which nodes are trusted.",
        "add the entry to WINPOOL_ALLOW_HOSTS of the operator and the agents or to WINPOOL_ALLOW_LABEL_PREFIXES of the operator (allow in the values of the chart), and ignore this code there, or remove the setting");
    PodInvalid = row("pod-invalid", Error, "The pod spec is missing, or a field has an invalid value",
        "The API server rejects the pod.",
        "set the field as `kubectl explain pod.spec` describes it");
    UnknownField = row("unknown-field", Error, "A field that does not exist in the API",
        "kubectl and server-side apply reject it. Other clients drop it without notice.",
        "correct the spelling, or remove the field");
    ApiVersion = row("api-version", Error, "An API version that the API server does not serve for this kind",
        "The object is not created: no matches for kind.",
        "set the API version that `kubectl explain` shows");
    FieldRefused = row("field-refused", Error, "A field that the API server rejects in a pod with spec.os.name: windows",
        "The pod is not created, and its Deployment or Job has no pods.",
        "remove the field, or use the Windows equivalent");
    FieldIgnored = row("field-ignored", Warning, "A field without effect on Windows",
        "Windows ignores the field, and with spec.os.name: windows the API server rejects it.",
        "remove the field, or use the Windows equivalent");
    RunAsUser = row("run-as-user", Error, "runAsUser in a pod whose token an old kubelet cannot mount",
        "The kubelet sets the owner of the token of a pod with runAsUser, which Windows does not support: chown …: not supported by windows. The pod does not start.",
        "remove it, and set securityContext.windowsOptions.runAsUserName; or upgrade the kubelets");
    WindowsOptionsRefused = row("windows-options-refused", Error, "securityContext.windowsOptions in a pod with spec.os.name: linux",
        "The API server rejects the pod.",
        "set os.name: windows, or remove windowsOptions");
    WindowsOptionsIgnored = row("windows-options-ignored", Warning, "securityContext.windowsOptions in a pod that selects Linux nodes",
        "Linux nodes ignore windowsOptions.",
        "select Windows nodes with nodeSelector: {kubernetes.io/os: windows}, or remove windowsOptions");
    WindowsOptionsInvalid = row("windows-options-invalid", Error, "An invalid value in securityContext.windowsOptions",
        "The API server rejects the pod.",
        "write a user as ContainerUser or 'NT AUTHORITY\\NETWORK SERVICE', and the name of a GMSACredentialSpec in lower case");
    HostProcess = row("host-process", Error, "A HostProcess pod with other containers or without hostNetwork",
        "The API server rejects a pod that mixes HostProcess containers with others, or has them without hostNetwork: true.",
        "set securityContext.windowsOptions.hostProcess: true and hostNetwork: true for the pod").reads(HOST_PROCESS).of_absence();
    HostProcessUser = row("host-process-user", Warning, "A HostProcess container without a user of the host",
        "A HostProcess container is a process of the host. The users of containers do not exist there, and runAsNonRoot does not apply.",
        "set windowsOptions.runAsUserName: 'NT AUTHORITY\\Local service', another service account or a local group, and remove runAsNonRoot").reads(HOST_PROCESS).of_absence();
    HostProcessPipe = row("host-process-pipe", Warning, "A named pipe mounted into a HostProcess container",
        "HostProcess containers do not support mounts of named pipes, and open those of the host by their path.",
        "remove the volume, and use \\\\.\\pipe\\name in the container");
    RunAsNonRootAdministrator = row("run-as-non-root-administrator", Error, "runAsNonRoot with the user ContainerAdministrator",
        "The kubelet treats ContainerAdministrator as root and does not start the container.",
        "set runAsUserName: ContainerUser, or remove runAsNonRoot");
    HostNetwork = row("host-network", Warning, "hostNetwork without HostProcess",
        "On Windows only HostProcess containers use the network of the host. Other pods use the pod network.",
        "remove hostNetwork, or make it a HostProcess pod").reads(HOST_PROCESS).of_absence();
    HostNetworkDns = row("host-network-dns", Warning, "dnsPolicy: ClusterFirstWithHostNet",
        "Windows does not support this policy.",
        "set dnsPolicy: ClusterFirst, or remove it");
    DockerPipe = row("docker-pipe", Error, "A named pipe mounted read-only with Docker",
        "Docker does not create the container: invalid mount config for type \"npipe\": field ReadOnly must not be specified.",
        "remove readOnly from the volumeMount");
    DockerSingleFile = row("docker-single-file", Error, "A single file mounted with Docker",
        "Docker on Windows mounts only directories, and does not create the container: source path must be a directory.",
        "mount the whole volume into a directory of its own, or use containerd");
    DockerToken = row("docker-token", Note, "The token of a ServiceAccount with Docker",
        "cri-dockerd before the correction of its issue 446 (2025-03) passes the path /var/run/secrets to Docker, which does not create the container.",
        "install a newer cri-dockerd, or set automountServiceAccountToken: false if the pod does not use the API").of_absence();
    GmsaHostname = row("gmsa-hostname", Note, "Several pods with one gMSA",
        "Pods that use a gMSA at the same time may lose the trust of the domain. The webhook of windows-gmsa gives each pod a random host name if its chart has randomHostname.enabled.",
        "set randomHostname.enabled: true in the chart of windows-gmsa, or use a gMSA for each pod");
    Gmsa = row("gmsa", Warning, "A gMSA whose credential spec is missing or invalid, or whose ServiceAccount may not use it",
        "The webhook of windows-gmsa refuses a pod without the credential spec that it names, or without the permission. The API server checks only types in a credential spec: with another shape the container does not start, or does not log on to the domain.",
        "bind a role with apiGroups: [windows.k8s.io], resources: [gmsacredentialspecs], verbs: [use] to the ServiceAccount in its namespace");
    UserUnknown = row("user-unknown", Warning, "A user that the container does not have",
        "A container is no member of a domain, also with a gMSA, and has only the users of its image: those of Microsoft have ContainerUser and ContainerAdministrator. The container does not start: The user name or password is incorrect (0x52e).",
        "set runAsUserName: ContainerUser, or 'NT AUTHORITY\\NETWORK SERVICE' to use a gMSA");
    EksAddress = row("eks-address", Error, "A pod for Windows on EKS without a nodeSelector for Windows",
        "The webhook of EKS requests an address for a pod only if its nodeSelector names Windows, and reads no affinity. The pod does not start: pod does not have label vpc.amazonaws.com/PrivateIPv4Address.",
        "set nodeSelector: {kubernetes.io/os: windows}, or the RuntimeClass of a pool").of_absence();
    SmbSource = row("smb-source", Error, "An SMB share of a server with a name of the cluster",
        "On Windows the node mounts the share, and it does not use the DNS of the cluster: New-SmbGlobalMapping: The network path was not found.",
        "use an address, or a name that the nodes resolve");
    MemoryVolume = row("memory-volume", Warning, "emptyDir.medium: Memory",
        "Windows does not support volumes in memory.",
        "remove medium, so that the volume is on the disk of the node");
    HugePages = row("huge-pages", Error, "Huge pages",
        "Windows does not support huge pages, and no Windows node has the resource.",
        "remove it");
    BlockVolume = row("block-volume", Error, "volumeDevices",
        "Windows does not support raw block devices in pods.",
        "use volumeMounts and volumeMode: Filesystem");
    MountPropagation = row("mount-propagation", Warning, "mountPropagation",
        "Windows does not support mount propagation.",
        "remove it");
    SubPath = row("sub-path", Note, "subPath",
        "Kubernetes documents subPath as unsupported on Windows. A single one works with containerd, several in one pod may fail before Kubernetes 1.37.",
        "mount the whole volume into a directory of its own");
    NfsVolume = row("nfs-volume", Error, "A volume of type nfs",
        "Windows nodes cannot mount NFS volumes.",
        "use a CSI driver that supports Windows, such as the SMB driver");
    IscsiVolume = row("iscsi-volume", Error, "A volume of type iscsi",
        "Windows nodes cannot mount iSCSI volumes.",
        "use a CSI driver that supports Windows, such as the SMB driver");
    FileMode = row("file-mode", Note, "File modes in a volume",
        "Windows has no file modes, so they do not restrict who can read the files.",
        "remove it");
    ResizePolicy = row("resize-policy", Note, "resizePolicy",
        "Kubernetes 1.32 and later do not resize pods in place on Windows nodes: a change of resources requires a new pod.",
        "remove it");
    ResourceClaims = row("resource-claims", Warning, "resourceClaims",
        "The kubelet on Windows does not prepare devices for resource claims.",
        "remove it, and request the device by the resource of a device plugin");
    StopSignal = row("stop-signal", Warning, "A stop signal that is invalid for Windows",
        "With the feature gate ContainerStopSignals the API server accepts a stop signal only with spec.os.name, and for Windows only SIGTERM and SIGKILL. Without the gate, which is off by default, it drops the field.",
        "set os: {name: windows} and SIGTERM or SIGKILL, or remove it").of_absence();
    OsSelectorMissing = row("os-selector-missing", Warning, "A pod for Windows that can be scheduled to Linux nodes",
        "The scheduler ignores spec.os.name and images. Only a selector, an affinity or a RuntimeClass restricts a pod to Windows nodes.",
        "set nodeSelector: {kubernetes.io/os: windows}, or runtimeClassName").reads(PLACEMENT).of_absence();
    OsSelectorValue = row("os-selector-value", Error, "A selector for a value of kubernetes.io/os that no node has",
        "The values are lower case: windows and linux. With another one the pod stays Pending.",
        "write kubernetes.io/os: windows");
    OsNameMissing = row("os-name-missing", Note, "A pod for Windows without spec.os.name",
        "With it the API server rejects fields that Windows does not support, and the restricted Pod Security Standard omits the requirements for Linux.",
        "set os: {name: windows} in the pod spec").reads(PLACEMENT).of_absence();
    PlacementConflict = row("placement-conflict", Error, "spec.os.name, nodeSelector and RuntimeClass contradict each other",
        "No node runs a pod for another operating system, and the API server rejects a nodeSelector that contradicts the RuntimeClass.",
        "use the same values").reads(PLACEMENT);
    BetaOsLabel = row("beta-os-label", Warning, "The label beta.kubernetes.io/os or beta.kubernetes.io/arch",
        "The label is deprecated, and the pod is not scheduled to nodes without it.",
        "use kubernetes.io/os or kubernetes.io/arch");
    LinuxTolerance = row("linux-tolerance", Warning, "A pod that is not for Windows and can be scheduled to Windows nodes",
        "Its image does not run on Windows nodes. The scheduler ignores spec.os.name.",
        "set nodeSelector: {kubernetes.io/os: linux}").reads(PLACEMENT).of_absence();
    DaemonsetRuntimeClass = row("daemonset-runtime-class", Warning, "A DaemonSet that relies on the scheduling of its RuntimeClass",
        "The DaemonSet controller ignores the RuntimeClass: it creates pods for nodes that the class does not select, which stay Pending, and no pods for nodes whose taints only the class tolerates.",
        "add the nodeSelector and the tolerations of the class to the template of the DaemonSet").reads(PLACEMENT).of_absence();
    UntoleratedTaint = row("untolerated-taint", Error, "A pod that does not tolerate the taints of the pools that it selects",
        "The pod stays Pending, because every matching node has an untolerated taint.",
        "set runtimeClassName to a class of the pool, or add the tolerations").reads(PLACEMENT).of_absence();
    NoPool = row("no-pool", Warning, "A pod for Windows that selects a pool or a build that does not exist",
        "The pod stays Pending, because no pool in the manifests has this name or build.",
        "use the name or the build of a pool, or add the manifest of the pool").reads(PLACEMENT).of_absence();
    NoSuchNode = row("no-such-node", Error, "A selector that no Windows node can match",
        "The kubelet sets node.kubernetes.io/windows-build to a build without revision, and Windows nodes are amd64. The pod stays Pending.",
        "select the build of a release, such as 10.0.20348 for ltsc2022");
    ImageInvalid = row("image-invalid", Error, "An image is missing or is not an image reference",
        "The kubelet cannot pull the image: InvalidImageName.",
        "use registry/repository:tag, in lower case").of_absence();
    ImageLatest = row("image-latest", Warning, "An image with the tag latest",
        "The tag moves to other Windows builds without notice, and the container then does not start on the same node.",
        "use the tag of a Windows build, such as ltsc2022, or a digest");
    ImageUntagged = row("image-untagged", Warning, "An image with neither tag nor digest",
        "The tag defaults to latest, which moves to other Windows builds without notice.",
        "use the tag of a Windows build, such as ltsc2022, or a digest");
    ImageBuild = row("image-build", Warning, "The name of an image suggests a Windows version that its nodes do not run",
        "A container does not start on a node with an incompatible version: The container operating system does not match the host operating system. The name of an image is no proof.",
        "rebuild the image for the build of the nodes, or use a pool with the build of the image");
    ImageCannotRun = row("image-cannot-run", Error, "The registry has no image that the nodes can run",
        "The image cannot be pulled or does not start on the nodes that the pod selects.",
        "use an image for the build of the nodes, or nodes with the build of the image");
    ImageUpdatesBehind = row("image-updates-behind", Warning, "The base image is more monthly updates behind than the profile allows",
        "spec.maxImageUpdatesBehind of the profile of the pool sets how many. The files of Windows in the image have the defects that later updates fix; updates of the node do not change them.",
        "rebuild it on a newer base image");
    ImageSystem = row("image-system", Warning, "An image for another operating system than the pod's",
        "The image cannot be pulled: no match for platform in manifest. The name of an image is no proof.",
        "use an image for the operating system of the pod, or correct os.name and nodeSelector");
    MixedSystems = row("mixed-systems", Warning, "Images for Windows and for Linux in one pod",
        "All containers of a pod run on one node, with one operating system. The name of an image is no proof.",
        "use a pod for each operating system");
    MixedBuilds = row("mixed-builds", Warning, "Images for several Windows versions in one pod",
        "All containers of a pod run on one node, and no Windows version runs all of these images. The name of an image is no proof.",
        "use images for the same Windows version");
    HypervAnnotation = row("hyperv-annotation", Warning, "The annotation experimental.windows.kubernetes.io/isolation-type",
        "Kubernetes 1.21 removed it, so the container runs with process isolation.",
        "remove it, and set runtimeClassName to a class with the handler runhcs-wcow-hypervisor");
    GracePeriodDocker = row("grace-period-docker", Warning, "terminationGracePeriodSeconds with Docker",
        "Docker on Windows ends processes after the timeout in the registry of the container, 5 seconds by default.",
        "use containerd, or set WaitToKillServiceTimeout in the image");
    MemoryLimitMissing = row("memory-limit-missing", Warning, "A container without a memory limit",
        "Windows has no out-of-memory killer and uses the page file: one container without a limit slows down its node.",
        "set resources.limits.memory").of_absence();
    MemoryRequestDiffers = row("memory-request-differs", Warning, "A memory request below the limit",
        "The scheduler counts requests. With higher limits a Windows node runs out of memory and uses the page file.",
        "remove the memory request, or set it to the limit");
    MemoryTiny = row("memory-tiny", Warning, "A memory limit below one mebibyte",
        "Windows counts the limit in mebibytes and rounds down, so the container has no limit. The suffix m stands for thousandths, and Mi for mebibytes.",
        "write the amount with Mi or Gi, such as 800Mi");
    MountPathEscape = row("mount-path-escape", Error, "A path whose backslashes YAML reads differently",
        "YAML reads \\t in double quotes as a tab and \\n as a new line. Without quotes or in single quotes it keeps doubled backslashes, which are invalid in Docker and in names of pipes.",
        "write C:\\data without quotes or in single quotes, or \"C:\\\\data\" in double quotes");
    MountPathDoubled = row("mount-path-doubled", Note, "A path with doubled backslashes",
        "Without quotes or in single quotes YAML keeps both. containerd reads them as one, and Docker does not start the container.",
        "write C:\\data without quotes or in single quotes, or \"C:\\\\data\" in double quotes");
    MountPathInvalid = row("mount-path-invalid", Error, "A mount path that is invalid on Windows",
        "C: cannot be a mount point, a path after a drive letter starts with a backslash, and some characters are invalid.",
        "use C:\\data, a whole drive such as D:, or a named pipe such as \\\\.\\pipe\\name");
    EnvNameColon = row("env-name-colon", Error, "The name of an environment variable has a colon",
        "API servers before Kubernetes 1.32 reject it. .NET reads two underscores as a colon.",
        "use two underscores, as in Logging__LogLevel__Default");
    NodeProblemDetector = row("node-problem-detector", Note, "node-problem-detector on Windows",
        "Its support for Windows is preliminary: the monitors of the Linux kernel log and of systemd find nothing there.",
        "use its Windows build and configuration, in a HostProcess container");
    PreserveDestination = row("preserve-destination", Warning, "The annotation preserve-destination",
        "It requires Direct Server Return, which kube-proxy on Windows enables only with --enable-dsr=true.",
        "start kube-proxy with --enable-dsr=true (before Kubernetes 1.33 also with --feature-gates=WinDSR=true), and ignore this code");
    LocalTrafficPolicy = row("local-traffic-policy", Warning, "externalTrafficPolicy: Local for pods on Windows",
        "It requires Direct Server Return, which kube-proxy on Windows enables only with --enable-dsr=true.",
        "start kube-proxy with --enable-dsr=true (before Kubernetes 1.33 also with --feature-gates=WinDSR=true) and ignore this code, or set Cluster");
    SessionAffinityTimeout = row("session-affinity-timeout", Warning, "A timeout of session affinity for pods on Windows",
        "Windows does not support a timeout of session affinity.",
        "remove sessionAffinityConfig");
    SessionAffinityBuild = row("session-affinity-build", Warning, "Session affinity for pods on a version before Windows Server 2022",
        "Older versions of Windows do not support session affinity.",
        "run the pods on Windows Server 2022 or later, or set sessionAffinity: None");
    ServiceEndpoints = row("service-endpoints", Warning, "A Service with more endpoints than Windows supports",
        "Windows nodes cannot reach a Service with more than 1024 endpoints, or more than 64 on Windows Server 2019 before KB5011551.",
        "use several Services, or install Windows updates on the nodes");
    IpFamily = row("ip-family", Note, "A Service with IPv6 only, for pods on Windows",
        "Windows supports IPv6 only in dual-stack clusters without overlay networks. Elsewhere Windows nodes cannot reach the Service.",
        "set ipFamilies: [IPv4], or run the nodes in a dual-stack cluster with an l2bridge network");
    KubeletField = row("kubelet-field", Warning, "A field of KubeletConfiguration with which a Windows kubelet does not start",
        "kubeadm gives all nodes the configuration of the cluster, and a kubelet on Windows rejects this field of Linux nodes.",
        "remove the field, or set it to null in the patch for Windows nodes, as `winpool render --target kubeadm` does");
    ClassUndefined = row("class-undefined", Warning, "A RuntimeClass of winpool that nothing defines",
        "Its name has the pattern of the classes that winpool creates, and no pool creates it. The API server rejects pods with a RuntimeClass that does not exist.",
        "use the class of a pool, or add the manifest of the pool");
    ImageUnchecked = row("image-unchecked", Note, "An image that is not checked, because its RuntimeClass is not in the manifests",
        "The RuntimeClass decides the Windows version of the nodes and the isolation, and so whether the image runs.",
        "add the manifest of the class or of its pool");
    UnixCommand = row("unix-command", Warning, "A Unix shell, program or script in a pod for Windows",
        "Windows images do not have it, unless the image brings it. The container does not start, or the probe or hook always fails.",
        "use cmd or powershell, or a program that the image has");
    CommandLine = row("command-line", Warning, "A whole command line as the name of the program",
        "Every item of command is one argument. Windows looks for a program with this name, spaces included.",
        "write the program and each argument as an item");
    CmdLines = row("cmd-lines", Warning, "Several lines for cmd /c",
        "Microsoft documents && between several commands after /c, and no line feeds. cmd may run only the first line.",
        "join the commands with && in one line, or use powershell -Command");
    ProbePing = row("probe-ping", Warning, "A probe that runs ping",
        "Windows does not route the answers of ICMP from other networks back to a pod, and a ping of the loopback address does not reach the application. The probe fails although the application works, or succeeds although it does not.",
        "use httpGet or tcpSocket");
    ProbeExecPeriod = row("probe-exec-period", Note, "A command as a probe, more often than every ten seconds",
        "Every run starts a process in the container. hcsshim before 0.9.6 leaks memory with each, and starting a process on Windows takes CPU time.",
        "use httpGet or tcpSocket, or a longer periodSeconds");
    ImageVolume = row("image-volume", Warning, "A volume of type image",
        "containerd up to 2.4.2 has no support for image volumes on Windows.",
        "copy the files in an init container, or put them into the image");
    FlexVolume = row("flex-volume", Note, "A FlexVolume",
        "FlexVolume is deprecated since Kubernetes 1.23. The plugins for Windows, for SMB and iSCSI, are PowerShell scripts that somebody has to copy to each node.",
        "use a CSI driver that supports Windows, such as the SMB driver");
    LinuxVolume = row("linux-volume", Warning, "A volume type without support for Windows",
        "Kubernetes does not list it among the volume plugins that support Windows. Fibre Channel needs device files of Linux, and Kubernetes removed the drivers of the other types, by 1.31 at the latest. Without its volume the pod does not start.",
        "use a CSI driver that supports Windows, such as the SMB driver");
    CloudVolume = row("cloud-volume", Note, "A volume of a cloud by its in-tree type",
        "Kubernetes redirects it to a CSI driver, so Windows nodes need the Windows node plugin of the driver.",
        "use a PersistentVolumeClaim with a storage class of the CSI driver");
    FileSystem = row("file-system", Warning, "A file system of Linux for a volume of a pod for Windows",
        "Windows has NTFS. The drivers of Azure Disk and EBS format NTFS instead, that of vSphere instead of ext4; others fail, or are not known to do so.",
        "use a new volume, of a storage class with csi.storage.k8s.io/fstype: ntfs");
    CsiProxy = row("csi-proxy", Note, "A named pipe of csi-proxy, and no csi-proxy in the manifests",
        "The pipes exist only on nodes with the service csi-proxy, which somebody has to install on each Windows node.",
        "install csi-proxy on the nodes, or use a version of the driver that runs as a HostProcess container");
    HostPathType = row("host-path-type", Warning, "A type of hostPath for device files",
        "The kubelet compares the type with that of the path before it mounts. On Windows no path is a BlockDevice, and only special names such as NUL are a CharDevice. If the types differ, the pod does not start.",
        "remove type, or set Directory or File");
    UnixPath = row("unix-path", Warning, "A path of the host that only Unix has",
        "Windows nodes do not have it. The container is not created, or sees an empty directory.",
        "remove the volume, or mount a path of Windows");
    PathWithoutDrive = row("path-without-drive", Note, "A path of the host without a drive",
        "The kubelet on Windows reads it as a path on drive C: /var/data is C:\\var\\data.",
        "write the path with its drive, such as C:\\var\\data");
    TerminationMessagePath = row("termination-message-path", Note, "terminationMessagePath under a Unix path",
        "Windows does not map single files in every runtime, and the default works only because Windows has no such file.",
        "remove it, and set terminationMessagePolicy: FallbackToLogsOnError if the message is needed");
    DnsSearches = row("dns-searches", Warning, "More than one entry in dnsConfig.searches",
        "Kubernetes documents one DNS suffix for a pod on Windows, that of its namespace. The other entries may have no effect.",
        "keep one entry, and use fully qualified names");
    NodePortLoopback = row("node-port-loopback", Warning, "A HostProcess container that uses a NodePort of its own node",
        "Windows nodes cannot reach a NodePort on themselves; other nodes can.",
        "use the name of the Service from a pod, or the address of the pod");
    CniBinDir = row("cni-bin-dir", Warning, "A file of containerd with a setting that containerd 2.4 ignores",
        "containerd 2.4 reads the directories of the CNI from `bin_dirs` only. Without it, no pod with a network starts. Files of configuration version 2 are migrated.",
        "write bin_dirs with a list instead of bin_dir; containerd 2.1 and later read it");
    KubeProxyGate = row("kube-proxy-gate", Warning, "A feature gate with which kube-proxy does not start",
        "A newer kube-proxy does not have the gate, or has locked it. Without kube-proxy, the pods of the node reach no Service.",
        "remove the gate from --feature-gates");
    MachineLabel = row("machine-label", Warning, "A label of machines that Cluster API does not copy to nodes",
        "A pool selects nodes by this label, and Cluster API copies only labels of some domains from a Machine to its Node. The pool does not select the nodes.",
        "use a label with the prefix node.cluster.x-k8s.io/, or set it in --node-labels of the kubelet");
    KnownIssue = row("known-issue", Warning, "A known issue of a version in the manifests",
        "The version has a defect, and the manifests use what it depends on. `winpool explain` has the source of each issue.",
        "upgrade the component, or acknowledge the issue in the annotation winpool.dev/acknowledge-issues of the pool");
    VersionSkew = row("version-skew", Error, "Machines whose kubelet the API server does not support",
        "A kubelet is never newer than the API server, and at most three minors older.",
        "use a supported version");
    UnusedIgnore = row("unused-ignore", Note, "A comment or annotation that ignores nothing",
        "The finding was resolved, or the code is misspelled.",
        "remove it");
}

impl Code {
    pub fn row(self) -> &'static CodeRow {
        &ROWS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().entry.code
    }

    pub fn severity(self) -> Severity {
        self.row().severity
    }

    /// Why it matters and what to do, in sentences.
    pub fn explanation(self) -> String {
        let Entry { why, remedy, .. } = self.row().entry;
        format!("{why} Remedy: {remedy}.")
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A text that is not a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown code `{text}`, {}", self.advice())]
pub struct UnknownCode {
    text: String,
}

impl UnknownCode {
    /// What to write instead.
    pub fn advice(&self) -> String {
        match closest(&self.text, Code::ALL.iter().map(|code| code.name())) {
            Some(name) => format!("did you mean {name}?"),
            None => "see docs/lint.md for the codes".to_owned(),
        }
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|code| code.name() == text).ok_or_else(|| UnknownCode { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_codes_are_unique_and_lower_case() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(code.name().parse(), Ok(*code));
            assert!(code.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{code}");
        }
        let unknown = |text: &str| text.parse::<Code>().unwrap_err().to_string();
        assert_eq!(unknown("field-refuse"), "unknown code `field-refuse`, did you mean field-refused?");
        assert_eq!(unknown("DL3006"), "unknown code `DL3006`, see docs/lint.md for the codes");
    }
}
