//! A move of the workloads of a pool to other nodes, as steps for a person. Nothing is executed.

use std::{collections::HashSet, fmt, sync::Arc};

use serde::Serialize;
use winpool_api::names::label;
use winpool_core::{
    kubernetes::shell_quoted,
    text::{counted, some_of},
};
use winpool_rules::{
    capacity::Capacity,
    pool::{Snapshot, Spec, plan::Planner},
};
use winpool_workload::{Amount, Requests, Template, WorkloadName, check::Lookups};

use super::{Migration, MigrationOutcome, MigrationPlanner, MigrationTarget, WorkloadMigration, runtime_classes_after};

/// A step: what it does, what to know, and the commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    pub title: String,
    pub notes: Vec<String>,
    pub commands: Vec<String>,
}

impl Step {
    fn new(title: impl Into<String>, notes: Vec<String>, commands: Vec<String>) -> Self {
        Self { title: title.into(), notes, commands }
    }
}

/// The title, the notes, and each command in a line that begins with `$`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "   {note}"))?;
        self.commands.iter().try_for_each(|command| writeln!(f, "   $ {command}"))
    }
}

/// The old pool, the new one, and what was predicted.
struct Move<'m> {
    snapshot: &'m Snapshot,
    from: &'m str,
    to: String,
    /// The RuntimeClass of the new pool that replaces those of the old one, if both have one.
    class: Option<String>,
    /// The workloads with a RuntimeClass of the old pool.
    named: HashSet<Arc<WorkloadName>>,
    migration: Migration,
}

/// The steps of a move; none if the pool does not exist or its spec is invalid. Workloads with a RuntimeClass of the old pool get that
/// of the new one.
pub fn steps(
    planner: &MigrationPlanner<'_>,
    pool: &str,
    target: &MigrationTarget,
    lookups: &Lookups,
) -> Option<Vec<Step>> {
    let spec = |name: &str| planner.snapshot.pools.get(name)?.spec.as_ref().ok();
    let old = spec(pool)?;
    let old_classes: Vec<_> = old.runtime_classes.iter().map(|class| class.name.clone()).collect();
    let classes = match target {
        MigrationTarget::Version { name, .. } => runtime_classes_after(old, name),
        MigrationTarget::Pool(other) => spec(other)?.runtime_classes.clone(),
    };
    let class = classes.first().map(|class| class.name.clone());
    let migration = planner.plan_changed(pool, target, lookups, |template| {
        let is_old = template.runtime_class.as_ref().is_some_and(|named| old_classes.contains(named));
        (is_old && class.is_some()).then(|| Template { runtime_class: class.clone(), ..template.clone() })
    })?;
    // Two pools for different builds cannot have a RuntimeClass in common.
    let class = match target {
        MigrationTarget::Version { name, .. } if class.as_ref().is_some_and(|class| old_classes.contains(class)) => {
            Some(format!("windows-{}", name.to_lowercase()))
        }
        _ => class,
    };
    let named = planner.workloads(pool).into_iter().filter_map(|workload| {
        let class = workload.next_template()?.runtime_class.clone()?;
        Some((workload.name, class))
    });
    let moving = Move {
        snapshot: planner.snapshot,
        from: pool,
        to: match target {
            MigrationTarget::Version { name, .. } => format!("{pool}-{}", name.to_lowercase()),
            MigrationTarget::Pool(other) => other.clone(),
        },
        class,
        named: named.filter(|(_, class)| old_classes.contains(class)).map(|(name, _)| name).collect(),
        migration,
    };
    let new_pool = match target {
        MigrationTarget::Version { name, .. } => moving.surge(planner, old, name),
        MigrationTarget::Pool(_) => moving.existing(),
    };
    let check = Step::new(
        "Check the new nodes before a workload moves",
        moving.daemon_sets(),
        vec![format!("winpool status {}", moving.to), format!("winpool verify {}", moving.to)],
    );
    let steps = [new_pool, check].into_iter().chain(moving.classless()).chain(moving.waves());
    Some(steps.chain([moving.stays(), moving.removal()]).collect())
}

