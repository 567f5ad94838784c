//! Workload issues on a real control plane: the real scheduler and controllers treat the workloads as the issues state,
//! and the simulated kubelets report the errors of container runtimes.
//!
//! All tests except those of `absent` share one control plane and one operator. Each has its own nodes, pool,
//! RuntimeClass and namespace, all of the same name. The nodes register with the taint of the pools, so that no pod of
//! another test is scheduled to them before their pool has tainted them.

mod absent;
mod doctor;
mod images;
mod issues;
mod storage;
mod verify;

use std::{collections::BTreeMap, fmt::Debug, ops::Deref, sync::Arc};

use anyhow::Result;
use e2e::{
    cluster::{COUNTED, Cluster, SOON, create, edit, with_fields},
    control_plane::Options,
    fixture::{Fixture, SharedCluster, spec, windows},
    kubelet::SimulatedNode,
    shared::Shared,
    wait::{eventually, until},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Event, Namespace, Pod},
};
use kube::{Api, Resource, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Windows Server 2022.
const SERVER_2022: &str = "10.0.20348.2700";

async fn shared() -> Arc<SharedCluster> {
    static SHARED: Shared<SharedCluster> = Shared::new();
    // The images are in no registry.
    SHARED.get(async || SharedCluster::start(Options::default(), &["--registry=off"]).await).await.unwrap()
}

/// A fixture with a pool, and a namespace for its workloads.
pub struct WorkloadFixture {
    fixture: Fixture,
}

impl Deref for WorkloadFixture {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

/// A node of a fixture that has the taint of the pools from the start.
fn tainted(fixture: &str, number: u32, kernel_version: &str) -> SimulatedNode {
    windows(fixture, number, kernel_version).taint("os", "windows", "NoSchedule")
}

impl WorkloadFixture {
    /// Creates a fixture with a namespace, these nodes and a pool of them.
    async fn new(name: &'static str, nodes: Vec<SimulatedNode>, fields: Value) -> Self {
        let fixture = Fixture::new(shared().await, name, nodes).await.unwrap();
        create(&fixture.api::<Namespace>(), json!({ "metadata": { "name": name } })).await.unwrap();
        fixture.apply_pool_and_wait(name, spec(name, fields)).await.unwrap();
        Self { fixture }
    }

    /// Creates a fixture with a node of Windows Server 2022.
    async fn with_one_node(name: &'static str) -> Self {
        Self::new(name, vec![tainted(name, 1, SERVER_2022)], json!({})).await
    }

    fn all<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        self.namespaced(self.name)
    }

    /// Creates an object in the namespace. Retries, because the admission plugin may not have received a new class yet.
    async fn create<K>(&self, name: &str, spec: Value)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
        K::DynamicType: Default,
    {
        let api = self.all::<K>();
        let create = || create(&api, json!({ "metadata": { "name": name }, "spec": spec }));
        eventually(&format!("{name} is created"), SOON, create).await.unwrap();
    }

    async fn patch<K>(&self, name: &str, spec: Value)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        edit(&self.all::<K>(), name, json!({ "spec": spec })).await.unwrap();
    }

    /// Waits until `WorkloadsPlaced` has this status and reason, and returns the message.
    async fn until_placed(&self, status: &str, reason: &str) -> String {
        self.until_condition(self.name, "WorkloadsPlaced", status, reason).await.unwrap().message
    }

    /// Waits until every pod is where it should be.
    async fn until_all_placed(&self) {
        self.until_absent(self.name, "WorkloadsPlaced").await.unwrap();
    }

    /// Waits until the pool reports images that cannot run, and returns the message.
    async fn until_images_cannot_run(&self) -> String {
        self.until_condition(self.name, "OSMismatch", "True", "ImagesCannotRun").await.unwrap().message
    }

    async fn until_images_run(&self) {
        self.until_absent(self.name, "OSMismatch").await.unwrap();
    }

    /// Waits for a warning about an object of the namespace, which must have been emitted once, and returns its
    /// message.
    async fn until_warned(&self, object: &str, reason: &str) -> String {
        until_warned(self, self.name, object, reason).await
    }

    /// Checks that each warning was emitted once, and that none of the operator's requests was forbidden.
    async fn check(self) {
        let events = self.all::<Event>().list(&ListParams::default()).await.unwrap();
        let mut emitted = BTreeMap::new();
        for event in events.items.iter().filter(|event| is_ours(event)) {
            *emitted.entry((&event.involved_object.name, &event.reason)).or_insert(0) += count(event);
        }
        assert!(emitted.values().all(|count| *count == 1), "{emitted:#?}");
        self.nothing_was_forbidden().unwrap();
    }
}

fn is_ours(event: &Event) -> bool {
    event.reporting_component.as_deref() == Some("winpool")
}

/// How often an event was emitted.
fn count(event: &Event) -> i32 {
    event.series.as_ref().and_then(|series| series.count).unwrap_or(1)
}

/// Waits for a warning, which must have been emitted once, and returns its message.
async fn until_warned(cluster: &Cluster, namespace: &str, object: &str, reason: &str) -> String {
    let warns = |event: &Event| {
        is_ours(event) && event.type_.as_deref() == Some("Warning") && event.reason.as_deref() == Some(reason)
    };
    let found = || async {
        let events = cluster.events(namespace, object).await?.into_iter();
        Ok(events.filter(warns).collect::<Vec<_>>())
    };
    let what = format!("there is a warning {reason} about {object}");
    let emitted = until(&what, COUNTED, found, |emitted| !emitted.is_empty()).await.unwrap();
    assert_eq!(emitted.iter().map(count).sum::<i32>(), 1, "{emitted:#?}");
    emitted[0].message.clone().unwrap()
}

/// A container with a memory limit.
fn container(image: &str) -> Value {
    let memory = json!({ "memory": "1Gi" });
    json!({ "name": "app", "image": image, "resources": { "requests": memory, "limits": memory } })
}

/// A pod's spec with one container, and these fields.
fn pod(image: &str, fields: Value) -> Value {
    with_fields(json!({ "containers": [container(image)], "terminationGracePeriodSeconds": 0 }), fields)
}

/// The spec of a controller with this pod as template.
fn of_template(pod: Value) -> Value {
    let labels = json!({ "app": "app" });
    json!({ "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels }, "spec": pod } })
}

/// The toleration of the pools' taint.
fn tolerated() -> Value {
    json!([{ "key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }])
}

/// The class of a fixture, which selects every node of its build, on the nodes of the fixture alone.
fn by_class(fixture: &str) -> Value {
    json!({ "runtimeClassName": fixture, "nodeSelector": { "agentpool": fixture } })
}

/// Selects the Windows nodes of a fixture.
fn nodes_of(fixture: &str) -> Value {
    json!({ "kubernetes.io/os": "windows", "agentpool": fixture })
}

/// The pods of a namespace: the node of each, and its phase.
async fn phases(pods: Api<Pod>) -> Result<Vec<(String, String)>> {
    let all = pods.list(&ListParams::default()).await?;
    let place = |pod: Pod| {
        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
        (pod.spec.and_then(|spec| spec.node_name).unwrap_or_default(), phase)
    };
    Ok(all.items.into_iter().map(place).collect())
}
