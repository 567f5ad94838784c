//! An API server with very few concurrent requests, and other clients beside the operator.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use e2e::{
    cluster::{Cluster, OS_WINDOWS, create},
    control_plane::{Options, User},
    operator::Operator,
    wait::until,
};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::task::JoinSet;

use super::nodes;

const POOL: &str = "web";
const COUNT: usize = 200;
/// The time limit until the pool has converged.
const CONVERGED: Duration = Duration::from_secs(400);

/// Other clients, which list and write continuously until this is dropped.
struct Others {
    _tasks: JoinSet<()>,
    refused: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
}

impl Others {
    async fn start(cluster: &Cluster) -> Result<Self> {
        let mut config = cluster.control_plane.config(User::Admin).await?;
        config.default_retry = false;
        create(&cluster.namespaced::<ConfigMap>("default"), json!({ "metadata": { "name": "busy" } })).await?;
        let mut others = Self { _tasks: JoinSet::new(), refused: Arc::default(), answered: Arc::default() };
        for number in 0..4 {
            let client = Client::try_from(config.clone())?;
            let (refused, answered) = (others.refused.clone(), others.answered.clone());
            others._tasks.spawn(async move {
                loop {
                    let count = match once(&client, number % 2 == 0).await {
                        Ok(()) => &answered,
                        // It ignores Retry-After, but is not a busy loop.
                        Err(_) => {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                            &refused
                        }
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Ok(others)
    }
}

async fn once(client: &Client, lists: bool) -> kube::Result<()> {
    if lists {
        return Api::<Node>::all(client.clone()).list(&ListParams::default()).await.map(drop);
    }
    static ODD: AtomicBool = AtomicBool::new(false);
    let value = ODD.fetch_xor(true, Ordering::Relaxed).to_string();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.patch("busy", &PatchParams::default(), &Patch::Merge(json!({ "data": { "odd": value } }))).await.map(drop)
}

/// Without Priority and Fairness, most requests are refused, and the operator tries again.
#[tokio::test]
async fn two_hundred_nodes_converge_on_a_server_that_refuses_most_requests() {
    let flags =
        ["--max-requests-inflight=2", "--max-mutating-requests-inflight=2", "--enable-priority-and-fairness=false"];
    let options =
        Options { api_server_arguments: flags.iter().map(ToString::to_string).collect(), ..Options::api_server_only() };
    let cluster = Cluster::start_with(options).await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes(POOL, COUNT)).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    let others = Others::start(&cluster).await.unwrap();

    let begin = Instant::now();
    let operator = Operator::spawn(&cluster.control_plane, &["--registry=off"], &[]).unwrap();
    let written = async || Ok(cluster.node_changes()?.len());
    until("every node is written", CONVERGED, written, |count| *count == COUNT).await.unwrap();
    let took = begin.elapsed();
    let requests = cluster.requests().unwrap();
    let refused = requests.iter().filter(|request| request.code == 429).count();
    let (theirs, answered) = (others.refused.load(Ordering::Relaxed), others.answered.load(Ordering::Relaxed));
    eprintln!(
        "{COUNT} nodes in {:.1} s; the operator was refused {refused} of {} requests, the others {theirs} of {}",
        took.as_secs_f32(),
        requests.len(),
        theirs + answered,
    );
    drop(others);
    cluster.until_tainted(POOL, OS_WINDOWS, COUNT).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();
    operator.wait_ready(CONVERGED).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}
