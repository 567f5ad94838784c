//! The settings of a complete configuration that for layers are set by the bootstrap of the cluster.

use serde_json::{Value, json};
use winpool_facts::kubelet_fields::{FIELDS, Field};

use winpool_core::Problem;

use super::profile::Profile;

/// The settings of the cluster for a machine without a bootstrap. The profile must contain those that are not set here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bootstrap {
    pub cluster_dns: Vec<String>,
    pub cluster_domain: Option<String>,
    /// The path of the kubelet's client CA certificate on the node.
    pub client_ca_file: Option<String>,
    pub kube_proxy_kubeconfig: Option<String>,
}

impl Bootstrap {
    /// The required settings that neither the bootstrap nor the profile contains.
    pub fn missing(&self, profile: &Profile) -> Vec<Problem> {
        let merged = self.merged(profile);
        let is_set = |pointer: &str| {
            let value = merged.pointer(pointer);
            value.is_some_and(|value| !value.is_null() && *value != json!("") && *value != json!([]))
        };
        let needed = [
            (
                "/clusterDNS",
                "spec.kubelet.extra.clusterDNS",
                "pods have no DNS for Services",
                "add --cluster-dns with the address that `kubectl -n kube-system get service kube-dns` prints",
            ),
            (
                "/clusterDomain",
                "spec.kubelet.extra.clusterDomain",
                "pods cannot resolve the short names of Services",
                "add --cluster-domain, such as --cluster-domain cluster.local",
            ),
            (
                "/authentication/x509/clientCAFile",
                "spec.kubelet.extra.authentication.x509.clientCAFile",
                "the kubelet rejects requests of the API server, and kubectl logs and exec fail",
                r"add --client-ca-file with its path on the node, such as C:\etc\kubernetes\pki\ca.crt",
            ),
        ];
        let missing = needed.into_iter().filter(|(pointer, ..)| !is_set(pointer));
        let mut problems: Vec<_> = missing
            .map(|(_, path, effect, remedy)| Problem::new(path, format!("is not set, so {effect}"), remedy))
            .collect();
        if profile.kube_proxy.is_some() && self.kube_proxy_kubeconfig.is_none() {
            let wrong = "a complete configuration of kube-proxy requires a kubeconfig";
            let remedy = r"add --kube-proxy-kubeconfig with its path on the node, such as C:\k\kube-proxy.conf";
            problems.push(Problem::new("spec.kubeProxy", wrong, remedy));
        }
        problems
    }

    /// The profile with all fields of a complete KubeletConfiguration. Its own settings take precedence.
    pub(super) fn complete(&self, profile: &Profile) -> Profile {
        let merged = self.merged(profile);
        let field = |field: &'static Field| Some((field, merged.get(field.name)?.clone()));
        let mut profile = profile.clone();
        profile.kubelet.extra = FIELDS.iter().filter_map(field).collect();
        profile
    }

    /// The fields of the profile merged into those of the bootstrap, as on a node.
    fn merged(&self, profile: &Profile) -> Value {
        let mut merged = json!({
            "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true}},
            "authorization": {"mode": "Webhook"},
            "rotateCertificates": true,
        });
        if let Some(file) = &self.client_ca_file {
            merged["authentication"]["x509"] = json!({"clientCAFile": file});
        }
        if !self.cluster_dns.is_empty() {
            merged["clusterDNS"] = json!(self.cluster_dns);
        }
        if let Some(domain) = &self.cluster_domain {
            merged["clusterDomain"] = json!(domain);
        }
        let layer = profile.kubelet.extra.iter().map(|(field, value)| (field.name.to_owned(), value.clone()));
        json_patch::merge(&mut merged, &Value::Object(layer.collect()));
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    fn profile(spec: Value) -> Profile {
        profile::check(&serde_json::from_value(spec).unwrap()).unwrap()
    }

    fn full() -> Bootstrap {
        Bootstrap {
            cluster_dns: vec!["10.96.0.10".into()],
            cluster_domain: Some("cluster.local".into()),
            client_ca_file: Some(r"C:\ca.crt".into()),
            kube_proxy_kubeconfig: Some(r"C:\k\kube-proxy.conf".into()),
        }
    }

    #[test]
    fn settings_that_neither_the_bootstrap_nor_the_profile_has_are_missing() {
        const DNS: &str = "spec.kubelet.extra.clusterDNS";
        const DOMAIN: &str = "spec.kubelet.extra.clusterDomain";
        const CA: &str = "spec.kubelet.extra.authentication.x509.clientCAFile";
        let extra = |extra: Value| json!({"kubelet": {"extra": extra}});
        let in_profile = extra(json!({
            "clusterDNS": ["10.96.0.10"], "clusterDomain": "a.b", "authentication": {"x509": {"clientCAFile": "C:\\ca"}},
        }));
        let table = [
            (Bootstrap::default(), json!({}), vec![DNS, DOMAIN, CA]),
            (full(), json!({}), vec![]),
            (Bootstrap::default(), in_profile, vec![]),
            (Bootstrap { cluster_dns: vec![], ..full() }, json!({}), vec![DNS]),
            (full(), extra(json!({"clusterDNS": []})), vec![DNS]),
            (Bootstrap { kube_proxy_kubeconfig: None, ..full() }, json!({"kubeProxy": {}}), vec!["spec.kubeProxy"]),
            (full(), json!({"kubeProxy": {}}), vec![]),
        ];
        for (bootstrap, spec, paths) in table {
            let missing = bootstrap.missing(&profile(spec.clone()));
            assert_eq!(missing.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), paths, "{spec}");
        }
    }

    #[test]
    fn the_settings_of_the_profile_take_precedence_over_those_of_the_bootstrap() {
        let spec = json!({"kubelet": {"extra": {
            "clusterDomain": "profile.example", "authentication": {"webhook": {"cacheTTL": "5m"}}, "registryPullQPS": 7,
        }}});
        let complete = full().complete(&profile(spec));
        let fields: Value =
            complete.kubelet.extra.iter().map(|(field, value)| (field.name.to_owned(), value.clone())).collect();
        let expected = json!({
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true, "cacheTTL": "5m"},
                "x509": {"clientCAFile": r"C:\ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "profile.example",
            "registryPullQPS": 7,
            "rotateCertificates": true,
        });
        assert_eq!(fields, expected);
    }
}
