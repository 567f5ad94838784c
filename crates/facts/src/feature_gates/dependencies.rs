//! Dependencies between feature gates. From 1.35 on a kubelet does not start if an enabled gate depends on a disabled
//! one.
//!
//! Sources: `defaultKubernetesFeatureGateDependencies` in `pkg/features/kube_features.go` of kubernetes/kubernetes at
//! v1.35.4, v1.36.2 and v1.37.2; the effect of a violation from `featuregate/feature_gate.go` of kubernetes/component-base,
//! which has no check at v0.34.10 and `unsafeSetFromMap` at v0.35.0, v0.35.7 and v0.36.3.

use std::collections::BTreeMap;

use super::{GateStage, Minor, NEWEST_READ, feature_gate};

/// The first minor whose kubelet checks dependencies.
pub const CHECKED_SINCE: Minor = Minor(35);

/// Each gate with the gates that it depends on, sorted by name. Removed gates have no dependencies and no dependents.
#[rustfmt::skip]
pub const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("AuthorizeNodeWithSelectors", &["AuthorizeWithSelectors"]),
    ("ClusterTrustBundleProjection", &["ClusterTrustBundle"]),
    ("CompositePodGroup", &["GenericWorkload", "TopologyAwareWorkloadScheduling"]),
    ("DRAAdminAccess", &["DynamicResourceAllocation"]),
    ("DRAConsumableCapacity", &["DynamicResourceAllocation"]),
    ("DRADerivedAttributes", &["DynamicResourceAllocation"]),
    ("DRADeviceBindingConditions", &["DRAResourceClaimDeviceStatus", "DynamicResourceAllocation"]),
    ("DRADeviceCompatibilityGroups", &["DRAPartitionableDevices", "DynamicResourceAllocation"]),
    ("DRADeviceTaintRules", &["DRADeviceTaints"]),
    ("DRADeviceTaints", &["DynamicResourceAllocation"]),
    ("DRAExtendedResource", &["DynamicResourceAllocation"]),
    ("DRAFractionalCapacityRange", &["DRAConsumableCapacity"]),
    ("DRAListTypeAttributes", &["DynamicResourceAllocation"]),
    ("DRANodeAllocatableResources", &["DynamicResourceAllocation"]),
    ("DRAOptionalNodeOperations", &["DynamicResourceAllocation", "NodeDeclaredFeatures"]),
    ("DRAPartitionableDevices", &["DynamicResourceAllocation"]),
    ("DRAPartitionableDevicesType", &["DRAPartitionableDevices", "DRAResourcePoolStatus", "DynamicResourceAllocation"]),
    ("DRAPrioritizedList", &["DynamicResourceAllocation"]),
    ("DRAResourceClaimGranularStatusAuthorization", &["DRAResourceClaimDeviceStatus", "DynamicResourceAllocation"]),
    ("DRAResourcePoolStatus", &["DynamicResourceAllocation"]),
    ("DRASchedulerFilterTimeout", &["DynamicResourceAllocation"]),
    ("DRAWorkloadResourceClaims", &["DynamicResourceAllocation", "GenericWorkload"]),
    ("DeclarativeValidationBeta", &["DeclarativeValidation"]),
    ("DeclarativeValidationTakeover", &["DeclarativeValidation"]),
    ("DisableAllocatorDualWrite", &["MultiCIDRServiceAllocator"]),
    ("EventedPLEG", &["PLEGOnDemandRelist"]),
    ("ExtendWebSocketsToKubelet", &["NodeDeclaredFeatures"]),
    ("GangScheduling", &["GenericWorkload"]),
    ("GracefulNodeShutdownBasedOnPodPriority", &["GracefulNodeShutdown"]),
    ("H2CContainerProbe", &["NodeDeclaredFeatures"]),
    ("ImageVolumeWithDigest", &["ImageVolume"]),
    ("InPlacePodLevelResourcesVerticalScaling", &["InPlacePodVerticalScaling", "NodeDeclaredFeatures", "PodLevelResources"]),
    ("InPlacePodVerticalScalingAllocatedStatus", &["InPlacePodVerticalScaling"]),
    ("InPlacePodVerticalScalingExclusiveCPUs", &["InPlacePodVerticalScaling"]),
    ("InPlacePodVerticalScalingExclusiveMemory", &["InPlacePodVerticalScaling", "MemoryManager"]),
    ("InPlacePodVerticalScalingInitContainers", &["InPlacePodVerticalScaling", "NodeDeclaredFeatures"]),
    ("InPlacePodVerticalScalingMemoryBackedVolumes", &["InPlacePodVerticalScaling", "NodeDeclaredFeatures"]),
    ("InPlacePodVerticalScalingSchedulerPreemption", &["InPlacePodVerticalScaling"]),
    ("KubeletAllocatedPodsEndpoint", &["InPlacePodVerticalScaling"]),
    ("MatchLabelKeysInPodTopologySpreadSelectorMerge", &["MatchLabelKeysInPodTopologySpread"]),
    ("NodeControllerLeaseCircuitBreaker", &["AtomicFIFO"]),
    ("PodCertificateRequest", &["AuthorizeNodeWithSelectors"]),
    ("PodGroupPreemptionPolicy", &["GenericWorkload"]),
    ("PodLevelResourceManagers", &["PodLevelResources"]),
    ("PodLevelResourcesFixDefaulting", &["PodLevelResources"]),
    ("PodLevelResourcesFixKubeletQOSClass", &["PodLevelResources"]),
    ("PodLifecycleSleepActionAllowZero", &["PodLifecycleSleepAction"]),
    ("ProcMountType", &["UserNamespacesSupport"]),
    ("ResourceHealthStatus", &["DynamicResourceAllocation"]),
    ("ResourceHealthStatusMessage", &["ResourceHealthStatus"]),
    ("RestartAllContainersOnContainerExits", &["ContainerRestartRules", "NodeDeclaredFeatures"]),
    ("ServiceAccountTokenNodeBinding", &["ServiceAccountTokenNodeBindingValidation"]),
    ("StaleControllerConsistencyDaemonSet", &["AtomicFIFO"]),
    ("StaleControllerConsistencyHPA", &["AtomicFIFO"]),
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

