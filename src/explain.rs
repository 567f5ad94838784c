//! `winpool explain`: what a code of lint, a condition, a reason, a symptom or a known issue means, and what to do.

use std::fmt::Write as _;

use winpool_api::conditions::{CONDITIONS, ConditionType, Reason, Role};
use winpool_check::{
    doctor::{SYMPTOMS, Symptom},
    lint::Code,
};
use winpool_core::text::closest;
use winpool_facts::known_issues::{KNOWN_ISSUES, KnownIssue};
use winpool_rules::known_issues;

use super::{
    CommandError,
    output::{self, BOLD},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A code of winpool lint, a type of condition, a reason, TYPE/REASON, or the id of a symptom or a known issue [default: list
    /// all]
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// Prints the explanation.
///
/// # Errors
/// There is no such code.
pub(super) fn run(args: Args) -> Result<(), CommandError> {
    let text = args.code.map_or_else(|| Ok(list()), |name| explanation(&name).ok_or_else(|| unknown(&name)))?;
    output::print_styled(&text)
}

/// All explanations, each with its names.
fn all() -> impl Iterator<Item = (Vec<String>, String)> {
    let codes = Code::ALL.iter().map(|code| (vec![code.name().to_owned()], of_code(*code)));
    let conditions = CONDITIONS.iter().map(|of| (vec![of.name.to_owned()], of_condition(of)));
    let names =
        |of: &ConditionType, reason: &Reason| vec![reason.name.to_owned(), format!("{}/{}", of.name, reason.name)];
    let of_reason = move |of, reason| (names(of, reason), of_reason(of, reason));
    let reasons = CONDITIONS.iter().flat_map(move |of| of.reasons.iter().map(move |reason| of_reason(of, reason)));
    let symptoms = SYMPTOMS.iter().map(|symptom| (vec![symptom.id.to_owned()], of_symptom(symptom)));
    let issues = KNOWN_ISSUES.iter().map(|issue| (vec![issue.id.to_owned()], of_issue(issue)));
    codes.chain(conditions).chain(reasons).chain(symptoms).chain(issues)
}

fn of_code(code: Code) -> String {
    let heading = format!("{BOLD}{code}{BOLD:#}: {} of winpool lint", code.severity());
    paragraphs(&heading, &[code.title(), code.why()], code.remedy())
}

fn of_condition(condition: &ConditionType) -> String {
    let role = match condition.role {
        Role::Summary => "a summary",
        Role::Required => "required for Ready",
        Role::Delivery => "required for Ready with a delivery method",
        Role::Flag => "not part of Ready",
    };
    let problem = condition.problem_when.name();
    let heading = format!("{BOLD}{}{BOLD:#}: condition, {role}, a problem if {problem}", condition.name);
    let rows = condition.reasons.iter().map(|reason| (reason.name, plain(reason.meaning)));
    format!("{heading}\n  True: {}\n\nReasons:\n{}", plain(condition.meaning), columns(rows))
}

fn of_reason(of: &ConditionType, reason: &Reason) -> String {
    let status: Vec<_> = reason.status.iter().map(|status| status.name()).collect();
    let heading = format!("{BOLD}{}/{}{BOLD:#}: status {}", of.name, reason.name, status.join(" or "));
    paragraphs(&heading, &[reason.meaning], reason.action)
}

fn of_symptom(symptom: &Symptom) -> String {
    let Symptom { id, title, cause, remedy, source, .. } = symptom;
    let heading = format!("{BOLD}{id}{BOLD:#}: symptom that winpool doctor finds");
    let shown_by = format!("Shown by: {}", symptom.shown_by());
    paragraphs(&heading, &[title, &format!("Cause: {cause}"), &shown_by, &format!("Source: {source}")], remedy)
}

fn of_issue(issue: &KnownIssue) -> String {
    let KnownIssue { id, severity, component, precondition, source, date, .. } = issue;
    let heading = format!("{BOLD}{id}{BOLD:#}: known issue of {component}, severity {}", severity.name());
    let versions = known_issues::affected_text(issue);
    let (affected, depends) = (format!("Affected: {versions}"), format!("Depends on: {precondition}"));
    let from = format!("Source: {source}, {date}");
    paragraphs(
        &heading,
        &[issue.summary, &affected, &depends, &from],
        &known_issues::remedy(issue, issue.affected.iter().map(|range| range.fixed)),
    )
}

fn paragraphs(heading: &str, about: &[&str], remedy: &str) -> String {
    let about = about.iter().map(|text| format!("  {}.\n", plain(text).trim_end_matches('.')));
    format!("{heading}\n{}  To do: {}.\n", about.collect::<String>(), plain(remedy))
}

/// All explanations with this name, in any case; `None` if there is none.
fn explanation(name: &str) -> Option<String> {
    let is_named = |names: &[String]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let texts: Vec<_> = all().filter(|(names, _)| is_named(names)).map(|(_, text)| text).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn unknown(name: &str) -> CommandError {
    let known: Vec<_> = all().flat_map(|(names, _)| names).collect();
    let remedy = match closest(name, known.iter().map(String::as_str)) {
        Some(known) => format!("Did you mean {known}?"),
        None => "Without CODE, winpool explain lists all".to_owned(),
    };
    CommandError::Usage(format!("{name} is no code, condition, reason, symptom or known issue. {remedy}"))
}

/// All codes and conditions, with the first line of each.
fn list() -> String {
    let codes = columns(Code::ALL.iter().map(|code| (code.name(), format!("{}: {}", code.severity(), code.title()))));
    let mut text =
        format!("{BOLD}Codes of winpool lint{BOLD:#}\n{codes}\n{BOLD}Conditions, and their reasons{BOLD:#}\n");
    for condition in CONDITIONS {
        let _ = writeln!(text, "  {BOLD}{}{BOLD:#}: {}", condition.name, plain(condition.meaning));
        let reasons: Vec<_> = condition.reasons.iter().map(|reason| reason.name).collect();
        let _ = writeln!(text, "    {}", reasons.join(", "));
    }
    let issues =
        KNOWN_ISSUES.iter().map(|issue| (issue.id, format!("{}: {}", issue.severity.name(), plain(issue.summary))));
    let symptoms = columns(SYMPTOMS.iter().map(|symptom| (symptom.id, symptom.title.to_owned())));
    let _ = write!(text, "\n{BOLD}Symptoms of winpool doctor{BOLD:#}\n{symptoms}");
    let _ = write!(text, "\n{BOLD}Known issues{BOLD:#}\n{}", columns(issues));
    text
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
        let subjects: Vec<_> = all().collect();
        assert!(subjects.len() > 150, "{}", subjects.len());
        for name in subjects.into_iter().flat_map(|(names, _)| names) {
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
            let text = format!("{name} is no code, condition, reason, symptom or known issue. {remedy}");
            assert_eq!(unknown(name), CommandError::Usage(text));
        }
    }

    #[test]
    fn links_become_names_of_pages() {
        assert_eq!(plain("the [key](security.md#the-key) of `a`"), "the key (docs/security.md#the-key) of a");
    }
}
