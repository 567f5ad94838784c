//! Values that a line of a file has, and functions whose rules tables follow.

use anyhow::{Context, Result};
use e2e::{
    cluster_api::definitions,
    modules::{CLUSTER_API, Module},
};
use regex::Captures;
use winpool_api::names::label;
use winpool_facts::{
    ContainerRuntime, ContainerdVersion,
    cluster_api::{
        CLOUD_UNINITIALIZED, CLUSTER_NAME, DEPLOYMENT_NAME, MAX_ARGUMENT, MAX_CONTENT, MAX_FILES, PAUSED, POOL_NAME,
        TOPOLOGY_OWNED, UNINITIALIZED, VERSION,
    },
    containerd::{
        CIMFS, CONTAINER_ANNOTATIONS, HYPERV_HANDLER, PIPE, POD_ANNOTATIONS, PROCESS_HANDLER, RUNTIME_TYPE, SNAPSHOTTER,
    },
    node_lifecycle::LIFECYCLE_CONDITIONS,
    service_limits::PRESERVE_DESTINATION,
};

use super::{
    containerd::{CONTAINERD, CONTAINERD_2_3, HCSSHIM, PLATFORMS},
    kubernetes::KUBERNETES,
    source::{Source, Upstream, differences},
};

const CAPI_TYPES: Module = Module::new("cluster-api", "sigs.k8s.io/cluster-api/api");
const CAPI: &str = "core/v1beta2/common_types.go";
const CAPI_MACHINES: &str = "core/v1beta2/machine_types.go";
const CAPI_CONDITIONS: &str = "core/v1beta2/condition_consts.go";
const KUBEADM: &str = "cmd/kubeadm/app/constants/constants_windows.go";
const CRI_WINDOWS: &str = "internal/cri/config/config_windows.go";

const CONTAINERD_ENDPOINT: &str = ContainerRuntime::Containerd(ContainerdVersion::new(2, 3, 0)).endpoint();
const CRI_DOCKERD_ENDPOINT: &str = ContainerRuntime::<ContainerdVersion>::CriDockerd.endpoint();

/// A value of a table, the file, and how the line with the value begins, without white space.
type Line = (&'static str, Module, &'static str, &'static str, &'static str);

const fn k8s(module: &'static str) -> Module {
    Module::new("kubernetes", module)
}

