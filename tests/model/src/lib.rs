//! A model of the API server with the semantics that plans need, without winpool's rules.

// It is only used by tests.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::new_without_default,
    clippy::panic,
    clippy::unwrap_used
)]

mod cases;
pub mod kstatus;
pub mod storage;
pub mod workloads;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use serde_json::{Map, Value, json};
use winpool_api::WindowsNodePoolStatus;
use winpool_core::record::OwnershipKey;
use winpool_core::{kind::Kind, node::WindowsNode};
use winpool_facts::Minor;
use winpool_render::allowances::Allowances;
use winpool_rules::{
    operation::{AfterFailure, Denial, Done, Outcome, Unwritten, Verb, Write, WriteTarget},
    ownership::Ownership,
    pool::{
        ConfigMapView, NodeConfigView, Pool, ProfileView, RuntimeClassView, Snapshot,
        plan::{Plan, give_back, plan},
    },
    status::{Report, pool::report},
};
use winpool_workload::{ControllerView, Controllers, Pod, PodController, Shared, StorageState};

pub use cases::cases;

/// The stored objects, and the fields that the operator applied to them.
#[derive(Clone, Debug)]
pub struct Model {
    objects: BTreeMap<(&'static str, String), Value>,
    applied: BTreeMap<(&'static str, String), Value>,
    /// The versions that operations have left since the last snapshot.
    written: RefCell<BTreeMap<(&'static str, String), Value>>,
    version: u64,
    pub now: Timestamp,
    pub api_server: Minor,
    pub refuses: Option<fn(&Write) -> bool>,
    /// What admission has rejected, by node.
    pub denials: BTreeMap<String, Denial>,
    /// The RuntimeClasses and ConfigMaps that could not be written.
    failed: BTreeMap<String, Write>,
    /// The key that signs the records.
    pub key: u8,
    pub allowances: Allowances,
    pub storage: StorageState,
}

pub const POOL: &str = "WindowsNodePool";
pub const PROFILE: &str = "WindowsRuntimeProfile";
pub const NODE: &str = "Node";
pub const CLASS: &str = "RuntimeClass";
pub const CONFIG: &str = "ConfigMap";
pub const POD: &str = "Pod";
pub const DEPLOYMENT: &str = "Deployment";
pub const DAEMON_SET: &str = "DaemonSet";
pub const NODE_CONFIG: &str = "WindowsNodeConfig";

impl Model {
    pub fn new() -> Self {
        let now = "2026-06-01T12:00:00Z".parse().unwrap();
        Self {
            objects: BTreeMap::new(),
            applied: BTreeMap::new(),
            written: RefCell::default(),
            version: 0,
            now,
            api_server: Minor(34),
            refuses: None,
            denials: BTreeMap::new(),
            failed: BTreeMap::new(),
            key: 7,
            allowances: Allowances::default(),
            storage: StorageState::Off,
        }
    }

    /// Stores an object like `kubectl replace`: metadata and spec are replaced, the status is kept.
    pub fn put(&mut self, kind: &'static str, name: &str, mut object: Value) {
        let before = self.objects.get(&(kind, name.to_owned())).cloned();
        self.version += 1;
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = before
            .as_ref()
            .map_or_else(|| json!(format!("uid-{}", self.version)), |old| old["metadata"]["uid"].clone());
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object["metadata"]["creationTimestamp"] = before.as_ref().map_or_else(
            || json!((self.now + SignedDuration::from_secs(self.version.cast_signed())).to_string()),
            |old| old["metadata"]["creationTimestamp"].clone(),
        );
        let same_spec = before.as_ref().is_some_and(|old| old["spec"] == object["spec"]);
        let generation =
            before.as_ref().map_or(1, |old| old["metadata"]["generation"].as_i64().unwrap() + i64::from(!same_spec));
        object["metadata"]["generation"] = json!(generation);
        if let Some(old) = before {
            for kept in ["finalizers", "labels", "annotations", "deletionTimestamp"] {
                if object["metadata"].get(kept).is_none() && old["metadata"].get(kept).is_some() {
                    object["metadata"][kept] = old["metadata"][kept].clone();
                }
            }
            if object.get("status").is_none() && old.get("status").is_some() {
                object["status"] = old["status"].clone();
            }
        }
        self.objects.insert((kind, name.to_owned()), object);
    }

    /// Changes an object in place as another client.
    pub fn edit(&mut self, kind: &'static str, name: &str, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        let version = self.version.to_string();
        let object = self.objects.get_mut(&(kind, name.to_owned())).unwrap();
        let spec = object["spec"].clone();
        change(object);
        object["metadata"]["resourceVersion"] = json!(version);
        if kind != NODE && object["spec"] != spec {
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap() + 1);
        }
    }

    /// Sets a field in the spec of a pool.
    pub fn set_spec(&mut self, pool: &str, field: &str, value: Value) {
        self.edit(POOL, pool, |pool| pool["spec"][field] = value);
    }

    /// Sets an annotation of a pool.
    pub fn annotate(&mut self, pool: &str, key: &str, value: impl AsRef<str>) {
        self.edit(POOL, pool, |pool| pool["metadata"]["annotations"][key] = json!(value.as_ref()));
    }

    /// Deletes an object, or sets its deletion timestamp if it has finalizers.
    pub fn delete(&mut self, kind: &'static str, name: &str) {
        let key = (kind, name.to_owned());
        let Some(object) = self.objects.get_mut(&key) else { return };
        if object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
            object["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
        } else {
            self.objects.remove(&key);
            self.applied.remove(&key);
        }
    }

    pub fn get(&self, kind: &'static str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, name.to_owned()))
    }

    pub fn all(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |((of, _), _)| *of == kind).map(|(_, object)| object)
    }

    pub fn names(&self, kind: &'static str) -> Vec<String> {
        self.all(kind).map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The snapshot for a reconcile.
    pub fn snapshot(&self) -> Snapshot {
        self.written.borrow_mut().clear();
        fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
            serde_json::from_value(object.clone()).unwrap()
        }
        let read_node = |node| WindowsNode::from(read::<k8s_openapi::api::core::v1::Node>(node));
        let is_windows = |node: &&Value| node["metadata"]["labels"]["kubernetes.io/os"] == "windows";
        Snapshot {
            now: self.now,
            namespace: "winpool-system".into(),
            pools: self.all(POOL).map(|object| Pool::from_object(read(object)).within(&self.allowances)).collect(),
            profiles: self
                .all(PROFILE)
                .map(|object| ProfileView::from_object(read(object)).within(&self.allowances))
                .collect(),
            nodes: self.all(NODE).filter(is_windows).map(read_node).collect(),
            unwatched: Some(self.all(NODE).filter(|node| !is_windows(node)).map(read_node).collect()),
            runtime_classes: self
                .all(CLASS)
                .map(|class| RuntimeClassView::from(read::<k8s_openapi::api::node::v1::RuntimeClass>(class)))
                .collect(),
            config_maps: self
                .all(CONFIG)
                .map(|map| ConfigMapView::from(read::<k8s_openapi::api::core::v1::ConfigMap>(map)))
                .collect(),
            api_server: Some(self.api_server),
            ownership: Arc::new(Ownership::signed(OwnershipKey::new(&[self.key; OwnershipKey::LENGTH]))),
            node_configs: Some(self.all(NODE_CONFIG).map(|config| NodeConfigView::from_object(read(config))).collect()),
            denials: self.denials.clone(),
            unwritten: self.unwritten(),
            storage: self.storage.clone(),
            pods: Some(self.all(POD).map(read_pod).collect()),
            controllers: Controllers {
                deployments: self.all(DEPLOYMENT).map(read_controller::<Deployment>).collect(),
                daemon_sets: self.all(DAEMON_SET).map(read_controller::<DaemonSet>).collect(),
                ..Controllers::default()
            },
            ..Snapshot::default()
        }
    }

    /// Runs a write after the writes of these objects failed.
    pub fn run_after(&mut self, write: &Write, unwritten: &Unwritten) -> Outcome {
        if let Some(dependency) = write.waits_for(unwritten) {
            return Outcome::Waits(dependency.clone());
        }
        if self.refuses.is_some_and(|refuses| refuses(write)) {
            return Outcome::Refused("rejected by the model".into());
        }
        let WriteTarget { kind, name, uid, .. } = &write.object;
        let (kind, exists) = (kind.name, self.get(kind.name, name).is_some());
        match write.verb {
            // The model has no Cluster API.
            _ if Kind::CLUSTER_API.contains(&write.object.kind) || kind == Kind::SECRET.name => Outcome::NotFound,
            Verb::Create if kind == CONFIG && exists => Outcome::Refused("already exists".into()),
            Verb::Delete | Verb::Evict => self.delete_exactly(kind, name, uid.as_deref().unwrap()),
            Verb::Merge | Verb::ApplyStatus if !exists => Outcome::NotFound,
            _ if !self.is_current(write) => Outcome::Conflict,
            Verb::ApplyStatus => self.write_status(write),
            Verb::Create | Verb::Apply => {
                let body = write.body();
                if kind == CLASS && self.get(CLASS, name).is_some_and(|class| class["handler"] != body["handler"]) {
                    return Outcome::Refused("field is immutable".into());
                }
                self.apply(kind, name, &body)
            }
            Verb::Merge => {
                self.merge(kind, name, &write.body());
                let object = self.get(kind, name).unwrap();
                let finalizers = object["metadata"]["finalizers"].as_array();
                if object["metadata"].get("deletionTimestamp").is_some() && finalizers.is_none_or(Vec::is_empty) {
                    self.objects.remove(&(kind, name.clone()));
                }
                Outcome::Done
            }
        }
    }

    /// Whether a write was planned from the stored version, or the object was only written since by the same reconcile. A write
    /// without a version is for an object that does not exist.
    fn is_current(&self, write: &Write) -> bool {
        let WriteTarget { kind, name, .. } = &write.object;
        let stored = self.get(kind.name, name).map(|object| &object["metadata"]["resourceVersion"]);
        let written = self.written.borrow();
        stored.and_then(Value::as_str) == write.planned_from.as_deref()
            || stored.is_some_and(|stored| written.get(&(kind.name, name.clone())) == Some(stored))
    }

    /// Records the version that an operation has left.
    fn keep_version(&self, kind: &'static str, name: &str) {
        let version = self.get(kind, name).map(|object| object["metadata"]["resourceVersion"].clone());
        self.written.borrow_mut().extend(version.map(|version| ((kind, name.to_owned()), version)));
    }

    fn merge(&mut self, kind: &'static str, name: &str, patch: &Value) {
        self.edit(kind, name, |object| merge_fields(object, patch));
        self.keep_version(kind, name);
    }

    /// Server-side apply by one manager: fields that it no longer applies are removed, the others are merged.
    fn apply(&mut self, kind: &'static str, name: &str, body: &Value) -> Outcome {
        if self.get(kind, name).is_none() {
            self.put(kind, name, body.clone());
        } else {
            let before = self.applied.get(&(kind, name.to_owned())).cloned().unwrap_or_default();
            self.edit(kind, name, |object| {
                prune(object, &before, body);
                overlay(object, body);
            });
        }
        self.applied.insert((kind, name.to_owned()), body.clone());
        self.keep_version(kind, name);
        Outcome::Done
    }

    /// Applies a status to its version.
    pub fn write_status(&mut self, write: &Write) -> Outcome {
        let WriteTarget { kind, name, .. } = &write.object;
        if self.get(kind.name, name).is_none() {
            return Outcome::NotFound;
        }
        if !self.is_current(write) {
            return Outcome::Conflict;
        }
        let status = write.body()["status"].clone();
        self.edit(kind.name, name, |object| object["status"] = status);
        self.keep_version(kind.name, name);
        Outcome::Done
    }

    fn delete_exactly(&mut self, kind: &'static str, name: &str, uid: &str) -> Outcome {
        match self.get(kind, name) {
            Some(object) if object["metadata"]["uid"] == uid => {
                self.delete(kind, name);
                Outcome::Done
            }
            Some(_) => Outcome::Conflict,
            None => Outcome::NotFound,
        }
    }

    /// Remembers the RuntimeClasses and ConfigMaps that could not be written, as the caches do.
    fn remember(&mut self, write: &Write, outcome: &Outcome) {
        if [Kind::RUNTIME_CLASS, Kind::CONFIG_MAP].contains(&write.object.kind) {
            self.failed.remove(&write.object.name);
            self.failed.extend((!outcome.succeeded()).then(|| (write.object.name.clone(), write.clone())));
        }
    }

    fn unwritten(&self) -> Unwritten {
        let mut unwritten = Unwritten::default();
        self.failed.values().for_each(|write| unwritten.add(write));
        unwritten
    }

    /// Reconciles a pool, interrupted after `cut` operations. `after` is called after each write.
    pub fn reconcile_until(
        &mut self,
        pool: &str,
        cut: usize,
        mut after: impl FnMut(&Self),
    ) -> Option<(Plan, Report<WindowsNodePoolStatus>)> {
        loop {
            let (plan, done, report) = self.reconcile_once(pool, cut, &mut after)?;
            // A plan in which nodes wait for what could not be written is superseded at once.
            if !done.results.iter().any(|(_, outcome)| matches!(outcome, Outcome::Waits(_))) {
                return Some((plan, report));
            }
        }
    }

    fn reconcile_once(
        &mut self,
        pool: &str,
        cut: usize,
        after: &mut impl FnMut(&Self),
    ) -> Option<(Plan, Done, Report<WindowsNodePoolStatus>)> {
        let snapshot = self.snapshot();
        let plan = plan(&snapshot, pool).or_else(|| give_back(&snapshot, pool))?;
        let mut done = Done { results: Vec::new(), complete: true };
        let mut unwritten = Unwritten::default();
        for write in plan.steps.iter().flatten() {
            if done.results.len() == cut {
                return None;
            }
            let waits = write.waits_for(&unwritten).is_some() && write.node_edit().is_none();
            if waits || write.is_blocked(&unwritten) {
                continue;
            }
            let outcome = self.run_after(write, &unwritten);
            after(self);
            if !outcome.succeeded() {
                done.complete = false;
                unwritten.add(write);
            }
            self.remember(write, &outcome);
            done.results.push((write.clone(), outcome));
            if !done.complete && plan.after_failure == AfterFailure::Stop {
                break;
            }
        }
        let plan = plan.with_outcomes(&done);
        let report = report(&snapshot, &plan, &done);
        if let Some(write) = &report.write {
            self.write_status(write);
        }
        Some((plan, done, report))
    }

    /// Reconciles all pools until nothing changes, and returns the number of rounds.
    pub fn converge(&mut self) -> usize {
        self.converge_watched(|_| {})
    }

    /// The pools, and those that were deleted and are named by a class.
    fn reconciled(&self) -> BTreeSet<String> {
        let label = |class: &Value| class["metadata"]["labels"]["winpool.dev/pool"].as_str().map(str::to_owned);
        self.names(POOL).into_iter().chain(self.all(CLASS).filter_map(label)).collect()
    }

    /// Like [`Self::converge`]; `after` is called after each write.
    pub fn converge_watched(&mut self, mut after: impl FnMut(&Self)) -> usize {
        for round in 0..12 {
            let mut is_converged = true;
            for pool in self.reconciled() {
                if let Some((plan, report)) = self.reconcile_until(&pool, usize::MAX, &mut after) {
                    is_converged &= plan.steps.is_empty() && report.write.is_none();
                }
            }
            if is_converged {
                return round;
            }
        }
        panic!(
            "the plans do not converge: {:#?}",
            self.reconciled()
                .iter()
                .map(|pool| plan(&self.snapshot(), pool).map(|plan| plan.steps))
                .collect::<Vec<_>>()
        );
    }
}

fn read_pod(pod: &Value) -> Pod {
    Pod::read(serde_json::from_value(pod.clone()).unwrap(), &mut Shared::default())
}

fn read_controller<T: PodController + serde::de::DeserializeOwned>(object: &Value) -> ControllerView<T> {
    ControllerView::read(serde_json::from_value(object.clone()).unwrap(), &mut Shared::default())
}

/// A new node that pool `web` selects, with these taints.
pub fn web_node(taints: Value) -> Value {
    node(20348, "containerd://2.2.10", &json!({"agentpool": "web"}), &taints)
}

pub fn taint(key: &str, value: &str, effect: &str) -> Value {
    json!({"key": key, "value": value, "effect": effect})
}

/// A pod on a node.
pub fn pod(node: &str, tolerations: &Value) -> Value {
    json!({"metadata": {"namespace": "default"}, "spec": {"nodeName": node, "tolerations": tolerations, "containers": []}})
}

/// JSON merge patch.
fn merge_fields(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in changes {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge_fields(&mut target[key], value);
        }
    }
}

