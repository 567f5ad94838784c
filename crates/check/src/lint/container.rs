//! Resources, mounts and environment variables of the containers of a pod for Windows.

use serde_json::Value;
use winpool_core::{json_path::fields as at, kubernetes::quantity::Quantity};
use winpool_facts::{
    ContainerRuntime, Minor,
    pod_fields::{ENV_COLON_SINCE, MIN_MEMORY_LIMIT},
};
use winpool_workload::{Container, Template};

use super::{Code, Finding, TargetCluster};

/// Characters that are invalid in paths on Windows.
const FORBIDDEN: [char; 6] = ['*', '?', '"', '<', '>', '|'];

pub fn check(template: &Template, spec: &Value, target: TargetCluster) -> Vec<Finding> {
    let mut findings = memory(template, spec);
    findings.extend(tiny_memory(spec));
    let mounts = at(spec, "containers[].volumeMounts[].mountPath");
    findings.extend(mounts.iter().filter_map(|mount| mount_path(mount, target.runtime)));
    let sources = at(spec, "volumes[].hostPath.path");
    findings.extend(sources.iter().filter_map(|source| escaped(source, target.runtime)));
    findings.extend(env_names(spec, target.minor));
    findings
}

/// Ignores init containers that are not sidecars, because they end before the others start, and HostProcess containers,
/// because they are processes of the host.
fn memory(template: &Template, spec: &Value) -> Vec<Finding> {
    let values = at(spec, "containers[]");
    let containers = template.containers.iter().zip(&values);
    let lasting = containers.filter(|(container, _)| !container.host_process && !container.init);
    lasting.filter_map(|(container, (path, value))| memory_of(container, path, value)).collect()
}

/// Memory limits that Windows rounds down to none, and requests that stand for a few bytes.
fn tiny_memory(spec: &Value) -> Vec<Finding> {
    let fields = ["containers[].resources.limits[memory]", "containers[].resources.requests[memory]"];
    let finding = |(path, value): (String, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let bytes = text.parse::<Quantity>().ok()?.bytes();
        // A request of zero is common, and changes nothing.
        let is_tiny = bytes < MIN_MEMORY_LIMIT && !(bytes == 0 && path.contains("requests"));
        let finding = || Finding::new(Code::MemoryTiny, path, format!("the amount {text} is less than 1Mi"));
        let number = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
        let meant = ["m", "", "k", "K"].into_iter().find(|suffix| text == format!("{number}{suffix}"));
        is_tiny.then(|| match meant.filter(|_| bytes != 0) {
            Some(_) => finding().with_remedy(format!("write {number}Mi")),
            None => finding(),
        })
    };
    fields.iter().flat_map(|field| at(spec, field)).filter_map(finding).collect()
}

fn memory_of(container: &Container, path: &str, value: &Value) -> Option<Finding> {
    match (container.memory_request, container.memory_limit) {
        // An invalid limit has a separate finding.
        (_, None) if value["resources"]["limits"]["memory"].is_null() => {
            let problem = format!("container {} has no memory limit", container.name);
            Some(Finding::new(Code::MemoryLimitMissing, path, problem))
        }
        (Some(request), Some(limit)) if request < limit => {
            let problem = format!("container {} requests less memory than its limit", container.name);
            Some(Finding::new(Code::MemoryRequestDiffers, format!("{path}.resources.requests.memory"), problem))
        }
        _ => None,
    }
}

fn mount_path(field: &(String, &Value), runtime: ContainerRuntime) -> Option<Finding> {
    let path = field.1.as_str()?;
    escaped(field, runtime).or_else(|| {
        let problem = path_problem(path)?;
        Some(Finding::new(Code::MountPathInvalid, &field.0, format!("{path:?} {problem}")))
    })
}

