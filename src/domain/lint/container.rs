//! Resources, mounts and environment of the containers of a pod for Windows.

use serde_json::Value;

use super::{Code, Finding, Target, path::fields as at};
use crate::{
    domain::workload::{Container, Template},
    facts::{Minor, pod_fields::ENV_COLON_SINCE, runtimes::Runtime},
};

/// Characters that no path of Windows has.
const FORBIDDEN: [char; 6] = ['*', '?', '"', '<', '>', '|'];

pub fn check(template: &Template, spec: &Value, target: Target) -> Vec<Finding> {
    let mut findings = memory(template, spec);
    let mounts = at(spec, "containers[].volumeMounts[].mountPath");
    findings.extend(mounts.iter().filter_map(|mount| mount_path(mount, target.runtime)));
    let sources = at(spec, "volumes[].hostPath.path");
    findings.extend(sources.iter().filter_map(|source| escaped(source, target.runtime)));
    findings.extend(env_names(spec, target.minor));
    findings
}

/// Init containers run before the others and not beside them, unless they are sidecars, and HostProcess containers are
/// processes of the host: these do not count.
fn memory(template: &Template, spec: &Value) -> Vec<Finding> {
    let written = at(spec, "containers[]");
    let containers = template.containers.iter().zip(&written);
    let counted = containers.filter(|(container, _)| !container.host_process && !container.init);
    counted.filter_map(|(container, (path, written))| memory_of(container, path, written)).collect()
}

fn memory_of(container: &Container, path: &str, written: &Value) -> Option<Finding> {
    match (container.memory_request, container.memory_limit) {
        // A limit that is no amount is told as such.
        (_, None) if written["resources"]["limits"]["memory"].is_null() => {
            let what = format!("container {} has no memory limit", container.name);
            Some(Finding::new(Code::MemoryLimitMissing, path, what))
        }
        (Some(request), Some(limit)) if request < limit => {
            let what = format!("container {} asks for less memory than it may have", container.name);
            Some(Finding::new(Code::MemoryRequestDiffers, format!("{path}.resources.requests.memory"), what))
        }
        _ => None,
    }
}

fn mount_path(field: &(String, &Value), runtime: Runtime) -> Option<Finding> {
    let path = field.1.as_str()?;
    escaped(field, runtime).or_else(|| {
        let wrong = wrong_with(path)?;
        Some(Finding::new(Code::MountPathInvalid, &field.0, format!("{path:?} {wrong}")))
    })
}

/// A finding about backslashes that are not what was meant. containerd cleans every path but those of named pipes
/// (containerd/containerd, `internal/cri/opts/spec_windows_opts.go`, `parseMount`, 2.x); Docker's patterns have no two
/// backslashes one after the other (moby/moby, `volume/mounts/windows_parser.go`, 2025-04).
fn escaped((field, value): &(String, &Value), runtime: Runtime) -> Option<Finding> {
    let path = value.as_str()?;
    let single = path.replace(r"\\", r"\");
    // Shares and named pipes begin with two backslashes.
    let behind = path.strip_prefix(r"\\").unwrap_or(path);
    let is_pipe =
        [path, &single].iter().any(|path| path.trim_start_matches('\\').to_lowercase().starts_with(r".\pipe\"));
    let (code, wrong) = if path.chars().any(char::is_control) {
        (Code::MountPathEscape, "has a control character")
    } else if !behind.contains(r"\\") {
        return None;
    } else if is_pipe {
        (Code::MountPathEscape, "has doubled backslashes, and the name of a pipe is taken as it is written")
    } else if runtime != Runtime::Containerd {
        (Code::MountPathEscape, "has doubled backslashes, and Docker takes no such path")
    } else {
        (Code::MountPathDoubled, "has doubled backslashes")
    };
    Some(Finding::new(code, field, format!("{path:?} {wrong}")))
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
            ("C:\temp", "has a control character"),
        ];
        for (path, expected) in table {
            let found = mount_path(&(String::new(), &json!(path)), Runtime::Containerd);
            let wrong = found.map(|finding| finding.message).unwrap_or_default();
            assert!(wrong.contains(expected), "{path}: {wrong}");
            assert_eq!(wrong.is_empty(), expected.is_empty(), "{path}: {wrong}");
        }
    }

    #[test]
    fn doubled_backslashes_fail_where_nobody_cleans_the_path() {
        let (error, note) = (Some(Code::MountPathEscape), Some(Code::MountPathDoubled));
        let table = [
            (r"C:\\data", note, error),
            (r"\data\\logs", note, error),
            (r"\\server\share\\data", note, error),
            (r"\\.\pipe\docker_engine", None, None),
            (r"\\\\.\\pipe\\docker_engine", error, error),
            (r"\\.\pipe\\docker_engine", error, error),
            (r"\\server\share", None, None),
        ];
        for (path, containerd, docker) in table {
            for (runtime, expected) in [(Runtime::Containerd, containerd), (Runtime::CriDockerd, docker)] {
                let found = escaped(&(String::new(), &json!(path)), runtime).map(|finding| finding.code);
                assert_eq!(found, expected, "{path} {runtime:?}");
            }
        }
    }

    #[test]
    fn sidecars_have_memory_beside_the_others_and_init_containers_have_not() {
        let spec = json!({
            "initContainers": [{"name": "first"}, {"name": "log", "restartPolicy": "Always"}],
            "containers": [{"name": "web", "resources": {"limits": {"memory": "1GB"}}}],
        });
        let template =
            Template::from(&serde_json::from_value::<k8s_openapi::api::core::v1::PodSpec>(spec.clone()).unwrap());
        let paths: Vec<_> = memory(&template, &spec).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["initContainers[1]"], "of a limit that is no amount something else is said");
    }
}
