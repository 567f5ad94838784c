//! The releases of Windows Server that run containers: build, servicing channel, lifecycle, and the tags of Microsoft's
//! base images for each build.
//!
//! Sources: MicrosoftDocs/Virtualization-Documentation, `virtualization/windowscontainers/deploy-containers/`:
//! `base-image-lifecycle.md` (2025-09-17; Semi-Annual Channel as of 2020-12, 2022-01 and 2023-12) and
//! `version-compatibility.md`; endoflife-date/endoflife.date, `products/windows-server.md` (55c05123d, 2026-08-21), which this
//! table follows where `base-image-lifecycle.md` has earlier dates: for Windows Server 2025, version 23H2 (Microsoft ended its
//! updates on 2026-05-12) and Windows Server 2016 (2027-01-12 is a patch Tuesday); tags from microsoft/hcsshim,
//! `test/pkg/images/images.go` (2026-08-20).

use std::ops::RangeInclusive;

use jiff::civil::{Date, date};

use super::Build;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// LTSC: five years of mainstream support and five of extended support.
    LongTermServicing,
    /// SAC: eighteen months of support. The channel ended with version 20H2.
    SemiAnnual,
    /// AC: container hosts only, with a single end of support.
    Annual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The build. Hosts and images are compared by it.
    pub build: Build,
    pub product: &'static str,
    pub channel: Channel,
    /// The names of this build, the preferred one first: the tags of the base images, or the version of a release
    /// without base images.
    pub names: &'static [&'static str],
    pub available: Date,
    /// The last day of mainstream support.
    pub mainstream_end: Date,
    /// The last day of extended support, if the channel has it. Paid extensions do not count.
    pub extended_end: Option<Date>,
}

impl Release {
    /// The last day with security updates.
    pub const fn final_end(&self) -> Date {
        match self.extended_end {
            Some(end) => end,
            None => self.mainstream_end,
        }
    }
}

/// Year, month and day.
type Day = (i16, i8, i8);

const fn row(
    build: u32,
    channel: Channel,
    product: &'static str,
    names: &'static [&'static str],
    available: Day,
    mainstream_end: Day,
    extended_end: Option<Day>,
) -> Release {
    const fn on((year, month, day): Day) -> Date {
        date(year, month, day)
    }
    let extended_end = match extended_end {
        Some(end) => Some(on(end)),
        None => None,
    };
    let (available, mainstream_end) = (on(available), on(mainstream_end));
    Release { build: Build(build), product, channel, names, available, mainstream_end, extended_end }
}

const LTSC: Channel = Channel::LongTermServicing;
const SAC: Channel = Channel::SemiAnnual;
const AC: Channel = Channel::Annual;

/// Every release, oldest first.
///
/// Build 17763 is both Windows Server 2019 and version 1809, whose support ended on 2020-11-10. A node reports only the
/// build, so the LTSC dates apply. Version 23H2 (25398) has no base images of its own; its hosts run those of ltsc2022.
#[rustfmt::skip]
pub const RELEASES: &[Release] = &[
    row(14393, LTSC, "Windows Server 2016",          &["ltsc2016"],         (2016, 10, 15), (2022, 1, 11),  Some((2027, 1, 12))),
    row(16299, SAC,  "Windows Server, version 1709", &["1709"],             (2017, 10, 17), (2019, 4, 9),   None),
    row(17134, SAC,  "Windows Server, version 1803", &["1803"],             (2018, 4, 30),  (2019, 11, 12), None),
    row(17763, LTSC, "Windows Server 2019",          &["ltsc2019", "1809"], (2018, 11, 13), (2024, 1, 9),   Some((2029, 1, 9))),
    row(18362, SAC,  "Windows Server, version 1903", &["1903"],             (2019, 5, 21),  (2020, 12, 8),  None),
    row(18363, SAC,  "Windows Server, version 1909", &["1909"],             (2019, 11, 12), (2021, 5, 11),  None),
    row(19041, SAC,  "Windows Server, version 2004", &["2004"],             (2020, 5, 27),  (2021, 12, 14), None),
    row(19042, SAC,  "Windows Server, version 20H2", &["20H2", "2009"],     (2020, 10, 20), (2022, 8, 9),   None),
    row(20348, LTSC, "Windows Server 2022",          &["ltsc2022"],         (2021, 8, 18),  (2026, 10, 13), Some((2031, 10, 14))),
    row(25398, AC,   "Windows Server, version 23H2", &["23H2"],             (2023, 10, 24), (2026, 5, 12),  None),
    row(26100, LTSC, "Windows Server 2025",          &["ltsc2025"],         (2024, 11, 1),  (2029, 11, 13), Some((2034, 11, 14))),
];

/// The builds after the newest release. They are accepted as releases that the table does not contain yet. The first
/// ones belong to the generation of the newest release, such as 26200.
pub const FUTURE: RangeInclusive<u32> = 26_101..=99_999;
/// A regular expression for the numbers in [`FUTURE`].
pub const FUTURE_PATTERN: &str = "2610[1-9]|261[1-9][0-9]|26[2-9][0-9]{2}|2[7-9][0-9]{3}|[3-9][0-9]{4}";

pub fn release(build: Build) -> Option<&'static Release> {
    RELEASES.iter().find(|release| release.build == build)
}

/// A build with the name of its release, such as `10.0.20348 (ltsc2022)`.
pub fn described(build: Build) -> String {
    match release(build) {
        Some(release) => format!("{build} ({})", release.names[0]),
        None => build.to_string(),
    }
}

