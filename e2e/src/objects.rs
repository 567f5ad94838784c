//! The fields of Nodes and RuntimeClasses that tests compare, in a readable form.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{Node, Taint},
    node::v1::RuntimeClass,
};

/// The taints of a node.
pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Whether a node has a taint of this key and value.
pub fn has_taint(node: &Node, key: &str, value: &str) -> bool {
    taints(node).iter().any(|taint| taint.key == key && taint.value.as_deref().unwrap_or_default() == value)
}

/// The taints of a node as `key=value:Effect`, without those that other components manage.
pub fn taints_of(node: &Node) -> Vec<String> {
    let others = taints(node).iter().filter(|taint| winpool_facts::taints::manager(&taint.key).is_none());
    others.map(|taint| format!("{}={}:{}", taint.key, taint.value.clone().unwrap_or_default(), taint.effect)).collect()
}

/// The tolerations of a class, written as the taints that they tolerate; `*` stands for any.
pub fn tolerations_of(class: &RuntimeClass) -> Vec<String> {
    let tolerations = class.scheduling.iter().flat_map(|scheduling| scheduling.tolerations.iter().flatten());
    let texts = tolerations.map(|toleration| {
        let value = match toleration.operator.as_deref() {
            Some("Exists") => "*".to_owned(),
            _ => toleration.value.clone().unwrap_or_default(),
        };
        let [key, effect] = [&toleration.key, &toleration.effect].map(|text| text.clone().unwrap_or("*".to_owned()));
        format!("{key}={value}:{effect}")
    });
    texts.collect()
}

/// The labels of the nodes that a class selects.
pub fn selector_of(class: &RuntimeClass) -> BTreeMap<String, String> {
    class.scheduling.iter().flat_map(|scheduling| scheduling.node_selector.clone().unwrap_or_default()).collect()
}
