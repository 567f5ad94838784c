//! Windows nodes, parsed once when they are received.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, Taint as NodeTaint},
    apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry,
};
use serde::{Deserialize, Serialize};
use winpool_api::{
    Taint,
    names::{annotation, label, manager},
};
use winpool_facts::{
    Build, ContainerRuntime, ContainerdVersion, KubeletVersion, Minor, OsVersion,
    node_lifecycle::LIFECYCLE_CONDITIONS,
    runtimes::{DOCKER_HANDLER, HANDLERS},
    taints,
};

use crate::{
    ForeignText, ResourceVersion, Uncompared,
    bounded::bounded,
    kubernetes::quantity::{Quantity, Resource},
    named,
    record::SignedRecord,
    release_labels,
};

/// The only architecture of Windows nodes: the kubelet is released for Windows on amd64 only (kubernetes/kubernetes,
/// `hack/lib/golang.sh`, `KUBE_SUPPORTED_NODE_PLATFORMS`, 1.36).
pub const ARCHITECTURE: &str = "amd64";

/// The taint that Kubernetes adds to a cordoned node: kubernetes/website, "Taints and Tolerations".
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// The labels that the kubelet of a Windows node sets by itself.
pub fn labels_of_kubelet(build: Build) -> BTreeMap<String, String> {
    let labels = [(label::OS, "windows"), (label::ARCH, ARCHITECTURE), (label::WINDOWS_BUILD, &build.to_string())];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A Windows node. Fields without a comment are as in Kubernetes.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowsNode {
    pub name: String,
    pub uid: String,
    /// `status.nodeInfo.systemUUID`; empty if it is not reported.
    pub system_uuid: String,
    /// The `resourceVersion`, for optimistic locking.
    pub resource_version: ResourceVersion,
    /// The `creationTimestamp`.
    pub created: Option<Timestamp>,
    pub labels: BTreeMap<String, String>,
    /// Whether it has more labels than are kept.
    pub oversized: bool,
    pub taints: Vec<NodeTaint>,
    /// The name of the ConfigMap with the configuration for the node, from its annotation.
    pub config: Option<String>,
    /// The record in its annotation. winpool-rules verifies it.
    pub owned: Option<SignedRecord>,
    /// The pool whose taints an admission policy has set at the creation of the node, and those that it has added:
    /// [`annotation::REGISTERED_WITH`].
    pub registered_with: Option<String>,
    /// Whether the condition Ready is True.
    pub ready: bool,
    /// Since when the condition Ready has its status, by the clock of the kubelet, or of the node controller.
    pub ready_since: Uncompared<Option<Timestamp>>,
    /// The last heartbeat of the condition Ready, by the node's clock.
    pub heartbeat: Uncompared<Option<Timestamp>>,
    /// `spec.unschedulable`: whether the node is cordoned.
    pub unschedulable: bool,
    /// The condition by which somebody else works on the node, such as MaintenanceInProgress.
    pub occupied: Option<&'static str>,
    /// That the operator has cordoned the node, from its annotation.
    pub cordon: Option<Cordon>,
    /// The Windows version; `Err` has the text that cannot be parsed, empty if the node reports none.
    pub os: Result<OsVersion, ForeignText>,
    /// The version of the kubelet; `Err` as for [`Self::os`].
    pub kubelet: Result<KubeletVersion, ForeignText>,
    /// Whether the kubelet is that of RKE2, by its version, such as `v1.34.1+rke2r1`. One service starts it with containerd and
    /// kube-proxy.
    pub is_rke2: bool,
    /// The container runtime; `Err` as for [`Self::os`].
    pub runtime: Result<ContainerRuntime<ContainerdVersion>, ForeignText>,
    /// Its handlers for RuntimeClasses; `None` if they are unknown.
    pub handlers: Option<Handlers>,
    pub capacity: Resources,
    pub allocatable: Resources,
    /// The addresses for pods in its IPv4 range of `podCIDRs`; `None` without one. Not every network plugin allocates from it.
    pub pod_addresses: Option<i64>,
    /// The last field manager other than winpool that wrote the taints.
    pub taints_writer: Option<ForeignText>,
    /// The last field manager other than winpool that wrote the labels.
    pub labels_writer: Option<ForeignText>,
}

/// The handlers for RuntimeClasses of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Handlers {
    /// All that it has, from `status.runtimeHandlers`. A kubelet has them from containerd 2.0 or later, which reports each that is
    /// configured (kubernetes/kubernetes, `pkg/kubelet/nodestatus/setters.go`, 1.37; containerd/containerd,
    /// `internal/cri/server/service.go`, 2.4.2, read 2026-11-29). Servers of 1.30 drop the field: its feature gates are off there.
    Reported(BTreeSet<String>),
    /// Those that its container runtime has without a configuration of them: [`ContainerRuntime::handlers`].
    OfRuntime(&'static [&'static str]),
}

