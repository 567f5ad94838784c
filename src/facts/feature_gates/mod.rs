//! The feature gates that a kubelet knows, by minor.
//!
//! A kubelet does not start with a gate that it does not know, nor with a locked gate set against its default, nor, from
//! 1.35 on, with an enabled gate that needs one that is off. It knows every gate of `pkg/features` in
//! kubernetes/kubernetes and of the libraries it is linked with.
//!
//! Sources: `pkg/features/kube_features.go` of kubernetes/kubernetes (with `versioned_kube_features.go` in 1.31 and 1.32)
//! at v1.17.2, v1.18.1, v1.19.2, v1.20.0, v1.21.2, v1.22.3, v1.23.1, v1.24.15, v1.25.6, v1.26.11, v1.27.14, v1.28.10,
//! v1.29.14, v1.30.11, v1.31.13, v1.32.6, v1.33.3, v1.34.3, v1.35.4 and v1.36.2, as Go modules vendor it; beside them, at
//! the newest patch release of each minor (to v0.36.3), `pkg/features` of kubernetes/apiserver and
//! apiextensions-apiserver, `features` of client-go, `pkg/features` of controller-manager, and `logs`, `metrics/features`
//! and `zpages/features` of component-base, which `cmd/kubelet/app/server.go` and `pkg/kubelet/server/server.go` register.
//! The first minors before 1.17 are from v1.14.0 and from the comments of v1.17.2.
//!
//! A patch release seldom changes a gate. Where one did, the row has the later state: SchedulerAsyncAPICalls is off from
//! 1.34.2 and 1.35.1, MaxUnavailableStatefulSet from 1.35.2 or later, StatefulSetSemanticRevisionComparison came with
//! 1.34.2, OrderedNamespaceDeletion with 1.30.11, 1.31.7 or later and 1.32.3. Where kubernetes/kubernetes and a library
//! disagreed, as about APIServingWithRoutine in 1.30.0, what the kubelet registers last counts.

mod dependencies;
mod table;

use jiff::civil::{Date, date};

use super::Minor;
pub use dependencies::{CHECKED_SINCE as DEPENDENCIES_CHECKED_SINCE, DEPENDENCIES, Unmet, unmet};
pub use table::GATES;

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 7, 23);

/// The newest minor whose gates were read. 1.37 was not: of its libraries only v0.37.0-beta.0 was at hand.
pub const NEWEST_READ: Minor = Minor(36);
/// The oldest minor whose gates were read; so were those of every minor between the two.
pub const OLDEST_READ: Minor = Minor(17);

/// How far a gate has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `AllAlpha` switches it.
    Alpha,
    /// `AllBeta` switches it.
    Beta,
    /// Generally available, or deprecated.
    Stable,
}

/// What a gate is from a minor on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The first minor.
    pub from: Minor,
    /// Whether it is on by default.
    pub on: bool,
    /// Whether it can no longer be set against its default.
    pub locked: bool,
    /// How far it has come.
    pub stage: Stage,
}

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// The name, as `featureGates` has it.
    pub name: &'static str,
    /// The first minor that knows the gate; 1.14 stands for that and earlier.
    pub first: Minor,
    /// The last minor that knows it, if one read here no longer does.
    pub last: Option<Minor>,
    /// What it is from which minor on, ascending, of the minors that were read.
    pub specs: &'static [Spec],
}

impl FeatureGate {
    /// Whether a kubelet of a minor knows the gate, as far as minors were read.
    pub fn known_in(&self, minor: Minor) -> bool {
        self.first <= minor && self.last.is_none_or(|last| minor <= last)
    }

    /// What the gate is in a minor; in one newer than those that were read, what it was last.
    pub fn spec_in(&self, minor: Minor) -> Option<&'static Spec> {
        self.specs.iter().rfind(|spec| spec.from <= minor)
    }

    /// Whether the gate is on by default in a minor that knows it.
    pub fn on_in(&self, minor: Minor) -> bool {
        self.spec_in(minor).is_some_and(|spec| spec.on)
    }

    /// The only value that a minor takes, where the gate is locked.
    pub fn locked_to(&self, minor: Minor) -> Option<bool> {
        self.spec_in(minor).filter(|spec| spec.locked).map(|spec| spec.on)
    }
}

/// The gate of a name, if any minor read here knows it.
pub fn feature_gate(name: &str) -> Option<&'static FeatureGate> {
    GATES.binary_search_by(|gate| gate.name.cmp(name)).ok().map(|index| &GATES[index])
}

/// What becomes of a kubelet that is given a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes the gate.
    Taken,
    /// The gates of this minor were not read, and those of the others do not settle it.
    NotChecked,
    /// It does not know the gate and does not start.
    Unknown,
    /// It does not start with the other value: it knows the gate with this one only, or no longer knows it.
    Locked(bool),
}

