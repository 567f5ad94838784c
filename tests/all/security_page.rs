//! docs/security.md: its tables follow from the roles in `config/`, from the fields of a profile that send traffic to hosts, and from
//! the rows about what others can write.

mod inputs;
mod permissions;

use std::{collections::BTreeSet, fs, path::Path};

use inputs::{INPUTS, Input};
use walkdir::WalkDir;
use winpool_core::kind::Kind;

use crate::status_page::assert_blocks;

/// The kinds that only administrators and the operator write, besides their status.
const OF_ADMINISTRATORS: [Kind; 4] = [Kind::POOL, Kind::PROFILE, Kind::RUNTIME_CLASS, Kind::CONFIG_MAP];

#[test]
fn the_page_has_every_permission_and_what_others_can_write() {
    let head = "| held by | role | may | for | misuse |\n|---|---|---|---|---|\n".to_owned();
    let permissions = head + &permissions::all().iter().map(permissions::Permission::row).collect::<String>();
    let head = "| object | field | written by | worst case | tests |\n|---|---|---|---|---|\n".to_owned();
    let inputs = head + &INPUTS.iter().map(Input::row).collect::<String>();
    assert_blocks("docs/security.md", [("permissions", permissions), ("inputs", inputs)]);
}

#[test]
fn what_the_operator_watches_is_written_by_administrators_or_has_a_row() {
    let known = INPUTS.iter().flat_map(|input| input.kinds).chain(&OF_ADMINISTRATORS);
    let known: BTreeSet<&str> = known.map(|kind| kind.plural).collect();
    let watched: Vec<_> = permissions::all().iter().flat_map(permissions::Permission::watched).collect();
    assert!(watched.len() > 10);
    for resource in watched {
        assert!(known.contains(resource.as_str()), "{resource}");
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
    for Input { field, tests, .. } in INPUTS {
        assert!(!tests.is_empty(), "{field}");
        for test in *tests {
            assert!(sources.contains(&format!("fn {test}(")), "{field}: there is no test {test}");
        }
    }
}

#[test]
fn the_page_has_every_field_that_sends_traffic_of_nodes_to_other_hosts() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md")).unwrap();
    let section = page.split("\n## Allowances\n").nth(1).unwrap().split("\n## ").next().unwrap();
    for row in winpool_render::profile::DIVERTING_FIELDS {
        assert!(section.contains(&format!("`{}`", row.field)), "{}", row.field);
    }
}
