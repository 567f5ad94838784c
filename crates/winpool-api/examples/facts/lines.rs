//! Values of tables that a line of an upstream file has: constants, labels, messages.

use winpool_api::facts::{
    ContainerRuntime, ContainerdVersion,
    cluster_api::{
        CLOUD_UNINITIALIZED, CLUSTER_NAME, DEPLOYMENT_NAME, PAUSED, POOL_NAME, RESTART_KUBELET, TOPOLOGY_OWNED,
        UNINITIALIZED, capacity,
    },
    containerd::{CIMFS, SNAPSHOTTER},
    runtimes::DOCKER_HANDLER,
};

use super::Comparison;

/// A value of a table, and the line that has it.
pub struct Line {
    /// The file in the folder.
    pub file: &'static str,
    /// How the line begins, without white space; empty for any line.
    begin: &'static str,
    /// The value.
    value: &'static str,
    /// The table.
    pub table: &'static str,
}

const CAPI: &str = "kubernetes-sigs/cluster-api/api/core/v1beta2/common_types.go";
const CAPI_MACHINES: &str = "kubernetes-sigs/cluster-api/api/core/v1beta2/machine_types.go";
const CAPI_CONDITIONS: &str = "kubernetes-sigs/cluster-api/api/core/v1beta2/condition_consts.go";
const CLOUD_PROVIDER: &str = "kubernetes/cloud-provider/api/well_known_taints.go";
const AUTOSCALER: &str = "kubernetes/autoscaler/cluster-autoscaler/cloudprovider/clusterapi/clusterapi_utils.go";
const SERVICES: &str = "kubernetes-sigs/image-builder/images/capi/ansible/windows/roles/kubernetes/tasks/sc.yml";
const RUNTIME_CONFIG: &str =
    "kubernetes-sigs/image-builder/images/capi/ansible/windows/roles/runtimes/templates/config.toml";
const RUNTIME_TASKS: &str =
    "kubernetes-sigs/image-builder/images/capi/ansible/windows/roles/runtimes/tasks/containerd.yml";
const EKSCTL: &str = "eksctl-io/eksctl/pkg/apis/eksctl.io/v1alpha5/types.go";
const VERSIONS: &str = "MicrosoftDocs/Virtualization-Documentation/virtualization/windowscontainers/deploy-containers/version-compatibility.md";
const PULL: &str = "moby/moby/daemon/internal/distribution/pull_v2.go";
const PULL_WINDOWS: &str = "moby/moby/daemon/internal/distribution/pull_v2_windows.go";
const KUBEADM: &str =
    "kubernetes/website/content/en/docs/setup/production-environment/tools/kubeadm/install-kubeadm.md";
const CONTAINERD: ContainerRuntime<ContainerdVersion> = ContainerRuntime::Containerd(ContainerdVersion::new(2, 3, 0));
const CRI_DOCKERD: ContainerRuntime<ContainerdVersion> = ContainerRuntime::CriDockerd;