impl Handlers {
    /// Whether the node does not have a handler. containerd can have others in its configuration, Docker cannot.
    pub fn lack(&self, handler: &str) -> bool {
        match self {
            Self::Reported(names) => !names.contains(handler),
            Self::OfRuntime(names) => {
                (names.contains(&DOCKER_HANDLER) || HANDLERS.contains(&handler)) && !names.contains(&handler)
            }
        }
    }

    /// The names of those that are known.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Reported(names) => names.iter().map(String::as_str).collect(),
            Self::OfRuntime(names) => names.to_vec(),
        }
    }
}

/// The annotation of a node that the operator has cordoned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cordon {
    /// The name of the configuration that the node is cordoned for.
    pub config: String,
    pub attempt: u32,
    /// Since when, by the operator's clock.
    pub since: Timestamp,
    /// Whether the operator has removed the cordon, because the pods could not be evicted in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

/// The resources of a node; `None` if a resource is not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// CPU in thousandths.
    pub cpu_milli: Option<i64>,
    /// Memory in bytes.
    pub memory: Option<i64>,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: Option<i64>,
    pub pods: Option<i64>,
}

named!(WindowsNode: name);

impl WindowsNode {
    /// Whether it is ready and not cordoned.
    pub fn is_schedulable(&self) -> bool {
        self.ready && !self.unschedulable && self.taints.iter().all(|taint| taint.key != CORDONED)
    }

    /// The Windows build that the kernel reports, or else the build in the label.
    pub fn build(&self) -> Option<Build> {
        match self.os {
            Ok(version) => Some(version.build),
            Err(_) => self.labels.get(label::WINDOWS_BUILD).and_then(|text| text.parse().ok()),
        }
    }

    /// The Windows version that the kernel reports, or else the build in the label, without a revision.
    pub fn os_version(&self) -> Option<OsVersion> {
        self.os.as_ref().ok().copied().or_else(|| self.build().map(|build| OsVersion { build, revision: None }))
    }

    pub fn kubelet_minor(&self) -> Option<Minor> {
        self.kubelet.as_ref().ok().map(|kubelet| kubelet.minor)
    }

    pub fn containerd(&self) -> Option<ContainerdVersion> {
        self.runtime.as_ref().ok()?.containerd()
    }

    /// The keys of the labels for the releases whose images the node runs: see [`release_labels`]. None without a Windows
    /// version that the kernel reports.
    pub fn release_labels(&self) -> BTreeSet<String> {
        self.os.as_ref().map(|os| release_labels::of_host(*os, self.containerd())).unwrap_or_default()
    }

    /// The taints that do not follow the state of the node.
    pub fn lasting_taints(&self) -> impl Iterator<Item = Taint> {
        self.taints.iter().filter(|taint| taints::manager(&taint.key).is_none()).filter_map(Taint::of_node)
    }

    /// Whether the node reports a handler.
    pub fn reports(&self, handler: &str) -> bool {
        matches!(&self.handlers, Some(Handlers::Reported(names)) if names.contains(handler))
    }

    /// The pool in the label of the node, which a kubelet can write. Only the pool in a verified record keeps the node.
    pub fn labelled_pool(&self) -> Option<&str> {
        self.labels.get(label::POOL).map(String::as_str)
    }
}

impl From<Node> for WindowsNode {
    fn from(node: Node) -> Self {
        let metadata = node.metadata;
        let status = node.status.unwrap_or_default();
        let info = status.node_info.unwrap_or_default();
        let (labels, oversized) = bounded(metadata.labels.unwrap_or_default());
        let annotations = metadata.annotations.unwrap_or_default();
        let managed = metadata.managed_fields.unwrap_or_default();
        let writer = |outer, inner| {
            last_other_writer(managed.iter().filter(|entry| has_field(entry, outer, inner)), manager::NODES)
        };
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.iter().find(|condition: &&NodeCondition| condition.type_ == "Ready");
        let is_true = |of: &str| conditions.iter().any(|condition| condition.type_ == of && condition.status == "True");
        let occupied = LIFECYCLE_CONDITIONS.iter().find(|row| row.is_occupied && is_true(row.name)).map(|row| row.name);
        let spec = node.spec.unwrap_or_default();
        let is_rke2 = info.kubelet_version.contains("+rke2");
        let runtime = ContainerRuntime::read(&info.container_runtime_version);
        let reported = status.runtime_handlers.into_iter().flatten().filter_map(|handler| handler.name);
        // The default handler has no name.
        let reported: BTreeSet<String> = reported.filter(|name| !name.is_empty()).collect();
        let handlers = match reported.is_empty() {
            true => runtime.and_then(ContainerRuntime::handlers).map(Handlers::OfRuntime),
            false => Some(Handlers::Reported(reported)),
        };
        let kubelet: Result<KubeletVersion, _> = info.kubelet_version.parse().map_err(|_| info.kubelet_version.into());
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            system_uuid: info.system_uuid,
            resource_version: metadata.resource_version.into(),
            created: metadata.creation_timestamp.map(|time| time.0),
            labels,
            oversized,
            taints: spec.taints.unwrap_or_default(),
            config: annotations.get(annotation::CONFIG).cloned(),
            owned: annotations.get(annotation::OWNED).map(|text| SignedRecord::read(text)),
            registered_with: annotations.get(annotation::REGISTERED_WITH).cloned(),
            ready: ready.is_some_and(|ready| ready.status == "True"),
            ready_since: Uncompared(ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0)),
            heartbeat: Uncompared(ready.and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0)),
            unschedulable: spec.unschedulable == Some(true),
            occupied,
            cordon: annotations.get(annotation::CORDONED).and_then(|text| serde_json::from_str(text).ok()),
            os: info.kernel_version.parse().map_err(|_| info.kernel_version.into()),
            runtime: runtime.ok_or_else(|| info.container_runtime_version.into()),
            kubelet,
            is_rke2,
            handlers,
            capacity: Resources::read(status.capacity.as_ref()),
            allocatable: Resources::read(status.allocatable.as_ref()),
            pod_addresses: pod_addresses(&spec.pod_cidrs.unwrap_or_default()),
            taints_writer: writer("f:spec", "f:taints"),
            labels_writer: writer("f:metadata", "f:labels"),
        }
    }
}

