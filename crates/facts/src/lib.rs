//! Facts about Windows, Kubernetes and container runtimes: one table per file, with sources and their date.
//!
//! The rules in winpool-core read builds, versions and tags from these tables.

pub mod add_ons;
pub mod advisories;
pub mod api_versions;
pub mod builds;
pub mod catalogue;
pub mod cluster_api;
pub mod containerd;
pub mod containerd_settings;
pub mod csi_drivers;
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
pub mod node_lifecycle;
pub mod node_pools;
pub mod node_reserves;
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
pub mod test_images;
pub mod version_compatibility;
mod versions;
pub mod windows_updates;

use jiff::{
    ToSpan,
    civil::{Date, Weekday, date},
};

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
    pub follows: Follows,
    pub compared: Compared,
    /// The repositories of its sources, the main one first.
    pub sources: &'static [&'static str],
}

/// What a table has to be renewed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// The minors of Kubernetes, of which this is the newest whose sources were read. Later minors are treated as this one.
    Minors(Minor),
    /// The monthly updates of Windows.
    Updates,
    /// Nothing that is announced.
    Nothing,
}

/// The age in months at which a table is old.
pub const MONTHS_UNTIL_OLD: i32 = 9;

impl Table {
    /// The newest minor of Kubernetes whose sources were read, if it depends on that.
    pub fn newest(&self) -> Option<Minor> {
        match self.follows {
            Follows::Minors(newest) => Some(newest),
            Follows::Updates | Follows::Nothing => None,
        }
    }

    /// The day from which it is old.
    pub fn old_from(&self) -> Date {
        self.as_of.saturating_add(MONTHS_UNTIL_OLD.months())
    }

    /// The day until which it is known good: that of the next minor or monthly update, or that from which it is old.
    pub fn good_until(&self) -> Date {
        let next = match self.follows {
            Follows::Minors(Minor(newest)) => support::released(Minor(newest + 1)),
            Follows::Updates => next_updates(self.as_of),
            Follows::Nothing => None,
        };
        next.map_or(self.old_from(), |next| next.min(self.old_from()))
    }
}

/// The first second Tuesday of a month after a day, on which Microsoft publishes updates.
fn next_updates(day: Date) -> Option<Date> {
    let months = [day.first_of_month(), day.last_of_month().tomorrow().ok()?];
    months.iter().filter_map(|month| month.nth_weekday_of_month(2, Weekday::Tuesday).ok()).find(|found| *found > day)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// By a test, with the sources in pinned Go modules.
    Modules,
    /// By a person: the sources are pages and registries.
    ByHand,
}

use Compared::{ByHand, Modules};
use Follows::{Nothing, Updates};

const fn to(newest: u32) -> Follows {
    Follows::Minors(Minor(newest))
}

const fn table(
    name: &'static str,
    as_of: Date,
    rows: usize,
    follows: Follows,
    compared: Compared,
    sources: &'static [&'static str],
) -> Table {
    Table { name, as_of, rows, follows, compared, sources }
}

