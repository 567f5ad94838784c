//! HostProcess containers, which are processes of the host.

use serde_json::Value;
use winpool_core::json_path::fields as at;
use winpool_facts::pod_fields::{CONTAINER_USERS, HOST_PROCESS_USERS};
use winpool_workload::{is_host_process, windows_option};

use super::{Code, Finding, Workload};

/// The annotation with which a container has the user of the container runtime (microsoft/hcsshim, `pkg/annotations`, 2025).
const INHERIT_USER: &str = "microsoft.com/hostprocess-inherit-user";
/// The user that the kubelet treats as root (kubernetes/kubernetes, `pkg/kubelet/kuberuntime/security_context_windows.go`,
/// 1.24 to 1.36). Case does not matter.
const ADMINISTRATOR: &str = CONTAINER_USERS[0];
const PIPES: &str = r"\\.\pipe\";

/// The findings about the containers of a pod for Windows.
pub fn check(workload: &Workload<'_>, spec: &Value) -> Vec<Finding> {
    let containers = at(spec, "containers[]");
    let (host, other): (Vec<_>, Vec<_>) =
        containers.into_iter().partition(|container| is_host_process(spec, container));
    let mut findings = administrators(spec, &other);
    findings.extend(differing(spec, &host, &other));
    if !host.is_empty() {
        if workload.annotations(INHERIT_USER).next().is_none() {
            findings.extend(users(spec, &host));
        }
        findings.extend(pipes(spec));
        if spec["hostNetwork"] != true {
            findings.push(Finding::new(Code::HostProcess, "hostNetwork", "hostNetwork is not true"));
        }
    }
    // Several containers may have the user of the pod.
    findings.sort();
    findings.dedup();
    findings
}

/// A container with another value than its pod, and containers that are not HostProcess beside some that are.
fn differing(spec: &Value, host: &[(String, &Value)], other: &[(String, &Value)]) -> Vec<Finding> {
    let of_pod = &spec["securityContext"]["windowsOptions"]["hostProcess"];
    let finding = |(path, container): &(String, &Value)| {
        let field = "securityContext.windowsOptions.hostProcess";
        let own = &container["securityContext"]["windowsOptions"]["hostProcess"];
        if of_pod.is_boolean() && own.is_boolean() && of_pod != own {
            let problem = format!("hostProcess is {own}, and that of the pod is {of_pod}");
            let finding = Finding::new(Code::HostProcess, format!("{path}.{field}"), problem);
            return Some(finding.with_remedy("remove it from the container"));
        }
        let problem = "only some containers of the pod are HostProcess containers";
        let is_mixed = !host.is_empty() && !is_host_process(spec, &(path.clone(), container));
        is_mixed.then(|| Finding::new(Code::HostProcess, path, problem))
    };
    host.iter().chain(other).filter_map(finding).collect()
}

