//! The conditions of a Node that say what is done with it. Administrators, or controllers that they authorize, set and clear them.
//!
//! Sources, read 2026-11-29: kubernetes/api v0.37.2, `core/v1/types.go` (`NodeConditionType`; api v0.36.3 has none of them);
//! kubernetes/enhancements, `keps/sig-node/5683-lifecycle-conditions` (a state is present while the status is True; who has set a condition
//! sets False or removes it; no controller reads them in 1.37). The feature gate `NodeLifecycleConditions` is alpha in 1.37 and changes
//! nothing while it is off (`pkg/features/kube_features.go`), so that they can be set in any release.

/// A condition of the lifecycle of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleCondition {
    /// The type of the condition.
    pub name: &'static str,
    /// What it says while its status is True.
    pub meaning: &'static str,
    /// Whether somebody works on the node, so that others should not.
    pub is_occupied: bool,
}

const fn row(name: &'static str, is_occupied: bool, meaning: &'static str) -> LifecycleCondition {
    LifecycleCondition { name, meaning, is_occupied }
}

/// The conditions; those that say that somebody works on the node first.
pub const LIFECYCLE_CONDITIONS: &[LifecycleCondition] = &[
    row("MaintenanceInProgress", true, "the node is under maintenance"),
    row(DRAIN_IN_PROGRESS, true, "the node is being drained"),
    row("Drained", true, "the node was drained, and is not back in service"),
    row("GracefulNodeShutdownInProgress", true, "the node shuts down"),
    row("MaintenancePlanned", false, "a change of the node is planned"),
];

/// The condition of a drain. It is stale if the node is not cordoned (the KEP, under Troubleshooting).
pub const DRAIN_IN_PROGRESS: &str = "DrainInProgress";

/// The row of a condition.
pub fn lifecycle(condition: &str) -> Option<&'static LifecycleCondition> {
    LIFECYCLE_CONDITIONS.iter().find(|row| row.name == condition)
}
