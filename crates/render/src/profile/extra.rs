//! The check of `spec.kubelet.extra`: other fields of KubeletConfiguration.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use winpool_api::QuantityText;
use winpool_core::{Problem, kubernetes::duration};
use winpool_facts::kubelet_fields::{FIELDS, Field, FieldSupport, FieldType, HOST_RESOLVERS, field};

use super::{
    eviction::{signal, thresholds},
    paths::{is_network_path, is_windows_path},
    problems::Problems,
};

const TOPOLOGY_OPTIONS: &str = "topologyManagerPolicyOptions";
const CLOSEST_NUMA_NODES: &str = "prefer-closest-numa-nodes";

/// Checks the fields. Returns those that Windows supports, in the order of KubeletConfiguration.
pub(super) fn check(written: &Map<String, Value>, problems: &mut Problems) -> Vec<(&'static Field, Value)> {
    for (name, value) in written {
        let path = path(name);
        let Some(field) = field(name) else {
            problems.error(path, unknown(name), "check the spelling, or remove it");
            continue;
        };
        match field.support {
            FieldSupport::Supported => {
                if let Some(containerd) = field.containerd {
                    let wrong = format!("has no effect with containerd below {containerd}");
                    problems.warning(&path, wrong, format!("use it on nodes with containerd {containerd} or later"));
                }
                check_type(&path, field.field_type, value, problems);
            }
            FieldSupport::NoEffect(reason) => {
                problems.error(path, format!("has no effect on Windows, because {reason}"), "remove it");
            }
            FieldSupport::Fatal(effect) => problems.error(path, effect, "remove it"),
            FieldSupport::Managed(setting) => {
                problems.error(path, "winpool sets this field", format!("remove it, and set {setting}"));
            }
            FieldSupport::Refused(reason) => {
                problems.error(path, format!("must not be set by a profile: {reason}"), "remove it");
            }
            FieldSupport::Fixed(reason) => {
                problems.error(path, format!("winpool sets this field, because {reason}"), "remove it");
            }
        }
    }
    check_combinations(written, problems);
    let supported = FIELDS.iter().filter(|field| field.support == FieldSupport::Supported);
    supported.filter_map(|field| Some((field, written.get(field.name)?.clone()))).collect()
}

fn unknown(name: &str) -> String {
    let spelled_otherwise = FIELDS.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    match spelled_otherwise {
        Some(field) => format!("the field is spelled {}", field.name),
        None => "KubeletConfiguration has no such field".to_owned(),
    }
}

/// The first problem with the type of a value, or with a network path in it.
pub fn type_problem(path: &str, field_type: FieldType, value: &Value) -> Option<Problem> {
    let mut problems = Problems::default();
    check_type(path, field_type, value, &mut problems);
    problems.errors.into_iter().next()
}

fn check_type(path: &str, field_type: FieldType, value: &Value, problems: &mut Problems) {
    if value.as_str().is_some_and(is_network_path) {
        let wrong = format!("{value} is a path on another machine, to which the node would authenticate");
        return problems.error(path, wrong, "write a path with its drive, or remove it");
    }
    match (field_type, value) {
        (FieldType::Thresholds, _) => signal_map(path, value, problems, |path, texts, problems| {
            thresholds(path, texts, problems);
        }),
        (FieldType::GracePeriods, _) => signal_map(path, value, problems, grace_periods),
        (FieldType::Object(fields), Value::Object(object)) => check_object(path, fields, object, problems),
        (FieldType::Objects(fields), Value::Array(list)) => {
            for (index, item) in list.iter().enumerate() {
                check_type(&format!("{path}[{index}]"), FieldType::Object(fields), item, problems);
            }
        }
        _ if is_of_type(field_type, value) => {}
        _ => problems.error(path, format!("{value} is not {}", expected(field_type)), example(field_type)),
    }
}

