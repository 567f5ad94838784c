//! Comments and annotations that silence a code in one place.
//!
//! `# winpool:ignore CODE` is for its own line, or for the line below where nothing else is on its own; the annotation
//! `winpool.dev/lint-ignore: "CODE, CODE"` of an object or of its pod template is for the whole object.

use std::collections::{BTreeMap, HashSet};

use super::{Found, named};
use crate::{
    api::names::annotation::LINT_IGNORE,
    domain::lint::{Code, Finding, Workload},
    manifests::Manifest,
};

const COMMENT: &str = "winpool:ignore";

/// What is to be silent.
#[derive(Default)]
pub struct Silences {
    silences: Vec<Silence>,
    /// The lines at which the objects of each file begin; only where an annotation is for an object.
    first_lines: BTreeMap<String, Vec<usize>>,
}

/// One code that is to be silent.
struct Silence {
    file: String,
    /// Where it is written.
    line: usize,
    /// The path of the annotation; empty for a comment.
    path: String,
    word: String,
    scope: Scope,
    used: bool,
}

enum Scope {
    /// The findings of a line.
    Line(usize),
    /// The findings of an object: its name, and the line at which it begins.
    Object(String, usize),
}

impl Silences {
    /// Those in files and objects.
    pub fn of(objects: &[Manifest]) -> Self {
        let mut silences: Vec<Silence> = objects.iter().flat_map(annotations).collect();
        let mut first_lines: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        if !silences.is_empty() {
            for manifest in objects {
                let lines = first_lines.entry(manifest.place.file().to_owned()).or_default();
                lines.push(manifest.place.line(""));
            }
        }
        first_lines.values_mut().for_each(|lines| lines.sort_unstable());
        let mut seen = HashSet::new();
        for place in objects.iter().map(|manifest| &manifest.place) {
            if seen.insert(place.file()) && place.text().contains(COMMENT) {
                silences.extend(comments(place.file(), place.text()));
            }
        }
        Self { silences, first_lines }
    }

    /// Takes out what is silenced, and adds a note for each silence that silences nothing.
    pub fn apply(mut self, findings: &mut Vec<Found>) {
        findings.retain(|found| {
            let mut silent = false;
            for silence in &mut self.silences {
                if silence.covers(found, &self.first_lines) {
                    silence.used = true;
                    silent = true;
                }
            }
            !silent
        });
        findings.extend(self.silences.into_iter().filter(|silence| !silence.used).map(unused));
    }
}

impl Silence {
    fn covers(&self, found: &Found, first_lines: &BTreeMap<String, Vec<usize>>) -> bool {
        self.word == found.finding.code.name() && self.file == found.file && self.has_in_scope(found, first_lines)
    }

    fn has_in_scope(&self, found: &Found, first_lines: &BTreeMap<String, Vec<usize>>) -> bool {
        match &self.scope {
            Scope::Line(line) => found.line == *line,
            Scope::Object(object, begin) => {
                // Several objects may have one name; each ends where the next begins.
                let starts = first_lines.get(&found.file).map(Vec::as_slice).unwrap_or_default();
                let of = starts.partition_point(|start| *start <= found.line).checked_sub(1).map(|index| starts[index]);
                found.object == *object && of == Some(*begin)
            }
        }
    }
}

fn unused(silence: Silence) -> Found {
    let what = match silence.word.parse::<Code>() {
        Ok(code) => format!("{code} is not found here"),
        Err(error) => error.to_string(),
    };
    let object = match silence.scope {
        Scope::Line(_) => String::new(),
        Scope::Object(object, _) => object,
    };
    let finding = Finding::new(Code::UnusedIgnore, silence.path, what);
    Found { file: silence.file, line: silence.line, finding, object }
}

/// The comments of a file. What stands on a line of its own is for the next line that is no comment.
fn comments(file: &str, text: &str) -> Vec<Silence> {
    let mut silences = Vec::new();
    let lines: Vec<_> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((before, words)) = comment(line) else { continue };
        let comments = lines[index..].iter().take_while(|line| line.trim_start().starts_with('#')).count();
        let target = if before.trim().is_empty() { index + comments } else { index };
        let silence = |word: String| Silence {
            file: file.to_owned(),
            line: index + 1,
            path: String::new(),
            word,
            scope: Scope::Line(target + 1),
            used: false,
        };
        silences.extend(codes(words).map(silence));
    }
    silences
}

/// What stands before a comment of ours, and what is in it.
fn comment(line: &str) -> Option<(&str, &str)> {
    let (before, words) = line.split_once(COMMENT)?;
    let before = before.trim_end().strip_suffix('#')?;
    let starts = before.is_empty() || before.ends_with([' ', '\t']);
    starts.then_some((before, words))
}

/// The words of a list with commas or spaces. Behind a dash or a parenthesis may stand the reason.
fn codes(words: &str) -> impl Iterator<Item = String> + use<'_> {
    let words = words.trim_start_matches(':').split([',', ' ', '\t']).filter(|word| !word.is_empty());
    words.take_while(|word| !["-", "--", "—"].contains(word) && !word.starts_with(['(', '#'])).map(str::to_owned)
}

fn annotations(manifest: &Manifest) -> Vec<Silence> {
    if !manifest.object.may_have(LINT_IGNORE) {
        return Vec::new();
    }
    let (place, object) = (&manifest.place, manifest.object.value());
    let on_object = |value: &str| (format!("metadata.annotations[{LINT_IGNORE}]"), value.to_owned());
    let found: Vec<(String, String)> = match Workload::of(&object) {
        Some(workload) => workload.annotations(LINT_IGNORE).map(|(path, value)| (path, value.to_owned())).collect(),
        None => object["metadata"]["annotations"][LINT_IGNORE].as_str().map(on_object).into_iter().collect(),
    };
    let silence = |path: &str, word: String| Silence {
        file: place.file().to_owned(),
        line: place.line(path),
        path: path.to_owned(),
        word,
        scope: Scope::Object(named(&object), place.line("")),
        used: false,
    };
    found.iter().flat_map(|(path, value)| codes(value).map(|word| silence(path, word)).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_for_its_line_or_for_the_one_below() {
        let text = "\
a: 1 # winpool:ignore image-latest
# winpool:ignore field-ignored, host-network - known
# another comment
b: 2
c: x#winpool:ignore image-latest
d: 3 # see winpool:ignore
#winpool:ignore sub-path
";
        let told: Vec<_> = comments("a.yaml", text)
            .iter()
            .map(|silence| match silence.scope {
                Scope::Line(line) => format!("{} {} on {line}", silence.line, silence.word),
                Scope::Object(..) => String::new(),
            })
            .collect();
        assert_eq!(told, ["1 image-latest on 1", "2 field-ignored on 4", "2 host-network on 4", "7 sub-path on 8"]);
    }
}
