//! Decoding of values into API types, with problems for users.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Problem, join};

/// Decodes a value as an API type; null counts as an object without fields. The path of a problem is below `root`.
pub fn decode<T: DeserializeOwned>(root: &str, value: Value) -> Result<T, Problem> {
    let value = if value.is_null() { Value::Object(Map::new()) } else { value };
    serde_path_to_error::deserialize(value).map_err(|error| decoding_problem(root, &error))
}

/// A decoding error as a problem with the path below `root`.
pub fn decoding_problem(root: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    let path = join(root, if path == "." { "" } else { &path });
    let message = error.inner().to_string();
    if let Some(field) = message.strip_prefix("missing field ") {
        return Problem::new(join(&path, field.trim_matches('`')), "is required", "write it");
    }
    let (wrong, remedy) = translate(&message);
    Problem::new(path, wrong, remedy)
}

/// The problem and the remedy, without the Rust types of a serde error, which has only a message.
fn translate(message: &str) -> (String, String) {
    let mismatch = ["invalid type: ", "invalid value: "].iter().find_map(|start| message.strip_prefix(start));
    if let Some((found, expected)) = mismatch.and_then(|rest| rest.split_once(", expected ")) {
        let (found, is_scalar) = found_value(found);
        let expected = expected_type(expected);
        let remedy = if is_scalar && ["a string", "a quantity"].contains(&expected) {
            format!("write \"{found}\" in quotes")
        } else {
            format!("write {expected}")
        };
        return (format!("must be {expected}, not {found}"), remedy);
    }
    let variants = message.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "));
    if let Some((found, variants)) = variants {
        let variants: Vec<_> = variants.split('`').skip(1).step_by(2).collect();
        return (
            format!("unsupported value {:?}", found.trim_matches('`')),
            format!("write one of {}", variants.join(", ")),
        );
    }
    (format!("cannot be decoded: {message}"), "see the field in `kubectl explain`".to_owned())
}

/// The found value, and whether it is a number or a boolean.
fn found_value(found: &str) -> (&str, bool) {
    let scalar = ["integer ", "floating point ", "boolean "].iter().find_map(|kind| found.strip_prefix(kind));
    match (scalar, found) {
        (Some(scalar), _) => (scalar.trim_matches('`'), true),
        (None, "map") => ("an object", false),
        (None, "sequence") => ("a list", false),
        (None, text) => (text.strip_prefix("string ").unwrap_or(text), false),
    }
}

/// The expected type. Any other text is the name of a struct, or a description.
fn expected_type(expected: &str) -> &str {
    let is_sized = |letters: &[char]| {
        expected
            .strip_prefix(letters)
            .is_some_and(|size| !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match expected {
        _ if is_sized(&['i', 'u']) => "an integer",
        _ if is_sized(&['f']) => "a number",
        "a string" | "a borrowed string" | "string or map" => "a string",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "IntOrString" => "an integer or a string",
        "Quantity" => "a quantity",
        "Time" | "MicroTime" => "a time",
        description if description.starts_with("a ") || description.starts_with("an ") => description,
        _ => "an object",
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;
    use winpool_api::WindowsNodePoolSpec;

    use super::*;

    #[test]
    fn a_decoding_error_is_a_problem_with_a_path_and_a_remedy() {
        let text = |problem: Option<Problem>| problem.map(|problem| problem.to_string()).unwrap_or_default();
        let pod = |spec: Value| text(decode::<Pod>("pod", json!({"spec": spec})).err());
        let pool = |spec: Value| text(decode::<WindowsNodePoolSpec>("spec", spec).err());
        let node = |node: Value| text(decode::<Node>("node", node).err());
        let table = [
            (pool(json!({})), "spec.windowsVersion: is required: write it"),
            (
                pool(json!({"windowsVersion": 1809})),
                "spec.windowsVersion: must be a string, not 1809: write \"1809\" in quotes",
            ),
            (pool(json!({"windowsVersion": []})), "spec.windowsVersion: must be a string, not a list: write a string"),
            (
                pool(json!({"windowsVersion": "1809", "mode": "Watch"})),
                "spec.mode: unsupported value \"Watch\": write one of Enforce, Observe",
            ),
            (
                pool(json!({"windowsVersion": "1809", "taints": "none"})),
                "spec.taints: must be a list, not \"none\": write a list",
            ),
            (
                pool(json!({"windowsVersion": "1809", "nodeSelector": 5})),
                "spec.nodeSelector: must be an object, not 5: write an object",
            ),
            (
                pool(json!({"windowsVersion": "1809", "fallback": "yes"})),
                "spec.fallback: must be true or false, not \"yes\": write true or false",
            ),
            (
                pool(json!({"windowsVersion": "1809", "runtimeClasses": [{"name": "a", "overhead": {"cpu": true}}]})),
                "spec.runtimeClasses[0].overhead.cpu: must be a quantity such as 500m, 2Gi or 10%, not true: write a \
                 quantity such as 500m, 2Gi or 10%",
            ),
            (
                pod(json!({"containers": [{"name": "a", "ports": [{"containerPort": 1.5}]}]})),
                "pod.spec.containers[0].ports[0].containerPort: must be an integer, not 1.5: write an integer",
            ),
            (pod(json!([])), "pod.spec: must be an object, not a list: write an object"),
            (node(json!({"spec": {"taints": 7}})), "node.spec.taints: must be a list, not 7: write a list"),
            (
                node(json!({"metadata": {"labels": {"a": 1}}})),
                "node.metadata.labels.a: must be a string, not 1: write \"1\" in quotes",
            ),
            (
                node(json!({"status": {"capacity": {"cpu": []}}})),
                "node.status.capacity.cpu: must be a quantity, not a list: write a quantity",
            ),
        ];
        for (problem, expected) in table {
            assert_eq!(problem, expected);
        }
    }
}
