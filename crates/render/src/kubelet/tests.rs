use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use winpool_api::TaintEffect;
use winpool_facts::{Build, ContainerRuntime, ContainerdLine};

use super::*;
use crate::profile;

const CONTAINERD: ContainerRuntime<ContainerdLine> = ContainerRuntime::Containerd(ContainerdLine::new(1, 7));

fn profile(kubelet: Value) -> Profile {
    profile::check(&serde_json::from_value(json!({"kubelet": kubelet})).unwrap()).unwrap()
}

fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.to_owned(), value: value.to_owned(), effect }
}

fn windows_taint() -> Vec<Taint> {
    vec![taint("os", "windows", TaintEffect::NoSchedule)]
}

fn variant(minor: u32, runtime: ContainerRuntime<ContainerdLine>) -> Variant {
    Variant { kubelet: Minor(minor), runtime, host: Build(20348) }
}

/// The variants with each runtime of each supported minor, and of later ones.
fn variants() -> impl Iterator<Item = Variant> {
    (30..=40).flat_map(|minor| [CONTAINERD, ContainerRuntime::CriDockerd].map(|runtime| variant(minor, runtime)))
}

fn scoped(taints: &[Taint], profile: &Profile, variant: &Variant, scope: Scope) -> Value {
    serde_saphyr::from_str(&yaml(taints, profile, variant, scope)).unwrap()
}

fn configuration(taints: &[Taint], profile: &Profile, variant: &Variant) -> Value {
    scoped(taints, profile, variant, Scope::Layer)
}

