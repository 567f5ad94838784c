//! The fields of a pod spec.

use serde_json::Value;
use winpool_core::json_path::fields as at;
use winpool_facts::{
    ContainerRuntime, Minor,
    pod_fields::{Feature, MAX_DNS_SEARCHES, RejectedField, STOP_SIGNAL, STOP_SIGNAL_SINCE, STOP_SIGNALS, ValueMatch},
};
use winpool_workload::{FieldIssue, FieldIssueKind, field_paths};

use super::{Code, Finding, TargetCluster, Workload, docker, host_process, windows_options};

/// The first minor whose kubelet does not set the owner of a token on Windows (kubernetes/kubernetes, pull request 125040), and the minor
/// whose later patch releases do not either (`atomic_writer_unsupported.go` of 1.30.14; openshift/kubernetes pull request 2198 has it in
/// 1.30.9). Read on 2026-11-29.
const TOKEN_WITHOUT_OWNER_SINCE: Minor = Minor(31);
const TOKEN_WITHOUT_OWNER_BACKPORT: (Minor, &str) = (Minor(30), " before 1.30.9");

/// The default of the API server (kubernetes/api, `core/v1/types.go`).
const DEFAULT_GRACE_PERIOD: u64 = 30;

/// The fields of a pod spec for Windows that the API server rejects, or that have no effect or fail, with paths in the
/// spec.
fn fields(spec: &Value, minor: Minor) -> Vec<Finding> {
    let fails = minor < TOKEN_WITHOUT_OWNER_SINCE && has_owned_token(spec);
    let issues = winpool_workload::field_issues(spec, minor).into_iter();
    issues
        .map(|issue| if fails && is_ignored_user(&issue) { token_owner(issue.path, minor) } else { finding(issue) })
        .collect()
}

fn is_ignored_user(FieldIssue { path, kind }: &FieldIssue) -> bool {
    matches!(kind, FieldIssueKind::Ignored(_)) && path.ends_with("securityContext.runAsUser")
}

/// A user for whom the kubelet sets the owner of a token, which fails on Windows.
fn token_owner(path: String, minor: Minor) -> Finding {
    let patch = if minor == TOKEN_WITHOUT_OWNER_BACKPORT.0 { TOKEN_WITHOUT_OWNER_BACKPORT.1 } else { "" };
    let problem =
        format!("kubelets of Kubernetes {minor}{patch} cannot mount the token of the pod, because it has runAsUser");
    Finding::new(Code::RunAsUser, path, problem)
}

/// Whether the kubelet sets the owner of a token: all containers have the same user, and the token is mounted (kubernetes/kubernetes,
/// `FsUserFrom` in `pkg/volume/util/util.go`, 1.30.14).
fn has_owned_token(spec: &Value) -> bool {
    let of_pod = &spec["securityContext"]["runAsUser"];
    let containers = at(spec, "containers[]").into_iter();
    let users: Vec<&Value> = containers
        .map(|(_, container)| {
            Some(&container["securityContext"]["runAsUser"]).filter(|own| !own.is_null()).unwrap_or(of_pod)
        })
        .collect();
    let is_one = users.first().is_some_and(|first| !first.is_null() && users.iter().all(|user| user == first));
    let is_mounted = spec["automountServiceAccountToken"] != false
        || !at(spec, "volumes[].projected.sources[].serviceAccountToken").is_empty();
    is_one && is_mounted
}

fn finding(FieldIssue { path, kind }: FieldIssue) -> Finding {
    let name = |field: &RejectedField| field.path.rsplit('.').next().unwrap_or_default().to_owned();
    match kind {
        FieldIssueKind::Rejected(field) => {
            let problem = format!("{} is rejected since Kubernetes {}", name(field), field.since);
            Finding::new(Code::FieldRefused, path, problem).with_remedy(field.remedy)
        }
        FieldIssueKind::Ignored(field) => {
            let consequence = if field.is_restriction { ", so the pod is not protected by it" } else { "" };
            let problem = format!("{} has no effect{consequence}", name(field));
            Finding::new(Code::FieldIgnored, path, problem).with_remedy(field.remedy)
        }
        FieldIssueKind::SeveralSubPaths => {
            Finding::new(Code::SubPath, path, "the pod has several mounts with a subPath")
        }
        FieldIssueKind::Unsupported(field) => {
            let (code, problem) = unsupported(field.feature);
            Finding::new(code, path, problem)
        }
    }
}

