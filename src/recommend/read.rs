//! Samples of the nodes of a pool: from their kubelets, to which the API server forwards requests, else from metrics.k8s.io.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt, stream};
use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams, client::Body};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use winpool_api::{WindowsRuntimeProfile, names::label};
use winpool_check::recommend::{Measured, Sample};
use winpool_core::{Objects, node::WindowsNode, text::counted};
use winpool_facts::Minor;
use winpool_operator::cluster::{self, explain, limited};
use winpool_rules::pool::{Snapshot, plan::Planner};

use crate::{
    CommandError, connect, input, node_logs::first_bytes, pools::check_names, progress::Progress, signals::Signals,
};

/// The maximum number of nodes that are measured.
const MAX_NODES: usize = 100;
/// How many requests run at once.
const CONCURRENCY: usize = 16;
/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The maximum number of bytes of an answer.
const MAX_BYTES: usize = 16 << 20;
/// How many nodes without samples are named.
const MAX_NOTES: usize = 5;
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

/// Where the samples come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Summaries,
    Metrics,
}

/// The samples of the nodes of a pool during some seconds, or until a signal.
pub async fn measure(
    cluster: &connect::Args,
    pool: &str,
    seconds: u32,
    between: u32,
) -> Result<(Measured, Vec<Sample>), CommandError> {
    let client = cluster.client().await?;
    let (measured, nodes) = nodes_of(&client, pool).await?;
    let mut signals = Signals::listen()?;
    let progress = Progress::start("measuring, Ctrl-C ends it", "sample");
    let mut ticks = interval(Duration::from_secs(between.into()));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let (mut source, mut samples) = (Source::Summaries, BTreeMap::new());
    let mut failures = BTreeMap::new();
    loop {
        let round = async {
            ticks.tick().await;
            read(&client, source, &nodes).await
        };
        let read = tokio::select! {
            _ = signals.next() => break,
            read = round => read,
        };
        if samples.is_empty() && read.iter().all(|(_, read)| read.is_err()) {
            let why = read.into_iter().find_map(|(_, read)| read.err()).unwrap_or_default();
            if source == Source::Metrics {
                return Err(CommandError::Cluster(format!("metrics.k8s.io cannot be read either: {why}")));
            }
            input::note(&format!(
                "no kubelet can be read: {why}. metrics.k8s.io is read instead, which has no commit and no CPU of Windows. The role \
                 winpool-recommend in config/recommend has the permission to get nodes/proxy"
            ));
            source = Source::Metrics;
            ticks.reset_immediately();
            continue;
        }
        for (node, read) in read {
            match read {
                // A kubelet measures less often than it may be asked.
                Ok(sample) => {
                    samples.entry((node, sample.time)).or_insert_with(|| {
                        progress.add_one();
                        sample
                    });
                }
                Err(why) => {
                    failures.insert(node, why);
                }
            }
        }
        if Instant::now() >= end {
            break;
        }
    }
    drop(progress);
    failures.retain(|failed, _| !samples.keys().any(|(node, _)| node == failed));
    for (node, why) in failures.iter().take(MAX_NOTES) {
        input::note(&format!("node {node} has no sample: {why}"));
    }
    Ok((measured, samples.into_values().collect()))
}

