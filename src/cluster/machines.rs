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
use winpool_core::{
    kind::Kind,
    pool::machines::{
        ClusterApiObjects, ClusterApiState, ClusterView, Infrastructure, InfrastructureReference, KubeadmConfigView,
        MachineGroup, MachinePoolView, MachineSetView, MachineView, TemplateView,
    },
};

use super::{Store, status_code};

/// Reads what a cluster serves of Cluster API.
pub async fn served(client: &Client) -> kube::Result<ClusterApiState<ApiVersion>> {
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
        return Ok(ClusterApiState::NotInstalled);
    }
    let is_listed = |version: &ApiVersion| [&core, &bootstrap].iter().all(|versions| versions.contains(version.name()));
    let listed: Vec<_> = ApiVersion::ALL.into_iter().filter(is_listed).collect();
    for version in &listed {
        if serves_all_kinds(client, *version).await? {
            return Ok(ClusterApiState::Installed(*version));
        }
    }
    // While it is being installed or removed, some of its kinds are missing.
    let is_unknown = listed.is_empty();
    Ok(if is_unknown {
        ClusterApiState::Unsupported(core.into_iter().collect())
    } else {
        ClusterApiState::NotInstalled
    })
}

/// Whether all kinds are served in a version: each has its own CustomResourceDefinition.
async fn serves_all_kinds(client: &Client, version: ApiVersion) -> kube::Result<bool> {
    for group in [CORE_GROUP, BOOTSTRAP_GROUP] {
        let resources = client.list_api_group_resources(&format!("{group}/{version}")).await?.resources;
        let mut needed = Kind::CLUSTER_API.into_iter().filter(|kind| kind.group == group);
        if !needed.all(|kind| resources.iter().any(|resource| resource.kind == kind.name)) {
            return Ok(false);
        }
    }
    Ok(true)
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
    pub fn objects(&self) -> Option<Arc<ClusterApiObjects>> {
        let synced = self.clusters.is_synced()
            && self.deployments.is_synced()
            && self.pools.is_synced()
            && self.sets.is_synced()
            && self.machines.is_synced()
            && self.templates.is_synced()
            && self.configs.is_synced();
        synced.then(|| {
            Arc::new(ClusterApiObjects {
                version: self.version,
                clusters: self.clusters.all(),
                deployments: self.deployments.all(),
                pools: self.pools.all(),
                sets: self.sets.all(),
                machines: self.machines.all(),
                templates: self.templates.all(),
                configs: self.configs.all(),
                infrastructure: self.infrastructure.borrow().clone(),
            })
        })
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
