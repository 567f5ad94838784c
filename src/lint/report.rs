//! Findings as text and as JSON.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;
use winpool_check::lint::{Code, Finding, LintReport, LocatedFinding, Severity};
use winpool_core::foreign_text::escaped;

use crate::output::EXPLAIN;

/// The greatest length of a line on a terminal, in characters.
pub const TERMINAL_LINE: usize = 160;
/// The least part of a line for the problem, however long the path of the file is.
const MIN_PROBLEM: usize = 60;
/// How many equal findings of a file are printed.
const MAX_EQUAL: usize = 10;

/// One line for each finding, and one for each code with its reason and remedy. A remedy of its own for which the line
/// of a finding has no room follows its code, with the place of the finding. No line of a finding is longer than `max_line`
/// characters, unless its start is.
pub fn text(report: &LintReport, max_line: usize) -> String {
    let mut lines = Vec::new();
    let mut equal: HashMap<_, usize> = HashMap::new();
    // The remedies for which a line had no room, each once.
    let mut omitted = BTreeSet::new();
    for found in &report.findings {
        let count = equal.entry(kind(found)).or_default();
        *count += 1;
        if *count <= MAX_EQUAL {
            let line = line(found, max_line);
            let remedy = found.finding.own_remedy().filter(|remedy| !line.contains(remedy));
            let place = || format!("{}:{}", found.file, found.line);
            omitted.extend(remedy.map(|remedy| (found.finding.code, found.finding.problem.as_str(), remedy, place())));
            lines.push(line);
        }
    }
    lines.extend(more(report, &equal, max_line));
    let codes: BTreeSet<_> = report.findings.iter().map(|found| found.finding.code).collect();
    let explanation = |code: &Code| {
        let own = omitted.iter().filter(|(of, ..)| of == code);
        let own = own.map(|(_, problem, remedy, place)| format!("{code}: {place}: {problem}. Remedy: {remedy}."));
        [format!("{code}: {}", code.explanation())].into_iter().chain(own).collect::<Vec<_>>()
    };
    let explanations: Vec<_> = codes.iter().flat_map(explanation).collect();
    if !explanations.is_empty() {
        lines.push(String::new());
        lines.extend(explanations);
        lines.extend([String::new(), EXPLAIN.to_owned()]);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What equal findings of a file have in common.
fn kind(found: &LocatedFinding) -> (&str, Code, &str) {
    (&found.file, found.finding.code, &found.finding.problem)
}

/// A line for the findings that are not printed, for each kind in the order of the findings.
fn more(report: &LintReport, equal: &HashMap<(&str, Code, &str), usize>, max_line: usize) -> Vec<String> {
    let mut explained = BTreeSet::new();
    let first = report.findings.iter().filter(|found| explained.insert(kind(found)));
    let summary = |found: &LocatedFinding| {
        let more = equal.get(&kind(found))?.checked_sub(MAX_EQUAL).filter(|more| *more > 0)?;
        let start = format!("{}: {} {}: ", found.file, found.severity, found.finding.code);
        Some(shortened(&start, &format!("{more} more: {}", found.finding.problem), max_line))
    };
    first.filter_map(summary).collect()
}

/// A finding in one line, with as much as fits: the field, the problem, and the reason and remedy if they differ from
/// those of the code.
fn line(found: &LocatedFinding, max_line: usize) -> String {
    let LocatedFinding { file, line, finding, severity, .. } = found;
    let Finding { path, code, problem, reason, .. } = finding;
    let start = format!("{file}:{line}: {severity} {code}: ");
    let at = if path.is_empty() { String::new() } else { format!("{path}: ") };
    let reason = reason.as_deref().map(|reason| format!(". {}", reason.trim_end_matches('.'))).unwrap_or_default();
    let remedy = finding.own_remedy().map(|remedy| format!(". Remedy: {remedy}")).unwrap_or_default();
    let texts = [
        format!("{at}{problem}{reason}{remedy}"),
        format!("{at}{problem}{remedy}"),
        format!("{problem}{remedy}"),
        format!("{at}{problem}"),
    ];
    let fits = |text: &&String| start.chars().count() + text.chars().count() <= max_line;
    shortened(&start, texts.iter().find(fits).unwrap_or(problem), max_line)
}

/// A line of at most `max_line` characters, unless its start is long.
fn shortened(start: &str, text: &str, max_line: usize) -> String {
    let room = max_line.saturating_sub(start.chars().count()).max(MIN_PROBLEM);
    let text = escaped(text);
    if text.chars().count() <= room {
        return format!("{start}{text}");
    }
    let kept: String = text.chars().take(room - 1).collect();
    format!("{start}{}…", kept.trim_end())
}

/// One object with all findings.
pub fn json(report: &LintReport) -> String {
    // Strings and numbers can always be serialized.
    serde_json::to_string_pretty(&LintDocument::new(report)).unwrap_or_default() + "\n"
}

/// The output of winpool lint -o json.
#[derive(Serialize, JsonSchema)]
pub struct LintDocument<'a> {
    /// The findings, by file and line.
    findings: Vec<FindingEntry<'a>>,
    /// What was checked and found.
    summary: Summary<'a>,
}

/// A finding.
#[derive(Serialize, JsonSchema)]
struct FindingEntry<'a> {
    /// The code, as in docs/lint.md.
    #[schemars(with = "String")]
    code: Code,
    /// The severity.
    severity: Severity,
    /// The path of the file as typed, or - for standard input.
    file: &'a str,
    /// The line, from 1.
    line: usize,
    /// The object as "Kind namespace/name"; empty if there is none.
    object: &'a str,
    /// The field, such as `spec.template.spec.containers[0].image`; empty if it is the whole object.
    path: &'a str,
    /// The problem and the reason, in sentences.
    message: String,
    /// What to do.
    remedy: &'a str,
}

