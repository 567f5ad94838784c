//! The status: Ready is not True for a failed generation.

use e2e::{
    cluster::{Cluster, OS_WINDOWS, SOON},
    history::History,
    wait::until,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{ResourceExt, api::DynamicObject};

use super::{
    node,
    webhook::{REFUSAL, Refuses, Webhook},
};

const POOL: &str = "web";

/// Every state of a pool until now: the observed generation and the status of Ready.
async fn ready_until_now(history: &History<DynamicObject>, pool: &str) -> Vec<(i64, String)> {
    let states = history.until_now().await.unwrap();
    let ready = states.iter().filter(|state| state.name_any() == pool).filter_map(|state| {
        let conditions = state.data["status"]["conditions"].as_array()?;
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
        Some((state.data["status"]["observedGeneration"].as_i64()?, ready["status"].as_str()?.to_owned()))
    });
    ready.collect()
}

#[tokio::test]
async fn a_generation_whose_taints_are_refused_is_never_ready() {
    let cluster = Cluster::start().await.unwrap();
    let nodes = vec![node(POOL, "web-000"), node("fresh", "fresh-000")];
    let _kubelets = cluster.start_kubelets(nodes).await.unwrap();
    let history = History::start(cluster.pools()).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    cluster.until_ready(POOL).await.unwrap();

    let webhook = Webhook::start(&cluster, "web-000", Refuses::Tainted).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", ("os", "windows-next")).await.unwrap();
    cluster.apply_tainting_pool("fresh", "ltsc2022", OS_WINDOWS).await.unwrap();
    for pool in [POOL, "fresh"] {
        let refused = |found: &Condition| found.status == "False" && found.message.contains(REFUSAL);
        until("the rejection is reported", SOON, || cluster.condition(pool, "NodesTainted"), refused).await.unwrap();
    }
    let states = ready_until_now(&history, POOL).await;
    assert!(states.contains(&(1, "True".to_owned())) && states.contains(&(2, "False".to_owned())), "{states:?}");
    assert!(!states.contains(&(2, "True".to_owned())), "{states:?}");
    let states = ready_until_now(&history, "fresh").await;
    assert!(states.iter().all(|(_, status)| status == "False"), "{states:?}");
    webhook.remove().await.unwrap();
    assert!(operator.stop().await.unwrap().success());
    cluster.nothing_was_forbidden().unwrap();
}
