//! One list of all that winpool finds and explains: codes of lint, conditions, reasons, symptoms and known issues.

use derive_more::Display;
use winpool_api::conditions::{CONDITIONS, ConditionType, Reason, Role};
use winpool_facts::{
    catalogue::Entry,
    known_issues::{KNOWN_ISSUES, KnownIssue},
};
use winpool_rules::known_issues;

use crate::{
    doctor::{SYMPTOMS, Symptom},
    lint::Code,
};

/// The table of an entry, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum Vocabulary {
    #[display("Codes of winpool lint")]
    LintCode,
    #[display("Conditions, and their reasons")]
    Condition,
    /// It is listed with its condition.
    #[display("Reasons")]
    Reason,
    #[display("Symptoms of winpool doctor")]
    Symptom,
    #[display("Known issues")]
    KnownIssue,
}

/// An entry of a table, with what the other columns of its row say.
#[derive(Debug)]
pub struct Listed {
    pub vocabulary: Vocabulary,
    pub entry: Entry,
    /// The name that no other entry of its table has: that of a reason is `Condition/Reason`.
    pub name: String,
    /// What it is, such as `symptom that winpool doctor finds`.
    pub kind: String,
    /// How bad it is, if its table has that.
    pub severity: Option<&'static str>,
    /// Texts besides the title.
    pub details: Vec<String>,
    pub remedy: String,
    /// The reasons of a condition.
    pub reasons: &'static [Reason],
}

impl Listed {
    fn new(vocabulary: Vocabulary, entry: Entry, kind: impl Into<String>) -> Self {
        Self {
            vocabulary,
            entry,
            name: entry.code.to_owned(),
            kind: kind.into(),
            severity: None,
            details: Vec::new(),
            remedy: entry.remedy.to_owned(),
            reasons: &[],
        }
    }

    /// Whether it has this name, in any case.
    pub fn is_named(&self, name: &str) -> bool {
        [self.entry.code, &self.name].into_iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    fn of_code(code: Code) -> Self {
        let (entry, severity) = (code.row().entry, code.severity().name());
        let details = vec![entry.why.to_owned()];
        let listed = Self::new(Vocabulary::LintCode, entry, format!("{severity} of winpool lint"));
        Self { severity: Some(severity), details, ..listed }
    }

    fn of_condition(of: &ConditionType) -> Self {
        let role = match of.role {
            Role::Summary => "a summary",
            Role::Required => "required for Ready",
            Role::Delivery => "required for Ready with a delivery method",
            Role::Flag => "not part of Ready",
        };
        let kind = format!("condition, {role}, a problem if {}", of.problem_when.name());
        let entry = Entry { code: of.name, title: of.meaning, why: "", remedy: "", source: "" };
        Self { reasons: of.reasons, ..Self::new(Vocabulary::Condition, entry, kind) }
    }

    fn of_reason(of: &ConditionType, Reason { entry, status, .. }: &Reason) -> Self {
        let status: Vec<_> = status.iter().map(|status| status.name()).collect();
        let listed = Self::new(Vocabulary::Reason, *entry, format!("status {}", status.join(" or ")));
        Self { name: format!("{}/{}", of.name, entry.code), ..listed }
    }

    fn of_symptom(symptom: &Symptom) -> Self {
        let Entry { why, source, .. } = symptom.entry;
        let details = [("Cause", why), ("Shown by", &symptom.shown_by()), ("Source", source)];
        let listed = Self::new(Vocabulary::Symptom, symptom.entry, "symptom that winpool doctor finds");
        Self { details: details.map(|(label, text)| format!("{label}: {text}")).to_vec(), ..listed }
    }

    fn of_issue(issue: &KnownIssue) -> Self {
        let KnownIssue { entry, severity, component, precondition, date, affected } = issue;
        let details = vec![
            format!("Affected: {}", known_issues::affected_text(issue)),
            format!("Depends on: {precondition}"),
            format!("Source: {}, {date}", entry.source),
        ];
        let kind = format!("known issue of {component}, severity {}", severity.name());
        let remedy = known_issues::remedy(issue, affected.iter().map(|range| range.fixed));
        let listed = Self::new(Vocabulary::KnownIssue, *entry, kind);
        Self { severity: Some(severity.name()), details, remedy, ..listed }
    }
}

/// Every entry, in the order of its table.
pub fn all() -> impl Iterator<Item = Listed> {
    let codes = Code::ALL.iter().map(|code| Listed::of_code(*code));
    let conditions = CONDITIONS.iter().map(|of| Listed::of_condition(of));
    let reasons = CONDITIONS.iter().flat_map(|of| of.reasons.iter().map(|reason| Listed::of_reason(of, reason)));
    let symptoms = SYMPTOMS.iter().map(Listed::of_symptom);
    let issues = KNOWN_ISSUES.iter().map(Listed::of_issue);
    codes.chain(conditions).chain(reasons).chain(symptoms).chain(issues)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use winpool_workload::IssueKind;

    use super::*;

    #[test]
    fn a_name_is_of_one_entry_of_a_table_and_texts_fit_into_a_sentence() {
        let mut names = BTreeSet::new();
        for Listed { vocabulary, entry, name, remedy, .. } in all() {
            assert!(names.insert(format!("{vocabulary} {name}")), "{name} is listed twice");
            assert!(!entry.title.is_empty() && !entry.title.ends_with('.') && !remedy.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn every_kind_of_issue_of_a_workload_is_a_reason() {
        for kind in IssueKind::ALL {
            let of = if kind.is_os_mismatch() { "OSMismatch" } else { "WorkloadsPlaced" };
            assert!(all().any(|listed| listed.is_named(&format!("{of}/{}", kind.name()))), "{kind:?}");
        }
    }
}
