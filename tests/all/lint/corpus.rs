//! The manifests in tests/lint-corpus: what was missed, what was refused or reported falsely, and files of other programs.

use std::{fs, path::Path};

use super::winpool;

#[test]
fn the_findings_of_the_corpus_are_the_expected_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint-corpus");
    let run = winpool(&folder, &["missed", "recognized", "false", "other-formats", "--kubernetes", "1.34"], "");
    let (findings, _) = run.stdout.split_once("\n\n").unwrap();
    let printed = format!("{findings}\n{}", run.stderr);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(folder.join("expected.txt"), &printed).unwrap();
    }
    let expected = fs::read_to_string(folder.join("expected.txt")).unwrap();
    assert_eq!(printed, expected, "UPDATE_DOCS=1 renews tests/lint-corpus/expected.txt");
    assert!(!findings.contains("recognized/linux.yaml"), "no pod for Linux is taken for one for Windows");
}
