//! Known defects of the components of a Windows node: affected and fixed versions, what they depend on, and the source.
//!
//! Sources, each thread and advisory read in 2026-11: the security advisories of Kubernetes (issues 119339, 119594,
//! 119595, 121879, 126161, 129654 of kubernetes/kubernetes) and of containerd (GHSA-5ffw-gxpp-mxpf, GHSA-2qjp-425j-52j9,
//! GHSA-m6hq-p25p-ffr2, GHSA-xhf5-7wjv-pqxp, as quoted in golang/vulndb 482, 1147, 4108, 5758, and GHSA-vwhp-8p66-mq4f and GHSA-jpcc-p29g-p8mq,
//! as in the records CVE-2026-95839 and CVE-2026-47262), which name the fixed versions; for
//! GHSA-pc3f-x583-g7j2, GHSA-pg57-6jwg-q645 and GHSA-7jxh-36q5-gcqv the release notes of containerd 1.7.31 to 1.7.36, 2.0.8 to 2.0.13, 2.1.7,
//! 2.2.3 to 2.2.9, 2.3.5, 2.3.6 and 2.4.1, which name them. For other issues of
//! Kubernetes, the patch release is that under which the CHANGELOG files have the backport, at v1.38.0-beta.0 of kubernetes/kubernetes: up
//! to 1.31.14, 1.32.13, 1.33.13, 1.34.13, 1.35.10, 1.36.6, 1.37.2 and 1.38.0-alpha.3 (read 2026-11-29). For other issues of containerd it is the first release
//! of containerd/containerd with the code of the fix, by the tag or by the Go module; 2.0.12 by its release notes (read 2026-11-29).
//! hcsshim is that of `go.mod` at the tags of containerd. The revisions of Windows are those of kubernetes/website,
//! `windows-networking.md` and its earlier forms, of Microsoft's update histories for KB4482887 and KB4489899, and of
//! projectcalico/calico 8529.
//!
//! Where sources disagree, or the source is silent:
//! - CVE-2023-5528: the advisory counts any node, and adds that only those with an in-tree volume plugin are affected.
//! - kubernetes-138727: that the defect begins with 1.31 follows from pull request 122922, which added the notifier.
//! - containerd-12781: the shims of 1.6.34, 1.7.19 and 2.0.0 no longer leak handles (microsoft/hcsshim 03a825b33, 6749c2f41, 976716ed6).
//! - containerd-5405: the thread is about 1.4 and 1.5; earlier lines have the same code.
//! - hcsshim-1574: the thread is about 0.9; pull request 1605 has the same fix for 0.8.
//! - kubernetes-134031: that the defect begins with 1.27 follows from pull request 114407, of December 2022, which gave kube-proxy
//!   load balancers for this policy; patch releases of 1.24 to 1.26 with its backports are not counted.
//! - kubernetes-135146: thread 135144 saw it at times, in large clusters only.
//! - kubernetes-136241: thread 136240 is about both policies for two families; PreferDualStack is not counted.
//! - A range begins with 1.0 where no source names the first affected version. That CVE-2024-9042 begins with 1.27 follows from
//!   the first minor with NodeLogQuery; that CVE-2023-3893 is fixed in 1.1.3 from "affected: 1.1.2 and earlier"; 2.0.0-alpha.0, which has it too,
//!   is not told from later alphas.
//! - CVE-2026-53488: the advisory excludes no system. containerd loads `plugins/restart` on Windows too (`cmd/containerd/builtins/builtins.go`
//!   at v2.4.2); that the labels of an image reach a program there was not tried.
//! - kubernetes-125012: that the defect begins with 1.21 follows from issue 102849, which has the same error at 1.21.1.
//! - kubernetes-126965: pull request 127100 is the backport to 1.31, and issue 129952 names 1.31.1 for it.
//! - kubernetes-139239: the reporter says "around 1.32", and the release note of 1.38.0-alpha.2 "a regression".
//! - kubernetes-141489: 1.30.14 has the code, and no source names the first version.
//! - CVE-2024-10220 and CVE-2025-1767: the advisories exclude no system, and `pkg/volume/git_repo/git_repo.go` at v1.30.14 runs `git` on each.
//!   The second names no fixed version; the gate GitRepoVolumeDriver, off from 1.33 on, is counted as its fix.
//! - CVE-2026-47262: the advisory excludes no system. `buildWindowsSpec` in `internal/cri/server/container_create.go` (v2.4.2) gives the user
//!   of the image to `WithUser` of `pkg/oci/spec_opts.go`, which reads `etc/passwd` and `etc/group` of the image; this was not tried on Windows.
//! - containerd-10071: 1.7.16 fixed `pkg/cri/sbserver`, which is off; 1.7.19 fixed `pkg/cri/server`.
//! - containerd-8171: the issue names 1.6 and 1.7; that earlier releases have it is inferred. 1.7.36 lacks the fix of pull request 8362.
//! - kubernetes-115783: the issue says that 1.25 has no defect, and 1.25.8 and 1.24.12 have the backport; only 1.26 is counted.
//! - KB5000822: `configure-gmsa.md` of kubernetes/website, which the thread quotes, is about containerd; nodes with Docker are counted too.
//! - AKS-2988: it names Windows Server 2019 and, as the only remedy, 2022. The builds between the two count, and no source names them.
//! - A fix of an open line that no release note confirms (containerd 10001, hcsshim 1680) is not in the table.

