//! The check of feature gates: names and dependencies.

use std::collections::{BTreeMap, BTreeSet};

use super::problems::Problems;
use crate::{
    domain::Problem,
    facts::{
        Minor,
        feature_gates::{
            DEPENDENCIES_CHECKED_SINCE, NEWEST_READ, OLDEST_READ, UnmetDependency, feature_gate, unmet_dependencies,
        },
    },
};

const KUBELET_GATES: &str = "spec.kubelet.featureGates";

/// Checks the names of the gates of a kubelet or kube-proxy, at this path.
pub(super) fn check_names(field: &str, written: &BTreeMap<String, bool>, problems: &mut Problems) {
    for name in written.keys() {
        let path = format!("{field}.{name}");
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let wrong = format!("`{name}` is not the name of a feature gate");
            problems.error(path, wrong, "write letters and digits only");
        } else if feature_gate(name).is_none() {
            let wrong = format!(
                "Kubernetes {OLDEST_READ} to {NEWEST_READ} does not have this feature gate and does not start with it"
            );
            problems.warning(path, wrong, "check the spelling, or remove it");
        }
    }
}

/// Checks the gates of the kubelet. Dependencies that are unmet in some minors are warnings.
pub(super) fn check(written: &BTreeMap<String, bool>, problems: &mut Problems) {
    check_names(KUBELET_GATES, written, problems);
    let minors = (DEPENDENCIES_CHECKED_SINCE.0..=NEWEST_READ.0).map(Minor);
    let mut seen = BTreeSet::new();
    for minor in minors {
        let unmet = unmet_dependencies(written, minor).into_iter();
        let new = unmet.filter(|dependency| seen.insert((dependency.gate, dependency.needs)));
        problems.warnings.extend(new.map(|dependency| problem(dependency, written, minor)));
    }
}

/// The unmet dependencies between gates with which a kubelet of a minor does not start.
pub fn dependency_problems(written: &BTreeMap<String, bool>, minor: Minor) -> Vec<Problem> {
    unmet_dependencies(written, minor).into_iter().map(|dependency| problem(dependency, written, minor)).collect()
}

fn problem(
    UnmetDependency { gate, needs }: UnmetDependency,
    written: &BTreeMap<String, bool>,
    minor: Minor,
) -> Problem {
    let wrong =
        format!("kubelet {minor} does not start, because {gate} is enabled and depends on {needs}, which is disabled");
    // At least one of the two is set, or AllAlpha or AllBeta determines them.
    let (name, remedy) = if written.get(needs) == Some(&false) {
        (needs, format!("set {gate}: false too, or remove {needs}: false"))
    } else {
        (gate, format!("set {needs}: true too, or set {gate}: false"))
    };
    Problem::new(format!("{KUBELET_GATES}.{name}"), wrong, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(set: &[(&str, bool)]) -> BTreeMap<String, bool> {
        set.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect()
    }

    #[test]
    fn an_unmet_dependency_is_a_problem_that_names_both_gates() {
        let problems = |set: &[(&str, bool)], minor| -> Vec<String> {
            dependency_problems(&gates(set), Minor(minor)).iter().map(ToString::to_string).collect()
        };
        let none: [&str; 0] = [];
        assert_eq!(problems(&[("GracefulNodeShutdown", false)], 34), none);
        assert_eq!(
            problems(&[("GracefulNodeShutdown", false), ("GracefulNodeShutdownBasedOnPodPriority", false)], 35),
            ["spec.kubelet.featureGates.GracefulNodeShutdown: kubelet 1.35 does not start, because \
              WindowsGracefulNodeShutdown is enabled and depends on GracefulNodeShutdown, which is disabled: set \
              WindowsGracefulNodeShutdown: false too, or remove GracefulNodeShutdown: false"]
        );
        assert_eq!(
            problems(&[("ClusterTrustBundleProjection", true)], 36),
            ["spec.kubelet.featureGates.ClusterTrustBundleProjection: kubelet 1.36 does not start, because \
              ClusterTrustBundleProjection is enabled and depends on ClusterTrustBundle, which is disabled: set \
              ClusterTrustBundle: true too, or set ClusterTrustBundleProjection: false"]
        );
    }

    #[test]
    fn an_unmet_dependency_is_one_warning_for_all_minors() {
        let mut problems = Problems::default();
        check(&gates(&[("GracefulNodeShutdown", false)]), &mut problems);
        let Problems { errors, warnings } = problems;
        assert_eq!(errors, []);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.wrong.starts_with("kubelet 1.35 does not start")));
    }
}
