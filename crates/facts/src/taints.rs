//! Taints that other components manage, and those with which clusters keep Linux pods off Windows nodes.
//!
//! Sources of the managed taints: kubernetes/website, "Taints and Tolerations"; kubernetes/autoscaler,
//! `cluster-autoscaler/utils/taints/taints.go` (2025-11); kubernetes-sigs/karpenter, `pkg/apis/v1/taints.go` (2025-11);
//! kubernetes-sigs/cluster-api, `docs/book/src/reference/api/taint-propagation.md` (2026-08); kubernetes-sigs/karpenter,
//! `pkg/scheduling/taints.go`, for `readiness.k8s.io/` (#3025, 2026-05). Sources of the others: at each
//! row of [`OS_TAINTS`].

/// Prefixes of taints that follow the state of a node: other components add and remove them.
pub(super) const MANAGED: [(&str, &str); 12] = [
    ("node.kubernetes.io/", "Kubernetes"),
    ("node.cloudprovider.kubernetes.io/", "the cloud controller manager"),
    ("node.cluster.x-k8s.io/", "Cluster API"),
    ("ToBeDeletedByClusterAutoscaler", "the cluster autoscaler"),
    ("DeletionCandidateOfClusterAutoscaler", "the cluster autoscaler"),
    ("ignore-taint.cluster-autoscaler.kubernetes.io/", "the cluster autoscaler"),
    ("startup-taint.cluster-autoscaler.kubernetes.io/", "the cluster autoscaler"),
    ("status-taint.cluster-autoscaler.kubernetes.io/", "the cluster autoscaler"),
    ("cloud.google.com/impending-node-termination", "Google Kubernetes Engine"),
    ("NodeWithImpairedVolumes", "the cloud controller manager of AWS"),
    ("karpenter.sh/", "Karpenter"),
    ("readiness.k8s.io/", "the node readiness controller"),
];

/// The key of the permanent taint that some platforms keep on their Windows nodes: a pod must tolerate it.
const OS_KEY: &str = "node.kubernetes.io/os";

/// The component that adds and removes taints with this key; `None` if a taint with this key is permanent.
pub fn manager(key: &str) -> Option<&'static str> {
    let is_prefix = |(prefix, _): &&(&str, &str)| key.starts_with(prefix);
    MANAGED.iter().find(is_prefix).map(|(_, manager)| *manager).filter(|_| key != OS_KEY)
}

/// A taint with which clusters keep Linux pods off Windows nodes. The effect is NoSchedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsTaint {
    pub key: &'static str,
    pub value: &'static str,
    pub used_by: &'static str,
    pub source: &'static str,
}

/// The taints in use, the default of winpool first.
#[rustfmt::skip]
pub const OS_TAINTS: &[OsTaint] = &[
    OsTaint { key: "os", value: "windows", used_by: "the documentation of Kubernetes, guides for EKS",
        source: "kubernetes/website, docs/concepts/windows/user-guide.md (2026-08)" },
    OsTaint { key: "os", value: "Windows", used_by: "OpenShift: the kubelet registers with it",
        source: "openshift/windows-machine-config-operator, pkg/nodeconfig/nodeconfig.go (2026-08)" },
    OsTaint { key: "node.kubernetes.io/os", value: "windows", used_by: "Google Kubernetes Engine, Google Distributed Cloud",
        source: "buildpacks-community/kpack#604; Google Distributed Cloud, Diagnose cluster issues (2026)" },
    OsTaint { key: "node.kubernetes.io/os", value: "Windows", used_by: "AKS on Azure Local",
        source: "MicrosoftDocs, aks-hci/adapt-apps-mixed-os-clusters (2021; the page of 2024 has sku=Windows)" },
    OsTaint { key: "node.kubernetes.io/os", value: "win1809", used_by: "clusters of kube-up on Google Compute Engine",
        source: "kubernetes/kubernetes, cluster/gce/config-common.sh (1.20)" },
    OsTaint { key: "sku", value: "Windows", used_by: "AKS on Azure Local, AKS on Windows Server",
        source: "learn.microsoft.com, aks/aksarc/adapt-apps-mixed-os-clusters (2024)" },
];

pub fn os_taint(key: &str, value: &str) -> Option<usize> {
    OS_TAINTS.iter().position(|taint| (taint.key, taint.value) == (key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_of_the_state_of_a_node_are_managed_and_those_of_its_system_are_permanent() {
        let table = [
            ("node.kubernetes.io/not-ready", Some("Kubernetes")),
            ("node.cluster.x-k8s.io/uninitialized", Some("Cluster API")),
            ("karpenter.sh/disrupted", Some("Karpenter")),
            ("readiness.k8s.io/cni", Some("the node readiness controller")),
            ("node.kubernetes.io/os", None),
            ("os", None),
            ("example.com/team", None),
        ];
        for (key, expected) in table {
            assert_eq!(manager(key), expected, "{key}");
        }
        assert!(OS_TAINTS.iter().all(|taint| manager(taint.key).is_none()));
    }

    #[test]
    fn a_taint_of_windows_nodes_has_key_and_value() {
        let is_known = |key, value| os_taint(key, value).is_some();
        assert!(is_known("os", "Windows") && is_known("node.kubernetes.io/os", "windows"));
        assert!(!is_known("os", "linux") && !is_known("team", "windows"));
    }
}
