//! The check of a profile's settings of kube-proxy, and of the proxy that a node's services use.

use std::net::IpAddr;

use super::{
    check::{Findings, is_registry},
    gates::check_names,
};
use crate::api::{KubeProxySettings, ProxySettings};

/// The lengths that the schema has.
const MAX_NETWORK_NAME: usize = 256;
const MAX_ADDRESS: usize = 512;
const MAX_NO_PROXY: usize = 4096;

pub(super) fn kube_proxy(settings: &KubeProxySettings, findings: &mut Findings) {
    let KubeProxySettings { win_dsr, network_name, source_vip, feature_gates, .. } = settings;
    if !is_plain(network_name, MAX_NETWORK_NAME) {
        let wrong = format!("`{network_name}` is not the name of an HNS network");
        findings.mistake("spec.kubeProxy.networkName", wrong, "write what `Get-HnsNetwork` prints as Name");
    }
    if !source_vip.is_empty() && source_vip.parse::<IpAddr>().is_err() {
        let wrong = format!("`{source_vip}` is not an IP address");
        findings.mistake("spec.kubeProxy.sourceVIP", wrong, "write an address such as 10.244.1.2");
    }
    check_names("spec.kubeProxy.featureGates", feature_gates, findings);
    if *win_dsr == Some(true) && feature_gates.get("WinDSR") == Some(&false) {
        let wrong = "kube-proxy does not start with winDSR and without this gate";
        findings.mistake("spec.kubeProxy.featureGates.WinDSR", wrong, "remove the gate, or write winDSR: false");
    }
}

pub(super) fn proxy(settings: &ProxySettings, findings: &mut Findings) {
    let ProxySettings { http_proxy, https_proxy, no_proxy } = settings;
    for (name, address) in [("httpProxy", http_proxy), ("httpsProxy", https_proxy)] {
        if !address.is_empty()
            && let Some(wrong) = address_problem(address)
        {
            findings.mistake(format!("spec.proxy.{name}"), wrong, "write an address such as http://proxy.example:3128");
        }
    }
    if !is_plain(no_proxy, MAX_NO_PROXY) {
        let wrong = "it is not a list of hosts and address ranges";
        findings.mistake("spec.proxy.noProxy", wrong, "write them with commas and without spaces");
    }
    let uses_proxy = !http_proxy.is_empty() || !https_proxy.is_empty();
    if uses_proxy && no_proxy.is_empty() {
        let wrong = "the kubelet would reach the API server through the proxy";
        findings.warning(
            "spec.proxy.noProxy",
            wrong,
            "list the API server and the address ranges of pods and Services in noProxy",
        );
    }
    if !uses_proxy && !no_proxy.is_empty() {
        let wrong = "noProxy has no effect without httpProxy or httpsProxy";
        findings.warning("spec.proxy.noProxy", wrong, "write httpProxy or httpsProxy, or remove it");
    }
}

/// What is wrong with a text as the address of a proxy.
fn address_problem(text: &str) -> Option<String> {
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        return Some(format!("`{text}` does not begin with http:// or https://"));
    };
    if text.contains('@') {
        return Some("the address has credentials in it, which everybody could read".to_owned());
    }
    let host = rest.split('/').next().unwrap_or_default();
    (text.len() > MAX_ADDRESS || !is_registry(host) || !is_plain(rest, MAX_ADDRESS))
        .then(|| format!("`{text}` is not the address of a proxy"))
}

/// A text on one line without spaces and quotes.
fn is_plain(text: &str, longest: usize) -> bool {
    text.len() <= longest && !text.contains(|c: char| c.is_whitespace() || c.is_control() || "\"'".contains(c))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::domain::{Problem, profile};

    fn checked(spec: &Value) -> Result<profile::Profile, Vec<Problem>> {
        profile::check(&serde_json::from_value(spec.clone()).unwrap())
    }

    fn paths(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.path.as_str()).collect()
    }

    #[test]
    fn every_mistake_is_refused_at_its_path() {
        let table = [
            (json!({"kubeProxy": {"networkName": "two words"}}), "spec.kubeProxy.networkName"),
            (json!({"kubeProxy": {"sourceVIP": "10.0.0"}}), "spec.kubeProxy.sourceVIP"),
            (json!({"kubeProxy": {"sourceVIP": "10.0.0.0/24"}}), "spec.kubeProxy.sourceVIP"),
            (json!({"kubeProxy": {"featureGates": {"a=b": true}}}), "spec.kubeProxy.featureGates.a=b"),
            (
                json!({"kubeProxy": {"winDSR": true, "featureGates": {"WinDSR": false}}}),
                "spec.kubeProxy.featureGates.WinDSR",
            ),
            (json!({"proxy": {"httpProxy": "proxy:3128", "noProxy": "a"}}), "spec.proxy.httpProxy"),
            (json!({"proxy": {"httpsProxy": "http://u:p@proxy:3128", "noProxy": "a"}}), "spec.proxy.httpsProxy"),
            (json!({"proxy": {"httpsProxy": "http://pro xy", "noProxy": "a"}}), "spec.proxy.httpsProxy"),
            (json!({"proxy": {"httpProxy": "http://proxy:3128", "noProxy": "a, b"}}), "spec.proxy.noProxy"),
            (json!({"proxy": {"httpProxy": "http://proxy:3128", "noProxy": "a\nPATH=x"}}), "spec.proxy.noProxy"),
        ];
        for (spec, path) in table {
            assert_eq!(paths(&checked(&spec).expect_err(&spec.to_string())), [path], "{spec}");
        }
    }

    #[test]
    fn a_proxy_for_everything_and_an_exception_from_none_are_warned_about() {
        for proxy in [json!({"httpProxy": "http://proxy:3128"}), json!({"noProxy": "10.0.0.0/8"})] {
            assert_eq!(paths(&checked(&json!({"proxy": proxy})).unwrap().warnings), ["spec.proxy.noProxy"], "{proxy}");
        }
        let full = json!({"proxy": {
            "httpProxy": "http://proxy:3128", "httpsProxy": "https://proxy.example:3129/", "noProxy": ".svc,10.0.0.0/8",
        }});
        assert_eq!(checked(&full).unwrap().warnings, []);
        let kube_proxy = json!({"kubeProxy": {"winDSR": true, "networkName": "Calico", "sourceVIP": "fd00::7"}});
        assert_eq!(checked(&kube_proxy).unwrap().warnings, []);
    }
}
