//! The settings of a profile from the KubeletConfiguration that a kubelet uses, as its endpoint `/configz` shows it.
//!
//! Fields outside the profile's own settings are listed only if they differ from the kubelet's default: a rendered
//! configuration leaves those that a profile does not list as the node has them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use winpool_api::{
    ContainerLogs, ImageGarbageCollection, KubeletLogging, KubeletSettings, QuantityText, WindowsRuntimeProfileSpec,
};
use winpool_core::kubernetes::kubelet_value::is_same;
use winpool_core::kubernetes::quantity::Resource;
use winpool_facts::{
    Minor,
    eviction::{self, Signal},
    kubelet_fields::{DefaultValue, FIELDS},
};
use winpool_render::profile::{self};

pub type KubeletConfiguration = Map<String, Value>;

/// The settings of a profile with which a kubelet of this minor uses the same configuration.
pub fn settings(used: &KubeletConfiguration, minor: Minor) -> KubeletSettings {
    let defaults = KubeletSettings::default();
    let logs = ContainerLogs::default();
    let settings = KubeletSettings {
        system_reserved: reserved(used, "systemReserved"),
        kube_reserved: reserved(used, "kubeReserved"),
        eviction_hard: thresholds(used, minor),
        max_pods: number(used, "maxPods").unwrap_or(defaults.max_pods),
        image_gc: ImageGarbageCollection {
            high_threshold_percent: number(used, "imageGCHighThresholdPercent")
                .unwrap_or(defaults.image_gc.high_threshold_percent),
            low_threshold_percent: number(used, "imageGCLowThresholdPercent")
                .unwrap_or(defaults.image_gc.low_threshold_percent),
        },
        container_logs: ContainerLogs {
            max_size: quantity(used.get("containerLogMaxSize")).unwrap_or(logs.max_size),
            max_files: number(used, "containerLogMaxFiles").unwrap_or(logs.max_files),
        },
        feature_gates: gates(used),
        logging: KubeletLogging {
            verbosity: used.get("logging").and_then(Value::as_object).and_then(|logging| number(logging, "verbosity")),
        },
        ..defaults
    };
    KubeletSettings { extra: extra(used, &settings, minor), ..settings }
}

fn number<N: TryFrom<u64>>(fields: &Map<String, Value>, name: &str) -> Option<N> {
    fields.get(name)?.as_u64()?.try_into().ok()
}

fn quantity(value: Option<&Value>) -> Option<QuantityText> {
    value?.as_str().map(QuantityText::from)
}

/// The reserved resources of a Windows kubelet. Memory is written also if none is reserved, because a profile without it
/// reserves some.
fn reserved(used: &KubeletConfiguration, field: &str) -> BTreeMap<String, QuantityText> {
    let amounts = used.get(field).and_then(Value::as_object);
    let amount = |resource: &str| quantity(amounts.and_then(|amounts| amounts.get(resource)));
    let mut reserved: BTreeMap<String, QuantityText> = amounts
        .into_iter()
        .flat_map(Map::keys)
        .filter(|name| Resource::named(name).is_some())
        .filter_map(|name| Some((name.clone(), amount(name)?)))
        .collect();
    reserved.entry(Resource::Memory.name().to_owned()).or_insert_with(|| "0".into());
    reserved
}

/// The thresholds that differ from the defaults. A signal without a threshold is not observed, which is the threshold 0%.
fn thresholds(used: &KubeletConfiguration, minor: Minor) -> BTreeMap<String, QuantityText> {
    let Some(set) = used.get("evictionHard").and_then(Value::as_object) else { return BTreeMap::new() };
    let differing = |(signal, default): (Signal, &'static str)| {
        let threshold = quantity(set.get(signal.name())).unwrap_or_else(|| "0%".into());
        (!is_same(&json!(default), &json!(threshold))).then(|| (signal.name().to_owned(), threshold))
    };
    eviction::defaults(minor).into_iter().filter_map(differing).collect()
}

fn gates(used: &KubeletConfiguration) -> BTreeMap<String, bool> {
    let gates = used.get("featureGates").and_then(Value::as_object).into_iter().flatten();
    gates.filter_map(|(gate, value)| Some((gate.clone(), value.as_bool()?))).collect()
}

