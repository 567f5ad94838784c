//! The world as one pass sees it: read from the caches, then never looked at again.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{core::v1::ConfigMap, node::v1 as node};
use kube::core::DynamicObject;

use super::{Pool, check, configs::digest};
use crate::{
    api::{
        WindowsRuntimeProfileStatus,
        names::{annotation, label, manager},
    },
    domain::{
        Objects, Problem,
        node::WindowsNode,
        ownership::Ownership,
        profile::Profile,
        revert::RevertDetector,
        workload::{Pod, Workloads},
    },
    facts::Minor,
};

/// Everything that the rules read.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The time of the pass.
    pub now: Timestamp,
    /// Where the operator keeps its ConfigMaps.
    pub namespace: String,
    /// All pools, by name.
    pub pools: Objects<Pool>,
    /// All Windows nodes, by name.
    pub nodes: Objects<WindowsNode>,
    /// All profiles, by name.
    pub profiles: Objects<ProfileView>,
    /// All RuntimeClasses, by name.
    pub runtime_classes: Objects<RuntimeClassView>,
    /// Our ConfigMaps in the operator's namespace, by name.
    pub config_maps: Objects<ConfigMapView>,
    /// The lowest minor of the API servers that answered lately.
    pub api_server: Option<Minor>,
    /// How the records on nodes are verified and signed.
    pub ownership: Arc<Ownership>,
    /// Which of our writes others reverted.
    pub reverts: Arc<RevertDetector>,
    /// Nodes whose taints admission refused lately, with the refusal.
    pub refusals: BTreeMap<String, String>,
    /// The workloads of the pools.
    pub workloads: Workloads,
    /// All pods, by namespace and name; `None` where they are not read, or not yet.
    pub pods: Option<Objects<Pod>>,
}

impl Snapshot {
    /// The mirrors of a registry in the profile of a pool, in the order in which they are asked.
    pub fn mirrors(&self, pool: &str, registry: &str) -> Arc<[String]> {
        let profile = self.pools.get(pool).and_then(|pool| pool.spec.as_ref().ok()?.profile.as_ref());
        let profile = profile.and_then(|name| self.profiles.get(name)?.profile.as_ref().ok());
        profile.into_iter().flat_map(|profile| profile.mirrors(registry)).cloned().collect()
    }
}

/// A `WindowsRuntimeProfile` as the rules see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileView {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version of the object.
    pub resource_version: String,
    /// The generation of its spec.
    pub generation: i64,
    /// What it asks for, or every mistake in it.
    pub profile: Result<Profile, Vec<Problem>>,
    /// The status as it is stored.
    pub status: WindowsRuntimeProfileStatus,
}

impl ProfileView {
    /// A profile as it is stored, under whatever schema.
    pub fn from_object(object: DynamicObject) -> Self {
        let DynamicObject { metadata, data, .. } = object;
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            profile: check::profile(data.get("spec").cloned().unwrap_or_default()),
            status: check::status(data.get("status")),
        }
    }

    /// Whether another version of the profile says the same to the rules.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let versionless = |profile: &Self| Self { resource_version: String::new(), ..profile.clone() };
        versionless(self) == versionless(other)
    }
}

/// A RuntimeClass as the rules see it.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeClassView {
    /// The object, without its managed fields.
    pub object: node::RuntimeClass,
    /// Who else wrote it last.
    pub other_writer: Option<String>,
}

impl From<node::RuntimeClass> for RuntimeClassView {
    fn from(mut object: node::RuntimeClass) -> Self {
        let managed = object.metadata.managed_fields.take().unwrap_or_default();
        let other_writer = managed
            .iter()
            .filter(|entry| entry.manager.as_deref() != Some(manager::OBJECTS))
            .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))
            .and_then(|entry| entry.manager.clone());
        Self { object, other_writer }
    }
}

impl RuntimeClassView {
    /// Its name.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// One of its labels.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.object.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether we made it or took it over.
    pub fn ours(&self) -> bool {
        self.label(label::MANAGED_BY) == Some(label::MANAGED_BY_VALUE)
    }

    /// What it was before it was taken over.
    pub fn adopted(&self) -> Option<&str> {
        self.object.metadata.annotations.as_ref()?.get(annotation::ADOPTED).map(String::as_str)
    }

    /// The Windows build that it leads to.
    pub fn build(&self) -> Option<&str> {
        let scheduling = self.object.scheduling.as_ref()?;
        scheduling.node_selector.as_ref()?.get(label::WINDOWS_BUILD).map(String::as_str)
    }

    /// Whether another version of the class says the same to the rules.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let versionless = |class: &Self| {
            let mut class = class.clone();
            class.object.metadata.resource_version = None;
            class
        };
        versionless(self) == versionless(other)
    }
}

/// One of our ConfigMaps as the rules see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigMapView {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The pool that it was rendered for.
    pub pool: Option<String>,
    /// The digest of its content.
    pub digest: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl From<ConfigMap> for ConfigMapView {
    fn from(object: ConfigMap) -> Self {
        let metadata = object.metadata;
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            digest: digest(&object.data.unwrap_or_default()),
            pool: metadata.labels.and_then(|labels| labels.get(label::POOL).cloned()),
            created: metadata.creation_timestamp.map(|time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}
