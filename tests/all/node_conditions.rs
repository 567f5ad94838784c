//! The files for node-problem-detector and for the node readiness controller, compared with what their sources take.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use crate::powershell;

/// The keys that kubernetes/node-problem-detector reads (commit 6632ca67 of 2026-08-22, read 2026-11-29): `pkg/custompluginmonitor/types`,
/// `config.go` and `types.go`, and `Condition` of `pkg/types/types.go`.
const MONITOR: &[&str] = &["plugin", "pluginConfig", "source", "conditions", "rules", "metricsReporting"];
const PLUGIN: &[&str] = &[
    "invoke_interval",
    "timeout",
    "max_output_length",
    "concurrency",
    "enable_message_change_based_condition_update",
    "skip_initial_status",
];
const CONDITION: &[&str] = &["type", "reason", "message"];
const RULE: &[&str] = &["type", "condition", "reason", "path", "args", "timeout", "invoke_interval"];
/// How many bytes of the output a plugin may have: `maxCustomPluginBufferBytes` of `plugin/plugin.go`.
const MAX_OUTPUT: u64 = 4096;

/// The keys and values of a NodeReadinessRule (kubernetes-sigs/node-readiness-controller, commit e5ff8d10 of 2026-08-22, read 2026-11-29:
/// `api/v1alpha1/nodereadinessrule_types.go` and `internal/webhook/nodereadinessgaterule_webhook.go`).
const READINESS: &[&str] = &["conditions", "enforcementMode", "taint", "nodeSelector", "conditionPolicy", "dryRun"];
const REQUIREMENT: &[&str] = &["type", "requiredStatus", "defaultStatus"];

fn text(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name)).unwrap()
}

fn assert_keys(object: &Value, known: &[&str]) {
    let unknown: Vec<_> = object.as_object().unwrap().keys().filter(|key| !known.contains(&key.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?} in {object:#}");
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

const MONITORS: [&str; 2] = ["winpool-network-problems.json", "winpool-network-readiness.json"];
const SCRIPT: &str = "winpool-network.ps1";

/// The types of the conditions that the monitors write, with the number of rules for each.
fn written() -> BTreeMap<String, usize> {
    let mut written = BTreeMap::new();
    for name in MONITORS {
        let monitor: Value = serde_json::from_str(&text(&format!("node-problem-detector/{name}"))).unwrap();
        written.extend(items(&monitor["conditions"]).map(|of| (of["type"].as_str().unwrap().to_owned(), 0)));
        for rule in items(&monitor["rules"]) {
            *written.get_mut(rule["condition"].as_str().unwrap()).expect("a condition with a default") += 1;
        }
    }
    written
}

#[test]
fn the_monitors_have_only_what_node_problem_detector_reads() {
    let checks = powershell_checks();
    for name in MONITORS {
        let monitor: Value = serde_json::from_str(&text(&format!("node-problem-detector/{name}"))).unwrap();
        assert_keys(&monitor, MONITOR);
        assert_keys(&monitor["pluginConfig"], PLUGIN);
        assert_eq!(monitor["plugin"], "custom");
        assert!(monitor["source"].is_string());
        assert!(monitor["pluginConfig"]["max_output_length"].as_u64().unwrap() <= MAX_OUTPUT);
        items(&monitor["conditions"]).for_each(|condition| assert_keys(condition, CONDITION));
        for rule in items(&monitor["rules"]) {
            assert_keys(rule, RULE);
            assert_eq!(rule["type"], "permanent");
            // With -File the exit status is that of the script. NPD starts a script by its path without it, and 2 would become 1, a
            // problem (`pkg/util/exec_windows.go`; MicrosoftDocs/PowerShell-Docs, about_PowerShell_exe).
            assert!(rule["path"].as_str().unwrap().ends_with("powershell.exe"));
            let args: Vec<_> = items(&rule["args"]).filter_map(Value::as_str).collect();
            let [.., "-File", script, "-Check", check] = args[..] else { panic!("{args:?}") };
            assert!(script.ends_with(SCRIPT) && checks.contains(check), "{args:?}");
        }
    }
    // Each result of a rule sets the whole condition.
    assert!(written().values().all(|rules| *rules == 1), "one rule for each condition");
}

/// The values that the script takes.
fn powershell_checks() -> BTreeSet<String> {
    let script = text(&format!("node-problem-detector/{SCRIPT}"));
    powershell::parse(&script);
    let list = script.split_once("ValidateSet(").and_then(|(_, rest)| rest.split_once(')')).unwrap().0;
    list.split(", ").map(|value| value.trim_matches('\'').to_owned()).collect()
}

#[test]
fn the_readiness_rules_require_conditions_that_the_monitors_write() {
    let rules: Vec<Value> = serde_saphyr::from_multiple(&text("node-readiness/network.yaml")).unwrap();
    let written = written();
    for rule in &rules {
        assert_eq!(rule["apiVersion"], "readiness.node.x-k8s.io/v1alpha1");
        assert_eq!(rule["kind"], "NodeReadinessRule");
        let spec = &rule["spec"];
        assert_keys(spec, READINESS);
        assert!(["bootstrap-only", "continuous"].contains(&spec["enforcementMode"].as_str().unwrap()));
        let (prefix, name) = spec["taint"]["key"].as_str().unwrap().split_once('/').unwrap();
        assert_eq!((prefix, name.len() <= 63), ("readiness.k8s.io", true));
        assert_eq!(spec["taint"]["effect"], "NoSchedule");
        assert_eq!(spec["nodeSelector"]["matchLabels"]["kubernetes.io/os"], "windows");
        for condition in items(&spec["conditions"]) {
            assert_keys(condition, REQUIREMENT);
            assert!(written.contains_key(condition["type"].as_str().unwrap()), "{condition}");
            let is_problem = condition["type"] != "winpool.dev/NetworkReady";
            assert_eq!(condition["requiredStatus"], if is_problem { "False" } else { "True" });
            // The webhook rejects a default in this mode.
            let may_default = spec["enforcementMode"] != "bootstrap-only";
            assert!(may_default || condition["defaultStatus"].is_null(), "{rule}");
        }
    }
    assert_eq!(rules.len(), 2);
}
