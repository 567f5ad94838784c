//! The agent beside the API server: it watches the WindowsNodeConfig of its node, and gives each change to the worker.

#![allow(clippy::disallowed_types)] // writes
#![allow(clippy::disallowed_methods)] // I/O, and time

use std::{collections::BTreeMap, io, pin::pin, time::Duration};

use futures::TryStreamExt;
use http::header;
use jiff::{Timestamp, fmt::rfc2822};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{ConfigMap, Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, NotUsed, Object},
};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::{runtime::Handle, sync::watch, task::spawn_blocking, time::timeout};
use winpool_api::{WindowsNodeConfig, WindowsNodeConfigSpec, WindowsNodeConfigStatus, names::NODE_LEASES};
use winpool_core::text::with_sources;
use winpool_render::allowances::Allowances;

use super::{
    cycle::{Cluster, Limits, NextStep, PodPhase, PodsError},
    host::Host,
    report,
    worker::{Source, Worker},
};

/// How long one request may take. The worker waits for it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// When the Node is read again after an error.
const RETRY: Duration = Duration::from_secs(1);
/// How long the API server keeps a watch open. A connection that was cut without notice is replaced after that: a confirmation
/// must arrive in time.
const WATCH_TIMEOUT_SECONDS: u32 = 60;
const FIELD_MANAGER: &str = "winpool-agent";
/// The most pods of one response.
const PAGE: u32 = 500;

/// The options of an agent.
#[derive(Clone)]
pub struct AgentOptions {
    pub node: String,
    /// The namespace of the operator, with the ConfigMaps.
    pub namespace: String,
    pub limits: Limits,
    /// What a configuration may do only if the agent allows it.
    pub allowances: Allowances,
    pub check_interval: Duration,
    /// The client for the kubelet of the node; `None` if its configuration is not read.
    pub kubelet: Option<Client>,
}

/// Reconciles the node until `stop` completes. A change in progress is resumed by the next agent.
pub async fn run<H: Host + Send + 'static>(
    client: Client,
    host: H,
    options: AgentOptions,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    tracing::info!(node = options.node, version = env!("CARGO_PKG_VERSION"), "agent started");
    let (latest, configs) = watch::channel(None);
    let source = ApiServer { client: client.clone(), options: options.clone(), handle: Handle::current() };
    let worker = spawn_blocking(move || work(&host, &source, configs));
    tokio::select! {
        () = watch_config(client, &options.node, &latest) => {}
        () = stop => {}
    }
    drop(latest);
    worker.await.map_err(io::Error::other)?
}

/// Keeps the latest WindowsNodeConfig of the node; returns once the worker has ended.
async fn watch_config(client: Client, node: &str, latest: &watch::Sender<Option<WindowsNodeConfig>>) {
    let only = watcher::Config::default().fields(&format!("metadata.name={node}")).timeout(WATCH_TIMEOUT_SECONDS);
    let mut events = pin!(watcher(Api::<WindowsNodeConfig>::all(client), only).default_backoff());
    let mut listed = None;
    loop {
        let config = match events.try_next().await {
            Ok(Some(Event::Init)) => {
                listed = None;
                continue;
            }
            Ok(Some(Event::InitApply(config))) => {
                listed = Some(config);
                continue;
            }
            Ok(Some(Event::InitDone)) => listed.take(),
            Ok(Some(Event::Apply(config))) => Some(config),
            Ok(Some(Event::Delete(_))) => None,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "watch of the WindowsNodeConfig failed, it is retried");
                continue;
            }
        };
        if latest.send(config).is_err() {
            return;
        }
    }
}

/// Reconciles after each change of the WindowsNodeConfig, and after the delay of the last result.
fn work(
    host: &dyn Host,
    source: &ApiServer,
    mut configs: watch::Receiver<Option<WindowsNodeConfig>>,
) -> io::Result<()> {
    let AgentOptions { limits, check_interval, allowances, .. } = &source.options;
    let mut worker = Worker::resume(host, source, *limits, *check_interval)?.allowing(allowances.clone());
    // The last spec is kept while the API server does not answer: a change in progress must come to an end.
    let (mut spec, mut next) = (None, NextStep::Idle);
    let mut is_current = false;
    loop {
        // Between two actions that follow each other at once, nothing is read: services may be stopped.
        if next != NextStep::Continue && !is_current {
            let config = configs.borrow_and_update().clone();
            match source.spec(config) {
                Ok(current) => (spec, is_current) = (current, true),
                Err(error) => tracing::warn!(%error, "Node not read, it is retried"),
            }
        }
        next = worker.reconcile(spec.as_ref());
        let delay = if is_current { worker.delay(next) } else { worker.delay(next).min(RETRY) };
        match source.wait(&mut configs, delay) {
            Some(Ok(())) => is_current = false,
            Some(Err(_)) => return Ok(()),
            // The Node may have been replaced since.
            None => is_current &= next != NextStep::Idle,
        }
    }
}

