//! The tables of facts and the page about them.

use winpool_facts::{Compared, TABLES, Table};

use crate::status_page::assert_blocks;

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
