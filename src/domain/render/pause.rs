//! The pause image of a configuration.

use super::{Runtime, Variant};
use crate::{
    domain::{
        Problem,
        profile::{Pause, Profile},
    },
    facts::{
        ContainerdVersion, Minor, OsVersion, containerd,
        pause::{self, MICROSOFT, Registry, UPSTREAM},
    },
};

/// The pause image of a variant, with its tag.
///
/// # Errors
/// No tag of the registry has an entry that the host can run.
pub fn image(profile: &Profile, variant: &Variant) -> Result<String, Problem> {
    let host = OsVersion { build: variant.host, revision: None };
    match &profile.pause {
        Pause::Custom(repository, tag) => {
            let tag = tag.as_deref().unwrap_or_else(|| pause::default_tag(variant.kubelet));
            Ok(format!("{repository}:{tag}"))
        }
        Pause::Known(registry, Some(tag)) => Ok(format!("{}:{tag}", repository_of(*registry, tag))),
        Pause::Known(registry, None) => {
            let choose = |containerd| pause::choose(*registry, variant.kubelet, host, containerd);
            let image = patches(variant.runtime).into_iter().find_map(choose);
            image.map(|image| image.to_string()).ok_or_else(|| {
                let wrong =
                    format!("{registry:?} has no pause image for {} with kubelet {}", variant.host, variant.kubelet);
                Problem::new("spec.pauseImage", wrong, "write source: Custom, with a repository that has one")
            })
        }
    }
}

/// The image that a configuration gives to a node and that the node cannot run, as far as anybody knows the image.
pub fn cannot_run(
    profile: &Profile,
    kubelet: Minor,
    host: OsVersion,
    containerd: Option<ContainerdVersion>,
) -> Option<String> {
    let runtime = match containerd {
        Some(version) => Runtime::Containerd { major: version.major, minor: version.minor },
        None => Runtime::CriDockerd,
    };
    let image = image(profile, &Variant { kubelet, runtime, host: host.build }).ok()?;
    let (repository, tag) = image.rsplit_once(':')?;
    let runs = pause::runs_on(repository, tag, host, containerd)?;
    (!runs).then_some(image)
}

/// The releases of a runtime's minor for which an image is looked for. First the oldest: it may be without the rule by
/// which newer hosts run older images, and what it runs they all run. Then the newest, which has what can be had.
fn patches(runtime: Runtime) -> [Option<ContainerdVersion>; 2] {
    let Runtime::Containerd { major, minor } = runtime else { return [None, None] };
    let oldest = ContainerdVersion::new(major, minor, 0);
    let newest = containerd::generation(oldest).map(|line| ContainerdVersion::new(major, minor, line.newest.patch));
    [Some(oldest), newest]
}

/// The repository of a registry that has a tag, else the one of today.
fn repository_of(registry: Registry, tag: &str) -> &'static str {
    let today = match registry {
        Registry::Microsoft => MICROSOFT,
        Registry::Upstream => UPSTREAM,
    };
    pause::repository_with(registry, tag).unwrap_or(today)
}
