//! A node pool of AKS: `az aks nodepool add`, with the file of its kubelet configuration.

use serde::Serialize;
use winpool_api::facts::platforms::{AKS_NEEDS_FIPS, Setting};

use super::{
    LossReport, NodesToMake, selection,
    shell::{self, command},
};
use crate::kubernetes::shell_quoted;

const FILE: &str = "kubelet-config.json";
const VARIABLES: &str = "\
# Set RESOURCE_GROUP, CLUSTER and NODE_POOL before. The name of a Windows node pool has at most six characters.
: \"${RESOURCE_GROUP:?}\" \"${CLUSTER:?}\" \"${NODE_POOL:?}\"
";

/// The kubelet configuration that AKS accepts for Windows.
#[derive(Default, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct AksKubeletConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    image_gc_high_threshold: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_gc_low_threshold: Option<u8>,
    #[serde(rename = "containerLogMaxSizeMB", skip_serializing_if = "Option::is_none")]
    container_log_max_size_mb: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_log_max_files: Option<u32>,
}

impl AksKubeletConfig {
    /// What the report takes; `None` without a setting.
    pub(super) fn new(nodes: &NodesToMake, report: &LossReport) -> Option<Self> {
        let mut config = Self::default();
        let kubelet = &nodes.profile?.kubelet;
        if report.takes(Setting::ImageGc) {
            config.image_gc_high_threshold = Some(kubelet.image_gc_high);
            config.image_gc_low_threshold = Some(kubelet.image_gc_low);
        }
        if report.takes(Setting::ContainerLogs) {
            config.container_log_max_size_mb = Some(kubelet.log_max_size.bytes() >> 20);
            config.container_log_max_files = Some(kubelet.log_max_files);
        }
        (config != Self::default()).then_some(config)
    }
}

/// Whether the image must be the FIPS-enabled one.
pub(super) fn needs_fips(nodes: &NodesToMake) -> bool {
    nodes.build == AKS_NEEDS_FIPS
}

pub(super) fn script(nodes: &NodesToMake, report: &LossReport, image: &str, comment: &str) -> String {
    let config = AksKubeletConfig::new(nodes, report);
    let mut arguments: Vec<String> = [
        "--resource-group \"$RESOURCE_GROUP\"",
        "--cluster-name \"$CLUSTER\"",
        "--name \"$NODE_POOL\"",
        "--os-type Windows",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--os-sku {image}"));
    if needs_fips(nodes) {
        arguments.push("--enable-fips-image".to_owned());
    }
    if let Some(profile) = nodes.profile.filter(|_| report.takes(Setting::MaxPods)) {
        arguments.push(format!("--max-pods {}", profile.kubelet.max_pods));
    }
    arguments.extend(shell::node_taints(report, nodes));
    let (labels, _) = selection::labels(report.platform, nodes);
    if !labels.is_empty() {
        let words: Vec<_> = labels.iter().map(|(key, value)| shell_quoted(&format!("{key}={value}"))).collect();
        arguments.push(format!("--labels {}", words.join(" ")));
    }
    let mut script = format!("{comment}{VARIABLES}");
    if let Some(config) = config {
        // Numbers can always be serialized.
        let json = serde_json::to_string_pretty(&config).unwrap_or_default();
        script += &format!("cat >{FILE} <<'EOF'\n{json}\nEOF\n");
        arguments.push(format!("--kubelet-config {FILE}"));
    }
    script + &command("az aks nodepool add", &arguments)
}
