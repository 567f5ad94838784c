//! `RELEASES.md` and the tags of containerd/containerd.

use std::collections::BTreeMap;

use jiff::{ToSpan, civil::Date};
use winpool::facts::{
    ContainerdVersion, Minor,
    containerd::{GENERATIONS, end_of_life, minimum_for},
    support::OLDEST,
};

use super::Compared;

/// Compares the ends of support and the matrix of Kubernetes.
pub fn releases(text: &str) -> Compared {
    let rows: Vec<Vec<&str>> = text.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let support: Vec<_> = rows.iter().filter_map(|row| line_of(row)).collect();
    let matrix: Vec<_> = rows.iter().filter_map(|row| Some((minor_of(row)?, *row.get(1)?))).collect();
    if support.is_empty() || matrix.is_empty() {
        return Err("it has no table of releases, or none of Kubernetes versions".to_owned());
    }
    let mut differences = Vec::new();
    for (line, end) in support {
        match (day(end), end_of_life(line)) {
            (None, _) => differences.push(format!("{}.{} ends on {end:?}, which is no day", line.major, line.minor)),
            (Some(day), Some(own)) if day == own => {}
            (Some(day), own) => {
                let own = own.map_or("nothing".to_owned(), |own| own.to_string());
                differences.push(format!("{}.{} ends on {day}, the table has {own}", line.major, line.minor));
            }
        }
    }
    for (minor, versions) in matrix {
        let minimums = versions.split(',').filter_map(|text| text.trim().trim_end_matches('+').parse().ok());
        for least in minimums {
            differences.extend(minimum(minor, least));
        }
    }
    Ok(differences)
}

/// The minor in a row such as `| 1.36 | 2.3.0+, 2.2.0+ | v1 |`; other tables have versions of containerd there.
fn minor_of(row: &[&str]) -> Option<Minor> {
    row.first()?.parse().ok().filter(|minor| *minor >= OLDEST)
}

fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// The line and the end in a row such as `| [2.3](…) | LTS | April 30, 2026 | April 30, 2028 | … |`, of those that the table
/// begins with or later ones that have begun.
fn line_of<'t>(row: &[&'t str]) -> Option<(ContainerdVersion, &'t str)> {
    let name = row.first()?.strip_prefix('[')?.split(']').next()?;
    let line: ContainerdVersion = name.parse().ok()?;
    let future = row.get(1)?.contains("Future");
    (line >= GENERATIONS[0].first && !future).then_some((line, *row.get(3)?))
}

/// `April 30, 2028`, `Apr 30, 2028`, `March, 2027**` or `September 2026*`: of a month its last day.
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

/// What differs about the least patch of a line that a minor asks for.
fn minimum(minor: Minor, least: ContainerdVersion) -> Option<String> {
    let own = minimum_for(minor, ContainerdVersion { patch: 0, ..least });
    let expected = (least.patch > 0).then_some(least);
    (own != expected).then(|| {
        let own = own.map_or("any".to_owned(), |own| own.to_string());
        format!("Kubernetes {minor} asks for {least} of its line, the table has {own}")
    })
}

/// Compares the newest patch releases. Lines are tags, or what `git ls-remote --tags` prints.
pub fn tags(text: &str) -> Compared {
    let mut newest: BTreeMap<(u32, u32), ContainerdVersion> = BTreeMap::new();
    for line in text.lines() {
        // The tags of modules in the repository have a folder before the version.
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
        return Err("it has no tag such as v2.3.4".to_owned());
    }
    let first = GENERATIONS[0].first;
    let lines = newest.into_iter().filter(|(line, _)| *line >= (first.major, first.minor));
    let differences = lines.filter_map(|((major, minor), newest)| {
        let own = GENERATIONS.iter().find(|own| (own.first.major, own.first.minor) == (major, minor));
        match own {
            Some(own) if own.newest == newest => None,
            Some(own) => Some(format!("{newest} is the newest of its line, the table has {}", own.newest)),
            None => Some(format!("the line {major}.{minor} is missing")),
        }
    });
    Ok(differences.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "| Release | Status | Start | End of Life |\n|---|---|---|---|\n";
    const MATRIX: &str = "| 1.36 | 2.3.0+, 2.2.0+ | v1 |\n| 1.3 | no Kubernetes |\n";

    #[test]
    fn ends_of_support_are_compared_by_day_or_month() {
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
            "2.2 ends on 2026-11-07, the table has 2026-11-06",
            "9.0 ends on 2030-05-01, the table has nothing",
            "2.1 ends on \"soon\", which is no day",
        ];
        assert_eq!(releases(&text(&other)), Ok(expected.map(str::to_owned).to_vec()));
        assert!(releases("# Releases").is_err());
    }

    #[test]
    fn the_matrix_of_kubernetes_is_compared_by_line() {
        let support = "| [2.3](x) | LTS | x | April 30, 2028 | |\n";
        let found = |row: &str| releases(&format!("{support}{row}"));
        assert_eq!(found("| 1.35 | 2.2.0+, 2.1.5+, 1.7.28+ | v1 |\n"), Ok(Vec::new()));
        let expected = "Kubernetes 1.35 asks for 2.1.6 of its line, the table has 2.1.5".to_owned();
        assert_eq!(found("| 1.35 | 2.1.6+ | v1 |\n"), Ok(vec![expected]));
    }

    #[test]
    fn the_newest_tag_of_each_line_is_compared() {
        let own: String = GENERATIONS.iter().map(|own| format!("abc\trefs/tags/v{}\n", own.newest)).collect();
        assert_eq!(tags(&own), Ok(Vec::new()));
        let more = format!(
            "{own}abc\trefs/tags/v2.0.99\nabc\trefs/tags/v9.0.0\nabc\trefs/tags/v9.1.0-rc.1\nabc\trefs/tags/api/v1.9.0\n"
        );
        let found = tags(&more).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("2.0.99 is the newest") && found[1] == "the line 9.0 is missing", "{found:?}");
        assert!(tags("nothing").is_err());
    }
}
