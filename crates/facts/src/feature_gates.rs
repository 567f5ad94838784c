//! The feature gates that a kubelet knows, by minor.
//!
//! A kubelet does not start with an unknown gate, with a locked gate that is set against its default, or, from 1.35 on,
//! with an enabled gate that depends on a disabled one.
//!
//! Sources: `pkg/features/kube_features.go` of kubernetes/kubernetes (with `versioned_kube_features.go` in 1.31 and 1.32) at
//! v1.17.2, v1.18.1, v1.19.2, v1.20.0, v1.21.2, v1.22.3, v1.23.1, v1.24.15, v1.25.6, v1.26.11, v1.27.14, v1.28.10, v1.29.14,
//! v1.30.11, v1.31.13, v1.32.6, v1.33.3, v1.34.3, v1.35.4, v1.36.2 and v1.37.2 (2026-10-27); the gates of the libraries that
//! the kubelet is linked with, at the newest patch release of each minor (to v0.36.3): apiserver, apiextensions-apiserver,
//! client-go, controller-manager, and `logs`, `metrics/features` and `zpages/features` of component-base. Minors before 1.17:
//! v1.14.0 and the comments of v1.17.2. Where a later minor corrects a specification, a row follows the minor itself, and where
//! a library disagrees, what the kubelet registers last.
//!
//! Where a patch release changed a gate, the row has the later state: SchedulerAsyncAPICalls is off from 1.34.2 and 1.35.1,
//! MaxUnavailableStatefulSet from 1.35.2 or later, StatefulSetSemanticRevisionComparison came with 1.34.2,
//! OrderedNamespaceDeletion with 1.30.11, 1.31.7 or later and 1.32.3.

mod announced;
mod dependencies;
mod table;

use super::Minor;

pub use announced::{ANNOUNCED, Announcement, GateChange, RELEASE as ANNOUNCED_IN, announced};
pub use dependencies::{
    CHECKED_SINCE as DEPENDENCIES_CHECKED_SINCE, DEPENDENCIES, UnmetDependency, unmet_dependencies,
};
pub use table::GATES;

pub const NEWEST_READ: Minor = Minor(37);
/// The oldest minor whose gates are all in the table. All minors between the two were read too.
pub const OLDEST_READ: Minor = Minor(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateStage {
    /// `AllAlpha` enables or disables it.
    Alpha,
    /// `AllBeta` enables or disables it.
    Beta,
    /// Generally available, or deprecated.
    Stable,
}

/// The specification of a gate, from a minor on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSpec {
    pub from: Minor,
    pub default: bool,
    /// Whether it is locked to its default.
    pub locked: bool,
    pub stage: GateStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// The key in `featureGates`.
    pub name: &'static str,
    /// The first minor that knows the gate; 1.14 stands for that and earlier.
    pub first: Minor,
    /// The last minor that knows it, if a later minor that was read does not.
    pub last: Option<Minor>,
    /// The specifications in the minors that were read, ascending.
    pub specs: &'static [GateSpec],
}

impl FeatureGate {
    /// Whether a kubelet of a minor knows the gate, according to the minors that were read.
    pub fn known_in(&self, minor: Minor) -> bool {
        self.first <= minor && self.last.is_none_or(|last| minor <= last)
    }

    /// The specification in a minor; the newest one for minors after those that were read.
    pub fn spec_in(&self, minor: Minor) -> Option<&'static GateSpec> {
        self.specs.iter().rfind(|spec| spec.from <= minor)
    }

    /// The default in a minor, which may be announced.
    pub fn default_in(&self, minor: Minor) -> bool {
        let is_on = |row: &&Announcement| minor >= row.minor && matches!(row.change, GateChange::On { .. });
        announced(self.name).filter(is_on).is_some() || self.spec_in(minor).is_some_and(|spec| spec.default)
    }
}

/// The gate with this name, if any minor that was read knows it.
pub fn feature_gate(name: &str) -> Option<&'static FeatureGate> {
    GATES.binary_search_by(|gate| gate.name.cmp(name)).ok().map(|index| &GATES[index])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateState {
    Accepted,
    /// The minor is older than those that were read, or newer and no minor that was read knows the gate.
    NotChecked,
    Unknown,
    /// The gate is locked to this value, or removed. The kubelet does not start with the other value.
    Locked(bool),
}

