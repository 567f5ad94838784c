mod properties;
mod simulation;

use winpool_api::{DriftPolicy, NodeConfigPhase, NodeLimit};
use winpool_core::node::Cordon;

use self::simulation::{Agent, Node, Simulation, at, rules};
use super::*;

/// The actions, as `win-0 Assign` with the restart of the kubelet, and the state without names.
fn summary(plan: &RolloutPlan) -> String {
    let actions = plan.actions.iter().map(|(name, action)| match action {
        RolloutAction::Assign(Disruption::KubeletRestart) => format!("{name} Assign"),
        RolloutAction::Assign(disruption) => format!("{name} Assign {}", disruption.name()),
        action => format!("{name} {action:?}"),
    });
    let RolloutProgress { done, total, failures, .. } = &plan.progress;
    let state = match plan.state {
        RolloutState::Complete => "Complete".to_owned(),
        state if failures.is_empty() => format!("{state:?} {done}/{total}"),
        state => format!("{state:?} {done}/{total}, {} failed", failures.len()),
    };
    format!("{}: {state}", actions.collect::<Vec<_>>().join(", "))
}

/// The same of the plan for these nodes.
fn planned(rules: RolloutRules, nodes: impl IntoIterator<Item = Node>) -> String {
    summary(&Simulation::new(rules, nodes).plan())
}

fn waiting() -> Node {
    Node::new(Agent::Applies(5)).running("old")
}

fn done() -> Node {
    Node::new(Agent::Applies(5)).running("new")
}

/// A node whose agent has the desired configuration since the beginning.
fn applying() -> Node {
    let mut node = waiting();
    node.assign("new", 1, at(0));
    node
}

fn with_phase(phase: NodeConfigPhase) -> Node {
    let mut node = applying();
    node.report(phase);
    node
}

fn down(node: Node) -> Node {
    Node { ready: false, ..node }
}

#[test]
fn a_canary_is_confirmed_before_others_begin_within_the_limit() {
    let three = RolloutRules { max_unavailable: NodeLimit::Nodes(3), ..rules() };
    let half = RolloutRules { max_unavailable: NodeLimit::Percent(50), ..rules() };
    let table = [
        ("no nodes", three, vec![], ": Complete"),
        ("the first by name begins", three, vec![waiting(), waiting()], "win-0 Assign: RollingOut 0/2"),
        ("the canary is alone", three, vec![waiting(), applying(), waiting()], ": RollingOut 0/3"),
        (
            "a canary that works is confirmed",
            three,
            vec![with_phase(NodeConfigPhase::Verifying), waiting()],
            "win-0 Confirm: RollingOut 0/2",
        ),
        (
            "then as many begin as may be unavailable",
            three,
            vec![done(), waiting(), applying(), waiting(), waiting()],
            "win-1 Assign, win-3 Assign: RollingOut 1/5",
        ),
        (
            "half of six",
            half,
            vec![done(), waiting(), waiting(), waiting(), waiting(), waiting()],
            "win-1 Assign, win-2 Assign, win-3 Assign: RollingOut 1/6",
        ),
        ("all are done", three, vec![done(), done()], ": Complete"),
    ];
    for (case, rules, nodes, expected) in table {
        assert_eq!(planned(rules, nodes), expected, "{case}");
    }
}

#[test]
fn nodes_that_are_unavailable_for_any_cause_count() {
    let two = RolloutRules { max_unavailable: NodeLimit::Nodes(2), ..rules() };
    let cordoned = Node { cordoned_by_others: true, ..waiting() };
    let occupied = |node| Node { occupied: true, ..node };
    let table = [
        ("one is down", two, vec![done(), down(waiting()), waiting(), waiting()], "win-2 Assign: RollingOut 1/4"),
        ("a finished one is down", two, vec![down(done()), waiting(), waiting()], "win-1 Assign: RollingOut 1/3"),
        ("one is cordoned", two, vec![done(), cordoned.clone(), waiting(), waiting()], "win-2 Assign: RollingOut 1/4"),
        (
            "one is under maintenance",
            two,
            vec![done(), occupied(waiting()), waiting(), waiting()],
            "win-2 Assign: RollingOut 1/4",
        ),
        ("a finished one is", rules(), vec![occupied(done()), waiting()], ": RollingOut 1/2"),
        ("the only one is", two, vec![occupied(waiting())], ": RollingOut 0/1"),
        (
            "one that has begun is finished",
            two,
            vec![occupied(with_phase(NodeConfigPhase::Verifying))],
            "win-0 Confirm: RollingOut 0/1",
        ),
        ("two are", two, vec![done(), cordoned, down(waiting()), waiting()], ": RollingOut 1/4"),
    ];
    for (case, rules, nodes, expected) in table {
        assert_eq!(planned(rules, nodes), expected, "{case}");
    }
    let RolloutPlan { state, progress, .. } = Simulation::new(rules(), [done(), down(waiting()), waiting()]).plan();
    assert_eq!(state, RolloutState::RollingOut);
    assert_eq!((progress.in_progress, progress.unavailable), (vec![], vec!["win-1".to_owned()]));
}