/// The nodes of a pool, and what their samples are measured against.
async fn nodes_of(client: &Client, name: &str) -> Result<(Measured, Vec<WindowsNode>), CommandError> {
    let failure =
        |what: &str, error: &kube::Error| CommandError::Cluster(format!("cannot read {what}: {}", explain(error)));
    let pools = cluster::list_pools(client).await?;
    check_names("", [name], pools.names())?;
    let profile = pools.get(name).and_then(|pool| pool.spec.as_ref().ok()?.profile.clone());
    let kubelet = match &profile {
        Some(profile) => {
            let read = Api::<WindowsRuntimeProfile>::all(client.clone()).get(profile).await;
            read.map_err(|error| failure("WindowsRuntimeProfiles", &error))?.spec.kubelet
        }
        None => Default::default(),
    };
    let windows = ListParams::default().labels(&format!("{}=windows", label::OS));
    let listed = Api::<Node>::all(client.clone()).list(&windows).await.map_err(|error| failure("nodes", &error))?;
    let nodes: Objects<WindowsNode> = listed.items.into_iter().map(WindowsNode::from).collect();
    let snapshot = Snapshot { pools, nodes, ..Snapshot::default() };
    let mut nodes: Vec<WindowsNode> = Planner::new(&snapshot).members(name).cloned().collect();
    let Some(Minor(minor)) = nodes.iter().filter_map(WindowsNode::kubelet_minor).min() else {
        return Err(CommandError::Problems(format!("pool {name} has no nodes. See kubectl describe wnp {name}")));
    };
    if nodes.len() > MAX_NODES {
        input::note(&format!("the first {MAX_NODES} of {} are measured", counted(nodes.len(), "node")));
        nodes.truncate(MAX_NODES);
    }
    Ok((Measured { pool: name.to_owned(), profile, kubelet, minor }, nodes))
}

/// A sample of each node, or why there is none.
async fn read(client: &Client, source: Source, nodes: &[WindowsNode]) -> Vec<(String, Result<Sample, String>)> {
    let metrics = match source {
        Source::Summaries => Ok(Value::Null),
        Source::Metrics => json(client, &format!("{METRICS}/pods")).await,
    };
    let of_node = |node: &WindowsNode| {
        let (node, metrics) = (node.clone(), &metrics);
        async move {
            let read = match (source, metrics) {
                (_, Err(why)) => Err(why.clone()),
                (Source::Summaries, _) => summary(client, &node).await,
                (Source::Metrics, Ok(metrics)) => of_metrics(client, &node, metrics).await,
            };
            (node.name, read)
        }
    };
    stream::iter(nodes.iter().map(of_node)).buffered(CONCURRENCY).collect().await
}

async fn summary(client: &Client, node: &WindowsNode) -> Result<Sample, String> {
    let path = format!("/api/v1/nodes/{}/proxy/stats/summary", node.name);
    Sample::of_summary(&node.name, &node.capacity, &get(client, &path).await?)
}

async fn of_metrics(client: &Client, node: &WindowsNode, pods: &Value) -> Result<Sample, String> {
    let name = &node.name;
    let usage = json(client, &format!("{METRICS}/nodes/{name}")).await?;
    let on_node = json(client, &format!("/api/v1/pods?fieldSelector=spec.nodeName={name}")).await?;
    let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
    let key = |pod: &Value| ["namespace", "name"].map(|field| pod["metadata"][field].as_str().map(str::to_owned));
    let on_node: BTreeSet<_> = items(&on_node).iter().map(key).collect();
    Sample::of_metrics(&node.capacity, &usage, items(pods).iter().filter(|pod| on_node.contains(&key(pod))))
}

async fn json(client: &Client, path: &str) -> Result<Value, String> {
    serde_json::from_slice(&get(client, path).await?).map_err(|error| error.to_string())
}

/// The body of an answer, which is no error.
async fn get(client: &Client, path: &str) -> Result<Vec<u8>, String> {
    let request = Request::get(path).body(Body::empty()).map_err(|error| error.to_string())?;
    let response = limited(LIMIT, client.send(request)).await?;
    let status = response.status();
    let body = timeout(LIMIT, first_bytes(response.into_body(), MAX_BYTES)).await;
    let (bytes, cut) =
        body.map_err(|_| format!("the answer took longer than {LIMIT:?}"))?.map_err(|error| explain(&error))?;
    match (status.is_success(), cut) {
        (true, false) => Ok(bytes),
        (true, true) => Err(format!("the answer has more than {MAX_BYTES} bytes")),
        (false, _) => {
            let message = serde_json::from_slice(&bytes)
                .ok()
                .and_then(|answer: Value| Some(answer["message"].as_str()?.to_owned()));
            Err(message.unwrap_or_else(|| format!("status {status}")))
        }
    }
}
