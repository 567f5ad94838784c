//! The EC2NodeClass and the NodePool of Karpenter on AWS.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_saphyr::{DoubleQuoted, LitString};
use winpool_api::{
    facts::platforms::{Platform, Setting},
    names::label,
};

use super::{
    super::{
        kubelet::eviction_hard,
        yaml::{Quoted, Strings, object},
    },
    LossReport, NodesToMake, eks, selection,
};
use crate::{kubernetes::quantity::Quantity, profile::Resource};

const PLACEHOLDERS: &str = "# Replace ROLE and CLUSTER.\n";
const USER_DATA_PLACEHOLDERS: &str = "\
# Replace ROLE, CLUSTER, ENDPOINT, CERTIFICATE_AUTHORITY and SERVICE_CIDR, and DNS_IP if it occurs: Karpenter adds nothing to
# the user data of amiFamily Custom. The values for spec.kubelet are repeated in the user data: change both.
";
/// The taint with which Karpenter expects a new node. It is removed when the node has the labels and taints of the NodePool.
const UNREGISTERED: &str = "karpenter.sh/unregistered:NoExecute";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeClassSpec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ami_family: Option<&'static str>,
    role: &'static str,
    subnet_selector_terms: [ByTags<'a>; 1],
    security_group_selector_terms: [ByTags<'a>; 1],
    ami_selector_terms: [Strings<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    kubelet: Option<Kubelet<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_data: Option<LitString>,
}

/// A term that selects by tags.
#[derive(Serialize)]
struct ByTags<'a> {
    tags: Strings<'a>,
}

/// The fields of the kubelet that Karpenter passes to a Windows node, in the order of its documentation.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Kubelet<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pods_per_core: Option<Quoted<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_pods: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_reserved: Option<Strings<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kube_reserved: Option<Strings<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eviction_hard: Option<Strings<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eviction_soft: Option<Quoted<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eviction_soft_grace_period: Option<Quoted<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eviction_max_pod_grace_period: Option<Quoted<'a>>,
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    image_gc_high_threshold_percent: Option<u8>,
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    image_gc_low_threshold_percent: Option<u8>,
    #[serde(rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    cluster_dns: Option<Quoted<'a>>,
}

#[derive(Serialize)]
struct NodePoolSpec<'a> {
    template: Template<'a>,
}

#[derive(Serialize)]
struct Template<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Labels<'a>>,
    spec: TemplateSpec<'a>,
}

#[derive(Serialize)]
struct Labels<'a> {
    labels: Strings<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TemplateSpec<'a> {
    node_class_ref: Strings<'a>,
    requirements: Vec<Requirement<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<Strings<'a>>,
}

#[derive(Serialize)]
struct Requirement<'a> {
    key: &'a str,
    operator: &'static str,
    values: [DoubleQuoted<String>; 1],
}

/// Both objects.
pub(super) fn objects(nodes: &NodesToMake, report: &LossReport, image: &str, comment: &str) -> String {
    let discovery = || ByTags { tags: Strings(vec![("karpenter.sh/discovery", "CLUSTER".to_owned())]) };
    let is_custom = report.platform == Platform::KarpenterUserData;
    let user_data = is_custom.then(|| eks::user_data(nodes, report, ("register-with-taints", UNREGISTERED.to_owned())));
    let spec = NodeClassSpec {
        ami_family: is_custom.then_some("Custom"),
        role: "ROLE",
        subnet_selector_terms: [discovery()],
        security_group_selector_terms: [discovery()],
        ami_selector_terms: [Strings(vec![("alias", image.to_owned())])],
        kubelet: kubelet(nodes, report),
        user_data: user_data.map(LitString),
    };
    let placeholders = if is_custom { USER_DATA_PLACEHOLDERS } else { PLACEHOLDERS };
    let class = object("karpenter.k8s.aws/v1", "EC2NodeClass", nodes.pool, spec);
    format!("{comment}{placeholders}{class}---\n{}", node_pool(nodes, report))
}

fn kubelet<'a>(nodes: &NodesToMake<'a>, report: &LossReport) -> Option<Kubelet<'a>> {
    let settings = &nodes.profile?.kubelet;
    let takes = |setting| report.takes(setting);
    let extra = |name: &'static str| -> Option<Quoted<'a>> {
        let value: Option<&'a Value> = settings.extra(name).filter(|_| takes(Setting::Extra(name)));
        value.map(Quoted)
    };
    let named = |pairs: Vec<(&'static str, String)>| (!pairs.is_empty()).then_some(Strings(pairs));
    let reserved = |list: &BTreeMap<Resource, Quantity>| -> Vec<_> {
        list.iter().map(|(resource, amount)| (resource.name(), amount.to_string())).collect()
    };
    Some(Kubelet {
        pods_per_core: extra("podsPerCore"),
        max_pods: takes(Setting::MaxPods).then_some(settings.max_pods),
        system_reserved: named(reserved(&settings.system_reserved)),
        kube_reserved: named(reserved(&settings.kube_reserved)),
        eviction_hard: takes(Setting::EvictionHard).then(|| {
            // Karpenter passes them as one flag, which removes the defaults of the other signals.
            let all = eviction_hard(settings, nodes.kubelet);
            Strings(all.into_iter().map(|(signal, threshold)| (signal.name(), threshold.to_string())).collect())
        }),
        eviction_soft: extra("evictionSoft"),
        eviction_soft_grace_period: extra("evictionSoftGracePeriod"),
        eviction_max_pod_grace_period: extra("evictionMaxPodGracePeriod"),
        image_gc_high_threshold_percent: takes(Setting::ImageGc).then_some(settings.image_gc_high),
        image_gc_low_threshold_percent: takes(Setting::ImageGc).then_some(settings.image_gc_low),
        cluster_dns: extra("clusterDNS"),
    })
}

fn node_pool(nodes: &NodesToMake, report: &LossReport) -> String {
    let requirement = |key, value: String| Requirement { key, operator: "In", values: [DoubleQuoted(value)] };
    let class = [("group", "karpenter.k8s.aws"), ("kind", "EC2NodeClass"), ("name", nodes.pool)];
    let spec = TemplateSpec {
        node_class_ref: Strings(class.map(|(key, value)| (key, value.to_owned())).into()),
        requirements: vec![
            requirement(label::OS, "windows".to_owned()),
            requirement(label::WINDOWS_BUILD, nodes.build.to_string()),
        ],
        taints: selection::taint_maps(report.platform, nodes),
    };
    let metadata = selection::labels_map(report.platform, nodes).map(|labels| Labels { labels });
    object("karpenter.sh/v1", "NodePool", nodes.pool, NodePoolSpec { template: Template { metadata, spec } })
}
