//! The check of feature gates: names, minors and dependencies.

use std::collections::{BTreeMap, BTreeSet};

use winpool_core::Problem;
use winpool_facts::{
    Minor,
    feature_gates::{
        ANNOUNCED_IN, DEPENDENCIES_CHECKED_SINCE, GateChange, GateState, NEWEST_READ, OLDEST_READ, UnmetDependency,
        announced, feature_gate, gate_state, unmet_dependencies,
    },
    named_enum,
};

use super::problems::Problems;

named_enum! {
    /// A program with feature gates. Both register the same ones.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum GatedProgram {
        Kubelet = "kubelet",
        KubeProxy = "kube-proxy",
    }
}

impl GatedProgram {
    fn path(self, gate: &str) -> String {
        match self {
            Self::Kubelet => format!("spec.kubelet.featureGates.{gate}"),
            Self::KubeProxy => format!("spec.kubeProxy.featureGates.{gate}"),
        }
    }
}

/// Checks the gates of a component for all minors. What some minors refuse is a warning.
pub(super) fn check(component: GatedProgram, written: &BTreeMap<String, bool>, problems: &mut Problems) {
    for (name, value) in written {
        check_gate(component, name, *value, problems);
    }
    let minors = (DEPENDENCIES_CHECKED_SINCE.0..=NEWEST_READ.0).map(Minor);
    let mut seen = BTreeSet::new();
    for minor in minors {
        let unmet = unmet_dependencies(written, minor).into_iter();
        let new = unmet.filter(|dependency| seen.insert((dependency.gate, dependency.needs)));
        problems.warnings.extend(new.map(|dependency| unmet_problem(component, dependency, written, minor)));
    }
}

fn check_gate(component: GatedProgram, name: &str, value: bool, problems: &mut Problems) {
    let path = component.path(name);
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let wrong = format!("`{name}` is not the name of a feature gate");
        problems.error(path, wrong, "write letters and digits only");
    } else if feature_gate(name).is_none() {
        let wrong = format!(
            "Kubernetes {OLDEST_READ} to {NEWEST_READ} does not have this feature gate and does not start with it"
        );
        problems.warning(path, wrong, "check the spelling, or remove it");
    } else if let Some(announced) = announced(name).filter(|row| row.concerns(value)) {
        let change = match announced.change {
            GateChange::Removed => "removes the gate".to_owned(),
            GateChange::Locked(only) => format!("locks the gate to {only}"),
            GateChange::On { .. } => "enables the gate".to_owned(),
        };
        let wrong = format!(
            "{ANNOUNCED_IN} {change}: {} {} will not start with this setting",
            component.name(),
            announced.minor
        );
        problems.warning(path, wrong, format!("remove it before the upgrade to {}", announced.minor));
    }
}

pub fn gate_problems(component: GatedProgram, written: &BTreeMap<String, bool>, minor: Minor) -> Vec<Problem> {
    let gates = written.iter().filter_map(|(name, value)| gate_problem(component, name, *value, minor));
    let unmet = unmet_dependencies(written, minor).into_iter();
    gates.chain(unmet.map(|dependency| unmet_problem(component, dependency, written, minor))).collect()
}

fn gate_problem(component: GatedProgram, name: &str, value: bool, minor: Minor) -> Option<Problem> {
    let (path, program) = (component.path(name), component.name());
    match gate_state(name, value, minor) {
        GateState::Accepted | GateState::NotChecked => None,
        GateState::Unknown => {
            let wrong = match feature_gate(name).map(|gate| (gate.first, gate.last)) {
                Some((first, _)) if minor < first => {
                    format!("the gate exists from {program} {first} on, and {program} {minor} does not start with it")
                }
                Some((_, Some(last))) => {
                    format!("the gate exists up to {program} {last}, and {program} {minor} does not start with it")
                }
                _ => format!("{program} {minor} does not know the gate and does not start with it"),
            };
            Some(Problem::new(path, wrong, "remove it, or use another profile for these nodes"))
        }
        GateState::Locked(only) => {
            let wrong = format!("the gate is locked to {only} in {program} {minor}");
            Some(Problem::new(path, wrong, format!("set it to {only}, or remove it")))
        }
    }
}

