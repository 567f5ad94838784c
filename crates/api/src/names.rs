//! Names in the API: labels, annotations, field managers and the reasons of conditions.

/// The API group.
pub const GROUP: &str = "winpool.dev";
/// The default namespace of the operator and its ConfigMaps.
pub const DEFAULT_NAMESPACE: &str = "winpool-system";
/// The ServiceAccount of the operator.
pub const SERVICE_ACCOUNT: &str = "winpool";
/// What the operator's events are reported by.
pub const EVENT_REPORTER: &str = "winpool";
/// The Secret in the operator's namespace with the key that signs the ownership records on nodes.
pub const OWNERSHIP_SECRET: &str = "winpool-ownership";
/// The finalizer of a pool whose `deletionPolicy` is `Cleanup`.
pub const FINALIZER: &str = "winpool.dev/cleanup";
/// The namespace of the Leases that kubelets renew.
pub const NODE_LEASES: &str = "kube-node-lease";

/// Labels of Kubernetes and of winpool.
pub mod label {
    /// The operating system of a node.
    pub const OS: &str = "kubernetes.io/os";
    /// The deprecated form of [`OS`], which nodes still have.
    pub const BETA_OS: &str = "beta.kubernetes.io/os";
    /// The name of the Service, on an EndpointSlice.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
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
    /// On an object of `winpool verify`: the name that its objects begin with.
    pub const VERIFY: &str = "winpool.dev/verify";
    /// On a Pod and a Job of `winpool verify`: the part of a check that it is.
    pub const PROBE: &str = "winpool.dev/probe";
    /// On a namespace, set by its owner: the RuntimeClass that an optional admission policy gives to Windows pods.
    pub const DEFAULT_RUNTIME_CLASS: &str = "winpool.dev/default-runtime-class";
    /// The prefix of the labels of a node for the releases whose images it runs in process isolation, such as
    /// `runs.winpool.dev/ltsc2022`. The value is [`RUNS_VALUE`].
    pub const RUNS: &str = "runs.winpool.dev/";
    /// The value of the labels with the prefix [`RUNS`].
    pub const RUNS_VALUE: &str = "true";
}

/// Annotations of winpool.
pub mod annotation {
    /// On a CustomResourceDefinition of winpool: the digest of its specification, by which winpool knows whether it is that of its
    /// own version.
    pub const SCHEMA: &str = "winpool.dev/schema";
    /// On a node: the ConfigMap with its configuration.
    pub const CONFIG: &str = "winpool.dev/config";
    /// On a node: that the operator has cordoned it, for which configuration, and since when.
    pub const CORDONED: &str = "winpool.dev/cordoned";
    /// On a node: the signed record of the taints and labels that winpool added, and of those that existed before.
    pub const OWNED: &str = "winpool.dev/owned";
    /// On a new node: the pool whose taints an optional admission policy has set at its creation, and those that it has added,
    /// such as `web os:NoSchedule team:NoExecute`. The operator removes it.
    pub const REGISTERED_WITH: &str = "winpool.dev/registered-with";
    /// On an adopted RuntimeClass: its previous content.
    pub const ADOPTED: &str = "winpool.dev/adopted";
    /// On a pool: its name, if an optional admission policy may let it be deleted although it has nodes.
    pub const ALLOW_DELETION: &str = "winpool.dev/allow-deletion";
    /// On a pool: the selector whose held nodes may be released.
    pub const ALLOW_RELEASE: &str = "winpool.dev/allow-release";
    /// On a pool: the selector that matches no node, as is intended.
    pub const ALLOW_EMPTY: &str = "winpool.dev/allow-empty";
    /// On a pool: the windowsVersion that may leave pods without nodes.
    pub const ALLOW_STRAND: &str = "winpool.dev/allow-strand";
    /// On a pool: the NoExecute taints that may evict pods.
    pub const ALLOW_EVICT: &str = "winpool.dev/allow-evict";
    /// On a pool: the taints that may leave pods Pending.
    pub const ALLOW_PENDING: &str = "winpool.dev/allow-pending";
    /// On a pool: the digests of the renderings that existing nodes and machines may get, although only winpool changed.
    pub const ALLOW_RENDERING: &str = "winpool.dev/allow-rendering";
    /// On a pool: the ids of the known issues that its status does not report, separated by commas.
    pub const ACKNOWLEDGE_ISSUES: &str = "winpool.dev/acknowledge-issues";
    /// On a pool: a node and a time, as `win-1@2026-06-01T12:00:00Z`. Its agent reads what `winpool doctor` needs.
    pub const DIAGNOSE: &str = "winpool.dev/diagnose";
    /// What a rendering was made from: digests of what people write. On a ConfigMap of a configuration its own, and on a
    /// MachineDeployment or MachinePool that of the template that winpool lets it refer to, after the name of the template.
    pub const RENDERED_FROM: &str = "winpool.dev/rendered-from";
    /// On a MachineDeployment or MachinePool, set by its owner to `"true"`: winpool may switch its bootstrap reference.
    pub const MANAGE_BOOTSTRAP: &str = "winpool.dev/manage-bootstrap";
    /// On a MachineDeployment or MachinePool: the annotations for the autoscaler that winpool wrote.
    pub const AUTOSCALING: &str = "winpool.dev/autoscaling";
    /// On an object or a pod template: the codes that `winpool lint` does not report, separated by commas.
    pub const LINT_IGNORE: &str = "winpool.dev/lint-ignore";
}

