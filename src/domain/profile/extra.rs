//! `spec.kubelet.extra`: fields of KubeletConfiguration that a profile has no setting of its own for.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::check::{Findings, signal, thresholds};
use crate::{
    api::QuantityText,
    facts::kubelet_fields::{FIELDS, Field, Kind, Standing, field},
};

/// The fields that a Windows kubelet has a use for, in the order of its configuration.
pub(super) fn check(written: &Map<String, Value>, findings: &mut Findings) -> Vec<(&'static Field, Value)> {
    for (name, value) in written {
        let path = format!("spec.kubelet.extra.{name}");
        let Some(field) = field(name) else {
            findings.mistake(path, unknown(name), "check the spelling, or remove it");
            continue;
        };
        match field.standing {
            Standing::Works => type_check(&path, field.kind, value, findings),
            Standing::NoEffect(why) => {
                findings.mistake(path, format!("it does nothing on Windows: {why}"), "remove it");
            }
            Standing::Fails(why) => findings.mistake(path, why, "remove it"),
            Standing::Ours(instead) => {
                findings.mistake(path, "winpool writes this field itself", format!("remove it, and write {instead}"));
            }
        }
    }
    together(written, findings);
    let usable = FIELDS.iter().filter(|field| field.standing == Standing::Works);
    usable.filter_map(|field| Some((field, written.get(field.name)?.clone()))).collect()
}

fn unknown(name: &str) -> String {
    let spelled_otherwise = FIELDS.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    match spelled_otherwise {
        Some(field) => format!("KubeletConfiguration spells this field {}", field.name),
        None => "KubeletConfiguration has no such field".to_owned(),
    }
}

fn type_check(path: &str, kind: Kind, value: &Value, findings: &mut Findings) {
    let is_text = Value::is_string;
    let fits = match kind {
        Kind::Bool => value.is_boolean(),
        Kind::Number => value.is_number(),
        Kind::Text => value.is_string(),
        Kind::AnyObject => value.is_object(),
        Kind::Int(least, most) => value.as_i64().is_some_and(|number| (least..=most).contains(&number)),
        Kind::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Kind::Duration => value.as_str().and_then(duration).is_some(),
        Kind::DurationWithin(least, most) => {
            let bounds = i64::from(least) * SECOND..=i64::from(most) * SECOND;
            value.as_str().and_then(duration).is_some_and(|length| bounds.contains(&length))
        }
        Kind::GracePeriod => value.as_str().and_then(duration).is_some_and(|length| length == 0 || length >= SECOND),
        Kind::Directory => value.as_str().is_some_and(is_clean_directory),
        Kind::Texts => value.as_array().is_some_and(|list| list.iter().all(is_text)),
        Kind::Ints => value.as_array().is_some_and(|list| list.iter().all(Value::is_i64)),
        Kind::TextMap => value.as_object().is_some_and(|map| map.values().all(is_text)),
        Kind::BoolMap => value.as_object().is_some_and(|map| map.values().all(Value::is_boolean)),
        Kind::TextsMap => value
            .as_object()
            .is_some_and(|map| map.values().all(|list| list.as_array().is_some_and(|list| list.iter().all(is_text)))),
        Kind::Thresholds => {
            return signal_map(path, value, findings, |path, texts, findings| {
                thresholds(path, texts, findings);
            });
        }
        Kind::GracePeriods => return signal_map(path, value, findings, grace_periods),
        Kind::Object(fields) => match value.as_object() {
            Some(object) => return object_check(path, fields, object, findings),
            None => false,
        },
        Kind::Objects(fields) => match value.as_array() {
            Some(list) => {
                for (index, item) in list.iter().enumerate() {
                    type_check(&format!("{path}[{index}]"), Kind::Object(fields), item, findings);
                }
                return;
            }
            None => false,
        },
    };
    if !fits {
        findings.mistake(path, format!("{value} is not {}", expected(kind)), example(kind));
    }
}

fn object_check(path: &str, fields: &[(&str, Kind)], object: &Map<String, Value>, findings: &mut Findings) {
    for (name, value) in object {
        let path = format!("{path}.{name}");
        match fields.iter().find(|(known, _)| known == name) {
            Some((_, kind)) => type_check(&path, *kind, value, findings),
            None => {
                let known = fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                findings.mistake(path, "there is no such field", format!("remove it: there are {known}"));
            }
        }
    }
}

