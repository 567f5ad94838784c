//! Changes of feature gates in a minor that was not released when its changelog was read. They may still change, so they are
//! warnings.
//!
//! Source: `CHANGELOG/CHANGELOG-1.38.md` of kubernetes/kubernetes at 0411cc70, which has 1.38.0-alpha.1 and alpha.2 (read 2026-11-29).
//! Pull request 142125, open when it was read, would remove WinDSR and WinOverlay too. That StrictIPCIDRValidation is locked follows from
//! pull request 141979, merged in September 2026: its tests switch the gate off only as 1.37.

use super::Minor;

/// What a kubelet of the minor will do with a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateChange {
    Removed,
    /// It does not start with the other value.
    Locked(bool),
    /// The gate is on unless it is set to false: with this effect on a Windows node, and what to do before.
    On {
        effect: &'static str,
        remedy: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub gate: &'static str,
    /// The first minor with the change.
    pub minor: Minor,
    pub change: GateChange,
    /// The first release whose changelog has it.
    pub release: &'static str,
}

impl Announcement {
    /// Whether a kubelet of the minor will not start with this value of the gate.
    pub fn concerns(&self, value: bool) -> bool {
        match self.change {
            GateChange::Removed => true,
            GateChange::Locked(only) => value != only,
            GateChange::On { .. } => false,
        }
    }
}

const ALPHA_1: &str = "1.38.0-alpha.1";
const ALPHA_2: &str = "1.38.0-alpha.2";

const fn removed(gate: &'static str, release: &'static str) -> Announcement {
    Announcement { gate, minor: Minor(38), change: GateChange::Removed, release }
}

const fn locked(gate: &'static str, release: &'static str) -> Announcement {
    Announcement { gate, minor: Minor(38), change: GateChange::Locked(true), release }
}

/// The announced change of a gate.
pub fn announced(gate: &str) -> Option<&'static Announcement> {
    ANNOUNCED.iter().find(|row| row.gate == gate)
}

/// Every announced change, sorted by gate.
pub const ANNOUNCED: &[Announcement] = &[
    removed("AggregatedDiscoveryRemoveBetaType", ALPHA_1),
    removed("CRDValidationRatcheting", ALPHA_1),
    removed("CustomResourceFieldSelectors", ALPHA_1),
    locked("DRADeviceTaintRules", ALPHA_1),
    locked("DRADeviceTaints", ALPHA_1),
    removed("DynamicResourceAllocation", ALPHA_1),
    locked("EnvFiles", ALPHA_1),
    locked("HPAGeneration", ALPHA_2),
    removed("KubeletTracing", ALPHA_1),
    removed("MatchLabelKeysInPodAffinity", ALPHA_2),
    removed("PodSchedulingReadiness", ALPHA_1),
    removed("SeparateTaintEvictionController", ALPHA_1),
    removed("ServiceAccountTokenPodNodeInfo", ALPHA_1),
    locked("StrictIPCIDRValidation", "1.38 (pull request 141979)"),
    Announcement {
        gate: "WindowsCPUAndMemoryAffinity",
        minor: Minor(38),
        change: GateChange::On {
            effect: "cpuManagerPolicy, memoryManagerPolicy and topologyManagerPolicy in the configuration of a node, which had no \
                     effect before, take effect with containerd 2.4 and later",
            remedy: "Remove them where they are not wanted, or set the gate to false",
        },
        release: ALPHA_2,
    },
    removed("WindowsHostNetwork", ALPHA_1),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feature_gates::{NEWEST_READ, feature_gate};

    #[test]
    fn announced_changes_are_of_gates_in_the_newest_minor_that_was_read() {
        for pair in ANNOUNCED.windows(2) {
            assert!(pair[0].gate < pair[1].gate, "{} before {}", pair[0].gate, pair[1].gate);
        }
        for announcement in ANNOUNCED {
            assert_eq!(announcement.minor, Minor(NEWEST_READ.0 + 1), "{}", announcement.gate);
            assert!(feature_gate(announcement.gate).unwrap().known_in(NEWEST_READ), "{}", announcement.gate);
        }
    }
}
