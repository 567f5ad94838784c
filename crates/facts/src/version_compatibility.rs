//! Which container images a Windows host can run, by the versions of image and host. HostProcess containers are not subject to
//! these rules: they run on the host's files with an image of any build.
//!
//! Sources:
//! - process isolation: microsoft/hcsshim, `osversion/platform_compat_windows.go` (2024-11-25), containerd/platforms,
//!   `platform_windows_compat.go` (2026-03-31), and containerd/containerd v1.7.6, `platforms/defaults_windows.go`;
//! - Hyper-V isolation, and the revision of Windows Server 2016: MicrosoftDocs/Virtualization-Documentation,
//!   `version-compatibility.md` (2025-09-17). In Kubernetes "any older build" is true only for a handler with its own pause image,
//!   or for Docker: the CRI pulls for the platform of the host, and the utility VM boots the build of the pause image
//!   (containerd/containerd issue 8348, 2023-04, kubernetes-sigs/windows-testing pull request 557, 2026-04, KEP 4216);
//! - hosts after the newest LTSC, such as 26200: containerd/platforms pull request 34 (2026-04-27), and `vendor/` of
//!   containerd/containerd at every release since 2.1.0; pull request 14001 (2026-08-20) is in 2.3.5 (2026-09-04) and 2.4. Later
//!   releases of 2.1 and 2.2 were not read and are not restricted.

use super::{Build, ContainerdVersion, OsVersion};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// The container shares the kernel of the host.
    Process,
    /// The container has its own kernel in a utility virtual machine.
    HyperV(UtilityVm),
}

/// The build that a utility virtual machine boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UtilityVm {
    /// The build of the node's pause image, which is that of the host, as with containerd's built-in handler.
    OfPauseImage,
    /// Any build up to that of the host, as with Docker or a handler with its own pause image.
    OfAnyBuild,
}

/// The LTSC releases with a stable ABI, ascending: a later host runs the images of the previous one.
pub const STABLE_ABI_LTSC: [Build; 2] = [Build(20348), Build(26100)];

const FIRST_WITH_CONTAINERS: Build = Build(14393);

/// The Windows on which container and host also need the same revision: Windows Server 2016.
const REVISION_MUST_MATCH: Build = Build(14393);

/// The first release of containerd with the stable-ABI rule.
const STABLE_ABI_RULE_SINCE: ContainerdVersion = ContainerdVersion::new(1, 7, 6);

/// The releases, first and last of each line, that select no images of the previous LTSC after the newest LTSC.
pub(super) const WITHOUT_PREVIOUS_LTSC: [(ContainerdVersion, ContainerdVersion); 3] = [
    (ContainerdVersion::new(2, 1, 6), ContainerdVersion::new(2, 1, 9)),
    (ContainerdVersion::new(2, 2, 0), ContainerdVersion::new(2, 2, 9)),
    (ContainerdVersion::new(2, 3, 0), ContainerdVersion::new(2, 3, 4)),
];
const WITH_PREVIOUS_LTSC: ContainerdVersion = ContainerdVersion::new(2, 3, 5);

/// Whether a host can run an image, by their versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VersionCompatibility {
    Compatible,
    BuildDiffers {
        oldest: Build,
        newest: Build,
    },
    /// Windows Server 2016 only: the builds are equal and the revisions differ.
    RevisionDiffers {
        host: u32,
        image: u32,
    },
    /// Windows can run the image, but this containerd does not select it.
    RuntimeTooOld {
        /// The first containerd that runs it, of the same release line or a later one.
        needs: ContainerdVersion,
    },
}

/// Whether a host can run an image.
///
/// - `image`: the image's `os.version`. An image without one is compatible with every host.
/// - `containerd`: the host's containerd. With `None` (another runtime, or an unknown version) the runtime's platform
///   matching is not checked. It does not apply to a utility virtual machine of any build.
pub fn check(
    host: OsVersion,
    image: Option<OsVersion>,
    isolation: Isolation,
    containerd: Option<ContainerdVersion>,
) -> VersionCompatibility {
    let Some(image) = image else { return VersionCompatibility::Compatible };
    match isolation {
        Isolation::HyperV(UtilityVm::OfAnyBuild) if image.build <= host.build => VersionCompatibility::Compatible,
        Isolation::HyperV(UtilityVm::OfAnyBuild) => {
            VersionCompatibility::BuildDiffers { oldest: FIRST_WITH_CONTAINERS, newest: host.build }
        }
        Isolation::HyperV(UtilityVm::OfPauseImage) => check_build(host.build, image.build, containerd),
        Isolation::Process => match check_build(host.build, image.build, containerd) {
            VersionCompatibility::Compatible => check_revision(host, image),
            differs => differs,
        },
    }
}

