//! Reads the documents of a text: all at once, and if that fails, one by one.

use std::{cell::Cell, ops::Range, rc::Rc};

use serde_saphyr::{DuplicateKeyPolicy, budget::BudgetReport};
use winpool_core::Problem;

use super::{budget::Budget, object::Document};

/// The greatest number of problems that are reported for a text.
const MAX_PROBLEMS: usize = 100;
/// The kind of objects that no rule reads.
const DEFINITION: &str = "CustomResourceDefinition";

#[derive(Default)]
pub struct Contents {
    pub documents: Vec<Document>,
    /// The parts of the text that contain the documents.
    pub parts: Vec<Part>,
    pub problems: Vec<ReadFailure>,
    /// The number of CustomResourceDefinitions, which are not decoded: no rule reads them, and they are large.
    pub definitions: usize,
}

/// A part of a text: the whole text, or one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    bytes: Range<usize>,
    /// The number of lines before it.
    pub lines_before: usize,
}

impl Part {
    pub fn of<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.bytes.clone()).unwrap_or_default()
    }
}

/// Why a text could not be read.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadFailure {
    pub line: usize,
    pub cause: FailureCause,
    pub problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// A key of a mapping is duplicate; kubectl used to take the last value.
    DuplicateKey,
    Budget,
    Other,
}

/// Reads the documents of a text, and the problems of those that cannot be read.
pub fn read(text: &str, budget: &mut Budget) -> Contents {
    if text.contains(DEFINITION) {
        return one_by_one(text, budget);
    }
    // A text that is read again is not counted twice.
    let mut rest = budget.clone();
    match documents(text, &mut rest, DuplicateKeyPolicy::Error) {
        Ok(documents) => {
            *budget = rest;
            let whole = Part { bytes: 0..text.len(), lines_before: 0 };
            Contents { documents, parts: vec![whole], ..Contents::default() }
        }
        Err(failure) if failure.cause == FailureCause::Budget => {
            budget.is_exceeded = true;
            Contents { problems: vec![failure], ..Contents::default() }
        }
        Err(_) => one_by_one(text, budget),
    }
}

/// Whether a document is a CustomResourceDefinition, by the line with its kind.
fn is_definition(text: &str) -> bool {
    let is_kind = |line: &str| {
        line.strip_prefix("kind:").is_some_and(|kind| kind.trim_matches([' ', '"', '\'', '\r']) == DEFINITION)
    };
    text.contains(DEFINITION) && text.lines().any(is_kind)
}

fn one_by_one(text: &str, budget: &mut Budget) -> Contents {
    let mut contents = Contents::default();
    for part in parts(text) {
        if is_definition(part.of(text)) {
            contents.definitions += 1;
            budget.refund(part.of(text).len());
            continue;
        }
        if contents.problems.len() == MAX_PROBLEMS {
            let wrong = format!("{MAX_PROBLEMS} documents before this could not be read, the rest is skipped");
            let (line, problem) = (part.lines_before + 1, Problem::new("", wrong, "correct these first"));
            contents.problems.push(ReadFailure { line, cause: FailureCause::Budget, problem });
            break;
        }
        let mut report = |failure: ReadFailure| {
            let (line, cause) = (part.lines_before + failure.line, failure.cause);
            contents.problems.push(ReadFailure { line, ..failure });
            cause
        };
        let mut result = documents(part.of(text), budget, DuplicateKeyPolicy::Error);
        if let Err(failure) = &result
            && failure.cause == FailureCause::DuplicateKey
        {
            let last_wins = documents(part.of(text), budget, DuplicateKeyPolicy::LastWins);
            let _ = result.map_err(&mut report);
            result = last_wins;
        }
        match result.map_err(report) {
            Ok(documents) => {
                contents.documents.extend(documents);
                contents.parts.push(part);
            }
            Err(FailureCause::Budget) => {
                budget.is_exceeded = true;
                break;
            }
            Err(_) => {}
        }
    }
    contents
}

/// The documents of a text, each with its marker: three dashes at the beginning of a line always begin a document.
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
fn documents(text: &str, budget: &mut Budget, duplicates: DuplicateKeyPolicy) -> Result<Vec<Document>, ReadFailure> {
    let begin = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    if begin.starts_with('{')
        && budget.may_be_json(begin)
        && let Ok(documents) = serde_json::Deserializer::from_str(begin).into_iter().collect::<Result<Vec<_>, _>>()
    {
        return Ok(documents);
    }
    let used = Rc::new(Cell::new(BudgetReport::default()));
    let reported = Rc::clone(&used);
    // kubectl reads a mode such as 0400 as octal too.
    let options = serde_saphyr::options! {
        budget: Some(budget.yaml.clone()),
        with_snippet: false,
        legacy_octal_numbers: true,
        duplicate_keys: duplicates,
        emit_comments: false,
    };
    let options = options.with_budget_report(move |report| reported.set(report));
    let documents = serde_saphyr::from_multiple_with_options(text, options);
    let used = used.take();
    budget.spend(&used);
    documents.map_err(|error| {
        let line = error.location().map_or(1, |location| usize::try_from(location.line()).unwrap_or(1)).max(1);
        let (cause, problem) = match used.breached {
            Some(_) => {
                let wrong = "the input has too many values, levels or repeated parts in total";
                (FailureCause::Budget, Problem::new("", wrong, "pass the files in several runs"))
            }
            None => problem(error.without_snippet()),
        };
        ReadFailure { line, cause, problem }
    })
}

