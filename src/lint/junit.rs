//! Findings as a JUnit report, for GitLab, Jenkins and Azure Pipelines: a test suite for each file, and a test case for
//! each finding.

use std::{collections::BTreeMap, fmt::Write as _};

use winpool_check::lint::{LintReport, LocatedFinding, Severity};

/// The report. Findings of a severity that `fails` are failures, the others are passed test cases with an output.
pub fn text(report: &LintReport, fails: impl Fn(Severity) -> bool) -> String {
    let mut files: BTreeMap<&str, Vec<&LocatedFinding>> =
        report.files.iter().map(|file| (file.as_str(), Vec::new())).collect();
    for found in &report.findings {
        files.entry(&found.file).or_default().push(found);
    }
    let failures = |all: &[&LocatedFinding]| all.iter().filter(|found| fails(found.severity)).count();
    // A file without findings is one passed test case.
    let tests: usize = files.values().map(|found| found.len().max(1)).sum();
    let failed: usize = files.values().map(|found| failures(found)).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"winpool lint\" tests=\"{tests}\" failures=\"{failed}\">\n"
    );
    for (file, found) in files {
        let (name, count, failed) = (escaped(file), found.len().max(1), failures(&found));
        let _ = writeln!(text, "  <testsuite name=\"{name}\" tests=\"{count}\" failures=\"{failed}\">");
        if found.is_empty() {
            let _ = writeln!(text, "    <testcase name=\"no findings\" classname=\"{name}\" file=\"{name}\"/>");
        }
        found.into_iter().for_each(|found| test_case(found, fails(found.severity), &mut text));
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

fn test_case(found: &LocatedFinding, fails: bool, text: &mut String) {
    let LocatedFinding { file, line, finding, severity, object } = found;
    let name = escaped(&format!("{} in line {line}: {object} {}", finding.code, finding.path));
    let (name, file) = (name.trim_end(), escaped(file));
    let problem = escaped(&finding.problem);
    let details = escaped(&format!("{file}:{line}: {} Remedy: {}.", finding.message(), finding.remedy));
    let _ = writeln!(text, "    <testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" line=\"{line}\">");
    let _ = match fails {
        true => writeln!(text, "      <failure type=\"{severity}\" message=\"{problem}\">{details}</failure>"),
        false => writeln!(text, "      <system-out>{severity}: {details}</system-out>"),
    };
    text.push_str("    </testcase>\n");
}

/// A text in an attribute or element, without the characters that XML 1.0 excludes.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            char if char.is_control() || ['\u{fffe}', '\u{ffff}'].contains(&char) => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
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
