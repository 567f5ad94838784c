//! docs/security.md: its permissions follow from the roles in `config/`, and its other tables are complete.

mod permissions;

use std::{collections::BTreeSet, fs, path::Path};

use walkdir::WalkDir;

use self::permissions::Permission;
use crate::status_page::assert_blocks;

/// The resources that only administrators and the operator write, besides their status.
const OF_ADMINISTRATORS: [&str; 6] = [
    "windowsnodepools",
    "windowsruntimeprofiles",
    "runtimeclasses",
    "configmaps",
    "persistentvolumes",
    "storageclasses",
];

/// What others than administrators can write: the kinds of the objects, and the functions that test it.
struct Input {
    kinds: String,
    field: String,
    tests: Vec<String>,
}

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md")).unwrap()
}

fn inputs() -> Vec<Input> {
    let head = "| object | field | written by | worst case | tests |\n|---|---|---|---|---|\n";
    let page = page();
    let rows = page.split_once(head).unwrap().1.lines().take_while(|line| line.starts_with('|'));
    let input = |row: &str| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        let [kinds, field, writer, worst, tests] = cells.try_into().unwrap();
        assert!(!writer.is_empty() && !worst.is_empty(), "{field}");
        let tests = tests.split(", ").map(|test| test.trim_matches('`').to_owned()).collect();
        Input { kinds, field, tests }
    };
    rows.map(input).collect()
}

#[test]
fn the_page_has_every_permission() {
    let head = "| held by | role | may | for | misuse |\n|---|---|---|---|---|\n".to_owned();
    let permissions = head + &permissions::all().iter().map(Permission::row).collect::<String>();
    assert_blocks("docs/security.md", [("permissions", permissions)]);
}

#[test]
fn what_the_operator_watches_is_written_by_administrators_or_has_a_row() {
    let inputs = inputs();
    let kinds = inputs.iter().flat_map(|input| input.kinds.split(", "));
    let plurals = kinds.map(|kind| format!("{}s", kind.to_lowercase()));
    let known: BTreeSet<_> = plurals.chain(OF_ADMINISTRATORS.map(str::to_owned)).collect();
    let watched: Vec<_> = permissions::all().iter().flat_map(Permission::watched).collect();
    assert!(watched.len() > 10);
    for resource in watched {
        assert!(known.contains(&resource), "{resource}");
    }
}

#[test]
fn the_tests_in_the_rows_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources: String = WalkDir::new(root)
        .into_iter()
        .filter_entry(|entry| !["target", ".git"].contains(&entry.file_name().to_str().unwrap_or_default()))
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs"))
        .map(|entry| fs::read_to_string(entry.path()).unwrap())
        .collect();
    for Input { field, tests, .. } in inputs() {
        for test in tests {
            assert!(sources.contains(&format!("fn {test}(")), "{field}: there is no test {test}");
        }
    }
}

#[test]
fn the_page_has_every_field_that_sends_traffic_of_nodes_to_other_hosts() {
    let page = page();
    let section = page.split("\n## Allowances\n").nth(1).unwrap().split("\n## ").next().unwrap();
    for row in winpool_render::profile::DIVERTING_FIELDS {
        assert!(section.contains(&format!("`{}`", row.field)), "{}", row.field);
    }
}
