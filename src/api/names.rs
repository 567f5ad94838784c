//! Every name that other programs see: labels, annotations, field managers, conditions and their reasons.

/// The API group.
pub const GROUP: &str = "winpool.dev";
/// The namespace that the operator runs in and keeps its ConfigMaps in, unless told otherwise.
pub const DEFAULT_NAMESPACE: &str = "winpool-system";
/// The Secret in the operator's namespace with the key that signs what is ours on nodes.
pub const OWNERSHIP_SECRET: &str = "winpool-ownership";
/// The finalizer of a pool whose `deletionPolicy` is `Cleanup`.
pub const FINALIZER: &str = "winpool.dev/cleanup";

/// Labels, of Kubernetes and of ours.
pub mod label {
    /// The operating system of a node.
    pub const OS: &str = "kubernetes.io/os";
    /// The same before Kubernetes 1.14; nodes still have it beside the other.
    pub const BETA_OS: &str = "beta.kubernetes.io/os";
    /// The processor architecture of a node.
    pub const ARCH: &str = "kubernetes.io/arch";
    /// The name of a node's host.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    /// The Windows build of a node, `10.0.20348`.
    pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
    /// Who manages an object.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// The value of [`MANAGED_BY`] on objects of ours.
    pub const MANAGED_BY_VALUE: &str = "winpool";
    /// The pool to which a node or an object belongs.
    pub const POOL: &str = "winpool.dev/pool";
}

/// Annotations, of others and of ours.
pub mod annotation {
    /// On a node: the ConfigMap with the configuration that it should run.
    pub const CONFIG: &str = "winpool.dev/config";
    /// On a node: which taints and labels were added by us, and which were found; signed.
    pub const OWNED: &str = "winpool.dev/owned";
    /// On a RuntimeClass that was taken over: what it was before.
    pub const ADOPTED: &str = "winpool.dev/adopted";
    /// On a pool: the generation whose nodes may be let go.
    pub const ALLOW_RELEASE: &str = "winpool.dev/allow-release";
    /// On a pool: the generation whose windowsVersion may leave the old nodes without a RuntimeClass.
    pub const ALLOW_STRAND: &str = "winpool.dev/allow-strand";
    /// On a pool: the generation whose NoExecute taints may evict pods.
    pub const ALLOW_EVICT: &str = "winpool.dev/allow-evict";
    /// On an object or a pod template: codes that `winpool lint` leaves out, with commas.
    pub const LINT_IGNORE: &str = "winpool.dev/lint-ignore";
}

/// Field managers: one for each concern.
pub mod manager {
    /// RuntimeClasses and ConfigMaps.
    pub const OBJECTS: &str = "winpool";
    /// Nodes.
    pub const NODES: &str = "winpool-nodes";
    /// The status of our own resources.
    pub const STATUS: &str = "winpool-status";
    /// Finalizers of our own resources.
    pub const FINALIZERS: &str = "winpool-finalizers";
}

/// Types of conditions.
pub mod condition {
    /// What the spec asks of the operator is done.
    pub const READY: &str = "Ready";
    /// A generation is not yet acted on (kstatus).
    pub const RECONCILING: &str = "Reconciling";
    /// No progress without a person (kstatus).
    pub const STALLED: &str = "Stalled";
    /// The spec can be acted on.
    pub const SPEC_VALID: &str = "SpecValid";
    /// The profile exists and is valid, or none is named.
    pub const PROFILE_RESOLVED: &str = "ProfileResolved";
    /// Every matched node belongs to this pool alone.
    pub const NODES_ASSIGNED: &str = "NodesAssigned";
    /// The RuntimeClasses are as specified.
    pub const RUNTIME_CLASS_READY: &str = "RuntimeClassReady";
    /// Labels, taints and config name are on every node.
    pub const NODES_CONFIGURED: &str = "NodesConfigured";
    /// The profile renders.
    pub const CONFIG_RENDERED: &str = "ConfigRendered";
    /// A kubelet is outside the version skew policy.
    pub const VERSION_SKEW: &str = "VersionSkew";
    /// Host and container operating system do not fit.
    pub const OS_MISMATCH: &str = "OSMismatch";
    /// This Windows is supported by the kubelet's minor and by Microsoft today.
    pub const OS_SUPPORTED: &str = "OSSupported";
    /// The container runtime fits.
    pub const RUNTIME_SUPPORTED: &str = "RuntimeSupported";
    /// The nodes' own numbers show that the rendered configuration is in effect.
    pub const CONFIG_IN_EFFECT: &str = "ConfigInEffect";
    /// The workloads of the pool are where they should be, and would come back there.
    pub const WORKLOADS_PLACED: &str = "WorkloadsPlaced";
    /// A profile can be rendered.
    pub const VALID: &str = "Valid";
}

