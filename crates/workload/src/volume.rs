//! The volumes of pods, and what mounts them.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, PodSpec, Volume},
    storage::v1::{CSINode, StorageClass},
};
use serde_json::Value;
use winpool_core::{named, object_key};
use winpool_facts::{
    csi_drivers::{self, CSI_DRIVERS},
    pod_fields::LINUX_VOLUMES,
};

/// A volume of a pod that a driver mounts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodVolume {
    pub name: String,
    pub source: VolumeSource,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VolumeSource {
    /// The name of a PersistentVolumeClaim, with `*` for that of the pod, so that the pods of a StatefulSet have one template.
    Claim(String),
    Plugin(VolumePlugin),
}

/// What mounts a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VolumePlugin {
    /// The CSI driver of this name.
    Csi(String),
    /// No driver on Windows, for this reason, which follows the name of the volume.
    Unsupported(String),
}

impl VolumePlugin {
    /// The plugin of a volume of a pod, or of a PersistentVolume, which has the same fields.
    fn of(volume: &Value) -> Option<Self> {
        let csi = volume["csi"]["driver"].as_str().map(|driver| (driver, &volume["csi"]));
        let in_tree = CSI_DRIVERS.iter().filter_map(|driver| Some((driver.name, &volume[driver.in_tree?.0])));
        let mut drivers = csi.into_iter().chain(in_tree).filter(|(_, source)| !source.is_null());
        let driver = drivers.next().map(|(driver, source)| Self::csi(driver, source["fsType"].as_str()));
        let mut others = LINUX_VOLUMES.iter().chain(&["flexVolume", "iscsi", "nfs"]);
        driver.or_else(|| {
            let name = others.find(|name| !volume[**name].is_null())?;
            Some(Self::Unsupported(format!("is of type {name}, which no CSI driver mounts on Windows")))
        })
    }

    fn csi(driver: &str, file_system: Option<&str>) -> Self {
        let unsupported = file_system.map(str::to_lowercase).filter(|of| csi_drivers::is_unsupported(driver, of));
        match unsupported {
            Some(of) => {
                Self::Unsupported(format!("has file system {of}, which {driver} is not known to mount on Windows"))
            }
            None => Self::Csi(driver.to_owned()),
        }
    }
}

/// The volumes of a pod that drivers mount. A generic ephemeral volume has a claim of its own (kubernetes/component-helpers v0.37.2,
/// `storage/ephemeral/ephemeral.go`).
pub fn volumes(spec: &PodSpec) -> Vec<PodVolume> {
    let source = |volume: &Volume| {
        let claim = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone());
        let claim = claim.or_else(|| volume.ephemeral.as_ref().map(|_| format!("*-{}", volume.name)));
        claim.map(VolumeSource::Claim).or_else(|| plugin(volume).map(VolumeSource::Plugin))
    };
    let volumes = spec.volumes.iter().flatten();
    volumes.filter_map(|volume| Some(PodVolume { name: volume.name.clone(), source: source(volume)? })).collect()
}

/// The plugin of a volume, unless it is of a kind that the kubelet mounts itself, as most are.
fn plugin(volume: &Volume) -> Option<VolumePlugin> {
    let by_kubelet = [
        volume.config_map.is_some(),
        volume.downward_api.is_some(),
        volume.empty_dir.is_some(),
        volume.host_path.is_some(),
        volume.projected.is_some(),
        volume.secret.is_some(),
    ];
    if by_kubelet.contains(&true) { None } else { VolumePlugin::of(&serde_json::to_value(volume).ok()?) }
}

/// Replaces the name of the pod at the end of the names of claims, as those of a StatefulSet have it.
pub(super) fn without_pod(volumes: &mut [PodVolume], pod: &str) {
    for volume in volumes {
        if let VolumeSource::Claim(claim) = &mut volume.source
            && let Some(template) = claim.strip_suffix(pod).filter(|template| template.ends_with('-'))
        {
            *claim = format!("{template}*");
        }
    }
}

/// A PersistentVolumeClaim.
#[derive(Debug, PartialEq, Eq)]
pub struct ClaimView {
    /// Its namespace and name, as `namespace/name`.
    pub key: String,
    /// The PersistentVolume, if it is bound.
    pub volume: Option<String>,
    pub class: Option<String>,
}

/// A PersistentVolume.
#[derive(Debug, PartialEq, Eq)]
pub struct VolumeView {
    pub name: String,
    /// `None` for one of the node, such as a local one.
    pub plugin: Option<VolumePlugin>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct StorageClassView {
    pub name: String,
    /// `None` if its volumes are not provisioned.
    pub plugin: Option<VolumePlugin>,
}

/// The drivers that are registered on a node: its CSINode.
#[derive(Debug, PartialEq, Eq)]
pub struct NodeDrivers {
    pub node: String,
    /// By name of the driver, the most volumes that can be used on the node; `None` without a limit.
    pub limits: BTreeMap<String, Option<usize>>,
}

named!(ClaimView: key, VolumeView: name, StorageClassView: name, NodeDrivers: node);

impl From<PersistentVolumeClaim> for ClaimView {
    fn from(claim: PersistentVolumeClaim) -> Self {
        let spec = claim.spec.unwrap_or_default();
        let given = |name: &String| !name.is_empty();
        let (volume, class) = (spec.volume_name.filter(given), spec.storage_class_name.filter(given));
        Self { key: object_key(&claim.metadata), volume, class }
    }
}

impl From<PersistentVolume> for VolumeView {
    fn from(volume: PersistentVolume) -> Self {
        let plugin = serde_json::to_value(volume.spec).ok().and_then(|spec| VolumePlugin::of(&spec));
        Self { name: volume.metadata.name.unwrap_or_default(), plugin }
    }
}

impl From<StorageClass> for StorageClassView {
    fn from(class: StorageClass) -> Self {
        let parameters = class.parameters.unwrap_or_default();
        let fs_type = parameters.iter().find(|(key, _)| csi_drivers::is_fs_type(key)).map(|(_, value)| value.as_str());
        let plugin = VolumePlugin::csi(csi_drivers::of_provisioner(&class.provisioner), fs_type);
        let plugin = Some(plugin).filter(|_| class.provisioner != "kubernetes.io/no-provisioner");
        Self { name: class.metadata.name.unwrap_or_default(), plugin }
    }
}

impl From<CSINode> for NodeDrivers {
    fn from(node: CSINode) -> Self {
        let limit = |count: i32| usize::try_from(count).unwrap_or_default();
        let drivers = node.spec.drivers.into_iter();
        let limits = drivers.map(|one| (one.name, one.allocatable.and_then(|of| of.count).map(limit))).collect();
        Self { node: node.metadata.name.unwrap_or_default(), limits }
    }
}
