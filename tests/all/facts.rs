//! The tables of facts and the page about them.

use std::{fs, path::Path};

use winpool_api::facts::{Compared, TABLES, Table};

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
