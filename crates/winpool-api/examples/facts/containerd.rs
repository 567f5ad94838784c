//! `RELEASES.md` and the tags of containerd/containerd, with the modules in `go.mod`.

use std::collections::BTreeMap;

use jiff::{ToSpan, civil::Date};
use winpool_api::facts::{
    Build, ContainerdVersion, Minor, OsVersion,
    containerd::{RELEASE_LINES, end_of_life, minimum_for},
    known_issues::{ComponentVersion, hcsshim_of},
    support::OLDEST,
    version_compatibility::{Isolation, STABLE_ABI_LTSC, VersionCompatibility, check},
};

use super::Comparison;

/// Compares the end of support and the Kubernetes matrix.
pub fn releases(text: &str) -> Comparison {
    let rows: Vec<Vec<&str>> = text.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let support: Vec<_> = rows.iter().filter_map(|row| line_of(row)).collect();
    let matrix: Vec<_> = rows.iter().filter_map(|row| Some((minor_of(row)?, *row.get(1)?))).collect();
    if support.is_empty() || matrix.is_empty() {
        return Err("no table of releases or no table of Kubernetes versions".to_owned());
    }
    let mut differences = Vec::new();
    for (line, end) in support {
        match (day(end), end_of_life(line)) {
            (None, _) => {
                differences.push(format!("end of support of {}.{}: {end:?} is not a date", line.major, line.minor))
            }
            (Some(day), Some(own)) if day == own => {}
            (Some(day), own) => {
                let own = own.map_or("nothing".to_owned(), |own| own.to_string());
                let (major, minor) = (line.major, line.minor);
                differences.push(format!("end of support of {major}.{minor}: upstream has {day}, the table has {own}"));
            }
        }
    }
    for (minor, versions) in matrix {
        let minimums = versions.split(',').filter_map(|text| text.trim().trim_end_matches('+').parse().ok());
        for upstream in minimums {
            differences.extend(minimum(minor, upstream));
        }
    }
    Ok(differences)
}

/// The minor in a row such as `| 1.36 | 2.3.0+, 2.2.0+ | v1 |`. Other tables have containerd versions in this column.
fn minor_of(row: &[&str]) -> Option<Minor> {
    row.first()?.parse().ok().filter(|minor| *minor >= OLDEST)
}

fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The release line and its end of support in a row such as
/// `| [2.3](…) | LTS | April 30, 2026 | April 30, 2028 | … |`. `None` for lines before the table and for future ones.
fn line_of<'t>(row: &[&'t str]) -> Option<(ContainerdVersion, &'t str)> {
    let name = row.first()?.strip_prefix('[')?.split(']').next()?;
    let line: ContainerdVersion = name.parse().ok()?;
    let future = row.get(1)?.contains("Future");
    (line >= RELEASE_LINES[0].first && !future).then_some((line, *row.get(3)?))
}

/// Parses `April 30, 2028`, `Apr 30, 2028`, `March, 2027**` and `September 2026*`. A month means its last day.
fn day(text: &str) -> Option<Date> {
    let words: Vec<&str> = text.split([' ', ',', '*', '(', ')', '_']).filter(|word| !word.is_empty()).collect();
    match words.as_slice() {
        [month, day, year, ..] if day.len() <= 2 => Date::strptime("%B %d %Y", format!("{month} {day} {year}"))
            .or_else(|_| Date::strptime("%b %d %Y", format!("{month} {day} {year}")))
            .ok(),
        [month, year, ..] => {
            let first = Date::strptime("%B %d %Y", format!("{month} 1 {year}")).ok()?;
            first.checked_add(1.month()).ok()?.yesterday().ok()
        }
        _ => None,
    }
}

/// The difference between the minimums of a release line for a minor.
fn minimum(minor: Minor, upstream: ContainerdVersion) -> Option<String> {
    let own = minimum_for(minor, ContainerdVersion { patch: 0, ..upstream });
    let expected = (upstream.patch > 0).then_some(upstream);
    (own != expected).then(|| {
        let own = own.map_or("any".to_owned(), |own| own.to_string());
        format!("minimum for Kubernetes {minor}: upstream has {upstream}, the table has {own}")
    })
}

/// Compares the newest patch releases. The lines are tags, or the output of `git ls-remote --tags`.
pub fn tags(text: &str) -> Comparison {
    let mut newest: BTreeMap<(u32, u32), ContainerdVersion> = BTreeMap::new();
    for line in text.lines() {
        // Tags of modules in the repository have a folder before the version.
        let tag = line.rsplit("refs/tags/").next().unwrap_or_default().trim();
        let Some(plain) =
            tag.strip_prefix('v').filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        else {
            continue;
        };
        if let Ok(version) = plain.parse::<ContainerdVersion>() {
            let entry = newest.entry((version.major, version.minor)).or_insert(version);
            *entry = version.max(*entry);
        }
    }
    if newest.is_empty() {
        return Err("no tag such as v2.3.4".to_owned());
    }
    let first = RELEASE_LINES[0].first;
    let lines = newest.into_iter().filter(|(line, _)| *line >= (first.major, first.minor));
    let differences = lines.filter_map(|((major, minor), newest)| {
        let own = RELEASE_LINES.iter().find(|own| (own.first.major, own.first.minor) == (major, minor));
        match own {
            Some(own) if own.newest == newest => None,
            Some(own) => Some(format!("newest {major}.{minor}: upstream has {newest}, the table has {}", own.newest)),
            None => Some(format!("release line {major}.{minor} is missing")),
        }
    });
    Ok(differences.collect())
}

