//! `spec.kubelet.featureGates`: names that no kubelet knows, and gates that need others.

use std::collections::{BTreeMap, BTreeSet};

use super::check::Findings;
use crate::{
    domain::Problem,
    facts::{
        Minor,
        feature_gates::{DEPENDENCIES_CHECKED_SINCE, NEWEST_READ, OLDEST_READ, Unmet, feature_gate, unmet},
    },
};

const KUBELET_GATES: &str = "spec.kubelet.featureGates";

/// What is wrong with names of gates, those of a kubelet or of a kube-proxy, at this path.
pub(super) fn check_names(at: &str, written: &BTreeMap<String, bool>, findings: &mut Findings) {
    for name in written.keys() {
        let path = format!("{at}.{name}");
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let wrong = format!("`{name}` is no name of a feature gate");
            findings.mistake(path, wrong, "write letters and digits only");
        } else if feature_gate(name).is_none() {
            let wrong = format!(
                "no kubelet from {OLDEST_READ} to {NEWEST_READ} knows this gate, and none of them starts with it"
            );
            findings.warning(path, wrong, "check the spelling, or remove it");
        }
    }
}

/// What is wrong with the kubelet's gates for every minor, and what may be for some.
pub(super) fn check(written: &BTreeMap<String, bool>, findings: &mut Findings) {
    check_names(KUBELET_GATES, written, findings);
    let minors = (DEPENDENCIES_CHECKED_SINCE.0..=NEWEST_READ.0).map(Minor);
    let mut seen = BTreeSet::new();
    for (minor, found) in minors.flat_map(|minor| unmet(written, minor).into_iter().map(move |found| (minor, found))) {
        if seen.insert((found.gate, found.needs)) {
            let Problem { path, wrong, remedy } = problem(found, written, minor);
            findings.warning(path, wrong, remedy);
        }
    }
}

/// The dependencies of gates that keep a kubelet of a minor from starting, each with both gates.
pub fn unmet_dependencies(written: &BTreeMap<String, bool>, minor: Minor) -> Vec<Problem> {
    unmet(written, minor).into_iter().map(|found| problem(found, written, minor)).collect()
}

fn problem(Unmet { gate, needs }: Unmet, written: &BTreeMap<String, bool>, minor: Minor) -> Problem {
    let wrong = format!("a kubelet {minor} does not start: {gate} is on and needs {needs}, which is off");
    // Of the two one is written at least, or AllAlpha or AllBeta switches them.
    let (at, remedy) = if written.get(needs) == Some(&false) {
        (needs, format!("write {gate}: false beside it, or remove {needs}: false"))
    } else {
        (gate, format!("write {needs}: true beside it, or {gate}: false"))
    };
    Problem::new(path(at), wrong, remedy)
}

fn path(name: &str) -> String {
    format!("{KUBELET_GATES}.{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(set: &[(&str, bool)]) -> BTreeMap<String, bool> {
        set.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect()
    }

    #[test]
    fn a_gate_without_its_dependency_is_a_problem_that_names_both() {
        let told = |set: &[(&str, bool)], minor| -> Vec<String> {
            unmet_dependencies(&gates(set), Minor(minor)).iter().map(ToString::to_string).collect()
        };
        let none: [&str; 0] = [];
        assert_eq!(told(&[("GracefulNodeShutdown", false)], 34), none);
        assert_eq!(
            told(&[("GracefulNodeShutdown", false), ("GracefulNodeShutdownBasedOnPodPriority", false)], 35),
            ["spec.kubelet.featureGates.GracefulNodeShutdown: a kubelet 1.35 does not start: \
              WindowsGracefulNodeShutdown is on and needs GracefulNodeShutdown, which is off: write \
              WindowsGracefulNodeShutdown: false beside it, or remove GracefulNodeShutdown: false"]
        );
        assert_eq!(
            told(&[("ClusterTrustBundleProjection", true)], 36),
            ["spec.kubelet.featureGates.ClusterTrustBundleProjection: a kubelet 1.36 does not start: \
              ClusterTrustBundleProjection is on and needs ClusterTrustBundle, which is off: write \
              ClusterTrustBundle: true beside it, or ClusterTrustBundleProjection: false"]
        );
    }

    #[test]
    fn a_dependency_is_warned_about_once_for_all_minors() {
        let mut findings = Findings::default();
        check(&gates(&[("GracefulNodeShutdown", false)]), &mut findings);
        let (mistakes, warnings) = findings.into_parts();
        assert_eq!(mistakes, []);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.wrong.starts_with("a kubelet 1.35 does not start")));
    }
}
