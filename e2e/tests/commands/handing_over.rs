//! `winpool cleanup` of one pool whose nodes another pool matches too.

use e2e::{
    kubelet::Kubelets,
    operator::Operator,
    wait::until,
    world::{SOON, World},
};
use serde_json::json;

use crate::{cleanup::nodes, node, pool, run, writes};

#[tokio::test]
async fn cleanup_leaves_a_node_guarded_that_another_pool_takes() {
    let world = World::start().await.unwrap();
    let machines = vec![node("web-1", "web").label("heir", "yes"), node("web-2", "web")];
    let _kubelets = Kubelets::start(world.client.clone(), machines).await.unwrap();
    let found = nodes(&world).await;
    pool(&world, "web", json!({})).await;
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    world.until_as_specified("web").await.unwrap();
    pool(&world, "heir", json!({ "nodeSelector": { "matchLabels": { "heir": "yes" } } })).await;
    world.until_condition("heir", "NodesAssigned", "False", "NodeConflict").await.unwrap();
    world.until_quiet().await.unwrap();
    operator.stop().await.unwrap();
    let settled = nodes(&world).await;

    let words = "pool web: web-1 match another pool too, which takes them over as soon as an operator runs";
    let ended = run(&world, &["cleanup", "--pool", "web", "--dry-run"]);
    assert_eq!((ended.status, ended.lines().len()), (1, 1), "{}", ended.stdout);
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert_eq!(writes(&world).len(), 0);

    let ended = run(&world, &["cleanup", "--pool", "web"]);
    assert_eq!(ended.status, 1, "{}", ended.stdout);
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert!(!ended.lines().contains(&"done"), "{}", ended.stdout);
    let now = nodes(&world).await;
    assert_eq!((&now[0], &now[1]), (&settled[0], &found[1]), "the one is left as it is, the other is as it was");

    // The heir takes it over as soon as an operator runs.
    world.pools().delete("web", &Default::default()).await.unwrap();
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    let taken = || world.guarded("heir", ("os", "windows"));
    until("the heir has the node", SOON, taken, |nodes| nodes == &["web-1"]).await.unwrap();
    world.until_as_specified("heir").await.unwrap();
    operator.stop().await.unwrap();

    // And gives it back as it was before either.
    let ended = run(&world, &["cleanup"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert_eq!(nodes(&world).await, found);
}
