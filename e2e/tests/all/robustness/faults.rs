//! Some of the faults of `make faults`, which take little time.

use std::time::Duration;

use e2e::faults::{Round, Size, run};

/// Truncated answers, 503, replaced nodes, a killed etcd and a killed API server.
const SEEDS: std::ops::Range<u64> = 1..6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pools_converge_after_each_fault_and_nothing_of_others_is_lost() {
    let size = Size { pools: 2, nodes: 20, longest: Duration::from_secs(1) };
    eprintln!("{}", Round::HEADER);
    run(SEEDS, size, |round| eprintln!("{round}")).await.unwrap();
}
