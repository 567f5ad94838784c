//! Half-open connections: only one side regards them as open.

use std::time::{Duration, Instant};

use e2e::{
    cluster::{Cluster, OS_WINDOWS},
    objects::has_taint,
    proxy::Proxy,
    wait::until,
};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::nodes;

const POOL: &str = "web";
const NODE: &str = "web-001";
/// The time limit until the operator replaces a half-open connection.
const REPLACED_WITHIN: Duration = Duration::from_secs(120);

#[tokio::test]
async fn half_open_connections_are_replaced_and_counted() {
    let cluster = Cluster::start().await.unwrap();
    let _kubelets = cluster.start_kubelets(nodes(POOL, 3)).await.unwrap();
    cluster.apply_tainting_pool(POOL, "ltsc2022", OS_WINDOWS).await.unwrap();
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let kubeconfig = proxy.kubeconfig(&cluster.control_plane).unwrap();
    let operator = cluster.start_operator(&[], &[("KUBECONFIG", &kubeconfig)]).await.unwrap();
    cluster.until_tainted(POOL, OS_WINDOWS, 3).await.unwrap();
    cluster.until_idle().await.unwrap();
    let stalls = async || operator.metric("winpool_watch_stalls_total", &[("kind", "Node")]).await;
    assert!(stalls().await.unwrap() < 1.0, "an idle watch is not half-open");

    for times in 1..=2_u32 {
        proxy.lose_connections();
        let lost = Instant::now();
        let params = PatchParams::default();
        cluster.nodes().patch(NODE, &params, &Patch::Merge(json!({ "spec": { "taints": null } }))).await.unwrap();
        let tainted = async || Ok(has_taint(&cluster.node(NODE).await?, OS_WINDOWS.0, OS_WINDOWS.1));
        until("the taint is restored", REPLACED_WITHIN, tainted, |tainted| *tainted).await.unwrap();
        eprintln!("the taint was back {:.1} s after the connections were lost", lost.elapsed().as_secs_f32());
        let counted = stalls().await.unwrap();
        assert!(counted >= f64::from(times), "{counted} stalls are counted");
    }
    let silence = async || {
        let last = operator.metric("winpool_watch_last_activity_timestamp_seconds", &[("kind", "Node")]).await?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        Ok(now.as_secs_f64() - last)
    };
    until("the watch received something", REPLACED_WITHIN, silence, |seconds| *seconds < 5.0).await.unwrap();
    let log = operator.log().unwrap();
    assert!(log.contains("the watch received nothing for"), "{log}");
    cluster.nothing_was_forbidden().unwrap();
}
