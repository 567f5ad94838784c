//! The tables of facts and the page about them.

use std::{collections::BTreeMap, fs, path::Path};

use winpool_api::facts::{Compared, TABLES, Table};

use crate::status_page::assert_blocks;

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
    let row = |table: &Table| {
        let newest = table.newest.map(|minor| minor.to_string()).unwrap_or_default();
        let compared = match table.compared {
            Compared::Modules => "`make test`",
            Compared::ByHand => "by hand",
        };
        format!("| `{}` | {} | {newest} | {compared} | {} |\n", table.name, table.rows, table.sources.join(", "))
    };
    let head = "| table | rows | minor | compared | sources |\n|---|---|---|---|---|\n";
    let table = format!("{head}{}", TABLES.iter().map(row).collect::<String>());
    assert_blocks("docs/facts.md", [("tables", table)]);
}
