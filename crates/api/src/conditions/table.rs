//! The rows of all conditions.

use super::row::{ConditionStatus, ConditionType, Harm, Next, Reason, Role, Subject};
use winpool_facts::catalogue::Entry;

use crate::names::reason;

const TRUE: &[ConditionStatus] = &[ConditionStatus::True];
const FALSE: &[ConditionStatus] = &[ConditionStatus::False];
const UNKNOWN: &[ConditionStatus] = &[ConditionStatus::Unknown];
const NOTHING: &str = "no action required";
const LIST_ACTION: &str = "apply the ClusterRole, the Role and their bindings from `config/default`";

const fn row(
    code: &'static str,
    status: &'static [ConditionStatus],
    title: &'static str,
    remedy: &'static str,
) -> Reason {
    let entry = Entry { code, title, why: "", remedy, source: "" };
    Reason { entry, status, problem: None, harm: None, subject: None, next: Next::Person }
}

const fn condition(
    name: &'static str,
    role: Role,
    problem_when: ConditionStatus,
    (subject, harm): (Subject, Harm),
    meaning: &'static str,
    reasons: &'static [Reason],
) -> ConditionType {
    ConditionType { name, role, problem_when, subject, harm, meaning, reasons }
}

/// Generates a row for each condition, and the table of all.
macro_rules! conditions {
    ($($row:ident = $of:expr;)*) => {
        $(
            #[allow(missing_docs)] // the row has its meaning
            pub static $row: ConditionType = $of;
        )*

        /// Every condition of a pool, in the order of the documentation, and the one of a profile.
        pub static CONDITIONS: &[&ConditionType] = &[$(&$row),*];
    };
}

