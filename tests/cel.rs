//! The validation rules in the CRDs, run in process: what is refused at `kubectl apply`, where, and with which words.
//!
//! Lengths, patterns and enumerations are checked by the API server, not by these rules. The command line has to refuse
//! by both, without a server.

#![allow(clippy::panic, clippy::unwrap_used)] // what cannot be read fails the test that reads it

#[path = "cel/accepted.rs"]
mod accepted;
#[path = "cel/refused.rs"]
mod refused;

use std::{collections::BTreeSet, fs, path::Path};

use kube::core::cel::Validator;
use serde_json::{Value, json};
use winpool::{
    api::custom_resource_definitions,
    manifests::{Budget, Manifests, Resources},
};

use refused::{LONG_NAME, UNKNOWN_VERSION, UNKNOWN_VERSIONS, pool};

const POOL: &str = "WindowsNodePool";
const PROFILE: &str = "WindowsRuntimeProfile";

/// The schema of a kind as it is shipped.
fn schema(kind: &str) -> Value {
    let crds = custom_resource_definitions().into_iter().map(|(_, crd)| crd);
    let [crd] = &crds.filter(|crd| crd.spec.names.kind == kind).collect::<Vec<_>>()[..] else { panic!("{kind}") };
    json!(crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// What the rules say about a spec in YAML, defaults filled in: `path: message`, in the order of the paths.
fn refused(kind: &str, name: &str, spec: &str) -> Vec<String> {
    let spec = serde_saphyr::from_str::<Value>(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
    let object = json!({"apiVersion": "winpool.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    judge(kind, &object)
}

fn judge(kind: &str, object: &Value) -> Vec<String> {
    let found =
        Validator::new().validate(&schema(kind), object, None).map_err(kube::core::cel::ValidationErrors::into_vec);
    let found = found.err().unwrap_or_default().into_iter();
    found.map(|error| format!("{}: {}", error.field_path, error.message)).collect()
}

/// What the command line says about a spec in YAML: the paths.
fn refused_offline(kind: &str, name: &str, spec: &str) -> Vec<String> {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let text = format!("apiVersion: winpool.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n");
    fs::write(file.path(), text).unwrap();
    let manifests = Manifests::read(&[file.path().to_owned()], &mut Budget::unbounded()).unwrap();
    let mistakes = Resources::of(manifests).err().unwrap_or_default().into_iter();
    mistakes.map(|mistake| mistake.problem.path).collect()
}

/// Every spec that is accepted: kind and YAML.
fn accepted() -> Vec<(&'static str, String)> {
    let versions =
        accepted::VERSIONS.iter().map(|version| format!("{{windowsVersion: \"{version}\", fallback: true}}"));
    let pools = accepted::POOLS.iter().map(|spec| (*spec).to_owned());
    let pools = pools.chain(versions).chain(accepted::PARTS_OF_POOLS.iter().map(|part| pool(part)));
    let profiles = accepted::PROFILES.iter().map(|spec| (PROFILE, (*spec).to_owned()));
    pools.map(|spec| (POOL, spec)).chain(profiles).collect()
}

#[test]
fn what_is_good_passes_the_rules_and_the_command_line() {
    for (kind, spec) in accepted() {
        // The API server drops nulls before it looks at the rules.
        if !spec.contains("null") {
            assert_eq!(refused(kind, "web", &spec), [""; 0], "{spec}");
        }
        assert_eq!(refused_offline(kind, "web", &spec), [""; 0], "{spec}");
    }
    assert_eq!(refused(POOL, &"a".repeat(63), &pool("")), [""; 0]);
    assert_eq!(refused_offline(POOL, &"a".repeat(63), &pool("")), [""; 0]);
}

#[test]
fn the_command_line_refuses_what_an_api_server_refuses_once_and_where_it_does() {
    let by_rules = refused::pools().into_iter().map(|(spec, said)| (POOL, spec, said));
    let by_rules = by_rules.chain(refused::profiles().into_iter().map(|(spec, said)| (PROFILE, spec.to_owned(), said)));
    let path = |said: &'static str| said.split_once(": ").map_or("", |(path, _)| path);
    let by_rules = by_rules.map(|(kind, spec, said)| (kind, spec, path(said)));
    for (kind, spec, path) in by_rules.chain(refused::by_schema()) {
        let found = refused_offline(kind, "web", &spec);
        let [found] = &found[..] else { panic!("{spec}: {found:?}") };
        assert!(found.starts_with(path), "{spec}: {found} is not in {path}");
    }
    for version in UNKNOWN_VERSIONS {
        let spec = format!("{{windowsVersion: \"{version}\", fallback: true}}");
        assert_eq!(refused_offline(POOL, "web", &spec), ["spec.windowsVersion"], "{version}");
    }
    assert_eq!(refused_offline(POOL, &"a".repeat(64), &pool("")), ["metadata.name"]);
}

#[test]
fn the_rule_for_builds_and_the_command_line_agree_on_every_one() {
    let edges =
        [0, 14393, 17763, 20347, 20349, 22621, 26100, 26101, 26110, 26200, 26999, 27000, 29999, 30000, 99999, 100_000];
    for build in edges.into_iter().chain((10_000..101_000).step_by(997)) {
        let spec = format!("{{windowsVersion: \"10.0.{build}\", fallback: true}}");
        let [rule, offline] = [refused(POOL, "web", &spec), refused_offline(POOL, "web", &spec)];
        assert_eq!(rule.len(), offline.len(), "10.0.{build}: {rule:?}, {offline:?}");
    }
}

#[test]
fn a_bad_pool_is_refused_where_it_is_bad_with_what_to_write_instead() {
    for (spec, said) in refused::pools() {
        assert_eq!(refused(POOL, "web", &spec), [said], "{spec}");
    }
    assert_eq!(refused(POOL, &"a".repeat(64), &pool("")), [format!(": {LONG_NAME}")]);
}

#[test]
fn an_unknown_windows_version_is_refused_with_the_known_ones() {
    for version in UNKNOWN_VERSIONS {
        let found = refused(POOL, "web", &format!("{{windowsVersion: \"{version}\", fallback: true}}"));
        let [found] = &found[..] else { panic!("{version}: {found:?}") };
        let start = format!("spec.windowsVersion: {UNKNOWN_VERSION}");
        assert!(found.starts_with(&start) && found.ends_with(", ltsc2025, or a build such as 10.0.20348"), "{found}");
    }
}

#[test]
fn a_bad_profile_is_refused_where_it_is_bad_with_what_to_write_instead() {
    for (spec, said) in refused::profiles() {
        assert_eq!(refused(PROFILE, "standard", spec), [said], "{spec}");
    }
}

#[test]
fn every_rule_has_a_spec_that_it_refuses() {
    let here = include_str!("cel/refused.rs");
    let mut messages = BTreeSet::new();
    for kind in [POOL, PROFILE] {
        messages_of(&schema(kind), &mut messages);
    }
    assert!(messages.len() > 12, "{messages:?}");
    for message in messages.iter().filter(|message| !message.starts_with(UNKNOWN_VERSION)) {
        assert!(here.contains(message.as_str()), "no test of the rule that says: {message}");
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
fn the_samples_pass() {
    let samples =
        ["config/samples", "config/samples-1.20"].map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let files = samples.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect::<Vec<_>>();
    assert!(!files.is_empty());
    for file in files {
        for object in serde_saphyr::from_multiple::<Value>(&fs::read_to_string(&file).unwrap()).unwrap() {
            let kind = object["kind"].as_str().unwrap();
            assert_eq!(judge(kind, &object), [""; 0], "{}", file.display());
        }
    }
}
