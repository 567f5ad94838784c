//! Pause images: the default tag of each Kubernetes minor, the tags in each registry, and the Windows builds in each
//! tag.
//!
//! Sources:
//! - default tags: kubernetes/sig-release release notes (1.31 #125112, 1.34 #130713, 1.36 #138199), and kubernetes-sigs/kubespray
//!   pull request 10112 for 3.9, the default from 1.26 on;
//! - registry.k8s.io/pause: kubernetes/kubernetes, `build/pause/CHANGELOG.md` (3.10.1, 2025) and `Makefile` (3.10, 3.10.2), pull
//!   requests 136960 and 138195 (2026), and issue 100708 (2021-03), which examined the registry and is followed for 3.4.1 and 3.5.
//!   That 3.10.2 still has Windows Server 2019 is inferred;
//! - Microsoft's registry (read 2026-11-29): kubernetes/kubernetes issue 87339, containerd/cri pull request 1532 (1.4.0), k0sproject/k0s pull request
//!   642 (1.4.1), kubernetes-sigs/image-builder pull requests 1068 (there is no 3.7) and 1985 (3.10.1-3), kubernetes/website,
//!   `intro.md` (a tag has the builds of upstream's tag), Azure/AgentBaker pull request 7083 (2025-09): oss/v2 from 3.10.1 on; its
//!   earlier tags are for Linux. Unlike upstream's, its 3.10.1 has 26100: on Windows Server 2025 the size of its one digest is that of
//!   3.10.2, and not that of 2022 (`vhdbuilder/release-notes/AKSWindows` there, 2025-11 to 2026-08).

use std::fmt;

use super::{
    Build, ContainerdVersion, Minor, OsVersion,
    version_compatibility::{Isolation, VersionCompatibility, check},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PausePublisher {
    /// Microsoft's rebuild, with Authenticode-signed Windows binaries.
    Microsoft,
    Upstream,
}

/// A pause image, displayed as `repository:tag`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PauseImage {
    /// The repository, with the registry.
    pub repository: &'static str,
    pub tag: &'static str,
}

impl fmt::Display for PauseImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

pub(super) struct Entry {
    image: PauseImage,
    builds: &'static [u32],
}

const fn entry(repository: &'static str, tag: &'static str, builds: &'static [u32]) -> Entry {
    Entry { image: PauseImage { repository, tag }, builds }
}

pub const UPSTREAM: &str = "registry.k8s.io/pause";
/// Microsoft's current repository.
pub const MICROSOFT: &str = "mcr.microsoft.com/oss/v2/kubernetes/pause";
/// Microsoft's repository up to tag 3.10.
pub const MICROSOFT_OSS: &str = "mcr.microsoft.com/oss/kubernetes/pause";
/// Microsoft's first repository, up to tag 1.2.0.
pub const MICROSOFT_CORE: &str = "mcr.microsoft.com/k8s/core/pause";

pub const REPOSITORIES: [&str; 4] = [UPSTREAM, MICROSOFT, MICROSOFT_OSS, MICROSOFT_CORE];

/// Upstream's tags, ascending. Before 3.4.1 they are for Linux only.
#[rustfmt::skip]
pub(super) const UPSTREAM_TAGS: &[Entry] = &[
    entry(UPSTREAM, "3.1",    &[]),
    entry(UPSTREAM, "3.2",    &[]),
    entry(UPSTREAM, "3.3",    &[]),
    entry(UPSTREAM, "3.4.1",  &[17763, 18362, 18363, 19041]),
    entry(UPSTREAM, "3.5",    &[17763, 18362, 18363, 19041, 19042]),
    entry(UPSTREAM, "3.6",    &[17763, 18362, 18363, 19041, 19042, 20348]),
    entry(UPSTREAM, "3.7",    &[17763, 19042, 20348]),
    entry(UPSTREAM, "3.8",    &[17763, 19042, 20348]),
    entry(UPSTREAM, "3.9",    &[17763, 20348]),
    entry(UPSTREAM, "3.10",   &[17763, 20348]),
    entry(UPSTREAM, "3.10.1", &[17763, 20348]),
    entry(UPSTREAM, "3.10.2", &[17763, 20348, 26100]),
];

