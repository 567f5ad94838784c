//! The kubelet's part of a configuration: `kubelet.yaml`, and `kubelet.args` for what has no field in that minor.
//!
//! Sources beside those of the tables: kubernetes/kubernetes, `cmd/kubelet/app/options` and `server.go` (1.21 to 1.36),
//! and for dockershim's flags kubernetes-sigs/sig-windows-tools, `kubeadm/scripts/StartKubelet.ps1`.

use serde_json::{Value, json};

use super::{Runtime, Variant, yaml_text::Document};
use crate::{
    api::{PriorityClass, Taint},
    domain::{
        Problem,
        profile::{Kubelet, Profile, Resource},
        quantity::{Quantity, Threshold},
    },
    facts::{
        Minor,
        eviction::{self, Signal},
        feature_gates::{self, Verdict, feature_gate},
        kubelet_fields::{Field, field},
        kubelet_flags::{self as flags, Flag},
        runtimes,
    },
};

/// How long dockershim waits for a pull that stands still. Its default of a minute is too short for the layers of
/// Windows images, which are unpacked while nothing is transferred.
const IMAGE_PULL_PROGRESS_DEADLINE: &str = "20m";

/// KubeletConfiguration with which a Windows kubelet of the variant's minor starts.
pub fn yaml(taints: &[Taint], profile: &Profile, variant: &Variant) -> String {
    let kubelet = &profile.kubelet;
    let minor = variant.kubelet;
    let mut file =
        Document::new("KubeletConfiguration for Windows: kubelet --config. It is read when the kubelet starts.");
    file.plain("apiVersion", "kubelet.config.k8s.io/v1beta1");
    file.plain("kind", "KubeletConfiguration");
    // These three are start errors at their defaults, or mean a Linux file: up to 1.30, and harmless later.
    file.plain("cgroupsPerQOS", false);
    file.plain("enforceNodeAllocatable", "[]");
    file.text("resolvConf", "");
    if knows("containerRuntimeEndpoint", minor) {
        file.text("containerRuntimeEndpoint", endpoint(variant.runtime));
    }
    if knows("registerWithTaints", minor) && !taints.is_empty() {
        file.value("registerWithTaints", &register_with_taints(taints));
    }
    file.plain("maxPods", kubelet.max_pods);
    for (name, reserved) in [("systemReserved", &kubelet.system_reserved), ("kubeReserved", &kubelet.kube_reserved)] {
        if !reserved.is_empty() {
            file.texts(name, reserved.iter().map(|(resource, quantity)| (resource.name(), quantity.to_string())));
        }
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
    for (field, value) in &kubelet.extra {
        file.value(field.name, value);
    }
    file.finish()
}

/// The flags for what has no field in the variant's minor, one a line.
pub fn args(taints: &[Taint], profile: &Profile, variant: &Variant, pause_image: &str) -> String {
    let minor = variant.kubelet;
    let mut args = Args { minor, text: String::with_capacity(256) };
    args.add(flags::WINDOWS_PRIORITYCLASS, priority_class(profile.kubelet.priority_class));
    if !knows("registerWithTaints", minor) && !taints.is_empty() {
        args.add(flags::REGISTER_WITH_TAINTS, &taints_in_one(taints));
    }
    if variant.runtime == Runtime::Dockershim {
        let cni = &profile.containerd.cni;
        args.add(flags::NETWORK_PLUGIN, "cni");
        if !cni.bin_dir.is_empty() {
            args.add(flags::CNI_BIN_DIR, &cni.bin_dir);
        }
        if !cni.conf_dir.is_empty() {
            args.add(flags::CNI_CONF_DIR, &cni.conf_dir);
        }
        args.add(flags::IMAGE_PULL_PROGRESS_DEADLINE, IMAGE_PULL_PROGRESS_DEADLINE);
    } else if !knows("containerRuntimeEndpoint", minor) {
        args.add(flags::CONTAINER_RUNTIME, "remote");
        args.add(flags::CONTAINER_RUNTIME_ENDPOINT, endpoint(variant.runtime));
    }
    // With containerd too: this is how the image garbage collection of these minors knows the image that it must spare.
    if minor <= flags::LAST_TO_SPARE_POD_INFRA_IMAGE {
        args.add(flags::POD_INFRA_CONTAINER_IMAGE, pause_image);
    }
    args.text
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
    gates.chain(fields).collect()
}

fn gate_problem(name: &str, value: bool, minor: Minor) -> Option<Problem> {
    let path = format!("spec.kubelet.featureGates.{name}");
    match feature_gates::verdict(name, value, minor) {
        Verdict::Taken | Verdict::Unread => None,
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

fn register_with_taints(taints: &[Taint]) -> Value {
    let taint = |taint: &Taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
    taints.iter().map(taint).collect()
}

/// `key=value:effect,…`, the value possibly empty.
fn taints_in_one(taints: &[Taint]) -> String {
    let one = |taint: &Taint| format!("{}={}:{:?}", taint.key, taint.value, taint.effect);
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