#[rustfmt::skip]
const LINES: &[Line] = &[
    ("cluster_api", CAPI_TYPES, CAPI, "PausedAnnotation", PAUSED),
    ("cluster_api", CAPI_TYPES, CAPI, "ClusterTopologyOwnedLabel", TOPOLOGY_OWNED),
    ("cluster_api", CAPI_TYPES, CAPI, "ClusterNameLabel", CLUSTER_NAME),
    ("cluster_api", CAPI_TYPES, CAPI, "Key:", UNINITIALIZED),
    ("cluster_api", CAPI_TYPES, CAPI_MACHINES, "MachineDeploymentNameLabel", DEPLOYMENT_NAME),
    ("cluster_api", CAPI_TYPES, CAPI_MACHINES, "MachinePoolNameLabel", POOL_NAME),
    ("cluster_api", CAPI_TYPES, CAPI_CONDITIONS, "MachinesUpToDateCondition", "MachinesUpToDate"),
    ("cluster_api", CAPI_TYPES, CAPI_CONDITIONS, "RollingOutCondition", "RollingOut"),
    ("cluster_api", CAPI_TYPES, CAPI_CONDITIONS, "ScalingUpCondition", "ScalingUp"),
    ("cluster_api", CAPI_TYPES, CAPI_CONDITIONS, "ScalingDownCondition", "ScalingDown"),
    ("cluster_api", CAPI_TYPES, CAPI_CONDITIONS, "RemediatingCondition", "Remediating"),
    ("cluster_api", CAPI_TYPES, CAPI_CONDITIONS, "DeletingCondition", "Deleting"),
    ("cluster_api", CAPI_TYPES, CAPI_CONDITIONS, "PausedCondition", "Paused"),
    ("cluster_api", k8s("k8s.io/cloud-provider"), "api/well_known_taints.go", "TaintExternalCloudProvider", CLOUD_UNINITIALIZED),
    ("containerd", CONTAINERD, "defaults/defaults_windows.go", "DefaultAddress", PIPE),
    ("containerd", CONTAINERD, "defaults/defaults_windows.go", "DefaultRuntime", RUNTIME_TYPE),
    ("containerd", CONTAINERD, "defaults/defaults_windows.go", "DefaultSnapshotter", SNAPSHOTTER),
    ("containerd", CONTAINERD, CRI_WINDOWS, "DefaultRuntimeName:", PROCESS_HANDLER),
    ("containerd", CONTAINERD, CRI_WINDOWS, "\"", HYPERV_HANDLER),
    ("containerd", CONTAINERD, CRI_WINDOWS, "ContainerAnnotations:", CONTAINER_ANNOTATIONS),
    ("containerd", CONTAINERD, CRI_WINDOWS, "PodAnnotations:", POD_ANNOTATIONS),
    ("containerd_settings", CONTAINERD, "core/remotes/docker/config/hosts.go", "Server string", "server"),
    ("containerd_settings", CONTAINERD, "plugins/snapshots/windows/windows.go", "ID:", SNAPSHOTTER),
    ("containerd_settings", CONTAINERD, "plugins/snapshots/windows/cimfs.go", "ID:", CIMFS),
    ("containerd_settings", CONTAINERD, "plugins/snapshots/windows/block_cimfs.go", "ID:", "blockcim"),
    ("containerd_settings", CONTAINERD, "plugins/diff/windows/windows.go", "ID:", SNAPSHOTTER),
    ("containerd_settings", CONTAINERD, "plugins/diff/windows/cimfs.go", "ID:", CIMFS),
    ("containerd_settings", CONTAINERD, "plugins/diff/windows/cimfs.go", "ID:", "blockcim"),
    ("containerd_settings", CONTAINERD, "plugins/diff/lcow/lcow.go", "ID:", "windows-lcow"),
    ("containerd_settings", CONTAINERD, "plugins/diff/walking/plugin/plugin.go", "ID:", "walking"),
    ("node_lifecycle", k8s("k8s.io/api"), "core/v1/types.go", "NodeMaintenanceInProgress ", LIFECYCLE_CONDITIONS[0].name),
    ("node_lifecycle", k8s("k8s.io/api"), "core/v1/types.go", "NodeDrainInProgress ", LIFECYCLE_CONDITIONS[1].name),
    ("node_lifecycle", k8s("k8s.io/api"), "core/v1/types.go", "NodeDrained ", LIFECYCLE_CONDITIONS[2].name),
    ("node_lifecycle", k8s("k8s.io/api"), "core/v1/types.go", "NodeGracefulNodeShutdownInProgress ", LIFECYCLE_CONDITIONS[3].name),
    ("node_lifecycle", k8s("k8s.io/api"), "core/v1/types.go", "NodeMaintenancePlanned ", LIFECYCLE_CONDITIONS[4].name),
    ("node_restriction", k8s("k8s.io/api"), "core/v1/well_known_labels.go", "LabelOSStable", label::OS),
    ("node_restriction", k8s("k8s.io/api"), "core/v1/well_known_labels.go", "LabelWindowsBuild", label::WINDOWS_BUILD),
    ("runtime_errors", CONTAINERD, "core/images/image.go", "err = fmt.Errorf", "no match for platform in manifest"),
    ("runtimes", k8s(KUBERNETES), KUBEADM, "CRISocketContainerd", CONTAINERD_ENDPOINT),
    ("runtimes", k8s(KUBERNETES), KUBEADM, "CRISocketDocker", CRI_DOCKERD_ENDPOINT),
    ("service_limits", k8s(KUBERNETES), "pkg/proxy/winkernel/proxier.go", "preserveDIP := service.Annotations[", PRESERVE_DESTINATION),
];

/// Compares the lines of a table.
pub fn lines(table: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (_, module, path, begin, value) in LINES.iter().filter(|(of, ..)| *of == table) {
        let source = Source::read(*module, path)?;
        let mut lines = source.text().lines().map(str::trim_start).filter(|line| line.starts_with(begin));
        let is_value = |line: &str| ["\"", "`"].iter().any(|mark| line.contains(&format!("{mark}{value}")));
        if !lines.any(is_value) {
            let at = source.text().find(begin).map_or(format!("no {begin:?} in {path}"), |offset| source.place(offset));
            found.push(format!("{value}: {at} has another value"));
        }
    }
    Ok(found)
}

/// The table, the file, the text before a function or section and the one after it, and the [`digest`] of what was read.
type Section = (&'static str, Module, &'static str, &'static str, &'static str, u64);

const CAPI_LABELS: &str = "util/labels/helpers.go";
const CAPI_MACHINE_SETS: &str = "core/reconcilers/machineset/machineset_controller_status.go";
const CAPI_VERSIONS: &str = "docs/book/src/reference/versions.md";
const SERVER: &str = "cmd/containerd/server/config/config.go";
const KUBELET_ON_WINDOWS: &str = "pkg/kubelet/apis/config/validation/validation_windows.go";
const SHIM: &str = "cmd/containerd-shim-runhcs-v1/pod.go";

