//! What tests of the operator have in common: a stage with a control plane and the operator, and on it for each test a
//! scene of its own, in which every object is named after the test.

// Each test binary uses a part of it.
#![allow(dead_code)]

pub mod history;

use std::{
    collections::BTreeMap,
    future::Future,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use e2e::{
    audit::Request,
    control_plane::{ControlPlane, Options, User},
    install::install,
    kubectl::{kubectl, kubectl_with_input},
    kubelet::{Kubelets, SimulatedNode},
    operator::Operator,
    wait::{eventually, stays, until},
};
use k8s_openapi::{
    api::{
        core::v1::{Event, Node},
        node::v1::RuntimeClass,
    },
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use winpool::api::{WindowsNodePool, WindowsNodePoolStatus, WindowsRuntimeProfile};

/// How long anything may take that an event leads to; nearly all of it takes less than a second.
pub const SOON: Duration = Duration::from_secs(30);
/// The taint that pools set by default.
pub const GUARD: &str = "os=windows:NoSchedule";

/// A control plane with the operator on it.
pub struct Stage {
    pub control_plane: ControlPlane,
    pub operator: Operator,
}

impl Stage {
    pub async fn build(options: Options) -> Self {
        let control_plane = ControlPlane::start(options).await.unwrap();
        install(&control_plane).unwrap();
        let operator = Operator::start(&control_plane, &[], &[]).await.unwrap();
        Self { control_plane, operator }
    }

    /// What was written by the operator in objects whose names begin so.
    pub fn writes(&self, prefix: &str) -> Result<Vec<Request>> {
        let requests = self.control_plane.requests_of(User::Operator)?;
        Ok(requests.into_iter().filter(|request| request.is_write() && request.name.starts_with(prefix)).collect())
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&self.control_plane, User::Admin, arguments)
    }

    pub fn kubectl_with_input(&self, arguments: &[&str], input: &Value) -> Result<String> {
        kubectl_with_input(&self.control_plane, User::Admin, arguments, &input.to_string())
    }

    /// The shipped RBAC has allowed everything that the operator asked for so far.
    pub fn nothing_was_forbidden(&self) {
        let requests = self.control_plane.requests_of(User::Operator).unwrap();
        let forbidden: Vec<_> = requests.iter().filter(|request| request.is_forbidden()).collect();
        assert!(forbidden.is_empty(), "{forbidden:#?}");
    }
}

/// A part of the stage for one test.
pub struct Scene {
    pub stage: &'static Stage,
    pub name: &'static str,
    pub client: Client,
    pub kubelets: Kubelets,
    nodes: Vec<String>,
}

/// A node `<scene>-<number>`, labelled `test=<scene>`.
pub fn windows(scene: &str, number: u32, kernel_version: &str) -> SimulatedNode {
    SimulatedNode::windows(&format!("{scene}-{number}"), kernel_version).label("test", scene)
}

/// The specification of a pool for Windows Server 2022 that chooses the nodes of a scene, with one RuntimeClass named after
/// it, and with further fields or others.
pub fn spec(scene: &str, more: Value) -> Value {
    let mut spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": { "matchLabels": { "test": scene } },
        "runtimeClasses": [{ "name": scene }],
    });
    let (Some(fields), Value::Object(more)) = (spec.as_object_mut(), more) else { panic!("a spec is an object") };
    fields.extend(more);
    fields.retain(|_, value| !value.is_null());
    spec
}

impl Scene {
    /// Begins a scene with these nodes.
    pub async fn open(stage: &'static Stage, name: &'static str, nodes: Vec<SimulatedNode>) -> Self {
        let client = stage.control_plane.client(User::Admin).await.unwrap();
        let names = nodes.iter().map(|node| node.name.clone()).collect();
        let kubelets = Kubelets::start(client.clone(), nodes).await.unwrap();
        Self { stage, name, client, kubelets, nodes: names }
    }

    /// Begins a scene with one node of Windows Server 2022, `<scene>-1`.
    pub async fn with_a_node(stage: &'static Stage, name: &'static str) -> Self {
        Self::open(stage, name, vec![windows(name, 1, "10.0.20348.2700")]).await
    }

    /// The scene's first node.
    pub fn node(&self) -> String {
        format!("{}-1", self.name)
    }

    pub async fn add_nodes(&mut self, nodes: Vec<SimulatedNode>) {
        self.nodes.extend(nodes.iter().map(|node| node.name.clone()));
        self.kubelets.add(nodes).await.unwrap();
    }

