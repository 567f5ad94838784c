//! The status as text.

use std::fmt::Write as _;

use winpool_api::names::reason;
use winpool_core::{
    foreign_text::escaped,
    text::{counted, some_of, some_of_many},
};
use winpool_rules::status::overview::{Overview, PoolOverview, PoolProblem, PoolProgress};

use crate::output::{BOLD, RED, YELLOW};

/// What to do in a cluster without pools.
const NO_POOLS: &str =
    "There is no WindowsNodePool. To write pools for the existing Windows nodes, for review: winpool adopt\n";

/// The state of a pool without problems by the reason of `Ready`. Other reasons mean that it is as specified.
const STATES: &[(&str, &str)] = &[
    (reason::DELETING, "being deleted"),
    (reason::OBSERVING, "mode Observe, only status is written"),
    (reason::PAUSED, "paused, only status is written"),
];

pub fn text(overview: &Overview) -> String {
    let mut text = String::new();
    if overview.pools.is_empty() {
        text.push_str(NO_POOLS);
    }
    let width = overview.pools.iter().map(|pool| pool.name.len()).max().unwrap_or(0);
    overview.pools.iter().for_each(|pool| add_pool(pool, width, &mut text));
    if !overview.nodes_in_no_pool.is_empty() {
        let nodes = counted(overview.nodes_in_no_pool.len(), "Windows node");
        let (names, are) = (some_of(&overview.nodes_in_no_pool), nodes.agree("is", "are"));
        let _ = writeln!(
            text,
            "{YELLOW}{nodes} {are} in no pool{YELLOW:#}, without taints of winpool: {}",
            escaped(&names)
        );
    }
    for note in &overview.notes {
        let _ = writeln!(text, "{YELLOW}Note:{YELLOW:#} {}", escaped(note));
    }
    text
}

fn add_pool(pool: &PoolOverview, width: usize, text: &mut String) {
    let _ = write!(text, "{BOLD}{:<width$}{BOLD:#}  {}, ", pool.name, nodes(pool));
    let _ = match pool.problems.len() {
        0 => writeln!(text, "{}", state(pool)),
        count => writeln!(text, "{RED}{}{RED:#}", counted(count, "problem")),
    };
    for line in pool.progress.iter().map(progress).filter(|line| !line.is_empty()) {
        let _ = writeln!(text, "  {}", escaped(&line));
    }
    if let Some(capacity) = &pool.capacity {
        let _ = writeln!(text, "  {}", escaped(&capacity.to_string()));
    }
    pool.problems.iter().for_each(|problem| add_problem(problem, text));
}

fn nodes(pool: &PoolOverview) -> String {
    let nodes = counted(pool.nodes as usize, "node");
    match pool.ready_nodes {
        ready if ready == pool.nodes => nodes.to_string(),
        ready => format!("{nodes} ({ready} ready)"),
    }
}

fn state(pool: &PoolOverview) -> &'static str {
    let state = STATES.iter().find(|(reason, _)| pool.reason.as_deref() == Some(reason)).map(|(_, state)| *state);
    let changing = pool.progress.as_ref().filter(|progress| progress.running).map(|_| "a change is in progress");
    state.or(changing).unwrap_or("as specified")
}

