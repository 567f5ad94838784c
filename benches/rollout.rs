//! The makespan of a rollout to 1,000 nodes of which 10 may be unavailable, with a simulated clock: the work of each node takes
//! one second, and a reconcile follows each change, but not sooner than the work queue allows. The result does not depend on
//! the machine.

#![allow(clippy::unwrap_used)] // an error ends the benchmark

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use winpool_api::{
    ConfigReference, Disruption, DrainPolicy, NodeConfigPhase, NodeLimit, WindowsNodeConfigSpec,
    WindowsNodeConfigStatus,
};
use winpool_core::pool::rollout::{
    self, Assigned, Cordoned, Desired, PodsToEvict, RolloutAction, RolloutNode, RolloutPlan, RolloutRules, RolloutState,
};

const NODES: usize = 1_000;
const LIMIT: u32 = 10;
const WORK: SignedDuration = SignedDuration::from_secs(1);
/// The minimum time between two reconciles of one pool.
const INTERVAL: SignedDuration = SignedDuration::from_millis(200);
/// The longest makespan, as a multiple of the ideal.
const GOAL: f64 = 1.05;

fn main() {
    let mut pool = Pool::new();
    let (begin, mut reconciles, mut planning) = (pool.now, 0, Duration::ZERO);
    let mut highest = 0;
    loop {
        let started = Instant::now();
        let plan = pool.plan();
        planning += started.elapsed();
        reconciles += 1;
        if plan.state == RolloutState::Complete {
            break;
        }
        pool.apply(&plan);
        highest = highest.max(pool.changing());
        pool.advance();
    }
    let makespan = pool.now.duration_since(begin).as_secs_f64();
    let ideal = NODES as f64 / f64::from(LIMIT) * WORK.as_secs_f64();
    let ratio = makespan / ideal;
    println!(
        "makespan of 1,000 nodes, 10 at a time, 1 s each: {makespan:>8.1} s, {ratio:.3} of the ideal (goal: {GOAL})"
    );
    println!("  nodes that changed at the same time, at most: {highest:>11}");
    let each = planning.as_secs_f64() * 1000.0 / f64::from(reconciles);
    println!("  plans: {reconciles}, each {each:.3} ms");
    assert!(ratio <= GOAL && highest <= usize::try_from(LIMIT).unwrap());
}

#[derive(Default)]
struct Node {
    spec: Option<WindowsNodeConfigSpec>,
    status: WindowsNodeConfigStatus,
}

struct Pool {
    now: Timestamp,
    nodes: BTreeMap<String, Node>,
}

impl Pool {
    fn new() -> Self {
        let nodes = (0..NODES).map(|number| (format!("win-{number:04}"), Node::default())).collect();
        Self { now: "2026-06-01T12:00:00Z".parse().unwrap(), nodes }
    }

    fn plan(&self) -> RolloutPlan {
        let rules = RolloutRules {
            max_unavailable: NodeLimit::Nodes(LIMIT),
            max_failures: 1,
            timeout: SignedDuration::from_mins(10),
            drain: DrainPolicy::Never,
            attempt: 1,
            paused: false,
            drift: winpool_api::DriftPolicy::Report,
        };
        let view = |(name, node)| {
            let Node { spec, status }: &Node = node;
            RolloutNode {
                name,
                created: None,
                ready: true,
                cordoned: Cordoned::No,
                released: None,
                desired: Some(Desired {
                    config: "web-1",
                    digest: "1",
                    restart: Disruption::KubeletRestart,
                    drain: false,
                }),
                assigned: spec.as_ref().map(|spec| Assigned { spec, status }),
                verified: true,
                pods: PodsToEvict::None,
            }
        };
        let nodes: Vec<_> = self.nodes.iter().map(|(name, node)| view((name.as_str(), node))).collect();
        rollout::plan(&rules, &nodes, self.now)
    }

    fn apply(&mut self, plan: &RolloutPlan) {
        for (name, action) in &plan.actions {
            let node = self.nodes.get_mut(name).unwrap();
            match action {
                RolloutAction::Assign(disruption) => node.spec = Some(assigned(*disruption, self.now)),
                RolloutAction::Confirm => {
                    let spec = node.spec.as_mut().unwrap();
                    spec.confirmed = Some(spec.digest.clone());
                    node.status.phase = NodeConfigPhase::Applied;
                    node.status.applied =
                        Some(ConfigReference { config: spec.config.clone(), digest: spec.digest.clone() });
                }
                RolloutAction::Cordon
                | RolloutAction::Evict
                | RolloutAction::Uncordon
                | RolloutAction::Release
                | RolloutAction::RecordAttempt => {}
            }
        }
    }

    /// The number of nodes whose agents work.
    fn changing(&self) -> usize {
        self.nodes.values().filter(|node| node.spec.as_ref().is_some_and(|spec| !spec.is_confirmed())).count()
    }

    /// Moves the clock to the next change, and at least by the interval of the queue. The agents whose work is done report.
    fn advance(&mut self) {
        let reported =
            self.nodes.values().any(|node| node.status.phase == NodeConfigPhase::Applied && is_fresh(node, self.now));
        let ends = self.nodes.values().filter(|node| works(node)).filter_map(|node| node.spec.as_ref());
        let next = ends.map(|spec| spec.assigned_at() + WORK).min();
        let soon = self.now + INTERVAL;
        self.now = if reported { soon } else { next.unwrap_or(soon).max(soon) };
        let now = self.now;
        for node in self.nodes.values_mut().filter(|node| works(node)) {
            let spec = node.spec.as_ref().unwrap();
            if spec.assigned_at() + WORK <= now {
                node.status.phase = NodeConfigPhase::Verifying;
                (node.status.observed_digest, node.status.observed_attempt) = (spec.digest.clone(), spec.attempt);
            }
        }
    }
}

/// Whether the work of an agent has not ended.
fn works(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| !node.status.is_about(spec))
}

/// Whether the agent has just reported that its configuration is applied.
fn is_fresh(node: &Node, now: Timestamp) -> bool {
    node.spec.as_ref().is_some_and(|spec| now.duration_since(spec.assigned_at()) <= WORK + INTERVAL)
}

fn assigned(disruption: Disruption, now: Timestamp) -> WindowsNodeConfigSpec {
    WindowsNodeConfigSpec {
        pool: "web".into(),
        node_uid: "u".into(),
        config: "web-1".into(),
        digest: "1".into(),
        disruption,
        attempt: 1,
        confirmed: None,
        confirm_timeout: "5m".into(),
        assigned_at: Time(now),
        diagnose: None,
    }
}
