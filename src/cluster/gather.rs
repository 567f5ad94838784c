//! One look at a cluster: what the caches of an operator would hold, read once.

use std::{fmt::Debug, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{self as core, ConfigMap, Node},
    node::v1::RuntimeClass,
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde::de::DeserializeOwned;

use super::{ControllerView, View, explain, version};
use crate::{
    api::{WindowsNodePool, WindowsRuntimeProfile, names::label},
    domain::{
        Objects,
        node::WindowsNode,
        pool::{ConfigMapView, Pool, ProfileView, RuntimeClassView, Snapshot},
        workload::{Controller, Pod, PodController},
    },
};

/// How many objects are asked for at once.
const PAGE: u32 = 500;
/// The name of the operator's Deployment.
const DEPLOYMENT: &str = "winpool";

/// Why a cluster could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what}: {why}: {remedy}")]
pub struct GatherError {
    what: &'static str,
    why: String,
    remedy: &'static str,
}

impl GatherError {
    fn new(what: &'static str, error: &kube::Error) -> Self {
        let remedy = match code(error) {
            Some(401) => "log in to the cluster anew: it does not know the credentials of the kubeconfig",
            Some(403) => "ask for the permission to list it, or take a kubeconfig that has it",
            Some(404) => "the server does not serve this kind: winpool needs Kubernetes 1.20 or later",
            Some(_) => "look at the API server",
            None => "look at the server in the kubeconfig's current context, and at the network between",
        };
        Self { what, why: explain(error), remedy }
    }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// What is in the cluster now. Without our CustomResourceDefinitions there are no pools and profiles.
///
/// # Errors
/// The cluster could not be reached, or refused.
pub async fn gather(client: &Client, namespace: &str) -> Result<Snapshot, GatherError> {
    let info =
        client.apiserver_version().await.map_err(|error| GatherError::new("the API server's version", &error))?;
    let all = ListParams::default();
    let windows = ListParams::default().labels(&format!("{}=windows", label::OS));
    let ours = ListParams::default().labels(&format!("{}={}", label::MANAGED_BY, label::MANAGED_BY_VALUE));
    let ours_here = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let resource = |resource| Api::<DynamicObject>::all_with(client.clone(), &resource);
    Ok(Snapshot {
        now: Timestamp::now(),
        namespace: namespace.to_owned(),
        pools: list::<Pool>(resource(ApiResource::erase::<WindowsNodePool>(&())), all.clone(), true).await?,
        profiles: list::<ProfileView>(resource(ApiResource::erase::<WindowsRuntimeProfile>(&())), all.clone(), true)
            .await?,
        nodes: list::<WindowsNode>(Api::<Node>::all(client.clone()), windows, false).await?,
        runtime_classes: list::<RuntimeClassView>(Api::<RuntimeClass>::all(client.clone()), all, false).await?,
        config_maps: list::<ConfigMapView>(ours_here, ours, false).await?,
        api_server: version::minor(&info).ok(),
        ownership: Arc::default(),
        ..Snapshot::default()
    })
}

/// Pods, and what makes them.
pub struct Workloads {
    /// All pods.
    pub pods: Vec<Arc<Pod>>,
    /// All Deployments, StatefulSets, DaemonSets, Jobs and CronJobs.
    pub controllers: Vec<Arc<Controller>>,
}

/// The workloads in the cluster now.
///
/// # Errors
/// The cluster could not be reached, or refused.
pub async fn gather_workloads(client: &Client) -> Result<Workloads, GatherError> {
    let pods = list::<Pod>(Api::<core::Pod>::all(client.clone()), ListParams::default(), false).await?;
    let mut made_by = controllers::<Deployment>(client, false).await?;
    made_by.extend(controllers::<StatefulSet>(client, false).await?);
    made_by.extend(controllers::<DaemonSet>(client, false).await?);
    made_by.extend(controllers::<Job>(client, false).await?);
    // Those of batch/v1 came with 1.21.
    made_by.extend(controllers::<CronJob>(client, true).await?);
    Ok(Workloads { pods: pods.values().cloned().collect(), controllers: made_by })
}

/// All objects of a kind that makes pods.
async fn controllers<T>(client: &Client, may_be_unknown: bool) -> Result<Vec<Arc<Controller>>, GatherError>
where
    T: PodController + Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let all = list::<ControllerView<T>>(Api::all(client.clone()), ListParams::default(), may_be_unknown).await?;
    Ok(all.values().map(|view| Arc::new(view.controller.clone())).collect())
}

/// All objects of a kind, by name.
async fn list<V: View>(api: Api<V::Object>, params: ListParams, may_be_unknown: bool) -> Result<Objects<V>, GatherError>
where
    V::Object: Clone + DeserializeOwned + Debug,
{
    let mut objects = Objects::default();
    let mut shared = V::Shared::default();
    let mut params = params.limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Err(error) if may_be_unknown && code(&error) == Some(404) => return Ok(objects),
            answer => answer.map_err(|error| GatherError::new(V::KIND, &error))?,
        };
        let views = page.items.into_iter().map(|object| V::read(object, &mut shared));
        objects.extend(views.map(|view| (view.name().to_owned(), Arc::new(view))));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// Whether an operator is at work: its Deployment has a Pod that is ready.
///
/// # Errors
/// The cluster could not be reached, or refused.
pub async fn operator_runs(client: &Client, namespace: &str) -> Result<bool, GatherError> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let found =
        deployments.get_opt(DEPLOYMENT).await.map_err(|error| GatherError::new("Deployment winpool", &error))?;
    Ok(found.and_then(|deployment| deployment.status?.ready_replicas).is_some_and(|ready| ready > 0))
}
