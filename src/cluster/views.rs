//! What is kept of each kind that is watched.

use k8s_openapi::api::{
    core::v1::{ConfigMap, Node},
    node::v1::RuntimeClass,
};
use kube::core::DynamicObject;

use crate::domain::{
    node::WindowsNode,
    pool::{ConfigMapView, Pool, ProfileView, RuntimeClassView},
};

/// What the rules read of an object.
pub trait View: Send + Sync + Sized + 'static {
    /// The object as it is watched.
    type Object: Send;
    /// The kind, as Kubernetes spells it.
    const KIND: &'static str;
    /// Reads an object.
    fn read(object: Self::Object) -> Self;
    /// Its name.
    fn name(&self) -> &str;
    /// The version of the object, where it is kept.
    fn resource_version(&self) -> Option<&str>;
    /// Whether another version of the object says the same to the rules.
    fn says_the_same_as(&self, other: &Self) -> bool;
}

impl View for WindowsNode {
    type Object = Node;
    const KIND: &'static str = "Node";

    fn read(object: Node) -> Self {
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

    fn read(object: DynamicObject) -> Self {
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

    fn read(object: DynamicObject) -> Self {
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

    fn read(object: RuntimeClass) -> Self {
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

    fn read(object: ConfigMap) -> Self {
        object.into()
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn resource_version(&self) -> Option<&str> {
        None
    }
    fn says_the_same_as(&self, other: &Self) -> bool {
        self == other
    }
}
