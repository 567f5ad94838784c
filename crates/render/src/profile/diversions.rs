//! The settings of a profile that send traffic of nodes to a host of their choice. Whoever answers there can do more than whoever writes
//! profiles should be able to, so the operator and the agents allow such hosts.

use serde_json::Value;
use winpool_api::RegistryMirror;
use winpool_facts::containerd_settings::SETTINGS;

use super::{
    Pause, Profile,
    settings::{destinations, image_destination},
};
use crate::allowances::{Destination, Diversion, Traffic};

#[derive(Clone, Copy, Debug)]
pub struct DivertingField {
    pub field: &'static str,
    pub traffic: Traffic,
    /// The hosts, each with its path.
    found: fn(&Profile) -> Vec<(String, Destination)>,
}

/// Every such field. What else a profile has sends nothing elsewhere.
pub const DIVERTING_FIELDS: &[DivertingField] = &[
    DivertingField { field: "spec.containerd.registryMirrors", traffic: Traffic::Images, found: mirrors },
    DivertingField { field: "spec.containerd.extraConfig", traffic: Traffic::Images, found: extra_config },
    DivertingField { field: "spec.pauseImage.repository", traffic: Traffic::PauseImage, found: pause_image },
    DivertingField {
        field: "spec.kubelet.extra.clusterDNS",
        traffic: Traffic::Names,
        found: |it| extra(it, "clusterDNS"),
    },
    DivertingField {
        field: "spec.kubelet.extra.clusterDomain",
        traffic: Traffic::Names,
        found: |it| extra(it, "clusterDomain"),
    },
    DivertingField { field: "spec.kubelet.extra.tracing", traffic: Traffic::Traces, found: |it| extra(it, "tracing") },
    DivertingField {
        field: "spec.proxy.httpProxy",
        traffic: Traffic::Connections,
        found: |it| proxy("spec.proxy.httpProxy", &it.proxy.http_proxy),
    },
    DivertingField {
        field: "spec.proxy.httpsProxy",
        traffic: Traffic::Connections,
        found: |it| proxy("spec.proxy.httpsProxy", &it.proxy.https_proxy),
    },
];

pub fn diversions(profile: &Profile) -> Vec<Diversion> {
    let of_field = |DivertingField { traffic, found, .. }: &DivertingField| {
        let traffic = *traffic;
        found(profile).into_iter().map(move |(path, to)| Diversion { path, traffic, to })
    };
    DIVERTING_FIELDS.iter().flat_map(of_field).collect()
}

/// The traffic that a field of KubeletConfiguration sends to other hosts.
pub fn kubelet_diversions(name: &str, value: &Value) -> Vec<Diversion> {
    let texts = || value.as_array().into_iter().flatten().chain([value]).filter_map(Value::as_str);
    let (traffic, hosts): (_, Vec<_>) = match name {
        "clusterDNS" | "clusterDomain" => (Traffic::Names, texts().map(Destination::of_host).collect()),
        // The endpoint is HOST:PORT, and its connection is not encrypted.
        "tracing" => (Traffic::Traces, value["endpoint"].as_str().map(Destination::of_host).into_iter().collect()),
        _ => return Vec::new(),
    };
    hosts.into_iter().map(|to| Diversion { path: name.to_owned(), traffic, to }).collect()
}

fn extra(profile: &Profile, name: &str) -> Vec<(String, Destination)> {
    let diversions = profile.kubelet.extra(name).map(|value| kubelet_diversions(name, value));
    let in_profile = |Diversion { path, to, .. }| (format!("spec.kubelet.extra.{path}"), to);
    diversions.into_iter().flatten().map(in_profile).collect()
}

fn mirrors(profile: &Profile) -> Vec<(String, Destination)> {
    let of_mirror = |(index, mirror): (usize, &RegistryMirror)| {
        let verified = !mirror.skip_verify;
        let endpoints: Vec<_> = mirror.endpoints.iter().map(|address| Destination::of_address(address)).collect();
        endpoints.into_iter().enumerate().map(move |(number, to)| {
            let path = format!("spec.containerd.registryMirrors[{index}].endpoints[{number}]");
            (path, if verified { to } else { to.unverified() })
        })
    };
    profile.containerd.registry_mirrors.iter().enumerate().flat_map(of_mirror).collect()
}

fn extra_config(profile: &Profile) -> Vec<(String, Destination)> {
    let found = destinations(&profile.containerd_extra, SETTINGS);
    found.into_iter().map(|(_, to)| ("spec.containerd.extraConfig".to_owned(), to)).collect()
}

fn pause_image(profile: &Profile) -> Vec<(String, Destination)> {
    let Pause::Custom(repository, _) = &profile.pause else { return Vec::new() };
    image_destination(repository).map(|to| ("spec.pauseImage.repository".to_owned(), to)).into_iter().collect()
}

