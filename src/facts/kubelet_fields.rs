//! The fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1): since when there is each, its type, and what it
//! is worth on Windows. No field was ever removed from 1.14 to 1.37.
//!
//! Sources: names, types and first minors from `config/v1beta1/types.go` of kubernetes/kubelet, release branches 1.14
//! to 1.36, v0.37.0-beta.0, and the main branch at 63b3249 (2026-07-23) for the fields since 1.37; ranges and words from
//! `pkg/kubelet/apis/config/validation/validation.go` of kubernetes/kubernetes v1.36.2; what Windows makes of a
//! field from `validation_windows.go` beside it (1.21 to 1.36), `pkg/kubelet/cm/container_manager_windows.go`,
//! `pkg/kubelet/cm/memorymanager/memory_manager.go` and `pkg/kubelet/nodeshutdown/nodeshutdown_manager_windows.go`
//! (1.36). That Linux mechanisms (cgroups, iptables, sysctls, seccomp, swap, rlimits) have no effect on Windows is
//! inferred: no code for Windows reads their fields.

use jiff::civil::{Date, date};

use super::Minor;

/// The day of the newest source.
pub const AS_OF: Date = date(2026, 8, 22);

/// The type of a field, as JSON has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds, both included.
    Int(i64, i64),
    /// Any number.
    Number,
    /// Text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A length of time as Go writes it: `1m30s`.
    Duration,
    /// A length of time between two bounds in seconds, both included.
    DurationWithin(u32, u32),
    /// No time at all, or a second or more.
    GracePeriod,
    /// An absolute path without `.`, `..` and doubled separators, in ASCII.
    Directory,
    /// A list of texts.
    Texts,
    /// A list of whole numbers.
    Ints,
    /// Texts by name.
    TextMap,
    /// Lists of texts by name.
    TextsMap,
    /// `true` or `false` by name.
    BoolMap,
    /// A quantity or a percentage by eviction signal.
    Thresholds,
    /// Lengths of time by eviction signal.
    GracePeriods,
    /// An object with these fields.
    Object(&'static [(&'static str, Kind)]),
    /// A list of objects with these fields.
    Objects(&'static [(&'static str, Kind)]),
    /// An object that is not looked into, because its fields changed from minor to minor.
    AnyObject,
}

