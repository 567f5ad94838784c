//! The settings of a profile as flags of kubelet and kube-proxy.

use std::collections::BTreeMap;

use serde_json::Value;
use winpool_api::KubeProxySettings;
use winpool_core::kubernetes::quantity::Quantity;
use winpool_facts::{
    Minor,
    kubelet_flags::WINDOWS_PRIORITYCLASS,
    platforms::{Platform, Setting, Support, kubelet_flag},
};

use super::{
    super::{kube_proxy::gates, kubelet},
    NodesToMake,
};
use crate::profile::Profile;
use winpool_core::kubernetes::quantity::Resource;

/// A flag without dashes, and its value.
type Flag = (&'static str, String);

pub(super) fn kubelet(nodes: &NodesToMake, platform: Platform, taken: &[Setting]) -> Vec<Flag> {
    let Some(profile) = nodes.profile else { return Vec::new() };
    let is_flag = |setting: &&Setting| matches!(platform.support(**setting), Support::Flag(_));
    taken.iter().filter(is_flag).flat_map(|setting| of(*setting, profile, nodes).unwrap_or_default()).collect()
}

pub(super) fn kube_proxy(nodes: &NodesToMake, taken: &[Setting]) -> Vec<Flag> {
    let settings = nodes.profile.and_then(|profile| profile.kube_proxy.as_ref());
    let settings = settings.filter(|_| taken.contains(&Setting::KubeProxy));
    settings.map(|settings| of_kube_proxy(settings, nodes.kubelet)).unwrap_or_default()
}

/// Flags as one text: `--a=1 --b=2`.
pub(super) fn joined(flags: &[Flag]) -> String {
    let words: Vec<_> = flags.iter().map(|(name, value)| format!("--{name}={value}")).collect();
    words.join(" ")
}

/// Why a setting cannot be written as flags.
pub(super) fn problem(setting: Setting, nodes: &NodesToMake) -> Option<String> {
    let flags = of(setting, nodes.profile?, nodes);
    match flags {
        None => Some("its value cannot be written as a flag".to_owned()),
        // Services of Windows have one command line, and scripts split it at spaces.
        Some(flags) => flags
            .iter()
            .any(|(_, value)| !value.chars().all(is_plain))
            .then(|| "its value has characters that must not occur in the command line of a service".to_owned()),
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_./\\:,=<%+@".contains(character)
}

/// The flags of a setting. `None` if its value cannot be written as flags.
fn of(setting: Setting, profile: &Profile, nodes: &NodesToMake) -> Option<Vec<Flag>> {
    let settings = &profile.kubelet;
    let flags = match setting {
        Setting::SystemReserved => vec![("system-reserved", reserved(&settings.system_reserved))],
        Setting::KubeReserved => vec![("kube-reserved", reserved(&settings.kube_reserved))],
        Setting::EvictionHard => {
            let all = kubelet::eviction_hard(settings, nodes.kubelet);
            vec![("eviction-hard", list(all.iter().map(|(signal, threshold)| format!("{signal}<{threshold}"))))]
        }
        Setting::MaxPods => vec![("max-pods", settings.max_pods.to_string())],
        Setting::ImageGc => vec![
            ("image-gc-high-threshold", settings.image_gc_high.to_string()),
            ("image-gc-low-threshold", settings.image_gc_low.to_string()),
        ],
        Setting::ContainerLogs => vec![
            ("container-log-max-size", settings.log_max_size.to_string()),
            ("container-log-max-files", settings.log_max_files.to_string()),
        ],
        Setting::FeatureGates => {
            vec![("feature-gates", list(settings.feature_gates.iter().map(|(name, on)| format!("{name}={on}"))))]
        }
        Setting::PriorityClass => {
            vec![(WINDOWS_PRIORITYCLASS, kubelet::priority_class(settings.priority_class).to_owned())]
        }
        Setting::Verbosity => vec![("v", settings.verbosity?.to_string())],
        Setting::KubeProxy => of_kube_proxy(profile.kube_proxy.as_ref()?, nodes.kubelet),
        Setting::Extra(field) => {
            let flag = kubelet_flag(field)?;
            vec![(flag, of_json(field, settings.extra(field)?)?)]
        }
        _ => return None,
    };
    Some(flags)
}

fn of_kube_proxy(settings: &KubeProxySettings, minor: Minor) -> Vec<Flag> {
    let KubeProxySettings { win_dsr, network_name, source_vip, .. } = settings;
    let mut flags = vec![("proxy-mode", "kernelspace".to_owned())];
    flags.extend(win_dsr.map(|dsr| ("enable-dsr", dsr.to_string())));
    let texts = [("network-name", network_name), ("source-vip", source_vip)];
    flags.extend(texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name, text.clone())));
    let gates = gates(settings, minor);
    if !gates.is_empty() {
        flags.push(("feature-gates", list(gates.iter().map(|(name, on)| format!("{name}={on}")))));
    }
    flags
}

fn reserved(amounts: &BTreeMap<Resource, Quantity>) -> String {
    list(amounts.iter().map(|(resource, amount)| format!("{}={amount}", resource.name())))
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

fn of_json(field: &str, value: &Value) -> Option<String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    match value {
        Value::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(scalar).collect();
            let has_no_comma = |items: &Vec<String>| !items.iter().any(|item| item.contains(','));
            items.filter(has_no_comma).map(|items| items.join(","))
        }
        Value::Object(map) => {
            let between = if field == "evictionSoft" { '<' } else { '=' };
            let pairs: Option<Vec<_>> =
                map.iter().map(|(key, value)| Some(format!("{key}{between}{}", scalar(value)?))).collect();
            pairs.map(|pairs| pairs.join(","))
        }
        value => scalar(value),
    }
}