/// Whether a value has this type. Objects with checked fields are not handled here.
fn is_of_type(field_type: FieldType, value: &Value) -> bool {
    let is_duration = |accepts: &dyn Fn(i64) -> bool| value.as_str().and_then(duration::parse).is_some_and(accepts);
    let is_list =
        |value: &Value, is_item: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(is_item));
    let is_map = |is_item: &dyn Fn(&Value) -> bool| value.as_object().is_some_and(|map| map.values().all(is_item));
    match field_type {
        FieldType::Bool => value.is_boolean(),
        FieldType::Number => value.is_number(),
        FieldType::String => value.is_string(),
        FieldType::Scalar => value.is_number() || value.is_string(),
        FieldType::Integer(min, max) => value.as_i64().is_some_and(|number| (min..=max).contains(&number)),
        FieldType::Enum(values) => value.as_str().is_some_and(|value| values.contains(&value)),
        FieldType::Duration => is_duration(&|_| true),
        FieldType::DurationWithin(min, max) => {
            is_duration(&|length| (i64::from(min) * SECOND..=i64::from(max) * SECOND).contains(&length))
        }
        FieldType::GracePeriod => is_duration(&|length| length == 0 || length >= SECOND),
        FieldType::Directory => value.as_str().is_some_and(is_clean_directory),
        FieldType::ResolvConf => value.as_str().is_some_and(is_resolv_conf),
        FieldType::Strings => is_list(value, is_local_text),
        FieldType::Integers => is_list(value, Value::is_i64),
        FieldType::StringMap => is_map(&is_local_text),
        FieldType::BoolMap => is_map(&Value::is_boolean),
        FieldType::StringListMap => is_map(&|list| is_list(list, is_local_text)),
        FieldType::Thresholds | FieldType::GracePeriods | FieldType::Object(_) | FieldType::Objects(_) => false,
    }
}

fn check_object(path: &str, fields: &[(&str, FieldType)], object: &Map<String, Value>, problems: &mut Problems) {
    for (name, value) in object {
        let path = format!("{path}.{name}");
        match fields.iter().find(|(known, _)| known == name) {
            Some((_, field_type)) => check_type(&path, *field_type, value, problems),
            None => {
                let known = fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                problems.error(path, "winpool has no such field", format!("remove it, or write one of {known}"));
            }
        }
    }
}

fn signal_map(
    path: &str,
    value: &Value,
    problems: &mut Problems,
    check: impl Fn(&str, &BTreeMap<String, QuantityText>, &mut Problems),
) {
    let texts = value.as_object().and_then(|map| {
        map.iter().map(|(name, value)| Some((name.clone(), QuantityText(value.as_str()?.to_owned())))).collect()
    });
    match texts {
        Some(texts) => check(path, &texts, problems),
        None => {
            let wrong = format!("{value} is not a map from eviction signal to string");
            problems.error(path, wrong, "write signals and values, such as memory.available: 1Gi");
        }
    }
}

fn grace_periods(path: &str, texts: &BTreeMap<String, QuantityText>, problems: &mut Problems) {
    for (name, QuantityText(text)) in texts {
        let path = format!("{path}.{name}");
        if signal(&path, name, problems).is_some() && duration::parse(text).is_none() {
            problems.error(
                path,
                format!("`{text}` is not {}", expected(FieldType::Duration)),
                example(FieldType::Duration),
            );
        }
    }
}

