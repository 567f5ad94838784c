//! Which container images a Windows host can run.
//!
//! Sources: process isolation from microsoft/hcsshim, `osversion/platform_compat_windows.go` (2024-11-25), and
//! containerd/platforms, `platform_windows_compat.go` (2026-03-31); Hyper-V isolation and the revision rule of Windows
//! Server 2016 from MicrosoftDocs/Virtualization-Documentation,
//! `virtualization/windowscontainers/deploy-containers/version-compatibility.md` (2025-09-17); the first releases of
//! containerd with the rule from containerd/containerd, tags v1.6.23 and v1.7.6, `platforms/defaults_windows.go`.
//!
//! A HostProcess container is no container to Windows: it runs on the host's own files, whatever build its image has.
//! So none of this is asked for one.

use super::{Build, ContainerdVersion, OsVersion};

/// How a container is kept apart from its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// It shares the kernel of the host, so the builds have to fit closely.
    Process,
    /// It has a kernel of its own in a utility virtual machine, which may be older than the host's.
    HyperV,
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
    /// Windows would run it, and this containerd looks for the host's own build only.
    RuntimeTooOld {
        /// The least containerd of the same line, or the least of all, that would run it.
        needs: ContainerdVersion,
    },
}

/// Whether a host runs an image.
///
/// - `image`: the image's `os.version`; an image without one fits every host.
/// - `containerd`: the host's containerd; with `None` (another runtime, or a version nobody can read) the runtime's own
///   matching is not judged. It matters to process isolation only.
pub fn fit(
    host: OsVersion,
    image: Option<OsVersion>,
    isolation: Isolation,
    containerd: Option<ContainerdVersion>,
) -> Fit {
    let Some(image) = image else { return Fit::Runs };
    match isolation {
        Isolation::HyperV if image.build <= host.build => Fit::Runs,
        Isolation::HyperV => Fit::BuildDiffers { oldest: FIRST_WITH_CONTAINERS, newest: host.build },
        Isolation::Process => process_fit(host, image, containerd),
    }
}

fn process_fit(host: OsVersion, image: OsVersion, containerd: Option<ContainerdVersion>) -> Fit {
    let (oldest, newest) = (oldest_image(host.build), host.build);
    if image.build < oldest || image.build > newest {
        return Fit::BuildDiffers { oldest, newest };
    }
    if image.build != host.build {
        return match containerd {
            Some(installed) if !knows_stable_abi(installed) => {
                Fit::RuntimeTooOld { needs: first_with_stable_abi(installed) }
            }
            _ => Fit::Runs,
        };
    }
    match (host.revision, image.revision) {
        (Some(host), Some(image)) if newest == REVISION_MATTERS_ON && host != image => {
            Fit::RevisionDiffers { host, image }
        }
        _ => Fit::Runs,
    }
}

/// The oldest image build that a host of this build runs with process isolation; the newest is always its own.
pub fn oldest_image(host: Build) -> Build {
    let [first, ..] = STABLE_ABI_LTSC;
    if host < first {
        return host;
    }
    STABLE_ABI_LTSC.into_iter().rfind(|&ltsc| ltsc < host).unwrap_or(first)
}

/// Whether this containerd pulls and starts an older image where [`oldest_image`] allows one.
pub fn knows_stable_abi(v: ContainerdVersion) -> bool {
    v >= first_with_stable_abi(v)
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
        (27000, ['H',  'H',  'H',  'H',  'H',  'H',  'H',  'H',  'H',  'H',  'B',  'B']),
    ];

    const CURRENT: Option<ContainerdVersion> = Some(ContainerdVersion::new(2, 3, 4));

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
                let seen = match (fits(Isolation::Process), fits(Isolation::HyperV)) {
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
            (27000, 20348, Isolation::Process, 26100, 27000),
            (20348, 26100, Isolation::HyperV, 14393, 20348),
        ];
        for (host, image, isolation, oldest, newest) in table {
            let differs = Fit::BuildDiffers { oldest: Build(oldest), newest: Build(newest) };
            assert_eq!(fit(os(host), Some(os(image)), isolation, CURRENT), differs, "image {image} on host {host}");
        }
    }

    #[test]
    fn an_image_without_a_version_runs_anywhere() {
        for (host, _) in MATRIX {
            for isolation in [Isolation::Process, Isolation::HyperV] {
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
            assert_eq!(fit(host, image, Isolation::HyperV, CURRENT), Fit::Runs, "{}", release.build);
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
            (v(2, 3, 4), None),
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
        assert_eq!(fit(os(26100), Some(os(20348)), Isolation::HyperV, old), Fit::Runs, "a rule of process isolation");
    }
}
