//! The status as text.

use std::fmt::Write as _;

use winpool_api::{conditions::KNOWN_ISSUES, names::reason};
use winpool_core::{
    foreign_text::escaped,
    text::{counted, some_of, some_of_many},
};
use winpool_rules::status::overview::{IssueOverview, Overview, PoolOverview, PoolProblem, PoolProgress};

use crate::output::{BOLD, RED, YELLOW};

/// What to do in a cluster without pools.
const NO_POOLS: &str =
    "There is no WindowsNodePool. To write pools for the existing Windows nodes, for review: winpool adopt\n";

/// The most problems of several pools that are printed with all their lines. More are one line each, so that eight pools fit on a screen.
const MAX_DETAILED: usize = 4;

/// What ends a status in which a problem is one line.
const DETAILS: &str = "Messages, affected nodes and commands: winpool status POOL";

/// The state of a pool without problems by the reason of `Ready`. Other reasons mean that it is as specified.
const STATES: &[(&str, &str)] =
    &[(reason::DELETING, "being deleted"), (reason::OBSERVING, "mode Observe, only status is written")];

/// The status. Lines of problems that are one line each are cut at `width`.
pub fn text(overview: &Overview, width: Option<usize>) -> String {
    let mut text = String::new();
    let with_problems = overview.pools.iter().filter(|pool| !pool.problems.is_empty());
    let is_brief = with_problems.clone().count() > 1
        && with_problems.map(|pool| pool.problems.len()).sum::<usize>() > MAX_DETAILED;
    if overview.pools.is_empty() {
        text.push_str(NO_POOLS);
    }
    let column = overview.pools.iter().map(|pool| pool.name.len()).max().unwrap_or(0);
    for pool in &overview.pools {
        add_pool(pool, column, &mut text);
        for problem in pool.problems.iter().filter(|problem| !is_in_issues(problem, pool, overview)) {
            match is_brief {
                true => text.push_str(&brief(problem, width)),
                false => add_problem(problem, &mut text),
            }
        }
    }
    add_issues(overview, is_brief.then_some(width).flatten(), &mut text);
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
    if is_brief {
        let _ = writeln!(text, "{DETAILS}");
    }
    text
}

/// Whether a problem of a pool is among the known issues of all pools.
fn is_in_issues(problem: &PoolProblem, pool: &PoolOverview, overview: &Overview) -> bool {
    problem.condition == KNOWN_ISSUES.name && overview.known_issues.iter().any(|issue| issue.pools.contains(&pool.name))
}

/// A problem in one line.
fn brief(problem: &PoolProblem, width: Option<usize>) -> String {
    let heading = format!("{}/{}", problem.condition, problem.reason);
    let line = cut(&format!("  {heading}: {}", problem.message), width);
    // The heading may be cut too.
    let (start, rest) = line.split_at_checked(heading.len() + 2).unwrap_or((line.as_str(), ""));
    format!("{RED}{start}{RED:#}{rest}\n")
}

/// A line of at most this number of characters.
fn cut(line: &str, width: Option<usize>) -> String {
    let line = escaped(line);
    match width.filter(|width| line.chars().count() > *width) {
        Some(width) => line.chars().take(width - 1).chain(['…']).collect(),
        None => line.into_owned(),
    }
}

fn add_issues(overview: &Overview, width: Option<usize>, text: &mut String) {
    let Some(first) = overview.known_issues.first() else { return };
    let _ = writeln!(text, "{YELLOW}Known issues of nodes{YELLOW:#}, for instance: winpool explain {}", first.id);
    for issue in &overview.known_issues {
        let (nodes, pools) = (counted(issue.nodes.len(), "node"), some_of(&issue.pools));
        let IssueOverview { id, severity, title, remedy, .. } = issue;
        let _ =
            writeln!(text, "{}", cut(&format!("  {id} ({severity}), {nodes} of {pools}: {title}. {remedy}"), width));
    }
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
    let window = progress.next_window.map(|begins| format!("the next maintenance window begins at {begins}"));
    let parts = [nodes, machines, named("in work", &progress.in_work), named("next", &progress.next), window];
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
    use crate::wrap::wrapped;

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
        strip_str(&text(overview, Some(100))).to_string()
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
                PoolOverview { progress: Some(rolling), ..pool("web-2022", 3, "AsSpecified") },
            ],
            ..Overview::default()
        };
        insta::assert_snapshot!(plain(&overview), @r"
        batch     6 nodes (5 ready), as specified
        idle      0 nodes, as specified
        looking   1 node, mode Observe, only status is written
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
            ..Overview::default()
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

    #[test]
    fn eight_pools_with_problems_fit_on_a_screen_with_a_known_issue_once() {
        let message = "6 nodes have another build than the pool, which its pods do not run on. ".repeat(5);
        let pool = |name: String| {
            let known = problem("KnownIssues", "SevereIssues", &message);
            let problems = [
                problem("OSMismatch", "NodeBuildDiffers", &message),
                problem("VersionSkew", "KubeletTooOld", &message),
            ];
            PoolOverview { problems: problems.into_iter().chain([known]).collect(), ..pool(&name, 6, "AsSpecified") }
        };
        let pools: Vec<_> = names("pool", 8).into_iter().map(pool).collect();
        let issue = |id| IssueOverview {
            id,
            severity: "high",
            title: "a user who can create pods runs programs as an administrator of the node",
            remedy: "Upgrade the kubelet to 1.34.5 or later".into(),
            pools: names("pool", 8),
            nodes: names("win", 48),
        };
        let overview = Overview {
            pools,
            known_issues: ["CVE-2026-1", "CVE-2026-2", "CVE-2026-3"].map(issue).into(),
            nodes_in_no_pool: names("alone", 9),
            ..Overview::default()
        };
        let shown = wrapped(&plain(&overview), 100);
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines.len() <= 40 && lines.iter().all(|line| line.chars().count() <= 100), "{shown}");
        assert_eq!((lines[0], lines.last()), ("pool-1  6 nodes, 3 problems", Some(&DETAILS)));
        assert!(
            lines[1].starts_with("  OSMismatch/NodeBuildDiffers: 6 nodes have") && lines[1].ends_with('…'),
            "{shown}"
        );
        assert!(
            shown
                .contains("  CVE-2026-1 (high), 48 nodes of pool-1, pool-2, pool-3, pool-4, pool-5 and 3 more: a user")
        );
        assert_eq!(shown.matches("a user who").count(), 3, "{shown}");
        let one = Overview { pools: overview.pools[..1].to_vec(), ..overview };
        assert!(plain(&one).contains("\n    Run: winpool explain OSMismatch/NodeBuildDiffers\n"), "{}", plain(&one));
    }
}
