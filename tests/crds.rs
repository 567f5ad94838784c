//! The CRDs as files, and what must hold for every schema in them.

use std::{collections::BTreeSet, fs, path::Path};

use kube::core::cel::cel::Program;
use serde_json::{Value, json};
use winpool::{api::custom_resource_definitions, commands::output};

/// The CRDs as the API server gets them, by the name of their file.
fn crds() -> Vec<(&'static str, Value)> {
    custom_resource_definitions().into_iter().map(|(file, crd)| (file, json!(crd))).collect()
}

#[test]
fn the_files_in_crds_are_what_the_types_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for (file, crd) in crds() {
        let found = fs::read_to_string(folder.join(file)).unwrap_or_default();
        let expected = output::yaml(&crd);
        let first = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
        let line = first.unwrap_or_else(|| expected.lines().count().min(found.lines().count())) + 1;
        assert!(found == expected, "crds/{file} differs from src/api in line {line}: run `make crds` and commit");
    }
    let listed = fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
    let resources = &serde_saphyr::from_str::<Value>(&listed).unwrap()["resources"];
    assert_eq!(*resources, json!(crds().iter().map(|(file, _)| file).collect::<Vec<_>>()));
}

#[test]
fn kubectl_get_shows_the_columns_and_short_names_of_the_design() {
    let [(_, pools), (_, profiles)] = &crds()[..] else { panic!("two CRDs") };
    for (crd, short, columns, wide) in [
        (
            pools,
            "wnp",
            vec!["Ready", "Nodes", "Guarded", "Windows", "Kubelet", "Skewed", "Mismatched", "Problem", "Age"],
            vec!["Profile", "RuntimeClass", "Support", "Message"],
        ),
        (profiles, "wrp", vec!["Ready", "Pools", "Reason", "Age"], vec!["Message"]),
    ] {
        let spec = &crd["spec"];
        assert_eq!(spec["scope"], "Cluster");
        assert_eq!(spec["names"]["shortNames"], json!([short]));
        assert_eq!(spec["names"]["categories"], json!(["windows"]));
        let [version] = &spec["versions"].as_array().unwrap()[..] else { panic!("one version") };
        assert_eq!(version["subresources"]["status"], json!({}));
        let named = |priority: i64| {
            let columns = version["additionalPrinterColumns"].as_array().unwrap().iter();
            let columns = columns.filter(|column| column["priority"].as_i64().unwrap_or(0) == priority);
            columns.map(|column| column["name"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!((named(0), named(1)), (columns, wide));
    }
}

#[test]
fn every_schema_keeps_the_house_rules() {
    for (file, crd) in crds() {
        let broken = broken_rules(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        assert!(broken.is_empty(), "{file}:\n{}", broken.join("\n"));
    }
}

#[test]
fn a_schema_that_breaks_a_house_rule_is_found_with_its_path() {
    let atomic = |kind: &str| format!("x-kubernetes-{kind}-type");
    let cases = [
        (json!({"type": "string"}), "a string without maxLength, enum or format"),
        (json!({"x-kubernetes-int-or-string": true}), "a string without maxLength, enum or format"),
        (json!({"type": "array", "items": {"type": "boolean"}}), "a list without maxItems"),
        (json!({"type": "object"}), "a map without maxProperties"),
        (json!({"type": "object", "additionalProperties": {"type": "boolean"}}), "a map without maxProperties"),
        (json!({"type": "boolean", "nullable": true}), "nullable"),
        (json!({"type": "string", "enum": ["A", null]}), "nullable"),
        (
            json!({"type": "string", "maxLength": 1, "default": ""}),
            "an empty text as default, which means the same as no text",
        ),
        (json!({"type": "integer", "format": "uint32"}), "a format that Kubernetes does not know"),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "boolean"}, "default": []}),
            "a default, but not atomic",
        ),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "boolean"}, "default": [], atomic("list"): "set"}),
            "a default, but not atomic",
        ),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "boolean"}, "default": {}}),
            "a default, but not atomic",
        ),
        (json!({"type": "boolean", "x-kubernetes-validations": [{"rule": "self"}]}), "a rule without a message: self"),
        (
            json!({"type": "boolean", "x-kubernetes-validations": [{"rule": "self &&", "message": "m"}]}),
            "a rule that does not parse: self &&",
        ),
        (
            json!({"type": "boolean", "x-kubernetes-validations": [{"rule": "quantity(self)", "message": "m"}]}),
            "a rule with `quantity`, which Kubernetes 1.25 may not know",
        ),
    ];
    for (schema, wanted) in cases {
        let root = json!({"type": "object", "properties": {"spec": {"type": "array", "maxItems": 1, "items": schema}}});
        assert_eq!(broken_rules(&root), [format!(".spec[]: {wanted}")], "{schema}");
    }
}

