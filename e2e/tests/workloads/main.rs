//! What is told of workloads, on a real control plane: the real scheduler and the real controllers do what the traps are
//! about, and the simulated kubelets say what runtimes say.
//!
//! All tests of a file but `absent` share one control plane and one operator. Each has nodes, a pool, a RuntimeClass and a
//! namespace of its own, all of the same name. The nodes come with the taint of the pools, so that no pod of another test
//! slips in before they are guarded.

// clippy.toml allows these in tests, but takes a helper of a test for something else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

mod absent;
mod images;
mod traps;

use std::{fmt::Debug, ops::Deref, time::Duration};

use anyhow::Result;
use common::{Scene, Stage, edit, spec, windows};
use e2e::{
    assets::{Component, skipped},
    control_plane::{ControlPlane, Options},
    install::install,
    kubelet::SimulatedNode,
    operator::Operator,
    wait::{eventually, until},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Event, Namespace, Pod},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, ListParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// How long a count may take that changes alone: it is told every half minute.
const COUNTED: Duration = Duration::from_secs(90);
/// Windows Server 2022.
const SERVER_2022: &str = "10.0.20348.2700";
/// The pod of every test finds its node and its controller.
const NEEDED: [Component; 2] = Component::ALL;

async fn stage() -> &'static Stage {
    static STAGE: OnceCell<Stage> = OnceCell::const_new();
    let build = || async {
        let control_plane = ControlPlane::start(Options::default()).await.unwrap();
        install(&control_plane).unwrap();
        // The images have names that no registry knows.
        let operator = Operator::start(&control_plane, &["--registry=off"], &[]).await.unwrap();
        Stage { control_plane, operator }
    };
    STAGE.get_or_init(build).await
}

/// Whether a test has to be left out, which is said.
fn left_out(test: &str) -> bool {
    skipped(test, &NEEDED).unwrap()
}

/// A scene with a namespace for its workloads.
pub struct Town {
    scene: Scene,
}

impl Deref for Town {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

/// A node of a scene that has the taint of the pools from the start.
fn guarded(scene: &str, number: u32, kernel_version: &str) -> SimulatedNode {
    windows(scene, number, kernel_version).taint("os", "windows", "NoSchedule")
}

impl Town {
    /// Begins a scene with a namespace, these nodes and a pool of them.
    async fn open(name: &'static str, nodes: Vec<SimulatedNode>, fields: Value) -> Self {
        let scene = Scene::open(stage().await, name, nodes).await;
        let namespace = json!({ "metadata": { "name": name } });
        let namespaces = Api::<Namespace>::all(scene.client.clone());
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
        scene.settled_pool(name, spec(name, fields)).await;
        Self { scene }
    }

    /// Begins a scene with a node of Windows Server 2022.
    async fn with_a_node(name: &'static str) -> Self {
        Self::open(name, vec![guarded(name, 1, SERVER_2022)], json!({})).await
    }

