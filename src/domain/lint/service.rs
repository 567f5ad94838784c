//! Services whose pods are on Windows.

use serde_json::Value;

use super::{Code, Finding, World};
use crate::{
    domain::image::Host,
    facts::{
        OsVersion,
        service_limits::{
            DSR_GATE_ON_SINCE, MOST_ENDPOINTS, PRESERVE_DESTINATION, SESSION_AFFINITY_SINCE, most_endpoints,
        },
    },
};

pub fn check(object: &Value, world: &World<'_>) -> Vec<Finding> {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    let mut findings = Vec::new();
    if metadata["annotations"][PRESERVE_DESTINATION] == "true" {
        let path = format!("metadata.annotations[{PRESERVE_DESTINATION}]");
        findings.push(needs_dsr(Code::PreserveDestination, &path, world));
    }
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let selected = world.selected(namespace, &spec["selector"]);
    if selected.is_empty() {
        return findings;
    }
    if spec["externalTrafficPolicy"] == "Local" {
        findings.push(needs_dsr(Code::LocalTrafficPolicy, "spec.externalTrafficPolicy", world));
    }
    if spec["ipFamilies"].as_array().is_some_and(|families| families.len() == 1 && families[0] == "IPv6") {
        findings.push(Finding::new(Code::IpFamily, "spec.ipFamilies", "ipFamilies has IPv6 alone"));
    }
    let hosts: Vec<_> = selected.iter().filter_map(|one| one.host.as_ref()).collect();
    findings.extend(session_affinity(spec, &hosts));
    let replicas = selected.iter().map(|one| one.replicas).sum::<u64>();
    let written = world.endpoints(namespace, metadata["name"].as_str().unwrap_or_default());
    findings.extend(endpoints(replicas.max(written), &hosts));
    findings
}

fn needs_dsr(code: Code, path: &str, world: &World<'_>) -> Finding {
    let minor = world.target().minor;
    let gate = if minor < DSR_GATE_ON_SINCE { "also behind the gate WinDSR, off by default" } else { "off by default" };
    Finding::new(code, path, format!("Direct Server Return is needed, in Kubernetes {minor} {gate}"))
}

fn session_affinity(spec: &Value, hosts: &[&Host]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if spec["sessionAffinity"] != "ClientIP" {
        return findings;
    }
    if !spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() {
        let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        findings.push(Finding::new(Code::SessionAffinityTimeout, path, "timeoutSeconds"));
    }
    if let Some(host) = hosts.iter().find(|host| host.os.build < SESSION_AFFINITY_SINCE) {
        let what = format!("hosts of {}", host.os);
        findings.push(Finding::new(Code::SessionAffinityBuild, "spec.sessionAffinity", what));
    }
    findings
}

fn endpoints(count: u64, hosts: &[&Host]) -> Option<Finding> {
    let most = |host: &&Host| (most_endpoints(host.os), Some(host.os));
    let (most, host): (u64, Option<OsVersion>) = hosts.iter().map(most).min().unwrap_or((MOST_ENDPOINTS, None));
    let on = host.map(|host| format!(" on {host}")).unwrap_or_default();
    let what = format!("{count} endpoints, at most {most}{on}");
    (count > most).then(|| Finding::new(Code::ServiceEndpoints, "spec.selector", what))
}