/// What was checked and found.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    /// The number of errors.
    errors: usize,
    /// The number of warnings.
    warnings: usize,
    /// The number of notes.
    notes: usize,
    /// The number of checked objects.
    objects: usize,
    /// The number of objects of other kinds, by kind.
    passed_over: &'a BTreeMap<String, usize>,
    /// The number of documents in directories that are not Kubernetes manifests.
    other_documents: usize,
    /// The files and documents that were not checked, each with the reason.
    not_judged: Vec<String>,
    /// The errors of failed registry lookups, by image.
    unanswered: &'a BTreeMap<String, String>,
    /// The number of findings that are in the baseline, and not in this output.
    in_baseline: usize,
    /// The number of findings of the baseline that no longer exist.
    gone_from_baseline: usize,
}

impl<'a> LintDocument<'a> {
    fn new(report: &'a LintReport) -> Self {
        Self {
            findings: report.findings.iter().map(FindingEntry::new).collect(),
            summary: Summary {
                errors: report.count(Severity::Error),
                warnings: report.count(Severity::Warning),
                notes: report.count(Severity::Note),
                objects: report.objects,
                passed_over: &report.skipped,
                other_documents: report.ignored.len(),
                not_judged: report.not_judged(),
                unanswered: &report.failed_lookups,
                in_baseline: report.in_baseline,
                gone_from_baseline: report.gone.len(),
            },
        }
    }
}

