//! A fleet made by hand, and a record of what happened to its pods and nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use e2e::{
    cluster::{Cluster, SOON, create, edit},
    fixture::{SharedCluster, windows},
    history::History,
    kubelet::{Kubelets, SimulatedNode},
    objects::taints_of,
    wait::until,
};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{Namespace, Node, Pod},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use super::{SERVER_2022, connect};

/// How long rollouts of Deployments may take.
const ROLLED_OUT: Duration = Duration::from_secs(600);

/// A part of the fleet with its own taint.
#[derive(Clone, Copy)]
pub struct Part {
    /// The name of its nodes, pool and workloads.
    pub name: &'static str,
    /// Key and value of the taint of its nodes.
    pub taint: Option<(&'static str, &'static str)>,
    /// Whether its Deployment uses a RuntimeClass that was made by hand, which the pool adopts.
    pub has_class: bool,
}

/// The parts of the fleet.
pub const PARTS: [Part; 5] = [
    Part { name: "kubernetes", taint: Some(("os", "windows")), has_class: false },
    Part { name: "openshift", taint: Some(("os", "Windows")), has_class: true },
    Part { name: "gke", taint: Some(("node.kubernetes.io/os", "windows")), has_class: false },
    Part { name: "azure-local", taint: Some(("node.kubernetes.io/os", "Windows")), has_class: true },
    Part { name: "aks", taint: None, has_class: false },
];

impl Part {
    /// The tolerations of its workloads before the adoption.
    fn tolerations(self) -> Value {
        let tolerate = |(key, value)| json!([{ "key": key, "value": value, "effect": "NoSchedule" }]);
        self.taint.map_or_else(|| json!([]), tolerate)
    }

    /// The pool that adopts its nodes. The taint of the part is replaced by the default one.
    pub fn pool(self, prefix: &str, mode: &str) -> Value {
        let name = self.object(prefix);
        let class = json!([{ "name": name, "adopt": self.has_class }]);
        let mut spec = json!({
            "windowsVersion": "ltsc2022", "nodeSelector": { "matchLabels": { "agentpool": name } }, "mode": mode,
            "runtimeClasses": class,
        });
        if let Some((key, value)) = self.taint.filter(|taint| *taint != ("os", "windows")) {
            spec["replacesTaints"] = json!([{ "key": key, "value": value, "effect": "NoSchedule" }]);
        }
        spec
    }

    /// The pool that goes back to the former taint, as a revert in Git does.
    pub fn reverted_pool(self, prefix: &str) -> Value {
        let mut spec = self.pool(prefix, "Enforce");
        if let Some(former) = spec["replacesTaints"].as_array().cloned() {
            spec["taints"] = json!(former);
            spec["replacesTaints"] = json!([{ "key": "os", "value": "windows", "effect": "NoSchedule" }]);
        }
        spec
    }

    /// The name of its objects.
    pub fn object(self, prefix: &str) -> String {
        format!("{prefix}-{}", self.name)
    }

    /// The text of its taint.
    pub fn taint_text(self) -> Option<String> {
        self.taint.map(|(key, value)| format!("{key}={value}:NoSchedule"))
    }

    fn pod_spec(self, prefix: &str, tolerations: &Value) -> Value {
        json!({
            "nodeSelector": { "kubernetes.io/os": "windows", "agentpool": self.object(prefix) },
            "tolerations": tolerations,
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": "example.test/app:1" }],
        })
    }
}

/// The objects of the fleet in one cluster.
pub struct Fleet {
    pub cluster: Cluster,
    _shared: Arc<SharedCluster>,
    /// The prefix of all names, and the namespace.
    pub prefix: &'static str,
    /// The kubelets of two nodes for each part, which run while the fleet exists.
    _kubelets: Kubelets,
    pods: History<Pod>,
    nodes: History<Node>,
}

