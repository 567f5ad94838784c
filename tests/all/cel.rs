//! The validation rules in the CRDs, run in process: the specs that an API server rejects, with paths and messages.
//!
//! API servers check lengths, patterns and enumerations in addition to these rules. The command line checks both
//! offline.

mod specs;

use std::{collections::BTreeSet, fs, path::Path};

use kube::core::cel::Validator;
use serde_json::{Value, json};
use specs::{
    LONG_NAME, NODE_CONFIG, POOL, PROFILE, TEXT, UNKNOWN_VERSION, accepted, by_schema, of_version, pool, rejected,
    unknown_versions,
};
use winpool_api::custom_resource_definitions;
use winpool_check::manifests::{Budget, ManifestSet, Manifests};

/// The published schema of a kind.
fn schema(kind: &str) -> Value {
    let crds = custom_resource_definitions().into_iter().map(|(_, crd)| crd);
    let [crd] = &crds.filter(|crd| crd.spec.names.kind == kind).collect::<Vec<_>>()[..] else { panic!("{kind}") };
    json!(crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// The violations of rules by a spec in YAML with defaults: `path: message`, sorted by path.
fn violations(kind: &str, name: &str, spec: &str) -> Vec<String> {
    let spec = serde_saphyr::from_str::<Value>(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
    let object = json!({"apiVersion": "winpool.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    violations_of(kind, &object)
}

fn violations_of(kind: &str, object: &Value) -> Vec<String> {
    let found =
        Validator::new().validate(&schema(kind), object, None).map_err(kube::core::cel::ValidationErrors::into_vec);
    let found = found.err().unwrap_or_default().into_iter();
    found.map(|error| format!("{}: {}", error.field_path, error.message)).collect()
}

/// The paths of the problems that the command line reports for a spec in YAML.
fn offline_problems(kind: &str, name: &str, spec: &str) -> Vec<String> {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let text = format!("apiVersion: winpool.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n");
    fs::write(file.path(), text).unwrap();
    let manifests = Manifests::read(&[file.path().to_owned()], &mut Budget::unbounded()).unwrap();
    let problems = ManifestSet::new(manifests).err().unwrap_or_default().into_iter();
    problems.map(|located| located.problem.path).collect()
}

#[test]
fn accepted_specs_violate_no_rule_and_pass_the_command_line() {
    for (kind, spec) in accepted() {
        // The API server removes nulls before it evaluates the rules.
        if !spec.contains("null") {
            assert_eq!(violations(kind, "web", &spec), [""; 0], "{spec}");
        }
        if kind != NODE_CONFIG {
            assert_eq!(offline_problems(kind, "web", &spec), [""; 0], "{spec}");
        }
    }
    assert_eq!(violations(POOL, &"a".repeat(63), &pool("")), [""; 0]);
    assert_eq!(offline_problems(POOL, &"a".repeat(63), &pool("")), [""; 0]);
}

#[test]
fn the_command_line_reports_one_problem_at_the_path_of_the_api_server() {
    let by_rules = rejected().into_iter().filter(|(kind, ..)| *kind != NODE_CONFIG);
    let by_rules = by_rules.map(|(kind, spec, violation)| (kind, spec, violation.split_once(": ").unwrap().0));
    for (kind, spec, path) in by_rules.chain(by_schema()) {
        let found = offline_problems(kind, "web", &spec);
        let [found] = &found[..] else { panic!("{spec}: {found:?}") };
        assert!(found.starts_with(path), "{spec}: {found} is not in {path}");
    }
    for version in unknown_versions() {
        assert_eq!(offline_problems(POOL, "web", &of_version(version)), ["spec.windowsVersion"], "{version}");
    }
    assert_eq!(offline_problems(POOL, &"a".repeat(64), &pool("")), ["metadata.name"]);
}

#[test]
fn the_rule_for_builds_and_the_command_line_agree() {
    let edges =
        [0, 14393, 17763, 20347, 20349, 22621, 26100, 26101, 26110, 26200, 26999, 27000, 29999, 30000, 99999, 100_000];
    for build in edges.into_iter().chain((10_000..101_000).step_by(997)) {
        let spec = of_version(&format!("10.0.{build}"));
        let [rule, offline] = [violations(POOL, "web", &spec), offline_problems(POOL, "web", &spec)];
        assert_eq!(rule.len(), offline.len(), "10.0.{build}: {rule:?}, {offline:?}");
    }
}

#[test]
fn an_invalid_spec_is_rejected_with_path_and_remedy() {
    for (kind, spec, violation) in rejected() {
        assert_eq!(violations(kind, "web", &spec), [violation], "{spec}");
    }
    assert_eq!(violations(POOL, &"a".repeat(64), &pool("")), [format!(": {LONG_NAME}")]);
}

#[test]
fn an_unknown_windows_version_is_rejected_with_the_known_ones() {
    for version in unknown_versions() {
        let found = violations(POOL, "web", &of_version(version));
        let [found] = &found[..] else { panic!("{version}: {found:?}") };
        let start = format!("spec.windowsVersion: {UNKNOWN_VERSION}");
        assert!(found.starts_with(&start) && found.ends_with(", ltsc2025, or a build such as 10.0.20348"), "{found}");
    }
}

#[test]
fn every_rule_has_a_spec_that_it_rejects() {
    let mut messages = BTreeSet::new();
    for kind in [POOL, PROFILE, NODE_CONFIG] {
        messages_of(&schema(kind), &mut messages);
    }
    assert!(messages.len() > 12, "{messages:?}");
    for message in messages.iter().filter(|message| !message.starts_with(UNKNOWN_VERSION) && *message != LONG_NAME) {
        assert!(TEXT.contains(message.as_str()), "no test of the rule with message: {message}");
    }
}

fn messages_of(schema: &Value, messages: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
            messages.extend(rules.filter_map(|rule| rule["message"].as_str()).map(str::to_owned));
            fields.values().for_each(|field| messages_of(field, messages));
        }
        Value::Array(items) => items.iter().for_each(|item| messages_of(item, messages)),
        _ => {}
    }
}

#[test]
fn the_samples_violate_no_rule() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/samples");
    let files = fs::read_dir(samples).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect::<Vec<_>>();
    assert!(!files.is_empty());
    for file in files {
        for object in serde_saphyr::from_multiple::<Value>(&fs::read_to_string(&file).unwrap()).unwrap() {
            let kind = object["kind"].as_str().unwrap();
            assert_eq!(violations_of(kind, &object), [""; 0], "{}", file.display());
        }
    }
}
