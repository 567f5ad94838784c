//! The CRD files, and rules for all schemas in them.

use std::{collections::BTreeSet, fs, path::Path};

use kube::core::cel::cel::Program;
use serde_json::{Value, json};
use winpool::output;
use winpool_api::custom_resource_definitions;

/// The generated CRDs, with their file names.
fn crds() -> Vec<(&'static str, Value)> {
    custom_resource_definitions().into_iter().map(|(file, crd)| (file, json!(crd))).collect()
}

#[test]
fn the_files_in_crds_match_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for (file, crd) in crds() {
        let found = fs::read_to_string(folder.join(file)).unwrap_or_default();
        let expected = output::yaml(&crd);
        let first = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
        let line = first.unwrap_or_else(|| expected.lines().count().min(found.lines().count())) + 1;
        assert!(found == expected, "crds/{file} differs from winpool-api in line {line}: run `make crds` and commit");
    }
    let listed = fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
    let resources = &serde_saphyr::from_str::<Value>(&listed).unwrap()["resources"];
    assert_eq!(*resources, json!(crds().iter().map(|(file, _)| file).collect::<Vec<_>>()));
}

#[test]
fn every_schema_follows_the_schema_rules() {
    for (file, crd) in crds() {
        let violations = violations(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
        assert!(violations.is_empty(), "{file}:\n{}", violations.join("\n"));
    }
}

/// All violations of the schema rules, with their paths.
fn violations(schema: &Value) -> Vec<String> {
    let mut violations = Vec::new();
    check(schema, "", &mut violations);
    violations
}

fn check(schema: &Value, path: &str, violations: &mut Vec<String>) {
    let mut violation = |text: &str| violations.push(format!("{path}: {text}"));
    let has = |key: &str| schema.get(key).is_some();
    let type_ = schema["type"].as_str().unwrap_or_default();
    let is_map = type_ == "object" && !has("properties");

    let is_string = type_ == "string" || schema["x-kubernetes-int-or-string"] == true;
    if is_string && !["maxLength", "enum", "format"].into_iter().any(has) {
        violation("a string without maxLength, enum or format");
    }
    if type_ == "array" && !has("maxItems") {
        violation("a list without maxItems");
    }
    if is_map && !has("maxProperties") {
        violation("a map without maxProperties");
    }
    let null_in_enum = schema["enum"].as_array().is_some_and(|values| values.contains(&Value::Null));
    if has("nullable") || null_in_enum {
        violation("nullable");
    }
    if schema["default"] == "" {
        violation("an empty string as default, which means the same as no value");
    }
    if schema["format"].as_str().is_some_and(|format| !["int32", "int64", "date-time"].contains(&format)) {
        violation("a format that Kubernetes does not support");
    }
    let atomic = |key: &str| schema[key] == "atomic";
    let merged = type_ == "array" && !atomic("x-kubernetes-list-type") || is_map && !atomic("x-kubernetes-map-type");
    if has("default") && merged {
        violation("a default, but not atomic");
    }
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let cel = rule["rule"].as_str().unwrap_or_default();
        if !rule["message"].is_string() {
            violation(&format!("a rule without a message: {cel}"));
        }
        match function_beyond_the_standard_library(cel) {
            Err(()) => violation(&format!("a rule that does not parse: {cel}")),
            Ok(Some(function)) => violation(&format!("a rule with `{function}`, which API servers may not support")),
            Ok(None) => {}
        }
    }

    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        check(field, &format!("{path}.{name}"), violations);
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = schema.get(key) {
            check(inner, &format!("{path}{suffix}"), violations);
        }
    }
}

/// The functions that rules may call, all from the CEL standard library. Operators and macros are always allowed.
const FUNCTIONS: &[&str] = &["contains", "endsWith", "matches", "size", "startsWith"];

/// The first function of a rule that is not in the standard library of CEL. An error means that the rule does not parse, such
/// as with optional syntax (`?.`), which is not part of it either.
fn function_beyond_the_standard_library(rule: &str) -> Result<Option<String>, ()> {
    let program = Program::compile(rule).map_err(|_| ())?;
    let called = program.references().functions().into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let operator = |name: &str| {
        name.contains(['_', '@']) && !name.chars().any(char::is_alphanumeric)
            || ["@in", "@not_strictly_false"].contains(&name)
    };
    Ok(called.into_iter().find(|name| !operator(name) && !FUNCTIONS.contains(&name.as_str())))
}