impl Fleet {
    /// Creates the nodes, RuntimeClasses, Deployments and DaemonSets, and waits until all pods run.
    pub async fn new(shared: Arc<SharedCluster>, prefix: &'static str) -> Result<Self> {
        let cluster = connect(&shared).await?;
        let nodes = PARTS.iter().flat_map(|part| {
            [1, 2].map(|number| {
                let name = part.object(prefix);
                let node = windows(&name, number, SERVER_2022).label("example.com/rack", "r1");
                let node = node.taint("example.com/kept", "yes", "PreferNoSchedule");
                part.taint.iter().fold(node, |node, (key, value)| node.taint(key, value, "NoSchedule"))
            })
        });
        let nodes: Vec<SimulatedNode> = nodes.collect();
        let kubelets = cluster.start_kubelets(nodes).await?;
        create(&cluster.api::<Namespace>(), json!({ "metadata": { "name": prefix } })).await?;
        for part in PARTS {
            let name = part.object(prefix);
            if part.has_class {
                let scheduling = json!({
                    "nodeSelector": {
                        "kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64",
                        "node.kubernetes.io/windows-build": "10.0.20348",
                    },
                    "tolerations": part.tolerations(),
                });
                let class = json!({
                    "metadata": { "name": name }, "handler": "runhcs-wcow-process", "scheduling": scheduling,
                });
                create(&cluster.classes(), class).await?;
            }
            let own = if part.has_class { json!([]) } else { part.tolerations() };
            let mut of_deployment = part.pod_spec(prefix, &own);
            if part.has_class {
                of_deployment["runtimeClassName"] = json!(name);
            }
            let labels = |kind: &str| json!({ "app": format!("{name}-{kind}") });
            let workload = |kind: &str, spec: Value| {
                json!({
                    "metadata": { "name": format!("{name}-{kind}") },
                    "spec": {
                        "selector": { "matchLabels": labels(kind) },
                        "template": { "metadata": { "labels": labels(kind) }, "spec": spec },
                    },
                })
            };
            let mut deployment = workload("web", of_deployment);
            deployment["spec"]["replicas"] = json!(2);
            let of_daemon_set = part.pod_spec(prefix, &part.tolerations());
            create(&cluster.namespaced::<Deployment>(prefix), deployment).await?;
            create(&cluster.namespaced::<DaemonSet>(prefix), workload("logs", of_daemon_set)).await?;
        }
        let pods = History::start(cluster.namespaced(prefix)).await?;
        let nodes = History::start(cluster.nodes()).await?;
        let fleet = Self { cluster, _shared: shared, prefix, _kubelets: kubelets, pods, nodes };
        fleet.until_all_run().await?;
        fleet.pods.forget();
        Ok(fleet)
    }

    /// Applies a pool for each part.
    pub async fn apply_pools(&self, spec: impl Fn(Part) -> Value) -> Result<()> {
        for part in PARTS {
            let name = part.object(self.prefix);
            self.cluster.apply_pool(&name, spec(part)).await?;
            self.cluster.until_observed(&name).await?;
        }
        Ok(())
    }

    /// Waits until all pods run: two of each Deployment, and two of each DaemonSet.
    pub async fn until_all_run(&self) -> Result<()> {
        let pods = self.cluster.namespaced::<Pod>(self.prefix);
        let running = || async {
            let all = pods.list(&ListParams::default()).await?.items;
            let (mut running, mut other) = (0, Vec::new());
            for pod in all {
                let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
                let is_leaving = pod.metadata.deletion_timestamp.is_some();
                if phase == "Running" && !is_leaving { running += 1 } else { other.push(pod.name_any()) }
            }
            Ok((running, other))
        };
        let expected = (PARTS.len() * 4, Vec::new());
        until("all pods of the fleet run", ROLLED_OUT, running, |now| *now == expected).await.map(drop)
    }

    /// Deletes all pods, and waits until those that replace them run.
    pub async fn restart_pods(&self) -> Result<()> {
        let pods = self.cluster.namespaced::<Pod>(self.prefix);
        for pod in pods.list(&ListParams::default()).await?.items {
            pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
        }
        self.until_all_run().await
    }

