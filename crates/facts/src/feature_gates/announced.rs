//! Changes of feature gates in a minor that was not released when its sources were read. They may still change, so they are
//! warnings.
//!
//! Sources: the files of [`super`] at v1.38.0-beta.0 of kubernetes/kubernetes and v0.38.0-beta.0 of its libraries, compared with those of
//! 1.37.2 (Go modules, read 2026-11-29): every gate that is removed or locked. Of the defaults that change, only the one that changes what
//! a Windows node does is a row.

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

/// The release that was read.
pub const RELEASE: &str = "1.38.0-beta.0";

const fn row(gate: &'static str, change: GateChange) -> Announcement {
    Announcement { gate, minor: Minor(38), change }
}

const fn removed(gate: &'static str) -> Announcement {
    row(gate, GateChange::Removed)
}

const fn locked(gate: &'static str) -> Announcement {
    row(gate, GateChange::Locked(true))
}

/// The announced change of a gate.
pub fn announced(gate: &str) -> Option<&'static Announcement> {
    ANNOUNCED.iter().find(|row| row.gate == gate)
}

/// Every announced change, sorted by gate.
pub const ANNOUNCED: &[Announcement] = &[
    removed("AggregatedDiscoveryRemoveBetaType"),
    removed("AllowOverwriteTerminationGracePeriodSeconds"),
    locked("AuthorizePodWebsocketUpgradeCreatePermission"),
    removed("CRDValidationRatcheting"),
    removed("CustomResourceFieldSelectors"),
    locked("DRADeviceBindingConditions"),
    locked("DRADeviceTaintRules"),
    locked("DRADeviceTaints"),
    locked("DRAPartitionableDevices"),
    removed("DisableAllocatorDualWrite"),
    removed("DynamicResourceAllocation"),
    locked("EnvFiles"),
    removed("ExecProbeTimeout"),
    locked("ExtendWebSocketsToKubelet"),
    locked("HPAGeneration"),
    removed("InPlacePodVerticalScaling"),
    removed("JobManagedBy"),
    removed("KubeletTracing"),
    removed("MatchLabelKeysInPodAffinity"),
    removed("MultiCIDRServiceAllocator"),
    removed("NFTablesProxyMode"),
    removed("NodeSwap"),
    removed("PodGroupPreemptionPolicy"),
    removed("PodSchedulingReadiness"),
    locked("PortForwardWebsockets"),
    removed("PreferSameTrafficDistribution"),
    removed("RecoverVolumeExpansionFailure"),
    removed("SeparateTaintEvictionController"),
    removed("ServiceAccountTokenJTI"),
    removed("ServiceAccountTokenNodeBinding"),
    removed("ServiceAccountTokenNodeBindingValidation"),
    removed("ServiceAccountTokenPodNodeInfo"),
    locked("StrictIPCIDRValidation"),
    removed("SupplementalGroupsPolicy"),
    locked("TranslateStreamCloseWebsocketRequests"),
    removed("WinDSR"),
    removed("WinOverlay"),
    row(
        "WindowsCPUAndMemoryAffinity",
        GateChange::On {
            effect: "cpuManagerPolicy, memoryManagerPolicy and topologyManagerPolicy in the configuration of a node, which had no \
                     effect before, take effect with containerd 2.4 and later",
            remedy: "Remove them where they are not wanted, or set the gate to false",
        },
    ),
    removed("WindowsHostNetwork"),
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
