//! The snapshot of the cluster that one reconcile uses.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::{core::v1::ConfigMap, node::v1 as node};
use kube::core::DynamicObject;
use serde_json::Value;
use winpool_api::{
    NodeFacts, WindowsRuntimeProfileStatus,
    names::{annotation, label, manager},
};
use winpool_core::{
    ForeignText, Named, Objects, Problem, ResourceVersion, decode,
    kind::Kind,
    named,
    node::{WindowsNode, last_other_writer},
    release_labels,
};
use winpool_facts::{Build, Minor};
use winpool_render::{
    KUBELET_YAML,
    allowances::Allowances,
    profile::{Profile, diversions},
    reserve::Reserves,
    settings::{self, FileSettings},
};
use winpool_workload::{Controllers, Pod, StorageState, Workloads};

use super::{
    NodeConfigView, Pool, Spec,
    assignment::Assigner,
    check,
    cluster_api::{ClusterApiObjects, ClusterApiState},
    membership::Membership,
};
use crate::{
    operation::{Denial, Unwritten, Write},
    ownership::Ownership,
    revert::RevertDetector,
};

/// The length of the part of a digest that is in the name of a ConfigMap, in hexadecimal digits.
const NAME_DIGEST_LENGTH: usize = 10;

/// Everything that plans and conditions are computed from.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub now: Timestamp,
    /// The namespace of the operator and its ConfigMaps.
    pub namespace: String,
    pub pools: Objects<Pool>,
    pub nodes: Objects<WindowsNode>,
    /// The nodes with a record that have lost the label of Windows nodes, so that no watch selects them: a kubelet can
    /// remove it. `None` until they are listed, which only the end of a cleanup needs.
    pub unwatched: Option<Vec<WindowsNode>>,
    /// How many Linux nodes match the selector of the reconciled pool; counted only if it has no nodes.
    pub linux_nodes: usize,
    /// The kinds that the API server refuses to list, and that are therefore empty here: only what needs them waits.
    pub refused: BTreeSet<Kind>,
    pub profiles: Objects<ProfileView>,
    pub runtime_classes: Objects<RuntimeClassView>,
    /// The managed ConfigMaps in the operator's namespace, by name.
    pub config_maps: Objects<ConfigMapView>,
    /// The lowest minor of the API servers that responded recently.
    pub api_server: Option<Minor>,
    /// Verifies and signs the records of nodes.
    pub ownership: Arc<Ownership>,
    /// The nodes of every pool in an earlier snapshot: see [`Snapshot::membership`].
    pub membership: Arc<Membership>,
    /// The writes that other clients reverted.
    pub reverts: Arc<RevertDetector>,
    /// What admission recently rejected, by node.
    pub denials: BTreeMap<String, Denial>,
    /// The RuntimeClasses and ConfigMaps that could not be written lately. What depends on them waits, and nothing else.
    pub unwritten: Unwritten,
    pub workloads: Workloads,
    /// All pods, by namespace and name; `None` if they are not read or not synced.
    pub pods: Option<Objects<Pod>>,
    /// Whether the API server refuses to list pods.
    pub pods_refused: bool,
    /// All objects that create pods; empty if they are not read or not synced.
    pub controllers: Controllers,
    /// The volumes of pods, and the drivers of nodes.
    pub storage: StorageState,
    /// All WindowsNodeConfigs, by name; `None` if the kind is not installed or its first list is not complete.
    pub node_configs: Option<Objects<NodeConfigView>>,
    /// What is known of Cluster API.
    pub cluster_api: ClusterApiState<Arc<ClusterApiObjects>>,
    /// When the Leases of nodes were renewed, by name of the node: of those whose agent waits for its confirmation.
    pub lease_renewals: BTreeMap<String, Timestamp>,
}

impl Snapshot {
    /// The nodes of every pool, computed incrementally from those of an earlier snapshot.
    pub fn membership(&self) -> Arc<Membership> {
        let assigner = Assigner::updated(self.membership.assigner(), &self.pools, &self.ownership);
        Membership::updated(&self.membership, &assigner, &self.nodes)
    }

    /// The profile that a spec names, if it is valid.
    pub fn profile_of(&self, spec: &Spec) -> Option<&Profile> {
        self.profiles.get(spec.profile.as_ref()?)?.profile.as_ref().ok()
    }

    /// What the agent of a node reports about it.
    pub fn facts(&self, node: &WindowsNode) -> Option<&NodeFacts> {
        self.node_configs.as_ref()?.get(&node.name)?.assigned(node)?.status.facts.as_ref()
    }

    /// Whether pods are not known, and will not be: workloads are off, or the permission is missing.
    pub fn pods_are_off(&self) -> bool {
        self.pods.is_none() && (self.workloads == Workloads::Off || self.pods_refused)
    }

    /// Whether pods are not known yet.
    pub fn pods_are_awaited(&self) -> bool {
        self.pods.is_none() && !self.pods_are_off()
    }

    /// The mirrors of a registry in the profile of a pool, in the order of their use.
    pub fn mirrors(&self, pool: &str, registry: &str) -> Arc<[String]> {
        let profile = self.pools.get(pool).and_then(|pool| self.profile_of(pool.spec.as_ref().ok()?));
        profile.into_iter().flat_map(|profile| profile.mirrors(registry)).cloned().collect()
    }
}