/// What a field is worth on a Windows node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does there what it does everywhere.
    Works,
    /// It is read and changes nothing, for this reason.
    NoEffect(&'static str),
    /// The kubelet does not start with it, or stops, for this reason.
    Fails(&'static str),
    /// winpool writes it; this is where to say what it should be.
    Ours(&'static str),
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The first minor that has it; 1.14 stands for that and earlier.
    pub since: Minor,
    /// What it is worth on Windows.
    pub standing: Standing,
    /// The feature gate without which the field is refused or does nothing on Windows.
    pub gate: Option<&'static str>,
}

/// The field of a name, if there is one.
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

const fn works(name: &'static str, since: u32, kind: Kind) -> Field {
    Field { name, kind, since: Minor(since), standing: Standing::Works, gate: None }
}

const fn gated(name: &'static str, since: u32, kind: Kind, gate: &'static str) -> Field {
    Field { name, kind, since: Minor(since), standing: Standing::Works, gate: Some(gate) }
}

const fn idle(name: &'static str, since: u32, kind: Kind, why: &'static str) -> Field {
    Field { name, kind, since: Minor(since), standing: Standing::NoEffect(why), gate: None }
}

const fn fails(name: &'static str, since: u32, kind: Kind, why: &'static str) -> Field {
    Field { name, kind, since: Minor(since), standing: Standing::Fails(why), gate: None }
}

const fn ours(name: &'static str, since: u32, kind: Kind, instead: &'static str) -> Field {
    Field { name, kind, since: Minor(since), standing: Standing::Ours(instead), gate: None }
}

/// A count: from 0 to the most that 32 bits hold.
const COUNT: Kind = Kind::Int(0, i32::MAX as i64);
const POSITIVE: Kind = Kind::Int(1, i32::MAX as i64);
const PORT: Kind = Kind::Int(1, 65535);
const PORT_OR_OFF: Kind = Kind::Int(0, 65535);
const ANY_INT: Kind = Kind::Int(i64::MIN, i64::MAX);

const CGROUPS: &str = "Windows has no cgroups";
const IPTABLES: &str = "Windows has no iptables";
const SYSCTLS: &str = "Windows has no sysctls";
const SWAP: &str = "the kubelet does not manage swap on Windows";
const KERNEL: &str = "it is about the Linux kernel";
const DEFAULTS_ARE_WRITTEN: &str = "nothing: every default threshold is written out";
const AFFINITY: &str = "WindowsCPUAndMemoryAffinity";
const SHUTDOWN: &str = "WindowsGracefulNodeShutdown";

const AUTHENTICATION: Kind = Kind::Object(&[
    ("x509", Kind::Object(&[("clientCAFile", Kind::Text)])),
    ("webhook", Kind::Object(&[("enabled", Kind::Bool), ("cacheTTL", Kind::Duration)])),
    ("anonymous", Kind::Object(&[("enabled", Kind::Bool)])),
]);
const AUTHORIZATION: Kind = Kind::Object(&[
    ("mode", Kind::Word(&["AlwaysAllow", "Webhook"])),
    ("webhook", Kind::Object(&[("cacheAuthorizedTTL", Kind::Duration), ("cacheUnauthorizedTTL", Kind::Duration)])),
]);
const BY_PRIORITY: Kind = Kind::Objects(&[("priority", ANY_INT), ("shutdownGracePeriodSeconds", COUNT)]);
const NUMA_LIMITS: Kind = Kind::Objects(&[("numaNode", COUNT), ("limits", Kind::TextMap)]);
const TRACING: Kind = Kind::Object(&[("endpoint", Kind::Text), ("samplingRatePerMillion", Kind::Int(0, 1_000_000))]);
const TAINTS: Kind = Kind::Objects(&[("key", Kind::Text), ("value", Kind::Text), ("effect", Kind::Text)]);
const TLS_VERSIONS: Kind = Kind::Word(&["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]);
const PULL_POLICIES: Kind =
    Kind::Word(&["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"]);

/// Every field, in the order of the source.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    ours ("apiVersion",                              14, Kind::Text, "nothing: it is kubelet.config.k8s.io/v1beta1"),
    ours ("kind",                                    14, Kind::Text, "nothing: it is KubeletConfiguration"),
    works("enableServer",                            19, Kind::Bool),
    works("staticPodPath",                           14, Kind::Text),
    works("podLogsDir",                              30, Kind::Directory),
    works("syncFrequency",                           14, Kind::Duration),
    works("fileCheckFrequency",                      14, Kind::Duration),
    works("httpCheckFrequency",                      14, Kind::Duration),
    works("staticPodURL",                            14, Kind::Text),
    works("staticPodURLHeader",                      14, Kind::TextsMap),
    works("address",                                 14, Kind::Text),
    works("port",                                    14, PORT),
    works("readOnlyPort",                            14, PORT_OR_OFF),
    works("tlsCertFile",                             14, Kind::Text),
    works("tlsPrivateKeyFile",                       14, Kind::Text),
    works("tlsCipherSuites",                         14, Kind::Texts),
    works("tlsCurvePreferences",                     36, Kind::Ints),
    works("tlsMinVersion",                           14, TLS_VERSIONS),
    works("rotateCertificates",                      14, Kind::Bool),
    works("serverTLSBootstrap",                      14, Kind::Bool),
    works("authentication",                          14, AUTHENTICATION),
    works("authorization",                           14, AUTHORIZATION),
    works("registryPullQPS",                         14, COUNT),
    works("registryBurst",                           14, COUNT),
    gated("imagePullCredentialsVerificationPolicy",  33, PULL_POLICIES, "KubeletEnsureSecretPulledImages"),
    gated("preloadedImagesVerificationAllowlist",    33, Kind::Texts, "KubeletEnsureSecretPulledImages"),
    works("eventRecordQPS",                          14, COUNT),
    works("eventBurst",                              14, COUNT),
    works("enableDebuggingHandlers",                 14, Kind::Bool),
    works("enableContentionProfiling",               14, Kind::Bool),
    works("healthzPort",                             14, PORT_OR_OFF),
    works("healthzBindAddress",                      14, Kind::Text),
    idle ("oomScoreAdj",                             14, Kind::Int(-1000, 1000), "Windows never kills a process for memory"),
    works("clusterDomain",                           14, Kind::Text),
    works("clusterDNS",                              14, Kind::Texts),
    works("streamingConnectionIdleTimeout",          14, Kind::Duration),
    works("nodeStatusUpdateFrequency",               14, Kind::Duration),
    works("nodeStatusReportFrequency",               14, Kind::Duration),
    works("nodeLeaseDurationSeconds",                14, POSITIVE),
    works("imageMinimumGCAge",                       14, Kind::Duration),
    gated("imageMaximumGCAge",                       29, Kind::Duration, "ImageMaximumGCAge"),
    ours ("imageGCHighThresholdPercent",             14, COUNT, "spec.kubelet.imageGC.highThresholdPercent"),
    ours ("imageGCLowThresholdPercent",              14, COUNT, "spec.kubelet.imageGC.lowThresholdPercent"),
    works("volumeStatsAggPeriod",                    14, Kind::Duration),
    idle ("kubeletCgroups",                          14, Kind::Text, CGROUPS),
    idle ("systemCgroups",                           14, Kind::Text, CGROUPS),
    idle ("cgroupRoot",                              14, Kind::Text, CGROUPS),
    ours ("cgroupsPerQOS",                           14, Kind::Bool, "nothing: a Windows kubelet needs false"),
    idle ("cgroupDriver",                            14, Kind::Text, CGROUPS),
    gated("cpuManagerPolicy",                        14, Kind::Word(&["none", "static"]), AFFINITY),
    fails("singleProcessOOMKill",                    32, Kind::Bool, "a Windows kubelet does not start with it"),
    gated("cpuManagerPolicyOptions",                 22, Kind::TextMap, AFFINITY),
    gated("cpuManagerReconcilePeriod",               14, Kind::Duration, AFFINITY),
    gated("memoryManagerPolicy",                     21, Kind::Word(&["None", "BestEffort"]), AFFINITY),
    gated("topologyManagerPolicy",                   16, Kind::Word(&["none", "best-effort", "restricted", "single-numa-node"]), AFFINITY),
    gated("topologyManagerScope",                    20, Kind::Word(&["container", "pod"]), AFFINITY),
    gated("topologyManagerPolicyOptions",            26, Kind::TextMap, AFFINITY),
    idle ("qosReserved",                             14, Kind::TextMap, CGROUPS),
    works("runtimeRequestTimeout",                   14, Kind::Duration),
    idle ("hairpinMode",                             14, Kind::Text, "it is about a Linux bridge"),
    ours ("maxPods",                                 14, COUNT, "spec.kubelet.maxPods"),
    works("podCIDR",                                 14, Kind::Text),
    idle ("podPidsLimit",                            14, ANY_INT, "Windows kubelets do not limit processes"),
    ours ("resolvConf",                              14, Kind::Text, "nothing: a Windows kubelet needs an empty one"),
    fails("runOnce",                                 19, Kind::Bool, "the kubelet would not go on running"),
    idle ("cpuCFSQuota",                             14, Kind::Bool, KERNEL),
    idle ("cpuCFSQuotaPeriod",                       14, Kind::Duration, KERNEL),
    works("nodeStatusMaxImages",                     19, Kind::Int(-1, i32::MAX as i64)),
    idle ("maxOpenFiles",                            14, COUNT, "Windows has no limit of open files"),
    works("contentType",                             14, Kind::Text),
    works("kubeAPIQPS",                              14, COUNT),
    works("kubeAPIBurst",                            14, COUNT),
    works("serializeImagePulls",                     14, Kind::Bool),
    works("maxParallelImagePulls",                   27, POSITIVE),
    ours ("evictionHard",                            14, Kind::Thresholds, "spec.kubelet.evictionHard"),
    works("evictionSoft",                            14, Kind::Thresholds),
    works("evictionSoftGracePeriod",                 14, Kind::GracePeriods),
    works("evictionPressureTransitionPeriod",        14, Kind::Duration),
    works("evictionMaxPodGracePeriod",               14, Kind::Int(i32::MIN as i64, i32::MAX as i64)),
    works("evictionMinimumReclaim",                  14, Kind::Thresholds),
    ours ("mergeDefaultEvictionSettings",            33, Kind::Bool, DEFAULTS_ARE_WRITTEN),
    works("podsPerCore",                             14, COUNT),
    works("enableControllerAttachDetach",            14, Kind::Bool),
    idle ("protectKernelDefaults",                   14, Kind::Bool, KERNEL),
    idle ("makeIPTablesUtilChains",                  14, Kind::Bool, IPTABLES),
    idle ("iptablesMasqueradeBit",                   14, Kind::Int(0, 31), IPTABLES),
    idle ("iptablesDropBit",                         14, Kind::Int(0, 31), IPTABLES),
    ours ("featureGates",                            14, Kind::BoolMap, "spec.kubelet.featureGates"),
    idle ("failSwapOn",                              14, Kind::Bool, SWAP),
    idle ("memorySwap",                              22, Kind::Object(&[("swapBehavior", Kind::Text)]), SWAP),
    ours ("containerLogMaxSize",                     14, Kind::Text, "spec.kubelet.containerLogs.maxSize"),
    ours ("containerLogMaxFiles",                    14, COUNT, "spec.kubelet.containerLogs.maxFiles"),
    works("containerLogMaxWorkers",                  30, POSITIVE),
    works("containerLogMonitorInterval",             30, Kind::DurationWithin(3, u32::MAX)),
    works("configMapAndSecretChangeDetectionStrategy", 14, Kind::Word(&["Get", "Cache", "Watch"])),
    ours ("systemReserved",                          14, Kind::TextMap, "spec.kubelet.systemReserved"),
    ours ("kubeReserved",                            14, Kind::TextMap, "spec.kubelet.kubeReserved"),
    ours ("reservedSystemCPUs",                      17, Kind::Text, "spec.kubelet.systemReserved.cpu, which it would overrule"),
    works("showHiddenMetricsForVersion",             18, Kind::Text),
    idle ("systemReservedCgroup",                    14, Kind::Text, CGROUPS),
    idle ("kubeReservedCgroup",                      14, Kind::Text, CGROUPS),
    ours ("enforceNodeAllocatable",                  14, Kind::Texts, "nothing: a Windows kubelet needs an empty list"),
    idle ("allowedUnsafeSysctls",                    16, Kind::Texts, SYSCTLS),
    idle ("defaultPodSysctls",                       37, Kind::TextMap, SYSCTLS),
    works("volumePluginDir",                         19, Kind::Text),
    works("providerID",                              19, Kind::Text),
    idle ("kernelMemcgNotification",                 19, Kind::Bool, CGROUPS),
    works("logging",                                 19, Kind::AnyObject),
    works("enableSystemLogHandler",                  19, Kind::Bool),
    gated("enableSystemLogQuery",                    27, Kind::Bool, "NodeLogQuery"),
    gated("shutdownGracePeriod",                     20, Kind::GracePeriod, SHUTDOWN),
    gated("shutdownGracePeriodCriticalPods",         20, Kind::GracePeriod, SHUTDOWN),
    gated("shutdownGracePeriodByPodPriority",        23, BY_PRIORITY, SHUTDOWN),
    gated("crashLoopBackOff",                        32, Kind::Object(&[("maxContainerRestartPeriod", Kind::DurationWithin(1, 300))]), "KubeletCrashLoopBackOffMax"),
    gated("reservedMemory",                          21, NUMA_LIMITS, AFFINITY),
    works("enableProfilingHandler",                  21, Kind::Bool),
    works("enableDebugFlagsHandler",                 21, Kind::Bool),
    idle ("seccompDefault",                          22, Kind::Bool, "Windows has no seccomp"),
    idle ("memoryThrottlingFactor",                  22, Kind::Number, CGROUPS),
    idle ("memoryReservationPolicy",                 36, Kind::Text, CGROUPS),
    ours ("registerWithTaints",                      23, TAINTS, "spec.taints of the WindowsNodePool"),
    works("registerNode",                            23, Kind::Bool),
    gated("tracing",                                 25, TRACING, "KubeletTracing"),
    works("localStorageCapacityIsolation",           25, Kind::Bool),
    ours ("containerRuntimeEndpoint",                27, Kind::Text, "nothing: it follows from the node's runtime"),
    works("imageServiceEndpoint",                    27, Kind::Text),
    idle ("failCgroupV1",                            31, Kind::Bool, CGROUPS),
    fails("userNamespaces",                          33, Kind::Object(&[("idsPerPod", COUNT)]), "a Windows kubelet does not start with it"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::facts::feature_gates::feature_gate;

    #[test]
    fn every_field_has_one_row() {
        let names = FIELDS.iter().map(|field| field.name).collect::<BTreeSet<_>>();
        assert_eq!(names.len(), FIELDS.len());
        for known in FIELDS {
            assert_eq!(field(known.name), Some(known));
        }
        assert_eq!(field("noSuchField"), None);
    }

    #[test]
    fn the_gate_of_a_field_is_one_that_some_minor_knows() {
        for field in FIELDS {
            assert!(field.gate.is_none_or(|gate| feature_gate(gate).is_some()), "{}", field.name);
        }
    }

    #[test]
    fn fields_come_with_their_minors() {
        let table = [
            ("evictionHard", 14),
            ("shutdownGracePeriod", 20),
            ("registerWithTaints", 23),
            ("containerRuntimeEndpoint", 27),
            ("mergeDefaultEvictionSettings", 33),
            ("defaultPodSysctls", 37),
        ];
        for (name, since) in table {
            assert_eq!(field(name).unwrap().since, Minor(since), "{name}");
        }
    }
}
