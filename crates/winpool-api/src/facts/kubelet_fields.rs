//! The fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1): the first minor of each, its type, and its
//! support on Windows. No field was removed between 1.14 and 1.37.
//!
//! Sources: names, types and first minors from `config/v1beta1/types.go` of kubernetes/kubelet, release branches 1.14
//! to 1.36, v0.37.0-beta.0, and the main branch at 63b3249 (2026-07-23) for the fields since 1.37; ranges and
//! enumerations from `pkg/kubelet/apis/config/validation/validation.go` of kubernetes/kubernetes v1.36.2; support on
//! Windows from `validation_windows.go` in the same directory (1.21 to 1.36; its checks of 1.37 as pull requests after its code
//! freeze have them), and for `systemCgroups` from kubelet.exe 1.36.2; `pkg/kubelet/cm/container_manager_windows.go`, `pkg/kubelet/cm/memorymanager/memory_manager.go` and
//! `pkg/kubelet/nodeshutdown/nodeshutdown_manager_windows.go` (1.36). That Linux mechanisms (cgroups, iptables,
//! sysctls, seccomp, swap, rlimits) have no effect on Windows is inferred: no code for Windows reads their fields.
//!
//! `resolvConf`: `pkg/kubelet/network/dns/dns_windows.go` (kubernetes/kubernetes#110566 and #116800, both 1.27: a Windows kubelet
//! accepts an empty value, `Host`, or an existing file); `KubeletConfigurationPathRefs` in `pkg/kubelet/apis/config/helpers.go`,
//! by which `Host` in a file becomes a path below the directory of that file.

use super::Minor;

/// The JSON type of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldType {
    /// `true` or `false`.
    Bool,
    /// An integer between two bounds, both included.
    Integer(i64, i64),
    /// Any number.
    Number,
    /// A string.
    String,
    /// One of these strings.
    Enum(&'static [&'static str]),
    /// A duration in Go's format: `1m30s`.
    Duration,
    /// A duration between two bounds in seconds, both included.
    DurationWithin(u32, u32),
    /// A duration of zero, or of at least a second.
    GracePeriod,
    /// An absolute ASCII path without `.`, `..` and repeated separators.
    Directory,
    /// An empty string, [`HOST_RESOLVERS`], or an absolute path of Windows.
    ResolvConf,
    /// A list of strings.
    Strings,
    /// A list of integers.
    Integers,
    /// A map of strings.
    StringMap,
    /// A map of lists of strings.
    StringListMap,
    /// A map of booleans.
    BoolMap,
    /// A map from eviction signal to quantity or percentage.
    Thresholds,
    /// A map from eviction signal to duration.
    GracePeriods,
    /// An object with these fields.
    Object(&'static [(&'static str, FieldType)]),
    /// A list of objects with these fields.
    Objects(&'static [(&'static str, FieldType)]),
    /// An object whose fields are not checked, because they differ between minors.
    AnyObject,
}

