//! JUnit reports, for GitLab, Jenkins and Azure Pipelines.

use std::fmt::Write as _;

/// The test cases about one thing, such as a file.
pub struct Suite {
    pub name: String,
    pub cases: Vec<Case>,
}

pub struct Case {
    pub name: String,
    /// The file of the case, and its line, if it has one.
    pub file: Option<(String, Option<usize>)>,
    pub result: CaseResult,
}

pub enum CaseResult {
    Passed,
    /// A passed test case with an output.
    Output(String),
    /// A kind of failure, a message and details.
    Failure(String, String, String),
}

impl Suite {
    fn failures(&self) -> usize {
        self.cases.iter().filter(|case| matches!(case.result, CaseResult::Failure(..))).count()
    }
}

/// The report with this title.
pub fn text(title: &str, suites: &[Suite]) -> String {
    let tests: usize = suites.iter().map(|suite| suite.cases.len()).sum();
    let failed: usize = suites.iter().map(Suite::failures).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{title}\" tests=\"{tests}\" failures=\"{failed}\">\n"
    );
    for suite in suites {
        let (name, count, failed) = (escaped(&suite.name), suite.cases.len(), suite.failures());
        let _ = writeln!(text, "  <testsuite name=\"{name}\" tests=\"{count}\" failures=\"{failed}\">");
        suite.cases.iter().for_each(|case| test_case(case, &name, &mut text));
        text.push_str("  </testsuite>\n");
    }
    text + "</testsuites>\n"
}

fn test_case(case: &Case, class: &str, text: &mut String) {
    let _ = write!(text, "    <testcase name=\"{}\" classname=\"{class}\"", escaped(&case.name));
    if let Some((file, line)) = &case.file {
        let _ = write!(text, " file=\"{}\"", escaped(file));
        line.iter().for_each(|line| text.push_str(&format!(" line=\"{line}\"")));
    }
    let inner = match &case.result {
        CaseResult::Passed => return text.push_str("/>\n"),
        CaseResult::Output(output) => format!("<system-out>{}</system-out>", escaped(output)),
        CaseResult::Failure(kind, message, details) => {
            let (kind, message, details) = (escaped(kind), escaped(message), escaped(details));
            format!("<failure type=\"{kind}\" message=\"{message}\">{details}</failure>")
        }
    };
    let _ = writeln!(text, ">\n      {inner}\n    </testcase>");
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
