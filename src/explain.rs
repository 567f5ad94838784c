//! `winpool explain`: what a code of lint, a condition, a reason, a symptom or a known issue means, and what to do.

use std::fmt::Write as _;

use winpool_check::{
    catalogue::{Listed, Vocabulary, all},
    doctor::SYMPTOMS,
};
use winpool_core::text::closest;
use winpool_facts::exit_codes::codes_in;

use super::{
    CommandError,
    output::{self, BOLD},
};

/// How many words of a text are compared with names, and how many rows of it are explained.
const MAX_WORDS: usize = 20;
const MAX_ROWS: usize = 3;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A code of winpool lint, a type of condition, a reason, TYPE/REASON, the id of a symptom or a known issue, a code of Windows such as
    /// 0xC0000135, or the text of an error, in quotes [default: list all]
    #[arg(value_name = "CODE", num_args = 1.., allow_negative_numbers = true)]
    code: Vec<String>,
}

/// Prints the explanation.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let name = args.code.join(" ");
    let text = match name.trim() {
        "" => list(),
        name => explanation(name).or_else(|| of_text(name)).ok_or_else(|| unknown(name))?,
    };
    output::print_styled(&text)
}

fn explained(listed: &Listed) -> String {
    let heading = format!("{BOLD}{}{BOLD:#}: {}", listed.name, listed.kind);
    if listed.vocabulary == Vocabulary::Condition {
        let rows = listed.reasons.iter().map(|reason| (reason.entry.code, plain(reason.entry.title)));
        return format!("{heading}\n  True: {}\n\nReasons:\n{}", plain(listed.entry.title), columns(rows));
    }
    let about = [listed.entry.title].into_iter().chain(listed.details.iter().map(String::as_str));
    let about = about.map(|text| format!("  {}.\n", plain(text).trim_end_matches('.')));
    format!("{heading}\n{}  To do: {}.\n", about.collect::<String>(), plain(&listed.remedy))
}

/// All explanations with this name, in any case and in any form in which winpool prints it; `None` if there is none.
fn explanation(name: &str) -> Option<String> {
    let texts = |name: &str| {
        let texts: Vec<_> = all().filter(|listed| listed.is_named(name)).map(|listed| explained(&listed)).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    };
    texts(name).or_else(|| forms(name).into_iter().find_map(texts))
}

/// What a printed form may have as its name: `Nodes/Reason(4)`, `Type=False (Reason)`, `file:9: warning code: …`.
fn forms(text: &str) -> Vec<&str> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '/' | '_');
    let words = text.split(|char: char| !is_name(char)).filter(|word| !word.is_empty());
    let words: Vec<&str> =
        words.take(MAX_WORDS).filter(|word| word.contains(['-', '/']) || word.contains(char::is_uppercase)).collect();
    let after_slash = words.iter().filter_map(|word| Some(word.rsplit_once('/')?.1));
    // A sentence has words that are names of others, such as Ready.
    match text.contains(": ") || text.split_whitespace().count() > 3 {
        true => {
            words.iter().copied().filter(|word| word.contains('-') && text.contains(&format!("{word}: "))).collect()
        }
        false => words.iter().copied().chain(after_slash).collect(),
    }
}

/// The symptoms with a text in an error, and the codes of Windows in it in words; `None` if there is neither.
fn of_text(text: &str) -> Option<String> {
    let symptoms = SYMPTOMS.iter().filter(|symptom| symptom.has_text_in(text));
    let rows = symptoms.filter_map(|symptom| all().find(|listed| listed.is_named(symptom.entry.code)));
    let mut texts: Vec<String> = rows.take(MAX_ROWS).map(|listed| explained(&listed)).collect();
    let codes = codes_in(text).into_iter();
    texts.extend(codes.map(|row| format!("{BOLD}0x{:X}{BOLD:#}: {}\n  {}.\n", row.code, row.name, row.meaning)));
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn unknown(name: &str) -> CommandError {
    let known: Vec<_> = all().flat_map(|listed| [listed.entry.code.to_owned(), listed.name]).collect();
    let remedy = match closest(name, known.iter().map(String::as_str)) {
        Some(known) => format!("Did you mean {known}?"),
        None => "Without CODE, winpool explain lists all".to_owned(),
    };
    CommandError::Usage(format!(
        "{name} is no code, condition, reason, symptom or known issue, and no text of one. {remedy}"
    ))
}

/// All codes and conditions, with the first line of each.
fn list() -> String {
    let all: Vec<_> = all().filter(|listed| listed.vocabulary != Vocabulary::Reason).collect();
    let of_tables = all.chunk_by(|one, other| one.vocabulary == other.vocabulary).map(|rows| {
        let heading = format!("{BOLD}{}{BOLD:#}\n", rows[0].vocabulary);
        heading + &if rows[0].vocabulary == Vocabulary::Condition { conditions(rows) } else { titles(rows) }
    });
    of_tables.collect::<Vec<_>>().join("\n")
}

fn conditions(rows: &[Listed]) -> String {
    let mut text = String::new();
    for Listed { entry, reasons, .. } in rows {
        let _ = writeln!(text, "  {BOLD}{}{BOLD:#}: {}", entry.code, plain(entry.title));
        let reasons: Vec<_> = reasons.iter().map(|reason| reason.entry.code).collect();
        let _ = writeln!(text, "    {}", reasons.join(", "));
    }
    text
}

fn titles(rows: &[Listed]) -> String {
    columns(rows.iter().map(|Listed { entry, severity, .. }| {
        let severity = severity.map(|severity| format!("{severity}: ")).unwrap_or_default();
        (entry.code, format!("{severity}{}", plain(entry.title)))
    }))
}

fn columns<'a>(rows: impl Iterator<Item = (&'a str, String)> + Clone) -> String {
    let width = rows.clone().map(|(left, _)| left.len()).max().unwrap_or(0);
    rows.map(|(left, right)| format!("  {left:<width$}  {right}\n")).collect()
}