/// Field managers, one per concern.
pub mod manager {
    /// RuntimeClasses and ConfigMaps.
    pub const OBJECTS: &str = "winpool";
    /// Nodes.
    pub const NODES: &str = "winpool-nodes";
    /// MachineDeployments and MachinePools.
    pub const MACHINES: &str = "winpool-machines";
    /// The status of winpool's resources.
    pub const STATUS: &str = "winpool-status";
    /// Finalizers of winpool's resources.
    pub const FINALIZERS: &str = "winpool-finalizers";
}

/// Reasons of conditions. They are stable: automation may compare them. [`super::conditions`] describes them.
#[allow(missing_docs)] // the table has the meaning of each
pub mod reason {
    pub const AS_SPECIFIED: &str = "AsSpecified";
    pub const OBSERVING: &str = "Observing";
    pub const DELETING: &str = "Deleting";
    pub const WRITE_FAILED: &str = "WriteFailed";
    pub const PROGRESSING: &str = "Progressing";
    pub const VALID: &str = "Valid";
    pub const INVALID: &str = "Invalid";
    pub const VALID_WITH_WARNINGS: &str = "ValidWithWarnings";
    pub const RESOLVED: &str = "Resolved";
    pub const NOT_FOUND: &str = "NotFound";
    pub const LIST_REFUSED: &str = "ListRefused";
    pub const ASSIGNED: &str = "Assigned";
    pub const NO_NODES: &str = "NoNodes";
    pub const SCALED_TO_ZERO: &str = "ScaledToZero";
    pub const SELECTS_NO_NODE: &str = "SelectsNoNode";
    pub const ONLY_LINUX_NODES: &str = "OnlyLinuxNodes";
    pub const NODE_CONFLICT: &str = "NodeConflict";
    pub const RECORD_NOT_VERIFIED: &str = "RecordNotVerified";
    pub const RELEASE_HELD: &str = "ReleaseHeld";
    pub const APPLIED: &str = "Applied";
    pub const NOT_OURS: &str = "NotOurs";
    pub const NAME_TAKEN: &str = "NameTaken";
    pub const HANDLER_DIFFERS: &str = "HandlerDiffers";
    pub const NOT_FOR_WINDOWS: &str = "NotForWindows";
    pub const WOULD_STRAND: &str = "WouldStrand";
    pub const OPEN_TO_LINUX_PODS: &str = "OpenToLinuxPods";
    pub const TAINT_CONFLICT: &str = "TaintConflict";
    pub const LABEL_CONFLICT: &str = "LabelConflict";
    pub const WOULD_EVICT: &str = "WouldEvict";
    pub const WOULD_STRAND_PODS: &str = "WouldStrandPods";
    pub const CONTESTED: &str = "Contested";
    pub const REFUSED: &str = "Refused";
    pub const RENDERED: &str = "Rendered";
    pub const TABLES_END_AT: &str = "TablesEndAt";
    pub const FAILED: &str = "Failed";
    pub const KUBELET_NEWER_THAN_API_SERVER: &str = "KubeletNewerThanAPIServer";
    pub const KUBELET_TOO_OLD: &str = "KubeletTooOld";
    pub const NODE_BUILD_DIFFERS: &str = "NodeBuildDiffers";
    pub const REVISION_TOO_OLD: &str = "RevisionTooOld";
    pub const PAUSE_IMAGE_CANNOT_RUN: &str = "PauseImageCannotRun";
    pub const EXTENDED_SUPPORT_ONLY: &str = "ExtendedSupportOnly";
    pub const ENDING_SOON: &str = "EndingSoon";
    pub const END_OF_LIFE: &str = "EndOfLife";
    pub const NOT_SUPPORTED_BY_KUBERNETES: &str = "NotSupportedByKubernetes";
    pub const TOO_OLD: &str = "TooOld";
    pub const TOO_OLD_FOR_NEXT_MINOR: &str = "TooOldForNextMinor";
    pub const HANDLER_UNAVAILABLE: &str = "HandlerUnavailable";
    pub const UNKNOWN_VERSION: &str = "UnknownVersion";
    pub const IN_EFFECT: &str = "InEffect";
    pub const NOT_DELIVERED: &str = "NotDelivered";
    pub const RENDERING_CHANGED: &str = "RenderingChanged";
    pub const ROLLING_OUT: &str = "RollingOut";
    pub const ROLLOUT_PAUSED: &str = "RolloutPaused";
    pub const AWAITS_WINDOW: &str = "AwaitsWindow";
    pub const ROLLOUT_HALTED: &str = "RolloutHalted";
    pub const DIFFERS: &str = "Differs";
    /// Also the reason in the status of a WindowsNodeConfig.
    pub const CHANGED_ON_NODE: &str = "ChangedOnNode";
    /// Also the reason in the status of a WindowsNodeConfig.
    pub const PARTLY_APPLIED: &str = "PartlyApplied";
    pub const IMAGES_CANNOT_RUN: &str = "ImagesCannotRun";
    pub const UP_TO_DATE: &str = "UpToDate";
    pub const ROTATION_PENDING: &str = "RotationPending";
    pub const ROTATING: &str = "Rotating";
    pub const CLUSTER_API_NOT_INSTALLED: &str = "ClusterAPINotInstalled";
    pub const CONTRACT_UNSUPPORTED: &str = "ContractUnsupported";
    pub const CLUSTER_IS_ELSEWHERE: &str = "ClusterIsElsewhere";
    pub const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";
    pub const NO_MACHINES_SELECTED: &str = "NoMachinesSelected";
    pub const MACHINES_CONFLICT: &str = "MachinesConflict";
    pub const REFERENCE_MANAGED_ELSEWHERE: &str = "ReferenceManagedElsewhere";
    pub const TOPOLOGY_MANAGED: &str = "TopologyManaged";
    pub const SELECTOR_NOT_EXPRESSIBLE: &str = "SelectorNotExpressible";
    pub const TEMPLATE_INVALID: &str = "TemplateInvalid";
    pub const PLACED_WITH_WARNINGS: &str = "PlacedWithWarnings";
    pub const NOT_CHECKED: &str = "NotChecked";
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    pub const DAEMON_SET_NOT_TOLERATING: &str = "DaemonSetNotTolerating";
    pub const DAEMON_SET_IGNORES_CLASS: &str = "DaemonSetIgnoresRuntimeClass";
    pub const LINUX_POD_ON_WINDOWS_NODE: &str = "LinuxPodOnWindowsNode";
    pub const LINUX_POD_MAY_LAND: &str = "LinuxPodMayLand";
    pub const NOT_RESCHEDULABLE: &str = "NotReschedulable";
    pub const DRIVER_NOT_REGISTERED: &str = "DriverNotRegistered";
    pub const VOLUME_NOT_SUPPORTED: &str = "VolumeNotSupported";
    pub const ATTACH_LIMIT_REACHED: &str = "AttachLimitReached";
    pub const RUNTIME_CLASS_CHANGED: &str = "RuntimeClassChanged";
    pub const MEMORY_OVERCOMMITTED: &str = "MemoryOvercommitted";
    pub const IMAGE_UPDATES_BEHIND: &str = "ImageUpdatesBehind";
    pub const MEMORY_NOT_RESERVED: &str = "MemoryNotReserved";
    pub const SEVERE_ISSUES: &str = "SevereIssues";
    pub const KNOWN_ISSUES: &str = "KnownIssues";
    pub const UNKNOWN_ISSUE_ACKNOWLEDGED: &str = "UnknownIssueAcknowledged";
    pub const ENDPOINTS_DUPLICATE: &str = "EndpointsDuplicate";
    pub const LOAD_BALANCERS_LOST: &str = "LoadBalancersLost";
    pub const ENDPOINTS_LOST: &str = "EndpointsLost";
    pub const SECRETS_READABLE: &str = "SecretsReadable";
    pub const VOLUME_NOT_ENCRYPTED: &str = "VolumeNotEncrypted";
    pub const SERVICE_NOT_RESTARTED: &str = "ServiceNotRestarted";
    pub const ENDS_WITH_UPGRADE: &str = "EndsWithUpgrade";
    pub const FIELDS_WITHOUT_EFFECT: &str = "FieldsWithoutEffect";
}
