//! The configuration of the kubelet: `kubelet.yaml`, and `kubelet.args` for settings without a field in the minor. As
//! layers they contain only the settings of a profile and those that Windows requires.
//!
//! Sources in addition to those of the tables: kubernetes/kubernetes, `cmd/kubelet/app/options` and `server.go` (1.21
//! to 1.36), and for dockershim's flags kubernetes-sigs/sig-windows-tools, `kubeadm/scripts/StartKubelet.ps1`.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{
    Scope, Variant,
    yaml::{Document, Quoted, Strings},
};
use crate::{
    api::{PriorityClass, Taint, TaintEffect},
    domain::{
        Problem,
        kubernetes::quantity::{Quantity, Threshold},
        profile::{self, Kubelet, Profile, Resource},
    },
    facts::{
        ContainerRuntime, Minor,
        eviction::{self, Signal},
        feature_gates::{self, GateState, feature_gate},
        kubelet_fields::{Field, field},
        kubelet_flags as flags,
        kubelet_flags::Flag,
        layers,
    },
};

const LOGGING: &str = "logging";
const WHOLE: &str = "KubeletConfiguration for Windows (kubelet --config). Restart the kubelet to apply it.";

/// The header of a layer. The ways of merging it depend on the kubelet's minor.
fn comment(minor: Minor) -> String {
    let mut text = "Partial KubeletConfiguration for Windows. Other settings of the node are unchanged.\n".to_owned();
    if minor >= layers::CONFIG_DIR_SINCE {
        text += "Save it as 50-winpool.conf in the directory of the kubelet flag --config-dir, or merge it into the file of the flag\n\
                 --config: merge maps, replace lists and other values.\n";
    } else {
        text += "Merge it into the file of the kubelet flag --config: merge maps, replace lists and other values.\n";
    }
    if minor >= layers::KUBEADM_PATCHES_SINCE {
        text += "For kubeadm, save it as the patch kubeletconfiguration0+merge.yaml.\n";
    }
    text + "Restart the kubelet to apply it."
}

/// The KubeletConfiguration of a variant.
pub fn yaml(taints: &[Taint], profile: &Profile, variant: &Variant, scope: Scope) -> String {
    let kubelet = &profile.kubelet;
    let minor = variant.kubelet;
    let mut file = match scope {
        Scope::Layer => Document::new(&comment(minor)),
        Scope::Whole => Document::new(WHOLE),
    };
    file.set("apiVersion", "kubelet.config.k8s.io/v1beta1");
    file.set("kind", "KubeletConfiguration");
    node_settings(&mut file, taints, variant, scope);
    file.set("maxPods", kubelet.max_pods);
    for (name, reserved) in [("systemReserved", &kubelet.system_reserved), ("kubeReserved", &kubelet.kube_reserved)] {
        file.set_strings(name, reserved.iter().map(|(resource, quantity)| (resource.name(), quantity.to_string())));
    }
    let thresholds = eviction_hard(kubelet, minor);
    file.set_strings(
        "evictionHard",
        thresholds.iter().map(|(signal, threshold)| (signal.name(), threshold.to_string())),
    );
    file.set("imageGCHighThresholdPercent", kubelet.image_gc_high);
    file.set("imageGCLowThresholdPercent", kubelet.image_gc_low);
    // dockershim leaves the logs to Docker Engine.
    if variant.runtime != ContainerRuntime::Dockershim {
        file.set_string("containerLogMaxSize", &kubelet.log_max_size.to_string());
        file.set("containerLogMaxFiles", kubelet.log_max_files);
    }
    if !kubelet.feature_gates.is_empty() {
        file.set("featureGates", &kubelet.feature_gates);
    }
    for (name, value) in other_fields(kubelet, minor) {
        file.set(name, Quoted(&value));
    }
    file.finish()
}

/// The settings that Windows, the container runtime and the pool require.
fn node_settings(file: &mut Document, taints: &[Taint], variant: &Variant, scope: Scope) {
    let minor = variant.kubelet;
    // Up to 1.30 a Windows kubelet does not start with the defaults of these fields. Later it ignores them.
    file.set("cgroupsPerQOS", false);
    file.set("enforceNodeAllocatable", json!([]));
    if minor >= layers::EMPTY_RESOLV_CONF_SINCE {
        file.set_string("resolvConf", "");
    }
    if scope == Scope::Whole && has_field("containerRuntimeEndpoint", minor) {
        file.set_string("containerRuntimeEndpoint", variant.runtime.endpoint());
    }
    if has_field("registerWithTaints", minor) && !taints.is_empty() {
        file.set("registerWithTaints", taints.iter().map(taint_fields).collect::<Vec<_>>());
    }
}

