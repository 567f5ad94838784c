//! What a change of the configuration interrupts on a node, by the files that differ.

use std::collections::BTreeSet;

use winpool_api::Disruption;
use winpool_render::{
    CONTAINERD_TOML, CRI_DOCKERD_ARGS, ENVIRONMENT, KUBE_PROXY_YAML, KUBELET_ARGS, KUBELET_YAML, settings::FileSettings,
};

/// What the change of a file restarts. A file that is not known restarts everything.
///
/// containerd reads `hosts.toml` at each pull (containerd `docs/hosts.md`); all others are read when their service starts.
/// The environment is that of kubelet and container runtime.
pub fn disruption_of(file: &str) -> Disruption {
    match file {
        KUBELET_YAML | KUBELET_ARGS | KUBE_PROXY_YAML => Disruption::KubeletRestart,
        CONTAINERD_TOML | CRI_DOCKERD_ARGS | ENVIRONMENT => Disruption::ContainerdRestart,
        _ if file.starts_with("hosts.") && file.ends_with(".toml") => Disruption::None,
        _ => Disruption::ContainerdRestart,
    }
}

/// The files whose settings differ between two configurations; also those that only one of them has.
pub fn differing_files<'f>(before: &'f FileSettings, after: &'f FileSettings) -> BTreeSet<&'f str> {
    let differing = |one: &'f FileSettings, other: &'f FileSettings| {
        one.iter().filter(|(file, settings)| other.get(*file) != Some(settings)).map(|(file, _)| file.as_str())
    };
    differing(before, after).chain(differing(after, before)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_restarts_the_service_that_reads_it_at_its_start() {
        for (file, expected) in [
            ("kubelet.yaml", Disruption::KubeletRestart),
            ("kubelet.args", Disruption::KubeletRestart),
            ("kube-proxy.yaml", Disruption::KubeletRestart),
            ("containerd.toml", Disruption::ContainerdRestart),
            ("cri-dockerd.args", Disruption::ContainerdRestart),
            ("environment", Disruption::ContainerdRestart),
            ("hosts.docker.io.toml", Disruption::None),
            ("hosts.registry.example_5000.toml", Disruption::None),
            ("hosts.docker.io", Disruption::ContainerdRestart),
            ("other", Disruption::ContainerdRestart),
        ] {
            assert_eq!(disruption_of(file), expected, "{file}");
        }
    }

    #[test]
    fn files_differ_that_changed_or_are_in_one_configuration_only() {
        let files = |text: &str| -> FileSettings {
            text.split_whitespace()
                .map(|part| part.split_once('=').unwrap())
                .map(|(a, b)| (a.into(), b.into()))
                .collect()
        };
        for (before, after, expected) in [
            ("", "", ""),
            ("a=1 b=2", "a=1 b=2", ""),
            ("a=1 b=2", "a=1 b=3", "b"),
            ("a=1", "a=1 b=2", "b"),
            ("a=1 b=2", "b=2", "a"),
            ("", "a=1 b=2", "a b"),
        ] {
            let found = differing_files(&files(before), &files(after)).into_iter().collect::<Vec<_>>().join(" ");
            assert_eq!(found, expected, "{before} to {after}");
        }
    }
}
