//! The cost of converging pools of 5,000 nodes with the operator, relative to a plain client that writes the same
//! patches on the same API server in the same run. The change of the pools is part of both. The results are printed, not
//! compared: a loaded machine is no defect.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for developers

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use e2e::{
    cluster::Cluster,
    control_plane::{OPERATOR_NAMESPACE, User},
    node::SimulatedNode,
    process::cpu_time,
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Node},
    node::v1::RuntimeClass,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const NODES: usize = 5_000;
/// The default number of rounds; the first argument sets another, and the second selects one number of pools.
const ROUNDS: usize = 5;
/// The number of pools, and the number of concurrent requests: those of the operator for one pool and for several.
const SCENARIOS: [(usize, usize); 2] = [(1, 16), (50, 32)];
/// CPU time within this time after the measured work counts too.
const REST: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(300);

#[tokio::main]
async fn main() -> Result<()> {
    if cfg!(debug_assertions) {
        bail!("these would be the results of a debug build: cargo run --release -p e2e --bin convergence");
    }
    let argument = |place| std::env::args().nth(place).map(|text| text.parse::<usize>()).transpose();
    let (rounds, only) = (argument(1)?.unwrap_or(ROUNDS), argument(2)?);
    let cluster = Cluster::start().await?;
    cluster.apply_profile("standard", json!({})).await?;
    for (pools, concurrency) in SCENARIOS.into_iter().filter(|(pools, _)| only.is_none_or(|only| only == *pools)) {
        let bench = Bench { cluster: &cluster, pools, concurrency };
        // This round is not measured: it shows which patches the operator writes.
        bench.operator().await?;
        let patches = bench.patches().await?;
        let (mut plain, mut operator) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            plain.push(bench.plain(&patches).await?);
            operator.push(bench.operator().await?);
        }
        println!("{pools} pools of {} nodes, {rounds} rounds: median (least to most)", NODES / pools);
        for (client, all) in [("plain client", &plain), ("operator", &operator)] {
            for (what, part) in &PARTS[..3] {
                let seconds = spread(all.iter().map(|took| part(took).as_secs_f64()));
                println!("  {:<38} {seconds} s", format!("{client}, {what}"));
            }
        }
        for (what, part) in PARTS {
            let of = |(plain, operator): (&Took, &Took)| part(operator).as_secs_f64() / part(plain).as_secs_f64();
            let ratio = spread(plain.iter().zip(&operator).map(of));
            println!("  {:<38} {ratio}", format!("operator to plain client, {what}"));
        }
    }
    Ok(())
}

/// The time until all patches were written, the CPU time of the client, and that of API server and etcd.
struct Took {
    wall: Duration,
    client: Duration,
    server: Duration,
}

/// What is compared.
const PARTS: [(&str, fn(&Took) -> Duration); 4] = [
    ("wall time", |took| took.wall),
    ("CPU of client", |took| took.client),
    ("CPU of API server", |took| took.server),
    ("CPU of all", |took| took.client + took.server),
];

fn spread(all: impl Iterator<Item = f64>) -> String {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    match all[..] {
        [] => "-".to_owned(),
        [least, ..] => format!("{:>6.2} ({least:.2} to {:.2})", all[all.len() / 2], all[all.len() - 1]),
    }
}

/// Pools on one API server.
struct Bench<'c> {
    cluster: &'c Cluster,
    pools: usize,
    concurrency: usize,
}

