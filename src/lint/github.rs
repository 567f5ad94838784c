//! Findings as annotations of GitHub Actions: workflow commands, which the runner reads from the output of a step.
//!
//! Source: actions/toolkit, `packages/core/src/command.ts` (2025), which also escapes the values.

use std::path::Path;

use winpool_check::lint::{LintReport, LocatedFinding, Severity};

use super::path::relative;

/// One workflow command for each finding. GitHub needs paths relative to the repository, which is the working directory.
pub fn text(report: &LintReport, current: &Path) -> String {
    report.findings.iter().map(|found| command(found, current) + "\n").collect()
}

fn command(found: &LocatedFinding, current: &Path) -> String {
    let LocatedFinding { file, line, finding, severity, .. } = found;
    let name = match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let file = property(&relative(file, Path::new(""), current));
    let title = property(finding.code.name());
    let message = data(&format!("{} Remedy: {}.", finding.message(), finding.remedy));
    format!("::{name} file={file},line={line},title={title}::{message}")
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use winpool_check::lint::{Code, Finding};

    use super::*;

    #[test]
    fn values_are_escaped() {
        let finding = Finding::new(Code::OsNameMissing, "spec", "100 %\nof: it, is missing").with_reason("So.");
        let found = LocatedFinding::at("./a,b:c.yaml".to_owned(), 3, finding, String::new());
        let expected = "::notice file=a%2Cb%3Ac.yaml,line=3,title=os-name-missing::100 %25%0Aof: it, is missing. So. Remedy: \
                        set os: {name: windows} in the pod spec.\n";
        assert_eq!(text(&LintReport { findings: vec![found], ..LintReport::default() }, Path::new("/")), expected);
    }
}
