//! Whether the running kubelet uses the values of a configuration, which its endpoint `/configz` shows.
//!
//! The endpoint needs the permission `nodes/configz` (KEP-2862: kubelets from 1.33 on check it; earlier ones check
//! `nodes/proxy`, which also permits to run commands in pods, and which no agent has).

use serde_json::{Map, Value};
use winpool_core::kubernetes::kubelet_value::is_same;

/// Fields that name the type of the file, and one that the kubelet reads only when it registers its Node.
const IGNORED: [&str; 3] = ["apiVersion", "kind", "registerWithTaints"];

/// The values that the kubelet does not use, such as `maxPods is 110, not 42`, by path.
pub fn unused_values(expected: &Map<String, Value>, used: &Value) -> Vec<String> {
    let mut found = Vec::new();
    add(expected, used, "", &mut found);
    found
}

fn add(expected: &Map<String, Value>, used: &Value, prefix: &str, found: &mut Vec<String>) {
    let is_ignored = |name: &str| prefix.is_empty() && IGNORED.contains(&name);
    for (name, value) in expected.iter().filter(|(name, _)| !is_ignored(name)) {
        let (path, used) = (format!("{prefix}{name}"), &used[name]);
        match value {
            Value::Object(fields) => add(fields, used, &format!("{path}."), found),
            _ if is_same(value, used) => {}
            _ if used.is_null() => found.push(format!("{path} is not set, and should be {value}")),
            _ => found.push(format!("{path} is {used}, not {value}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_expected_value_has_to_be_used_and_others_do_not_matter() {
        let used = json!({
            "kind": "", "maxPods": 110, "evictionHard": {"memory.available": "500Mi", "nodefs.available": "10%"},
            "nodeStatusUpdateFrequency": "1m0s", "containerLogMaxSize": "10Mi", "clusterDNS": ["10.0.0.10"],
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "2Gi"}}], "enforceNodeAllocatable": [], "serializeImagePulls": true,
        });
        for (expected, unused) in [
            (json!({}), vec![]),
            (json!({"kind": "KubeletConfiguration", "maxPods": 110, "clusterDNS": ["10.0.0.10"]}), vec![]),
            (json!({"registerWithTaints": [{"key": "os", "effect": "NoSchedule"}]}), vec![]),
            (json!({"maxPods": 42}), vec!["maxPods is 110, not 42"]),
            (json!({"evictionHard": {"memory.available": "500Mi"}}), vec![]),
            (
                json!({"evictionHard": {"memory.available": "1Gi", "imagefs.available": "15%"}}),
                vec![
                    r#"evictionHard.imagefs.available is not set, and should be "15%""#,
                    r#"evictionHard.memory.available is "500Mi", not "1Gi""#,
                ],
            ),
            (json!({"nodeStatusUpdateFrequency": "60s"}), vec![]),
            (json!({"nodeStatusUpdateFrequency": "5m"}), vec![r#"nodeStatusUpdateFrequency is "1m0s", not "5m""#]),
            (json!({"containerLogMaxSize": "10240Ki"}), vec![]),
            (json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "2048Mi"}}]}), vec![]),
            // Empty values are omitted.
            (json!({"resolvConf": "", "podsPerCore": 0, "failSwapOn": false, "tlsCipherSuites": []}), vec![]),
            (json!({"serializeImagePulls": false}), vec!["serializeImagePulls is true, not false"]),
            (
                json!({"clusterDNS": ["10.0.0.10", "10.0.0.11"]}),
                vec![r#"clusterDNS is ["10.0.0.10"], not ["10.0.0.10","10.0.0.11"]"#],
            ),
        ] {
            assert_eq!(unused_values(expected.as_object().unwrap(), &used), unused, "{expected}");
        }
    }
}
