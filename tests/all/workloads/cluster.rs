//! A cluster with workloads, as JSON, and its index.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1 as core,
};
use serde_json::{Value, json};
use winpool_core::image::{ImagePlatform, ImagePlatforms, Lookup, RuntimeReport};
use winpool_workload::{
    Controller, MemoryDefaults, Pod, PodController, PoolWorkloads, SchedulingState, Service, Shared, WorkloadIndex,
};

use crate::model::{CLASS, Model, NODE, POOL, node, pool};

/// The default container runtime of the nodes.
pub const CONTAINERD: &str = "containerd://2.1.4";

/// A cluster: the objects of the API server, and the evidence about images.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub model: Model,
    /// Pods, by `namespace/name`.
    pub pods: BTreeMap<String, Value>,
    /// The objects that create pods, by kind and `namespace/name`.
    pub controllers: BTreeMap<(&'static str, String), Value>,
    /// The LimitRange of the namespace `shop`: request and limit of a container's memory.
    pub defaults: Option<(&'static str, &'static str)>,
    /// The registry lookups, by image.
    pub lookups: BTreeMap<String, Lookup>,
    /// The reports about sandboxes, by the pod's key and the event's name.
    pub sandboxes: BTreeMap<(String, String), RuntimeReport>,
    /// Services, by `namespace/name`.
    pub services: BTreeMap<String, Value>,
}

/// Pool `web` with two nodes of Windows Server 2022 and pool `batch` with one of Windows Server 2019, both reconciled.
pub fn two_pools() -> Cluster {
    let mut cluster = Cluster::new();
    for (name, build) in [("web-1", 20348), ("web-2", 20348), ("batch-1", 17763)] {
        cluster.node(name, build, CONTAINERD);
    }
    cluster.pool("web", json!({"windowsVersion": "ltsc2022"}));
    cluster.pool("batch", json!({"windowsVersion": "ltsc2019"}));
    cluster.model.converge();
    cluster
}

/// Pool `web` with these fields, whose nodes `web-1` and `web-2` run Windows Server 2022.
pub fn one_pool(fields: Value) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("web-1", 20348, CONTAINERD);
    cluster.node("web-2", 20348, CONTAINERD);
    let mut spec = json!({"windowsVersion": "ltsc2022"});
    merge(&mut spec, fields);
    cluster.pool("web", spec);
    cluster.model.converge();
    cluster
}

pub fn merge(object: &mut Value, fields: Value) {
    for (key, value) in fields.as_object().unwrap() {
        object[key] = value.clone();
    }
}