/// Dependencies that were added after both gates: the gate, its dependency, and the first minor.
const ADDED_LATER: [(&str, &str, Minor); 2] = [
    ("EventedPLEG", "PLEGOnDemandRelist", Minor(37)),
    ("UserNamespacesHostNetworkSupport", "NodeDeclaredFeatures", Minor(36)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmetDependency {
    pub gate: &'static str,
    pub needs: &'static str,
}

/// The dependencies that prevent a kubelet or kube-proxy of a minor from starting with these gates. A minor that is newer than
/// those that were read is treated as the newest of them.
pub fn unmet_dependencies(set: &BTreeMap<String, bool>, minor: Minor) -> Vec<UnmetDependency> {
    if minor < CHECKED_SINCE {
        return Vec::new();
    }
    let minor = minor.min(NEWEST_READ);
    let all = DEPENDENCIES.iter().flat_map(|(gate, needs)| needs.iter().map(|needs| UnmetDependency { gate, needs }));
    all.filter(|dependency| is_unmet(*dependency, set, minor)).collect()
}

fn is_unmet(UnmetDependency { gate, needs }: UnmetDependency, set: &BTreeMap<String, bool>, minor: Minor) -> bool {
    let not_yet = ADDED_LATER.iter().any(|added| (added.0, added.1) == (gate, needs) && minor < added.2);
    !not_yet && enabled(gate, set, minor) == Some(true) && enabled(needs, set, minor) == Some(false)
}

/// Whether these settings enable a gate. `AllAlpha` and `AllBeta` apply to a gate without a setting of its own. `None`
/// if the minor does not know the gate.
fn enabled(name: &str, set: &BTreeMap<String, bool>, minor: Minor) -> Option<bool> {
    let gate = feature_gate(name).filter(|gate| gate.known_in(minor))?;
    let spec = gate.spec_in(minor)?;
    let all = match spec.stage {
        GateStage::Alpha => set.get("AllAlpha"),
        GateStage::Beta => set.get("AllBeta"),
        GateStage::Stable => None,
    };
    Some(*set.get(name).or(all).unwrap_or(&spec.default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmet(set: &[(&str, bool)], minor: u32) -> Vec<(&'static str, &'static str)> {
        let set = set.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect();
        unmet_dependencies(&set, Minor(minor)).into_iter().map(|found| (found.gate, found.needs)).collect()
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
        for (gate, needs, _) in ADDED_LATER {
            assert!(DEPENDENCIES.iter().any(|row| row.0 == gate && row.1.contains(&needs)), "{gate}");
        }
    }

    #[test]
    fn a_kubelet_starts_with_the_defaults_of_its_minor() {
        for minor in 30..=40 {
            assert_eq!(unmet(&[], minor), [], "1.{minor}");
            assert_eq!(unmet(&[("AllBeta", false)], minor), [], "1.{minor}");
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
            (&[("GracefulNodeShutdown", false)], 37, BOTH),
            (&[("GracefulNodeShutdown", false)], 38, BOTH),
            (&[("PLEGOnDemandRelist", false), ("EventedPLEG", true)], 36, &[]),
            (&[("DRAConsumableCapacity", false)], 37, &[]),
            (
                &[("DRAConsumableCapacity", false), ("DRAFractionalCapacityRange", true)],
                37,
                &[("DRAFractionalCapacityRange", "DRAConsumableCapacity")],
            ),
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
            assert_eq!(unmet(set, *minor), *expected, "{set:?} in 1.{minor}");
        }
    }
}
