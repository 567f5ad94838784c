//! Nodes that another system configures. Changes by the agent would be reverted, or lost with the next node.
//!
//! Sources:
//! - AKS: Azure/AgentBaker 06836ee, `staging/cse/windows/kubeletfunc.ps1` (`New-NSSMService`) and
//!   `provisioningscripts/kubeletstart.ps1`, which reads the flags from `c:\k\kubeclusterconfig.json`.
//! - GKE and GCE: kubernetes/kubernetes, `cluster/gce/windows/k8s-node-setup.psm1`: flags come from the instance
//!   metadata `kube-env`, the scripts are in `C:\`, and the service restarts 10 s after it was stopped.
//! - WMCO: openshift/windows-machine-config-operator 0be4b9c, `pkg/windows/windows.go` and `pkg/services/services.go`;
//!   `pkg/daemon/controller/controller.go` restores the services every two minutes.
//! - EKS: awsdocs/amazon-eks-user-guide 4d52b4d, `managed-node-update-behavior.adoc`: EKS sets the label
//!   `eks.amazonaws.com/nodegroup` on the Nodes of managed node groups, also with a launch template or a custom AMI. With
//!   the AMIs of EKS the bootstrap passes it in `--node-labels`. With a custom AMI the arguments of the kubelet are those of
//!   the owner of the launch template (`launch-templates.adoc`: EKS merges no user data), and only the Node has the label.

use std::collections::BTreeMap;

use super::{KUBELET, LayoutKind, find, flags, program_and_flags, read, refuse};
use crate::{
    change_plan::{Refusal, RefusalReason},
    host::{Host, ServiceDefinition},
};

const WICD: &str = "windows-instance-config-daemon";
const AKS_FILES: [&str; 2] = [r"C:\k\kubeclusterconfig.json", r"C:\k\kubeletstart.ps1"];
const GCE_SCRIPT: &str = r"C:\k8s-node-setup.psm1";
const GCE_DIRECTORY: &str = r"c:\etc\kubernetes\node\bin\";
const MANAGED_LABEL: &str = "eks.amazonaws.com/nodegroup";

pub(super) fn refuse_managed(host: &dyn Host, services: &[ServiceDefinition]) -> Result<(), Refusal> {
    let kubelet = find(services, &["kubelet"]);
    if find(services, &[WICD]).is_some() {
        let wrong = format!("the service {WICD} of the Windows Machine Config Operator reverts changes of this node");
        return Err(elsewhere(wrong, None));
    }
    for file in AKS_FILES {
        if read(host, file)?.is_some() {
            let wrong = format!("AKS configures this node: {file} exists");
            return Err(elsewhere(wrong, Some("aks-nodepool")));
        }
    }
    let Some((program, flags)) = kubelet.and_then(|kubelet| program_and_flags(&kubelet.command, KUBELET)) else {
        return Ok(());
    };
    if program.to_ascii_lowercase().starts_with(GCE_DIRECTORY) || read(host, GCE_SCRIPT)?.is_some() {
        let wrong = format!("GKE or the scripts of GCE configure this node: {program}");
        return Err(elsewhere(wrong, None));
    }
    let labels = flags::value(&flags, "node-labels").unwrap_or_default();
    if labels.split(',').any(|label| label.split_once('=').is_some_and(|(key, _)| key == MANAGED_LABEL)) {
        let wrong = format!("the node belongs to a managed node group of EKS: --node-labels={labels}");
        let remedy = "Set spec.delivery.method: None on the pool, and use a launch template or a self-managed group: winpool render \
                      --target eks-nodegroup prints one. With an AMI of your own, omit the label: EKS sets it on the Node";
        return Err(refuse(RefusalReason::ManagedElsewhere, wrong, remedy));
    }
    Ok(())
}

/// The kind of a node of EKS by the labels of its Node.
pub fn of_eks(labels: &BTreeMap<String, String>) -> LayoutKind {
    if labels.contains_key(MANAGED_LABEL) { LayoutKind::EksManaged } else { LayoutKind::Eks }
}

/// `target` is the option of `winpool render` that prints what the platform takes.
fn elsewhere(wrong: String, target: Option<&str>) -> Refusal {
    let none = "Set spec.delivery.method: None on the pool";
    let remedy = match target {
        Some(target) => format!(
            "{none}, and configure the nodes there: winpool render --target {target} prints the settings, and names those that the \
             platform does not take"
        ),
        None => format!("{none}, and configure the nodes there"),
    };
    refuse(RefusalReason::ManagedElsewhere, wrong, &remedy)
}
