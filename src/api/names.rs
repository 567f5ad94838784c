//! Names in the API: labels, annotations, field managers, conditions and their reasons.

/// The API group.
pub const GROUP: &str = "winpool.dev";
/// The default namespace of the operator and its ConfigMaps.
pub const DEFAULT_NAMESPACE: &str = "winpool-system";
/// The Secret in the operator's namespace with the key that signs the ownership records on nodes.
pub const OWNERSHIP_SECRET: &str = "winpool-ownership";
/// The finalizer of a pool whose `deletionPolicy` is `Cleanup`.
pub const FINALIZER: &str = "winpool.dev/cleanup";

/// Labels of Kubernetes and of winpool.
pub mod label {
    /// The operating system of a node.
    pub const OS: &str = "kubernetes.io/os";
    /// The deprecated form of [`OS`], which nodes still have.
    pub const BETA_OS: &str = "beta.kubernetes.io/os";
    /// The processor architecture of a node.
    pub const ARCH: &str = "kubernetes.io/arch";
    /// The hostname of a node.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    /// The Windows build of a node, `10.0.20348`.
    pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
    /// The manager of an object.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// The value of [`MANAGED_BY`] on winpool's objects.
    pub const MANAGED_BY_VALUE: &str = "winpool";
    /// The pool of a node or an object.
    pub const POOL: &str = "winpool.dev/pool";
}

/// Annotations of winpool.
pub mod annotation {
    /// On a node: the ConfigMap with its configuration.
    pub const CONFIG: &str = "winpool.dev/config";
    /// On a node: the signed record of the taints and labels that winpool added, and of those that existed before.
    pub const OWNED: &str = "winpool.dev/owned";
    /// On an adopted RuntimeClass: its previous content.
    pub const ADOPTED: &str = "winpool.dev/adopted";
    /// On a pool: the selector whose held nodes may be released.
    pub const ALLOW_RELEASE: &str = "winpool.dev/allow-release";
    /// On a pool: the windowsVersion that may leave pods without nodes.
    pub const ALLOW_STRAND: &str = "winpool.dev/allow-strand";
    /// On a pool: the NoExecute taints that may evict pods.
    pub const ALLOW_EVICT: &str = "winpool.dev/allow-evict";
    /// On an object or a pod template: the codes that `winpool lint` does not report, separated by commas.
    pub const LINT_IGNORE: &str = "winpool.dev/lint-ignore";
}

/// Field managers, one per concern.
pub mod manager {
    /// RuntimeClasses and ConfigMaps.
    pub const OBJECTS: &str = "winpool";
    /// Nodes.
    pub const NODES: &str = "winpool-nodes";
    /// The status of winpool's resources.
    pub const STATUS: &str = "winpool-status";
    /// Finalizers of winpool's resources.
    pub const FINALIZERS: &str = "winpool-finalizers";
}

/// Types of conditions. [`super::conditions`] describes them.
pub mod condition {
    /// The spec is applied.
    pub const READY: &str = "Ready";
    /// A new generation is being applied (kstatus).
    pub const RECONCILING: &str = "Reconciling";
    /// The operator cannot continue without a change to the pool or the cluster (kstatus).
    pub const STALLED: &str = "Stalled";
    /// The spec is valid.
    pub const SPEC_VALID: &str = "SpecValid";
    /// The profile exists and is valid, or none is named.
    pub const PROFILE_RESOLVED: &str = "ProfileResolved";
    /// Every matching node belongs to this pool alone.
    pub const NODES_ASSIGNED: &str = "NodesAssigned";
    /// The RuntimeClasses are as specified.
    pub const RUNTIME_CLASS_READY: &str = "RuntimeClassReady";
    /// Every node has the labels, the taints and the name of its configuration.
    pub const NODES_TAINTED: &str = "NodesTainted";
    /// The profile renders for every node.
    pub const CONFIG_RENDERED: &str = "ConfigRendered";
    /// A kubelet is outside the version skew policy.
    pub const VERSION_SKEW: &str = "VersionSkew";
    /// The operating systems of host and container are incompatible.
    pub const OS_MISMATCH: &str = "OSMismatch";
    /// Microsoft and the kubelet's minor version support this Windows.
    pub const OS_SUPPORTED: &str = "OSSupported";
    /// The container runtime supports kubelet, host and RuntimeClasses.
    pub const RUNTIME_SUPPORTED: &str = "RuntimeSupported";
    /// The reported resources of the nodes match the rendered configuration.
    pub const CONFIG_IN_EFFECT: &str = "ConfigInEffect";
    /// Every pod runs where it should, and would be scheduled there again.
    pub const WORKLOADS_PLACED: &str = "WorkloadsPlaced";
    /// The profile can be rendered.
    pub const VALID: &str = "Valid";
}

