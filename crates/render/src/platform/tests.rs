use serde_json::{Value, json};
use winpool_api::TaintEffect;
use winpool_facts::{ContainerRuntime, ContainerdLine, platforms::Setting};

use super::*;
use crate::{self as render, profile};

const BUILD: Build = Build(20348);

fn taint(key: &str, value: &str) -> Taint {
    Taint { key: key.to_owned(), value: value.to_owned(), effect: TaintEffect::NoSchedule }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn of(
    target: Platform,
    kubelet: u32,
    spec: &Value,
    taints: &[Taint],
    labels: &BTreeMap<String, String>,
) -> PlatformDocuments {
    let profile = profile::check(&serde_json::from_value(spec.clone()).unwrap()).unwrap();
    let runtime = ContainerRuntime::Containerd(ContainerdLine::new(1, 7));
    let variant = render::Variant { kubelet: Minor(kubelet), runtime, host: BUILD };
    let layer = render::render(taints, &profile, &variant).unwrap().files;
    let pause_image = render::pause::image(&profile, &variant).unwrap();
    let nodes = NodesToMake {
        pool: "web",
        build: BUILD,
        taints,
        labels,
        profile: Some(&profile),
        kubelet: Minor(kubelet),
        pause_image: pause_image.as_deref(),
        kubelet_yaml: &layer[render::KUBELET_YAML],
    };
    documents(target, &nodes).unwrap()
}

fn plain(target: Platform, kubelet: u32, spec: &Value) -> PlatformDocuments {
    of(target, kubelet, spec, &[], &BTreeMap::new())
}

fn lost(documents: &PlatformDocuments) -> Vec<&'static str> {
    documents.report.lost.iter().map(|lost| lost.setting.name()).collect()
}