impl<'a> FindingEntry<'a> {
    fn new(found: &'a LocatedFinding) -> Self {
        let LocatedFinding { file, line, finding, severity, object } = found;
        let Finding { path, code, remedy, .. } = finding;
        Self { code: *code, severity: *severity, file, line: *line, object, path, message: finding.message(), remedy }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::lint::{github, junit, sarif};

    fn found(file: &str, line: usize, finding: Finding) -> LocatedFinding {
        LocatedFinding::at(file.to_owned(), line, finding, String::new())
    }

    fn lines(findings: Vec<LocatedFinding>) -> Vec<String> {
        let text = text(&LintReport { findings, ..LintReport::default() }, TERMINAL_LINE);
        let (findings, explanations) = text.split_once("\n\n").unwrap();
        assert!(!explanations.is_empty());
        findings.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_has_as_much_of_a_finding_as_fits() {
        let path = "spec.template.spec.containers[0].securityContext";
        let finding = || Finding::new(Code::HostProcess, path, "the container differs from its pod");
        let long = "remove one of the two values of hostProcess, and set hostNetwork: true";
        let table = [
            (finding(), format!("a.yaml:7: error host-process: {path}: the container differs from its pod")),
            (
                finding().with_remedy("remove it"),
                format!("a.yaml:7: error host-process: {path}: the container differs from its pod. Remedy: remove it"),
            ),
            (
                finding().with_remedy(long),
                format!("a.yaml:7: error host-process: the container differs from its pod. Remedy: {long}"),
            ),
            (
                finding().with_remedy(long.repeat(3)),
                format!("a.yaml:7: error host-process: {path}: the container differs from its pod"),
            ),
            (
                Finding::new(Code::HostProcess, path, "x\n".repeat(99)),
                format!("a.yaml:7: error host-process: {}x…", "x ".repeat(64)),
            ),
        ];
        for (finding, expected) in table {
            let line = lines(vec![found("a.yaml", 7, finding)]).remove(0);
            assert_eq!(line, expected);
            assert!(line.chars().count() <= TERMINAL_LINE, "{line}");
        }
    }

    #[test]
    fn a_line_is_whole_without_a_limit_and_an_omitted_remedy_names_its_place() {
        let remedy = "write a name ".repeat(20);
        let report = LintReport {
            findings: vec![found("a.yaml", 7, Finding::new(Code::HugePages, "spec", "x").with_remedy(&remedy))],
            ..LintReport::default()
        };
        let whole = text(&report, usize::MAX);
        assert!(whole.starts_with(&format!("a.yaml:7: error huge-pages: spec: x. Remedy: {}", remedy.trim_end())));
        let on_terminal = text(&report, TERMINAL_LINE);
        assert!(on_terminal.contains(&format!("huge-pages: a.yaml:7: x. Remedy: {remedy}.")), "{on_terminal}");
    }

    #[test]
    fn equal_findings_of_a_file_are_summarized() {
        let finding = |line| found("a.yaml", line, Finding::new(Code::HugePages, "", "the pod uses huge pages"));
        let printed = lines((1..=4_080).map(finding).chain([found("b.yaml", 1, finding(1).finding)]).collect());
        assert_eq!(printed.len(), MAX_EQUAL + 2);
        assert_eq!(printed[10], "b.yaml:1: error huge-pages: the pod uses huge pages");
        assert_eq!(printed[11], "a.yaml: error huge-pages: 4070 more: the pod uses huge pages");
    }

    #[test]
    fn a_code_is_explained_once() {
        let findings = (1..=3).map(|line| found("a.yaml", line, Finding::new(Code::HugePages, "", "x"))).collect();
        let text = text(&LintReport { findings, ..LintReport::default() }, TERMINAL_LINE);
        assert_eq!(text.matches(&Code::HugePages.explanation()).count(), 1);
    }

    #[test]
    fn texts_of_manifests_are_printable_in_every_format() {
        let hostile = format!("\u{1b}[31mred\u{202e}\nline{}", "x".repeat(10_000));
        let file = "\u{1b}[31mred\u{202e}.yaml".to_owned();
        let finding = Finding::new(Code::HugePages, &hostile, &hostile).with_reason(&hostile).with_remedy(&hostile);
        let found = LocatedFinding::at(file.clone(), 1, finding, hostile);
        let report = LintReport { findings: vec![found], files: vec![file], ..LintReport::default() }.printable();
        let texts = [
            text(&report, usize::MAX),
            json(&report),
            sarif::text(&report, Path::new("/")),
            github::text(&report, Path::new("/")),
            junit::text(&report, |_| true),
        ];
        for text in texts {
            assert!(!text.contains(|char: char| (char.is_control() && char != '\n') || char == '\u{202e}'), "{text}");
            assert!(!text.contains("\\u001b") && text.contains("u{1b}[31mred"), "{text}");
            assert!(!text.contains(&"x".repeat(4096)), "{text}");
        }
    }
}
