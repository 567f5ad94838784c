//! Golden files of the configuration of containerd: a layer and a complete file per release line, and `hosts.toml`.

use insta::assert_snapshot;
use winpool_api::{Cni, ContainerdSettings, RegistryMirror};
use winpool_render::{
    Scope,
    containerd::{ContainerdInput, toml},
    hosts::hosts,
};

fn mirror(registry: &str, endpoints: &[&str]) -> RegistryMirror {
    let endpoints = endpoints.iter().map(|&endpoint| endpoint.into()).collect();
    RegistryMirror { registry: registry.into(), endpoints, ..RegistryMirror::default() }
}

/// A layer and the complete file.
fn rendered(version: &str, pause_image: &str, cni: Cni) -> String {
    let registry_mirrors = vec![mirror("docker.io", &["https://mirror.example"])];
    let settings = ContainerdSettings { registry_mirrors, cni, ..ContainerdSettings::default() };
    let (version, extra) = (version.parse().unwrap(), toml::Table::new());
    let input = ContainerdInput { version, pause_image: Some(pause_image), settings: &settings, extra: &extra };
    let text = |scope| toml(&input, scope).unwrap();
    format!("--- layer\n{}--- whole\n{}", text(Scope::Layer), text(Scope::Whole))
}

#[test]
fn containerd_1_7() {
    let cni = Cni { bin_dir: "c:/opt/cni/bin".into(), conf_dir: r"C:\etc\cni\net.d".into() };
    assert_snapshot!(rendered("1.7.27", "mcr.microsoft.com/oss/kubernetes/pause:3.9", cni));
}

#[test]
fn containerd_2_1() {
    assert_snapshot!(rendered("2.1.9", "mcr.microsoft.com/oss/v2/kubernetes/pause:3.10", Cni::default()));
}

#[test]
fn containerd_2_3() {
    assert_snapshot!(rendered("2.3.4", "mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.1", Cni::default()));
}

#[test]
fn hosts_with_a_certificate_authority() {
    let trusted =
        RegistryMirror { ca_file: r"C:\certs\mirror.pem".into(), ..mirror("quay.io", &["https://m.example"]) };
    assert_snapshot!(hosts(&trusted).1);
}

#[test]
fn hosts_of_docker_hub() {
    let (key, text) = hosts(&mirror("docker.io", &["https://mirror.example", "http://second.example:5000"]));
    assert_eq!(key, "hosts.docker.io.toml");
    assert_snapshot!(text);
}

#[test]
fn hosts_of_a_registry_with_a_port() {
    let (key, text) = hosts(&mirror("registry.example:5000", &["https://mirror.example/v2/own"]));
    assert_eq!(key, "hosts.registry.example_5000_.toml");
    assert_snapshot!(text);
}
