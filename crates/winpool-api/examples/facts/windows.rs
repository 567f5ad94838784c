//! `products/windows-server.md` of endoflife-date/endoflife.date, and `content/ms/win/buildnumbers.json` of
//! altrhombus/DataForGeeks.

use std::collections::BTreeMap;

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde::Deserialize;
use winpool_api::facts::{
    OsVersion,
    builds::{FUTURE, RELEASES, release},
    windows_updates::{UPDATES, Update},
};

use super::Comparison;

#[derive(Deserialize)]
struct Product {
    releases: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    release_cycle: String,
    release_date: Date,
    eoas: Date,
    eol: Date,
    latest: String,
    #[serde(default)]
    lts: bool,
}

/// Compares the dates of every release that runs containers.
pub fn lifecycle(text: &str) -> Comparison {
    let front = text.strip_prefix("---\n").and_then(|rest| rest.split("\n---").next()).ok_or("no front matter")?;
    let product: Product = serde_saphyr::from_str(front).map_err(|error| error.to_string())?;
    let mut by_build: BTreeMap<_, Listed> = BTreeMap::new();
    for listed in product.releases {
        let Ok(OsVersion { build, .. }) = listed.latest.parse() else { continue };
        // A build may be a release of two channels. The LTSC dates apply.
        if listed.lts || !by_build.contains_key(&build) {
            by_build.insert(build, listed);
        }
    }
    let mut differences = Vec::new();
    for (build, listed) in &by_build {
        let cycle = &listed.release_cycle;
        let Some(own) = release(*build) else {
            if FUTURE.contains(&build.0) {
                differences.push(format!("{cycle} ({build}) is missing"));
            }
            continue;
        };
        let days = [
            ("first day of support", listed.release_date, own.available),
            ("end of mainstream support", listed.eoas, own.mainstream_end),
            ("end of support", listed.eol, own.final_end()),
        ];
        for (what, upstream, own) in days.into_iter().filter(|(_, upstream, own)| upstream != own) {
            differences.push(format!("{what} of {cycle} ({build}): upstream has {upstream}, the table has {own}"));
        }
    }
    let removed = RELEASES.iter().filter(|own| !by_build.contains_key(&own.build));
    differences.extend(removed.map(|own| format!("{} ({}) does not exist upstream", own.product, own.build)));
    Ok(differences)
}

/// The first year of the table of updates.
const FIRST_YEAR: i16 = 2023;

/// Updates that the list does not have: see the header of the table.
const NOT_LISTED: [(u32, u32); 1] = [(17763, 7922)];

#[derive(Deserialize)]
struct History {
    metadata: Metadata,
    data: Vec<Listing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    last_modified: Timestamp,
}

/// An update in the list, such as 20348.5499 of 2026-08-11.
#[derive(Deserialize)]
pub struct Listing {
    /// Build and revision, such as `20348.5499`.
    pub build: String,
    os_type: String,
    release_type: String,
    release_date: Date,
    /// The article, such as `KB5120242`.
    pub kb_article: String,
}

/// The updates in the list.
pub fn history(text: &str) -> Result<Vec<Listing>, String> {
    Ok(parse_history(text)?.data)
}

fn parse_history(text: &str) -> Result<History, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Compares the updates of servers, without hotpatches, up to the last month of the list.
pub fn updates(text: &str) -> Comparison {
    let history = parse_history(text)?;
    let last = history.metadata.last_modified.to_zoned(TimeZone::UTC).date();
    let listed = |listing: &Listing| {
        let (build, revision) = listing.build.split_once('.')?;
        let number = (build.parse().ok()?, revision.parse().ok()?);
        let date = listing.release_date;
        let is_of_table = listing.os_type == "server"
            && !listing.release_type.starts_with("Hotpatch")
            && date.year() >= FIRST_YEAR
            && UPDATES.iter().any(|(build, _)| build.0 == number.0);
        is_of_table
            .then(|| (number, described((date.year(), date.month()), listing.kb_article.trim_start_matches("KB"))))
    };
    let upstream: BTreeMap<(u32, u32), String> = history.data.iter().filter_map(listed).collect();
    let rows = UPDATES.iter().flat_map(|(build, updates)| updates.iter().map(|update| (build.0, update)));
    let rows = rows.filter(|(_, update)| {
        (update.month.0.cast_signed(), update.month.1.cast_signed()) <= (last.year(), last.month())
    });
    let own = |(build, update): (u32, &Update)| {
        let (year, month) = update.month;
        let article = update.article.map_or_else(|| "0".to_owned(), |article| article.to_string());
        ((build, update.revision), described((year.cast_signed(), month.cast_signed()), &article))
    };
    let own: BTreeMap<_, _> = rows.map(own).collect();
    let missing = upstream.iter().filter(|(number, found)| own.get(number) != Some(found));
    let missing = missing.map(|((build, revision), found)| format!("{build}.{revision} is {found} upstream"));
    let removed = own.keys().filter(|number| !upstream.contains_key(number) && !NOT_LISTED.contains(number));
    Ok(missing.chain(removed.map(|(build, revision)| format!("{build}.{revision} does not exist upstream"))).collect())
}

