//! Golden files of the configuration of containerd: for each release line the layers of a profile without and with every setting, and
//! the complete file; and a `hosts.toml`.

use insta::assert_snapshot;
use winpool_api::{Cni, ContainerdSettings, RegistryMirror};
use winpool_facts::containerd::RELEASE_LINES;
use winpool_render::{
    Scope,
    containerd::{ContainerdInput, toml},
    hosts::hosts,
};

fn mirror(registry: &str, endpoints: &[&str]) -> RegistryMirror {
    let endpoints = endpoints.iter().map(|&endpoint| endpoint.into()).collect();
    RegistryMirror { registry: registry.into(), endpoints, ..RegistryMirror::default() }
}

#[test]
fn each_release_line_has_its_layers_and_its_complete_file() {
    let everything = ContainerdSettings {
        root: r"D:\containerd".into(),
        cni: Cni { bin_dir: "c:/opt/cni/bin".into(), conf_dir: r"C:\etc\cni\net.d".into() },
        registry_mirrors: vec![mirror("docker.io", &["https://mirror.example"])],
        ..ContainerdSettings::default()
    };
    let nothing = ContainerdSettings::default();
    let (pause_image, extra) = (Some("mcr.microsoft.com/oss/v2/kubernetes/pause:3.10"), toml::Table::new());
    for line in RELEASE_LINES {
        let version = line.newest;
        let text =
            |settings, scope| toml(&ContainerdInput { version, pause_image, settings, extra: &extra }, scope).unwrap();
        let files = [
            ("layer without settings", text(&nothing, Scope::Layer)),
            ("layer with every setting", text(&everything, Scope::Layer)),
            ("whole", text(&nothing, Scope::Whole)),
        ];
        let files = files.map(|(title, text)| format!("--- {title}\n{text}"));
        assert_snapshot!(format!("containerd_{}_{}", version.major, version.minor), files.concat());
    }
}

#[test]
fn hosts_of_docker_hub() {
    // Each once, in their order.
    let endpoints = ["https://mirror.example", "http://second.example:5000", "https://mirror.example"];
    let (key, text) = hosts(&mirror("docker.io", &endpoints));
    assert_eq!(key, "hosts.docker.io.toml");
    assert_snapshot!(text);
}