/// The build with a name such as `ltsc2022`, `1809` or `20h2`. The case is ignored.
pub fn named(name: &str) -> Option<Build> {
    let has_name = |release: &&Release| release.names.iter().any(|known| known.eq_ignore_ascii_case(name));
    RELEASES.iter().find(has_name).map(|release| release.build)
}

pub fn names() -> impl Iterator<Item = &'static str> {
    RELEASES.iter().flat_map(|release| release.names).copied()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifecycle {
    Mainstream,
    /// Extended support: security updates only.
    Extended,
    EndingSoon,
    Ended,
}

/// The number of days before its end in which support counts as ending soon.
pub const ENDING_SOON_DAYS: i64 = 180;

/// The phase of a release on a day, and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupportState {
    pub lifecycle: Lifecycle,
    /// The last day of the phase; for [`Lifecycle::Ended`] the last day of support.
    pub until: Date,
}

/// The phase of `release` on `today`. Support includes its last day.
pub fn support_on(release: &Release, today: Date) -> SupportState {
    let end = release.final_end();
    let days_left = today.duration_until(end).as_hours() / 24;
    let (lifecycle, until) = if days_left < 0 {
        (Lifecycle::Ended, end)
    } else if days_left <= ENDING_SOON_DAYS {
        (Lifecycle::EndingSoon, end)
    } else if today <= release.mainstream_end {
        (Lifecycle::Mainstream, release.mainstream_end)
    } else {
        (Lifecycle::Extended, end)
    };
    SupportState { lifecycle, until }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn builds_and_names_are_unique() {
        assert!(RELEASES.windows(2).all(|pair| pair[0].build < pair[1].build));
        let distinct = names().map(str::to_ascii_lowercase).collect::<BTreeSet<_>>();
        assert_eq!(distinct.len(), names().count());
        for known in RELEASES {
            assert_eq!(release(known.build), Some(known));
            assert!(!known.names.is_empty(), "{}", known.product);
            for name in known.names {
                assert_eq!(named(name), Some(known.build), "{name}");
            }
        }
        assert_eq!(release(Build(22621)), None, "a Windows client is no release of Windows Server");
    }

    #[test]
    fn the_pattern_of_future_builds_matches_exactly_their_range() {
        let pattern = regex::bytes::RegexBuilder::new(&format!("^({FUTURE_PATTERN})$")).unicode(false).build().unwrap();
        for build in 0..=120_000_u32 {
            assert_eq!(pattern.is_match(build.to_string().as_bytes()), FUTURE.contains(&build), "{build}");
            assert!(release(Build(build)).is_none() || !FUTURE.contains(&build), "{build} is known");
        }
    }

    #[test]
    fn a_build_is_found_by_name_in_any_case() {
        let builds = [("1809", 17763), ("20H2", 19042), ("20h2", 19042), ("LTSC2022", 20348)];
        for (name, build) in builds {
            assert_eq!(named(name), Some(Build(build)), "{name}");
        }
        for name in ["", "ltsc", "ltsc2024", "latest", "10.0.20348", " ltsc2022"] {
            assert_eq!(named(name), None, "{name}");
        }
    }

    #[test]
    fn the_phases_of_each_release_are_in_order() {
        for release in RELEASES {
            assert!(release.available < release.mainstream_end, "{}", release.product);
            assert!(release.mainstream_end <= release.final_end(), "{}", release.product);
            let has_extended = release.extended_end.is_some();
            assert_eq!(has_extended, release.channel == Channel::LongTermServicing, "{}", release.product);
        }
    }

    #[test]
    fn support_includes_its_last_day_and_is_ending_soon_180_days_before() {
        use Lifecycle::{Ended, EndingSoon, Extended, Mainstream};
        let table = [
            (20348, date(2026, 10, 13), Mainstream, date(2026, 10, 13)),
            (20348, date(2026, 10, 14), Extended, date(2031, 10, 14)),
            (20348, date(2031, 4, 16), Extended, date(2031, 10, 14)),
            (20348, date(2031, 4, 17), EndingSoon, date(2031, 10, 14)),
            (20348, date(2031, 10, 14), EndingSoon, date(2031, 10, 14)),
            (20348, date(2031, 10, 15), Ended, date(2031, 10, 14)),
            (17763, date(2020, 11, 11), Mainstream, date(2024, 1, 9)),
            (17763, date(2024, 1, 10), Extended, date(2029, 1, 9)),
            (19042, date(2021, 6, 1), Mainstream, date(2022, 8, 9)),
            (19042, date(2022, 8, 9), EndingSoon, date(2022, 8, 9)),
            (19042, date(2022, 8, 10), Ended, date(2022, 8, 9)),
            (25398, date(2025, 11, 12), Mainstream, date(2026, 5, 12)),
            (25398, date(2025, 11, 13), EndingSoon, date(2026, 5, 12)),
            (25398, date(2026, 5, 12), EndingSoon, date(2026, 5, 12)),
            (25398, date(2026, 5, 13), Ended, date(2026, 5, 12)),
            (14393, date(2026, 8, 31), EndingSoon, date(2027, 1, 12)),
            (26100, date(2029, 11, 13), Mainstream, date(2029, 11, 13)),
            (26100, date(2029, 11, 14), Extended, date(2034, 11, 14)),
            (26100, date(2034, 11, 15), Ended, date(2034, 11, 14)),
        ];
        for (build, today, lifecycle, until) in table {
            let state = support_on(release(Build(build)).unwrap(), today);
            assert_eq!(state, SupportState { lifecycle, until }, "{build} on {today}");
        }
    }
}
