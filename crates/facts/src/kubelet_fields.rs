//! The fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1): the first minor of each, its type, its support on
//! Windows, its flag, its defaults, and whether the node agent writes it. No field was removed between 1.14 and 1.37. The fields of 1.38
//! are those of v0.38.0-beta.0 (read 2026-11-29).
//!
//! Sources, of kubernetes/kubernetes if no repository is named:
//! - names, types, first minors: kubernetes/kubelet, `config/v1beta1/types.go`, 1.14 to 1.36, v0.37.0-beta.0 and 63b3249
//!   (2026-07-23); ranges and enumerations: `pkg/kubelet/apis/config/validation/validation.go` (1.36.2);
//! - support on Windows: `validation_windows.go` beside it (1.21 to 1.37), kubelet.exe 1.36.2 for `systemCgroups`, and under
//!   `pkg/kubelet` (1.36) `cm/container_manager_windows.go`, `cm/memorymanager/memory_manager.go` and
//!   `nodeshutdown/nodeshutdown_manager_windows.go`. That Linux mechanisms have no effect is inferred: no code for Windows reads
//!   their fields;
//! - effect of CPU and memory affinity: microsoft/hcsshim pull request 2764 (in v0.15.0-rc.2 and later), and `go.mod` of containerd at
//!   v2.3.7 (rc.1) and v2.4.2 (rc.4), read 2026-11-29; `prefer-closest-numa-nodes`: kubernetes/kubernetes pull request 139760 (1.37);
//! - `resolvConf`: `pkg/kubelet/network/dns/dns_windows.go` (#110566 and #116800, 1.27), and `KubeletConfigurationPathRefs` in
//!   `pkg/kubelet/apis/config/helpers.go`: `Host` in a file becomes a path below the directory of that file;
//! - flags: kubernetes/website, `command-line-tools-reference/kubelet.md` (00cce41), rancher/rke2 and Azure/AgentBaker
//!   (2026-08-21), and `cmd/kubelet/app/options/options.go`. Not those of fields that a profile cannot set, of `registerWithTaints`, which is
//!   read only when a node registers, and of `featureGates`, which is merged with the field;
//! - defaults, of fields that describe how a kubelet works: the comments in `types.go` (1.20 to 1.36), and
//!   `pkg/kubelet/apis/config/v1beta1/defaults.go` (2026-08), which is followed where 1.20 disagrees.

