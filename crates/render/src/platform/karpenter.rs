//! The EC2NodeClass and the NodePool of Karpenter on AWS.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_saphyr::{DoubleQuoted, LitString};
use winpool_api::names::label;
use winpool_core::kubernetes::quantity::Quantity;
use winpool_facts::platforms::{Platform, Setting};

use super::{
    super::{
        kubelet::eviction_hard,
        yaml::{Field, Fields, Quoted, Strings, object},
    },
    LossReport, NodesToMake, eks, selection,
};
use winpool_core::kubernetes::quantity::Resource;

const PLACEHOLDERS: &str = "# Replace ROLE and CLUSTER.\n";
const USER_DATA_PLACEHOLDERS: &str = "\
# Replace ROLE, CLUSTER, ENDPOINT, CERTIFICATE_AUTHORITY and SERVICE_CIDR, and DNS_IP if it occurs: Karpenter adds nothing to
# the user data of amiFamily Custom. The values for spec.kubelet are repeated in the user data: change both.
";
/// The taint with which Karpenter expects a new node. It is removed when the node has the labels and taints of the NodePool.
const UNREGISTERED: &str = "karpenter.sh/unregistered:NoExecute";

pub(super) fn objects(nodes: &NodesToMake, report: &LossReport, image: &str, comment: &str) -> String {
    let discovery = || {
        let tags = Strings(vec![("karpenter.sh/discovery", "CLUSTER".to_owned())]);
        vec![Fields::default().with("tags", tags).into()]
    };
    let is_custom = report.platform == Platform::KarpenterUserData;
    let user_data = is_custom.then(|| eks::user_data(nodes, report, ("register-with-taints", UNREGISTERED.to_owned())));
    let spec = Fields::default()
        .with_some("amiFamily", is_custom.then_some("Custom"))
        .with("role", "ROLE")
        .with("subnetSelectorTerms", discovery())
        .with("securityGroupSelectorTerms", discovery())
        .with("amiSelectorTerms", vec![Strings(vec![("alias", image.to_owned())]).into()])
        .with_some("kubelet", kubelet(nodes, report))
        .with_some("userData", user_data.map(LitString));
    let placeholders = if is_custom { USER_DATA_PLACEHOLDERS } else { PLACEHOLDERS };
    let class = object("karpenter.k8s.aws/v1", "EC2NodeClass", nodes.pool, spec);
    format!("{comment}{placeholders}{class}---\n{}", node_pool(nodes, report))
}

/// The fields of the kubelet that Karpenter passes to a Windows node, in the order of its documentation.
fn kubelet<'a>(nodes: &NodesToMake<'a>, report: &LossReport) -> Option<Fields<'a>> {
    let settings = &nodes.profile?.kubelet;
    let takes = |setting| report.takes(setting);
    let extra = |name: &'static str| -> Option<Quoted<'a>> {
        let value: Option<&'a Value> = settings.extra(name).filter(|_| takes(Setting::Extra(name)));
        value.map(Quoted)
    };
    let reserved = |list: &BTreeMap<Resource, Quantity>| {
        let pairs: Vec<_> = list.iter().map(|(resource, amount)| (resource.name(), amount.to_string())).collect();
        (!pairs.is_empty()).then_some(Strings(pairs))
    };
    let eviction_hard = takes(Setting::EvictionHard).then(|| {
        // Karpenter passes them as one flag, which removes the defaults of the other signals.
        let all = eviction_hard(settings, nodes.kubelet);
        Strings(all.into_iter().map(|(signal, threshold)| (signal.name(), threshold.to_string())).collect())
    });
    let kubelet = Fields::default()
        .with_some("podsPerCore", extra("podsPerCore"))
        .with_some("maxPods", takes(Setting::MaxPods).then_some(settings.max_pods))
        .with_some("systemReserved", reserved(&settings.system_reserved))
        .with_some("kubeReserved", reserved(&settings.kube_reserved))
        .with_some("evictionHard", eviction_hard)
        .with_some("evictionSoft", extra("evictionSoft"))
        .with_some("evictionSoftGracePeriod", extra("evictionSoftGracePeriod"))
        .with_some("evictionMaxPodGracePeriod", extra("evictionMaxPodGracePeriod"))
        .with_some("imageGCHighThresholdPercent", takes(Setting::ImageGc).then_some(settings.image_gc_high))
        .with_some("imageGCLowThresholdPercent", takes(Setting::ImageGc).then_some(settings.image_gc_low))
        .with_some("clusterDNS", extra("clusterDNS"));
    Some(kubelet)
}

fn node_pool(nodes: &NodesToMake, report: &LossReport) -> String {
    let requirement = |key: &'static str, value: String| -> Field<'_> {
        let fields = Fields::default().with("key", key).with("operator", "In");
        fields.with("values", vec![DoubleQuoted(value).into()]).into()
    };
    let class = [("group", "karpenter.k8s.aws"), ("kind", "EC2NodeClass"), ("name", nodes.pool)];
    let requirements =
        vec![requirement(label::OS, "windows".to_owned()), requirement(label::WINDOWS_BUILD, nodes.build.to_string())];
    let spec = Fields::default()
        .with("nodeClassRef", Strings(class.map(|(key, value)| (key, value.to_owned())).into()))
        .with("requirements", requirements)
        .with_some("taints", selection::taint_maps(report.platform, nodes));
    let labels = selection::labels_map(report.platform, nodes);
    let metadata = labels.map(|labels| Fields::default().with("labels", labels));
    let template = Fields::default().with_some("metadata", metadata).with("spec", spec);
    object("karpenter.sh/v1", "NodePool", nodes.pool, Fields::default().with("template", template))
}
