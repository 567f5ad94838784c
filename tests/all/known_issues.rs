//! Known issues in the status of a pool, and the page about them.

use serde_json::json;
use winpool_facts::{
    catalogue::Entry,
    known_issues::{KNOWN_ISSUES, KnownIssue},
};
use winpool_rules::known_issues::affected_text;

use crate::status_page::assert_blocks;
use winpool_model::{Model, NODE, POOL, condition, node, web};

/// What the status of pool `web` has of the condition, with one node and the annotation; `None` if it is absent.
fn reported(kubelet: &str, runtime: &str, acknowledged: &str) -> Option<(String, String)> {
    let mut model = Model::new();
    let mut windows = node(20348, runtime, &json!({"agentpool": "web"}), &json!([]));
    windows["status"]["nodeInfo"]["kubeletVersion"] = json!(kubelet);
    model.put(NODE, "win-1", windows);
    let mut web = web(json!({}));
    web["metadata"]["annotations"] = json!({"winpool.dev/acknowledge-issues": acknowledged});
    model.put(POOL, "web", web);
    model.converge();
    assert_eq!(condition(&model, "web", "Ready").0, "True", "known issues do not lower Ready");
    let (status, reason, message) = winpool_model::reported(&model, "web", "KnownIssues")?;
    Some((format!("{status}/{reason}"), message))
}

#[test]
fn a_pool_reports_known_issues_worst_first_unless_they_are_acknowledged() {
    let both = "CVE-2023-3676,CVE-2023-3955";
    let others = "CVE-2024-5321,cve-2024-9042";
    let table = [
        ("v1.34.1", "", None),
        (
            "v1.28.0",
            "",
            Some(("True/SevereIssues", "CVE-2023-3676 (high): who can create pods can become administrator")),
        ),
        ("v1.28.0", "CVE-2023-3676", Some(("True/SevereIssues", "CVE-2023-3955 (high): "))),
        ("v1.28.0", both, Some(("True/KnownIssues", "CVE-2024-5321 (medium): "))),
        ("v1.28.0", &format!("{both}, {others}"), None),
        (
            "v1.34.1",
            "CVE-2023-367",
            Some((
                "True/UnknownIssueAcknowledged",
                "CVE-2023-367 in annotation winpool.dev/acknowledge-issues is no known issue. List them: winpool explain",
            )),
        ),
    ];
    for (kubelet, acknowledged, expected) in table {
        let found = reported(kubelet, "containerd://2.3.7", acknowledged);
        match (found, expected) {
            (None, None) => {}
            (Some((reason, message)), Some((wanted, begin))) => {
                assert_eq!(reason, wanted, "{kubelet} {acknowledged}: {message}");
                assert!(message.starts_with(begin), "{message}");
            }
            (found, expected) => panic!("{kubelet} {acknowledged}: {found:?} instead of {expected:?}"),
        }
    }
    let (_, message) = reported("v1.28.0", "containerd://2.3.7", "CVE-2023-3676,typo").unwrap();
    let both = "winpool.dev/acknowledge-issues=CVE-2023-3676,CVE-2023-3955 --overwrite";
    assert!(message.contains(both), "it keeps what is acknowledged: {message}");
    let (_, message) = reported("v1.28.0", "containerd://2.3.7", "typo").unwrap();
    for part in [
        "1 node runs kubelet v1.28.0. Upgrade kubelet to v1.28.1 or later. ",
        "To hide the first issue: kubectl annotate wnp web winpool.dev/acknowledge-issues=CVE-2023-3676 --overwrite. List the nodes: ",
        ". typo in annotation winpool.dev/acknowledge-issues is no known issue. List them: winpool explain",
    ] {
        assert!(message.contains(part), "{message} does not contain {part}");
    }
}

#[test]
fn the_page_has_every_known_issue() {
    let row = |issue: &KnownIssue| {
        let Entry { code: id, title: summary, remedy, source, .. } = issue.entry;
        let affected = affected_text(issue);
        let link = |part: &str| match part.split_once('#') {
            Some((repository, number)) => format!("[{part}](https://github.com/{repository}/issues/{number})"),
            None => part.to_owned(),
        };
        let source = source.split(", ").map(link).collect::<Vec<_>>().join(", ");
        let advice = if remedy.is_empty() { "-" } else { remedy };
        let (severity, component) = (issue.severity.name(), issue.component);
        let (precondition, date) = (issue.precondition, issue.date);
        format!(
            "| `{id}` | {severity} | {component} {affected} | {precondition} | {summary} | {advice} | {source}, {date} |\n"
        )
    };
    let head = "| issue | severity | affected | depends on | what happens | without an upgrade | source |\n|---|---|---|---|---|---|---|\n";
    let table = format!("{head}{}", KNOWN_ISSUES.iter().map(row).collect::<String>());
    assert_blocks("docs/known-issues.md", [("known-issues", table)]);
}
