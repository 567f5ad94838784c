//! Compares the tables of conditions in docs/status.md with conditions/table.rs of winpool-api.

use std::{env, fs, path::Path};

use winpool_agent::change_plan::RefusalReason;
use winpool_api::{
    RollbackReason,
    conditions::{ConditionType, Role, VALID, of_role},
    names::reason,
};
use winpool_facts::catalogue::Entry;

/// The blocks of the page, by the name in their comments.
fn blocks() -> [(&'static str, String); 5] {
    let of_pool = |role| of_role(role).filter(|known| **known != VALID);
    [
        ("ready", rows(of_role(Role::Summary))),
        ("required", rows(of_pool(Role::Required))),
        ("delivery", rows(of_pool(Role::Delivery))),
        ("flags", rows(of_pool(Role::Flag))),
        ("profile", rows([&VALID].into_iter())),
    ]
}

fn rows(types: impl Iterator<Item = &'static ConditionType>) -> String {
    let row = |of: &ConditionType, index: usize| {
        let reason = &of.reasons[index];
        let Entry { code, title, remedy, .. } = reason.entry;
        let name = if index == 0 { format!("`{}`", of.name) } else { String::new() };
        let status: Vec<_> = reason.status.iter().map(|status| status.name()).collect();
        format!("| {name} | `{code}` | {} | {title} | {remedy} |", status.join(", "))
    };
    let lines = types.flat_map(|of| (0..of.reasons.len()).map(move |index| row(of, index)));
    let head = "| condition | reason | status | meaning | action |\n|---|---|---|---|---|\n";
    format!("{head}{}\n", lines.collect::<Vec<_>>().join("\n"))
}

/// Compares the blocks of a page that follow from tables or other files, by the name in their comments; UPDATE_DOCS=1 writes them.
pub fn assert_blocks(file: &str, blocks: impl IntoIterator<Item = (&'static str, String)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let page = fs::read_to_string(&path).unwrap();
    let mut expected = page.clone();
    for (name, table) in blocks {
        let (begin, end) = (format!("<!-- {name}: from "), format!("<!-- end {name} -->"));
        let (before, rest) = expected.split_once(&begin).unwrap_or_else(|| panic!("{file} has no {begin}"));
        let (source, rest) = rest.split_once('\n').unwrap_or((rest, ""));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{file} has no {end}"));
        expected = format!("{before}{begin}{source}\n{table}{end}{after}");
    }
    if page != expected && env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(page == expected, "{file} differs: write it with UPDATE_DOCS=1 cargo test --test all page");
}

#[test]
fn the_page_has_every_condition_and_reason() {
    assert_blocks("docs/status.md", blocks());
}

#[test]
fn the_page_of_the_agent_has_every_reason_of_its_status_with_cause_and_cure() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/delivery/agent.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("Reasons\n")).unwrap();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .skip(1)
        .map(|line| line.trim_end_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.iter().all(|row| row.len() == 4 && row[1..].iter().all(|cell| !cell.is_empty())), "{rows:?}");
    let listed: Vec<_> = rows.iter().map(|row| row[1].trim_matches('`').to_owned()).collect();
    let mut expected = vec![reason::CHANGED_ON_NODE.to_owned(), reason::PARTLY_APPLIED.to_owned()];
    expected.extend(RefusalReason::ALL.map(|reason| reason.name().to_owned()));
    expected.extend(RollbackReason::ALL.map(|reason| reason.name().to_owned()));
    assert_eq!(listed, expected);
}
