//! The check of a profile. It reports all errors at once.
//!
//! Ranges, lengths and patterns of the schema are not checked again: API servers validate objects, and `manifests`
//! validates files. Fields and gates are checked against a kubelet's minor when a configuration is rendered.

use std::collections::BTreeMap;

use winpool_api::{
    ContainerLogs, ImageGarbageCollection, KubeletSettings, PauseImageSettings, PauseImageSource, QuantityText,
    WindowsRuntimeProfileSpec, pattern::REPOSITORY,
};
use winpool_core::{
    Problem,
    kubernetes::{quantity::Quantity, syntax::is_registry},
};
use winpool_facts::{node_reserves, pause::PausePublisher};

use super::{
    Kubelet, Pause, Profile, Resource, containerd,
    eviction::thresholds,
    extra,
    gates::{self, GatedProgram},
    network,
    problems::Problems,
};

/// The least memory of [`node_reserves`].
const RECOMMENDED_MEMORY: Quantity = Quantity::of_bytes(node_reserves::RECOMMENDED_MEMORY);

pub fn check(spec: &WindowsRuntimeProfileSpec) -> Result<Profile, Vec<Problem>> {
    let mut problems = Problems::default();
    let kubelet = kubelet(&spec.kubelet, &mut problems);
    let pause = pause(&spec.pause_image, &mut problems);
    let containerd_extra = containerd::check(&spec.containerd, &mut problems);
    if let Some(kube_proxy) = &spec.kube_proxy {
        network::kube_proxy(kube_proxy, &mut problems);
    }
    network::proxy(&spec.proxy, &mut problems);
    if !problems.errors.is_empty() {
        return Err(problems.errors);
    }
    Ok(Profile {
        kubelet,
        pause,
        containerd: spec.containerd.clone(),
        containerd_extra,
        kube_proxy: spec.kube_proxy.clone(),
        proxy: spec.proxy.clone(),
        max_image_updates_behind: spec.max_image_updates_behind,
        warnings: problems.warnings,
    })
}

fn kubelet(settings: &KubeletSettings, problems: &mut Problems) -> Kubelet {
    let KubeletSettings { priority_class, max_pods, image_gc, container_logs, feature_gates, .. } = settings;
    let system_reserved = reserves("spec.kubelet.systemReserved", &settings.system_reserved, problems);
    if system_reserved.get(&Resource::Memory).is_none_or(|memory| *memory < RECOMMENDED_MEMORY) {
        let wrong = "less than 2Gi is reserved for Windows, which has no OOM killer";
        problems.warning("spec.kubelet.systemReserved.memory", wrong, "write 2Gi or more");
    }
    image_garbage_collection(*image_gc, problems);
    gates::check(GatedProgram::Kubelet, feature_gates, problems);
    verbosity(settings, problems);
    Kubelet {
        priority_class: *priority_class,
        system_reserved,
        kube_reserved: reserves("spec.kubelet.kubeReserved", &settings.kube_reserved, problems),
        eviction_hard: thresholds("spec.kubelet.evictionHard", &settings.eviction_hard, problems),
        max_pods: *max_pods,
        image_gc_high: image_gc.high_threshold_percent,
        image_gc_low: image_gc.low_threshold_percent,
        log_max_size: log_size(container_logs, problems),
        log_max_files: container_logs.max_files,
        feature_gates: feature_gates.clone(),
        verbosity: settings.logging.verbosity,
        extra: extra::check(&settings.extra, problems),
    }
}

fn reserves(
    path: &str,
    written: &BTreeMap<String, QuantityText>,
    problems: &mut Problems,
) -> BTreeMap<Resource, Quantity> {
    let mut reserved = BTreeMap::new();
    for (name, QuantityText(text)) in written {
        let path = format!("{path}.{name}");
        let Some(resource) = Resource::named(name) else {
            let wrong = format!("a Windows kubelet cannot reserve `{name}`");
            problems.error(path, wrong, "remove it, or write cpu, memory or ephemeral-storage");
            continue;
        };
        match text.parse::<Quantity>() {
            Err(error) => problems.error(path, error.to_string(), example(resource)),
            Ok(quantity) if quantity.is_negative() => {
                problems.error(path, format!("`{text}` is negative"), example(resource));
            }
            Ok(quantity) => {
                if resource != Resource::Cpu && !quantity.is_zero() && quantity < Quantity::of_bytes(1 << 20) {
                    let wrong = format!("`{text}` is {} bytes", quantity.bytes());
                    problems.warning(path, wrong, "add a unit such as Mi or Gi");
                }
                reserved.insert(resource, quantity);
            }
        }
    }
    reserved
}

