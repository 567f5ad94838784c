//! A node pool of GKE: `gcloud container node-pools create`.

use super::{
    LossReport, NodesToMake, selection,
    shell::{self, command},
};
use crate::kubernetes::shell_quoted;

const VARIABLES: &str = "\
# Set CLUSTER, LOCATION and NODE_POOL before.
: \"${CLUSTER:?}\" \"${LOCATION:?}\" \"${NODE_POOL:?}\"
";

pub(super) fn script(nodes: &NodesToMake, report: &LossReport, image: &str, comment: &str) -> String {
    let mut arguments: Vec<String> =
        ["--cluster \"$CLUSTER\"", "--location \"$LOCATION\"", "--image-type WINDOWS_LTSC_CONTAINERD"]
            .map(str::to_owned)
            .into();
    arguments.push(format!("--windows-os-version {image}"));
    arguments.extend(report.max_pods(nodes).map(|pods| format!("--max-pods-per-node {pods}")));
    arguments.extend(shell::node_taints(report, nodes));
    let (labels, _) = selection::labels(report.platform, nodes);
    if !labels.is_empty() {
        let list: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        arguments.push(format!("--node-labels {}", shell_quoted(&list.join(","))));
    }
    format!("{comment}{VARIABLES}{}", command("gcloud container node-pools create \"$NODE_POOL\"", &arguments))
}
