//! The infrastructure of managed MachinePools of Cluster API: AzureManagedMachinePool and AWSManagedMachinePool.

use serde_saphyr::DoubleQuoted;
use winpool_api::TaintEffect;

use super::{
    super::yaml::{Field, Fields, Strings, object},
    LossReport, NodesToMake,
    aks::{kubelet_config, needs_fips},
    selection,
};

const AZURE: &str = "# Replace NODE_POOL, at most six lower-case letters and digits, and SKU, the size of the machines. A MachinePool of\n\
                     # Cluster API refers to it.\n";
const AWS: &str = "# Add instanceType and scaling. A MachinePool of Cluster API refers to it.\n";

/// The AzureManagedMachinePool.
pub(super) fn azure(nodes: &NodesToMake, report: &LossReport, image: &str, comment: &str) -> String {
    // A merge patch: the API has no field for the version of Windows.
    let patch = Field::from(DoubleQuoted(format!("{{\"spec\": {{\"osSKU\": \"{image}\"}}}}")));
    let spec = Fields::default()
        .with("name", "NODE_POOL")
        .with("mode", "User")
        .with("sku", "SKU")
        .with("osType", "Windows")
        .with_some("enableFIPS", needs_fips(nodes).then_some(true))
        .with_some("maxPods", report.max_pods(nodes))
        .with_some("nodeLabels", selection::labels_map(report.platform, nodes))
        .with_some("taints", selection::taint_maps(report.platform, nodes))
        .with_some("kubeletConfig", kubelet_config(nodes, report))
        .with("asoManagedClustersAgentPoolPatches", vec![patch]);
    format!(
        "{comment}{AZURE}{}",
        object("infrastructure.cluster.x-k8s.io/v1beta1", "AzureManagedMachinePool", nodes.pool, spec)
    )
}

/// The AWSManagedMachinePool.
pub(super) fn aws(nodes: &NodesToMake, report: &LossReport, image: &'static str, comment: &str) -> String {
    let (taints, _) = selection::taints(report.platform, nodes);
    let taints = taints.into_iter().map(|taint| {
        let effect = match taint.effect {
            TaintEffect::NoSchedule => "no-schedule",
            TaintEffect::PreferNoSchedule => "prefer-no-schedule",
            TaintEffect::NoExecute => "no-execute",
        };
        Strings(vec![("key", taint.key.clone()), ("value", taint.value.clone()), ("effect", effect.to_owned())]).into()
    });
    let taints: Vec<Field> = taints.collect();
    let spec = Fields::default()
        .with("amiType", image)
        .with_some("labels", selection::labels_map(report.platform, nodes))
        .with_some("taints", (!taints.is_empty()).then_some(taints));
    format!(
        "{comment}{AWS}{}",
        object("infrastructure.cluster.x-k8s.io/v1beta2", "AWSManagedMachinePool", nodes.pool, spec)
    )
}
