//! The configuration of the kubelet: `kubelet.yaml`, and `kubelet.args` for settings without a field in the minor. As
//! layers they contain only the settings of a profile and those that Windows requires.
//!
//! Sources in addition to those of the tables: kubernetes/kubernetes, `cmd/kubelet/app/options` and `server.go` (1.21
//! to 1.36), and for dockershim's flags kubernetes-sigs/sig-windows-tools, `kubeadm/scripts/StartKubelet.ps1`.

use std::borrow::Cow;

use serde_json::{Value, json};
use winpool_api::{
    PriorityClass, Taint,
    facts::{
        ContainerRuntime, Minor,
        eviction::{self, Signal},
        feature_gates::feature_gate,
        kubelet_fields::{Field, HOST_RESOLVERS, HOST_RESOLVERS_SINCE, fatal_in, field},
        kubelet_flags::{self as flags, KubeletFlag},
        layers,
    },
};

use super::{
    Scope, Variant, comment_lines,
    yaml::{Document, Quoted, Strings},
};
use crate::{
    Problem,
    kubernetes::quantity::Threshold,
    profile::{self, GatedProgram, Kubelet, Profile},
};

const LOGGING: &str = "logging";
const RESOLV_CONF: &str = "resolvConf";
const PATCH: &str = "kubeadm merges this into the KubeletConfiguration of the cluster: the settings of Windows nodes.";
const REMOVED: &str = "# A Windows kubelet does not start with these fields of the cluster: null removes them.";
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
    text + "Restart the kubelet to apply it."
}