/// Reasons of conditions. They are stable: automation may compare them. [`super::conditions`] describes them.
pub mod reason {
    /// Ready: everything is as specified.
    pub const AS_SPECIFIED: &str = "AsSpecified";
    /// Ready, NodesTainted, RuntimeClassReady: mode is Observe, so only status is written.
    pub const OBSERVING: &str = "Observing";
    /// Ready: paused is true, so only status is written.
    pub const PAUSED: &str = "Paused";
    /// Ready: the pool is being deleted, and its cleanup is in progress.
    pub const DELETING: &str = "Deleting";
    /// Ready, RuntimeClassReady, NodesTainted, ConfigRendered: a request to the API server failed and is retried.
    pub const WRITE_FAILED: &str = "WriteFailed";
    /// Reconciling: a new generation is being applied.
    pub const PROGRESSING: &str = "Progressing";
    /// SpecValid, Valid: no problem was found.
    pub const VALID: &str = "Valid";
    /// SpecValid, ProfileResolved, Valid: the message lists the problems.
    pub const INVALID: &str = "Invalid";
    /// Valid: the profile can be rendered, with values that are known to cause problems.
    pub const VALID_WITH_WARNINGS: &str = "ValidWithWarnings";
    /// ProfileResolved: the profile exists and is valid.
    pub const RESOLVED: &str = "Resolved";
    /// ProfileResolved, ConfigRendered, ConfigInEffect: no profile is named.
    pub const NOT_USED: &str = "NotUsed";
    /// ProfileResolved: the profile does not exist.
    pub const NOT_FOUND: &str = "NotFound";
    /// NodesAssigned: every node belongs to this pool alone.
    pub const ASSIGNED: &str = "Assigned";
    /// NodesAssigned: no node matches, as in a pool that is scaled to zero.
    pub const NO_NODES: &str = "NoNodes";
    /// NodesAssigned: other pools match the same nodes.
    pub const NODE_CONFLICT: &str = "NodeConflict";
    /// NodesAssigned: nodes have the pool's label without a valid ownership record.
    pub const RECORD_NOT_VERIFIED: &str = "RecordNotVerified";
    /// NodesAssigned: nodes no longer match, and keep their taints until their release is allowed.
    pub const RELEASE_HELD: &str = "ReleaseHeld";
    /// RuntimeClassReady, NodesTainted: everything is as specified.
    pub const APPLIED: &str = "Applied";
    /// RuntimeClassReady: the class was not created by winpool.
    pub const NOT_OURS: &str = "NotOurs";
    /// RuntimeClassReady: another pool has a class of this name.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// RuntimeClassReady: the class has another handler, which is immutable.
    pub const HANDLER_DIFFERS: &str = "HandlerDiffers";
    /// RuntimeClassReady: the change would leave pods without nodes.
    pub const WOULD_STRAND: &str = "WouldStrand";
    /// NodesTainted: a taint of the same key and effect has another value.
    pub const TAINT_CONFLICT: &str = "TaintConflict";
    /// NodesTainted: a label has another value.
    pub const LABEL_CONFLICT: &str = "LabelConflict";
    /// NodesTainted: a NoExecute taint would evict pods.
    pub const WOULD_EVICT: &str = "WouldEvict";
    /// NodesTainted, RuntimeClassReady, ConfigRendered: another client repeatedly reverts winpool's changes.
    pub const CONTESTED: &str = "Contested";
    /// NodesTainted: admission rejects the taints.
    pub const REFUSED: &str = "Refused";
    /// ConfigRendered: every node has a configuration.
    pub const RENDERED: &str = "Rendered";
    /// ConfigRendered: a variant cannot be rendered.
    pub const FAILED: &str = "Failed";
    /// VersionSkew: every kubelet is within the policy.
    pub const WITHIN_POLICY: &str = "WithinPolicy";
    /// VersionSkew: a kubelet is newer than the API server.
    pub const KUBELET_NEWER_THAN_API_SERVER: &str = "KubeletNewerThanAPIServer";
    /// VersionSkew: a kubelet is too many minor versions behind the API server.
    pub const KUBELET_TOO_OLD: &str = "KubeletTooOld";
    /// OSMismatch: hosts and containers are compatible.
    pub const MATCHED: &str = "Matched";
    /// OSMismatch: the build of a node differs from the pool.
    pub const NODE_BUILD_DIFFERS: &str = "NodeBuildDiffers";
    /// OSMismatch: the pause image has no entry that the host can run.
    pub const PAUSE_IMAGE_CANNOT_RUN: &str = "PauseImageCannotRun";
    /// OSSupported, RuntimeSupported: supported.
    pub const SUPPORTED: &str = "Supported";
    /// OSSupported: mainstream support has ended.
    pub const EXTENDED_SUPPORT_ONLY: &str = "ExtendedSupportOnly";
    /// OSSupported: support ends within 180 days.
    pub const ENDING_SOON: &str = "EndingSoon";
    /// OSSupported, RuntimeSupported: support has ended.
    pub const END_OF_LIFE: &str = "EndOfLife";
    /// OSSupported: the kubelet's minor version does not support this Windows.
    pub const NOT_SUPPORTED_BY_KUBERNETES: &str = "NotSupportedByKubernetes";
    /// RuntimeSupported: the runtime is too old for the kubelet, the host or the pause image.
    pub const TOO_OLD: &str = "TooOld";
    /// RuntimeSupported: the runtime supports this kubelet and is too old for the next minor version.
    pub const TOO_OLD_FOR_NEXT_MINOR: &str = "TooOldForNextMinor";
    /// RuntimeSupported: the runtime does not have the handler of a RuntimeClass.
    pub const HANDLER_UNAVAILABLE: &str = "HandlerUnavailable";
    /// OSMismatch, VersionSkew, OSSupported, RuntimeSupported: a version is unknown.
    pub const UNKNOWN_VERSION: &str = "UnknownVersion";
    /// ConfigInEffect: the reported resources match the configuration.
    pub const IN_EFFECT: &str = "InEffect";
    /// ConfigInEffect: the reported resources are those of a kubelet without the configuration.
    pub const NOT_DELIVERED: &str = "NotDelivered";
    /// ConfigInEffect: the reported resources differ from the configuration.
    pub const DIFFERS: &str = "Differs";
    /// OSMismatch: images of workloads cannot run on the pool's nodes.
    pub const IMAGES_CANNOT_RUN: &str = "ImagesCannotRun";
    /// WorkloadsPlaced: no problem was found.
    pub const PLACED: &str = "Placed";
    /// WorkloadsPlaced: only warnings were found.
    pub const PLACED_WITH_WARNINGS: &str = "PlacedWithWarnings";
    /// WorkloadsPlaced: workloads are not checked, or not yet.
    pub const NOT_CHECKED: &str = "NotChecked";
    /// WorkloadsPlaced: the pods of a Windows workload fit no pool.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// WorkloadsPlaced: a DaemonSet selects the pool's nodes and does not tolerate their taints.
    pub const DAEMON_SET_NOT_TOLERATING: &str = "DaemonSetNotTolerating";
    /// WorkloadsPlaced: a DaemonSet relies on the selector and tolerations of its RuntimeClass, which its controller
    /// ignores.
    pub const DAEMON_SET_IGNORES_CLASS: &str = "DaemonSetIgnoresRuntimeClass";
    /// WorkloadsPlaced: a Linux pod is on a Windows node.
    pub const LINUX_POD_ON_WINDOWS_NODE: &str = "LinuxPodOnWindowsNode";
    /// WorkloadsPlaced: a Linux pod can be scheduled to the pool's nodes.
    pub const LINUX_POD_MAY_LAND: &str = "LinuxPodMayLand";
    /// WorkloadsPlaced: a pod on the pool's nodes would not be scheduled there again.
    pub const NOT_RESCHEDULABLE: &str = "NotReschedulable";
    /// WorkloadsPlaced: a pod has a former selector of its RuntimeClass.
    pub const RUNTIME_CLASS_CHANGED: &str = "RuntimeClassChanged";
    /// WorkloadsPlaced: the memory limits of the pods on a node exceed its allocatable memory.
    pub const MEMORY_OVERCOMMITTED: &str = "MemoryOvercommitted";
    /// WorkloadsPlaced: a container has no memory limit, or requests less than its limit.
    pub const MEMORY_NOT_RESERVED: &str = "MemoryNotReserved";
    /// WorkloadsPlaced: a pod uses fields that Windows ignores or rejects.
    pub const FIELDS_WITHOUT_EFFECT: &str = "FieldsWithoutEffect";
}
