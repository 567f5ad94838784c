//! Which container images a Windows host can run.
//!
//! Sources: process isolation from microsoft/hcsshim, `osversion/platform_compat_windows.go` (2024-11-25), and
//! containerd/platforms, `platform_windows_compat.go` (2026-03-31); Hyper-V isolation and the revision rule of Windows
//! Server 2016 from MicrosoftDocs/Virtualization-Documentation,
//! `virtualization/windowscontainers/deploy-containers/version-compatibility.md` (2025-09-17); the first releases of
//! containerd with the rule from containerd/containerd, tags v1.6.23 and v1.7.6, `platforms/defaults_windows.go`.
//!
//! Hosts past the newest LTSC, as 26200 is: that Windows runs the images of the LTSC before from containerd/platforms pull
//! request 34 (2026-04-27, in v1.0.0-rc.5), and which containerd looks for them from `vendor/` of containerd/containerd at
//! every release since 2.1.0: 1.6, 1.7, 2.0 and 2.1.0 to 2.1.5 take everything from 20348 on, 2.1.6 to 2.1.9, 2.2.0 to
//! 2.2.7 and 2.3.0 to 2.3.4 nothing before 26100, and 2.4 has the new rule (pull request 14001, 2026-08-20). A backport to
//! 2.3 was asked for on 2026-08-26; later releases of these lines were not read and are not judged.
//!
//! Hyper-V isolation under containerd: the CRI pulls for the platform of the host, whatever the handler, and the utility VM
//! boots the build of the pause image: containerd/containerd issue 8348 (2023-04), kubernetes-sigs/windows-testing pull
//! request 557 (2026-04), kubernetes/enhancements KEP 4216. So "any older build", as Microsoft's page has it, is true of
//! Windows, and in Kubernetes only of a handler with a pause image of its own, or of Docker.
//!
//! A HostProcess container is no container to Windows: it runs on the host's own files, whatever build its image has.
//! So none of this is asked for one.

use jiff::civil::{Date, date};

use super::{Build, ContainerdVersion, OsVersion};

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 8, 22);

/// How a container is kept apart from its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// It shares the kernel of the host, so the builds have to fit closely.
    Process,
    /// It has a kernel of its own in a utility virtual machine.
    HyperV(UtilityVm),
}

/// What a utility virtual machine boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UtilityVm {
    /// The build of the node's pause image, which is that of the host: so it is with containerd's own handler.
    OfPauseImage,
    /// A build that somebody else has chosen, at most that of the host: a handler with a pause image of its own, or Docker.
    OfAnyBuild,
}

/// The LTSC releases since which Windows keeps the interface between kernel and containers stable: a later host runs
/// the images of the one before it. Ascending.
pub const STABLE_ABI_LTSC: [Build; 2] = [Build(20348), Build(26100)];

/// The first Windows with containers.
const FIRST_WITH_CONTAINERS: Build = Build(14393);

/// The Windows on which a container needs its host's revision too: Windows Server 2016.
const REVISION_MATTERS_ON: Build = Build(14393);

/// The first patch release with the stable-ABI rule, for each containerd line that had releases without it.
const KNOWS_STABLE_ABI_SINCE: [ContainerdVersion; 2] =
    [ContainerdVersion::new(1, 6, 23), ContainerdVersion::new(1, 7, 6)];

/// The releases, from the first to the last of each line, that do not look for images of the LTSC before on a host past the
/// newest LTSC.
const WITHOUT_PREVIOUS_LTSC: [(ContainerdVersion, ContainerdVersion); 3] = [
    (ContainerdVersion::new(2, 1, 6), ContainerdVersion::new(2, 1, 9)),
    (ContainerdVersion::new(2, 2, 0), ContainerdVersion::new(2, 2, 7)),
    (ContainerdVersion::new(2, 3, 0), ContainerdVersion::new(2, 3, 4)),
];
/// The first release after them that does.
const WITH_PREVIOUS_LTSC: ContainerdVersion = ContainerdVersion::new(2, 4, 0);

/// Whether an image runs on a host, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fit {
    /// It runs.
    Runs,
    /// The image's build is not one this host runs.
    BuildDiffers {
        /// The oldest build the host would run.
        oldest: Build,
        /// The newest build the host would run.
        newest: Build,
    },
    /// Windows Server 2016 only: the build fits and the revision does not.
    RevisionDiffers {
        /// The host's revision.
        host: u32,
        /// The image's revision.
        image: u32,
    },
    /// Windows would run it, and this containerd does not look for it.
    RuntimeTooOld {
        /// The least containerd of the same line, or else of a later one, that would run it.
        needs: ContainerdVersion,
    },
}