/// Every line.
#[rustfmt::skip]
pub const LINES: &[Line] = &[
    line("cluster_api", CAPI, "PausedAnnotation", PAUSED),
    line("cluster_api", CAPI, "ClusterTopologyOwnedLabel", TOPOLOGY_OWNED),
    line("cluster_api", CAPI, "ClusterNameLabel", CLUSTER_NAME),
    line("cluster_api", CAPI, "Key:", UNINITIALIZED),
    line("cluster_api", CAPI_MACHINES, "MachineDeploymentNameLabel", DEPLOYMENT_NAME),
    line("cluster_api", CAPI_MACHINES, "MachinePoolNameLabel", POOL_NAME),
    line("cluster_api", CAPI_CONDITIONS, "MachinesUpToDateCondition", "MachinesUpToDate"),
    line("cluster_api", CAPI_CONDITIONS, "RollingOutCondition", "RollingOut"),
    line("cluster_api", CAPI_CONDITIONS, "ScalingUpCondition", "ScalingUp"),
    line("cluster_api", CAPI_CONDITIONS, "ScalingDownCondition", "ScalingDown"),
    line("cluster_api", CAPI_CONDITIONS, "RemediatingCondition", "Remediating"),
    line("cluster_api", CAPI_CONDITIONS, "DeletingCondition", "Deleting"),
    line("cluster_api", CAPI_CONDITIONS, "PausedCondition", "Paused"),
    line("cluster_api", CLOUD_PROVIDER, "TaintExternalCloudProvider", CLOUD_UNINITIALIZED),
    line("cluster_api", AUTOSCALER, "cpuKey", capacity::CPU),
    line("cluster_api", AUTOSCALER, "memoryKey", capacity::MEMORY),
    line("cluster_api", AUTOSCALER, "diskCapacityKey", capacity::EPHEMERAL_DISK),
    line("cluster_api", AUTOSCALER, "maxPodsKey", capacity::MAX_PODS),
    line("cluster_api", AUTOSCALER, "taintsKey", capacity::TAINTS),
    line("cluster_api", AUTOSCALER, "labelsKey", capacity::LABELS),
    line("cluster_api", SERVICES, "dest:", RESTART_KUBELET),
    line("cluster_api", RUNTIME_TASKS, "dest:", r"containerd\\config.toml"),
    line("cluster_api", RUNTIME_CONFIG, "imports", r"conf.d\\*.toml"),
    line("containerd_settings", "containerd/containerd/core/remotes/docker/config/hosts.go", "Server string", "server"),
    line("containerd_settings", "containerd/containerd/plugins/snapshots/windows/windows.go", "ID:", SNAPSHOTTER),
    line("containerd_settings", "containerd/containerd/plugins/snapshots/windows/cimfs.go", "ID:", CIMFS),
    line("containerd_settings", "containerd/containerd/plugins/snapshots/windows/block_cimfs.go", "ID:", "blockcim"),
    line("containerd_settings", "containerd/containerd/plugins/diff/windows/windows.go", "ID:", SNAPSHOTTER),
    line("containerd_settings", "containerd/containerd/plugins/diff/windows/cimfs.go", "ID:", CIMFS),
    line("containerd_settings", "containerd/containerd/plugins/diff/windows/cimfs.go", "ID:", "blockcim"),
    line("containerd_settings", "containerd/containerd/plugins/diff/lcow/lcow.go", "ID:", "windows-lcow"),
    line("containerd_settings", "containerd/containerd/plugins/diff/walking/plugin/plugin.go", "ID:", "walking"),
    line("layers", "containerd/containerd/version/version.go", "const ConfigVersion", "4"),
    line("node_pools", "MicrosoftDocs/azure-aks-docs/articles/aks/use-labels.md", "|", "kubernetes.azure.com/agentpool"),
    line("node_pools", "MicrosoftDocs/azure-aks-docs/articles/aks/windows-annual-channel.md", "Labels:", "agentpool"),
    line("node_pools", "MicrosoftDocs/azure-stack-docs/AKS-Arc/deploy-ai-model.md", "", "msft.microsoft/nodepool-name"),
    line("node_pools", EKSCTL, "NodeGroupNameLabel", "alpha.eksctl.io/nodegroup-name"),
    line("node_pools", EKSCTL, "EKSNodeGroupNameLabel", "eks.amazonaws.com/nodegroup"),
    line("node_pools", "kubernetes-sigs/karpenter/pkg/apis/crds/karpenter.sh_nodepools.yaml", "", "karpenter.sh/nodepool"),
    line("runtime_errors", VERSIONS, "", "0xc0370101"),
    line("runtime_errors", VERSIONS, "", "operating system of the container does not match the operating system of the host"),
    line("runtime_errors", "MicrosoftDocs/Virtualization-Documentation/virtualization/api/hcs/Reference/HCSHResult.md", "",
        "container operating system does not match the host operating system"),
    line("runtime_errors", "containerd/containerd/core/images/image.go", "", "no match for platform in manifest"),
    line("runtime_errors", PULL, "", "no matching manifest for"),
    line("runtime_errors", PULL_WINDOWS, "", "-based image is incompatible with a"),
    line("runtimes", KUBEADM, "| containerd", CONTAINERD.endpoint()),
    line("runtimes", KUBEADM, "| Docker Engine", CRI_DOCKERD.endpoint()),
    line("runtimes", "kubernetes-sigs/cluster-api-provider-azure/templates/cluster-template-windows.yaml", "criSocket:", CONTAINERD.endpoint()),
    line("runtimes", "Mirantis/cri-dockerd/cmd/cri/options/options.go", "remoteRuntimeEndpoint", CRI_DOCKERD.endpoint()),
    line("runtimes", "Mirantis/cri-dockerd/core/sandbox_helpers.go", "runtimeName", DOCKER_HANDLER),
];