fn check_build(host: Build, image: Build, containerd: Option<ContainerdVersion>) -> VersionCompatibility {
    let oldest = oldest_image(host);
    if image < oldest || image > host {
        return VersionCompatibility::BuildDiffers { oldest, newest: host };
    }
    match containerd.and_then(|installed| containerd_needed(host, image, installed)) {
        Some(needs) => VersionCompatibility::RuntimeTooOld { needs },
        None => VersionCompatibility::Compatible,
    }
}

fn check_revision(host: OsVersion, image: OsVersion) -> VersionCompatibility {
    match (host.revision, image.revision) {
        (Some(host_revision), Some(image)) if host.build == REVISION_MUST_MATCH && host_revision != image => {
            VersionCompatibility::RevisionDiffers { host: host_revision, image }
        }
        _ => VersionCompatibility::Compatible,
    }
}

/// The oldest build of images that a host runs with process isolation. The newest is always its own build. A host from
/// one LTSC up to the next runs images from the previous LTSC on.
pub fn oldest_image(host: Build) -> Build {
    let [first, ..] = STABLE_ABI_LTSC;
    if host < first {
        return host;
    }
    let own = STABLE_ABI_LTSC.iter().rposition(|&ltsc| ltsc <= host).unwrap_or_default();
    STABLE_ABI_LTSC[own.saturating_sub(1)]
}

/// The first containerd that selects an image that the host can run, if the installed one does not.
fn containerd_needed(host: Build, image: Build, installed: ContainerdVersion) -> Option<ContainerdVersion> {
    let [.., newest_ltsc] = STABLE_ABI_LTSC;
    let affected = |(first, last): &(_, _)| (*first..=*last).contains(&installed);
    if image != host && !has_stable_abi_rule(installed) {
        Some(STABLE_ABI_RULE_SINCE)
    } else if host > newest_ltsc && image < newest_ltsc && WITHOUT_PREVIOUS_LTSC.iter().any(affected) {
        Some(WITH_PREVIOUS_LTSC)
    } else {
        None
    }
}

/// Whether containerd has the stable-ABI rule: it runs older images on a host up to the newest LTSC if Windows can.
pub fn has_stable_abi_rule(v: ContainerdVersion) -> bool {
    v >= STABLE_ABI_RULE_SINCE
}

