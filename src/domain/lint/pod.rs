//! The fields of a pod's spec.

use serde_json::Value;

use super::{Code, Finding, Target, path::fields as at};
use crate::facts::{
    Minor,
    pod_fields::{
        IDLE, Idle, OS_NAME_SINCE, REFUSED, REFUSED_UNLISTED, Refused, SEVERAL_SUB_PATHS_SINCE, STOP_SIGNAL,
        STOP_SIGNAL_SINCE, STOP_SIGNALS, Topic, Written,
    },
    runtimes::Runtime,
};

const WINDOWS_OPTIONS: [&str; 2] = ["securityContext.windowsOptions", "containers[].securityContext.windowsOptions"];
/// The user that the kubelet takes for root (kubernetes/kubernetes, `pkg/kubelet/kuberuntime/security_context_windows.go`,
/// 1.24 to 1.36). Case does not matter.
const ADMINISTRATOR: &str = "ContainerAdministrator";

/// What the API server writes where nobody asks for a time (kubernetes/api, `core/v1/types.go`).
const DEFAULT_GRACE_PERIOD: u64 = 30;

/// The fields of the spec of a pod for Windows that the API server refuses, that do nothing, or that cannot work. Paths
/// are those below the spec.
pub fn fields(spec: &Value, minor: Minor) -> Vec<Finding> {
    let says_windows = spec["os"]["name"] == "windows" && minor >= OS_NAME_SINCE;
    let refused = REFUSED.iter().chain(REFUSED_UNLISTED).flat_map(|field| {
        let code = if says_windows && field.since <= minor { Code::FieldRefused } else { Code::FieldIgnored };
        written(spec, field.path, field.written).map(move |path| refused(code, field, path))
    });
    let idle = IDLE.iter().filter(|field| field.topic != Topic::HostNetwork || !has_host_process(spec));
    let several = idle.clone().filter(|field| field.topic == Topic::SubPath);
    let several = several.flat_map(|field| written(spec, field.path, field.written)).count() > 1;
    let idle = idle.flat_map(|field| {
        let words = in_words(field.topic, several && minor < SEVERAL_SUB_PATHS_SINCE);
        written(spec, field.path, field.written).map(move |path| of_topic(field, path, words))
    });
    refused.chain(idle).collect()
}

/// The paths of a field where it is written with a value that counts.
fn written<'v>(spec: &'v Value, pattern: &str, with: Written) -> impl Iterator<Item = String> + use<'v> {
    at(spec, pattern).into_iter().filter(move |(_, value)| counts(value, with)).map(|(path, _)| path)
}

fn counts(value: &Value, with: Written) -> bool {
    match with {
        Written::Any => !value.is_null(),
        Written::True => *value == true,
        Written::Text(text) => *value == text,
        Written::NotNumber(number) => value.is_number() && *value != number,
        Written::NotText(text) => value.is_string() && *value != text,
        Written::Filled => match value {
            Value::Array(items) => !items.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => false,
        },
    }
}

fn refused(code: Code, field: &Refused, path: String) -> Finding {
    let name = field.path.rsplit('.').next().unwrap_or_default();
    let what = match code {
        Code::FieldRefused => format!("{name}, refused since Kubernetes {}", field.since),
        _ if field.protects => format!("{name}, so that what it should protect is not protected"),
        _ => name.to_owned(),
    };
    Finding::new(code, path, what).instead(field.instead)
}

fn of_topic(field: &Idle, path: String, what: &str) -> Finding {
    let code = match field.topic {
        Topic::HostNetwork => Code::HostNetwork,
        Topic::HostNetworkDns => Code::HostNetworkDns,
        Topic::MemoryVolume => Code::MemoryVolume,
        Topic::HugePages => Code::HugePages,
        Topic::BlockVolume => Code::BlockVolume,
        Topic::MountPropagation => Code::MountPropagation,
        Topic::SubPath => Code::SubPath,
        Topic::Nfs => Code::NfsVolume,
        Topic::FileMode => Code::FileMode,
        Topic::Resize => Code::ResizePolicy,
        Topic::ResourceClaims => Code::ResourceClaims,
    };
    Finding::new(code, path, what)
}

fn in_words(topic: Topic, several_sub_paths_fail: bool) -> &'static str {
    match topic {
        Topic::HostNetwork => "the pod asks for the host's network and is not HostProcess",
        Topic::HostNetworkDns => "dnsPolicy is ClusterFirstWithHostNet",
        Topic::MemoryVolume => "a volume in memory",
        Topic::HugePages => "huge pages",
        Topic::BlockVolume => "a raw block volume",
        Topic::MountPropagation => "mountPropagation",
        Topic::SubPath if several_sub_paths_fail => "one of several subPath mounts",
        Topic::SubPath => "a part of a volume",
        Topic::Nfs => "an NFS volume",
        Topic::FileMode => "the mode of a file",
        Topic::Resize => "resizePolicy",
        Topic::ResourceClaims => "devices that are claimed",
    }
}

