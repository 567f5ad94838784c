//! Findings as SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format", errata 01, 2023-08) for code review.

use std::path::Path;

use serde_json::{Value, json};
use winpool_check::lint::{Code, LintReport, LocatedFinding, Severity};
use winpool_facts::catalogue::Entry;

use super::path::relative;

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The page with a section for each code.
const PAGE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/lint.md");

/// A log with one run, which lists all codes as rules. Files are relative to the working directory.
pub fn text(report: &LintReport, current: &Path) -> String {
    let driver = json!({
        "name": "winpool",
        "informationUri": PAGE,
        "version": env!("CARGO_PKG_VERSION"),
        "rules": Code::ALL.iter().map(rule).collect::<Vec<_>>(),
    });
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": driver},
            "columnKind": "unicodeCodePoints",
            "results": report.findings.iter().map(|found| result(found, current)).collect::<Vec<_>>(),
        }],
    });
    format!("{log:#}\n")
}

fn rule(code: &Code) -> Value {
    let Entry { title, why, remedy, .. } = code.row().entry;
    json!({
        "id": code.name(),
        "shortDescription": {"text": format!("{title}.")},
        "fullDescription": {"text": why},
        "help": {"text": code.explanation(), "markdown": format!("{why}\n\n**Remedy:** {remedy}.")},
        "helpUri": format!("{PAGE}#{code}"),
        "defaultConfiguration": {"level": code.severity()},
        "properties": {"tags": ["kubernetes", "windows"], "problem.severity": problem_severity(code)},
    })
}

/// The severity in the terms of code scanning in GitHub.
fn problem_severity(code: &Code) -> &'static str {
    match code.severity() {
        Severity::Note => "recommendation",
        severity => severity.name(),
    }
}

fn result(found: &LocatedFinding, current: &Path) -> Value {
    let LocatedFinding { file, line, finding, severity, object } = found;
    let index = Code::ALL.iter().position(|code| *code == finding.code);
    let mut location = json!({
        "physicalLocation": {"artifactLocation": {"uri": uri(&relative(file, Path::new(""), current))}, "region": {"startLine": line}},
    });
    if !object.is_empty() {
        location["logicalLocations"] = json!([{"fullyQualifiedName": format!("{object} {}", finding.path).trim_end()}]);
    }
    json!({
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": severity,
        "message": {"text": format!("{} Remedy: {}.", finding.message(), finding.remedy)},
        "locations": [location],
    })
}

/// A file as a URI reference (RFC 3986) with percent-encoding.
fn uri(file: &str) -> String {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=@".contains(&byte);
    let name = if file == "-" { "stdin" } else { file };
    let encoded = |byte: u8| if is_allowed(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(encoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_encoded_as_uri_references() {
        let table = [
            ("deploy/app.yaml", "deploy/app.yaml"),
            ("-", "stdin"),
            ("my app/ü:1%.yaml", "my%20app/%C3%BC%3A1%25.yaml"),
        ];
        for (file, expected) in table {
            assert_eq!(uri(file), expected, "{file}");
        }
    }
}
