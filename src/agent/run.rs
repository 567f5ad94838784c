//! The agent beside the API server: it watches the WindowsNodeConfig of its node, and gives each change to the worker.

use std::{
    collections::BTreeMap,
    io,
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    time::Duration,
};

use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Node, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use kube_runtime::{WatchStreamExt, watcher};
use tokio::{runtime::Handle, task::spawn_blocking, time::timeout};

use super::{
    cycle::{Cluster, Limits, Next, PodPhase},
    host::Host,
    report,
    worker::{Source, Worker, delay},
};
use crate::api::{WindowsNodeConfig, WindowsNodeConfigSpec, WindowsNodeConfigStatus};

/// How long one request may take. The worker waits for it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The namespace of the Leases of all nodes.
const LEASES: &str = "kube-node-lease";
/// The field manager of the status.
const FIELD_MANAGER: &str = "winpool-agent";

/// The options of an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the node.
    pub node: String,
    /// The namespace of the operator, with the ConfigMaps.
    pub namespace: String,
    /// The time limits of a change.
    pub limits: Limits,
}

/// Reconciles the node until `stop` completes. A change in progress is resumed by the next agent.
///
/// # Errors
/// When the journal of the node cannot be read.
pub async fn run<H: Host + Send + 'static>(
    client: Client,
    host: H,
    options: Options,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    // One pending event is enough: the worker reads the latest spec, and a full queue has an event already.
    let (events, receiver) = mpsc::sync_channel(1);
    let source = ApiServer { client: client.clone(), options: options.clone(), handle: Handle::current() };
    let worker = spawn_blocking(move || work(&host, &source, &receiver));
    tokio::select! {
        () = watch(client, &options.node, &events) => {}
        () = stop => {}
    }
    drop(events);
    worker.await.map_err(io::Error::other)?
}

/// Sends an event for each change of the WindowsNodeConfig; returns once the worker has ended.
async fn watch(client: Client, node: &str, events: &SyncSender<()>) {
    let configs: Api<WindowsNodeConfig> = Api::all(client);
    let params = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let mut changes = std::pin::pin!(watcher(configs, params).default_backoff());
    loop {
        match changes.try_next().await {
            Ok(Some(_)) => {
                if let Err(mpsc::TrySendError::Disconnected(())) = events.try_send(()) {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "watch of the WindowsNodeConfig failed, it is retried"),
        }
    }
}

/// Reconciles after each event, and after the delay of the last result.
fn work(host: &dyn Host, source: &ApiServer, events: &Receiver<()>) -> io::Result<()> {
    let mut worker = Worker::resume(host, source, source.options.limits)?;
    // The last spec is kept while the API server does not answer: a change in progress must come to an end.
    let (mut spec, mut next) = (None, Next::Idle);
    loop {
        // Between two actions that follow each other at once, nothing is read: services may be stopped.
        if next != Next::Continue {
            match source.spec() {
                Ok(current) => spec = current,
                Err(error) => tracing::warn!(%error, "WindowsNodeConfig not read, it is retried"),
            }
        }
        next = worker.reconcile(spec.as_ref());
        if let Err(RecvTimeoutError::Disconnected) = events.recv_timeout(delay(next)) {
            return Ok(());
        }
    }
}

/// The API server, for a thread that blocks.
struct ApiServer {
    client: Client,
    options: Options,
    handle: Handle,
}

impl ApiServer {
    fn block_on<T>(&self, request: impl Future<Output = kube::Result<T>>) -> io::Result<T> {
        let response = self.handle.block_on(timeout(REQUEST_TIMEOUT, request));
        response.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map_err(io::Error::other)
    }

    /// The spec for this node. A WindowsNodeConfig for a former node of the same name is none.
    fn spec(&self) -> io::Result<Option<WindowsNodeConfigSpec>> {
        let configs: Api<WindowsNodeConfig> = Api::all(self.client.clone());
        let nodes: Api<Node> = Api::all(self.client.clone());
        let Some(config) = self.block_on(configs.get_opt(&self.options.node))? else { return Ok(None) };
        let node = self.block_on(nodes.get_metadata_opt(&self.options.node))?;
        let is_of_node = node.and_then(|node| node.uid()).is_some_and(|uid| uid == config.spec.node_uid);
        Ok(Some(config.spec).filter(|_| is_of_node))
    }
}

impl Cluster for ApiServer {
    fn lease_renewed(&self) -> io::Result<Option<Timestamp>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let lease = self.block_on(leases.get_opt(&self.options.node))?;
        Ok(lease.and_then(|lease| Some(lease.spec?.renew_time?.0)))
    }

    fn pods(&self) -> io::Result<BTreeMap<String, PodPhase>> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let of_node = ListParams::default().fields(&format!("spec.nodeName={}", self.options.node));
        let pods = self.block_on(pods.list(&of_node))?;
        let phase = |pod: &Pod| match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => PodPhase::Running,
            Some("Failed") => PodPhase::Failed,
            _ => PodPhase::Other,
        };
        Ok(pods.items.iter().filter_map(|pod| Some((pod.uid()?, phase(pod)))).collect())
    }
}

impl Source for ApiServer {
    fn config(&self, name: &str) -> io::Result<Option<BTreeMap<String, String>>> {
        let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.options.namespace);
        Ok(self.block_on(configs.get_opt(name))?.map(|config| config.data.unwrap_or_default()))
    }

    fn report(&self, status: &WindowsNodeConfigStatus) -> io::Result<()> {
        let configs: Api<WindowsNodeConfig> = Api::all(self.client.clone());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(report::patch(status));
        self.block_on(configs.patch_status(&self.options.node, &params, &patch)).map(drop)
    }
}
