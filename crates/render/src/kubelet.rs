//! The configuration of the kubelet: `kubelet.yaml`, and `kubelet.args` for settings without a field. As layers they contain
//! only the settings of a profile and those that Windows requires.
//!
//! Sources in addition to those of the tables: kubernetes/kubernetes, `cmd/kubelet/app/options` and `server.go` (1.30
//! to 1.36).

use std::borrow::Cow;

use serde_json::{Value, json};
use winpool_api::{PriorityClass, Taint};
use winpool_core::{Problem, kubernetes::quantity::Threshold};
use winpool_facts::{
    Minor,
    eviction::{self, Signal},
    feature_gates::feature_gate,
    kubelet_fields::{Field, HOST_RESOLVERS, fatal_in},
    kubelet_flags::{RESOLV_CONF as RESOLV_CONF_FLAG, WINDOWS_PRIORITYCLASS},
    layers::RESOLV_CONF_IN_DROP_INS_SINCE,
    support,
};

use super::{
    Scope, Variant, comment_lines,
    yaml::{Document, Quoted, Strings},
};
use crate::profile::{self, GatedProgram, Kubelet, Profile};

const LOGGING: &str = "logging";
const RESOLV_CONF: &str = "resolvConf";
/// `ValidateShowHiddenMetricsVersion` of kubernetes/component-base, `metrics/options.go`.
const HIDDEN_METRICS: &str = "showHiddenMetricsForVersion";
const PATCH: &str = "kubeadm merges this into the KubeletConfiguration of the cluster: the settings of Windows nodes.";
const REMOVED: &str = "# A Windows kubelet does not start with these fields of the cluster: null removes them.";
const LAYER: &str = "Partial KubeletConfiguration for Windows. Other settings of the node are unchanged.\n\
                     Save it as 50-winpool.conf in the directory of the kubelet flag --config-dir, or merge it into the file of the flag\n\
                     --config: merge maps, replace lists and other values.\n\
                     Restart the kubelet to apply it.";
const WHOLE: &str = "KubeletConfiguration for Windows (kubelet --config). Restart the kubelet to apply it.";

/// A layer as a merge patch of the cluster's KubeletConfiguration, which kubeadm writes for Linux nodes too. It removes the fields
/// with which a Windows kubelet of a minor does not start.
pub fn kubeadm_patch(layer: &str, minor: Minor) -> String {
    let settings = layer.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
    let removed = fatal_in(minor).map(|field| format!("{}: null", field.name));
    let lines = settings.map(str::to_owned).chain([REMOVED.to_owned()]).chain(removed);
    lines.fold(comment_lines(PATCH), |text, line| text + &line + "\n")
}

pub fn yaml(taints: &[Taint], profile: &Profile, variant: &Variant, scope: Scope) -> String {
    let kubelet = &profile.kubelet;
    let minor = variant.kubelet;
    let mut file = match scope {
        Scope::Layer => Document::new(LAYER),
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
    file.set_string("containerLogMaxSize", &kubelet.log_max_size.to_string());
    file.set("containerLogMaxFiles", kubelet.log_max_files);
    if !kubelet.feature_gates.is_empty() {
        file.set("featureGates", &kubelet.feature_gates);
    }
    for (name, value) in other_fields(kubelet) {
        file.set(name, Quoted(&value));
    }
    file.finish()
}

/// The settings that Windows, the container runtime and the pool require.
fn node_settings(file: &mut Document, taints: &[Taint], kubelet: &Kubelet, variant: &Variant, scope: Scope) {
    // Up to 1.30 a Windows kubelet does not start with the defaults of these fields. Later it ignores them.
    file.set("cgroupsPerQOS", false);
    file.set("enforceNodeAllocatable", json!([]));
    match resolv_conf(kubelet) {
        // In a file this value would be a path, so it is a flag.
        HOST_RESOLVERS => {}
        resolv_conf => file.set_string(RESOLV_CONF, resolv_conf),
    }
    if scope == Scope::Whole {
        file.set_string("containerRuntimeEndpoint", variant.runtime.endpoint());
    }
    if !taints.is_empty() {
        file.set("registerWithTaints", taints.iter().map(taint_fields).collect::<Vec<_>>());
    }
}

/// The resolver configuration of pods. The default of a kubelet is a path of Linux.
fn resolv_conf(kubelet: &Kubelet) -> &str {
    let value = kubelet.extra.iter().find(|(field, _)| field.name == RESOLV_CONF);
    value.and_then(|(_, value)| value.as_str()).unwrap_or_default()
}

/// The other fields of `extra`, with the verbosity in `logging`.
fn other_fields(kubelet: &Kubelet) -> Vec<(&'static str, Cow<'_, Value>)> {
    let others = kubelet.extra.iter().filter(|(field, _)| field.name != RESOLV_CONF);
    let mut fields: Vec<_> = others.map(|(field, value)| (field.name, Cow::Borrowed(value))).collect();
    let Some(verbosity) = kubelet.verbosity else { return fields };
    match fields.iter_mut().find(|(name, _)| *name == LOGGING) {
        Some((_, logging)) => logging.to_mut()["verbosity"] = json!(verbosity),
        None => fields.push((LOGGING, Cow::Owned(json!({"verbosity": verbosity})))),
    }
    fields
}

/// The flags for settings without a field, one per line.
pub fn args(profile: &Profile, minor: Minor) -> String {
    flags(profile, minor).iter().map(|(name, value)| format!("--{name}={value}\n")).collect()
}

/// The flags for settings without a field: their names without dashes, and their values.
pub fn flags(profile: &Profile, minor: Minor) -> Vec<(&'static str, String)> {
    let mut flags = vec![(WINDOWS_PRIORITYCLASS, priority_class(profile.kubelet.priority_class).to_owned())];
    let resolv_conf = resolv_conf(&profile.kubelet);
    if minor < RESOLV_CONF_IN_DROP_INS_SINCE || resolv_conf == HOST_RESOLVERS {
        flags.push((RESOLV_CONF_FLAG, resolv_conf.to_owned()));
    }
    flags
}

/// The settings with which a kubelet of a minor does not start or that have no effect, or that the minor is too old.
pub fn problems(kubelet: &Kubelet, minor: Minor) -> Vec<Problem> {
    if minor < support::OLDEST {
        let wrong = format!("kubelet {minor} is older than {}, the oldest that winpool configures", support::OLDEST);
        let remedy = "upgrade the kubelet, or replace the node";
        return vec![Problem::new("status.nodeInfo.kubeletVersion", wrong, remedy)];
    }
    let fields = kubelet.extra.iter().filter_map(|(field, value)| field_problem(field, value, kubelet, minor));
    profile::gate_problems(GatedProgram::Kubelet, &kubelet.feature_gates, minor).into_iter().chain(fields).collect()
}

fn field_problem(field: &Field, value: &Value, kubelet: &Kubelet, minor: Minor) -> Option<Problem> {
    let path = format!("spec.kubelet.extra.{}", field.name);
    if minor < field.since {
        let wrong = format!("the field exists from kubelet {} on, and kubelet {minor} ignores it", field.since);
        return Some(Problem::new(path, wrong, "remove it, or use another profile for these nodes"));
    }
    let previous = format!("1.{}", minor.0.saturating_sub(1));
    if field.name == HIDDEN_METRICS && value.as_str().is_some_and(|value| !value.is_empty() && value != previous) {
        let wrong = format!("kubelet {minor} does not start with another value than {previous}");
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
