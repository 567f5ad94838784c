//! Findings as text and as JSON.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use super::{LocatedFinding, Report};
use crate::domain::lint::{Code, Finding, Severity};

/// One line for each finding.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    for LocatedFinding { file, line, finding, .. } in &report.findings {
        let (severity, code) = (finding.code.severity(), finding.code);
        let _ = write!(text, "{file}:{line}: {severity} {code}: ");
        if !finding.path.is_empty() {
            let _ = write!(text, "{}: ", finding.path);
        }
        let _ = writeln!(text, "{} Remedy: {}", sentence(&finding.message), finding.remedy);
    }
    text
}

/// The text with a final period.
pub(super) fn sentence(text: &str) -> String {
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

/// One object with all findings.
pub fn json(report: &Report) -> String {
    let document = Document {
        findings: report.findings.iter().map(FindingEntry::new).collect(),
        summary: Summary {
            errors: report.count(Severity::Error),
            warnings: report.count(Severity::Warning),
            notes: report.count(Severity::Note),
            objects: report.objects,
            passed_over: &report.skipped,
            unanswered: &report.failed_lookups,
        },
    };
    // Strings and numbers can always be serialized.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

#[derive(Serialize)]
struct Document<'a> {
    findings: Vec<FindingEntry<'a>>,
    summary: Summary<'a>,
}

#[derive(Serialize)]
struct FindingEntry<'a> {
    code: Code,
    severity: Severity,
    file: &'a str,
    line: usize,
    object: &'a str,
    path: &'a str,
    message: &'a str,
    remedy: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    errors: usize,
    warnings: usize,
    notes: usize,
    objects: usize,
    passed_over: &'a BTreeMap<String, usize>,
    unanswered: &'a BTreeMap<String, String>,
}

impl<'a> FindingEntry<'a> {
    fn new(found: &'a LocatedFinding) -> Self {
        let LocatedFinding { file, line, finding, object } = found;
        let Finding { path, code, message, remedy } = finding;
        Self { code: *code, severity: code.severity(), file, line: *line, object, path, message, remedy }
    }
}
