//! The Windows builds that each Kubernetes minor supports on nodes.
//!
//! Sources: the table "Windows OS version support" of kubernetes/website for each minor
//! (`docs/setup/production-environment/windows/intro-windows-in-kubernetes.md`, later `docs/concepts/windows/intro.md`; 2019-04 to
//! 2024-08, read again 2026-11-29), for 1.35 its pull requests 53724 (2025-12) and 55103 with issue 55058 (2026-03-29). Where the page is behind the
//! project, this table follows the project: 1.17 has no version 1903; 1.26 ended 20H2 (kubernetes/kubernetes pull request 112924);
//! Windows Server 2025 is tested since January 2025 (kubernetes/test-infra pull request 34101), and 1.37 on 2022 and 2025 (pull
//! request 37592, 2026-07-30 to 2026-09-18), whose release notes name no other builds (`CHANGELOG-1.37.md` at v1.37.2). The dates of releases are of kubernetes.io/releases and, for 1.38, of
//! kubernetes/sig-release, `releases/release-1.38/README.md` (read 2026-11-29). Version 23H2 (25398) was never on the page: cloud providers support it themselves.

use jiff::civil::{Date, date};

use super::{Build, Minor, feature_gates};

/// The oldest minor that winpool supports, of API servers and of kubelets.
pub const OLDEST: Minor = Minor(30);

/// The newest minor that all tables contain. Later minors are treated as this one, with a notice to the user.
pub const NEWEST: Minor = feature_gates::NEWEST_READ;

const SERVER_2019: Build = Build(17763);
const VERSION_1903: Build = Build(18362);
const VERSION_1909: Build = Build(18363);
const VERSION_2004: Build = Build(19041);
const VERSION_20H2: Build = Build(19042);
const SERVER_2022: Build = Build(20348);
const SERVER_2025: Build = Build(26100);

/// The supported builds from each minor up to the next row.
pub(super) const SUPPORT: &[(Minor, &[Build])] = &[
    (Minor(14), &[SERVER_2019]),
    (Minor(18), &[SERVER_2019, VERSION_1903, VERSION_1909]),
    (Minor(19), &[SERVER_2019, VERSION_1909, VERSION_2004]),
    (Minor(21), &[SERVER_2019, VERSION_2004, VERSION_20H2]),
    (Minor(23), &[SERVER_2019, VERSION_20H2, SERVER_2022]),
    (Minor(26), &[SERVER_2019, SERVER_2022]),
    (Minor(32), &[SERVER_2019, SERVER_2022, SERVER_2025]),
    (Minor(35), &[SERVER_2022, SERVER_2025]),
];

/// The days of the releases of minors, planned ones too.
const RELEASED: &[(Minor, Date)] = &[(Minor(37), date(2026, 8, 26)), (Minor(38), date(2026, 12, 16))];

/// The day of the release of a minor, if the table has it.
pub fn released(minor: Minor) -> Option<Date> {
    RELEASED.iter().find(|(released, _)| *released == minor).map(|(_, day)| *day)
}

/// The minor that a minor newer than the tables is treated as.
pub fn treated_as(minor: Minor) -> Option<Minor> {
    (minor > NEWEST).then_some(NEWEST)
}

/// The Windows builds that a kubelet of this minor supports, ascending. `None` before 1.14.
pub fn builds_supported_by(minor: Minor) -> Option<&'static [Build]> {
    SUPPORT.iter().rfind(|(from, _)| *from <= minor).map(|(_, builds)| *builds)
}

/// The first minor that supports this build. `None` if no minor does.
pub fn first_minor_supporting(build: Build) -> Option<Minor> {
    SUPPORT.iter().find(|(_, builds)| builds.contains(&build)).map(|(from, _)| *from)
}

/// The last minor that supports this build. `None` if the newest minor still does, or if no minor does.
pub fn last_minor_supporting(build: Build) -> Option<Minor> {
    let last = SUPPORT.iter().rposition(|(_, builds)| builds.contains(&build))?;
    SUPPORT.get(last + 1).map(|(next, _)| Minor(next.0 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builds::RELEASES;

    #[test]
    fn each_minor_supports_the_builds_that_upstream_documents() {
        let table: [(std::ops::RangeInclusive<u32>, &[u32]); 8] = [
            (14..=17, &[17763]),
            (18..=18, &[17763, 18362, 18363]),
            (19..=20, &[17763, 18363, 19041]),
            (21..=22, &[17763, 19041, 19042]),
            (23..=25, &[17763, 19042, 20348]),
            (26..=31, &[17763, 20348]),
            (32..=34, &[17763, 20348, 26100]),
            // Later minors have the builds of the newest.
            (35..=99, &[20348, 26100]),
        ];
        for (minors, builds) in table {
            let expected = builds.iter().map(|&build| Build(build)).collect::<Vec<_>>();
            for minor in minors {
                assert_eq!(builds_supported_by(Minor(minor)), Some(expected.as_slice()), "1.{minor}");
            }
        }
        assert_eq!(builds_supported_by(Minor(13)), None);
    }

    #[test]
    fn each_build_has_a_first_and_a_last_minor() {
        let table = [
            (14393, None, None),
            (16299, None, None),
            (17134, None, None),
            (17763, Some(14), Some(34)),
            (18362, Some(18), Some(18)),
            (18363, Some(18), Some(20)),
            (19041, Some(19), Some(22)),
            (19042, Some(21), Some(25)),
            (20348, Some(23), None),
            (25398, None, None),
            (26100, Some(32), None),
        ];
        assert_eq!(
            table.map(|(build, ..)| Build(build)).to_vec(),
            RELEASES.iter().map(|r| r.build).collect::<Vec<_>>()
        );
        for (build, first, last) in table {
            assert_eq!(first_minor_supporting(Build(build)), first.map(Minor), "{build}");
            assert_eq!(last_minor_supporting(Build(build)), last.map(Minor), "{build}");
        }
    }
}