const fn example(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "write a quantity such as 500m",
        Resource::Memory | Resource::EphemeralStorage => "write a quantity such as 2Gi",
    }
}

fn image_garbage_collection(settings: ImageGarbageCollection, problems: &mut Problems) {
    let ImageGarbageCollection { high_threshold_percent: high, low_threshold_percent: low } = settings;
    if low >= high {
        let wrong = format!("lowThresholdPercent is {low}, and highThresholdPercent is {high}");
        let remedy = "write a value lower than highThresholdPercent";
        problems.error("spec.kubelet.imageGC.lowThresholdPercent", wrong, remedy);
    }
}

fn log_size(ContainerLogs { max_size, .. }: &ContainerLogs, problems: &mut Problems) -> Quantity {
    let size = max_size.0.parse::<Quantity>().ok().filter(|size| *size > Quantity::of_bytes(0));
    size.unwrap_or_else(|| {
        let wrong = format!("`{max_size}` is not a positive quantity");
        problems.error("spec.kubelet.containerLogs.maxSize", wrong, "write a quantity such as 50Mi");
        Quantity::of_bytes(0)
    })
}

fn verbosity(settings: &KubeletSettings, problems: &mut Problems) {
    let in_extra = settings.extra.get("logging").is_some_and(|logging| logging.get("verbosity").is_some());
    if settings.logging.verbosity.is_some() && in_extra {
        let wrong = "the verbosity is also set in spec.kubelet.logging";
        problems.error("spec.kubelet.extra.logging.verbosity", wrong, "remove one of the two");
    }
}

fn pause(settings: &PauseImageSettings, problems: &mut Problems) -> Pause {
    let PauseImageSettings { source, repository, tag } = settings;
    let chosen_tag = (!tag.is_empty()).then(|| tag.clone());
    let registry = match source {
        PauseImageSource::Node => {
            for (field, text) in [("repository", repository), ("tag", tag)] {
                if !text.is_empty() {
                    let wrong = format!("source Node does not use a {field}");
                    problems.error(format!("spec.pauseImage.{field}"), wrong, "remove it, or set another source");
                }
            }
            return Pause::Node;
        }
        PauseImageSource::Microsoft => PausePublisher::Microsoft,
        PauseImageSource::Upstream => PausePublisher::Upstream,
        PauseImageSource::Custom => {
            if let Some(wrong) = repository_problem(repository) {
                problems.error("spec.pauseImage.repository", wrong, REPOSITORY.remedy);
            }
            return Pause::Custom(repository.clone(), chosen_tag);
        }
    };
    if !repository.is_empty() {
        let wrong = format!("source {source:?} does not use a repository");
        problems.error("spec.pauseImage.repository", wrong, "set source: Custom, or remove the repository");
    }
    Pause::Known(registry, chosen_tag)
}

/// The problem with a repository, if it is not a registry and the path of an image.
fn repository_problem(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("source Custom requires a repository".to_owned());
    }
    let (registry, path) = text.split_once('/').unwrap_or((text, ""));
    let last_part = text.rsplit_once('/').map(|(_, part)| part);
    if last_part.is_some_and(|part| part.contains([':', '@'])) {
        return Some(format!("`{text}` contains a tag or a digest"));
    }
    let is_valid = is_registry(registry) && path.split('/').all(is_path_part) && text.len() <= 255;
    (!is_valid).then(|| format!("`{text}` is not an image repository"))
}