    pub fn pools(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<WindowsNodePool>(&()))
    }

    pub fn profiles(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<WindowsRuntimeProfile>(&()))
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope>,
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }

    /// Makes a pool.
    pub async fn pool(&self, name: &str, spec: Value) {
        self.try_pool(name, spec).await.unwrap();
    }

    pub async fn try_pool(&self, name: &str, spec: Value) -> kube::Result<DynamicObject> {
        let object = json!({
            "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsNodePool", "metadata": { "name": name }, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        self.pools().create(&PostParams::default(), &object).await
    }

    /// Makes a pool and waits until its nodes are guarded.
    pub async fn settled_pool(&self, name: &str, spec: Value) {
        self.pool(name, spec).await;
        self.until(name, "NodesConfigured", "True", "Applied").await;
        self.until(name, "RuntimeClassReady", "True", "Applied").await;
    }

    pub async fn profile(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "winpool.dev/v1alpha1", "kind": "WindowsRuntimeProfile", "metadata": { "name": name }, "spec": spec,
        });
        self.profiles().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    /// Changes a pool by a merge patch, and waits until the operator has acted on it if that made a new generation.
    pub async fn edit_pool(&self, name: &str, patch: Value) {
        edit(&self.pools(), name, patch).await;
        self.acted_on(name).await;
    }

    /// Waits until the operator has acted on the generation that the pool has now.
    pub async fn acted_on(&self, pool: &str) {
        let seen = || async {
            let object = self.pools().get(pool).await?;
            let (generation, status) = (object.metadata.generation, status_of(&object)?);
            ensure!(status.observed_generation == generation, "{:?} of {generation:?}", status.observed_generation);
            Ok(())
        };
        eventually(&format!("pool {pool} is acted on"), SOON, seen).await.unwrap();
    }

    /// Allows for a pool's present generation what an annotation `winpool.dev/allow-…` is for.
    pub async fn allow(&self, pool: &str, annotation: &str) {
        let generation = self.pools().get(pool).await.unwrap().metadata.generation.unwrap_or_default();
        self.annotate_pool(pool, annotation, &generation.to_string()).await;
    }

    pub async fn annotate_pool(&self, pool: &str, annotation: &str, value: &str) {
        edit(&self.pools(), pool, json!({ "metadata": { "annotations": { annotation: value } } })).await;
    }

    pub async fn edit_node(&self, name: &str, patch: Value) {
        edit(&self.api::<Node>(), name, patch).await;
    }

    pub async fn edit_class(&self, name: &str, patch: Value) {
        edit(&self.api::<RuntimeClass>(), name, patch).await;
    }

    pub async fn get_node(&self, name: &str) -> Result<Node> {
        Ok(self.api::<Node>().get(name).await?)
    }

    pub async fn taints(&self, node: &str) -> Result<Vec<String>> {
        Ok(taints_of(&self.get_node(node).await?))
    }

    pub async fn label(&self, node: &str, key: &str) -> Result<Option<String>> {
        Ok(self.get_node(node).await?.labels().get(key).cloned())
    }

    /// The pool whose label a node has.
    pub async fn pool_of(&self, node: &str) -> Result<Option<String>> {
        self.label(node, "winpool.dev/pool").await
    }

    pub async fn until_taints(&self, node: &str, expected: &[&str]) {
        let what = format!("node {node} has the taints {expected:?}");
        until(&what, SOON, || self.taints(node), |taints| taints == expected).await.unwrap();
    }

    pub async fn until_pool_of(&self, node: &str, expected: Option<&str>) {
        let what = format!("node {node} is in pool {expected:?}");
        until(&what, SOON, || self.pool_of(node), |pool| pool.as_deref() == expected).await.unwrap();
    }

    pub async fn class(&self, name: &str) -> Result<RuntimeClass> {
        Ok(self.api::<RuntimeClass>().get(name).await?)
    }

    pub async fn tolerations(&self, class: &str) -> Result<Vec<String>> {
        Ok(tolerations_of(&self.class(class).await?))
    }

    pub async fn until_tolerations(&self, class: &str, expected: &[&str]) {
        let what = format!("RuntimeClass {class} tolerates {expected:?}");
        until(&what, SOON, || self.tolerations(class), |tolerations| tolerations == expected).await.unwrap();
    }

    pub async fn status(&self, pool: &str) -> Result<WindowsNodePoolStatus> {
        status_of(&self.pools().get(pool).await?)
    }

    pub async fn until_status(&self, pool: &str, what: &str, holds: impl Fn(&WindowsNodePoolStatus) -> bool) {
        until(&format!("pool {pool} says {what}"), SOON, || self.status(pool), holds).await.unwrap();
    }

    pub async fn condition(&self, pool: &str, type_: &str) -> Result<Condition> {
        let found = self.status(pool).await?.conditions.into_iter().find(|condition| condition.type_ == type_);
        found.with_context(|| format!("pool {pool} has no condition {type_}"))
    }

    /// Waits until a condition has a status and a reason, and gives its message.
    pub async fn until(&self, pool: &str, type_: &str, status: &str, reason: &str) -> String {
        let what = format!("pool {pool} has {type_}={status} ({reason})");
        let holds = |condition: &Condition| condition.status == status && condition.reason == reason;
        until(&what, SOON, || self.condition(pool, type_), holds).await.unwrap().message
    }

    /// The reasons of the events about an object, with their notes.
    pub async fn events(&self, object: &str) -> Result<BTreeMap<String, String>> {
        let all = Api::<Event>::namespaced(self.client.clone(), "default").list(&ListParams::default()).await?;
        let about = all.items.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(object));
        Ok(about.map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).fold(
            BTreeMap::new(),
            |mut all, (reason, message)| {
                let text = all.entry(reason).or_insert_with(String::new);
                *text += &format!("{message}\n");
                all
            },
        ))
    }

    pub async fn until_event(&self, object: &str, reason: &str) -> String {
        let found = || async {
            let mut events = self.events(object).await?;
            events.remove(reason).with_context(|| format!("{reason} is not among {events:#?}"))
        };
        eventually(&format!("an event {reason} tells about {object}"), SOON, found).await.unwrap()
    }

    /// How many times the operator has patched a node.
    pub fn patches_of(&self, node: &str) -> usize {
        let writes = self.stage.writes(node).unwrap();
        writes.iter().filter(|write| write.resource == "nodes" && write.name == node && write.code == 200).count()
    }

    /// Every kubelet reports, and something changes on every node that concerns no pool, so that passes are made.
    pub async fn heartbeat(&self) -> Result<()> {
        static BEATS: AtomicU32 = AtomicU32::new(0);
        let beat = BEATS.fetch_add(1, Ordering::Relaxed).to_string();
        for node in &self.nodes {
            self.kubelets.change(node, |_| ()).await?;
            let patch = json!({ "metadata": { "labels": { "example.com/beat": beat } } });
            self.api::<Node>().patch_metadata(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    /// While kubelets report, nothing of this scene is written, because everything is as it should be.
    pub async fn is_quiet(&self) {
        let settled = || async { Ok(self.stage.writes(self.name)?.len()) };
        let before = quiet_for(Duration::from_millis(600), settled).await;
        let beat = || async {
            self.heartbeat().await?;
            self.stage.writes(self.name)
        };
        let unwritten = |writes: &Vec<Request>| writes.len() == before;
        stays("a settled world is not written", Duration::from_millis(1500), beat, unwritten).await.unwrap();
    }

    /// Ends the scene.
    pub async fn close(self) {
        self.stage.nothing_was_forbidden();
    }
}

/// Waits until a value has not changed for some time, and gives it.
async fn quiet_for<T, F, Fut>(period: Duration, read: F) -> T
where
    T: PartialEq + std::fmt::Debug,
    F: Fn() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let unchanged = || async {
        let before = read().await?;
        stays("it comes to rest", period, &read, |now| *now == before).await?;
        Ok(before)
    };
    eventually("the writes come to rest", SOON, unchanged).await.unwrap()
}

/// Changes an object by a merge patch, as a person does by hand.
pub async fn edit<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn status_of(pool: &DynamicObject) -> Result<WindowsNodePoolStatus> {
    let status = pool.data.get("status").with_context(|| format!("pool {} has no status yet", pool.name_any()))?;
    Ok(serde_json::from_value(status.clone())?)
}

/// The taints of a node as `key=value:Effect`, but for those that Kubernetes itself sets.
pub fn taints_of(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let others = taints.filter(|taint| !taint.key.starts_with("node.kubernetes.io/"));
    others.map(|taint| format!("{}={}:{}", taint.key, taint.value.clone().unwrap_or_default(), taint.effect)).collect()
}

/// The tolerations of a class, in the words of the taints that they are for.
pub fn tolerations_of(class: &RuntimeClass) -> Vec<String> {
    let tolerations = class.scheduling.iter().flat_map(|scheduling| scheduling.tolerations.iter().flatten());
    let words = tolerations.map(|toleration| {
        let value = match toleration.operator.as_deref() {
            Some("Exists") => "*".to_owned(),
            _ => toleration.value.clone().unwrap_or_default(),
        };
        let [key, effect] = [&toleration.key, &toleration.effect].map(|text| text.clone().unwrap_or("*".to_owned()));
        format!("{key}={value}:{effect}")
    });
    words.collect()
}

/// The labels of the nodes that a class leads to.
pub fn selector_of(class: &RuntimeClass) -> BTreeMap<String, String> {
    class.scheduling.iter().flat_map(|scheduling| scheduling.node_selector.clone().unwrap_or_default()).collect()
}
