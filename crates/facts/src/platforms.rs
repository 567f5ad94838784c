//! What the node pools of platforms take of a profile and of a pool, for Windows nodes: the field, flag or file for
//! each setting, or what happens instead. A setting for which no source was found is not taken.
//!
//! Sources:
//! - eksctl-io/eksctl (2026-08-21): `types.go`, `validation.go` and `amitype.go` in `pkg/apis/eksctl.io/v1alpha5`,
//!   `pkg/nodebootstrap/windows.go` and `windows_test.go`;
//! - awsdocs/amazon-eks-user-guide (18559e7, 2026), `latest/ug/nodes/eks-optimized-windows-ami.adoc`, and of
//!   `Start-EKSBootstrap.ps1`, which is published only up to Kubernetes 1.17, bgsilvait/EKS (f27f2c9c, read 2026-11),
//!   `Windows/Start-EKSBootstrap_117_DSR.ps1`: it appends `-KubeletExtraArgs` to the flags of the service kubelet;
//! - first minors: docs.aws.amazon.com, `eks-ami-versions-windows.md` (its tables for Windows Server 2025 begin with 1.35 of January 2026) and
//!   aws/karpenter-provider-aws, `ami.go` (1d92708, read 2026-11-29: 1.35 or higher); Azure/AKS, `CHANGELOG.md` of 2026-05-29 (Windows2025 from 1.32 on)
//!   and 2026-07-17 (the default from 1.37 on, where Windows2022 is not supported), read 2026-11-28. MicrosoftDocs/azure-aks-docs,
//!   `upgrade-os-version.md` (2026-08-21), has it as the default from 1.36 on;
//! - kubernetes/website (00cce41), `command-line-tools-reference/kubelet.md`: the labels with which a kubelet registers;
//! - MicrosoftDocs/azure-aks-docs (2026-08-21), `articles/aks`: `custom-node-configuration.md`, `node-resource-reservations.md`,
//!   `concepts-network-ip-address-planning.md`, `http-proxy.md`, `create-node-pools.md`, `use-node-taints.md`; Azure/AgentBaker
//!   (2026-08-21), `pkg/agent/datamodel/types.go`, `kubeletstart.ps1` and `containerd2template.toml` in `staging/cse/windows`;
//!   Azure/azure-cli, `validate_taint` in `_validators.py`;
//! - aws/karpenter-provider-aws (2026-08-21), `pkg/apis/v1/ec2nodeclass.go`, `pkg/providers/amifamily` with `bootstrap`,
//!   `pkg/controllers/nodeclass/validation.go`, `nodeclasses.md`: other than the twelve fields stop the NodeClass with reason
//!   UnsupportedKubeletConfiguration; kubernetes-sigs/karpenter (007859a5, read 2026-11),
//!   `pkg/controllers/nodeclaim/lifecycle/registration.go`: `karpenter.sh/unregistered` is removed with the patch of labels and
//!   taints;
//! - rancher/rke2 (2026-08-21), `pkg/executor/pebinary/pebinary.go`, `pkg/cli/cmds/agent.go` and `root.go`; rancher/rke2#4043 and
//!   k3s-io/k3s#10433 for `kubelet.conf.d`; rancher/rke2-docs (2026-08-20), `configuration.md`, `private_registry.md`,
//!   `advanced.md`, `windows_agent_config.md`. Its containerd imports a directory since k3s-io/k3s#13680 (2026-02); that this works
//!   on Windows was not found.

use std::collections::BTreeMap;

use jiff::civil::{Date, date};

use super::{Build, Minor, kubelet_fields::field, node_pools::AKS_NODE_POOL};

