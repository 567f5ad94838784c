//! Findings as a JUnit report: a test suite for each file, and a test case for each finding.

use std::collections::BTreeMap;

use winpool_check::lint::{LintReport, LocatedFinding, Severity};

use crate::junit::{self, Case, CaseResult, Suite};

/// The report. Findings of a severity that `fails` are failures, the others are passed test cases with an output.
pub fn text(report: &LintReport, fails: impl Fn(Severity) -> bool) -> String {
    let mut files: BTreeMap<&str, Vec<Case>> = report.files.iter().map(|file| (file.as_str(), Vec::new())).collect();
    for found in &report.findings {
        files.entry(&found.file).or_default().push(case(found, fails(found.severity)));
    }
    let suite = |(file, mut cases): (&str, Vec<Case>)| {
        if cases.is_empty() {
            let file = Some((file.to_owned(), None));
            cases.push(Case { name: "no findings".to_owned(), file, result: CaseResult::Passed });
        }
        Suite { name: file.to_owned(), cases }
    };
    junit::text("winpool lint", &files.into_iter().map(suite).collect::<Vec<_>>())
}

fn case(found: &LocatedFinding, fails: bool) -> Case {
    let LocatedFinding { file, line, finding, severity, object } = found;
    let name = format!("{} in line {line}: {object} {}", finding.code, finding.path);
    let details = format!("{file}:{line}: {} Remedy: {}.", finding.message(), finding.remedy);
    let result = match fails {
        true => CaseResult::Failure(severity.to_string(), finding.problem.clone(), details),
        false => CaseResult::Output(format!("{severity}: {details}")),
    };
    Case { name: name.trim_end().to_owned(), file: Some((file.clone(), Some(*line))), result }
}

#[cfg(test)]
mod tests {
    use winpool_check::lint::{Code, Finding};

    use super::*;

    #[test]
    fn findings_that_fail_are_failures() {
        let at = |code, line| {
            LocatedFinding::at("a.yaml".to_owned(), line, Finding::new(code, "", "<\u{1}&\">"), String::new())
        };
        let findings = vec![at(Code::HugePages, 3), at(Code::SubPath, 4)];
        let report =
            LintReport { findings, files: vec!["a.yaml".to_owned(), "b.yaml".to_owned()], ..LintReport::default() };
        insta::assert_snapshot!(text(&report, |severity| severity == Severity::Error), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="winpool lint" tests="3" failures="1">
          <testsuite name="a.yaml" tests="2" failures="1">
            <testcase name="huge-pages in line 3:" classname="a.yaml" file="a.yaml" line="3">
              <failure type="error" message="&lt;�&amp;&quot;&gt;">a.yaml:3: &lt;�&amp;&quot;&gt;. Windows does not support huge pages, and no Windows node has the resource. Remedy: remove it.</failure>
            </testcase>
            <testcase name="sub-path in line 4:" classname="a.yaml" file="a.yaml" line="4">
              <system-out>note: a.yaml:4: &lt;�&amp;&quot;&gt;. Kubernetes documents subPath as unsupported on Windows. A single one works with containerd, several in one pod may fail before Kubernetes 1.37. Remedy: mount the whole volume into a directory of its own.</system-out>
            </testcase>
          </testsuite>
          <testsuite name="b.yaml" tests="1" failures="0">
            <testcase name="no findings" classname="b.yaml" file="b.yaml"/>
          </testsuite>
        </testsuites>
        "#);
    }
}
