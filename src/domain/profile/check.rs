//! The check of a profile: every mistake at once, each with its path and what to write instead.
//!
//! What depends on a kubelet's minor (whether it knows a field or a gate) is checked when a configuration is rendered.

use std::collections::BTreeMap;

use super::{Kubelet, Pause, Profile, Resource, containerd, extra, gates, network};
use crate::{
    api::{ContainerLogs, ImageGarbageCollection, KubeletSettings, PauseImageSettings, PauseImageSource},
    api::{QuantityText, WindowsRuntimeProfileSpec},
    domain::{
        Problem,
        quantity::{ParseThresholdError, Quantity, Threshold},
    },
    facts::{eviction::Signal, pause::Registry},
};

/// The memory that Microsoft and Kubernetes ask to reserve on every Windows node
/// (kubernetes/website, `windows-resource-management.md`, 1.31).
const RECOMMENDED_MEMORY: Quantity = Quantity::of_bytes(2 << 30);
/// The range of `maxPods`, as the schema has it.
const MAX_PODS: std::ops::RangeInclusive<u32> = 1..=1000;
/// The highest verbosity, as the schema has it.
const MAX_VERBOSITY: u32 = 10;

/// What a spec asks for.
///
/// # Errors
/// Every mistake in it.
pub fn check(spec: &WindowsRuntimeProfileSpec) -> Result<Profile, Vec<Problem>> {
    let mut findings = Findings::default();
    let kubelet = kubelet(&spec.kubelet, &mut findings);
    let pause = pause(&spec.pause_image, &mut findings);
    let containerd_extra = containerd::check(&spec.containerd, &mut findings);
    if let Some(kube_proxy) = &spec.kube_proxy {
        network::kube_proxy(kube_proxy, &mut findings);
    }
    network::proxy(&spec.proxy, &mut findings);
    let (mistakes, warnings) = findings.into_parts();
    match mistakes.is_empty() {
        true => Ok(Profile {
            kubelet,
            pause,
            containerd: spec.containerd.clone(),
            containerd_extra,
            kube_proxy: spec.kube_proxy.clone(),
            proxy: spec.proxy.clone(),
            warnings,
        }),
        false => Err(mistakes),
    }
}