#[test]
fn a_rollout_halts_after_so_many_failures_and_says_where_and_why() {
    let of = |max_failures| RolloutRules { max_failures, max_unavailable: NodeLimit::Nodes(5), ..rules() };
    let mut silent = applying();
    silent.assign("new", 1, at(-600));
    let mut in_time = applying();
    in_time.assign("new", 1, at(-599));
    let (rolled_back, refused) = (with_phase(NodeConfigPhase::RolledBack), with_phase(NodeConfigPhase::Refused));
    let table = [
        ("rolled back", of(1), vec![rolled_back.clone(), waiting()], ": Halted 0/2, 1 failed"),
        ("refused", of(1), vec![refused.clone(), waiting()], ": Halted 0/2, 1 failed"),
        ("an agent that does not report in time", of(1), vec![silent.clone(), waiting()], ": Halted 0/2, 1 failed"),
        ("a second before", of(1), vec![in_time, waiting()], ": RollingOut 0/2"),
        (
            "the next canary",
            of(2),
            vec![rolled_back.clone(), waiting(), waiting()],
            "win-1 Assign: RollingOut 0/3, 1 failed",
        ),
        ("two of two", of(2), vec![rolled_back.clone(), silent.clone(), waiting()], ": Halted 0/3, 2 failed"),
        (
            "others are finished",
            of(1),
            vec![rolled_back.clone(), with_phase(NodeConfigPhase::Verifying), waiting()],
            "win-1 Confirm: Halted 0/3, 1 failed",
        ),
        ("nothing is left but failures", of(9), vec![done(), rolled_back.clone()], ": Halted 1/2, 1 failed"),
    ];
    for (case, rules, nodes, expected) in table {
        assert_eq!(planned(rules, nodes), expected, "{case}");
    }
    let plan = Simulation::new(of(3), [rolled_back, refused, silent]).plan();
    let failures: Vec<_> = plan
        .progress
        .failures
        .iter()
        .map(|failure| format!("{} {} {}", failure.node, failure.config, failure.reason))
        .collect();
    assert_eq!(
        failures,
        ["win-0 new rolled back: Why", "win-1 new refused: Why", "win-2 new the agent did not report a result in time"]
    );
}

#[test]
fn a_newer_configuration_and_a_higher_attempt_supersede_failures() {
    let failed = with_phase(NodeConfigPhase::RolledBack);
    let second = RolloutRules { attempt: 2, ..rules() };
    assert_eq!(planned(second, [failed.clone(), waiting()]), "win-0 Assign: RollingOut 0/2");
    assert_eq!(
        planned(second, [done(), done()]),
        "win-0 RecordAttempt, win-1 RecordAttempt: Complete",
        "an attempt changes no other node"
    );
    let newer = |node: Node| Node { desired: "newer", ..node };
    assert_eq!(planned(rules(), [newer(failed), newer(waiting())]), "win-0 Assign: RollingOut 0/2");
    assert_eq!(
        planned(rules(), [newer(applying()), newer(waiting())]),
        ": RollingOut 0/2",
        "an agent finishes what it has begun"
    );
    let verifying = newer(with_phase(NodeConfigPhase::Verifying));
    assert_eq!(planned(rules(), [verifying]), "win-0 Confirm: RollingOut 0/1");
}

#[test]
fn the_fix_reaches_a_node_that_the_rollout_broke_and_not_one_that_is_down_for_another_cause() {
    let mut broken = applying();
    broken.assign("new", 1, at(-600));
    let broken = Node { desired: "newer", ready: false, ..broken };
    let newer = |node: Node| Node { desired: "newer", ..node };
    assert_eq!(planned(rules(), [newer(waiting()), broken]), "win-1 Assign: RollingOut 0/2");
    assert_eq!(planned(rules(), [newer(waiting()), down(newer(waiting()))]), ": RollingOut 0/2");
}

