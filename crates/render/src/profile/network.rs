//! The check of the settings of kube-proxy and of the HTTP proxy.

use std::net::IpAddr;

use winpool_api::{
    KubeProxySettings, ProxySettings,
    pattern::{IP_ADDRESS, PROXY},
};
use winpool_core::kubernetes::syntax::http_address_problem;

use super::{
    gates::{self, GatedProgram},
    problems::Problems,
};

pub(super) fn kube_proxy(settings: &KubeProxySettings, problems: &mut Problems) {
    let KubeProxySettings { win_dsr, source_vip, feature_gates, .. } = settings;
    if !source_vip.is_empty() && source_vip.parse::<IpAddr>().is_err() {
        let wrong = format!("`{source_vip}` is not an IP address");
        problems.error("spec.kubeProxy.sourceVIP", wrong, IP_ADDRESS.remedy);
    }
    gates::check(GatedProgram::KubeProxy, feature_gates, problems);
    if *win_dsr == Some(true) && feature_gates.get("WinDSR") == Some(&false) {
        let wrong = "kube-proxy does not start with winDSR if this gate is disabled";
        problems.error("spec.kubeProxy.featureGates.WinDSR", wrong, "remove the gate, or write winDSR: false");
    }
}

pub(super) fn proxy(settings: &ProxySettings, problems: &mut Problems) {
    let ProxySettings { http_proxy, https_proxy, no_proxy } = settings;
    for (name, address) in [("httpProxy", http_proxy), ("httpsProxy", https_proxy)] {
        if let Some(wrong) = http_address_problem(address).filter(|_| !address.is_empty()) {
            problems.error(format!("spec.proxy.{name}"), wrong, PROXY.remedy);
        }
    }
    let uses_proxy = !http_proxy.is_empty() || !https_proxy.is_empty();
    if uses_proxy && no_proxy.is_empty() {
        let wrong = "without noProxy the kubelet connects to the API server through the proxy";
        let remedy = "add the API server and the address ranges of pods and Services";
        problems.warning("spec.proxy.noProxy", wrong, remedy);
    }
    if !uses_proxy && !no_proxy.is_empty() {
        let wrong = "noProxy has no effect without httpProxy or httpsProxy";
        problems.warning("spec.proxy.noProxy", wrong, "set httpProxy or httpsProxy, or remove noProxy");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::profile;
    use winpool_core::Problem;

    fn checked(spec: &Value) -> Result<profile::Profile, Vec<Problem>> {
        profile::check(&serde_json::from_value(spec.clone()).unwrap())
    }

    fn paths(problems: &[Problem]) -> Vec<&str> {
        problems.iter().map(|problem| problem.path.as_str()).collect()
    }

    #[test]
    fn each_error_is_reported_at_its_path() {
        let table = [
            (json!({"kubeProxy": {"sourceVIP": "10.0.0"}}), "spec.kubeProxy.sourceVIP"),
            (json!({"kubeProxy": {"sourceVIP": "10.0.0.0/24"}}), "spec.kubeProxy.sourceVIP"),
            (json!({"kubeProxy": {"featureGates": {"a=b": true}}}), "spec.kubeProxy.featureGates.a=b"),
            (
                json!({"kubeProxy": {"winDSR": true, "featureGates": {"WinDSR": false}}}),
                "spec.kubeProxy.featureGates.WinDSR",
            ),
            (json!({"proxy": {"httpProxy": "proxy:3128", "noProxy": "a"}}), "spec.proxy.httpProxy"),
            (json!({"proxy": {"httpsProxy": "http://u:p@proxy:3128", "noProxy": "a"}}), "spec.proxy.httpsProxy"),
            (json!({"proxy": {"httpsProxy": "http://proxy:99999", "noProxy": "a"}}), "spec.proxy.httpsProxy"),
        ];
        for (spec, path) in table {
            assert_eq!(paths(&checked(&spec).expect_err(&spec.to_string())), [path], "{spec}");
        }
    }

    #[test]
    fn a_proxy_without_exceptions_and_exceptions_without_a_proxy_are_warnings() {
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
