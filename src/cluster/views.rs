//! The views: the cached fields of each watched kind.

use k8s_openapi::api::{
    core::v1::{self as core, ConfigMap, LimitRange, Node},
    node::v1::RuntimeClass,
};
use kube::core::DynamicObject;
use winpool_api::facts::runtime_errors;
use winpool_core::{
    Named,
    image::RuntimeReport,
    kind::Kind,
    node::WindowsNode,
    pool::{
        ConfigMapView, NodeConfigView, Pool, ProfileView, RuntimeClassView,
        machines::{
            ClusterView, GroupKind, KubeadmConfigView, MachineGroup, MachinePoolView, MachineSetView, MachineView,
            TemplateView,
        },
    },
    workload::{ControllerView, MemoryDefaults, Pod, PodController, Shared},
};

/// The fields of an object that the rules read.
pub trait View: Named + Send + Sync + Sized + 'static {
    /// The type of the watched object.
    type Object: Send;
    /// The kind.
    const KIND: Kind;
    /// Values that many objects have in common; each is stored once.
    type Shared: Default + Send;
    fn read(object: Self::Object, shared: &mut Self::Shared) -> Self;
    /// The resource version, if the view has it.
    fn resource_version(&self) -> Option<&str> {
        None
    }
    /// Whether the objects do not differ for the rules.
    fn is_equivalent_to(&self, other: &Self) -> bool;
}

impl View for WindowsNode {
    type Object = Node;
    const KIND: Kind = Kind::NODE;
    type Shared = ();

    fn read(object: Node, (): &mut ()) -> Self {
        object.into()
    }
    fn resource_version(&self) -> Option<&str> {
        Some(&self.resource_version)
    }
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self.is_equivalent_to(other)
    }
}

impl View for Pool {
    /// Reading never fails, also for an object that was stored under another schema.
    type Object = DynamicObject;
    const KIND: Kind = Kind::POOL;
    type Shared = ();

    fn read(object: DynamicObject, (): &mut ()) -> Self {
        Self::from_object(object)
    }
    fn resource_version(&self) -> Option<&str> {
        Some(&self.resource_version)
    }
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self.is_equivalent_to(other)
    }
}

impl View for ProfileView {
    /// Reading never fails, also for an object that was stored under another schema.
    type Object = DynamicObject;
    const KIND: Kind = Kind::PROFILE;
    type Shared = ();

    fn read(object: DynamicObject, (): &mut ()) -> Self {
        Self::from_object(object)
    }
    fn resource_version(&self) -> Option<&str> {
        Some(&self.resource_version)
    }
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self.is_equivalent_to(other)
    }
}

impl View for RuntimeClassView {
    type Object = RuntimeClass;
    const KIND: Kind = Kind::RUNTIME_CLASS;
    type Shared = ();

    fn read(object: RuntimeClass, (): &mut ()) -> Self {
        object.into()
    }
    fn resource_version(&self) -> Option<&str> {
        self.object.metadata.resource_version.as_deref()
    }
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self.is_equivalent_to(other)
    }
}

impl View for ConfigMapView {
    type Object = ConfigMap;
    const KIND: Kind = Kind::CONFIG_MAP;
    type Shared = ();

    fn read(object: ConfigMap, (): &mut ()) -> Self {
        object.into()
    }
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self == other
    }
}

impl View for NodeConfigView {
    /// Reading never fails, also for an object that was stored under another schema.
    type Object = DynamicObject;
    const KIND: Kind = Kind::NODE_CONFIG;
    type Shared = ();

    fn read(object: DynamicObject, (): &mut ()) -> Self {
        Self::from_object(object)
    }

    fn resource_version(&self) -> Option<&str> {
        Some(&self.resource_version)
    }

    fn is_equivalent_to(&self, other: &Self) -> bool {
        self.is_equivalent_to(other)
    }
}

impl View for Pod {
    type Object = core::Pod;
    const KIND: Kind = Kind::POD;
    type Shared = Shared;

    fn read(object: core::Pod, shared: &mut Shared) -> Self {
        Self::read(object, shared)
    }
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self == other
    }
}

impl<T: PodController + Send + 'static> View for ControllerView<T> {
    type Object = T;
    const KIND: Kind = T::KIND;
    type Shared = Shared;

    fn read(object: T, shared: &mut Shared) -> Self {
        Self::read(object, shared)
    }
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self.controller == other.controller
    }
}

impl View for MemoryDefaults {
    type Object = LimitRange;
    const KIND: Kind = Kind::LIMIT_RANGE;
    type Shared = ();

    fn read(object: LimitRange, (): &mut ()) -> Self {
        object.into()
    }
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self == other
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
    fn is_equivalent_to(&self, other: &Self) -> bool {
        self == other
    }
}

/// The views of Cluster API's kinds. Reading never fails, also for an object with another structure.
macro_rules! cluster_api_views {
    ($($view:ty, $kind:expr, $read:expr, $version:expr, $equivalent:expr;)*) => {
        $(impl View for $view {
            type Object = DynamicObject;
            const KIND: Kind = $kind;
            type Shared = ();

            fn read(object: DynamicObject, (): &mut ()) -> Self {
                ($read)(object)
            }
            fn resource_version(&self) -> Option<&str> {
                let version: for<'a> fn(&'a Self) -> Option<&'a str> = $version;
                version(self)
            }
            fn is_equivalent_to(&self, other: &Self) -> bool {
                ($equivalent)(self, other)
            }
        })*
    };
}

cluster_api_views! {
    ClusterView, Kind::CLUSTER, |object| Self::from_object(&object), |_| None, |one, other| one == other;
    MachineSetView, Kind::MACHINE_SET, |object| Self::from_object(&object), |_| None, |one, other| one == other;
    MachineView, Kind::MACHINE, |object| Self::from_object(&object), |_| None, |one, other| one == other;
    MachineGroup, Kind::MACHINE_DEPLOYMENT, |object| Self::from_object(GroupKind::Deployment, object),
        version_of, |one: &Self, other: &Self| one.is_equivalent_to(other);
    MachinePoolView, Kind::MACHINE_POOL, |object| Self(MachineGroup::from_object(GroupKind::Pool, object)),
        |pool| version_of(&pool.0), |one: &Self, other: &Self| one.0.is_equivalent_to(&other.0);
    // Templates are created and deleted, not changed.
    TemplateView, Kind::KUBEADM_CONFIG_TEMPLATE, |object| Self::from_object(GroupKind::Deployment, object),
        |_| None, |one, other| one == other;
    KubeadmConfigView, Kind::KUBEADM_CONFIG, |object| Self(TemplateView::from_object(GroupKind::Pool, object)),
        |_| None, |one, other| one == other;
}

fn version_of(group: &MachineGroup) -> Option<&str> {
    Some(&group.resource_version)
}
