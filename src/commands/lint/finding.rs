//! Findings with their locations.

use serde_json::Value;

use crate::{
    domain::lint::{Code, Finding},
    manifests::{LocatedProblem, Location},
};

/// A finding and its location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocatedFinding {
    /// The path of the file as typed, or `-` for standard input.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The finding.
    pub finding: Finding,
    /// The object as `Kind namespace/name`; empty if there is none.
    pub object: String,
}

impl LocatedFinding {
    /// A finding in the object at a location.
    pub fn new(location: &Location, finding: Finding, object: &Value) -> Self {
        Self { file: location.file().to_owned(), line: location.line(&finding.path), finding, object: title(object) }
    }

    /// A problem of a manifest as a finding.
    pub fn of_problem(code: Code, problem: LocatedProblem) -> Self {
        let LocatedProblem { file, line, problem } = problem;
        let finding = Finding::with_message(code, problem.path, problem.wrong, problem.remedy);
        Self { file, line, finding, object: String::new() }
    }
}

/// An object as `Kind namespace/name`.
pub fn title(object: &Value) -> String {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().map(|name| format!("{name}/")).unwrap_or_default();
    let [kind, name] = [&object["kind"], &metadata["name"]].map(|text| text.as_str().unwrap_or_default());
    format!("{kind} {namespace}{name}")
}