fn proxy(path: &str, address: &str) -> Vec<(String, Destination)> {
    // The connections through it have certificates of their own.
    let to = || Destination::of_address(address).regardless_of_proof();
    (!address.is_empty()).then(|| (path.to_owned(), to())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube::CustomResourceExt as _;
    use serde_json::json;
    use winpool_api::WindowsRuntimeProfile;

    use super::*;
    use crate::{allowances::Allowances, profile};

    fn found(spec: &Value) -> Vec<String> {
        let profile = profile::check(&serde_json::from_value(spec.clone()).unwrap()).unwrap();
        diversions(&profile).into_iter().map(|Diversion { path, to, .. }| format!("{path} {to}")).collect()
    }

    #[test]
    fn each_host_of_a_profile_is_found_at_its_path() {
        let mirror = |rest: Value| {
            let mut mirror =
                json!({"registry": "mcr.microsoft.com", "endpoints": ["https://a.example", "http://b.example:5000"]});
            mirror.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            json!({"containerd": {"registryMirrors": [mirror]}})
        };
        let extra = |text: &str| json!({"containerd": {"extraConfig": text}});
        let mirrors = "spec.containerd.registryMirrors[0].endpoints";
        let table = [
            (mirror(json!({})), vec![format!("{mirrors}[0] a.example"), format!("{mirrors}[1] http://b.example:5000")]),
            (
                mirror(json!({"skipVerify": true})),
                vec![format!("{mirrors}[0] http://a.example"), format!("{mirrors}[1] http://b.example:5000")],
            ),
            (
                extra(
                    "[plugins.'io.containerd.cri.v1.images'.registry.mirrors.'mcr.microsoft.com']\nendpoint = ['https://a.example']",
                ),
                vec!["spec.containerd.extraConfig a.example".to_owned()],
            ),
            (
                extra(
                    "[plugins.'io.containerd.grpc.v1.cri'.registry.configs.'a.example'.tls]\ninsecure_skip_verify = true",
                ),
                vec!["spec.containerd.extraConfig http://a.example".to_owned()],
            ),
            (
                extra("[plugins.'io.containerd.grpc.v1.cri']\nsandbox_image = 'a.example/pause:1'"),
                vec!["spec.containerd.extraConfig a.example".to_owned()],
            ),
            (
                extra("[plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = 'registry.k8s.io/pause:3.10'"),
                vec![],
            ),
            (
                json!({"pauseImage": {"source": "Custom", "repository": "a.example:5000/pause"}}),
                vec!["spec.pauseImage.repository a.example:5000".to_owned()],
            ),
            (json!({"pauseImage": {"source": "Custom", "repository": "registry.k8s.io/pause", "tag": "3.10"}}), vec![]),
            (json!({"pauseImage": {"source": "Upstream"}}), vec![]),
            (
                json!({"kubelet": {"extra": {"clusterDNS": ["10.0.0.10", "fd00::a"], "clusterDomain": "a.example"}}}),
                [
                    "spec.kubelet.extra.clusterDNS 10.0.0.10",
                    "spec.kubelet.extra.clusterDNS fd00::a",
                    "spec.kubelet.extra.clusterDomain a.example",
                ]
                .map(str::to_owned)
                .into(),
            ),
            (
                json!({"kubelet": {"extra": {"tracing": {"endpoint": "a.example:4317"}}}}),
                vec!["spec.kubelet.extra.tracing a.example:4317".to_owned()],
            ),
            (
                json!({"proxy": {"httpProxy": "http://a.example:3128", "httpsProxy": "https://b.example", "noProxy": "c"}}),
                vec!["spec.proxy.httpProxy a.example:3128".to_owned(), "spec.proxy.httpsProxy b.example".to_owned()],
            ),
            (json!({}), vec![]),
        ];
        for (spec, expected) in table {
            assert_eq!(found(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn a_host_that_is_not_allowed_is_a_problem_with_the_entry_that_allows_it() {
        let spec =
            json!({"containerd": {"registryMirrors": [{"registry": "docker.io", "endpoints": ["http://a.example"]}]}});
        let diversions = diversions(&profile::check(&serde_json::from_value(spec).unwrap()).unwrap());
        let [problem] = &Allowances::default().problems(diversions.clone())[..] else { panic!("one problem") };
        assert_eq!(problem.path, "spec.containerd.registryMirrors[0].endpoints[0]");
        assert_eq!(problem.wrong, "images are pulled from http://a.example, which must be allowed by the operator");
        assert!(problem.remedy.starts_with("add http://a.example to WINPOOL_ALLOW_HOSTS (--allow-hosts)"), "{problem}");
        let allowed = Allowances { hosts: vec!["http://a.example".parse().unwrap()], ..Allowances::default() };
        assert_eq!(allowed.problems(diversions), []);
    }

    #[test]
    fn every_field_of_a_profile_sends_traffic_to_hosts_that_must_be_allowed_or_to_none() {
        let local = [
            "spec.containerd.cni",
            "spec.containerd.imagePullProgressTimeout",
            "spec.containerd.root",
            "spec.kubeProxy.featureGates",
            "spec.kubeProxy.mode",
            // Names of the node's own network, and an address that replies return to.
            "spec.kubeProxy.networkName",
            "spec.kubeProxy.sourceVIP",
            "spec.kubeProxy.winDSR",
            "spec.kubelet.containerLogs",
            "spec.kubelet.evictionHard",
            "spec.kubelet.featureGates",
            "spec.kubelet.imageGC",
            "spec.kubelet.kubeReserved",
            "spec.kubelet.logging",
            "spec.kubelet.maxPods",
            "spec.kubelet.priorityClass",
            "spec.kubelet.systemReserved",
            "spec.maxImageUpdatesBehind",
            // The publisher, and a tag of its repository.
            "spec.pauseImage.source",
            "spec.pauseImage.tag",
            // What the proxy is not used for.
            "spec.proxy.noProxy",
        ];
        let definition = serde_json::to_value(WindowsRuntimeProfile::crd()).unwrap();
        let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let fields =
            spec.as_object().unwrap().iter().flat_map(|(part, schema)| match schema["properties"].as_object() {
                Some(fields) => fields.keys().map(|field| format!("spec.{part}.{field}")).collect(),
                None => vec![format!("spec.{part}")],
            });
        let diverting = DIVERTING_FIELDS.iter().map(|row| row.field.split('.').take(3).collect::<Vec<_>>().join("."));
        let known: BTreeSet<_> = diverting.chain(local.map(str::to_owned)).collect();
        assert_eq!(fields.collect::<BTreeSet<_>>(), known);
    }
}
