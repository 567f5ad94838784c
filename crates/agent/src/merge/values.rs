//! Values of KubeletConfiguration that the kubelet reads only when it runs as a node: it starts with
//! such a value and fails later. A preflight with kubelet 1.36 ends before it reads any of these fields.

use std::net::IpAddr;

use serde_json::{Map, Value};
use winpool_core::kubernetes::{
    duration,
    quantity::{Quantity, Threshold},
};
use winpool_facts::kubelet_fields::HOST_RESOLVERS;
use winpool_render::profile::is_resolv_conf;

/// The resources of `systemReserved` and `kubeReserved` (kubernetes/kubernetes, `parseResourceList` in
/// `cmd/kubelet/app/server.go`).
const RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage", "pid"];
/// The signals of eviction (`pkg/kubelet/eviction/helpers.go`).
const SIGNALS: &[&str] = &[
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
];

/// The first value that the kubelet would not accept, with the reason.
pub(super) fn problem(settings: &Map<String, Value>) -> Option<String> {
    settings.iter().find_map(|(name, value)| {
        let wrong = match name.as_str() {
            "systemReserved" | "kubeReserved" => entries(value, RESOURCES, is_amount),
            "evictionHard" | "evictionSoft" | "evictionMinimumReclaim" => {
                entries(value, SIGNALS, |text| text.parse::<Threshold>().is_ok())
            }
            "evictionSoftGracePeriod" => entries(value, SIGNALS, |text| duration::parse(text).is_some()),
            "containerLogMaxSize" => string(value, is_amount),
            "clusterDNS" => addresses(value),
            "resolvConf" => string(value, is_resolver_file),
            _ => None,
        };
        wrong.map(|wrong| format!("{name}: {wrong}"))
    })
}

/// Whether a kubelet takes the value from its configuration file, in which `Host` is a relative path.
fn is_resolver_file(text: &str) -> bool {
    is_resolv_conf(text) && text != HOST_RESOLVERS
}

fn is_amount(text: &str) -> bool {
    !text.starts_with('-') && text.parse::<Quantity>().is_ok()
}

/// The first entry of a map with an unknown name or a value that is not valid.
fn entries(value: &Value, names: &[&str], is_valid: impl Fn(&str) -> bool) -> Option<String> {
    let Some(map) = value.as_object() else { return Some(format!("{value} is not a map")) };
    map.iter().find_map(|(name, value)| match names.contains(&name.as_str()) {
        true => string(value, &is_valid).map(|wrong| format!("{name}: {wrong}")),
        false => Some(format!("{name} is not one of {}", names.join(", "))),
    })
}

fn string(value: &Value, is_valid: impl Fn(&str) -> bool) -> Option<String> {
    let accepted = value.as_str().is_some_and(is_valid);
    (!accepted).then(|| format!("{value} is not valid"))
}

fn addresses(value: &Value) -> Option<String> {
    let Some(list) = value.as_array() else { return Some(format!("{value} is not a list")) };
    list.iter().find_map(|value| string(value, |text| text.parse::<IpAddr>().is_ok()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_a_kubelet_accepts_only_at_first_are_problems() {
        let table = [
            (json!({"systemReserved": {"memory": "2Gi", "cpu": "500m"}}), None),
            (json!({"systemReserved": {"memory": "2 Gi"}}), Some("systemReserved: memory: \"2 Gi\" is not valid")),
            (json!({"kubeReserved": {"memory": "-1Gi"}}), Some("kubeReserved: memory: \"-1Gi\" is not valid")),
            (
                json!({"kubeReserved": {"gpu": "1"}}),
                Some("kubeReserved: gpu is not one of cpu, memory, ephemeral-storage, pid"),
            ),
            (json!({"kubeReserved": 1}), Some("kubeReserved: 1 is not a map")),
            (json!({"evictionHard": {"memory.available": "500Mi", "nodefs.available": "10%"}}), None),
            (
                json!({"evictionHard": {"memory.available": "much"}}),
                Some("evictionHard: memory.available: \"much\" is not valid"),
            ),
            (json!({"evictionSoftGracePeriod": {"memory.available": "1m30s"}}), None),
            (
                json!({"evictionSoftGracePeriod": {"memory.available": "soon"}}),
                Some("evictionSoftGracePeriod: memory.available: \"soon\" is not valid"),
            ),
            (json!({"containerLogMaxSize": "50Mi"}), None),
            (json!({"containerLogMaxSize": 50}), Some("containerLogMaxSize: 50 is not valid")),
            (json!({"clusterDNS": ["10.96.0.10", "fd00::a"]}), None),
            (json!({"clusterDNS": ["dns.example"]}), Some("clusterDNS: \"dns.example\" is not valid")),
            (json!({"clusterDNS": "10.96.0.10"}), Some("clusterDNS: \"10.96.0.10\" is not a list")),
            (json!({"resolvConf": ""}), None),
            (json!({"resolvConf": "C:\\resolv.conf"}), None),
            (json!({"resolvConf": "Host"}), Some("resolvConf: \"Host\" is not valid")),
            (json!({"resolvConf": "/etc/resolv.conf"}), Some("resolvConf: \"/etc/resolv.conf\" is not valid")),
            (json!({"maxPods": 110}), None),
        ];
        for (settings, expected) in table {
            assert_eq!(problem(settings.as_object().unwrap()).as_deref(), expected);
        }
    }
}
