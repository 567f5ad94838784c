//! `products/windows-server.md` of endoflife-date/endoflife.date.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::Deserialize;
use winpool_api::facts::{
    OsVersion,
    builds::{FUTURE, RELEASES, release},
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

#[cfg(test)]
mod tests {
    use super::*;

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
