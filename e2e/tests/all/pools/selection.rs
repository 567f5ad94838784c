//! Selectors without nodes, and pools that an earlier schema let be paused.

use e2e::{
    cluster::{DEFAULT_TAINT, edit},
    fixture::{spec, windows},
};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{with_nodes, with_one_node};

#[tokio::test]
async fn a_mistyped_selector_is_a_problem_after_ten_minutes_unless_the_pool_is_meant_to_be_empty() {
    let fixture = with_nodes("typo-web", vec![windows("typo-web", 1, "10.0.20348.2700")]).await;
    let typo = json!({ "matchLabels": { "agentpool": "typo-wbe" } });
    fixture.apply_pool("typo-web", spec("typo-web", json!({ "nodeSelector": typo }))).await.unwrap();
    fixture.until_condition("typo-web", "NodesAssigned", "True", "NoNodes").await.unwrap();
    fixture.until_condition("typo-web", "Reconciling", "True", "NoNodes").await.unwrap();

    // As if it had been so for ten minutes.
    let earlier = json!({ "status": { "unmatchedSince": Timestamp::now() - SignedDuration::from_mins(10) } });
    fixture.pools().patch_status("typo-web", &PatchParams::default(), &Patch::Merge(earlier)).await.unwrap();
    let message = fixture.until_condition("typo-web", "NodesAssigned", "False", "SelectsNoNode").await.unwrap().message;
    assert!(message.contains("did you mean agentpool=typo-web?"), "{message}");
    fixture.until_condition("typo-web", "Ready", "False", "SelectsNoNode").await.unwrap();

    fixture.run_remedy(&message).unwrap();
    fixture.until_condition("typo-web", "NodesAssigned", "True", "ScaledToZero").await.unwrap();
    fixture.until_ready("typo-web").await.unwrap();
    let selector = json!({ "matchLabels": { "agentpool": "typo-web" } });
    fixture.edit_pool("typo-web", json!({ "spec": { "nodeSelector": selector } })).await.unwrap();
    fixture.until_condition("typo-web", "NodesAssigned", "True", "Assigned").await.unwrap();
    let spent = fixture.until_condition("typo-web", "SpecValid", "True", "Valid").await.unwrap().message;
    assert!(spent.contains("annotation winpool.dev/allow-empty"), "{spent}");
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn a_pool_that_is_stored_as_paused_writes_nothing_and_says_what_replaced_it() {
    let fixture = with_one_node("halting").await;
    let fields = json!({ "paused": true, "deletionPolicy": "Cleanup" });
    fixture.apply_pool("halting", spec("halting", fields)).await.unwrap();
    let message = fixture.until_condition("halting", "SpecValid", "False", "Invalid").await.unwrap().message;
    assert!(message.contains("write mode: Observe, and remove paused"), "{message}");
    fixture.until_condition("halting", "Ready", "False", "Invalid").await.unwrap();
    assert_eq!(fixture.taints("halting-1").await.unwrap(), Vec::<String>::new());
    let replaced = json!({ "spec": { "paused": null, "mode": "Enforce" } });
    edit(&fixture.pools(), "halting", replaced).await.unwrap();
    fixture.until_taints("halting-1", &[DEFAULT_TAINT]).await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}