/// Sets the fields of a body. Lists and the maps of a class are atomic.
fn overlay(target: &mut Value, body: &Value) {
    match body {
        Value::Object(fields) if target.is_object() => {
            for (key, value) in fields {
                match key.as_str() {
                    "nodeSelector" | "tolerations" | "podFixed" => target[key] = value.clone(),
                    _ => overlay(&mut target[key], value),
                }
            }
        }
        _ => *target = body.clone(),
    }
}

/// Removes the fields that were applied before and are not in the new body.
fn prune(target: &mut Value, before: &Value, body: &Value) {
    let (Some(fields), Some(before)) = (target.as_object_mut(), before.as_object()) else { return };
    for (key, old) in before {
        match body.get(key) {
            None => {
                fields.remove(key);
            }
            Some(new) => {
                if let Some(field) = fields.get_mut(key) {
                    prune(field, old, new);
                }
            }
        }
    }
}

/// A Windows node as registered by a kubelet.
pub fn node(build: u32, runtime: &str, labels: &Value, taints: &Value) -> Value {
    let mut all = json!({"kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64", "node.kubernetes.io/windows-build": format!("10.0.{build}")});
    merge_fields(&mut all, labels);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"labels": all, "annotations": {"example.com/note": "keep"}},
        "spec": {"taints": taints},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}],
            "capacity": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"},
            "nodeInfo": {
                "kernelVersion": format!("10.0.{build}.1000"), "kubeletVersion": "v1.34.1", "containerRuntimeVersion": runtime,
                "osImage": "Windows Server", "operatingSystem": "windows", "architecture": "amd64", "bootID": "", "machineID": "",
                "systemUUID": "", "kubeProxyVersion": ""
            },
        },
    })
}

