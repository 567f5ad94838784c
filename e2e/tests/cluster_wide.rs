//! What concerns every Windows node or every pool of a cluster, and so needs one for itself.

// clippy.toml allows these in tests, but takes a helper of a test for something else.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::time::Duration;

use anyhow::ensure;
use common::{GUARD, SOON, Scene, Stage, spec, windows};
use e2e::{
    control_plane::{ControlPlane, Options, User},
    install::{install, install_crds},
    operator::Operator,
    wait::{eventually, stays},
};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

/// Longer than the longest pause between two attempts to watch.
const AFTER_A_BACK_OFF: Duration = Duration::from_secs(90);

async fn stage() -> &'static Stage {
    Box::leak(Box::new(Stage::build(Options::api_server_only()).await))
}

#[tokio::test]
async fn a_node_without_a_pool_is_told_of_and_the_fallback_pool_takes_it() {
    let stage = stage().await;
    let lone = windows("lone", 1, "10.0.20348.1");
    let scene = Scene::open(stage, "lone", vec![lone, e2e::kubelet::SimulatedNode::linux("lone-linux")]).await;
    let message = scene.until_event("lone-1", "NoPool").await;
    assert!(message.contains("No WindowsNodePool matches this Windows node"), "{message}");
    assert_eq!(scene.events("lone-linux").await.unwrap(), [].into());
    let unassigned = || async { stage.operator.metric("winpool_unassigned_nodes", &[]).await };
    e2e::wait::until("the figure says so", SOON, unassigned, |count| *count == 1.0).await.unwrap();

    let fallback = |more: serde_json::Value| {
        let mut fields = json!({ "nodeSelector": null, "fallback": true });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec("lone", fields)
    };
    scene.settled_pool("rest", fallback(json!({ "deletionPolicy": "Cleanup" }))).await;
    scene.until_taints("lone-1", &[GUARD]).await;
    assert_eq!(scene.taints("lone-linux").await.unwrap(), [""; 0]);
    e2e::wait::until("the figure says so", SOON, unassigned, |count| *count == 0.0).await.unwrap();

    let created = scene.pools().get("rest").await.unwrap().metadata.creation_timestamp.unwrap().0.as_second();
    let later = || async { Ok(k8s_openapi::jiff::Timestamp::now().as_second() > created) };
    e2e::wait::until("the next pool is younger by what a timestamp can tell", SOON, later, |later| *later)
        .await
        .unwrap();
    scene.pool("another-rest", fallback(json!({}))).await;
    let message = scene.until("another-rest", "NodesAssigned", "False", "NodeConflict").await;
    assert!(message.contains("pool rest is the fallback already"), "{message}");
    scene.pools().delete("another-rest", &DeleteParams::default()).await.unwrap();

    scene.settled_pool("lone-own", spec("lone", json!({}))).await;
    scene.until_pool_of("lone-1", Some("lone-own")).await;
    scene.pools().delete("lone-own", &DeleteParams::default()).await.unwrap();
    scene.until_pool_of("lone-1", Some("rest")).await;
    scene.is_quiet().await;

    scene.pools().delete("rest", &DeleteParams::default()).await.unwrap();
    scene.until_taints("lone-1", &[]).await;
    scene.until_pool_of("lone-1", None).await;
    scene.close().await;
}

#[tokio::test]
async fn the_operator_goes_on_without_its_crds_and_recovers_when_they_come_back() {
    let stage = stage().await;
    let nodes =
        vec![windows("kept", 1, "10.0.20348.1"), windows("kept", 2, "10.0.20348.1").label("test", "kept-cleanup")];
    let scene = Scene::open(stage, "kept", nodes).await;
    scene.profile("kept", json!({})).await;
    scene.settled_pool("kept", spec("kept", json!({ "profileRef": { "name": "kept" } }))).await;
    scene.settled_pool("kept-cleanup", spec("kept-cleanup", json!({ "deletionPolicy": "Cleanup" }))).await;
    scene.until_taints("kept-2", &[GUARD]).await;
    let before = scene.get_node("kept-1").await.unwrap();

    let crds = ["windowsnodepools.winpool.dev", "windowsruntimeprofiles.winpool.dev"];
    stage.kubectl(&[&["delete", "crd"], &crds[..]].concat()).unwrap();
    // The pool with Cleanup held its definition until it was cleaned up.
    scene.until_taints("kept-2", &[]).await;
    scene.until_pool_of("kept-2", None).await;
    let errors = || async {
        let errors = stage.operator.metric("winpool_watch_errors_total", &[("kind", "WindowsNodePool")]).await?;
        ensure!(errors > 0.0, "the watch of the pools still goes");
        Ok(())
    };
    eventually("the operator misses its definitions", AFTER_A_BACK_OFF, errors).await.unwrap();
    let unchanged = |node: &k8s_openapi::api::core::v1::Node| {
        (
            node.spec.clone().unwrap_or_default().taints,
            node.annotations().clone(),
            node.labels().get("winpool.dev/pool").cloned(),
        )
    };
    scene.heartbeat().await.unwrap();
    let node = || scene.get_node("kept-1");
    let same = |node: &k8s_openapi::api::core::v1::Node| unchanged(node) == unchanged(&before);
    stays("the node of the other keeps its guard", Duration::from_secs(1), node, same).await.unwrap();
    assert!(scene.class("kept").await.is_ok(), "its RuntimeClass stays");
    assert_eq!(stage.operator.process().exit_status(), None);
    assert_eq!(stage.operator.get("/livez").await.unwrap().0, 200);
    assert!(
        stage.operator.log().unwrap().contains("the CustomResourceDefinition is not installed: "),
        "the log says why"
    );

    install_crds(&stage.control_plane).unwrap();
    scene.profile("kept", json!({})).await;
    scene.pool("kept", spec("kept", json!({ "profileRef": { "name": "kept" } }))).await;
    let ready = || async {
        let ready = scene.condition("kept", "Ready").await?;
        ensure!(ready.status == "True", "{ready:#?}");
        Ok(())
    };
    eventually("the pool is taken up again", AFTER_A_BACK_OFF, ready).await.unwrap();
    assert!(unchanged(&scene.get_node("kept-1").await.unwrap()) == unchanged(&before));
    scene.edit_node("kept-1", json!({ "spec": { "taints": null } })).await;
    scene.until_taints("kept-1", &[GUARD]).await;
    scene.close().await;
}

#[tokio::test]
async fn an_operator_that_is_there_before_its_crds_waits_for_them() {
    let control_plane = ControlPlane::start(Options::api_server_only()).await.unwrap();
    install(&control_plane).unwrap();
    let crds = ["windowsnodepools.winpool.dev", "windowsruntimeprofiles.winpool.dev"];
    let delete = [&["delete", "crd"], &crds[..]].concat();
    e2e::kubectl::kubectl(&control_plane, User::Admin, &delete).unwrap();
    let operator = Operator::spawn(&control_plane, &[], &[]).unwrap();
    let waits = || async {
        let (status, body) = operator.get("/readyz").await?;
        ensure!(status == 503 && body.contains("WindowsNodePool"), "{status}: {body}");
        Ok(())
    };
    eventually("it says what it waits for", SOON, waits).await.unwrap();
    assert_eq!(operator.get("/livez").await.unwrap().0, 200);
    install_crds(&control_plane).unwrap();
    operator.wait_ready(AFTER_A_BACK_OFF).await.unwrap();
    let requests = control_plane.requests_of(User::Operator).unwrap();
    assert!(requests.iter().all(|request| !request.is_forbidden()), "{requests:#?}");
    operator.stop().await.unwrap();
}
