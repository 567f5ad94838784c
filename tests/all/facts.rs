//! The tables of facts and the page about them.

use std::{collections::BTreeMap, fs, path::Path};

use winpool_api::facts::{Compared, TABLES, Table};

/// The module of winpool-api's `facts` that is no table.
const VERSIONS: &str = "versions";

#[test]
fn every_module_of_facts_is_listed_and_names_its_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/winpool-api/src/facts");
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let tables: BTreeMap<_, _> = files.map(|file| (name(&file), file)).filter(|(name, _)| name != VERSIONS).collect();
    let listed: Vec<_> = TABLES.iter().map(|table| table.name).collect();
    assert_eq!(listed, tables.keys().collect::<Vec<_>>());
    for file in tables.values() {
        assert!(fs::read_to_string(file).unwrap().contains("Source"), "{} has no source", file.display());
    }
    assert!(TABLES.iter().all(|table| !table.sources.is_empty()));
}

#[test]
fn the_page_about_facts_has_rows_minor_comparison_and_sources_of_every_table() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/facts.md")).unwrap();
    for Table { name, rows, newest, compared, sources, .. } in TABLES {
        let newest = newest.map(|minor| minor.to_string()).unwrap_or_default();
        let compared = match compared {
            Compared::Modules => "`make test`",
            Compared::ByHand => "by hand",
        };
        let cells = [format!("`{name}`"), rows.to_string(), newest, compared.to_owned(), sources.join(", ")];
        let row = format!("| {} |", cells.join(" | "));
        assert!(page.lines().any(|line| line == row), "docs/facts.md does not have the row\n{row}");
    }
    // Each table is named in the list of rows and in that of comparisons.
    let (rows, comparisons) = page.split_once("## Compare the tables").unwrap();
    for Table { name, .. } in TABLES {
        assert!(rows.contains(&format!("`{name}`")) && comparisons.contains(&format!("`{name}`")), "{name}");
    }
}
