//! The kubelets of simulated nodes: they register Nodes, update their status, and report the Pods that are scheduled to
//! them as running, unless the container runtime rejects an image.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{
    api::core::v1::{ConfigMap, ContainerStatus, Event, Node, Pod, Taint},
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::PartialObjectMeta,
};
use kube_runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::task::JoinHandle;

pub use crate::{
    allocatable::{Capacity, KubeletConfiguration},
    node::{SimulatedNode, WINDOWS_BUILD, Windows},
};
use crate::{control_plane::OPERATOR_NAMESPACE, progress::say, wait::eventually};

/// The annotation with the name of a node's configuration, which the operator sets.
pub const CONFIG_ANNOTATION: &str = "winpool.dev/config";

const IN_FLIGHT: usize = 32;
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(300);

/// Running kubelets. They stop when this is dropped; their Nodes stay.
///
/// Their tasks belong to the async runtime in which they were started, so start them in the test that needs them.
pub struct Kubelets {
    shared: Shared,
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    pods: Option<JoinHandle<()>>,
    configuration: Option<JoinHandle<()>>,
}

/// The error with which a container runtime rejects an image.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The pull fails: this message is in the status of the container.
    Image(String),
    /// The sandbox is not created, and no image is pulled: this message is in an event on the Pod.
    Sandbox(String),
}

#[derive(Clone)]
struct Shared {
    client: Client,
    refusals: Arc<Mutex<BTreeMap<String, Refusal>>>,
    /// The version of the API server, for nodes without `kubelet_version`.
    version: String,
    machines: Arc<Mutex<BTreeMap<String, Machine>>>,
}

/// A node, and the configuration that has been delivered to it.
#[derive(Clone, Debug)]
struct Machine {
    node: SimulatedNode,
    configuration: Option<(String, KubeletConfiguration)>,
    /// Held while the status is written, so that an older one never replaces a newer one.
    status: Arc<tokio::sync::Mutex<()>>,
}

impl Kubelets {
    /// Registers `nodes`, up to 32 at a time, and starts their kubelets. `client` must have all permissions.
    pub async fn start(client: Client, nodes: Vec<SimulatedNode>) -> Result<Self> {
        let version = client.apiserver_version().await?.git_version;
        let shared = Shared { client, refusals: Arc::default(), version, machines: Arc::default() };
        let kubelets = Self { shared, tasks: Mutex::default() };
        kubelets.add(nodes).await?;
        let pods = tokio::spawn(run_pods(kubelets.shared.clone()));
        kubelets.tasks().pods = Some(pods);
        Ok(kubelets)
    }

    /// Registers more nodes.
    pub async fn add(&self, nodes: Vec<SimulatedNode>) -> Result<()> {
        let deliver = nodes.iter().any(|node| node.takes_configuration);
        stream::iter(nodes)
            .map(|node| self.register(node, None))
            .buffer_unordered(IN_FLIGHT)
            .try_collect::<()>()
            .await?;
        let mut tasks = self.tasks();
        if deliver && tasks.configuration.is_none() {
            tasks.configuration = Some(tokio::spawn(deliver_configurations(self.shared.clone())));
        }
        Ok(())
    }

    /// Registers a node whose kubelet starts with a configuration.
    pub async fn add_with(&self, mut node: SimulatedNode, configuration: KubeletConfiguration) -> Result<()> {
        node.capacity = node.capacity.under(&configuration);
        self.register(node, Some((String::new(), configuration))).await
    }

    async fn register(&self, node: SimulatedNode, configuration: Option<(String, KubeletConfiguration)>) -> Result<()> {
        let name = node.name.clone();
        self.shared.machines().insert(name.clone(), Machine { node, configuration, status: Arc::default() });
        self.shared.register(&name).await
    }

    /// Changes a node, and lets its kubelet report the status and set its labels.
    pub async fn change(&self, name: &str, change: impl FnOnce(&mut SimulatedNode)) -> Result<()> {
        let node = {
            let mut machines = self.shared.machines();
            let machine = machines.get_mut(name).ok_or_else(|| anyhow!("no simulated node {name}"))?;
            change(&mut machine.node);
            machine.node.clone()
        };
        let labels = json!({ "metadata": { "labels": node.kubelet_labels() } });
        self.shared.nodes().patch_metadata(name, &PatchParams::default(), &Patch::Merge(labels)).await?;
        self.shared.report(name).await?;
        self.shared.run_all_of(name).await
    }

