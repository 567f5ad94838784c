//! Findings, and their locations.

use std::fmt;

use serde_json::Value;
use winpool_api::bounds::shortened;
use winpool_core::{foreign_text::escaped_lines, join};

use super::{Code, Severity};
use crate::manifests::{LocatedProblem, Location};

/// The maximum number of characters of a text of a finding.
const MAX_TEXT: usize = 4096;

/// A problem of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The field, such as `spec.template.spec.containers[0].image`.
    pub path: String,
    pub code: Code,
    pub problem: String,
    /// Why it matters here, in sentences; `None` if that of its code explains it.
    pub reason: Option<String>,
    pub remedy: String,
}

impl Finding {
    /// A finding with the reason and the remedy of its code.
    pub fn new(code: Code, path: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self {
            path: path.into(),
            code,
            problem: problem.to_string(),
            reason: None,
            remedy: code.row().entry.remedy.to_owned(),
        }
    }

    /// Replaces the reason.
    #[must_use]
    pub fn with_reason(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    /// Replaces the remedy.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }

    /// Prefixes the path.
    #[must_use]
    pub fn below(self, path: &str) -> Self {
        Self { path: join(path, &self.path), ..self }
    }

    /// The problem and the reason, in sentences.
    pub fn message(&self) -> String {
        let period = if self.problem.ends_with('.') { "" } else { "." };
        format!("{}{period} {}", self.problem, self.reason.as_deref().unwrap_or(self.code.row().entry.why))
    }

    /// The remedy, if it differs from that of its code.
    pub fn own_remedy(&self) -> Option<&str> {
        (self.remedy != self.code.row().entry.remedy).then_some(self.remedy.as_str())
    }
}

/// A finding and its location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocatedFinding {
    /// The path of the file as typed, or `-` for standard input.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    pub finding: Finding,
    /// The severity of its code, or what the configuration file sets.
    pub severity: Severity,
    /// The object as `Kind namespace/name`; empty if there is none.
    pub object: String,
}

impl LocatedFinding {
    pub fn new(location: &Location, finding: Finding, object: &Value) -> Self {
        Self::at(location.file().to_owned(), location.line(&finding.path), finding, title(object))
    }

    /// A problem of a manifest as a finding.
    pub fn of_problem(code: Code, problem: LocatedProblem) -> Self {
        let LocatedProblem { file, line, problem } = problem;
        let finding = Finding::new(code, problem.path, problem.wrong).with_remedy(problem.remedy);
        Self::at(file, line, finding, String::new())
    }

    /// The finding with texts that may be printed: bounded, and escaped except for line breaks.
    pub fn printable(self) -> Self {
        let printable = |text: String| shortened(&escaped_lines(&text), MAX_TEXT);
        let Finding { path, code, problem, reason, remedy } = self.finding;
        let [object, path, problem, remedy] = [self.object, path, problem, remedy].map(printable);
        let finding = Finding { path, code, problem, reason: reason.map(printable), remedy };
        Self { file: escaped_lines(&self.file), finding, object, ..self }
    }

    /// A finding in a line of a file, with the severity of its code.
    pub fn at(file: String, line: usize, finding: Finding, object: String) -> Self {
        Self { file, line, severity: finding.code.severity(), finding, object }
    }
}

/// An object as `Kind namespace/name`.
pub fn title(object: &Value) -> String {
    let metadata = &object["metadata"];
    let [kind, namespace, name] =
        [&object["kind"], &metadata["namespace"], &metadata["name"]].map(|text| text.as_str().unwrap_or_default());
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} {namespace}{slash}{name}")
}