/// The API server, for a thread that blocks.
struct ApiServer {
    client: Client,
    options: AgentOptions,
    handle: Handle,
}

impl ApiServer {
    fn block_on<T>(&self, request: impl Future<Output = kube::Result<T>>) -> io::Result<T> {
        let response = self.handle.block_on(timeout(REQUEST_TIMEOUT, request));
        response.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map_err(io::Error::other)
    }

    /// The result of the next change; `None` if there is none within the time.
    fn wait<T>(&self, configs: &mut watch::Receiver<T>, time: Duration) -> Option<Result<(), watch::error::RecvError>> {
        self.handle.block_on(async { timeout(time, configs.changed()).await.ok() })
    }

    /// The metadata of the Node, if it exists.
    fn node(&self) -> io::Result<Option<ObjectMeta>> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        Ok(self.block_on(nodes.get_metadata_opt(&self.options.node))?.map(|node| node.metadata))
    }

    /// The spec for this node. A WindowsNodeConfig for a former node of the same name is none.
    fn spec(&self, config: Option<WindowsNodeConfig>) -> io::Result<Option<WindowsNodeConfigSpec>> {
        let Some(config) = config else { return Ok(None) };
        let is_of_node = self.node()?.and_then(|node| node.uid).is_some_and(|uid| uid == config.spec.node_uid);
        Ok(Some(config.spec).filter(|_| is_of_node))
    }

    async fn configz(&self) -> kube::Result<Option<Value>> {
        let Some(kubelet) = &self.options.kubelet else { return Ok(None) };
        let request = http::Request::get("/configz").body(Vec::new()).map_err(kube::Error::HttpError)?;
        let mut response: Value = kubelet.request(request).await?;
        Ok(response.get_mut("kubeletconfig").filter(|config| config.is_object()).map(Value::take))
    }
}

impl Cluster for ApiServer {
    fn lease_renewed(&self) -> io::Result<Option<Timestamp>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NODE_LEASES);
        let lease = self.block_on(leases.get_opt(&self.options.node))?;
        Ok(lease.and_then(|lease| Some(lease.spec?.renew_time?.0)))
    }

    fn pods(&self, kubeconfig: &[u8]) -> Result<BTreeMap<String, PodPhase>, PodsError> {
        let mut page = ListParams::default().fields(&format!("spec.nodeName={}", self.options.node)).limit(PAGE);
        let listed = self.handle.block_on(timeout(REQUEST_TIMEOUT, async {
            let client = as_kubelet(kubeconfig).await?;
            let api = Api::<ListedPod>::all_with(client, &ApiResource::erase::<Pod>(&()));
            let mut phases = BTreeMap::new();
            loop {
                let pods = api.list(&page).await?;
                phases.extend(pods.items.iter().filter_map(|pod| Some((pod.uid()?, phase(pod)))));
                match pods.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(&token),
                    None => return Ok(phases),
                }
            }
        }));
        listed.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map_err(unread_pods)
    }

    fn kubelet_config(&self) -> Option<Value> {
        let response = self.block_on(self.configz());
        response.unwrap_or_else(|error| {
            tracing::debug!(%error, "the kubelet does not show its configuration");
            None
        })
    }
}

/// A pod of which only the phase is read: whoever may create pods can write a spec that takes a hundred times the memory of its text.
type ListedPod = Object<NotUsed, ListedStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
struct ListedStatus {
    phase: Option<String>,
}

fn phase(pod: &ListedPod) -> PodPhase {
    match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Running") => PodPhase::Running,
        Some("Failed") => PodPhase::Failed,
        _ => PodPhase::Other,
    }
}

/// A client with the credential of the kubelet. It is made for each request, because kubelets replace their certificates.
async fn as_kubelet(kubeconfig: &[u8]) -> kube::Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(&String::from_utf8_lossy(kubeconfig))?;
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Whether the kubeconfig is at fault, or the connection.
fn unread_pods(error: kube::Error) -> PodsError {
    let is_of_kubeconfig = match &error {
        kube::Error::InferKubeconfig(_) | kube::Error::Auth(_) | kube::Error::RustlsTls(_) => true,
        kube::Error::Api(status) => [401, 403].contains(&status.code),
        _ => false,
    };
    match is_of_kubeconfig {
        true => PodsError::Kubeconfig(with_sources(&error)),
        false => PodsError::Unavailable(io::Error::other(error)),
    }
}