/// A platform that makes nodes itself, in one of its ways to configure them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    Eks,
    Aks,
    Karpenter,
    /// Nodes of Karpenter on AWS whose user data call the bootstrap script of EKS themselves.
    KarpenterUserData,
    /// An RKE2 agent with a directory of kubelet configuration, 1.32 and later.
    Rke2,
    /// An RKE2 agent whose kubelet is configured by flags, up to 1.31.
    Rke2WithFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    SystemReserved,
    KubeReserved,
    EvictionHard,
    MaxPods,
    ImageGc,
    ContainerLogs,
    FeatureGates,
    PriorityClass,
    Verbosity,
    /// A field of `spec.kubelet.extra`.
    Extra(&'static str),
    PauseImage,
    RegistryMirrors,
    Cni,
    ImagePullProgressTimeout,
    Root,
    ExtraConfig,
    KubeProxy,
    Proxy,
    Taints,
    Labels,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It has a field or an argument for it.
    Native(&'static str),
    /// It passes this flag to kubelet or kube-proxy.
    Flag(&'static str),
    /// It reads the setting from a file.
    File(&'static str),
    /// It always uses this value.
    Always(&'static str),
    /// It does not take it, and its own value is another one than the default of the kubelet: what happens instead.
    Replaces(&'static str),
    /// It does not take it: what happens instead.
    NotTaken(&'static str),
}

use Support::{Always, File, Flag, Native, NotTaken, Replaces};

impl Platform {
    pub const ALL: [Self; 6] =
        [Self::Eks, Self::Aks, Self::Karpenter, Self::KarpenterUserData, Self::Rke2, Self::Rke2WithFlags];

    pub const fn title(self) -> &'static str {
        match self {
            Self::Eks => "EKS (self-managed node group)",
            Self::Aks => "AKS",
            Self::Karpenter => "Karpenter",
            Self::KarpenterUserData => "Karpenter (own user data)",
            Self::Rke2 | Self::Rke2WithFlags => "RKE2",
        }
    }

    const fn column(self) -> usize {
        match self {
            Self::Eks | Self::KarpenterUserData => 0,
            Self::Aks => 1,
            Self::Karpenter => 2,
            Self::Rke2 => 3,
            Self::Rke2WithFlags => 4,
        }
    }

    pub fn support(self, setting: Setting) -> Support {
        if let Setting::Extra(field) = setting {
            return self.extra(field);
        }
        let row = SETTINGS.iter().find(|(known, _)| *known == setting);
        let found = row.and_then(|(_, row)| row.get(self.column())).copied();
        let found = found.unwrap_or(NotTaken("no source was found"));
        match (self, setting) {
            (Self::KarpenterUserData, Setting::Taints | Setting::Labels) => Self::Karpenter.support(setting),
            (Self::KarpenterUserData, Setting::MaxPods) => Flag("max-pods"),
            _ => found,
        }
    }

    fn extra(self, field: &'static str) -> Support {
        match self {
            Self::Eks if field == "clusterDNS" => Native("clusterDNS"),
            Self::KarpenterUserData if field == "clusterDNS" => Native("-DNSClusterIP"),
            Self::Eks | Self::KarpenterUserData => {
                kubelet_flag(field).map_or(NotTaken("the kubelet has no flag for it"), Flag)
            }
            Self::Aks => NotTaken(AKS_KUBELET),
            Self::Karpenter => match KARPENTER_FIELDS.iter().find(|known| **known == field) {
                Some(known) => Native(known),
                None => NotTaken("Karpenter rejects a NodeClass for Windows with this field"),
            },
            Self::Rke2 => File(DROP_IN),
            Self::Rke2WithFlags if field == "evictionMinimumReclaim" => NotTaken(RKE2_EVICTION),
            Self::Rke2WithFlags => kubelet_flag(field).map_or(NotTaken("the kubelet has no flag for it"), Flag),
        }
    }

    /// The domains whose labels the platform does not take, or for which no source says that it does.
    pub const fn reserved_label_domains(self) -> &'static [&'static str] {
        match self {
            Self::Karpenter | Self::KarpenterUserData => {
                &["kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws"]
            }
            Self::Aks => &["kubernetes.io", "k8s.io", "kubernetes.azure.com"],
            _ => &["kubernetes.io", "k8s.io"],
        }
    }

    pub const fn taints_need_values(self) -> bool {
        matches!(self, Self::Aks)
    }

    /// The platform's image for a build of Windows; `None` if it has none. RKE2 runs on any machine.
    pub fn image(self, build: Build) -> Option<&'static PlatformImage> {
        let same = if self == Self::KarpenterUserData { Self::Karpenter } else { self };
        IMAGES.iter().find(|row| row.platform == same && row.build == build)
    }

    /// When the platform retires a build of Windows; `None` if no source says so. For the other platforms no dates were found.
    pub fn retirement(self, build: Build) -> Option<&'static Retirement> {
        let table = if self == Self::Aks { AKS_RETIREMENTS } else { &[] };
        table.iter().find(|retirement| retirement.build == build)
    }

    /// Whether a node with these labels is one of a node pool of the platform. Only those of AKS are told apart: no other platform retires
    /// builds.
    pub fn runs(self, labels: &BTreeMap<String, String>) -> bool {
        self == Self::Aks && labels.contains_key(AKS_NODE_POOL)
    }

    pub const fn selects_image(self) -> bool {
        !matches!(self, Self::Rke2 | Self::Rke2WithFlags)
    }

    /// The way to configure an RKE2 agent of a minor.
    pub fn rke2(kubelet: Minor) -> Self {
        if kubelet >= RKE2_DROP_INS_SINCE { Self::Rke2 } else { Self::Rke2WithFlags }
    }
}

pub const RKE2_DROP_INS_SINCE: Minor = Minor(32);
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retirement {
    pub build: Build,
    /// The last minor whose node pools can have it; `None` if no source names one.
    pub last_minor: Option<Minor>,
    /// The first day without support.
    pub unsupported_from: Date,
    /// The first day without images, from which on a node pool cannot be scaled.
    pub no_images_from: Date,
}

/// The builds that AKS retires. MicrosoftDocs/azure-aks-docs at fb060abe (2026-08-21), `articles/aks/includes/`:
/// `windows-server-2019-retirement.md`, `windows-server-2022-retirement.md`, `windows-annual-channel-retirement.md`.
pub(super) const AKS_RETIREMENTS: &[Retirement] = &[
    retirement(17763, Some(32), date(2026, 3, 1), date(2027, 4, 1)),
    retirement(20348, Some(36), date(2028, 6, 30), date(2029, 6, 30)),
    retirement(25398, None, date(2026, 5, 15), date(2027, 5, 15)),
];

const fn retirement(build: u32, last_minor: Option<u32>, unsupported_from: Date, no_images_from: Date) -> Retirement {
    let last_minor = match last_minor {
        Some(minor) => Some(Minor(minor)),
        None => None,
    };
    Retirement { build: Build(build), last_minor, unsupported_from, no_images_from }
}

/// An image with Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlatformImage {
    pub platform: Platform,
    pub build: Build,
    /// The platform's name of it.
    pub name: &'static str,
    /// The first minor whose nodes can have it, if a source names one.
    pub since: Option<Minor>,
}

const fn image(platform: Platform, build: u32, name: &'static str) -> PlatformImage {
    PlatformImage { platform, build: Build(build), name, since: None }
}

impl PlatformImage {
    const fn since(self, minor: u32) -> Self {
        Self { since: Some(Minor(minor)), ..self }
    }
}

/// The images. From 1.37 or 1.36 on, in which sources differ, AKS makes node pools without a SKU with Windows Server 2025: one whose manifest names none changes its build.
#[rustfmt::skip]
pub(super) const IMAGES: &[PlatformImage] = &[
    image(Platform::Eks,       17763, "WindowsServer2019CoreContainer"),
    image(Platform::Eks,       20348, "WindowsServer2022CoreContainer"),
    image(Platform::Eks,       26100, "WindowsServer2025CoreContainer").since(35),
    image(Platform::Aks,       20348, "Windows2022"),
    image(Platform::Aks,       26100, "Windows2025").since(32),
    image(Platform::Karpenter, 17763, "windows2019@latest"),
    image(Platform::Karpenter, 20348, "windows2022@latest"),
    image(Platform::Karpenter, 26100, "windows2025@latest").since(35),
];

/// The pods on a node of AKS, both bounds included.
pub const AKS_PODS: (u32, u32) = (10, 250);
/// The FIPS-enabled image that Windows Server 2025 requires on AKS.
pub const AKS_NEEDS_FIPS: Build = Build(26100);

const DROP_IN: &str = r"C:\var\lib\rancher\rke2\agent\etc\kubelet.conf.d\50-winpool.conf";
const REGISTRIES: &str = r"C:\etc\rancher\rke2\registries.yaml";

const AKS_KUBELET: &str =
    "AKS configures only image garbage collection and container logs of a Windows kubelet, and uses its own value";
const AKS_KUBE_RESERVED: &str = "AKS sets its own, computed from the size of the machine and the maximum of pods; its preview setting is for Linux only";
const AKS_CONTAINERD: &str = "AKS writes the configuration of containerd itself, from its own template";
const EKS_CONTAINERD: &str =
    "the EKS image configures containerd itself, and its bootstrap script has no argument for it";
const KARPENTER_KUBELET: &str =
    "Karpenter passes only twelve fields of the kubelet to a Windows node, which uses the value of its image";
const RKE2_CONTAINERD: &str =
    "RKE2 writes the configuration of containerd at every start; that it imports other files on Windows is not known";
const RKE2_PROXY: &str =
    "RKE2 has no setting for it: set the variables for the service rke2, whose processes inherit them";
const RKE2_EVICTION: &str =
    "RKE2 removes this flag from the arguments of a Windows kubelet, and the kubelet uses its defaults";
const NO_PROXY_SETTING: &str =
    "the platform has no setting for it: set the variables on the node before its services start";

/// What the platforms do with each setting: EKS, AKS, Karpenter, RKE2 and RKE2 up to 1.31.
#[rustfmt::skip]
pub(super) const SETTINGS: &[(Setting, [Support; 5])] = &[
    (Setting::SystemReserved, [
        Flag("system-reserved"),
        NotTaken("AKS reserves 2 GB for the system processes of Windows, which cannot be changed"),
        Native("kubelet.systemReserved"), File(DROP_IN), Flag("system-reserved")]),
    (Setting::KubeReserved, [
        Flag("kube-reserved"),
        NotTaken(AKS_KUBE_RESERVED),
        Native("kubelet.kubeReserved"), File(DROP_IN), Flag("kube-reserved")]),
    (Setting::EvictionHard, [
        Flag("eviction-hard"),
        Replaces("AKS sets its own: memory.available<100Mi from 1.29 on; its preview setting is for Linux only"),
        Native("kubelet.evictionHard"), File(DROP_IN), NotTaken(RKE2_EVICTION)]),
    (Setting::MaxPods, [
        Native("maxPodsPerNode"), Native("--max-pods"), Native("kubelet.maxPods"), File(DROP_IN), Flag("max-pods")]),
    (Setting::ImageGc, [
        Flag("image-gc-high-threshold"), Native("imageGcHighThreshold"), Native("kubelet.imageGCHighThresholdPercent"),
        File(DROP_IN), Flag("image-gc-high-threshold")]),
    (Setting::ContainerLogs, [
        Flag("container-log-max-size"), Native("containerLogMaxSizeMB"), NotTaken(KARPENTER_KUBELET),
        File(DROP_IN), Flag("container-log-max-size")]),
    (Setting::FeatureGates, [
        Flag("feature-gates"), NotTaken(AKS_KUBELET), NotTaken(KARPENTER_KUBELET),
        File(DROP_IN), Flag("feature-gates")]),
    (Setting::PriorityClass, [
        Flag("windows-priorityclass"), Always("AboveNormal"), NotTaken(KARPENTER_KUBELET),
        Flag("windows-priorityclass"), Flag("windows-priorityclass")]),
    (Setting::Verbosity, [
        Flag("v"), NotTaken(AKS_KUBELET), NotTaken(KARPENTER_KUBELET), File(DROP_IN), Flag("v")]),
    (Setting::PauseImage, [
        NotTaken("the EKS image uses amazonaws.com/eks/pause-windows, which it contains"), NotTaken(AKS_CONTAINERD),
        NotTaken("the EKS image uses amazonaws.com/eks/pause-windows, which it contains"),
        Native("pause-image"), Native("pause-image")]),
    (Setting::RegistryMirrors, [
        NotTaken(EKS_CONTAINERD),
        NotTaken(AKS_CONTAINERD),
        NotTaken(EKS_CONTAINERD), File(REGISTRIES), File(REGISTRIES)]),
    (Setting::Cni, [
        NotTaken(EKS_CONTAINERD), NotTaken(AKS_CONTAINERD), NotTaken(EKS_CONTAINERD),
        NotTaken("RKE2 sets both directories below its data directory"),
        NotTaken("RKE2 sets both directories below its data directory")]),
    (Setting::ImagePullProgressTimeout, [
        NotTaken(EKS_CONTAINERD), NotTaken(AKS_CONTAINERD), NotTaken(EKS_CONTAINERD),
        NotTaken(RKE2_CONTAINERD), NotTaken(RKE2_CONTAINERD)]),
    (Setting::Root, [
        NotTaken(EKS_CONTAINERD), NotTaken(r"AKS always uses C:\ProgramData\containerd\root"), NotTaken(EKS_CONTAINERD),
        NotTaken(RKE2_CONTAINERD), NotTaken(RKE2_CONTAINERD)]),
    (Setting::ExtraConfig, [
        NotTaken(EKS_CONTAINERD), NotTaken(AKS_CONTAINERD), NotTaken(EKS_CONTAINERD),
        NotTaken(RKE2_CONTAINERD), NotTaken(RKE2_CONTAINERD)]),
    (Setting::KubeProxy, [
        Native("-KubeProxyExtraArgs"), NotTaken("AKS configures kube-proxy itself"),
        NotTaken("Karpenter does not pass -KubeProxyExtraArgs to the bootstrap script of EKS"),
        Native("kube-proxy-arg"), Native("kube-proxy-arg")]),
    (Setting::Proxy, [
        NotTaken(NO_PROXY_SETTING), NotTaken("AKS does not support HTTP proxies in clusters with Windows node pools"),
        NotTaken(NO_PROXY_SETTING), NotTaken(RKE2_PROXY), NotTaken(RKE2_PROXY)]),
    (Setting::Taints, [
        Native("taints"), Native("--node-taints"), Native("spec.template.spec.taints"),
        Native("node-taint"), Native("node-taint")]),
    (Setting::Labels, [
        Native("labels"), Native("--labels"), Native("spec.template.metadata.labels"),
        Native("node-label"), Native("node-label")]),
];

/// Every setting but the fields of `extra`, in the order of the API.
pub fn settings() -> impl Iterator<Item = Setting> {
    SETTINGS.iter().map(|(setting, _)| *setting)
}

impl Setting {
    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SystemReserved => "systemReserved",
            Self::KubeReserved => "kubeReserved",
            Self::EvictionHard => "evictionHard",
            Self::MaxPods => "maxPods",
            Self::ImageGc => "imageGC",
            Self::ContainerLogs => "containerLogs",
            Self::FeatureGates => "featureGates",
            Self::PriorityClass => "priorityClass",
            Self::Verbosity => "logging.verbosity",
            Self::Extra(field) => field,
            Self::PauseImage => "pauseImage",
            Self::RegistryMirrors => "registryMirrors",
            Self::Cni => "cni",
            Self::ImagePullProgressTimeout => "imagePullProgressTimeout",
            Self::Root => "root",
            Self::ExtraConfig => "extraConfig",
            Self::KubeProxy => "kubeProxy",
            Self::Proxy => "proxy",
            Self::Taints => "taints",
            Self::Labels => "labels",
        }
    }
}

