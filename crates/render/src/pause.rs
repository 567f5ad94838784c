//! The pause image of a configuration.

use winpool_core::Problem;
use winpool_facts::{
    ContainerRuntime, ContainerdLine, ContainerdVersion, Minor, OsVersion, containerd,
    pause::{self, MICROSOFT, PausePublisher, UPSTREAM},
};

use super::Variant;
use crate::profile::{Pause, Profile};

/// The pause image of a variant, with its tag; `None` if the node keeps its own.
///
/// # Errors
/// No tag of the registry has an entry that the host can run.
pub fn image(profile: &Profile, variant: &Variant) -> Result<Option<String>, Problem> {
    let host = OsVersion { build: variant.host, revision: None };
    let image = match &profile.pause {
        Pause::Node => return Ok(None),
        Pause::Custom(repository, tag) => {
            let tag = tag.as_deref().unwrap_or_else(|| pause::default_tag(variant.kubelet));
            format!("{repository}:{tag}")
        }
        Pause::Known(registry, Some(tag)) => format!("{}:{tag}", repository_of(*registry, tag)),
        Pause::Known(registry, None) => {
            let choose = |containerd| pause::choose(*registry, variant.kubelet, host, containerd);
            let image = patches(variant.runtime).into_iter().find_map(choose);
            image.map(|image| image.to_string()).ok_or_else(|| {
                let wrong = format!(
                    "source {registry:?} has no pause image for Windows {} and kubelet {}",
                    variant.host, variant.kubelet
                );
                Problem::new("spec.pauseImage", wrong, "set source: Custom and a repository with such an image")
            })?
        }
    };
    Ok(Some(image))
}

/// The pause image of a configuration, if it is known that the node cannot run it.
pub fn incompatible_image(
    profile: &Profile,
    kubelet: Minor,
    host: OsVersion,
    containerd: Option<ContainerdVersion>,
) -> Option<String> {
    let runtime = match containerd {
        Some(version) => ContainerRuntime::Containerd(version.line()),
        None => ContainerRuntime::CriDockerd,
    };
    let image = image(profile, &Variant { kubelet, runtime, host: host.build }).ok()??;
    let (repository, tag) = image.rsplit_once(':')?;
    let runs = pause::runs_on(repository, tag, host, containerd)?;
    (!runs).then_some(image)
}

/// The releases for which an image is selected: the oldest, because later ones run what it runs, then the newest.
fn patches(runtime: ContainerRuntime<ContainerdLine>) -> [Option<ContainerdVersion>; 2] {
    let ContainerRuntime::Containerd(line) = runtime else { return [None, None] };
    let oldest = line.release(0);
    let newest = containerd::release_line(oldest).map(|facts| line.release(facts.newest.patch));
    [Some(oldest), newest]
}

/// The repository of a registry with this tag, or the current repository.
fn repository_of(registry: PausePublisher, tag: &str) -> &'static str {
    let current = match registry {
        PausePublisher::Microsoft => MICROSOFT,
        PausePublisher::Upstream => UPSTREAM,
    };
    pause::repository_with(registry, tag).unwrap_or(current)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use winpool_facts::Build;

    use super::*;
    use crate::profile;

    fn profile(source: &str, repository: &str, tag: &str) -> Profile {
        let spec = json!({"pauseImage": {"source": source, "repository": repository, "tag": tag}});
        profile::check(&serde_json::from_value(spec).unwrap()).unwrap()
    }

    #[test]
    fn the_image_depends_on_source_tag_minor_and_host() {
        const MINE: &str = "registry.example/pause";
        let containerd = |major, minor| ContainerRuntime::Containerd(ContainerdLine::new(major, minor));
        let table = [
            (("Microsoft", "", ""), 30, containerd(1, 7), 20348, "mcr.microsoft.com/oss/kubernetes/pause:3.9"),
            // Some 1.7 releases select only the host's own build.
            (("Microsoft", "", ""), 34, containerd(1, 7), 26100, "mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.1"),
            // No tag has an entry for 23H2. Later 1.7 releases run the entry for 2022.
            (("Upstream", "", ""), 30, containerd(1, 7), 25398, "registry.k8s.io/pause:3.9"),
            (("Microsoft", "", "3.6"), 34, containerd(2, 1), 20348, "mcr.microsoft.com/oss/kubernetes/pause:3.6"),
            (("Microsoft", "", "9.9"), 34, containerd(2, 1), 20348, "mcr.microsoft.com/oss/v2/kubernetes/pause:9.9"),
            (("Custom", MINE, ""), 34, containerd(2, 1), 20348, "registry.example/pause:3.10.1"),
            (("Custom", MINE, "1"), 30, ContainerRuntime::CriDockerd, 17763, "registry.example/pause:1"),
            (("Node", "", ""), 34, containerd(2, 1), 20348, ""),
        ];
        for ((source, repository, tag), minor, runtime, build, expected) in table {
            let variant = Variant { kubelet: Minor(minor), runtime, host: Build(build) };
            assert_eq!(
                image(&profile(source, repository, tag), &variant),
                Ok((!expected.is_empty()).then(|| expected.to_owned())),
                "{variant}"
            );
        }
    }

    #[test]
    fn a_configured_tag_may_have_no_entry_for_the_host() {
        let host = |build| OsVersion { build: Build(build), revision: Some(1) };
        let current = Some(ContainerdVersion::new(2, 1, 0));
        let old = Some(ContainerdVersion::new(1, 7, 0));
        let table = [
            (("Upstream", "", "3.5"), 20348, current, Some("registry.k8s.io/pause:3.5")),
            (("Upstream", "", "3.9"), 20348, current, None),
            (("Upstream", "", "3.9"), 26100, current, None),
            (("Upstream", "", "3.9"), 26100, old, Some("registry.k8s.io/pause:3.9")),
            (("Upstream", "", "9.9"), 20348, current, None),
            (("Custom", "registry.example/pause", "3.5"), 20348, current, None),
            (("Upstream", "", ""), 20348, None, None),
        ];
        for ((source, repository, tag), build, containerd, expected) in table {
            let found = incompatible_image(&profile(source, repository, tag), Minor(34), host(build), containerd);
            assert_eq!(found.as_deref(), expected, "{tag} on {build}");
        }
    }
}