impl Source for ApiServer {
    fn config(&self, name: &str) -> io::Result<Option<BTreeMap<String, String>>> {
        let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.options.namespace);
        Ok(self.block_on(configs.get_opt(name))?.map(|config| config.data.unwrap_or_default()))
    }

    fn node_labels(&self) -> io::Result<BTreeMap<String, String>> {
        Ok(self.node()?.and_then(|node| node.labels).unwrap_or_default())
    }

    fn report(&self, status: &WindowsNodeConfigStatus) -> io::Result<()> {
        let configs: Api<WindowsNodeConfig> = Api::all(self.client.clone());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(report::patch(status));
        self.block_on(configs.patch_status(&self.options.node, &params, &patch)).map(drop)
    }

    fn time(&self) -> Option<Timestamp> {
        let request = http::Request::get("/version").body(Body::empty()).ok()?;
        // Every response has it, also one that refuses.
        let response = self.block_on(self.client.send(request)).ok()?;
        let date = response.headers().get(header::DATE)?.to_str().ok()?;
        rfc2822::parse(date).ok().map(|date| date.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::core::Status;
    use serde_json::json;
    use tower::service_fn;

    use super::*;
    use crate::worker::CHECK_INTERVAL;

    #[test]
    fn of_a_pod_only_its_phase_is_read() {
        let pod = |spec: Value, status: Value| json!({"metadata": {"name": "web", "uid": "1"}, "spec": spec, "status": status});
        let table = [
            (
                pod(json!({"containers": [{"name": "a"}]}), json!({"phase": "Running", "conditions": []})),
                PodPhase::Running,
            ),
            (pod(json!({"volumes": "not read"}), json!({"phase": "Failed"})), PodPhase::Failed),
            (pod(json!({}), json!({})), PodPhase::Other),
            (json!({"metadata": {}, "spec": {}}), PodPhase::Other),
        ];
        for (pod, expected) in table {
            let listed: ListedPod = serde_json::from_value(pod).unwrap();
            assert_eq!(phase(&listed), expected);
        }
    }

    #[tokio::test]
    async fn an_error_is_of_the_kubeconfig_or_of_the_connection() {
        let unusable = [
            ("[", "failed to parse kubeconfig YAML"),
            ("{}", "failed to determine current context"),
            (
                "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], clusters: [{name: a, cluster: {server: \
                 'https://127.0.0.1'}}], users: [{name: a, user: {client-certificate: /absent.pem, client-key: /absent.pem}}]}",
                "/absent.pem",
            ),
        ];
        for (kubeconfig, expected) in unusable {
            let error = unread_pods(as_kubelet(kubeconfig.as_bytes()).await.map(drop).unwrap_err());
            assert!(matches!(&error, PodsError::Kubeconfig(why) if why.contains(expected)), "{error:?}");
        }
        for (code, is_of_kubeconfig) in [(401, true), (403, true), (429, false), (500, false)] {
            let error = unread_pods(kube::Error::Api(Box::new(Status::failure("no", "Reason").with_code(code))));
            assert_eq!(matches!(error, PodsError::Kubeconfig(_)), is_of_kubeconfig, "{code}");
        }
    }

    #[tokio::test]
    async fn the_configuration_of_the_kubelet_is_read_if_that_is_permitted() {
        let shown = r#"{"kubeletconfig": {"maxPods": 42}}"#;
        for (status, body, expected) in [
            (200, shown, Some(json!({"maxPods": 42}))),
            (401, "Unauthorized", None),
            (403, "Forbidden (user=agent, verb=get, resource=nodes, subresource=proxy)", None),
            (404, "404 page not found", None),
            (200, "no JSON", None),
            (200, "[]", None),
            (200, "{}", None),
        ] {
            let kubelet = service_fn(move |request: Request<Body>| async move {
                assert_eq!(request.uri().path(), "/configz");
                Ok::<_, Infallible>(
                    Response::builder().status(status).body(Body::from(body.as_bytes().to_vec())).unwrap(),
                )
            });
            let server = server(Client::new(kubelet, "default"));
            let found = spawn_blocking(move || server.kubelet_config()).await.unwrap();
            assert_eq!(found, expected, "{status} {body}");
        }
    }

    #[tokio::test]
    async fn the_time_of_the_api_server_is_that_of_its_response() {
        for (status, date, expected) in [
            (200, "Fri, 27 Nov 2026 00:31:05 GMT", Some("2026-11-27T00:31:05Z")),
            (403, "Fri, 27 Nov 2026 00:31:05 GMT", Some("2026-11-27T00:31:05Z")),
            (200, "yesterday", None),
        ] {
            let api_server = service_fn(move |_: Request<Body>| async move {
                let response = Response::builder().status(status).header("date", date).body(Body::empty());
                Ok::<_, Infallible>(response.unwrap())
            });
            let server = server(Client::new(api_server, "default"));
            let found = spawn_blocking(move || server.time()).await.unwrap();
            assert_eq!(found, expected.map(|time| time.parse().unwrap()), "{status} {date}");
        }
    }

    /// An API server, and a kubelet, that answer through one client.
    fn server(client: Client) -> ApiServer {
        let options = AgentOptions {
            node: "win-1".to_owned(),
            namespace: "winpool-system".to_owned(),
            limits: Limits::default(),
            allowances: Allowances::default(),
            check_interval: CHECK_INTERVAL,
            kubelet: Some(client.clone()),
        };
        ApiServer { client, options, handle: Handle::current() }
    }
}
