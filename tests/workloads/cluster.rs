//! A cluster with workloads, as JSON, and the ledger that is kept of it.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1 as core,
};
use serde_json::{Value, json};
use winpool::domain::{
    image::{Content, Lookup, Platform, Said},
    workload::{Controller, Ground, Ledger, MemoryDefaults, Pod, PodController, PoolWorkloads, Shared},
};

use crate::model::{CLASS, NODE, POOL, World, node, pool};

/// The runtime of the nodes unless a test asks for another.
pub const CONTAINERD: &str = "containerd://2.1.4";

/// A cluster: what the API server has, and what was said of images.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub world: World,
    /// Pods, by `namespace/name`.
    pub pods: BTreeMap<String, Value>,
    /// What makes pods, by kind and `namespace/name`.
    pub controllers: BTreeMap<(&'static str, String), Value>,
    /// The LimitRange of the namespace `shop`: request and limit of a container's memory.
    pub defaults: Option<(&'static str, &'static str)>,
    /// What the registry said, by image.
    pub lookups: BTreeMap<String, Lookup>,
    /// What events said of sandboxes, by the pod's key and the event's name.
    pub sandboxes: BTreeMap<(String, String), Said>,
}

/// Pool `web` with two nodes of Windows Server 2022, pool `batch` with one of Windows Server 2019, both guarded.
pub fn town() -> Cluster {
    let mut cluster = Cluster::new();
    for (name, build) in [("web-1", 20348), ("web-2", 20348), ("batch-1", 17763)] {
        cluster.node(name, build, CONTAINERD);
    }
    cluster.pool("web", json!({"windowsVersion": "ltsc2022"}));
    cluster.pool("batch", json!({"windowsVersion": "ltsc2019"}));
    cluster.world.settle();
    cluster
}

/// A town of one pool with these fields, whose nodes `web-1` and `web-2` run Windows Server 2022.
pub fn village(fields: Value) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("web-1", 20348, CONTAINERD);
    cluster.node("web-2", 20348, CONTAINERD);
    let mut spec = json!({"windowsVersion": "ltsc2022"});
    merge(&mut spec, fields);
    cluster.pool("web", spec);
    cluster.world.settle();
    cluster
}

/// Sets fields.
pub fn merge(object: &mut Value, fields: Value) {
    for (key, value) in fields.as_object().unwrap() {
        object[key] = value.clone();
    }
}

/// A container with as much memory as it may take.
pub fn container(image: &str) -> Value {
    json!({"name": "app", "image": image, "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}})
}

/// A pod's spec with one container that suits any trap, and these fields.
pub fn spec(fields: Value) -> Value {
    let mut spec = json!({"containers": [container("example.com/app:1")]});
    merge(&mut spec, fields);
    spec
}

/// The toleration of the pools' taint.
pub fn tolerated() -> Value {
    json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}])
}

/// The status of a container that runs.
pub fn running() -> Value {
    status(json!({"running": {}}))
}

/// The status of a container that waits, with a message.
pub fn waiting(message: &str) -> Value {
    status(json!({"waiting": {"reason": "ErrImagePull", "message": message}}))
}

