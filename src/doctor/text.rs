//! The diagnosis as text.

use std::fmt::Write as _;

use clap::builder::styling::Style;
use winpool_check::doctor::{Diagnosis, FoundSymptom, UndeterminedSymptom, UnexplainedError};
use winpool_core::{foreign_text::ForeignText, text::counted};

use crate::output::{BOLD, RED, YELLOW};

/// How many characters of a text of the cluster are printed. JSON has all.
const MAX_TEXT: usize = 480;

/// What is found, the cause first; the errors that no symptom explains; what could not be determined, in a line for each reason; and known
/// issues. With `verbose`, every symptom that could not be determined.
pub fn text(diagnosis: &Diagnosis, verbose: bool) -> String {
    let mut text = String::new();
    diagnosis.found.iter().for_each(|found| add_found(found, RED, &mut text));
    diagnosis.unexplained.iter().for_each(|error| add_error(error, &mut text));
    if diagnosis.more_unexplained > 0 {
        let _ = writeln!(
            text,
            "and {} more that no symptom explains; -o json has the first as well\n",
            counted(diagnosis.more_unexplained, "error")
        );
    }
    if !diagnosis.also.is_empty() {
        let _ = writeln!(text, "{BOLD}Also{BOLD:#}, which need not be the cause:");
        diagnosis.also.iter().for_each(|found| add_found(found, YELLOW, &mut text));
    }
    let excluded = counted(diagnosis.excluded.len(), "symptom");
    let subject = &diagnosis.subject;
    let _ = match diagnosis.summary() {
        None => writeln!(text, "{BOLD}{subject}{BOLD:#}: no symptom found, {excluded} excluded"),
        Some(_) => {
            let found = counted(diagnosis.found.len(), "symptom");
            let errors = counted(diagnosis.unexplained.len() + diagnosis.more_unexplained, "error");
            writeln!(
                text,
                "{BOLD}{subject}{BOLD:#}: {RED}{found}{RED:#} found, {errors} not explained, {excluded} excluded"
            )
        }
    };
    add_undetermined(&diagnosis.not_determinable, verbose, &mut text);
    if let Some(request) = &diagnosis.request {
        let _ = writeln!(
            text,
            "{BOLD}Request a diagnosis by the agent of a node{BOLD:#}, and run winpool doctor again after a minute:\n  Run: {}",
            ForeignText::from(request.as_str())
        );
    }
    text
}

/// A line for each reason, those first that concern this case.
fn add_undetermined(symptoms: &[UndeterminedSymptom], verbose: bool, text: &mut String) {
    let mut reasons: Vec<(String, Vec<&UndeterminedSymptom>)> = Vec::new();
    for symptom in symptoms {
        let reason = symptom.because.reason();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, same)) => same.push(symptom),
            None => reasons.push((reason, vec![symptom])),
        }
    }
    if !reasons.is_empty() {
        let more = if verbose { "" } else { " (--verbose lists them)" };
        let _ = writeln!(text, "{YELLOW}Not determinable{YELLOW:#}{more}:");
    }
    for (reason, same) in reasons {
        let _ = writeln!(text, "  {}: {}", counted(same.len(), "symptom"), ForeignText::from(reason));
        for symptom in same.iter().filter(|_| verbose) {
            let command = symptom.because.command().map(|command| format!(": {command}")).unwrap_or_default();
            let _ = writeln!(text, "    {}{}", symptom.id, ForeignText::from(command));
        }
    }
}

fn add_found(found: &FoundSymptom, style: Style, text: &mut String) {
    let _ = writeln!(text, "{style}{}{style:#}: {BOLD}{}{BOLD:#}", found.id, found.title);
    for observation in &found.evidence {
        let shown = ForeignText::from(observation.text.as_str());
        let place = format!("{}, {}", observation.object, observation.place);
        let place = ForeignText::from(place);
        let _ = match shown.is_empty() {
            true => writeln!(text, "  Evidence: {place}"),
            false => writeln!(text, "  Evidence: {place}: {shown:.MAX_TEXT$}"),
        };
    }
    if found.more > 0 {
        let _ = writeln!(text, "  and {} more", found.more);
    }
    let remedy = ForeignText::from(found.remedy.as_str());
    let _ = writeln!(text, "  Cause: {}\n  To do: {remedy}\n  Source: {}\n", found.cause, found.source);
}

fn add_error(error: &UnexplainedError, text: &mut String) {
    let shown = |text: &str| ForeignText::from(text);
    let list = |texts: &[String]| ForeignText::from(texts.join(", "));
    let _ = writeln!(text, "{RED}no symptom explains{RED:#}: {BOLD}an error of {}{BOLD:#}", shown(&error.component));
    let more = if error.more > 0 { format!(" and {} more", error.more) } else { String::new() };
    let place = format!("{}{more}, {}", error.objects.join(", "), error.place);
    let _ = writeln!(text, "  Evidence: {}: {:.MAX_TEXT$}", shown(&place), shown(&error.text));
    let times = [("since", &error.since), ("last", &error.last)];
    let times = times.into_iter().filter_map(|(word, time)| Some(format!("{word} {}", time.as_ref()?)));
    let times: Vec<_> = times.collect();
    if !times.is_empty() {
        let _ = writeln!(text, "  Time: {}", list(&times));
    }
    let parts = [("Codes", &error.codes), ("On", &error.nodes), ("In common", &error.common)];
    for (label, parts) in parts.into_iter().filter(|(_, parts)| !parts.is_empty()) {
        let _ = writeln!(text, "  {label}: {}", list(parts));
    }
    for command in &error.collect {
        let _ = writeln!(text, "  Collect: {}", shown(command));
    }
    text.push('\n');
}
