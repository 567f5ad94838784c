//! Profiles, and the configuration files of Windows nodes that follow from them.
//!
//! They are layers that are merged into the node's own configuration ([`Scope::Layer`]), or complete files for machines
//! without a bootstrap ([`standalone()`]). A configuration is rendered for each variant: a combination of kubelet
//! minor, container runtime and host build.

pub mod allowances;
pub mod containerd;
mod docker;
mod environment;
pub mod hosts;
pub mod kube_proxy;
pub mod kubeadm;
pub mod kubelet;
pub mod pause;
pub mod platform;
pub mod powershell;
pub mod profile;
pub mod reserve;
pub mod scripts;
pub mod settings;
mod standalone;
pub mod toml_layer;
mod yaml;

use std::collections::BTreeMap;

use derive_more::Display;
use winpool_api::Taint;
use winpool_core::Problem;
use winpool_facts::{Build, ContainerRuntime, ContainerdLine, Minor};

use crate::profile::{GatedProgram, Profile};

pub const KUBELET_YAML: &str = "kubelet.yaml";
/// The key of the kubelet's flags, one per line.
pub const KUBELET_ARGS: &str = "kubelet.args";
pub const CONTAINERD_TOML: &str = "containerd.toml";
/// The key of cri-dockerd's flags, one per line.
pub const CRI_DOCKERD_ARGS: &str = "cri-dockerd.args";
pub const KUBE_PROXY_YAML: &str = "kube-proxy.yaml";
/// The key of the environment variables of the node's services, one per line.
pub const ENVIRONMENT: &str = "environment";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The settings of a profile and those that Windows requires, to be merged into the node's own configuration.
    Layer,
    /// Complete files, for a node without a configuration.
    Whole,
}

pub use standalone::Bootstrap;

/// The kind of node that a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display("kubelet {kubelet}, {runtime}, Windows {host}")]
pub struct Variant {
    pub kubelet: Minor,
    pub runtime: ContainerRuntime<ContainerdLine>,
    pub host: Build,
}

/// The files of a configuration, by their keys in a ConfigMap: [`KUBELET_YAML`], [`KUBELET_ARGS`], with containerd
/// [`CONTAINERD_TOML`] and `hosts.<registry>.toml`, with cri-dockerd [`CRI_DOCKERD_ARGS`], and [`KUBE_PROXY_YAML`] and
/// [`ENVIRONMENT`] if the profile has settings for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    pub files: BTreeMap<String, String>,
}

/// Renders the layers for a variant. Its nodes register with the taints.
///
/// # Errors
/// All problems: a kubelet or containerd that winpool does not support, gates and fields that the kubelet does not accept, a pause image without an
/// entry for the host, and settings that containerd does not accept.
pub fn render(taints: &[Taint], profile: &Profile, variant: &Variant) -> Result<Configuration, Vec<Problem>> {
    files(taints, profile, variant, None)
}

/// Renders the complete configuration of a variant, for a machine without one.
///
/// # Errors
/// Those of [`render`], and missing settings of the cluster ([`Bootstrap::missing`]).
pub fn standalone(
    taints: &[Taint],
    profile: &Profile,
    variant: &Variant,
    bootstrap: &Bootstrap,
) -> Result<Configuration, Vec<Problem>> {
    let missing = bootstrap.missing(profile);
    let rendered = files(taints, &bootstrap.complete(profile), variant, Some(bootstrap));
    match rendered {
        Ok(configuration) if missing.is_empty() => Ok(configuration),
        rendered => Err(rendered.err().into_iter().flatten().chain(missing).collect()),
    }
}

