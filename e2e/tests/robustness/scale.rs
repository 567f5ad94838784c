//! Two hundred nodes.

use e2e::{
    kubelet::Kubelets,
    operator::Operator,
    world::{SOON, World},
};

use crate::{OS_WINDOWS, nodes};

const POOLS: [(&str, usize); 3] = [("web", 100), ("batch", 67), ("edge", 33)];

/// Waits until every pool has its nodes under `taint`, and says so.
async fn until_all_guarded(world: &World, taint: (&str, &str)) {
    for (pool, count) in POOLS {
        world.until_guarded(pool, taint, count).await.unwrap();
        world.until_as_specified(pool).await.unwrap();
        let status = world.pool(pool).await.unwrap()["status"]["nodes"].clone();
        assert_eq!((&status["matched"], &status["guarded"]), (&count.into(), &count.into()), "{pool}: {status}");
    }
}

#[tokio::test]
async fn two_hundred_nodes_are_each_written_once_per_change_and_then_left_in_peace() {
    let world = World::start().await.unwrap();
    let all = POOLS.iter().flat_map(|(pool, count)| nodes(pool, *count)).collect();
    let _kubelets = Kubelets::start(world.client.clone(), all).await.unwrap();
    let operator = Operator::start(&world.control_plane, &[], &[]).await.unwrap();
    for (pool, _) in POOLS {
        world.apply_pool(pool, "ltsc2022", OS_WINDOWS).await.unwrap();
    }
    until_all_guarded(&world, OS_WINDOWS).await;
    world.until_quiet().await.unwrap();
    let changes = world.node_changes().unwrap();
    assert_eq!(changes.len(), 200);
    assert!(changes.values().all(|times| *times == 1), "{changes:?}");

    let next = ("os", "windows-next");
    for (pool, _) in POOLS {
        world.apply_pool(pool, "ltsc2022", next).await.unwrap();
    }
    until_all_guarded(&world, next).await;
    world.until_quiet().await.unwrap();
    let changes = world.node_changes().unwrap();
    assert!(changes.values().all(|times| *times == 2), "{changes:?}");

    for (pool, _) in POOLS {
        assert!(world.guarded(pool, OS_WINDOWS).await.unwrap().is_empty(), "the former taint is gone from {pool}");
    }
    assert!(operator.stop().await.unwrap().success(), "it ends well within {SOON:?}");
    world.nothing_was_forbidden().unwrap();
}