/// A map from eviction signal to text.
fn signal_map(
    path: &str,
    value: &Value,
    findings: &mut Findings,
    check: impl Fn(&str, &BTreeMap<String, QuantityText>, &mut Findings),
) {
    let texts = value.as_object().and_then(|map| {
        map.iter().map(|(name, value)| Some((name.clone(), QuantityText(value.as_str()?.to_owned())))).collect()
    });
    match texts {
        Some(texts) => check(path, &texts, findings),
        None => {
            let wrong = format!("{value} is not texts by eviction signal");
            findings.mistake(path, wrong, "write signals and texts, such as memory.available: 1Gi");
        }
    }
}

fn grace_periods(path: &str, texts: &BTreeMap<String, QuantityText>, findings: &mut Findings) {
    for (name, QuantityText(text)) in texts {
        let path = format!("{path}.{name}");
        if signal(&path, name, findings).is_some() && duration(text).is_none() {
            findings.mistake(path, format!("`{text}` is not {}", expected(Kind::Duration)), example(Kind::Duration));
        }
    }
}

/// What the kubelet checks about several fields at once.
fn together(written: &Map<String, Value>, findings: &mut Findings) {
    let path = |name: &str| format!("spec.kubelet.extra.{name}");
    let length = |name: &str| written.get(name).and_then(Value::as_str).and_then(duration);
    let count = |name: &str| written.get(name).and_then(Value::as_i64);
    let switched = |name: &str, to: bool| written.get(name) == Some(&Value::Bool(to));

    let (all, critical) = (length("shutdownGracePeriod"), length("shutdownGracePeriodCriticalPods"));
    if critical.is_some_and(|critical| critical > all.unwrap_or_default()) {
        let wrong = "critical pods get more time than the whole shutdown has";
        findings.mistake(path("shutdownGracePeriodCriticalPods"), wrong, "write at most shutdownGracePeriod");
    }
    if written.contains_key("shutdownGracePeriodByPodPriority") && (all.is_some() || critical.is_some()) {
        let wrong = "the kubelet takes either this or shutdownGracePeriod";
        findings.mistake(path("shutdownGracePeriodByPodPriority"), wrong, "remove one of the two");
    }
    if all.is_some() || written.contains_key("shutdownGracePeriodByPodPriority") {
        let wrong = "a graceful shutdown needs a kubelet that runs as a Windows service";
        findings.warning(path("shutdownGracePeriod"), wrong, "start the kubelet with --windows-service");
    }
    if count("maxParallelImagePulls").is_some_and(|pulls| pulls > 1) && !switched("serializeImagePulls", false) {
        let wrong = "images are pulled one after the other";
        findings.mistake(path("maxParallelImagePulls"), wrong, "write serializeImagePulls: false beside it");
    }
    if switched("enableSystemLogQuery", true) && switched("enableSystemLogHandler", false) {
        let wrong = "logs cannot be queried without the log handler";
        findings.mistake(path("enableSystemLogQuery"), wrong, "remove enableSystemLogHandler: false");
    }
    if let (Some(least), Some(most)) = (length("imageMinimumGCAge"), length("imageMaximumGCAge"))
        && least >= most
        && most > 0
    {
        findings.mistake(path("imageMaximumGCAge"), "it is not more than imageMinimumGCAge", "write more than that");
    }
    let soft = written.get("evictionSoft").and_then(Value::as_object);
    let periods = written.get("evictionSoftGracePeriod").and_then(Value::as_object);
    for name in soft.into_iter().flat_map(Map::keys) {
        if !periods.is_some_and(|periods| periods.contains_key(name)) {
            let remedy = format!("write evictionSoftGracePeriod.{name}, such as 1m30s");
            findings.mistake(path(&format!("evictionSoft.{name}")), "a soft threshold needs a grace period", remedy);
        }
    }
}

