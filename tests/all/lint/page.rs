//! Compares docs/lint.md with the codes, the tables and the output of the program.

use std::{collections::BTreeSet, fs, path::Path};

use winpool_check::lint::Code;
use winpool_facts::pod_fields::{REJECTED, REJECTED_UNLISTED};

use super::{corpus, winpool};

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/lint.md")).unwrap()
}

#[test]
fn the_page_explains_every_code_with_lines_of_its_bad_and_good_manifest() {
    let page = page();
    let sections: Vec<_> = page.split("\n### ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    let headings: Vec<_> = sections.iter().map(|(heading, _)| *heading).collect();
    assert_eq!(headings, Code::ALL.iter().map(|code| code.name()).collect::<Vec<_>>());
    for (code, (name, section)) in Code::ALL.iter().zip(sections) {
        let section_text = section.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in [code.severity().name(), code.title(), code.why(), code.remedy()] {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(section_text.contains(&text), "{name}: {text}");
        }
        let Some(diff) = section.split("```diff\n").nth(1).and_then(|rest| rest.split("```").next()) else {
            assert_eq!(*code, Code::ImageCannotRun, "{name} has no example");
            continue;
        };
        let trimmed = |text: String| text.lines().map(|line| line.trim().to_owned()).collect::<BTreeSet<_>>();
        let read = |file: &str| trimmed(fs::read_to_string(corpus().join(format!("{name}/{file}.yaml"))).unwrap());
        let (bad, good) = (read("bad"), read("good"));
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