    /// Restarts the kubelet of a node with a configuration, which it reports.
    pub async fn start_with(&self, name: &str, configuration: KubeletConfiguration) -> Result<()> {
        if let Some(machine) = self.shared.machines().get_mut(name) {
            machine.node.capacity = machine.node.capacity.clone().under(&configuration);
            machine.configuration = Some((String::new(), configuration));
        }
        self.shared.report(name).await
    }

    /// Makes a node ready or not ready.
    pub async fn set_ready(&self, name: &str, ready: bool) -> Result<()> {
        self.change(name, |node| node.ready = ready).await
    }

    /// Makes the container runtimes reject an image, in Pods that do not run yet.
    pub fn refuse(&self, image: &str, refusal: Refusal) {
        self.shared.refusals().insert(image.to_owned(), refusal);
    }

    /// Makes the container runtimes accept an image that they rejected, also in the waiting Pods.
    pub async fn accept(&self, image: &str) -> Result<()> {
        self.shared.refusals().remove(image);
        let nodes: Vec<String> = self.shared.machines().keys().cloned().collect();
        for node in nodes {
            self.shared.run_all_of(&node).await?;
        }
        Ok(())
    }

    /// Deletes the Node object, as a cloud provider does when the machine was deleted.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.shared.nodes().delete(name, &DeleteParams::default()).await?;
        let absent = || async {
            let found = self.shared.nodes().get_metadata_opt(name).await?;
            ensure!(found.is_none(), "it is still there");
            Ok(())
        };
        eventually(&format!("node {name} is gone"), DELIVERY_TIMEOUT, absent).await
    }

    /// Registers a deleted node again under the same name, as its kubelet does when it starts: the machine still has
    /// the delivered configuration, with its `registerWithTaints`.
    pub async fn register_again(&self, name: &str) -> Result<()> {
        self.shared.register(name).await
    }

    /// The client of the kubelets, which has all permissions.
    pub fn client(&self) -> Client {
        self.shared.client.clone()
    }

    /// The version of the kubelets that have none of their own, such as v1.36.2.
    pub fn version(&self) -> &str {
        &self.shared.version
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.tasks());
        tasks.pods.into_iter().chain(tasks.configuration).for_each(|task| task.abort());
    }
}

