//! The manifests in `tests/lint-corpus`: what was missed, what was refused or reported falsely, and files of other programs.

use super::*;

#[test]
fn the_findings_of_the_corpus_are_the_expected_ones() {
    let folders =
        ["missed", "recognized", "false", "other-formats"].map(|name| format!("tests/lint-corpus/{name}").into());
    let report = lint(&folders, Some(Minor(34)), ContainerRuntime::Containerd(()), &|_| None).printable();
    let line = |LocatedFinding { file, line, finding, severity, .. }: &LocatedFinding| {
        let Finding { code, path, problem, .. } = finding;
        let remedy = finding.own_remedy().map(|remedy| format!(". Remedy: {remedy}")).unwrap_or_default();
        format!("{file}:{line}: {severity} {code}: {path}: {problem}{remedy}")
    };
    let findings: Vec<_> = report.findings.iter().map(line).collect();
    assert!(
        !findings.iter().any(|line| line.contains("recognized/linux.yaml")),
        "no pod for Linux is taken for one for Windows"
    );
    let lines = [findings, report.notes(), vec![report.summary(), String::new()]].concat();
    let found = lines.join("\n").replace("tests/lint-corpus/", "");
    let file = "tests/lint-corpus/expected.txt";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(file, &found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(file).unwrap(), "UPDATE_DOCS=1 renews {file}");
}
