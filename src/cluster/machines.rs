//! Cluster API's objects: which versions are served, their stores, and requests for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::GroupVersion,
};
use serde_json::Value;
use tokio::sync::watch;
use winpool_api::facts::cluster_api::{ApiVersion, BOOTSTRAP_GROUP, CORE_GROUP};
use winpool_core::pool::machines::{
    ClusterApiObjects, ClusterApiState, ClusterView, Infrastructure, InfrastructureReference, KubeadmConfigView,
    MachineGroup, MachinePoolView, MachineSetView, MachineView, TemplateView,
};

use super::{Store, status_code};

/// The kinds that winpool needs, with their groups.
const KINDS: [(&str, &str); 7] = [
    (CORE_GROUP, "Cluster"),
    (CORE_GROUP, "MachineDeployment"),
    (CORE_GROUP, "MachinePool"),
    (CORE_GROUP, "MachineSet"),
    (CORE_GROUP, "Machine"),
    (BOOTSTRAP_GROUP, "KubeadmConfig"),
    (BOOTSTRAP_GROUP, "KubeadmConfigTemplate"),
];

/// What a cluster serves of Cluster API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    Nothing,
    /// Only these versions.
    Unsupported(Vec<String>),
    /// A version that winpool knows: v1beta2 if it is served.
    Version(ApiVersion),
}

/// Reads what a cluster serves of Cluster API.
///
/// # Errors
/// If the API server does not answer.
pub async fn served(client: &Client) -> kube::Result<Served> {
    let groups = client.list_api_groups().await?.groups;
    let versions_of = |name: &str| {
        let group = groups.iter().find(|group| group.name == name);
        group
            .into_iter()
            .flat_map(|group| &group.versions)
            .map(|version| version.version.clone())
            .collect::<BTreeSet<_>>()
    };
    let (core, bootstrap) = (versions_of(CORE_GROUP), versions_of(BOOTSTRAP_GROUP));
    if core.is_empty() || bootstrap.is_empty() {
        return Ok(Served::Nothing);
    }
    let is_listed = |version: &ApiVersion| [&core, &bootstrap].iter().all(|versions| versions.contains(version.name()));
    let listed: Vec<_> = ApiVersion::ALL.into_iter().filter(is_listed).collect();
    for version in &listed {
        if serves_all_kinds(client, *version).await? {
            return Ok(Served::Version(*version));
        }
    }
    // While it is being installed or removed, some of its kinds are missing.
    Ok(if listed.is_empty() { Served::Unsupported(core.into_iter().collect()) } else { Served::Nothing })
}

/// Whether all kinds are served in a version: each has its own CustomResourceDefinition.
async fn serves_all_kinds(client: &Client, version: ApiVersion) -> kube::Result<bool> {
    for group in [CORE_GROUP, BOOTSTRAP_GROUP] {
        let resources = client.list_api_group_resources(&format!("{group}/{version}")).await?.resources;
        let needed = KINDS.iter().filter(|(of, _)| *of == group);
        if !needed.into_iter().all(|(_, kind)| resources.iter().any(|resource| resource.kind == *kind)) {
            return Ok(false);
        }
    }
    Ok(true)
}

pub fn cluster_api_resource(group: &str, version: ApiVersion, kind: &str) -> ApiResource {
    let version = GroupVersion::gv(group, version.name());
    ApiResource::from_gvk(&version.with_kind(kind))
}

/// The stores of Cluster API's kinds in one version.
#[derive(Clone)]
#[allow(missing_docs)] // as in [`ClusterApiObjects`]
pub struct ClusterApiStores {
    pub version: ApiVersion,
    pub clusters: Store<ClusterView>,
    pub deployments: Store<MachineGroup>,
    pub pools: Store<MachinePoolView>,
    pub sets: Store<MachineSetView>,
    pub machines: Store<MachineView>,
    pub templates: Store<TemplateView>,
    pub configs: Store<KubeadmConfigView>,
    pub infrastructure: watch::Sender<Arc<BTreeMap<InfrastructureReference, Option<Infrastructure>>>>,
}

impl ClusterApiStores {
    /// Stores that are not synced.
    pub fn new(version: ApiVersion) -> Self {
        Self {
            version,
            clusters: Store::default(),
            deployments: Store::default(),
            pools: Store::default(),
            sets: Store::default(),
            machines: Store::default(),
            templates: Store::default(),
            configs: Store::default(),
            infrastructure: watch::Sender::default(),
        }
    }

    /// The objects, once all kinds were listed.
    pub fn state(&self) -> ClusterApiState {
        let synced = self.clusters.is_synced()
            && self.deployments.is_synced()
            && self.pools.is_synced()
            && self.sets.is_synced()
            && self.machines.is_synced()
            && self.templates.is_synced()
            && self.configs.is_synced();
        if !synced {
            return ClusterApiState::Unknown;
        }
        ClusterApiState::Installed(Arc::new(ClusterApiObjects {
            version: self.version,
            clusters: self.clusters.all(),
            deployments: self.deployments.all(),
            pools: self.pools.all(),
            sets: self.sets.all(),
            machines: self.machines.all(),
            templates: self.templates.all(),
            configs: self.configs.all(),
            infrastructure: self.infrastructure.borrow().clone(),
        }))
    }

    /// Waits until all kinds were listed.
    pub async fn wait_for_sync(&self) {
        tokio::join!(
            self.clusters.wait_for_sync(),
            self.deployments.wait_for_sync(),
            self.pools.wait_for_sync(),
            self.sets.wait_for_sync(),
            self.machines.wait_for_sync(),
            self.templates.wait_for_sync(),
            self.configs.wait_for_sync()
        );
    }
}

/// What a provider reports about the machines of a template; `None` if it does not exist, or may not be read.
///
/// # Errors
/// If the API server does not answer.
pub async fn infrastructure(
    client: &Client,
    reference: &InfrastructureReference,
) -> kube::Result<Option<Infrastructure>> {
    let groups = client.list_api_groups().await?.groups;
    let group = groups.into_iter().find(|group| group.name == reference.group);
    let version = group.and_then(|group| group.preferred_version.or_else(|| group.versions.into_iter().next()));
    let Some(version) = version else { return Ok(None) };
    let resource =
        ApiResource::from_gvk(&GroupVersion::gv(&reference.group, &version.version).with_kind(&reference.kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &reference.namespace, &resource);
    let object = match api.get(&reference.name).await {
        Err(error) if matches!(status_code(&error), Some(403 | 404)) => return Ok(None),
        answer => answer?,
    };
    let capacity = object.data.pointer("/status/capacity").and_then(Value::as_object);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let capacity = capacity.into_iter().flatten().map(|(resource, value)| (resource.clone(), text(value))).collect();
    Ok(Some(Infrastructure { capacity }))
}
