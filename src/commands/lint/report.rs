//! Findings as text for people and as JSON for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Found, Report};
use crate::domain::lint::Severity;

/// A line for each finding.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    for Found { file, line, finding, .. } in &report.findings {
        let (severity, code) = (finding.code.severity(), finding.code);
        let _ = write!(text, "{file}:{line}: {severity} {code}: ");
        if !finding.path.is_empty() {
            let _ = write!(text, "{}: ", finding.path);
        }
        let _ = writeln!(text, "{} Remedy: {}", sentence(&finding.message), finding.remedy);
    }
    text
}

/// The text with a full stop at its end.
pub(super) fn sentence(text: &str) -> String {
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

/// One object with the findings.
pub fn json(report: &Report) -> String {
    let finding = |found: &Found| {
        let Found { file, line, finding, object } = found;
        json!({
            "code": finding.code,
            "severity": finding.code.severity(),
            "file": file,
            "line": line,
            "object": object,
            "path": finding.path,
            "message": finding.message,
            "remedy": finding.remedy,
        })
    };
    let value = json!({
        "findings": report.findings.iter().map(finding).collect::<Vec<Value>>(),
        "summary": {
            "errors": report.count(Severity::Error),
            "warnings": report.count(Severity::Warning),
            "notes": report.count(Severity::Note),
            "objects": report.objects,
            "passedOver": report.passed_over,
        },
    });
    format!("{value:#}\n")
}
