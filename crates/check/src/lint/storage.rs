//! The volumes of a pod for Windows: their types, and the paths of the node.

use serde_json::Value;
use winpool_core::{foreign_text::escaped, json_path::fields as at};
use winpool_facts::{
    csi_drivers::{self, CSI_DRIVERS},
    pod_fields::{CSI_PROXY_PIPES, DEVICE_TYPES, LINUX_VOLUMES, TERMINATION_MESSAGE_PATH, UNIX_PATHS},
};

use super::{Code, Finding, LintContext};

/// The findings of a pod's spec.
pub fn check(spec: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let volumes = at(spec, "volumes[]").into_iter();
    let mut findings: Vec<_> = volumes.flat_map(|(path, volume)| of_volume(&path, volume, context)).collect();
    // A driver needs several pipes of the same service.
    let mut has_pipe = false;
    findings.retain(|finding| finding.code != Code::CsiProxy || !std::mem::replace(&mut has_pipe, true));
    let messages = at(spec, "containers[].terminationMessagePath").into_iter();
    findings.extend(messages.filter_map(|(path, value)| {
        let written = value.as_str().filter(|path| path.starts_with('/') && *path != TERMINATION_MESSAGE_PATH)?;
        let problem = format!("{:?} is a path of Unix", escaped(written));
        Some(Finding::new(Code::TerminationMessagePath, path, problem))
    }));
    findings
}

fn of_volume(path: &str, volume: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let field = |name: &str| format!("{path}.{name}");
    let source = &volume["hostPath"];
    let mut findings = types(path, volume);
    if let Some(of_host) = source["path"].as_str() {
        findings.extend(host_path(&field("hostPath.path"), of_host, context));
    }
    if let Some(kind) = source["type"].as_str().filter(|kind| DEVICE_TYPES.contains(kind)) {
        findings.push(Finding::new(Code::HostPathType, field("hostPath.type"), format!("the type is {kind}")));
    }
    findings
}

/// The type of a volume, of a pod or of a PersistentVolume.
pub fn types(path: &str, volume: &Value) -> Vec<Finding> {
    let is_set = |name: &&str| !volume[*name].is_null();
    let finding = |code, name: &str, problem: String| Finding::new(code, winpool_core::join(path, name), problem);
    let linux = LINUX_VOLUMES.iter().copied().filter(is_set);
    let linux = linux.map(|name| finding(Code::LinuxVolume, name, format!("Windows nodes do not mount {name}")));
    let cloud = CSI_DRIVERS.iter().filter_map(|driver| Some((driver.in_tree?.0, driver.name)));
    let cloud = cloud.filter(|(name, _)| is_set(name)).map(|(name, driver)| {
        finding(Code::CloudVolume, name, format!("{name} needs the CSI driver {driver} on Windows nodes"))
    });
    let (driver, of) = (volume["csi"]["driver"].as_str(), volume["csi"]["fsType"].as_str().map(str::to_lowercase));
    let csi = driver.zip(of).filter(|(driver, of)| csi_drivers::is_unsupported(driver, of)).map(|(driver, of)| {
        finding(Code::FileSystem, "csi.fsType", format!("{} is not known to mount {of} on Windows", escaped(driver)))
    });
    let others = [
        ("image", Code::ImageVolume, "the volume is an image"),
        ("flexVolume", Code::FlexVolume, "the volume is a FlexVolume"),
    ];
    let others = others.into_iter().filter(|(name, ..)| is_set(name));
    linux
        .chain(cloud)
        .chain(csi)
        .chain(others.map(|(name, code, problem)| finding(code, name, problem.to_owned())))
        .collect()
}

fn host_path(field: &str, path: &str, context: &LintContext<'_>) -> Option<Finding> {
    let written = escaped(path);
    let is_within =
        |directory: &str| path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if path.to_lowercase().replace('/', "\\").starts_with(CSI_PROXY_PIPES) {
        let problem = format!("the pod needs the pipe {written} of csi-proxy");
        return (!context.has_csi_proxy).then(|| Finding::new(Code::CsiProxy, field, problem));
    }
    if UNIX_PATHS.iter().any(|directory| is_within(directory)) {
        return Some(Finding::new(Code::UnixPath, field, format!("Windows nodes do not have {written}")));
    }
    let on_drive = path.replace('/', "\\");
    let is_plain = path.starts_with('/') && !path.starts_with("//") && path.as_bytes().get(2) != Some(&b':');
    let remedy = format!("write C:{on_drive}");
    is_plain
        .then(|| Finding::new(Code::PathWithoutDrive, field, format!("{written} is C:{on_drive}")).with_remedy(remedy))
}
