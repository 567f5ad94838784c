//! Resources, mounts and environment of the containers of a pod for Windows.

use serde_json::Value;

use super::{Code, Finding, Target, image::container_paths, path::fields as at};
use crate::{
    domain::workload::Template,
    facts::{Minor, pod_fields::ENV_COLON_SINCE},
};

/// Characters that no path of Windows has.
const FORBIDDEN: [char; 6] = ['*', '?', '"', '<', '>', '|'];

pub fn check(template: &Template, spec: &Value, target: Target) -> Vec<Finding> {
    let mut findings = memory(template, spec);
    findings.extend(at(spec, "containers[].volumeMounts[].mountPath").iter().filter_map(mount_path));
    findings.extend(at(spec, "volumes[].hostPath.path").iter().filter_map(escaped));
    findings.extend(env_names(spec, target.minor));
    findings
}

/// Init containers run before the others and not beside them, and HostProcess containers are processes of the host: only
/// the others count.
fn memory(template: &Template, spec: &Value) -> Vec<Finding> {
    let containers = template.containers.iter().zip(container_paths(spec));
    let finding = |(container, path): (&crate::domain::workload::Container, String)| match (
        container.memory_request,
        container.memory_limit,
    ) {
        (_, None) => {
            let what = format!("container {} has no memory limit", container.name);
            Some(Finding::new(Code::MemoryLimitMissing, path, what))
        }
        (Some(request), Some(limit)) if request < limit => {
            let what = format!("container {} asks for less memory than it may have", container.name);
            Some(Finding::new(Code::MemoryRequestDiffers, format!("{path}.resources.requests.memory"), what))
        }
        _ => None,
    };
    containers
        .filter(|(container, path)| !container.host_process && !path.starts_with("init"))
        .filter_map(finding)
        .collect()
}

fn mount_path(field: &(String, &Value)) -> Option<Finding> {
    let path = field.1.as_str()?;
    escaped(field).or_else(|| {
        let wrong = wrong_with(path)?;
        Some(Finding::new(Code::MountPathInvalid, &field.0, format!("{path:?} {wrong}")))
    })
}

/// A finding about backslashes that are not what was meant.
fn escaped((field, value): &(String, &Value)) -> Option<Finding> {
    let path = value.as_str()?;
    // Shares and named pipes begin with two backslashes.
    let behind = path.strip_prefix(r"\\").unwrap_or(path);
    let wrong = if path.chars().any(char::is_control) {
        "has a control character"
    } else if behind.contains(r"\\") {
        "has doubled backslashes"
    } else {
        return None;
    };
    Some(Finding::new(Code::MountPathEscape, field, format!("{path:?} {wrong}")))
}

/// What is wrong with a path in a container (moby/moby, `volume/mounts/windows_parser.go`, 2025-04, and the kubelet's
/// `MakeAbsolutePath`, which puts `c:` before what has no drive).
fn wrong_with(path: &str) -> Option<&'static str> {
    let is_pipe = path.replace('/', r"\").to_lowercase().starts_with(r"\\.\pipe\");
    let (drive, rest) = match path.as_bytes() {
        [letter, b':', ..] if letter.is_ascii_alphabetic() => (Some(letter.to_ascii_lowercase()), &path[2..]),
        _ => (None, path),
    };
    if rest.contains(FORBIDDEN) || rest.contains(':') {
        Some("has a character that no path has")
    } else if is_pipe {
        None
    } else if drive == Some(b'c') && ["", "/", r"\"].contains(&rest) {
        Some("is the system drive of the container")
    } else if drive.is_some() && !rest.is_empty() && !rest.starts_with(['/', '\\']) {
        Some("is relative to the drive")
    } else {
        None
    }
}

fn env_names(spec: &Value, minor: Minor) -> Vec<Finding> {
    if minor >= ENV_COLON_SINCE {
        return Vec::new();
    }
    let names =
        ["containers[].env[].name", "containers[].envFrom[].prefix"].iter().flat_map(|pattern| at(spec, pattern));
    let with_colon = names.filter_map(|(path, name)| Some((path, name.as_str().filter(|name| name.contains(':'))?)));
    let finding = |(path, name): (String, &str)| {
        let what = format!("{name:?} in Kubernetes {minor}");
        Finding::new(Code::EnvNameColon, path, what).instead(format!("write {}", name.replace(':', "__")))
    };
    with_colon.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_those_of_windows() {
        let table = [
            (r"C:\data", ""),
            ("C:/data", ""),
            ("/data", ""),
            (r"\data\logs", ""),
            ("data", ""),
            ("D:", ""),
            (r"D:\", ""),
            (r"\\.\pipe\docker_engine", ""),
            ("//./pipe/docker_engine", ""),
            ("C:", "is the system drive of the container"),
            ("c:/", "is the system drive of the container"),
            ("C:data", "is relative to the drive"),
            ("/data/a:b", "has a character that no path has"),
            ("C:\\data*", "has a character that no path has"),
            ("C:\\\\data", "has doubled backslashes"),
            (r"\\\\.\\pipe\\docker_engine", "has doubled backslashes"),
            ("C:\temp", "has a control character"),
        ];
        for (path, expected) in table {
            let found = mount_path(&(String::new(), &json!(path)));
            let wrong = found.map(|finding| finding.message).unwrap_or_default();
            assert!(wrong.contains(expected), "{path}: {wrong}");
            assert_eq!(wrong.is_empty(), expected.is_empty(), "{path}: {wrong}");
        }
    }
}
