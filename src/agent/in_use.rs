//! Whether the running kubelet uses the values of a configuration, which its endpoint `/configz` shows.
//!
//! The endpoint needs the permission `nodes/configz` (KEP-2862: kubelets from 1.33 on check it; earlier ones check
//! `nodes/proxy`, which also permits to run commands in pods, and which no agent has).

use serde_json::{Map, Value};

use crate::domain::kubernetes::{duration, quantity::Quantity};

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

/// The kubelet omits empty values, and prints durations and quantities in a form of its own, such as `1m0s` and `2Gi`.
fn is_same(expected: &Value, used: &Value) -> bool {
    let is_empty = match expected {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Array(list) => list.is_empty(),
        Value::Object(_) | Value::Bool(true) => false,
    };
    match (expected, used) {
        (expected, used) if expected == used => true,
        (_, Value::Null) => is_empty,
        (Value::Array(expected), Value::Array(used)) => {
            expected.len() == used.len() && expected.iter().zip(used).all(|(expected, used)| is_same(expected, used))
        }
        (Value::Object(expected), used) => expected.iter().all(|(name, value)| is_same(value, &used[name])),
        (Value::String(expected), Value::String(used)) => {
            let [durations, quantities] = [
                duration::parse(expected).is_some_and(|nanos| duration::parse(used) == Some(nanos)),
                expected.parse::<Quantity>().is_ok_and(|quantity| used.parse() == Ok(quantity)),
            ];
            durations || quantities
        }
        _ => false,
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
