//! Sections of pages and functions on which tables depend that no program can compare with a row: a changed section is a
//! difference, and has to be read again.

use super::Comparison;

/// A section of a page, or a function of a source, and the digest of the text that was read.
pub struct Section {
    /// The name of the file in the folder.
    pub file: &'static str,
    /// The text before the section.
    begin: &'static str,
    /// The text after it.
    end: &'static str,
    /// The [`digest`] of the section.
    digest: u64,
    /// The table that depends on it.
    pub table: &'static str,
}

const SKEW: &str = "kubernetes/website/content/en/releases/version-skew-policy.md";
const NETWORKING: &str = "kubernetes/website/content/en/docs/concepts/services-networking/windows-networking.md";
const TAINTS: &str = "kubernetes/website/content/en/docs/concepts/scheduling-eviction/taint-and-toleration.md";
const BOOTSTRAP: &str = "kubernetes-sigs/cluster-api/docs/book/src/developer/providers/contracts/bootstrap-config.md";
const NODE_CONFIG: &str = "MicrosoftDocs/azure-aks-docs/articles/aks/custom-node-configuration.md";
const CAPI_LABELS: &str = "kubernetes-sigs/cluster-api/util/labels/helpers.go";
const CAPI_MACHINE_SETS: &str =
    "kubernetes-sigs/cluster-api/core/reconcilers/machineset/machineset_controller_status.go";
const KUBEADM_CONFIG: &str = "kubernetes-sigs/cluster-api/api/bootstrap/kubeadm/v1beta2/kubeadmconfig_types.go";
const KUBEADM_TYPES: &str = "kubernetes-sigs/cluster-api/api/bootstrap/kubeadm/v1beta2/kubeadm_types.go";
const CAPI_VERSIONS: &str = "kubernetes-sigs/cluster-api/docs/book/src/reference/versions.md";
const HOST_PROCESS: &str =
    "kubernetes/enhancements/keps/sig-windows/1981-windows-privileged-container-support/README.md";
const HOST_PROCESS_POD: &str =
    "kubernetes/website/content/en/docs/tasks/configure-pod-container/create-hostprocess-pod.md";
const SHIM_POD: &str = "microsoft/hcsshim/cmd/containerd-shim-runhcs-v1/pod.go";
const CONTAINERD_CONFIG: &str = "containerd/containerd/cmd/containerd/server/config/config.go";
const CONTAINERD_CRI: &str = "containerd/containerd/internal/cri/config/config.go";
const KUBELET_SERVER: &str = "kubernetes/kubernetes/cmd/kubelet/app/server.go";
const CRI_DOCKERD: &str = "Mirantis/cri-dockerd/core/sandbox_run.go";
const PLATFORMS: &str = "containerd/containerd/vendor/github.com/containerd/platforms/platform_windows_compat.go";
const HCSSHIM_PLATFORMS: &str = "microsoft/hcsshim/osversion/platform_compat_windows.go";
const VERSIONS: &str = "MicrosoftDocs/Virtualization-Documentation/virtualization/windowscontainers/deploy-containers/version-compatibility.md";