#[test]
fn a_paused_rollout_finishes_what_has_begun() {
    let paused = RolloutRules { paused: true, max_unavailable: NodeLimit::Nodes(5), ..rules() };
    let verifying = with_phase(NodeConfigPhase::Verifying);
    assert_eq!(planned(paused, [done(), verifying, waiting()]), "win-1 Confirm: Paused 1/3");
    assert_eq!(planned(paused, [done()]), ": Complete");
    let cordon = Cordon { config: "new".into(), attempt: 1, released: false, since: at(-10) };
    let draining = Node { cordon: Some(cordon), drain: true, pods: 2, ..waiting() };
    assert_eq!(planned(paused, [done(), draining]), "win-1 Uncordon: Paused 1/2");
}

#[test]
fn outside_of_the_maintenance_windows_only_new_nodes_begin_and_what_has_begun_is_finished() {
    let cordon = Cordon { config: "new".into(), attempt: 1, released: false, since: at(-10) };
    let draining = Node { cordon: Some(cordon), drain: true, pods: 2, ..waiting() };
    let of_age = |age: i64| Node { created: at(-age), drain: true, ..Node::new(Agent::Applies(5)) };
    let all = RolloutRules { max_unavailable: NodeLimit::Nodes(9), attempt: 2, ..rules() };
    let awaits = |counts: &str| format!(": AwaitsWindow {{ begins: {} }} {counts}", at(60));
    let table = [
        ("nothing begins", rules(), vec![done(), waiting()], awaits("1/2")),
        ("not even another attempt", all, vec![with_phase(NodeConfigPhase::RolledBack)], awaits("0/1")),
        ("a drain goes on", rules(), vec![draining, waiting()], "win-0 Evict: RollingOut 0/2".to_owned()),
        (
            "an agent is confirmed",
            rules(),
            vec![with_phase(NodeConfigPhase::Verifying), waiting()],
            "win-0 Confirm: RollingOut 0/2".to_owned(),
        ),
        ("a new node is not drained", rules(), vec![waiting(), of_age(599)], "win-1 Assign: RollingOut 0/2".to_owned()),
        ("one at a time", rules(), vec![of_age(5), of_age(5)], "win-0 Assign: RollingOut 0/2".to_owned()),
        ("it is not new for ever", rules(), vec![waiting(), of_age(600)], awaits("0/2")),
        ("all are done", rules(), vec![done()], ": Complete".to_owned()),
    ];
    for (case, rules, nodes, expected) in table {
        let maintenance = Maintenance::Closed { until: at(60) };
        let simulation = Simulation { maintenance, ..Simulation::new(rules, nodes) };
        assert_eq!(summary(&simulation.plan()), expected, "{case}");
    }
}

#[test]
fn a_node_that_joins_during_a_rollout_gets_the_configuration_at_once() {
    let joined = Node { created: at(5), ..Node::new(Agent::Applies(5)) };
    let old = Node::new(Agent::Applies(5));
    for (case, nodes, expected) in [
        (
            "the canary is in progress",
            vec![applying(), waiting(), joined.clone(), joined.clone()],
            "win-2 Assign, win-3 Assign: RollingOut 0/4",
        ),
        ("the rollout is complete", vec![done(), joined.clone()], "win-1 Assign: RollingOut 1/2"),
        ("a node that was there before waits", vec![applying(), old.clone()], ": RollingOut 0/2"),
        ("the first rollout of a pool", vec![old.clone(), joined.clone()], "win-0 Assign: RollingOut 0/2"),
        ("a halted rollout", vec![with_phase(NodeConfigPhase::Refused), joined.clone()], ": Halted 0/2, 1 failed"),
    ] {
        let mut simulation = Simulation::new(rules(), nodes);
        simulation.now = at(10);
        assert_eq!(summary(&simulation.plan()), expected, "{case}");
    }
}

#[test]
fn a_node_is_cordoned_drained_changed_and_uncordoned() {
    let mut simulation = Simulation::new(rules(), [Node { drain: true, pods: 2, ..waiting() }, done()]);
    let mut log = Vec::new();
    for _ in 0..30 {
        let plan = simulation.step(usize::MAX, 2);
        log.extend(plan.actions.iter().map(|(name, action)| format!("{name} {action:?}")));
    }
    let expected = ["Cordon", "Evict", "Evict", "Assign(Drain)", "Confirm", "Uncordon"];
    assert_eq!(log, expected.map(|action| format!("win-0 {action}")));
    assert_eq!(simulation.plan().state, RolloutState::Complete);
}

