//! What a Windows node is given for its kubelet, as golden files: the whole configuration, rendered from a profile for
//! kubelets of several ages.

#![allow(clippy::unwrap_used)] // helpers of tests may unwrap

use insta::assert_snapshot;
use serde_json::{Value, json};
use winpool::{
    api::{Taint, TaintEffect},
    domain::{
        profile::{self, Profile},
        render::{KUBELET_ARGS, KUBELET_YAML, Runtime, Variant, render},
    },
    facts::{Build, Minor},
};

fn profile(spec: Value) -> Profile {
    profile::check(&serde_json::from_value(spec).unwrap()).unwrap()
}

fn standard() -> Profile {
    profile(json!({
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
    }))
}

/// `kubelet.yaml` and `kubelet.args` under their names.
fn rendered(profile: &Profile, kubelet: u32, runtime: Runtime, host: u32) -> String {
    let taints = [Taint { key: "os".into(), value: "windows".into(), effect: TaintEffect::NoSchedule }];
    let variant = Variant { kubelet: Minor(kubelet), runtime, host: Build(host) };
    let files = render(&taints, profile, &variant).unwrap().files;
    [KUBELET_YAML, KUBELET_ARGS].map(|name| format!("--- {name}\n{}", files[name])).concat()
}

const fn containerd(major: u32, minor: u32) -> Runtime {
    Runtime::Containerd { major, minor }
}

#[test]
fn kubelet_1_20() {
    assert_snapshot!(rendered(&standard(), 20, containerd(1, 6), 17763));
}

#[test]
fn kubelet_1_20_with_dockershim() {
    let profile = profile(json!({"containerd": {"cni": {"binDir": r"C:\k\cni", "confDir": r"C:\k\cni\config"}}}));
    assert_snapshot!(rendered(&profile, 20, Runtime::Dockershim, 17763));
}

#[test]
fn kubelet_1_24() {
    assert_snapshot!(rendered(&standard(), 24, containerd(1, 6), 20348));
}

#[test]
fn kubelet_1_24_with_cri_dockerd() {
    assert_snapshot!(rendered(&profile(json!({})), 24, Runtime::CriDockerd, 20348));
}

#[test]
fn kubelet_1_30() {
    assert_snapshot!(rendered(&standard(), 30, containerd(1, 7), 20348));
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
    assert_snapshot!(rendered(&standard(), 36, containerd(2, 3), 26100));
}
