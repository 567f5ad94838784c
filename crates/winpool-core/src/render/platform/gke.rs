//! A node pool of GKE: `gcloud container node-pools create`.

use winpool_api::facts::platforms::Setting;

use super::{
    super::kubelet::taint_flag,
    NodeGroup, Report, selection,
    shell::{command, quoted},
};

const VARIABLES: &str = "\
# Set CLUSTER, LOCATION and NODE_POOL before.
: \"${CLUSTER:?}\" \"${LOCATION:?}\" \"${NODE_POOL:?}\"
";

pub(super) fn script(nodes: &NodeGroup, report: &Report, image: &str, comment: &str) -> String {
    let mut arguments: Vec<String> =
        ["--cluster \"$CLUSTER\"", "--location \"$LOCATION\"", "--image-type WINDOWS_LTSC_CONTAINERD"]
            .map(str::to_owned)
            .into();
    arguments.push(format!("--windows-os-version {image}"));
    if let Some(profile) = nodes.profile.filter(|_| report.takes(Setting::MaxPods)) {
        arguments.push(format!("--max-pods-per-node {}", profile.kubelet.max_pods));
    }
    let (taints, _) = selection::taints(report.platform, nodes);
    if !taints.is_empty() {
        let list: Vec<_> = taints.into_iter().map(taint_flag).collect();
        arguments.push(format!("--node-taints {}", quoted(&list.join(","))));
    }
    let (labels, _) = selection::labels(report.platform, nodes);
    if !labels.is_empty() {
        let list: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        arguments.push(format!("--node-labels {}", quoted(&list.join(","))));
    }
    format!("{comment}{VARIABLES}{}", command("gcloud container node-pools create \"$NODE_POOL\"", &arguments))
}
