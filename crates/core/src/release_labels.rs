//! The labels of nodes for the Windows releases whose images they run in process isolation, such as
//! `runs.winpool.dev/ltsc2022`.
//!
//! A RuntimeClass with scope Compatible selects such a label, because a selector cannot name several builds.

use std::collections::{BTreeMap, BTreeSet};

use winpool_api::names::label::{RUNS, RUNS_VALUE};
use winpool_facts::{
    Build, ContainerdVersion, OsVersion, builds,
    version_compatibility::{Isolation, VersionCompatibility, check},
};

/// The label for the images of a build: with the name of its release, or with the build if it has no name.
pub fn key_of(build: Build) -> String {
    let release = builds::release(build).map(|release| release.names[0].to_lowercase());
    format!("{RUNS}{}", release.unwrap_or_else(|| build.to_string()))
}

/// The build in a label of [`key_of`].
pub fn build_of(key: &str) -> Option<Build> {
    let release = key.strip_prefix(RUNS)?;
    builds::named(release).or_else(|| release.parse().ok())
}

pub fn is_release_label(key: &str) -> bool {
    key.starts_with(RUNS)
}

/// The keys of the labels of a host. Only containerd selects images of other builds; for another container runtime, or an
/// unknown one, the host runs the images of its own build.
pub fn of_host(host: OsVersion, containerd: Option<ContainerdVersion>) -> BTreeSet<String> {
    let others = containerd.into_iter().flat_map(|containerd| other_builds(host, Some(containerd)));
    others.chain([host.build]).map(key_of).collect()
}

/// The keys of the labels of the hosts of a build that run a current containerd.
pub fn expected(build: Build) -> BTreeSet<String> {
    let others = other_builds(OsVersion { build, revision: None }, None);
    others.chain([build]).map(key_of).collect()
}

/// Replaces the labels for releases among the labels of a node by those with these keys.
pub fn replace(labels: &mut BTreeMap<String, String>, keys: BTreeSet<String>) {
    labels.retain(|key, _| !is_release_label(key));
    labels.extend(keys.into_iter().map(|key| (key, RUNS_VALUE.to_owned())));
}

/// The builds of other releases whose images a host runs in process isolation.
fn other_builds(host: OsVersion, containerd: Option<ContainerdVersion>) -> impl Iterator<Item = Build> {
    let builds = builds::RELEASES.iter().map(|release| release.build).filter(move |build| *build != host.build);
    builds.filter(move |build| {
        let image = OsVersion { build: *build, revision: None };
        check(host, Some(image), Isolation::Process, containerd) == VersionCompatibility::Compatible
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_a_label_for_each_release_whose_images_its_containerd_selects() {
        let table: [(&str, Option<&str>, &[&str]); 8] = [
            ("10.0.17763.5329", Some("1.7.27"), &["ltsc2019"]),
            ("10.0.19042", Some("1.6.0"), &["20h2"]),
            ("10.0.20348.2402", Some("1.7.27"), &["ltsc2022"]),
            ("10.0.25398", Some("1.7.27"), &["23h2", "ltsc2022"]),
            ("10.0.26100.1742", Some("2.0.4"), &["23h2", "ltsc2022", "ltsc2025"]),
            ("10.0.26100.1742", Some("1.6.22"), &["ltsc2025"]),
            ("10.0.26100.1742", None, &["ltsc2025"]),
            ("10.0.30000", Some("1.7.5"), &["10.0.30000"]),
        ];
        for (host, containerd, expected) in table {
            let containerd = containerd.map(|version| version.parse().unwrap());
            let labels = of_host(host.parse().unwrap(), containerd);
            let expected: BTreeSet<String> = expected.iter().map(|name| format!("runs.winpool.dev/{name}")).collect();
            assert_eq!(labels, expected, "{host}, {containerd:?}");
            assert!(labels.iter().all(|key| build_of(key).map(key_of).as_ref() == Some(key)), "{host}");
        }
    }

    #[test]
    fn a_label_names_the_release_of_every_name_of_a_build() {
        for (name, expected) in [("1809", "runs.winpool.dev/ltsc2019"), ("2009", "runs.winpool.dev/20h2")] {
            assert_eq!(key_of(builds::named(name).unwrap()), expected);
        }
    }
}
