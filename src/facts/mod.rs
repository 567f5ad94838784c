//! What Microsoft and Kubernetes decided, as tables: one table a file, each with its source and date.
//!
//! Nothing here decides anything: the rules in [`crate::domain`] read these tables and never spell a build,
//! a minor or a tag themselves.

pub mod builds;
pub mod compatibility;
pub mod containerd;
pub mod eviction;
pub mod feature_gates;
pub mod kubelet_fields;
pub mod kubelet_flags;
pub mod layers;
pub mod mismatch;
pub mod node_restriction;
pub mod pause;
pub mod pod_fields;
pub mod runtimes;
pub mod service_limits;
pub mod skew;
pub mod support;
mod versions;

use jiff::civil::Date;

pub use versions::{Build, ContainerdVersion, KubeletVersion, Minor, OsVersion, ParseVersionError};

/// A table of facts, and how fresh it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The module that has it.
    pub name: &'static str,
    /// The day of its newest source.
    pub as_of: Date,
    /// The repositories whose files it is read from, the one to look at first.
    pub sources: &'static [&'static str],
}

const fn table(name: &'static str, as_of: Date, sources: &'static [&'static str]) -> Table {
    Table { name, as_of, sources }
}

/// Every table, in the order of the names.
#[rustfmt::skip]
pub const TABLES: &[Table] = &[
    table("builds",         builds::AS_OF,         &["endoflife-date/endoflife.date", "MicrosoftDocs/Virtualization-Documentation"]),
    table("compatibility",  compatibility::AS_OF,  &["containerd/platforms", "containerd/containerd", "microsoft/hcsshim"]),
    table("containerd",     containerd::AS_OF,     &["containerd/containerd"]),
    table("eviction",       eviction::AS_OF,       &["kubernetes/kubernetes"]),
    table("feature_gates",  feature_gates::AS_OF,  &["kubernetes/kubernetes", "kubernetes/apiserver", "kubernetes/component-base"]),
    table("kubelet_fields", kubelet_fields::AS_OF, &["kubernetes/kubelet", "kubernetes/kubernetes"]),
    table("kubelet_flags",  kubelet_flags::AS_OF,  &["kubernetes/kubernetes"]),
    table("layers",         layers::AS_OF,         &["containerd/containerd", "kubernetes/kubelet", "kubernetes/component-base"]),
    table("mismatch",       mismatch::AS_OF,       &["containerd/containerd", "moby/moby"]),
    table("node_restriction", node_restriction::AS_OF, &["kubernetes/kubernetes"]),
    table("pause",          pause::AS_OF,          &["kubernetes/kubernetes"]),
    table("pod_fields",     pod_fields::AS_OF,     &["kubernetes/api", "kubernetes/kubernetes"]),
    table("runtimes",       runtimes::AS_OF,       &["Mirantis/cri-dockerd", "kubernetes/website"]),
    table("service_limits", service_limits::AS_OF, &["kubernetes/website"]),
    table("skew",           skew::AS_OF,           &["kubernetes/website", "kubernetes/enhancements"]),
    table("support",        support::AS_OF,        &["kubernetes/website"]),
];
