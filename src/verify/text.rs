//! The results as text and as a JUnit report.

use std::fmt::Write as _;

use clap::builder::styling::Style;
use winpool_check::verify::{CheckResult, Outcome};
use winpool_core::{foreign_text::escaped, text::counted};

use super::Report;
use crate::{
    junit::{self, Case, CaseResult, Suite},
    output::{RED, YELLOW},
};

pub fn text(report: &Report) -> String {
    let Report { pool, image, nodes, omitted, checks } = report;
    let more = if *omitted > 0 { format!(", {omitted} more not verified") } else { String::new() };
    let mut text = format!("Pool {pool}: {}{more}, with {image}\n", counted(nodes.len(), "node"));
    for CheckResult { check, from, outcome, message } in checks {
        let style = match outcome {
            Outcome::Failed => RED,
            Outcome::NotDetermined => YELLOW,
            Outcome::ByDesign | Outcome::Passed => Style::new(),
        };
        let separator = if message.is_empty() { "" } else { ": " };
        let (from, message) = (escaped(from), escaped(message));
        let _ = writeln!(text, "  {style}{:<15}{style:#} {check:<18} {from}{separator}{message}", outcome.text());
    }
    if report.summary().is_some() {
        let _ = writeln!(text, "Run: winpool doctor pool/{pool}");
    }
    text
}

/// A test suite for each check, and a test case for each result.
pub fn junit(report: &Report) -> String {
    let case = |result: &CheckResult| {
        let outcome = result.outcome.text();
        let result_of = match result.outcome {
            Outcome::Passed => CaseResult::Passed,
            Outcome::ByDesign => CaseResult::Output(format!("{outcome}: {}", result.message)),
            Outcome::Failed | Outcome::NotDetermined => {
                let details = format!("{} from {}: {}", result.check, result.from, result.message);
                CaseResult::Failure(outcome.to_owned(), result.message.clone(), details)
            }
        };
        Case { name: result.from.clone(), file: None, result: result_of }
    };
    let suites: Vec<Suite> = report
        .checks
        .chunk_by(|a, b| a.check == b.check)
        .map(|of| Suite { name: of[0].check.to_owned(), cases: of.iter().map(case).collect() })
        .collect();
    junit::text("winpool verify", &suites)
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;

    use super::*;

    #[test]
    fn the_results_are_a_table_and_a_report_in_which_only_failures_fail() {
        let result = |check, from: &str, outcome, message: &str| CheckResult {
            check,
            from: from.to_owned(),
            outcome,
            message: message.to_owned(),
        };
        let report = Report {
            pool: "web".to_owned(),
            image: "agnhost@sha256:00".to_owned(),
            nodes: Vec::new(),
            omitted: 2,
            checks: vec![
                result("pods-run", "win-1", Outcome::Passed, ""),
                result("service", "linux-1", Outcome::Failed, "to Service verify-web: TIMEOUT"),
                result("service", "Windows hosts", Outcome::ByDesign, "they do not"),
                result("outbound", "win-1", Outcome::NotDetermined, "it has \u{1b}not ended"),
            ],
        };
        assert_eq!(report.summary().unwrap(), "1 result failed, 1 result not determined");
        insta::assert_snapshot!(strip_str(&text(&report)), @r"
        Pool web: 0 nodes, 2 more not verified, with agnhost@sha256:00
          passed          pods-run           win-1
          failed          service            linux-1: to Service verify-web: TIMEOUT
          by design       service            Windows hosts: they do not
          not determined  outbound           win-1: it has \u{1b}not ended
        Run: winpool doctor pool/web
        ");
        insta::assert_snapshot!(junit(&report), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="winpool verify" tests="4" failures="2">
          <testsuite name="pods-run" tests="1" failures="0">
            <testcase name="win-1" classname="pods-run"/>
          </testsuite>
          <testsuite name="service" tests="2" failures="1">
            <testcase name="linux-1" classname="service">
              <failure type="failed" message="to Service verify-web: TIMEOUT">service from linux-1: to Service verify-web: TIMEOUT</failure>
            </testcase>
            <testcase name="Windows hosts" classname="service">
              <system-out>by design: they do not</system-out>
            </testcase>
          </testsuite>
          <testsuite name="outbound" tests="1" failures="1">
            <testcase name="win-1" classname="outbound">
              <failure type="not determined" message="it has �not ended">outbound from win-1: it has �not ended</failure>
            </testcase>
          </testsuite>
        </testsuites>
        "#);
    }
}