/// The kubelet's checks of several fields together.
fn check_combinations(written: &Map<String, Value>, problems: &mut Problems) {
    let count = |name: &str| written.get(name).and_then(Value::as_i64);
    let is_set_to = |name: &str, value: bool| written.get(name) == Some(&Value::Bool(value));
    if count("maxParallelImagePulls").is_some_and(|pulls| pulls > 1) && !is_set_to("serializeImagePulls", false) {
        let wrong = "parallel pulls require serializeImagePulls: false";
        problems.error(path("maxParallelImagePulls"), wrong, "set serializeImagePulls: false too");
    }
    if is_set_to("enableSystemLogQuery", true) && is_set_to("enableSystemLogHandler", false) {
        let wrong = "log queries require the log handler";
        problems.error(path("enableSystemLogQuery"), wrong, "remove enableSystemLogHandler: false");
    }
    if let (Some(min), Some(max)) = (length(written, "imageMinimumGCAge"), length(written, "imageMaximumGCAge"))
        && min >= max
        && max > 0
    {
        problems.error(path("imageMaximumGCAge"), "must be longer than imageMinimumGCAge", "write a longer duration");
    }
    if count("eventRecordQPS") == Some(0) {
        // kubernetes/kubernetes#117119.
        let wrong = "with 0 kubelets from 1.37 on have no limit, and earlier ones use their default";
        problems.warning(path("eventRecordQPS"), wrong, "write a number, such as 50");
    }
    if written.get(TOPOLOGY_OPTIONS).is_some_and(|options| options[CLOSEST_NUMA_NODES] == "true") {
        let wrong = "a kubelet does not start with this option on Windows, which reports no distances of NUMA nodes";
        problems.error(format!("{}.{CLOSEST_NUMA_NODES}", path(TOPOLOGY_OPTIONS)), wrong, "remove it");
    }
    let logging = |part: &str| written.get("logging").and_then(|logging| logging.pointer(part));
    if logging("/vmodule/0").is_some() && logging("/format") == Some(&"json".into()) {
        let wrong = "the kubelet does not accept this field with the format json";
        problems.error(path("logging.vmodule"), wrong, "remove one of the two");
    }
    check_shutdown(written, problems);
    check_soft_eviction(written, problems);
}

fn check_shutdown(written: &Map<String, Value>, problems: &mut Problems) {
    let all = length(written, "shutdownGracePeriod");
    let critical = length(written, "shutdownGracePeriodCriticalPods");
    let has_priorities = written.contains_key("shutdownGracePeriodByPodPriority");
    if critical.is_some_and(|critical| critical > all.unwrap_or_default()) {
        let wrong = "the period for critical pods is longer than shutdownGracePeriod";
        problems.error(
            path("shutdownGracePeriodCriticalPods"),
            wrong,
            "write at most the value of shutdownGracePeriod",
        );
    }
    if has_priorities && (all.is_some() || critical.is_some()) {
        let wrong = "the kubelet does not accept this field together with shutdownGracePeriod";
        problems.error(path("shutdownGracePeriodByPodPriority"), wrong, "remove one of the two");
    }
    if all.is_some() || has_priorities {
        let wrong = "graceful shutdown requires a kubelet that runs as a Windows service";
        problems.warning(path("shutdownGracePeriod"), wrong, "start the kubelet with --windows-service");
    }
}

fn check_soft_eviction(written: &Map<String, Value>, problems: &mut Problems) {
    let soft = written.get("evictionSoft").and_then(Value::as_object);
    let periods = written.get("evictionSoftGracePeriod").and_then(Value::as_object);
    for name in soft.into_iter().flat_map(Map::keys) {
        if !periods.is_some_and(|periods| periods.contains_key(name)) {
            let remedy = format!("set evictionSoftGracePeriod.{name}, such as 1m30s");
            problems.error(path(&format!("evictionSoft.{name}")), "a soft threshold requires a grace period", remedy);
        }
    }
}

fn path(name: &str) -> String {
    format!("spec.kubelet.extra.{name}")
}

fn length(written: &Map<String, Value>, name: &str) -> Option<i64> {
    written.get(name).and_then(Value::as_str).and_then(duration::parse)
}