fn unmet_problem(
    component: GatedProgram,
    UnmetDependency { gate, needs }: UnmetDependency,
    written: &BTreeMap<String, bool>,
    minor: Minor,
) -> Problem {
    let wrong = format!(
        "{} {minor} does not start, because {gate} is enabled and depends on {needs}, which is disabled",
        component.name()
    );
    // At least one of the two is set, or AllAlpha or AllBeta determines them.
    let (name, remedy) = if written.get(needs) == Some(&false) {
        (needs, format!("set {gate}: false too, or remove {needs}: false"))
    } else {
        (gate, format!("set {needs}: true too, or set {gate}: false"))
    };
    Problem::new(component.path(name), wrong, remedy)
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
            gate_problems(GatedProgram::Kubelet, &gates(set), Minor(minor)).iter().map(ToString::to_string).collect()
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
        check(GatedProgram::Kubelet, &gates(&[("GracefulNodeShutdown", false)]), &mut problems);
        let Problems { errors, warnings } = problems;
        assert_eq!(errors, []);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.wrong.starts_with("kubelet 1.35 does not start")));
    }

    #[test]
    fn kube_proxy_does_not_start_with_the_gates_that_a_kubelet_refuses() {
        let problems = |set: &[(&str, bool)], minor| -> Vec<String> {
            gate_problems(GatedProgram::KubeProxy, &gates(set), Minor(minor)).iter().map(ToString::to_string).collect()
        };
        let none: [&str; 0] = [];
        assert_eq!(problems(&[("WinOverlay", false)], 33), none);
        for minor in 34..=38 {
            assert_eq!(
                problems(&[("WinOverlay", false)], minor),
                [format!(
                    "spec.kubeProxy.featureGates.WinOverlay: the gate is locked to true in kube-proxy 1.{minor}: set it to \
                     true, or remove it"
                )]
            );
        }
        assert_eq!(
            problems(&[("KubeProxyIPVS", false)], 36),
            [
                "spec.kubeProxy.featureGates.KubeProxyIPVS: the gate exists from kube-proxy 1.37 on, and kube-proxy 1.36 does \
              not start with it: remove it, or use another profile for these nodes"
            ]
        );
        assert!(problems(&[("GracefulNodeShutdown", false)], 35)[0].contains("kube-proxy 1.35 does not start"));
    }

    #[test]
    fn what_a_beta_of_the_next_minor_refuses_is_a_warning() {
        let warnings = |name: &str, value| -> Vec<String> {
            let mut problems = Problems::default();
            check(GatedProgram::Kubelet, &gates(&[(name, value)]), &mut problems);
            assert_eq!(problems.errors, []);
            problems.warnings.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            warnings("WindowsHostNetwork", true),
            [
                "spec.kubelet.featureGates.WindowsHostNetwork: 1.38.0-beta.0 removes the gate: kubelet 1.38 will not start with \
              this setting: remove it before the upgrade to 1.38"
            ]
        );
        assert_eq!(
            warnings("EnvFiles", false),
            [
                "spec.kubelet.featureGates.EnvFiles: 1.38.0-beta.0 locks the gate to true: kubelet 1.38 will not start with this \
              setting: remove it before the upgrade to 1.38"
            ]
        );
        assert_eq!(
            warnings("StrictIPCIDRValidation", false),
            [
                "spec.kubelet.featureGates.StrictIPCIDRValidation: 1.38.0-beta.0 locks the gate to true: kubelet 1.38 will not start \
              with this setting: remove it before the upgrade to 1.38"
            ]
        );
        assert_eq!(warnings("EnvFiles", true), [""; 0]);
        assert_eq!(warnings("WindowsCPUAndMemoryAffinity", true), [""; 0]);
    }
}