/// The support of a field on Windows nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSupport {
    /// It has the same effect as on Linux.
    Supported,
    /// It is accepted and has no effect, for this reason.
    NoEffect(&'static str),
    /// The kubelet does not start or exits, as described here.
    Fatal(&'static str),
    /// winpool sets it from this setting.
    Managed(&'static str),
    /// winpool sets it to the only possible value, for this reason.
    Fixed(&'static str),
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub field_type: FieldType,
    /// The first minor that has it; 1.14 stands for that and earlier.
    pub since: Minor,
    /// The support on Windows.
    pub support: FieldSupport,
    /// The feature gate without which the field is rejected or has no effect on Windows.
    pub gate: Option<&'static str>,
}

/// The fields with which a Windows kubelet of a minor does not start.
pub fn fatal_in(minor: Minor) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| matches!(field.support, FieldSupport::Fatal(_)) && field.since <= minor)
}

/// The value of `resolvConf` with which pods get the name servers of the host. It works as a flag only.
pub const HOST_RESOLVERS: &str = "Host";
/// The first kubelet with [`HOST_RESOLVERS`].
pub const HOST_RESOLVERS_SINCE: Minor = Minor(27);

/// The field with this name.
pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

const fn supported(name: &'static str, since: u32, field_type: FieldType) -> Field {
    Field { name, field_type, since: Minor(since), support: FieldSupport::Supported, gate: None }
}

const fn gated(name: &'static str, since: u32, field_type: FieldType, gate: &'static str) -> Field {
    Field { gate: Some(gate), ..supported(name, since, field_type) }
}

const fn no_effect(name: &'static str, since: u32, field_type: FieldType, reason: &'static str) -> Field {
    Field { support: FieldSupport::NoEffect(reason), ..supported(name, since, field_type) }
}

const fn fatal(name: &'static str, since: u32, field_type: FieldType, effect: &'static str) -> Field {
    Field { support: FieldSupport::Fatal(effect), ..supported(name, since, field_type) }
}

const fn managed(name: &'static str, since: u32, field_type: FieldType, setting: &'static str) -> Field {
    Field { support: FieldSupport::Managed(setting), ..supported(name, since, field_type) }
}

const fn fixed(name: &'static str, since: u32, field_type: FieldType, reason: &'static str) -> Field {
    Field { support: FieldSupport::Fixed(reason), ..supported(name, since, field_type) }
}

/// A non-negative 32-bit integer.
const COUNT: FieldType = FieldType::Integer(0, i32::MAX as i64);
const POSITIVE: FieldType = FieldType::Integer(1, i32::MAX as i64);
const PORT: FieldType = FieldType::Integer(1, 65535);
const PORT_OR_OFF: FieldType = FieldType::Integer(0, 65535);
const ANY_INT: FieldType = FieldType::Integer(i64::MIN, i64::MAX);

const CGROUPS: &str = "Windows has no cgroups";
const IPTABLES: &str = "Windows has no iptables";
const SYSCTLS: &str = "Windows has no sysctls";
const SWAP: &str = "the kubelet does not manage swap on Windows";
const KERNEL: &str = "it configures the Linux kernel";
const AFFINITY: &str = "WindowsCPUAndMemoryAffinity";
const SHUTDOWN: &str = "WindowsGracefulNodeShutdown";

const AUTHENTICATION: FieldType = FieldType::Object(&[
    ("x509", FieldType::Object(&[("clientCAFile", FieldType::String)])),
    ("webhook", FieldType::Object(&[("enabled", FieldType::Bool), ("cacheTTL", FieldType::Duration)])),
    ("anonymous", FieldType::Object(&[("enabled", FieldType::Bool)])),
]);
const AUTHORIZATION: FieldType = FieldType::Object(&[
    ("mode", FieldType::Enum(&["AlwaysAllow", "Webhook"])),
    (
        "webhook",
        FieldType::Object(&[
            ("cacheAuthorizedTTL", FieldType::Duration),
            ("cacheUnauthorizedTTL", FieldType::Duration),
        ]),
    ),
]);
const BY_PRIORITY: FieldType = FieldType::Objects(&[("priority", ANY_INT), ("shutdownGracePeriodSeconds", COUNT)]);
const NUMA_LIMITS: FieldType = FieldType::Objects(&[("numaNode", COUNT), ("limits", FieldType::StringMap)]);
const TRACING: FieldType =
    FieldType::Object(&[("endpoint", FieldType::String), ("samplingRatePerMillion", FieldType::Integer(0, 1_000_000))]);
const TAINTS: FieldType =
    FieldType::Objects(&[("key", FieldType::String), ("value", FieldType::String), ("effect", FieldType::String)]);
const TLS_VERSIONS: FieldType = FieldType::Enum(&["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]);
const PULL_POLICIES: FieldType =
    FieldType::Enum(&["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"]);

/// Every field, in the order of the source.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    fixed    ("apiVersion",                              14, FieldType::String, "the value is always kubelet.config.k8s.io/v1beta1"),
    fixed    ("kind",                                    14, FieldType::String, "the value is always KubeletConfiguration"),
    supported("enableServer",                            19, FieldType::Bool),
    supported("staticPodPath",                           14, FieldType::String),
    supported("podLogsDir",                              30, FieldType::Directory),
    supported("syncFrequency",                           14, FieldType::Duration),
    supported("fileCheckFrequency",                      14, FieldType::Duration),
    supported("httpCheckFrequency",                      14, FieldType::Duration),
    supported("staticPodURL",                            14, FieldType::String),
    supported("staticPodURLHeader",                      14, FieldType::StringListMap),
    supported("address",                                 14, FieldType::String),
    supported("port",                                    14, PORT),
    supported("readOnlyPort",                            14, PORT_OR_OFF),
    supported("tlsCertFile",                             14, FieldType::String),
    supported("tlsPrivateKeyFile",                       14, FieldType::String),
    supported("tlsCipherSuites",                         14, FieldType::Strings),
    supported("tlsCurvePreferences",                     36, FieldType::Integers),
    supported("tlsMinVersion",                           14, TLS_VERSIONS),
    supported("rotateCertificates",                      14, FieldType::Bool),
    supported("serverTLSBootstrap",                      14, FieldType::Bool),
    supported("authentication",                          14, AUTHENTICATION),
    supported("authorization",                           14, AUTHORIZATION),
    supported("registryPullQPS",                         14, COUNT),
    supported("registryBurst",                           14, COUNT),
    gated    ("imagePullCredentialsVerificationPolicy",  33, PULL_POLICIES, "KubeletEnsureSecretPulledImages"),
    gated    ("preloadedImagesVerificationAllowlist",    33, FieldType::Strings, "KubeletEnsureSecretPulledImages"),
    supported("eventRecordQPS",                          14, COUNT),
    supported("eventBurst",                              14, COUNT),
    supported("enableDebuggingHandlers",                 14, FieldType::Bool),
    supported("enableContentionProfiling",               14, FieldType::Bool),
    supported("healthzPort",                             14, PORT_OR_OFF),
    supported("healthzBindAddress",                      14, FieldType::String),
    no_effect("oomScoreAdj",                             14, FieldType::Integer(-1000, 1000), "Windows has no OOM killer"),
    supported("clusterDomain",                           14, FieldType::String),
    supported("clusterDNS",                              14, FieldType::Strings),
    supported("streamingConnectionIdleTimeout",          14, FieldType::Duration),
    supported("nodeStatusUpdateFrequency",               14, FieldType::Duration),
    supported("nodeStatusReportFrequency",               14, FieldType::Duration),
    supported("nodeLeaseDurationSeconds",                14, POSITIVE),
    supported("imageMinimumGCAge",                       14, FieldType::Duration),
    gated    ("imageMaximumGCAge",                       29, FieldType::Duration, "ImageMaximumGCAge"),
    managed  ("imageGCHighThresholdPercent",             14, COUNT, "spec.kubelet.imageGC.highThresholdPercent"),
    managed  ("imageGCLowThresholdPercent",              14, COUNT, "spec.kubelet.imageGC.lowThresholdPercent"),
    supported("volumeStatsAggPeriod",                    14, FieldType::Duration),
    no_effect("kubeletCgroups",                          14, FieldType::String, CGROUPS),
    fatal    ("systemCgroups",                           14, FieldType::String, "a kubelet does not start with this field unless cgroupRoot is set, and Windows has no cgroups"),
    no_effect("cgroupRoot",                              14, FieldType::String, CGROUPS),
    fixed    ("cgroupsPerQOS",                           14, FieldType::Bool, "a Windows kubelet does not start with true up to 1.30, and ignores it from 1.31 on"),
    no_effect("cgroupDriver",                            14, FieldType::String, CGROUPS),
    gated    ("cpuManagerPolicy",                        14, FieldType::Enum(&["none", "static"]), AFFINITY),
    fatal    ("singleProcessOOMKill",                    32, FieldType::Bool, "a Windows kubelet does not start with this field"),
    gated    ("cpuManagerPolicyOptions",                 22, FieldType::StringMap, AFFINITY),
    gated    ("cpuManagerReconcilePeriod",               14, FieldType::Duration, AFFINITY),
    gated    ("memoryManagerPolicy",                     21, FieldType::Enum(&["None", "BestEffort"]), AFFINITY),
    gated    ("topologyManagerPolicy",                   16, FieldType::Enum(&["none", "best-effort", "restricted", "single-numa-node"]), AFFINITY),
    gated    ("topologyManagerScope",                    20, FieldType::Enum(&["container", "pod"]), AFFINITY),
    gated    ("topologyManagerPolicyOptions",            26, FieldType::StringMap, AFFINITY),
    no_effect("qosReserved",                             14, FieldType::StringMap, CGROUPS),
    supported("runtimeRequestTimeout",                   14, FieldType::Duration),
    no_effect("hairpinMode",                             14, FieldType::String, "it configures a Linux bridge"),
    managed  ("maxPods",                                 14, COUNT, "spec.kubelet.maxPods"),
    supported("podCIDR",                                 14, FieldType::String),
    no_effect("podPidsLimit",                            14, ANY_INT, "Windows kubelets do not limit processes"),
    supported("resolvConf",                              14, FieldType::ResolvConf),
    fatal    ("runOnce",                                 19, FieldType::Bool, "the kubelet exits"),
    no_effect("cpuCFSQuota",                             14, FieldType::Bool, KERNEL),
    no_effect("cpuCFSQuotaPeriod",                       14, FieldType::Duration, KERNEL),
    supported("nodeStatusMaxImages",                     19, FieldType::Integer(-1, i32::MAX as i64)),
    no_effect("maxOpenFiles",                            14, COUNT, "Windows has no limit on open files"),
    supported("contentType",                             14, FieldType::String),
    supported("kubeAPIQPS",                              14, COUNT),
    supported("kubeAPIBurst",                            14, COUNT),
    supported("serializeImagePulls",                     14, FieldType::Bool),
    supported("maxParallelImagePulls",                   27, POSITIVE),
    managed  ("evictionHard",                            14, FieldType::Thresholds, "spec.kubelet.evictionHard"),
    supported("evictionSoft",                            14, FieldType::Thresholds),
    supported("evictionSoftGracePeriod",                 14, FieldType::GracePeriods),
    supported("evictionPressureTransitionPeriod",        14, FieldType::Duration),
    supported("evictionMaxPodGracePeriod",               14, FieldType::Integer(i32::MIN as i64, i32::MAX as i64)),
    supported("evictionMinimumReclaim",                  14, FieldType::Thresholds),
    fixed    ("mergeDefaultEvictionSettings",            33, FieldType::Bool, "all default thresholds are written"),
    supported("podsPerCore",                             14, COUNT),
    supported("enableControllerAttachDetach",            14, FieldType::Bool),
    no_effect("protectKernelDefaults",                   14, FieldType::Bool, KERNEL),
    no_effect("makeIPTablesUtilChains",                  14, FieldType::Bool, IPTABLES),
    no_effect("iptablesMasqueradeBit",                   14, FieldType::Integer(0, 31), IPTABLES),
    no_effect("iptablesDropBit",                         14, FieldType::Integer(0, 31), IPTABLES),
    managed  ("featureGates",                            14, FieldType::BoolMap, "spec.kubelet.featureGates"),
    no_effect("failSwapOn",                              14, FieldType::Bool, SWAP),
    no_effect("memorySwap",                              22, FieldType::Object(&[("swapBehavior", FieldType::String)]), SWAP),
    managed  ("containerLogMaxSize",                     14, FieldType::String, "spec.kubelet.containerLogs.maxSize"),
    managed  ("containerLogMaxFiles",                    14, COUNT, "spec.kubelet.containerLogs.maxFiles"),
    supported("containerLogMaxWorkers",                  30, POSITIVE),
    supported("containerLogMonitorInterval",             30, FieldType::DurationWithin(3, u32::MAX)),
    supported("configMapAndSecretChangeDetectionStrategy", 14, FieldType::Enum(&["Get", "Cache", "Watch"])),
    managed  ("systemReserved",                          14, FieldType::StringMap, "spec.kubelet.systemReserved"),
    managed  ("kubeReserved",                            14, FieldType::StringMap, "spec.kubelet.kubeReserved"),
    managed  ("reservedSystemCPUs",                      17, FieldType::String, "spec.kubelet.systemReserved.cpu, which this field overrides"),
    supported("showHiddenMetricsForVersion",             18, FieldType::String),
    no_effect("systemReservedCgroup",                    14, FieldType::String, CGROUPS),
    no_effect("kubeReservedCgroup",                      14, FieldType::String, CGROUPS),
    fixed    ("enforceNodeAllocatable",                  14, FieldType::Strings, "a Windows kubelet does not start with entries up to 1.30, and ignores them from 1.31 on"),
    no_effect("allowedUnsafeSysctls",                    16, FieldType::Strings, SYSCTLS),
    fatal    ("defaultPodSysctls",                       37, FieldType::StringMap, "a Windows kubelet does not start with this field"),
    supported("volumePluginDir",                         19, FieldType::String),
    supported("providerID",                              19, FieldType::String),
    no_effect("kernelMemcgNotification",                 19, FieldType::Bool, CGROUPS),
    supported("logging",                                 19, FieldType::AnyObject),
    supported("enableSystemLogHandler",                  19, FieldType::Bool),
    gated    ("enableSystemLogQuery",                    27, FieldType::Bool, "NodeLogQuery"),
    gated    ("shutdownGracePeriod",                     20, FieldType::GracePeriod, SHUTDOWN),
    gated    ("shutdownGracePeriodCriticalPods",         20, FieldType::GracePeriod, SHUTDOWN),
    gated    ("shutdownGracePeriodByPodPriority",        23, BY_PRIORITY, SHUTDOWN),
    gated    ("crashLoopBackOff",                        32, FieldType::Object(&[("maxContainerRestartPeriod", FieldType::DurationWithin(1, 300))]), "KubeletCrashLoopBackOffMax"),
    gated    ("reservedMemory",                          21, NUMA_LIMITS, AFFINITY),
    supported("enableProfilingHandler",                  21, FieldType::Bool),
    supported("enableDebugFlagsHandler",                 21, FieldType::Bool),
    no_effect("seccompDefault",                          22, FieldType::Bool, "Windows has no seccomp"),
    no_effect("memoryThrottlingFactor",                  22, FieldType::Number, CGROUPS),
    no_effect("memoryReservationPolicy",                 36, FieldType::String, CGROUPS),
    managed  ("registerWithTaints",                      23, TAINTS, "spec.taints of the WindowsNodePool"),
    supported("registerNode",                            23, FieldType::Bool),
    gated    ("tracing",                                 25, TRACING, "KubeletTracing"),
    supported("localStorageCapacityIsolation",           25, FieldType::Bool),
    fixed    ("containerRuntimeEndpoint",                27, FieldType::String, "the container runtime of the node determines it"),
    supported("imageServiceEndpoint",                    27, FieldType::String),
    no_effect("failCgroupV1",                            31, FieldType::Bool, CGROUPS),
    fatal    ("userNamespaces",                          33, FieldType::Object(&[("idsPerPod", COUNT)]), "a Windows kubelet does not start with this field"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::facts::feature_gates::feature_gate;

    #[test]
    fn each_field_has_one_row() {
        let names = FIELDS.iter().map(|field| field.name).collect::<BTreeSet<_>>();
        assert_eq!(names.len(), FIELDS.len());
        for known in FIELDS {
            assert_eq!(field(known.name), Some(known));
        }
        assert_eq!(field("noSuchField"), None);
    }

    #[test]
    fn the_gate_of_a_field_is_in_the_table_of_gates() {
        for field in FIELDS {
            assert!(field.gate.is_none_or(|gate| feature_gate(gate).is_some()), "{}", field.name);
        }
    }

    #[test]
    fn the_fields_that_stop_a_windows_kubelet_increase_with_its_minor() {
        let table: [(std::ops::RangeInclusive<u32>, &[&str]); 5] = [
            (14..=18, &["systemCgroups"]),
            (19..=31, &["systemCgroups", "runOnce"]),
            (32..=32, &["systemCgroups", "singleProcessOOMKill", "runOnce"]),
            (33..=36, &["systemCgroups", "singleProcessOOMKill", "runOnce", "userNamespaces"]),
            (37..=38, &["systemCgroups", "singleProcessOOMKill", "runOnce", "defaultPodSysctls", "userNamespaces"]),
        ];
        for (minors, names) in table {
            for minor in minors.map(Minor) {
                assert_eq!(fatal_in(minor).map(|field| field.name).collect::<Vec<_>>(), names, "{minor}");
            }
        }
    }

    #[test]
    fn a_field_has_its_first_minor() {
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