use std::fmt;

use jiff::civil::{Date, date};

use super::{ContainerdVersion, KubeletVersion, OsVersion, catalogue::Entry};
use crate::named::named_enum;

named_enum! {
    /// A component of a node with a version of its own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum NodeComponent {
        /// The kubelet, by `nodeInfo.kubeletVersion`.
        Kubelet = "kubelet",
        /// kube-proxy, by the image of its pods.
        KubeProxy = "kube-proxy",
        /// containerd, by `nodeInfo.containerRuntimeVersion`.
        Containerd = "containerd",
        /// The shim of containerd for Windows, by the release of containerd that contains it: see [`hcsshim_of`].
        Hcsshim = "hcsshim",
        /// Windows, by `nodeInfo.kernelVersion`.
        Windows,
        /// csi-proxy, by the image of its pods.
        CsiProxy = "csi-proxy",
    }
}

impl NodeComponent {
    /// The component in an image, and its version, by the last part of the repository and the tag:
    /// `sigwindowstools/kube-proxy:v1.33.1-calico-hostprocess`.
    pub fn of_image(image: &str) -> Option<(Self, ComponentVersion)> {
        let (repository, tag) = image.split_once('@').map_or(image, |(name, _)| name).rsplit_once(':')?;
        let component = match repository.rsplit('/').next()? {
            "kube-proxy" | "kube-proxy-windows" => Self::KubeProxy,
            "csi-proxy" => Self::CsiProxy,
            _ => return None,
        };
        let version = tag.parse::<ContainerdVersion>().ok()?;
        Some((component, version.into()))
    }

    /// A version as the component reports it.
    pub fn version_text(self, version: ComponentVersion) -> String {
        let ComponentVersion([major, minor, patch]) = version;
        match self {
            Self::Kubelet | Self::KubeProxy | Self::CsiProxy => format!("v{major}.{minor}.{patch}"),
            Self::Containerd | Self::Hcsshim => format!("{major}.{minor}.{patch}"),
            Self::Windows => format!("{major}.0.{minor}.{patch}"),
        }
    }
}

impl fmt::Display for NodeComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Major, minor and patch of a component. Of Windows: 10, build and revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentVersion(pub [u32; 3]);

impl ComponentVersion {
    /// Whether the versions differ at most in the patch, or the revision.
    pub fn is_of_line(self, other: Self) -> bool {
        self.0[..2] == other.0[..2]
    }
}

impl From<KubeletVersion> for ComponentVersion {
    fn from(version: KubeletVersion) -> Self {
        Self([1, version.minor.0, version.patch])
    }
}

impl From<ContainerdVersion> for ComponentVersion {
    fn from(version: ContainerdVersion) -> Self {
        Self([version.major, version.minor, version.patch])
    }
}

impl ComponentVersion {
    /// That of Windows, if its revision is known.
    pub fn of_windows(version: OsVersion) -> Option<Self> {
        Some(Self([10, version.build.0, version.revision?]))
    }
}

/// Versions in a row that have a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AffectedVersions {
    /// The first one.
    pub from: ComponentVersion,
    /// The first fixed one; `None` if none is known.
    pub fixed: Option<ComponentVersion>,
}

impl AffectedVersions {
    /// Whether it contains a version.
    pub fn contains(&self, version: ComponentVersion) -> bool {
        self.from <= version && self.fixed.is_none_or(|fixed| version < fixed)
    }
}

named_enum! {
    /// How bad a defect is, worst first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum DefectSeverity {
        /// Control over the node, or no pod works: CVSS 7.0 and higher.
        High = "high",
        /// Data, memory or connections are lost in common use: CVSS 4.0 to 6.9.
        Medium = "medium",
        /// Rare, or of little effect.
        Low = "low",
    }
}

named_enum! {
    /// What the pods of a pool may use, and some defects depend on. The names are those after `pods with`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum PodFeature {
        /// A probe that runs a command in the container.
        ExecProbe = "exec probes",
        /// The same in a HostProcess container.
        HostProcessExecProbe = "exec probes in HostProcess containers",
        /// A HostProcess container.
        HostProcess = "HostProcess containers",
        /// At least two mounts with `subPath` or `subPathExpr`.
        SubPaths = "several subPath mounts",
        /// A volume of a plugin in the kubelet that mounts a device or a share.
        InTreeVolume = "in-tree volumes",
        /// A PersistentVolumeClaim.
        VolumeClaim = "PersistentVolumeClaims",
        /// A volume with the content of an image.
        ImageVolume = "image volumes",
        /// A command that runs after the start of a container.
        PostStartHook = "postStart hooks",
        /// The user of Linux with which containers would run.
        RunAsUser = "runAsUser",
        /// The name of a credential spec.
        Gmsa = "a gMSA",
    }
}

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodFeatures(u16);

impl PodFeatures {
    /// The features for which `holds` is true.
    pub fn of(holds: impl Fn(PodFeature) -> bool) -> Self {
        Self(PodFeature::ALL.into_iter().filter(|feature| holds(*feature)).fold(0, |set, one| set | Self::bit(one)))
    }

