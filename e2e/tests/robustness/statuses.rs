//! What status says: it is accepted whatever others call their objects, and Ready is never True for what failed.

use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use e2e::{
    kubelet::Kubelets,
    operator::Operator,
    wait::{eventually, until},
    world::{Condition, SOON, World},
};
use futures::StreamExt;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::{
    Api,
    api::{DynamicObject, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    OS_WINDOWS, node,
    webhook::{REFUSAL, Refuses, Webhook},
};

const POOL: &str = "web";
const PROFILE: &str = "standard";
/// How many RuntimeClasses are left over from former specs of the pool.
const UNUSED: usize = 40;
/// How many nodes have the longest names that there are.
const LONG_NAMES: usize = 6;
/// What an API server takes in the message of a condition, in characters.
const LONGEST_MESSAGE: usize = 32_768;

/// A name of 253 characters.
fn long_name(number: usize) -> String {
    format!("{}-{number:03}", "n".repeat(249))
}

/// RuntimeClasses that were made for the pool and that it does not name.
async fn leave_classes(world: &World) {
    let classes = Api::<RuntimeClass>::all(world.client.clone());
    for number in 0..UNUSED {
        let labels = json!({ "app.kubernetes.io/managed-by": "winpool", "winpool.dev/pool": POOL });
        let metadata = json!({ "name": long_name(number), "labels": labels });
        let class = json!({ "metadata": metadata, "handler": "runhcs-wcow-process" });
        classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    }
}

/// A profile of which so much is wrong that the names alone are longer than a message may be.
fn wrong_profile() -> Value {
    let gates: serde_json::Map<_, _> =
        (0..64).map(|number| (format!("{}-{number:03}", "G".repeat(300)), json!(true))).collect();
    json!({ "kubelet": { "featureGates": gates } })
}

async fn condition_of_profile(world: &World) -> Result<Condition> {
    let profile = serde_json::to_value(world.custom("WindowsRuntimeProfile").get(PROFILE).await?)?;
    let told = profile["status"]["conditions"].as_array().into_iter().flatten().find(|told| told["type"] == "Valid");
    let told = told.cloned().unwrap_or_default();
    ensure!(told["observedGeneration"] == profile["metadata"]["generation"], "{told}");
    Ok(serde_json::from_value(told)?)
}

#[tokio::test]
async fn a_status_is_accepted_and_goes_on_changing_whatever_nodes_classes_and_profiles_say() {
    let world = World::start().await.unwrap();
    let long = (0..LONG_NAMES).map(|number| {
        // The name of the host is a label, which must be shorter.
        let mut node = node(POOL, &long_name(number)).label("kubernetes.io/hostname", &format!("long-{number}"));
        node.windows = Some(e2e::node::Windows::new("10.0.26100.1"));
        node
    });
    let nodes = [node(POOL, "web-000")].into_iter().chain(long).collect();
    let kubelets = Kubelets::start(world.client.clone(), nodes).await.unwrap();
    leave_classes(&world).await;
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.apply("WindowsRuntimeProfile", PROFILE, &wrong_profile()).await.unwrap();
    let spec = json!({
        "windowsVersion": "ltsc2022",
        "nodeSelector": { "matchLabels": { "agentpool": POOL } },
        "profileRef": { "name": PROFILE },
    });
    world.apply("WindowsNodePool", POOL, &spec).await.unwrap();
    world.until_guarded(POOL, OS_WINDOWS, LONG_NAMES + 1).await.unwrap();

    let told = world.until_condition(POOL, "ProfileResolved", "False", "Invalid").await.unwrap();
    assert!(told.message.contains(" characters omitted)"), "{}", told.message);
    assert!(told.message.chars().count() <= LONGEST_MESSAGE);
    let valid = || condition_of_profile(&world);
    until("the profile is refused", SOON, valid, |told| told.reason == "Invalid").await.unwrap();

    kubelets.set_kubelet_version("web-000", &"next-ß".repeat(6_000)).await.unwrap();
    let told = world.until_condition(POOL, "VersionSkew", "Unknown", "UnknownVersion").await.unwrap();
    assert!(told.message.chars().count() < 1_000, "{}", told.message);
    assert!(told.message.ends_with("; kubectl get nodes -l winpool.dev/pool=web"), "{}", told.message);
    let told = world.until_condition(POOL, "OSMismatch", "True", "NodeBuildDiffers").await.unwrap();
    assert!(told.message.contains(" and 1 more "), "{}", told.message);
    assert!(told.message.ends_with("; kubectl get nodes -l winpool.dev/pool=web"), "{}", told.message);

    let status = world.pool(POOL).await.unwrap()["status"].clone();
    let listed = status["runtimeClasses"].as_array().unwrap();
    assert_eq!(listed[0]["name"], "windows-ltsc2022", "what the pool asks for comes first");
    assert_eq!(listed.len() as u64 + status["omitted"]["runtimeClasses"].as_u64().unwrap(), UNUSED as u64 + 1);

    // What changes after that is said as well.
    world.apply("WindowsRuntimeProfile", PROFILE, &json!({})).await.unwrap();
    world.until_condition(POOL, "ProfileResolved", "True", "Resolved").await.unwrap();
    until("the profile is accepted", SOON, valid, |told| told.status == "True").await.unwrap();
    kubelets.set_kubelet_version("web-000", "v1.20.2").await.unwrap();
    let readable = |told: &Condition| told.reason != "UnknownVersion";
    until("the version is read", SOON, || world.condition(POOL, "VersionSkew"), readable).await.unwrap();
    let log = operator.log().unwrap();
    assert!(!log.contains("write-status"), "no status was refused:\n{log}");
    world.nothing_was_forbidden().unwrap();
}

/// Every state of a pool that the API server stored.
struct PoolHistory {
    seen: Arc<Mutex<Vec<Value>>>,
    watch: JoinHandle<()>,
}

impl PoolHistory {
    /// Watches from the creation of the pool on, which must not be there yet.
    async fn of(world: &World, pool: &str) -> Self {
        let api = world.pools();
        let version = api.list(&Default::default()).await.unwrap().metadata.resource_version.unwrap();
        let params = WatchParams::default().fields(&format!("metadata.name={pool}")).timeout(290);
        let events = api.watch(&params, &version).await.unwrap().boxed();
        let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
        let all = seen.clone();
        let watch = tokio::spawn(events.for_each(move |event| {
            if let Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) = event {
                all.lock().unwrap().push(serde_json::to_value::<DynamicObject>(object).unwrap());
            }
            std::future::ready(())
        }));
        Self { seen, watch }
    }

    /// Every state until now: the generation that Ready was about, and its status.
    async fn until_now(&self, world: &World, pool: &str) -> Vec<(i64, String)> {
        let now = world.pool(pool).await.unwrap()["metadata"]["resourceVersion"].clone();
        let caught_up = || async {
            let shown = self.seen.lock().unwrap().iter().any(|state| state["metadata"]["resourceVersion"] == now);
            ensure!(shown, "the watch is behind");
            Ok(())
        };
        eventually("the watch shows the present", SOON, caught_up).await.unwrap();
        let states = self.seen.lock().unwrap().clone();
        let ready = states.iter().filter_map(|state| {
            let conditions = state["status"]["conditions"].as_array()?;
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
            Some((ready["observedGeneration"].as_i64()?, ready["status"].as_str()?.to_owned()))
        });
        ready.collect()
    }
}

