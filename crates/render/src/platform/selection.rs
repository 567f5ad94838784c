//! The settings of a profile and a pool that count in a report, and the taints and labels that a platform takes.

use winpool_api::{PriorityClass, Taint};
use winpool_facts::{
    node_restriction::is_within,
    pause::PausePublisher,
    platforms::{Platform, Setting, Support, settings},
};

use super::{
    super::{
        kubelet::taint_fields,
        yaml::{Field, Strings},
    },
    NodesToMake,
};
use crate::profile::{Pause, Profile};

/// The defaults of kubelet and containerd: thresholds of image garbage collection, size and number of container logs, and
/// the time without progress after which containerd cancels a pull.
///
/// Sources: kubernetes/website, as in [`winpool_facts::platforms`]; containerd/containerd, `internal/cri/config/config.go`.
const IMAGE_GC: (u8, u8) = (85, 80);
const CONTAINER_LOGS: (i64, u32) = (10 << 20, 5);
const PULL_PROGRESS_TIMEOUT: &str = "5m";

/// The settings that count, in the order of the API: those whose loss changes a node. A setting that has the default of
/// kubelet or containerd does not count, except for the maximum of pods, because every platform has its own, and for settings of
/// which the platform has another value than the kubelet: that it has is a difference too. The pause image counts if the profile
/// names a source other than Microsoft, or a tag.
pub(super) fn set(platform: Platform, nodes: &NodesToMake) -> Vec<Setting> {
    let is_replaced = |setting| {
        nodes.profile.is_some() && matches!(platform.support(setting), Support::Always(_) | Support::Replaces(_))
    };
    let counts = |setting: &Setting| is_set(*setting, nodes) || is_replaced(*setting);
    let mut found: Vec<_> = settings().filter(counts).collect();
    let extra = nodes.profile.into_iter().flat_map(|profile| &profile.kubelet.extra);
    let after = found.iter().position(|setting| *setting > Setting::Extra("")).unwrap_or(found.len());
    found.splice(after..after, extra.map(|(field, _)| Setting::Extra(field.name)));
    found
}

fn is_set(setting: Setting, nodes: &NodesToMake) -> bool {
    match setting {
        Setting::Taints => !nodes.taints.is_empty(),
        Setting::Labels => !nodes.labels.is_empty(),
        _ => nodes.profile.is_some_and(|profile| is_set_in(setting, profile)),
    }
}

fn is_set_in(setting: Setting, profile: &Profile) -> bool {
    let Profile { kubelet, containerd, pause, kube_proxy, proxy, .. } = profile;
    match setting {
        Setting::SystemReserved => !kubelet.system_reserved.is_empty(),
        Setting::KubeReserved => !kubelet.kube_reserved.is_empty(),
        Setting::EvictionHard => !kubelet.eviction_hard.is_empty(),
        Setting::MaxPods => true,
        Setting::ImageGc => (kubelet.image_gc_high, kubelet.image_gc_low) != IMAGE_GC,
        Setting::ContainerLogs => (kubelet.log_max_size.bytes(), kubelet.log_max_files) != CONTAINER_LOGS,
        Setting::FeatureGates => !kubelet.feature_gates.is_empty(),
        Setting::PriorityClass => kubelet.priority_class != PriorityClass::Normal,
        Setting::Verbosity => kubelet.verbosity.is_some(),
        Setting::Extra(name) => kubelet.extra(name).is_some(),
        Setting::PauseImage => !matches!(pause, Pause::Node | Pause::Known(PausePublisher::Microsoft, None)),
        Setting::RegistryMirrors => !containerd.registry_mirrors.is_empty(),
        Setting::Cni => !containerd.cni.bin_dir.is_empty() || !containerd.cni.conf_dir.is_empty(),
        Setting::ImagePullProgressTimeout => containerd.image_pull_progress_timeout != PULL_PROGRESS_TIMEOUT,
        Setting::Root => !containerd.root.is_empty(),
        Setting::ExtraConfig => !containerd.extra_config.is_empty(),
        Setting::KubeProxy => kube_proxy.is_some(),
        Setting::Proxy => !proxy.is_empty(),
        Setting::Taints | Setting::Labels => false,
    }
}

/// The taints of a pool that a platform takes, and the others.
pub(super) fn taints<'a>(platform: Platform, nodes: &NodesToMake<'a>) -> (Vec<&'a Taint>, Vec<&'a Taint>) {
    nodes.taints.iter().partition(|taint| !taint.value.is_empty() || !platform.taints_need_values())
}

/// The labels of a pool that a platform takes, as key and value, and the keys of the others.
pub(super) fn labels<'a>(platform: Platform, nodes: &NodesToMake<'a>) -> (Vec<(&'a str, &'a str)>, Vec<&'a str>) {
    let is_reserved = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        platform.reserved_label_domains().iter().any(|reserved| is_within(domain, reserved))
    };
    let pairs = || nodes.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let taken = pairs().filter(|(key, _)| !is_reserved(key)).collect();
    (taken, pairs().map(|(key, _)| key).filter(|key| is_reserved(key)).collect())
}

/// The taints that a platform takes, as maps of key, value and effect, if there are any.
pub(super) fn taint_maps<'a>(platform: Platform, nodes: &NodesToMake<'a>) -> Option<Vec<Field<'a>>> {
    let (taken, _) = taints(platform, nodes);
    (!taken.is_empty()).then(|| taken.into_iter().map(|taint| taint_fields(taint).into()).collect())
}

pub(super) fn labels_map<'a>(platform: Platform, nodes: &NodesToMake<'a>) -> Option<Strings<'a>> {
    let (taken, _) = labels(platform, nodes);
    (!taken.is_empty()).then(|| Strings(taken.into_iter().map(|(key, value)| (key, value.to_owned())).collect()))
}
