//! KubeletConfiguration that Windows nodes read: that of a cluster, and patches for kubeadm in objects of Cluster API.

use serde_json::Value;
use winpool_facts::{Minor, kubelet_fields::fatal_in};

use super::{
    Code, Finding,
    node_files::{document, files},
};

/// How the names of kubeadm's patches of KubeletConfiguration begin.
const PATCH: &str = "kubeletconfiguration";

/// The fields of a KubeletConfiguration with which a Windows kubelet does not start.
pub fn check(configuration: &Value, minor: Minor) -> Vec<Finding> {
    let set = fatal_in(minor).filter(|field| !configuration[field.name].is_null());
    let finding =
        |name| Finding::new(Code::KubeletField, name, format!("a Windows kubelet {minor} does not start with {name}"));
    set.map(|field| finding(field.name)).collect()
}

/// The same fields in the patches that any part of an object writes to a Windows machine.
pub fn in_files(object: &Value, minor: Minor) -> Vec<Finding> {
    let mut findings = Vec::new();
    files(object, &mut |at, file, content| {
        if is_patch(file) {
            findings.extend(check(&document(content), minor).into_iter().map(|finding| finding.below(at)));
        }
    });
    findings
}

fn is_patch(path: &str) -> bool {
    path.rsplit(['/', '\\']).next().is_some_and(|name| name.starts_with(PATCH))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn fields_that_stop_a_windows_kubelet_are_found_by_minor() {
        let cluster = json!({
            "singleProcessOOMKill": false, "userNamespaces": {"idsPerPod": 65536}, "systemCgroups": "/system.slice",
            "cgroupRoot": "/", "defaultPodSysctls": null, "cgroupDriver": "systemd", "failSwapOn": false,
        });
        let table: [(u32, &[&str]); 4] = [
            (31, &["systemCgroups"]),
            (32, &["systemCgroups", "singleProcessOOMKill"]),
            (36, &["systemCgroups", "singleProcessOOMKill", "userNamespaces"]),
            (38, &["systemCgroups", "singleProcessOOMKill", "userNamespaces"]),
        ];
        for (minor, expected) in table {
            assert_eq!(paths(check(&cluster, Minor(minor))), expected, "1.{minor}");
        }
    }

    #[test]
    fn patches_on_windows_machines_are_found_anywhere_in_an_object() {
        let file = |path: &str| json!({"path": path, "content": "singleProcessOOMKill: true\n"});
        let windows = r"C:\k\patches\kubeletconfiguration0+merge.yaml";
        let table = [
            (json!({"spec": {"files": [file("C:/k/kubeletconfiguration+merge.yaml")]}}), Some("spec.files[0].content")),
            (json!({"spec": {"files": [file("/etc/kubeletconfiguration+merge.yaml")]}}), None),
            (json!({"spec": {"files": [file(r"C:\k\other.yaml")]}}), None),
            (
                json!({"spec": {"patches": [{"definitions": [{"jsonPatches": [{"value": file(windows)}]}]}]}}),
                Some("spec.patches[0].definitions[0].jsonPatches[0].value.content"),
            ),
            (
                json!({"jsonPatches": [{"valueFrom": {"template": file(windows).to_string()}}]}),
                Some("jsonPatches[0].valueFrom.template.content"),
            ),
            (
                json!({"valueFrom": {"template": "{{ .name }}"}, "files": [{"path": windows, "content": "a: {{ b }}"}]}),
                None,
            ),
        ];
        for (object, expected) in table {
            let expected = expected.map(|path| format!("{path}.singleProcessOOMKill"));
            assert_eq!(paths(in_files(&object, Minor(36))), Vec::from_iter(expected), "{object}");
        }
    }
}
