//! Pools that only report what would change.

use e2e::{
    cluster::{DEFAULT_TAINT, SOON},
    fixture::spec,
    wait::until,
};
use serde_json::{Value, json};

use super::with_one_node;

async fn assert_changes_are_reported_and_not_written(
    name: &'static str,
    without_writes: Value,
    with_writes: Value,
    reason: &str,
) {
    let fixture = with_one_node(name).await;
    let node = format!("{name}-1");
    fixture.apply_pool(name, spec(name, without_writes.clone())).await.unwrap();
    fixture.until_observed(name).await.unwrap();
    let status = fixture.status(name).await.unwrap();
    assert_eq!(status.pending.count, 2, "{:?}", status.pending);
    assert_eq!(status.pending.first[0], format!("RuntimeClass {name}: create"));
    let labels = format!("label winpool.dev/pool={name}, label runs.winpool.dev/ltsc2022=true");
    let expected = format!("Node {name}-1: {labels}, taint os=windows:NoSchedule");
    assert!(status.pending.first[1].starts_with(&expected), "{:?}", status.pending);
    assert_eq!(status.applied.taints, [""; 0]);
    let ready = fixture.condition(name, "Ready").await.unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("True", reason));
    fixture.until_idle().await.unwrap();
    assert_eq!(fixture.taints(&node).await.unwrap(), [""; 0]);
    assert!(fixture.class(name).await.is_err(), "no RuntimeClass is created");
    let writes = fixture.own_writes().unwrap();
    let resources: Vec<_> = writes.iter().map(|write| (write.resource.as_str(), write.subresource.as_str())).collect();
    let only =
        |(resource, sub): &(&str, &str)| *resource == "events" || (*resource, *sub) == ("windowsnodepools", "status");
    assert!(resources.iter().all(only), "{resources:?}");

    fixture.edit_pool(name, json!({ "spec": with_writes })).await.unwrap();
    fixture.until_taints(&node, &[DEFAULT_TAINT]).await.unwrap();
    fixture.until_condition(name, "Ready", "True", "AsSpecified").await.unwrap();
    fixture.until_status(name, "no pending changes", |status| status.pending.count == 0).await.unwrap();

    fixture.edit_pool(name, json!({ "spec": without_writes })).await.unwrap();
    fixture.until_condition(name, "Ready", "True", reason).await.unwrap();
    fixture.edit_node(&node, json!({ "spec": { "taints": null } })).await.unwrap();
    let pending = || async { Ok(fixture.status(name).await?.pending.first) };
    let reported = |first: &Vec<String>| first == &[format!("Node {name}-1: taint os=windows:NoSchedule")];
    until("the difference is reported", SOON, pending, reported).await.unwrap();
    assert_eq!(fixture.taints(&node).await.unwrap(), [""; 0]);
    fixture.edit_pool(name, json!({ "spec": with_writes })).await.unwrap();
    fixture.until_taints(&node, &[DEFAULT_TAINT]).await.unwrap();
    fixture.nothing_was_forbidden().unwrap();
}

#[tokio::test]
async fn observe_writes_only_status_and_reports_what_would_change() {
    let (without_writes, with_writes) = (json!({ "mode": "Observe" }), json!({ "mode": "Enforce" }));
    assert_changes_are_reported_and_not_written("observe", without_writes, with_writes, "Observing").await;
}

#[tokio::test]
async fn paused_writes_only_status_and_reports_what_would_change() {
    let (without_writes, with_writes) = (json!({ "paused": true }), json!({ "paused": false }));
    assert_changes_are_reported_and_not_written("paused", without_writes, with_writes, "Paused").await;
}
