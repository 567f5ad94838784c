//! Feature gates that need others. From 1.35 on a kubelet does not start where an enabled gate needs one that is off.
//!
//! Sources: `defaultKubernetesFeatureGateDependencies` in `pkg/features/kube_features.go` of kubernetes/kubernetes at
//! v1.35.4 and v1.36.2; what becomes of a violation in `featuregate/feature_gate.go` of kubernetes/component-base, which
//! has none at v0.34.10 and `unsafeSetFromMap` at v0.35.0, v0.35.7 and v0.36.3.

use std::collections::BTreeMap;

use super::{Minor, NEWEST_READ, Stage, feature_gate};

/// The first minor whose kubelet checks dependencies.
pub const CHECKED_SINCE: Minor = Minor(35);

/// A gate and those that it needs, in the order of their names. A gate that is gone needs nothing and is needed by none.
#[rustfmt::skip]
pub const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("AuthorizeNodeWithSelectors", &["AuthorizeWithSelectors"]),
    ("ClusterTrustBundleProjection", &["ClusterTrustBundle"]),
    ("DRAAdminAccess", &["DynamicResourceAllocation"]),
    ("DRAConsumableCapacity", &["DynamicResourceAllocation"]),
    ("DRADeviceBindingConditions", &["DRAResourceClaimDeviceStatus", "DynamicResourceAllocation"]),
    ("DRADeviceTaintRules", &["DRADeviceTaints"]),
    ("DRADeviceTaints", &["DynamicResourceAllocation"]),
    ("DRAExtendedResource", &["DynamicResourceAllocation"]),
    ("DRAListTypeAttributes", &["DynamicResourceAllocation"]),
    ("DRANodeAllocatableResources", &["DynamicResourceAllocation"]),
    ("DRAPartitionableDevices", &["DynamicResourceAllocation"]),
    ("DRAPrioritizedList", &["DynamicResourceAllocation"]),
    ("DRAResourceClaimGranularStatusAuthorization", &["DRAResourceClaimDeviceStatus", "DynamicResourceAllocation"]),
    ("DRAResourcePoolStatus", &["DynamicResourceAllocation"]),
    ("DRASchedulerFilterTimeout", &["DynamicResourceAllocation"]),
    ("DRAWorkloadResourceClaims", &["DynamicResourceAllocation", "GenericWorkload"]),
    ("DeclarativeValidationBeta", &["DeclarativeValidation"]),
    ("DeclarativeValidationTakeover", &["DeclarativeValidation"]),
    ("DisableAllocatorDualWrite", &["MultiCIDRServiceAllocator"]),
    ("ExtendWebSocketsToKubelet", &["NodeDeclaredFeatures"]),
    ("GangScheduling", &["GenericWorkload"]),
    ("GracefulNodeShutdownBasedOnPodPriority", &["GracefulNodeShutdown"]),
    ("ImageVolumeWithDigest", &["ImageVolume"]),
    ("InPlacePodLevelResourcesVerticalScaling", &["InPlacePodVerticalScaling", "NodeDeclaredFeatures", "PodLevelResources"]),
    ("InPlacePodVerticalScalingAllocatedStatus", &["InPlacePodVerticalScaling"]),
    ("InPlacePodVerticalScalingExclusiveCPUs", &["InPlacePodVerticalScaling"]),
    ("InPlacePodVerticalScalingExclusiveMemory", &["InPlacePodVerticalScaling", "MemoryManager"]),
    ("InPlacePodVerticalScalingInitContainers", &["InPlacePodVerticalScaling", "NodeDeclaredFeatures"]),
    ("MatchLabelKeysInPodTopologySpreadSelectorMerge", &["MatchLabelKeysInPodTopologySpread"]),
    ("PodCertificateRequest", &["AuthorizeNodeWithSelectors"]),
    ("PodLevelResourceManagers", &["PodLevelResources"]),
    ("PodLifecycleSleepActionAllowZero", &["PodLifecycleSleepAction"]),
    ("ProcMountType", &["UserNamespacesSupport"]),
    ("ResourceHealthStatus", &["DynamicResourceAllocation"]),
    ("ResourceHealthStatusMessage", &["ResourceHealthStatus"]),
    ("RestartAllContainersOnContainerExits", &["ContainerRestartRules", "NodeDeclaredFeatures"]),
    ("ServiceAccountTokenNodeBinding", &["ServiceAccountTokenNodeBindingValidation"]),
    ("StaleControllerConsistencyDaemonSet", &["AtomicFIFO"]),
    ("StaleControllerConsistencyJob", &["AtomicFIFO"]),
    ("StaleControllerConsistencyReplicaSet", &["AtomicFIFO"]),
    ("StaleControllerConsistencyStatefulSet", &["AtomicFIFO"]),
    ("StorageVersionAPI", &["APIServerIdentity"]),
    ("StructuredAuthenticationConfigurationEgressSelector", &["StructuredAuthenticationConfiguration"]),
    ("StructuredAuthenticationConfigurationJWKSMetrics", &["StructuredAuthenticationConfiguration"]),
    ("TopologyAwareWorkloadScheduling", &["GenericWorkload"]),
    ("UnknownVersionInteroperabilityProxy", &["APIServerIdentity"]),
    ("UserNamespacesHostNetworkSupport", &["NodeDeclaredFeatures", "UserNamespacesSupport"]),
    ("WindowsCPUAndMemoryAffinity", &["MemoryManager"]),
    ("WindowsGracefulNodeShutdown", &["GracefulNodeShutdown"]),
    ("WorkloadAwarePreemption", &["GangScheduling"]),
    ("WorkloadWithJob", &["GenericWorkload"]),
];

