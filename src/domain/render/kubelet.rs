//! The kubelet's part of a configuration: `kubelet.yaml`, and `kubelet.args` for what has no field in that minor. As a
//! layer both have what a profile decides and what Windows needs, and nothing that a cluster's bootstrap decides.
//!
//! Sources beside those of the tables: kubernetes/kubernetes, `cmd/kubelet/app/options` and `server.go` (1.21 to 1.36),
//! and for dockershim's flags kubernetes-sigs/sig-windows-tools, `kubeadm/scripts/StartKubelet.ps1`.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Runtime, Scope, Variant, yaml_text::Document};
use crate::{
    api::{PriorityClass, Taint, TaintEffect},
    domain::{
        Problem,
        profile::{self, Kubelet, Profile, Resource},
        quantity::{Quantity, Threshold},
    },
    facts::{
        Minor,
        eviction::{self, Signal},
        feature_gates::{self, Verdict, feature_gate},
        kubelet_fields::{Field, field},
        kubelet_flags::{self as flags, Flag},
        layers, runtimes,
    },
};

const LOGGING: &str = "logging";
const WHOLE: &str = "KubeletConfiguration for Windows: kubelet --config. It is read when the kubelet starts.";

/// What the first lines of a layer say. What can be done with it depends on the kubelet's minor.
fn comment(minor: Minor) -> String {
    let mut text =
        "A part of a KubeletConfiguration for Windows. What it does not name stays as the node has it.\n".to_owned();
    if minor >= layers::CONFIG_DIR_SINCE {
        text += "Save it as 50-winpool.conf in the folder that the kubelet's --config-dir names, or merge it into the file that\n\
                 --config names: merge maps, and replace lists and other values.\n";
    } else {
        text += "Merge it into the file that the kubelet's --config names: merge maps, and replace lists and other values.\n";
    }
    if minor >= layers::KUBEADM_PATCHES_SINCE {
        text += "For kubeadm it is a patch named kubeletconfiguration0+merge.yaml.\n";
    }
    text + "It is read when the kubelet starts."
}

/// KubeletConfiguration for a Windows kubelet of the variant's minor.
pub fn yaml(taints: &[Taint], profile: &Profile, variant: &Variant, scope: Scope) -> String {
    let kubelet = &profile.kubelet;
    let minor = variant.kubelet;
    let mut file = match scope {
        Scope::Layer => Document::new(&comment(minor)),
        Scope::Whole => Document::new(WHOLE),
    };
    file.plain("apiVersion", "kubelet.config.k8s.io/v1beta1");
    file.plain("kind", "KubeletConfiguration");
    // Up to 1.30 the defaults of these two are start errors, and from then on they have no effect.
    file.plain("cgroupsPerQOS", false);
    file.plain("enforceNodeAllocatable", "[]");
    if minor >= layers::EMPTY_RESOLV_CONF_SINCE {
        file.text("resolvConf", "");
    }
    if scope == Scope::Whole && knows("containerRuntimeEndpoint", minor) {
        file.text("containerRuntimeEndpoint", endpoint(variant.runtime));
    }
    if knows("registerWithTaints", minor) {
        file.objects("registerWithTaints", taints.iter().map(taint_fields));
    }
    file.plain("maxPods", kubelet.max_pods);
    for (name, reserved) in [("systemReserved", &kubelet.system_reserved), ("kubeReserved", &kubelet.kube_reserved)] {
        file.texts(name, reserved.iter().map(|(resource, quantity)| (resource.name(), quantity.to_string())));
    }
    let thresholds = eviction_hard(kubelet, minor);
    file.texts("evictionHard", thresholds.iter().map(|(signal, threshold)| (signal.name(), threshold.to_string())));
    file.plain("imageGCHighThresholdPercent", kubelet.image_gc_high);
    file.plain("imageGCLowThresholdPercent", kubelet.image_gc_low);
    // dockershim leaves the logs to Docker Engine.
    if variant.runtime != Runtime::Dockershim {
        file.text("containerLogMaxSize", &kubelet.log_max_size.to_string());
        file.plain("containerLogMaxFiles", kubelet.log_max_files);
    }
    if !kubelet.feature_gates.is_empty() {
        file.value("featureGates", &json!(kubelet.feature_gates));
    }
    for (name, value) in other_fields(kubelet, minor) {
        file.value(name, &value);
    }
    file.finish()
}

