//! Findings as text and as JSON.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use clap::builder::styling::Style;
use schemars::JsonSchema;
use serde::Serialize;
use winpool_check::lint::{Code, Finding, LintReport, LocatedFinding, Severity};
use winpool_core::foreign_text::escaped;

use crate::output::{EXPLAIN, RED, YELLOW};

/// How many equal findings of a file are printed.
const MAX_EQUAL: usize = 10;

/// One line for each finding, and one for each code with its reason, and with its remedy unless all findings have one of their own.
pub fn text(report: &LintReport) -> String {
    let mut lines = Vec::new();
    let mut equal: HashMap<_, usize> = HashMap::new();
    for found in &report.findings {
        let count = equal.entry(kind(found)).or_default();
        *count += 1;
        if *count <= MAX_EQUAL {
            lines.push(line(found));
        }
    }
    lines.extend(more(report, &equal));
    let codes: BTreeSet<_> = report.findings.iter().map(|found| found.finding.code).collect();
    let explanation = |code: &Code| {
        let mut of_code = report.findings.iter().filter(|found| found.finding.code == *code);
        match of_code.any(|found| found.finding.own_remedy().is_none()) {
            true => format!("{code}: {}", code.explanation()),
            false => format!("{code}: {}", code.row().entry.why),
        }
    };
    if !codes.is_empty() {
        lines.push(String::new());
        lines.extend(codes.iter().map(explanation));
        lines.extend([String::new(), EXPLAIN.to_owned()]);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What equal findings of a file have in common.
fn kind(found: &LocatedFinding) -> (&str, Code, &str) {
    (&found.file, found.finding.code, &found.finding.problem)
}

/// A line for the findings that are not printed, for each kind in the order of the findings.
fn more(report: &LintReport, equal: &HashMap<(&str, Code, &str), usize>) -> Vec<String> {
    let mut explained = BTreeSet::new();
    let first = report.findings.iter().filter(|found| explained.insert(kind(found)));
    let summary = |found: &LocatedFinding| {
        let more = equal.get(&kind(found))?.checked_sub(MAX_EQUAL).filter(|more| *more > 0)?;
        Some(format!("{}: {}{more} more: {}", found.file, code(found), escaped(&found.finding.problem)))
    };
    first.filter_map(summary).collect()
}

/// A finding in one line: the field, the problem, and the reason and remedy if they differ from those of the code.
fn line(found: &LocatedFinding) -> String {
    let LocatedFinding { file, line, finding, .. } = found;
    let Finding { path, problem, reason, .. } = finding;
    let at = if path.is_empty() { String::new() } else { format!("{path}: ") };
    let reason = reason.as_deref().map(|reason| format!(". {}", reason.trim_end_matches('.'))).unwrap_or_default();
    let remedy = finding.own_remedy().map(|remedy| format!(". Remedy: {remedy}")).unwrap_or_default();
    let text = format!("{at}{problem}{reason}{remedy}");
    format!("{file}:{line}: {}{}", code(found), escaped(&text))
}

/// Severity and code.
fn code(LocatedFinding { severity, finding, .. }: &LocatedFinding) -> String {
    let style = match severity {
        Severity::Error => RED,
        Severity::Warning => YELLOW,
        Severity::Note => Style::new(),
    };
    format!("{style}{severity} {}{style:#}: ", finding.code)
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

    use anstream::adapter::strip_str;

    use super::*;
    use crate::lint::{github, junit, sarif};

    fn found(file: &str, line: usize, finding: Finding) -> LocatedFinding {
        LocatedFinding::at(file.to_owned(), line, finding, String::new())
    }

    fn plain(findings: Vec<LocatedFinding>) -> String {
        strip_str(&text(&LintReport { findings, ..LintReport::default() })).to_string()
    }

    fn lines(findings: Vec<LocatedFinding>) -> Vec<String> {
        let text = plain(findings);
        let (findings, explanations) = text.split_once("\n\n").unwrap();
        assert!(!explanations.is_empty());
        findings.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_has_field_problem_reason_and_a_remedy_of_its_own() {
        let finding = || Finding::new(Code::HostProcess, "spec.securityContext", "the container differs\nfrom its pod");
        let start = "a.yaml:7: error host-process: spec.securityContext: the container differs from its pod";
        let table = [
            (finding(), start.to_owned()),
            (finding().with_reason("It is so."), format!("{start}. It is so")),
            (finding().with_remedy("remove it"), format!("{start}. Remedy: remove it")),
        ];
        for (finding, expected) in table {
            assert_eq!(lines(vec![found("a.yaml", 7, finding)]), [expected]);
        }
    }

    #[test]
    fn the_remedy_of_a_code_is_not_printed_where_all_findings_have_another() {
        let finding = |remedy: &str| found("a.yaml", 7, Finding::new(Code::HugePages, "", "x").with_remedy(remedy));
        let general = || found("a.yaml", 7, Finding::new(Code::HugePages, "", "x"));
        for (findings, expected) in [(vec![finding("y")], false), (vec![finding("y"), general()], true)] {
            assert_eq!(plain(findings).contains(&Code::HugePages.explanation()), expected);
        }
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
        let text = plain(findings);
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
            strip_str(&text(&report)).to_string(),
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