/// The fields of `extra`, with the verbosity in `logging` if the minor has the field.
fn other_fields(kubelet: &Kubelet, minor: Minor) -> Vec<(&'static str, Cow<'_, Value>)> {
    let mut fields: Vec<_> = kubelet.extra.iter().map(|(field, value)| (field.name, Cow::Borrowed(value))).collect();
    let Some(verbosity) = kubelet.verbosity.filter(|_| minor >= layers::VERBOSITY_FIELD_SINCE) else { return fields };
    match fields.iter_mut().find(|(name, _)| *name == LOGGING) {
        Some((_, logging)) => logging.to_mut()["verbosity"] = json!(verbosity),
        None => fields.push((LOGGING, Cow::Owned(json!({"verbosity": verbosity})))),
    }
    fields
}

/// The flags for settings without a field in the variant's minor, one per line.
pub fn args(taints: &[Taint], profile: &Profile, variant: &Variant, pause_image: &str, scope: Scope) -> String {
    let minor = variant.kubelet;
    let mut args = Args { minor, text: String::with_capacity(256) };
    args.add(flags::WINDOWS_PRIORITYCLASS, priority_class(profile.kubelet.priority_class));
    if layers::needs_resolv_conf_flag(minor) {
        args.add(flags::RESOLV_CONF, "");
    }
    if !has_field("registerWithTaints", minor) && !taints.is_empty() {
        args.add(flags::REGISTER_WITH_TAINTS, &taints_flag(taints));
    }
    if let Some(verbosity) = profile.kubelet.verbosity.filter(|_| minor < layers::VERBOSITY_FIELD_SINCE) {
        args.add(flags::V, &verbosity.to_string());
    }
    if variant.runtime == ContainerRuntime::Dockershim {
        dockershim(&mut args, profile, scope);
    } else if scope == Scope::Whole && !has_field("containerRuntimeEndpoint", minor) {
        args.add(flags::CONTAINER_RUNTIME, "remote");
        args.add(flags::CONTAINER_RUNTIME_ENDPOINT, variant.runtime.endpoint());
    }
    // Also with containerd: the image garbage collection of these minors keeps this image.
    if minor <= flags::LAST_TO_KEEP_POD_INFRA_IMAGE {
        args.add(flags::POD_INFRA_CONTAINER_IMAGE, pause_image);
    }
    args.text
}

fn dockershim(args: &mut Args, profile: &Profile, scope: Scope) {
    let containerd = &profile.containerd;
    if scope == Scope::Whole {
        args.add(flags::NETWORK_PLUGIN, "cni");
    }
    for (flag, folder) in
        [(flags::CNI_BIN_DIR, &containerd.cni.bin_dir), (flags::CNI_CONF_DIR, &containerd.cni.conf_dir)]
    {
        if !folder.is_empty() {
            args.add(flag, folder);
        }
    }
    args.add(flags::IMAGE_PULL_PROGRESS_DEADLINE, &containerd.image_pull_progress_timeout);
}

/// Flags that the minor knows.
struct Args {
    minor: Minor,
    text: String,
}

impl Args {
    fn add(&mut self, flag: Flag, value: &str) {
        if flag.known_in(self.minor) {
            self.text.extend(["--", flag.name, "=", value, "\n"]);
        }
    }
}

/// The settings with which a kubelet of a minor does not start, and those that have no effect.
pub fn problems(kubelet: &Kubelet, minor: Minor) -> Vec<Problem> {
    let gates = kubelet.feature_gates.iter().filter_map(|(name, value)| gate_problem(name, *value, minor));
    let fields = kubelet.extra.iter().filter_map(|(field, _)| field_problem(field, kubelet, minor));
    gates.chain(profile::dependency_problems(&kubelet.feature_gates, minor)).chain(fields).collect()
}

fn gate_problem(name: &str, value: bool, minor: Minor) -> Option<Problem> {
    let path = format!("spec.kubelet.featureGates.{name}");
    match feature_gates::gate_state(name, value, minor) {
        GateState::Accepted | GateState::NotChecked => None,
        GateState::Unknown => {
            let wrong = match feature_gate(name).map(|gate| (gate.first, gate.last)) {
                Some((first, _)) if minor < first => {
                    format!("the gate exists from kubelet {first} on, and kubelet {minor} does not start with it")
                }
                Some((_, Some(last))) => {
                    format!("the gate exists up to kubelet {last}, and kubelet {minor} does not start with it")
                }
                _ => format!("kubelet {minor} does not know the gate and does not start with it"),
            };
            Some(Problem::new(path, wrong, "remove it, or use another profile for these nodes"))
        }
        GateState::Locked(only) => {
            let wrong = format!("the gate is locked to {only} in kubelet {minor}");
            Some(Problem::new(path, wrong, format!("set it to {only}, or remove it")))
        }
    }
}