impl Resources {
    /// The amount of a resource, in the units of its field.
    pub const fn get(&self, resource: Resource) -> Option<i64> {
        match resource {
            Resource::Cpu => self.cpu_milli,
            Resource::Memory => self.memory,
            Resource::EphemeralStorage => self.ephemeral_storage,
        }
    }

    fn read(map: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>) -> Self {
        let quantity = |name: &str| map?.get(name)?.0.parse::<Quantity>().ok();
        Self {
            cpu_milli: quantity("cpu").map(|quantity| quantity.milli()),
            memory: quantity("memory").map(|quantity| quantity.bytes()),
            ephemeral_storage: quantity("ephemeral-storage").map(|quantity| quantity.bytes()),
            pods: quantity("pods").map(|quantity| quantity.bytes()),
        }
    }
}

/// The addresses of the first IPv4 range without those of the network, the gateway and the broadcast, as the plugin host-local
/// allocates them (containernetworking/plugins, `plugins/ipam/host-local/backend/allocator/range.go`, read 2026-11-29).
fn pod_addresses(ranges: &[String]) -> Option<i64> {
    let prefix = |range: &String| {
        let (address, prefix) = range.split_once('/')?;
        address.parse::<Ipv4Addr>().ok()?;
        prefix.parse::<u32>().ok().filter(|prefix| (1..=30).contains(prefix))
    };
    ranges.iter().find_map(prefix).map(|prefix| (1 << (32 - prefix)) - 3)
}

/// Whether an entry contains a field, such as `f:spec` and `f:taints`.
fn has_field(entry: &ManagedFieldsEntry, outer: &str, inner: &str) -> bool {
    entry.fields_v1.as_ref().is_some_and(|fields| fields.0.get(outer).is_some_and(|map| map.get(inner).is_some()))
}

/// The manager of the latest of these entries that is not `own`.
pub fn last_other_writer<'e>(
    entries: impl IntoIterator<Item = &'e ManagedFieldsEntry>,
    own: &str,
) -> Option<ForeignText> {
    let others = entries.into_iter().filter(|entry| entry.manager.as_deref() != Some(own));
    others.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?.manager.clone().map(ForeignText::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_addresses_for_pods_but_three() {
        for (ranges, expected) in [
            (&["10.244.1.0/24"][..], Some(253)),
            (&["fd00::/64", "10.244.1.0/26"], Some(61)),
            (&["10.244.1.0/30"], Some(1)),
            (&["10.244.1.0/31"], None),
            (&["10.244.1.0/-1", "x/24", "10.0.0.0", ""], None),
            (&["fd00::/64"], None),
            (&[], None),
        ] {
            let ranges: Vec<_> = ranges.iter().map(|range| (*range).to_owned()).collect();
            assert_eq!(pod_addresses(&ranges), expected, "{ranges:?}");
        }
    }

    #[test]
    fn a_handler_is_missing_by_what_the_node_reports_or_else_by_its_runtime() {
        let reported = Handlers::Reported(BTreeSet::from(["runhcs-wcow-process".to_owned()]));
        let [containerd, docker] =
            [&["runhcs-wcow-process", "runhcs-wcow-hypervisor"][..], &["docker"]].map(Handlers::OfRuntime);
        for (handlers, handler, is_missing) in [
            (&reported, "runhcs-wcow-process", false),
            (&reported, "runhcs-wcow-hypervisor", true),
            (&reported, "mine", true),
            (&containerd, "runhcs-wcow-hypervisor", false),
            (&containerd, "docker", true),
            // Its configuration may have it.
            (&containerd, "mine", false),
            (&docker, "docker", false),
            (&docker, "mine", true),
        ] {
            assert_eq!(handlers.lack(handler), is_missing, "{handlers:?} {handler}");
        }
    }
}