/// Lower-case letters and digits, separated by a dot, one or two underscores, or dashes.
fn is_path_part(text: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_separator = |part: &str| matches!(part, "." | "_" | "__") || part.bytes().all(|byte| byte == b'-');
    text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
        && text.split(is_alphanumeric).all(is_separator)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(spec: Value) -> Result<Profile, Vec<Problem>> {
        check(&serde_json::from_value(spec).unwrap())
    }

    fn kubelet_with(field: &str, value: Value) -> Value {
        json!({"kubelet": {field: value}})
    }

    fn pause_with(source: &str, repository: &str, tag: &str) -> Value {
        json!({"pauseImage": {"source": source, "repository": repository, "tag": tag}})
    }

    fn mirror_with(registry: &str, endpoint: &str) -> Value {
        json!({"containerd": {"registryMirrors": [{"registry": registry, "endpoints": [endpoint]}]}})
    }

    #[test]
    fn the_default_profile_is_valid_and_reserves_memory_for_windows() {
        let profile = checked(json!({})).unwrap();
        assert_eq!(profile.warnings, []);
        assert_eq!(profile.kubelet.system_reserved, BTreeMap::from([(Resource::Memory, Quantity::of_bytes(2 << 30))]));
        assert_eq!(profile.kubelet.max_pods, 110);
        assert_eq!(profile.pause, Pause::Known(PausePublisher::Microsoft, None));
    }

    #[test]
    fn each_error_is_reported_at_its_path() {
        let table = [
            (kubelet_with("systemReserved", json!({"memory": "2GB"})), "kubelet.systemReserved.memory"),
            (kubelet_with("systemReserved", json!({"memory": "-2Gi"})), "kubelet.systemReserved.memory"),
            (kubelet_with("kubeReserved", json!({"cpu": "half"})), "kubelet.kubeReserved.cpu"),
            (kubelet_with("kubeReserved", json!({"pid": "100"})), "kubelet.kubeReserved.pid"),
            (kubelet_with("evictionHard", json!({"pid.available": "10%"})), "kubelet.evictionHard.pid.available"),
            (kubelet_with("evictionHard", json!({"nodefs.free": "10%"})), "kubelet.evictionHard.nodefs.free"),
            (
                kubelet_with("evictionHard", json!({"memory.available": "101%"})),
                "kubelet.evictionHard.memory.available",
            ),
            (kubelet_with("evictionHard", json!({"memory.available": "0"})), "kubelet.evictionHard.memory.available"),
            (
                kubelet_with("evictionHard", json!({"memory.available": "much"})),
                "kubelet.evictionHard.memory.available",
            ),
            (kubelet_with("imageGC", json!({"lowThresholdPercent": 85})), "kubelet.imageGC.lowThresholdPercent"),
            (kubelet_with("containerLogs", json!({"maxSize": "big"})), "kubelet.containerLogs.maxSize"),
            (kubelet_with("containerLogs", json!({"maxSize": "0"})), "kubelet.containerLogs.maxSize"),
            (kubelet_with("featureGates", json!({"a=b": true})), "kubelet.featureGates.a=b"),
            (pause_with("Custom", "", ""), "pauseImage.repository"),
            (pause_with("Custom", "registry.example", ""), "pauseImage.repository"),
            (pause_with("Custom", "registry.example/Pause", ""), "pauseImage.repository"),
            (pause_with("Custom", "registry.example/pause:3.9", ""), "pauseImage.repository"),
            (pause_with("Custom", "registry.example/pause@sha256:0", ""), "pauseImage.repository"),
            (pause_with("Custom", "https://registry.example/pause", ""), "pauseImage.repository"),
            (pause_with("Custom", "registry.example//pause", ""), "pauseImage.repository"),
            (pause_with("Custom", "registry.example:99999/pause", ""), "pauseImage.repository"),
            (pause_with("Custom", "registry.example/a..b", ""), "pauseImage.repository"),
            (pause_with("Upstream", "registry.example/pause", ""), "pauseImage.repository"),
            (pause_with("Node", "registry.example/pause", ""), "pauseImage.repository"),
            (pause_with("Node", "", "3.10"), "pauseImage.tag"),
            (mirror_with("https://docker.io", "https://mirror.example"), "containerd.registryMirrors[0].registry"),
            (mirror_with("docker.io:http", "https://mirror.example"), "containerd.registryMirrors[0].registry"),
            (mirror_with("docker.io", "mirror.example"), "containerd.registryMirrors[0].endpoints[0]"),
            (mirror_with("docker.io", "ftp://mirror.example"), "containerd.registryMirrors[0].endpoints[0]"),
            (mirror_with("docker.io", "https://"), "containerd.registryMirrors[0].endpoints[0]"),
            (mirror_with("docker.io", "https://u:p@mirror.example"), "containerd.registryMirrors[0].endpoints[0]"),
            (mirror_with("docker.io", "https://mirror.example/v2?ns=a"), "containerd.registryMirrors[0].endpoints[0]"),
            (mirror_with("docker.io", "https://[::g]:5000"), "containerd.registryMirrors[0].endpoints[0]"),
            (
                json!({"containerd": {"registryMirrors": [
                    {"registry": "docker.io", "endpoints": ["https://a.example"]},
                    {"registry": "Docker.io", "endpoints": ["https://b.example"]},
                ]}}),
                "containerd.registryMirrors[1].registry",
            ),
            (
                json!({"containerd": {"registryMirrors": [
                    {"registry": "docker.io", "endpoints": ["https://a.example", "https://a.example"]},
                ]}}),
                "containerd.registryMirrors[0].endpoints[1]",
            ),
            (json!({"containerd": {"cni": {"binDir": "/opt/cni/bin"}}}), "containerd.cni.binDir"),
            (json!({"containerd": {"cni": {"confDir": "C:\\a\"b"}}}), "containerd.cni.confDir"),
        ];
        for (spec, path) in table {
            let problems = checked(spec.clone()).expect_err(&spec.to_string());
            assert_eq!(
                problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(),
                [format!("spec.{path}")],
                "{spec}"
            );
            assert!(!problems[0].wrong.is_empty() && !problems[0].remedy.is_empty(), "{spec}");
        }
    }

    #[test]
    fn suspicious_values_are_accepted_with_a_warning() {
        let table = [
            (kubelet_with("systemReserved", json!({})), "kubelet.systemReserved.memory"),
            (kubelet_with("systemReserved", json!({"memory": "1Gi"})), "kubelet.systemReserved.memory"),
            (kubelet_with("kubeReserved", json!({"memory": "512m"})), "kubelet.kubeReserved.memory"),
            (kubelet_with("evictionHard", json!({"memory.available": "10%"})), "kubelet.evictionHard.memory.available"),
            (kubelet_with("featureGates", json!({"NoSuchGate": true})), "kubelet.featureGates.NoSuchGate"),
            (
                kubelet_with("featureGates", json!({"ClusterTrustBundleProjection": true})),
                "kubelet.featureGates.ClusterTrustBundleProjection",
            ),
        ];
        for (spec, path) in table {
            let warnings = checked(spec.clone()).unwrap().warnings;
            assert_eq!(
                warnings.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(),
                [format!("spec.{path}")],
                "{spec}"
            );
        }
    }

    #[test]
    fn disk_signals_are_accepted_without_a_warning() {
        let spec = json!({"nodefs.available": "10%", "imagefs.available": "15%", "memory.available": "500Mi"});
        assert_eq!(checked(kubelet_with("evictionHard", spec)).unwrap().warnings, []);
    }

    #[test]
    fn valid_repositories_addresses_and_directories_are_accepted() {
        for repository in ["registry.example/pause", "localhost:5000/a/b_c/d--e__f.g", "10.0.0.7:443/k8s/pause-windows"]
        {
            let profile = checked(pause_with("Custom", repository, "3.10.1-3")).unwrap();
            assert_eq!(profile.pause, Pause::Custom(repository.to_owned(), Some("3.10.1-3".to_owned())));
        }
        for endpoint in
            ["https://mirror.example", "http://10.0.0.7:5000/v2/hub", "https://[fd00::1]:5000", "https://[::1]"]
        {
            assert_eq!(checked(mirror_with("registry.example:5000", endpoint)).map(drop), Ok(()), "{endpoint}");
        }
        for directory in [r"C:\opt\cni\bin", "c:/Program Files (x86)/cni", ""] {
            assert_eq!(checked(json!({"containerd": {"cni": {"binDir": directory}}})).map(drop), Ok(()), "{directory}");
        }
    }
}