/// HostProcess containers whose user does not exist on the host.
fn users(spec: &Value, host: &[(String, &Value)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for container in host {
        if let Some((path, _)) = non_root(spec, container) {
            findings.push(Finding::new(
                Code::HostProcessUser,
                path,
                "runAsNonRoot is true for a HostProcess container",
            ));
        }
        let user = windows_option(spec, container, "runAsUserName");
        match user.as_ref().and_then(|(path, user)| Some((path, user.as_str()?))) {
            None => {
                let problem = "the HostProcess containers have no runAsUserName";
                findings.push(Finding::new(Code::HostProcessUser, "securityContext.windowsOptions", problem));
            }
            Some((path, user)) if CONTAINER_USERS.iter().any(|name| name.eq_ignore_ascii_case(user)) => {
                let problem = format!("the user {user} exists only in containers, not on the host");
                let remedy = format!("use one of {}, or a local group", HOST_PROCESS_USERS.join(", "));
                findings.push(Finding::new(Code::HostProcessUser, path, problem).with_remedy(remedy));
            }
            Some(_) => {}
        }
    }
    findings
}

/// `runAsNonRoot: true` of a container or else of its pod, with its path.
fn non_root<'v>(spec: &'v Value, (path, container): &(String, &'v Value)) -> Option<(String, &'v Value)> {
    let field = "securityContext.runAsNonRoot";
    let [own, of_pod] = [container, spec].map(|value| &value["securityContext"]["runAsNonRoot"]);
    let (path, value) = if own.is_null() { (field.to_owned(), of_pod) } else { (format!("{path}.{field}"), own) };
    (*value == true).then_some((path, value))
}

/// Whether a path of the host is that of a named pipe.
pub fn is_pipe(path: &Value) -> bool {
    path.as_str().is_some_and(|path| path.replace('/', r"\").to_lowercase().starts_with(PIPES))
}

/// Named pipes that are mounted.
fn pipes(spec: &Value) -> Vec<Finding> {
    let sources = at(spec, "volumes[].hostPath.path").into_iter();
    let pipes = sources.filter(|(_, source)| is_pipe(source));
    pipes
        .map(|(path, source)| {
            Finding::new(
                Code::HostProcessPipe,
                path,
                format!("the volume is the pipe {}", source.as_str().unwrap_or_default()),
            )
        })
        .collect()
}

fn administrators(spec: &Value, containers: &[(String, &Value)]) -> Vec<Finding> {
    let finding = |container: &(String, &Value)| {
        non_root(spec, container)?;
        let (path, user) = windows_option(spec, container, "runAsUserName")?;
        let problem = "runAsNonRoot is true, and the user is ContainerAdministrator";
        let is_administrator = user.as_str()?.eq_ignore_ascii_case(ADMINISTRATOR);
        is_administrator.then(|| Finding::new(Code::RunAsNonRootAdministrator, path, problem))
    };
    containers.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(spec: &Value) -> Vec<String> {
        let object = json!({"kind": "Pod", "spec": spec});
        let findings = check(&Workload::of(&object).unwrap(), spec).into_iter();
        findings.map(|finding| format!("{} {}", finding.code, finding.path)).collect()
    }

    #[test]
    fn host_process_containers_have_no_others_beside_them_and_the_network_users_and_pipes_of_the_host() {
        let options = |on: bool, user: Value| json!({"windowsOptions": {"hostProcess": on, "runAsUserName": user}});
        let system = |on: bool| options(on, json!("NT AUTHORITY\\SYSTEM"));
        let own = |on: bool| json!({"securityContext": system(on)});
        let as_user =
            |user: Value| json!({"hostNetwork": true, "containers": [{}, {}], "securityContext": options(true, user)});
        let mounts = |on: bool, path: &str| {
            json!({"hostNetwork": on, "securityContext": system(on), "containers": [{}],
                "volumes": [{"hostPath": {"path": path}}]})
        };
        let own_field = "host-process containers[0].securityContext.windowsOptions.hostProcess";
        let of_first = "host-process initContainers[0].securityContext.windowsOptions.hostProcess";
        let table: [(Value, &[&str]); 12] = [
            (json!({"containers": [{}]}), &[]),
            (json!({"hostNetwork": true, "securityContext": system(true), "containers": [{}]}), &[]),
            (json!({"hostNetwork": true, "containers": [own(true), {}]}), &["host-process containers[1]"]),
            (
                json!({"securityContext": system(true), "initContainers": [own(false)], "containers": [{}]}),
                &["host-process hostNetwork", of_first],
            ),
            (json!({"hostNetwork": true, "securityContext": system(true), "containers": [own(false)]}), &[own_field]),
            (json!({"hostNetwork": true, "securityContext": system(false), "containers": [own(true)]}), &[own_field]),
            (as_user(json!("hpc-localgroup")), &[]),
            (as_user(Value::Null), &["host-process-user securityContext.windowsOptions"]),
            (mounts(true, r"\\.\pipe\containerd"), &["host-process-pipe volumes[0].hostPath.path"]),
            (mounts(true, "//./pipe/containerd"), &["host-process-pipe volumes[0].hostPath.path"]),
            (mounts(true, r"C:\pipe"), &[]),
            (mounts(false, r"\\.\pipe\containerd"), &[]),
        ];
        for (spec, expected) in table {
            assert_eq!(found(&spec), expected, "{spec}");
        }
    }
}
