//! What a plan says, as data.

use serde::Serialize;

use crate::{
    api::names::{condition, reason},
    domain::{
        node::WindowsNode,
        operation::{Done, Operation, Outcome},
        pool::{
            Pool, Snapshot,
            plan::{Plan, Planner},
            status::report,
        },
        upgrade::{self, Concern},
    },
    facts::Minor,
};

/// What would change, and what an upgrade would break.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The pools, by name.
    pub pools: Vec<PoolPreview>,
    /// Windows nodes that no pool takes: nothing guards them.
    pub nodes_in_no_pool: Vec<String>,
    /// What an upgrade would break, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
}

/// What would change for one pool.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolPreview {
    /// Its name.
    pub name: String,
    /// Whether the operator writes for it.
    pub writes: Writes,
    /// What would be written, in order.
    pub changes: Vec<Change>,
    /// What would be written if the pool enforced.
    pub withheld: Vec<Change>,
    /// What the pool asks for and would not get, and why.
    pub held: Vec<Told>,
    /// What is not right with its nodes as they are.
    pub flags: Vec<Told>,
}

/// Whether the operator writes for a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Writes {
    /// It does.
    Enforce,
    /// It only reports.
    Observe,
    /// It only reports, for now.
    Paused,
    /// The pool is being deleted.
    Deleting,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The kind of the object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What is done, in words.
    pub words: String,
}

/// A condition that is not as one wishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Its type.
    pub condition: String,
    /// Its reason.
    pub reason: String,
    /// The story, and the remedy.
    pub message: String,
}

/// What an upgrade would meet.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// The minor to which everything is upgraded.
    pub kubernetes: String,
    /// That of the API server now, if it said.
    pub from: Option<String>,
    /// What breaks, and what changes.
    pub findings: Vec<Finding>,
}

/// One thing that an upgrade would meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The pool of the nodes, if they have one.
    pub pool: Option<String>,
    /// What it is about.
    pub concern: &'static str,
    /// Whether something breaks; if not, it is only good to know.
    pub breaks: bool,
    /// What happens, and the remedy.
    pub message: String,
    /// The nodes.
    pub nodes: Vec<String>,
}

/// The conditions of which False means that something asked for is not done.
const ASKED: [&str; 6] = [
    condition::SPEC_VALID,
    condition::PROFILE_RESOLVED,
    condition::NODES_ASSIGNED,
    condition::RUNTIME_CLASS_READY,
    condition::NODES_CONFIGURED,
    condition::CONFIG_RENDERED,
];
/// The flags, and what each is when something is not right.
const FLAGS: [(&str, &str); 5] = [
    (condition::VERSION_SKEW, "True"),
    (condition::OS_MISMATCH, "True"),
    (condition::OS_SUPPORTED, "False"),
    (condition::RUNTIME_SUPPORTED, "False"),
    (condition::CONFIG_IN_EFFECT, "False"),
];

impl Preview {
    /// Plans everything in a snapshot.
    pub fn of(snapshot: &Snapshot, target: Option<Minor>) -> Self {
        let planner = Planner::new(snapshot);
        let alone: Vec<&WindowsNode> = planner.in_no_pool().collect();
        Self {
            pools: snapshot
                .pools
                .keys()
                .filter_map(|name| planner.plan(name))
                .map(|plan| pool(snapshot, plan))
                .collect(),
            nodes_in_no_pool: alone.iter().map(|node| node.name.clone()).collect(),
            upgrade: target.map(|target| Upgrade {
                kubernetes: target.to_string(),
                from: snapshot.api_server.map(|minor| minor.to_string()),
                findings: findings(snapshot, &planner, &alone, target),
            }),
        }
    }

    /// What would change or break, in one line; `None` if nothing.
    pub fn verdict(&self) -> Option<String> {
        let changing = self.pools.iter().filter(|pool| !pool.changes.is_empty()).count();
        let held = self.pools.iter().filter(|pool| !pool.held.is_empty()).count();
        let breaking =
            self.upgrade.iter().flat_map(|upgrade| &upgrade.findings).filter(|finding| finding.breaks).count();
        let parts = [(changing, "would change"), (held, "would not get what is asked for")];
        let counted = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let mut words: Vec<String> = parts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", counted(count, "pool", "pools")))
            .collect();
        if breaking > 0 {
            words.push(format!("the upgrade would break {}", counted(breaking, "thing", "things")));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

fn pool(snapshot: &Snapshot, plan: Plan) -> PoolPreview {
    let results = plan.steps.iter().flatten().map(|operation| (operation.clone(), Outcome::Done)).collect();
    let conditions = report(snapshot, &plan, &Done { results, complete: true }).status.conditions;
    let told = |wrong: &dyn Fn(&str, &str) -> bool| {
        let wrong = conditions.iter().filter(|condition| wrong(&condition.type_, &condition.status));
        // What only waits for the pool to enforce is told as such.
        let waits = [reason::OBSERVING, reason::PAUSED];
        wrong
            .filter(|condition| !waits.contains(&condition.reason.as_str()))
            .map(|condition| Told {
                condition: condition.type_.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
            })
            .collect()
    };
    PoolPreview {
        name: plan.pool.name.clone(),
        writes: writes(&plan.pool),
        held: told(&|condition, status| ASKED.contains(&condition) && status == "False"),
        flags: told(&|condition, status| FLAGS.contains(&(condition, status))),
        changes: plan.steps.iter().flatten().filter_map(change).collect(),
        withheld: plan.withheld.iter().filter_map(change).collect(),
    }
}

fn writes(pool: &Pool) -> Writes {
    match &pool.spec {
        _ if pool.deleting => Writes::Deleting,
        Ok(spec) if spec.paused => Writes::Paused,
        Ok(_) if !pool.enforces() => Writes::Observe,
        _ => Writes::Enforce,
    }
}

/// What an operation does; `None` for our own book-keeping.
pub fn change(operation: &Operation) -> Option<Change> {
    let words = operation.words()?;
    let (object, words) = words.split_once(": ")?;
    let (kind, name) = object.split_once(' ')?;
    Some(Change { kind: kind.to_owned(), name: name.to_owned(), words: words.to_owned() })
}

/// What breaks first, then what only changes.
fn findings(snapshot: &Snapshot, planner: &Planner, alone: &[&WindowsNode], target: Minor) -> Vec<Finding> {
    let of = |pool: Option<&Pool>, nodes: &[&WindowsNode]| -> Vec<Finding> {
        let found = upgrade::findings(snapshot, pool, nodes, target);
        let named = |finding: upgrade::Finding| Finding {
            pool: pool.map(|pool| pool.name.clone()),
            concern: Concern::as_str(finding.concern),
            breaks: finding.breaks,
            message: finding.message,
            nodes: finding.nodes,
        };
        found.into_iter().map(named).collect()
    };
    let pools = snapshot.pools.values().filter(|pool| !pool.deleting);
    let mut all: Vec<Finding> =
        pools.flat_map(|pool| of(Some(pool), &planner.members(&pool.name).collect::<Vec<_>>())).collect();
    all.extend(of(None, alone));
    all.sort_by_key(|finding| !finding.breaks);
    all
}
