//! Tests that affect every Windows node or every pool, and therefore need a separate cluster.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;
use e2e::{
    cluster::{Cluster, DEFAULT_TAINT, SOON},
    control_plane::Options,
    fixture::{Fixture, SharedCluster, spec, windows},
    install::install_crds,
    kubelet::SimulatedNode,
    operator::Operator,
    wait::{eventually, stays, until},
};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

/// Longer than the longest back-off of a watch.
const AFTER_A_BACK_OFF: Duration = Duration::from_secs(180);

async fn shared() -> Arc<SharedCluster> {
    Arc::new(SharedCluster::start(Options::api_server_only(), &[]).await.unwrap())
}

#[tokio::test]
async fn a_node_without_a_pool_is_reported_and_the_fallback_pool_takes_it() {
    let shared = shared().await;
    let lone = windows("lone", 1, "10.0.20348.1");
    let fixture = Fixture::new(shared, "lone", vec![lone, SimulatedNode::linux("lone-linux")]).await.unwrap();
    let message = fixture.until_event("lone-1", "NoPool").await.unwrap();
    assert!(message.contains("No WindowsNodePool matches this Windows node"), "{message}");
    assert_eq!(fixture.events("default", "lone-linux").await.unwrap(), []);
    let unassigned = || async { fixture.shared.operator.metric("winpool_unassigned_nodes", &[]).await };
    until("the metric shows it", SOON, unassigned, |count| *count == 1.0).await.unwrap();

    let fallback = spec("lone", json!({ "nodeSelector": null, "fallback": true, "deletionPolicy": "Cleanup" }));
    fixture.apply_pool_and_wait("rest", fallback).await.unwrap();
    fixture.until_taints("lone-1", &[DEFAULT_TAINT]).await.unwrap();
    assert_eq!(fixture.taints("lone-linux").await.unwrap(), [""; 0]);
    until("the metric shows it", SOON, unassigned, |count| *count == 0.0).await.unwrap();

    fixture.apply_pool_and_wait("lone-own", spec("lone", json!({}))).await.unwrap();
    fixture.until_pool_of("lone-1", Some("lone-own")).await.unwrap();
    fixture.pools().delete("lone-own", &DeleteParams::default()).await.unwrap();
    fixture.until_pool_of("lone-1", Some("rest")).await.unwrap();
    fixture.until_idle().await.unwrap();

    fixture.pools().delete("rest", &DeleteParams::default()).await.unwrap();
    fixture.until_taints("lone-1", &[]).await.unwrap();
    fixture.until_pool_of("lone-1", None).await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn the_operator_keeps_the_taints_without_its_crds_and_recovers_when_they_are_installed() {
    let shared = shared().await;
    let nodes =
        vec![windows("kept", 1, "10.0.20348.1"), windows("kept", 2, "10.0.20348.1").label("agentpool", "kept-cleanup")];
    let fixture = Fixture::new(shared, "kept", nodes).await.unwrap();
    fixture.apply_profile("kept", json!({})).await.unwrap();
    fixture.apply_pool_and_wait("kept", spec("kept", json!({ "profileRef": { "name": "kept" } }))).await.unwrap();
    fixture
        .apply_pool_and_wait("kept-cleanup", spec("kept-cleanup", json!({ "deletionPolicy": "Cleanup" })))
        .await
        .unwrap();
    fixture.until_taints("kept-2", &[DEFAULT_TAINT]).await.unwrap();
    let before = fixture.node("kept-1").await.unwrap();

    fixture.delete_crds().unwrap();
    // The CustomResourceDefinition is deleted only after the cleanup of the pool with Cleanup.
    fixture.until_taints("kept-2", &[]).await.unwrap();
    fixture.until_pool_of("kept-2", None).await.unwrap();
    let errors = || async {
        let errors =
            fixture.shared.operator.metric("winpool_watch_errors_total", &[("kind", "WindowsNodePool")]).await?;
        ensure!(errors > 0.0, "the watch of the pools still works");
        Ok(())
    };
    eventually("the watch of the pools fails", AFTER_A_BACK_OFF, errors).await.unwrap();
    let unchanged = |node: &k8s_openapi::api::core::v1::Node| {
        (
            node.spec.clone().unwrap_or_default().taints,
            node.annotations().clone(),
            node.labels().get("winpool.dev/pool").cloned(),
        )
    };
    fixture.report().await.unwrap();
    let node = || fixture.node("kept-1");
    let same = |node: &k8s_openapi::api::core::v1::Node| unchanged(node) == unchanged(&before);
    stays("the node of the other pool keeps its taint", Duration::from_secs(1), node, same).await.unwrap();
    assert!(fixture.class("kept").await.is_ok(), "its RuntimeClass is kept");
    assert_eq!(fixture.shared.operator.process().exit_status(), None);
    assert_eq!(fixture.shared.operator.get("/livez").await.unwrap().0, 200);
    assert!(
        fixture.shared.operator.log().unwrap().contains("install the CustomResourceDefinitions of this version: "),
        "the log contains the reason"
    );

    install_crds(&fixture.control_plane).unwrap();
    fixture.apply_profile("kept", json!({})).await.unwrap();
    fixture.apply_pool("kept", spec("kept", json!({ "profileRef": { "name": "kept" } }))).await.unwrap();
    let ready = || async {
        let ready = fixture.condition("kept", "Ready").await?;
        ensure!(ready.status == "True", "{ready:#?}");
        Ok(())
    };
    eventually("the pool is Ready again", AFTER_A_BACK_OFF, ready).await.unwrap();
    assert!(unchanged(&fixture.node("kept-1").await.unwrap()) == unchanged(&before));
    fixture.edit_node("kept-1", json!({ "spec": { "taints": null } })).await.unwrap();
    fixture.until_taints("kept-1", &[DEFAULT_TAINT]).await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn an_operator_that_starts_before_its_crds_waits_for_them() {
    let cluster = Cluster::start().await.unwrap();
    cluster.delete_crds().unwrap();
    let operator = Operator::spawn(&cluster.control_plane, &[], &[]).unwrap();
    let waits = || async {
        let (status, body) = operator.get("/readyz").await?;
        ensure!(status == 503 && body.contains("WindowsNodePool"), "{status}: {body}");
        Ok(())
    };
    eventually("/readyz names the missing kind", SOON, waits).await.unwrap();
    assert_eq!(operator.get("/livez").await.unwrap().0, 200);
    install_crds(&cluster.control_plane).unwrap();
    operator.wait_ready(AFTER_A_BACK_OFF).await.unwrap();
    cluster.nothing_was_forbidden().unwrap();
    operator.stop().await.unwrap();
}
