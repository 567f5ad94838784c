//! Cluster API's objects: whether they are served, their stores, and requests for them.

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
use winpool_core::kind::Kind;
use winpool_facts::cluster_api::{BOOTSTRAP_GROUP, CORE_GROUP};
use winpool_rules::pool::cluster_api::{
    ClusterApiObjects, ClusterApiState, ClusterView, Infrastructure, InfrastructureReference, KubeadmConfigView,
    MachineGroup, MachinePoolView, MachineSetView, MachineView, TemplateView,
};

use super::{Store, status_code};

/// Reads what a cluster serves of Cluster API.
pub async fn served(client: &Client) -> kube::Result<ClusterApiState<()>> {
    let groups = client.list_api_groups().await?.groups;
    let groups = groups.into_iter().filter(|group| [CORE_GROUP, BOOTSTRAP_GROUP].contains(&group.name.as_str()));
    let mut served = BTreeSet::new();
    for version in groups.flat_map(|group| group.versions) {
        let resources = client.list_api_group_resources(&version.group_version).await?.resources;
        served.extend(resources.into_iter().map(|resource| (version.group_version.clone(), resource.kind)));
    }
    Ok(state(&served))
}

/// What a cluster can do that serves these kinds, each with group and version: each kind has its own CustomResourceDefinition,
/// so that some of them are missing while Cluster API is being installed or removed.
fn state(served: &BTreeSet<(String, String)>) -> ClusterApiState<()> {
    let versions = |kind: &Kind| -> BTreeSet<&String> {
        let group = format!("{}/", kind.group);
        let of_kind = served.iter().filter(|(version, name)| *name == kind.name && version.starts_with(&group));
        of_kind.map(|(version, _)| version).collect()
    };
    let all = Kind::CLUSTER_API.iter().map(|kind| (kind.api_version(), versions(kind)));
    let mut missing = all.filter(|(needed, versions)| !versions.contains(needed)).peekable();
    if missing.peek().is_none() {
        return ClusterApiState::Installed(());
    }
    let others: BTreeSet<_> = missing.flat_map(|(_, versions)| versions).collect();
    if others.is_empty() {
        ClusterApiState::NotInstalled
    } else {
        ClusterApiState::Unsupported(others.into_iter().cloned().collect())
    }
}

/// The stores of Cluster API's kinds.
#[derive(Clone, Default)]
#[allow(missing_docs)] // as in [`ClusterApiObjects`]
pub struct ClusterApiStores {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_needed_in_one_version() {
        let in_versions = |core: &str, bootstrap: &str| -> BTreeSet<(String, String)> {
            let version = |kind: &Kind| if kind.group == CORE_GROUP { core } else { bootstrap };
            let kinds = Kind::CLUSTER_API.iter();
            kinds.map(|kind| (format!("{}/{}", kind.group, version(kind)), kind.name.to_owned())).collect()
        };
        let only = |versions: &[&str]| {
            ClusterApiState::Unsupported(versions.iter().map(|version| (*version).to_owned()).collect())
        };
        let (core, bootstrap) = ("cluster.x-k8s.io/v1beta1", "bootstrap.cluster.x-k8s.io/v1beta1");
        let mut both = in_versions("v1beta1", "v1beta1");
        both.extend(in_versions("v1beta2", "v1beta2"));
        // Other bootstrap providers serve the version of their own kinds.
        let mut of_others = in_versions("v1beta2", "v1beta1");
        of_others.insert(("bootstrap.cluster.x-k8s.io/v1beta2".to_owned(), "EKSConfig".to_owned()));
        let mut partly = in_versions("v1beta2", "v1beta2");
        partly.pop_first();
        for (served, expected) in [
            (in_versions("v1beta2", "v1beta2"), ClusterApiState::Installed(())),
            (both, ClusterApiState::Installed(())),
            (in_versions("v1beta1", "v1beta1"), only(&[bootstrap, core])),
            (in_versions("v1beta1", "v1beta2"), only(&[core])),
            (of_others, only(&[bootstrap])),
            (partly, ClusterApiState::NotInstalled),
            (BTreeSet::new(), ClusterApiState::NotInstalled),
        ] {
            assert_eq!(state(&served), expected, "{served:?}");
        }
    }
}
