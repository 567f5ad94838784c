//! Services with pods on Windows nodes.

use serde_json::Value;
use winpool_core::{image::HostNode, json_path::fields as at};
use winpool_facts::{
    Minor, OsVersion,
    known_issues::{ComponentVersion, NodeComponent},
    service_limits::{DSR_GATE_ON_SINCE, MAX_ENDPOINTS, PRESERVE_DESTINATION, SESSION_AFFINITY_SINCE, max_endpoints},
};
use winpool_render::profile::GatedProgram;
use winpool_rules::upgrade::{EndedSetting, refused_gate};

use super::{Code, Finding, LintContext, known_issue};

pub fn check(object: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    let mut findings = Vec::new();
    if metadata["annotations"][PRESERVE_DESTINATION] == "true" {
        let path = format!("metadata.annotations[{PRESERVE_DESTINATION}]");
        findings.extend(needs_dsr(Code::PreserveDestination, &path, context));
    }
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let selected = context.selected_workloads(namespace, &spec["selector"]);
    if selected.is_empty() {
        return findings;
    }
    if spec["externalTrafficPolicy"] == "Local" {
        findings.extend(needs_dsr(Code::LocalTrafficPolicy, "spec.externalTrafficPolicy", context));
    }
    if spec["ipFamilies"].as_array().is_some_and(|families| families.len() == 1 && families[0] == "IPv6") {
        findings.push(Finding::new(Code::IpFamily, "spec.ipFamilies", "ipFamilies has only IPv6"));
    }
    findings.extend(known_issue::of_service(object, context));
    let hosts: Vec<_> = selected.iter().filter_map(|workload| workload.host.as_ref()).collect();
    findings.extend(session_affinity(spec, &hosts));
    let replicas = selected.iter().map(|workload| workload.replicas).sum::<u64>();
    let in_manifests = context.endpoints(namespace, metadata["name"].as_str().unwrap_or_default());
    findings.extend(endpoints(replicas.max(in_manifests), &hosts));
    findings
}

/// A field that needs Direct Server Return; `None` if every kube-proxy for Windows in the manifests uses it.
fn needs_dsr(code: Code, path: &str, context: &LintContext<'_>) -> Option<Finding> {
    let minor = context.target.minor;
    let gate = if minor < DSR_GATE_ON_SINCE { ", as is its feature gate WinDSR" } else { "" };
    let problem = match context.dsr.first() {
        Some(true) => return None,
        Some(false) => "kube-proxy in the manifests does not use Direct Server Return".to_owned(),
        None => format!("Direct Server Return is off by default in Kubernetes {minor}{gate}"),
    };
    Some(Finding::new(code, path, problem))
}

/// The feature gates with which a kube-proxy does not start: of the minor of its image, or of the given one if that is newer.
pub fn gates_of_kube_proxy(spec: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let of_container = |(path, container): (String, &Value)| {
        let installed = NodeComponent::of_image(container["image"].as_str().unwrap_or_default());
        let Some((NodeComponent::KubeProxy, ComponentVersion([_, minor, _]))) = installed else { return Vec::new() };
        let minor = context.given_minor().map_or(Minor(minor), |given| given.max(Minor(minor)));
        let field = if container["args"].is_null() { "command" } else { "args" };
        let arguments = arguments(container, "");
        let ended = gates(&arguments).into_iter().filter_map(|gate| refused_gate(GatedProgram::KubeProxy, gate, minor));
        let finding = |ended: EndedSetting| {
            Finding::new(Code::KubeProxyGate, format!("{path}.{field}"), ended.problem).with_remedy(ended.remedy)
        };
        ended.map(finding).collect()
    };
    at(spec, "containers[]").into_iter().flat_map(of_container).collect()
}

/// The feature gates in the arguments of a kube-proxy, which ignores them beside a configuration file.
fn gates(arguments: &str) -> Vec<&str> {
    if ["--config=", "--config "].iter().any(|flag| arguments.contains(flag)) {
        return Vec::new();
    }
    let is_of_gate = |character: char| character.is_ascii_alphanumeric() || "=,".contains(character);
    let rests = arguments.split("--feature-gates").skip(1).map(|rest| rest.trim_start_matches(['=', ' ', '"', '\'']));
    rests
        .filter_map(|rest| rest.split(|character| !is_of_gate(character)).next())
        .flat_map(|gates| gates.split(','))
        .collect()
}

/// The command and the arguments of containers. The flags may be in a script.
fn arguments(value: &Value, containers: &str) -> String {
    let texts = ["command[]", "args[]"].into_iter().flat_map(|field| at(value, &format!("{containers}{field}")));
    texts.filter_map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Whether the arguments of a kube-proxy enable Direct Server Return, and its gate where it is off by default.
pub fn uses_dsr(spec: &Value, minor: Minor) -> bool {
    let text = arguments(spec, "containers[].").to_lowercase();
    let has = |option: &str| text.contains(option);
    let is_on = has("--enable-dsr=true") || (has("--enable-dsr") && !has("--enable-dsr="));
    is_on && !has("windsr=false") && (minor >= DSR_GATE_ON_SINCE || has("windsr=true"))
}

fn session_affinity(spec: &Value, hosts: &[&HostNode]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if spec["sessionAffinity"] != "ClientIP" {
        return findings;
    }
    if !spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() {
        let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        findings.push(Finding::new(Code::SessionAffinityTimeout, path, "timeoutSeconds is set"));
    }
    if let Some(host) = hosts.iter().find(|host| host.os.build < SESSION_AFFINITY_SINCE) {
        let problem = format!("the Service selects pods on nodes with Windows {}", host.os);
        findings.push(Finding::new(Code::SessionAffinityBuild, "spec.sessionAffinity", problem));
    }
    findings
}

fn endpoints(count: u64, hosts: &[&HostNode]) -> Option<Finding> {
    let limit = |host: &&HostNode| (max_endpoints(host.os), Some(host.os));
    let (limit, host): (u64, Option<OsVersion>) = hosts.iter().map(limit).min().unwrap_or((MAX_ENDPOINTS, None));
    let version = host.map(|host| format!(" {host}")).unwrap_or_default();
    let problem = format!("the Service has {count} endpoints, and Windows{version} supports at most {limit}");
    (count > limit).then(|| Finding::new(Code::ServiceEndpoints, "spec.selector", problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gates_of_kube_proxy_are_in_its_flags_unless_it_has_a_configuration_file() {
        let table: [(&str, &[&str]); 5] = [
            ("--v=2 --feature-gates=WinDSR=true,WinOverlay=true --enable-dsr", &["WinDSR=true", "WinOverlay=true"]),
            ("--feature-gates WinDSR=true", &["WinDSR=true"]),
            ("kube-proxy.exe --feature-gates=\"WinDSR=true\"; exit", &["WinDSR=true"]),
            ("--config=C:/k/proxy.conf --feature-gates=WinDSR=true", &[]),
            ("--config-sync-period=1m", &[]),
        ];
        for (arguments, expected) in table {
            assert_eq!(gates(arguments), expected, "{arguments}");
        }
    }
}