#[test]
fn a_drain_that_takes_too_long_is_a_failure_of_the_attempt_and_the_node_is_uncordoned() {
    let cordon = |since| Some(Cordon { config: "new".into(), attempt: 1, released: false, since: at(since) });
    let draining = |since| Node { cordon: cordon(since), drain: true, pods: 1, ..waiting() };
    let released = || {
        let mut node = draining(-600);
        node.cordon.as_mut().unwrap().released = true;
        node
    };
    let by_others = |node| Node { cordoned_by_others: true, ..node };
    let second = RolloutRules { attempt: 2, ..rules() };
    for (case, rules, nodes, expected) in [
        ("in time", rules(), vec![draining(-599), waiting()], "win-0 Evict: RollingOut 0/2"),
        ("too long", rules(), vec![draining(-600), waiting()], "win-0 Release: Halted 0/2, 1 failed"),
        ("recorded", rules(), vec![released(), waiting()], ": Halted 0/2, 1 failed"),
        ("cordoned by others", rules(), vec![by_others(released()), waiting()], ": Halted 0/2, 1 failed"),
        ("recorded in the last attempt", second, vec![released(), waiting()], "win-0 Cordon: RollingOut 0/2"),
        ("not desired any more", rules(), vec![Node { desired: "", ..released() }], "win-0 Uncordon: Complete"),
        ("the next attempt", second, vec![draining(-600), waiting()], "win-0 Cordon: RollingOut 0/2"),
        (
            "a configuration without a drain",
            rules(),
            vec![Node { desired: "newer", drain: false, ..draining(-600) }],
            "win-0 Assign: RollingOut 0/1",
        ),
        ("no configuration", rules(), vec![Node { desired: "", ..draining(-600) }], "win-0 Uncordon: Complete"),
    ] {
        assert_eq!(planned(rules, nodes), expected, "{case}");
    }
}

#[test]
fn a_node_that_something_else_has_changed_is_reported_or_gets_its_configuration_again_within_the_limit() {
    let changed = || {
        let mut node = done();
        node.change();
        node
    };
    let again = || {
        let mut node = changed();
        node.assign("new", 1, at(4000));
        node
    };
    let seen = |mut node: Node| {
        node.spec.as_mut().unwrap().attempt = 2;
        node.status.observed_attempt = 2;
        node
    };
    let second = RolloutRules { attempt: 2, ..rules() };
    let reapply = RolloutRules { drift: DriftPolicy::Reapply, ..rules() };
    // Each node was assigned its configuration at -500.
    for (case, rules, now, nodes, expected) in [
        ("reported", rules(), 4000, vec![changed(), done()], "win-0 has changed: Complete"),
        ("attempt", second, 0, vec![changed(), done()], "win-0 Assign, win-1 RecordAttempt: RollingOut 1/2"),
        ("changed after the attempt", second, 4000, vec![seen(changed())], "win-0 has changed: Complete"),
        ("within an hour", reapply, 3099, vec![changed()], "win-0 has changed, next in 1: Complete"),
        ("after an hour", reapply, 3100, vec![changed()], "win-0 Assign, next in 600: RollingOut 0/1"),
        ("one after the other", reapply, 4000, vec![changed(), changed()], "win-0 Assign, next in 600: RollingOut 0/2"),
        ("assigned again", reapply, 4000, vec![again()], ", next in 5: RollingOut 0/1"),
        ("no answer", reapply, 4600, vec![again()], ": Halted 0/1, 1 failed"),
    ] {
        let simulation = Simulation { now: at(now), ..Simulation::new(rules, nodes) };
        let plan = simulation.plan();
        let changed = plan.changed.iter().map(|name| format!("{name} has changed")).collect::<Vec<_>>().join(", ");
        let next = plan.next.filter(|_| rules.drift == DriftPolicy::Reapply);
        let next = next.map_or(String::new(), |next| format!(", next in {}", next.duration_since(at(now)).as_secs()));
        let (actions, state) = summary(&plan).split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!(format!("{changed}{actions}{next}: {state}"), expected, "{case}");
    }

    let mut simulation = Simulation { now: at(4000), ..Simulation::new(reapply, [changed(), changed(), done()]) };
    assert_eq!(simulation.converge().state, RolloutState::Complete);
    assert!(simulation.nodes.values().all(|node| node.runs("new") && !node.is_changed()));
}