impl Bench<'_> {
    /// The operator converges pools that change from Observe to Enforce.
    async fn operator(&self) -> Result<Took> {
        self.reset().await?;
        self.apply_all("Observe").await?;
        let operator = self.cluster.start_operator(&[], &[]).await?;
        let observed = |pool: &Value| pool["status"]["nodes"]["matched"] == NODES / self.pools;
        timeout(LIMIT, self.until_all(observed)).await.context("the pools were not observed in time")??;
        sleep(REST).await;
        let took = self
            .measure(operator.process().pid(), async {
                let converged = |pool: &Value| {
                    pool["status"]["nodes"]["tainted"] == NODES / self.pools
                        && pool["spec"]["mode"] == "Enforce"
                        && ready(pool)
                };
                tokio::try_join!(self.apply_all("Enforce"), self.until_all(converged)).map(drop)
            })
            .await?;
        operator.stop().await?;
        Ok(took)
    }

    /// A plain client changes the pools as well, and writes these patches to new nodes.
    async fn plain(&self, patches: &BTreeMap<String, Value>) -> Result<Took> {
        let created = self.reset().await?;
        self.apply_all("Observe").await?;
        let client = self.cluster.control_plane.client(User::Operator).await?;
        let body = |node: &Node| {
            let mut body = patches.get(node.metadata.name.as_deref()?)?.clone();
            body["metadata"]["resourceVersion"] = json!(node.metadata.resource_version);
            Some((node.metadata.name.clone()?, body))
        };
        let bodies = created.iter().map(body).collect::<Option<Vec<_>>>().context("a node has no patch")?;
        sleep(REST).await;
        let write = write(client, bodies, self.concurrency);
        let work = async { tokio::try_join!(self.apply_all("Enforce"), write).map(drop) };
        self.measure(std::process::id(), work).await
    }

    async fn measure(&self, client: u32, work: impl Future<Output = Result<()>>) -> Result<Took> {
        let server = || self.cluster.control_plane.cpu_time();
        let (begin, client_before, server_before) = (Instant::now(), cpu_time(client)?, server().await?);
        timeout(LIMIT, work).await.context("the time limit was exceeded")??;
        let wall = begin.elapsed();
        sleep(REST).await;
        Ok(Took { wall, client: cpu_time(client)? - client_before, server: server().await? - server_before })
    }

    /// Deletes pools, their objects and nodes, and creates new nodes.
    async fn reset(&self) -> Result<Vec<Node>> {
        let client = || self.cluster.client.clone();
        let (all, ours) = (ListParams::default(), ListParams::default().labels("app.kubernetes.io/managed-by=winpool"));
        let delete = DeleteParams::default();
        self.cluster.pools().delete_collection(&delete, &all).await?;
        self.cluster.nodes().delete_collection(&delete, &all).await?;
        Api::<RuntimeClass>::all(client()).delete_collection(&delete, &ours).await?;
        Api::<ConfigMap>::namespaced(client(), OPERATOR_NAMESPACE).delete_collection(&delete, &ours).await?;
        let version = self.cluster.control_plane.version().to_string();
        let create = (0..NODES).map(|number| {
            let node = SimulatedNode::windows(&format!("win-{number}"), "10.0.17763.7009")
                .label("agentpool", &name(number % self.pools))
                .registered(&version);
            async move { anyhow::Ok(self.cluster.nodes().create(&PostParams::default(), &node?).await?) }
        });
        stream::iter(create).buffer_unordered(32).try_collect().await
    }

    /// Applies all pools with a mode.
    async fn apply_all(&self, mode: &str) -> Result<()> {
        let apply = stream::iter((0..self.pools).map(name)).map(|pool| async move { self.apply(&pool, mode).await });
        apply.buffer_unordered(self.concurrency).try_collect().await
    }

    async fn apply(&self, pool: &str, mode: &str) -> Result<()> {
        let spec = json!({
            "windowsVersion": "ltsc2019",
            "nodeSelector": { "matchLabels": { "agentpool": pool } },
            "profileRef": { "name": "standard" },
            "labels": { "team": pool },
            "mode": mode,
        });
        self.cluster.apply_pool(pool, spec).await
    }

    /// Waits until `holds` is true of every pool, with a watch, because polling would cost CPU time itself.
    async fn until_all(&self, holds: impl Fn(&Value) -> bool) -> Result<()> {
        let mut missing: BTreeSet<String> = (0..self.pools).map(name).collect();
        while !missing.is_empty() {
            // An API server may end a watch at any time; a new one begins with all objects.
            let events = self.cluster.pools().watch(&WatchParams::default(), "0").await?;
            let mut events = std::pin::pin!(events);
            while !missing.is_empty()
                && let Some(Ok(event)) = events.next().await
            {
                if let WatchEvent::Added(pool) | WatchEvent::Modified(pool) = event
                    && holds(&serde_json::to_value(&pool)?)
                {
                    missing.remove(&pool.name_any());
                }
            }
        }
        Ok(())
    }

    /// The operator's changes of each node, as one patch.
    async fn patches(&self) -> Result<BTreeMap<String, Value>> {
        let nodes = self.cluster.nodes().list(&ListParams::default()).await?;
        let patch = |node: Node| {
            let metadata = node.metadata;
            let (mut labels, mut annotations) =
                (metadata.labels.unwrap_or_default(), metadata.annotations.unwrap_or_default());
            labels.retain(|key, _| key == "team" || key == "winpool.dev/pool");
            annotations.retain(|key, _| key.starts_with("winpool.dev/"));
            ensure!((labels.len(), annotations.len()) == (2, 2), "a node is not complete: {labels:?} {annotations:?}");
            let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            let body = json!({
                "metadata": { "labels": labels, "annotations": annotations, "resourceVersion": "" },
                "spec": { "taints": taints },
            });
            Ok((metadata.name.unwrap_or_default(), body))
        };
        nodes.items.into_iter().map(patch).collect()
    }
}

/// Writes patches as the operator does, which requests only the metadata of the node in the response.
async fn write(client: Client, bodies: Vec<(String, Value)>, concurrency: usize) -> Result<()> {
    let nodes: Api<Node> = Api::all(client);
    let params = PatchParams { field_manager: Some("plain-client".to_owned()), ..PatchParams::default() };
    let write = |(name, body): (String, Value)| {
        let (nodes, params) = (&nodes, &params);
        async move {
            nodes.patch_metadata(&name, params, &Patch::Merge(body)).await?;
            anyhow::Ok(())
        }
    };
    stream::iter(bodies).map(write).buffer_unordered(concurrency).try_collect().await
}

fn ready(pool: &Value) -> bool {
    let conditions = pool["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    pool["status"]["observedGeneration"] == pool["metadata"]["generation"]
        && ready.any(|ready| ready["status"] == "True")
}

fn name(pool: usize) -> String {
    format!("pool-{pool}")
}