/// A parsed `WindowsRuntimeProfile`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileView {
    pub name: String,
    pub uid: String,
    pub resource_version: ResourceVersion,
    pub generation: i64,
    /// The parsed spec, or its problems.
    pub profile: Result<Profile, Vec<Problem>>,
    pub status: WindowsRuntimeProfileStatus,
}

named!(ProfileView: name, ConfigMapView: name);

impl ProfileView {
    /// Parses a stored profile, which may have another schema.
    pub fn from_object(object: DynamicObject) -> Self {
        let DynamicObject { metadata, data, .. } = object;
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.into(),
            generation: metadata.generation.unwrap_or_default(),
            profile: check::profile(data.get("spec").cloned().unwrap_or_default()),
            status: check::status(data.get("status")),
        }
    }

    /// The profile, invalid if it sends traffic of nodes to a host that is not allowed.
    #[must_use]
    pub fn within(self, allowances: &Allowances) -> Self {
        let checked = self.profile.and_then(|profile| match allowances.problems(diversions(&profile)) {
            problems if problems.is_empty() => Ok(profile),
            problems => Err(problems),
        });
        Self { profile: checked, ..self }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeClassView {
    /// The object without its managed fields and its version.
    pub object: node::RuntimeClass,
    pub resource_version: ResourceVersion,
    /// The last field manager other than winpool that wrote the class.
    pub other_writer: Option<ForeignText>,
}

impl From<node::RuntimeClass> for RuntimeClassView {
    fn from(mut object: node::RuntimeClass) -> Self {
        let managed = object.metadata.managed_fields.take().unwrap_or_default();
        let resource_version = object.metadata.resource_version.take().into();
        Self { object, resource_version, other_writer: last_other_writer(&managed, manager::OBJECTS) }
    }
}

impl Named for RuntimeClassView {
    fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }
}

impl RuntimeClassView {
    /// Reads a RuntimeClass in a file.
    ///
    /// # Errors
    /// What is not as in a RuntimeClass.
    pub fn decode(object: Value) -> Result<Self, Problem> {
        decode::<node::RuntimeClass>("", object).map(Self::from)
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.object.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Whether winpool created or adopted the class.
    pub fn is_managed(&self) -> bool {
        self.label(label::MANAGED_BY) == Some(label::MANAGED_BY_VALUE)
    }

    /// The state before the class was adopted.
    pub fn adopted(&self) -> Option<&str> {
        self.object.metadata.annotations.as_ref()?.get(annotation::ADOPTED).map(String::as_str)
    }

    /// The Windows build that the class selects, by the label of the build or that of the release.
    pub fn build(&self) -> Option<Build> {
        let selector = self.object.scheduling.as_ref()?.node_selector.as_ref()?;
        let by_build = selector.get(label::WINDOWS_BUILD).and_then(|build| build.parse().ok());
        by_build.or_else(|| selector.keys().find_map(|key| release_labels::build_of(key)))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ConfigMapView {
    pub name: String,
    pub uid: String,
    pub resource_version: ResourceVersion,
    /// The pool of the configuration.
    pub pool: Option<String>,
    /// The settings in its files, by key.
    pub settings: FileSettings,
    pub digest: String,
    /// The inputs that it was rendered from, by their digests.
    pub rendered_from: BTreeSet<String>,
    /// The reserves of its kubelet, if it has the file for it.
    pub reserves: Option<Reserves>,
    pub created: Option<Timestamp>,
    pub deleting: bool,
}

impl ConfigMapView {
    pub fn delete(&self) -> Write {
        Write::delete_config_map(&self.name, &self.uid)
    }
}

impl From<ConfigMap> for ConfigMapView {
    fn from(object: ConfigMap) -> Self {
        let metadata = object.metadata;
        let data = object.data.unwrap_or_default();
        let settings = settings::settings(&data);
        let recorded = metadata.annotations.and_then(|mut all| all.remove(annotation::RENDERED_FROM));
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.into(),
            digest: settings::digest(&settings),
            settings,
            rendered_from: recorded.iter().flat_map(|digests| digests.split(',')).map(str::to_owned).collect(),
            reserves: data.get(KUBELET_YAML).and_then(|file| Reserves::read(file)),
            pool: metadata.labels.and_then(|labels| labels.get(label::POOL).cloned()),
            created: metadata.creation_timestamp.map(|time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Whether a name is one that [`config_name`] makes.
pub(super) fn is_config_name(pool: &str, name: &str) -> bool {
    let digest = name.strip_prefix(pool).and_then(|rest| rest.strip_prefix('-'));
    digest.is_some_and(|digest| {
        digest.len() == NAME_DIGEST_LENGTH && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// The name of the ConfigMap with the data of this digest in a pool.
pub(super) fn config_name(pool: &str, digest: &str) -> String {
    format!("{pool}-{digest:.NAME_DIGEST_LENGTH$}")
}

/// The digest in a name that [`config_name`] makes.
pub(super) fn digest_of_name(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}
