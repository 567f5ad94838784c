//! Reads a cluster once, for the command line: the same objects as in the caches of the operator.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::{Lease, LeaseSpec},
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams},
};
use serde::de::DeserializeOwned;
use tracing::debug;
use winpool_api::names::GROUP;
use winpool_core::{Objects, kind::Kind};
use winpool_rules::{
    pool::{
        ConfigMapView, NodeConfigView, Pool, Snapshot,
        cluster_api::{
            ClusterApiObjects, ClusterApiState, GroupKind, Infrastructure, InfrastructureReference,
            described_infrastructure,
        },
    },
    status::overview::MachineObject,
};
use winpool_workload::{Controllers, NodeDrivers, Pod, Storage};

use super::{
    View, WatchBackoff,
    caches::{has_agents, uses_cluster_api},
    configuration::configuration_remedy,
    definitions,
    election::LEASE,
    explain, infrastructure,
    kinds::{self, OfKind},
    served, status_code, version,
};

/// The number of objects in a page of a list.
pub const PAGE: u32 = 500;
/// The name of the operator's Deployment.
const DEPLOYMENT: &str = "winpool";

/// Why a cluster could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what}: {why}: {remedy}")]
pub struct ListError {
    what: &'static str,
    why: String,
    remedy: &'static str,
    forbidden: bool,
}

impl ListError {
    fn new(what: &'static str, error: &kube::Error) -> Self {
        let code = status_code(error);
        let remedy = configuration_remedy(error, code).unwrap_or(match code {
            Some(403) => "use a kubeconfig with the permission to list it",
            Some(_) => "check the API server",
            None => "check the server of the kubeconfig's current context, and the network",
        });
        Self { what, why: explain(error), remedy, forbidden: code == Some(403) }
    }
}

/// The objects in the cluster, and why those of Cluster API may not be read, without which most can be computed. Without the
/// CustomResourceDefinitions of winpool there are no pools and profiles.
pub async fn list_snapshot(client: &Client, namespace: &str) -> Result<(Snapshot, Option<ListError>), ListError> {
    let pools = list_pools(client).await?;
    let cluster_api = match uses_cluster_api(&pools) {
        true => list_cluster_api(client, &pools).await,
        false => Ok(ClusterApiState::Unknown),
    };
    let (cluster_api, missing) = match cluster_api {
        Ok(state) => (state, None),
        Err(error) if error.forbidden => (ClusterApiState::Unknown, Some(error)),
        Err(error) => return Err(error),
    };
    Ok((Snapshot { cluster_api, ..list_snapshot_of(client, namespace, pools).await? }, missing))
}

/// All pools. Without the CustomResourceDefinitions of winpool there are none.
pub async fn list_pools(client: &Client) -> Result<Objects<Pool>, ListError> {
    list_all(client).await
}

/// All pools of a cluster that has served them before. An API server that starts may not serve them yet, which is an error.
pub async fn list_served_pools(client: &Client) -> Result<Objects<Pool>, ListError> {
    read(kinds::all(client.clone(), Kind::POOL)).await.map_err(|error| match status_code(&error) {
        Some(404) => ListError { remedy: definitions::REMEDY, ..ListError::new(Kind::POOL.name, &error) },
        _ => ListError::new(Kind::POOL.name, &error),
    })
}

/// The objects in the cluster for these pools, without those of Cluster API.
pub async fn list_snapshot_of(client: &Client, namespace: &str, pools: Objects<Pool>) -> Result<Snapshot, ListError> {
    let info = client.apiserver_version().await.map_err(|error| ListError::new("the API server's version", &error))?;
    let node_configs = list_all::<NodeConfigView>(client).await;
    // Without agents the permission to list them may be missing.
    let node_configs = if has_agents(&pools) { Some(node_configs?) } else { node_configs.ok() };
    Ok(Snapshot {
        now: Timestamp::now(),
        namespace: namespace.to_owned(),
        pools,
        node_configs,
        profiles: list_all(client).await?,
        nodes: list_all(client).await?,
        runtime_classes: list_all(client).await?,
        config_maps: list::<ConfigMapView>(Api::namespaced(client.clone(), namespace)).await?,
        api_server: version::minor(&info).ok(),
        ownership: Arc::default(),
        ..Snapshot::default()
    })
}

/// The MachineDeployments, MachinePools and MachineSets in a namespace.
pub async fn list_machine_objects(client: &Client, namespace: &str) -> Result<Vec<MachineObject>, ListError> {
    let mut objects = Vec::new();
    for kind in MachineObject::KINDS {
        let api = kinds::namespaced(client.clone(), kind, namespace);
        let read = each(&api, ListParams::default(), |object| objects.push(MachineObject::from_object(kind, &object)));
        read.await.map_err(|error| match status_code(&error) {
            Some(404) => ListError { remedy: "install Cluster API 1.11 or later", ..ListError::new(kind.name, &error) },
            _ => ListError::new(kind.name, &error),
        })?;
    }
    Ok(objects)
}

async fn list_cluster_api(
    client: &Client,
    pools: &Objects<Pool>,
) -> Result<ClusterApiState<Arc<ClusterApiObjects>>, ListError> {
    let served = served(client).await.map_err(|error| ListError::new("what is served of Cluster API", &error))?;
    if served.installed().is_none() {
        return Ok(served.and_then(|()| None));
    }
    let mut objects = ClusterApiObjects {
        clusters: list_all(client).await?,
        deployments: list_all(client).await?,
        pools: list_all(client).await?,
        sets: list_all(client).await?,
        machines: list_all(client).await?,
        templates: list_all(client).await?,
        configs: list_all(client).await?,
        infrastructure: Arc::default(),
    };
    objects.infrastructure = Arc::new(reported(client, &objects, pools).await?);
    Ok(ClusterApiState::Installed(Arc::new(objects)))
}

