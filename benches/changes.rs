//! What it costs that others label nodes: 500 changes among 5,000 nodes in 10 pools. The figures are printed, not judged.

#![allow(clippy::unwrap_used)] // what cannot be run ends the benchmark

mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    hint::black_box,
    sync::Arc,
    time::Duration,
};

use winpool::domain::{
    node::WindowsNode,
    operation::Done,
    pool::{
        Snapshot,
        assignment::affected,
        plan::{Planner, plan},
        relevance::concerns_pools,
        status::report,
    },
    workload::Ground,
};

const POOLS: usize = 10;
const NODES: usize = 5_000;
const CHANGES: usize = 500;

fn main() {
    let (_, settled) = world::worlds(POOLS, NODES);
    let foreign = |node: &mut WindowsNode, number: usize| {
        node.labels.insert("example.com/seen".into(), number.to_string());
    };
    let own = |node: &mut WindowsNode, _: usize| node.ready = !node.ready;
    let reconciles = changes(&settled, "500 foreign labels: event handler and reconciles", "1 s", foreign);
    println!("{:<62} {reconciles:>6}", "  reconciles");
    let reconciles = changes(&settled, "500 nodes that become NotReady: the same", "none", own);
    println!("{:<62} {reconciles:>6}", "  reconciles");

    figure("one reconcile of one pool without a change", "none", || reconcile(&settled, "pool-0"));
    figure("  of this: the nodes of each pool", "none", || drop(black_box(Planner::new(&settled))));
    let planner = Planner::new(&settled);
    figure("  of this: the plan", "none", || drop(black_box(planner.plan("pool-0"))));
    figure("a snapshot", "none", || drop(black_box(settled.clone())));
    figure("a copy of the map of nodes, as every snapshot once made", "none", || {
        drop(black_box(BTreeMap::clone(&settled.nodes)));
    });
    figure("what workloads are judged against, with all labels", "none", || drop(black_box(Ground::of(&settled))));
    figure("what workloads are judged against, with those they ask for", "none", || {
        drop(black_box(Ground::for_labels(&settled, BTreeSet::from(["kubernetes.io/os".to_owned()]))));
    });
}

/// Changes a node again and again as `change` says, and reconciles each pool that a change concerns. Gives how many
/// reconciles that took.
fn changes(settled: &Snapshot, what: &str, goal: &str, change: impl Fn(&mut WindowsNode, usize)) -> usize {
    let mut now = settled.clone();
    let mut reconciles = 0;
    let begin = world::time_on_cpu();
    for number in 0..CHANGES {
        let name = format!("win-{}", number * 7 % NODES);
        let before = now.nodes[&name].clone();
        let mut after = before.as_ref().clone();
        change(&mut after, number);
        now.nodes.insert(name, Arc::new(after.clone()));
        let pools = || now.pools.values().map(AsRef::as_ref);
        if concerns_pools(pools(), now.runtime_classes.values().map(AsRef::as_ref), &before, &after) {
            for pool in affected(pools(), &now.ownership, Some(&before), Some(&after)) {
                reconcile(&now, &pool);
                reconciles += 1;
            }
        }
    }
    println!("{what:<62} {:>6.3} CPU-s (goal: {goal})", (world::time_on_cpu() - begin).as_secs_f64());
    reconciles
}

fn reconcile(snapshot: &Snapshot, pool: &str) {
    let snapshot = snapshot.clone();
    let plan = plan(&snapshot, pool).unwrap();
    black_box(report(&snapshot, &plan, &Done { results: Vec::new(), complete: true }));
}

fn figure(what: &str, goal: &str, run: impl Fn()) {
    // The clock of a thread goes on in steps of milliseconds.
    let (begin, mut times) = (world::time_on_cpu(), 0);
    while world::time_on_cpu() - begin < Duration::from_millis(400) {
        (0..10).for_each(|_| run());
        times += 10;
    }
    let each = (world::time_on_cpu() - begin) / times;
    println!("{what:<62} {:>6.3} ms (goal: {goal})", each.as_secs_f64() * 1000.0);
}