fn described((year, month): (i16, i8), article: &str) -> String {
    format!("KB{article} of {year}-{month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_changed_and_removed_updates_are_differences() {
        let row = |build: u32, revision: u32, month: (u16, u8), article: u32| {
            format!(
                "{{\"build\": \"{build}.{revision}\", \"os_type\": \"server\", \"release_type\": \"Standard\", \
                 \"release_date\": \"{}-{:02}-11\", \"kb_article\": \"KB{article}\"}}",
                month.0, month.1
            )
        };
        let known = UPDATES.iter().flat_map(|(build, updates)| updates.iter().map(|update| (build.0, update)));
        let known = known.filter(|(build, update)| !NOT_LISTED.contains(&(*build, update.revision)));
        let rows: Vec<_> = known
            .map(|(build, update)| row(build, update.revision, update.month, update.article.unwrap_or(0)))
            .collect();
        let list = |rows: &[String]| {
            let last = "{\"lastModified\": \"2026-11-20T01:09:51Z\"}";
            updates(&format!("{{\"metadata\": {last}, \"data\": [{}]}}", rows.join(",")))
        };
        assert_eq!(list(&rows), Ok(Vec::new()));
        assert_eq!(list(&rows[1..]).unwrap(), ["17763.3887 does not exist upstream"]);
        let added = [rows.clone(), vec![row(26100, 33800, (2026, 11), 5130000)]].concat();
        assert_eq!(list(&added).unwrap(), ["26100.33800 is KB5130000 of 2026-11 upstream"]);
        let changed = [rows[1..].to_vec(), vec![row(17763, 3887, (2023, 2), 5022286)]].concat();
        assert_eq!(list(&changed).unwrap(), ["17763.3887 is KB5022286 of 2023-02 upstream"]);
        let earlier = [rows.clone(), vec![row(17763, 3800, (2022, 12), 5021237)]].concat();
        assert_eq!(list(&earlier), Ok(Vec::new()));
        assert!(updates("[]").is_err());
    }

    fn page(change: impl Fn(String) -> String) -> String {
        let row = |own: &winpool_api::facts::builds::Release| {
            format!(
                "  - {{releaseCycle: \"{}\", releaseDate: {}, eoas: {}, eol: {}, latest: {}, lts: true}}\n",
                own.names[0],
                own.available,
                own.mainstream_end,
                own.final_end(),
                own.build
            )
        };
        let rows: String = RELEASES.iter().map(row).collect();
        change(format!(
            "---\ntitle: Windows\nreleases:\n{rows}  - {{releaseCycle: \"2008\", releaseDate: 2008-02-27, eoas: 2015-01-13, eol: 2020-01-14, latest: 6.0.6003}}\n---\n\n> text\n"
        ))
    }

    #[test]
    fn equal_dates_are_not_a_difference() {
        assert_eq!(lifecycle(&page(|text| text)), Ok(Vec::new()));
        let sac = "  - {releaseCycle: 1809-sac, releaseDate: 2018-11-13, eoas: 2020-11-10, eol: 2020-11-10, latest: 10.0.17763}\n";
        assert_eq!(lifecycle(&page(|text| text.replace("releases:\n", &format!("releases:\n{sac}")))), Ok(Vec::new()));
    }

    #[test]
    fn changed_dates_and_added_or_removed_releases_are_differences() {
        let moved = lifecycle(&page(|text| text.replace("2034-11-14", "2035-01-09"))).unwrap();
        assert_eq!(
            moved,
            ["end of support of ltsc2025 (10.0.26100): upstream has 2035-01-09, the table has 2034-11-14"]
        );
        let new = "  - {releaseCycle: \"2028\", releaseDate: 2028-10-01, eoas: 2033-10-01, eol: 2038-10-01, latest: 10.0.29000, lts: true}\n";
        let found = lifecycle(&page(|text| text.replace("releases:\n", &format!("releases:\n{new}")))).unwrap();
        assert_eq!(found, ["2028 (10.0.29000) is missing"]);
        let removed = lifecycle(&page(|text| text.replace("latest: 10.0.25398", "latest: 6.9.25398"))).unwrap();
        assert_eq!(removed, ["Windows Server, version 23H2 (10.0.25398) does not exist upstream"]);
        assert!(lifecycle("no front matter").is_err());
    }
}