/// How far a rollout is: counts, and the nodes that are changed now and after them.
pub fn progress(progress: &PoolProgress) -> String {
    let nodes = progress.nodes.map(|share| {
        let nodes = counted(share.total, "node");
        format!("{} of {nodes} {} configuration", share.done, nodes.agree("runs its", "run their"))
    });
    let machines = progress
        .machines
        .map(|share| format!("{} of {} from the current template", share.done, counted(share.total, "machine")));
    let named = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{what}: {}", some_of_many(names, String::clone)))
    };
    let parts = [nodes, machines, named("in work", &progress.in_work), named("next", &progress.next)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn add_problem(problem: &PoolProblem, text: &mut String) {
    let heading = format!("{}/{}", problem.condition, problem.reason);
    let place = match &problem.object {
        Some(object) => format!(" of {object}"),
        None if problem.problem == heading => String::new(),
        None => format!(", in PROBLEM {}", problem.problem),
    };
    let _ = writeln!(text, "  {RED}{}{RED:#}{}", escaped(&heading), escaped(&place));
    let affected = |names: &[String], count: usize, what: &str| {
        (!names.is_empty()).then(|| format!("{}: {}", counted(count.max(names.len()), what), some_of(names)))
    };
    let workloads = problem.count.filter(|_| problem.nodes.is_empty()).unwrap_or_default();
    let affected = [affected(&problem.nodes, 0, "node"), affected(&problem.workloads, workloads, "workload")];
    let commands = problem.commands.iter().map(|command| format!("Run: {command}"));
    for line in [problem.message.clone()].into_iter().chain(affected.into_iter().flatten()).chain(commands) {
        let _ = writeln!(text, "    {}", escaped(&line));
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use winpool_api::conditions::Harm;
    use winpool_rules::status::overview::Share;

    use super::*;

    fn pool(name: &str, nodes: u32, reason: &str) -> PoolOverview {
        PoolOverview {
            name: name.into(),
            nodes,
            ready_nodes: nodes,
            reason: Some(reason.into()),
            ..PoolOverview::default()
        }
    }

    fn problem(condition: &str, reason: &str, message: &str) -> PoolProblem {
        PoolProblem {
            condition: condition.into(),
            reason: reason.into(),
            object: None,
            harm: Harm::OpensNodes,
            subject: "Nodes",
            problem: format!("Nodes/{reason}"),
            message: message.into(),
            count: None,
            nodes: Vec::new(),
            workloads: Vec::new(),
            commands: vec![format!("winpool explain {condition}/{reason}")],
        }
    }

    fn names(prefix: &str, count: usize) -> Vec<String> {
        (1..=count).map(|number| format!("{prefix}-{number}")).collect()
    }

    fn plain(overview: &Overview) -> String {
        strip_str(&text(overview)).to_string()
    }

    #[test]
    fn a_healthy_fleet_is_one_line_for_each_pool() {
        let rolling =
            PoolProgress { running: true, nodes: Some(Share { done: 1, total: 3 }), ..PoolProgress::default() };
        let overview = Overview {
            pools: vec![
                PoolOverview { ready_nodes: 5, ..pool("batch", 6, "AsSpecified") },
                pool("idle", 0, "AsSpecified"),
                pool("looking", 1, "Observing"),
                pool("off", 2, "Paused"),
                PoolOverview { progress: Some(rolling), ..pool("web-2022", 3, "AsSpecified") },
            ],
            ..Overview::default()
        };
        insta::assert_snapshot!(plain(&overview), @r"
        batch     6 nodes (5 ready), as specified
        idle      0 nodes, as specified
        looking   1 node, mode Observe, only status is written
        off       2 nodes, paused, only status is written
        web-2022  3 nodes, a change is in progress
          1 of 3 nodes run their configuration
        ");
        assert_eq!(plain(&Overview::default()), NO_POOLS);
    }

    #[test]
    fn a_problem_has_its_message_what_it_affects_and_commands() {
        let stranded = PoolProblem {
            nodes: names("web", 7),
            workloads: vec!["Deployment shop/cart".into()],
            count: Some(7),
            ..problem("NodesTainted", "WouldStrandPods", "1 workload does not \u{1b}[31mtolerate it")
        };
        let issue = PoolProblem {
            workloads: names("Deployment shop/app", 2),
            count: Some(60),
            ..problem("WorkloadsPlaced", "Unschedulable", "no node")
        };
        let blocked = PoolProblem {
            object: Some("MachineSet prod/web-1".into()),
            ..problem("ScalingUp", "ScalingUp", "is blocked")
        };
        let progress = PoolProgress {
            machines: Some(Share { done: 0, total: 3 }),
            in_work: names("web", 1),
            next: names("next", 7),
            ..PoolProgress::default()
        };
        let web = PoolOverview {
            problems: vec![stranded, issue, blocked],
            progress: Some(progress),
            ..pool("web", 7, "WouldStrandPods")
        };
        let overview = Overview {
            pools: vec![web],
            nodes_in_no_pool: names("alone", 2),
            notes: vec!["pods are\nnot listed".into()],
        };
        insta::assert_snapshot!(plain(&overview), @r"
        web  7 nodes, 3 problems
          0 of 3 machines from the current template; in work: web-1; next: next-1, next-2, next-3, next-4, next-5 and 2 more
          NodesTainted/WouldStrandPods, in PROBLEM Nodes/WouldStrandPods
            1 workload does not \u{1b}[31mtolerate it
            7 nodes: web-1, web-2, web-3, web-4, web-5 and 2 more
            1 workload: Deployment shop/cart
            Run: winpool explain NodesTainted/WouldStrandPods
          WorkloadsPlaced/Unschedulable, in PROBLEM Nodes/Unschedulable
            no node
            60 workloads: Deployment shop/app-1, Deployment shop/app-2
            Run: winpool explain WorkloadsPlaced/Unschedulable
          ScalingUp/ScalingUp of MachineSet prod/web-1
            is blocked
            Run: winpool explain ScalingUp/ScalingUp
        2 Windows nodes are in no pool, without taints of winpool: alone-1, alone-2
        Note: pods are not listed
        ");
    }
}