/// Whether a host runs an image.
///
/// - `image`: the image's `os.version`; an image without one fits every host.
/// - `containerd`: the host's containerd; with `None` (another runtime, or a version nobody can read) the runtime's own
///   matching is not judged. It does not matter to a utility virtual machine of any build.
pub fn fit(
    host: OsVersion,
    image: Option<OsVersion>,
    isolation: Isolation,
    containerd: Option<ContainerdVersion>,
) -> Fit {
    let Some(image) = image else { return Fit::Runs };
    match isolation {
        Isolation::HyperV(UtilityVm::OfAnyBuild) if image.build <= host.build => Fit::Runs,
        Isolation::HyperV(UtilityVm::OfAnyBuild) => {
            Fit::BuildDiffers { oldest: FIRST_WITH_CONTAINERS, newest: host.build }
        }
        Isolation::HyperV(UtilityVm::OfPauseImage) => build_fit(host.build, image.build, containerd),
        Isolation::Process => match build_fit(host.build, image.build, containerd) {
            Fit::Runs => revision_fit(host, image),
            differs => differs,
        },
    }
}

fn build_fit(host: Build, image: Build, containerd: Option<ContainerdVersion>) -> Fit {
    let oldest = oldest_image(host);
    if image < oldest || image > host {
        return Fit::BuildDiffers { oldest, newest: host };
    }
    match containerd.and_then(|installed| needed_for(host, image, installed)) {
        Some(needs) => Fit::RuntimeTooOld { needs },
        None => Fit::Runs,
    }
}

fn revision_fit(host: OsVersion, image: OsVersion) -> Fit {
    match (host.revision, image.revision) {
        (Some(of_host), Some(image)) if host.build == REVISION_MATTERS_ON && of_host != image => {
            Fit::RevisionDiffers { host: of_host, image }
        }
        _ => Fit::Runs,
    }
}

/// The oldest image build that Windows of this build runs with process isolation; the newest is always its own. A host
/// from an LTSC up to the next runs the images from the LTSC before.
pub fn oldest_image(host: Build) -> Build {
    let [first, ..] = STABLE_ABI_LTSC;
    if host < first {
        return host;
    }
    let own = STABLE_ABI_LTSC.iter().rposition(|&ltsc| ltsc <= host).unwrap_or_default();
    STABLE_ABI_LTSC[own.saturating_sub(1)]
}

/// The containerd that looks for an image which Windows runs on a host, where the installed one does not.
fn needed_for(host: Build, image: Build, installed: ContainerdVersion) -> Option<ContainerdVersion> {
    let [.., newest_ltsc] = STABLE_ABI_LTSC;
    let without = |(first, last): &(_, _)| (*first..=*last).contains(&installed);
    if image != host && !knows_stable_abi(installed) {
        Some(first_with_stable_abi(installed))
    } else if host > newest_ltsc && image < newest_ltsc && WITHOUT_PREVIOUS_LTSC.iter().any(without) {
        Some(WITH_PREVIOUS_LTSC)
    } else {
        None
    }
}

/// Whether this containerd pulls and starts an older image on a host up to the newest LTSC, where Windows allows one.
pub fn knows_stable_abi(v: ContainerdVersion) -> bool {
    v >= first_with_stable_abi(v)
}

/// Whether an image of the host's build has a later revision than the host. It may fail to start (0xc0370106) until the host
/// has the update: actions/runner-images issue 11582 (2025-02), microsoft/Windows-Containers issue 591 (2025-05). With
/// isolation by Hyper-V it was seen to start.
pub fn revision_is_newer(host: OsVersion, image: OsVersion, isolation: Isolation) -> bool {
    let newer = matches!((host.revision, image.revision), (Some(host), Some(image)) if image > host);
    newer && host.build == image.build && isolation == Isolation::Process
}

