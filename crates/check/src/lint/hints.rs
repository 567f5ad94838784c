//! Whether a pod is for Windows, where neither `spec.os.name` nor its placement determines it.
//!
//! Each kind of evidence has a weight. Two points make a pod for Windows: one certain sign, or two weak ones. What only
//! Linux has counts against it.

use serde_json::Value;
use winpool_core::{image::Reference, json_path::fields as at};
use winpool_workload::Template;

use super::{
    command,
    image_name::{is_windows_image, suggests_linux},
};

/// The sum from which a pod is for Windows.
const ENOUGH: i32 = 2;
const CERTAIN: i32 = 2;
const WEAK: i32 = 1;
const AGAINST: i32 = -2;

/// The domain of the annotations that only pods for Windows have, such as `experimental.windows.kubernetes.io/isolation-type`.
const ANNOTATIONS: &str = "windows.kubernetes.io/";
/// The prefix of the usual names of RuntimeClasses for Windows.
const CLASSES: &str = "windows";
/// Programs of Windows. PowerShell 7, `pwsh`, also runs on Linux.
const WINDOWS_SHELLS: [&str; 2] = ["powershell", "cmd"];
const LINUX_SHELLS: [&str; 4] = ["sh", "bash", "ash", "dash"];

/// Whether the evidence suffices.
pub fn suggests_windows(template: &Template, spec: &Value, annotations: &[&str]) -> bool {
    let weights = [
        images(template),
        commands(spec),
        tolerations(template),
        class(template),
        if annotations.iter().any(|key| key.contains(ANNOTATIONS)) { CERTAIN } else { 0 },
        paths(spec),
    ];
    weights.into_iter().sum::<i32>() >= ENOUGH
}

/// The image that says most: a Windows image among others is certain.
fn images(template: &Template) -> i32 {
    let references = template.containers.iter().filter_map(|container| container.image.raw().parse::<Reference>().ok());
    let weights: Vec<_> = references.map(|reference| image(&reference)).collect();
    match weights.iter().max() {
        Some(0) | None => weights.into_iter().min().unwrap_or_default(),
        Some(greatest) => *greatest,
    }
}

/// The weight of the name of an image. The word Windows in the middle of a name is weak, because images that manage
/// Windows are often for Linux.
fn image(image: &Reference) -> i32 {
    let tag = image.tag().unwrap_or_default().to_lowercase();
    let name = image.repository().rsplit('/').next().unwrap_or_default();
    let mut parts = tag.split(['-', '_', '.', '+']);
    if is_windows_image(image)
        || parts.any(|part| part == "windows")
        || name.ends_with("-windows")
        || name.ends_with("-win")
    {
        CERTAIN
    } else if suggests_linux(image) {
        AGAINST
    } else if image.repository().contains("windows") {
        WEAK
    } else {
        0
    }
}

/// The programs that the containers start, and those of their probes and hooks.
fn commands(spec: &Value) -> i32 {
    let lists = command::commands(spec).into_iter().chain(at(spec, "containers[].args"));
    let programs: Vec<_> = lists.filter_map(|(_, list)| list.get(0)?.as_str().map(str::to_lowercase)).collect();
    let is_windows = |program: &String| {
        program.ends_with(".exe")
            || program.ends_with(".ps1")
            || program.ends_with(".cmd")
            || WINDOWS_SHELLS.contains(&program.as_str())
    };
    let is_linux = |program: &String| {
        program.starts_with("/bin/") || program.starts_with("/usr/") || LINUX_SHELLS.contains(&program.as_str())
    };
    if programs.iter().any(is_windows) {
        CERTAIN
    } else if programs.iter().any(is_linux) {
        AGAINST
    } else {
        0
    }
}

fn tolerations(template: &Template) -> i32 {
    let is_windows = |value: &str| value.eq_ignore_ascii_case("windows");
    let mut tolerations = template.scheduling.tolerations.iter();
    if tolerations.any(|toleration| is_windows(&toleration.value)) { CERTAIN } else { 0 }
}

