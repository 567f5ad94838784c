//! Facts about Windows, Kubernetes and container runtimes: one table per file, with sources and their date.
//!
//! The rules in winpool-core read builds, versions and tags from these tables.

pub mod add_ons;
pub mod api_versions;
pub mod builds;
pub mod catalogue;
pub mod cluster_api;
pub mod containerd;
pub mod containerd_settings;
pub mod eviction;
pub mod exit_codes;
pub mod feature_gates;
pub mod host_process;
pub mod known_issues;
pub mod kube_proxy_fields;
pub mod kubelet_fields;
pub mod kubelet_flags;
pub mod layers;
mod named;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its module.
    pub name: &'static str,
    /// The date of its newest source.
    pub as_of: Date,
    /// The number of its rows; 0 if it has rules only.
    pub rows: usize,
    /// The newest minor of Kubernetes whose sources were read, if it depends on that. Later minors are treated as this one.
    pub newest: Option<Minor>,
    pub compared: Compared,
    /// The repositories of its sources, the main one first.
    pub sources: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// By a test, with the sources in pinned Go modules.
    Modules,
    /// By a person: the sources are pages and registries.
    ByHand,
}

use Compared::{ByHand, Modules};

const fn table(
    name: &'static str,
    as_of: Date,
    rows: usize,
    newest: u32,
    compared: Compared,
    sources: &'static [&'static str],
) -> Table {
    let newest = if newest == NO_MINOR { None } else { Some(Minor(newest)) };
    Table { name, as_of, rows, newest, compared, sources }
}

/// A table that does not depend on the minor.
const NO_MINOR: u32 = 0;