/// The other fields whose values differ from the defaults, without those that a profile rejects.
fn extra(used: &KubeletConfiguration, settings: &KubeletSettings, minor: Minor) -> Map<String, Value> {
    let differing = FIELDS.iter().filter_map(|field| {
        let (default, value) = (field.default_in(minor)?, used.get(field.name)?);
        (!is_same(&json(default), value)).then(|| (field.name.to_owned(), value.clone()))
    });
    let mut extra: Map<String, Value> = differing.collect();
    let problems = |extra: &Map<String, Value>| {
        let kubelet = KubeletSettings { extra: extra.clone(), ..settings.clone() };
        let spec = WindowsRuntimeProfileSpec { kubelet, ..WindowsRuntimeProfileSpec::default() };
        profile::check(&spec).err().map_or(0, |problems| problems.len())
    };
    // Fields may need each other, so each is left out only if that solves a problem.
    for name in extra.keys().cloned().collect::<Vec<_>>() {
        let mut without = extra.clone();
        without.remove(&name);
        if problems(&without) < problems(&extra) {
            extra = without;
        }
    }
    extra
}

fn json(default: DefaultValue) -> Value {
    match default {
        DefaultValue::Bool(value) => json!(value),
        DefaultValue::Integer(value) => json!(value),
        DefaultValue::Text(value) => json!(value),
        DefaultValue::Unset => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kubelet 1.36 with these settings shows, which is its defaults elsewhere.
    fn used(more: Value) -> KubeletConfiguration {
        let mut used = json!({
            "maxPods": 110, "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80,
            "containerLogMaxSize": "10Mi", "containerLogMaxFiles": 5, "clusterDNS": ["10.0.0.10"],
            "evictionHard": {"imagefs.available": "15%", "memory.available": "500Mi", "nodefs.available": "10%"},
            "syncFrequency": "1m0s", "eventBurst": 100, "kubeAPIQPS": 50, "serializeImagePulls": true,
            "cgroupsPerQOS": false, "resolvConf": "", "logging": {"format": "text", "verbosity": 0},
        });
        used.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        used.as_object().unwrap().clone()
    }

    #[test]
    fn a_profile_has_the_settings_in_use_and_other_fields_that_differ_from_the_defaults() {
        let reserved = |memory: &str| json!({"memory": memory});
        for (set, path, expected) in [
            (json!({}), "/systemReserved", reserved("0")),
            (
                json!({"systemReserved": {"memory": "3Gi", "cpu": "500m", "pid": "10"}}),
                "/systemReserved",
                json!({"cpu": "500m", "memory": "3Gi"}),
            ),
            (json!({"kubeReserved": {"memory": "1Gi"}}), "/kubeReserved", reserved("1Gi")),
            (json!({}), "/evictionHard", Value::Null),
            (
                json!({"evictionHard": {"memory.available": "1Gi", "nodefs.available": "10%"}}),
                "/evictionHard",
                json!({"imagefs.available": "0%", "memory.available": "1Gi"}),
            ),
            (json!({"maxPods": 30}), "/maxPods", json!(30)),
            (json!({"imageGCHighThresholdPercent": 70}), "/imageGC/highThresholdPercent", json!(70)),
            (json!({"containerLogMaxFiles": 3}), "/containerLogs", json!({"maxFiles": 3, "maxSize": "10Mi"})),
            (
                json!({"featureGates": {"WindowsHostNetwork": false}}),
                "/featureGates",
                json!({"WindowsHostNetwork": false}),
            ),
            (json!({"logging": {"verbosity": 4}}), "/logging", json!({"verbosity": 4})),
            (json!({}), "/extra", Value::Null),
            (
                json!({"serializeImagePulls": false, "maxParallelImagePulls": 4, "clusterDomain": "example"}),
                "/extra",
                json!({"maxParallelImagePulls": 4, "serializeImagePulls": false}),
            ),
            (
                json!({"evictionSoft": {"memory.available": "2Gi"}, "evictionSoftGracePeriod": {"memory.available": "1m30s"}}),
                "/extra",
                json!({"evictionSoft": {"memory.available": "2Gi"}, "evictionSoftGracePeriod": {"memory.available": "1m30s"}}),
            ),
            // A profile rejects a soft threshold without a period.
            (
                json!({"evictionSoft": {"memory.available": "2Gi"}, "eventBurst": 10}),
                "/extra",
                json!({"eventBurst": 10}),
            ),
        ] {
            let settings = json!(settings(&used(set.clone()), Minor(36)));
            assert_eq!(settings.pointer(path).cloned().unwrap_or_default(), expected, "{set}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_minor() {
        let used = used(json!({"eventBurst": 10, "kubeAPIQPS": 5}));
        assert_eq!(json!(settings(&used, Minor(26)).extra), json!({}));
        assert_eq!(json!(settings(&used, Minor(27)).extra), json!({"eventBurst": 10, "kubeAPIQPS": 5}));
    }
}