/// A text of the documentation for a terminal: `[text](page)` becomes text (docs/page), and code loses its marks.
fn plain(markdown: &str) -> String {
    let mut parts = markdown.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some(begin) = text.rfind('[') {
            text.remove(begin);
        }
        let (page, rest) = part.split_once(')').unwrap_or((part, ""));
        let _ = write!(text, " (docs/{page}){rest}");
    }
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    #[test]
    fn every_code_condition_and_reason_is_explained() {
        for name in all().flat_map(|listed| [listed.entry.code.to_owned(), listed.name]) {
            let text = strip_str(&explanation(&name).unwrap()).to_string();
            assert!(text.starts_with(&name) || text.contains(&format!("/{name}: ")), "{name}: {text}");
            assert!(!text.contains("](") && !text.contains('`') && !text.contains(".."), "{text}");
        }
    }

    #[test]
    fn a_reason_of_several_conditions_is_explained_for_each() {
        let text = strip_str(&explanation("contested").unwrap()).to_string();
        let headings: Vec<_> = text.lines().filter_map(|line| line.split_once("/Contested: ")).collect();
        let conditions: Vec<_> = headings.into_iter().map(|(condition, _)| condition).collect();
        assert_eq!(conditions, ["RuntimeClassReady", "NodesTainted", "ConfigRendered"]);
        let one = strip_str(&explanation("NodesTainted/WouldEvict").unwrap()).to_string();
        assert!(one.starts_with("NodesTainted/WouldEvict: status False\n  a NoExecute taint"), "{one}");
    }

    #[test]
    fn a_misspelt_name_gets_a_suggestion() {
        let table = [
            ("host-netwrok", "Did you mean host-network?"),
            ("WouldStand", "Did you mean WouldStrand?"),
            ("nodestained", "Did you mean NodesTainted?"),
            ("qqq", "Without CODE, winpool explain lists all"),
        ];
        for (name, remedy) in table {
            assert_eq!(explanation(name), None);
            let text =
                format!("{name} is no code, condition, reason, symptom or known issue, and no text of one. {remedy}");
            assert_eq!(unknown(name), CommandError::Usage(text));
        }
    }

    #[test]
    fn a_code_is_found_in_each_form_in_which_it_is_printed() {
        let table = [
            ("Nodes/WouldStrandPods(4)", "NodesTainted/WouldStrandPods: "),
            ("NodesTainted/WouldStrandPods", "NodesTainted/WouldStrandPods: "),
            ("NodesTainted=False (WouldStrandPods)", "NodesTainted: "),
            (
                "app.yaml:9: warning os-selector-missing: spec: the pod can be scheduled to Linux nodes",
                "os-selector-missing: ",
            ),
            ("node-silent: A node is NotReady", "node-silent: "),
        ];
        for (name, expected) in table {
            let text = strip_str(&explanation(name).unwrap_or_default()).to_string();
            assert!(text.contains(expected), "{name}: {text}");
        }
    }

    #[test]
    fn the_text_of_an_error_finds_its_symptom_and_the_codes_in_it() {
        let table = [
            (
                "network: open /run/flannel/subnet.env: The system cannot find the path specified.",
                "flannel-subnet-env: ",
            ),
            ("chown c:\\var\\lib\\kubelet\\pods\\7\\token: not supported by windows", "token-owner: "),
            ("hcsshim::PrepareLayer - failed in Win32: The device is not ready. (0x15)", "0x15: ERROR_NOT_READY"),
            ("-1073741515", "0xC0000135: STATUS_DLL_NOT_FOUND"),
            ("0xC0000005", "0xC0000005: STATUS_ACCESS_VIOLATION"),
        ];
        for (error, expected) in table {
            assert_eq!(explanation(error), None, "{error}");
            let text = strip_str(&of_text(error).unwrap_or_default()).to_string();
            assert!(text.contains(expected), "{error}: {text}");
        }
        assert_eq!(of_text("everything is fine"), None);
    }

    #[test]
    fn links_become_names_of_pages() {
        assert_eq!(plain("the [key](security.md#the-key) of `a`"), "the key (docs/security.md#the-key) of a");
    }
}