/// Every table, sorted by name.
#[rustfmt::skip]
pub const TABLES: &[Table] = &[
    table("add_ons", date(2026, 9, 1), add_ons::COUNT, 37, ByHand,
        &["tigera/docs", "projectcalico/calico", "antrea-io/antrea", "kubernetes-csi/csi-proxy", "kubernetes-sigs/azuredisk-csi-driver", "kubernetes-sigs/azurefile-csi-driver", "kubernetes-csi/csi-driver-smb", "kubernetes-sigs/aws-ebs-csi-driver", "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver", "kubernetes-sigs/secrets-store-csi-driver", "kubernetes-csi/node-driver-registrar", "prometheus-community/windows_exporter", "fluent/fluent-bit", "grafana/alloy", "MicrosoftDocs/azure-aks-docs", "rancher/rancher", "kubernetes/website"]),
    table("api_versions", date(2026, 10, 27), api_versions::API_VERSIONS.len() + api_versions::NEWER_FIELDS.len(), 37, Modules,
        &["kubernetes/website", "Arnavion/k8s-openapi"]),
    table("builds", date(2026, 8, 22), builds::RELEASES.len(), NO_MINOR, ByHand,
        &["endoflife-date/endoflife.date", "MicrosoftDocs/Virtualization-Documentation"]),
    table("cluster_api", date(2026, 9, 8), cluster_api::SYNCED_DOMAINS.len(), NO_MINOR, Modules,
        &["kubernetes-sigs/cluster-api", "kubernetes/autoscaler", "kubernetes-sigs/image-builder"]),
    table("containerd", date(2026, 11, 29), containerd::RELEASE_LINES.len() + containerd::MINIMUMS.len(), 37, Modules,
        &["containerd/containerd"]),
    table("containerd_settings", date(2026, 10, 13), containerd_settings::SETTINGS.len() + containerd_settings::HOSTS_SETTINGS.len(), NO_MINOR, Modules,
        &["containerd/containerd", "microsoft/hcsshim"]),
    table("eviction", date(2026, 10, 27), eviction::LINUX_ONLY.len(), 37, Modules,
        &["kubernetes/kubernetes"]),
    table("exit_codes", date(2026, 11, 29), exit_codes::EXIT_CODES.len() + exit_codes::WIN32_CODES.len(), NO_MINOR, Modules,
        &["microsoft/windows-rs", "microsoft/hcsshim", "microsoft/dotnet-framework-docker"]),
    table("feature_gates", date(2026, 11, 29), feature_gates::GATES.len() + feature_gates::DEPENDENCIES.len() + feature_gates::ANNOUNCED.len(), 37, Modules,
        &["kubernetes/kubernetes", "kubernetes/apiserver", "kubernetes/component-base", "kubernetes/sig-release"]),
    table("host_process", date(2026, 11, 26), 0, NO_MINOR, Modules,
        &["kubernetes/enhancements", "kubernetes/website", "microsoft/hcsshim"]),
    table("known_issues", date(2026, 9, 24), known_issues::KNOWN_ISSUES.len(), 37, Modules,
        &["kubernetes/kubernetes", "containerd/containerd", "microsoft/hcsshim", "golang/vulndb", "kubernetes/website", "projectcalico/calico"]),
    table("kube_proxy_fields", date(2026, 10, 27), kube_proxy_fields::FIELDS.len(), 37, Modules,
        &["kubernetes/kube-proxy"]),
    table("kubelet_fields", date(2026, 11, 29), kubelet_fields::FIELDS.len(), 37, Modules,
        &["kubernetes/kubelet", "kubernetes/kubernetes", "kubernetes/website"]),
    table("kubelet_flags", date(2026, 11, 29), kubelet_flags::FLAGS.len() + kubelet_flags::ENDED.len(), 37, Modules,
        &["kubernetes/kubernetes"]),
    table("layers", date(2026, 10, 27), 0, 37, Modules,
        &["containerd/containerd", "kubernetes/kubelet", "kubernetes/component-base"]),
    table("node_pools", date(2026, 8, 22), node_pools::NODE_POOL_LABELS.len(), NO_MINOR, ByHand,
        &["eksctl-io/eksctl", "kubernetes-sigs/karpenter", "MicrosoftDocs/azure-aks-docs", "MicrosoftDocs/azure-stack-docs", "kubernetes-sigs/cluster-api"]),
    table("node_restriction", date(2026, 10, 27), node_restriction::KUBELET_LABELS.len(), 37, Modules,
        &["kubernetes/kubernetes"]),
    table("pause", date(2026, 10, 27), pause::DEFAULTS.len() + pause::UPSTREAM_TAGS.len() + pause::MICROSOFT_TAGS.len(), 37, Modules,
        &["kubernetes/kubernetes"]),
    table("platforms", date(2026, 8, 21), platforms::IMAGES.len() + platforms::SETTINGS.len() + platforms::AKS_RETIREMENTS.len(), NO_MINOR, ByHand,
        &["eksctl-io/eksctl", "aws/karpenter-provider-aws", "kubernetes-sigs/karpenter", "awsdocs/amazon-eks-user-guide", "MicrosoftDocs/azure-aks-docs", "Azure/AgentBaker", "Azure/azure-cli", "rancher/rke2", "rancher/rke2-docs", "kubernetes/website"]),
    table("pod_fields", date(2026, 10, 27), pod_fields::REJECTED.len() + pod_fields::REJECTED_UNLISTED.len() + pod_fields::UNSUPPORTED.len(), 37, Modules,
        &["kubernetes/api", "kubernetes/kubernetes"]),
    table("runtime_errors", date(2026, 8, 22), runtime_errors::MISMATCH_ERRORS.len(), NO_MINOR, Modules,
        &["containerd/containerd", "moby/moby"]),
    table("runtimes", date(2026, 11, 29), runtimes::HANDLERS.len(), NO_MINOR, Modules,
        &["Mirantis/cri-dockerd", "kubernetes/website", "kubernetes-sigs/cluster-api-provider-azure"]),
    table("service_limits", date(2026, 4, 22), 0, 36, ByHand,
        &["kubernetes/website"]),
    table("skew", date(2026, 7, 24), 0, 37, ByHand,
        &["kubernetes/website", "kubernetes/enhancements"]),
    table("support", date(2026, 9, 18), support::SUPPORT.len(), 36, ByHand,
        &["kubernetes/website", "kubernetes/test-infra"]),
    table("taints", date(2026, 10, 27), taints::MANAGED.len() + taints::OS_TAINTS.len(), NO_MINOR, Modules,
        &["kubernetes/website", "kubernetes/autoscaler", "kubernetes-sigs/karpenter", "kubernetes-sigs/cluster-api", "openshift/windows-machine-config-operator", "kubernetes/kubernetes", "MicrosoftDocs/azure-stack-docs"]),
    table("version_compatibility", date(2026, 10, 13), version_compatibility::WITHOUT_PREVIOUS_LTSC.len(), NO_MINOR, Modules,
        &["containerd/platforms", "containerd/containerd", "microsoft/hcsshim"]),
    table("windows_updates", date(2026, 11, 19), windows_updates::COUNT, NO_MINOR, ByHand,
        &["altrhombus/DataForGeeks", "MaineK00n/msrc-cvrf-watch", "future-architect/vuls", "Azure/AgentBaker", "CVEProject/cvelistV5"]),
];