pub fn pool(spec: Value) -> Value {
    json!({"apiVersion": "winpool.dev/v1alpha1", "kind": POOL, "metadata": {}, "spec": spec})
}

/// An object with these fields, or others.
pub fn with(mut object: Value, fields: &Value) -> Value {
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

/// A pool for Windows Server 2022 that selects the nodes labelled `agentpool=web`, with further fields or others.
pub fn web(fields: Value) -> Value {
    pool(with(json!({"windowsVersion": "ltsc2022", "nodeSelector": {"matchLabels": {"agentpool": "web"}}}), &fields))
}

pub fn status(model: &Model, pool: &str) -> WindowsNodePoolStatus {
    serde_json::from_value(model.get(POOL, pool).unwrap()["status"].clone()).unwrap()
}

/// Status, reason and message of a condition of a pool; `None` if it is absent.
pub fn reported(model: &Model, pool: &str, type_: &str) -> Option<(String, String, String)> {
    let found = status(model, pool).conditions.into_iter().find(|condition| condition.type_ == type_)?;
    Some((found.status, found.reason, found.message))
}

/// The same of one that is there.
pub fn condition(model: &Model, pool: &str, type_: &str) -> (String, String, String) {
    reported(model, pool, type_).unwrap_or_else(|| panic!("{type_} is absent: {:?}", status(model, pool)))
}

pub fn profile(spec: Value) -> Value {
    json!({"apiVersion": "winpool.dev/v1alpha1", "kind": PROFILE, "metadata": {}, "spec": spec})
}

/// The taints of a node, as `key=value:Effect`.
pub fn taints(node: &Value) -> Vec<String> {
    let text = |taint: &Value| {
        format!(
            "{}={}:{}",
            taint["key"].as_str().unwrap(),
            taint["value"].as_str().unwrap_or_default(),
            taint["effect"].as_str().unwrap()
        )
    };
    node["spec"]["taints"].as_array().into_iter().flatten().map(text).collect()
}