/// Every table, sorted by name.
#[rustfmt::skip]
pub const TABLES: &[Table] = &[
    table("add_ons", date(2026, 9, 1), add_ons::COUNT, to(37), ByHand,
        &["tigera/docs", "projectcalico/calico", "antrea-io/antrea", "kubernetes-csi/csi-proxy", "kubernetes-sigs/azuredisk-csi-driver", "kubernetes-sigs/azurefile-csi-driver", "kubernetes-csi/csi-driver-smb", "kubernetes-sigs/aws-ebs-csi-driver", "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver", "kubernetes-sigs/secrets-store-csi-driver", "kubernetes-csi/node-driver-registrar", "prometheus-community/windows_exporter", "fluent/fluent-bit", "grafana/alloy", "MicrosoftDocs/azure-aks-docs", "rancher/rancher", "kubernetes/website"]),
    table("advisories", date(2026, 11, 29), advisories::COUNT, Nothing, ByHand,
        &["golang/vulndb", "kubernetes-sigs/cve-feed-osv", "containerd/containerd"]),
    table("api_versions", date(2026, 10, 27), api_versions::API_VERSIONS.len() + api_versions::NEWER_FIELDS.len(), to(37), Modules,
        &["kubernetes/website", "Arnavion/k8s-openapi"]),
    table("builds", date(2026, 8, 22), builds::RELEASES.len(), Nothing, ByHand,
        &["endoflife-date/endoflife.date", "MicrosoftDocs/Virtualization-Documentation"]),
    table("cluster_api", date(2026, 9, 8), cluster_api::SYNCED_DOMAINS.len(), Nothing, Modules,
        &["kubernetes-sigs/cluster-api", "kubernetes/autoscaler", "kubernetes-sigs/image-builder"]),
    table("containerd", date(2026, 11, 29), containerd::RELEASE_LINES.len() + containerd::MINIMUMS.len(), to(37), Modules,
        &["containerd/containerd"]),
    table("containerd_settings", date(2026, 10, 13), containerd_settings::SETTINGS.len() + containerd_settings::HOSTS_SETTINGS.len(), Nothing, Modules,
        &["containerd/containerd", "microsoft/hcsshim"]),
    table("csi_drivers", date(2026, 11, 29), csi_drivers::CSI_DRIVERS.len(), to(37), Modules,
        &["kubernetes/csi-translation-lib", "kubernetes-sigs/aws-ebs-csi-driver", "kubernetes-sigs/azuredisk-csi-driver", "kubernetes-sigs/vsphere-csi-driver", "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver"]),
    table("eviction", date(2026, 10, 27), eviction::LINUX_ONLY.len(), to(37), Modules,
        &["kubernetes/kubernetes"]),
    table("exit_codes", date(2026, 11, 29), exit_codes::EXIT_CODES.len() + exit_codes::WIN32_CODES.len(), Nothing, Modules,
        &["microsoft/windows-rs", "microsoft/hcsshim", "microsoft/dotnet-framework-docker"]),
    table("feature_gates", date(2026, 11, 29), feature_gates::GATES.len() + feature_gates::DEPENDENCIES.len() + feature_gates::ANNOUNCED.len(), to(37), Modules,
        &["kubernetes/kubernetes", "kubernetes/apiserver", "kubernetes/component-base", "kubernetes/sig-release"]),
    table("host_process", date(2026, 11, 26), 0, Nothing, Modules,
        &["kubernetes/enhancements", "kubernetes/website", "microsoft/hcsshim"]),
    table("known_issues", date(2026, 11, 29), known_issues::KNOWN_ISSUES.len(), to(37), Modules,
        &["kubernetes/kubernetes", "containerd/containerd", "microsoft/hcsshim", "golang/vulndb", "kubernetes/website", "projectcalico/calico"]),
    table("kube_proxy_fields", date(2026, 11, 29), kube_proxy_fields::FIELDS.len(), to(37), Modules,
        &["kubernetes/kube-proxy"]),
    table("kubelet_fields", date(2026, 11, 29), kubelet_fields::FIELDS.len(), to(37), Modules,
        &["kubernetes/kubelet", "kubernetes/kubernetes", "kubernetes/website"]),
    table("kubelet_flags", date(2026, 11, 29), kubelet_flags::FLAGS.len() + kubelet_flags::ENDED.len(), to(37), Modules,
        &["kubernetes/kubernetes"]),
    table("layers", date(2026, 10, 27), 0, to(37), Modules,
        &["containerd/containerd", "kubernetes/kubelet", "kubernetes/component-base"]),
    table("node_lifecycle", date(2026, 11, 29), node_lifecycle::LIFECYCLE_CONDITIONS.len(), to(37), Modules,
        &["kubernetes/api", "kubernetes/enhancements"]),
    table("node_pools", date(2026, 8, 22), node_pools::NODE_POOL_LABELS.len(), Nothing, ByHand,
        &["eksctl-io/eksctl", "kubernetes-sigs/karpenter", "MicrosoftDocs/azure-aks-docs", "MicrosoftDocs/azure-stack-docs", "kubernetes-sigs/cluster-api"]),
    table("node_reserves", date(2026, 11, 29), node_reserves::RESERVES.len(), Nothing, ByHand,
        &["MicrosoftDocs/azure-aks-docs", "openshift/windows-machine-config-operator", "bgsilvait/EKS"]),
    table("node_restriction", date(2026, 10, 27), node_restriction::KUBELET_LABELS.len(), to(37), Modules,
        &["kubernetes/kubernetes"]),
    table("pause", date(2026, 11, 29), pause::DEFAULTS.len() + pause::UPSTREAM_TAGS.len() + pause::MICROSOFT_TAGS.len(), to(37), Modules,
        &["kubernetes/kubernetes"]),
    table("platforms", date(2026, 11, 29), platforms::IMAGES.len() + platforms::SETTINGS.len() + platforms::AKS_RETIREMENTS.len(), Nothing, ByHand,
        &["eksctl-io/eksctl", "aws/karpenter-provider-aws", "kubernetes-sigs/karpenter", "awsdocs/amazon-eks-user-guide", "MicrosoftDocs/azure-aks-docs", "Azure/AgentBaker", "Azure/azure-cli", "rancher/rke2", "rancher/rke2-docs", "kubernetes/website"]),
    table("pod_fields", date(2026, 10, 27), pod_fields::REJECTED.len() + pod_fields::REJECTED_UNLISTED.len() + pod_fields::UNSUPPORTED.len(), to(37), Modules,
        &["kubernetes/api", "kubernetes/kubernetes"]),
    table("runtime_errors", date(2026, 8, 22), runtime_errors::MISMATCH_ERRORS.len(), Nothing, Modules,
        &["containerd/containerd", "moby/moby"]),
    table("runtimes", date(2026, 11, 29), runtimes::HANDLERS.len(), Nothing, Modules,
        &["Mirantis/cri-dockerd", "kubernetes/website", "kubernetes-sigs/cluster-api-provider-azure"]),
    table("service_limits", date(2026, 11, 29), 0, to(37), Modules,
        &["kubernetes/website", "kubernetes/kubernetes"]),
    table("skew", date(2026, 7, 24), 0, to(37), ByHand,
        &["kubernetes/website", "kubernetes/enhancements"]),
    table("support", date(2026, 11, 29), support::SUPPORT.len(), to(37), ByHand,
        &["kubernetes/website", "kubernetes/test-infra"]),
    table("taints", date(2026, 10, 27), taints::MANAGED.len() + taints::OS_TAINTS.len(), Nothing, Modules,
        &["kubernetes/website", "kubernetes/autoscaler", "kubernetes-sigs/karpenter", "kubernetes-sigs/cluster-api", "openshift/windows-machine-config-operator", "kubernetes/kubernetes", "MicrosoftDocs/azure-stack-docs"]),
    table("test_images", date(2026, 11, 29), test_images::TEST_IMAGES.len(), Nothing, ByHand,
        &["kubernetes/k8s.io", "kubernetes/kubernetes"]),
    table("version_compatibility", date(2026, 10, 13), version_compatibility::WITHOUT_PREVIOUS_LTSC.len(), Nothing, Modules,
        &["containerd/platforms", "containerd/containerd", "microsoft/hcsshim"]),
    table("windows_updates", date(2026, 11, 29), windows_updates::COUNT, Updates, ByHand,
        &["altrhombus/DataForGeeks", "MaineK00n/msrc-cvrf-watch", "future-architect/vuls", "Azure/AgentBaker", "CVEProject/cvelistV5"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_known_good_until_its_next_source_is_due() {
        let table = [
            (date(2026, 11, 29), to(37), date(2026, 12, 16)),
            (date(2026, 9, 18), to(36), date(2026, 8, 26)),
            (date(2026, 2, 1), to(37), date(2026, 11, 1)),
            (date(2026, 11, 29), to(99), date(2027, 8, 29)),
            (date(2026, 11, 9), Updates, date(2026, 11, 10)),
            (date(2026, 11, 10), Updates, date(2026, 12, 8)),
            (date(2026, 12, 19), Updates, date(2027, 1, 12)),
            (date(2026, 5, 31), Nothing, date(2027, 2, 28)),
        ];
        for (as_of, follows, expected) in table {
            let table = Table { as_of, follows, ..TABLES[0] };
            assert_eq!(table.good_until(), expected, "{as_of} {follows:?}");
        }
    }

    #[test]
    fn the_next_minor_has_a_date() {
        assert!(support::released(Minor(support::NEWEST.0 + 1)).is_some());
    }
}