/// The only edge that came after its gate: the gate, what it needs, and since when.
const LATER: (&str, &str, Minor) = ("UserNamespacesHostNetworkSupport", "NodeDeclaredFeatures", Minor(36));

/// An enabled gate, and one that it needs and that is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The enabled gate.
    pub gate: &'static str,
    /// The gate that is off.
    pub needs: &'static str,
}

/// The dependencies that keep a kubelet of a minor from starting with these gates. Nothing is said of minors that were
/// not read.
pub fn unmet(set: &BTreeMap<String, bool>, minor: Minor) -> Vec<Unmet> {
    if !(CHECKED_SINCE..=NEWEST_READ).contains(&minor) {
        return Vec::new();
    }
    let edges = DEPENDENCIES.iter().flat_map(|(gate, needs)| needs.iter().map(|needs| Unmet { gate, needs }));
    edges.filter(|edge| is_unmet(*edge, set, minor)).collect()
}

fn is_unmet(Unmet { gate, needs }: Unmet, set: &BTreeMap<String, bool>, minor: Minor) -> bool {
    let not_yet = (gate, needs) == (LATER.0, LATER.1) && minor < LATER.2;
    !not_yet && enabled(gate, set, minor) == Some(true) && enabled(needs, set, minor) == Some(false)
}

/// Whether a gate is on with these set, as `AllAlpha` and `AllBeta` have it where it is not set itself; `None` where the
/// minor does not know it.
fn enabled(name: &str, set: &BTreeMap<String, bool>, minor: Minor) -> Option<bool> {
    let gate = feature_gate(name).filter(|gate| gate.known_in(minor))?;
    let spec = gate.spec_in(minor)?;
    let all = match spec.stage {
        Stage::Alpha => set.get("AllAlpha"),
        Stage::Beta => set.get("AllBeta"),
        Stage::Stable => None,
    };
    Some(*set.get(name).or(all).unwrap_or(&spec.on))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(set: &[(&str, bool)], minor: u32) -> Vec<(&'static str, &'static str)> {
        let set = set.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
        unmet(&set, Minor(minor)).into_iter().map(|Unmet { gate, needs }| (gate, needs)).collect()
    }

    #[test]
    fn both_gates_of_every_dependency_are_in_the_table_of_gates() {
        let mut before = "";
        for (gate, needs) in DEPENDENCIES {
            assert!(before < *gate, "{before} before {gate}");
            before = gate;
            for name in needs.iter().chain([gate]) {
                assert!(feature_gate(name).is_some(), "{name}");
            }
        }
        assert!(DEPENDENCIES.iter().any(|(gate, needs)| *gate == LATER.0 && needs.contains(&LATER.1)));
    }

    #[test]
    fn a_kubelet_starts_with_the_defaults_of_its_minor() {
        for minor in 14..=40 {
            assert_eq!(found(&[], minor), [], "1.{minor}");
            assert_eq!(found(&[("AllBeta", false)], minor), [], "1.{minor}");
        }
    }

    #[test]
    fn an_enabled_gate_needs_its_dependencies_from_1_35_on() {
        type Case = (&'static [(&'static str, bool)], u32, &'static [(&'static str, &'static str)]);
        const BOTH: &[(&str, &str)] = &[
            ("GracefulNodeShutdownBasedOnPodPriority", "GracefulNodeShutdown"),
            ("WindowsGracefulNodeShutdown", "GracefulNodeShutdown"),
        ];
        let table: &[Case] = &[
            (&[("GracefulNodeShutdown", false)], 34, &[]),
            (&[("GracefulNodeShutdown", false)], 35, BOTH),
            (&[("GracefulNodeShutdown", false)], 36, BOTH),
            (&[("GracefulNodeShutdown", false)], 37, &[]),
            (
                &[("GracefulNodeShutdown", false), ("WindowsGracefulNodeShutdown", false)],
                36,
                &[("GracefulNodeShutdownBasedOnPodPriority", "GracefulNodeShutdown")],
            ),
            (
                &[
                    ("GracefulNodeShutdown", false),
                    ("WindowsGracefulNodeShutdown", false),
                    ("GracefulNodeShutdownBasedOnPodPriority", false),
                ],
                36,
                &[],
            ),
            (
                &[("AllBeta", false), ("WindowsGracefulNodeShutdown", true)],
                36,
                &[("WindowsGracefulNodeShutdown", "GracefulNodeShutdown")],
            ),
            (&[("ClusterTrustBundleProjection", true)], 36, &[("ClusterTrustBundleProjection", "ClusterTrustBundle")]),
            (&[("ClusterTrustBundleProjection", true), ("ClusterTrustBundle", true)], 36, &[]),
            (&[("UserNamespacesHostNetworkSupport", true)], 35, &[]),
            (
                &[("UserNamespacesHostNetworkSupport", true), ("NodeDeclaredFeatures", false)],
                36,
                &[
                    ("ExtendWebSocketsToKubelet", "NodeDeclaredFeatures"),
                    ("InPlacePodLevelResourcesVerticalScaling", "NodeDeclaredFeatures"),
                    ("InPlacePodVerticalScalingInitContainers", "NodeDeclaredFeatures"),
                    ("RestartAllContainersOnContainerExits", "NodeDeclaredFeatures"),
                    ("UserNamespacesHostNetworkSupport", "NodeDeclaredFeatures"),
                ],
            ),
        ];
        for (set, minor, expected) in table {
            assert_eq!(found(set, *minor), *expected, "{set:?} in 1.{minor}");
        }
    }
}
