//! A node pool of AKS: `az aks nodepool add`, with the file of its kubelet configuration.

use winpool_core::kubernetes::shell_quoted;
use winpool_facts::platforms::{AKS_NEEDS_FIPS, Setting};

use super::{
    super::{kubelet::taint_flag, yaml::Fields},
    LossReport, NodesToMake, selection,
};

const FILE: &str = "kubelet-config.json";
const VARIABLES: &str = "\
# Set RESOURCE_GROUP, CLUSTER and NODE_POOL before. The name of a Windows node pool has at most six characters.
: \"${RESOURCE_GROUP:?}\" \"${CLUSTER:?}\" \"${NODE_POOL:?}\"
";

/// What the report takes of the kubelet configuration that AKS accepts for Windows; `None` without a setting.
fn kubelet_config(nodes: &NodesToMake, report: &LossReport) -> Option<Fields<'static>> {
    let mut config = Fields::default();
    let kubelet = &nodes.profile?.kubelet;
    if report.takes(Setting::ImageGc) {
        config = config
            .with("imageGcHighThreshold", kubelet.image_gc_high)
            .with("imageGcLowThreshold", kubelet.image_gc_low);
    }
    if report.takes(Setting::ContainerLogs) {
        config = config
            .with("containerLogMaxSizeMB", kubelet.log_max_size.bytes() >> 20)
            .with("containerLogMaxFiles", kubelet.log_max_files);
    }
    config.non_empty()
}

pub(super) fn script(nodes: &NodesToMake, report: &LossReport, image: &str, comment: &str) -> String {
    let mut arguments: Vec<String> = [
        "--resource-group \"$RESOURCE_GROUP\"",
        "--cluster-name \"$CLUSTER\"",
        "--name \"$NODE_POOL\"",
        "--os-type Windows",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--os-sku {image}"));
    if nodes.build == AKS_NEEDS_FIPS {
        arguments.push("--enable-fips-image".to_owned());
    }
    arguments.extend(report.max_pods(nodes).map(|pods| format!("--max-pods {pods}")));
    let (taints, _) = selection::taints(report.platform, nodes);
    if !taints.is_empty() {
        let list: Vec<_> = taints.into_iter().map(taint_flag).collect();
        arguments.push(format!("--node-taints {}", shell_quoted(&list.join(","))));
    }
    let (labels, _) = selection::labels(report.platform, nodes);
    if !labels.is_empty() {
        let words: Vec<_> = labels.iter().map(|(key, value)| shell_quoted(&format!("{key}={value}"))).collect();
        arguments.push(format!("--labels {}", words.join(" ")));
    }
    let mut script = format!("{comment}{VARIABLES}");
    if let Some(config) = kubelet_config(nodes, report) {
        // Numbers can always be serialized.
        let json = serde_json::to_string_pretty(&config).unwrap_or_default();
        script += &format!("cat >{FILE} <<'EOF'\n{json}\nEOF\n");
        arguments.push(format!("--kubelet-config {FILE}"));
    }
    script + &command("az aks nodepool add", &arguments)
}

/// A command, with each further argument in a line of its own.
fn command(first: &str, arguments: &[String]) -> String {
    let lines: String = arguments.iter().map(|argument| format!(" \\\n  {argument}")).collect();
    format!("{first}{lines}\n")
}
