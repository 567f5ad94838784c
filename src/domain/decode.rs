//! Values as types of an API, and what is wrong where they are not.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Problem, join};

/// Reads a value as a type of an API; nothing is an object without fields. The problem has the path below `root`.
///
/// # Errors
/// The value is not of that type.
pub fn decode<T: DeserializeOwned>(root: &str, value: Value) -> Result<T, Problem> {
    let value = if value.is_null() { Value::Object(Map::new()) } else { value };
    serde_path_to_error::deserialize(value).map_err(|error| misread(root, &error))
}

/// What the reader of a type says, as a problem with the path below `root`.
pub fn misread(root: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    let (wrong, remedy) = plain(&error.inner().to_string());
    Problem::new(join(root, if path == "." { "" } else { &path }), wrong, remedy)
}

/// What the reader of a type says, in words that know nothing of types: what is wrong, and what to write.
fn plain(said: &str) -> (String, String) {
    let misfit = ["invalid type: ", "invalid value: "].iter().find_map(|start| said.strip_prefix(start));
    if let Some((found, wanted)) = misfit.and_then(|rest| rest.split_once(", expected ")) {
        let (found, is_scalar) = found_in_words(found);
        let wanted = wanted_in_words(wanted);
        let remedy = if is_scalar && ["a text", "a quantity"].contains(&wanted) {
            "write it in quotes".to_owned()
        } else {
            format!("write {wanted}")
        };
        return (format!("{found} is not {wanted}"), remedy);
    }
    if let Some(field) = said.strip_prefix("missing field ") {
        let field = field.trim_matches('`');
        return (format!("{field} is missing"), format!("write {field}"));
    }
    if let Some((found, words)) = said.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "))
    {
        let words: Vec<_> = words.split('`').skip(1).step_by(2).collect();
        return (
            format!("{:?} is not a value of this field", found.trim_matches('`')),
            format!("write one of {}", words.join(", ")),
        );
    }
    (format!("it cannot be read: {said}"), "write what `kubectl explain` says of the field".to_owned())
}

/// What was found, and whether it is a number, true or false.
fn found_in_words(found: &str) -> (&str, bool) {
    let scalar = ["integer ", "floating point ", "boolean "].iter().find_map(|kind| found.strip_prefix(kind));
    match (scalar, found) {
        (Some(scalar), _) => (scalar.trim_matches('`'), true),
        (None, "null") => ("nothing", false),
        (None, "map") => ("an object", false),
        (None, "sequence") => ("a list", false),
        (None, text) => (text.strip_prefix("string ").unwrap_or(text), false),
    }
}

/// What was wanted. Whatever is not known here is the name of a type with fields, or said in words already.
fn wanted_in_words(wanted: &str) -> &str {
    let sized = |letters: &[char]| {
        wanted
            .strip_prefix(letters)
            .is_some_and(|size| !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match wanted {
        _ if sized(&['i', 'u']) => "a whole number",
        _ if sized(&['f']) => "a number",
        "a string" | "a borrowed string" | "string or map" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "IntOrString" => "a whole number or a text",
        "Quantity" => "a quantity",
        "Time" | "MicroTime" => "a time",
        words if words.starts_with("a ") || words.starts_with("an ") => words,
        _ => "an object",
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;

    use super::*;
    use crate::api::WindowsNodePoolSpec;

    #[test]
    fn what_is_wrong_is_said_in_plain_words() {
        let said = |problem: Option<Problem>| problem.map(|problem| problem.to_string()).unwrap_or_default();
        let pod = |spec: Value| said(decode::<Pod>("pod", json!({"spec": spec})).err());
        let pool = |spec: Value| said(decode::<WindowsNodePoolSpec>("spec", spec).err());
        let node = |node: Value| said(decode::<Node>("node", node).err());
        let table = [
            (pool(json!({})), "spec: windowsVersion is missing: write windowsVersion"),
            (pool(json!({"windowsVersion": 1809})), "spec.windowsVersion: 1809 is not a text: write it in quotes"),
            (pool(json!({"windowsVersion": []})), "spec.windowsVersion: a list is not a text: write a text"),
            (
                pool(json!({"windowsVersion": "1809", "mode": "Watch"})),
                "spec.mode: \"Watch\" is not a value of this field: write one of Enforce, Observe",
            ),
            (
                pool(json!({"windowsVersion": "1809", "taints": "none"})),
                "spec.taints: \"none\" is not a list: write a list",
            ),
            (
                pool(json!({"windowsVersion": "1809", "nodeSelector": 5})),
                "spec.nodeSelector: 5 is not an object: write an object",
            ),
            (
                pool(json!({"windowsVersion": "1809", "fallback": "yes"})),
                "spec.fallback: \"yes\" is not true or false: write true or false",
            ),
            (
                pool(json!({"windowsVersion": "1809", "runtimeClasses": [{"name": "a", "overhead": {"cpu": true}}]})),
                "spec.runtimeClasses[0].overhead.cpu: true is not a quantity such as 500m, 2Gi or 10%: write a quantity such as 500m, 2Gi or 10%",
            ),
            (
                pod(json!({"containers": [{"name": "a", "ports": [{"containerPort": 1.5}]}]})),
                "pod.spec.containers[0].ports[0].containerPort: 1.5 is not a whole number: write a whole number",
            ),
            (pod(json!([])), "pod.spec: a list is not an object: write an object"),
            (node(json!({"spec": {"taints": 7}})), "node.spec.taints: 7 is not a list: write a list"),
            (
                node(json!({"metadata": {"labels": {"a": 1}}})),
                "node.metadata.labels.a: 1 is not a text: write it in quotes",
            ),
            (
                node(json!({"status": {"capacity": {"cpu": []}}})),
                "node.status.capacity.cpu: a list is not a quantity: write a quantity",
            ),
        ];
        for (said, expected) in table {
            assert_eq!(said, expected);
        }
    }
}
