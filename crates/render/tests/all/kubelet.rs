//! Golden files of the configuration of the kubelet, for several minors.

use std::collections::BTreeMap;

use insta::assert_snapshot;
use serde_json::{Value, json};
use winpool_api::{Taint, TaintEffect};
use winpool_facts::{Build, ContainerRuntime, ContainerdLine, Minor};
use winpool_render::{
    Bootstrap, Variant,
    profile::{self, Profile},
    render, standalone,
};

fn profile(spec: Value) -> Profile {
    profile::check(&serde_json::from_value(spec).unwrap()).unwrap()
}

fn taints() -> [Taint; 1] {
    [Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule }]
}

/// The files with their names, without those of containerd.
fn rendered(profile: &Profile, kubelet: u32, runtime: ContainerRuntime<ContainerdLine>, host: u32) -> String {
    let variant = Variant { kubelet: Minor(kubelet), runtime, host: Build(host) };
    in_one(&render(&taints(), profile, &variant).unwrap().files)
}

fn in_one(files: &BTreeMap<String, String>) -> String {
    let files = files.iter().filter(|(name, _)| !name.ends_with(".toml"));
    files.map(|(name, text)| format!("--- {name}\n{text}")).collect()
}

const fn containerd(major: u32, minor: u32) -> ContainerRuntime<ContainerdLine> {
    ContainerRuntime::Containerd(ContainerdLine::new(major, minor))
}

#[test]
fn kubelet_1_34() {
    let spec = json!({
        "kubelet": {
            "priorityClass": "High",
            "featureGates": {"WindowsCPUAndMemoryAffinity": true},
            "extra": {
                "cpuManagerPolicy": "static",
                "shutdownGracePeriod": "1m",
                "shutdownGracePeriodCriticalPods": "20s",
                "serializeImagePulls": false,
                "maxParallelImagePulls": 3,
                "reservedMemory": [{"numaNode": 0, "limits": {"memory": "2548Mi"}}],
            },
        },
    });
    assert_snapshot!(rendered(&profile(spec), 34, containerd(2, 1), 26100));
}

#[test]
fn kubelet_1_36() {
    let spec = json!({
        "kubelet": {
            "systemReserved": {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Gi"},
            "kubeReserved": {"cpu": "200m", "memory": "512Mi"},
            "evictionHard": {"memory.available": "500Mi", "nodefs.available": "10%"},
            "extra": {
                "clusterDNS": ["10.96.0.10"],
                "clusterDomain": "cluster.local",
                "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true}},
            },
        },
    });
    assert_snapshot!(rendered(&profile(spec), 36, containerd(2, 3), 26100));
}

fn everything() -> Profile {
    profile(json!({
        "kubelet": {"logging": {"verbosity": 2}},
        "kubeProxy": {"winDSR": true, "networkName": "vxlan0", "sourceVIP": "10.244.1.2"},
        "proxy": {"httpProxy": "http://proxy.example:3128", "noProxy": ".svc,10.0.0.0/8"},
    }))
}

#[test]
fn services_of_kubelet_1_30() {
    assert_snapshot!(rendered(&everything(), 30, containerd(1, 7), 20348));
}

#[test]
fn standalone_kubelet_1_36() {
    let bootstrap = Bootstrap {
        cluster_dns: vec!["10.96.0.10".into()],
        cluster_domain: Some("cluster.local".into()),
        client_ca_file: Some(r"C:\etc\kubernetes\pki\ca.crt".into()),
        kube_proxy_kubeconfig: Some(r"C:\k\kube-proxy.conf".into()),
    };
    let variant = Variant { kubelet: Minor(36), runtime: containerd(2, 3), host: Build(26100) };
    assert_snapshot!(in_one(&standalone(&taints(), &everything(), &variant, &bootstrap).unwrap().files));
}
