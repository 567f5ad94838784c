//! The flag about known issues.

use std::collections::HashSet;

use winpool_api::{
    conditions::{ComputedCondition, KNOWN_ISSUES},
    names::{annotation, reason},
};
use winpool_core::text::{agree, some_messages, some_of};
use winpool_facts::known_issues::{DefectSeverity, known_issue};

use super::input::ReportInput;
use crate::known_issues::{FoundIssue, check};

/// The issues of the nodes that are reported and not acknowledged, worst first.
pub fn reported<'a>(input: &'a ReportInput) -> Vec<FoundIssue<'a>> {
    let nodes = input.active.members.iter().map(|member| member.node.as_ref());
    let mut found = check(nodes, input.workloads());
    found.retain(|finding| finding.is_reported() && !input.pool.consents.acknowledges(finding.issue.entry.code));
    found
}

/// `KnownIssues`, if there is something to report.
pub fn known_issues(input: &ReportInput) -> Option<ComputedCondition> {
    let found = reported(input);
    let reason = match found.first().map(|worst| worst.issue.severity) {
        Some(DefectSeverity::High) => reason::SEVERE_ISSUES,
        Some(DefectSeverity::Medium | DefectSeverity::Low) => reason::KNOWN_ISSUES,
        None => reason::UNKNOWN_ISSUE_ACKNOWLEDGED,
    };
    let unknown: Vec<_> = input.pool.consents.acknowledged().filter(|id| known_issue(id).is_none()).collect();
    if found.is_empty() && unknown.is_empty() {
        return None;
    }
    let nodes: HashSet<_> = found.iter().flat_map(|finding| &finding.nodes).collect();
    let mut text = some_messages(found.iter().map(|finding| finding.message(input.workloads())));
    if !found.is_empty() {
        text = format!(
            "{text}. To hide the first issue: {}. {}",
            acknowledge(input, found[0].issue.entry.code),
            input.list()
        );
    }
    if !unknown.is_empty() {
        let (are, ids) = (agree(unknown.len(), "is no known issue", "are no known issues"), some_of(unknown));
        let separator = if text.is_empty() { "" } else { ". " };
        let annotation = annotation::ACKNOWLEDGE_ISSUES;
        text = format!("{text}{separator}{ids} in annotation {annotation} {are}. List them: winpool explain");
    }
    Some(KNOWN_ISSUES.because(reason, text).about(nodes.len()))
}

/// The command that acknowledges an issue besides those that are.
fn acknowledge(input: &ReportInput, issue: &str) -> String {
    let known = input.pool.consents.acknowledged().filter(|id| known_issue(id).is_some());
    let ids = known.chain([issue]).collect::<Vec<_>>().join(",");
    format!("kubectl annotate wnp {} {}={ids} --overwrite", input.pool.name, annotation::ACKNOWLEDGE_ISSUES)
}
