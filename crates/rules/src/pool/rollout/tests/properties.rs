//! Properties of rollouts, for any nodes, agents and changes by others.

use proptest::{prelude::*, sample::select};
use winpool_api::{DriftPolicy, NodeLimit};

use super::simulation::{Agent, Node, Simulation, rules};
use crate::pool::rollout::{RolloutAction, RolloutPlan, RolloutRules, RolloutState, plan};

fn any_agent() -> impl Strategy<Value = Agent> {
    prop_oneof![
        6 => (0_i64..60).prop_map(Agent::Applies),
        1 => (0_i64..60).prop_map(Agent::RollsBack),
        1 => (0_i64..60).prop_map(Agent::Refuses),
        1 => Just(Agent::Silent),
        1 => (0_i64..60).prop_map(Agent::Breaks),
    ]
}

fn any_node(agent: impl Strategy<Value = Agent>) -> impl Strategy<Value = Node> {
    (agent, any::<bool>(), 0_u32..3, select(vec!["", "old"])).prop_map(|(agent, drain, pods, runs)| {
        let node = Node { drain, pods, ..Node::new(agent) };
        if runs.is_empty() { node } else { node.running(runs) }
    })
}

fn any_limit() -> impl Strategy<Value = NodeLimit> {
    prop_oneof![(1_u32..5).prop_map(NodeLimit::Nodes), (1_u32..=100).prop_map(NodeLimit::Percent)]
}

prop_compose! {
    fn any_world(agent: fn() -> BoxedStrategy<Agent>)(
        nodes in prop::collection::vec(any_node(agent()), 0..12), limit in any_limit(), max_failures in 1_usize..4,
        drift in select(vec![DriftPolicy::Report, DriftPolicy::Reapply]),
    ) -> Simulation {
        Simulation::new(RolloutRules { max_unavailable: limit, max_failures, drift, ..rules() }, nodes)
    }
}

/// A change by others between two reconciles.
#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    Down(usize),
    Up(usize),
    Cordoned(usize),
    Uncordoned(usize),
    Occupied(usize),
    Free(usize),
    Deleted(usize),
    ChangedOnNode(usize),
    NewConfig(&'static str),
    Attempt,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Nothing),
        1 => (0_usize..12).prop_map(Event::Down),
        2 => (0_usize..12).prop_map(Event::Up),
        1 => (0_usize..12).prop_map(Event::Cordoned),
        2 => (0_usize..12).prop_map(Event::Uncordoned),
        1 => (0_usize..12).prop_map(Event::Occupied),
        2 => (0_usize..12).prop_map(Event::Free),
        1 => (0_usize..12).prop_map(Event::Deleted),
        2 => (0_usize..12).prop_map(Event::ChangedOnNode),
        1 => select(vec!["new", "newer", "newest"]).prop_map(Event::NewConfig),
        1 => Just(Event::Attempt),
    ]
}

impl Simulation {
    fn happen(&mut self, event: Event) {
        let name = |index: usize| format!("win-{index}");
        let mut change = |index: usize, change: fn(&mut Node)| self.nodes.get_mut(&name(index)).map(change);
        match event {
            Event::Nothing => {}
            Event::Down(index) => drop(change(index, |node| node.ready = false)),
            Event::Up(index) => drop(change(index, |node| node.ready = true)),
            Event::Cordoned(index) => drop(change(index, |node| node.cordoned_by_others = node.cordon.is_none())),
            Event::Uncordoned(index) => drop(change(index, |node| node.cordoned_by_others = false)),
            Event::Occupied(index) => drop(change(index, |node| node.occupied = true)),
            Event::Free(index) => drop(change(index, |node| node.occupied = false)),
            Event::ChangedOnNode(index) => drop(change(index, Node::change)),
            Event::Deleted(index) => drop(self.nodes.remove(&name(index))),
            Event::NewConfig(digest) => self.nodes.values_mut().for_each(|node| node.desired = digest),
            Event::Attempt => self.rules.attempt += 1,
        }
    }
}

fn begins(action: &RolloutAction) -> bool {
    matches!(action, RolloutAction::Cordon | RolloutAction::Assign(_))
}