/// The documents without comments.
fn content(documents: &PlatformDocuments) -> String {
    let lines = documents.files.values().flat_map(|text| text.lines());
    lines.filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

/// A profile in which only the maximum of pods counts.
fn base() -> Value {
    json!({
        "kubelet": {"systemReserved": {}, "priorityClass": "Normal", "containerLogs": {"maxSize": "10Mi"}},
        "containerd": {"imagePullProgressTimeout": "5m"},
    })
}

/// A profile for each setting, as a patch of [`base`].
fn patches() -> Vec<(Setting, Value)> {
    let kubelet = |value: Value| json!({"kubelet": value});
    let containerd = |value: Value| json!({"containerd": value});
    let mirror = json!({"registry": "docker.io", "endpoints": ["https://m.example"], "caFile": "C:\\ca.pem"});
    vec![
        (Setting::SystemReserved, kubelet(json!({"systemReserved": {"memory": "3Gi"}}))),
        (Setting::KubeReserved, kubelet(json!({"kubeReserved": {"cpu": "200m"}}))),
        (Setting::EvictionHard, kubelet(json!({"evictionHard": {"memory.available": "1Gi"}}))),
        (Setting::MaxPods, kubelet(json!({"maxPods": 60}))),
        (Setting::ImageGc, kubelet(json!({"imageGC": {"highThresholdPercent": 70, "lowThresholdPercent": 60}}))),
        (Setting::ContainerLogs, kubelet(json!({"containerLogs": {"maxSize": "20Mi", "maxFiles": 3}}))),
        (Setting::FeatureGates, kubelet(json!({"featureGates": {"NodeLogQuery": true}}))),
        (Setting::PriorityClass, kubelet(json!({"priorityClass": "High"}))),
        (Setting::Verbosity, kubelet(json!({"logging": {"verbosity": 4}}))),
        (Setting::Extra("clusterDNS"), kubelet(json!({"extra": {"clusterDNS": ["10.0.0.10"]}}))),
        (Setting::Extra("podsPerCore"), kubelet(json!({"extra": {"podsPerCore": 9}}))),
        (Setting::Extra("registryPullQPS"), kubelet(json!({"extra": {"registryPullQPS": 9}}))),
        (Setting::Extra("nodeStatusReportFrequency"), kubelet(json!({"extra": {"nodeStatusReportFrequency": "2m"}}))),
        (
            Setting::PauseImage,
            json!({"pauseImage": {"source": "Custom", "repository": "registry.example/pause", "tag": "3.10"}}),
        ),
        (Setting::RegistryMirrors, containerd(json!({"registryMirrors": [mirror]}))),
        (Setting::Cni, containerd(json!({"cni": {"binDir": "C:\\cni"}}))),
        (Setting::ImagePullProgressTimeout, containerd(json!({"imagePullProgressTimeout": "30m"}))),
        (Setting::Root, containerd(json!({"root": "D:\\containerd"}))),
        (Setting::ExtraConfig, containerd(json!({"extraConfig": "[debug]\nlevel = \"debug\""}))),
        (Setting::KubeProxy, json!({"kubeProxy": {"winDSR": true}})),
        (Setting::Proxy, json!({"proxy": {"httpProxy": "http://proxy:3128"}})),
    ]
}

fn patched(patch: &Value) -> Value {
    let mut spec = base();
    json_patch::merge(&mut spec, patch);
    spec
}

#[test]
fn a_setting_changes_the_documents_exactly_if_it_is_taken() {
    for target in Platform::ALL {
        for kubelet in [30, 31, 32, 36] {
            let before = plain(target, kubelet, &base());
            let replaced = match target {
                // AKS has other values than the defaults of the kubelet, which this profile means.
                Platform::Aks => vec!["evictionHard", "priorityClass"],
                _ => vec![],
            };
            assert_eq!((&before.report.taken[..], lost(&before)), (&[Setting::MaxPods][..], replaced), "{target:?}");
            for (setting, patch) in patches() {
                let after = plain(target, kubelet, &patched(&patch));
                let name = format!("{target:?} {kubelet} {setting:?}");
                let is_lost = lost(&after).contains(&setting.name());
                assert_ne!(after.report.takes(setting), is_lost, "{name}: {}", after.report);
                assert_eq!(content(&after) != content(&before), after.report.takes(setting), "{name}");
            }
        }
    }
}

#[test]
fn every_setting_of_a_profile_is_taken_or_lost_once() {
    let all = patches().into_iter().fold(base(), |mut spec, (_, patch)| {
        json_patch::merge(&mut spec, &patch);
        spec
    });
    let mut settings: Vec<_> = patches().into_iter().map(|(setting, _)| setting).collect();
    settings.extend([Setting::Taints, Setting::Labels]);
    settings.sort();
    for target in Platform::ALL {
        for kubelet in [30, 31, 32, 36] {
            let documents = of(target, kubelet, &all, &[taint("os", "windows")], &labels(&[("team", "web")]));
            let LossReport { taken, lost, .. } = &documents.report;
            let mut found: Vec<_> = taken.iter().copied().chain(lost.iter().map(|lost| lost.setting)).collect();
            found.sort();
            assert_eq!(found, settings, "{target:?} {kubelet}");
            let count = format!("takes {} of {} settings", taken.len(), settings.len());
            assert!(documents.report.summary().contains(&count), "{}", documents.report.summary());
        }
    }
}

#[test]
fn a_value_that_a_platform_does_not_accept_is_lost() {
    let kubelet = |value: Value| patched(&json!({"kubelet": value}));
    let two = json!({"extra": {"clusterDNS": ["10.0.0.10", "10.0.0.11"]}});
    let table = [
        (Platform::Aks, kubelet(json!({"maxPods": 9})), vec!["evictionHard", "maxPods", "priorityClass"]),
        (Platform::Aks, kubelet(json!({"maxPods": 10})), vec!["evictionHard", "priorityClass"]),
        (Platform::Aks, kubelet(json!({"maxPods": 250})), vec!["evictionHard", "priorityClass"]),
        (Platform::Aks, kubelet(json!({"maxPods": 251})), vec!["evictionHard", "maxPods", "priorityClass"]),
        (
            Platform::Aks,
            kubelet(json!({"containerLogs": {"maxSize": "50M"}})),
            vec!["evictionHard", "containerLogs", "priorityClass"],
        ),
        (Platform::Aks, kubelet(json!({"priorityClass": "AboveNormal"})), vec!["evictionHard"]),
        (Platform::Eks, kubelet(two.clone()), vec!["clusterDNS"]),
        (Platform::Karpenter, kubelet(two.clone()), vec!["clusterDNS"]),
        (Platform::KarpenterUserData, kubelet(two.clone()), vec!["clusterDNS"]),
        (Platform::Rke2, kubelet(two), vec![]),
        (Platform::Eks, kubelet(json!({"extra": {"contentType": "a b"}})), vec!["contentType"]),
        (Platform::Eks, kubelet(json!({"extra": {"contentType": "a\"b"}})), vec!["contentType"]),
        (Platform::Eks, kubelet(json!({"extra": {"contentType": "a';b"}})), vec!["contentType"]),
        (Platform::Eks, kubelet(json!({"extra": {"contentType": "a\nb"}})), vec!["contentType"]),
        (Platform::Eks, kubelet(json!({"extra": {"contentType": "a$b`"}})), vec!["contentType"]),
        (Platform::Eks, kubelet(json!({"extra": {"contentType": "application/json"}})), vec![]),
    ];
    for (target, spec, expected) in table {
        assert_eq!(lost(&plain(target, 36, &spec)), expected, "{target:?} {spec}");
    }
    for (endpoint, is_lost) in [
        ("https://m.example", false),
        ("https://m.example:5000/", false),
        ("https://m.example/v2", false),
        ("https://m.example/v2/hub", true),
        ("https://m.example/hub", true),
    ] {
        let mirror = json!({"registry": "docker.io", "endpoints": [endpoint]});
        let spec = patched(&json!({"containerd": {"registryMirrors": [mirror]}}));
        assert_eq!(lost(&plain(Platform::Rke2, 36, &spec)).contains(&"registryMirrors"), is_lost, "{endpoint}");
    }
}

#[test]
fn taints_and_labels_that_a_platform_does_not_take_are_left_to_the_operator() {
    let taints = [taint("os", "windows"), taint("batch", ""), taint("os", "other")];
    let labels = labels(&[("team", "web"), ("example.kubernetes.io/x", "1"), ("kubernetes.azure.com/y", "2")]);
    let table: [(Platform, &[&str], &[&str]); 5] = [
        (Platform::Eks, &["batch", "other", "kubernetes.azure.com/y"], &["example.kubernetes.io/x"]),
        (
            Platform::Aks,
            &["os=windows:NoSchedule,os=other:NoSchedule", "team=web"],
            &["batch", "example.kubernetes.io/x", "kubernetes.azure.com/y"],
        ),
        (Platform::Karpenter, &["batch", "kubernetes.azure.com/y"], &["example.kubernetes.io/x"]),
        (
            Platform::KarpenterUserData,
            &["batch", "kubernetes.azure.com/y", "--register-with-taints=karpenter.sh/unregistered:NoExecute"],
            &["example.kubernetes.io/x"],
        ),
        (Platform::Rke2, &["batch=:NoSchedule", "team=web"], &["example.kubernetes.io/x"]),
    ];
    for (target, present, absent) in table {
        let documents = of(target, 36, &base(), &taints, &labels);
        // The drop-in of the kubelet has all taints.
        let (_, text) = documents.files.first_key_value().unwrap();
        let content: String = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(present.iter().all(|text| content.contains(text)), "{target:?}: {content}");
        assert!(!absent.iter().any(|text| content.contains(text)), "{target:?}: {content}");
        assert!(lost(&documents).contains(&"labels"), "{target:?}");
    }
}

fn without_profile<'a>(build: Build, taints: &'a [Taint], labels: &'a BTreeMap<String, String>) -> NodesToMake<'a> {
    let (profile, pause_image, kubelet_yaml) = (None, None, "");
    NodesToMake { pool: "web", build, taints, labels, profile, kubelet: Minor(36), pause_image, kubelet_yaml }
}

#[test]
fn nodes_without_a_profile_have_taints_and_labels() {
    let labels = labels(&[("team", "web")]);
    let taints = [taint("os", "windows")];
    for target in Platform::ALL {
        let documents = documents(target, &without_profile(BUILD, &taints, &labels)).unwrap();
        assert_eq!(documents.report.taken, [Setting::Taints, Setting::Labels]);
        assert_eq!(lost(&documents), Vec::<&str>::new());
        assert_eq!(documents.files.len(), 1, "{:?}", documents.files.keys());
    }
}

#[test]
fn a_platform_without_an_image_of_the_build_makes_no_documents() {
    let empty = BTreeMap::new();
    let nodes = |build| without_profile(Build(build), &[], &empty);
    let table = [
        (Platform::Aks, 17763, "AKS has no known image with Windows 10.0.17763"),
        (Platform::Karpenter, 19042, "Karpenter has no known image with Windows 10.0.19042"),
    ];
    for (target, build, expected) in table {
        assert_eq!(documents(target, &nodes(build)).unwrap_err(), expected);
    }
    let before = NodesToMake { kubelet: Minor(34), ..nodes(26100) };
    assert_eq!(
        documents(Platform::Eks, &before).unwrap_err(),
        "EKS (self-managed node group) has no Windows 10.0.26100 in Kubernetes 1.34, the first version with it is 1.35 (--kubernetes 1.35)"
    );
    assert!(documents(Platform::Rke2, &nodes(19042)).is_ok());
    let script = &documents(Platform::Aks, &nodes(26100)).unwrap().files["nodepool.sh"];
    assert!(script.contains("--enable-fips-image"), "{script}");
}

#[test]
fn documents_in_yaml_are_valid_with_their_report() {
    for target in Platform::ALL.into_iter().filter(|target| separator(*target) == "---\n") {
        for (_, patch) in patches() {
            let documents = plain(target, 36, &patched(&patch));
            for text in documents.files.values() {
                assert!(serde_saphyr::from_multiple::<Value>(text).is_ok(), "{text}");
            }
        }
    }
}