/// The first patch release with the rule in the line of `v`, or of the first line that has it.
fn first_with_stable_abi(v: ContainerdVersion) -> ContainerdVersion {
    let [first, ..] = KNOWS_STABLE_ABI_SINCE;
    let not_later = |since: &ContainerdVersion| (since.major, since.minor) <= (v.major, v.minor);
    KNOWS_STABLE_ABI_SINCE.into_iter().rfind(not_later).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::builds::RELEASES;

    /// A release that Microsoft has not made yet.
    const FUTURE: u32 = 27000;

    /// Host by image: `B` runs both ways, `H` with Hyper-V isolation only, `-` not at all.
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
    fn every_host_and_image_fit_as_microsoft_says() {
        let columns = RELEASES.iter().map(|release| release.build.0).chain([FUTURE]).collect::<Vec<_>>();
        assert_eq!(MATRIX.map(|(host, _)| host).to_vec(), columns, "the matrix has every release");
        for (host, cells) in MATRIX {
            for (&image, cell) in columns.iter().zip(cells) {
                let fits = |isolation| fit(os(host), Some(os(image)), isolation, CURRENT) == Fit::Runs;
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
    fn a_build_that_does_not_fit_is_told_what_the_host_would_run() {
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
            let differs = Fit::BuildDiffers { oldest: Build(oldest), newest: Build(newest) };
            assert_eq!(fit(os(host), Some(os(image)), isolation, CURRENT), differs, "image {image} on host {host}");
        }
    }

    #[test]
    fn an_image_without_a_version_runs_anywhere() {
        for (host, _) in MATRIX {
            for isolation in [Isolation::Process, PAUSE, ANY_BUILD] {
                assert_eq!(fit(os(host), None, isolation, None), Fit::Runs, "{host}");
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
            let (host, image) = pair(release.build.0, Some(6999));
            let process = fit(host, image, Isolation::Process, CURRENT);
            let expected = match release.build.0 {
                14393 => Fit::RevisionDiffers { host: 7000, image: 6999 },
                _ => Fit::Runs,
            };
            assert_eq!(process, expected, "{}", release.build);
            assert_eq!(fit(host, image, ANY_BUILD, CURRENT), Fit::Runs, "{}", release.build);
            assert_eq!(fit(host, image, PAUSE, CURRENT), Fit::Runs, "{}", release.build);
            let (host, image) = pair(release.build.0, None);
            assert_eq!(fit(host, image, Isolation::Process, CURRENT), Fit::Runs, "{}", release.build);
        }
    }

    #[test]
    fn an_older_image_needs_a_containerd_that_looks_for_it() {
        let v = ContainerdVersion::new;
        let table = [
            (v(1, 4, 13), Some(v(1, 6, 23))),
            (v(1, 5, 18), Some(v(1, 6, 23))),
            (v(1, 6, 0), Some(v(1, 6, 23))),
            (v(1, 6, 22), Some(v(1, 6, 23))),
            (v(1, 6, 23), None),
            (v(1, 6, 39), None),
            (v(1, 7, 0), Some(v(1, 7, 6))),
            (v(1, 7, 5), Some(v(1, 7, 6))),
            (v(1, 7, 6), None),
            (v(2, 0, 0), None),
            (v(2, 4, 0), None),
        ];
        for (installed, needs) in table {
            assert_eq!(knows_stable_abi(installed), needs.is_none(), "{installed}");
            for (host, cells) in MATRIX {
                for ((image, _), cell) in MATRIX.iter().zip(cells) {
                    let seen = fit(os(host), Some(os(*image)), Isolation::Process, Some(installed));
                    let expected = match (cell, needs) {
                        ('B', Some(needs)) if *image != host => Fit::RuntimeTooOld { needs },
                        ('B', _) => Fit::Runs,
                        _ => Fit::BuildDiffers { oldest: oldest_image(Build(host)), newest: Build(host) },
                    };
                    assert_eq!(seen, expected, "image {image} on host {host} with {installed}");
                }
            }
        }
        assert_eq!(fit(os(26100), Some(os(20348)), Isolation::Process, None), Fit::Runs, "a runtime we cannot judge");
        let old = Some(v(1, 7, 5));
        assert_eq!(fit(os(26100), Some(os(20348)), ANY_BUILD, old), Fit::Runs, "a rule of pulls for the host");
        assert_ne!(fit(os(26100), Some(os(20348)), PAUSE, old), Fit::Runs, "a rule of pulls for the host");
    }

    #[test]
    fn on_a_host_past_the_newest_ltsc_containerd_decides_about_images_of_the_ltsc_before() {
        let v = ContainerdVersion::new;
        let table = [
            (v(1, 6, 39), Fit::Runs),
            (v(1, 7, 5), Fit::RuntimeTooOld { needs: v(1, 7, 6) }),
            (v(1, 7, 34), Fit::Runs),
            (v(2, 0, 11), Fit::Runs),
            (v(2, 1, 5), Fit::Runs),
            (v(2, 1, 6), Fit::RuntimeTooOld { needs: v(2, 4, 0) }),
            (v(2, 1, 9), Fit::RuntimeTooOld { needs: v(2, 4, 0) }),
            (v(2, 2, 7), Fit::RuntimeTooOld { needs: v(2, 4, 0) }),
            (v(2, 3, 4), Fit::RuntimeTooOld { needs: v(2, 4, 0) }),
            (v(2, 3, 5), Fit::Runs),
            (v(2, 4, 0), Fit::Runs),
        ];
        for (installed, expected) in table {
            let on = |host, image| fit(os(host), Some(os(image)), Isolation::Process, Some(installed));
            assert_eq!(on(26200, 20348), expected, "{installed}");
            let of_the_same_generation = if installed == v(1, 7, 5) { expected } else { Fit::Runs };
            assert_eq!(on(26200, 26100), of_the_same_generation, "{installed}");
            assert_eq!(on(26100, 20348), of_the_same_generation, "{installed}: as before up to the newest LTSC");
            assert_eq!(on(26200, 26200), Fit::Runs, "{installed}");
        }
    }

    #[test]
    fn only_a_later_revision_of_the_same_build_in_process_isolation_is_newer() {
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
