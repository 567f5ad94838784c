//! Compares docs/lint.md with the codes, the tables and the output of the program.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use winpool_check::lint::Code;
use winpool_facts::{
    catalogue::Entry,
    pod_fields::{REJECTED, REJECTED_UNLISTED},
};

use super::winpool;
use crate::api_page::wrapped;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/lint.md")
}

fn page() -> String {
    fs::read_to_string(file()).unwrap()
}

/// The lines of a manifest of a code, without indentation.
fn manifest(code: &str, name: &str) -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/check/tests/lint");
    let text = fs::read_to_string(format!("{folder}/{code}/{name}.yaml")).unwrap();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// The lines of the manifests of a code that differ.
fn example(code: &str) -> String {
    let (bad, good) = (manifest(code, "bad"), manifest(code, "good"));
    let removed = bad.iter().filter_map(|line| line.strip_suffix(" # bad")).map(|line| format!("- {line}\n"));
    let added = good.iter().filter(|line| !bad.contains(line)).map(|line| format!("+ {line}\n"));
    format!("```diff\n{}```\n", removed.chain(added).collect::<String>())
}

/// The page with the head of the section of each code from its row. What follows the remedy is written by hand, and at first the
/// difference of the manifests.
fn generated(page: &str) -> String {
    let mut sections = page.split("\n### ");
    let introduction = sections.next().unwrap();
    let by_name: BTreeMap<_, _> = sections.map(|section| section.split_once('\n').unwrap()).collect();
    let section = |code: &Code| {
        let Entry { code: name, title, why, remedy, .. } = code.row().entry;
        let by_hand = by_name.get(name).and_then(|section| section.split_once("\nRemedy: ")?.1.split_once("\n\n"));
        let by_hand = by_hand.map_or_else(|| example(name), |(_, text)| text.to_owned());
        let problem = wrapped(&format!("**{}**: {title}. {why}", code.severity()), "");
        format!("\n### {name}\n\n{problem}\n\n{}\n\n{by_hand}", wrapped(&format!("Remedy: {remedy}."), ""))
    };
    format!("{introduction}{}", Code::ALL.iter().map(section).collect::<String>())
}

#[test]
fn the_page_has_the_row_of_every_code_with_lines_of_its_bad_and_good_manifest() {
    let (page, expected) = (page(), generated(&page()));
    if page != expected && env::var_os("UPDATE_DOCS").is_some() {
        fs::write(file(), &expected).unwrap();
        return;
    }
    assert!(page == expected, "docs/lint.md differs: write it with UPDATE_DOCS=1 cargo test --test all page");
    for section in page.split("\n### ").skip(1) {
        let name = section.lines().next().unwrap();
        let Some(diff) = section.split("```diff\n").nth(1).and_then(|rest| rest.split("```").next()) else {
            let of_registry = [Code::ImageCannotRun, Code::ImageUpdatesBehind].map(Code::name);
            assert!(of_registry.contains(&name), "{name} has no example");
            continue;
        };
        let [bad, good] = ["bad", "good"].map(|of| BTreeSet::from_iter(manifest(name, of)));
        assert!(diff.starts_with("- "), "{name}");
        for line in diff.lines() {
            match line.split_at(2) {
                ("- ", line) => assert!(bad.contains(&format!("{} # bad", line.trim())), "{name}: {line}"),
                ("+ ", line) => assert!(good.contains(line.trim()), "{name}: {line}"),
                _ => panic!("{name}: {line}"),
            }
        }
    }
}

#[test]
fn the_page_has_every_rejected_field_with_its_minor() {
    let page = page();
    for field in REJECTED.iter().chain(REJECTED_UNLISTED) {
        let row = page.lines().find(|line| line.starts_with(&format!("| {} |", field.since))).unwrap();
        assert!(row.contains(&format!("`{}`", field.path)), "{}", field.path);
    }
}

#[test]
fn the_page_shows_the_printed_output() {
    let page = page();
    let block = |begin: &str| page.split(begin).nth(1).unwrap().split("\n```").next().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("app.yaml"), block("```yaml\n")).unwrap();
    let ended = winpool(folder.path(), &["app.yaml", "--kubernetes", "1.34"], "");
    let printed = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(block("$ winpool lint app.yaml --kubernetes 1.34\n"), printed.trim_end());
}