/// The name of the RuntimeClass; its operating system is unknown, or else it would be determined.
fn class(template: &Template) -> i32 {
    let name = template.runtime_class.as_deref().unwrap_or_default().to_lowercase();
    if name.starts_with(CLASSES) { CERTAIN } else { 0 }
}

/// Paths with a drive.
fn paths(spec: &Value) -> i32 {
    let has_drive = |path: &Value| {
        let path = path.as_str().unwrap_or_default().as_bytes();
        matches!(path, [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic())
    };
    let fields = ["containers[].volumeMounts[].mountPath", "containers[].workingDir", "volumes[].hostPath.path"];
    let found = fields.iter().flat_map(|field| at(spec, field)).any(|(_, path)| has_drive(path));
    if found { CERTAIN } else { 0 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_certain_sign_or_two_weak_ones_make_a_pod_for_windows() {
        let image = |image: &str| json!({"containers": [{"image": image}]});
        let command = |command: Value| json!({"containers": [{"image": "example.com/app:1", "command": command}]});
        let with = |mut spec: Value, field: &str, value: Value| {
            spec[field] = value;
            spec
        };
        let tolerations = || json!([{"key": "os", "value": "windows"}]);
        let table = [
            // Images
            (image("mcr.microsoft.com/windows/servercore:ltsc2022"), true),
            (image("mcr.microsoft.com/dotnet/framework/aspnet:4.8"), true),
            (image("mcr.microsoft.com/windows/servercore/iis"), true),
            (image("microsoft/iis:latest"), true),
            (image("example.com/app:1-nanoserver"), true),
            (image("example.com/app:v2-windows-amd64"), true),
            (image("example.com/flannel-windows:1"), true),
            (image("example.com/windows-gmsa-webhook:v1"), false),
            (image("docker.io/dockurr/windows:4"), false),
            (image("mcr.microsoft.com/dotnet/aspnet:8.0"), false),
            (image("example.com/app:1"), false),
            // Commands
            (command(json!(["powershell", "-Command", "x"])), true),
            (command(json!(["cmd", "/c", "x"])), true),
            (command(json!(["C:\\app\\server.exe"])), true),
            (command(json!(["PowerShell.exe"])), true),
            (command(json!(["pwsh", "-Command", "x"])), false),
            (command(json!(["/bin/sh", "-c", "x.exe"])), false),
            (command(json!([])), false),
            // RuntimeClasses
            (with(image("a:1"), "runtimeClassName", json!("windows-2019")), true),
            (with(image("a:1"), "runtimeClassName", json!("gvisor")), false),
            // Tolerations
            (with(image("a:1"), "tolerations", tolerations()), true),
            (with(image("a:1-alpine"), "tolerations", tolerations()), false),
            (with(image("a:1"), "tolerations", json!([{"operator": "Exists"}])), false),
            // Paths
            (json!({"containers": [{"image": "a:1", "volumeMounts": [{"mountPath": "C:\\data"}]}]}), true),
            (json!({"containers": [{"image": "a:1", "volumeMounts": [{"mountPath": "/c:/data"}]}]}), false),
            // Several
            (with(command(json!(["/bin/bash"])), "tolerations", tolerations()), false),
            (
                json!({"containers": [{"image": "example.com/app:ltsc2022"}], "initContainers": [{"image": "a:alpine"}]}),
                true,
            ),
        ];
        for (spec, expected) in table {
            let template = Template::from(&serde_json::from_value(spec.clone()).unwrap());
            assert_eq!(suggests_windows(&template, &spec, &[]), expected, "{spec}");
        }
        let spec = image("a:1");
        let template = Template::from(&serde_json::from_value(spec.clone()).unwrap());
        let annotations = |key: &str| suggests_windows(&template, &spec, &[key]);
        assert!(annotations("experimental.windows.kubernetes.io/isolation-type"));
        assert!(!annotations("example.com/windows"));
    }
}