/// The fields of `extra`, with the verbosity in `logging` where the minor has a field for it.
fn other_fields(kubelet: &Kubelet, minor: Minor) -> Vec<(&'static str, Cow<'_, Value>)> {
    let mut fields: Vec<_> = kubelet.extra.iter().map(|(field, value)| (field.name, Cow::Borrowed(value))).collect();
    let Some(verbosity) = kubelet.verbosity.filter(|_| minor >= layers::VERBOSITY_FIELD_SINCE) else { return fields };
    match fields.iter_mut().find(|(name, _)| *name == LOGGING) {
        Some((_, logging)) => logging.to_mut()["verbosity"] = json!(verbosity),
        None => fields.push((LOGGING, Cow::Owned(json!({"verbosity": verbosity})))),
    }
    fields
}

/// The flags for what has no field in the variant's minor, one a line.
pub fn args(taints: &[Taint], profile: &Profile, variant: &Variant, pause_image: &str, scope: Scope) -> String {
    let minor = variant.kubelet;
    let mut args = Args { minor, text: String::with_capacity(256) };
    args.add(flags::WINDOWS_PRIORITYCLASS, priority_class(profile.kubelet.priority_class));
    if layers::needs_resolv_conf_flag(minor) {
        args.add(flags::RESOLV_CONF, "");
    }
    if !knows("registerWithTaints", minor) && !taints.is_empty() {
        args.add(flags::REGISTER_WITH_TAINTS, &taints_in_one(taints));
    }
    if let Some(verbosity) = profile.kubelet.verbosity.filter(|_| minor < layers::VERBOSITY_FIELD_SINCE) {
        args.add(flags::V, &verbosity.to_string());
    }
    if variant.runtime == Runtime::Dockershim {
        dockershim(&mut args, profile, scope);
    } else if scope == Scope::Whole && !knows("containerRuntimeEndpoint", minor) {
        args.add(flags::CONTAINER_RUNTIME, "remote");
        args.add(flags::CONTAINER_RUNTIME_ENDPOINT, endpoint(variant.runtime));
    }
    // With containerd too: this is how the image garbage collection of these minors knows the image that it must spare.
    if minor <= flags::LAST_TO_SPARE_POD_INFRA_IMAGE {
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

/// Flags, of which only those are added that the minor knows.
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

/// What keeps a kubelet of a minor from starting with a profile, or keeps a field from having an effect on Windows.
pub fn problems(kubelet: &Kubelet, minor: Minor) -> Vec<Problem> {
    let gates = kubelet.feature_gates.iter().filter_map(|(name, value)| gate_problem(name, *value, minor));
    let fields = kubelet.extra.iter().filter_map(|(field, _)| field_problem(field, kubelet, minor));
    gates.chain(profile::unmet_dependencies(&kubelet.feature_gates, minor)).chain(fields).collect()
}

fn gate_problem(name: &str, value: bool, minor: Minor) -> Option<Problem> {
    let path = format!("spec.kubelet.featureGates.{name}");
    match feature_gates::verdict(name, value, minor) {
        Verdict::Taken | Verdict::NotChecked => None,
        Verdict::Unknown => {
            let wrong = match feature_gate(name).map(|gate| (gate.first, gate.last)) {
                Some((first, _)) if minor < first => {
                    format!("kubelets know it from {first} on, and {minor} does not start with it")
                }
                Some((_, Some(last))) => format!("kubelets know it up to {last}, and {minor} does not start with it"),
                _ => format!("a kubelet {minor} does not know it and does not start with it"),
            };
            Some(Problem::new(path, wrong, "remove it, or give these nodes a profile of their own"))
        }
        Verdict::Locked(only) => {
            let wrong = format!("a kubelet {minor} takes nothing but {only}");
            Some(Problem::new(path, wrong, format!("write {only}, or remove it")))
        }
    }
}

fn field_problem(field: &Field, kubelet: &Kubelet, minor: Minor) -> Option<Problem> {
    let path = format!("spec.kubelet.extra.{}", field.name);
    if minor < field.since {
        let wrong = format!("kubelets know it from {} on, and {minor} would pass over it", field.since);
        return Some(Problem::new(path, wrong, "remove it, or give these nodes a profile of their own"));
    }
    let name = field.gate?;
    let gate = feature_gate(name)?;
    let on = kubelet.feature_gates.get(name).copied().unwrap_or_else(|| gate.on_in(minor));
    // A gate that is gone was on for good.
    let gone = gate.last.is_some_and(|last| minor > last);
    if on || gone {
        return None;
    }
    let (wrong, remedy) = match gate.known_in(minor) {
        true => (
            format!("on Windows a kubelet {minor} needs the gate {name} for it"),
            format!("write spec.kubelet.featureGates.{name}: true"),
        ),
        false => (
            format!("on Windows it needs the gate {name}, which kubelets know from {} on, and not {minor}", gate.first),
            "remove it, or give these nodes a profile of their own".to_owned(),
        ),
    };
    Some(Problem::new(path, wrong, remedy))
}

fn knows(name: &str, minor: Minor) -> bool {
    field(name).is_some_and(|field| field.since <= minor)
}

/// The thresholds of a configuration: those of the profile, and the minor's defaults for the other signals, since naming
/// one signal would drop the defaults of the rest.
pub(super) fn eviction_hard(kubelet: &Kubelet, minor: Minor) -> Vec<(Signal, Threshold)> {
    let default = |(signal, text): (Signal, &str)| Some((signal, text.parse::<Threshold>().ok()?));
    let of = |(signal, default)| (signal, kubelet.eviction_hard.get(&signal).copied().unwrap_or(default));
    eviction::defaults(minor).into_iter().filter_map(default).map(of).collect()
}

/// What the profile reserves of a resource.
pub(super) fn reserved(kubelet: &Kubelet, resource: Resource) -> [Option<Quantity>; 2] {
    [kubelet.system_reserved.get(&resource).copied(), kubelet.kube_reserved.get(&resource).copied()]
}

fn endpoint(runtime: Runtime) -> &'static str {
    let runtime = match runtime {
        Runtime::Containerd { .. } => runtimes::Runtime::Containerd,
        Runtime::Dockershim => runtimes::Runtime::Dockershim,
        Runtime::CriDockerd => runtimes::Runtime::CriDockerd,
    };
    runtime.facts().endpoint
}

fn taint_fields(taint: &Taint) -> [(&str, &str); 3] {
    [("key", &taint.key), ("value", &taint.value), ("effect", effect(taint.effect))]
}

/// The word that Kubernetes has for an effect.
const fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}

