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

/// The codes without manifests.
const OF_REGISTRY: [Code; 2] = [Code::ImageCannotRun, Code::ImageUpdatesBehind];

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/lint.md")
}

fn page() -> String {
    fs::read_to_string(file()).unwrap()
}

fn manifest(code: &str, name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/check/tests/lint");
    fs::read_to_string(format!("{folder}/{code}/{name}.yaml")).unwrap()
}

/// The difference of the manifests of a code: the lines with findings in the first document that has any, and what is right instead: the
/// lines of the good manifest that end with `# good`, or else those that only its document at the same place has.
fn example(code: &str) -> String {
    const BAD: &str = " # bad";
    const GOOD: &str = " # good";
    const SEPARATOR: &str = "\n---\n";
    let [bad, good] = ["bad", "good"].map(|name| manifest(code, name));
    let (place, bad) = bad.split(SEPARATOR).enumerate().find(|(_, document)| document.contains(BAD)).unwrap();
    let removed = bad.lines().filter_map(|line| line.strip_suffix(BAD));
    let in_both: BTreeSet<_> = bad.lines().map(|line| line.trim_end_matches(BAD).trim()).collect();
    let beside = good.split(SEPARATOR).nth(place).unwrap_or_default().lines();
    let mut added: Vec<_> = good.lines().filter_map(|line| line.strip_suffix(GOOD)).collect();
    if added.is_empty() {
        added.extend(beside.filter(|line| !in_both.contains(line.trim())));
    }
    let mut lines: Vec<_> = removed.map(|line| ('-', line)).chain(added.into_iter().map(|line| ('+', line))).collect();
    lines.dedup();
    let indentation = lines.iter().map(|(_, line)| line.len() - line.trim_start().len()).min().unwrap();
    let lines = lines.into_iter().map(|(sign, line)| format!("{sign} {}\n", &line[indentation..]));
    format!("```diff\n{}```\n", lines.collect::<String>())
}

/// What is written by hand in the section of a code: what follows the difference, or the remedy if there is none.
fn note(section: &str) -> Option<&str> {
    let (_, after) = section.split_once("```diff\n").or_else(|| section.split_once("\nRemedy: "))?;
    let (_, note) = after.split_once("```\n").or_else(|| after.split_once("\n\n"))?;
    Some(note.trim_start()).filter(|note| !note.is_empty())
}

/// The page with a section for each code: its row, the difference of its manifests, and its note.
fn generated(page: &str) -> String {
    let mut sections = page.split("\n### ");
    let introduction = sections.next().unwrap();
    let by_name: BTreeMap<_, _> = sections.map(|section| section.split_once('\n').unwrap()).collect();
    let section = |code: &Code| {
        let Entry { code: name, title, why, remedy, .. } = code.row().entry;
        let problem = wrapped(&format!("**{}**: {title}. {why}", code.severity()), "");
        let remedy = wrapped(&format!("Remedy: {remedy}."), "");
        let example = Some(*code).filter(|code| !OF_REGISTRY.contains(code)).map(|code| example(code.name()));
        let note = by_name.get(name).copied().and_then(note).map(str::to_owned);
        let rest: String = example.into_iter().chain(note).map(|part| format!("\n{part}")).collect();
        format!("\n### {name}\n\n{problem}\n\n{remedy}\n{rest}")
    };
    format!("{introduction}{}", Code::ALL.iter().map(section).collect::<String>())
}

#[test]
fn the_page_has_the_row_and_the_manifests_of_every_code() {
    let (page, expected) = (page(), generated(&page()));
    if page != expected && env::var_os("UPDATE_DOCS").is_some() {
        fs::write(file(), &expected).unwrap();
        return;
    }
    assert!(page == expected, "docs/lint.md differs: write it with UPDATE_DOCS=1 cargo test --test all page");
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
