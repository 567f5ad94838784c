//! The values of `--target`, and what they print.

use winpool_check::manifests::LocatedProblem;
use winpool_facts::platforms::Platform;

use super::{Documents, Input, autoscaler_hints, cluster_class_patches, files::NodeFileFormat, machine_objects};

/// A tool that configures nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum NodeTool {
    /// A directory of patches for kubeadm, and the other files for the node
    Kubeadm,
    /// A ClusterConfig of eksctl with a self-managed node group
    EksNodegroup,
    /// A script with az aks nodepool add
    AksNodepool,
    /// An EC2NodeClass and a NodePool of Karpenter
    #[value(name = "karpenter-ec2nodeclass")]
    KarpenterEc2NodeClass,
    /// The same with user data that pass all flags of the kubelet (amiFamily: Custom)
    KarpenterUserData,
    /// Configuration files of an RKE2 agent
    Rke2,
    /// The ConfigMap of kube-proxy in the pods of Windows nodes, from that of Linux nodes among the files
    KubeProxy,
    /// The KubeadmConfigTemplates, KubeadmConfigs and Secrets that the operator creates for pools with delivery.clusterAPI
    ClusterApi,
    /// Annotations for the cluster autoscaler, as patches of the MachineDeployments of pools with clusterAPI.autoscaling
    AutoscalerHints,
    /// Variables and patches for a ClusterClass that adds the settings of a pool to its templates
    #[value(name = "clusterclass-patch")]
    ClusterClassPatch,
}

impl NodeTool {
    pub(super) const fn output(self) -> Output {
        match self {
            Self::Kubeadm => Output::NodeFiles(NodeFileFormat::Kubeadm),
            Self::EksNodegroup => Output::Platform(Platform::Eks),
            Self::AksNodepool => Output::Platform(Platform::Aks),
            Self::KarpenterEc2NodeClass => Output::Platform(Platform::Karpenter),
            Self::KarpenterUserData => Output::Platform(Platform::KarpenterUserData),
            Self::Rke2 => Output::Platform(Platform::Rke2),
            Self::KubeProxy => Output::KubeProxy,
            Self::ClusterApi => Output::ClusterApi(|input, _| machine_objects(input)),
            Self::AutoscalerHints => Output::ClusterApi(|input, _| autoscaler_hints(input)),
            Self::ClusterClassPatch => Output::ClusterApi(cluster_class_patches),
        }
    }

    /// Whether the output consists of objects, in the format of `--output`.
    pub(super) const fn prints_objects(self) -> bool {
        matches!(self, Self::ClusterApi | Self::KubeProxy)
    }

    /// Whether the output selects a class of machines, that of `--machine-deployment-class`.
    pub(super) const fn has_class(self) -> bool {
        matches!(self, Self::ClusterClassPatch)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Output {
    /// The objects that the operator would apply.
    Objects,
    NodeFiles(NodeFileFormat),
    /// Documents for a platform that makes the nodes itself.
    Platform(Platform),
    /// The ConfigMap of kube-proxy in pods.
    KubeProxy,
    ClusterApi(RenderClusterApi),
}

/// Renders for machines of Cluster API, and for a class of them, if one is specified.
pub(super) type RenderClusterApi = fn(&Input, class: Option<&str>) -> Result<Documents, Vec<LocatedProblem>>;