/// Microsoft's tags, ascending.
#[rustfmt::skip]
pub(super) const MICROSOFT_TAGS: &[Entry] = &[
    entry(MICROSOFT_CORE, "1.0.0",    &[17763]),
    entry(MICROSOFT_CORE, "1.2.0",    &[17134, 17763]),
    entry(MICROSOFT_OSS,  "1.4.0",    &[17763, 18362, 18363, 19041]),
    entry(MICROSOFT_OSS,  "1.4.1",    &[17763, 18362, 18363, 19041]),
    entry(MICROSOFT_OSS,  "3.4.1",    &[17763, 18362, 18363, 19041]),
    entry(MICROSOFT_OSS,  "3.5",      &[17763, 18362, 18363, 19041, 19042]),
    entry(MICROSOFT_OSS,  "3.6",      &[17763, 18362, 18363, 19041, 19042, 20348]),
    entry(MICROSOFT_OSS,  "3.8",      &[17763, 19042, 20348]),
    entry(MICROSOFT_OSS,  "3.9",      &[17763, 20348]),
    entry(MICROSOFT_OSS,  "3.10",     &[17763, 20348]),
    entry(MICROSOFT,      "3.10.1",   &[17763, 20348, 26100]),
    entry(MICROSOFT,      "3.10.1-3", &[17763, 20348, 26100]),
    entry(MICROSOFT,      "3.10.2",   &[17763, 20348, 26100]),
];

/// The default tag from each minor up to the next row.
#[rustfmt::skip]
pub(super) const DEFAULTS: &[(Minor, &str)] = &[
    (Minor(30), "3.9"),
    (Minor(31), "3.10"),
    (Minor(34), "3.10.1"),
    (Minor(36), "3.10.2"),
];

/// The default tag of a minor on Windows. Minors outside the table are treated as the nearest one in it.
pub fn default_tag(minor: Minor) -> &'static str {
    DEFAULTS.iter().rfind(|(from, _)| *from <= minor).unwrap_or(&DEFAULTS[0]).1
}

/// The pause image for a node. Among the default tag of the minor and later tags of the registry: the lowest with an
/// entry for the host's exact build, else the lowest with an entry that the host can run with process isolation, else
/// `None`.
///
/// `containerd` is as in [`check`]. The exact build is preferred because a utility VM boots the build of the pause
/// image and cannot mount the layers of a newer image: with upstream's 3.10.1, images of ltsc2025 do not start with Hyper-V
/// isolation on Windows Server 2025 (kubernetes-sigs/windows-testing pull request 557).
pub fn choose(
    registry: PausePublisher,
    minor: Minor,
    host: OsVersion,
    containerd: Option<ContainerdVersion>,
) -> Option<PauseImage> {
    let lowest = sort_key(default_tag(minor));
    let allowed = || entries(registry).iter().filter(|entry| sort_key(entry.image.tag) >= lowest);
    let exact = allowed().find(|entry| entry.builds.contains(&host.build.0));
    exact.or_else(|| allowed().find(|entry| runs(entry, host, containerd))).map(|entry| entry.image)
}

/// Whether a pause image has an entry for exactly this build. `None` if the image is not in the tables.
pub fn has_build(repository: &str, tag: &str, build: Build) -> Option<bool> {
    listed(repository, tag).map(|entry| entry.builds.contains(&build.0))
}

/// Whether a host can run a pause image. `None` if the image is not in the tables.
pub fn runs_on(repository: &str, tag: &str, host: OsVersion, containerd: Option<ContainerdVersion>) -> Option<bool> {
    listed(repository, tag).map(|entry| runs(entry, host, containerd))
}

pub fn has_tag(repository: &str, tag: &str) -> bool {
    listed(repository, tag).is_some()
}

fn listed(repository: &str, tag: &str) -> Option<&'static Entry> {
    let all = [PausePublisher::Microsoft, PausePublisher::Upstream].into_iter().flat_map(entries);
    all.into_iter().find(|entry| entry.image.repository == repository && entry.image.tag == tag)
}

/// The newest repository of a registry with this tag.
pub fn repository_with(registry: PausePublisher, tag: &str) -> Option<&'static str> {
    entries(registry).iter().rfind(|entry| entry.image.tag == tag).map(|entry| entry.image.repository)
}