/// Every section. The repositories were read in the state of 2026-07-21 to 2026-08-22, and the pages of kubernetes/website
/// and `server.go` of kubernetes/kubernetes in 2026-11 at commits that may not be their newest: version-skew-policy.md at 0637786b,
/// windows-networking.md at 038a69be, taint-and-toleration.md at 0d163067, create-hostprocess-pod.md at 04effa5c.
#[rustfmt::skip]
pub const SECTIONS: &[Section] = &[
    section("skew", SKEW, "### kubelet\n", "Example:", 0x6088_1da8_19a9_855c),
    section("skew", SKEW, "### kube-proxy\n", "Example:", 0xcd1b_373d_53d9_de91),
    section("service_limits", NETWORKING, "## Limitations", "Specifically, the Windows data plane", 0x5f6d_7730_01bb_d00e),
    section("taints", TAINTS, "The following taints are built in:", "In case a node is to be drained", 0xbd19_f617_bca5_5438),
    section("taints", BOOTSTRAP, "### Taint Nodes at creation", "\n### ", 0xeb4f_d1ed_4892_2a26),
    section("platforms", NODE_CONFIG, "#### [Windows node pools](#tab/windows-node-pools)", "### OS configuration", 0x0b6c_e214_d1d3_64d9),
    section("cluster_api", CAPI_LABELS, "func GetManagedLabels(", "\n}\n", 0xde3c_f8ce_e063_f435),
    section("cluster_api", CAPI_MACHINE_SETS, "func setScalingUpCondition(", "\n}\n", 0xaf31_b7e8_34b5_9e03),
    section("cluster_api", KUBEADM_CONFIG, "// files specifies extra files", "Files []File", 0xc695_9202_b683_02fc),
    section("cluster_api", KUBEADM_CONFIG, "type File struct {", "\n}\n", 0xd04f_f388_115f_78c4),
    section("cluster_api", KUBEADM_TYPES, "type Arg struct {", "\n}\n", 0xd3e7_3287_b7e7_5b82),
    section("cluster_api", CAPI_VERSIONS, "| API Version | Status", "See [11920]", 0xe098_c019_b08b_920a),
    section("host_process", HOST_PROCESS, "##### Compatibility", "#### Container Images", 0x056d_705a_868e_8b75),
    section("host_process", HOST_PROCESS_POD, "## Limitations", "- HostProcess pods can only contain", 0x4b42_4c8d_9c1e_583f),
    section("host_process", SHIM_POD, "Debug(\"createPod\")", "ct, sid, err :=", 0x55a0_d148_f58e_f52a),
    section("layers", CONTAINERD_CONFIG, "func LoadConfigWithPlugins(", "\n}\n", 0x069e_9f99_dd07_481f),
    section("layers", CONTAINERD_CONFIG, "func mergeConfig(", "\n}\n", 0xa06d_020c_472e_9016),
    section("layers", CONTAINERD_CRI, "`bin_dir` is deprecated", "\n\t}\n", 0xca4c_e34e_f851_3b54),
    section("layers", KUBELET_SERVER, "func mergeKubeletConfigurations(", "baseKubeletConfigJSON = mergedConfigJSON", 0x48be_1bfa_aa37_54ee),
    section("runtimes", CRI_DOCKERD, "RuntimeClass.handler=docker", "HostConfig.Runtime = runtimeHandler", 0x78cb_7ef4_5c06_25cb),
    section("version_compatibility", PLATFORMS, "func checkWindowsHostAndContainerCompat(", "\n}\n", 0x6611_1190_01b5_8769),
    section("version_compatibility", HCSSHIM_PLATFORMS, "var compatLTSCReleases", "\n}\n", 0xe6f3_75ec_4275_a54f),
    section("version_compatibility", VERSIONS, "## Windows Server host OS compatibility", "## Windows Client host OS compatibility", 0x64ca_8e5d_da17_d48a),
    section("version_compatibility", VERSIONS, "#### Windows Server 2016 Restrictions", "#### Practical application", 0x4ec1_e093_0d77_1731),
];

const fn section(
    table: &'static str,
    file: &'static str,
    begin: &'static str,
    end: &'static str,
    digest: u64,
) -> Section {
    Section { file, begin, end, digest, table }
}

impl Section {
    /// Compares the section in the text of its page.
    pub fn compare(&self, text: &str) -> Comparison {
        let after = text.split_once(self.begin).map(|(_, after)| after);
        let section = after.and_then(|after| after.split_once(self.end)).map(|(section, _)| section);
        let found = digest(section.ok_or_else(|| format!("no section after {:?}", self.begin))?);
        let changed = || {
            let digest = self.digest;
            format!(
                "the section {:?} changed: compare the table {}, and write the digest {found:#018x} instead of {digest:#018x}",
                self.begin, self.table
            )
        };
        Ok((found != self.digest).then(changed).into_iter().collect())
    }
}

/// The FNV-1a hash of the words, with 64 bits: other breaks of lines are no change. Nobody has an interest in a collision.
fn digest(text: &str) -> u64 {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_section_is_a_difference_and_other_breaks_of_lines_are_none() {
        // The test vector of FNV-1a for "foobar".
        let section = |digest| Section { file: "page.md", begin: "# A", end: "# B", digest, table: "taints" };
        let known = section(0x8594_4171_f739_67e8);
        assert_eq!(known.compare("# A\nfoobar\n# B"), Ok(Vec::new()));
        assert_eq!(known.compare("# A\n\n foobar # B"), Ok(Vec::new()));
        assert_eq!(known.compare("# A\nfoobars\n# B").unwrap().len(), 1);
        assert!(known.compare("foobar").is_err());
    }
}