/// Everything about the fields of a pod for Windows.
pub(super) fn check(spec: &Value, target: Target) -> Vec<Finding> {
    let mut findings = fields(spec, target.minor);
    findings.extend(host_process(spec));
    findings.extend(administrator(spec));
    findings.extend(grace_period(spec, target.runtime));
    findings.extend(stop_signals(spec, target.minor));
    findings
}

/// Signals that the API server does not take in a pod for Windows.
fn stop_signals(spec: &Value, minor: Minor) -> Vec<Finding> {
    let says_windows = spec["os"]["name"] == "windows";
    let written = at(spec, STOP_SIGNAL).into_iter().filter(|_| minor >= STOP_SIGNAL_SINCE);
    let odd = written.filter_map(|(path, value)| {
        let signal = value.as_str()?;
        match (says_windows, STOP_SIGNALS.contains(&signal)) {
            (true, true) => None,
            (true, false) => Some((path, format!("the signal {signal}"))),
            (false, _) => Some((path, format!("the signal {signal} in a pod without os.name: windows"))),
        }
    });
    odd.map(|(path, what)| Finding::new(Code::StopSignal, path, what)).collect()
}

/// A system of which the API server knows nothing.
pub(super) fn os_name(spec: &Value, minor: Minor) -> Option<Finding> {
    let os = Some(&spec["os"]).filter(|os| os.is_object() && minor >= OS_NAME_SINCE)?;
    let name = os["name"].as_str().unwrap_or_default();
    let what = match name {
        "windows" | "linux" => return None,
        "" => "os has no name".to_owned(),
        _ => format!("{name:?} is no system: there are windows and linux, in lower case"),
    };
    let instead = if name.eq_ignore_ascii_case("linux") { "write name: linux" } else { "write name: windows" };
    Some(Finding::new(Code::PodInvalid, "os.name", what).instead(instead))
}

/// Windows options in a pod that says it is for Linux.
pub(super) fn refused_on_linux(spec: &Value, minor: Minor) -> Vec<Finding> {
    let found = WINDOWS_OPTIONS.iter().flat_map(|pattern| written(spec, pattern, Written::Any));
    let found = found.filter(|_| minor >= OS_NAME_SINCE);
    found.map(|path| Finding::new(Code::WindowsOptionsRefused, path, "os.name is linux")).collect()
}

/// What a container's windowsOptions say, or else those of its pod, with its path.
fn option<'v>(spec: &'v Value, container: &(String, &'v Value), name: &str) -> Option<(String, &'v Value)> {
    let field = format!("securityContext.windowsOptions.{name}");
    let own =
        at(container.1, &field).into_iter().next().map(|(path, value)| (format!("{}.{path}", container.0), value));
    own.or_else(|| at(spec, &field).into_iter().next())
}

fn is_host_process(spec: &Value, container: &(String, &Value)) -> bool {
    option(spec, container, "hostProcess").is_some_and(|(_, value)| *value == true)
}

fn has_host_process(spec: &Value) -> bool {
    at(spec, "containers[]").iter().any(|container| is_host_process(spec, container))
}

fn host_process(spec: &Value) -> Vec<Finding> {
    let containers = at(spec, "containers[]");
    let (host, other): (Vec<_>, Vec<_>) =
        containers.into_iter().partition(|container| is_host_process(spec, container));
    if host.is_empty() {
        return Vec::new();
    }
    let mut findings: Vec<_> = other
        .into_iter()
        .map(|(path, _)| Finding::new(Code::HostProcess, path, "this container is not HostProcess, and another is"))
        .collect();
    if spec["hostNetwork"] != true {
        findings.push(Finding::new(Code::HostProcess, "hostNetwork", "hostNetwork is not true"));
    }
    findings
}

fn administrator(spec: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for container in at(spec, "containers[]") {
        let own = &container.1["securityContext"]["runAsNonRoot"];
        let effective = if own.is_null() { &spec["securityContext"]["runAsNonRoot"] } else { own };
        let user = option(spec, &container, "runAsUserName");
        let Some((path, user)) = user.filter(|_| *effective == true) else { continue };
        if user.as_str().is_some_and(|user| user.eq_ignore_ascii_case(ADMINISTRATOR)) {
            let what = "runAsNonRoot is true, and the user is ContainerAdministrator";
            findings.push(Finding::new(Code::RunAsNonRootAdministrator, path, what));
        }
    }
    // Several containers may have the pod's user.
    findings.dedup();
    findings
}