/// What the check has found so far.
#[derive(Default)]
pub(super) struct Findings {
    mistakes: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Findings {
    pub(super) fn mistake(&mut self, path: impl Into<String>, wrong: impl Into<String>, remedy: impl Into<String>) {
        self.mistakes.push(Problem::new(path, wrong, remedy));
    }

    /// The mistakes and the warnings.
    pub(super) fn into_parts(self) -> (Vec<Problem>, Vec<Problem>) {
        (self.mistakes, self.warnings)
    }

    pub(super) fn warning(&mut self, path: impl Into<String>, wrong: impl Into<String>, remedy: impl Into<String>) {
        self.warnings.push(Problem::new(path, wrong, remedy));
    }
}

fn kubelet(settings: &KubeletSettings, findings: &mut Findings) -> Kubelet {
    let KubeletSettings { priority_class, max_pods, image_gc, container_logs, feature_gates, .. } = settings;
    let system_reserved = reserves("spec.kubelet.systemReserved", &settings.system_reserved, findings);
    if system_reserved.get(&Resource::Memory).is_none_or(|memory| *memory < RECOMMENDED_MEMORY) {
        let wrong = "less than 2Gi is reserved for Windows, which never kills a process for memory";
        findings.warning("spec.kubelet.systemReserved.memory", wrong, "write 2Gi or more");
    }
    if !MAX_PODS.contains(max_pods) {
        let wrong = format!("{max_pods} pods is not between {} and {}", MAX_PODS.start(), MAX_PODS.end());
        findings.mistake("spec.kubelet.maxPods", wrong, "write a number in that range, such as 110");
    }
    image_garbage_collection(*image_gc, findings);
    gates::check(feature_gates, findings);
    verbosity(settings, findings);
    Kubelet {
        priority_class: *priority_class,
        system_reserved,
        kube_reserved: reserves("spec.kubelet.kubeReserved", &settings.kube_reserved, findings),
        eviction_hard: thresholds("spec.kubelet.evictionHard", &settings.eviction_hard, findings),
        max_pods: *max_pods,
        image_gc_high: image_gc.high_threshold_percent,
        image_gc_low: image_gc.low_threshold_percent,
        log_max_size: log_size(container_logs, findings),
        log_max_files: container_logs.max_files,
        feature_gates: feature_gates.clone(),
        verbosity: settings.logging.verbosity,
        extra: extra::check(&settings.extra, findings),
    }
}

fn reserves(
    path: &str,
    written: &BTreeMap<String, QuantityText>,
    findings: &mut Findings,
) -> BTreeMap<Resource, Quantity> {
    let mut reserved = BTreeMap::new();
    for (name, QuantityText(text)) in written {
        let path = format!("{path}.{name}");
        let Some(resource) = Resource::named(name) else {
            let wrong = format!("a Windows kubelet cannot reserve `{name}`");
            findings.mistake(path, wrong, "remove it: there are cpu, memory and ephemeral-storage");
            continue;
        };
        match text.parse::<Quantity>() {
            Err(error) => findings.mistake(path, error.to_string(), example(resource)),
            Ok(quantity) if quantity.is_negative() => {
                findings.mistake(path, format!("`{text}` is less than nothing"), example(resource));
            }
            Ok(quantity) => {
                if resource != Resource::Cpu && !quantity.is_zero() && quantity < Quantity::of_bytes(1 << 20) {
                    let wrong = format!("`{text}` is {} bytes", quantity.bytes());
                    findings.warning(path, wrong, "write Mi or Gi behind the number");
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

/// Thresholds by signal, with the keys and values that a Windows kubelet takes.
pub(super) fn thresholds(
    path: &str,
    written: &BTreeMap<String, QuantityText>,
    findings: &mut Findings,
) -> BTreeMap<Signal, Threshold> {
    let mut thresholds = BTreeMap::new();
    for (name, QuantityText(text)) in written {
        let path = format!("{path}.{name}");
        let Some(signal) = signal(&path, name, findings) else { continue };
        match text.parse::<Threshold>() {
            Ok(threshold) => {
                if signal == Signal::MemoryAvailable && matches!(threshold, Threshold::Percent(_)) && text != "0%" {
                    let wrong = "kubelets from 1.31 on take the share of memory and page file together, and lower what the \
                                 node offers by the share of memory alone";
                    findings.warning(path, wrong, "write an amount such as 500Mi");
                }
                thresholds.insert(signal, threshold);
            }
            Err(error @ ParseThresholdError::NotPositive(_)) => {
                findings.mistake(path, error.to_string(), "write a larger amount, or 0% for no threshold");
            }
            Err(error) => {
                findings.mistake(path, error.to_string(), "write an amount such as 500Mi, or a share such as 10%")
            }
        }
    }
    thresholds
}

/// The signal of a name; a mistake if Windows has none of that name.
pub(super) fn signal(path: &str, name: &str, findings: &mut Findings) -> Option<Signal> {
    let signal = Signal::named(name);
    if signal.is_none() {
        let wrong = match Signal::why_not_on_windows(name) {
            Some(why) => format!("Windows has no signal `{name}`: {why}"),
            None => format!("there is no eviction signal `{name}`"),
        };
        let known = Signal::ALL.map(Signal::name).join(", ");
        findings.mistake(path, wrong, format!("remove it: there are {known}"));
    }
    signal
}

fn image_garbage_collection(settings: ImageGarbageCollection, findings: &mut Findings) {
    let ImageGarbageCollection { high_threshold_percent: high, low_threshold_percent: low } = settings;
    if high > 100 {
        let wrong = format!("{high} is more than 100 percent");
        findings.mistake("spec.kubelet.imageGC.highThresholdPercent", wrong, "write a share of the disk, such as 85");
    }
    if low >= high {
        let wrong = format!("garbage collection stops at {low} and begins at {high} percent");
        let remedy = "write less than highThresholdPercent";
        findings.mistake("spec.kubelet.imageGC.lowThresholdPercent", wrong, remedy);
    }
}

fn log_size(ContainerLogs { max_size, max_files }: &ContainerLogs, findings: &mut Findings) -> Quantity {
    if *max_files < 2 {
        let wrong = format!("the kubelet cannot rotate logs in {max_files} files");
        findings.mistake("spec.kubelet.containerLogs.maxFiles", wrong, "write 2 or more");
    }
    let size = max_size.0.parse::<Quantity>().ok().filter(|size| *size > Quantity::of_bytes(0));
    size.unwrap_or_else(|| {
        let wrong = format!("`{max_size}` is not a size");
        findings.mistake("spec.kubelet.containerLogs.maxSize", wrong, "write a quantity such as 50Mi");
        Quantity::of_bytes(0)
    })
}

fn verbosity(settings: &KubeletSettings, findings: &mut Findings) {
    let Some(verbosity) = settings.logging.verbosity else { return };
    if verbosity > MAX_VERBOSITY {
        let wrong = format!("verbosity {verbosity} is above {MAX_VERBOSITY}");
        findings.mistake("spec.kubelet.logging.verbosity", wrong, "write a number from 0 to 10, such as 2");
    }
    if settings.extra.get("logging").is_some_and(|logging| logging.get("verbosity").is_some()) {
        let wrong = "the verbosity is in spec.kubelet.logging as well";
        findings.mistake("spec.kubelet.extra.logging.verbosity", wrong, "remove one of the two");
    }
}

fn pause(settings: &PauseImageSettings, findings: &mut Findings) -> Pause {
    let PauseImageSettings { source, repository, tag } = settings;
    if !tag.is_empty() && !is_tag(tag) {
        let wrong = format!("`{tag}` is not an image tag");
        findings.mistake(
            "spec.pauseImage.tag",
            wrong,
            "write letters, digits, dots, dashes and underscores, such as 3.10.1",
        );
    }
    let chosen_tag = (!tag.is_empty()).then(|| tag.clone());
    let registry = match source {
        PauseImageSource::Microsoft => Registry::Microsoft,
        PauseImageSource::Upstream => Registry::Upstream,
        PauseImageSource::Custom => {
            if let Some(wrong) = repository_problem(repository) {
                let remedy = "write registry, path and no tag, such as registry.example/kubernetes/pause";
                findings.mistake("spec.pauseImage.repository", wrong, remedy);
            }
            return Pause::Custom(repository.clone(), chosen_tag);
        }
    };
    if !repository.is_empty() {
        let wrong = format!("source {source:?} has a repository of its own");
        findings.mistake("spec.pauseImage.repository", wrong, "write source: Custom, or remove the repository");
    }
    Pause::Known(registry, chosen_tag)
}

/// What is wrong with a text as registry and path of an image.
fn repository_problem(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("source Custom needs a repository".to_owned());
    }
    let (registry, path) = text.split_once('/').unwrap_or((text, ""));
    let (name, behind) = text.split_at(text.rfind('/').map_or(0, |at| at + 1));
    if behind.contains([':', '@']) && !name.is_empty() {
        return Some(format!("`{text}` has a tag or a digest"));
    }
    let ok = is_registry(registry) && path.split('/').all(is_path_part) && text.len() <= 255;
    (!ok).then(|| format!("`{text}` is not an image repository"))
}

/// A host, with a port where it has one.
pub(super) fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_host = !host.is_empty()
        && host.len() <= 253
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
        && !host.starts_with(['.', '-'])
        && !host.ends_with(['.', '-']);
    is_host && port.is_none_or(is_port)
}

pub(super) fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Lower-case letters and digits, with single dots, one or two underscores, or dashes between them.
fn is_path_part(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let known = |byte: u8| word(byte) || b"._-".contains(&byte);
    let edges = text.bytes().next().is_some_and(word) && text.bytes().next_back().is_some_and(word);
    let separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let joined = |part: &str| {
        part.is_empty() || part == "." || part == "_" || part == "__" || part.bytes().all(|byte| byte == b'-')
    };
    edges && text.bytes().all(known) && separators.into_iter().all(joined)
}

fn is_tag(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= 128 && text.bytes().all(inner) && !text.starts_with(['.', '-'])
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
        assert_eq!(profile.pause, Pause::Known(Registry::Microsoft, None));
    }

    #[test]
    fn every_mistake_is_refused_at_its_path() {
        let table = [
            (kubelet_with("systemReserved", json!({"memory": "2GB"})), "spec.kubelet.systemReserved.memory"),
            (kubelet_with("systemReserved", json!({"memory": "-2Gi"})), "spec.kubelet.systemReserved.memory"),
            (kubelet_with("kubeReserved", json!({"cpu": "half"})), "spec.kubelet.kubeReserved.cpu"),
            (kubelet_with("kubeReserved", json!({"pid": "100"})), "spec.kubelet.kubeReserved.pid"),
            (kubelet_with("evictionHard", json!({"pid.available": "10%"})), "spec.kubelet.evictionHard.pid.available"),
            (kubelet_with("evictionHard", json!({"nodefs.free": "10%"})), "spec.kubelet.evictionHard.nodefs.free"),
            (
                kubelet_with("evictionHard", json!({"memory.available": "101%"})),
                "spec.kubelet.evictionHard.memory.available",
            ),
            (
                kubelet_with("evictionHard", json!({"memory.available": "0"})),
                "spec.kubelet.evictionHard.memory.available",
            ),
            (
                kubelet_with("evictionHard", json!({"memory.available": "much"})),
                "spec.kubelet.evictionHard.memory.available",
            ),
            (kubelet_with("maxPods", json!(0)), "spec.kubelet.maxPods"),
            (kubelet_with("maxPods", json!(1001)), "spec.kubelet.maxPods"),
            (
                kubelet_with("imageGC", json!({"highThresholdPercent": 101})),
                "spec.kubelet.imageGC.highThresholdPercent",
            ),
            (kubelet_with("imageGC", json!({"lowThresholdPercent": 85})), "spec.kubelet.imageGC.lowThresholdPercent"),
            (kubelet_with("containerLogs", json!({"maxSize": "big"})), "spec.kubelet.containerLogs.maxSize"),
            (kubelet_with("containerLogs", json!({"maxSize": "0"})), "spec.kubelet.containerLogs.maxSize"),
            (kubelet_with("containerLogs", json!({"maxFiles": 1})), "spec.kubelet.containerLogs.maxFiles"),
            (kubelet_with("featureGates", json!({"a=b": true})), "spec.kubelet.featureGates.a=b"),
            (pause_with("Custom", "", ""), "spec.pauseImage.repository"),
            (pause_with("Custom", "registry.example", ""), "spec.pauseImage.repository"),
            (pause_with("Custom", "registry.example/Pause", ""), "spec.pauseImage.repository"),
            (pause_with("Custom", "registry.example/pause:3.9", ""), "spec.pauseImage.repository"),
            (pause_with("Custom", "registry.example/pause@sha256:0", ""), "spec.pauseImage.repository"),
            (pause_with("Custom", "https://registry.example/pause", ""), "spec.pauseImage.repository"),
            (pause_with("Custom", "registry.example//pause", ""), "spec.pauseImage.repository"),
            (pause_with("Custom", "registry.example:99999/pause", ""), "spec.pauseImage.repository"),
            (pause_with("Custom", "registry.example/a..b", ""), "spec.pauseImage.repository"),
            (pause_with("Upstream", "registry.example/pause", ""), "spec.pauseImage.repository"),
            (pause_with("Upstream", "", "-3.9"), "spec.pauseImage.tag"),
            (pause_with("Upstream", "", "3.9 "), "spec.pauseImage.tag"),
            (mirror_with("https://docker.io", "https://mirror.example"), "spec.containerd.registryMirrors[0].registry"),
            (mirror_with("docker.io:http", "https://mirror.example"), "spec.containerd.registryMirrors[0].registry"),
            (mirror_with("docker.io", "mirror.example"), "spec.containerd.registryMirrors[0].endpoints[0]"),
            (mirror_with("docker.io", "ftp://mirror.example"), "spec.containerd.registryMirrors[0].endpoints[0]"),
            (mirror_with("docker.io", "https://"), "spec.containerd.registryMirrors[0].endpoints[0]"),
            (mirror_with("docker.io", "https://u:p@mirror.example"), "spec.containerd.registryMirrors[0].endpoints[0]"),
            (
                mirror_with("docker.io", "https://mirror.example/v2?ns=a"),
                "spec.containerd.registryMirrors[0].endpoints[0]",
            ),
            (mirror_with("docker.io", "https://[::g]:5000"), "spec.containerd.registryMirrors[0].endpoints[0]"),
            (
                json!({"containerd": {"registryMirrors": [{"registry": "docker.io", "endpoints": []}]}}),
                "spec.containerd.registryMirrors[0].endpoints",
            ),
            (
                json!({"containerd": {"registryMirrors": [
                    {"registry": "docker.io", "endpoints": ["https://a.example"]},
                    {"registry": "Docker.io", "endpoints": ["https://b.example"]},
                ]}}),
                "spec.containerd.registryMirrors[1].registry",
            ),
            (
                json!({"containerd": {"registryMirrors": [
                    {"registry": "docker.io", "endpoints": ["https://a.example", "https://a.example"]},
                ]}}),
                "spec.containerd.registryMirrors[0].endpoints[1]",
            ),
            (json!({"containerd": {"cni": {"binDir": "/opt/cni/bin"}}}), "spec.containerd.cni.binDir"),
            (json!({"containerd": {"cni": {"confDir": "C:\\a\"b"}}}), "spec.containerd.cni.confDir"),
        ];
        for (spec, path) in table {
            let problems = checked(spec.clone()).expect_err(&spec.to_string());
            assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), [path], "{spec}");
            assert!(!problems[0].wrong.is_empty() && !problems[0].remedy.is_empty(), "{spec}");
        }
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let spec = json!({
            "kubelet": {"systemReserved": {"memory": "x"}, "maxPods": 0, "extra": {"cgroupDriver": "systemd"}},
            "pauseImage": {"source": "Custom"},
        });
        let problems = checked(spec).unwrap_err();
        let paths = problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>();
        let expected = [
            "spec.kubelet.systemReserved.memory",
            "spec.kubelet.maxPods",
            "spec.kubelet.extra.cgroupDriver",
            "spec.pauseImage.repository",
        ];
        assert_eq!(paths, expected);
    }

    #[test]
    fn what_may_not_be_meant_is_allowed_and_warned_about() {
        let table = [
            (kubelet_with("systemReserved", json!({})), "spec.kubelet.systemReserved.memory"),
            (kubelet_with("systemReserved", json!({"memory": "1Gi"})), "spec.kubelet.systemReserved.memory"),
            (kubelet_with("kubeReserved", json!({"memory": "512m"})), "spec.kubelet.kubeReserved.memory"),
            (
                kubelet_with("evictionHard", json!({"memory.available": "10%"})),
                "spec.kubelet.evictionHard.memory.available",
            ),
            (kubelet_with("featureGates", json!({"NoSuchGate": true})), "spec.kubelet.featureGates.NoSuchGate"),
            (
                kubelet_with("featureGates", json!({"ClusterTrustBundleProjection": true})),
                "spec.kubelet.featureGates.ClusterTrustBundleProjection",
            ),
        ];
        for (spec, path) in table {
            let warnings = checked(spec.clone()).unwrap().warnings;
            assert_eq!(warnings.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), [path], "{spec}");
        }
    }

    #[test]
    fn the_signals_of_disks_are_taken_without_a_warning() {
        let spec = json!({"nodefs.available": "10%", "imagefs.available": "15%", "memory.available": "500Mi"});
        assert_eq!(checked(kubelet_with("evictionHard", spec)).unwrap().warnings, []);
    }

    #[test]
    fn image_references_and_addresses_of_all_kinds_are_taken() {
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
