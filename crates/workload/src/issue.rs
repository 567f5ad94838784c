//! The problems that a workload can have, and their messages.

use std::fmt;

use derive_more::Display;
use winpool_api::Taint;
use winpool_core::{
    ForeignText,
    image::{EvidenceSource, Incompatibility},
    kubernetes::quantity::Quantity,
    text::{capitalised, some_of},
};
use winpool_facts::{
    Build, ContainerdVersion, OsVersion,
    builds::{self, Channel},
    named_enum, version_compatibility,
    windows_updates::{self, Behind},
};

use super::{
    VolumeIssue,
    placement::{NodeLabel, Unschedulable},
};

named_enum! {
    /// The kinds of problems, worst first. The name of each is a reason of the condition `WorkloadsPlaced`, or of `OSMismatch`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum IssueKind {
        ImagesCannotRun,
        RevisionTooOld,
        Unschedulable,
        DriverNotRegistered,
        VolumeNotSupported,
        AttachLimitReached,
        DaemonSetNotTolerating,
        DaemonSetIgnoresRuntimeClass,
        LinuxPodOnWindowsNode,
        LinuxPodMayLand,
        NotReschedulable,
        RuntimeClassChanged,
        MemoryOvercommitted,
        ImageUpdatesBehind,
        MemoryNotReserved,
        FieldsWithoutEffect,
    }
}

impl IssueKind {
    /// Whether it is a reason of `OSMismatch`.
    pub fn is_os_mismatch(self) -> bool {
        matches!(self, Self::ImagesCannotRun | Self::RevisionTooOld)
    }

    /// Whether it is a warning only: nothing fails because of it today.
    pub fn is_advice(self) -> bool {
        matches!(self, Self::ImageUpdatesBehind | Self::MemoryNotReserved | Self::FieldsWithoutEffect)
    }
}

/// A problem of a workload. Its text follows the name of the workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum WorkloadIssue {
    #[display(
        "the pod sandbox does not start on {host}. The container runtime reports: {error}. Configure a pause image with an \
         entry for {} on the node",
        base_image(host.build)
    )]
    SandboxCannotStart { host: OsVersion, error: ForeignText },
    /// An image does not run on a node.
    ImageCannotRun(ImageIssue),
    #[display(
        "{image} may fail to start on {host}: according to its registry it is for {}, a later update of the same Windows. \
         Install Windows updates on the node, or use an earlier image",
        windows_updates::described(*os)
    )]
    ImageNewerThanHost { image: ForeignText, os: OsVersion, host: OsVersion },
    #[display("{}. Rebuild it on a newer base image", image_behind(image, *os, *behind))]
    ImageUpdatesBehind { image: ForeignText, os: OsVersion, behind: Behind },
    #[display("new pods cannot be scheduled to any pool: {_0}")]
    Unschedulable(Unschedulable),
    #[display(
        "selects nodes of pool {pool} and gets no pod there, because it does not tolerate {taint}. Add the toleration to its \
         template"
    )]
    DaemonSetNotTolerating { pool: String, taint: Taint },
    #[display(
        "relies on RuntimeClass {class}, whose selector and tolerations the DaemonSet controller ignores. Add {} to the \
         nodeSelector of its template, and the tolerations of the class",
        some_of(missing.iter().map(ToString::to_string))
    )]
    DaemonSetIgnoresRuntimeClass {
        class: String,
        /// The labels that only the RuntimeClass selects.
        missing: Vec<NodeLabel>,
    },
    #[display(
        "is for Linux and runs on a Windows node. A NoSchedule taint does not evict it. Delete the pod, and select \
         kubernetes.io/os=linux in its spec"
    )]
    LinuxPodOnWindowsNode,
    /// The scheduler may choose a Windows node for a pod that is not for Windows.
    #[display(
        "{} and could be scheduled to the nodes of this pool. Select kubernetes.io/os=linux{}",
        if *declared { "is for Linux" } else { "does not declare its operating system" },
        if *declared { " as well" } else { "" }
    )]
    LinuxPodMayLand { declared: bool },
    #[display("cannot be created again after a restart: {_0}")]
    CannotBeCreatedAgain(Unschedulable),
    #[display(
        "is running and would not be scheduled here after a restart: it does not tolerate {taint}{}. Add the toleration{}",
        if *withheld { ", which the pool has not set yet" } else { "" },
        if *of_daemon_set { " to the template of the DaemonSet" } else { ", or use a RuntimeClass of the pool" }
    )]
    NotReschedulable {
        taint: Taint,
        /// Whether the pool has not set the taint yet: it does not write, or the taint waits for pods.
        withheld: bool,
        /// Whether a DaemonSet created it, whose controller ignores a RuntimeClass.
        of_daemon_set: bool,
    },
    #[display(
        "was created when RuntimeClass {class} selected {}, and the class now selects {key}={now}. Restart the pod to move it",
        before.as_ref().map_or_else(|| format!("no {key}"), |value| format!("{key}={value}"))
    )]
    RuntimeClassChanged {
        class: String,
        key: String,
        /// The value that the pod selects; `None` if it does not select this label.
        before: Option<String>,
        now: String,
    },
    #[display(
        "has {} of allocatable memory and pods with limits of {} in total. Windows then uses the page file, which slows down \
         every pod on the node. Lower the limits, or move pods to other nodes",
        Quantity::of_bytes(*allocatable),
        bytes_at_most(*limits)
    )]
    MemoryOvercommitted {
        /// The allocatable memory in bytes.
        allocatable: i64,
        /// The sum of the limits in bytes.
        limits: i128,
    },
    #[display(
        "container {container} has no memory limit, and Windows uses the page file instead of killing processes. Set a limit, \
         and a request of the same size"
    )]
    NoMemoryLimit { container: String },
    #[display(
        "container {container} requests {} of memory with a limit of {}, and Windows uses the page file instead of killing \
         processes. Set the request to the limit",
        Quantity::of_bytes(*request),
        Quantity::of_bytes(*limit)
    )]
    MemoryRequestBelowLimit {
        container: String,
        /// The request in bytes.
        request: i64,
        /// The limit in bytes.
        limit: i64,
    },
    /// Fields that Windows ignores or rejects, by path.
    #[display("uses fields that Windows ignores or rejects: {}. Remove them", some_of(_0))]
    FieldsWithoutEffect(Vec<String>),
    /// A volume that the node of a pod does not mount.
    Volume(VolumeIssue),
}