impl Shared {
    fn machines(&self) -> MutexGuard<'_, BTreeMap<String, Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, BTreeMap<String, Refusal>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The image of a Pod that is rejected, with the error.
    fn refused(&self, pod: &Pod) -> Option<(String, Refusal)> {
        let refusals = self.refusals();
        let images = pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|container| container.image.as_ref());
        images.into_iter().find_map(|image| Some((image.clone(), refusals.get(image)?.clone())))
    }

    fn machine(&self, name: &str) -> Result<Machine> {
        self.machines().get(name).cloned().ok_or_else(|| anyhow!("no simulated node {name}"))
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    async fn register(&self, name: &str) -> Result<()> {
        let machine = self.machine(name)?;
        let object = machine.node.object(machine.configuration(), &self.version)?;
        let created = self.nodes().create(&PostParams::default(), &object).await;
        self.remove_not_ready(created.with_context(|| format!("registering node {name}"))?).await
    }

    /// Reports a node's status. The capacity for Pods follows the configuration.
    async fn report(&self, name: &str) -> Result<()> {
        let machine = self.machine(name)?;
        let _one_at_a_time = machine.status.lock().await;
        self.patch_status(name).await
    }

    async fn patch_status(&self, name: &str) -> Result<()> {
        let machine = self.machine(name)?;
        let status = json!({ "status": machine.node.status(machine.configuration(), &self.version) });
        let patched = self.nodes().patch_status(name, &PatchParams::default(), &Patch::Strategic(status)).await;
        let node = patched.with_context(|| format!("reporting the status of node {name}"))?;
        if machine.node.ready { self.remove_not_ready(node).await } else { Ok(()) }
    }

    /// Removes the taint `not-ready` from a ready node. The API server adds it to every new Node; the node lifecycle
    /// controller, which would remove it, may not run.
    async fn remove_not_ready(&self, mut node: Node) -> Result<()> {
        let name = node.name_any();
        if !self.machine(&name).is_ok_and(|machine| machine.node.ready) {
            return Ok(());
        }
        loop {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            let kept: Vec<&Taint> = taints.iter().filter(|taint| taint.key != NOT_READY).collect();
            if kept.len() == taints.len() {
                return Ok(());
            }
            let patch =
                json!({ "metadata": { "resourceVersion": node.resource_version() }, "spec": { "taints": kept } });
            match self.nodes().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 => node = self.nodes().get(&name).await?,
                Err(error) => return Err(error).with_context(|| format!("making node {name} ready")),
            }
        }
    }

    /// Puts the configuration that the annotation names into effect, once its ConfigMap can be read.
    async fn follow_annotation(&self, name: &str) -> Result<()> {
        let what = format!("the configuration of node {name} is in effect");
        eventually(&what, DELIVERY_TIMEOUT, || self.deliver(name)).await
    }

    /// Puts the configuration that the annotation names now into effect.
    async fn deliver(&self, name: &str) -> Result<()> {
        let Ok(machine) = self.machine(name) else { return Ok(()) };
        if !machine.node.takes_configuration {
            return Ok(());
        }
        let _one_at_a_time = machine.status.lock().await;
        let node = self.nodes().get_metadata(name).await?;
        let Some(wanted) = node.annotations().get(CONFIG_ANNOTATION) else { return Ok(()) };
        let current = self.machine(name)?.configuration;
        if current.is_some_and(|(current, _)| current == *wanted) {
            return Ok(());
        }
        let config_maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        let config_map = config_maps.get(wanted).await?;
        let yaml = config_map.data.as_ref().and_then(|data| data.get("kubelet.yaml"));
        let yaml = yaml.ok_or_else(|| anyhow!("ConfigMap {wanted} has no kubelet.yaml"))?;
        let configuration = KubeletConfiguration::parse(yaml).with_context(|| format!("ConfigMap {wanted}"))?;
        if let Some(machine) = self.machines().get_mut(name) {
            machine.node.capacity = machine.node.capacity.clone().under(&configuration);
            machine.configuration = Some((wanted.clone(), configuration));
        }
        self.patch_status(name).await
    }

    /// Runs every Pod of a node: while the node was not ready, none was started.
    async fn run_all_of(&self, node: &str) -> Result<()> {
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        for pod in Api::<Pod>::all(self.client.clone()).list(&on_node).await? {
            self.run(pod).await?;
        }
        Ok(())
    }

    /// Starts a waiting Pod, or completes the deletion of one that is being deleted.
    async fn run(&self, pod: Pod) -> Result<()> {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else { return Ok(()) };
        let Ok(machine) = self.machine(node) else { return Ok(()) };
        if !machine.node.ready {
            return Ok(());
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let name = pod.name_any();
        if pod.metadata.deletion_timestamp.is_some() {
            // Its containers have ended, so the kubelet deletes the object.
            let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
            let at_once = DeleteParams::default().grace_period(0).preconditions(preconditions);
            return ignore_if_deleted(pods.delete(&name, &at_once).await);
        }
        if pod.status.as_ref().and_then(|status| status.phase.as_deref()).is_none_or(|phase| phase == "Pending") {
            let status = match self.refused(&pod) {
                None => running(&pod, &machine.node)?,
                Some((image, Refusal::Image(message))) => waiting(&pod, &image, &message),
                Some((image, Refusal::Sandbox(message))) => {
                    self.report_sandbox(&pod, node, &message).await?;
                    waiting(&pod, &image, "")
                }
            };
            let status = json!({ "metadata": { "uid": pod.uid() }, "status": status });
            return ignore_if_deleted(
                pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(status)).await,
            );
        }
        Ok(())
    }

    /// Emits one event for each Pod with the reason why its sandbox does not start.
    async fn report_sandbox(&self, pod: &Pod, node: &str, message: &str) -> Result<()> {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let now = Timestamp::now().to_string();
        let event: Event = serde_json::from_value(json!({
            "metadata": { "name": format!("{name}.sandbox"), "namespace": namespace },
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": pod.uid(),
            },
            "type": "Warning",
            "reason": "FailedCreatePodSandBox",
            "message": message,
            "source": { "component": "kubelet", "host": node },
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }))?;
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        ignore_if_deleted(events.create(&PostParams::default(), &event).await)
    }
}