    /// Writes the tolerations of both taints into the workloads, and waits until their pods have them.
    pub async fn tolerate_both_taints(&self) -> Result<()> {
        for part in PARTS {
            let mut tolerations = part.tolerations();
            let new = json!({ "key": "os", "value": "windows", "effect": "NoSchedule" });
            let all = tolerations.as_array_mut().context("a list")?;
            if !all.contains(&new) {
                all.push(new);
            }
            let patch = json!({ "spec": { "template": { "spec": { "tolerations": tolerations } } } });
            let name = part.object(self.prefix);
            edit(&self.cluster.namespaced::<Deployment>(self.prefix), &format!("{name}-web"), patch.clone()).await?;
            edit(&self.cluster.namespaced::<DaemonSet>(self.prefix), &format!("{name}-logs"), patch).await?;
        }
        self.until_rolled_out().await?;
        self.until_all_run().await
    }

    async fn until_rolled_out(&self) -> Result<()> {
        let deployments = self.cluster.namespaced::<Deployment>(self.prefix);
        let daemon_sets = self.cluster.namespaced::<DaemonSet>(self.prefix);
        let behind = || async {
            let mut behind = Vec::new();
            for one in deployments.list(&ListParams::default()).await?.items {
                let status = one.status.clone().unwrap_or_default();
                let is_updated = (status.updated_replicas, status.replicas) == (Some(2), Some(2));
                let is_observed = status.observed_generation == one.metadata.generation;
                behind.extend((!is_updated || !is_observed).then(|| one.name_any()));
            }
            for one in daemon_sets.list(&ListParams::default()).await?.items {
                let status = one.status.clone().unwrap_or_default();
                let is_updated = status.updated_number_scheduled == Some(status.desired_number_scheduled);
                let is_observed = status.observed_generation == one.metadata.generation;
                behind.extend((!is_updated || !is_observed).then(|| one.name_any()));
            }
            Ok(behind)
        };
        until("the workloads are rolled out", ROLLED_OUT, behind, Vec::is_empty).await.map(drop)
    }

    /// The taints of the nodes of a part, without the foreign one and those of the state of the node.
    pub async fn taints(&self, part: Part) -> Result<BTreeSet<String>> {
        let mut all = BTreeSet::new();
        for number in [1, 2] {
            let taints = self.cluster.taints(&format!("{}-{number}", part.object(self.prefix))).await?;
            ensure!(taints.contains(&"example.com/kept=yes:PreferNoSchedule".to_owned()), "{taints:?}");
            all.extend(taints.into_iter().filter(|taint| !taint.starts_with("example.com/")));
        }
        Ok(all)
    }

    /// Waits until all nodes of a part have this taint alone.
    pub async fn until_tainted(&self, part: Part, expected: Option<String>) -> Result<()> {
        let expected: BTreeSet<String> = expected.into_iter().collect();
        let what = format!("the nodes of {} have the taints {expected:?}", part.name);
        until(&what, SOON, || self.taints(part), |taints| *taints == expected).await.map(drop)
    }

    /// Checks the record: no pod could not be scheduled, no node was without the taint of its part and that of the pool,
    /// and no label, annotation or taint of others changed.
    pub async fn check(&self) -> Result<()> {
        for pod in self.pods.until_now().await? {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let mut unscheduled = conditions.filter(|condition| condition.reason.as_deref() == Some("Unschedulable"));
            let refused = unscheduled.find_map(|condition| condition.message.clone());
            ensure!(refused.is_none(), "pod {} was Pending: {refused:?}", pod.name_any());
        }
        let names: BTreeMap<String, Part> = PARTS.iter().map(|part| (part.object(self.prefix), *part)).collect();
        for node in self.nodes.until_now().await? {
            let of_pool = node.labels().get("agentpool").and_then(|name| names.get(name));
            let Some(part) = of_pool else { continue };
            let taints = taints_of(&node);
            let new = "os=windows:NoSchedule".to_owned();
            let is_protected = part.taint_text().is_none_or(|old| taints.contains(&old) || taints.contains(&new));
            ensure!(is_protected, "node {} had only the taints {taints:?}", node.name_any());
            let kept = taints.contains(&"example.com/kept=yes:PreferNoSchedule".to_owned());
            let rack = node.labels().get("example.com/rack").map(String::as_str) == Some("r1");
            ensure!(kept && rack, "something foreign of node {} changed: {node:?}", node.name_any());
        }
        self.cluster.nothing_was_forbidden()
    }
}