/// The first and the last release candidate of version 1.0.0 of containerd/platforms that select no images of the previous LTSC on
/// a host after the newest one: `platform_windows_compat.go` at its tags.
const WITHOUT_PREVIOUS_LTSC: (u32, u32) = (2, 4);

/// Compares hcsshim in each release of containerd, and whether its version of containerd/platforms selects images of the previous
/// LTSC. The lines are the output of `git grep` in `go.mod` at tags: `v2.3.4:go.mod: github.com/Microsoft/hcsshim v0.15.0-rc.1`.
pub fn modules(text: &str) -> Comparison {
    let (mut differences, mut found) = (Vec::new(), false);
    for line in text.lines() {
        let Some((tag, module)) = line.split_once(":go.mod:") else { continue };
        let Some(release) = tag.strip_prefix('v').filter(|tag| !tag.contains('-')).and_then(|tag| tag.parse().ok())
        else {
            continue;
        };
        let Some((name, module)) = module.trim().rsplit_once(" v") else { continue };
        found = true;
        match name.to_lowercase().as_str() {
            "github.com/microsoft/hcsshim" => differences.extend(hcsshim(release, module)),
            "github.com/containerd/platforms" => differences.extend(platforms(release, module)),
            _ => {}
        }
    }
    if found { Ok(differences) } else { Err("no modules of tags".to_owned()) }
}

/// The difference in the version of hcsshim, without that of a release candidate. Lines before the table have none.
fn hcsshim(release: ContainerdVersion, upstream: &str) -> Option<String> {
    let plain = upstream.split('-').next().and_then(|plain| plain.parse::<ContainerdVersion>().ok());
    let (own, upstream) = (hcsshim_of(release), ComponentVersion::from(plain?));
    let text = |ComponentVersion([major, minor, patch])| format!("{major}.{minor}.{patch}");
    let is_before = (release.major, release.minor) < (1, 5);
    (!is_before && own != Some(upstream)).then(|| {
        let own = own.map_or_else(|| "none".to_owned(), text);
        format!("hcsshim of {release} is {} upstream, not {own}", text(upstream))
    })
}

/// The difference in whether a host after the newest LTSC gets images of the previous one.
fn platforms(release: ContainerdVersion, upstream: &str) -> Option<String> {
    let candidate = upstream.strip_prefix("1.0.0-rc.").and_then(|candidate| candidate.parse().ok());
    let (first, last) = WITHOUT_PREVIOUS_LTSC;
    let upstream_selects = !candidate.is_some_and(|candidate: u32| (first..=last).contains(&candidate));
    let [previous, newest] = STABLE_ABI_LTSC;
    let of = |build| OsVersion { build, revision: None };
    let own = check(of(Build(newest.0 + 100)), Some(of(previous)), Isolation::Process, Some(release));
    let selects = |does: bool| if does { "selects" } else { "does not select" };
    let own = own == VersionCompatibility::Compatible;
    (own != upstream_selects).then(|| {
        let (upstream, own) = (selects(upstream_selects), selects(own));
        format!("{release} {upstream} images of the previous LTSC upstream; in the table it {own} them")
    })
}