/// Reasons of conditions. They are stable: automation may compare them.
pub mod reason {
    /// Ready: everything is as the spec says.
    pub const AS_SPECIFIED: &str = "AsSpecified";
    /// Ready, NodesConfigured: mode is Observe, so nothing but status is written.
    pub const OBSERVING: &str = "Observing";
    /// Ready: paused is true.
    pub const PAUSED: &str = "Paused";
    /// Ready: a clean-up is under way.
    pub const DELETING: &str = "Deleting";
    /// Ready, Stalled: a request to the API server failed and is tried again.
    pub const WRITE_FAILED: &str = "WriteFailed";
    /// Reconciling: a new generation is acted on.
    pub const PROGRESSING: &str = "Progressing";
    /// SpecValid, Valid: no problem found.
    pub const VALID: &str = "Valid";
    /// SpecValid, ProfileResolved, Valid: each problem is in the message.
    pub const INVALID: &str = "Invalid";
    /// Valid: renders, with values that are known to hurt.
    pub const VALID_WITH_WARNINGS: &str = "ValidWithWarnings";
    /// ProfileResolved: the profile exists and is valid.
    pub const RESOLVED: &str = "Resolved";
    /// ProfileResolved, ConfigRendered, ConfigInEffect: no profile is named.
    pub const NOT_USED: &str = "NotUsed";
    /// ProfileResolved: there is no profile of that name.
    pub const NOT_FOUND: &str = "NotFound";
    /// NodesAssigned: each node is in this pool alone.
    pub const ASSIGNED: &str = "Assigned";
    /// NodesAssigned: no node matches; autoscalers make empty pools.
    pub const NO_NODES: &str = "NoNodes";
    /// NodesAssigned: other pools match the same nodes.
    pub const NODE_CONFLICT: &str = "NodeConflict";
    /// NodesAssigned: nodes have the pool's label, and no record that proves that the pool labelled them.
    pub const RECORD_NOT_VERIFIED: &str = "RecordNotVerified";
    /// NodesAssigned: nodes stopped matching and keep their guard until the release is allowed.
    pub const RELEASE_HELD: &str = "ReleaseHeld";
    /// RuntimeClassReady, NodesConfigured: done.
    pub const APPLIED: &str = "Applied";
    /// RuntimeClassReady: somebody else made the class.
    pub const NOT_OURS: &str = "NotOurs";
    /// RuntimeClassReady: another pool has a class of this name.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// RuntimeClassReady: the handler cannot be changed.
    pub const HANDLER_DIFFERS: &str = "HandlerDiffers";
    /// RuntimeClassReady: the change would leave pods without a node.
    pub const WOULD_STRAND: &str = "WouldStrand";
    /// NodesConfigured: a taint of the same key and effect has another value.
    pub const TAINT_CONFLICT: &str = "TaintConflict";
    /// NodesConfigured: a label has another value.
    pub const LABEL_CONFLICT: &str = "LabelConflict";
    /// NodesConfigured: a NoExecute taint would evict pods.
    pub const WOULD_EVICT: &str = "WouldEvict";
    /// NodesConfigured, RuntimeClassReady: another writer keeps undoing ours.
    pub const CONTESTED: &str = "Contested";
    /// NodesConfigured: admission refuses our taints.
    pub const REFUSED: &str = "Refused";
    /// ConfigRendered: done.
    pub const RENDERED: &str = "Rendered";
    /// ConfigRendered: some variant cannot be rendered.
    pub const FAILED: &str = "Failed";
    /// VersionSkew: every kubelet is within the policy.
    pub const WITHIN_POLICY: &str = "WithinPolicy";
    /// VersionSkew: a kubelet is newer than the API server.
    pub const KUBELET_NEWER_THAN_API_SERVER: &str = "KubeletNewerThanAPIServer";
    /// VersionSkew: a kubelet is too many minors behind.
    pub const KUBELET_TOO_OLD: &str = "KubeletTooOld";
    /// OSMismatch: everything fits.
    pub const MATCHED: &str = "Matched";
    /// OSMismatch: a node has another build than the pool.
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
    /// OSSupported: the kubelet's minor does not support this Windows.
    pub const NOT_SUPPORTED_BY_KUBERNETES: &str = "NotSupportedByKubernetes";
    /// RuntimeSupported: the runtime is older than the kubelet's minor or the compatibility rule asks.
    pub const TOO_OLD: &str = "TooOld";
    /// RuntimeSupported: good for this minor of the kubelet, too old for the next.
    pub const TOO_OLD_FOR_NEXT_MINOR: &str = "TooOldForNextMinor";
    /// RuntimeSupported: a class names a handler that the runtime does not have.
    pub const HANDLER_UNAVAILABLE: &str = "HandlerUnavailable";
    /// A version that this operator does not know.
    pub const UNKNOWN_VERSION: &str = "UnknownVersion";
    /// ConfigInEffect: the numbers are equal.
    pub const IN_EFFECT: &str = "InEffect";
    /// ConfigInEffect: the nodes show a kubelet without our configuration.
    pub const NOT_DELIVERED: &str = "NotDelivered";
    /// ConfigInEffect: the numbers differ.
    pub const DIFFERS: &str = "Differs";
    /// OSMismatch: images of workloads cannot run on the pool's nodes.
    pub const IMAGES_CANNOT_RUN: &str = "ImagesCannotRun";
    /// WorkloadsPlaced: nothing found.
    pub const PLACED: &str = "Placed";
    /// WorkloadsPlaced: nothing is in the way, and something is worth a look.
    pub const PLACED_WITH_WARNINGS: &str = "PlacedWithWarnings";
    /// WorkloadsPlaced: workloads are not looked at, or not yet.
    pub const NOT_LOOKED_AT: &str = "NotLookedAt";
    /// WorkloadsPlaced: no pool takes the pods of a Windows workload.
    pub const NO_POOL_TAKES: &str = "NoPoolTakes";
    /// WorkloadsPlaced: a DaemonSet selects the pool's nodes and does not tolerate their taints.
    pub const DAEMON_SET_NOT_TOLERATING: &str = "DaemonSetNotTolerating";
    /// WorkloadsPlaced: a DaemonSet relies on what its RuntimeClass selects and tolerates, which its controller ignores.
    pub const DAEMON_SET_IGNORES_CLASS: &str = "DaemonSetIgnoresRuntimeClass";
    /// WorkloadsPlaced: a Linux pod is on a Windows node.
    pub const LINUX_POD_ON_WINDOWS_NODE: &str = "LinuxPodOnWindowsNode";
    /// WorkloadsPlaced: nothing keeps a Linux pod off the pool's nodes.
    pub const LINUX_POD_MAY_LAND: &str = "LinuxPodMayLand";
    /// WorkloadsPlaced: a pod on the pool's nodes would not come back there after a restart.
    pub const WOULD_NOT_RETURN: &str = "WouldNotReturn";
    /// WorkloadsPlaced: a pod carries what its RuntimeClass selected when the pod was created.
    pub const RUNTIME_CLASS_CHANGED: &str = "RuntimeClassChanged";
    /// WorkloadsPlaced: the memory limits of the pods on a node are more than it offers.
    pub const MEMORY_OVERCOMMITTED: &str = "MemoryOvercommitted";
    /// WorkloadsPlaced: a container has no memory limit, or asks for less than it may take.
    pub const MEMORY_NOT_RESERVED: &str = "MemoryNotReserved";
    /// WorkloadsPlaced: a pod uses fields that Windows ignores or rejects.
    pub const FIELDS_WITHOUT_EFFECT: &str = "FieldsWithoutEffect";
}