fn field_problem(field: &Field, kubelet: &Kubelet, minor: Minor) -> Option<Problem> {
    let path = format!("spec.kubelet.extra.{}", field.name);
    if minor < field.since {
        let wrong = format!("the field exists from kubelet {} on, and kubelet {minor} ignores it", field.since);
        return Some(Problem::new(path, wrong, "remove it, or use another profile for these nodes"));
    }
    let name = field.gate?;
    let gate = feature_gate(name)?;
    let on = kubelet.feature_gates.get(name).copied().unwrap_or_else(|| gate.default_in(minor));
    // A removed gate was locked to true.
    let is_removed = gate.last.is_some_and(|last| minor > last);
    if on || is_removed {
        return None;
    }
    let (wrong, remedy) = match gate.known_in(minor) {
        true => (
            format!("on Windows kubelet {minor} requires the feature gate {name} for this field"),
            format!("set spec.kubelet.featureGates.{name}: true"),
        ),
        false => (
            format!(
                "kubelet {minor} does not have the feature gate {name} ({} and later), which this field requires on Windows",
                gate.first
            ),
            "remove it, or use another profile for these nodes".to_owned(),
        ),
    };
    Some(Problem::new(path, wrong, remedy))
}

fn has_field(name: &str, minor: Minor) -> bool {
    field(name).is_some_and(|field| field.since <= minor)
}

/// The thresholds of a profile, with the minor's defaults for the other signals: a kubelet that has one threshold
/// ignores the defaults of the others.
pub(super) fn eviction_hard(kubelet: &Kubelet, minor: Minor) -> Vec<(Signal, Threshold)> {
    let default = |(signal, text): (Signal, &str)| Some((signal, text.parse::<Threshold>().ok()?));
    let configured = |(signal, default)| (signal, kubelet.eviction_hard.get(&signal).copied().unwrap_or(default));
    eviction::defaults(minor).into_iter().filter_map(default).map(configured).collect()
}

/// `systemReserved` and `kubeReserved` of a resource.
pub(super) fn reserved(kubelet: &Kubelet, resource: Resource) -> [Option<Quantity>; 2] {
    [kubelet.system_reserved.get(&resource).copied(), kubelet.kube_reserved.get(&resource).copied()]
}

fn taint_fields(taint: &Taint) -> Strings<'_> {
    let effect = effect(taint.effect).to_owned();
    Strings(vec![("key", taint.key.clone()), ("value", taint.value.clone()), ("effect", effect)])
}

/// The name of an effect in the API.
const fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}