/// Backslashes that YAML did not read as intended. containerd normalizes all paths except those of named pipes
/// (containerd/containerd, `internal/cri/opts/spec_windows_opts.go`, `parseMount`, 2.x). The patterns of Docker do not allow
/// doubled backslashes (moby/moby, `volume/mounts/windows_parser.go`, 2025-04).
fn escaped((field, value): &(String, &Value), runtime: ContainerRuntime) -> Option<Finding> {
    let path = value.as_str()?;
    let single = path.replace(r"\\", r"\");
    // Shares and named pipes start with two backslashes.
    let rest = path.strip_prefix(r"\\").unwrap_or(path);
    let is_pipe =
        [path, &single].iter().any(|path| path.trim_start_matches('\\').to_lowercase().starts_with(r".\pipe\"));
    let (code, problem) = if path.chars().any(char::is_control) {
        (Code::MountPathEscape, "has a control character")
    } else if !rest.contains(r"\\") {
        return None;
    } else if is_pipe {
        (Code::MountPathEscape, "has doubled backslashes, which are invalid in the name of a pipe")
    } else if runtime != ContainerRuntime::Containerd(()) {
        (Code::MountPathEscape, "has doubled backslashes, which Docker rejects")
    } else {
        (Code::MountPathDoubled, "has doubled backslashes")
    };
    Some(Finding::new(code, field, format!("{path:?} {problem}")))
}

/// Why a path in a container is invalid (moby/moby, `volume/mounts/windows_parser.go`, 2025-04, and `MakeAbsolutePath` of the
/// kubelet, which adds `c:` to paths without a drive).
fn path_problem(path: &str) -> Option<&'static str> {
    let is_pipe = path.replace('/', r"\").to_lowercase().starts_with(r"\\.\pipe\");
    let (drive, rest) = match path.as_bytes() {
        [letter, b':', ..] if letter.is_ascii_alphabetic() => (Some(letter.to_ascii_lowercase()), &path[2..]),
        _ => (None, path),
    };
    if rest.contains(FORBIDDEN) || rest.contains(':') {
        Some("has an invalid character")
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
        let problem = format!("{name:?} is invalid in Kubernetes {minor}");
        Finding::new(Code::EnvNameColon, path, problem).with_remedy(format!("write {}", name.replace(':', "__")))
    };
    with_colon.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mount_paths_are_valid_on_windows() {
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
            ("/data/a:b", "has an invalid character"),
            ("C:\\data*", "has an invalid character"),
            ("C:\temp", "has a control character"),
        ];
        for (path, expected) in table {
            let found = mount_path(&(String::new(), &json!(path)), ContainerRuntime::Containerd(()));
            let message = found.map(|finding| finding.problem).unwrap_or_default();
            assert!(message.contains(expected), "{path}: {message}");
            assert_eq!(message.is_empty(), expected.is_empty(), "{path}: {message}");
        }
    }

    #[test]
    fn doubled_backslashes_fail_unless_the_runtime_cleans_the_path() {
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
            for (runtime, expected) in
                [(ContainerRuntime::Containerd(()), containerd), (ContainerRuntime::CriDockerd, docker)]
            {
                let found = escaped(&(String::new(), &json!(path)), runtime).map(|finding| finding.code);
                assert_eq!(found, expected, "{path} {runtime:?}");
            }
        }
    }

    #[test]
    fn a_limit_below_one_mebibyte_is_none() {
        let table = [
            (json!("800m"), Some("write 800Mi")),
            (json!("512"), Some("write 512Mi")),
            (json!(512), Some("write 512Mi")),
            (json!("1000Ki"), Some("write the amount with Mi or Gi, such as 800Mi")),
            (json!("0"), Some("write the amount with Mi or Gi, such as 800Mi")),
            (json!("1Mi"), None),
            (json!(1_048_576), None),
            (json!("1GB"), None),
        ];
        for (amount, expected) in table {
            let spec = json!({"containers": [{"resources": {"limits": {"memory": amount}}}]});
            let remedy = tiny_memory(&spec).first().map(|finding| finding.remedy.clone());
            assert_eq!(remedy.as_deref(), expected, "{amount}");
        }
        assert_eq!(tiny_memory(&json!({"containers": [{"resources": {"requests": {"memory": 0}}}]})), []);
    }
}
