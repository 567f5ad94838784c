//! The reconciles of other pools after a change of one pool.

use e2e::cluster::{Cluster, pool_spec, with_fields};
use serde_json::{Value, json};

use super::node;

const POOLS: usize = 50;

/// A pool with these fields. Every second pair shares a RuntimeClass.
fn spec(number: usize, fields: Value) -> Value {
    let class = json!({ "runtimeClasses": [{ "name": format!("class-{}", number / 2) }] });
    with_fields(pool_spec(&name(number), class), fields)
}

fn name(number: usize) -> String {
    format!("pool-{number:02}")
}

#[tokio::test]
async fn a_change_of_one_pool_of_fifty_reconciles_it_and_those_that_share_a_class_with_it() {
    let cluster = Cluster::start().await.unwrap();
    let all = (0..POOLS).map(|number| node(&name(number), &format!("{}-1", name(number)))).collect();
    let _kubelets = cluster.start_kubelets(all).await.unwrap();
    for number in 0..POOLS {
        cluster.apply_pool(&name(number), spec(number, json!({}))).await.unwrap();
    }
    let operator = cluster.start_operator(&["--workloads=off"], &[]).await.unwrap();
    for number in 0..POOLS {
        cluster.until_ready(&name(number)).await.unwrap();
    }
    cluster.until_idle().await.unwrap();

    let reconciles = async || operator.metric("winpool_reconciles_total", &[("controller", "pool")]).await.unwrap();
    let taints = json!([{ "key": "os", "value": "windows-2", "effect": "NoSchedule" }]);
    for (change, most) in [
        (json!({ "labels": { "team": "web" } }), 4.0),
        (json!({ "labels": { "team": "web" }, "taints": taints }), 8.0),
        (json!({ "paused": true }), 8.0),
        (json!({ "nodeSelector": { "matchLabels": { "agentpool": "nobody" } } }), 8.0),
    ] {
        let before = reconciles().await;
        let found = change.to_string();
        cluster.apply_pool(&name(7), spec(7, change)).await.unwrap();
        cluster.until_idle().await.unwrap();
        let made = reconciles().await - before;
        eprintln!("{made} reconciles of {POOLS} pools for {found}");
        assert!(made >= 1.0 && made <= most, "{made} reconciles for {found}");
    }
}
