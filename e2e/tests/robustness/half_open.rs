//! Connections that only one side believes in.

use std::time::{Duration, Instant};

use e2e::{
    kubelet::Kubelets,
    operator::Operator,
    wait::until,
    world::{World, has_taint},
};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::{OS_WINDOWS, nodes, proxy::Proxy};

const POOL: &str = "web";
const NODE: &str = "web-001";
/// How long the operator may be blind.
const FOUND: Duration = Duration::from_secs(45);

#[tokio::test]
async fn connections_that_are_lost_without_a_word_are_replaced_within_45_seconds_and_counted() {
    let world = World::start().await.unwrap();
    let _kubelets = Kubelets::start(world.client.clone(), nodes(POOL, 3)).await.unwrap();
    world.apply_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    let proxy = Proxy::start(&world.control_plane).await.unwrap();
    let kubeconfig = proxy.kubeconfig(&world.control_plane).unwrap();
    let operator = Operator::start(&world.control_plane, &[], &[("KUBECONFIG", &kubeconfig)]).await.unwrap();
    world.until_guarded(POOL, OS_WINDOWS, 3).await.unwrap();
    world.until_quiet().await.unwrap();
    let stalls = async || operator.metric("winpool_watch_stalls_total", &[("kind", "Node")]).await;
    assert!(stalls().await.unwrap() < 1.0, "a quiet watch is no dead one");

    for times in 1..=2_u32 {
        proxy.lose_connections();
        let lost = Instant::now();
        let params = PatchParams::default();
        world.nodes().patch(NODE, &params, &Patch::Merge(json!({ "spec": { "taints": null } }))).await.unwrap();
        let guarded = async || Ok(has_taint(&world.nodes().get(NODE).await?, OS_WINDOWS.0, OS_WINDOWS.1));
        until("the taint is back", FOUND, guarded, |guarded| *guarded).await.unwrap();
        eprintln!("the taint was back {:.1} s after the connections were lost", lost.elapsed().as_secs_f32());
        let counted = stalls().await.unwrap();
        assert!(counted >= f64::from(times), "{counted} dead watches are counted");
    }
    let silent = async || {
        let last = operator.metric("winpool_watch_last_activity_timestamp_seconds", &[("kind", "Node")]).await?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        Ok(now.as_secs_f64() - last)
    };
    until("something came over the watch lately", FOUND, silent, |seconds| *seconds < 5.0).await.unwrap();
    let log = operator.log().unwrap();
    assert!(log.contains("nothing came from the API server for"), "{log}");
    world.nothing_was_forbidden().unwrap();
}
