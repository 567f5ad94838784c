//! Pools that only say what would change.

use e2e::wait::until;
use serde_json::{Value, json};

use crate::{
    common::{GUARD, SOON, spec},
    with_a_node,
};

async fn nothing_is_written_but_what_would_be_is_said(name: &'static str, quiet: Value, loud: Value, reason: &str) {
    let scene = with_a_node(name).await;
    scene.pool(name, spec(name, quiet.clone())).await;
    scene.acted_on(name).await;
    let status = scene.status(name).await.unwrap();
    assert_eq!(status.pending.count, 2, "{:?}", status.pending);
    assert_eq!(status.pending.first[0], format!("RuntimeClass {name}: create"));
    let expected = format!("Node {name}-1: label winpool.dev/pool={name}, taint os=windows:NoSchedule");
    assert!(status.pending.first[1].starts_with(&expected), "{:?}", status.pending);
    assert_eq!(status.applied.taints, [""; 0]);
    let ready = scene.condition(name, "Ready").await.unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", reason));
    scene.is_quiet().await;
    assert_eq!(scene.taints(&scene.node()).await.unwrap(), [""; 0]);
    assert!(scene.class(name).await.is_err(), "no RuntimeClass is made");
    let writes = scene.stage.writes(name).unwrap();
    let resources: Vec<_> = writes.iter().map(|write| (write.resource.as_str(), write.subresource.as_str())).collect();
    let only =
        |(resource, sub): &(&str, &str)| *resource == "events" || (*resource, *sub) == ("windowsnodepools", "status");
    assert!(resources.iter().all(only), "{resources:?}");

    scene.edit_pool(name, json!({ "spec": loud })).await;
    scene.until_taints(&scene.node(), &[GUARD]).await;
    scene.until(name, "Ready", "True", "AsSpecified").await;
    scene.until_status(name, "that nothing waits", |status| status.pending.count == 0).await;

    scene.edit_pool(name, json!({ "spec": quiet })).await;
    scene.until(name, "Ready", "True", reason).await;
    scene.edit_node(&scene.node(), json!({ "spec": { "taints": null } })).await;
    let pending = || async { Ok(scene.status(name).await?.pending.first) };
    let said = |first: &Vec<String>| first == &[format!("Node {name}-1: taint os=windows:NoSchedule")];
    until("the difference is said", SOON, pending, said).await.unwrap();
    assert_eq!(scene.taints(&scene.node()).await.unwrap(), [""; 0]);
    scene.edit_pool(name, json!({ "spec": loud })).await;
    scene.until_taints(&scene.node(), &[GUARD]).await;
    scene.close().await;
}

#[tokio::test]
async fn observe_writes_nothing_but_status_and_says_what_would_change() {
    let (quiet, loud) = (json!({ "mode": "Observe" }), json!({ "mode": "Enforce" }));
    nothing_is_written_but_what_would_be_is_said("observe", quiet, loud, "Observing").await;
}

#[tokio::test]
async fn paused_writes_nothing_but_status_and_says_what_would_change() {
    let (quiet, loud) = (json!({ "paused": true }), json!({ "paused": false }));
    nothing_is_written_but_what_would_be_is_said("paused", quiet, loud, "Paused").await;
}
