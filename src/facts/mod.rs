//! Facts about Windows, Kubernetes and container runtimes: one table per file, with sources and their date.
//!
//! The rules in [`crate::domain`] read builds, versions and tags from these tables.

pub mod api_versions;
pub mod builds;
pub mod cluster_api;
pub mod containerd;
pub mod eviction;
pub mod feature_gates;
pub mod kubelet_defaults;
pub mod kubelet_fields;
pub mod kubelet_flags;
pub mod layers;
pub mod node_pools;
pub mod node_restriction;
pub mod pause;
pub mod platforms;
pub mod pod_fields;
pub mod runtime_errors;
pub mod runtimes;
pub mod service_limits;
pub mod skew;
pub mod support;
pub mod taints;
pub mod version_compatibility;
mod versions;
pub mod windows_updates;

use jiff::civil::{Date, date};

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
    table("api_versions",          date(2026, 8, 22), &["kubernetes/website", "Arnavion/k8s-openapi"]),
    table("builds",                date(2026, 8, 22), &["endoflife-date/endoflife.date", "MicrosoftDocs/Virtualization-Documentation"]),
    table("cluster_api",           date(2026, 8, 22), &["kubernetes-sigs/cluster-api", "kubernetes/autoscaler", "kubernetes-sigs/image-builder"]),
    table("containerd",            date(2026, 8, 22), &["containerd/containerd"]),
    table("eviction",              date(2026, 8, 22), &["kubernetes/kubernetes"]),
    table("feature_gates",         date(2026, 7, 23), &["kubernetes/kubernetes", "kubernetes/apiserver", "kubernetes/component-base"]),
    table("kubelet_defaults",      date(2026, 8, 22), &["kubernetes/kubelet", "kubernetes/kubernetes"]),
    table("kubelet_fields",        date(2026, 8, 22), &["kubernetes/kubelet", "kubernetes/kubernetes"]),
    table("kubelet_flags",         date(2026, 8, 22), &["kubernetes/kubernetes"]),
    table("layers",                date(2026, 8, 22), &["containerd/containerd", "kubernetes/kubelet", "kubernetes/component-base"]),
    table("node_pools",            date(2026, 8, 22), &["eksctl-io/eksctl", "kubernetes-sigs/karpenter", "MicrosoftDocs/azure-aks-docs", "MicrosoftDocs/azure-stack-docs", "kubernetes-sigs/cluster-api"]),
    table("node_restriction",      date(2026, 8, 22), &["kubernetes/kubernetes"]),
    table("pause",                 date(2026, 8, 22), &["kubernetes/kubernetes"]),
    table("platforms",             date(2026, 8, 21), &["eksctl-io/eksctl", "aws/karpenter-provider-aws", "awsdocs/amazon-eks-user-guide", "MicrosoftDocs/azure-aks-docs", "Azure/AgentBaker", "Azure/azure-cli", "rancher/rke2", "rancher/rke2-docs", "kubernetes/website"]),
    table("pod_fields",            date(2026, 8, 22), &["kubernetes/api", "kubernetes/kubernetes"]),
    table("runtime_errors",        date(2026, 8, 22), &["containerd/containerd", "moby/moby"]),
    table("runtimes",              date(2026, 4, 27), &["Mirantis/cri-dockerd", "kubernetes/website"]),
    table("service_limits",        date(2026, 4, 22), &["kubernetes/website"]),
    table("skew",                  date(2026, 7, 24), &["kubernetes/website", "kubernetes/enhancements"]),
    table("support",               date(2026, 3, 26), &["kubernetes/website"]),
    table("taints",                date(2026, 8, 22), &["kubernetes/website", "kubernetes/autoscaler", "kubernetes-sigs/karpenter", "kubernetes-sigs/cluster-api", "openshift/windows-machine-config-operator", "kubernetes/kubernetes", "MicrosoftDocs/azure-stack-docs"]),
    table("version_compatibility", date(2026, 8, 22), &["containerd/platforms", "containerd/containerd", "microsoft/hcsshim"]),
    table("windows_updates",       date(2026, 11, 19), &["altrhombus/DataForGeeks", "MaineK00n/msrc-cvrf-watch", "future-architect/vuls", "Azure/AgentBaker", "CVEProject/cvelistV5"]),
];