fn expected(kind: Kind) -> String {
    match kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Int(i64::MIN, i64::MAX) => "a whole number".to_owned(),
        Kind::Int(least, most) => format!("a whole number from {least} to {most}"),
        Kind::Number => "a number".to_owned(),
        Kind::Text => "a text".to_owned(),
        Kind::Word(words) => format!("one of {}", words.join(", ")),
        Kind::Duration => "a length of time".to_owned(),
        Kind::DurationWithin(least, u32::MAX) => format!("a length of time of {least}s or more"),
        Kind::DurationWithin(least, most) => format!("a length of time from {least}s to {most}s"),
        Kind::GracePeriod => "0s, or a length of time of 1s or more".to_owned(),
        Kind::Directory => "an absolute path in ASCII without . and .. in it".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::Ints => "a list of whole numbers".to_owned(),
        Kind::TextMap | Kind::Thresholds | Kind::GracePeriods => "texts by name".to_owned(),
        Kind::TextsMap => "lists of texts by name".to_owned(),
        Kind::BoolMap => "true or false by name".to_owned(),
        Kind::Object(_) | Kind::AnyObject => "an object".to_owned(),
        Kind::Objects(_) => "a list of objects".to_owned(),
    }
}

fn example(kind: Kind) -> String {
    match kind {
        Kind::Duration => "write hours, minutes and seconds, such as 1m30s".to_owned(),
        Kind::Directory => r"write drive and path, such as C:\var\log\pods".to_owned(),
        Kind::Text => "write a text, in quotes where YAML needs them".to_owned(),
        Kind::Word(words) => format!("write {}", words.join(" or ")),
        kind => format!("write {}", expected(kind)),
    }
}