    /// The features of the set.
    pub fn iter(self) -> impl Iterator<Item = PodFeature> {
        PodFeature::ALL.into_iter().filter(move |feature| self.0 & Self::bit(*feature) != 0)
    }

    const fn bit(feature: PodFeature) -> u16 {
        1 << feature as u8
    }
}

/// What the Services of Windows pods may use, and some defects of kube-proxy depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceFeature {
    /// `internalTrafficPolicy: Local`.
    InternalTrafficLocal,
    /// `externalTrafficPolicy: Local`.
    ExternalTrafficLocal,
    /// `ipFamilyPolicy: RequireDualStack`. Whether PreferDualStack gives two families depends on the cluster.
    DualStack,
}

impl ServiceFeature {
    /// Every feature.
    pub const ALL: [Self; 3] = [Self::InternalTrafficLocal, Self::ExternalTrafficLocal, Self::DualStack];

    /// The field of the Service and its value.
    pub const fn field(self) -> (&'static str, &'static str) {
        match self {
            Self::InternalTrafficLocal => ("internalTrafficPolicy", "Local"),
            Self::ExternalTrafficLocal => ("externalTrafficPolicy", "Local"),
            Self::DualStack => ("ipFamilyPolicy", "RequireDualStack"),
        }
    }
}

impl fmt::Display for ServiceFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (field, value) = self.field();
        write!(f, "`{field}: {value}`")
    }
}

/// What a defect depends on besides the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precondition {
    /// Nothing.
    Always,
    /// Pods of the pool use this.
    Pods(PodFeature),
    /// Services of the pods of the pool use this.
    Services(ServiceFeature),
    /// Something that winpool does not read, as in `depends on …`.
    Unread(&'static str),
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Pods(feature) => write!(f, "pods with {}", feature.name()),
            Self::Services(feature) => write!(f, "a Service with {feature}"),
            Self::Unread(what) => f.write_str(what),
        }
    }
}

/// A known defect. They are ordered worst first, then by id.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownIssue {
    /// How bad it is.
    pub severity: DefectSeverity,
    /// Its name, a CVE, a KB, or the project and the number of the thread; what happens; what to do besides an upgrade to a fixed
    /// version; and the thread or advisory that was read: `owner/repository#number`, or an identifier of an advisory.
    pub entry: Entry,
    /// The component with the defect.
    pub component: NodeComponent,
    /// The affected versions of the component, in order and without overlap.
    pub affected: &'static [AffectedVersions],
    /// What it depends on besides the version.
    pub precondition: Precondition,
    /// The date of the newest statement in the source that was read; of a page without a date, when it was read.
    pub date: Date,
}

impl KnownIssue {
    /// The range with a version of the component, if it has the defect.
    pub fn range(&self, version: ComponentVersion) -> Option<&'static AffectedVersions> {
        self.affected.iter().find(|range| range.contains(version))
    }

    /// The fixed versions, oldest first.
    pub fn fixed(&self) -> impl Iterator<Item = ComponentVersion> {
        self.affected.iter().filter_map(|range| range.fixed)
    }
}

/// The issue with this id, in any case.
pub fn known_issue(id: &str) -> Option<&'static KnownIssue> {
    KNOWN_ISSUES.iter().find(|issue| issue.entry.code.eq_ignore_ascii_case(id))
}

/// The first release of containerd with each version of hcsshim, by line; the last row of a line holds until its end.
const HCSSHIM: &[([u32; 3], [u32; 3])] = &[
    ([1, 5, 0], [0, 8, 16]),
    ([1, 5, 3], [0, 8, 18]),
    ([1, 5, 6], [0, 8, 21]),
    ([1, 5, 8], [0, 8, 23]),
    ([1, 5, 11], [0, 8, 24]),
    ([1, 5, 17], [0, 8, 25]),
    ([1, 6, 0], [0, 9, 2]),
    ([1, 6, 5], [0, 9, 3]),
    ([1, 6, 7], [0, 9, 4]),
    ([1, 6, 10], [0, 9, 5]),
    ([1, 6, 13], [0, 9, 6]),
    ([1, 6, 19], [0, 9, 7]),
    ([1, 6, 20], [0, 9, 8]),
    ([1, 6, 23], [0, 9, 10]),
    ([1, 6, 32], [0, 9, 11]),
    ([1, 6, 34], [0, 9, 12]),
    ([1, 7, 0], [0, 10, 0]),
    ([1, 7, 6], [0, 11, 0]),
    ([1, 7, 7], [0, 11, 1]),
    ([1, 7, 9], [0, 11, 4]),
    ([1, 7, 17], [0, 11, 5]),
    ([1, 7, 19], [0, 11, 7]),
    ([2, 0, 0], [0, 12, 9]),
    ([2, 1, 0], [0, 13, 0]),
    ([2, 2, 0], [0, 14, 0]),
    ([2, 2, 3], [0, 14, 1]),
    ([2, 3, 0], [0, 15, 0]),
    ([2, 4, 0], [0, 15, 0]),
];