/// Compares the builds with a stable ABI in `platform_windows_compat.go` of containerd/platforms.
pub fn stable_abi(text: &str) -> Comparison {
    let constants: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.trim().split_once(" = ")).collect();
    let constants: BTreeMap<&str, &str> = constants.into_iter().map(|(name, value)| (name.trim(), value)).collect();
    let list = text.split_once("compatLTSCReleases = []uint16{").and_then(|(_, rest)| rest.split_once('}'));
    let (list, _) = list.ok_or("no compatLTSCReleases")?;
    let resolve = |name: &str| {
        let value = constants.get(name).copied().unwrap_or(name);
        constants.get(value).copied().unwrap_or(value).parse().map(Build)
    };
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let upstream: Vec<Build> = names.map(resolve).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let text = |builds: &[Build]| builds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let difference =
        || format!("the builds with a stable ABI are {} upstream, not {}", text(&upstream), text(&STABLE_ABI_LTSC));
    Ok((upstream != STABLE_ABI_LTSC).then(difference).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "| Release | Status | Start | End of Life |\n|---|---|---|---|\n";
    const MATRIX: &str = "| 1.36 | 2.3.0+, 2.2.0+ | v1 |\n| 1.3 | no Kubernetes |\n";

    #[test]
    fn the_end_of_support_is_compared_by_day_or_month() {
        let row = |name: &str, status: &str, end: &str| format!("| [{name}](x) | {status} | Nov 5, 2024 | {end} | |\n");
        let text = |rows: &[String]| format!("{HEAD}{}{MATRIX}", rows.concat());
        let same = [
            row("2.3", "LTS", "April 30, 2028"),
            row("1.7", "LTS", "September 2026*"),
            row("2.0", "LTS", "March, 2027**"),
        ];
        assert_eq!(releases(&text(&same)), Ok(Vec::new()));
        let past = [
            row("1.3", "End of Life", "March 4, 2021"),
            row("2.3", "LTS", "April 30, 2028"),
            row("9.0", "_Future_", "April 26, 2030 (_tentative_)"),
        ];
        assert_eq!(releases(&text(&past)), Ok(Vec::new()));
        let other =
            [row("2.2", "Active", "Nov 7, 2026"), row("9.0", "Active", "May 1, 2030"), row("2.1", "Active", "soon")];
        let expected = [
            "end of support of 2.2: upstream has 2026-11-07, the table has 2026-11-06",
            "end of support of 9.0: upstream has 2030-05-01, the table has nothing",
            "end of support of 2.1: \"soon\" is not a date",
        ];
        assert_eq!(releases(&text(&other)), Ok(expected.map(str::to_owned).to_vec()));
        assert!(releases("# Releases").is_err());
    }

    #[test]
    fn the_kubernetes_matrix_is_compared_by_release_line() {
        let support = "| [2.3](x) | LTS | x | April 30, 2028 | |\n";
        let found = |row: &str| releases(&format!("{support}{row}"));
        assert_eq!(found("| 1.35 | 2.2.0+, 2.1.5+, 1.7.28+ | v1 |\n"), Ok(Vec::new()));
        let expected = "minimum for Kubernetes 1.35: upstream has 2.1.6, the table has 2.1.5".to_owned();
        assert_eq!(found("| 1.35 | 2.1.6+ | v1 |\n"), Ok(vec![expected]));
    }

    #[test]
    fn the_newest_tag_of_each_release_line_is_compared() {
        let own: String = RELEASE_LINES.iter().map(|own| format!("abc\trefs/tags/v{}\n", own.newest)).collect();
        assert_eq!(tags(&own), Ok(Vec::new()));
        let more = format!(
            "{own}abc\trefs/tags/v2.0.99\nabc\trefs/tags/v9.0.0\nabc\trefs/tags/v9.1.0-rc.1\nabc\trefs/tags/api/v1.9.0\n"
        );
        let found = tags(&more).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("newest 2.0: upstream has 2.0.99"), "{found:?}");
        assert_eq!(found[1], "release line 9.0 is missing");
        assert!(tags("nothing").is_err());
    }

    #[test]
    fn another_module_of_a_release_is_a_difference() {
        let modules = |lines: &[&str]| modules(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
        let same = [
            "v1.4.13:go.mod:\tgithub.com/Microsoft/hcsshim v0.8.14",
            "v1.7.5:go.mod:\tgithub.com/Microsoft/hcsshim v0.10.0-rc.8",
            "v2.1.5:go.mod:\tgithub.com/containerd/platforms v1.0.0-rc.1",
            "v2.3.4:go.mod:\tgithub.com/containerd/platforms v1.0.0-rc.4",
            "v2.4.0-beta.0:go.mod:\tgithub.com/containerd/platforms v1.0.0-rc.9",
        ];
        assert_eq!(modules(&same), Ok(Vec::new()));
        let other = [
            "v1.7.5:go.mod:\tgithub.com/Microsoft/hcsshim v0.11.0",
            "v2.3.5:go.mod:\tgithub.com/containerd/platforms v1.0.0-rc.4",
            "v2.3.4:go.mod:\tgithub.com/containerd/platforms v1.0.0",
        ];
        let expected = [
            "hcsshim of 1.7.5 is 0.11.0 upstream, not 0.10.0",
            "2.3.5 does not select images of the previous LTSC upstream; in the table it selects them",
            "2.3.4 selects images of the previous LTSC upstream; in the table it does not select them",
        ];
        assert_eq!(modules(&other).unwrap(), expected);
        assert!(modules(&["nothing"]).is_err());
    }

    #[test]
    fn another_build_with_a_stable_abi_is_a_difference() {
        let text = |list: &str| {
            format!(
                "const (\n\tv21H2Server = 20348\n\tltsc2022 = v21H2Server\n\tltsc2025    = 26100\n)\nvar compatLTSCReleases = []uint16{{\n{list}}}\n"
            )
        };
        assert_eq!(stable_abi(&text("\tltsc2022,\n\tltsc2025,\n")), Ok(Vec::new()));
        let differs = "the builds with a stable ABI are 10.0.20348 upstream, not 10.0.20348, 10.0.26100";
        assert_eq!(stable_abi(&text("\tltsc2022,\n")).unwrap(), [differs]);
        assert!(stable_abi(&text("\tltsc2028,\n")).is_err());
        assert!(stable_abi("package platforms").is_err());
    }
}
