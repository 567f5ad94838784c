//! Taints that admission rejects.

use std::time::Duration;

use e2e::{
    cluster::{Cluster, OS_WINDOWS, SOON, pool_spec},
    objects::taints,
    wait::{stays, until},
};
use kube::ResourceExt;
use serde_json::json;

use super::{
    node, nodes,
    webhook::{REFUSAL, Webhook},
};

const POOL: &str = "web";
const COUNT: usize = 5;

#[tokio::test]
async fn when_admission_rejects_the_taints_the_labels_are_written_and_the_message_is_quoted() {
    let cluster = Cluster::start().await.unwrap();
    let kubelets = cluster.start_kubelets(nodes(POOL, COUNT)).await.unwrap();
    let webhook = Webhook::start(&cluster, "web-000").await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_pool(POOL, pool_spec(POOL, json!({ "labels": { "example.com/team": "web" } }))).await.unwrap();

    let found = cluster.until_condition(POOL, "NodesTainted", "False", "Refused").await.unwrap();
    assert!(found.message.contains(REFUSAL) && found.message.contains("web-000"), "{}", found.message);
    for node in nodes(POOL, COUNT) {
        let node = cluster.node(&node.name).await.unwrap();
        let label = |key: &str| node.labels().get(key).map(String::as_str);
        assert_eq!((label("example.com/team"), label("winpool.dev/pool")), (Some("web"), Some(POOL)));
        assert_eq!(taints(&node), []);
        let owned = &node.annotations()["winpool.dev/owned"];
        assert!(owned.contains("example.com/team") && !owned.contains("NoSchedule"), "no taint is recorded: {owned}");
    }

    // For each node one attempt with the taints and one without, and no other for some seconds.
    let attempts = || async {
        let of_nodes = cluster.writes()?.into_iter().filter(|write| write.resource == "nodes");
        Ok(of_nodes.map(|write| (write.name, write.code)).collect::<Vec<_>>())
    };
    let made = attempts().await.unwrap();
    assert_eq!(made.len(), 2 * COUNT, "{made:?}");
    stays("the operator waits", Duration::from_secs(3), attempts, |now| now.len() == made.len()).await.unwrap();
    let warnings = || async {
        let log = operator.log()?;
        Ok(log.lines().filter(|line| line.contains(" WARN ") && line.contains(REFUSAL)).count())
    };
    let warnings = until("the warning is logged", SOON, warnings, |count| *count > 0).await.unwrap();
    assert_eq!(warnings, 1, "the warning is logged once:\n{}", operator.log().unwrap());

    // Soon after the cause is removed every node is tainted, although no watch event reports the removal.
    webhook.remove().await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, COUNT).await.unwrap();
    kubelets.add(vec![node(POOL, "web-late")]).await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, COUNT + 1).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
}