    fn all<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), self.name)
    }

    /// Creates an object in the namespace. A class that was made a moment ago may not have come to admission yet.
    async fn create<K>(&self, name: &str, spec: Value)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + serde::Serialize,
        K::DynamicType: Default,
    {
        let object = json!({ "metadata": { "name": name }, "spec": spec });
        let object: K = serde_json::from_value(object).unwrap();
        let create = || async { Ok(self.all::<K>().create(&PostParams::default(), &object).await?) };
        eventually(&format!("{name} is created"), common::SOON, create).await.unwrap();
    }

    async fn patch<K>(&self, name: &str, spec: Value)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        edit(&self.all::<K>(), name, json!({ "spec": spec })).await;
    }

    async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        self.all::<K>().delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Waits until the workloads are placed as this status and reason say, and gives the message.
    async fn until_placed(&self, status: &str, reason: &str) -> String {
        self.until(self.name, "WorkloadsPlaced", status, reason).await
    }

    /// Waits until the pool flags images that cannot run, and gives the message.
    async fn until_images_cannot_run(&self) -> String {
        self.until(self.name, "OSMismatch", "True", "ImagesCannotRun").await
    }

    async fn until_images_run(&self) {
        self.until(self.name, "OSMismatch", "False", "Matched").await;
    }

    /// Waits until the pool counts these pods: all, those that cannot run, the suspected and the unknown.
    async fn until_counts(&self, expected: [u32; 4]) {
        let counts = || async {
            let counts = self.status(self.name).await?.workloads.unwrap_or_default();
            Ok([counts.pods, counts.cannot_run, counts.suspected, counts.unknown])
        };
        until("the pods are counted", COUNTED, counts, |counts| *counts == expected).await.unwrap();
    }

    /// The operator's warnings about an object of the namespace: reason, message, and how often it was told.
    async fn warnings(&self, object: &str) -> Result<Vec<(String, String, i32)>> {
        warnings(&self.all::<Event>(), object).await
    }

    /// Waits for a warning, and sees that it was told once.
    async fn until_warned(&self, object: &str, reason: &str) -> String {
        let found = || async {
            let warnings = self.warnings(object).await?;
            Ok(warnings.into_iter().filter(|(told, ..)| told == reason).collect::<Vec<_>>())
        };
        let what = format!("{reason} is told of {object}");
        let told = until(&what, common::SOON, found, |told| !told.is_empty()).await.unwrap();
        let [(_, message, 1)] = told.as_slice() else { panic!("{told:#?}") };
        message.clone()
    }

    /// Ends the scene: each warning was told once, and the operator was refused nothing.
    async fn close(self) {
        let events = self.all::<Event>().list(&ListParams::default()).await.unwrap();
        let own = events.items.iter().filter(|event| is_ours(event));
        let mut told: Vec<_> =
            own.map(|event| (event.involved_object.name.clone(), event.reason.clone(), event.count)).collect();
        told.sort();
        let mut once = told.clone();
        once.dedup_by_key(|(object, reason, _)| (object.clone(), reason.clone()));
        assert!(told == once && told.iter().all(|(.., count)| *count == Some(1)), "{told:#?}");
        self.scene.close().await;
    }
}

fn is_ours(event: &Event) -> bool {
    event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("winpool")
}

/// The operator's warnings about an object.
async fn warnings(events: &Api<Event>, object: &str) -> Result<Vec<(String, String, i32)>> {
    let all = events.list(&ListParams::default().fields(&format!("involvedObject.name={object}"))).await?;
    let own = all.items.into_iter().filter(|event| is_ours(event) && event.type_.as_deref() == Some("Warning"));
    Ok(own
        .map(|event| {
            (event.reason.unwrap_or_default(), event.message.unwrap_or_default(), event.count.unwrap_or_default())
        })
        .collect())
}

/// A container with as much memory as it may take.
fn container(image: &str) -> Value {
    let memory = json!({ "memory": "1Gi" });
    json!({ "name": "app", "image": image, "resources": { "requests": memory, "limits": memory } })
}

/// A pod's spec with one container, and these fields.
fn pod(image: &str, fields: Value) -> Value {
    let mut spec = json!({ "containers": [container(image)], "terminationGracePeriodSeconds": 0 });
    let (Some(own), Value::Object(fields)) = (spec.as_object_mut(), fields) else { panic!("a spec is an object") };
    own.extend(fields);
    spec
}

/// The spec of what makes pods of a template.
fn of_template(pod: Value) -> Value {
    let labels = json!({ "app": "app" });
    json!({ "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels }, "spec": pod } })
}

/// The toleration of the pools' taint.
fn tolerated() -> Value {
    json!([{ "key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule" }])
}

/// The class of a scene, which leads to every node of its build, on the nodes of the scene alone.
fn by_class(scene: &str) -> Value {
    json!({ "runtimeClassName": scene, "nodeSelector": { "test": scene } })
}

/// Selects the Windows nodes of a scene.
fn nodes_of(scene: &str) -> Value {
    json!({ "kubernetes.io/os": "windows", "test": scene })
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
