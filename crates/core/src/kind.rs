//! The kinds of objects that winpool reads and writes: one row each.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

use derive_more::Display;
use serde_json::{Value, json};
use winpool_api::names::{GROUP, label, manager};
use winpool_facts::{
    cluster_api::{self, BOOTSTRAP_GROUP, CORE_GROUP},
    pod_fields::{GMSA_GROUP, GMSA_RESOURCE},
};

/// A kind of object. It is identified by its name, because winpool uses no two of one name.
#[derive(Clone, Copy, Display)]
#[display("{name}")]
pub struct Kind {
    /// As Kubernetes spells it.
    pub name: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    pub scope: KindScope,
    /// The field manager of its objects, without their status.
    pub manager: &'static str,
    pub needed_by: NeededBy,
    pub selection: Selection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    Cluster,
    Namespaces,
    Operator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededBy {
    Required,
    /// A part of the operator, which delays its readiness until the list is complete or refused.
    Optional,
    /// A feature of some pools, which does not affect readiness.
    Feature,
    /// Nothing: they are only written, or only the command line reads them.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    All,
    Label(&'static str, &'static str),
    Fields(&'static str),
}

const MANAGED: Selection = Selection::Label(label::MANAGED_BY, label::MANAGED_BY_VALUE);
/// The events about sandboxes of pods that were not created.
const SANDBOXES: Selection = Selection::Fields("involvedObject.kind=Pod,reason=FailedCreatePodSandBox");

#[rustfmt::skip] // a row is a line
impl Kind {
    pub const POOL: Self = winpool("WindowsNodePool", "windowsnodepools").by(manager::FINALIZERS);
    pub const PROFILE: Self = winpool("WindowsRuntimeProfile", "windowsruntimeprofiles");
    pub const NODE_CONFIG: Self = winpool("WindowsNodeConfig", "windowsnodeconfigs").needed_by(NeededBy::Optional);
    pub const NODE: Self = row("", "v1", "Node", "nodes").by(manager::NODES).only(Selection::Label(label::OS, "windows"));
    pub const RUNTIME_CLASS: Self = row("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses");
    pub const CONFIG_MAP: Self = row("", "v1", "ConfigMap", "configmaps").scoped(KindScope::Operator).only(MANAGED);
    pub const SECRET: Self = workload("", "v1", "Secret", "secrets").needed_by(NeededBy::Nothing);
    pub const POD: Self = workload("", "v1", "Pod", "pods").by(manager::NODES);
    pub const EVENT: Self = workload("", "v1", "Event", "events").only(SANDBOXES);
    pub const LIMIT_RANGE: Self = workload("", "v1", "LimitRange", "limitranges");
    pub const SERVICE: Self = workload("", "v1", "Service", "services");
    pub const CLAIM: Self = workload("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims").needed_by(NeededBy::Feature);
    pub const VOLUME: Self = row("", "v1", "PersistentVolume", "persistentvolumes").needed_by(NeededBy::Feature);
    pub const STORAGE_CLASS: Self = row("storage.k8s.io", "v1", "StorageClass", "storageclasses").needed_by(NeededBy::Feature);
    pub const CSI_NODE: Self = row("storage.k8s.io", "v1", "CSINode", "csinodes").needed_by(NeededBy::Feature);
    pub const DEPLOYMENT: Self = workload("apps", "v1", "Deployment", "deployments");
    pub const STATEFUL_SET: Self = workload("apps", "v1", "StatefulSet", "statefulsets");
    pub const DAEMON_SET: Self = workload("apps", "v1", "DaemonSet", "daemonsets");
    pub const JOB: Self = workload("batch", "v1", "Job", "jobs");
    pub const CRON_JOB: Self = workload("batch", "v1", "CronJob", "cronjobs").needed_by(NeededBy::Nothing);
    pub const LEASE: Self = workload("coordination.k8s.io", "v1", "Lease", "leases").needed_by(NeededBy::Nothing);
    pub const ENDPOINT_SLICE: Self = workload("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices").needed_by(NeededBy::Nothing);
    pub const CREDENTIAL_SPEC: Self = row(GMSA_GROUP, "v1", "GMSACredentialSpec", GMSA_RESOURCE).needed_by(NeededBy::Nothing);
    pub const MUTATING_WEBHOOK: Self = row("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations").needed_by(NeededBy::Nothing);
    pub const CLUSTER: Self = cluster_api(CORE_GROUP, "Cluster", "clusters");
    pub const MACHINE_DEPLOYMENT: Self = cluster_api(CORE_GROUP, "MachineDeployment", "machinedeployments").by(manager::MACHINES);
    pub const MACHINE_POOL: Self = cluster_api(CORE_GROUP, "MachinePool", "machinepools").by(manager::MACHINES);
    pub const MACHINE_SET: Self = cluster_api(CORE_GROUP, "MachineSet", "machinesets");
    pub const MACHINE: Self = cluster_api(CORE_GROUP, "Machine", "machines");
    pub const KUBEADM_CONFIG: Self = cluster_api(BOOTSTRAP_GROUP, "KubeadmConfig", "kubeadmconfigs").only(MANAGED);
    pub const KUBEADM_CONFIG_TEMPLATE: Self = cluster_api(BOOTSTRAP_GROUP, "KubeadmConfigTemplate", "kubeadmconfigtemplates");
}

impl Kind {
    pub const CLUSTER_API: [Self; 7] = [
        Self::CLUSTER,
        Self::MACHINE_DEPLOYMENT,
        Self::MACHINE_POOL,
        Self::MACHINE_SET,
        Self::MACHINE,
        Self::KUBEADM_CONFIG_TEMPLATE,
        Self::KUBEADM_CONFIG,
    ];

    pub fn api_version(self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// An object of this kind with its metadata, to which the other fields are added.
    pub fn object(self, metadata: Value) -> Value {
        json!({"apiVersion": self.api_version(), "kind": self.name, "metadata": metadata})
    }

    const fn scoped(self, scope: KindScope) -> Self {
        Self { scope, ..self }
    }

    const fn by(self, manager: &'static str) -> Self {
        Self { manager, ..self }
    }

    const fn needed_by(self, needed_by: NeededBy) -> Self {
        Self { needed_by, ..self }
    }

    const fn only(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }
}

/// A kind without namespaces that the operator needs.
const fn row(group: &'static str, version: &'static str, name: &'static str, plural: &'static str) -> Kind {
    let (scope, needed_by, selection) = (KindScope::Cluster, NeededBy::Required, Selection::All);
    Kind { name, group, version, plural, scope, manager: manager::OBJECTS, needed_by, selection }
}

const fn winpool(name: &'static str, plural: &'static str) -> Kind {
    row(GROUP, "v1alpha1", name, plural)
}

/// A kind in namespaces that the checks of workloads need.
const fn workload(group: &'static str, version: &'static str, name: &'static str, plural: &'static str) -> Kind {
    row(group, version, name, plural).scoped(KindScope::Namespaces).needed_by(NeededBy::Optional)
}

const fn cluster_api(group: &'static str, name: &'static str, plural: &'static str) -> Kind {
    row(group, cluster_api::VERSION, name, plural).scoped(KindScope::Namespaces).needed_by(NeededBy::Feature)
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Kind {}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