/// An error of the YAML reader as a problem, without the line, which is reported separately.
fn problem(error: &serde_saphyr::Error) -> (FailureCause, Problem) {
    let plain = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let first = plain.lines().next().unwrap_or_default();
    let first = first.split(" at line ").next().unwrap_or(first);
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let key = key.as_deref().unwrap_or("of a mapping");
        let wrong =
            format!("the key {key} is a duplicate: old versions of kubectl use the last one, new versions reject it");
        return (FailureCause::DuplicateKey, Problem::new("", wrong, "remove one of them"));
    }
    let remedy = match first.contains("escape") {
        true => {
            "in double quotes a backslash begins an escape: write 'C:\\data' in single quotes, or double each backslash"
        }
        false => "correct the YAML; templates must be rendered first",
    };
    (FailureCause::Other, Problem::new("", first, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_begin_at_three_dashes_only() {
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

    /// A budget with this number of remaining values.
    fn with_values(left: usize) -> Budget {
        let mut used = BudgetReport::default();
        used.nodes = 2_000_000 - left;
        let mut budget = Budget::bounded();
        budget.spend(&used);
        budget
    }

    #[test]
    fn what_kubectl_reads_is_read() {
        let comments = "  # comment\n".repeat(200);
        let table = [
            (format!("kind: A\nspec:\n{comments}  a: b\n"), "b"),
            ("kind: A\nspec:\n  a: \"b\n\tc\"\n".to_owned(), "b c"),
            ("kind: A\nspec:\n  a: 'b\n\n\t\n  c\n'\n".to_owned(), "b\n\nc "),
            ("kind: A\nspec:\n  a: \"b\n  c\n  \"\n".to_owned(), "b c "),
            ("kind: A\nspec: {a: \"b\nc\n\"}\n".to_owned(), "b c "),
        ];
        for (text, expected) in table {
            let contents = read(&text, &mut Budget::bounded());
            assert!(contents.problems.is_empty(), "{text:?}: {:?}", contents.problems);
            assert_eq!(contents.documents[0].objects[0].value()["spec"]["a"], expected, "{text:?}");
        }
    }

    #[test]
    fn custom_resource_definitions_do_not_use_the_budget() {
        let definition = format!("kind: CustomResourceDefinition\nspec: [{}]\n---\n", "x, ".repeat(1_000));
        let mut budget = with_values(100);
        let contents = read(&format!("{}kind: A\n", definition.repeat(50)), &mut budget);
        assert_eq!((contents.definitions, contents.documents.len(), contents.problems), (50, 1, Vec::new()));
        let other = "kind: A\ntext: CustomResourceDefinition\n";
        assert_eq!(read(other, &mut budget).documents.len(), 1);
    }

    #[test]
    fn valid_and_invalid_texts_share_the_budget() {
        let mut budget = with_values(9);
        let too_many =
            |text| read(text, &mut budget).problems.iter().any(|failure| failure.problem.wrong.contains("too many"));
        assert_eq!(["a: [1, 2]\n", "a: [1\n", "a: 1\n"].map(too_many), [false, false, true]);
    }

    #[test]
    fn invalid_texts_with_repeated_parts_exhaust_the_budget() {
        let level = |index: u8| {
            let (name, below) = (char::from(b'b' + index), char::from(b'a' + index));
            format!("{name}: &{name} [{}]\n", vec![format!("*{below}"); 9].join(", "))
        };
        // 9^5 values, and then a syntax error.
        let broken = format!("a: &a [x, x]\n{}]\n---\n", (0..5).map(level).collect::<String>());
        let contents = read(&broken.repeat(2 * MAX_PROBLEMS), &mut with_values(200_000));
        assert!(contents.documents.is_empty());
        assert!(contents.problems.len() < 10, "{}", contents.problems.len());
    }

    #[test]
    fn the_number_of_reported_problems_is_limited() {
        let contents = read(&"[\n---\n".repeat(2 * MAX_PROBLEMS), &mut Budget::bounded());
        assert_eq!(contents.problems.len(), MAX_PROBLEMS + 1);
    }
}
