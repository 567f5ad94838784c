//! The tables of facts and the page about them.

use std::{collections::BTreeSet, fs, path::Path};

use winpool::facts::{Compared, TABLES, Table};

/// The modules of `src/facts` that are not tables.
const OTHER_MODULES: [&str; 2] = ["mod", "versions"];

#[test]
fn every_module_of_facts_is_listed_and_names_its_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/facts");
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let paths: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let modules: BTreeSet<_> =
        paths.iter().map(|path| name(path)).filter(|name| !OTHER_MODULES.contains(&name.as_str())).collect();
    let listed: Vec<_> = TABLES.iter().map(|table| table.name.to_owned()).collect();
    assert_eq!(listed, modules.into_iter().collect::<Vec<_>>());
    for path in paths.iter().filter(|path| !OTHER_MODULES.contains(&name(path).as_str())) {
        let file = if path.is_dir() { path.join("mod.rs") } else { path.clone() };
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("Source"), "{} has no source", file.display());
    }
    assert!(TABLES.iter().all(|table| !table.sources.is_empty()));
}

#[test]
fn the_page_about_facts_has_rows_minor_comparison_and_sources_of_every_table() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/facts.md")).unwrap();
    for Table { name, rows, newest, compared, sources, .. } in TABLES {
        let newest = newest.map(|minor| minor.to_string()).unwrap_or_default();
        let compared = match compared {
            Compared::Program => "`make facts`",
            Compared::Hand => "by hand",
        };
        let cells = [format!("`{name}`"), rows.to_string(), newest, compared.to_owned(), sources.join(", ")];
        let row = format!("| {} |", cells.join(" | "));
        assert!(page.lines().any(|line| line == row), "docs/facts.md does not have the row\n{row}");
    }
}
