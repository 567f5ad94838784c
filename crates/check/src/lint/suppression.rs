//! Comments and annotations that suppress a code.
//!
//! `# winpool:ignore CODE` applies to its line, or to the next line if it is on a separate line. The annotation
//! `winpool.dev/lint-ignore: "CODE, CODE"` of an object or of its pod template applies to the object.

use std::collections::HashSet;

use serde_json::Value;
use winpool_api::names::annotation::LINT_IGNORE;

use super::{Code, Finding, LocatedFinding, UnknownCode, Workload, finding::title};
use crate::manifests::Location;

const COMMENT: &str = "winpool:ignore";

/// The suppressions of a run.
pub struct Suppressions(Vec<Suppression>);

/// A comment or annotation for one code.
struct Suppression {
    file: String,
    line: usize,
    /// The path of the annotation; empty for a comment.
    path: String,
    /// The object of the annotation as `Kind namespace/name`; empty for a comment.
    object: String,
    code: Result<Code, UnknownCode>,
    scope: Scope,
    used: bool,
}

#[derive(Clone, Copy)]
enum Scope {
    /// The findings in this line of the file.
    Line(usize),
    /// The findings in the object with this index.
    Object(usize),
}

/// A finding, and the index of its object among the manifests.
pub type IndexedFinding = (Option<usize>, LocatedFinding);

impl Suppressions {
    /// The comments in files, by their names and texts.
    pub fn of_comments<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut seen = HashSet::new();
        let files = files.into_iter().filter(|(name, text)| seen.insert(*name) && text.contains(COMMENT));
        Self(files.flat_map(|(name, text)| comments(name, text)).collect())
    }

    pub fn add_annotations(&mut self, index: usize, location: &Location, object: &Value) {
        let annotations = match Workload::of(object) {
            Some(workload) => workload.annotations(LINT_IGNORE).collect(),
            None => {
                let value = object["metadata"]["annotations"][LINT_IGNORE].as_str();
                Vec::from_iter(value.map(|value| (format!("metadata.annotations[{LINT_IGNORE}]"), value)))
            }
        };
        for (path, value) in annotations {
            self.0.extend(codes(value).map(|code| Suppression {
                file: location.file().to_owned(),
                line: location.line(&path),
                path: path.clone(),
                object: title(object),
                code,
                scope: Scope::Object(index),
                used: false,
            }));
        }
    }

    /// The findings that are not suppressed, and a note for each suppression without a finding.
    pub fn apply(mut self, findings: Vec<IndexedFinding>) -> Vec<LocatedFinding> {
        let mut remaining = Vec::new();
        for (object, finding) in findings {
            let mut is_suppressed = false;
            for suppression in self.0.iter_mut().filter(|suppression| suppression.applies_to(object, &finding)) {
                suppression.used = true;
                is_suppressed = true;
            }
            if !is_suppressed {
                remaining.push(finding);
            }
        }
        remaining.extend(self.0.into_iter().filter(|suppression| !suppression.used).map(Suppression::unused));
        remaining
    }
}

impl Suppression {
    fn applies_to(&self, object: Option<usize>, found: &LocatedFinding) -> bool {
        self.code.as_ref().is_ok_and(|code| *code == found.finding.code)
            && match self.scope {
                Scope::Line(line) => self.file == found.file && line == found.line,
                Scope::Object(index) => object == Some(index),
            }
    }

    fn unused(self) -> LocatedFinding {
        let problem = match self.code {
            Ok(code) => format!("{code} is not found here"),
            Err(error) => error.to_string(),
        };
        let finding = Finding::new(Code::UnusedIgnore, self.path, problem);
        LocatedFinding::at(self.file, self.line, finding, self.object)
    }
}

/// The comments of a file. A comment on a separate line applies to the next line that is not a comment.
fn comments(file: &str, text: &str) -> Vec<Suppression> {
    let mut suppressions = Vec::new();
    let lines: Vec<_> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((before, list)) = comment(line) else { continue };
        let comments = lines[index..].iter().take_while(|line| line.trim_start().starts_with('#')).count();
        let target = if before.trim().is_empty() { index + comments } else { index };
        suppressions.extend(codes(list).map(|code| Suppression {
            file: file.to_owned(),
            line: index + 1,
            path: String::new(),
            object: String::new(),
            code,
            scope: Scope::Line(target + 1),
            used: false,
        }));
    }
    suppressions
}

/// The text before a winpool comment, and its list of codes.
fn comment(line: &str) -> Option<(&str, &str)> {
    let (before, list) = line.split_once(COMMENT)?;
    let before = before.trim_end().strip_suffix('#')?;
    let is_comment = before.is_empty() || before.ends_with([' ', '\t']);
    is_comment.then_some((before, list))
}

/// The codes of a list, separated by commas or spaces, up to a dash or parenthesis, which begins a reason.
fn codes(list: &str) -> impl Iterator<Item = Result<Code, UnknownCode>> + use<'_> {
    let items = list.trim_start_matches(':').split([',', ' ', '\t']).filter(|item| !item.is_empty());
    items.take_while(|item| !["-", "--", "—"].contains(item) && !item.starts_with(['(', '#'])).map(str::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_applies_to_its_line_or_to_the_next() {
        let text = "\
a: 1 # winpool:ignore image-latest
# winpool:ignore field-ignored, host-network - known
# another comment
b: 2
c: x#winpool:ignore image-latest
d: 3 # see winpool:ignore
#winpool:ignore sub-path
";
        let found: Vec<_> = comments("a.yaml", text)
            .iter()
            .map(|suppression| match (suppression.scope, &suppression.code) {
                (Scope::Line(line), Ok(code)) => format!("{} {code} on {line}", suppression.line),
                _ => String::new(),
            })
            .collect();
        assert_eq!(found, ["1 image-latest on 1", "2 field-ignored on 4", "2 host-network on 4", "7 sub-path on 8"]);
    }
}
