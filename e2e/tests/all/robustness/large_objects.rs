//! Objects as large as the API server takes, written by somebody who may write one pod.

use std::time::Duration;

use anyhow::Result;
use e2e::{
    cluster::{Cluster, OS_WINDOWS, create},
    operator::Operator,
    wait::until,
};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::DeleteParams};
use serde_json::{Map, Value, json};

use super::node;

const LABELS: usize = 30_000;
/// How many large pods are created and deleted one after the other, and how many exist at once.
const ROUNDS: usize = 20;
const AT_ONCE: usize = 20;
/// The most resident memory, in bytes: what earlier objects allocated may not be returned to the system.
const MOST: u64 = 150_000_000;
const LIMIT: Duration = Duration::from_secs(60);

/// A pod with many labels, one of which differs.
fn large(name: &str) -> Value {
    let labels: Map<_, _> = (0..LABELS).map(|number| (format!("label-{number:05}"), json!(""))).collect();
    let mut labels = Value::Object(labels);
    labels["label-00000"] = json!(name);
    let containers = json!([{ "name": "app", "image": "example.test/app:1" }]);
    json!({ "metadata": { "name": name, "labels": labels }, "spec": { "containers": containers } })
}

async fn remove(pods: &Api<Pod>, name: &str) -> Result<()> {
    pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

/// Waits until the operator has this number of pods, of which so many are oversized.
async fn until_counted(operator: &Operator, pods: usize, oversized: usize) {
    let counts = async || {
        let of = async |name| operator.metric(name, &[("kind", "Pod")]).await;
        Ok((of("winpool_cache_objects").await?, of("winpool_oversized_objects").await?))
    };
    #[allow(clippy::cast_precision_loss)]
    let expected = (pods as f64, oversized as f64);
    until("the pods are counted", LIMIT, counts, |counts| *counts == expected).await.unwrap();
}

async fn until_small(operator: &Operator) {
    let memory = async || operator.resident_bytes();
    let memory = until("the memory is that of no pod", LIMIT, memory, |memory| *memory < MOST).await.unwrap();
    eprintln!("{} MB", memory / 1_000_000);
}

#[tokio::test]
async fn large_pods_of_a_tenant_do_not_stay_in_memory_and_the_rest_works() {
    let cluster = Cluster::start().await.unwrap();
    let pods = cluster.namespaced::<Pod>("default");
    let operator = cluster.start_operator(&["--registry=off"], &[]).await.unwrap();
    eprintln!("{} MB at the start", operator.resident_bytes().unwrap() / 1_000_000);
    for round in 0..ROUNDS {
        let name = format!("round-{round}");
        create(&pods, large(&name)).await.unwrap();
        if round == 0 {
            until_counted(&operator, 1, 1).await;
            assert!(operator.log().unwrap().contains("object is larger than is read"));
        }
        remove(&pods, &name).await.unwrap();
    }
    until_counted(&operator, 0, 0).await;
    until_small(&operator).await;

    let names: Vec<_> = (0..AT_ONCE).map(|number| format!("at-once-{number}")).collect();
    for name in &names {
        create(&pods, large(name)).await.unwrap();
    }
    until_counted(&operator, AT_ONCE, AT_ONCE).await;
    until_small(&operator).await;
    operator.stop().await.unwrap();
    let operator = cluster.start_operator(&["--registry=off"], &[]).await.unwrap();
    until_counted(&operator, AT_ONCE, AT_ONCE).await;
    until_small(&operator).await;

    let _kubelets = cluster.start_kubelets(vec![node("web", "web-1")]).await.unwrap();
    cluster.apply_tainting_pool("web", "ltsc2022", OS_WINDOWS).await.unwrap();
    cluster.until_tainted("web", OS_WINDOWS, 1).await.unwrap();
    cluster.until_ready("web").await.unwrap();
    try_join_all(names.iter().map(|name| remove(&pods, name))).await.unwrap();
    until_counted(&operator, 0, 0).await;
    cluster.nothing_was_forbidden().unwrap();
}