/// Whether an image of the host's build has a later revision than the host. It may fail to start (0xc0370106) until the
/// host is updated: actions/runner-images issue 11582 (2025-02), microsoft/Windows-Containers issue 591 (2025-05). Such
/// images were observed to start with Hyper-V isolation.
pub fn revision_is_newer(host: OsVersion, image: OsVersion, isolation: Isolation) -> bool {
    let newer = matches!((host.revision, image.revision), (Some(host), Some(image)) if image > host);
    newer && host.build == image.build && isolation == Isolation::Process
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builds::RELEASES;

    /// A future release.
    const FUTURE: u32 = 27000;

    /// Host by image: `B` runs with both isolations, `H` only with Hyper-V isolation, `-` with none.
    #[rustfmt::skip]
    const MATRIX: [(u32, [char; 12]); 12] = [
        //       14393 16299 17134 17763 18362 18363 19041 19042 20348 25398 26100 27000
        (14393, ['B',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-']),
        (16299, ['H',  'B',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-']),
        (17134, ['H',  'H',  'B',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-']),
        (17763, ['H',  'H',  'H',  'B',  '-',  '-',  '-',  '-',  '-',  '-',  '-',  '-']),
        (18362, ['H',  'H',  'H',  'H',  'B',  '-',  '-',  '-',  '-',  '-',  '-',  '-']),
        (18363, ['H',  'H',  'H',  'H',  'H',  'B',  '-',  '-',  '-',  '-',  '-',  '-']),
        (19041, ['H',  'H',  'H',  'H',  'H',  'H',  'B',  '-',  '-',  '-',  '-',  '-']),
        (19042, ['H',  'H',  'H',  'H',  'H',  'H',  'H',  'B',  '-',  '-',  '-',  '-']),
        (20348, ['H',  'H',  'H',  'H',  'H',  'H',  'H',  'H',  'B',  '-',  '-',  '-']),
        (25398, ['H',  'H',  'H',  'H',  'H',  'H',  'H',  'H',  'B',  'B',  '-',  '-']),
        (26100, ['H',  'H',  'H',  'H',  'H',  'H',  'H',  'H',  'B',  'B',  'B',  '-']),
        (27000, ['H',  'H',  'H',  'H',  'H',  'H',  'H',  'H',  'B',  'B',  'B',  'B']),
    ];

    const CURRENT: Option<ContainerdVersion> = Some(ContainerdVersion::new(2, 4, 0));
    const ANY_BUILD: Isolation = Isolation::HyperV(UtilityVm::OfAnyBuild);
    const PAUSE: Isolation = Isolation::HyperV(UtilityVm::OfPauseImage);

    fn os(build: u32) -> OsVersion {
        OsVersion { build: Build(build), revision: Some(1) }
    }

    #[test]
    fn the_compatibility_of_hosts_and_images_follows_microsoft() {
        let columns = RELEASES.iter().map(|release| release.build.0).chain([FUTURE]).collect::<Vec<_>>();
        assert_eq!(MATRIX.map(|(host, _)| host).to_vec(), columns, "the matrix has every release");
        for (host, cells) in MATRIX {
            for (&image, cell) in columns.iter().zip(cells) {
                let fits = |isolation| {
                    check(os(host), Some(os(image)), isolation, CURRENT) == VersionCompatibility::Compatible
                };
                assert_eq!(fits(PAUSE), fits(Isolation::Process), "image {image} on host {host}");
                let seen = match (fits(Isolation::Process), fits(ANY_BUILD)) {
                    (true, true) => 'B',
                    (false, true) => 'H',
                    (false, false) => '-',
                    (true, false) => 'P',
                };
                assert_eq!(seen, cell, "image {image} on host {host}");
            }
        }
    }

    #[test]
    fn an_incompatible_build_is_reported_with_the_builds_that_the_host_can_run() {
        let table = [
            (17763, 20348, Isolation::Process, 17763, 17763),
            (20348, 17763, Isolation::Process, 20348, 20348),
            (20348, 26100, Isolation::Process, 20348, 20348),
            (25398, 26100, Isolation::Process, 20348, 25398),
            (26100, 19042, Isolation::Process, 20348, 26100),
            (26200, 19042, Isolation::Process, 20348, 26200),
            (20348, 26100, ANY_BUILD, 14393, 20348),
            (20348, 17763, PAUSE, 20348, 20348),
        ];
        for (host, image, isolation, oldest, newest) in table {
            let differs = VersionCompatibility::BuildDiffers { oldest: Build(oldest), newest: Build(newest) };
            assert_eq!(check(os(host), Some(os(image)), isolation, CURRENT), differs, "image {image} on host {host}");
        }
    }

    #[test]
    fn an_image_without_a_version_is_compatible_with_every_host() {
        for (host, _) in MATRIX {
            for isolation in [Isolation::Process, PAUSE, ANY_BUILD] {
                assert_eq!(check(os(host), None, isolation, None), VersionCompatibility::Compatible, "{host}");
            }
        }
    }

    #[test]
    fn the_revision_matters_on_windows_server_2016_without_hyper_v_only() {
        let pair = |build, image| {
            let host = OsVersion { build: Build(build), revision: Some(7000) };
            (host, Some(OsVersion { build: Build(build), revision: image }))
        };
        for release in RELEASES {
            let found = |revision, isolation| {
                let (host, image) = pair(release.build.0, revision);
                check(host, image, isolation, CURRENT)
            };
            let expected = match release.build.0 {
                14393 => VersionCompatibility::RevisionDiffers { host: 7000, image: 6999 },
                _ => VersionCompatibility::Compatible,
            };
            assert_eq!(found(Some(6999), Isolation::Process), expected, "{}", release.build);
            for other in [found(Some(6999), ANY_BUILD), found(Some(6999), PAUSE), found(None, Isolation::Process)] {
                assert_eq!(other, VersionCompatibility::Compatible, "{}", release.build);
            }
        }
    }

    #[test]
    fn an_older_image_needs_a_containerd_with_the_stable_abi_rule() {
        let v = ContainerdVersion::new;
        let table = [
            (v(1, 7, 0), Some(v(1, 7, 6))),
            (v(1, 7, 5), Some(v(1, 7, 6))),
            (v(1, 7, 6), None),
            (v(2, 0, 0), None),
            (v(2, 4, 0), None),
        ];
        for (installed, needs) in table {
            assert_eq!(has_stable_abi_rule(installed), needs.is_none(), "{installed}");
            for (host, cells) in MATRIX {
                for ((image, _), cell) in MATRIX.iter().zip(cells) {
                    let seen = check(os(host), Some(os(*image)), Isolation::Process, Some(installed));
                    let expected = match (cell, needs) {
                        ('B', Some(needs)) if *image != host => VersionCompatibility::RuntimeTooOld { needs },
                        ('B', _) => VersionCompatibility::Compatible,
                        _ => VersionCompatibility::BuildDiffers {
                            oldest: oldest_image(Build(host)),
                            newest: Build(host),
                        },
                    };
                    assert_eq!(seen, expected, "image {image} on host {host} with {installed}");
                }
            }
        }
        // The rule applies to pulls for the host, and an unknown runtime is not checked.
        let old = Some(v(1, 7, 5));
        for (isolation, containerd, runs) in
            [(Isolation::Process, None, true), (ANY_BUILD, old, true), (PAUSE, old, false)]
        {
            let found = check(os(26100), Some(os(20348)), isolation, containerd);
            assert_eq!(found == VersionCompatibility::Compatible, runs, "{isolation:?}");
        }
    }

    #[test]
    fn on_a_host_after_the_newest_ltsc_images_of_the_previous_one_depend_on_containerd() {
        let v = ContainerdVersion::new;
        let table = [
            (v(1, 7, 5), VersionCompatibility::RuntimeTooOld { needs: v(1, 7, 6) }),
            (v(1, 7, 34), VersionCompatibility::Compatible),
            (v(2, 0, 11), VersionCompatibility::Compatible),
            (v(2, 1, 5), VersionCompatibility::Compatible),
            (v(2, 1, 6), VersionCompatibility::RuntimeTooOld { needs: v(2, 3, 5) }),
            (v(2, 1, 9), VersionCompatibility::RuntimeTooOld { needs: v(2, 3, 5) }),
            (v(2, 2, 9), VersionCompatibility::RuntimeTooOld { needs: v(2, 3, 5) }),
            (v(2, 3, 4), VersionCompatibility::RuntimeTooOld { needs: v(2, 3, 5) }),
            (v(2, 3, 5), VersionCompatibility::Compatible),
            (v(2, 4, 0), VersionCompatibility::Compatible),
        ];
        for (installed, expected) in table {
            let on = |host, image| check(os(host), Some(os(image)), Isolation::Process, Some(installed));
            assert_eq!(on(26200, 20348), expected, "{installed}");
            let same_generation = if installed == v(1, 7, 5) { expected } else { VersionCompatibility::Compatible };
            assert_eq!(on(26200, 26100), same_generation, "{installed}");
            assert_eq!(on(26100, 20348), same_generation, "{installed}: up to the newest LTSC");
            assert_eq!(on(26200, 26200), VersionCompatibility::Compatible, "{installed}");
        }
    }

    #[test]
    fn only_a_later_revision_of_the_same_build_with_process_isolation_is_newer() {
        let at = |build, revision| OsVersion { build: Build(build), revision };
        let table = [
            (at(26100, Some(2894)), at(26100, Some(3194)), Isolation::Process, true),
            (at(26100, Some(3194)), at(26100, Some(3194)), Isolation::Process, false),
            (at(26100, Some(3194)), at(26100, Some(2894)), Isolation::Process, false),
            (at(26100, Some(2894)), at(20348, Some(5499)), Isolation::Process, false),
            (at(26100, None), at(26100, Some(3194)), Isolation::Process, false),
            (at(26100, Some(2894)), at(26100, None), Isolation::Process, false),
            (at(26100, Some(2894)), at(26100, Some(3194)), PAUSE, false),
        ];
        for (host, image, isolation, expected) in table {
            assert_eq!(revision_is_newer(host, image, isolation), expected, "{image} on {host}");
        }
    }
}
