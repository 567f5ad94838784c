//! The diagnosis as text.

use std::fmt::Write as _;

use winpool_check::doctor::{Diagnosis, FoundSymptom, UndeterminedSymptom};
use winpool_core::{foreign_text::ForeignText, text::counted};

use crate::output::{BOLD, RED, YELLOW};

/// How many characters of a text of the cluster are printed. JSON has all.
const MAX_TEXT: usize = 480;

/// What is found with evidence, cause and remedy; how much is excluded; and why the rest is not determinable.
pub fn text(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    diagnosis.found.iter().for_each(|found| add_found(found, &mut text));
    let excluded = counted(diagnosis.excluded.len(), "symptom");
    let _ = match diagnosis.found.len() {
        0 => writeln!(text, "{BOLD}{}{BOLD:#}: no symptom found, {excluded} excluded", diagnosis.subject),
        found => writeln!(
            text,
            "{BOLD}{}{BOLD:#}: {RED}{}{RED:#} found, {excluded} excluded",
            diagnosis.subject,
            counted(found, "symptom")
        ),
    };
    if !diagnosis.not_determinable.is_empty() {
        let _ = writeln!(text, "{YELLOW}Not determinable:{YELLOW:#}");
    }
    for UndeterminedSymptom { id, because, .. } in &diagnosis.not_determinable {
        let _ = writeln!(text, "  {id}: {}", ForeignText::from(because.to_string()));
    }
    if let Some(request) = &diagnosis.request {
        let _ = writeln!(
            text,
            "{BOLD}Request a diagnosis by the agent of a node{BOLD:#}, and run winpool doctor again after a minute:\n  {}",
            ForeignText::from(request.as_str())
        );
    }
    text
}

fn add_found(found: &FoundSymptom, text: &mut String) {
    let _ = writeln!(text, "{RED}{}{RED:#}: {BOLD}{}{BOLD:#}", found.id, found.title);
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
    let _ = writeln!(text, "  Cause: {}\n  To do: {}\n  Source: {}\n", found.cause, found.remedy, found.source);
}
