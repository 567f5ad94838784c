//! Sixty nodes with agents; a thousand in `make test-long`.

use std::time::{Duration, Instant};

use e2e::{
    operator::Operator,
    process::cpu_time,
    wait::{size, until},
};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use winpool_api::NodeConfigPhase;

use super::{DEFAULT_TIMEOUT, Fleet, POOL};

/// The number of nodes.
fn nodes() -> usize {
    size(60, 1000)
}

/// 5%.
fn budget() -> usize {
    nodes() / 20
}

const MAX_FAILURES: usize = 3;
/// The time limit for a rollout. It took 149 and 200 seconds on two cores that others used too.
const LIMIT: Duration = Duration::from_secs(600);

/// Each agent blocks a thread, and tokio has 512 for this by default.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).max_blocking_threads(nodes() + 100).enable_all().build().unwrap()
}

#[test]
fn a_configuration_reaches_every_node_within_the_budget_and_a_bad_one_only_a_few() {
    runtime().block_on(async {
        let began = Instant::now();
        let fleet = fleet_of_nodes().await;
        let operator = fleet.cluster.start_operator(&[], &[]).await.unwrap();
        report("nodes and agents started", began, &fleet, &operator).await;
        reaches_every_node(&fleet, &operator).await;
        halts(&fleet, &operator).await;
        fleet.cluster.nothing_was_forbidden().unwrap();
        operator.stop().await.unwrap();
        fleet.stop().await;
    });
}

/// The kubelet of every tenth node, but not of the first, ends when its pods are limited to 77.
async fn fleet_of_nodes() -> Fleet {
    let mut fleet = Fleet::without_agents(nodes()).await;
    for name in fleet.machines.keys().skip(9).step_by(10).cloned().collect::<Vec<_>>() {
        fleet.change_machine(&name, |machine| machine.fails_with("maxPods: 77"));
    }
    fleet.start_agents();
    fleet
}

async fn reaches_every_node(fleet: &Fleet, operator: &Operator) {
    let began = Instant::now();
    fleet.apply_profile(42).await;
    fleet.apply_pool(json!({ "maxUnavailable": "5%", "maxFailures": MAX_FAILURES })).await;
    let configured = async || Ok(fleet.cluster.status(POOL).await?.nodes.configured);
    until("every node is configured", LIMIT, configured, |count| *count as usize == nodes()).await.unwrap();
    report("every node is configured", began, fleet, operator).await;
    let most = fleet.check_budget(budget());
    println!("at most {most} of {} nodes were in progress at once, of {} allowed", nodes(), budget());
    assert!(most > budget() / 2, "the budget was not used: {most}");
    let starts = |expected| fleet.machines.values().filter(|machine| machine.kubelet_starts() == expected).count();
    assert_eq!(starts(1), nodes());
}

async fn halts(fleet: &Fleet, operator: &Operator) {
    let before = fleet.log().moments().last().unwrap().version;
    let began = Instant::now();
    fleet.apply_profile(77).await;
    let condition = async || fleet.cluster.condition(POOL, "ConfigInEffect").await;
    until("the rollout is halted", LIMIT, condition, |found| found.reason == "RolloutHalted").await.unwrap();
    let converged = async || {
        let phases = fleet.phases().await;
        let running = [NodeConfigPhase::Preflight, NodeConfigPhase::Applying, NodeConfigPhase::Verifying];
        Ok(phases.values().filter(|phase| running.contains(phase)).count())
    };
    until("no node is changing", LIMIT, converged, |changing| *changing == 0).await.unwrap();
    report("the rollout of a bad configuration is halted", began, fleet, operator).await;

    let log = fleet.log();
    log.check_canaries().unwrap();
    let halted = log.halted(POOL).unwrap();
    assert_eq!(log.assigned_after(halted), [""; 0]);
    assert!(log.most_in_progress(DEFAULT_TIMEOUT) <= budget());
    let assigned = log.assigned_after(before).len();
    let failed = log.count(super::Step::is_failure);
    println!("{assigned} nodes were assigned the bad configuration, and it failed on {failed}");
    assert!((MAX_FAILURES..MAX_FAILURES + budget()).contains(&failed), "{failed}");
    let starts = fleet.machines.values().filter(|machine| machine.kubelet_starts() > 1).count();
    assert!(starts <= assigned, "{starts} nodes were changed, and {assigned} assigned");
}

/// Prints the time, and what the programs have used.
async fn report(what: &str, began: Instant, fleet: &Fleet, operator: &Operator) {
    let servers = fleet.cluster.control_plane.cpu_time().await.unwrap();
    let (of_operator, own) = (cpu_time(operator.process().pid()).unwrap(), cpu_time(std::process::id()).unwrap());
    let resident = operator.resident_bytes().unwrap() / (1024 * 1024);
    println!(
        "{} nodes: {what} after {:.0?}; CPU time until now: API server and etcd {servers:.0?}, operator \
         {of_operator:.0?} ({resident} MiB), tests with agents and kubelets {own:.0?}",
        nodes(),
        began.elapsed()
    );
}