/// The fields of `extra` that Karpenter passes to a Windows node.
const KARPENTER_FIELDS: &[&str] =
    &["clusterDNS", "podsPerCore", "evictionSoft", "evictionSoftGracePeriod", "evictionMaxPodGracePeriod"];

pub fn kubelet_flag(name: &str) -> Option<&'static str> {
    field(name)?.flag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet_fields::{FIELDS, FieldSupport};

    #[test]
    fn every_platform_has_an_answer_for_every_setting() {
        for platform in Platform::ALL {
            for setting in settings() {
                let (Native(text) | Flag(text) | File(text) | Always(text) | Replaces(text) | NotTaken(text)) =
                    platform.support(setting);
                assert!(!text.is_empty() && text != "no source was found", "{platform:?}: {setting:?}");
            }
            for field in FIELDS.iter().filter(|field| field.support == FieldSupport::Supported) {
                let (Native(text) | Flag(text) | File(text) | Always(text) | Replaces(text) | NotTaken(text)) =
                    platform.support(Setting::Extra(field.name));
                assert!(!text.is_empty(), "{platform:?}: {}", field.name);
            }
        }
    }

    #[test]
    fn every_field_of_a_table_is_a_field_of_the_kubelet() {
        for name in KARPENTER_FIELDS {
            assert_eq!(field(name).map(|field| field.support), Some(FieldSupport::Supported), "{name}");
        }
    }

    #[test]
    fn a_platform_selects_an_image_only_if_it_has_one() {
        let table = [
            (Platform::Eks, [Some("WindowsServer2019CoreContainer"), Some("WindowsServer2025CoreContainer")]),
            (Platform::Aks, [None, Some("Windows2025")]),
            (Platform::Karpenter, [Some("windows2019@latest"), Some("windows2025@latest")]),
            (Platform::KarpenterUserData, [Some("windows2019@latest"), Some("windows2025@latest")]),
            (Platform::Rke2, [None, None]),
        ];
        for (platform, images) in table {
            let name = |build| platform.image(Build(build)).map(|image| image.name);
            assert_eq!([17763, 26100].map(name), images, "{platform:?}");
        }
        assert_eq!(Platform::Eks.image(Build(19042)), None);
    }

    #[test]
    fn windows_server_2025_has_images_from_a_minor_on() {
        let since = |platform: Platform| platform.image(Build(26100)).and_then(|image| image.since);
        let table =
            [(Platform::Eks, 35), (Platform::Karpenter, 35), (Platform::KarpenterUserData, 35), (Platform::Aks, 32)];
        for (platform, expected) in table {
            assert_eq!(since(platform), Some(Minor(expected)), "{platform:?}");
        }
    }

    #[test]
    fn aks_retires_builds_from_the_oldest_on() {
        let table = [
            (17763, Some((Some(Minor(32)), "2026-03-01"))),
            (20348, Some((Some(Minor(36)), "2028-06-30"))),
            (25398, Some((None, "2026-05-15"))),
            (26100, None),
        ];
        for (build, expected) in table {
            let found = Platform::Aks.retirement(Build(build));
            let found = found.map(|one| (one.last_minor, one.unsupported_from.to_string()));
            assert_eq!(found, expected.map(|(minor, day)| (minor, day.to_owned())), "{build}");
            assert_eq!(Platform::Eks.retirement(Build(build)), None);
        }
        assert!(AKS_RETIREMENTS.iter().all(|one| one.unsupported_from < one.no_images_from));
    }

    #[test]
    fn rke2_reads_a_directory_of_kubelet_configuration_from_1_32_on() {
        assert_eq!(Platform::rke2(Minor(31)), Platform::Rke2WithFlags);
        assert_eq!(Platform::rke2(Minor(32)), Platform::Rke2);
    }
}