fn flags_of(profile: &Profile, minor: Minor) -> BTreeMap<String, String> {
    let text = args(profile, minor);
    let flag =
        |line: &str| line.strip_prefix("--")?.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.lines().map(|line| flag(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

#[test]
fn each_minor_is_given_exactly_the_fields_and_flags_that_it_knows() {
    let full = json!({
        "kubeReserved": {"cpu": "200m"},
        "evictionHard": {"memory.available": "1Gi"},
        "featureGates": {"AllAlpha": false},
        "logging": {"verbosity": 2},
        "extra": {"clusterDNS": ["10.96.0.10"]},
    });
    for (variant, scope) in variants().flat_map(|variant| [(variant, Scope::Layer), (variant, Scope::Whole)]) {
        let (minor, whole) = (variant.kubelet.0, scope == Scope::Whole);
        for (settings, full) in [(json!({}), false), (full.clone(), true)] {
            let fields = [
                ("apiVersion", true),
                ("cgroupsPerQOS", true),
                ("clusterDNS", full),
                ("containerLogMaxFiles", true),
                ("containerLogMaxSize", true),
                // In a layer, the bootstrap sets the endpoint of the container runtime.
                ("containerRuntimeEndpoint", whole),
                ("enforceNodeAllocatable", true),
                ("evictionHard", true),
                ("featureGates", full),
                ("imageGCHighThresholdPercent", true),
                ("imageGCLowThresholdPercent", true),
                ("kind", true),
                ("kubeReserved", full),
                ("logging", full),
                ("maxPods", true),
                ("registerWithTaints", true),
                ("resolvConf", true),
                ("systemReserved", true),
            ];
            // These minors lose the field resolvConf in a drop-in file.
            let flags = [("resolv-conf", (30..=31).contains(&minor)), ("windows-priorityclass", true)];
            let names = |table: &[(&'static str, bool)]| {
                table.iter().filter(|(_, present)| *present).map(|(name, _)| *name).collect::<BTreeSet<_>>()
            };
            let profile = profile(settings);
            let written = scoped(&windows_taint(), &profile, &variant, scope);
            let written = written.as_object().unwrap().keys().map(String::as_str).collect::<BTreeSet<_>>();
            assert_eq!(written, names(&fields), "{variant}, {scope:?}");
            let written = flags_of(&profile, variant.kubelet);
            let written = written.keys().map(String::as_str).collect::<BTreeSet<_>>();
            assert_eq!(written, names(&flags), "{variant}, {scope:?}");
        }
    }
}

#[test]
fn default_thresholds_are_rendered_with_those_of_the_profile() {
    let some = profile(json!({"evictionHard": {"nodefs.available": "5%"}}));
    for variant in variants() {
        let memory = if variant.kubelet < Minor(31) { "100Mi" } else { "500Mi" };
        let expected = json!({"memory.available": memory, "nodefs.available": "5%", "imagefs.available": "15%"});
        assert_eq!(configuration(&[], &some, &variant)["evictionHard"], expected, "{variant}");
    }
}

#[test]
fn each_runtime_has_its_endpoint() {
    let containerd = "npipe:////./pipe/containerd-containerd";
    let profile = profile(json!({}));
    let fields = |runtime| scoped(&[], &profile, &variant(36, runtime), Scope::Whole);
    assert_eq!(fields(CONTAINERD)["containerRuntimeEndpoint"], containerd);
    let docker = fields(ContainerRuntime::CriDockerd);
    assert_eq!(docker["containerRuntimeEndpoint"], "npipe:////./pipe/cri-dockerd");
}

#[test]
fn the_verbosity_is_merged_into_the_other_settings_of_the_log() {
    let with_others = profile(json!({"logging": {"verbosity": 0}, "extra": {"logging": {"format": "json"}}}));
    let logging = &configuration(&[], &with_others, &variant(36, CONTAINERD))["logging"];
    assert_eq!(*logging, json!({"format": "json", "verbosity": 0}));
    let both = json!({"kubelet": {"logging": {"verbosity": 2}, "extra": {"logging": {"verbosity": 4}}}});
    let problems = profile::check(&serde_json::from_value(both).unwrap()).unwrap_err();
    assert_eq!(problems[0].path, "spec.kubelet.extra.logging.verbosity");
}

#[test]
fn pods_get_the_resolvers_of_a_file_by_a_field_and_those_of_the_host_by_a_flag() {
    let file = r"C:\etc\resolv.conf";
    let table = [
        ("", 30, Some(""), Some("")),
        ("", 36, Some(""), None),
        (file, 30, Some(file), Some(file)),
        (file, 36, Some(file), None),
        ("Host", 30, None, Some("Host")),
        ("Host", 36, None, Some("Host")),
    ];
    for (value, minor, field, flag) in table {
        let profile = profile(json!({"extra": {"resolvConf": value}}));
        let variant = variant(minor, CONTAINERD);
        let text = yaml(&[], &profile, &variant, Scope::Layer);
        let configuration: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(configuration.get("resolvConf").and_then(Value::as_str), field, "{value} {minor}");
        let flags = flags_of(&profile, variant.kubelet);
        let found = flags.get("resolv-conf").map(String::as_str);
        assert_eq!(found, flag, "{value} {minor}");
        assert_eq!(problems(&profile.kubelet, variant.kubelet), []);
    }
    for wrong in ["host", "/etc/resolv.conf", "resolv.conf"] {
        let spec = json!({"kubelet": {"extra": {"resolvConf": wrong}}});
        let problems = profile::check(&serde_json::from_value(spec).unwrap()).unwrap_err();
        assert_eq!(problems[0].path, "spec.kubelet.extra.resolvConf", "{wrong}");
    }
}

#[test]
fn taints_are_the_same_as_a_field_and_as_a_flag() {
    let taints = [taint("os", "windows", TaintEffect::NoSchedule), taint("a.b/c", "", TaintEffect::NoExecute)];
    assert_eq!(taints_flag(&taints), "os=windows:NoSchedule,a.b/c=:NoExecute");
    let field = json!([
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
        {"key": "a.b/c", "value": "", "effect": "NoExecute"},
    ]);
    let profile = profile(json!({}));
    assert_eq!(configuration(&taints, &profile, &variant(36, CONTAINERD))["registerWithTaints"], field);
}

#[test]
fn gates_and_fields_that_a_minor_does_not_accept_are_problems() {
    let gate = |name: &str, value: bool| json!({"featureGates": {name: value}});
    let field = |name: &str, value: Value| json!({"extra": {name: value}});
    let table = [
        (gate("ComponentSLIs", true), (30..=34).collect(), 30..=38),
        (gate("ComponentSLIs", false), vec![30, 31], 30..=38),
        (gate("NoSuchGate", true), vec![38, 39], 30..=39),
        (gate("ContextualLogging", false), (30..=37).collect::<Vec<_>>(), 30..=37),
        (gate("GracefulNodeShutdown", false), vec![33, 34], 33..=38),
        (field("enableSystemLogQuery", json!(true)), vec![36], 30..=36),
        (field("podLogsDir", json!("C:\\logs")), vec![30, 31], 30..=31),
        (field("crashLoopBackOff", json!({"maxContainerRestartPeriod": "1m"})), vec![35, 36], 30..=36),
        (field("shutdownGracePeriod", json!("30s")), vec![34, 35, 36], 30..=36),
        (field("showHiddenMetricsForVersion", json!("1.34")), vec![35], 30..=38),
        (field("cpuManagerPolicy", json!("static")), vec![], 30..=36),
        (
            json!({"featureGates": {"KubeletCrashLoopBackOffMax": true}, "extra": {"crashLoopBackOff": {"maxContainerRestartPeriod": "1m"}}}),
            vec![32, 33, 34],
            30..=34,
        ),
        (
            json!({"featureGates": {"WindowsCPUAndMemoryAffinity": true}, "extra": {"cpuManagerPolicy": "static"}}),
            vec![32, 33, 34, 35, 36],
            30..=36,
        ),
    ];
    for (settings, expected, minors) in table {
        let kubelet = profile(settings.clone()).kubelet;
        let accepted = minors.filter(|minor| problems(&kubelet, Minor(*minor)).is_empty()).collect::<Vec<_>>();
        assert_eq!(accepted, expected, "{settings}");
    }
}

#[test]
fn a_problem_names_the_minors_and_the_remedy() {
    let message = |settings: Value, minor| Problem::list(&problems(&profile(settings).kubelet, Minor(minor)));
    assert_eq!(
        message(json!({"featureGates": {"WindowsGracefulNodeShutdown": true}}), 31),
        "spec.kubelet.featureGates.WindowsGracefulNodeShutdown: the gate exists from kubelet 1.32 on, and kubelet 1.31 \
         does not start with it: remove it, or use another profile for these nodes"
    );
    assert!(
        message(json!({"featureGates": {"ComponentSLIs": true}}), 35).contains("the gate exists up to kubelet 1.34")
    );
    assert_eq!(
        message(json!({"featureGates": {"ComponentSLIs": true}}), 29),
        "status.nodeInfo.kubeletVersion: kubelet 1.29 is older than 1.30, the oldest that winpool configures: upgrade \
         the kubelet, or replace the node"
    );
    let settings = json!({"extra": {"shutdownGracePeriod": "30s"}});
    assert!(message(settings, 33).contains("set spec.kubelet.featureGates.WindowsGracefulNodeShutdown: true"));
}