/// The hcsshim of a release of containerd, if its line is known.
pub fn hcsshim_of(containerd: ContainerdVersion) -> Option<ComponentVersion> {
    let containerd = ComponentVersion::from(containerd);
    let rows = HCSSHIM.iter().map(|(release, shim)| (ComponentVersion(*release), ComponentVersion(*shim)));
    rows.filter(|(release, _)| release.is_of_line(containerd) && *release <= containerd)
        .map(|(_, shim)| shim)
        .next_back()
}

/// The first release of containerd of the same line with this hcsshim or a later one.
pub fn containerd_with(hcsshim: ComponentVersion) -> Option<ComponentVersion> {
    let with = HCSSHIM.iter().find(|(_, shim)| ComponentVersion(*shim) >= hcsshim)?;
    Some(ComponentVersion(with.0))
}

/// Kubernetes from 1.`from`.0 to the release before 1.`minor`.`patch`.
const fn kube(from: u32, minor: u32, patch: u32) -> AffectedVersions {
    before([1, from, 0], [1, minor, patch])
}

const fn before(from: [u32; 3], fixed: [u32; 3]) -> AffectedVersions {
    AffectedVersions { from: ComponentVersion(from), fixed: Some(ComponentVersion(fixed)) }
}

const fn without_fix(from: [u32; 3]) -> AffectedVersions {
    AffectedVersions { from: ComponentVersion(from), fixed: None }
}

const GIT_REPO: &str = "volumes of type gitRepo, and git on the node";
const CLONE: &str = "clone in an init container";

use DefectSeverity::{High, Low, Medium};
use NodeComponent::{Containerd, CsiProxy, Hcsshim, KubeProxy, Kubelet, Windows};
use Precondition::{Always, Pods, Services, Unread};

/// The repositories of threads.
macro_rules! thread {
    (k8s $number:literal) => {
        concat!("kubernetes/kubernetes#", $number)
    };
    (containerd $number:literal) => {
        concat!("containerd/containerd#", $number)
    };
    (hcsshim $number:literal) => {
        concat!("microsoft/hcsshim#", $number)
    };
}

/// A row: severity, id and component; the affected versions; precondition, summary, workaround; source and date.
macro_rules! issues {
    ($($severity:ident $id:literal $component:ident [$($range:expr),+] $precondition:expr, $summary:expr, $workaround:expr,
        $source:expr, $date:expr;)*) => {
        &[$(KnownIssue {
            severity: $severity,
            entry: Entry { code: $id, title: $summary, why: "", remedy: $workaround, source: $source },
            component: $component,
            affected: &[$($range),+],
            precondition: $precondition,
            date: $date,
        }),*]
    };
}

