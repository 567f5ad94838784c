//! The cluster in which things go wrong: two replicas, each behind a proxy of its own, pools with simulated nodes, and another client.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    Size,
    checker::{self, Fields, fields},
    random::Random,
};
use crate::{
    audit::Stored,
    cluster::{Cluster, NODE_LABEL, SOON, pool_spec},
    control_plane::User,
    kubelet::{Kubelets, SimulatedNode},
    objects::taints,
    operator::{NOT_LEADER, Operator},
    proxy::Proxy,
    requests::Requests,
    shared::lock,
    wait::{eventually, until},
};

/// What the other client writes to nodes.
const NOTE: &str = "example.com/note";
const BUSY: &str = "example.com/busy";
/// The time limit for an election, and until every node is as specified.
const LIMIT: Duration = Duration::from_secs(480);

pub(super) struct Lab {
    pub(super) size: Size,
    replicas: Mutex<Vec<Replica>>,
    /// The value of taint and label of each pool.
    editions: BTreeMap<String, String>,
    edits: usize,
    /// What others have written to each node.
    planted: BTreeMap<String, Fields>,
    /// The times at which the operator could not work.
    pub(super) away: Vec<(Timestamp, Timestamp)>,
    /// The nodes as they were read when they were as specified.
    read: Vec<Stored>,
    other: Api<Node>,
    kubelets: Kubelets,
    /// Everything but the replicas acts as a client whose requests the audit log has. It is the last field, so that it ends last.
    pub(super) cluster: Cluster,
}

pub(super) struct Replica {
    pub(super) operator: Operator,
    pub(super) proxy: Proxy,
    host: String,
}

impl Replica {
    fn spawn(cluster: &Cluster, proxy: &Proxy) -> Result<(Operator, String)> {
        let (host, kubeconfig) =
            (format!("host-{}", crate::network::free_port()?), proxy.kubeconfig(&cluster.control_plane)?);
        let environment = [("HOSTNAME", host.as_str()), ("WINPOOL_LEADER_ELECTION", "on"), ("KUBECONFIG", &kubeconfig)];
        Ok((Operator::spawn(&cluster.control_plane, &["--registry=off"], &environment)?, host))
    }
}

impl Lab {
    /// Starts it, and waits until every node is as specified.
    pub(super) async fn start(size: Size) -> Result<Self> {
        let (since, cluster) = (Timestamp::now(), Cluster::start().await?);
        let client = cluster.control_plane.client(User::OtherA).await?;
        let cluster = Cluster { client, ..cluster };
        let version = cluster.control_plane.version().to_string();
        let nodes: Vec<SimulatedNode> =
            (0..size.pools).flat_map(|pool| nodes_of(&pool_name(pool), size.nodes)).collect();
        let planted = |node: &SimulatedNode| {
            let object = serde_json::to_value(node.registered(&version)?)?;
            anyhow::Ok((node.name.clone(), fields(&object)))
        };
        let planted = nodes.iter().map(planted).collect::<Result<_>>()?;
        let mut lab = Self {
            size,
            replicas: Mutex::default(),
            editions: BTreeMap::new(),
            edits: 0,
            planted,
            away: Vec::new(),
            read: Vec::new(),
            other: Api::all(cluster.control_plane.client(User::OtherB).await?),
            kubelets: cluster.start_kubelets(nodes).await?,
            cluster,
        };
        lab.edit().await?;
        for _ in 0..2 {
            let proxy = Proxy::start(&lab.cluster.control_plane).await?;
            let (operator, host) = Replica::spawn(&lab.cluster, &proxy)?;
            lab.replicas().push(Replica { operator, proxy, host });
        }
        lab.until_led().await?;
        lab.until_converged().await?;
        lab.away.push((since, Timestamp::now()));
        Ok(lab)
    }

    /// Checks that nothing remains to be written, that nothing was forbidden, and that no replica panicked.
    pub(super) async fn end(self) -> Result<()> {
        self.cluster.until_idle_about(|write| write.resource != "leases").await?;
        for log in self.logs()? {
            let text = fs::read_to_string(&log)?;
            ensure!(!text.contains("panicked"), "{}: {text}", log.display());
        }
        self.cluster.nothing_was_forbidden()
    }
}