/// `key=value:effect,…`, the value possibly empty.
fn taints_in_one(taints: &[Taint]) -> String {
    let one = |taint: &Taint| format!("{}={}:{}", taint.key, taint.value, effect(taint.effect));
    taints.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The names that `cmd/kubelet/app/init_windows.go` of kubernetes/kubernetes takes.
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
        facts::{Build, kubelet_flags::flag},
    };

    const CONTAINERD: Runtime = Runtime::Containerd { major: 1, minor: 7 };
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

    fn variant(minor: u32, runtime: Runtime) -> Variant {
        Variant { kubelet: Minor(minor), runtime, host: Build(20348) }
    }

    /// Every runtime that a minor has on Windows.
    fn variants() -> impl Iterator<Item = Variant> {
        (14..=40).flat_map(|minor| {
            let docker = if minor <= 23 { Runtime::Dockershim } else { Runtime::CriDockerd };
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
    fn no_minor_is_given_a_field_or_a_flag_that_it_does_not_know() {
        let full = profile(json!({
            "kubeReserved": {"cpu": "200m"},
            "evictionHard": {"memory.available": "1Gi"},
            "featureGates": {"AllAlpha": false},
            "logging": {"verbosity": 2},
            "extra": {"clusterDNS": ["10.96.0.10"]},
        }));
        for (variant, scope) in variants().flat_map(|variant| [(variant, Scope::Layer), (variant, Scope::Whole)]) {
            let configuration = scoped(&windows_taint(), &full, &variant, scope);
            for name in configuration.as_object().unwrap().keys() {
                assert!(knows(name, variant.kubelet), "{name} for {variant}");
            }
            for name in flags_of(&full, &variant, scope).keys() {
                assert!(flag(name).unwrap().known_in(variant.kubelet), "{name} for {variant}");
            }
        }
    }

    #[test]
    fn every_minor_is_given_what_a_windows_kubelet_needs() {
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
                // A drop-in file of these loses the field.
                Minor(28..=31) => assert_eq!((&configuration["resolvConf"], no_resolvers), (&json!(""), Some(""))),
                _ => assert_eq!((&configuration["resolvConf"], no_resolvers), (&json!(""), None), "{variant}"),
            }
            assert_eq!(configuration["systemReserved"], json!({"memory": "2Gi"}));
            assert!(configuration.get("registerWithTaints").is_none());
        }
    }

    #[test]
    fn every_default_threshold_is_written_out_beside_those_of_the_profile() {
        let some = profile(json!({"evictionHard": {"nodefs.available": "5%"}}));
        for variant in variants() {
            let memory = if variant.kubelet < Minor(31) { "100Mi" } else { "500Mi" };
            let expected = json!({"memory.available": memory, "nodefs.available": "5%", "imagefs.available": "15%"});
            assert_eq!(configuration(&[], &some, &variant)["evictionHard"], expected, "{variant}");
        }
    }

    #[test]
    fn taints_and_endpoint_are_fields_where_there_are_fields_and_flags_before() {
        for variant in variants() {
            let profile = profile(json!({}));
            let fields = scoped(&windows_taint(), &profile, &variant, Scope::Whole);
            let flags = flags_of(&profile, &variant, Scope::Whole);
            let minor = variant.kubelet;
            let remote = variant.runtime != Runtime::Dockershim;
            assert_eq!(fields.get("registerWithTaints").is_some(), minor >= Minor(23), "{variant}");
            assert_eq!(flags.contains_key("register-with-taints"), minor < Minor(23), "{variant}");
            assert_eq!(fields.get("containerRuntimeEndpoint").is_some(), minor >= Minor(27), "{variant}");
            assert_eq!(flags.contains_key("container-runtime-endpoint"), remote && minor < Minor(27), "{variant}");
            assert_eq!(flags.contains_key("container-runtime"), remote && minor < Minor(27), "{variant}");
            assert_eq!(flags.contains_key("network-plugin"), !remote, "{variant}");
            assert_eq!(flags.contains_key("windows-priorityclass"), minor >= Minor(20), "{variant}");
            assert_eq!(flags.contains_key("pod-infra-container-image"), minor <= Minor(28), "{variant}");
        }
    }

    #[test]
    fn each_runtime_is_reached_where_it_listens() {
        let containerd = "npipe:////./pipe/containerd-containerd";
        let profile = profile(json!({}));
        let flags = flags_of(&profile, &variant(20, CONTAINERD), Scope::Whole);
        assert_eq!(flags["container-runtime-endpoint"], containerd);
        let fields = |runtime| scoped(&[], &profile, &variant(36, runtime), Scope::Whole);
        assert_eq!(fields(CONTAINERD)["containerRuntimeEndpoint"], containerd);
        let docker = fields(Runtime::CriDockerd);
        assert_eq!(docker["containerRuntimeEndpoint"], "npipe:////./pipe/cri-dockerd");
    }

    #[test]
    fn a_layer_leaves_to_the_bootstrap_what_the_profile_does_not_decide() {
        for variant in variants() {
            let fields = configuration(&windows_taint(), &profile(json!({})), &variant);
            let mut allowed = vec![
                "apiVersion",
                "kind",
                "cgroupsPerQOS",
                "enforceNodeAllocatable",
                "maxPods",
                "systemReserved",
                "evictionHard",
                "imageGCHighThresholdPercent",
                "imageGCLowThresholdPercent",
            ];
            if variant.runtime != Runtime::Dockershim {
                allowed.extend(["containerLogMaxSize", "containerLogMaxFiles"]);
            }
            if variant.kubelet >= Minor(23) {
                allowed.extend(["resolvConf", "registerWithTaints"]);
            }
            let expected = allowed.into_iter().collect::<BTreeSet<_>>();
            let found = fields.as_object().unwrap().keys().map(String::as_str).collect::<BTreeSet<_>>();
            assert_eq!(found, expected, "{variant}");
            let flags = flags_of(&profile(json!({})), &variant, Scope::Layer);
            for name in ["container-runtime", "container-runtime-endpoint", "network-plugin", "v"] {
                assert!(!flags.contains_key(name), "{name} for {variant}");
            }
        }
    }

    #[test]
    fn the_verbosity_is_a_field_where_there_is_one_and_a_flag_before() {
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
    fn a_layer_says_what_to_do_with_it() {
        let says = |minor, words: &str| {
            yaml(&[], &profile(json!({})), &variant(minor, CONTAINERD), Scope::Layer).contains(words)
        };
        for (minor, drop_in, patch) in [(20, false, false), (25, false, true), (29, false, true), (30, true, true)] {
            assert!(says(minor, "erge it into the file that"), "{minor}");
            assert_eq!(says(minor, "--config-dir"), drop_in, "{minor}");
            assert_eq!(says(minor, "kubeletconfiguration0+merge.yaml"), patch, "{minor}");
        }
    }

    #[test]
    fn dockershim_waits_for_a_pull_as_long_as_the_profile_says() {
        let spec = json!({"containerd": {"imagePullProgressTimeout": "1h"}});
        let profile = profile::check(&serde_json::from_value(spec).unwrap()).unwrap();
        let flags = flags_of(&profile, &variant(20, Runtime::Dockershim), Scope::Layer);
        assert_eq!(flags["image-pull-progress-deadline"], "1h");
    }

    #[test]
    fn taints_read_the_same_as_a_field_and_as_a_flag() {
        let taints = [taint("os", "windows", TaintEffect::NoSchedule), taint("a.b/c", "", TaintEffect::NoExecute)];
        assert_eq!(taints_in_one(&taints), "os=windows:NoSchedule,a.b/c=:NoExecute");
        let field = json!([
            {"key": "os", "value": "windows", "effect": "NoSchedule"},
            {"key": "a.b/c", "value": "", "effect": "NoExecute"},
        ]);
        let profile = profile(json!({}));
        assert_eq!(configuration(&taints, &profile, &variant(36, CONTAINERD))["registerWithTaints"], field);
    }

    #[test]
    fn gates_and_fields_that_a_minor_does_not_take_are_problems_of_that_minor() {
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
        for (settings, taken_by, minors) in table {
            let kubelet = profile(settings.clone()).kubelet;
            let taken = minors.filter(|minor| problems(&kubelet, Minor(*minor)).is_empty()).collect::<Vec<_>>();
            assert_eq!(taken, taken_by, "{settings}");
        }
    }

    #[test]
    fn a_problem_with_a_minor_says_which_minors_and_what_to_do() {
        let said = |settings: Value, minor| Problem::list(&problems(&profile(settings).kubelet, Minor(minor)));
        let settings = json!({"featureGates": {"WindowsHostProcessContainers": true}});
        assert_eq!(
            said(settings.clone(), 20),
            "spec.kubelet.featureGates.WindowsHostProcessContainers: kubelets know it from 1.22 on, and 1.20 does not \
             start with it: remove it, or give these nodes a profile of their own"
        );
        assert!(said(settings, 28).contains("kubelets know it up to 1.27"));
        let settings = json!({"extra": {"shutdownGracePeriod": "30s"}});
        assert!(said(settings, 33).contains("write spec.kubelet.featureGates.WindowsGracefulNodeShutdown: true"));
    }
}
