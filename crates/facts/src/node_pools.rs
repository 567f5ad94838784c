//! The labels with which platforms name the node pool of a node.
//!
//! Sources: at each row. Cluster API has no such label on nodes: `cluster.x-k8s.io/deployment-name` is a label of
//! machines (cluster-api.sigs.k8s.io, reference/api/labels-and-annotations, 2026-08), and labels with the prefix
//! `node.cluster.x-k8s.io` are chosen by users (kubernetes-sigs/cluster-api,
//! `docs/proposals/20220927-label-sync-between-machine-and-nodes.md`).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePoolLabel {
    pub key: &'static str,
    pub platform: &'static str,
    pub source: &'static str,
}

/// The label with the node pool of AKS.
pub const AKS_NODE_POOL: &str = "kubernetes.azure.com/agentpool";

/// The labels, in the order in which they are looked up on a node: a node of eksctl's managed node groups has two.
#[rustfmt::skip]
pub const NODE_POOL_LABELS: &[NodePoolLabel] = &[
    NodePoolLabel { key: AKS_NODE_POOL, platform: "AKS",
        source: "MicrosoftDocs/azure-aks-docs, articles/aks/use-labels.md (2026-08): reserved by AKS" },
    NodePoolLabel { key: "agentpool", platform: "AKS",
        source: "MicrosoftDocs/azure-aks-docs, articles/aks/use-labels.md and windows-annual-channel.md (2026-08): deprecated" },
    NodePoolLabel { key: "msft.microsoft/nodepool-name", platform: "AKS on Azure Local",
        source: "MicrosoftDocs/azure-stack-docs, AKS-Arc/deploy-ai-model.md (2025-05)" },
    NodePoolLabel { key: "eks.amazonaws.com/nodegroup", platform: "EKS managed node groups",
        source: "eksctl-io/eksctl, pkg/apis/eksctl.io/v1alpha5/types.go (EKSNodeGroupNameLabel, 2026-08)" },
    NodePoolLabel { key: "alpha.eksctl.io/nodegroup-name", platform: "eksctl",
        source: "eksctl-io/eksctl, pkg/apis/eksctl.io/v1alpha5/types.go (NodeGroupNameLabel, 2026-08)" },
    NodePoolLabel { key: "karpenter.sh/nodepool", platform: "Karpenter",
        source: "kubernetes-sigs/karpenter, pkg/apis/v1/labels.go (NodePoolLabelKey, 2026-08)" },
    NodePoolLabel { key: "cloud.google.com/gke-nodepool", platform: "GKE",
        source: "docs.cloud.google.com, kubernetes-engine/docs/concepts/node-pools (2025-09)" },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_label_has_one_row() {
        let keys: BTreeSet<_> = NODE_POOL_LABELS.iter().map(|label| label.key).collect();
        assert_eq!(keys.len(), NODE_POOL_LABELS.len());
    }
}