#[test]
fn functions_and_syntax_younger_than_kubernetes_1_25_are_refused() {
    for (rule, refused) in [
        ("self.all(k, k.size() <= 63 && k.matches('^a$')) || !has(self.b) || self.c in ['d']", None),
        ("self.exists_one(a, a.b == 'c') ? self.x - 1 > 0 : self.y[0] != ''", None),
        ("quantity(self).isLessThan(quantity('1Gi'))", Some("isLessThan")),
        ("isQuantity(self)", Some("isQuantity")),
        ("ip(self).family() == 4", Some("family")),
        ("self.format([1])", Some("format")),
        ("optional.none() == self", Some("none")),
        ("cel.bind(a, self, a)", Some("bind")),
    ] {
        assert_eq!(too_young(rule), Ok(refused.map(str::to_owned)), "{rule}");
    }
    for syntax in ["self.?a.orValue('') == ''", "self[?0] == 1", "[?self.a].size() > 0"] {
        assert!(too_young(syntax).is_err(), "{syntax}");
    }
}

/// Every breach of a rule that holds for all schemas: the path, and what is wrong there.
fn broken_rules(schema: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    check(schema, "", &mut broken);
    broken
}

fn check(schema: &Value, path: &str, broken: &mut Vec<String>) {
    let mut wrong = |text: &str| broken.push(format!("{path}: {text}"));
    let has = |key: &str| schema.get(key).is_some();
    let kind = schema["type"].as_str().unwrap_or_default();
    let is_map = kind == "object" && !has("properties");

    let text = kind == "string" || schema["x-kubernetes-int-or-string"] == true;
    if text && !["maxLength", "enum", "format"].into_iter().any(has) {
        wrong("a string without maxLength, enum or format");
    }
    if kind == "array" && !has("maxItems") {
        wrong("a list without maxItems");
    }
    if is_map && !has("maxProperties") {
        wrong("a map without maxProperties");
    }
    let null_in_enum = schema["enum"].as_array().is_some_and(|values| values.contains(&Value::Null));
    if has("nullable") || null_in_enum {
        wrong("nullable");
    }
    if schema["default"] == "" {
        wrong("an empty text as default, which means the same as no text");
    }
    if schema["format"].as_str().is_some_and(|format| !["int32", "int64", "date-time"].contains(&format)) {
        wrong("a format that Kubernetes does not know");
    }
    let atomic = |key: &str| schema[key] == "atomic";
    let merged = kind == "array" && !atomic("x-kubernetes-list-type") || is_map && !atomic("x-kubernetes-map-type");
    if has("default") && merged {
        wrong("a default, but not atomic");
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let text = rule["rule"].as_str().unwrap_or_default();
        if !rule["message"].is_string() {
            wrong(&format!("a rule without a message: {text}"));
        }
        match too_young(text) {
            Err(()) => wrong(&format!("a rule that does not parse: {text}")),
            Ok(Some(function)) => wrong(&format!("a rule with `{function}`, which Kubernetes 1.25 may not know")),
            Ok(None) => {}
        }
    }

    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        check(field, &format!("{path}.{name}"), broken);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = schema.get(key) {
            check(inner, &format!("{path}{suffix}"), broken);
        }
    }
}

/// The functions that rules may call, all of them in the CEL standard library; operators and macros are free.
const FUNCTIONS: &[&str] = &["contains", "endsWith", "matches", "size", "startsWith"];

/// The first function of a rule, by name, that may be younger than Kubernetes 1.25. An error means that the rule does
/// not parse: so it is with optional syntax (`?.`), which 1.25 does not know either.
fn too_young(rule: &str) -> Result<Option<String>, ()> {
    let program = Program::compile(rule).map_err(|_| ())?;
    let called = program.references().functions().into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let operator = |name: &str| {
        name.contains(['_', '@']) && !name.chars().any(char::is_alphanumeric)
            || ["@in", "@not_strictly_false"].contains(&name)
    };
    Ok(called.into_iter().find(|name| !operator(name) && !FUNCTIONS.contains(&name.as_str())))
}
