//! The status: the API server accepts it for all object names, and Ready is not True for a failed generation.

use anyhow::Result;
use e2e::{
    cluster::{Cluster, OS_WINDOWS, SOON, condition_of, create, pool_spec},
    history::History,
    wait::until,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{
    node,
    webhook::{REFUSAL, Refuses, Webhook},
};

const POOL: &str = "web";
const PROFILE: &str = "standard";
/// The number of RuntimeClasses of former specs of the pool.
const UNUSED: usize = 40;
/// The number of nodes with names of the maximum length.
const LONG_NAMES: usize = 6;
/// The maximum length of a condition's message in characters.
const LONGEST_MESSAGE: usize = 32_768;

/// A name of 253 characters.
fn long_name(number: usize) -> String {
    format!("{}-{number:03}", "n".repeat(249))
}

/// Creates RuntimeClasses that belong to the pool but are not in its spec.
async fn leave_classes(cluster: &Cluster) {
    for number in 0..UNUSED {
        let labels = json!({ "app.kubernetes.io/managed-by": "winpool", "winpool.dev/pool": POOL });
        let metadata = json!({ "name": long_name(number), "labels": labels });
        let class = json!({ "metadata": metadata, "handler": "runhcs-wcow-process" });
        create(&cluster.classes(), class).await.unwrap();
    }
}

/// A profile with so many wrong fields that their names alone exceed the maximum length of a message.
fn wrong_profile() -> Value {
    let gates: serde_json::Map<_, _> =
        (0..64).map(|number| (format!("{}-{number:03}", "G".repeat(300)), json!(true))).collect();
    json!({ "kubelet": { "featureGates": gates } })
}

async fn condition_of_profile(cluster: &Cluster) -> Result<Condition> {
    condition_of(&cluster.profiles().get(PROFILE).await?, "Valid")
}

#[tokio::test]
async fn a_status_is_accepted_whatever_nodes_classes_and_profiles_contain() {
    let cluster = Cluster::start().await.unwrap();
    let long = (0..LONG_NAMES).map(|number| {
        // The hostname is a label value, which must be shorter.
        let mut node = node(POOL, &long_name(number)).label("kubernetes.io/hostname", &format!("long-{number}"));
        node.windows = Some(e2e::node::Windows::new("10.0.26100.1"));
        node
    });
    let nodes = [node(POOL, "web-000")].into_iter().chain(long).collect();
    let kubelets = cluster.start_kubelets(nodes).await.unwrap();
    leave_classes(&cluster).await;
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    cluster.apply_profile(PROFILE, wrong_profile()).await.unwrap();
    cluster.apply_pool(POOL, pool_spec(POOL, json!({ "profileRef": { "name": PROFILE } }))).await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, LONG_NAMES + 1).await.unwrap();

    let found = cluster.until_condition(POOL, "ProfileResolved", "False", "Invalid").await.unwrap();
    assert!(found.message.contains(" characters omitted)"), "{}", found.message);
    assert!(found.message.chars().count() <= LONGEST_MESSAGE);
    let valid = || condition_of_profile(&cluster);
    until("the profile is invalid", SOON, valid, |found| found.reason == "Invalid").await.unwrap();

    kubelets.set_kubelet_version("web-000", &"next-ß".repeat(6_000)).await.unwrap();
    let found = cluster.until_condition(POOL, "VersionSkew", "Unknown", "UnknownVersion").await.unwrap();
    assert!(found.message.chars().count() < 1_000, "{}", found.message);
    assert!(
        found.message.ends_with(". List the nodes: kubectl get nodes -l winpool.dev/pool=web"),
        "{}",
        found.message
    );
    let found = cluster.until_condition(POOL, "OSMismatch", "True", "NodeBuildDiffers").await.unwrap();
    assert!(found.message.contains(" and 1 more"), "{}", found.message);
    assert!(
        found.message.ends_with(". List the nodes: kubectl get nodes -l winpool.dev/pool=web"),
        "{}",
        found.message
    );

    let status = cluster.pool(POOL).await.unwrap()["status"].clone();
    let listed = status["runtimeClasses"].as_array().unwrap();
    assert_eq!(listed[0]["name"], "windows-ltsc2022", "the classes in the spec come first");
    assert_eq!(listed.len() as u64 + status["omitted"]["runtimeClasses"].as_u64().unwrap(), UNUSED as u64 + 1);

    // Later changes are reported too.
    cluster.apply_profile(PROFILE, json!({})).await.unwrap();
    cluster.until_condition(POOL, "ProfileResolved", "True", "Resolved").await.unwrap();
    until("the profile is accepted", SOON, valid, |found| found.status == "True").await.unwrap();
    kubelets.set_kubelet_version("web-000", &cluster.control_plane.version().text).await.unwrap();
    cluster.until_absent(POOL, "VersionSkew").await.unwrap();
    let log = operator.log().unwrap();
    assert!(!log.contains("write-status"), "no status was rejected:\n{log}");
    cluster.nothing_was_forbidden().unwrap();
}

/// Every state of a pool until now: the observed generation and the status of Ready.
async fn ready_until_now(history: &History<DynamicObject>) -> Vec<(i64, String)> {
    let states = history.until_now().await.unwrap();
    let ready = states.values().filter_map(|state| {
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
    let of_web = History::start(cluster.pools(), POOL).await.unwrap();
    let of_fresh = History::start(cluster.pools(), "fresh").await.unwrap();
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
    let states = ready_until_now(&of_web).await;
    assert!(states.contains(&(1, "True".to_owned())) && states.contains(&(2, "False".to_owned())), "{states:?}");
    assert!(!states.contains(&(2, "True".to_owned())), "{states:?}");
    let states = ready_until_now(&of_fresh).await;
    assert!(states.iter().all(|(_, status)| status == "False"), "{states:?}");
    webhook.remove().await.unwrap();
    assert!(operator.stop().await.unwrap().success());
    cluster.nothing_was_forbidden().unwrap();
}