fn files(
    taints: &[Taint],
    profile: &Profile,
    variant: &Variant,
    bootstrap: Option<&Bootstrap>,
) -> Result<Configuration, Vec<Problem>> {
    let scope = if bootstrap.is_some() { Scope::Whole } else { Scope::Layer };
    let minor = variant.kubelet;
    let mut problems = kubelet::problems(&profile.kubelet, minor);
    problems.extend(containerd::snapshotter_problem(&profile.containerd_extra, variant.host));
    if let Some(settings) = &profile.kube_proxy {
        problems.extend(profile::gate_problems(GatedProgram::KubeProxy, &settings.feature_gates, minor));
    }
    let image = pause::image(profile, variant);
    let runtime = match &image {
        Ok(image) => runtime_files(profile, variant.runtime, image.as_deref(), scope),
        Err(_) => Ok(Vec::new()),
    };
    match (image, runtime) {
        (Ok(_), Ok(runtime)) if problems.is_empty() => {
            let mut files = BTreeMap::from_iter(runtime);
            files.insert(KUBELET_YAML.to_owned(), kubelet::yaml(taints, profile, variant, scope));
            files.insert(KUBELET_ARGS.to_owned(), kubelet::args(profile, minor));
            if let Some(settings) = &profile.kube_proxy {
                let kubeconfig = bootstrap.and_then(|bootstrap| bootstrap.kube_proxy_kubeconfig.as_deref());
                files.insert(KUBE_PROXY_YAML.to_owned(), kube_proxy::yaml(settings, minor, kubeconfig));
            }
            files.extend(environment::text(&profile.proxy).map(|text| (ENVIRONMENT.to_owned(), text)));
            Ok(Configuration { files })
        }
        (image, runtime) => {
            problems.extend(image.err());
            problems.extend(runtime.err());
            Err(problems)
        }
    }
}

/// A comment in YAML, TOML or a script.
pub fn comment_lines(comment: &str) -> String {
    comment.lines().map(|line| format!("# {line}\n")).collect()
}