/// A container whose memory request is its limit.
pub fn container(image: &str) -> Value {
    json!({"name": "app", "image": image, "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}})
}

/// A pod spec with one container and these fields.
pub fn spec(fields: Value) -> Value {
    let mut spec = json!({"containers": [container("example.com/app:1")]});
    merge(&mut spec, fields);
    spec
}

/// The toleration of the pools' taint.
pub fn tolerated() -> Value {
    json!([{"key": "os", "value": "windows", "effect": "NoSchedule"}])
}

/// The status of a pod with a running container.
pub fn running() -> Value {
    status(json!({"running": {}}))
}

/// The status of a pod with a waiting container.
pub fn waiting(message: &str) -> Value {
    status(json!({"waiting": {"reason": "ErrImagePull", "message": message}}))
}

fn status(state: Value) -> Value {
    let container =
        json!({"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    json!({"phase": "Pending", "containerStatuses": [container]})
}

/// The lookup of an image with these platforms, as `os/architecture version`.
pub fn found(platforms: &[&str]) -> Lookup {
    let platform = |text: &&str| {
        let (system, version) = text.split_once(' ').unwrap_or((text, ""));
        let (os, architecture) = system.split_once('/').unwrap();
        ImagePlatform { os: os.to_owned(), architecture: architecture.to_owned(), os_version: version.parse().ok() }
    };
    Lookup::Found(ImagePlatforms { platforms: platforms.iter().map(platform).collect() })
}

impl Cluster {
    pub fn new() -> Self {
        Self {
            model: Model::new(),
            pods: BTreeMap::new(),
            controllers: BTreeMap::new(),
            defaults: None,
            lookups: BTreeMap::new(),
            sandboxes: BTreeMap::new(),
            services: BTreeMap::new(),
        }
    }

    /// A node `<agentpool>-<number>`.
    pub fn node(&mut self, name: &str, build: u32, runtime: &str) {
        let agentpool = name.rsplit_once('-').unwrap().0;
        let labels = json!({"agentpool": agentpool, "kubernetes.io/hostname": name});
        self.model.put(NODE, name, node(build, runtime, &labels, &json!([])));
    }

    pub fn pool(&mut self, name: &str, fields: Value) {
        let mut spec = json!({"nodeSelector": {"matchLabels": {"agentpool": name}}});
        merge(&mut spec, fields);
        self.model.put(POOL, name, pool(spec));
    }

    /// A RuntimeClass that winpool did not create.
    pub fn class(&mut self, name: &str, handler: &str, selector: Value) {
        let class = json!({
            "metadata": {}, "handler": handler, "scheduling": {"nodeSelector": selector, "tolerations": tolerated()},
        });
        self.model.put(CLASS, name, class);
    }

    /// An object that creates pods, named after its kind.
    pub fn controller(&mut self, kind: &'static str, pod: Value) {
        self.named_controller(kind, &kind.to_lowercase(), pod, json!({}));
    }

    pub fn named_controller(&mut self, kind: &'static str, name: &str, pod: Value, more: Value) {
        let mut spec = json!({"selector": {}, "serviceName": "", "template": {"spec": pod}});
        merge(&mut spec, more);
        let metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-of-{name}")});
        let object = json!({"metadata": metadata, "spec": spec});
        self.controllers.insert((kind, format!("shop/{name}")), object);
    }

    pub fn pod(&mut self, name: &str, metadata: Value, spec: Value, status: Value) {
        let mut own = json!({"name": name, "namespace": "shop", "uid": format!("uid-of-{name}")});
        merge(&mut own, metadata);
        self.pods.insert(format!("shop/{name}"), json!({"metadata": own, "spec": spec, "status": status}));
    }

    pub fn service(&mut self, name: &str, spec: Value) {
        let object = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec});
        self.services.insert(format!("shop/{name}"), object);
    }

    /// A pod without a controller on a node; its spec has these fields.
    pub fn pod_on(&mut self, name: &str, node: &str, fields: Value, status: Value) {
        let mut fields = fields;
        fields["nodeName"] = json!(node);
        self.pod(name, json!({}), spec(fields), status);
    }

    pub fn state(&self) -> SchedulingState {
        self.model.snapshot().scheduling_state()
    }

    pub fn set_memory_defaults(&self, index: &mut WorkloadIndex) {
        let range = |(request, limit)| {
            let of_container =
                json!({"type": "Container", "defaultRequest": {"memory": request}, "default": {"memory": limit}});
            let range =
                json!({"metadata": {"namespace": "shop", "name": "memory"}, "spec": {"limits": [of_container]}});
            Arc::new(MemoryDefaults::from(serde_json::from_value::<core::LimitRange>(range).unwrap()))
        };
        index.set_memory_defaults("shop", "shop/memory", self.defaults.map(range));
    }

    pub fn index(&self) -> WorkloadIndex {
        let mut index = WorkloadIndex::default();
        index.set_state(self.state());
        self.set_memory_defaults(&mut index);
        for ((kind, _), object) in &self.controllers {
            let controller = read_controller(kind, object);
            index.set_controller(&controller.workload.clone(), Some(controller));
        }
        for ((pod, event), report) in &self.sandboxes {
            index.set_sandbox_report(pod, event, Some(report.clone()));
        }
        for (key, object) in &self.services {
            index.set_service("shop", key, Some(read_service(object)));
        }
        index.read_services();
        for (key, object) in &self.pods {
            index.set_pod(key, Some(read_pod(object)));
        }
        for (image, lookup) in &self.lookups {
            index.set_lookup(image, Arc::new(lookup.clone()));
        }
        index
    }

    pub fn summary(&self, pool: &str) -> PoolWorkloads {
        self.index().summary(pool)
    }

    /// All issues, as `pool Reason workload: message`, by pool and worst first.
    pub fn messages(&self) -> Vec<String> {
        let index = self.index();
        let mut messages = Vec::new();
        for pool in self.model.names(POOL) {
            for (kind, affected) in index.summary(&pool).issues {
                let message = |(workload, issue)| format!("{pool} {} {workload}: {issue}", kind.name());
                messages.extend(affected.first.into_iter().map(message));
            }
        }
        messages
    }

    /// Asserts that there are exactly these issues, each by the start and the end of its message.
    #[track_caller]
    pub fn assert_issues(&self, expected: &[(&str, &str)], case: &dyn std::fmt::Display) {
        let messages = self.messages();
        let matches =
            |(message, (start, end)): (&String, &(&str, &str))| message.starts_with(start) && message.ends_with(end);
        assert!(
            messages.len() == expected.len() && messages.iter().zip(expected).all(matches),
            "{case}\nissues: {messages:#?}\nexpected: {expected:#?}"
        );
    }
}

pub fn images_to_look_up(index: &WorkloadIndex) -> Vec<String> {
    let mut images: Vec<String> = index.image_requests().map(|(image, _)| image.to_owned()).collect();
    images.sort();
    images
}

pub fn read_pod(object: &Value) -> Arc<Pod> {
    let pod: core::Pod = serde_json::from_value(object.clone()).unwrap();
    Arc::new(Pod::read(pod, &mut Shared::default()))
}

pub fn read_service(object: &Value) -> Arc<Service> {
    Arc::new(serde_json::from_value::<core::Service>(object.clone()).unwrap().into())
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
