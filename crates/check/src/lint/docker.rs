//! What containers with Docker on Windows cannot mount.

use serde_json::Value;
use winpool_core::json_path::fields as at;
use winpool_facts::ContainerRuntime;

use super::{Code, Finding, host_process::is_pipe};

/// The findings of a pod's spec, with paths in it; none with containerd.
pub fn check(spec: &Value, runtime: ContainerRuntime) -> Vec<Finding> {
    if runtime == ContainerRuntime::Containerd(()) {
        return Vec::new();
    }
    let volume = |mount: &Value| {
        let volumes = spec["volumes"].as_array().into_iter().flatten();
        volumes.into_iter().find(|volume| volume["name"] == mount["name"])
    };
    let mounts = at(spec, "containers[].volumeMounts[]").into_iter();
    let mut findings: Vec<_> = mounts
        .filter_map(|(path, mount)| {
            let volume = volume(mount)?;
            let pipe = &volume["hostPath"]["path"];
            if mount["readOnly"] == true && is_pipe(pipe) {
                let problem = format!("the named pipe {} is mounted read-only", pipe.as_str().unwrap_or_default());
                return Some(Finding::new(Code::DockerPipe, format!("{path}.readOnly"), problem));
            }
            let (field, what) = single_file(volume, mount)?;
            Some(Finding::new(Code::DockerSingleFile, winpool_core::join(&path, field), what))
        })
        .collect();
    if spec["automountServiceAccountToken"] != false {
        let problem = "the pod mounts the token of its ServiceAccount";
        findings.push(Finding::new(Code::DockerToken, "automountServiceAccountToken", problem));
    }
    findings
}

/// Why a mount is one of a single file, with the field that shows it: the keys of a ConfigMap and the like are files.
fn single_file(volume: &Value, mount: &Value) -> Option<(&'static str, String)> {
    const OF_FILES: [&str; 4] = ["configMap", "secret", "downwardAPI", "projected"];
    let part =
        ["subPath", "subPathExpr"].into_iter().find(|field| mount[*field].as_str().is_some_and(|of| !of.is_empty()));
    let of_files = OF_FILES.into_iter().find(|kind| volume.get(*kind).is_some());
    match (part, of_files) {
        (Some(field), Some(kind)) => {
            Some((field, format!("the mount is the single file {} of a volume of type {kind}", mount[field].as_str()?)))
        }
        _ if ["File", "FileOrCreate"].iter().any(|kind| volume["hostPath"]["type"] == *kind) => {
            Some(("name", "the volume is a single file of the node".to_owned()))
        }
        _ => None,
    }
}
