//! Findings as SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format", errata 01, 2023-08) for code review.

use serde_json::{Value, json};

use super::{LocatedFinding, Report, report::sentence};
use crate::domain::lint::Code;

const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// A log with one run, which lists all codes as rules.
pub fn text(report: &Report) -> String {
    let driver = json!({
        "name": "winpool",
        "version": env!("CARGO_PKG_VERSION"),
        "rules": Code::ALL.iter().map(rule).collect::<Vec<_>>(),
    });
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": driver},
            "columnKind": "unicodeCodePoints",
            "results": report.findings.iter().map(result).collect::<Vec<_>>(),
        }],
    });
    format!("{log:#}\n")
}

fn rule(code: &Code) -> Value {
    json!({
        "id": code.name(),
        "shortDescription": {"text": format!("{}.", code.title())},
        "fullDescription": {"text": code.why()},
        "help": {"text": format!("Remedy: {}.", code.remedy())},
        "defaultConfiguration": {"level": code.severity()},
    })
}

fn result(found: &LocatedFinding) -> Value {
    let LocatedFinding { file, line, finding, object } = found;
    let index = Code::ALL.iter().position(|code| *code == finding.code);
    let mut location = json!({
        "physicalLocation": {"artifactLocation": {"uri": uri(file)}, "region": {"startLine": line}},
    });
    if !object.is_empty() {
        location["logicalLocations"] = json!([{"fullyQualifiedName": format!("{object} {}", finding.path).trim_end()}]);
    }
    json!({
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.code.severity(),
        "message": {"text": format!("{} Remedy: {}.", sentence(&finding.message), finding.remedy)},
        "locations": [location],
    })
}

/// A file as a URI reference (RFC 3986) with percent-encoding.
fn uri(file: &str) -> String {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=@".contains(&byte);
    let name = match file {
        "-" => "stdin",
        _ => file.strip_prefix("./").unwrap_or(file),
    };
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
            ("./app.yaml", "app.yaml"),
            ("-", "stdin"),
            ("my app/ü:1%.yaml", "my%20app/%C3%BC%3A1%25.yaml"),
        ];
        for (file, expected) in table {
            assert_eq!(uri(file), expected, "{file}");
        }
    }
}
