//! JSON schemas of the custom resources, for editors and kubeconform.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// The schema of the objects of a CRD and the name of its file: `{kind}-{group}-{version}.json` in lower case with the
/// first part of the group, as kubeconform names it (yannh/kubeconform, `pkg/registry/registry.go`, 2025).
pub fn file(crd: &CustomResourceDefinition) -> Option<(String, Value)> {
    let (names, version) = (&crd.spec.names, crd.spec.versions.first()?);
    let group = crd.spec.group.split('.').next().unwrap_or_default();
    let name = format!("{}-{group}-{}.json", names.kind.to_lowercase(), version.name);
    let mut schema = json!(version.schema.as_ref()?.open_api_v3_schema);
    convert(&mut schema);
    schema["$schema"] = json!(DRAFT);
    schema["title"] = json!(names.kind);
    let properties = &mut schema["properties"];
    properties["apiVersion"] = json!({"const": format!("{}/{}", crd.spec.group, version.name)});
    properties["kind"] = json!({"const": names.kind});
    properties["metadata"] = json!({"type": "object"});
    schema["required"] = json!(["apiVersion", "kind", "metadata", "spec"]);
    Some((name, schema))
}

/// Replaces the keywords that only Kubernetes knows. An object with fields has no others, as in strict decoding.
fn convert(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    let is_true = |fields: &Map<String, Value>, name: &str| fields.get(name) == Some(&json!(true));
    if is_true(fields, "x-kubernetes-int-or-string") {
        fields.remove("anyOf");
        fields.insert("type".to_owned(), json!(["integer", "string"]));
    }
    if is_true(fields, "nullable")
        && let Some(known) = fields.get("type").cloned()
    {
        fields.insert("type".to_owned(), json!([known, "null"]));
    }
    let is_open = is_true(fields, "x-kubernetes-preserve-unknown-fields");
    if fields.contains_key("properties") && !is_open {
        fields.entry("additionalProperties").or_insert(json!(false));
    }
    fields.retain(|name, _| !name.starts_with("x-kubernetes-") && name != "nullable");
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(convert),
            ("items" | "additionalProperties", value) => convert(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use winpool_api::custom_resource_definitions;

    use super::*;

    #[test]
    fn files_are_named_as_kubeconform_does() {
        let names: Vec<_> = custom_resource_definitions().iter().filter_map(|(_, crd)| Some(file(crd)?.0)).collect();
        for name in ["windowsnodepool-winpool-v1alpha1.json", "windowsruntimeprofile-winpool-v1alpha1.json"] {
            assert!(names.iter().any(|found| found == name), "{names:?}");
        }
    }

    #[test]
    fn keywords_of_kubernetes_are_replaced() {
        let mut schema = json!({
            "type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-validations": [],
            "properties": {
                "amount": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
                "map": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
            },
        });
        convert(&mut schema);
        let expected = json!({
            "type": "object", "additionalProperties": false,
            "properties": {
                "amount": {"type": ["integer", "string"]},
                "open": {"type": "object", "properties": {"a": {"type": "string"}}},
                "map": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
            },
        });
        assert_eq!(schema, expected);
    }
}