/// Every known issue, worst first, then by id.
#[rustfmt::skip]
pub const KNOWN_ISSUES: &[KnownIssue] = issues! {
    High "CVE-2023-3676" Kubelet [kube(0, 24, 17), kube(25, 25, 13), kube(26, 26, 8), kube(27, 27, 5), kube(28, 28, 1)]
        Always, "who can create pods can become administrator of the node", "",
        thread!(k8s 119339), date(2023, 8, 23);
    High "CVE-2023-3893" CsiProxy [before([0, 1, 0], [1, 1, 3])]
        Always, "who can create pods can become administrator of the node", "",
        thread!(k8s 119594), date(2023, 8, 23);
    High "CVE-2023-3955" Kubelet [kube(0, 24, 17), kube(25, 25, 13), kube(26, 26, 8), kube(27, 27, 5), kube(28, 28, 1)]
        Always, "who can create pods can become administrator of the node", "",
        thread!(k8s 119595), date(2023, 8, 23);
    High "CVE-2023-5528" Kubelet [kube(8, 25, 16), kube(26, 26, 11), kube(27, 27, 8), kube(28, 28, 4)]
        Pods(PodFeature::InTreeVolume), "who can create pods and PersistentVolumes can become administrator of the node",
        "use volumes of CSI drivers only", thread!(k8s 121879), date(2023, 11, 14);
    High "CVE-2024-10220" Kubelet [kube(0, 28, 12), kube(29, 29, 7), kube(30, 30, 3)]
        Unread(GIT_REPO), "who can create pods can run programs on the node, by the hooks of a git repository", CLONE,
        thread!(k8s 128885), date(2024, 11, 20);
    High "CVE-2026-53488" Containerd [
        before([1, 7, 0], [1, 7, 33]), before([2, 0, 0], [2, 0, 10]), before([2, 1, 0], [2, 1, 9]), before([2, 2, 0], [2, 2, 5]),
        before([2, 3, 0], [2, 3, 2])
    ]
        Always, "an image can run a program of the node as administrator, by its labels", "use trusted images only",
        "GHSA-xhf5-7wjv-pqxp", date(2026, 6, 25);
    High "CVE-2026-95839" Containerd [before([2, 2, 0], [2, 2, 10]), before([2, 3, 0], [2, 3, 7]), before([2, 4, 0], [2, 4, 2])]
        Always, "an image can end the process of containerd when it is pulled", "use trusted images only",
        "GHSA-vwhp-8p66-mq4f", date(2026, 11, 16);
    High "KB5040437" Windows [before([10, 20348, 2582], [10, 20348, 2762])]
        Unread("a network of Calico"),
        "pods cannot reach other pods and external networks; KB5044281 fixes it", "",
        "microsoft/Windows-Containers#516, projectcalico/calico#8529", date(2024, 10, 16);
    High "kubernetes-126965" Kubelet [kube(31, 31, 1)]
        Always, "the kubelet does not start again, because its socket exists", r"delete C:\var\lib\kubelet\device-plugins\kubelet.sock before each start",
        thread!(k8s 126965), date(2024, 9, 3);
    Medium "CVE-2022-23471" Containerd [before([1, 0, 0], [1, 5, 16]), before([1, 6, 0], [1, 6, 12])]
        Always, "commands with a terminal that fail to start leak memory of containerd", "allow `pods/exec` to trusted users only",
        "GHSA-2qjp-425j-52j9", date(2022, 12, 8);
    Medium "CVE-2022-31030" Containerd [before([1, 0, 0], [1, 5, 13]), before([1, 6, 0], [1, 6, 6])]
        Pods(PodFeature::ExecProbe), "the output of an exec probe can exhaust the memory of the node", "use `httpGet` or `tcpSocket` probes",
        "GHSA-5ffw-gxpp-mxpf", date(2022, 6, 9);
    Medium "CVE-2024-5321" Kubelet [kube(0, 27, 16), kube(28, 28, 12), kube(29, 29, 7), kube(30, 30, 3)]
        Always, "users of the node can read and change the logs of containers", "",
        thread!(k8s 126161), date(2024, 7, 17);
    Medium "CVE-2024-9042" Kubelet [kube(27, 29, 13), kube(30, 30, 9), kube(31, 31, 5), kube(32, 32, 1)]
        Always, "who can query `nodes/*/logs` can run commands on the node",
        "disable the feature gate NodeLogQuery", thread!(k8s 129654), date(2025, 1, 15);
    Medium "CVE-2025-1767" Kubelet [kube(0, 33, 0)]
        Unread(GIT_REPO), "who can create pods can read git repositories on the node", CLONE,
        thread!(k8s 130786), date(2025, 3, 13);
    Medium "CVE-2025-64329" Containerd [before([1, 0, 0], [1, 7, 29]), before([2, 0, 0], [2, 0, 7]), before([2, 1, 0], [2, 1, 5])]
        Always, "each `kubectl attach` can leak memory of containerd", "allow `pods/attach` to trusted users only",
        "GHSA-m6hq-p25p-ffr2", date(2025, 11, 7);
    Medium "CVE-2026-35469" Containerd [
        before([1, 0, 0], [1, 7, 31]), before([2, 0, 0], [2, 0, 8]), before([2, 1, 0], [2, 1, 7]), before([2, 2, 0], [2, 2, 3])
    ]
        Always, "a client of exec, attach or port-forward can exhaust the memory of containerd",
        "allow `pods/exec`, `pods/attach` and `pods/portforward` to trusted users only", "GHSA-pc3f-x583-g7j2", date(2026, 6, 19);
    Medium "CVE-2026-47262" Containerd [
        before([1, 7, 0], [1, 7, 33]), before([2, 0, 0], [2, 0, 10]), before([2, 1, 0], [2, 1, 9]), before([2, 2, 0], [2, 2, 5]),
        before([2, 3, 0], [2, 3, 2])
    ]
        Always, "an image can exhaust the memory of containerd when its container is created", "use trusted images only",
        "GHSA-jpcc-p29g-p8mq", date(2026, 6, 19);
    Medium "CVE-2026-53493" Containerd [
        before([1, 0, 0], [1, 7, 36]), before([2, 0, 0], [2, 0, 13]), before([2, 1, 0], [2, 2, 9]), before([2, 3, 0], [2, 3, 6]),
        before([2, 4, 0], [2, 4, 1])
    ]
        Always, "the index of an image can exhaust the memory of containerd when it is pulled", "use trusted images only",
        "GHSA-pg57-6jwg-q645", date(2026, 9, 24);
    Medium "CVE-2026-53495" Containerd [
        before([1, 0, 0], [1, 7, 35]), before([2, 0, 0], [2, 0, 12]), before([2, 1, 0], [2, 2, 8]), before([2, 3, 0], [2, 3, 5])
    ]
        Pods(PodFeature::ExecProbe), "the commands of exec probes can leak memory of containerd", "use `httpGet` or `tcpSocket` probes",
        "GHSA-7jxh-36q5-gcqv", date(2026, 9, 4);
    Medium "containerd-12781" Containerd [without_fix([1, 6, 13])]
        Pods(PodFeature::HostProcessExecProbe),
        "each exec probe in a HostProcess container leaks memory of its containerd-shim-runhcs-v1.exe",
        "use `httpGet` or `tcpSocket` probes, or restart these pods regularly",
        "containerd/containerd#12781, microsoft/hcsshim#2217", date(2026, 1, 16);
    Medium "containerd-5067" Containerd [before([1, 0, 0], [1, 6, 21])]
        Unread("an image with ENTRYPOINT or CMD in shell form"), "containers whose image has ENTRYPOINT or CMD in shell form do not start",
        "write both in exec form", thread!(containerd 5067), date(2023, 5, 5);
    Medium "containerd-5405" Containerd [before([1, 0, 0], [1, 5, 3])]
        Pods(PodFeature::VolumeClaim), "containers with a disk of a CSI driver do not start", "",
        thread!(containerd 5405), date(2021, 5, 26);
    Medium "containerd-8171" Containerd [before([1, 0, 0], [2, 0, 0])]
        Unread("an image with VOLUME on another drive than C:"), "containers whose image has VOLUME on another drive than C: do not start",
        "remove this VOLUME from the image", thread!(containerd 8171), date(2023, 6, 8);
    Medium "hcsshim-1574" Hcsshim [before([0, 8, 0], [0, 8, 25]), before([0, 9, 0], [0, 9, 6])]
        Pods(PodFeature::ExecProbe), "each exec probe leaks memory of its containerd-shim-runhcs-v1.exe", "use `httpGet` or `tcpSocket` probes",
        thread!(hcsshim 1574), date(2022, 12, 13);
    Medium "kubernetes-112630" Kubelet [kube(0, 37, 0)]
        Pods(PodFeature::SubPaths), "pods with several subPath mounts stay Terminating, because handles to files are leaked",
        "mount at most one subPath for each pod", thread!(k8s 138367), date(2026, 7, 31);
    Medium "kubernetes-114211" Kubelet [kube(0, 27, 0)]
        Unread("more than 64 logical processors"), "CPU limits have no effect on nodes with more than one processor group", "",
        thread!(k8s 114231), date(2022, 12, 6);
    Medium "kubernetes-115783" KubeProxy [kube(26, 26, 3)]
        Services(ServiceFeature::ExternalTrafficLocal),
        "Services with `externalTrafficPolicy: Local` have no cluster IP on nodes without their endpoints",
        "use `externalTrafficPolicy: Cluster`", thread!(k8s 115783), date(2023, 2, 28);
    Medium "kubernetes-125012" Kubelet [kube(21, 29, 13), kube(30, 30, 9)]
        Pods(PodFeature::RunAsUser), "pods with runAsUser do not start, because their token gets no owner", "remove `runAsUser`",
        thread!(k8s 125040), date(2025, 1, 7);
    Medium "kubernetes-130356" Kubelet [kube(32, 32, 3)]
        Always, "after a restart, the kubelet may not report its status or renew its certificate", "",
        thread!(k8s 130356), date(2026, 7, 31);
    Medium "kubernetes-130496" Kubelet [kube(32, 32, 3)]
        Pods(PodFeature::PostStartHook), "pods with postStart hooks may not start", "",
        thread!(k8s 130496), date(2026, 7, 31);
    Medium "kubernetes-131427" KubeProxy [kube(31, 31, 9), kube(32, 32, 5), kube(33, 33, 1)]
        Always, "no endpoint is created while a remote endpoint has its IP address, so that Services do not reach it", "restart kube-proxy",
        thread!(k8s 131427), date(2026, 7, 31);
    Medium "kubernetes-131506" KubeProxy [kube(31, 32, 6), kube(33, 33, 2)]
        Always, "changes of the endpoints of a Service may not reach HNS", "restart kube-proxy",
        thread!(k8s 131649), date(2025, 6, 5);
    Medium "kubernetes-134031" KubeProxy [kube(27, 31, 14), kube(32, 32, 10), kube(33, 33, 6), kube(34, 34, 2)]
        Services(ServiceFeature::InternalTrafficLocal), "the load balancers of Services with `internalTrafficPolicy: Local` are deleted at times",
        "use `internalTrafficPolicy: Cluster`", thread!(k8s 134031), date(2026, 7, 31);
    Medium "kubernetes-135146" KubeProxy [kube(0, 32, 10), kube(33, 33, 6), kube(34, 34, 2)]
        Unread("several Services of one Deployment"), "endpoints of removed pods stay where several Services select one Deployment",
        "restart kube-proxy", thread!(k8s 135146), date(2026, 7, 31);
    Medium "kubernetes-135631" KubeProxy [kube(34, 34, 4), kube(35, 35, 1)]
        Always, "rules that HNS lost are not restored until a Service changes", "restart kube-proxy",
        thread!(k8s 135631), date(2026, 7, 31);
    Medium "kubernetes-136241" KubeProxy [kube(0, 33, 8), kube(34, 34, 4), kube(35, 35, 1)]
        Services(ServiceFeature::DualStack),
        "IPv4 and IPv6 share a load balancer, so that dual-stack Services fail", "use `ipFamilyPolicy: SingleStack`",
        thread!(k8s 136373), date(2026, 2, 5);
    Medium "kubernetes-138000" KubeProxy [kube(0, 34, 8), kube(35, 35, 5), kube(36, 36, 1)]
        Unread("an L2Bridge network"), "traffic goes to the wrong node after a pod IP was used again, as in DNS timeouts",
        "restart kube-proxy", thread!(k8s 138000), date(2026, 7, 31);
    Medium "kubernetes-140066" Kubelet [kube(36, 36, 3)]
        Always, "the kubelet leaks memory with each sync of a pod", "restart the kubelet regularly",
        thread!(k8s 140066), date(2026, 7, 31);
    Low "AKS-2988" Windows [before([10, 17763, 1], [10, 20348, 1])]
        Always, "answers to DNS requests of containers may be lost", "",
        "Azure/AKS#2988", date(2024, 9, 18);
    Low "KB4482887" Windows [before([10, 17763, 1], [10, 17763, 348])]
        Unread("an overlay network"), "kube-proxy does not support overlay networks; KB4482887 adds it", "",
        "kubernetes/website, intro-windows-in-kubernetes.md", date(2019, 3, 1);
    Low "KB4489899" Windows [before([10, 17763, 1], [10, 17763, 379])]
        Unread("an overlay network"), "overlay networks cannot be created; KB4489899 adds them", "",
        "kubernetes/website, windows-networking.md", date(2026, 11, 26);
    Low "KB5000822" Windows [before([10, 17763, 1], [10, 17763, 1817])]
        Pods(PodFeature::Gmsa), "containers of containerd cannot use a gMSA; KB5000822 fixes it", "",
        "kubernetes/website#31412", date(2022, 1, 19);
    Low "Windows-19041.610" Windows [before([10, 19041, 1], [10, 19041, 610])]
        Unread("IPv6"), "IPv6 does not work with Kubernetes", "use IPv4",
        "kubernetes/website, intro-windows-in-kubernetes.md", date(2026, 11, 26);
    Low "containerd-10071" Containerd [before([1, 7, 0], [1, 7, 19])]
        Pods(PodFeature::HostProcess), "HostProcess containers begin in C:\\ instead of C:\\hpc", "set `workingDir`",
        thread!(containerd 10071), date(2024, 4, 12);
    Low "containerd-13837" Containerd [
        before([1, 0, 0], [1, 7, 35]), before([2, 0, 0], [2, 0, 12]), before([2, 1, 0], [2, 2, 7]), before([2, 3, 0], [2, 3, 4])
    ]
        Always, "the log of containerd-shim-runhcs-v1.exe may contain secrets, such as environment variables",
        "set `ScrubLogs = true` for the runtime", thread!(containerd 13882), date(2026, 7, 31);
    Low "containerd-image-volumes" Containerd [without_fix([1, 0, 0])]
        Pods(PodFeature::ImageVolume), "containerd does not support image volumes on Windows",
        "copy the files with an init container", thread!(containerd 11903), date(2026, 5, 28);
    Low "kubernetes-138727" Kubelet [kube(31, 37, 0)]
        Always, "the kubelet panics if the memory of the node cannot be read", "",
        thread!(k8s 138727), date(2026, 7, 31);
    Low "kubernetes-138937" Kubelet [kube(35, 37, 0)]
        Unread("maxParallelImagePulls above 31"), "the kubelet panics when it checks credentials of pulled images",
        "set maxParallelImagePulls to at most 31", thread!(k8s 138937), date(2026, 8, 26);
    Low "kubernetes-139239" Kubelet [kube(32, 38, 0)]
        Unread(r"C:\var on another volume"), "logs of containers cannot be read", "keep the logs of containers on the volume of Windows",
        thread!(k8s 141699), date(2026, 9, 20);
    Low "kubernetes-139503" KubeProxy [kube(0, 37, 0)]
        Always, "after a restart of HNS, load balancers of Services are not created (0xb7)", "restart kube-proxy",
        thread!(k8s 139503), date(2026, 8, 26);
    Low "kubernetes-139684" Kubelet [kube(32, 37, 0)]
        Unread("static CPU manager and memory manager together"), "containers run on CPUs that others have exclusively",
        "set `memoryManagerPolicy: None`", thread!(k8s 139684), date(2026, 8, 26);
    Low "kubernetes-141489" KubeProxy [kube(0, 36, 5), kube(37, 37, 1)]
        Always, "kube-proxy panics at a load balancer of HNS without ports, which a failed creation leaves", "",
        thread!(k8s 141489), date(2026, 9, 12);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The page docs/known-issues.md has the ranges of every issue.
    #[test]
    fn a_version_is_affected_from_the_first_of_a_range_to_before_the_fixed_one() {
        let table: [(&str, [u32; 3], Option<Option<[u32; 3]>>); 34] = [
            ("cve-2024-5321", [1, 29, 0], Some(Some([1, 29, 7]))),
            ("CVE-2024-5321", [1, 29, 6], Some(Some([1, 29, 7]))),
            ("CVE-2024-5321", [1, 29, 7], None),
            ("CVE-2024-5321", [1, 30, 2], Some(Some([1, 30, 3]))),
            ("CVE-2024-5321", [1, 31, 0], None),
            ("KB5040437", [10, 20348, 2529], None),
            ("KB5040437", [10, 20348, 2655], Some(Some([10, 20348, 2762]))),
            ("KB5000822", [10, 17763, 1790], Some(Some([10, 17763, 1817]))),
            ("containerd-12781", [1, 6, 12], None),
            ("containerd-12781", [1, 7, 30], Some(None)),
            ("CVE-2026-53488", [1, 6, 39], None),
            ("CVE-2026-53488", [2, 2, 4], Some(Some([2, 2, 5]))),
            ("CVE-2026-53488", [2, 3, 2], None),
            ("CVE-2026-35469", [2, 1, 6], Some(Some([2, 1, 7]))),
            ("CVE-2026-35469", [2, 3, 0], None),
            ("CVE-2026-53493", [2, 4, 0], Some(Some([2, 4, 1]))),
            ("CVE-2026-95839", [2, 1, 9], None),
            ("CVE-2026-95839", [2, 2, 9], Some(Some([2, 2, 10]))),
            ("CVE-2026-95839", [2, 4, 1], Some(Some([2, 4, 2]))),
            ("CVE-2026-47262", [2, 3, 1], Some(Some([2, 3, 2]))),
            ("containerd-10071", [1, 7, 18], Some(Some([1, 7, 19]))),
            ("containerd-13837", [2, 0, 12], None),
            ("containerd-8171", [1, 7, 36], Some(Some([2, 0, 0]))),
            ("kubernetes-115783", [1, 26, 2], Some(Some([1, 26, 3]))),
            ("CVE-2026-53495", [1, 7, 34], Some(Some([1, 7, 35]))),
            ("containerd-5067", [1, 7, 0], None),
            ("kubernetes-114211", [1, 26, 15], Some(Some([1, 27, 0]))),
            ("kubernetes-125012", [1, 30, 8], Some(Some([1, 30, 9]))),
            ("kubernetes-126965", [1, 31, 0], Some(Some([1, 31, 1]))),
            ("kubernetes-139239", [1, 37, 2], Some(Some([1, 38, 0]))),
            ("kubernetes-141489", [1, 36, 4], Some(Some([1, 36, 5]))),
            ("CVE-2024-10220", [1, 30, 2], Some(Some([1, 30, 3]))),
            ("CVE-2025-1767", [1, 32, 13], Some(Some([1, 33, 0]))),
            ("AKS-2988", [10, 20348, 5870], None),
        ];
        for (id, version, expected) in table {
            let fixed = known_issue(id).unwrap().range(ComponentVersion(version)).map(|range| range.fixed);
            assert_eq!(fixed, expected.map(|fixed| fixed.map(ComponentVersion)), "{id}: {version:?}");
        }
    }

    #[test]
    fn ranges_are_well_formed_ordered_and_do_not_overlap() {
        for issue in KNOWN_ISSUES {
            assert!(!issue.affected.is_empty(), "{}", issue.entry.code);
            assert!(
                issue.affected.iter().all(|range| range.fixed.is_none_or(|fixed| range.from < fixed)),
                "{}",
                issue.entry.code
            );
            let follows = |pair: &[AffectedVersions]| pair[0].fixed.is_some_and(|fixed| fixed <= pair[1].from);
            assert!(issue.affected.windows(2).all(follows), "{}", issue.entry.code);
        }
    }

    #[test]
    fn issues_are_ordered_worst_first_and_have_texts_for_a_table() {
        assert!(KNOWN_ISSUES.len() >= 25);
        assert!(KNOWN_ISSUES.is_sorted_by_key(|issue| (issue.severity, issue.entry.code)));
        for issue in KNOWN_ISSUES {
            let Entry { title, remedy, source, .. } = issue.entry;
            for text in [title, remedy, &issue.precondition.to_string(), source] {
                assert!(!text.contains('|') && !text.ends_with('.'), "{}: {text}", issue.entry.code);
            }
            assert!(title.split(' ').count() > 3 && issue.date < date(2026, 11, 27), "{}", issue.entry.code);
        }
    }

    #[test]
    fn hcsshim_follows_from_the_release_of_containerd() {
        let table = [
            ("1.4.13", None),
            ("1.6.12", Some([0, 9, 5])),
            ("1.6.13", Some([0, 9, 6])),
            ("1.6.39", Some([0, 9, 12])),
            ("2.2.7", Some([0, 14, 1])),
            ("2.4.2", Some([0, 15, 0])),
            ("2.9.0", None),
        ];
        for (containerd, expected) in table {
            assert_eq!(hcsshim_of(containerd.parse().unwrap()), expected.map(ComponentVersion), "{containerd}");
        }
        assert_eq!(containerd_with(ComponentVersion([0, 9, 6])), Some(ComponentVersion([1, 6, 13])));
        assert_eq!(containerd_with(ComponentVersion([0, 99, 0])), None);
        assert!(HCSSHIM.is_sorted());
    }

    #[test]
    fn a_component_is_recognised_by_its_image() {
        let table = [
            ("sigwindowstools/kube-proxy:v1.33.1-calico-hostprocess", Some((KubeProxy, [1, 33, 1]))),
            ("registry.example:5000/kube-proxy-windows:v1.34.0@sha256:00", Some((KubeProxy, [1, 34, 0]))),
            ("ghcr.io/kubernetes-sigs/sig-windows/csi-proxy:v1.1.2", Some((CsiProxy, [1, 1, 2]))),
            ("registry.example:5000/kube-proxy", None),
            ("kube-proxy:latest", None),
            ("kube-proxy:2", None),
            ("mirror/kube-proxy-metrics:v1.0.0", None),
        ];
        for (image, expected) in table {
            let expected = expected.map(|(component, version)| (component, ComponentVersion(version)));
            assert_eq!(NodeComponent::of_image(image), expected, "{image}");
        }
    }

    #[test]
    fn a_set_has_the_features_that_were_found() {
        let found = [PodFeature::ExecProbe, PodFeature::PostStartHook];
        let set = PodFeatures::of(|feature| found.contains(&feature));
        assert_eq!(set.iter().collect::<Vec<_>>(), found);
        assert_eq!(PodFeatures::default().iter().count(), 0);
    }
}