impl Drop for PoolHistory {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

#[tokio::test]
async fn a_generation_whose_taints_are_refused_is_never_ready() {
    let world = World::start().await.unwrap();
    let nodes = vec![node(POOL, "web-000"), node("fresh", "fresh-000")];
    let _kubelets = Kubelets::start(world.client.clone(), nodes).await.unwrap();
    let histories = [PoolHistory::of(&world, POOL).await, PoolHistory::of(&world, "fresh").await];
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.apply_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    world.until_as_specified(POOL).await.unwrap();

    let webhook = Webhook::start(&world, "web-000", Refuses::Tainted).await.unwrap();
    world.apply_pool(POOL, "ltsc2022", ("os", "windows-next")).await.unwrap();
    world.apply_pool("fresh", "ltsc2022", OS_WINDOWS).await.unwrap();
    for pool in [POOL, "fresh"] {
        let refused = |told: &Condition| told.status == "False" && told.message.contains(REFUSAL);
        until("the refusal is said", SOON, || world.condition(pool, "Ready"), refused).await.unwrap();
    }
    let [of_web, of_fresh] = &histories;
    let states = of_web.until_now(&world, POOL).await;
    assert!(states.contains(&(1, "True".to_owned())) && states.contains(&(2, "False".to_owned())), "{states:?}");
    assert!(!states.contains(&(2, "True".to_owned())), "{states:?}");
    let states = of_fresh.until_now(&world, "fresh").await;
    assert!(states.iter().all(|(_, status)| status == "False"), "{states:?}");
    webhook.remove().await.unwrap();
    assert!(operator.stop().await.unwrap().success());
    world.nothing_was_forbidden().unwrap();
}