const fn entries(registry: PausePublisher) -> &'static [Entry] {
    match registry {
        PausePublisher::Microsoft => MICROSOFT_TAGS,
        PausePublisher::Upstream => UPSTREAM_TAGS,
    }
}

fn runs(entry: &Entry, host: OsVersion, containerd: Option<ContainerdVersion>) -> bool {
    entry.builds.iter().any(|&build| {
        let image = OsVersion { build: Build(build), revision: None };
        check(host, Some(image), Isolation::Process, containerd) == VersionCompatibility::Compatible
    })
}

/// Sorts tags by their numbers: 3.9 before 3.10, and 3.10.1 before 3.10.1-3.
fn sort_key(tag: &str) -> Vec<u32> {
    tag.split(['.', '-']).map_while(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builds::RELEASES, support};

    /// For each minor the default tag, and the chosen tag for each of [`RELEASES`] with a current containerd; `-` for
    /// none.
    #[rustfmt::skip]
    const UPSTREAM_CHOICE: [(&[u32], &str, [&str; 11]); 4] = [
        // minors                        default   14393 16299 17134 17763     18362    18363    19041    19042  20348
        // 25398     26100
        (&[30],                          "3.9",    ["-", "-",  "-",  "3.9",    "-",     "-",     "-",     "-",   "3.9",    "3.9",    "3.10.2"]),
        (&[31, 32, 33],                  "3.10",   ["-", "-",  "-",  "3.10",   "-",     "-",     "-",     "-",   "3.10",   "3.10",   "3.10.2"]),
        (&[34, 35],                      "3.10.1", ["-", "-",  "-",  "3.10.1", "-",     "-",     "-",     "-",   "3.10.1", "3.10.1", "3.10.2"]),
        (&[36, 37],                      "3.10.2", ["-", "-",  "-",  "3.10.2", "-",     "-",     "-",     "-",   "3.10.2", "3.10.2", "3.10.2"]),
    ];

    #[rustfmt::skip]
    const MICROSOFT_CHOICE: [(&[u32], &str, [&str; 11]); 4] = [
        // minors                        default   14393 16299 17134    17763     18362    18363    19041    19042
        // 20348     25398     26100
        (&[30],                          "3.9",    ["-", "-",  "-",     "3.9",    "-",     "-",     "-",     "-",   "3.9",    "3.9",    "3.10.1"]),
        (&[31, 32, 33],                  "3.10",   ["-", "-",  "-",     "3.10",   "-",     "-",     "-",     "-",   "3.10",   "3.10",   "3.10.1"]),
        (&[34, 35],                      "3.10.1", ["-", "-",  "-",     "3.10.1", "-",     "-",     "-",     "-",   "3.10.1", "3.10.1", "3.10.1"]),
        (&[36, 37],                      "3.10.2", ["-", "-",  "-",     "3.10.2", "-",     "-",     "-",     "-",   "3.10.2", "3.10.2", "3.10.2"]),
    ];

    const CURRENT: Option<ContainerdVersion> = Some(ContainerdVersion::new(2, 3, 4));

    fn host(build: Build) -> OsVersion {
        OsVersion { build, revision: Some(1) }
    }

    fn chosen(
        registry: PausePublisher,
        minor: u32,
        build: u32,
        containerd: Option<ContainerdVersion>,
    ) -> Option<String> {
        choose(registry, Minor(minor), host(Build(build)), containerd).map(|image| image.to_string())
    }

    #[test]
    fn each_minor_uses_the_tag_of_the_table_on_each_release() {
        for (registry, table) in
            [(PausePublisher::Upstream, UPSTREAM_CHOICE), (PausePublisher::Microsoft, MICROSOFT_CHOICE)]
        {
            let minors = table.iter().flat_map(|(minors, ..)| minors.iter().copied()).collect::<Vec<_>>();
            assert_eq!(
                minors,
                (support::OLDEST.0..=support::NEWEST.0).collect::<Vec<_>>(),
                "the table has every minor"
            );
            for (minors, default, tags) in table {
                for (&minor, (release, tag)) in
                    minors.iter().flat_map(|minor| RELEASES.iter().zip(tags).map(move |cell| (minor, cell)))
                {
                    assert_eq!(default_tag(Minor(minor)), default, "1.{minor}");
                    let image = choose(registry, Minor(minor), host(release.build), CURRENT);
                    let found = image.map_or("-", |image| image.tag);
                    assert_eq!(found, tag, "{registry:?} for 1.{minor} on {}", release.build);
                    if let Some(image) = image {
                        let runs = runs_on(image.repository, image.tag, host(release.build), CURRENT);
                        assert_eq!(runs, Some(true), "{image}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_containerd_without_the_stable_abi_rule_needs_an_entry_for_the_exact_build() {
        let old = Some(ContainerdVersion::new(1, 7, 5));
        let table = [
            (PausePublisher::Upstream, 34, 26100, Some("registry.k8s.io/pause:3.10.2")),
            (PausePublisher::Microsoft, 34, 26100, Some("mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.1")),
            (PausePublisher::Microsoft, 32, 26100, Some("mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.1")),
            (PausePublisher::Microsoft, 36, 26100, Some("mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.2")),
            (PausePublisher::Upstream, 30, 25398, None),
            (PausePublisher::Upstream, 30, 20348, Some("registry.k8s.io/pause:3.9")),
            (PausePublisher::Microsoft, 30, 20348, Some("mcr.microsoft.com/oss/kubernetes/pause:3.9")),
        ];
        for (registry, minor, build, image) in table {
            assert_eq!(chosen(registry, minor, build, old).as_deref(), image, "{registry:?} 1.{minor} on {build}");
        }
        let unknown = chosen(PausePublisher::Upstream, 34, 25398, None);
        assert_eq!(unknown.as_deref(), Some("registry.k8s.io/pause:3.10.1"), "an unknown runtime");
    }

    #[test]
    fn a_utility_vm_needs_an_entry_for_the_exact_build() {
        let table = [
            (UPSTREAM, "3.10.1", 26100, Some(false)),
            (UPSTREAM, "3.10.2", 26100, Some(true)),
            (MICROSOFT, "3.10.1", 26100, Some(true)),
            (MICROSOFT, "3.10.1-3", 26100, Some(true)),
            (MICROSOFT_OSS, "3.10", 20348, Some(true)),
            ("registry.example/pause", "3.10.2", 26100, None),
        ];
        for (repository, tag, build, expected) in table {
            assert_eq!(has_build(repository, tag, Build(build)), expected, "{repository}:{tag} for {build}");
        }
        for registry in [PausePublisher::Microsoft, PausePublisher::Upstream] {
            for minor in (support::OLDEST.0..=support::NEWEST.0).map(Minor) {
                let image = choose(registry, minor, host(Build(26100)), CURRENT).unwrap();
                assert_eq!(has_build(image.repository, image.tag, Build(26100)), Some(true), "{image} for {minor}");
            }
        }
    }

    #[test]
    fn an_image_that_is_not_in_the_tables_is_unknown() {
        let on_2022 = |repository, tag| runs_on(repository, tag, host(Build(20348)), CURRENT);
        let table = [
            (UPSTREAM, "3.2", Some(false)),
            (UPSTREAM, "3.5", Some(false)),
            (UPSTREAM, "3.6", Some(true)),
            (MICROSOFT_OSS, "1.4.1", Some(false)),
            (MICROSOFT_OSS, "3.7", None),
            (MICROSOFT, "3.9", None),
            (MICROSOFT, "3.10.1-3", Some(true)),
            (UPSTREAM, "latest", None),
            ("registry.example/pause", "3.9", None),
        ];
        for (repository, tag, runs) in table {
            assert_eq!(on_2022(repository, tag), runs, "{repository}:{tag}");
        }
    }

    #[test]
    fn the_tables_are_sorted_by_tag() {
        for registry in [PausePublisher::Microsoft, PausePublisher::Upstream] {
            let tags = entries(registry).iter().map(|entry| sort_key(entry.image.tag)).collect::<Vec<_>>();
            assert!(tags.windows(2).all(|pair| pair[0] < pair[1]), "{registry:?}");
        }
        assert_eq!(sort_key("3.10.1-3"), [3, 10, 1, 3]);
        assert_eq!(default_tag(Minor(9)), "3.9");
        assert_eq!(default_tag(Minor(99)), "3.10.2");
    }
}
