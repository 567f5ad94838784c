//! Reads a cluster once, for the command line: the same objects as in the caches of the operator.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{self as core, ConfigMap, Node},
    node::v1::RuntimeClass,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde::de::DeserializeOwned;
use tracing::debug;
use winpool_api::{
    WindowsNodeConfig, WindowsNodePool, WindowsRuntimeProfile,
    facts::cluster_api::{BOOTSTRAP_GROUP, CORE_GROUP},
    names::label,
};
use winpool_core::{
    Objects,
    node::WindowsNode,
    pool::{
        ConfigMapView, NodeConfigView, Pool, ProfileView, RuntimeClassView, Snapshot,
        machines::{
            ClusterApiObjects, ClusterApiState, GroupKind, Infrastructure, InfrastructureReference,
            described_infrastructure,
        },
    },
    workload::{ControllerView, Controllers, Pod, PodController},
};

use super::{
    Served, View, WatchBackoff,
    caches::{has_agents, uses_cluster_api},
    cluster_api_resource,
    configuration::configuration_remedy,
    explain, infrastructure, served, status_code, version,
};

/// The number of objects in a page of a list.
const PAGE: u32 = 500;
/// The name of the operator's Deployment.
const DEPLOYMENT: &str = "winpool";

/// Why a cluster could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what}: {why}: {remedy}")]
pub struct ListError {
    what: &'static str,
    why: String,
    remedy: &'static str,
}

impl ListError {
    fn new(what: &'static str, error: &kube::Error) -> Self {
        let code = status_code(error);
        let remedy = configuration_remedy(error, code).unwrap_or(match code {
            Some(403) => "use a kubeconfig with the permission to list it",
            Some(404) => "upgrade the cluster: winpool needs Kubernetes 1.20 or later, which serves this kind",
            Some(_) => "check the API server",
            None => "check the server of the kubeconfig's current context, and the network",
        });
        Self { what, why: explain(error), remedy }
    }
}

/// The objects in the cluster. Without the CustomResourceDefinitions of winpool there are no pools and profiles.
///
/// # Errors
/// If the cluster cannot be reached, or rejects a request.
pub async fn list_snapshot(client: &Client, namespace: &str) -> Result<Snapshot, ListError> {
    let info = client.apiserver_version().await.map_err(|error| ListError::new("the API server's version", &error))?;
    let all = ListParams::default();
    let windows = ListParams::default().labels(&format!("{}=windows", label::OS));
    let managed = ListParams::default().labels(&format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_VALUE));
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let resource = |resource| Api::<DynamicObject>::all_with(client.clone(), &resource);
    let pools = list::<Pool>(resource(ApiResource::erase::<WindowsNodePool>(&())), all.clone(), true).await?;
    let node_configs = resource(ApiResource::erase::<WindowsNodeConfig>(&()));
    let node_configs = list::<NodeConfigView>(node_configs, all.clone(), true).await;
    // Without agents the permission to list them may be missing.
    let node_configs = if has_agents(&pools) { Some(node_configs?) } else { node_configs.ok() };
    let cluster_api =
        if uses_cluster_api(&pools) { list_cluster_api(client, &pools).await? } else { ClusterApiState::Unknown };
    Ok(Snapshot {
        cluster_api,
        now: Timestamp::now(),
        namespace: namespace.to_owned(),
        pools,
        node_configs,
        profiles: list::<ProfileView>(resource(ApiResource::erase::<WindowsRuntimeProfile>(&())), all.clone(), true)
            .await?,
        nodes: list::<WindowsNode>(Api::<Node>::all(client.clone()), windows, false).await?,
        runtime_classes: list::<RuntimeClassView>(Api::<RuntimeClass>::all(client.clone()), all, false).await?,
        config_maps: list::<ConfigMapView>(config_maps, managed, false).await?,
        api_server: version::minor(&info).ok(),
        ownership: Arc::default(),
        ..Snapshot::default()
    })
}

async fn list_cluster_api(client: &Client, pools: &Objects<Pool>) -> Result<ClusterApiState, ListError> {
    let served = served(client).await.map_err(|error| ListError::new("Cluster API's versions", &error))?;
    let version = match served {
        Served::Nothing => return Ok(ClusterApiState::NotInstalled),
        Served::Unsupported(versions) => return Ok(ClusterApiState::Unsupported(versions)),
        Served::Version(version) => version,
    };
    let of = |group: &str, kind: &str| {
        Api::<DynamicObject>::all_with(client.clone(), &cluster_api_resource(group, version, kind))
    };
    let all = ListParams::default;
    let managed = all().labels(&format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_VALUE));
    let mut objects = ClusterApiObjects {
        version,
        clusters: list(of(CORE_GROUP, "Cluster"), all(), false).await?,
        deployments: list(of(CORE_GROUP, "MachineDeployment"), all(), false).await?,
        pools: list(of(CORE_GROUP, "MachinePool"), all(), false).await?,
        sets: list(of(CORE_GROUP, "MachineSet"), all(), false).await?,
        machines: list(of(CORE_GROUP, "Machine"), all(), false).await?,
        templates: list(of(BOOTSTRAP_GROUP, "KubeadmConfigTemplate"), all(), false).await?,
        configs: list(of(BOOTSTRAP_GROUP, "KubeadmConfig"), managed, false).await?,
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
    let api = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::erase::<WindowsNodeConfig>(&()));
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
///
/// # Errors
/// If the cluster cannot be reached, or rejects a request.
pub async fn list_workloads(client: &Client) -> Result<(Objects<Pod>, Controllers), ListError> {
    let pods = list::<Pod>(Api::<core::Pod>::all(client.clone()), ListParams::default(), false).await?;
    let controllers = Controllers {
        deployments: list_controllers(client, false).await?,
        stateful_sets: list_controllers(client, false).await?,
        daemon_sets: list_controllers(client, false).await?,
        jobs: list_controllers(client, false).await?,
        // CronJobs are in batch/v1 since Kubernetes 1.21.
        cron_jobs: list_controllers(client, true).await?,
    };
    Ok((pods, controllers))
}

/// All objects of a kind that creates pods.
async fn list_controllers<T>(client: &Client, may_be_unknown: bool) -> Result<Objects<ControllerView<T>>, ListError>
where
    T: PodController + Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    list::<ControllerView<T>>(Api::all(client.clone()), ListParams::default(), may_be_unknown).await
}

/// All objects of a kind, by name.
async fn list<V: View>(api: Api<V::Object>, params: ListParams, may_be_unknown: bool) -> Result<Objects<V>, ListError>
where
    V::Object: Clone + DeserializeOwned + Debug,
{
    let mut objects: Vec<V> = Vec::new();
    let mut shared = V::Shared::default();
    let mut params = params.limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Err(error) if may_be_unknown && status_code(&error) == Some(404) => {
                return Ok(objects.into_iter().collect());
            }
            answer => answer.map_err(|error| ListError::new(V::KIND, &error))?,
        };
        objects.extend(page.items.into_iter().map(|object| V::read(object, &mut shared)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects.into_iter().collect()),
        }
    }
}

/// Whether the operator is running: its Deployment has a ready Pod.
///
/// # Errors
/// If the cluster cannot be reached, or rejects a request.
pub async fn is_operator_running(client: &Client, namespace: &str) -> Result<bool, ListError> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let found = deployments.get_opt(DEPLOYMENT).await.map_err(|error| ListError::new("Deployment winpool", &error))?;
    Ok(found.and_then(|deployment| deployment.status?.ready_replicas).is_some_and(|ready| ready > 0))
}