/// The value of the flag: `key=value:effect,…`. A taint's value may be empty.
fn taints_flag(taints: &[Taint]) -> String {
    let one = |taint: &Taint| format!("{}={}:{}", taint.key, taint.value, effect(taint.effect));
    taints.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The names in `cmd/kubelet/app/init_windows.go` of kubernetes/kubernetes.
const fn priority_class(class: PriorityClass) -> &'static str {
    match class {
        PriorityClass::Idle => "IDLE_PRIORITY_CLASS",
        PriorityClass::BelowNormal => "BELOW_NORMAL_PRIORITY_CLASS",
        PriorityClass::Normal => "NORMAL_PRIORITY_CLASS",
        PriorityClass::AboveNormal => "ABOVE_NORMAL_PRIORITY_CLASS",
        PriorityClass::High => "HIGH_PRIORITY_CLASS",
        PriorityClass::Realtime => "REALTIME_PRIORITY_CLASS",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;
    use crate::{
        domain::profile,
        facts::{Build, ContainerdLine},
    };

    const CONTAINERD: ContainerRuntime<ContainerdLine> = ContainerRuntime::Containerd(ContainerdLine::new(1, 7));
    const PAUSE: &str = "registry.example/pause:3.9";

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

    /// The variants with each runtime that a minor supports on Windows.
    fn variants() -> impl Iterator<Item = Variant> {
        (14..=40).flat_map(|minor| {
            let docker = if minor <= 23 { ContainerRuntime::Dockershim } else { ContainerRuntime::CriDockerd };
            [CONTAINERD, docker].map(|runtime| variant(minor, runtime))
        })
    }

    fn scoped(taints: &[Taint], profile: &Profile, variant: &Variant, scope: Scope) -> Value {
        serde_saphyr::from_str(&yaml(taints, profile, variant, scope)).unwrap()
    }

    fn configuration(taints: &[Taint], profile: &Profile, variant: &Variant) -> Value {
        scoped(taints, profile, variant, Scope::Layer)
    }

    fn flags_of(profile: &Profile, variant: &Variant, scope: Scope) -> BTreeMap<String, String> {
        let text = args(&windows_taint(), profile, variant, PAUSE, scope);
        let flag = |line: &str| {
            line.strip_prefix("--")?.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
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
            let dockershim = variant.runtime == ContainerRuntime::Dockershim;
            for (settings, full) in [(json!({}), false), (full.clone(), true)] {
                let fields = [
                    ("apiVersion", true),
                    ("cgroupsPerQOS", true),
                    ("clusterDNS", full),
                    ("containerLogMaxFiles", !dockershim),
                    ("containerLogMaxSize", !dockershim),
                    // The bootstrap decides where the container runtime listens.
                    ("containerRuntimeEndpoint", whole && minor >= 27),
                    ("enforceNodeAllocatable", true),
                    ("evictionHard", true),
                    ("featureGates", full),
                    ("imageGCHighThresholdPercent", true),
                    ("imageGCLowThresholdPercent", true),
                    ("kind", true),
                    ("kubeReserved", full),
                    ("logging", full && minor >= 23),
                    ("maxPods", true),
                    ("registerWithTaints", minor >= 23),
                    ("resolvConf", minor >= 23),
                    ("systemReserved", true),
                ];
                let flags = [
                    ("container-runtime", whole && !dockershim && minor < 27),
                    ("container-runtime-endpoint", whole && !dockershim && minor < 27),
                    ("image-pull-progress-deadline", dockershim),
                    ("network-plugin", whole && dockershim),
                    ("pod-infra-container-image", minor <= 28),
                    ("register-with-taints", minor < 23),
                    ("resolv-conf", minor < 23 || (28..=31).contains(&minor)),
                    ("v", full && minor < 23),
                    ("windows-priorityclass", minor >= 20),
                ];
                let names = |table: &[(&'static str, bool)]| {
                    table.iter().filter(|(_, present)| *present).map(|(name, _)| *name).collect::<BTreeSet<_>>()
                };
                let profile = profile(settings);
                let written = scoped(&windows_taint(), &profile, &variant, scope);
                let written = written.as_object().unwrap().keys().map(String::as_str).collect::<BTreeSet<_>>();
                assert_eq!(written, names(&fields), "{variant}, {scope:?}");
                let written = flags_of(&profile, &variant, scope);
                let written = written.keys().map(String::as_str).collect::<BTreeSet<_>>();
                assert_eq!(written, names(&flags), "{variant}, {scope:?}");
            }
        }
    }

    #[test]
    fn each_minor_has_the_settings_that_a_windows_kubelet_requires() {
        for variant in variants() {
            let configuration = configuration(&[], &profile(json!({})), &variant);
            assert_eq!(configuration["apiVersion"], "kubelet.config.k8s.io/v1beta1");
            assert_eq!(configuration["kind"], "KubeletConfiguration");
            assert_eq!(configuration["enforceNodeAllocatable"], json!([]));
            assert_eq!(configuration["cgroupsPerQOS"], json!(false));
            let flags = flags_of(&profile(json!({})), &variant, Scope::Layer);
            let no_resolvers = flags.get("resolv-conf").map(String::as_str);
            match variant.kubelet {
                Minor(..=22) => {
                    assert_eq!((configuration.get("resolvConf"), no_resolvers), (None, Some("")), "{variant}")
                }
                // These minors lose the field in a drop-in file.
                Minor(28..=31) => assert_eq!((&configuration["resolvConf"], no_resolvers), (&json!(""), Some(""))),
                _ => assert_eq!((&configuration["resolvConf"], no_resolvers), (&json!(""), None), "{variant}"),
            }
            assert_eq!(configuration["systemReserved"], json!({"memory": "2Gi"}));
            assert!(configuration.get("registerWithTaints").is_none());
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
        let flags = flags_of(&profile, &variant(20, CONTAINERD), Scope::Whole);
        assert_eq!(flags["container-runtime-endpoint"], containerd);
        let fields = |runtime| scoped(&[], &profile, &variant(36, runtime), Scope::Whole);
        assert_eq!(fields(CONTAINERD)["containerRuntimeEndpoint"], containerd);
        let docker = fields(ContainerRuntime::CriDockerd);
        assert_eq!(docker["containerRuntimeEndpoint"], "npipe:////./pipe/cri-dockerd");
    }

    #[test]
    fn the_verbosity_is_a_field_if_the_minor_has_it_and_a_flag_otherwise() {
        let quiet = profile(json!({"logging": {"verbosity": 2}}));
        let with_others = profile(json!({"logging": {"verbosity": 0}, "extra": {"logging": {"format": "json"}}}));
        for variant in variants().filter(|variant| variant.kubelet >= Minor(20)) {
            let (field, flag) = if variant.kubelet < Minor(23) { (None, Some("2")) } else { (Some(2), None) };
            let fields = configuration(&[], &quiet, &variant);
            assert_eq!(fields["logging"].get("verbosity"), field.map(Value::from).as_ref(), "{variant}");
            assert_eq!(flags_of(&quiet, &variant, Scope::Layer).get("v").map(String::as_str), flag, "{variant}");
            let others = &configuration(&[], &with_others, &variant)["logging"];
            assert_eq!(
                (&others["format"], others.get("verbosity")),
                (&json!("json"), field.map(|_| json!(0)).as_ref())
            );
        }
        let both = json!({"kubelet": {"logging": {"verbosity": 2}, "extra": {"logging": {"verbosity": 4}}}});
        let problems = profile::check(&serde_json::from_value(both).unwrap()).unwrap_err();
        assert_eq!(problems[0].path, "spec.kubelet.extra.logging.verbosity");
    }

    #[test]
    fn the_header_of_a_layer_describes_how_to_merge_it() {
        let contains = |minor, text: &str| {
            yaml(&[], &profile(json!({})), &variant(minor, CONTAINERD), Scope::Layer).contains(text)
        };
        for (minor, drop_in, patch) in [(20, false, false), (25, false, true), (29, false, true), (30, true, true)] {
            assert!(contains(minor, "erge it into the file of the"), "{minor}");
            assert_eq!(contains(minor, "--config-dir"), drop_in, "{minor}");
            assert_eq!(contains(minor, "kubeletconfiguration0+merge.yaml"), patch, "{minor}");
        }
    }

    #[test]
    fn dockershim_has_the_pull_timeout_of_the_profile() {
        let spec = json!({"containerd": {"imagePullProgressTimeout": "1h"}});
        let profile = profile::check(&serde_json::from_value(spec).unwrap()).unwrap();
        let flags = flags_of(&profile, &variant(20, ContainerRuntime::Dockershim), Scope::Layer);
        assert_eq!(flags["image-pull-progress-deadline"], "1h");
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
            (gate("WindowsHostProcessContainers", true), vec![22, 23, 24, 25, 26, 27], 14..=30),
            (gate("WindowsHostProcessContainers", false), vec![22, 23, 24, 25], 14..=30),
            (gate("NoSuchGate", true), vec![14, 15, 16, 37, 38], 14..=38),
            (gate("ContextualLogging", false), (24..=37).collect(), 23..=37),
            (gate("GracefulNodeShutdown", false), vec![33, 34, 37], 33..=37),
            (field("enableSystemLogQuery", json!(true)), vec![36], 27..=36),
            (field("podLogsDir", json!("C:\\logs")), vec![30, 31], 28..=31),
            (field("imageMaximumGCAge", json!("24h")), vec![30, 31], 28..=31),
            (field("shutdownGracePeriod", json!("30s")), vec![34, 35, 36], 30..=36),
            (field("cpuManagerPolicy", json!("static")), vec![], 30..=36),
            (field("tracing", json!({})), vec![27, 28], 25..=28),
            (
                json!({"featureGates": {"ImageMaximumGCAge": true}, "extra": {"imageMaximumGCAge": "24h"}}),
                vec![29, 30, 31],
                28..=31,
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
        let settings = json!({"featureGates": {"WindowsHostProcessContainers": true}});
        assert_eq!(
            message(settings.clone(), 20),
            "spec.kubelet.featureGates.WindowsHostProcessContainers: the gate exists from kubelet 1.22 on, and \
             kubelet 1.20 does not start with it: remove it, or use another profile for these nodes"
        );
        assert!(message(settings, 28).contains("the gate exists up to kubelet 1.27"));
        let settings = json!({"extra": {"shutdownGracePeriod": "30s"}});
        assert!(message(settings, 33).contains("set spec.kubelet.featureGates.WindowsGracefulNodeShutdown: true"));
    }
}
