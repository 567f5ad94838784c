//! The codes of findings: one table, from which the page for people and the rules of SARIF come too.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It will be refused, or cannot run.
    Error,
    /// It is ignored, or a trap.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// The word for it, which is that of SARIF too.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Makes the type and its table of one list, so that neither can have what the other has not.
macro_rules! codes {
    ($($variant:ident $name:literal $severity:ident $title:literal $why:literal $remedy:literal)*) => {
        /// What kind of finding it is. Names are stable: files silence them and automation compares them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// All codes, in the order of the page.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name, as people write it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How bad it is.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// What is found, in a few words.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// Why it matters.
            pub const fn why(self) -> &'static str {
                match self { $(Self::$variant => $why,)* }
            }

            /// What to write instead.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

codes! {
    Unreadable "unreadable" Error
        "The text is no Kubernetes manifest"
        "What cannot be read is not checked."
        "correct the YAML; render a template first, and pass its output: helm template … | winpool lint -f -"
    ResourceInvalid "resource-invalid" Error
        "A WindowsNodePool or WindowsRuntimeProfile has a mistake"
        "The operator does not act on a pool or profile with a mistake in it."
        "write what the message says"
    PodInvalid "pod-invalid" Error
        "The pod's spec is missing, or a field has a value that it cannot have"
        "The API server refuses it."
        "write the field as `kubectl explain pod.spec` describes it"
    FieldRefused "field-refused" Error
        "A field that the API server refuses in a pod with spec.os.name: windows"
        "The pod is not created, and a Deployment or Job stays without pods."
        "remove the field, or write what Windows has instead"
    FieldIgnored "field-ignored" Warning
        "A field that does nothing on Windows"
        "On Windows a pod runs as if it were not written, and with spec.os.name: windows the API server refuses it."
        "remove the field, or write what Windows has instead"
    WindowsOptionsRefused "windows-options-refused" Error
        "securityContext.windowsOptions in a pod with spec.os.name: linux"
        "The API server refuses the pod."
        "write os.name: windows, or remove windowsOptions"
    HostProcess "host-process" Error
        "A HostProcess pod that is not HostProcess in all its containers and on the host's network"
        "The API server refuses a pod that mixes HostProcess containers with others, or has one without hostNetwork: true."
        "write securityContext.windowsOptions.hostProcess: true and hostNetwork: true for the pod"
    RunAsNonRootAdministrator "run-as-non-root-administrator" Error
        "runAsNonRoot with the user ContainerAdministrator"
        "The kubelet takes ContainerAdministrator for root and does not start the container."
        "write runAsUserName: ContainerUser, or remove runAsNonRoot"
    HostNetwork "host-network" Warning
        "hostNetwork without HostProcess"
        "Windows gives the host's network to HostProcess containers only; other pods get the pod network all the same."
        "remove hostNetwork, or make it a HostProcess pod"
    HostNetworkDns "host-network-dns" Warning
        "dnsPolicy: ClusterFirstWithHostNet"
        "The policy is not supported on Windows, where pods have no host network."
        "write dnsPolicy: ClusterFirst, or leave it out"
    MemoryVolume "memory-volume" Warning
        "emptyDir.medium: Memory"
        "Windows does not support memory as the storage of a volume."
        "remove medium; the volume is on the disk of the node then"
    HugePages "huge-pages" Error
        "Huge pages"
        "Windows containers have no huge pages, and no Windows node offers any."
        "remove it"
    BlockVolume "block-volume" Error
        "volumeDevices"
        "Windows cannot attach raw block devices to pods."
        "mount the volume with volumeMounts and volumeMode: Filesystem"
    MountPropagation "mount-propagation" Warning
        "mountPropagation"
        "Windows does not propagate mounts."
        "remove it"
    SubPath "sub-path" Note
        "subPath"
        "Kubernetes documents parts of volumes as unsupported on Windows. With containerd one works; before Kubernetes 1.37 several in one pod may not."
        "mount the whole volume, into a folder of its own"
    NfsVolume "nfs-volume" Error
        "A volume of type nfs"
        "Windows nodes cannot mount the kubelet's NFS volumes."
        "use a CSI driver that serves Windows, such as one for SMB"
    FileMode "file-mode" Note
        "Modes of files in a volume"
        "Windows has no file modes: who may read the files is not limited by them."
        "remove it"
    ResizePolicy "resize-policy" Note
        "resizePolicy"
        "Kubernetes 1.32 and later do not resize pods in place on Windows nodes: a change of resources needs a new pod."
        "remove it"
    ResourceClaims "resource-claims" Warning
        "resourceClaims"
        "A Windows kubelet prepares no device for a claim, whether the pod is scheduled or not."
        "remove it; ask for a device by the resource that a device plugin offers"
    StopSignal "stop-signal" Warning
        "A stop signal that the API server does not take for Windows"
        "With the gate ContainerStopSignals the API server takes it only beside spec.os.name, and for Windows only SIGTERM and SIGKILL; without the gate, which is off by default, it drops the field."
        "write os: {name: windows} and SIGTERM or SIGKILL, or remove it"
    OsSelectorMissing "os-selector-missing" Warning
        "A pod for Windows that may be scheduled onto Linux nodes"
        "The scheduler does not look at spec.os.name or at images: only a selector, an affinity or a RuntimeClass leads a pod to Windows nodes."
        "write nodeSelector: {kubernetes.io/os: windows}, or runtimeClassName"
    OsNameMissing "os-name-missing" Note
        "A pod for Windows without spec.os.name"
        "With it the API server refuses fields that Windows does not have, and the restricted Pod Security Standard asks for what Windows has only."
        "write os: {name: windows} in the pod's spec"
    PlacementConflict "placement-conflict" Error
        "spec.os.name, nodeSelector and RuntimeClass contradict each other"
        "A node of one system does not run a pod of the other, and the API server refuses a nodeSelector that contradicts the RuntimeClass."
        "make them agree"
    BetaOsLabel "beta-os-label" Warning
        "The label beta.kubernetes.io/os or beta.kubernetes.io/arch"
        "The labels are deprecated: on a node that does not have them the pod cannot run."
        "write kubernetes.io/os or kubernetes.io/arch"
    LinuxTolerance "linux-tolerance" Warning
        "A pod that is not for Windows and tolerates the taints of Windows nodes"
        "A taint is all that keeps it off Windows nodes, where its image cannot run, and it tolerates that taint."
        "write nodeSelector: {kubernetes.io/os: linux}"
    DaemonsetRuntimeClass "daemonset-runtime-class" Warning
        "A DaemonSet that relies on the scheduling of its RuntimeClass"
        "The DaemonSet controller does not look at a RuntimeClass: it makes pods for nodes that the class excludes, which then stay Pending, and none for nodes whose taints only the class tolerates."
        "write the nodeSelector and the tolerations of the class in the DaemonSet too"
    UntoleratedTaint "untolerated-taint" Error
        "A pod that tolerates the taints of no pool it could run in"
        "The pod stays Pending: 0 nodes are available, untolerated taint."
        "write runtimeClassName with a class of the pool, or the tolerations"
    NoPool "no-pool" Warning
        "A pod for Windows that selects a pool or a build that no pool has"
        "The pod stays Pending: winpool.dev/pool is the name of a pool, and among the manifests no pool has that name or that build."
        "write the name or the build of a pool, or lint the manifest of the pool too"
    ImageInvalid "image-invalid" Error
        "An image that is missing or no reference"
        "The kubelet cannot pull it: InvalidImageName."
        "write registry/repository:tag, in lower case"
    ImageLatest "image-latest" Warning
        "An image with the tag latest"
        "The tag moves to another Windows build without a word, and what ran on a host yesterday does not start today."
        "write the tag of a Windows build, such as ltsc2022, or a digest"
    ImageUntagged "image-untagged" Warning
        "An image with neither tag nor digest"
        "It means latest, which moves to another Windows build without a word."
        "write the tag of a Windows build, such as ltsc2022, or a digest"
    ImageBuild "image-build" Warning
        "The name of an image suggests a Windows that its hosts do not run"
        "A container does not start on a host whose Windows does not fit its image: The container operating system does not match the host operating system. A name is a suspicion only."
        "rebuild the image for the build of the hosts, or use a pool with the build of the image"
    ImageCannotRun "image-cannot-run" Error
        "The registry has no image that the hosts run"
        "The image cannot be pulled or does not start on any host that the pod is for."
        "use the image for the build of the hosts, or hosts for the build of the image"
    ImageSystem "image-system" Warning
        "An image for another system than the pod's"
        "The image cannot be pulled: no match for platform in manifest. By its name it is a suspicion only."
        "use an image for the pod's system, or correct os.name and nodeSelector"
    MixedSystems "mixed-systems" Warning
        "Images of Windows and of Linux in one pod"
        "All containers of a pod run on one node, which has one system. By their names it is a suspicion only."
        "make a pod for each system"
    HypervAnnotation "hyperv-annotation" Warning
        "The annotation experimental.windows.kubernetes.io/isolation-type"
        "Kubernetes 1.21 dropped it: the container runs with process isolation."
        "remove it, and write runtimeClassName with a class whose handler is runhcs-wcow-hypervisor"
    GracePeriodDocker "grace-period-docker" Warning
        "terminationGracePeriodSeconds with Docker"
        "Docker on Windows ends every process after the time in the container's own registry, 5 seconds by default."
        "use containerd, or set the time in the image: WaitToKillServiceTimeout"
    MemoryLimitMissing "memory-limit-missing" Warning
        "A container without a memory limit"
        "Windows kills no process for memory, it pages: one container without a limit slows down its whole node."
        "write resources.limits.memory"
    MemoryRequestDiffers "memory-request-differs" Warning
        "A memory request below the limit"
        "The scheduler counts requests: with limits above them a Windows node is filled beyond its memory and pages to disk."
        "leave out the memory request, or write it equal to the limit"
    MountPathEscape "mount-path-escape" Error
        "A path whose backslashes YAML has read otherwise"
        "In double quotes YAML reads \\t as a tab and \\n as a new line; in single quotes or none it keeps both of two backslashes, which neither Docker nor the name of a pipe takes."
        "write C:\\data without quotes or in single quotes, or \"C:\\\\data\" in double quotes"
    MountPathDoubled "mount-path-doubled" Note
        "A path with doubled backslashes"
        "In single quotes or none YAML keeps both. containerd takes them for one; Docker does not start the container."
        "write C:\\data without quotes or in single quotes, or \"C:\\\\data\" in double quotes"
    MountPathInvalid "mount-path-invalid" Error
        "A mount path that Windows does not have"
        "C: itself cannot be a mount point, a path behind a drive letter begins with a backslash, and some characters are in no path."
        "write C:\\data, a whole drive such as D:, or a named pipe such as \\\\.\\pipe\\name"
    EnvNameColon "env-name-colon" Error
        "The name of an environment variable has a colon"
        "API servers before Kubernetes 1.32 refuse it; .NET reads two underscores as a colon."
        "write two underscores, as in Logging__LogLevel__Default"
    NodeProblemDetector "node-problem-detector" Note
        "node-problem-detector on Windows"
        "Its support for Windows is preliminary: monitors of the Linux kernel log and of systemd find nothing there."
        "use its Windows build and configuration, in a HostProcess container"
    PreserveDestination "preserve-destination" Warning
        "The annotation preserve-destination"
        "It needs Direct Server Return in the kube-proxy of every Windows node, which is off unless --enable-dsr=true is given."
        "start kube-proxy with --enable-dsr=true (before Kubernetes 1.33 with --feature-gates=WinDSR=true too), then silence this code"
    LocalTrafficPolicy "local-traffic-policy" Warning
        "externalTrafficPolicy: Local for pods on Windows"
        "Without Direct Server Return Windows does not support it, and Direct Server Return is off unless --enable-dsr=true is given to kube-proxy."
        "start kube-proxy with --enable-dsr=true (before Kubernetes 1.33 with --feature-gates=WinDSR=true too), then silence this code; or write Cluster"
    SessionAffinityTimeout "session-affinity-timeout" Warning
        "A time limit for session affinity, for pods on Windows"
        "Windows does not support setting it."
        "remove sessionAffinityConfig"
    SessionAffinityBuild "session-affinity-build" Warning
        "Session affinity for pods on a Windows before Windows Server 2022"
        "Older Windows does not keep a client with its pod."
        "run the pods on Windows Server 2022 or later, or write sessionAffinity: None"
    ServiceEndpoints "service-endpoints" Warning
        "A Service with more endpoints than Windows takes"
        "Windows nodes cannot reach a Service with more than 1024 endpoints; Windows Server 2019 before KB5011551 takes 64."
        "make several Services, or update the hosts"
    IpFamily "ip-family" Note
        "A Service of IPv6 alone, for pods on Windows"
        "Windows nodes have IPv6 beside IPv4 only, and not in overlay networks: elsewhere they do not reach the Service."
        "write ipFamilies: [IPv4], or run the nodes in a dual-stack cluster with an l2bridge network"
    UnusedIgnore "unused-ignore" Note
        "A comment or annotation that silences nothing"
        "What it was for is gone, or its code is mistyped."
        "remove it"
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A word that is no code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no code `{0}`: docs/lint.md has them all")]
pub struct UnknownCode(pub String);

impl FromStr for Code {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|code| code.name() == text).ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_one_name_that_can_be_written_anywhere() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(code.name().parse(), Ok(*code));
            assert!(code.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{code}");
        }
        let unknown = "field-refuse".parse::<Code>().unwrap_err().to_string();
        assert_eq!(unknown, "there is no code `field-refuse`: docs/lint.md has them all");
    }

    #[test]
    fn every_code_says_what_why_and_what_instead() {
        for code in Code::ALL {
            assert!(!code.title().ends_with('.') && !code.remedy().ends_with('.'), "{code}");
            assert!(code.why().ends_with('.'), "{code}");
        }
    }
}
