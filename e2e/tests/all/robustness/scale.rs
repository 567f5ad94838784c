//! Two hundred nodes.

use e2e::cluster::{Cluster, OS_WINDOWS, SOON};

use super::nodes;

const POOLS: [(&str, usize); 3] = [("web", 100), ("batch", 67), ("edge", 33)];

/// Waits until every node of every pool has `taint` and the status reports it.
async fn until_all_tainted(cluster: &Cluster, taint: (&str, &str)) {
    for (pool, count) in POOLS {
        cluster.until_tainted(pool, taint, count).await.unwrap();
        cluster.until_ready(pool).await.unwrap();
        let status = cluster.pool(pool).await.unwrap()["status"]["nodes"].clone();
        assert_eq!((&status["matched"], &status["tainted"]), (&count.into(), &count.into()), "{pool}: {status}");
    }
}

#[tokio::test]
async fn two_hundred_nodes_are_each_written_once_per_change() {
    let cluster = Cluster::start().await.unwrap();
    let all = POOLS.iter().flat_map(|(pool, count)| nodes(pool, *count)).collect();
    let _kubelets = cluster.start_kubelets(all).await.unwrap();
    let operator = cluster.start_operator(&[], &[]).await.unwrap();
    for (pool, _) in POOLS {
        cluster.apply_tainting_pool(pool, "ltsc2022", OS_WINDOWS).await.unwrap();
    }
    until_all_tainted(&cluster, OS_WINDOWS).await;
    cluster.until_idle().await.unwrap();
    let changes = cluster.node_changes().unwrap();
    assert_eq!(changes.len(), 200);
    assert!(changes.values().all(|times| *times == 1), "{changes:?}");

    let next = ("os", "windows-next");
    for (pool, _) in POOLS {
        cluster.apply_tainting_pool(pool, "ltsc2022", next).await.unwrap();
    }
    until_all_tainted(&cluster, next).await;
    cluster.until_idle().await.unwrap();
    let changes = cluster.node_changes().unwrap();
    assert!(changes.values().all(|times| *times == 2), "{changes:?}");

    for (pool, _) in POOLS {
        assert!(
            cluster.tainted_nodes(pool, OS_WINDOWS).await.unwrap().is_empty(),
            "the former taint is removed from {pool}"
        );
    }
    assert!(operator.stop().await.unwrap().success(), "it shuts down within {SOON:?}");
    cluster.nothing_was_forbidden().unwrap();
}
