//! Cluster API's resources: their groups, versions, labels and annotations, the limits of KubeadmConfig, and the
//! annotations of the Kubernetes autoscaler.
//!
//! Sources: kubernetes-sigs/cluster-api at v1.14 (2026-08-21), the generated CustomResourceDefinitions,
//! `api/core/v1beta2/common_types.go`, `machine_types.go` and `condition_consts.go`, `api/bootstrap/kubeadm/v1beta2`,
//! `GetManagedLabels` in `util/labels/helpers.go`, `docs/book/src/reference/versions.md` (v1beta1 is deprecated since 1.11,
//! and is no longer served from 1.16 on, April 2027) and `CHANGELOG/v1.11.0-alpha.0.md` (v1beta2); kubernetes/autoscaler,
//! `cluster-autoscaler/cloudprovider/clusterapi/clusterapi_utils.go` and `clusterapi_nodegroup.go` (2026-08);
//! kubernetes-sigs/image-builder, `images/capi/ansible/windows` (2026-08) for the paths on a Windows machine.

use super::node_restriction::is_within;

/// The group of Cluster, MachineDeployment, MachinePool, MachineSet and Machine.
pub const CORE_GROUP: &str = "cluster.x-k8s.io";
/// The group of KubeadmConfig and KubeadmConfigTemplate.
pub const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";

/// The version of both groups that winpool reads and writes.
pub const VERSION: &str = "v1beta2";
/// The first release of Cluster API that serves it.
pub const SERVED_SINCE: &str = "1.11";

/// On any object: controllers do not reconcile it.
pub const PAUSED: &str = "cluster.x-k8s.io/paused";
/// The label of an object that a topology controls.
pub const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";
/// The label with the name of the cluster.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// The label with the name of the MachineDeployment.
pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
/// The label with the name of the MachinePool.
pub const POOL_NAME: &str = "cluster.x-k8s.io/pool-name";

/// The key of the taint without value and with the effect NoSchedule that a node has until Cluster API has copied the labels of its
/// Machine (`NodeUninitializedTaint` in `api/core/v1beta2/common_types.go`). The controllers remove it from 1.4 on.
pub const UNINITIALIZED: &str = "node.cluster.x-k8s.io/uninitialized";
/// The key of the taint with which a kubelet registers that has an external cloud provider (kubernetes/cloud-provider,
/// `api/well_known_taints.go`). It has the effect NoSchedule.
pub const CLOUD_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The conditions of MachineDeployments, MachinePools and MachineSets that are no problem when they are False, with the
/// statuses that are one (`core/reconcilers/machineset/machineset_controller_status.go`). The counts of machines show what the conditions of a
/// rotation show.
const CONDITIONS: &[(&str, &[&str])] = &[
    ("Deleting", &["Unknown"]),
    ("MachinesUpToDate", &["Unknown"]),
    ("Paused", &["True", "Unknown"]),
    ("Remediating", &["True", "Unknown"]),
    ("RollingOut", &["Unknown"]),
    ("ScalingDown", &["Unknown"]),
    ("ScalingUp", &["True", "Unknown"]),
];

/// What a `ScalingUp` that is True says only if it cannot go on (`setScalingUpCondition` in that file): no other field tells it from a
/// MachineSet that creates machines.
const BLOCKED: &str = " is blocked because";

/// Whether a condition of a MachineDeployment, MachinePool or MachineSet with this status and message is a problem.
pub fn is_problem(condition: &str, status: &str, message: &str) -> bool {
    let row = CONDITIONS.iter().find(|(name, _)| *name == condition);
    let may_be = row.map_or(&["False", "Unknown"][..], |(_, statuses)| statuses).contains(&status);
    may_be && ((condition, status) != ("ScalingUp", "True") || message.contains(BLOCKED))
}

/// The most characters of `files[].content`.
pub const MAX_CONTENT: usize = 10_240;
pub const MAX_FILES: usize = 200;
/// The most characters of the value of a kubelet argument.
pub const MAX_ARGUMENT: usize = 1024;

/// The flag of its controller manager with patterns of further labels that it copies (`core/main.go` at v1.14.2).
pub const SYNC_FLAG: &str = "--additional-sync-machine-labels";

/// The prefix of labels that Cluster API copies from a Machine to its Node.
const SYNCED_PREFIX: &str = "node-role.kubernetes.io/";
/// The domains, with their subdomains, of labels that Cluster API copies from a Machine to its Node.
pub(super) const SYNCED_DOMAINS: [&str; 2] = ["node-restriction.kubernetes.io", "node.cluster.x-k8s.io"];

/// Whether Cluster API copies a label without the flag [`SYNC_FLAG`].
pub fn is_synced_to_nodes(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    label.starts_with(SYNCED_PREFIX) || SYNCED_DOMAINS.iter().any(|of| is_within(domain, of))
}

/// The annotations that tell the autoscaler about the machines of a group that has none.
pub mod capacity {
    pub const CPU: &str = "capacity.cluster-autoscaler.kubernetes.io/cpu";
    pub const MEMORY: &str = "capacity.cluster-autoscaler.kubernetes.io/memory";
    /// The disk for containers.
    pub const EPHEMERAL_DISK: &str = "capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk";
    pub const MAX_PODS: &str = "capacity.cluster-autoscaler.kubernetes.io/maxPods";
    /// The labels, `key=value` separated by commas.
    pub const LABELS: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";
    /// The taints, `key=value:Effect` separated by commas.
    pub const TAINTS: &str = "capacity.cluster-autoscaler.kubernetes.io/taints";

    pub const ALL: [&str; 6] = [CPU, MEMORY, EPHEMERAL_DISK, MAX_PODS, LABELS, TAINTS];
}

pub const CONTAINERD_CONFIG: &str = "C:/Program Files/containerd/config.toml";
pub const CONTAINERD_DROP_IN: &str = "C:/Program Files/containerd/conf.d/50-winpool.toml";
pub const DIRECTORY: &str = "C:/k/winpool";
/// The script of image-builder that starts the kubelet with the flags of kubeadm, where it is a service of Windows.
pub const RESTART_KUBELET: &str = "RestartKubelet.ps1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_three_domains_are_copied_to_nodes() {
        let table = [
            ("node-role.kubernetes.io/windows", true),
            ("node-restriction.kubernetes.io/pool", true),
            ("a.node-restriction.kubernetes.io/pool", true),
            ("node.cluster.x-k8s.io/pool", true),
            ("xnode.cluster.x-k8s.io/pool", false),
            ("agentpool", false),
            ("example.com/pool", false),
        ];
        for (label, synced) in table {
            assert_eq!(is_synced_to_nodes(label), synced, "{label}");
        }
    }
}
