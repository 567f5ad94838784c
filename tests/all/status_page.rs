//! Compares the tables of conditions in docs/status.md with src/api/conditions.rs.

use std::{env, fs, path::Path};

use winpool::api::{
    conditions::{ConditionType, Role, condition_type, of_role},
    names::condition,
};

/// The blocks of the page, by the name in their comments.
fn blocks() -> [(&'static str, String); 4] {
    let of_pool = |role| of_role(role).filter(|known| known.name != condition::VALID);
    [
        ("ready", rows(of_role(Role::Summary))),
        ("required", rows(of_pool(Role::Required))),
        ("flags", rows(of_pool(Role::Flag))),
        ("profile", rows(condition_type(condition::VALID).into_iter())),
    ]
}

fn rows(types: impl Iterator<Item = &'static ConditionType>) -> String {
    let row = |of: &ConditionType, index: usize| {
        let reason = &of.reasons[index];
        let name = if index == 0 { format!("`{}`", of.name) } else { String::new() };
        let status: Vec<_> = reason.status.iter().map(|status| status.as_str()).collect();
        format!("| {name} | `{}` | {} | {} | {} |", reason.name, status.join(", "), reason.meaning, reason.action)
    };
    let lines = types.flat_map(|of| (0..of.reasons.len()).map(move |index| row(of, index)));
    let head = "| condition | reason | status | meaning | action |\n|---|---|---|---|---|\n";
    format!("{head}{}\n", lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_page_has_every_condition_and_reason() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/status.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut expected = page.clone();
    for (name, table) in blocks() {
        let (begin, end) = (format!("<!-- {name}: from src/api/conditions.rs -->\n"), format!("<!-- end {name} -->"));
        let (before, rest) = expected.split_once(&begin).unwrap_or_else(|| panic!("docs/status.md has no {begin}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("docs/status.md has no {end}"));
        expected = format!("{before}{begin}{table}{end}{after}");
    }
    if page != expected && env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(page == expected, "docs/status.md differs: write it with UPDATE_DOCS=1 cargo test --test all status_page");
}