fn runtime_files(
    profile: &Profile,
    runtime: ContainerRuntime<ContainerdLine>,
    image: Option<&str>,
    scope: Scope,
) -> Result<Vec<(String, String)>, Problem> {
    let settings = &profile.containerd;
    let version = match runtime {
        ContainerRuntime::Containerd(line) => line.release(0),
        ContainerRuntime::CriDockerd => {
            return Ok(vec![(CRI_DOCKERD_ARGS.to_owned(), docker::args(settings, image, scope))]);
        }
    };
    let input = containerd::ContainerdInput { version, pause_image: image, settings, extra: &profile.containerd_extra };
    let mut files = vec![(CONTAINERD_TOML.to_owned(), containerd::toml(&input, scope)?)];
    files.extend(settings.registry_mirrors.iter().map(hosts::hosts));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::profile;

    fn profile(spec: Value) -> Profile {
        profile::check(&serde_json::from_value(spec).unwrap()).unwrap()
    }

    fn variant(kubelet: u32, runtime: ContainerRuntime<ContainerdLine>, host: u32) -> Variant {
        Variant { kubelet: Minor(kubelet), runtime, host: Build(host) }
    }

    const fn containerd(major: u32, minor: u32) -> ContainerRuntime<ContainerdLine> {
        ContainerRuntime::Containerd(ContainerdLine::new(major, minor))
    }

    fn keys(spec: Value, variant: Variant) -> Vec<String> {
        render(&[], &profile(spec), &variant).unwrap().files.into_keys().collect()
    }

    #[test]
    fn a_configuration_has_the_files_of_its_runtime_and_services() {
        let mirrors = json!({"containerd": {"registryMirrors": [
            {"registry": "docker.io", "endpoints": ["https://mirror.example"]},
            {"registry": "registry.example:5000", "endpoints": ["https://mirror.example"]},
        ]}});
        let with_containerd = [
            "containerd.toml",
            "hosts.docker.io.toml",
            "hosts.registry.example_5000_.toml",
            "kubelet.args",
            "kubelet.yaml",
        ];
        assert_eq!(keys(mirrors.clone(), variant(30, containerd(1, 7), 20348)), with_containerd);
        assert_eq!(
            keys(mirrors, variant(30, ContainerRuntime::CriDockerd, 20348)),
            ["cri-dockerd.args", "kubelet.args", "kubelet.yaml"]
        );
        let services = json!({"kubeProxy": {}, "proxy": {"httpProxy": "http://proxy:3128"}});
        assert_eq!(
            keys(services, variant(30, ContainerRuntime::CriDockerd, 17763)),
            ["cri-dockerd.args", "environment", "kube-proxy.yaml", "kubelet.args", "kubelet.yaml"]
        );
    }

    #[test]
    fn the_pause_image_of_the_node_is_in_no_file() {
        let texts = |source: &str| -> String {
            let profile = profile(json!({"pauseImage": {"source": source}}));
            let variants = [
                variant(30, ContainerRuntime::CriDockerd, 20348),
                variant(30, containerd(1, 7), 17763),
                variant(36, containerd(2, 3), 26100),
            ];
            variants.iter().flat_map(|variant| render(&[], &profile, variant).unwrap().files.into_values()).collect()
        };
        assert_eq!(texts("Microsoft").matches("kubernetes/pause").count(), 3);
        assert!(!texts("Node").contains("pause"), "{}", texts("Node"));
    }

    #[test]
    fn a_complete_configuration_requires_the_settings_of_the_cluster() {
        let profile = profile(json!({"kubeProxy": {}}));
        let variant = variant(36, containerd(2, 3), 26100);
        let problems = standalone(&[], &profile, &variant, &Bootstrap::default()).unwrap_err();
        assert_eq!(problems.len(), 4, "{problems:?}");
        let bootstrap = Bootstrap {
            cluster_dns: vec!["10.96.0.10".into()],
            cluster_domain: Some("cluster.local".into()),
            client_ca_file: Some(r"C:\ca.crt".into()),
            kube_proxy_kubeconfig: Some(r"C:\k\kube-proxy.conf".into()),
        };
        let files = standalone(&[], &profile, &variant, &bootstrap).unwrap().files;
        let layer = render(&[], &profile, &variant).unwrap().files;
        assert_eq!(files.keys().collect::<Vec<_>>(), layer.keys().collect::<Vec<_>>());
        let read =
            |files: &BTreeMap<String, String>, key: &str| -> Value { serde_saphyr::from_str(&files[key]).unwrap() };
        for key in [KUBELET_YAML, KUBE_PROXY_YAML] {
            let (whole, mut merged) = (read(&files, key), read(&files, key));
            json_patch::merge(&mut merged, &read(&layer, key));
            assert_eq!(whole, merged, "merging the layer changes nothing");
        }
        let whole = read(&files, KUBELET_YAML);
        assert_eq!(whole["clusterDNS"], json!(["10.96.0.10"]));
        assert_eq!(whole["authentication"]["x509"]["clientCAFile"], r"C:\ca.crt");
        assert_eq!(whole["rotateCertificates"], true);
        assert_eq!(read(&files, KUBE_PROXY_YAML)["clientConnection"]["kubeconfig"], r"C:\k\kube-proxy.conf");
        assert!(files[CONTAINERD_TOML].contains("address = "), "{}", files[CONTAINERD_TOML]);
    }

    #[test]
    fn all_problems_of_a_variant_are_reported() {
        let gates = json!({"kubelet": {"featureGates": {"NoSuchGate": true}, "extra": {"crashLoopBackOff": {"maxContainerRestartPeriod": "1m"}}}});
        let table = [
            (gates.clone(), variant(29, containerd(1, 7), 20348), vec!["status.nodeInfo.kubeletVersion"]),
            (json!({}), variant(30, containerd(1, 6), 20348), vec!["status.nodeInfo.containerRuntimeVersion"]),
            (json!({}), variant(30, containerd(1, 7), 19042), vec!["spec.pauseImage"]),
            (
                gates,
                variant(31, containerd(2, 1), 19042),
                vec!["spec.kubelet.featureGates.NoSuchGate", "spec.kubelet.extra.crashLoopBackOff", "spec.pauseImage"],
            ),
        ];
        for (spec, variant, paths) in table {
            let problems = render(&[], &profile(spec), &variant).unwrap_err();
            assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), paths, "{variant}");
        }
    }
}