/// Whether a kubelet of a minor accepts a gate with a value.
///
/// A minor that is newer than those that were read is treated as the newest of them, except that it may know gates that are
/// not in the table.
pub fn gate_state(name: &str, value: bool, minor: Minor) -> GateState {
    match feature_gate(name) {
        None if (OLDEST_READ..=NEWEST_READ).contains(&minor) => GateState::Unknown,
        None => GateState::NotChecked,
        Some(gate) if !gate.known_in(minor.min(NEWEST_READ)) => GateState::Unknown,
        Some(gate) => match gate.spec_in(minor.min(NEWEST_READ)) {
            Some(spec) if spec.locked && spec.default != value => GateState::Locked(spec.default),
            _ if minor < OLDEST_READ => GateState::NotChecked,
            _ => GateState::Accepted,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gate_is_found_by_name_and_its_minors_ascend() {
        for pair in GATES.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
        for gate in GATES {
            assert_eq!(feature_gate(gate.name), Some(gate));
            let last = gate.last.unwrap_or(NEWEST_READ);
            assert!(gate.first <= last && gate.last.is_none_or(|last| last < NEWEST_READ), "{}", gate.name);
            assert!(gate.specs[0].from <= gate.first.max(OLDEST_READ) && last >= OLDEST_READ, "{}", gate.name);
            assert!(gate.specs.windows(2).all(|pair| pair[0].from < pair[1].from), "{}", gate.name);
            assert!(gate.specs.iter().all(|spec| spec.from <= last), "{}", gate.name);
        }
    }

    #[test]
    fn a_kubelet_accepts_only_the_gates_of_its_minor() {
        let table = [
            ("GracefulNodeShutdown", true, 30, GateState::Accepted),
            ("WindowsHostProcessContainers", true, 30, GateState::Unknown),
            ("WindowsGracefulNodeShutdown", true, 31, GateState::Unknown),
            ("WindowsGracefulNodeShutdown", false, 34, GateState::Accepted),
            ("WindowsCPUAndMemoryAffinity", true, 36, GateState::Accepted),
            ("GitRepoVolumeDriver", true, 36, GateState::Locked(false)),
            ("AllBeta", false, 30, GateState::Accepted),
            ("NoSuchGate", true, 30, GateState::Unknown),
            // Registered by the kubelet itself, outside pkg/features.
            ("ContextualLogging", false, 36, GateState::Accepted),
            ("LoggingAlphaOptions", true, 36, GateState::Accepted),
            ("LoggingBetaOptions", true, 36, GateState::Accepted),
            ("ComponentSLIs", true, 34, GateState::Accepted),
            ("ComponentSLIs", false, 32, GateState::Locked(true)),
            ("ComponentSLIs", true, 35, GateState::Unknown),
            ("NativeHistograms", true, 36, GateState::Accepted),
            ("NativeHistograms", true, 35, GateState::Unknown),
            // A newer minor is treated as the newest that was read, except for gates that no minor knows.
            ("WindowsCPUAndMemoryAffinity", true, 38, GateState::Accepted),
            ("RetryGenerateName", true, 36, GateState::Accepted),
            ("RetryGenerateName", true, 37, GateState::Unknown),
            ("RetryGenerateName", true, 38, GateState::Unknown),
            ("HostnameOverride", false, 36, GateState::Accepted),
            ("HostnameOverride", false, 37, GateState::Locked(true)),
            ("HostnameOverride", false, 38, GateState::Locked(true)),
            ("DeclarativeValidationTakeover", true, 37, GateState::Locked(false)),
            ("EvictionRequestAPI", true, 36, GateState::Unknown),
            ("EvictionRequestAPI", true, 37, GateState::Accepted),
            ("NoSuchGate", true, 37, GateState::Unknown),
            ("NoSuchGate", true, 38, GateState::NotChecked),
            ("NoSuchGate", true, 29, GateState::NotChecked),
            ("AllAlpha", false, 29, GateState::NotChecked),
            ("WindowsGracefulNodeShutdown", true, 29, GateState::Unknown),
        ];
        for (name, value, minor, expected) in table {
            assert_eq!(gate_state(name, value, Minor(minor)), expected, "{name}={value} in 1.{minor}");
        }
    }

    #[test]
    fn an_announced_default_is_that_of_its_minor() {
        let affinity = feature_gate("WindowsCPUAndMemoryAffinity").unwrap();
        assert_eq!([36, 37, 38, 39].map(|minor| affinity.default_in(Minor(minor))), [false, false, true, true]);
    }

    #[test]
    fn each_minor_accepts_the_default_of_each_gate_that_it_knows() {
        for gate in GATES {
            for minor in (OLDEST_READ.0..=NEWEST_READ.0).map(Minor) {
                let accepted = gate_state(gate.name, gate.default_in(minor), minor) == GateState::Accepted;
                assert_eq!(accepted, gate.known_in(minor), "{} in {minor}", gate.name);
            }
        }
    }
}