fn expected(field_type: FieldType) -> String {
    match field_type {
        FieldType::Bool => "true or false".to_owned(),
        FieldType::Integer(i64::MIN, i64::MAX) => "an integer".to_owned(),
        FieldType::Integer(min, max) => format!("an integer from {min} to {max}"),
        FieldType::Number => "a number".to_owned(),
        FieldType::String => "a string".to_owned(),
        FieldType::Enum(values) => format!("one of {}", values.join(", ")),
        FieldType::Duration => "a duration".to_owned(),
        FieldType::DurationWithin(min, u32::MAX) => format!("a duration of at least {min}s"),
        FieldType::DurationWithin(min, max) => format!("a duration from {min}s to {max}s"),
        FieldType::GracePeriod => "0s or a duration of at least 1s".to_owned(),
        FieldType::Directory => "an absolute ASCII path without . and ..".to_owned(),
        FieldType::ResolvConf => format!("empty, {HOST_RESOLVERS}, or the path of a file"),
        FieldType::Strings => "a list of strings".to_owned(),
        FieldType::Integers => "a list of integers".to_owned(),
        FieldType::StringMap | FieldType::Thresholds | FieldType::GracePeriods => "a map of strings".to_owned(),
        FieldType::StringListMap => "a map of lists of strings".to_owned(),
        FieldType::BoolMap => "a map of booleans".to_owned(),
        FieldType::Scalar => "a number or a string".to_owned(),
        FieldType::Object(_) => "an object".to_owned(),
        FieldType::Objects(_) => "a list of objects".to_owned(),
    }
}

fn example(field_type: FieldType) -> String {
    match field_type {
        FieldType::Duration => "write hours, minutes and seconds, such as 1m30s".to_owned(),
        FieldType::ResolvConf => format!(r"write {HOST_RESOLVERS}, or drive and path, such as C:\etc\resolv.conf"),
        FieldType::Directory => r"write drive and path, such as C:\var\log\pods".to_owned(),
        FieldType::String => "write a string, in quotes if YAML requires them".to_owned(),
        FieldType::Enum(values) => format!("write {}", values.join(" or ")),
        field_type => format!("write {}", expected(field_type)),
    }
}

/// A string that is no network path.
fn is_local_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !is_network_path(text))
}

/// Whether a text is a value of `resolvConf` on Windows. Whether the file exists, only its node knows.
pub fn is_resolv_conf(text: &str) -> bool {
    text.is_empty() || text == HOST_RESOLVERS || is_windows_path(text)
}

/// Whether the kubelet accepts a directory: absolute, with or without a drive, and unchanged by `filepath.Clean`.
fn is_clean_directory(text: &str) -> bool {
    let rest = match text.as_bytes() {
        [drive, b':', ..] if drive.is_ascii_alphabetic() => &text[2..],
        _ => text,
    };
    let clean = |part: &str| !matches!(part, "" | "." | "..");
    let path = rest.strip_prefix(['\\', '/']);
    text.is_ascii() && path.is_some_and(|path| path.is_empty() || path.split(['\\', '/']).all(clean))
}