#[rustfmt::skip]
conditions! {
    READY = condition("Ready", Role::Summary, ConditionStatus::False, (Subject::Spec, Harm::NotApplied), "the spec is applied", &[
        row(reason::AS_SPECIFIED, TRUE, "everything is as specified", NOTHING),
        row(reason::OBSERVING, TRUE, "`mode: Observe`: the operator writes only status",
            "review `status.pending`; set `mode: Enforce` to apply it").expected(Next::Waits),
        row(reason::DELETING, FALSE, "the pool is being deleted; a cleanup is in progress",
            "the message names what it waits for"),
        row(reason::WRITE_FAILED, FALSE, "a request to the API server failed and is retried",
            "read the message: check the API server, `config/default`, the CRDs and admission policies"),
        row(reason::INVALID, FALSE, "the spec has mistakes", "see `SpecValid`"),
    ]);
    RECONCILING = condition("Reconciling", Role::Summary, ConditionStatus::Unknown, (Subject::Spec, Harm::Notice),
        "the operator, the agents or Cluster API are at work, or a problem may pass by itself (kstatus); absent otherwise", &[
        row(reason::PROGRESSING, TRUE, "a new generation is being applied", NOTHING),
        row(reason::DELETING, TRUE, "a cleanup is in progress", "see `Ready`"),
    ]);
    STALLED = condition("Stalled", Role::Summary, ConditionStatus::True, (Subject::Spec, Harm::NotApplied),
        "the operator cannot continue without a change to the pool or the cluster (kstatus); absent otherwise", &[
        row(reason::INVALID, TRUE, "the spec has mistakes", "see `SpecValid`"),
    ]);
    SPEC_VALID = condition("SpecValid", Role::Required, ConditionStatus::False, (Subject::Spec, Harm::NotApplied), "the spec is valid", &[
        row(reason::VALID, TRUE, "the spec is valid",
            "no action required, unless the message names a label that a kubelet could set on its own node: then add a label with the prefix `node-restriction.kubernetes.io/` to the selector; or a spent [consent](consents.md): then remove it"),
        row(reason::INVALID, FALSE, "the spec has mistakes, each with its path; only status is written",
            "correct the fields in the message; from Kubernetes 1.25 on, the API server rejects most of them"),
    ]);
    PROFILE_RESOLVED = condition("ProfileResolved", Role::Required, ConditionStatus::False, (Subject::Config, Harm::NotApplied),
        "the profile exists and is valid, or none is named", &[
        row(reason::RESOLVED, TRUE, "the profile exists and is valid", NOTHING),
        row(reason::NOT_FOUND, FALSE, "the WindowsRuntimeProfile does not exist; nodes keep their last configuration",
            "apply the profile, or correct `spec.profileRef.name`").passes(),
        row(reason::LIST_REFUSED, FALSE, "the API server refuses to list profiles; nodes keep their last configuration",
            LIST_ACTION),
        row(reason::INVALID, FALSE, "the profile has mistakes; nodes keep their last configuration",
            "correct the profile: `kubectl describe wrp NAME`"),
    ]);
    NODES_ASSIGNED = condition("NodesAssigned", Role::Required, ConditionStatus::False, (Subject::Nodes, Harm::NotApplied),
        "every matching node belongs to this pool alone", &[
        row(reason::ASSIGNED, TRUE, "every matching node belongs to this pool alone",
            "no action required, unless the message names nodes with the label `winpool.dev/pool` that the pool does not select: remove the label, which a kubelet may have set"),
        row(reason::NO_NODES, TRUE, "a new selector matches no Windows node yet. After ten minutes it is `SelectsNoNode`, unless machines of \
             Cluster API are about to become nodes",
            "no action required").expected(Next::Proceeds),
        row(reason::SCALED_TO_ZERO, TRUE,
            "the pool has no nodes, and is meant to have none: its selector has matched nodes before, its machines of Cluster API have no \
             replicas, or the annotation `winpool.dev/allow-empty` says so", NOTHING),
        row(reason::ONLY_LINUX_NODES, TRUE,
            "as `NoNodes`, and Linux nodes match, which the pool ignores",
            "select by a label of the Windows nodes: `kubectl get nodes -l kubernetes.io/os=windows --show-labels`")
            .warns(Harm::Notice).proceeds(),
        row(reason::SELECTS_NO_NODE, FALSE, "the selector has matched no Windows node for ten minutes, and never before: it is probably mistyped",
            "correct `spec.nodeSelector` or the labels of the nodes; if the pool is meant to be empty, say so with the `kubectl annotate` \
             command in the message"),
        row(reason::LIST_REFUSED, FALSE, "the API server refuses to list nodes, so that nothing can be applied",
            LIST_ACTION).harm(Harm::OpensNodes),
        row(reason::NODE_CONFLICT, FALSE,
            "other pools match the same nodes, or another pool is the fallback; a node stays in the pool that it belongs to",
            "narrow one of the selectors, or set `fallback: true` in one pool only"),
        row(reason::RECORD_NOT_VERIFIED, FALSE,
            "the records on the nodes of the pool cannot be verified: the [key](security.md#the-key) was lost, or cannot be stored. Nothing is removed from the nodes",
            "restore the Secret; if it is lost for good, remove the annotation `winpool.dev/owned` from the nodes"),
        row(reason::RELEASE_HELD, FALSE,
            "nodes no longer match, and no other pool matches them; they keep their taints, so that a mistake in a selector does not open them to Linux pods",
            "correct the selector or the labels, or release the nodes with the `kubectl annotate` command in the message"),
    ]);
    RUNTIME_CLASS_READY = condition("RuntimeClassReady", Role::Required, ConditionStatus::False, (Subject::Runtime, Harm::StopsPods),
        "the RuntimeClasses are as specified", &[
        row(reason::APPLIED, TRUE, "the RuntimeClasses are as specified", NOTHING),
        row(reason::OBSERVING, FALSE, "the RuntimeClasses differ, and the pool does not write", "see `Ready`").expected(Next::Waits),
        row(reason::PROGRESSING, FALSE, "the operator is writing the RuntimeClasses", NOTHING).passes(),
        row(reason::WRITE_FAILED, FALSE, "a write failed and is retried", "read the message").passes(),
        row(reason::LIST_REFUSED, FALSE, "the API server refuses to list RuntimeClasses, so that none is written; taints and labels are",
            LIST_ACTION),
        row(reason::NOT_OURS, FALSE, "a RuntimeClass of this name was not created by winpool and differs from the spec",
            "use another name, delete that class, or set `adopt: true` to take it over"),
        row(reason::NAME_TAKEN, FALSE,
            "another pool has a RuntimeClass of this name for another build or handler, or a pool that was deleted with `Retain` left one",
            "use another name, or take over the remaining class with `adopt: true`"),
        row(reason::HANDLER_DIFFERS, FALSE,
            "the RuntimeClass exists with another handler, and the handler is immutable",
            "delete the class when no pod uses it, or use another name"),
        row(reason::NOT_FOR_WINDOWS, FALSE,
            "a RuntimeClass is not created, because no node of the pool reports its handler, and only Windows has those named `runhcs-…` or `docker`; or it is not taken over with `adopt: true`, because it selects another operating system, or pods of one name it",
            "use another handler or another name; a node reports its handlers in `status.runtimeHandlers`"),
        row(reason::WOULD_STRAND, FALSE,
            "no node of the pool runs the pods of its RuntimeClasses. With a new `windowsVersion`, a RuntimeClass is not changed or created while all nodes are of the previous build",
            "add nodes of the new build, correct `windowsVersion`, or allow it with the `kubectl annotate` command in the message"),
        row(reason::CONTESTED, FALSE,
            "another client repeatedly reverts or deletes it. A reverted class is not written for ten minutes; a deleted one is created again with a delay of at most 30 s",
            "stop that client: `kubectl get runtimeclass NAME -o yaml --show-managed-fields` names it").passes(),
    ]);
    NODES_TAINTED = condition("NodesTainted", Role::Required, ConditionStatus::False, (Subject::Nodes, Harm::OpensNodes),
        "every node has the labels, the taints and the name of its configuration", &[
        row(reason::APPLIED, TRUE, "every node has its labels, taints and configuration name", NOTHING),
        row(reason::OPEN_TO_LINUX_PODS, TRUE,
            "every node is as specified, but the spec has no taint that keeps Linux pods off, and neither have the nodes",
            "add a taint with effect `NoSchedule` to `spec.taints`").warns(Harm::OpensNodes),
        row(reason::OBSERVING, FALSE, "some nodes lack labels or taints, and the pool does not write", "see `Ready`").expected(Next::Waits),
        row(reason::TAINT_CONFLICT, FALSE,
            "a node has a taint of the same key and effect with another value, which is not overwritten; or two pools replace taints of each other",
            "remove it from the node, use its value in `spec.taints`, or name it in `spec.replacesTaints` to replace it"),
        row(reason::LABEL_CONFLICT, FALSE, "a node has the label with another value, which is not overwritten",
            "remove it from the node, or use its value in `spec.labels`").harm(Harm::NotApplied),
        row(reason::WOULD_EVICT, FALSE,
            "a `NoExecute` taint would evict pods that run on these nodes and do not tolerate it. With `--workloads=off` pods are not read, and every new `NoExecute` taint is held",
            "allow it with the `kubectl annotate` command in the message, or use `NoSchedule`"),
        row(reason::WOULD_STRAND_PODS, FALSE,
            "Windows pods on these nodes, or for them, do not tolerate a taint that the pool has not set before: their next pods would stay Pending. The taint is not added to any node, and former taints stay. While pods are not read yet, every new taint waits",
            "write the toleration or `runtimeClassName` in the workloads, as the message says, or allow it with the `kubectl annotate` command in the message"),
        row(reason::CONTESTED, FALSE,
            "another client reverted a value five times within ten minutes on the same node and field. A taint is set again each time, with a delay of at most 30 s; a label is not written, and a replaced taint not removed, for ten minutes",
            "stop the client that the message names").passes(),
        row(reason::REFUSED, FALSE,
            "admission rejects the taints; labels and annotations are written without them. The taints are retried every ten seconds on a few nodes, and on all nodes when one is accepted. If admission rejects the removal of taints, label and record stay too",
            "allow the operator in the policy or webhook, or change `spec.taints`"),
        row(reason::PROGRESSING, FALSE,
            "the operator is writing, or a RuntimeClass of the pool does not tolerate a new taint and cannot be changed now; existing taints are kept",
            "no action required, or see `RuntimeClassReady`").passes(),
        row(reason::WRITE_FAILED, FALSE, "a write failed and is retried", "read the message").passes(),
    ]);
    CONFIG_RENDERED = condition("ConfigRendered", Role::Required, ConditionStatus::False, (Subject::Config, Harm::NotApplied),
        "the profile renders for every node", &[
        row(reason::RENDERED, TRUE, "every node whose versions are known has a configuration", NOTHING),
        row(reason::TABLES_END_AT, TRUE,
            "as Rendered, but a kubelet is newer than the tables of this winpool, and is treated as the newest minor in them",
            "upgrade winpool"),
        row(reason::CONTESTED, FALSE,
            "another client repeatedly deletes the ConfigMap; it is created again with a delay of at most 30 s",
            "stop that client").passes(),
        row(reason::WRITE_FAILED, FALSE,
            "the ConfigMap is rejected; nodes keep the name of their previous configuration, and everything else continues",
            "remove the cause: a quota, a policy, or another object of that name").passes(),
        row(reason::LIST_REFUSED, FALSE, "the API server refuses to list ConfigMaps, so that nodes keep their last configuration; taints and labels are written",
            LIST_ACTION),
        row(reason::FAILED, FALSE,
            "the profile cannot be used, needs a feature that a node's version does not have, or reserves more than a node has; or winpool does not configure the node's kubelet or containerd, because it is too old",
            "read the message; change the profile, use a pool with another profile for these nodes, or upgrade them"),
    ]);
    OS_MISMATCH = condition("OSMismatch", Role::Flag, ConditionStatus::True, (Subject::Windows, Harm::StopsPods),
        "the operating systems of host and container do not fit", &[
        row(reason::NODE_BUILD_DIFFERS, TRUE,
            "a node runs another build than the pool; process-isolated pods of the pool may not start there",
            "replace the node, or move it to a pool for its build"),
        row(reason::PAUSE_IMAGE_CANNOT_RUN, TRUE,
            "the pause image has no entry that the host can run, so that no pod starts; or it has none for the host's own build, and the pool has a RuntimeClass with containerd's Hyper-V handler, whose utility VM boots the pause image's build",
            "set `spec.pauseImage.tag` of the profile to a tag with that entry, or remove it").about(Subject::Pods),
        row(reason::IMAGES_CANNOT_RUN, TRUE,
            "an image of a workload cannot run on the pool's nodes, according to the container runtime, the registry or the image name (\"probably\")",
            "follow the message: rebuild the image, update the node, or use the pool that it names").about(Subject::Pods),
        row(reason::REVISION_TOO_OLD, TRUE,
            "a node runs an earlier revision than `spec.minRevision`, or an image has a later revision than the nodes that it runs on, so that it may fail to start",
            "install the Windows update that the message names on the nodes, or replace them").harm(Harm::Unsupported),
        row(reason::UNKNOWN_VERSION, UNKNOWN,
            "a node reports no Windows version, or one that this operator does not know",
            "check the kubelet, or upgrade winpool"),
    ]);
    VERSION_SKEW = condition("VersionSkew", Role::Flag, ConditionStatus::True, (Subject::Kubelet, Harm::Unsupported),
        "a kubelet is outside the version skew policy", &[
        row(reason::TABLES_END_AT, FALSE,
            "every kubelet is within the policy, but some are newer than the tables of this winpool, so that their feature gates are not checked",
            "upgrade winpool"),
        row(reason::KUBELET_NEWER_THAN_API_SERVER, TRUE,
            "a kubelet is newer than the API server, which Kubernetes does not support",
            "upgrade the control plane first"),
        row(reason::KUBELET_TOO_OLD, TRUE, "a kubelet is too many minor versions behind the API server",
            "replace or upgrade the node"),
        row(reason::UNKNOWN_VERSION, UNKNOWN, "the version of the API server or of a kubelet is not known",
            "check the kubelet, or upgrade winpool"),
    ]);
    OS_SUPPORTED = condition("OSSupported", Role::Flag, ConditionStatus::False, (Subject::Windows, Harm::Unsupported),
        "this Windows is supported by Microsoft and by the kubelet's minor version", &[
        row(reason::EXTENDED_SUPPORT_ONLY, TRUE, "extended support only; the message has the date",
            "plan the migration"),
        row(reason::ENDING_SOON, TRUE, "support ends within 180 days", "plan the migration"),
        row(reason::END_OF_LIFE, FALSE, "Microsoft no longer supports this Windows",
            "move the workloads to nodes with a supported Windows"),
        row(reason::NOT_SUPPORTED_BY_KUBERNETES, FALSE, "the kubelet's minor version does not support this Windows",
            "use nodes with a Windows that it supports"),
        row(reason::UNKNOWN_VERSION, UNKNOWN, "a version is not known", "check the kubelet, or upgrade winpool"),
    ]);
    RUNTIME_SUPPORTED = condition("RuntimeSupported", Role::Flag, ConditionStatus::False, (Subject::Runtime, Harm::Unsupported),
        "the container runtime is compatible with kubelet, host and RuntimeClasses", &[
        row(reason::TOO_OLD_FOR_NEXT_MINOR, TRUE,
            "the runtime supports this kubelet but not the next minor version",
            "upgrade containerd before the kubelet"),
        row(reason::TOO_OLD, FALSE,
            "the runtime is too old for this kubelet or for winpool; or it does not run the older images that the host can run; or it does not pin the pause image, which kubelets then remove with unused images",
            "upgrade containerd as the message says"),
        row(reason::END_OF_LIFE, FALSE, "this release line of containerd is no longer supported",
            "upgrade containerd as the message says"),
        row(reason::HANDLER_UNAVAILABLE, FALSE,
            "a RuntimeClass names a handler that a node does not have: Hyper-V on Docker, or one that it does not list in `status.runtimeHandlers`",
            "use another handler in `spec.runtimeClasses`, add it to `containerd.extraConfig` of the profile, or move the node to another pool").harm(Harm::StopsPods),
        row(reason::UNKNOWN_VERSION, UNKNOWN, "the version of the runtime is not known",
            "check the node, or upgrade winpool"),
    ]);
    CONFIG_IN_EFFECT = condition("ConfigInEffect", Role::Delivery, ConditionStatus::False, (Subject::Config, Harm::NotApplied),
        "the reported resources of every node (capacity minus allocatable, and pods) are those of its configuration, and with `delivery.method: Agent` its agent reports that it runs it", &[
        row(reason::IN_EFFECT, TRUE, "they are", NOTHING),
        row(reason::RENDERING_CHANGED, FALSE,
            "a new version of winpool renders other settings from the same profile: existing nodes and machines keep theirs, and new nodes get the new ones. `status.pending` and `winpool plan` list the differences",
            "allow it with the `kubectl annotate` command in the message; with a delivery method, or raise `delivery.rollout.attempt`. Any change of the profile delivers the new settings too").harm(Harm::Notice).waits(),
        row(reason::NOT_DELIVERED, UNKNOWN,
            "nodes show a kubelet without the configuration, cannot be compared, or cannot run the agent; the message says why",
            "deliver the configuration: [delivery](delivery.md)").waits(),
        row(reason::DIFFERS, FALSE, "nodes reserve other amounts; the message has the numbers",
            "follow the message: deliver the current configuration and restart the kubelet, or find the other source of its configuration"),
        row(reason::CHANGED_ON_NODE, FALSE,
            "something else has changed files or services of nodes since their agents applied the configuration",
            "restore them: `kubectl describe wnc NODE` names the files. Or set `spec.delivery.drift: Reapply`, or raise `spec.delivery.rollout.attempt`, so that the agents apply the configuration again"),
        row(reason::PARTLY_APPLIED, UNKNOWN,
            "nodes cannot have a part of the configuration: `spec.kubeProxy` where kube-proxy is no service with `--config`",
            "configure kube-proxy where it is started, or remove `spec.kubeProxy` from the profile").waits(),
        row(reason::ROLLING_OUT, FALSE,
            "the agents apply the configuration, a few nodes at a time, or wait for nodes that are unavailable for other causes; or Cluster API replaces the machines",
            "no action required, or what the message names").expected(Next::Proceeds),
        row(reason::ROLLOUT_PAUSED, FALSE, "`spec.delivery.rollout.paused: true`: no further node gets the configuration",
            "set it to false to continue").expected(Next::Waits),
        row(reason::AWAITS_WINDOW, FALSE,
            "no window of `spec.delivery.maintenanceWindows` is open: no further node gets the configuration until the time in the \
             message, except a new node its first one",
            "no action required; to change nodes now, add a window").expected(Next::Waits),
        row(reason::ROLLOUT_HALTED, FALSE,
            "the configuration failed on nodes, so that no further node gets it. The nodes run their last good configuration",
            "correct the profile, or raise `spec.delivery.rollout.attempt` to try it again: `kubectl get wnc` has the reasons"),
        row(reason::WRITE_FAILED, FALSE, "the operator cannot assign configurations to the agents",
            "apply `crds` and `config/agent`, and read the message").passes(),
    ]);
    MACHINES_TEMPLATED = condition("MachinesTemplated", Role::Delivery, ConditionStatus::False, (Subject::Machines, Harm::NotApplied),
        "with `delivery.method: ClusterAPI`, the machines of Cluster API get the configuration when they are created", &[
        row(reason::UP_TO_DATE, TRUE, "all machines were created from the current template", NOTHING),
        row(reason::ROTATION_PENDING, TRUE,
            "the current template exists, and a MachineDeployment or MachinePool refers to another one",
            "change its `bootstrap.configRef.name` to the name in the message; its machines are then replaced"),
        row(reason::ROTATING, FALSE, "Cluster API replaces machines", NOTHING).expected(Next::Proceeds),
        row(reason::AWAITS_WINDOW, FALSE,
            "no window of `spec.delivery.maintenanceWindows` is open: machines are replaced from the time in the message on",
            "no action required; to replace machines now, add a window").expected(Next::Waits),
        row(reason::CLUSTER_API_NOT_INSTALLED, FALSE, "the cluster does not serve Cluster API's resources",
            "install Cluster API, or change `spec.delivery.method`").passes(),
        row(reason::CONTRACT_UNSUPPORTED, FALSE, "Cluster API does not serve its resources in v1beta2",
            "upgrade Cluster API to 1.11 or later"),
        row(reason::PROGRESSING, FALSE, "Cluster API's resources are being read, or templates are being written",
            "no action required; if it persists, apply `config/cluster-api`").expected(Next::Proceeds),
        row(reason::WRITE_FAILED, FALSE, "a template, its Secret, or a MachineDeployment cannot be written",
            "apply `config/cluster-api` for the namespace, and read the message").passes(),
        row(reason::OBSERVING, FALSE, "templates or annotations are missing, and the pool does not write", "see `Ready`").expected(Next::Waits),
        row(reason::CLUSTER_IS_ELSEWHERE, UNKNOWN,
            "the nodes of the machines are in another cluster, so that only templates and annotations are managed here",
            "run winpool in that cluster too, with the same pool and without `delivery`").waits(),
        row(reason::CLUSTER_NOT_FOUND, FALSE, "the Cluster does not exist",
            "correct `spec.delivery.clusterAPI.clusterName` or `namespace`").passes(),
        row(reason::NO_MACHINES_SELECTED, FALSE, "the selector matches no MachineDeployment or MachinePool of the Cluster",
            "correct the selector, or label the MachineDeployment").passes(),
        row(reason::MACHINES_CONFLICT, FALSE, "another, older pool selects the same MachineDeployment or MachinePool",
            "narrow one of the selectors"),
        row(reason::REFERENCE_MANAGED_ELSEWHERE, FALSE,
            "another client changed the reference back twice, so that it is not switched again",
            "let that client ignore the field, or use `rotation: Manual`: [Cluster API](delivery/cluster-api.md)"),
        row(reason::TOPOLOGY_MANAGED, FALSE, "a ClusterClass controls the MachineDeployment, so that it is not changed",
            "add the output of `winpool render --target clusterclass-patch` to the ClusterClass"),
        row(reason::SELECTOR_NOT_EXPRESSIBLE, FALSE,
            "new nodes would not match the pool: a kubelet may not set the labels of its selector",
            "select by a label that a kubelet may set, or one of `node.cluster.x-k8s.io/` in the machine labels"),
        row(reason::TEMPLATE_INVALID, FALSE, "no template can be rendered",
            "read the message, which has paths in the profile, the pool, or the template to add to"),
    ]);
    WORKLOADS_PLACED = condition("WorkloadsPlaced", Role::Flag, ConditionStatus::False, (Subject::Pods, Harm::StopsPods),
        "every pod runs on a matching node, and would be scheduled there again", &[
        row(reason::PLACED_WITH_WARNINGS, TRUE,
            "pods run on matching nodes, with warnings: `ImageUpdatesBehind`, `MemoryNotReserved` or `FieldsWithoutEffect`",
            "read the message"),
        row(reason::NOT_CHECKED, UNKNOWN, "the operator has not read the pods yet, or with `--storage` their volumes",
            "no action required; if it persists, apply `config/default/workloads.yaml`, and `config/storage` for volumes"),
        row(reason::UNSCHEDULABLE, FALSE,
            "pods cannot be scheduled to any pool: the RuntimeClass does not exist, or contradicts the pod's selector; no node has the labels; a taint is not tolerated; the container runtime does not have the handler",
            "follow the message"),
        row(reason::DRIVER_NOT_REGISTERED, FALSE,
            "with [`--storage`](storage.md): a volume of a pod needs a CSI driver that is not registered on its node, or on no node of the \
             pool if the pod has none",
            "install the DaemonSet of the driver for Windows, and what else the message names"),
        row(reason::VOLUME_NOT_SUPPORTED, FALSE,
            "with `--storage`: a volume of a pod has a type without a CSI driver, such as FlexVolume, or a file system that Windows does not have",
            "use a CSI driver for Windows, and NTFS"),
        row(reason::ATTACH_LIMIT_REACHED, FALSE,
            "with `--storage`: the node of a pod, or every node for it, has as many volumes as the CSI driver attaches",
            "add nodes, or move pods with volumes"),
        row(reason::DAEMON_SET_NOT_TOLERATING, FALSE,
            "a DaemonSet selects the pool's nodes and does not tolerate their taints, so that it gets no pods there",
            "add the toleration to its template"),
        row(reason::DAEMON_SET_IGNORES_CLASS, FALSE,
            "a DaemonSet relies on the selector and tolerations of its RuntimeClass, which are added to pods only after the DaemonSet controller has chosen the nodes",
            "write selector and tolerations into its template"),
        row(reason::LINUX_POD_ON_WINDOWS_NODE, FALSE,
            "a pod for Linux is on a Windows node; a `NoSchedule` taint does not evict it",
            "delete the pod, and select `kubernetes.io/os: linux`").harm(Harm::OpensNodes),
        row(reason::LINUX_POD_MAY_LAND, FALSE,
            "a workload that is not for Windows tolerates the pool's taints and selects nothing that excludes its nodes",
            "select `kubernetes.io/os: linux`").harm(Harm::OpensNodes),
        row(reason::NOT_RESCHEDULABLE, FALSE,
            "a pod runs on the pool's nodes and does not tolerate the taints that they have or will have, or its RuntimeClass no longer exists",
            "before the pod restarts, add the toleration, or use a RuntimeClass of the pool"),
        row(reason::RUNTIME_CLASS_CHANGED, FALSE,
            "a pod has the selector that its RuntimeClass had when the pod was created",
            "restart the pod to move it").harm(Harm::Notice),
        row(reason::MEMORY_OVERCOMMITTED, FALSE,
            "the memory limits of the pods on a node exceed its allocatable memory; Windows then uses the page file and kills no process",
            "lower the limits, or move pods to other nodes"),
        row(reason::IMAGE_UPDATES_BEHIND, TRUE,
            "the base image of a container is more monthly updates behind than `spec.maxImageUpdatesBehind` of the profile allows, according to its registry",
            "rebuild the image on a newer base image"),
        row(reason::MEMORY_NOT_RESERVED, TRUE,
            "a container has no memory limit, or requests less than its limit, LimitRanges included",
            "set a limit, and a request of the same size"),
        row(reason::FIELDS_WITHOUT_EFFECT, TRUE, "a pod uses fields that Windows ignores or rejects",
            "remove them; `winpool lint` names each"),
    ]);
    KNOWN_ISSUES = condition("KnownIssues", Role::Flag, ConditionStatus::True, (Subject::Nodes, Harm::Notice),
        "nodes have known defects of their versions that are not acknowledged", &[
        row(reason::SEVERE_ISSUES, TRUE,
            "the versions of nodes have a defect of high severity: control over the node, or no pod works",
            "upgrade as the message says").harm(Harm::Unsupported),
        row(reason::KNOWN_ISSUES, TRUE, "the versions of nodes have a known defect, and the pods what it depends on",
            "upgrade as the message says, or acknowledge the issue: `winpool explain ID` describes it"),
        row(reason::UNKNOWN_ISSUE_ACKNOWLEDGED, TRUE,
            "the annotation `winpool.dev/acknowledge-issues` names an id that is not in the table",
            "correct the annotation; `winpool explain` lists the ids"),
    ]);
    NODE_HYGIENE = condition("NodeHygiene", Role::Flag, ConditionStatus::True, (Subject::Nodes, Harm::Notice),
        "nodes have a broken network of pods, keep Secrets unprotected, have services that do not restart, or settings that an upgrade ends, as their agents report", &[
        row(reason::ENDPOINTS_DUPLICATE, TRUE,
            "more than one endpoint of HNS on a node has the same address, so that a pod loses its network",
            "drain the node: [the network of nodes](delivery/agent.md#the-network-of-nodes)").harm(Harm::StopsPods),
        row(reason::LOAD_BALANCERS_LOST, TRUE,
            "HNS has lost the load balancers that kube-proxy wrote, so that Services do not answer on the node",
            "restart kube-proxy on the node").harm(Harm::StopsPods),
        row(reason::ENDPOINTS_LOST, TRUE, "HNS has endpoints of former pods, whose addresses another pod may get",
            "drain and restart the node when it suits"),
        row(reason::SECRETS_READABLE, TRUE,
            "others than SYSTEM and Administrators can read the directory of the kubelet or of containerd, with Secrets of pods in clear text",
            "limit its access control list with `icacls`, or who can log on: [facts about nodes](delivery/agent.md#facts-about-nodes)"),
        row(reason::VOLUME_NOT_ENCRYPTED, TRUE, "BitLocker does not protect a volume with such a directory",
            "turn on BitLocker, unless the platform encrypts the disk"),
        row(reason::ENDS_WITH_UPGRADE, TRUE,
            "the kubelet of the next minor does not start with a flag, a feature gate or the container runtime of a node, or containerd 2.4 ignores a setting in its file",
            "follow the message before the upgrade: it names what ends, and the product that sets it if that is known").harm(Harm::Unsupported),
        row(reason::SERVICE_NOT_RESTARTED, TRUE,
            "containerd, kubelet or kube-proxy is a service that Windows does not start again when it fails",
            "set its recovery with `sc.exe failure`, as the message says"),
    ]);
    VALID = condition("Valid", Role::Required, ConditionStatus::False, (Subject::Spec, Harm::NotApplied), "the profile can be rendered", &[
        row(reason::VALID, TRUE, "the profile can be rendered", NOTHING),
        row(reason::VALID_WITH_WARNINGS, TRUE,
            "it can be rendered, with values that are known to cause problems, such as less than 2Gi reserved for Windows",
            "read the message"),
        row(reason::INVALID, FALSE, "the profile has mistakes, each with its path", "correct the fields in the message"),
    ]);
}
