//! The cost of changes of nodes by other clients: 500 changes of 5,000 nodes in 10 pools. The results are printed only.

#![allow(clippy::unwrap_used)] // an error ends the benchmark

mod snapshots;

use std::{collections::BTreeSet, hint::black_box, time::Duration};

use winpool_core::{
    node::WindowsNode,
    operation::Done,
    pool::{
        Snapshot,
        affected::by_node_change,
        plan::{Planner, plan},
        relevance::is_relevant,
    },
    status::pool::report,
    workload::SchedulingState,
};

const POOLS: usize = 10;
const NODES: usize = 5_000;
const CHANGES: usize = 500;

fn main() {
    let (_, mut converged) = snapshots::new_and_settled(POOLS, NODES);
    print_result("the nodes of each pool, computed from nothing", "none", || drop(black_box(converged.membership())));
    // The caches keep it between reconciles.
    converged.membership = converged.membership();
    let mut changed = converged.clone();
    let mut node = changed.nodes.get("win-7").unwrap().as_ref().clone();
    node.ready = !node.ready;
    changed.nodes.insert(node);
    print_result("the nodes of each pool, after a change of one node", "none", || {
        drop(black_box(changed.membership()))
    });
    let foreign = |node: &mut WindowsNode, number: usize| {
        node.labels.insert("example.com/seen".into(), number.to_string());
    };
    let own = |node: &mut WindowsNode, _: usize| node.ready = !node.ready;
    let reconciles = changes(&converged, "500 changes of foreign labels: event handler and reconciles", "1 s", foreign);
    println!("{:<62} {reconciles:>6}", "  reconciles");
    let reconciles = changes(&converged, "500 changes of Ready: event handler and reconciles", "none", own);
    println!("{:<62} {reconciles:>6}", "  reconciles");

    print_result("one reconcile of one pool without a change", "none", || reconcile(&converged, "pool-0"));
    print_result("  of this: what the plans of all pools have in common", "none", || {
        drop(black_box(Planner::new(&converged)))
    });
    let planner = Planner::new(&converged);
    print_result("  of this: the plan", "none", || drop(black_box(planner.plan("pool-0"))));
    print_result("a snapshot", "none", || drop(black_box(converged.clone())));
    print_result("a copy of the list of nodes", "none", || {
        let mut nodes = converged.nodes.clone();
        black_box(nodes.insert(converged.nodes.get("win-7").unwrap().clone()));
    });
    print_result("the scheduling state with all labels", "none", || drop(black_box(SchedulingState::of(&converged))));
    print_result("the scheduling state with the selected labels", "none", || {
        drop(black_box(SchedulingState::for_labels(&converged, BTreeSet::from(["kubernetes.io/os".to_owned()]))));
    });
}

/// Changes nodes with `change`, and reconciles the pools that the changes affect. Returns the number of reconciles.
fn changes(converged: &Snapshot, what: &str, goal: &str, change: impl Fn(&mut WindowsNode, usize)) -> usize {
    let mut now = converged.clone();
    let mut reconciles = 0;
    let begin = snapshots::time_on_cpu();
    for number in 0..CHANGES {
        let name = format!("win-{}", number * 7 % NODES);
        let before = now.nodes.get(&name).unwrap().clone();
        let mut after = before.as_ref().clone();
        change(&mut after, number);
        now.nodes.insert(after.clone());
        now.membership = now.membership();
        let pools = || now.pools.values().map(AsRef::as_ref);
        if is_relevant(pools(), now.runtime_classes.values().map(AsRef::as_ref), &before, &after) {
            for pool in by_node_change(now.membership.assigner(), Some(&before), Some(&after)) {
                reconcile(&now, &pool);
                reconciles += 1;
            }
        }
    }
    println!("{what:<62} {:>6.3} CPU-s (goal: {goal})", (snapshots::time_on_cpu() - begin).as_secs_f64());
    reconciles
}

fn reconcile(snapshot: &Snapshot, pool: &str) {
    let snapshot = snapshot.clone();
    let plan = plan(&snapshot, pool).unwrap();
    black_box(report(&snapshot, &plan, &Done { results: Vec::new(), complete: true }));
}

fn print_result(what: &str, goal: &str, run: impl Fn()) {
    // The CPU time of a thread is updated in steps of milliseconds.
    let (begin, mut times) = (snapshots::time_on_cpu(), 0);
    while snapshots::time_on_cpu() - begin < Duration::from_millis(400) {
        (0..10).for_each(|_| run());
        times += 10;
    }
    let each = (snapshots::time_on_cpu() - begin) / times;
    println!("{what:<62} {:>6.3} ms (goal: {goal})", each.as_secs_f64() * 1000.0);
}