/// A layer as a merge patch of the cluster's KubeletConfiguration, which kubeadm writes for Linux nodes too. It removes the fields
/// with which a Windows kubelet of a minor does not start.
pub fn kubeadm_patch(layer: &str, minor: Minor) -> String {
    let settings = layer.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
    let removed = fatal_in(minor).map(|field| format!("{}: null", field.name));
    let lines = settings.map(str::to_owned).chain([REMOVED.to_owned()]).chain(removed);
    lines.fold(comment_lines(PATCH), |text, line| text + &line + "\n")
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
    node_settings(&mut file, taints, kubelet, variant, scope);
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
    // With dockershim, Docker Engine rotates the logs.
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
fn node_settings(file: &mut Document, taints: &[Taint], kubelet: &Kubelet, variant: &Variant, scope: Scope) {
    let minor = variant.kubelet;
    // Up to 1.30 a Windows kubelet does not start with the defaults of these fields. Later it ignores them.
    file.set("cgroupsPerQOS", false);
    file.set("enforceNodeAllocatable", json!([]));
    match resolv_conf(kubelet) {
        // In a file this value would be a path, so it is a flag.
        HOST_RESOLVERS => {}
        "" if minor < layers::EMPTY_RESOLV_CONF_SINCE => {}
        resolv_conf => file.set_string(RESOLV_CONF, resolv_conf),
    }
    if scope == Scope::Whole && has_field("containerRuntimeEndpoint", minor) {
        file.set_string("containerRuntimeEndpoint", variant.runtime.endpoint());
    }
    if has_field("registerWithTaints", minor) && !taints.is_empty() {
        file.set("registerWithTaints", taints.iter().map(taint_fields).collect::<Vec<_>>());
    }
}

/// The resolver configuration of pods. The default of a kubelet is a path of Linux.
fn resolv_conf(kubelet: &Kubelet) -> &str {
    let value = kubelet.extra.iter().find(|(field, _)| field.name == RESOLV_CONF);
    value.and_then(|(_, value)| value.as_str()).unwrap_or_default()
}

/// The other fields of `extra`, with the verbosity in `logging` if the minor has the field.
fn other_fields(kubelet: &Kubelet, minor: Minor) -> Vec<(&'static str, Cow<'_, Value>)> {
    let others = kubelet.extra.iter().filter(|(field, _)| field.name != RESOLV_CONF);
    let mut fields: Vec<_> = others.map(|(field, value)| (field.name, Cow::Borrowed(value))).collect();
    let Some(verbosity) = kubelet.verbosity.filter(|_| minor >= layers::VERBOSITY_FIELD_SINCE) else { return fields };
    match fields.iter_mut().find(|(name, _)| *name == LOGGING) {
        Some((_, logging)) => logging.to_mut()["verbosity"] = json!(verbosity),
        None => fields.push((LOGGING, Cow::Owned(json!({"verbosity": verbosity})))),
    }
    fields
}

/// The flags for settings without a field in the variant's minor, one per line.
pub fn args(taints: &[Taint], profile: &Profile, variant: &Variant, pause_image: Option<&str>, scope: Scope) -> String {
    let flags = flags(taints, profile, variant, pause_image, scope);
    flags.iter().map(|(name, value)| format!("--{name}={value}\n")).collect()
}

/// The flags for settings without a field in the variant's minor: their names without dashes, and their values.
pub fn flags(
    taints: &[Taint],
    profile: &Profile,
    variant: &Variant,
    pause_image: Option<&str>,
    scope: Scope,
) -> Vec<(&'static str, String)> {
    let minor = variant.kubelet;
    let mut args = Args { minor, flags: Vec::new() };
    args.add(flags::WINDOWS_PRIORITYCLASS, priority_class(profile.kubelet.priority_class));
    let resolv_conf = resolv_conf(&profile.kubelet);
    if layers::needs_resolv_conf_flag(minor) || resolv_conf == HOST_RESOLVERS {
        args.add(flags::RESOLV_CONF, resolv_conf);
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
    // With containerd too, because the image garbage collection of these minors keeps this image.
    if let Some(image) = pause_image.filter(|_| minor <= flags::LAST_TO_KEEP_POD_INFRA_IMAGE) {
        args.add(flags::POD_INFRA_CONTAINER_IMAGE, image);
    }
    args.flags
}

fn dockershim(args: &mut Args, profile: &Profile, scope: Scope) {
    let containerd = &profile.containerd;
    if scope == Scope::Whole {
        args.add(flags::NETWORK_PLUGIN, "cni");
    }
    for (flag, directory) in
        [(flags::CNI_BIN_DIR, &containerd.cni.bin_dir), (flags::CNI_CONF_DIR, &containerd.cni.conf_dir)]
    {
        if !directory.is_empty() {
            args.add(flag, directory);
        }
    }
    args.add(flags::IMAGE_PULL_PROGRESS_DEADLINE, &containerd.image_pull_progress_timeout);
}

/// Flags, without those that the minor does not know.
struct Args {
    minor: Minor,
    flags: Vec<(&'static str, String)>,
}

impl Args {
    fn add(&mut self, flag: KubeletFlag, value: &str) {
        if flag.known_in(self.minor) {
            self.flags.push((flag.name, value.to_owned()));
        }
    }
}

/// The settings with which a kubelet of a minor does not start, and those that have no effect.
pub fn problems(kubelet: &Kubelet, minor: Minor) -> Vec<Problem> {
    let fields = kubelet.extra.iter().filter_map(|(field, _)| field_problem(field, kubelet, minor));
    let fields = fields.chain(resolv_conf_problem(kubelet, minor));
    profile::gate_problems(GatedProgram::Kubelet, &kubelet.feature_gates, minor).into_iter().chain(fields).collect()
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

fn resolv_conf_problem(kubelet: &Kubelet, minor: Minor) -> Option<Problem> {
    (resolv_conf(kubelet) == HOST_RESOLVERS && minor < HOST_RESOLVERS_SINCE).then(|| {
        let wrong = format!(
            "kubelet {minor} starts no pod with {HOST_RESOLVERS}, which Windows kubelets accept from {HOST_RESOLVERS_SINCE} on"
        );
        Problem::new("spec.kubelet.extra.resolvConf", wrong, "remove it, or use another profile for these nodes")
    })
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

pub(super) fn taint_fields(taint: &Taint) -> Strings<'_> {
    let effect = taint.effect.name().to_owned();
    Strings(vec![("key", taint.key.clone()), ("value", taint.value.clone()), ("effect", effect)])
}

/// The value of the flag: `key=value:effect,…`. A taint's value may be empty.
pub(super) fn taints_flag(taints: &[Taint]) -> String {
    taints.iter().map(taint_flag).collect::<Vec<_>>().join(",")
}

/// A taint in the value of the flag: `key=value:effect`.
pub(super) fn taint_flag(taint: &Taint) -> String {
    format!("{}={}:{}", taint.key, taint.value, taint.effect.name())
}

/// The names in `cmd/kubelet/app/init_windows.go` of kubernetes/kubernetes.
pub(super) const fn priority_class(class: PriorityClass) -> &'static str {
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
mod tests;
