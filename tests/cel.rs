//! The validation rules in the CRDs, run in process: what is refused at `kubectl apply`, where, and with which words.
//!
//! Lengths, patterns and enumerations are checked by the API server, not by these rules; the tests here leave them alone.

#![allow(clippy::panic)] // what cannot be read fails the test that reads it

use std::{collections::BTreeSet, fs, path::Path};

use kube::core::cel::Validator;
use serde_json::{Value, json};
use winpool::api::custom_resource_definitions;

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

/// Everything but what a case is about, so that nothing else is refused.
fn pool(rest: &str) -> String {
    format!("{{windowsVersion: ltsc2022, nodeSelector: {{matchLabels: {{agentpool: web}}}}, {rest}}}")
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
    let selector = "spec: write either spec.nodeSelector, to choose nodes by label, or spec.fallback: true, to take the Windows nodes that no other pool matches";
    let empty = "spec.nodeSelector: an empty selector would match every Windows node: write matchLabels or matchExpressions, or spec.fallback: true instead of the selector";
    for (spec, wanted) in [
        ("{windowsVersion: ltsc2022}", selector),
        ("{windowsVersion: ltsc2022, fallback: false}", selector),
        ("{windowsVersion: ltsc2022, fallback: true, nodeSelector: {matchLabels: {a: b}}}", selector),
        ("{windowsVersion: ltsc2022, nodeSelector: {}}", empty),
        ("{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {}, matchExpressions: []}}", empty),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {winpool.dev/pool: web}}}",
            "spec.nodeSelector.matchLabels: winpool.dev/ labels are set from this selector: select by a label of your own",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchLabels: {'a b': c}}}",
            "spec.nodeSelector.matchLabels: a label key is a name of at most 63 characters, with an optional DNS prefix: example.com/team",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a, operator: Exists}, {key: winpool.dev/pool, operator: Exists}]}}",
            "spec.nodeSelector.matchExpressions[1]: winpool.dev/ labels are set from this selector: select by a label of your own",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a, operator: In}]}}",
            "spec.nodeSelector.matchExpressions[0]: In and NotIn need at least one value; Exists and DoesNotExist take none",
        ),
        (
            "{windowsVersion: ltsc2022, nodeSelector: {matchExpressions: [{key: a, operator: DoesNotExist, values: [b]}]}}",
            "spec.nodeSelector.matchExpressions[0]: In and NotIn need at least one value; Exists and DoesNotExist take none",
        ),
    ] {
        assert_eq!(refused(POOL, "web", spec), [wanted], "{spec}");
    }
    for (rest, wanted) in [
        (
            "taints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]",
            "spec.taints: a node can have one taint of a key and effect: remove the duplicate",
        ),
        (
            "labels: {'-a': b}",
            "spec.labels: a label key is a name of at most 63 characters, with an optional DNS prefix: example.com/team",
        ),
        (
            "labels: {kubernetes.io/os: windows}",
            "spec.labels: winpool.dev/ labels, kubernetes.io/os, kubernetes.io/arch, kubernetes.io/hostname and node.kubernetes.io/windows-build are set by the operator and the kubelet: remove them here",
        ),
        (
            "runtimeClasses: [{name: a}, {name: b}, {name: a}]",
            "spec.runtimeClasses: each RuntimeClass of a pool needs a name of its own: rename the duplicate",
        ),
        (
            "runtimeClasses: [{name: a, tolerations: [{key: a, operator: Exists, value: b}]}]",
            "spec.runtimeClasses[0].tolerations[0]: operator Exists takes no value: remove the value, or write operator Equal",
        ),
        (
            "runtimeClasses: [{name: a, tolerations: [{value: b}]}]",
            "spec.runtimeClasses[0].tolerations[0]: a toleration without a key tolerates every taint and needs operator Exists: write a key, or operator Exists",
        ),
    ] {
        assert_eq!(refused(POOL, "web", &pool(rest)), [wanted], "{rest}");
    }
    let name = ": metadata.name becomes a label value on the nodes: write at most 63 characters";
    assert_eq!(refused(POOL, &"a".repeat(64), &pool("")), [name]);
}

#[test]
fn an_unknown_windows_version_is_refused_with_the_known_ones() {
    for version in [
        "",
        "ltsc2024",
        "windows-ltsc2022",
        "xltsc2022",
        "10.0.20349",
        "10.0.26099",
        "10.0.2",
        "10.0.20348.4529",
        "20348",
        "6.3.9600",
    ] {
        let found = refused(POOL, "web", &format!("{{windowsVersion: \"{version}\", fallback: true}}"));
        let [found] = &found[..] else { panic!("{version}: {found:?}") };
        let start = "spec.windowsVersion: unknown Windows version: write one of ltsc2016, ";
        assert!(found.starts_with(start) && found.ends_with(", ltsc2025, or a build such as 10.0.20348"), "{found}");
    }
}

#[test]
fn a_bad_profile_is_refused_where_it_is_bad_with_what_to_write_instead() {
    let reserves = "a Windows kubelet reserves cpu, memory and ephemeral-storage: remove the other keys";
    let repository = "spec.pauseImage: source Custom needs a repository, the other sources have their own: write source: Custom together with repository";
    for (spec, wanted) in [
        ("{kubelet: {systemReserved: {pid: 100}}}", format!("spec.kubelet.systemReserved: {reserves}")),
        ("{kubelet: {kubeReserved: {memory: 1Gi, hugepages-2Mi: 1Gi}}}", format!("spec.kubelet.kubeReserved: {reserves}")),
        (
            "{kubelet: {evictionHard: {nodefs.inodesFree: 5%}}}",
            "spec.kubelet.evictionHard: Windows knows the eviction signals memory.available, nodefs.available and imagefs.available: remove the other keys".to_owned(),
        ),
        (
            "{kubelet: {imageGC: {highThresholdPercent: 50}}}",
            "spec.kubelet.imageGC: lowThresholdPercent is where garbage collection stops: write less than highThresholdPercent".to_owned(),
        ),
        ("{pauseImage: {source: Custom}}", repository.to_owned()),
        ("{pauseImage: {source: Custom, repository: ''}}", repository.to_owned()),
        ("{pauseImage: {repository: registry.example/pause}}", repository.to_owned()),
        (
            "{containerd: {registryMirrors: [{registry: a, endpoints: ['https://m']}, {registry: a, endpoints: ['https://n']}]}}",
            "spec.containerd.registryMirrors: write the endpoints of a registry in one entry: merge the duplicates".to_owned(),
        ),
    ] {
        assert_eq!(refused(PROFILE, "standard", spec), [wanted], "{spec}");
    }
}

#[test]
fn every_rule_has_a_spec_above_that_it_refuses() {
    let here = include_str!("cel.rs");
    let mut messages = BTreeSet::new();
    for kind in [POOL, PROFILE] {
        messages_of(&schema(kind), &mut messages);
    }
    assert!(messages.len() > 12, "{messages:?}");
    let names = "unknown Windows version: write one of ltsc2016, ";
    for message in messages.iter().filter(|message| !message.starts_with(names)) {
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