fn unsupported(feature: Feature) -> (Code, &'static str) {
    match feature {
        Feature::HostNetwork => (Code::HostNetwork, "hostNetwork is true, and the pod is not a HostProcess pod"),
        Feature::HostNetworkDns => (Code::HostNetworkDns, "dnsPolicy is ClusterFirstWithHostNet"),
        Feature::MemoryVolume => (Code::MemoryVolume, "the medium of the volume is memory"),
        Feature::HugePages => (Code::HugePages, "the pod uses huge pages"),
        Feature::BlockVolume => (Code::BlockVolume, "the container uses a raw block device"),
        Feature::MountPropagation => (Code::MountPropagation, "mountPropagation is set"),
        Feature::SubPath => (Code::SubPath, "the mount has a subPath"),
        Feature::Nfs => (Code::NfsVolume, "the volume is an NFS volume"),
        Feature::Iscsi => (Code::IscsiVolume, "the volume is an iSCSI volume"),
        Feature::FileMode => (Code::FileMode, "the volume has file modes"),
        Feature::Resize => (Code::ResizePolicy, "resizePolicy is set"),
        Feature::ResourceClaims => (Code::ResourceClaims, "the pod has resource claims"),
    }
}

/// The findings about the fields of a pod for Windows.
pub(super) fn check(workload: &Workload<'_>, spec: &Value, target: TargetCluster) -> Vec<Finding> {
    let of_docker = docker::check(spec, target.runtime);
    let mut findings = fields(spec, target.minor);
    // A single file is no matter of the version of containerd.
    findings
        .retain(|finding| finding.code != Code::SubPath || of_docker.iter().all(|docker| docker.path != finding.path));
    findings.extend(of_docker);
    findings.extend(host_process::check(workload, spec));
    findings.extend(windows_options::check(spec));
    findings.extend(grace_period(spec, target.runtime));
    findings.extend(stop_signals(spec, target.minor));
    findings.extend(dns_searches(spec));
    findings
}

/// Signals that the API server rejects or drops in a pod for Windows.
fn stop_signals(spec: &Value, minor: Minor) -> Vec<Finding> {
    let is_windows = spec["os"]["name"] == "windows";
    let signals = at(spec, STOP_SIGNAL).into_iter().filter(|_| minor >= STOP_SIGNAL_SINCE);
    let finding = |(path, value): (String, &Value)| {
        let signal = value.as_str()?;
        let problem = match (is_windows, STOP_SIGNALS.contains(&signal)) {
            (true, true) => return None,
            (true, false) => format!("stopSignal is {signal}"),
            (false, _) => format!("stopSignal is {signal}, and os.name is not windows"),
        };
        Some(Finding::new(Code::StopSignal, path, problem))
    };
    signals.filter_map(finding).collect()
}

/// Search domains that Windows ignores.
fn dns_searches(spec: &Value) -> Option<Finding> {
    let count = spec["dnsConfig"]["searches"].as_array().map_or(0, Vec::len);
    let problem = format!("dnsConfig.searches has {count} entries");
    (count > MAX_DNS_SEARCHES).then(|| Finding::new(Code::DnsSearches, "dnsConfig.searches", problem))
}

/// An invalid `os.name`.
pub(super) fn os_name(spec: &Value) -> Option<Finding> {
    let os = Some(&spec["os"]).filter(|os| os.is_object())?;
    let name = os["name"].as_str().unwrap_or_default();
    let problem = match name {
        "windows" | "linux" => return None,
        "" => "os.name is missing".to_owned(),
        _ => format!("{name:?} must be windows or linux, in lower case"),
    };
    let remedy = if name.eq_ignore_ascii_case("linux") { "write name: linux" } else { "write name: windows" };
    Some(Finding::new(Code::PodInvalid, "os.name", problem).with_remedy(remedy))
}

/// `windowsOptions` in a pod with `spec.os.name: linux`.
pub(super) fn windows_options_on_linux(spec: &Value) -> Vec<Finding> {
    let finding = |path| Finding::new(Code::WindowsOptionsRefused, path, "os.name is linux");
    windows_options(spec).map(finding).collect()
}

/// `windowsOptions` in a pod that selects Linux nodes.
pub(super) fn windows_options_beside_linux_selector(spec: &Value) -> Vec<Finding> {
    let finding = |path| Finding::new(Code::WindowsOptionsIgnored, path, "the pod selects Linux nodes");
    windows_options(spec).map(finding).collect()
}