impl Move<'_> {
    /// A pool of its own for the new nodes, beside the old one, so that the way back is open until the old nodes go.
    fn surge(&self, planner: &MigrationPlanner<'_>, spec: &Spec, version: &str) -> Step {
        let rules = Planner::new(self.snapshot);
        let present = Capacity::of(rules.members(self.from), &Requests::of(&planner.pods));
        let moved = self.migration.workloads.iter().filter(|one| one.outcome == MigrationOutcome::Runs);
        let moved: HashSet<&WorkloadName> = moved.map(|one| one.workload.as_ref()).collect();
        let pods = planner.workloads(self.from).into_iter().filter(|one| moved.contains(one.name.as_ref()));
        let requests = pods.flat_map(|one| one.pods).map(|pod| Amount::of(&pod.template));
        let needed = present.nodes_for(requests.fold(Amount::default(), Amount::plus));
        let needed = needed.filter(|nodes| *nodes > 0).map_or(String::new(), |nodes| {
            format!(", by requests at least {}", counted(usize::try_from(nodes).unwrap_or_default(), "node"))
        });
        let file = shell_quoted(&format!("{}.yaml", self.to));
        let class = self.class.as_ref().map(|class| format!(", runtimeClasses: {class}")).unwrap_or_default();
        let notes = vec![
            format!(
                "Write pool {} like {}, with windowsVersion: {version}{class}, and a nodeSelector that only the new nodes match ({} selects {})",
                self.to, self.from, self.from, spec.members
            ),
            format!("Make nodes for it: {} has {}{needed}", self.from, counted(present.nodes, "schedulable node")),
        ];
        let export = format!("kubectl get wnp {} -o yaml >{file}    # then edit it", self.from);
        Step::new(
            format!("Make pool {} for the new nodes", self.to),
            notes,
            vec![export, format!("winpool plan {file}"), format!("kubectl apply -f {file}")],
        )
    }

    fn existing(&self) -> Step {
        let capacity = self.migration.capacity.unwrap_or_default();
        let add = if capacity.is_enough() { "" } else { ". Add nodes to it first" };
        Step::new(
            format!("Make room in pool {}", self.to),
            vec![format!("{}{add}", capacity.description())],
            vec![format!("winpool status {} --capacity", self.to)],
        )
    }

    /// DaemonSets follow the nodes.
    fn daemon_sets(&self) -> Vec<String> {
        let runs = |one: &&WorkloadMigration| one.outcome == MigrationOutcome::Runs && one.workload.kind == "DaemonSet";
        let names = some_of(self.migration.workloads.iter().filter(runs).map(|one| one.workload.to_string()));
        if names.is_empty() { Vec::new() } else { vec![format!("These start on the new nodes by themselves: {names}")] }
    }

    /// The workloads that move, those with the fewest pods first.
    fn moving(&self) -> Vec<&WorkloadMigration> {
        let runs = |one: &&WorkloadMigration| one.outcome == MigrationOutcome::Runs && one.workload.kind != "DaemonSet";
        let mut moving: Vec<_> = self.migration.workloads.iter().filter(runs).collect();
        moving.sort_by(|a, b| (a.pods, &a.workload).cmp(&(b.pods, &b.workload)));
        moving
    }

    /// The new RuntimeClass of a workload, if its present one is of the old pool.
    fn new_class(&self, workload: &WorkloadName) -> Option<&str> {
        self.class.as_deref().filter(|_| self.named.contains(workload))
    }

    /// What has no RuntimeClass of the old pool leaves it only if its nodes take no new pods.
    fn classless(&self) -> Option<Step> {
        let without = self.moving().into_iter().filter(|one| self.new_class(&one.workload).is_none());
        let names = some_of(without.map(|one| one.workload.to_string()));
        (!names.is_empty()).then(|| {
            let note =
                format!("No RuntimeClass of {} binds these, so they could return to its nodes: {names}", self.from);
            Step::new("Cordon the old nodes", vec![note], vec![format!("kubectl cordon {}", self.old_nodes())])
        })
    }

    /// The waves of 1, 2, 4 and so on: a mistake shows before many workloads have moved.
    fn waves(&self) -> Vec<Step> {
        let (moving, mut waves, mut size) = (self.moving(), Vec::new(), 1);
        let mut rest = moving.as_slice();
        while !rest.is_empty() {
            let (wave, later) = rest.split_at(size.min(rest.len()));
            (rest, size) = (later, size * 2);
            let commands = wave.iter().flat_map(|one| self.commands(&one.workload));
            let commands = commands.chain([format!("winpool status {}", self.to)]).collect();
            let pods = wave.iter().map(|one| one.pods).sum();
            let title =
                format!("Wave {}: {}, {}", waves.len() + 1, counted(wave.len(), "workload"), counted(pods, "pod"));
            let others = wave.iter().filter(|one| self.commands(&one.workload).is_empty());
            let others = some_of(others.map(|one| one.workload.to_string()));
            let note = (!others.is_empty()).then(|| format!("Create these again by what created them: {others}"));
            waves.push(Step::new(title, note.into_iter().collect(), commands));
        }
        waves
    }

    /// The commands that move a workload; none for a kind that has no rollout.
    fn commands(&self, workload: &WorkloadName) -> Vec<String> {
        let WorkloadName { kind, namespace, name } = workload;
        let class = self.new_class(workload);
        let (lower, namespace, name) = (kind.to_lowercase(), shell_quoted(namespace), shell_quoted(name));
        let kubectl = |verb: &str| format!("kubectl -n {namespace} {verb} {lower}/{name}");
        let patch = |path: &str, class: &str| {
            let body = path.split('/').rev().fold(format!("{{\"runtimeClassName\":\"{class}\"}}"), |inner, field| {
                format!("{{\"{field}\":{inner}}}")
            });
            format!("{} --type merge -p {}", kubectl("patch"), shell_quoted(&body))
        };
        match (kind.as_str(), class) {
            ("Deployment" | "StatefulSet", Some(class)) => {
                vec![patch("spec/template/spec", class), kubectl("rollout status")]
            }
            ("Deployment" | "StatefulSet", None) => vec![kubectl("rollout restart"), kubectl("rollout status")],
            ("CronJob", Some(class)) => vec![patch("spec/jobTemplate/spec/template/spec", class)],
            _ => Vec::new(),
        }
    }

    fn stays(&self) -> Step {
        let stays = self.migration.workloads.iter().filter(|one| one.outcome != MigrationOutcome::Runs);
        let notes: Vec<_> =
            stays.map(|one| format!("{} ({}): {}", one.workload, counted(one.pods, "pod"), one.message)).collect();
        let notes = if notes.is_empty() { vec!["Nothing".to_owned()] } else { notes };
        Step::new(format!("What stays behind on {} until it is changed", self.from), notes, Vec::new())
    }

    fn removal(&self) -> Step {
        let nodes = self.old_nodes();
        let commands = vec![
            format!("kubectl cordon {nodes}"),
            format!("kubectl drain {nodes} --ignore-daemonsets"),
            format!("kubectl delete wnp {}", self.from),
        ];
        let notes = vec!["Only when nothing stays behind. Then delete the machines where they were made".to_owned()];
        Step::new(format!("Remove the nodes of {}", self.from), notes, commands)
    }

    fn old_nodes(&self) -> String {
        format!("-l {}={}", label::POOL, self.from)
    }
}
