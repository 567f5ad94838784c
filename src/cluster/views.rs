//! What is kept of each kind that is watched.

use std::marker::PhantomData;

use k8s_openapi::api::{
    core::v1::{self as core, ConfigMap, LimitRange, Node},
    node::v1::RuntimeClass,
};
use kube::core::DynamicObject;

use crate::domain::{
    image::Said,
    node::WindowsNode,
    pool::{ConfigMapView, Pool, ProfileView, RuntimeClassView},
    workload::{Controller, MemoryDefaults, Pod, PodController, Shared},
};
use crate::facts::mismatch;

/// What the rules read of an object.
pub trait View: Send + Sync + Sized + 'static {
    /// The object as it is watched.
    type Object: Send;
    /// The kind, as Kubernetes spells it.
    const KIND: &'static str;
    /// What many objects have in common, kept once for all of them.
    type Shared: Default + Send;
    /// Reads an object.
    fn read(object: Self::Object, shared: &mut Self::Shared) -> Self;
    /// Its name; with its namespace before a slash, where it has one.
    fn name(&self) -> &str;
    /// The version of the object, where it is kept.
    fn resource_version(&self) -> Option<&str> {
        None
    }
    /// Whether another version of the object says the same to the rules.
    fn says_the_same_as(&self, other: &Self) -> bool;
}

impl View for WindowsNode {
    type Object = Node;
    const KIND: &'static str = "Node";
    type Shared = ();

    fn read(object: Node, (): &mut ()) -> Self {
        object.into()
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn resource_version(&self) -> Option<&str> {
        Some(&self.resource_version)
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self.says_the_same_as(other)
    }
}

impl View for Pool {
    /// Whatever schema it was stored under: reading it never fails.
    type Object = DynamicObject;
    const KIND: &'static str = "WindowsNodePool";
    type Shared = ();

    fn read(object: DynamicObject, (): &mut ()) -> Self {
        Self::from_object(object)
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn resource_version(&self) -> Option<&str> {
        Some(&self.resource_version)
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self.says_the_same_as(other)
    }
}

impl View for ProfileView {
    /// Whatever schema it was stored under: reading it never fails.
    type Object = DynamicObject;
    const KIND: &'static str = "WindowsRuntimeProfile";
    type Shared = ();

    fn read(object: DynamicObject, (): &mut ()) -> Self {
        Self::from_object(object)
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn resource_version(&self) -> Option<&str> {
        Some(&self.resource_version)
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self.says_the_same_as(other)
    }
}

impl View for RuntimeClassView {
    type Object = RuntimeClass;
    const KIND: &'static str = "RuntimeClass";
    type Shared = ();

    fn read(object: RuntimeClass, (): &mut ()) -> Self {
        object.into()
    }
    fn name(&self) -> &str {
        self.name()
    }
    fn resource_version(&self) -> Option<&str> {
        self.object.metadata.resource_version.as_deref()
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self.says_the_same_as(other)
    }
}

impl View for ConfigMapView {
    type Object = ConfigMap;
    const KIND: &'static str = "ConfigMap";
    type Shared = ();

    fn read(object: ConfigMap, (): &mut ()) -> Self {
        object.into()
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self == other
    }
}

impl View for Pod {
    type Object = core::Pod;
    const KIND: &'static str = "Pod";
    type Shared = Shared;

    fn read(object: core::Pod, shared: &mut Shared) -> Self {
        Self::read(object, shared)
    }
    fn name(&self) -> &str {
        &self.key
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self == other
    }
}

/// An object of kind `T` that makes pods.
#[derive(Debug)]
pub struct ControllerView<T> {
    /// What the rules read of it.
    pub controller: Controller,
    kind: PhantomData<fn() -> T>,
}

impl<T: PodController + Send + 'static> View for ControllerView<T> {
    type Object = T;
    const KIND: &'static str = T::KIND;
    type Shared = Shared;

    fn read(object: T, shared: &mut Shared) -> Self {
        Self { controller: Controller::read(object, shared), kind: PhantomData }
    }
    fn name(&self) -> &str {
        &self.controller.key
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self.controller == other.controller
    }
}

impl View for MemoryDefaults {
    type Object = LimitRange;
    const KIND: &'static str = "LimitRange";
    type Shared = ();

    fn read(object: LimitRange, (): &mut ()) -> Self {
        object.into()
    }
    fn name(&self) -> &str {
        &self.key
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self == other
    }
}

/// An event that says why the sandbox of a pod was not created.
#[derive(Debug, PartialEq, Eq)]
pub struct SandboxEvent {
    name: String,
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// What the runtime said, if that is about the image.
    pub said: Option<Said>,
}

impl View for SandboxEvent {
    type Object = core::Event;
    const KIND: &'static str = "Event";
    type Shared = ();

    fn read(object: core::Event, (): &mut ()) -> Self {
        let part = |text: Option<String>| text.unwrap_or_default();
        let pod = object.involved_object;
        let said = object.message.filter(|message| mismatch::says(message)).map(|message| Said::misfit(&message));
        Self {
            name: format!("{}/{}", part(object.metadata.namespace), part(object.metadata.name)),
            pod: format!("{}/{}", part(pod.namespace), part(pod.name)),
            said,
        }
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self == other
    }
}