/// Windows nodes, of which every third has fields of another owner, and a Linux node with the label that the pool selects.
fn nodes_of(pool: &str, count: usize) -> Vec<SimulatedNode> {
    let labelled = |node: SimulatedNode| node.label(NODE_LABEL, pool);
    let windows = |number: usize| {
        let node = labelled(SimulatedNode::windows(&format!("{pool}-{number:03}"), "10.0.20348.2700"));
        match number % 3 {
            0 => node.taint("example.com/maintenance", "tuesday", "NoExecute").label("example.com/rack", "r1"),
            _ => node,
        }
    };
    let linux = labelled(SimulatedNode::linux(&format!("{pool}-linux")));
    (0..count).map(windows).chain([linux]).collect()
}

fn pool_name(pool: usize) -> String {
    format!("pool-{pool}")
}

/// What other clients do.
impl Lab {
    /// Gives each pool another value of its taint and its label.
    pub(super) async fn edit(&mut self) -> Result<()> {
        self.edits += 1;
        self.editions = (0..self.size.pools).map(|pool| (pool_name(pool), format!("v{}", self.edits))).collect();
        self.apply().await
    }

    /// Applies the pools.
    pub(super) async fn apply(&self) -> Result<()> {
        for (pool, edition) in &self.editions {
            let taints = json!([{ "key": "os", "value": edition, "effect": "NoSchedule" }]);
            let fields = json!({ "taints": taints, "labels": { "example.com/edition": edition } });
            self.cluster.apply_pool(pool, pool_spec(pool, fields)).await?;
        }
        Ok(())
    }

    /// Another client changes its fields on nodes, nodes are replaced, and the pools are edited.
    pub(super) async fn disturb(&mut self, random: &mut Random) -> Result<()> {
        for _ in 0..10 {
            let name = self.any_node(random)?;
            self.plant(&name).await?;
        }
        self.recreate(2, random).await?;
        self.edit().await
    }

    fn any_node(&self, random: &mut Random) -> Result<String> {
        self.planted.keys().nth(random.below(self.planted.len())).cloned().context("a node")
    }

    /// Changes an annotation and a taint of a node, with optimistic locking.
    async fn plant(&mut self, name: &str) -> Result<()> {
        let value = format!("n{}", self.edits);
        let written = || async {
            let node = self.other.get(name).await?;
            let mut all: Vec<_> =
                taints(&node).iter().filter(|taint| taint.key != BUSY).map(|taint| json!(taint)).collect();
            all.push(json!({ "key": BUSY, "value": value, "effect": "NoSchedule" }));
            let metadata = json!({ "resourceVersion": node.metadata.resource_version, "annotations": { NOTE: value } });
            let patch = Patch::Merge(json!({ "metadata": metadata, "spec": { "taints": all } }));
            self.other.patch(name, &PatchParams::default(), &patch).await?;
            Ok(())
        };
        eventually("the other client writes", SOON, written).await?;
        let planted =
            [format!("annotation {NOTE}"), format!("taint {BUSY}:NoSchedule")].map(|field| (field, value.clone()));
        self.planted.entry(name.to_owned()).or_default().extend(planted);
        Ok(())
    }

    /// Deletes nodes, and creates them again under the same names.
    pub(super) async fn recreate(&mut self, count: usize, random: &mut Random) -> Result<()> {
        for _ in 0..count {
            let name = self.any_node(random)?;
            self.kubelets.delete(&name).await?;
            self.kubelets.register_again(&name).await?;
            if let Some(planted) = self.planted.get_mut(&name) {
                planted.retain(|field, _| !field.contains(NOTE) && !field.contains(BUSY));
            }
        }
        Ok(())
    }

    /// Raises or ends the alarm that etcd raises when its quota is used up.
    pub(super) async fn alarm(&self, action: &str) -> Result<()> {
        self.etcd("/v3/maintenance/alarm", json!({ "action": action, "memberID": "0", "alarm": "NOSPACE" }))
            .await
            .map(drop)
    }

    /// Removes all former versions of the objects in etcd.
    pub(super) async fn compact(&self) -> Result<()> {
        let answer = self.etcd("/v3/kv/range", json!({ "key": "AA==" })).await?;
        let revision = answer["header"]["revision"].clone();
        self.etcd("/v3/kv/compaction", json!({ "revision": revision, "physical": true })).await.map(drop)
    }

    async fn etcd(&self, path: &str, body: Value) -> Result<Value> {
        let url = self.cluster.control_plane.etcd_url();
        let requests = Requests::new(Client::try_from(Config::new(url.parse()?))?);
        let (status, answer) = requests.create(path, &body).await?;
        ensure!(status == 200, "etcd: {path}: {status}: {answer}");
        Ok(answer)
    }
}