#[test]
fn a_rollout_begins_anew_for_a_node_that_gets_its_configuration_again() {
    let mut again = done();
    again.change();
    let simulation = |node| Simulation { now: at(4000), ..Simulation::new(rules(), [node, done()]) };
    assert_eq!(simulation(again.clone()).plan().begun, None);
    again.assign("new", 2, at(3990));
    assert_eq!(simulation(again).plan().begun, Some(at(3990)));
}

#[test]
fn a_node_is_not_drained_while_pods_are_not_read() {
    let node = Node { drain: true, ..waiting() };
    let view = RolloutNode { pods: PodsToEvict::Unknown, ..node.view("win-0") };
    let plan = plan(&rules(), Maintenance::Always, &[view], at(0));
    assert_eq!(summary(&plan), ": RollingOut 0/1");
}

#[test]
fn a_node_is_drained_only_while_an_available_node_has_the_drivers_of_its_pods_or_none_takes_over() {
    let two = RolloutRules { max_unavailable: NodeLimit::Nodes(2), ..rules() };
    let draining = || Node { drain: true, pods: 1, ..waiting() };
    let table = [
        (vec!["win-0"], vec![draining(), done()], ": RollingOut 1/2", vec!["win-0"]),
        (vec!["win-0", "win-1"], vec![draining(), done()], "win-0 Cordon: RollingOut 1/2", vec![]),
        (vec!["win-0"], vec![draining(), down(done())], "win-0 Cordon: RollingOut 1/2", vec![]),
        (vec!["win-0", "win-1"], vec![draining(), draining(), done()], "win-0 Cordon: RollingOut 1/3", vec![]),
    ];
    for (takers, nodes, expected, held) in table {
        let takers: BTreeSet<&str> = takers.into_iter().collect();
        let names = ["win-0", "win-1", "win-2"];
        let views = nodes
            .iter()
            .zip(names)
            .map(|(node, name)| RolloutNode { takers: node.drain.then_some(&takers), ..node.view(name) });
        let plan = plan(&two, Maintenance::Always, &views.collect::<Vec<_>>(), at(0));
        assert_eq!(
            (summary(&plan), plan.held),
            (expected.to_owned(), held.iter().map(|name| (*name).to_owned()).collect())
        );
    }
}

#[test]
fn the_next_reconcile_is_at_the_next_deadline_or_soon_if_pods_or_heartbeats_are_awaited() {
    let unverified = with_phase(NodeConfigPhase::Verifying);
    let unverified = RolloutNode { verified: false, ..unverified.view("win-0") };
    let next = |nodes: Vec<Node>| Simulation::new(rules(), nodes).plan().next;
    assert_eq!(next(vec![applying(), waiting()]), Some(at(600)));
    assert_eq!(next(vec![waiting()]), Some(at(600)), "it begins now");
    assert_eq!(next(vec![done()]), None);
    assert_eq!(plan(&rules(), Maintenance::Always, &[unverified], at(0)).next, Some(at(5)));
}

#[test]
fn a_rollout_begins_with_its_first_node_and_has_no_beginning_once_it_is_complete() {
    let joined = |second| Node { created: at(second), ..Node::new(Agent::Applies(5)) };
    let cordon =
        |config: &str, second| Some(Cordon { config: config.into(), attempt: 1, released: false, since: at(second) });
    let assigned = |second| {
        let mut node = waiting();
        node.assign("new", 1, at(second));
        node
    };
    let released = |mut node: Node| {
        node.cordon.as_mut().unwrap().released = true;
        node
    };
    for (case, nodes, expected) in [
        ("no nodes", vec![], None),
        ("complete", vec![done(), done()], None),
        ("nothing has begun", vec![waiting(), waiting()], None),
        ("a node is cordoned", vec![Node { cordon: cordon("new", 3), ..waiting() }], Some(3)),
        ("a node is cordoned for another configuration", vec![Node { cordon: cordon("old", 3), ..waiting() }], None),
        (
            "a node could not be drained",
            vec![released(Node { cordon: cordon("new", 3), drain: true, ..waiting() })],
            Some(3),
        ),
        ("two are assigned", vec![assigned(7), assigned(4), waiting()], Some(4)),
        ("the first one is done", vec![done(), waiting()], Some(-500)),
        ("halted", vec![with_phase(NodeConfigPhase::Refused), waiting()], Some(0)),
        ("a node joins after the rollout was complete", vec![done(), joined(9)], Some(9)),
    ] {
        assert_eq!(Simulation::new(rules(), nodes).plan().begun, expected.map(at), "{case}");
    }
}
