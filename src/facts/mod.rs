//! Facts about Windows, Kubernetes and container runtimes, as tables: one per file, each with its sources and their
//! date.
//!
//! The rules in [`crate::domain`] read builds, versions and tags from these tables.

pub mod builds;
pub mod containerd;
pub mod eviction;
pub mod feature_gates;
pub mod kubelet_fields;
pub mod kubelet_flags;
pub mod layers;
pub mod node_restriction;
pub mod pause;
pub mod pod_fields;
pub mod runtime_errors;
pub mod runtimes;
pub mod service_limits;
pub mod skew;
pub mod support;
pub mod version_compatibility;
mod versions;

use jiff::civil::Date;

pub use runtimes::ContainerRuntime;
pub use versions::{Build, ContainerdLine, ContainerdVersion, KubeletVersion, Minor, OsVersion, ParseVersionError};

/// A table of facts and the age of its sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its module.
    pub name: &'static str,
    /// The date of its newest source.
    pub as_of: Date,
    /// The repositories of its sources, the main one first.
    pub sources: &'static [&'static str],
}

const fn table(name: &'static str, as_of: Date, sources: &'static [&'static str]) -> Table {
    Table { name, as_of, sources }
}

/// Every table, sorted by name.
#[rustfmt::skip]
pub const TABLES: &[Table] = &[
    table("builds",         builds::AS_OF,         &["endoflife-date/endoflife.date", "MicrosoftDocs/Virtualization-Documentation"]),
    table("containerd",     containerd::AS_OF,     &["containerd/containerd"]),
    table("eviction",       eviction::AS_OF,       &["kubernetes/kubernetes"]),
    table("feature_gates",  feature_gates::AS_OF,  &["kubernetes/kubernetes", "kubernetes/apiserver", "kubernetes/component-base"]),
    table("kubelet_fields", kubelet_fields::AS_OF, &["kubernetes/kubelet", "kubernetes/kubernetes"]),
    table("kubelet_flags",  kubelet_flags::AS_OF,  &["kubernetes/kubernetes"]),
    table("layers",         layers::AS_OF,         &["containerd/containerd", "kubernetes/kubelet", "kubernetes/component-base"]),
    table("node_restriction", node_restriction::AS_OF, &["kubernetes/kubernetes"]),
    table("pause",          pause::AS_OF,          &["kubernetes/kubernetes"]),
    table("pod_fields",     pod_fields::AS_OF,     &["kubernetes/api", "kubernetes/kubernetes"]),
    table("runtime_errors", runtime_errors::AS_OF, &["containerd/containerd", "moby/moby"]),
    table("runtimes",       runtimes::AS_OF,       &["Mirantis/cri-dockerd", "kubernetes/website"]),
    table("service_limits", service_limits::AS_OF, &["kubernetes/website"]),
    table("skew",           skew::AS_OF,           &["kubernetes/website", "kubernetes/enhancements"]),
    table("support",        support::AS_OF,        &["kubernetes/website"]),
    table("version_compatibility", version_compatibility::AS_OF, &["containerd/platforms", "containerd/containerd", "microsoft/hcsshim"]),
];
