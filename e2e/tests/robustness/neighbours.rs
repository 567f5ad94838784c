//! What a change of one pool costs the others.

use e2e::{kubelet::Kubelets, operator::Operator, world::World};
use serde_json::{Value, json};

use crate::node;

const POOLS: usize = 50;

/// A pool with these fields. Every second pair shares a RuntimeClass.
fn spec(number: usize, fields: Value) -> Value {
    let mut spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": { "matchLabels": { "agentpool": name(number) } },
        "runtimeClasses": [{ "name": format!("class-{}", number / 2) }],
    });
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    spec
}

fn name(number: usize) -> String {
    format!("pool-{number:02}")
}

#[tokio::test]
async fn a_change_of_one_pool_of_fifty_concerns_it_and_those_that_share_with_it() {
    let world = World::start().await.unwrap();
    let all = (0..POOLS).map(|number| node(&name(number), &format!("{}-1", name(number)))).collect();
    let _kubelets = Kubelets::start(world.client.clone(), all).await.unwrap();
    for number in 0..POOLS {
        world.apply("WindowsNodePool", &name(number), &spec(number, json!({}))).await.unwrap();
    }
    let operator = Operator::start(&world.control_plane, &["--workloads=off"], &[]).await.unwrap();
    for number in 0..POOLS {
        world.until_as_specified(&name(number)).await.unwrap();
    }
    world.until_quiet().await.unwrap();

    let passes = async || operator.metric("winpool_passes_total", &[("controller", "pool")]).await.unwrap();
    let taints = json!([{ "key": "os", "value": "windows-2", "effect": "NoSchedule" }]);
    for (change, most) in [
        (json!({ "labels": { "team": "web" } }), 4.0),
        (json!({ "labels": { "team": "web" }, "taints": taints }), 8.0),
        (json!({ "paused": true }), 8.0),
        (json!({ "nodeSelector": { "matchLabels": { "agentpool": "nobody" } } }), 8.0),
    ] {
        let before = passes().await;
        let told = change.to_string();
        world.apply("WindowsNodePool", &name(7), &spec(7, change)).await.unwrap();
        world.until_quiet().await.unwrap();
        let made = passes().await - before;
        eprintln!("{made} passes over {POOLS} pools for {told}");
        assert!(made >= 1.0 && made <= most, "{made} passes for {told}");
    }
}