fn status(state: Value) -> Value {
    let container =
        json!({"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    json!({"phase": "Pending", "containerStatuses": [container]})
}

/// What a registry says of an image, as `os/architecture version`.
pub fn found(platforms: &[&str]) -> Lookup {
    let platform = |text: &&str| {
        let (system, version) = text.split_once(' ').unwrap_or((text, ""));
        let (os, architecture) = system.split_once('/').unwrap();
        Platform { os: os.to_owned(), architecture: architecture.to_owned(), os_version: version.parse().ok() }
    };
    Lookup::Found(Content { platforms: platforms.iter().map(platform).collect() })
}

impl Cluster {
    pub fn new() -> Self {
        Self {
            world: World::new(),
            pods: BTreeMap::new(),
            controllers: BTreeMap::new(),
            defaults: None,
            lookups: BTreeMap::new(),
            sandboxes: BTreeMap::new(),
        }
    }

    /// A node `<agentpool>-<number>`.
    pub fn node(&mut self, name: &str, build: u32, runtime: &str) {
        let agentpool = name.rsplit_once('-').unwrap().0;
        let labels = json!({"agentpool": agentpool, "kubernetes.io/hostname": name});
        self.world.put(NODE, name, node(build, runtime, &labels, &json!([])));
    }

    /// A pool of the nodes of that name.
    pub fn pool(&mut self, name: &str, fields: Value) {
        let mut spec = json!({"nodeSelector": {"matchLabels": {"agentpool": name}}});
        merge(&mut spec, fields);
        self.world.put(POOL, name, pool(spec));
    }

    /// A RuntimeClass that nobody of us made.
    pub fn class(&mut self, name: &str, handler: &str, selector: Value) {
        let class = json!({
            "metadata": {}, "handler": handler, "scheduling": {"nodeSelector": selector, "tolerations": tolerated()},
        });
        self.world.put(CLASS, name, class);
    }

    /// An object that makes pods, named after its kind.
    pub fn controller(&mut self, kind: &'static str, pod: Value) {
        self.named_controller(kind, &kind.to_lowercase(), pod, json!({}), json!({}));
    }

    pub fn named_controller(&mut self, kind: &'static str, name: &str, pod: Value, more: Value, status: Value) {
        let mut spec = json!({"selector": {}, "serviceName": "", "template": {"spec": pod}});
        merge(&mut spec, more);
        let metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-of-{name}")});
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        self.controllers.insert((kind, format!("shop/{name}")), object);
    }

    /// A pod, with metadata beside its name.
    pub fn pod(&mut self, name: &str, metadata: Value, spec: Value, status: Value) {
        let mut own = json!({"name": name, "namespace": "shop", "uid": format!("uid-of-{name}")});
        merge(&mut own, metadata);
        self.pods.insert(format!("shop/{name}"), json!({"metadata": own, "spec": spec, "status": status}));
    }

    /// A pod of nobody on a node; its spec has these fields.
    pub fn pod_on(&mut self, name: &str, node: &str, fields: Value, status: Value) {
        let mut fields = fields;
        fields["nodeName"] = json!(node);
        self.pod(name, json!({}), spec(fields), status);
    }

    pub fn ground(&self) -> Ground {
        Ground::of(&self.world.snapshot())
    }

    /// Tells a ledger of the LimitRange.
    pub fn tell_defaults(&self, ledger: &mut Ledger) {
        let range = |(request, limit)| {
            let of_container =
                json!({"type": "Container", "defaultRequest": {"memory": request}, "default": {"memory": limit}});
            let range =
                json!({"metadata": {"namespace": "shop", "name": "memory"}, "spec": {"limits": [of_container]}});
            Arc::new(MemoryDefaults::from(serde_json::from_value::<core::LimitRange>(range).unwrap()))
        };
        ledger.defaults("shop", "shop/memory", self.defaults.map(range));
    }

    /// A ledger that has heard of everything once.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.stand_on(self.ground());
        self.tell_defaults(&mut ledger);
        for ((kind, _), object) in &self.controllers {
            let controller = read_controller(kind, object);
            ledger.controller(&controller.workload.clone(), Some(controller));
        }
        for ((pod, event), said) in &self.sandboxes {
            ledger.sandbox(pod, event, Some(said.clone()));
        }
        for (key, object) in &self.pods {
            ledger.pod(key, Some(read_pod(object)));
        }
        for (image, lookup) in &self.lookups {
            ledger.answer(image, Arc::new(lookup.clone()));
        }
        ledger
    }

    pub fn summary(&self, pool: &str) -> PoolWorkloads {
        self.ledger().summary(pool)
    }

    /// Everything that is told, as `pool Reason workload: story`, by pool and worst first.
    pub fn told(&self) -> Vec<String> {
        let ledger = self.ledger();
        let of_pool = |pool: String| {
            let traps = ledger.summary(&pool).traps.into_iter();
            let lines =
                move |(trap, trapped): (winpool::domain::workload::Trap, winpool::domain::workload::Trapped)| {
                    let pool = pool.clone();
                    let line = move |(workload, story)| format!("{pool} {} {workload}: {story}", trap.reason());
                    trapped.first.into_iter().map(line)
                };
            traps.flat_map(lines).collect::<Vec<_>>()
        };
        self.world.names(POOL).into_iter().flat_map(of_pool).collect()
    }

    /// Exactly these are told, each by its beginning and its end.
    #[track_caller]
    pub fn tells(&self, expected: &[(&str, &str)], what: &dyn std::fmt::Display) {
        let told = self.told();
        let fits = |(line, (begin, end)): (&String, &(&str, &str))| line.starts_with(begin) && line.ends_with(end);
        assert!(
            told.len() == expected.len() && told.iter().zip(expected).all(fits),
            "{what}\ntold: {told:#?}\nexpected: {expected:#?}"
        );
    }
}

/// The images that a ledger would ask registries for.
pub fn wanted(ledger: &Ledger) -> Vec<String> {
    let mut images: Vec<String> = ledger.wants().map(|(image, _)| image.to_owned()).collect();
    images.sort();
    images
}

pub fn read_pod(object: &Value) -> Arc<Pod> {
    let pod: core::Pod = serde_json::from_value(object.clone()).unwrap();
    Arc::new(Pod::read(pod, &mut Shared::default()))
}

pub fn read_controller(kind: &str, object: &Value) -> Arc<Controller> {
    fn read<T: PodController + serde::de::DeserializeOwned>(object: &Value) -> Controller {
        Controller::read(serde_json::from_value::<T>(object.clone()).unwrap(), &mut Shared::default())
    }
    Arc::new(match kind {
        "Deployment" => read::<Deployment>(object),
        "StatefulSet" => read::<StatefulSet>(object),
        "DaemonSet" => read::<DaemonSet>(object),
        "Job" => read::<Job>(object),
        _ => panic!("{kind}"),
    })
}
