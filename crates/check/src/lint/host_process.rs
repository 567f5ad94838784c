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

/// Named pipes that are mounted.
fn pipes(spec: &Value) -> Vec<Finding> {
    let sources = at(spec, "volumes[].hostPath.path").into_iter();
    let is_pipe =
        |source: &Value| source.as_str().is_some_and(|path| path.replace('/', r"\").to_lowercase().starts_with(PIPES));
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

    fn options(options: Value) -> Value {
        json!({"windowsOptions": options})
    }

    fn container(own: Value) -> Value {
        json!({"securityContext": options(own)})
    }

    #[test]
    fn all_containers_of_a_host_process_pod_are_host_process_and_use_the_host_network() {
        let none: [&str; 0] = [];
        let of_pod = options(json!({"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}));
        let own = |on: bool| container(json!({"hostProcess": on, "runAsUserName": "NT AUTHORITY\\SYSTEM"}));
        assert_eq!(found(&json!({"containers": [{}]})), none);
        assert_eq!(found(&json!({"hostNetwork": true, "securityContext": of_pod, "containers": [{}]})), none);
        assert_eq!(found(&json!({"hostNetwork": true, "containers": [own(true), {}]})), ["host-process containers[1]"]);
        assert_eq!(
            found(&json!({"securityContext": of_pod, "initContainers": [own(false)], "containers": [{}]})),
            ["host-process hostNetwork", "host-process initContainers[0].securityContext.windowsOptions.hostProcess"]
        );
        let pod = json!({"hostNetwork": true, "securityContext": of_pod, "containers": [own(false)]});
        assert_eq!(found(&pod), ["host-process containers[0].securityContext.windowsOptions.hostProcess"]);
        let of_pod = options(json!({"hostProcess": false}));
        assert_eq!(
            found(&json!({"hostNetwork": true, "securityContext": of_pod, "containers": [own(true)]})),
            ["host-process containers[0].securityContext.windowsOptions.hostProcess"]
        );
    }

    #[test]
    fn a_host_process_container_has_a_user_of_the_host() {
        let pod = |user: Value, non_root: Value| {
            json!({"hostNetwork": true, "containers": [{}, {}],
                "securityContext": {"runAsNonRoot": non_root, "windowsOptions": {"hostProcess": true, "runAsUserName": user}}})
        };
        let none: [&str; 0] = [];
        let null = || Value::Null;
        assert_eq!(found(&pod(json!("NT AUTHORITY\\Local service"), null())), none);
        assert_eq!(found(&pod(json!("hpc-localgroup"), json!(false))), none);
        assert_eq!(found(&pod(null(), null())), ["host-process-user securityContext.windowsOptions"]);
        assert_eq!(
            found(&pod(json!("containeradministrator"), json!(true))),
            [
                "host-process-user securityContext.runAsNonRoot",
                "host-process-user securityContext.windowsOptions.runAsUserName",
            ]
        );
    }

    #[test]
    fn named_pipes_are_not_mounted_into_host_process_containers() {
        let spec = |path: &str, on: bool| {
            let options = options(json!({"hostProcess": on, "runAsUserName": "NT AUTHORITY\\SYSTEM"}));
            json!({"hostNetwork": on, "securityContext": options, "containers": [{}], "volumes": [{"hostPath": {"path": path}}]})
        };
        let none: [&str; 0] = [];
        assert_eq!(
            found(&spec(r"\\.\pipe\containerd-containerd", true)),
            ["host-process-pipe volumes[0].hostPath.path"]
        );
        assert_eq!(found(&spec("//./pipe/containerd", true)), ["host-process-pipe volumes[0].hostPath.path"]);
        assert_eq!(found(&spec(r"C:\pipe", true)), none);
        assert_eq!(found(&spec(r"\\.\pipe\containerd-containerd", false)), none);
    }

    #[test]
    fn an_administrator_is_root() {
        let pod = |user: &str| json!({"securityContext": {"runAsNonRoot": true, "windowsOptions": {"runAsUserName": user}}, "containers": [{}]});
        assert_eq!(
            found(&pod("containeradministrator")),
            ["run-as-non-root-administrator securityContext.windowsOptions.runAsUserName"]
        );
        assert_eq!(found(&pod("ContainerUser")), Vec::<String>::new());
    }
}