use super::{ContainerdVersion, Minor};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldType {
    Bool,
    /// An integer between two bounds, both included.
    Integer(i64, i64),
    Number,
    String,
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
    Strings,
    Integers,
    StringMap,
    StringListMap,
    BoolMap,
    /// A map from eviction signal to quantity or percentage.
    Thresholds,
    /// A map from eviction signal to duration.
    GracePeriods,
    Object(&'static [(&'static str, FieldType)]),
    Objects(&'static [(&'static str, FieldType)]),
    Scalar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSupport {
    Supported,
    /// It is accepted and has no effect, for this reason.
    NoEffect(&'static str),
    /// The kubelet does not start or exits, as described here.
    Fatal(&'static str),
    /// winpool sets it from this setting.
    Managed(&'static str),
    /// winpool sets it to the only possible value, for this reason.
    Fixed(&'static str),
    /// A profile must not set it, for this reason.
    Refused(&'static str),
}

/// Whether the node agent writes a field. It runs as SYSTEM, and writes no field that changes who may access the kubelet
/// (`authentication`, `authorization`, certificates, addresses), what the kubelet runs on its own (static pods, plugins), or
/// where the runtime and the node's data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    Writes,
    Refuses,
}

use Agent::{Refuses, Writes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    Bool(bool),
    Integer(i64),
    /// A string, or a duration in Go's format.
    Text(&'static str),
    Unset,
}

use DefaultValue::{Bool, Integer, Text, Unset};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    pub agent: Agent,
    pub name: &'static str,
    pub field_type: FieldType,
    /// The first minor that has it; 1.14 stands for that and earlier.
    pub since: Minor,
    pub support: FieldSupport,
    /// The feature gate without which the field is rejected or has no effect on Windows.
    pub gate: Option<&'static str>,
    /// The first containerd with which it has an effect on Windows.
    pub containerd: Option<ContainerdVersion>,
    /// The flag of the kubelet, which takes precedence over the field.
    pub flag: Option<&'static str>,
    /// The defaults, each from a minor on; 20 stands for that minor and earlier ones.
    pub defaults: &'static [(u32, DefaultValue)],
}

impl Field {
    const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    const fn default(self, defaults: &'static [(u32, DefaultValue)]) -> Self {
        Self { defaults, ..self }
    }

    /// The default in a minor; `None` if none is listed.
    pub fn default_in(&self, minor: Minor) -> Option<DefaultValue> {
        self.defaults.iter().rev().find(|(since, _)| Minor(*since) <= minor).map(|(_, value)| *value)
    }
}

/// The fields with which a Windows kubelet of a minor does not start.
pub fn fatal_in(minor: Minor) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| matches!(field.support, FieldSupport::Fatal(_)) && field.since <= minor)
}

/// The value of `resolvConf` with which pods get the name servers of the host. It works as a flag only.
pub const HOST_RESOLVERS: &str = "Host";

pub fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

const fn supported(agent: Agent, name: &'static str, since: u32, field_type: FieldType) -> Field {
    let support = FieldSupport::Supported;
    Field {
        agent,
        name,
        field_type,
        since: Minor(since),
        support,
        gate: None,
        containerd: None,
        flag: None,
        defaults: &[],
    }
}

const fn gated(agent: Agent, name: &'static str, since: u32, field_type: FieldType, gate: &'static str) -> Field {
    Field { gate: Some(gate), ..supported(agent, name, since, field_type) }
}

/// A field about the affinity of processes and memory, to which the shim of earlier releases pays no attention.
const fn affinity(name: &'static str, since: u32, field_type: FieldType) -> Field {
    let containerd = Some(ContainerdVersion::new(2, 4, 0));
    Field { containerd, ..gated(Writes, name, since, field_type, AFFINITY) }
}

const fn no_effect(agent: Agent, name: &'static str, since: u32, field_type: FieldType, reason: &'static str) -> Field {
    Field { support: FieldSupport::NoEffect(reason), ..supported(agent, name, since, field_type) }
}

const fn fatal(agent: Agent, name: &'static str, since: u32, field_type: FieldType, effect: &'static str) -> Field {
    Field { support: FieldSupport::Fatal(effect), ..supported(agent, name, since, field_type) }
}

const fn managed(agent: Agent, name: &'static str, since: u32, field_type: FieldType, setting: &'static str) -> Field {
    Field { support: FieldSupport::Managed(setting), ..supported(agent, name, since, field_type) }
}

const fn fixed(agent: Agent, name: &'static str, since: u32, field_type: FieldType, reason: &'static str) -> Field {
    Field { support: FieldSupport::Fixed(reason), ..supported(agent, name, since, field_type) }
}

const fn refused(agent: Agent, name: &'static str, since: u32, field_type: FieldType, reason: &'static str) -> Field {
    Field { support: FieldSupport::Refused(reason), ..supported(agent, name, since, field_type) }
}

/// A non-negative 32-bit integer.
const COUNT: FieldType = FieldType::Integer(0, i32::MAX as i64);
const POSITIVE: FieldType = FieldType::Integer(1, i32::MAX as i64);
const PORT: FieldType = FieldType::Integer(1, 65535);
const PORT_OR_OFF: FieldType = FieldType::Integer(0, 65535);
const KEY_ALGORITHMS: FieldType = FieldType::Enum(&[
    "ECDSA-P256",
    "ECDSA-P384",
    "RSA-2048",
    "RSA-3072",
    "RSA-4096",
    "ML-DSA-44",
    "ML-DSA-65",
    "ML-DSA-87",
]);
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
    // With AlwaysAllow, the other mode, everyone who reaches the kubelet runs commands in the containers of the node.
    ("mode", FieldType::Enum(&["Webhook"])),
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
/// LoggingConfiguration of kubernetes/component-base (`logs/api/v1/types.go`) without `options`, which have no effect in a file: the kubelet
/// resets `splitStream` when it registers the flags, and the buffer size is for split streams only.
const LOGGING: FieldType = FieldType::Object(&[
    ("format", FieldType::Enum(&["text", "json"])),
    ("flushFrequency", FieldType::Scalar),
    ("verbosity", COUNT),
    ("vmodule", FieldType::Objects(&[("filePattern", FieldType::String), ("verbosity", COUNT)])),
]);
const STATIC_PODS: &str = "static pods run on the node without the API server, and could run as SYSTEM";
const TLS_VERSIONS: FieldType = FieldType::Enum(&["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]);
const PULL_POLICIES: FieldType =
    FieldType::Enum(&["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"]);

/// Every field, in the order of the source.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    fixed    (Refuses, "apiVersion",                                14, FieldType::String, "the value is always kubelet.config.k8s.io/v1beta1"),
    fixed    (Refuses, "kind",                                      14, FieldType::String, "the value is always KubeletConfiguration"),
    supported(Refuses, "enableServer",                              19, FieldType::Bool).flag("enable-server"),
    refused  (Refuses, "staticPodPath",                             14, FieldType::String, STATIC_PODS).flag("pod-manifest-path"),
    supported(Refuses, "podLogsDir",                                30, FieldType::Directory),
    supported(Writes,  "syncFrequency",                             14, FieldType::Duration).flag("sync-frequency").default(&[(20, Text("1m"))]),
    supported(Refuses, "fileCheckFrequency",                        14, FieldType::Duration).flag("file-check-frequency").default(&[(20, Text("20s"))]),
    supported(Refuses, "httpCheckFrequency",                        14, FieldType::Duration).flag("http-check-frequency").default(&[(20, Text("20s"))]),
    refused  (Refuses, "staticPodURL",                              14, FieldType::String, STATIC_PODS).flag("manifest-url"),
    refused  (Refuses, "staticPodURLHeader",                        14, FieldType::StringListMap, STATIC_PODS),
    supported(Refuses, "address",                                   14, FieldType::String).flag("address"),
    supported(Refuses, "port",                                      14, PORT).flag("port"),
    supported(Refuses, "readOnlyPort",                              14, PORT_OR_OFF).flag("read-only-port"),
    supported(Refuses, "tlsCertFile",                               14, FieldType::String).flag("tls-cert-file"),
    supported(Refuses, "tlsPrivateKeyFile",                         14, FieldType::String).flag("tls-private-key-file"),
    supported(Refuses, "tlsCipherSuites",                           14, FieldType::Strings).flag("tls-cipher-suites"),
    supported(Refuses, "tlsCurvePreferences",                       36, FieldType::Integers),
    supported(Refuses, "tlsMinVersion",                             14, TLS_VERSIONS).flag("tls-min-version"),
    supported(Refuses, "rotateCertificates",                        14, FieldType::Bool).flag("rotate-certificates"),
    supported(Refuses, "clientCertificateKeyAlgorithm",             38, KEY_ALGORITHMS),
    supported(Refuses, "serverCertificateKeyAlgorithm",             38, KEY_ALGORITHMS),
    supported(Refuses, "serverTLSBootstrap",                        14, FieldType::Bool).flag("rotate-server-certificates"),
    supported(Refuses, "authentication",                            14, AUTHENTICATION),
    supported(Refuses, "authorization",                             14, AUTHORIZATION),
    supported(Writes,  "registryPullQPS",                           14, COUNT).flag("registry-qps").default(&[(20, Integer(5))]),
    supported(Writes,  "registryBurst",                             14, COUNT).flag("registry-burst").default(&[(20, Integer(10))]),
    gated    (Refuses, "imagePullCredentialsVerificationPolicy",    33, PULL_POLICIES, "KubeletEnsureSecretPulledImages"),
    gated    (Refuses, "preloadedImagesVerificationAllowlist",      33, FieldType::Strings, "KubeletEnsureSecretPulledImages"),
    supported(Writes,  "eventRecordQPS",                            14, COUNT).flag("event-qps").default(&[(20, Integer(5)), (27, Integer(50))]),
    supported(Writes,  "eventBurst",                                14, COUNT).flag("event-burst").default(&[(20, Integer(10)), (27, Integer(100))]),
    supported(Refuses, "enableDebuggingHandlers",                   14, FieldType::Bool).flag("enable-debugging-handlers").default(&[(20, Bool(true))]),
    supported(Refuses, "enableContentionProfiling",                 14, FieldType::Bool).flag("contention-profiling").default(&[(20, Bool(false))]),
    supported(Writes,  "healthzPort",                               14, PORT_OR_OFF).flag("healthz-port"),
    supported(Refuses, "healthzBindAddress",                        14, FieldType::String).flag("healthz-bind-address"),
    no_effect(Refuses, "oomScoreAdj",                               14, FieldType::Integer(-1000, 1000), "Windows has no OOM killer"),
    supported(Writes,  "clusterDomain",                             14, FieldType::String).flag("cluster-domain"),
    supported(Writes,  "clusterDNS",                                14, FieldType::Strings).flag("cluster-dns"),
    supported(Writes,  "streamingConnectionIdleTimeout",            14, FieldType::Duration).flag("streaming-connection-idle-timeout").default(&[(20, Text("4h"))]),
    supported(Writes,  "nodeStatusUpdateFrequency",                 14, FieldType::Duration).flag("node-status-update-frequency").default(&[(20, Text("10s"))]),
    supported(Writes,  "nodeStatusReportFrequency",                 14, FieldType::Duration).default(&[(20, Text("5m"))]),
    supported(Writes,  "nodeLeaseDurationSeconds",                  14, POSITIVE).default(&[(20, Integer(40))]),
    supported(Writes,  "imageMinimumGCAge",                         14, FieldType::Duration).flag("minimum-image-ttl-duration").default(&[(20, Text("2m"))]),
    gated    (Writes,  "imageMaximumGCAge",                         29, FieldType::Duration, "ImageMaximumGCAge").default(&[(29, Text("0s"))]),
    managed  (Writes,  "imageGCHighThresholdPercent",               14, COUNT, "spec.kubelet.imageGC.highThresholdPercent").flag("image-gc-high-threshold"),
    managed  (Writes,  "imageGCLowThresholdPercent",                14, COUNT, "spec.kubelet.imageGC.lowThresholdPercent").flag("image-gc-low-threshold"),
    supported(Writes,  "volumeStatsAggPeriod",                      14, FieldType::Duration).flag("volume-stats-agg-period").default(&[(20, Text("1m"))]),
    no_effect(Refuses, "kubeletCgroups",                            14, FieldType::String, CGROUPS),
    fatal    (Refuses, "systemCgroups",                             14, FieldType::String, "a kubelet does not start with this field unless cgroupRoot is set, and Windows has no cgroups"),
    no_effect(Refuses, "cgroupRoot",                                14, FieldType::String, CGROUPS),
    fixed    (Writes,  "cgroupsPerQOS",                             14, FieldType::Bool, "a Windows kubelet does not start with true up to 1.30, and ignores it from 1.31 on"),
    no_effect(Refuses, "cgroupDriver",                              14, FieldType::String, CGROUPS),
    affinity ("cpuManagerPolicy",                          14, FieldType::Enum(&["none", "static"])).flag("cpu-manager-policy").default(&[(20, Text("none"))]),
    fatal    (Refuses, "singleProcessOOMKill",                      32, FieldType::Bool, "a Windows kubelet does not start with this field"),
    affinity ("cpuManagerPolicyOptions",                   22, FieldType::StringMap).flag("cpu-manager-policy-options").default(&[(22, Unset)]),
    affinity ("cpuManagerReconcilePeriod",                 14, FieldType::Duration).flag("cpu-manager-reconcile-period").default(&[(20, Text("10s"))]),
    affinity ("memoryManagerPolicy",                       21, FieldType::Enum(&["None", "BestEffort"])).flag("memory-manager-policy").default(&[(21, Text("None"))]),
    affinity ("topologyManagerPolicy",                     16, FieldType::Enum(&["none", "best-effort", "restricted", "single-numa-node"])).flag("topology-manager-policy").default(&[(20, Text("none"))]),
    affinity ("topologyManagerScope",                      20, FieldType::Enum(&["container", "pod"])).flag("topology-manager-scope").default(&[(20, Text("container"))]),
    affinity ("topologyManagerPolicyOptions",              26, FieldType::StringMap).flag("topology-manager-policy-options").default(&[(26, Unset)]),
    no_effect(Refuses, "qosReserved",                               14, FieldType::StringMap, CGROUPS),
    supported(Writes,  "runtimeRequestTimeout",                     14, FieldType::Duration).flag("runtime-request-timeout").default(&[(20, Text("2m"))]),
    no_effect(Refuses, "hairpinMode",                               14, FieldType::String, "it configures a Linux bridge"),
    managed  (Writes,  "maxPods",                                   14, COUNT, "spec.kubelet.maxPods").flag("max-pods"),
    supported(Refuses, "podCIDR",                                   14, FieldType::String).flag("pod-cidr"),
    no_effect(Refuses, "podPidsLimit",                              14, ANY_INT, "Windows kubelets do not limit processes"),
    supported(Writes,  "resolvConf",                                14, FieldType::ResolvConf).flag("resolv-conf"),
    fatal    (Refuses, "runOnce",                                   19, FieldType::Bool, "the kubelet exits"),
    no_effect(Refuses, "cpuCFSQuota",                               14, FieldType::Bool, KERNEL),
    no_effect(Refuses, "cpuCFSQuotaPeriod",                         14, FieldType::Duration, KERNEL),
    supported(Writes,  "nodeStatusMaxImages",                       19, FieldType::Integer(-1, i32::MAX as i64)).flag("node-status-max-images").default(&[(20, Integer(50))]),
    no_effect(Refuses, "maxOpenFiles",                              14, COUNT, "Windows has no limit on open files"),
    supported(Writes,  "contentType",                               14, FieldType::String).flag("kube-api-content-type").default(&[(20, Text("application/vnd.kubernetes.protobuf"))]),
    supported(Writes,  "kubeAPIQPS",                                14, COUNT).flag("kube-api-qps").default(&[(20, Integer(5)), (27, Integer(50))]),
    supported(Writes,  "kubeAPIBurst",                              14, COUNT).flag("kube-api-burst").default(&[(20, Integer(10)), (27, Integer(100))]),
    supported(Writes,  "serializeImagePulls",                       14, FieldType::Bool).flag("serialize-image-pulls").default(&[(20, Bool(true))]),
    supported(Writes,  "maxParallelImagePulls",                     27, POSITIVE).default(&[(27, Unset)]),
    managed  (Writes,  "evictionHard",                              14, FieldType::Thresholds, "spec.kubelet.evictionHard").flag("eviction-hard"),
    supported(Writes,  "evictionSoft",                              14, FieldType::Thresholds).flag("eviction-soft").default(&[(20, Unset)]),
    supported(Writes,  "evictionSoftGracePeriod",                   14, FieldType::GracePeriods).flag("eviction-soft-grace-period").default(&[(20, Unset)]),
    supported(Writes,  "evictionPressureTransitionPeriod",          14, FieldType::Duration).flag("eviction-pressure-transition-period").default(&[(20, Text("5m"))]),
    supported(Writes,  "evictionMaxPodGracePeriod",                 14, FieldType::Integer(i32::MIN as i64, i32::MAX as i64)).flag("eviction-max-pod-grace-period").default(&[(20, Integer(0))]),
    supported(Writes,  "evictionMinimumReclaim",                    14, FieldType::Thresholds).flag("eviction-minimum-reclaim").default(&[(20, Unset)]),
    fixed    (Writes,  "mergeDefaultEvictionSettings",              33, FieldType::Bool, "all default thresholds are written"),
    supported(Writes,  "podsPerCore",                               14, COUNT).flag("pods-per-core").default(&[(20, Integer(0))]),
    supported(Refuses, "enableControllerAttachDetach",              14, FieldType::Bool).flag("enable-controller-attach-detach").default(&[(20, Bool(true))]),
    no_effect(Refuses, "protectKernelDefaults",                     14, FieldType::Bool, KERNEL),
    no_effect(Refuses, "makeIPTablesUtilChains",                    14, FieldType::Bool, IPTABLES),
    no_effect(Refuses, "iptablesMasqueradeBit",                     14, FieldType::Integer(0, 31), IPTABLES),
    no_effect(Refuses, "iptablesDropBit",                           14, FieldType::Integer(0, 31), IPTABLES),
    managed  (Writes,  "featureGates",                              14, FieldType::BoolMap, "spec.kubelet.featureGates"),
    no_effect(Refuses, "failSwapOn",                                14, FieldType::Bool, SWAP),
    no_effect(Refuses, "memorySwap",                                22, FieldType::Object(&[("swapBehavior", FieldType::String)]), SWAP),
    managed  (Writes,  "containerLogMaxSize",                       14, FieldType::String, "spec.kubelet.containerLogs.maxSize").flag("container-log-max-size"),
    managed  (Writes,  "containerLogMaxFiles",                      14, COUNT, "spec.kubelet.containerLogs.maxFiles").flag("container-log-max-files"),
    supported(Writes,  "containerLogMaxWorkers",                    30, POSITIVE).default(&[(30, Integer(1))]),
    supported(Writes,  "containerLogMonitorInterval",               30, FieldType::DurationWithin(3, u32::MAX)).default(&[(30, Text("10s"))]),
    supported(Writes,  "configMapAndSecretChangeDetectionStrategy", 14, FieldType::Enum(&["Get", "Cache", "Watch"])).default(&[(20, Text("Watch"))]),
    managed  (Writes,  "systemReserved",                            14, FieldType::StringMap, "spec.kubelet.systemReserved").flag("system-reserved"),
    managed  (Writes,  "kubeReserved",                              14, FieldType::StringMap, "spec.kubelet.kubeReserved").flag("kube-reserved"),
    managed  (Refuses, "reservedSystemCPUs",                        17, FieldType::String, "spec.kubelet.systemReserved.cpu, which this field overrides").flag("reserved-cpus"),
    supported(Refuses, "showHiddenMetricsForVersion",               18, FieldType::String),
    no_effect(Refuses, "systemReservedCgroup",                      14, FieldType::String, CGROUPS),
    no_effect(Refuses, "kubeReservedCgroup",                        14, FieldType::String, CGROUPS),
    fixed    (Writes,  "enforceNodeAllocatable",                    14, FieldType::Strings, "a Windows kubelet does not start with entries up to 1.30, and ignores them from 1.31 on"),
    no_effect(Refuses, "allowedUnsafeSysctls",                      16, FieldType::Strings, SYSCTLS),
    fatal    (Refuses, "defaultPodSysctls",                         37, FieldType::StringMap, "a Windows kubelet does not start with this field"),
    refused  (Refuses, "volumePluginDir",                           19, FieldType::String, "the kubelet runs the programs in it as SYSTEM"),
    supported(Refuses, "providerID",                                19, FieldType::String).flag("provider-id"),
    no_effect(Refuses, "kernelMemcgNotification",                   19, FieldType::Bool, CGROUPS),
    supported(Writes,  "logging",                                   19, LOGGING),
    supported(Refuses, "enableSystemLogHandler",                    19, FieldType::Bool).default(&[(20, Bool(true))]),
    gated    (Refuses, "enableSystemLogQuery",                      27, FieldType::Bool, "NodeLogQuery").default(&[(27, Bool(false))]),
    gated    (Writes,  "shutdownGracePeriod",                       20, FieldType::GracePeriod, SHUTDOWN).default(&[(20, Text("0s"))]),
    gated    (Writes,  "shutdownGracePeriodCriticalPods",           20, FieldType::GracePeriod, SHUTDOWN).default(&[(20, Text("0s"))]),
    gated    (Writes,  "shutdownGracePeriodByPodPriority",          23, BY_PRIORITY, SHUTDOWN).default(&[(23, Unset)]),
    gated    (Writes,  "crashLoopBackOff",                          32, FieldType::Object(&[("maxContainerRestartPeriod", FieldType::DurationWithin(1, 300))]), "KubeletCrashLoopBackOffMax"),
    affinity ("reservedMemory",                            21, NUMA_LIMITS).flag("reserved-memory").default(&[(21, Unset)]),
    supported(Refuses, "enableProfilingHandler",                    21, FieldType::Bool).default(&[(21, Bool(true))]),
    supported(Refuses, "enableDebugFlagsHandler",                   21, FieldType::Bool).default(&[(21, Bool(true))]),
    no_effect(Refuses, "seccompDefault",                            22, FieldType::Bool, "Windows has no seccomp"),
    no_effect(Refuses, "memoryThrottlingFactor",                    22, FieldType::Number, CGROUPS),
    no_effect(Refuses, "memoryReservationPolicy",                   36, FieldType::String, CGROUPS),
    managed  (Writes,  "registerWithTaints",                        23, TAINTS, "spec.taints of the WindowsNodePool"),
    supported(Refuses, "registerNode",                              23, FieldType::Bool).flag("register-node"),
    gated    (Refuses, "tracing",                                   25, TRACING, "KubeletTracing"),
    supported(Writes,  "localStorageCapacityIsolation",             25, FieldType::Bool).flag("local-storage-capacity-isolation").default(&[(25, Bool(true))]),
    fixed    (Refuses, "containerRuntimeEndpoint",                  27, FieldType::String, "the container runtime of the node determines it"),
    refused  (Refuses, "imageServiceEndpoint",                      27, FieldType::String, "whoever answers there determines what containers run"),
    no_effect(Refuses, "failCgroupV1",                              31, FieldType::Bool, CGROUPS),
    fatal    (Refuses, "userNamespaces",                            33, FieldType::Object(&[("idsPerPod", COUNT)]), "a Windows kubelet does not start with this field"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::feature_gates::feature_gate;

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
        let table: [(std::ops::RangeInclusive<u32>, &[&str]); 4] = [
            (30..=31, &["systemCgroups", "runOnce"]),
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
    fn a_field_has_the_default_of_its_minor() {
        for (name, minor, expected) in [
            ("eventBurst", 26, Some(DefaultValue::Integer(10))),
            ("eventBurst", 27, Some(DefaultValue::Integer(100))),
            ("imageMaximumGCAge", 28, None),
            ("imageMaximumGCAge", 36, Some(DefaultValue::Text("0s"))),
            ("evictionSoft", 36, Some(DefaultValue::Unset)),
            ("clusterDNS", 36, None),
        ] {
            assert_eq!(field(name).unwrap().default_in(Minor(minor)), expected, "{name} in 1.{minor}");
        }
    }

    #[test]
    fn the_fields_can_be_set_on_windows_from_the_minor_of_their_first_default() {
        for field in FIELDS.iter().filter(|field| !field.defaults.is_empty()) {
            assert_eq!(field.support, FieldSupport::Supported, "{}", field.name);
            assert!(field.defaults.iter().all(|(since, _)| field.since <= Minor(*since)), "{}", field.name);
            assert!(field.defaults.is_sorted_by_key(|(since, _)| *since), "{}", field.name);
        }
    }

    #[test]
    fn the_agent_writes_no_field_that_changes_access_to_the_node_or_stops_its_kubelet() {
        let never =
            ["authentication", "authorization", "staticPodPath", "staticPodURL", "address", "port", "volumePluginDir"];
        for field in FIELDS {
            let is_refused = never.contains(&field.name)
                || field.name.starts_with("tls")
                || field.name.ends_with("Endpoint")
                || matches!(field.support, FieldSupport::Fatal(_) | FieldSupport::NoEffect(_));
            assert!(!is_refused || field.agent == Agent::Refuses, "{}", field.name);
        }
        assert_eq!(FIELDS.iter().filter(|field| field.agent == Agent::Writes).count(), 59);
    }
}
