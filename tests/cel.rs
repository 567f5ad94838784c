//! The validation rules in the CRDs, run in process: what is refused at `kubectl apply`, where, and with which words.
//!
//! Lengths, patterns and enumerations are checked by the API server, not by these rules; the tests here leave them alone.

#![allow(clippy::panic)] // what cannot be read fails the test that reads it

#[path = "cel/refused.rs"]
mod refused;

use std::{collections::BTreeSet, fs, path::Path};

use kube::core::cel::Validator;
use serde_json::{Value, json};
use winpool::api::custom_resource_definitions;

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

#[test]
fn good_pools_pass() {
    for spec in [
        "{windowsVersion: ltsc2022, fallback: true}",
        "{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {agentpool: web}}}",
        "{windowsVersion: ltsc2022, fallback: false, nodeSelector: {matchLabels: {agentpool: web}}}",
        "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a/b, operator: In, values: [c]}, {key: d, operator: Exists}]}}",
    ] {
        assert_eq!(refused(POOL, "web", spec), [""; 0], "{spec}");
    }
    for version in
        ["ltsc2016", "1809", "20H2", "20h2", "LTSC2025", "23H2", "10.0.17763", "10.0.26100", "10.0.27842", "10.0.31000"]
    {
        let spec = format!("{{windowsVersion: \"{version}\", fallback: true}}");
        assert_eq!(refused(POOL, "web", &spec), [""; 0], "{version}");
    }
    for rest in [
        "taints: []",
        "taints: [{key: os, value: windows, effect: NoSchedule}, {key: os, value: windows, effect: NoExecute}]",
        "labels: {team: web, example.com/team: web}",
        "runtimeClasses: []",
        "runtimeClasses: [{name: a}, {name: b, isolation: HyperV, tolerations: [{key: os, value: Windows}, {operator: Exists}]}]",
    ] {
        assert_eq!(refused(POOL, "web", &pool(rest)), [""; 0], "{rest}");
    }
    assert_eq!(refused(POOL, &"a".repeat(63), &pool("")), [""; 0]);
}

#[test]
fn good_profiles_pass() {
    for spec in [
        "{}",
        "{kubelet: {systemReserved: {cpu: 500m, memory: 2Gi, ephemeral-storage: 1Gi}, kubeReserved: {}}}",
        "{kubelet: {evictionHard: {memory.available: 500Mi, nodefs.available: 10%, imagefs.available: 15%}}}",
        "{kubelet: {imageGC: {lowThresholdPercent: 70}, extra: {registryPullQPS: 10}}}",
        "{pauseImage: {source: Upstream}}",
        "{pauseImage: {source: Custom, repository: registry.example/pause, tag: '3.10'}}",
        "{containerd: {registryMirrors: [{registry: a.example, endpoints: ['https://m']}, {registry: b.example, endpoints: ['https://m']}]}}",
    ] {
        assert_eq!(refused(PROFILE, "standard", spec), [""; 0], "{spec}");
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