/// What a kubelet of a minor does with a gate set to a value.
///
/// Of a minor that was not read this much is sure: a gate that came later is unknown to it, one that is gone does not
/// come back, and one that is locked stays so until it is gone.
pub fn verdict(name: &str, value: bool, minor: Minor) -> Verdict {
    let read = (OLDEST_READ..=NEWEST_READ).contains(&minor);
    match feature_gate(name) {
        None if read => Verdict::Unknown,
        None => Verdict::NotChecked,
        Some(gate) if !gate.known_in(minor) => Verdict::Unknown,
        Some(gate) => match gate.locked_to(minor) {
            Some(only) if only != value => Verdict::Locked(only),
            _ if read => Verdict::Taken,
            _ => Verdict::NotChecked,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_is_found_by_its_name_and_its_minors_are_in_order() {
        for pair in GATES.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
        for gate in GATES {
            assert_eq!(feature_gate(gate.name), Some(gate));
            let last = gate.last.unwrap_or(NEWEST_READ);
            assert!(gate.first <= last && gate.last.is_none_or(|last| last < NEWEST_READ), "{}", gate.name);
            assert_eq!(gate.specs[0].from, gate.first.max(OLDEST_READ), "{}", gate.name);
            assert!(gate.specs.windows(2).all(|pair| pair[0].from < pair[1].from), "{}", gate.name);
            assert!(gate.specs.iter().all(|spec| spec.from <= last), "{}", gate.name);
        }
    }

    #[test]
    fn a_kubelet_takes_the_gates_of_its_minor_and_no_other() {
        let table = [
            ("GracefulNodeShutdown", true, 20, Verdict::Taken),
            ("GracefulNodeShutdown", true, 19, Verdict::Unknown),
            ("WindowsHostProcessContainers", true, 21, Verdict::Unknown),
            ("WindowsHostProcessContainers", true, 22, Verdict::Taken),
            ("WindowsHostProcessContainers", false, 26, Verdict::Locked(true)),
            ("WindowsHostProcessContainers", true, 28, Verdict::Unknown),
            ("WindowsGracefulNodeShutdown", true, 31, Verdict::Unknown),
            ("WindowsGracefulNodeShutdown", false, 34, Verdict::Taken),
            ("WindowsCPUAndMemoryAffinity", true, 36, Verdict::Taken),
            ("GitRepoVolumeDriver", true, 36, Verdict::Locked(false)),
            ("AllBeta", false, 17, Verdict::Taken),
            ("NoSuchGate", true, 20, Verdict::Unknown),
            ("NoSuchGate", true, 36, Verdict::Unknown),
            // Registered by the kubelet itself, outside pkg/features.
            ("ContextualLogging", false, 36, Verdict::Taken),
            ("LoggingAlphaOptions", true, 36, Verdict::Taken),
            ("LoggingBetaOptions", true, 36, Verdict::Taken),
            ("ComponentSLIs", true, 34, Verdict::Taken),
            ("ComponentSLIs", false, 32, Verdict::Locked(true)),
            ("ComponentSLIs", true, 35, Verdict::Unknown),
            ("NativeHistograms", true, 36, Verdict::Taken),
            ("NativeHistograms", true, 35, Verdict::Unknown),
            // Gates whose end lay in a minor that was once not read.
            ("EndpointSlice", true, 24, Verdict::Taken),
            ("EndpointSlice", true, 25, Verdict::Unknown),
            ("NodeLease", true, 22, Verdict::Taken),
            ("NodeLease", true, 23, Verdict::Unknown),
        ];
        for (name, value, minor, expected) in table {
            assert_eq!(verdict(name, value, Minor(minor)), expected, "{name}={value} in 1.{minor}");
        }
    }

    #[test]
    fn of_a_minor_that_was_not_read_only_what_is_sure_is_answered() {
        let table = [
            ("WindowsCPUAndMemoryAffinity", true, 37, Verdict::NotChecked),
            ("RetryGenerateName", true, 37, Verdict::NotChecked),
            ("RetryGenerateName", false, 37, Verdict::Locked(true)),
            ("WindowsHostProcessContainers", true, 37, Verdict::Unknown),
            ("NoSuchGate", true, 37, Verdict::NotChecked),
            ("NoSuchGate", true, 16, Verdict::NotChecked),
            ("AllAlpha", false, 14, Verdict::NotChecked),
            ("GracefulNodeShutdown", true, 16, Verdict::Unknown),
        ];
        for (name, value, minor, expected) in table {
            assert_eq!(verdict(name, value, Minor(minor)), expected, "{name}={value} in 1.{minor}");
        }
    }

    #[test]
    fn gates_that_matter_to_windows_nodes_are_on_where_upstream_has_them_on() {
        /// The first and the last minor in which a gate is on by default.
        const ON: &[(&str, &[(u32, u32)])] = &[
            ("NodeLogQuery", &[(36, 36)]),
            ("GracefulNodeShutdown", &[(21, 36)]),
            ("GracefulNodeShutdownBasedOnPodPriority", &[(24, 36)]),
            ("WindowsGracefulNodeShutdown", &[(34, 36)]),
            ("WindowsCPUAndMemoryAffinity", &[]),
            ("WindowsHostNetwork", &[(26, 32)]),
            ("WinDSR", &[(33, 36)]),
            ("WinOverlay", &[(20, 36)]),
            ("ImageMaximumGCAge", &[(30, 36)]),
            ("KubeletEnsureSecretPulledImages", &[(35, 36)]),
            ("KubeletCrashLoopBackOffMax", &[(35, 36)]),
            ("KubeletTracing", &[(27, 36)]),
            ("DynamicKubeletConfig", &[(17, 21)]),
            ("KMSv1", &[(28, 28)]),
            ("WatchList", &[(32, 32), (34, 36)]),
            ("SeparateCacheWatchRPC", &[(28, 32)]),
        ];
        for (name, spans) in ON {
            let gate = feature_gate(name).unwrap();
            for minor in (OLDEST_READ.0..=NEWEST_READ.0).map(Minor).filter(|minor| gate.known_in(*minor)) {
                let expected = spans.iter().any(|(from, to)| (*from..=*to).contains(&minor.0));
                assert_eq!(gate.on_in(minor), expected, "{name} in {minor}");
            }
        }
    }

    #[test]
    fn every_gate_at_its_default_is_taken_by_every_minor_that_knows_it() {
        for gate in GATES {
            for minor in (OLDEST_READ.0..=NEWEST_READ.0).map(Minor) {
                let taken = verdict(gate.name, gate.on_in(minor), minor) == Verdict::Taken;
                assert_eq!(taken, gate.known_in(minor), "{} in {minor}", gate.name);
            }
        }
    }
}