impl Machine {
    fn configuration(&self) -> Option<&KubeletConfiguration> {
        self.configuration.as_ref().map(|(_, configuration)| configuration)
    }
}

async fn run_pods(shared: Shared) {
    let pods: Api<Pod> = Api::all(shared.client.clone());
    let events = watcher(pods, watcher::Config::default().fields("spec.nodeName!="));
    let shared = &shared;
    let run = |pod: Pod| async move {
        let name = format!("Pod {}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        print_error(&name, shared.run(pod)).await;
    };
    applied(events).for_each_concurrent(IN_FLIGHT, run).await;
}

async fn deliver_configurations(shared: Shared) {
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(shared.client.clone());
    let shared = &shared;
    let deliver = |node: PartialObjectMeta<Node>| async move {
        if !node.annotations().contains_key(CONFIG_ANNOTATION) {
            return;
        }
        let name = node.name_any();
        print_error(&format!("simulated node {name}"), shared.follow_annotation(&name)).await;
    };
    applied(watcher(nodes, watcher::Config::default())).for_each_concurrent(IN_FLIGHT, deliver).await;
}

/// Objects when they change; a broken watch is restarted.
fn applied<K: Clone>(
    events: impl stream::Stream<Item = watcher::Result<watcher::Event<K>>>,
) -> impl stream::Stream<Item = K> {
    events.default_backoff().applied_objects().filter_map(|object| std::future::ready(object.ok()))
}

/// The status of a Pod whose containers all run.
fn running(pod: &Pod, node: &SimulatedNode) -> Result<serde_json::Value> {
    let now = Timestamp::now().to_string();
    let spec = pod.spec.as_ref().context("a Pod without a spec")?;
    let statuses = |containers: &[k8s_openapi::api::core::v1::Container], state: serde_json::Value| {
        let status = |container: &k8s_openapi::api::core::v1::Container| {
            let image = container.image.clone().unwrap_or_default();
            serde_json::from_value::<ContainerStatus>(json!({
                "name": container.name, "image": image, "imageID": image, "containerID": "simulated://1",
                "ready": true, "started": true, "restartCount": 0, "state": state,
            }))
        };
        containers.iter().map(status).collect::<serde_json::Result<Vec<_>>>()
    };
    let ended = json!({ "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now } });
    let condition = |kind| json!({ "type": kind, "status": "True", "lastTransitionTime": now });
    let conditions = ["Initialized", "ContainersReady", "Ready"].map(condition);
    Ok(json!({
        "phase": "Running",
        "startTime": now,
        "hostIP": node.address(),
        "podIP": node.address(),
        "conditions": conditions,
        "initContainerStatuses": statuses(spec.init_containers.as_deref().unwrap_or_default(), ended)?,
        "containerStatuses": statuses(&spec.containers, json!({ "running": { "startedAt": now } }))?,
    }))
}

/// The status of a Pod whose containers all wait; those of `image` have the message of the failed pull. It has no
/// times, so that it is the same each time that it is written.
fn waiting(pod: &Pod, image: &str, message: &str) -> serde_json::Value {
    let state = |own: Option<&str>| match message {
        message if !message.is_empty() && own == Some(image) => json!({ "reason": "ErrImagePull", "message": message }),
        _ => json!({ "reason": "ContainerCreating" }),
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let statuses: Vec<_> = containers
        .map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": "", "ready": false, "started": false,
                "restartCount": 0, "state": { "waiting": state(container.image.as_deref()) },
            })
        })
        .collect();
    json!({ "phase": "Pending", "containerStatuses": statuses })
}

/// Ignores the error if the object was deleted or replaced.
fn ignore_if_deleted<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

async fn print_error(what: &str, work: impl Future<Output = Result<()>>) {
    if let Err(error) = work.await {
        say(format_args!("{what}: {error:#}"));
    }
}
