//! Findings with their locations.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use winpool_api::bounds::shortened;
use winpool_check::{
    lint::{Code, Finding, Severity},
    manifests::{LocatedProblem, Location},
};
use winpool_core::foreign_text::escaped_lines;

/// The maximum number of characters of a text of a finding.
const MAX_TEXT: usize = 4096;

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
    let namespace = metadata["namespace"].as_str().map(|name| format!("{name}/")).unwrap_or_default();
    let [kind, name] = [&object["kind"], &metadata["name"]].map(|text| text.as_str().unwrap_or_default());
    format!("{kind} {namespace}{name}")
}

/// A file as typed, relative to a directory and with forward slashes. Both are relative to the working directory
/// `current` unless they are absolute. Links are not resolved.
pub fn relative(file: &str, directory: &Path, current: &Path) -> String {
    if file == "-" {
        return file.to_owned();
    }
    let [file, directory] = [Path::new(file), directory].map(|path| normalized(&current.join(path)));
    let common = file.components().zip(directory.components()).take_while(|(one, other)| one == other).count();
    let up = directory.components().skip(common).map(|_| "..".to_owned());
    let down = file.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// A path without `.` and `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normalized.pop();
            }
            part => normalized.push(part),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::{check::LintReport, github, junit, report, sarif};

    #[test]
    fn texts_of_manifests_are_printable_in_every_format() {
        let hostile = format!("\u{1b}[31mred\u{202e}\nline{}", "x".repeat(10_000));
        let file = "\u{1b}[31mred\u{202e}.yaml".to_owned();
        let finding = Finding::new(Code::HugePages, &hostile, &hostile).with_reason(&hostile).with_remedy(&hostile);
        let found = LocatedFinding::at(file.clone(), 1, finding, hostile);
        let report = LintReport { findings: vec![found], files: vec![file], ..LintReport::default() }.printable();
        let texts = [
            report::text(&report, usize::MAX),
            report::json(&report),
            sarif::text(&report, Path::new("/")),
            github::text(&report, Path::new("/")),
            junit::text(&report, |_| true),
        ];
        for text in texts {
            assert!(!text.contains(|char: char| (char.is_control() && char != '\n') || char == '\u{202e}'), "{text}");
            assert!(!text.contains("\\u001b") && text.contains("u{1b}[31mred"), "{text}");
            assert!(!text.contains(&"x".repeat(MAX_TEXT)), "{text}");
        }
    }

    #[test]
    fn a_file_is_relative_to_a_directory_however_it_was_typed() {
        let table = [
            ("deploy/app.yaml", "", "deploy/app.yaml"),
            ("./deploy/../app.yaml", "", "app.yaml"),
            ("/home/user/repository/app.yaml", "", "app.yaml"),
            ("/elsewhere/app.yaml", "", "../../../elsewhere/app.yaml"),
            ("app.yaml", "ci", "../app.yaml"),
            ("ci/app.yaml", "/home/user/repository/ci", "app.yaml"),
            ("-", "ci", "-"),
        ];
        for (file, directory, expected) in table {
            assert_eq!(relative(file, Path::new(directory), Path::new("/home/user/repository")), expected, "{file}");
        }
    }
}