fn windows_options(spec: &Value) -> impl Iterator<Item = String> {
    windows_options::OPTIONS.iter().flat_map(|pattern| field_paths(spec, pattern, ValueMatch::Any))
}

fn grace_period(spec: &Value, runtime: ContainerRuntime) -> Option<Finding> {
    let seconds =
        spec["terminationGracePeriodSeconds"].as_u64().filter(|_| runtime != ContainerRuntime::Containerd(()))?;
    if seconds == DEFAULT_GRACE_PERIOD {
        return None;
    }
    let problem = format!("terminationGracePeriodSeconds is {seconds}");
    Some(Finding::new(Code::GracePeriodDocker, "terminationGracePeriodSeconds", problem))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use winpool_facts::pod_fields::{REJECTED, REJECTED_UNLISTED, UNSUPPORTED};

    use super::*;

    /// A value to which the rule of a field applies.
    fn value(values: ValueMatch) -> Value {
        match values {
            ValueMatch::Any => json!({}),
            ValueMatch::True => json!(true),
            ValueMatch::Equals(text) => json!(text),
            ValueMatch::NumberExcept(_) => json!(0o400),
            ValueMatch::StringExcept(_) => json!("Bidirectional"),
            ValueMatch::NonEmpty => json!(["x"]),
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
    fn every_field_of_the_tables_is_found_for_every_minor() {
        for minor in (30..=37).map(Minor) {
            for field in REJECTED.iter().chain(REJECTED_UNLISTED) {
                let mut spec = with(field.path, value(field.values));
                // With a token runAsUser is more than ignored by old kubelets.
                spec["automountServiceAccountToken"] = json!(false);
                let codes = |spec: &Value| fields(spec, minor).iter().map(|finding| finding.code).collect::<Vec<_>>();
                assert_eq!(codes(&spec), [Code::FieldIgnored], "{} in {minor}", field.path);
                spec["os"] = json!({"name": "windows"});
                let expected = if field.since <= minor { Code::FieldRefused } else { Code::FieldIgnored };
                assert_eq!(codes(&spec), [expected], "{} in {minor}", field.path);
            }
            for field in UNSUPPORTED {
                let found = fields(&with(field.path, value(field.values)), minor);
                assert_eq!(found.len(), 1, "{} in {minor}: {found:?}", field.path);
                assert_eq!(found[0].path, field.path.replace("[]", "[0]"));
            }
        }
    }

    #[test]
    fn an_ignored_field_that_protects_the_pod_is_reported_as_such() {
        let table = [
            ("containers[].securityContext.readOnlyRootFilesystem", true),
            ("securityContext.seccompProfile", true),
            ("containers[].securityContext.privileged", false),
            ("securityContext.runAsUser", false),
            ("hostPID", false),
        ];
        for (path, expected) in table {
            let found = fields(&with(path, json!(true)), Minor(34));
            assert_eq!(found[0].problem.contains("not protected"), expected, "{path}: {}", found[0].problem);
        }
    }

    #[test]
    fn os_name_is_in_lower_case() {
        let table = [
            (json!({"os": {"name": "Windows"}}), Some("write name: windows")),
            (json!({"os": {"name": "LINUX"}}), Some("write name: linux")),
            (json!({"os": {}}), Some("write name: windows")),
            (json!({"os": {"name": "windows"}}), None),
            (json!({}), None),
        ];
        for (spec, expected) in table {
            let found = os_name(&spec).map(|finding| finding.remedy);
            assert_eq!(found.as_deref(), expected, "{spec}");
        }
    }

    #[test]
    fn a_stop_signal_is_one_of_two_and_needs_os_name() {
        let findings = |os: Value, signal: &str, minor| {
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
            assert_eq!(findings(os.clone(), signal, minor), expected, "{os} {signal} in 1.{minor}");
        }
    }

    #[test]
    fn default_and_empty_values_have_no_findings() {
        let defaults = json!({
            "hostPID": false, "hostNetwork": false, "dnsPolicy": "ClusterFirst",
            "securityContext": {"sysctls": [], "fsGroup": null, "runAsNonRoot": true, "windowsOptions": {}},
            "volumes": [{"emptyDir": {}}, {"secret": {"defaultMode": 420}}],
            "containers": [{"volumeDevices": [], "volumeMounts": [{"mountPropagation": "None", "subPath": ""}]}],
        });
        assert_eq!(fields(&defaults, Minor(37)), []);
    }
}
