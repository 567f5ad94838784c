//! The result of a run.

use std::collections::BTreeMap;

use winpool_core::{
    foreign_text::escaped_lines,
    text::{agree, counted, some_of},
};

use super::{LocatedFinding, Severity};

/// The result of a run.
#[derive(Debug, Default)]
pub struct LintReport {
    /// The findings, by file and line.
    pub findings: Vec<LocatedFinding>,
    pub objects: usize,
    /// The number of skipped objects, by kind.
    pub skipped: BTreeMap<String, usize>,
    /// Documents in directories that are for other programs.
    pub ignored: Vec<String>,
    /// The files that were read, as typed.
    pub files: Vec<String>,
    /// The paths without a manifest.
    pub empty: Vec<String>,
    /// The number of findings that are in the baseline.
    pub in_baseline: usize,
    /// The findings of the baseline that no longer exist.
    pub gone: Vec<String>,
    /// The errors of failed lookups, by image.
    pub failed_lookups: BTreeMap<String, String>,
    /// The number of workloads with known issues that depend on versions that the manifests do not have.
    pub undetermined: usize,
    /// The workloads that select Windows nodes by label alone, if no pool in the manifests has the taints.
    pub untolerating: Vec<String>,
    /// Whether pods have gMSAs, and the manifests no credential spec.
    pub unchecked_gmsa: bool,
    /// The machines for Windows whose version is not compared, with the reason.
    pub unjudged_machines: Vec<String>,
}

impl LintReport {
    /// The number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|found| found.severity == severity).count()
    }

    /// The report with texts of manifests as they may be printed.
    pub fn printable(self) -> Self {
        let findings = self.findings.into_iter().map(LocatedFinding::printable).collect();
        let files = self.files.iter().map(|file| escaped_lines(file)).collect();
        Self { findings, files, ..self }
    }

    /// The counts in one line.
    pub fn summary(&self) -> String {
        let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note]
            .map(|severity| counted(self.count(severity), severity.name()));
        let known = match self.in_baseline {
            0 => String::new(),
            count => format!(", and {} of the baseline", counted(count, "finding")),
        };
        format!("{errors}, {warnings}, {notes} in {}{known}", counted(self.objects, "object"))
    }

    /// Every file and document that was not checked, with the reason. Unreadable manifests are findings.
    pub fn not_judged(&self) -> Vec<String> {
        self.empty.iter().chain(&self.ignored).cloned().collect()
    }

    /// What was not checked.
    pub fn notes(&self) -> Vec<String> {
        let kinds: Vec<_> = self.skipped.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let kinds = (!kinds.is_empty()).then(|| format!("skipped: {}", kinds.join(", ")));
        let ignored = (!self.ignored.is_empty()).then(|| {
            let (count, all) = (counted(self.ignored.len(), "document"), named(&self.ignored));
            format!("skipped: {count} of other formats: {all}")
        });
        let empty = self.empty.iter().map(|text| format!("nothing to check: {text}"));
        let gone = (!self.gone.is_empty()).then(|| {
            let (count, verb) = (counted(self.gone.len(), "finding"), agree(self.gone.len(), "does", "do"));
            let remedy = "Write the baseline again with --write-baseline";
            format!("{count} of the baseline {verb} not exist any more: {}. {remedy}", some_of(&self.gone))
        });
        let lookups =
            self.failed_lookups.iter().map(|(image, error)| format!("lookup of image {image} failed: {error}"));
        let undetermined = (self.undetermined > 0).then(|| {
            let count = counted(self.undetermined, "workload");
            format!(
                "known issues of {count} not checked: the versions of the nodes are not in the manifests. Add them: kubectl get \
                 nodes -o yaml"
            )
        });
        let untolerating = (!self.untolerating.is_empty()).then(|| {
            let (count, all) = (counted(self.untolerating.len(), "workload"), some_of(&self.untolerating));
            format!(
                "taints not checked of {count}: {all}. A pool has the taint os=windows:NoSchedule by default, and they do not tolerate \
                 it: add the toleration, or, other than in a DaemonSet, runtimeClassName: windows-ltsc2022 or the class of another \
                 release. With the manifests of the pools the taints are checked"
            )
        });
        let gmsa = "credential specs of gMSAs not checked: no GMSACredentialSpec is in the manifests".to_owned();
        let gmsa = self.unchecked_gmsa.then_some(gmsa);
        let machines = (!self.unjudged_machines.is_empty()).then(|| {
            let count = counted(self.unjudged_machines.len(), "group");
            let all = self.unjudged_machines.join(", ");
            format!("known issues and version skew of {count} of machines not checked: {all}")
        });
        empty
            .chain(ignored)
            .chain(kinds)
            .chain(undetermined)
            .chain(untolerating)
            .chain(gmsa)
            .chain(machines)
            .chain(lookups)
            .chain(gone)
            .collect()
    }
}

/// Every document with its reason, by name.
fn named(documents: &[String]) -> String {
    let mut names = documents.to_vec();
    names.sort();
    names.join(", ")
}