proptest! {
    /// An action of the rollout makes no node unavailable beyond the limit, whatever happens in between and wherever a
    /// reconcile is cut.
    #[test]
    fn the_rollout_makes_no_node_unavailable_beyond_the_limit(
        mut simulation in any_world(|| any_agent().boxed()),
        events in prop::collection::vec((any_event(), 0_usize..4, 1_i64..200), 1..60),
    ) {
        for (event, written, seconds) in events {
            simulation.happen(event);
            let limit = simulation.rules.max_unavailable.of(simulation.nodes.len());
            let before = simulation.occupied();
            let mut after = simulation.clone();
            simulation.plan().actions.iter().for_each(|action| after.apply(action));
            prop_assert!(after.occupied() <= limit.max(before), "{} of {limit}, before {before}", after.occupied());
            simulation.step(written, seconds);
        }
    }

    #[test]
    fn after_the_maximum_of_failures_no_node_begins(
        mut simulation in any_world(|| any_agent().boxed()),
        events in prop::collection::vec((any_event(), 0_usize..4, 1_i64..200), 1..60),
    ) {
        for (event, written, seconds) in events {
            simulation.happen(event);
            let (failures, plan) = (simulation.failures(), simulation.plan());
            let begun = plan.actions.iter().filter(|(_, action)| begins(action)).count();
            prop_assert!(failures < simulation.rules.max_failures || begun == 0, "{failures} failures: {:?}", plan.actions);
            prop_assert_eq!(plan.progress.failures.len(), failures);
            simulation.step(written, seconds);
        }
    }

    /// Before a configuration is confirmed on a node, one node at most has it.
    #[test]
    fn until_a_configuration_is_confirmed_one_node_has_it(mut simulation in any_world(|| any_agent().boxed()), steps in 1_usize..300) {
        for _ in 0..steps {
            simulation.step(usize::MAX, 3);
            let confirmed = simulation.nodes.values().any(|node| node.runs("new"));
            let changing = simulation.nodes.values().filter(|node| {
                node.is_changing(simulation.now) && node.spec.as_ref().is_some_and(|spec| spec.digest == "new")
            });
            prop_assert!(confirmed || changing.count() <= 1);
        }
    }

    #[test]
    fn a_rollout_without_failures_completes_wherever_its_plans_are_cut(
        mut simulation in any_world(|| (0_i64..60).prop_map(Agent::Applies).boxed()),
        cuts in prop::collection::vec(0_usize..3, 0..80),
    ) {
        for cut in cuts {
            simulation.step(cut, 7);
        }
        prop_assert_eq!(simulation.converge().state, RolloutState::Complete);
        prop_assert!(simulation.nodes.values().all(|node| node.runs("new") && node.cordon.is_none()));
    }

    /// Whatever the agents do, the rollout ends: every node has the configuration, or it halts. Nodes that still wait do so
    /// for nodes that are down.
    #[test]
    fn a_rollout_ends(mut simulation in any_world(|| any_agent().boxed())) {
        let RolloutPlan { state, progress, .. } = simulation.converge();
        match state {
            RolloutState::Complete => prop_assert!(simulation.nodes.values().all(|node| node.runs("new"))),
            RolloutState::Halted => prop_assert!(!progress.failures.is_empty()),
            RolloutState::RollingOut => {
                prop_assert!(progress.in_progress.is_empty() && !progress.unavailable.is_empty(), "{progress:?}");
            }
            RolloutState::Paused | RolloutState::AwaitsWindow { .. } => prop_assert!(false, "{progress:?}"),
        }
    }

    #[test]
    fn the_order_of_the_nodes_does_not_matter(
        simulation in any_world(|| any_agent().boxed()), steps in 0_usize..40, seed in any::<u64>(),
    ) {
        let mut simulation = simulation;
        (0..steps).for_each(|_| drop(simulation.step(usize::MAX, 5)));
        let mut views: Vec<_> = simulation.nodes.iter().map(|(name, node)| node.view(name)).collect();
        let expected = plan(&simulation.rules, simulation.maintenance, &views, simulation.now);
        let mut state = seed | 1;
        for index in (1..views.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            views.swap(index, usize::try_from(state >> 33).unwrap() % (index + 1));
        }
        prop_assert_eq!(plan(&simulation.rules, simulation.maintenance, &views, simulation.now), expected);
    }
}