#[rustfmt::skip]
const SECTIONS: &[Section] = &[
    ("cluster_api", CLUSTER_API, CAPI_LABELS, "func GetManagedLabels(", "\n}\n", 0xde3c_f8ce_e063_f435),
    ("cluster_api", CLUSTER_API, CAPI_MACHINE_SETS, "func setScalingUpCondition(", "\n}\n", 0xaf31_b7e8_34b5_9e03),
    ("cluster_api", CLUSTER_API, CAPI_VERSIONS, "| API Version | Status", "See [11920]", 0xe098_c019_b08b_920a),
    ("host_process", HCSSHIM, SHIM, "Debug(\"createPod\")", "ct, sid, err :=", 0x55a0_d148_f58e_f52a),
    ("kubelet_fields", k8s(KUBERNETES), KUBELET_ON_WINDOWS, "func validateKubeletOSConfiguration(", "\n}\n", 0x3654_1293_213f_2a5b),
    ("layers", CONTAINERD, SERVER, "func LoadConfigWithPlugins(", "\n}\n", 0x069e_9f99_dd07_481f),
    ("layers", CONTAINERD, SERVER, "func mergeConfig(", "\n}\n", 0xa06d_020c_472e_9016),
    ("layers", CONTAINERD_2_3, "internal/cri/config/config.go", "`bin_dir` is deprecated", "\n\t}\n", 0xca4c_e34e_f851_3b54),
    ("layers", k8s(KUBERNETES), "cmd/kubelet/app/server.go", "func mergeKubeletConfigurations(", "baseKubeletConfigJSON = mergedConfigJSON", 0x4e77_bd7c_cd6e_ad50),
    ("version_compatibility", PLATFORMS, "platform_windows_compat.go", "func checkWindowsHostAndContainerCompat(", "\n}\n", 0x6611_1190_01b5_8769),
    ("version_compatibility", HCSSHIM, "osversion/platform_compat_windows.go", "var compatLTSCReleases", "\n}\n", 0xe6f3_75ec_4275_a54f),
];

/// Compares the functions and sections whose rules a table follows: after a change, read them, correct the table, and write the new
/// digest here.
pub fn sections(table: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (_, module, path, begin, end, read) in SECTIONS.iter().filter(|(of, ..)| *of == table) {
        let source = Source::read(*module, path)?.part(begin, end)?;
        let now = digest(&source.text()[begin.len()..]);
        if now != *read {
            found.push(format!(
                "{begin}: {} changed. Read it, and replace {read:#018x} by {now:#018x}",
                source.place(0)
            ));
        }
    }
    Ok(found)
}

/// The FNV-1a hash of the words, with 64 bits: other breaks of lines are no change. Nobody has an interest in a collision.
fn digest(text: &str) -> u64 {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Compares the limits of KubeadmConfig.
pub fn limits() -> Result<Vec<String>> {
    let mut upstream = Upstream::new();
    for file in ["kubeadmconfig_types.go", "kubeadm_types.go"] {
        let source = Source::read(CAPI_TYPES, &format!("bootstrap/kubeadm/v1beta2/{file}"))?;
        let marker = r"Max(?:Items|Length)=(\d+)\n(?:\s*//.*\n)*";
        let field = |captures: &Captures<'_>| Some((captures[2].to_owned(), captures[1].to_owned()));
        upstream.extend(source.rows(&format!(r"{marker}\t(Files \[\]File|Content string) "), field)?);
        if let Ok(argument) = source.part("type Arg struct {", "\n}") {
            upstream.extend(argument.rows(&format!(r"{marker}\t(Value) "), field)?);
        }
    }
    let own = [("Files []File", MAX_FILES), ("Content string", MAX_CONTENT), ("Value", MAX_ARGUMENT)];
    Ok(differences(&upstream, &own.map(|(name, most)| (name.to_owned(), most.to_string())).into()))
}

/// Compares the version that winpool uses with the one that each CustomResourceDefinition stores.
pub fn api_versions() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for definition in definitions()? {
        let versions = definition["spec"]["versions"].as_array().context("versions")?;
        let stored = versions.iter().find(|version| version["storage"] == true).context("no version is stored")?;
        if stored["name"] != VERSION || stored["served"] != true {
            found.push(format!("{}: {} is stored, not {VERSION}", definition["metadata"]["name"], stored["name"]));
        }
    }
    Ok(found)
}
