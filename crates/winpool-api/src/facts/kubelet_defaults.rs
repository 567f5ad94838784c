//! The defaults of fields of KubeletConfiguration that describe how a kubelet works. Fields that connect a node to its
//! cluster, such as `clusterDNS`, and those that have no effect on Windows are not listed.
//!
//! Sources: the comments in `config/v1beta1/types.go` of kubernetes/kubelet, release branches 1.20 to 1.36, and
//! `pkg/kubelet/apis/config/v1beta1/defaults.go` of kubernetes/kubernetes, main branch (2026-08). They disagree about
//! `nodeStatusReportFrequency` in 1.20 (1m in the comment, 5m from 1.21 on), `shutdownGracePeriod` and
//! `shutdownGracePeriodCriticalPods` in 1.20 (30s and 10s in the comment, 0s from 1.21 on), and the spelling of
//! `None`; this table has the later values, and the spelling of the code.

use super::Minor;

/// The value that a kubelet uses for a field that is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A string, or a duration in Go's format.
    Text(&'static str),
    /// No value.
    Unset,
}

/// A default, and the first minor that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDefault {
    /// The name of the field.
    pub field: &'static str,
    /// The first minor with this default; 1.20 stands for that and earlier.
    pub since: Minor,
    /// The default.
    pub value: DefaultValue,
}

/// The default of a field in a minor; `None` if the field is not in the table.
pub fn default_value(field: &str, minor: Minor) -> Option<DefaultValue> {
    let of_field = |default: &&FieldDefault| default.field == field && default.since <= minor;
    DEFAULTS.iter().rev().find(of_field).map(|default| default.value)
}

const fn flag(field: &'static str, since: u32, value: bool) -> FieldDefault {
    FieldDefault { field, since: Minor(since), value: DefaultValue::Bool(value) }
}

const fn number(field: &'static str, since: u32, value: i64) -> FieldDefault {
    FieldDefault { field, since: Minor(since), value: DefaultValue::Integer(value) }
}

const fn text(field: &'static str, since: u32, value: &'static str) -> FieldDefault {
    FieldDefault { field, since: Minor(since), value: DefaultValue::Text(value) }
}

const fn unset(field: &'static str, since: u32) -> FieldDefault {
    FieldDefault { field, since: Minor(since), value: DefaultValue::Unset }
}

/// The defaults, in the order of the source. Of several rows for a field, the last known one in a minor counts.
#[rustfmt::skip]
pub const DEFAULTS: &[FieldDefault] = &[
    text  ("syncFrequency",                             20, "1m"),
    text  ("fileCheckFrequency",                        20, "20s"),
    text  ("httpCheckFrequency",                        20, "20s"),
    number("registryPullQPS",                           20, 5),
    number("registryBurst",                             20, 10),
    number("eventRecordQPS",                            20, 5),
    number("eventRecordQPS",                            27, 50),
    number("eventBurst",                                20, 10),
    number("eventBurst",                                27, 100),
    flag  ("enableDebuggingHandlers",                   20, true),
    flag  ("enableContentionProfiling",                 20, false),
    text  ("streamingConnectionIdleTimeout",            20, "4h"),
    text  ("nodeStatusUpdateFrequency",                 20, "10s"),
    text  ("nodeStatusReportFrequency",                 20, "5m"),
    number("nodeLeaseDurationSeconds",                  20, 40),
    text  ("imageMinimumGCAge",                         20, "2m"),
    text  ("imageMaximumGCAge",                         29, "0s"),
    text  ("volumeStatsAggPeriod",                      20, "1m"),
    text  ("cpuManagerPolicy",                          20, "none"),
    unset ("cpuManagerPolicyOptions",                   22),
    text  ("cpuManagerReconcilePeriod",                 20, "10s"),
    text  ("memoryManagerPolicy",                       21, "None"),
    text  ("topologyManagerPolicy",                     20, "none"),
    text  ("topologyManagerScope",                      20, "container"),
    unset ("topologyManagerPolicyOptions",              26),
    text  ("runtimeRequestTimeout",                     20, "2m"),
    number("nodeStatusMaxImages",                       20, 50),
    text  ("contentType",                               20, "application/vnd.kubernetes.protobuf"),
    number("kubeAPIQPS",                                20, 5),
    number("kubeAPIQPS",                                27, 50),
    number("kubeAPIBurst",                              20, 10),
    number("kubeAPIBurst",                              27, 100),
    flag  ("serializeImagePulls",                       20, true),
    unset ("maxParallelImagePulls",                     27),
    unset ("evictionSoft",                              20),
    unset ("evictionSoftGracePeriod",                   20),
    text  ("evictionPressureTransitionPeriod",          20, "5m"),
    number("evictionMaxPodGracePeriod",                 20, 0),
    unset ("evictionMinimumReclaim",                    20),
    number("podsPerCore",                               20, 0),
    flag  ("enableControllerAttachDetach",              20, true),
    number("containerLogMaxWorkers",                    30, 1),
    text  ("containerLogMonitorInterval",               30, "10s"),
    text  ("configMapAndSecretChangeDetectionStrategy", 20, "Watch"),
    flag  ("enableSystemLogHandler",                    20, true),
    flag  ("enableSystemLogQuery",                      27, false),
    text  ("shutdownGracePeriod",                       20, "0s"),
    text  ("shutdownGracePeriodCriticalPods",           20, "0s"),
    unset ("shutdownGracePeriodByPodPriority",          23),
    unset ("reservedMemory",                            21),
    flag  ("enableProfilingHandler",                    21, true),
    flag  ("enableDebugFlagsHandler",                   21, true),
    flag  ("localStorageCapacityIsolation",             25, true),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::kubelet_fields::{FieldSupport, field};

    #[test]
    fn a_field_has_the_default_of_its_minor() {
        for (name, minor, expected) in [
            ("eventBurst", 26, Some(DefaultValue::Integer(10))),
            ("eventBurst", 27, Some(DefaultValue::Integer(100))),
            ("imageMaximumGCAge", 28, None),
            ("imageMaximumGCAge", 36, Some(DefaultValue::Text("0s"))),
            ("evictionSoft", 36, Some(DefaultValue::Unset)),
            ("clusterDNS", 36, None),
        ] {
            assert_eq!(default_value(name, Minor(minor)), expected, "{name} in 1.{minor}");
        }
    }

    #[test]
    fn the_fields_can_be_set_on_windows_from_the_minor_of_their_first_default() {
        for FieldDefault { field: name, since, .. } in DEFAULTS {
            let known = field(name).unwrap();
            assert_eq!(known.support, FieldSupport::Supported, "{name}");
            assert!(known.since <= *since, "{name}");
        }
    }
}
