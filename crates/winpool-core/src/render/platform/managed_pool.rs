//! The infrastructure of managed MachinePools of Cluster API: AzureManagedMachinePool and AWSManagedMachinePool.

use serde::Serialize;
use serde_saphyr::DoubleQuoted;
use winpool_api::{TaintEffect, facts::platforms::Setting};

use super::{
    super::yaml::{Strings, object},
    LossReport, NodesToMake,
    aks::{AksKubeletConfig, needs_fips},
    selection,
};

const AZURE: &str = "# Replace NODE_POOL, at most six lower-case letters and digits, and SKU, the size of the machines. A MachinePool of\n\
                     # Cluster API refers to it.\n";
const AWS: &str = "# Add instanceType and scaling. A MachinePool of Cluster API refers to it.\n";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AzurePool<'a> {
    name: &'static str,
    mode: &'static str,
    sku: &'static str,
    os_type: &'static str,
    #[serde(rename = "enableFIPS", skip_serializing_if = "std::ops::Not::not")]
    enable_fips: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_pods: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_labels: Option<Strings<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<Strings<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubelet_config: Option<AksKubeletConfig>,
    /// Merge patches: the API has no field for the version of Windows.
    aso_managed_clusters_agent_pool_patches: [DoubleQuoted<String>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AwsPool<'a> {
    ami_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Strings<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<Strings<'a>>,
}

/// The AzureManagedMachinePool.
pub(super) fn azure(nodes: &NodesToMake, report: &LossReport, image: &str, comment: &str) -> String {
    let max_pods = nodes.profile.filter(|_| report.takes(Setting::MaxPods)).map(|profile| profile.kubelet.max_pods);
    let spec = AzurePool {
        name: "NODE_POOL",
        mode: "User",
        sku: "SKU",
        os_type: "Windows",
        enable_fips: needs_fips(nodes),
        max_pods,
        node_labels: selection::labels_map(report.platform, nodes),
        taints: selection::taint_maps(report.platform, nodes),
        kubelet_config: AksKubeletConfig::new(nodes, report),
        aso_managed_clusters_agent_pool_patches: [DoubleQuoted(format!("{{\"spec\": {{\"osSKU\": \"{image}\"}}}}"))],
    };
    format!(
        "{comment}{AZURE}{}",
        object("infrastructure.cluster.x-k8s.io/v1beta1", "AzureManagedMachinePool", nodes.pool, spec)
    )
}

/// The AWSManagedMachinePool.
pub(super) fn aws(nodes: &NodesToMake, report: &LossReport, image: &str, comment: &str) -> String {
    let (taints, _) = selection::taints(report.platform, nodes);
    let taints = taints.into_iter().map(|taint| {
        let effect = match taint.effect {
            TaintEffect::NoSchedule => "no-schedule",
            TaintEffect::PreferNoSchedule => "prefer-no-schedule",
            TaintEffect::NoExecute => "no-execute",
        };
        Strings(vec![("key", taint.key.clone()), ("value", taint.value.clone()), ("effect", effect.to_owned())])
    });
    let labels = selection::labels_map(report.platform, nodes);
    let spec = AwsPool { ami_type: image, labels, taints: taints.collect() };
    format!(
        "{comment}{AWS}{}",
        object("infrastructure.cluster.x-k8s.io/v1beta2", "AWSManagedMachinePool", nodes.pool, spec)
    )
}