fn grace_period(spec: &Value, runtime: Runtime) -> Option<Finding> {
    let seconds = spec["terminationGracePeriodSeconds"].as_u64().filter(|_| runtime != Runtime::Containerd)?;
    if seconds == DEFAULT_GRACE_PERIOD {
        return None;
    }
    Some(Finding::new(Code::GracePeriodDocker, "terminationGracePeriodSeconds", format!("{seconds} seconds")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A value with which a field counts as written.
    fn value(written: Written) -> Value {
        match written {
            Written::Any => json!({}),
            Written::True => json!(true),
            Written::Text(text) => json!(text),
            Written::NotNumber(_) => json!(0o400),
            Written::NotText(_) => json!("Bidirectional"),
            Written::Filled => json!(["x"]),
        }
    }

    /// A spec with one field, by its pattern.
    fn with(pattern: &str, value: Value) -> Value {
        pattern.rsplit('.').fold(value, |inner, step| match step.split_once('[') {
            None => json!({step: inner}),
            Some((list, "]")) => json!({list: [inner]}),
            Some((map, key)) => json!({map: {key.trim_end_matches(']'): inner}}),
        })
    }

    #[test]
    fn every_field_of_the_tables_is_found_by_every_minor() {
        for minor in (14..=37).map(Minor) {
            for field in REFUSED.iter().chain(REFUSED_UNLISTED) {
                let mut spec = with(field.path, value(field.written));
                let codes = |spec: &Value| fields(spec, minor).iter().map(|finding| finding.code).collect::<Vec<_>>();
                assert_eq!(codes(&spec), [Code::FieldIgnored], "{} in {minor}", field.path);
                spec["os"] = json!({"name": "windows"});
                let expected = if field.since <= minor { Code::FieldRefused } else { Code::FieldIgnored };
                assert_eq!(codes(&spec), [expected], "{} in {minor}", field.path);
            }
            for field in IDLE {
                let found = fields(&with(field.path, value(field.written)), minor);
                assert_eq!(found.len(), 1, "{} in {minor}: {found:?}", field.path);
                assert_eq!(found[0].path, field.path.replace("[]", "[0]"));
            }
        }
    }

    #[test]
    fn a_field_that_does_nothing_is_said_to_leave_something_open_only_if_it_would_protect() {
        let table = [
            ("containers[].securityContext.readOnlyRootFilesystem", true),
            ("securityContext.seccompProfile", true),
            ("containers[].securityContext.privileged", false),
            ("securityContext.runAsUser", false),
            ("hostPID", false),
        ];
        for (path, expected) in table {
            let found = fields(&with(path, json!(true)), Minor(22));
            assert_eq!(found[0].message.contains("not protected"), expected, "{path}: {}", found[0].message);
        }
    }

    #[test]
    fn a_system_is_named_in_lower_case() {
        let table = [
            (json!({"os": {"name": "Windows"}}), Some("write name: windows")),
            (json!({"os": {"name": "LINUX"}}), Some("write name: linux")),
            (json!({"os": {}}), Some("write name: windows")),
            (json!({"os": {"name": "windows"}}), None),
            (json!({}), None),
        ];
        for (spec, expected) in table {
            let found = os_name(&spec, Minor(34)).map(|finding| finding.remedy);
            assert_eq!(found.as_deref(), expected, "{spec}");
            assert_eq!(os_name(&spec, Minor(22)), None, "the field is not there yet");
        }
    }

    #[test]
    fn a_stop_signal_is_one_of_two_beside_the_name_of_the_system() {
        let told = |os: Value, signal: &str, minor| {
            let spec = json!({"os": os, "containers": [{"lifecycle": {"stopSignal": signal}}]});
            stop_signals(&spec, Minor(minor)).len()
        };
        let windows = || json!({"name": "windows"});
        let table = [
            (windows(), "SIGTERM", 36, 0),
            (windows(), "SIGKILL", 36, 0),
            (windows(), "SIGUSR1", 36, 1),
            (windows(), "SIGUSR1", 32, 0),
            (Value::Null, "SIGTERM", 36, 1),
        ];
        for (os, signal, minor, expected) in table {
            assert_eq!(told(os.clone(), signal, minor), expected, "{os} {signal} in 1.{minor}");
        }
    }

    #[test]
    fn what_is_written_without_a_meaning_is_not_told() {
        let quiet = json!({
            "hostPID": false, "hostNetwork": false, "dnsPolicy": "ClusterFirst",
            "securityContext": {"sysctls": [], "fsGroup": null, "runAsNonRoot": true, "windowsOptions": {}},
            "volumes": [{"emptyDir": {}}, {"secret": {"defaultMode": 420}}],
            "containers": [{"volumeDevices": [], "volumeMounts": [{"mountPropagation": "None", "subPath": ""}]}],
        });
        assert_eq!(fields(&quiet, Minor(37)), []);
    }

    #[test]
    fn a_host_process_pod_is_so_in_all_its_containers_and_on_the_host_network() {
        let paths = |spec: Value| host_process(&spec).into_iter().map(|finding| finding.path).collect::<Vec<_>>();
        let own = |on: bool| json!({"securityContext": {"windowsOptions": {"hostProcess": on}}});
        let of_pod = own(true)["securityContext"].clone();
        let none: [&str; 0] = [];
        assert_eq!(paths(json!({"containers": [{}]})), none);
        assert_eq!(paths(json!({"hostNetwork": true, "securityContext": of_pod, "containers": [{}]})), none);
        assert_eq!(paths(json!({"hostNetwork": true, "containers": [own(true), {}]})), ["containers[1]"]);
        assert_eq!(
            paths(json!({"securityContext": of_pod, "initContainers": [own(false)], "containers": [{}]})),
            ["initContainers[0]", "hostNetwork"]
        );
    }
}