/// What providers report about the machines of the groups that pools with `autoscaling` select.
async fn reported(
    client: &Client,
    objects: &ClusterApiObjects,
    pools: &Objects<Pool>,
) -> Result<BTreeMap<InfrastructureReference, Option<Infrastructure>>, ListError> {
    let groups = GroupKind::ALL.into_iter().flat_map(|kind| objects.groups(kind));
    let references = described_infrastructure(pools.values().map(AsRef::as_ref), groups);
    let mut reported = BTreeMap::new();
    for reference in references {
        let report = infrastructure(client, &reference).await;
        let report = report.map_err(|error| ListError::new("the machine templates of the provider", &error))?;
        reported.insert(reference, report);
    }
    Ok(reported)
}

/// Completes if a WindowsNodeConfig exists when the operator starts. It stays pending without any, without the kind, and without
/// the permission to read it. Server errors are retried.
pub async fn wait_for_node_configs(client: &Client) {
    let api = kinds::all::<DynamicObject>(client.clone(), Kind::NODE_CONFIG);
    let one = ListParams::default().limit(1);
    for delay in WatchBackoff::default() {
        match api.list_metadata(&one).await {
            Ok(found) if !found.items.is_empty() => return,
            Err(error) if status_code(&error).is_none_or(|code| code == 429 || code >= 500) => {
                debug!(error = explain(&error), "WindowsNodeConfigs not listed, retrying");
                tokio::time::sleep(delay).await;
            }
            Ok(_) | Err(_) => break,
        }
    }
    std::future::pending().await
}

/// All pods, and all objects that create pods.
pub async fn list_workloads(client: &Client) -> Result<(Objects<Pod>, Controllers), ListError> {
    let pods = list_all::<Pod>(client).await?;
    let controllers = Controllers {
        deployments: list_all(client).await?,
        stateful_sets: list_all(client).await?,
        daemon_sets: list_all(client).await?,
        jobs: list_all(client).await?,
        cron_jobs: list_all(client).await?,
    };
    Ok((pods, controllers))
}

/// The volumes, and the drivers of nodes.
pub async fn list_storage(client: &Client) -> Result<Storage, ListError> {
    Ok(Storage {
        claims: list_all(client).await?,
        volumes: list_all(client).await?,
        classes: list_all(client).await?,
        nodes: list_drivers(client).await?,
    })
}

/// The CSI drivers of nodes.
pub async fn list_drivers(client: &Client) -> Result<Objects<NodeDrivers>, ListError> {
    list_all(client).await
}

/// All objects of a kind, by name.
async fn list_all<V: View>(client: &Client) -> Result<Objects<V>, ListError>
where
    V::Object: Resource<DynamicType: OfKind> + Clone + DeserializeOwned + Debug,
{
    list(kinds::all(client.clone(), V::KIND)).await
}

async fn list<V: View>(api: Api<V::Object>) -> Result<Objects<V>, ListError>
where
    V::Object: Clone + DeserializeOwned + Debug,
{
    match read(api).await {
        Err(error) if V::KIND.group == GROUP && status_code(&error) == Some(404) => Ok(Objects::default()),
        answer => answer.map_err(|error| ListError::new(V::KIND.name, &error)),
    }
}

async fn read<V: View>(api: Api<V::Object>) -> kube::Result<Objects<V>>
where
    V::Object: Clone + DeserializeOwned + Debug,
{
    let mut objects: Vec<V> = Vec::new();
    let mut shared = V::Shared::default();
    each(&api, kinds::listed(V::KIND), |object| objects.push(V::read(object, &mut shared))).await?;
    Ok(objects.into_iter().collect())
}

/// Calls a function with each object of a list, which is read in pages.
async fn each<K>(api: &Api<K>, params: ListParams, mut function: impl FnMut(K)) -> kube::Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        page.items.into_iter().for_each(&mut function);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// How many Pods of the operator's Deployment are ready, and how many it wants; `None` without a Deployment.
pub async fn operator_pods(client: &Client, namespace: &str) -> Result<Option<(i32, i32)>, ListError> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let found = deployments.get_opt(DEPLOYMENT).await.map_err(|error| ListError::new("Deployment winpool", &error))?;
    Ok(found.map(|Deployment { spec, status, .. }| {
        let ready = status.and_then(|status| status.ready_replicas).unwrap_or(0);
        (ready, spec.and_then(|spec| spec.replicas).unwrap_or(1))
    }))
}

/// The holder of the operator's Lease, and when it has renewed it by its own clock; `None` without a holder.
pub async fn leader(client: &Client, namespace: &str) -> Result<Option<(String, Timestamp)>, ListError> {
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    let found = leases.get_opt(LEASE).await.map_err(|error| ListError::new("Lease winpool", &error))?;
    let holder = |spec: LeaseSpec| Some((spec.holder_identity.filter(|name| !name.is_empty())?, spec.renew_time?.0));
    Ok(found.and_then(|lease| lease.spec).and_then(holder))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn a_kind_that_is_not_served_has_no_objects_but_in_a_cluster_that_has_served_it() {
        let not_served = tower::service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::builder().status(404).body(Body::empty()).unwrap())
        });
        let client = Client::new(not_served, "default");
        assert!(list_pools(&client).await.unwrap().is_empty());
        let error = list_served_pools(&client).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot read WindowsNodePool: "), "{error}");
        assert!(error.contains("install the CustomResourceDefinitions"), "{error}");
    }
}
