//! The views: the cached fields of each watched kind.

use k8s_openapi::api::{
    core::v1::{self as core, ConfigMap, LimitRange, Node},
    node::v1::RuntimeClass,
    storage::v1::{CSINode, StorageClass},
};
use kube::core::DynamicObject;
use winpool_core::{Named, image::RuntimeReport, kind::Kind, node::WindowsNode};
use winpool_facts::runtime_errors;
use winpool_render::allowances::Allowances;
use winpool_rules::pool::{
    ConfigMapView, NodeConfigView, Pool, ProfileView, RuntimeClassView,
    cluster_api::{
        ClusterView, GroupKind, KubeadmConfigView, MachineGroup, MachinePoolView, MachineSetView, MachineView,
        TemplateView,
    },
};
use winpool_workload::{
    ClaimView, ControllerView, MemoryDefaults, NodeDrivers, Pod, PodController, Service, Shared, StorageClassView,
    VolumeView,
};

/// The fields of an object that the rules read. Two are equal if the rules decide the same for both.
pub trait View: Named + PartialEq + Send + Sync + Sized + 'static {
    /// The type of the watched object.
    type Object: Send;
    const KIND: Kind;
    /// Values that many objects have in common; each is stored once.
    type Shared: Default + Send;
    fn read(object: Self::Object, shared: &mut Self::Shared) -> Self;
    /// The object with what the configuration of the operator does not allow refused.
    #[must_use]
    fn within(self, _: &Allowances) -> Self {
        self
    }
    /// The resource version, if the view has it.
    fn resource_version(&self) -> Option<&str> {
        None
    }
    /// Whether the object is larger than is kept.
    fn is_oversized(&self) -> bool {
        false
    }
}

impl View for Pod {
    type Object = core::Pod;
    const KIND: Kind = Kind::POD;
    type Shared = Shared;

    fn read(object: core::Pod, shared: &mut Shared) -> Self {
        Self::read(object, shared)
    }

    fn is_oversized(&self) -> bool {
        self.is_oversized()
    }
}

impl<T: PodController + Send + 'static> View for ControllerView<T> {
    type Object = T;
    const KIND: Kind = T::KIND;
    type Shared = Shared;

    fn read(object: T, shared: &mut Shared) -> Self {
        Self::read(object, shared)
    }

    fn is_oversized(&self) -> bool {
        self.controller.template.oversized
    }
}

/// An event about a sandbox of a pod that was not created.
#[derive(Debug, PartialEq, Eq)]
pub struct SandboxEvent {
    name: String,
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// The report of the container runtime, if it is about the image.
    pub report: Option<RuntimeReport>,
}

impl Named for SandboxEvent {
    fn name(&self) -> &str {
        &self.name
    }
}

impl View for SandboxEvent {
    type Object = core::Event;
    const KIND: Kind = Kind::EVENT;
    type Shared = ();

    fn read(object: core::Event, (): &mut ()) -> Self {
        let key = |namespace: Option<String>, name: Option<String>| {
            format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
        };
        let pod = object.involved_object;
        let about_image = object.message.filter(|message| runtime_errors::is_platform_mismatch(message));
        Self {
            name: key(object.metadata.namespace, object.metadata.name),
            pod: key(pod.namespace, pod.name),
            report: about_image.map(|message| RuntimeReport::incompatible(&message)),
        }
    }
}

/// Views without shared values: the watched object, the kind, how it is read, its resource version, whether the object is larger than is
/// kept, and what must be allowed in it.
macro_rules! views {
    ($($view:ty: $object:ty, $kind:expr, $read:expr, $version:expr $(, oversized: $oversized:expr)? $(, within: $within:expr)?;)*) => {
        $(impl View for $view {
            type Object = $object;
            const KIND: Kind = $kind;
            type Shared = ();

            fn read(object: $object, (): &mut ()) -> Self {
                ($read)(object)
            }
            $(fn within(self, allowances: &Allowances) -> Self {
                ($within)(self, allowances)
            })?
            fn resource_version(&self) -> Option<&str> {
                let version: for<'a> fn(&'a Self) -> Option<&'a str> = $version;
                version(self)
            }
            $(fn is_oversized(&self) -> bool {
                let oversized: fn(&Self) -> bool = $oversized;
                oversized(self)
            })?
        })*
    };
}

// Reading a dynamic object never fails, also if it was stored under another schema or has another structure.
views! {
    WindowsNode: Node, Kind::NODE, Self::from, |node| Some(&node.resource_version), oversized: |node| node.oversized;
    Pool: DynamicObject, Kind::POOL, Self::from_object, |pool| Some(&pool.resource_version), within: Self::within;
    ProfileView: DynamicObject, Kind::PROFILE, Self::from_object, |profile| Some(&profile.resource_version), within: Self::within;
    RuntimeClassView: RuntimeClass, Kind::RUNTIME_CLASS, Self::from, |class| Some(&class.resource_version);
    ConfigMapView: ConfigMap, Kind::CONFIG_MAP, Self::from, |map| Some(&map.resource_version);
    NodeConfigView: DynamicObject, Kind::NODE_CONFIG, Self::from_object, |config| Some(&config.resource_version);
    MemoryDefaults: LimitRange, Kind::LIMIT_RANGE, Self::from, |_| None;
    ClaimView: core::PersistentVolumeClaim, Kind::CLAIM, Self::from, |_| None;
    VolumeView: core::PersistentVolume, Kind::VOLUME, Self::from, |_| None;
    StorageClassView: StorageClass, Kind::STORAGE_CLASS, Self::from, |_| None;
    NodeDrivers: CSINode, Kind::CSI_NODE, Self::from, |_| None;
    Service: core::Service, Kind::SERVICE, Self::from, |_| None, oversized: |service| service.oversized;
    ClusterView: DynamicObject, Kind::CLUSTER, |object| Self::from_object(&object), |_| None;
    MachineSetView: DynamicObject, Kind::MACHINE_SET, |object| Self::from_object(&object), |_| None;
    MachineView: DynamicObject, Kind::MACHINE, |object| Self::from_object(&object), |_| None;
    MachineGroup: DynamicObject, Kind::MACHINE_DEPLOYMENT, |object| Self::from_object(GroupKind::Deployment, object),
        |group| Some(&group.resource_version), oversized: |group| group.oversized;
    MachinePoolView: DynamicObject, Kind::MACHINE_POOL, |object| Self(MachineGroup::from_object(GroupKind::Pool, object)),
        |pool| Some(&pool.0.resource_version), oversized: |pool| pool.0.oversized;
    // Templates are created and deleted, not changed.
    TemplateView: DynamicObject, Kind::KUBEADM_CONFIG_TEMPLATE, |object| Self::from_object(GroupKind::Deployment, object),
        |_| None;
    KubeadmConfigView: DynamicObject, Kind::KUBEADM_CONFIG,
        |object| Self(TemplateView::from_object(GroupKind::Pool, object)), |_| None;
}
