//! From a text to its documents: all at once, and where that fails, one by one.

use std::ops::Range;

use serde_saphyr::DuplicateKeyPolicy;

use super::{budget::Budget, object::Document};
use crate::domain::Problem;

/// As many documents of a text as are told one by one that they cannot be read.
const MOST_UNREAD: usize = 100;

/// What was read of a text.
#[derive(Default)]
pub struct Contents {
    /// The documents, without empty ones.
    pub documents: Vec<Document>,
    /// The parts of the text that the documents are in.
    pub parts: Vec<Part>,
    /// What is wrong, each with its line.
    pub problems: Vec<(usize, Problem)>,
}

/// A part of a text: the whole of it, or one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    bytes: Range<usize>,
    /// The lines before it.
    pub lines_before: usize,
}

impl Part {
    /// Its text.
    pub fn of<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.bytes.clone()).unwrap_or_default()
    }
}

/// Why a text was not read.
struct Unread {
    line: usize,
    kind: Kind,
    problem: Problem,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A key is written twice: what it means is known all the same.
    DuplicateKey,
    /// There is more than the budget has.
    TooMuch,
    Other,
}

/// Reads a text: what can be read of it, and what is wrong with the rest.
pub fn read(text: &str, budget: &mut Budget) -> Contents {
    match documents(text, budget, DuplicateKeyPolicy::Error) {
        Ok(documents) => {
            let whole = Part { bytes: 0..text.len(), lines_before: 0 };
            Contents { documents, parts: vec![whole], problems: Vec::new() }
        }
        Err(unread) if unread.kind == Kind::TooMuch => {
            Contents { problems: vec![(unread.line, unread.problem)], ..Contents::default() }
        }
        Err(_) => one_by_one(text, budget),
    }
}

/// Reads each document on its own.
fn one_by_one(text: &str, budget: &mut Budget) -> Contents {
    let mut contents = Contents::default();
    for part in parts(text) {
        if contents.problems.len() == MOST_UNREAD {
            let wrong = format!("{MOST_UNREAD} documents before this have mistakes, this and the rest are not read");
            contents.problems.push((part.lines_before + 1, Problem::new("", wrong, "correct the others first")));
            break;
        }
        let mut tell = |unread: Unread| contents.problems.push((part.lines_before + unread.line, unread.problem));
        let mut read = documents(part.of(text), budget, DuplicateKeyPolicy::Error);
        if let Err(unread) = &read
            && unread.kind == Kind::DuplicateKey
        {
            let again = documents(part.of(text), budget, DuplicateKeyPolicy::LastWins);
            read.err().into_iter().for_each(&mut tell);
            read = again;
        }
        match read {
            Ok(documents) => {
                contents.documents.extend(documents);
                contents.parts.push(part);
            }
            Err(unread) => {
                budget.fail(part.of(text));
                let ends = unread.kind == Kind::TooMuch;
                tell(unread);
                if ends {
                    break;
                }
            }
        }
    }
    contents
}

/// The documents of a text, each with the marker before it: three dashes at the beginning of a line are always one.
fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut begin = Part { bytes: 0..0, lines_before: 0 };
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_marker =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if is_marker && at > 0 {
            parts.push(Part { bytes: begin.bytes.start..at, ..begin });
            begin = Part { bytes: at..at, lines_before: number };
        }
        at += line.len();
    }
    parts.push(Part { bytes: begin.bytes.start..at, ..begin });
    parts
}

/// The documents of a text, without empty ones.
fn documents(text: &str, budget: &mut Budget, duplicates: DuplicateKeyPolicy) -> Result<Vec<Document>, Unread> {
    let begin = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    if begin.starts_with('{')
        && budget.may_be_json(begin)
        && let Ok(documents) = serde_json::Deserializer::from_str(begin).into_iter().collect::<Result<Vec<_>, _>>()
    {
        budget.spend(&documents);
        return Ok(documents);
    }
    // kubectl reads a mode such as 0400 as octal too.
    let options = serde_saphyr::options! {
        budget: budget.of_yaml(),
        with_snippet: false,
        legacy_octal_numbers: true,
        duplicate_keys: duplicates,
    };
    let documents = serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(1, |location| usize::try_from(location.line()).unwrap_or(1));
        let (kind, problem) = told(error.without_snippet());
        Unread { line: line.max(1), kind, problem }
    })?;
    budget.spend(&documents);
    Ok(documents)
}

/// What a reader of YAML says, without its repeated place.
fn told(error: &serde_saphyr::Error) -> (Kind, Problem) {
    let plain = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    if plain.contains("limits breached") {
        let wrong = "all input together has too many values, levels or repeated parts to be read";
        return (Kind::TooMuch, Problem::new("", wrong, "name the files and folders in several runs"));
    }
    let first = plain.lines().next().unwrap_or_default();
    let first = first.split(" at line ").next().unwrap_or(first);
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let key = key.as_deref().unwrap_or("of a mapping");
        let wrong = format!("the key {key} is written twice: an older kubectl takes the last, a newer one refuses it");
        return (Kind::DuplicateKey, Problem::new("", wrong, "remove one of them"));
    }
    let remedy = match first.contains("escape") {
        true => {
            "in double quotes a backslash begins an escape: write 'C:\\data' in single quotes, or double each backslash"
        }
        false => "correct the YAML",
    };
    (Kind::Other, Problem::new("", first, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_begin_at_three_dashes_alone() {
        let table: [(&str, &[(&str, usize)]); 5] = [
            ("", &[("", 0)]),
            ("a: 1\n", &[("a: 1\n", 0)]),
            ("---\na: 1\n--- # b\nb: 1\n---", &[("---\na: 1\n", 0), ("--- # b\nb: 1\n", 2), ("---", 4)]),
            ("a: |\n  ---\n---b: 1\n----\n", &[("a: |\n  ---\n---b: 1\n----\n", 0)]),
            ("a: 1\r\n---\r\nb: 1\r\n", &[("a: 1\r\n", 0), ("---\r\nb: 1\r\n", 1)]),
        ];
        for (text, expected) in table {
            let parts = parts(text);
            let found: Vec<_> = parts.iter().map(|part| (part.of(text), part.lines_before)).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn what_repeats_itself_and_fails_cannot_be_tried_without_end() {
        let level = |index: u8| {
            let (name, below) = (char::from(b'b' + index), char::from(b'a' + index));
            format!("{name}: &{name} [{}]\n", vec![format!("*{below}"); 9].join(", "))
        };
        // 9^5 values, and then a mistake.
        let broken = format!("a: &a [x, x]\n{}]\n---\n", (0..5).map(level).collect::<String>());
        let contents = read(&broken.repeat(2 * MOST_UNREAD), &mut Budget::bounded());
        assert!(contents.documents.is_empty());
        assert!(contents.problems.len() < MOST_UNREAD, "{}", contents.problems.len());
    }

    #[test]
    fn the_mistakes_of_a_text_are_not_told_without_end() {
        let contents = read(&"[\n---\n".repeat(2 * MOST_UNREAD), &mut Budget::bounded());
        assert_eq!(contents.problems.len(), MOST_UNREAD + 1);
    }
}