const fn line(table: &'static str, file: &'static str, begin: &'static str, value: &'static str) -> Line {
    Line { file, begin, value, table }
}

impl Line {
    /// Looks for the line in the text of its file. The case is ignored.
    pub fn compare(&self, text: &str) -> Comparison {
        let value = self.value.to_lowercase();
        let mut lines = text.lines().map(str::trim_start).filter(|line| line.starts_with(self.begin));
        let is_found = lines.any(|line| has(&line.to_lowercase(), &value));
        let missing = || format!("no line {:?} with {}: compare the table {}", self.begin, self.value, self.table);
        Ok((!is_found).then(missing).into_iter().collect())
    }
}

/// Whether a line has a value that is not part of a longer name.
fn has(line: &str, value: &str) -> bool {
    let is_part =
        |char: Option<char>, marks: &str| char.is_some_and(|char| char.is_ascii_alphanumeric() || marks.contains(char));
    let begins = value.starts_with(|char: char| char.is_ascii_alphanumeric());
    line.match_indices(value).any(|(start, _)| {
        let (before, after) = (line[..start].chars().next_back(), line[start + value.len()..].chars().next());
        !(begins && is_part(before, "-_./") || is_part(after, "-_/"))
    })
}

#[cfg(test)]
mod tests {
    use winpool_api::facts::{
        Minor, NOT_COMPARED, cluster_api, node_pools::NODE_POOL_LABELS, runtime_errors::MISMATCH_ERRORS,
    };

    use super::*;

    #[test]
    fn a_value_is_compared_as_a_whole_in_the_lines_that_begin_so() {
        let line = line("cluster_api", "a.go", "Name", "x.io/name");
        let table = [
            ("\tName = \"x.io/name\"\n", true),
            ("\tName = \"X.io/Name\"\n", true),
            ("\tName = \"x.io/name-2\"\n", false),
            ("\tName = \"a.x.io/name\"\n", false),
            ("\tOther = \"x.io/name\"\n", false),
            ("", false),
        ];
        for (text, same) in table {
            assert_eq!(line.compare(text).unwrap().is_empty(), same, "{text}");
        }
    }

    #[test]
    fn every_label_error_and_endpoint_is_compared_or_says_why_not() {
        let endpoints =
            [CONTAINERD, CRI_DOCKERD, ContainerRuntime::docker(Minor(23))].map(|runtime| runtime.endpoint());
        let values = NODE_POOL_LABELS.iter().map(|label| label.key).chain(MISMATCH_ERRORS).chain(endpoints);
        for value in values.chain(capacity::ALL) {
            let is_compared = LINES.iter().any(|line| line.value == value);
            assert_ne!(is_compared, NOT_COMPARED.iter().any(|(_, row, _)| *row == value), "{value}");
        }
        assert_eq!(cluster_api::CONTAINERD_CONFIG, "C:/Program Files/containerd/config.toml");
    }
}