/// The replicas.
impl Lab {
    pub(super) fn replicas(&self) -> MutexGuard<'_, Vec<Replica>> {
        lock(&self.replicas)
    }

    pub(super) fn each_proxy(&self, act: impl Fn(&Proxy)) {
        self.replicas().iter().for_each(|replica| act(&replica.proxy));
    }

    /// The index of the replica that holds the Lease.
    pub(super) async fn leader(&self) -> Result<usize> {
        let host = self.cluster.leader().await?;
        let holds = |replica: &Replica| replica.host == host && replica.operator.process().exit_status().is_none();
        self.replicas().iter().position(holds).with_context(|| format!("the Lease is held by {host:?}"))
    }

    pub(super) async fn until_other_leader(&self, former: usize) -> Result<()> {
        let leader = || self.leader();
        until("another replica holds the Lease", LIMIT, leader, |leader| *leader != former).await.map(drop)
    }

    /// Waits until a replica holds the Lease; those that have ended are started again, as a Deployment does.
    pub(super) async fn until_led(&self) -> Result<()> {
        let led = || async {
            self.revive()?;
            self.leader().await
        };
        eventually("a replica holds the Lease", LIMIT, led).await.map(drop)
    }

    /// Starts the replicas again that were killed, or that are no longer the leader.
    fn revive(&self) -> Result<()> {
        for replica in self.replicas().iter_mut() {
            let Some(status) = replica.operator.process().exit_status() else { continue };
            let is_expected = status.code().is_none_or(|code| code == NOT_LEADER);
            ensure!(is_expected, "a replica ended: {status}\n{}", replica.operator.process().log_tail());
            (replica.operator, replica.host) = Replica::spawn(&self.cluster, &replica.proxy)?;
        }
        Ok(())
    }

    pub(super) fn most_memory(&self) -> Result<u64> {
        let memory =
            self.replicas().iter().map(|replica| replica.operator.resident_bytes()).collect::<Result<Vec<_>>>()?;
        memory.into_iter().max().context("a replica")
    }

    /// The size of all logs of replicas.
    pub(super) fn log_bytes(&self) -> Result<u64> {
        self.logs()?.iter().map(|log| Ok(log.metadata()?.len())).sum()
    }

    fn logs(&self) -> Result<Vec<PathBuf>> {
        let own =
            self.replicas().first().map(|replica| replica.operator.process().log().to_owned()).context("a replica")?;
        let all = fs::read_dir(own.parent().context("a folder")?)?.map(|entry| Ok(entry?.path()));
        let is_of_replica =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("operator-"));
        Ok(all.collect::<Result<Vec<_>>>()?.into_iter().filter(is_of_replica).collect())
    }
}

/// What is waited for.
impl Lab {
    /// Waits until this many nodes have the taint of the last edit.
    pub(super) async fn until_written(&self, count: usize) -> Result<()> {
        let edition = self.editions.values().next().context("a pool")?;
        let written = || async {
            let nodes = self.cluster.nodes().list(&ListParams::default()).await?;
            Ok(nodes
                .iter()
                .filter(|node| taints(node).iter().any(|taint| taint.value.as_ref() == Some(edition)))
                .count())
        };
        until("nodes are written", LIMIT, written, |written| *written >= count).await.map(drop)
    }

    /// Waits until every node is as specified, and returns the nodes.
    pub(super) async fn until_converged(&self) -> Result<Vec<Value>> {
        let converged = || async {
            self.revive()?;
            let nodes = self.cluster.nodes().list(&ListParams::default()).await?;
            let nodes = nodes.items.iter().map(serde_json::to_value).collect::<serde_json::Result<Vec<_>>>()?;
            checker::check_converged(&nodes, &self.planted, &self.editions)?;
            Ok(nodes)
        };
        eventually("every node is as specified", LIMIT, converged).await
    }

    /// Adds nodes that were read now to the history.
    pub(super) fn observe(&mut self, nodes: Vec<Value>) {
        let received = Timestamp::now();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let read = |node: Value| Stored {
            user: String::new(),
            resource: "nodes".to_owned(),
            name: text(&node["metadata"]["name"]),
            received,
            version: text(&node["metadata"]["resourceVersion"]).parse().unwrap_or_default(),
            object: Some(node),
        };
        self.read.extend(nodes.into_iter().map(read));
    }

    /// The stored objects, by the audit log and by what was read: the log lacks a write whose answer was lost.
    pub(super) fn history(&self) -> Result<Vec<Stored>> {
        let mut history = self.cluster.control_plane.stored_objects()?;
        history.extend(self.read.iter().cloned());
        history.sort_by_key(|stored| stored.version);
        Ok(history)
    }
}