const SECOND: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::profile;
    use winpool_core::Problem;

    use super::*;

    fn checked(extra: &Value) -> Result<profile::Profile, Vec<Problem>> {
        profile::check(&serde_json::from_value(json!({"kubelet": {"extra": extra}})).unwrap())
    }

    fn only_problem(extra: Value) -> Problem {
        let mut problems = checked(&extra).expect_err(&extra.to_string());
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.remove(0)
    }

    #[test]
    fn an_unsupported_field_is_an_error_with_the_reason() {
        let table = [
            (json!({"cgroupDriver": "systemd"}), "cgroupDriver", "Windows has no cgroups"),
            (json!({"protectKernelDefaults": true}), "protectKernelDefaults", "the Linux kernel"),
            (json!({"failSwapOn": false}), "failSwapOn", "swap"),
            (json!({"singleProcessOOMKill": true}), "singleProcessOOMKill", "does not start"),
            (json!({"userNamespaces": {}}), "userNamespaces", "does not start"),
            (json!({"enforceNodeAllocatable": ["pods"]}), "enforceNodeAllocatable", "winpool sets"),
            (json!({"maxPods": 50}), "maxPods", "winpool sets"),
            (json!({"kind": "Pod"}), "kind", "winpool sets"),
            (json!({"noSuchField": 1}), "noSuchField", "no such field"),
            (json!({"staticPodPath": "C:\\pods"}), "staticPodPath", "must not be set by a profile"),
            (json!({"staticPodURL": "https://a"}), "staticPodURL", "must not be set by a profile"),
            (json!({"volumePluginDir": "C:\\x"}), "volumePluginDir", "as SYSTEM"),
            (json!({"tlsCertFile": "//server/c"}), "tlsCertFile", "on another machine"),
            (json!({"logging": {"file": "C:\\x"}}), "logging.file", "no such field"),
            (json!({"logging": {"format": "yaml"}}), "logging.format", "not one of text, json"),
            (json!({"ClusterDNS": []}), "ClusterDNS", "clusterDNS"),
        ];
        for (extra, field, text) in table {
            let problem = only_problem(extra);
            assert_eq!(problem.path, path(field));
            assert!(problem.wrong.contains(text), "{problem}");
        }
        assert!(only_problem(json!({"maxPods": 50})).remedy.contains("spec.kubelet.maxPods"));
    }

    #[test]
    fn a_valid_field_is_accepted() {
        let table = [
            json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "1s"}}),
            json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "5m"}}),
            json!({"containerLogMonitorInterval": "3s"}),
            json!({"shutdownGracePeriod": "0s"}),
            json!({"shutdownGracePeriod": "1s", "shutdownGracePeriodCriticalPods": "1s"}),
            json!({"podLogsDir": r"C:\var\log\pods"}),
            json!({"podLogsDir": "/var/log/pods"}),
            json!({"podLogsDir": r"D:\"}),
        ];
        for extra in table {
            assert_eq!(checked(&extra).map(drop), Ok(()), "{extra}");
        }
    }

    #[test]
    fn a_field_of_the_wrong_type_is_an_error() {
        let table = [
            (json!({"eventBurst": "many"}), "eventBurst"),
            (json!({"eventBurst": -1}), "eventBurst"),
            (json!({"eventBurst": 1.5}), "eventBurst"),
            (json!({"eventBurst": null}), "eventBurst"),
            (json!({"readOnlyPort": 65536}), "readOnlyPort"),
            (json!({"serializeImagePulls": "yes"}), "serializeImagePulls"),
            (json!({"syncFrequency": 60}), "syncFrequency"),
            (json!({"syncFrequency": "60"}), "syncFrequency"),
            (json!({"clusterDNS": "10.0.0.10"}), "clusterDNS"),
            (json!({"clusterDNS": [10]}), "clusterDNS"),
            (json!({"tlsCurvePreferences": ["X25519"]}), "tlsCurvePreferences"),
            (json!({"cpuManagerPolicyOptions": {"a": true}}), "cpuManagerPolicyOptions"),
            (json!({"memoryManagerPolicy": "Static"}), "memoryManagerPolicy"),
            (
                json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "301s"}}),
                "crashLoopBackOff.maxContainerRestartPeriod",
            ),
            (
                json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "900ms"}}),
                "crashLoopBackOff.maxContainerRestartPeriod",
            ),
            (json!({"containerLogMonitorInterval": "2s"}), "containerLogMonitorInterval"),
            (
                json!({"shutdownGracePeriod": "1m", "shutdownGracePeriodCriticalPods": "500ms"}),
                "shutdownGracePeriodCriticalPods",
            ),
            (json!({"podLogsDir": "logs"}), "podLogsDir"),
            (json!({"podLogsDir": r"C:\var\..\log"}), "podLogsDir"),
            (json!({"podLogsDir": r"C:\var\log\"}), "podLogsDir"),
            (json!({"podLogsDir": r"C:\Protokoll-Öl"}), "podLogsDir"),
            (json!({"authentication": []}), "authentication"),
            (json!({"authentication": {"anonymous": {"enabled": 1}}}), "authentication.anonymous.enabled"),
            (json!({"authentication": {"basic": {}}}), "authentication.basic"),
            (json!({"reservedMemory": [{"numaNode": "0"}]}), "reservedMemory[0].numaNode"),
            (json!({"reservedMemory": {}}), "reservedMemory"),
            (json!({"logging": "json"}), "logging"),
            (json!({"evictionMinimumReclaim": ["1Gi"]}), "evictionMinimumReclaim"),
            (json!({"evictionMinimumReclaim": {"pid.available": "1"}}), "evictionMinimumReclaim.pid.available"),
            (
                json!({"evictionSoftGracePeriod": {"memory.available": "soon"}}),
                "evictionSoftGracePeriod.memory.available",
            ),
        ];
        for (extra, field) in table {
            assert_eq!(only_problem(extra).path, path(field));
        }
    }

    #[test]
    fn an_invalid_combination_of_fields_is_an_error() {
        let table = [
            (
                json!({"shutdownGracePeriod": "10s", "shutdownGracePeriodCriticalPods": "20s"}),
                "shutdownGracePeriodCriticalPods",
            ),
            (
                json!({"shutdownGracePeriod": "10s", "shutdownGracePeriodByPodPriority": []}),
                "shutdownGracePeriodByPodPriority",
            ),
            (json!({"maxParallelImagePulls": 5}), "maxParallelImagePulls"),
            (json!({"enableSystemLogQuery": true, "enableSystemLogHandler": false}), "enableSystemLogQuery"),
            (json!({"imageMinimumGCAge": "1h", "imageMaximumGCAge": "1h"}), "imageMaximumGCAge"),
            (json!({"evictionSoft": {"memory.available": "1Gi"}}), "evictionSoft.memory.available"),
            (json!({"logging": {"format": "json", "vmodule": [{"filePattern": "server"}]}}), "logging.vmodule"),
        ];
        for (extra, field) in table {
            assert_eq!(only_problem(extra).path, path(field));
        }
    }

    #[test]
    fn supported_fields_are_in_the_order_of_the_configuration() {
        let extra = json!({
            "serializeImagePulls": false,
            "maxParallelImagePulls": 5,
            "clusterDNS": ["10.96.0.10"],
            "authentication": {"anonymous": {"enabled": false}, "webhook": {"cacheTTL": "2m"}},
            "evictionSoft": {"memory.available": "1Gi"},
            "evictionSoftGracePeriod": {"memory.available": "1m30s"},
        });
        let profile = checked(&extra).unwrap();
        let names = profile.kubelet.extra.iter().map(|(field, _)| field.name).collect::<Vec<_>>();
        let expected = [
            "authentication",
            "clusterDNS",
            "serializeImagePulls",
            "maxParallelImagePulls",
            "evictionSoft",
            "evictionSoftGracePeriod",
        ];
        assert_eq!(names, expected);
        assert_eq!(profile.kubelet.extra("maxParallelImagePulls"), Some(&json!(5)));
    }

    #[test]
    fn durations_are_parsed_as_in_go() {
        let table = [
            ("0", Some(0)),
            ("1m30s", Some(90_000_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            ("300ms", Some(300_000_000)),
            ("10us1ns", Some(10_001)),
            ("+1s", Some(1_000_000_000)),
            ("", None),
            ("+", None),
            ("5", None),
            ("s", None),
            ("1d", None),
            ("-1s", None),
            ("1 s", None),
            ("1.2.3s", None),
            ("9999999h", None),
        ];
        for (text, nanoseconds) in table {
            assert_eq!(duration::parse(text), nanoseconds, "{text}");
        }
    }
}
