//! The known issues of the nodes of several pools.

use serde::Serialize;
use winpool_facts::known_issues::{KNOWN_ISSUES, KnownIssue};

use crate::{known_issues::remedy, status::pool::ReportedIssue};

/// A known issue that nodes have and that is not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IssueOverview {
    pub id: &'static str,
    pub severity: &'static str,
    pub title: &'static str,
    /// What to do on all these nodes.
    pub remedy: String,
    pub pools: Vec<String>,
    pub nodes: Vec<String>,
}

/// The issues of pools, each once, the worst first.
pub fn of_pools(pools: &[(String, Vec<ReportedIssue>)]) -> Vec<IssueOverview> {
    let overview = |issue: &'static KnownIssue| {
        let is_this = |one: &&ReportedIssue| one.issue.entry.code == issue.entry.code;
        let found = pools.iter().filter_map(|(pool, issues)| Some((pool, issues.iter().find(is_this)?)));
        let found: Vec<_> = found.collect();
        let fixed = found.iter().flat_map(|(_, one)| one.versions.iter().map(|version| version.fixed));
        (!found.is_empty()).then(|| IssueOverview {
            id: issue.entry.code,
            severity: issue.severity.name(),
            title: issue.entry.title,
            remedy: remedy(issue, fixed),
            pools: found.iter().map(|(pool, _)| (*pool).clone()).collect(),
            nodes: found.iter().flat_map(|(_, one)| one.nodes.clone()).collect(),
        })
    };
    KNOWN_ISSUES.iter().filter_map(overview).collect()
}
