//! Whether nodes mount the volumes of pods: the driver of each volume, compared with those that are registered on the nodes.
//!
//! Sources, read on 2026-11-29: kubernetes/api v0.37.2, `VolumeNodeResources` in `storage/v1/types.go`; kubernetes/kubernetes v1.37.2,
//! `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`: volumes of claims count, and nodes without the driver are chosen by default.

use std::{
    collections::{BTreeMap, BTreeSet},
    slice,
};

use derive_more::Display;
use winpool_core::{Objects, text::some_of};
use winpool_facts::csi_drivers;

use super::{ClaimView, IssueKind, NodeDrivers, Pod, StorageClassView, VolumePlugin, VolumeSource, VolumeView};

/// The volumes of a cluster, and the drivers of its nodes.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    pub claims: Objects<ClaimView>,
    pub volumes: Objects<VolumeView>,
    pub classes: Objects<StorageClassView>,
    pub nodes: Objects<NodeDrivers>,
}

/// What is known of the storage of a cluster.
#[derive(Clone, Debug, Default)]
pub enum StorageState {
    /// It is not read.
    #[default]
    Off,
    /// It is not read yet, or may not be read.
    Waiting,
    Known(Storage),
}

impl StorageState {
    pub fn known(&self) -> Option<&Storage> {
        match self {
            Self::Known(storage) => Some(storage),
            Self::Off | Self::Waiting => None,
        }
    }
}

/// Why a volume of a pod is not mounted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display("volume {volume} of pod {pod} {fault}")]
pub struct VolumeIssue {
    /// Its namespace and name, as `namespace/name`.
    pub pod: String,
    pub volume: String,
    pub fault: VolumeFault,
}

/// What is wrong with a volume. Its text follows the name of the volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
pub enum VolumeFault {
    #[display(
        "needs CSI driver {driver}, which is not registered on {nodes}. Install its DaemonSet for Windows{}",
        csi_proxy(driver)
    )]
    DriverNotRegistered {
        driver: String,
        /// The first nodes.
        nodes: String,
    },
    #[display("{_0}. Use a CSI driver for Windows, such as smb.csi.k8s.io, and NTFS")]
    NotSupported(String),
    #[display("needs CSI driver {driver}, which attaches no more volumes to {nodes}. Add nodes, or move pods")]
    AttachLimitReached { driver: String, nodes: String },
}

/// That a driver may need csi-proxy.
fn csi_proxy(driver: &str) -> &'static str {
    let needs = csi_drivers::named(driver).is_some_and(|driver| driver.needs_csi_proxy);
    if needs { ", and csi-proxy on each node unless it runs in HostProcess containers" } else { "" }
}

impl VolumeIssue {
    pub fn kind(&self) -> IssueKind {
        match self.fault {
            VolumeFault::DriverNotRegistered { .. } => IssueKind::DriverNotRegistered,
            VolumeFault::NotSupported(_) => IssueKind::VolumeNotSupported,
            VolumeFault::AttachLimitReached { .. } => IssueKind::AttachLimitReached,
        }
    }
}

/// The volumes of claims that pods use, by node and driver.
pub type Attached<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>;

impl Storage {
    /// The volumes of a pod whose plugin is known: name, plugin, and for that of a claim what counts for a limit. The scheduler reports
    /// a claim that does not exist.
    fn mounts<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = (&'a str, &'a VolumePlugin, Option<&'a str>)> {
        let (namespace, name) = pod.key.split_once('/').unwrap_or_default();
        pod.template.volumes.iter().filter_map(move |volume| match &volume.source {
            VolumeSource::Plugin(plugin) => Some((volume.name.as_str(), plugin, None)),
            VolumeSource::Claim(claim) => {
                let claim = self.claims.get(&format!("{namespace}/{}", claim.replace('*', name)))?;
                let plugin = match &claim.volume {
                    Some(bound) => &self.volumes.get(bound)?.plugin,
                    None => &self.classes.get(claim.class.as_ref()?)?.plugin,
                };
                let counted = claim.volume.as_ref().unwrap_or(&claim.key);
                Some((volume.name.as_str(), plugin.as_ref()?, Some(counted.as_str())))
            }
        })
    }

    pub fn has_driver(&self, node: &str, driver: &str) -> bool {
        self.nodes.get(node).is_some_and(|node| node.limits.contains_key(driver))
    }

    /// The CSI drivers that a pod needs.
    pub fn drivers<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a str> {
        self.mounts(pod).filter_map(|(_, plugin, _)| match plugin {
            VolumePlugin::Csi(driver) => Some(driver.as_str()),
            VolumePlugin::Unsupported(_) => None,
        })
    }

    /// The volumes that these pods use.
    pub fn attached<'a>(&'a self, pods: impl IntoIterator<Item = &'a Pod>) -> Attached<'a> {
        let mut attached = Attached::new();
        for (pod, node) in pods.into_iter().filter_map(|pod| Some((pod, pod.node.as_deref()?))) {
            for (_, plugin, counted) in self.mounts(pod) {
                if let (VolumePlugin::Csi(driver), Some(counted)) = (plugin, counted) {
                    attached.entry((node, driver)).or_default().insert(counted);
                }
            }
        }
        attached
    }

    /// The first volume of a pod that none of these nodes mounts; without nodes, only one that no node does.
    pub fn obstacle(&self, pod: &Pod, nodes: &[&str], attached: &Attached<'_>) -> Option<VolumeIssue> {
        let fault = |plugin: &VolumePlugin, counted: Option<&str>| {
            let driver = match plugin {
                VolumePlugin::Unsupported(why) => return Some(VolumeFault::NotSupported(why.clone())),
                VolumePlugin::Csi(driver) => driver.clone(),
            };
            let limits = nodes.iter().filter_map(|node| Some((*node, *self.nodes.get(node)?.limits.get(&driver)?)));
            let limits: Vec<(&str, Option<usize>)> = limits.collect();
            let is_full = |(node, limit): &(&str, Option<usize>)| {
                let used = attached.get(&(*node, driver.as_str()));
                let more = counted.is_some_and(|volume| used.is_none_or(|used| !used.contains(volume)));
                limit.is_some_and(|limit| used.map_or(0, BTreeSet::len) + usize::from(more) > limit)
            };
            if limits.is_empty() {
                let nodes = some_of(nodes);
                return (!nodes.is_empty()).then_some(VolumeFault::DriverNotRegistered { driver, nodes });
            }
            let is_reached = counted.is_some() && limits.iter().all(is_full);
            is_reached.then(|| VolumeFault::AttachLimitReached { driver: driver.clone(), nodes: some_of(nodes) })
        };
        self.mounts(pod).find_map(|(volume, plugin, counted)| {
            let fault = fault(plugin, counted)?;
            Some(VolumeIssue { pod: pod.key.to_string(), volume: volume.to_owned(), fault })
        })
    }

    /// The first issue of each pod. Pods without a node are compared with all of these nodes; `pods` has all pods on them.
    pub fn issues<'p>(&self, nodes: &[&str], pods: &[&'p Pod]) -> Vec<(&'p Pod, VolumeIssue)> {
        let attached = self.attached(pods.iter().copied());
        let issue = |pod: &'p Pod| {
            let own = pod.node.as_deref();
            Some((pod, self.obstacle(pod, own.as_ref().map_or(nodes, slice::from_ref), &attached)?))
        };
        pods.iter().filter_map(|pod| issue(pod)).collect()
    }
}
