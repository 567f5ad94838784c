//! The annotations of MachineDeployments and MachinePools for an autoscaler that starts with no machine, as merge patches.

use std::collections::BTreeMap;

use serde_json::json;
use winpool_check::manifests::LocatedProblem;
use winpool_core::kubernetes::shell_quoted;
use winpool_facts::{
    cluster_api::{CLUSTER_NAME, CORE_GROUP},
    support,
};
use winpool_render::kubeadm;
use winpool_rules::pool::cluster_api::{GroupKind, hints};

use super::input::{DeliveredPool, Input};
use crate::{output, render::Documents};

/// A patch for each pool with `clusterAPI.autoscaling`.
pub fn autoscaler_hints(input: &Input) -> Result<Documents, Vec<LocatedProblem>> {
    let (pools, notes) = input.pools();
    let kubelet = input.expected_nodes.iter().map(|node| node.kubelet).max().unwrap_or(support::NEWEST);
    let (mut found, mut problems) = (Documents { notes, ..Documents::default() }, Vec::new());
    for of in &pools {
        let name = &of.pool.name;
        match input.profile(of) {
            Ok(_) if of.rules.capacity.is_none() => {
                found.notes.push(format!("pool {name} has no clusterAPI.autoscaling, and nothing is rendered for it"));
            }
            Ok(profile) => {
                problems.extend(input.base(of).err().into_iter().flatten());
                let annotations =
                    hints::annotations(&labels(input, of), of.spec, (profile, kubelet), of.rules.capacity, None);
                found.texts.insert(format!("{name}.yaml"), document(of, &annotations));
            }
            Err(problem) => problems.push(problem),
        }
    }
    found.as_yaml().without(problems)
}

/// The labels of a node. Those of its machine are not known.
fn labels(input: &Input, of: &DeliveredPool) -> BTreeMap<String, String> {
    let of_base = input.base_spec(of).map(kubeadm::node_labels).unwrap_or_default();
    let node_labels = of_base.into_iter().chain(hints::node_labels(of.spec)).collect();
    hints::labels(&of.pool.name, of.spec, &BTreeMap::new(), &node_labels)
}

fn document(of: &DeliveredPool, annotations: &BTreeMap<&'static str, String>) -> String {
    let kind = of.rules.kind.name();
    let selector = format!("{},{CLUSTER_NAME}={}", of.rules.selector, of.rules.cluster);
    let resource = match of.rules.kind {
        GroupKind::Deployment => format!("machinedeployments.{CORE_GROUP}"),
        GroupKind::Pool => format!("machinepools.{CORE_GROUP}"),
    };
    let pairs: String =
        annotations.iter().map(|(key, value)| format!(" {}", shell_quoted(&format!("{key}={value}")))).collect();
    let patch = json!({"metadata": {"annotations": annotations}});
    format!(
        "# Pool {}: a merge patch for each {kind} in namespace {} that matches\n\
         # {selector}\n\
         # Remove cpu, memory and ephemeral-disk if the template of the infrastructure has them in status.capacity. Add to labels\n\
         # those of spec.template.metadata.labels that Cluster API copies to nodes. The same as one command for all of them:\n\
         # kubectl -n {} annotate {resource} -l {} --overwrite{pairs}\n\
         {}",
        of.pool.name,
        of.rules.namespace,
        of.rules.namespace,
        shell_quoted(&selector),
        output::yaml(&patch)
    )
}