/// Whether a kubelet takes a text for a directory: absolute, which on Windows may be without a drive, and as it is after
/// `filepath.Clean`.
fn is_clean_directory(text: &str) -> bool {
    let rest = match text.as_bytes() {
        [drive, b':', ..] if drive.is_ascii_alphabetic() => &text[2..],
        _ => text,
    };
    let clean = |part: &str| !matches!(part, "" | "." | "..");
    let path = rest.strip_prefix(['\\', '/']);
    text.is_ascii() && path.is_some_and(|path| path.is_empty() || path.split(['\\', '/']).all(clean))
}

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// Nanoseconds, of a length of time as Go writes it and not below zero: `1h30m`, `1.5s`, `0`.
pub(super) fn duration(text: &str) -> Option<i64> {
    const UNITS: &[(&str, f64)] =
        &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount = rest[..end].parse::<f64>().ok()?;
        let behind = &rest[end..];
        let unit_end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &behind[..unit_end])?;
        total += amount * factor;
        rest = &behind[unit_end..];
    }
    // Go holds no more than 63 bits of nanoseconds, about 292 years.
    #[allow(clippy::cast_possible_truncation)]
    (!text.is_empty() && total < 9.2e18).then_some(total as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{domain::Problem, domain::profile};

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
    fn a_field_without_use_on_windows_is_refused_by_name_and_reason() {
        let table = [
            (json!({"cgroupDriver": "systemd"}), "spec.kubelet.extra.cgroupDriver", "Windows has no cgroups"),
            (json!({"protectKernelDefaults": true}), "spec.kubelet.extra.protectKernelDefaults", "the Linux kernel"),
            (json!({"failSwapOn": false}), "spec.kubelet.extra.failSwapOn", "swap"),
            (json!({"singleProcessOOMKill": true}), "spec.kubelet.extra.singleProcessOOMKill", "does not start"),
            (json!({"userNamespaces": {}}), "spec.kubelet.extra.userNamespaces", "does not start"),
            (json!({"enforceNodeAllocatable": ["pods"]}), "spec.kubelet.extra.enforceNodeAllocatable", "itself"),
            (json!({"maxPods": 50}), "spec.kubelet.extra.maxPods", "itself"),
            (json!({"kind": "Pod"}), "spec.kubelet.extra.kind", "itself"),
            (json!({"noSuchField": 1}), "spec.kubelet.extra.noSuchField", "no such field"),
            (json!({"ClusterDNS": []}), "spec.kubelet.extra.ClusterDNS", "clusterDNS"),
        ];
        for (extra, path, why) in table {
            let problem = only_problem(extra);
            assert_eq!(problem.path, path);
            assert!(problem.wrong.contains(why), "{problem}");
        }
        assert!(only_problem(json!({"maxPods": 50})).remedy.contains("spec.kubelet.maxPods"));
    }

    #[test]
    fn a_field_within_its_limits_is_taken() {
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
    fn a_field_of_the_wrong_type_is_refused() {
        let table = [
            (json!({"eventBurst": "many"}), "spec.kubelet.extra.eventBurst"),
            (json!({"eventBurst": -1}), "spec.kubelet.extra.eventBurst"),
            (json!({"eventBurst": 1.5}), "spec.kubelet.extra.eventBurst"),
            (json!({"eventBurst": null}), "spec.kubelet.extra.eventBurst"),
            (json!({"readOnlyPort": 65536}), "spec.kubelet.extra.readOnlyPort"),
            (json!({"serializeImagePulls": "yes"}), "spec.kubelet.extra.serializeImagePulls"),
            (json!({"syncFrequency": 60}), "spec.kubelet.extra.syncFrequency"),
            (json!({"syncFrequency": "60"}), "spec.kubelet.extra.syncFrequency"),
            (json!({"clusterDNS": "10.0.0.10"}), "spec.kubelet.extra.clusterDNS"),
            (json!({"clusterDNS": [10]}), "spec.kubelet.extra.clusterDNS"),
            (json!({"tlsCurvePreferences": ["X25519"]}), "spec.kubelet.extra.tlsCurvePreferences"),
            (json!({"staticPodURLHeader": {"a": "b"}}), "spec.kubelet.extra.staticPodURLHeader"),
            (json!({"cpuManagerPolicyOptions": {"a": true}}), "spec.kubelet.extra.cpuManagerPolicyOptions"),
            (json!({"memoryManagerPolicy": "Static"}), "spec.kubelet.extra.memoryManagerPolicy"),
            (
                json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "301s"}}),
                "spec.kubelet.extra.crashLoopBackOff.maxContainerRestartPeriod",
            ),
            (
                json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "900ms"}}),
                "spec.kubelet.extra.crashLoopBackOff.maxContainerRestartPeriod",
            ),
            (json!({"containerLogMonitorInterval": "2s"}), "spec.kubelet.extra.containerLogMonitorInterval"),
            (
                json!({"shutdownGracePeriod": "1m", "shutdownGracePeriodCriticalPods": "500ms"}),
                "spec.kubelet.extra.shutdownGracePeriodCriticalPods",
            ),
            (json!({"podLogsDir": "logs"}), "spec.kubelet.extra.podLogsDir"),
            (json!({"podLogsDir": r"C:\var\..\log"}), "spec.kubelet.extra.podLogsDir"),
            (json!({"podLogsDir": r"C:\var\log\"}), "spec.kubelet.extra.podLogsDir"),
            (json!({"podLogsDir": r"C:\Protokoll-Öl"}), "spec.kubelet.extra.podLogsDir"),
            (json!({"authentication": []}), "spec.kubelet.extra.authentication"),
            (
                json!({"authentication": {"anonymous": {"enabled": 1}}}),
                "spec.kubelet.extra.authentication.anonymous.enabled",
            ),
            (json!({"authentication": {"basic": {}}}), "spec.kubelet.extra.authentication.basic"),
            (json!({"reservedMemory": [{"numaNode": "0"}]}), "spec.kubelet.extra.reservedMemory[0].numaNode"),
            (json!({"reservedMemory": {}}), "spec.kubelet.extra.reservedMemory"),
            (json!({"logging": "json"}), "spec.kubelet.extra.logging"),
            (json!({"evictionMinimumReclaim": ["1Gi"]}), "spec.kubelet.extra.evictionMinimumReclaim"),
            (
                json!({"evictionMinimumReclaim": {"pid.available": "1"}}),
                "spec.kubelet.extra.evictionMinimumReclaim.pid.available",
            ),
            (
                json!({"evictionSoftGracePeriod": {"memory.available": "soon"}}),
                "spec.kubelet.extra.evictionSoftGracePeriod.memory.available",
            ),
        ];
        for (extra, path) in table {
            assert_eq!(only_problem(extra).path, path);
        }
    }

    #[test]
    fn fields_that_do_not_go_together_are_refused() {
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
        ];
        for (extra, field) in table {
            assert_eq!(only_problem(extra).path, format!("spec.kubelet.extra.{field}"));
        }
    }

    #[test]
    fn fields_with_a_use_on_windows_are_taken_in_the_order_of_the_configuration() {
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
    fn lengths_of_time_are_written_as_in_go() {
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
            assert_eq!(duration(text), nanoseconds, "{text}");
        }
    }
}
