//! The status as text.

use std::fmt::Write as _;

use winpool_api::names::reason;
use winpool_core::{
    foreign_text::escaped,
    status::overview::{Overview, PoolOverview, Problem, Progress},
    text::{counted, some_of, some_of_many},
};

use crate::commands::output::{BOLD, RED, YELLOW};

/// What to do in a cluster without pools.
const NO_POOLS: &str =
    "There is no WindowsNodePool. To write pools for the existing Windows nodes, for review: winpool adopt\n";

/// The state of a pool without problems by the reason of `Ready`. Other reasons mean that it is as specified.
const STATES: &[(&str, &str)] = &[
    (reason::DELETING, "being deleted"),
    (reason::OBSERVING, "mode Observe, only status is written"),
    (reason::PAUSED, "paused, only status is written"),
];

/// The status as text.
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
pub fn progress(progress: &Progress) -> String {
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

fn add_problem(problem: &Problem, text: &mut String) {
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