impl WorkloadIssue {
    pub fn kind(&self) -> IssueKind {
        match self {
            Self::SandboxCannotStart { .. } | Self::ImageCannotRun(_) => IssueKind::ImagesCannotRun,
            Self::ImageNewerThanHost { .. } => IssueKind::RevisionTooOld,
            Self::Unschedulable(_) => IssueKind::Unschedulable,
            Self::DaemonSetNotTolerating { .. } => IssueKind::DaemonSetNotTolerating,
            Self::DaemonSetIgnoresRuntimeClass { .. } => IssueKind::DaemonSetIgnoresRuntimeClass,
            Self::LinuxPodOnWindowsNode => IssueKind::LinuxPodOnWindowsNode,
            Self::LinuxPodMayLand { .. } => IssueKind::LinuxPodMayLand,
            Self::CannotBeCreatedAgain(_) | Self::NotReschedulable { .. } => IssueKind::NotReschedulable,
            Self::RuntimeClassChanged { .. } => IssueKind::RuntimeClassChanged,
            Self::MemoryOvercommitted { .. } => IssueKind::MemoryOvercommitted,
            Self::ImageUpdatesBehind { .. } => IssueKind::ImageUpdatesBehind,
            Self::NoMemoryLimit { .. } | Self::MemoryRequestBelowLimit { .. } => IssueKind::MemoryNotReserved,
            Self::FieldsWithoutEffect(_) => IssueKind::FieldsWithoutEffect,
            Self::Volume(issue) => issue.kind(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageIssue {
    pub image: ForeignText,
    pub host: OsVersion,
    pub source: EvidenceSource,
    pub incompatibility: Incompatibility,
    /// The explanation of an error of the container runtime, by the registry or the name.
    pub explanation: Option<(EvidenceSource, Incompatibility)>,
    pub remedy: ImageRemedy,
}

impl ImageIssue {
    /// The problem, without the remedy.
    pub fn problem(&self) -> String {
        let Self { image, host, source, incompatibility, explanation, .. } = self;
        let probably = if *source == EvidenceSource::Name { "probably " } else { "" };
        let evidence = match incompatibility {
            Incompatibility::Reported(error) => format!("the container runtime reports: {error}"),
            _ => format!("according to {} it {incompatibility}", name(*source)),
        };
        let problem = format!("{image} {probably}does not run on {host}: {evidence}");
        match explanation {
            Some((source, incompatibility)) => {
                format!("{problem}. According to {} it {incompatibility}", name(*source))
            }
            None => problem,
        }
    }
}

impl fmt::Display for ImageIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {}", self.problem(), capitalised(&self.remedy.to_string()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum ImageRemedy {
    /// The image is for Linux.
    #[display("build it for {}, or select kubernetes.io/os=linux", base_image(*host))]
    BuildForWindows { host: Build },
    #[display("upgrade containerd to {needs}, or rebuild it on {}", base_image(*host))]
    UpgradeContainerd { host: Build, needs: ContainerdVersion },
    #[display("rebuild it on {}, or use pool {pool}", base_image(*host))]
    UsePool { host: Build, pool: String },
    #[display("rebuild it on {}", base_image(*host))]
    Rebuild { host: Build },
}

fn name(source: EvidenceSource) -> &'static str {
    match source {
        EvidenceSource::Runtime => "the container runtime",
        EvidenceSource::Registry => "its registry",
        EvidenceSource::Name => "its name",
    }
}

/// How far an image is behind, without the remedy.
pub fn image_behind(image: &ForeignText, os: OsVersion, behind: Behind) -> String {
    format!("according to its registry {image} has a base image {behind} ({})", builds::described(os.build))
}

/// The base image for a host. Version 23H2 has none and runs those of the release before it.
fn base_image(host: Build) -> String {
    let own = builds::release(host).filter(|release| release.channel != Channel::Annual);
    let release = own.or_else(|| builds::release(version_compatibility::oldest_image(host)));
    release.map_or_else(|| host.to_string(), |release| release.names[0].to_owned())
}

/// An amount of bytes, or `more than 8Ei` above the maximum of Kubernetes (2^63 - 1 bytes).
fn bytes_at_most(amount: i128) -> String {
    match i64::try_from(amount) {
        Ok(amount) => Quantity::of_bytes(amount).to_string(),
        Err(_) => "more than 8Ei".to_owned(),
    }
}
