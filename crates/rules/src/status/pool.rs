//! The status of a pool, computed from the observed state and the outcomes of writes, not from the plan alone.

mod affected;
mod cluster_api;
mod delivery;
mod events;
mod hygiene;
mod input;
mod known_issues;
mod kubelet;
pub mod rendering;
mod required;
mod runtime;
mod selection;
mod summary;
mod windows;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use affected::{Affected, ReportedIssue, affected, reported_issues};
use input::ReportInput;
pub use input::{list_nodes, list_sentence};
pub use summary::{Situation, Summaries};
use summary::{Summary, see};
use winpool_api::{
    BuildCount, Columns, ConfigStatus, KubeletCount, NodeCounts, Pending, RuntimeClassState, RuntimeClassStatus,
    WindowsNodePoolStatus,
    bounds::bounded,
    conditions::{ComputedCondition, NODES_ASSIGNED, READY, RECONCILING, Role, SPEC_VALID, STALLED, condition_type},
    names::{OWNERSHIP_SECRET, reason},
};
use winpool_facts::{Build, ContainerRuntime, ContainerdLine, KubeletVersion, builds};

use super::{
    Report,
    condition::{merge_conditions, sort},
};
use crate::{
    operation::{Action, Done, Write, WriteTarget},
    pool::{
        Pool, Snapshot,
        classes::ClassPlan,
        configs,
        plan::{ActivePool, Member, Phase, Plan},
    },
};
use winpool_core::{
    Problem,
    kind::Kind,
    text::{counted, some_messages, some_of},
};
use winpool_render::{Variant, reserve::ConfigState};

/// The longest time between two reconciles, because support ends without an event.
const RESYNC: Duration = Duration::from_secs(6 * 60 * 60);
/// When to reconcile again if writes are delayed because another client reverts or deletes objects.
const DELAYED: Duration = Duration::from_secs(30);
/// When to reconcile again if taints are held because of pods.
const TAINTS_HELD: Duration = Duration::from_secs(30);
/// When to reconcile again if taints wait for the first list of pods.
const PODS_AWAITED: Duration = Duration::from_secs(2);
/// When to reconcile again if a RuntimeClass waits for labels that other pools set.
const LABELS_AWAITED: Duration = Duration::from_secs(2);
/// When to list nodes again at the end of a cleanup.
const NODES_AWAITED: Duration = Duration::from_secs(10);
/// The number of pending changes in status.
const LISTED: usize = 5;

pub fn report(snapshot: &Snapshot, plan: &Plan, done: &Done) -> Report<WindowsNodePoolStatus> {
    let pool = plan.pool.as_ref();
    let (status, requeue_after) = match (&plan.phase, &pool.spec) {
        (Phase::Retained, _) => (pool.status.clone(), None),
        (Phase::Invalid, Err(problems)) => {
            (stalled_by(snapshot, pool, SPEC_VALID.because(reason::INVALID, Problem::list(problems))), None)
        }
        (Phase::NodesRefused, _) => {
            let message = required::list_refused(Kind::NODE);
            (stalled_by(snapshot, pool, NODES_ASSIGNED.because(reason::LIST_REFUSED, message)), None)
        }
        (Phase::Active(active), Ok(spec)) => {
            let withheld = !pool.enforces();
            let input = ReportInput { snapshot, pool, spec, active, done, withheld };
            active_status(&input, plan)
        }
        (Phase::CleaningUp { nodes, handed_over, unverified, awaits_unwatched }, _) => (
            cleaning_up(snapshot, plan, *nodes, handed_over, unverified, done),
            awaits_unwatched.then_some(NODES_AWAITED),
        ),
        (Phase::Invalid, Ok(_)) | (Phase::Active(_), Err(_)) => (pool.status.clone(), None),
    };
    let deleted = pool.deleting && done.written().any(|write| write.action == Action::RemoveFinalizer);
    let status = bounded(status);
    // The pool is planned again at once, so the state in between is not reported.
    let superseded = done.is_superseded();
    let differs = status != pool.status && !superseded && !deleted;
    let events = events::events(plan, done, if superseded { &pool.status } else { &status });
    let object = || WriteTarget::new(Kind::POOL, &pool.name);
    let write = differs.then(|| Write::status(Action::WriteStatus, object(), &pool.resource_version, &status));
    Report { status, write, events, requeue_after }
}

/// The status of a pool for which nothing is done because of one problem. Other parts of the stored status are kept.
fn stalled_by(snapshot: &Snapshot, pool: &Pool, problem: ComputedCondition) -> WindowsNodePoolStatus {
    let summaries = [&READY, &STALLED].map(|of| of.because(problem.reason, see(&[&problem])));
    let name = problem.of.problem_name(problem.reason);
    let computed: Vec<_> = summaries.into_iter().chain([problem]).collect();
    partial(snapshot, pool, &computed, Columns { problem: name, ..pool.status.columns.clone() })
}

fn cleaning_up(
    snapshot: &Snapshot,
    plan: &Plan,
    nodes: usize,
    handed_over: &[String],
    unverified: &[String],
    done: &Done,
) -> WindowsNodePoolStatus {
    let pool = plan.pool.as_ref();
    let failures: Vec<_> = done.failures().collect();
    let message = match (handed_over, failures.is_empty()) {
        ([_, ..], _) => format!("the cleanup waits until other pools have {}", some_of(handed_over)),
        (_, false) => format!("the cleanup is retried: {}", some_of(failures)),
        _ if !snapshot.refused.is_empty() => {
            format!("the cleanup waits: {}", some_messages(snapshot.refused.iter().map(|kind| required::list_refused(*kind))))
        }
        _ if !unverified.is_empty() => format!(
            "the cleanup waits: the records on {} cannot be verified with the key in Secret {OWNERSHIP_SECRET}, so nothing is \
             removed from these nodes. Restore the former Secret and restart the operator, or run: winpool cleanup --pool {} \
             --trust-records",
            some_of(unverified),
            pool.name
        ),
        _ if plan.awaits_unwatched() => {
            "the cleanup waits until all nodes can be listed: nodes without the label kubernetes.io/os=windows may have taints \
             and labels of the pool. The log of the operator has the error"
                .to_owned()
        }
        _ => format!("labels, taints and annotations of the pool are being removed from {}", counted(nodes, "node")),
    };
    let ready = READY.because(reason::DELETING, message);
    let reconciling = RECONCILING.because(reason::DELETING, see(&[&ready]));
    let columns = Columns { problem: reason::DELETING.to_owned(), ..pool.status.columns.clone() };
    partial(snapshot, pool, &[ready, reconciling], columns)
}

/// The stored status with some conditions and columns replaced, and with no other summaries.
fn partial(
    snapshot: &Snapshot,
    pool: &Pool,
    computed: &[ComputedCondition],
    columns: Columns,
) -> WindowsNodePoolStatus {
    let before = &pool.status.conditions;
    let mut conditions = merge_conditions(before, computed, snapshot.now);
    let stays = |old: &&Condition| {
        let is_summary = condition_type(&old.type_).is_some_and(|of| of.role == Role::Summary);
        !is_summary && !computed.iter().any(|new| new.of.name == old.type_)
    };
    // They are still about the generation for which they were computed.
    let of = pool.status.observed_generation.filter(|of| *of != pool.generation);
    let kept = |old: &Condition| Condition { observed_generation: old.observed_generation.or(of), ..old.clone() };
    conditions.extend(before.iter().filter(stays).map(kept));
    sort(&mut conditions);
    WindowsNodePoolStatus { observed_generation: Some(pool.generation), conditions, columns, ..pool.status.clone() }
}

fn active_status(input: &ReportInput, plan: &Plan) -> (WindowsNodePoolStatus, Option<Duration>) {
    let (pool, spec, active) = (input.pool, input.spec, input.active);
    let states = required::class_states(input);
    let nodes = counts(input);
    let machines_templated = cluster_api::machines_templated(input);
    // Of problems that do the same harm, the first is the worst.
    let found = [
        Some(required::spec_valid(input)),
        required::profile_resolved(input),
        required::config_rendered(input),
        Some(required::runtime_class_ready(input, &states)),
        Some(required::nodes_assigned(input)),
        Some(required::nodes_tainted(input)),
        windows::os_mismatch(input),
        kubelet::version_skew(input),
        windows::os_supported(input),
        runtime::runtime_supported(input),
        kubelet::config_in_effect(input, machines_templated.as_ref()),
        machines_templated,
        workloads::workloads_placed(input),
        known_issues::known_issues(input),
        hygiene::node_hygiene(input),
    ];
    let found: Vec<_> = found.into_iter().flatten().collect();
    let Summary { conditions, problem, grace } = summary::summary(input, &found);
    let computed: Vec<_> = conditions.into_iter().chain(found).collect();
    let status = WindowsNodePoolStatus {
        cluster_api: cluster_api::status(input),
        observed_generation: Some(pool.generation),
        windows_build: spec.build.to_string(),
        nodes,
        builds: build_counts(input),
        kubelets: kubelet_counts(active),
        runtime_classes: class_rows(states),
        configs: config_rows(input),
        pending: pending(plan, rendering::pending(input.snapshot, active)),
        workloads: workloads::counts(input),
        matched_selector: selection::matched_selector(input),
        unmatched_since: selection::unmatched_since(input),
        applied: if !input.withheld { active.applied.clone() } else { pool.status.applied.clone() },
        conditions: merge_conditions(&pool.status.conditions, &computed, input.snapshot.now),
        columns: Columns {
            nodes: format!("{}/{}", nodes.ready, nodes.matched),
            tainted: match spec.taints.as_slice() {
                [] => "-".to_owned(),
                _ => format!("{}/{}", nodes.tainted, nodes.matched),
            },
            configured: format!("{}/{}", nodes.configured, nodes.matched),
            kubelet: kubelet_range(active),
            problem,
            runtime_class: spec.runtime_classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(","),
            support: builds::release(spec.build)
                .map_or_else(|| "unknown".to_owned(), |release| release.final_end().to_string()),
        },
        omitted: BTreeMap::new(),
    };
    let selects = selection::decided_at(input).map(|decided| until(input, decided));
    let later = [delayed_writes(input), rollout_step(input), maintenance_step(input), selects];
    let requeue_after = grace.into_iter().chain([RESYNC]).chain(later.into_iter().flatten()).min();
    (status, requeue_after)
}

/// When to retry held or delayed writes.
fn delayed_writes(input: &ReportInput) -> Option<Duration> {
    let contested = input.active.classes.iter().any(|class| class.state == RuntimeClassState::Contested);
    let on_nodes = input.active.members.iter().filter_map(|member| member.plan.retry_at).min();
    let on_nodes = on_nodes.map(|at| until(input, at));
    let holds = |member: &Member| member.has(reason::WOULD_EVICT) || member.has(reason::WOULD_STRAND_PODS);
    let held = input.active.members.iter().any(holds).then_some(if input.snapshot.pods_are_awaited() {
        PODS_AWAITED
    } else {
        TAINTS_HELD
    });
    let waits = |class: &ClassPlan| class.state == RuntimeClassState::Pending && class.explanation.is_some();
    let labels = input.active.classes.iter().any(waits).then_some(LABELS_AWAITED);
    let delayed = contested || !input.active.configs.delayed.is_empty();
    delayed.then_some(DELAYED).into_iter().chain(on_nodes).chain(held).chain(labels).min()
}

/// When the rollout goes on without an event: at a deadline, or when pods and heartbeats are checked again.
fn rollout_step(input: &ReportInput) -> Option<Duration> {
    delivery::rollout(input)?.next.map(|next| until(input, next))
}

/// When a maintenance window begins or ends.
fn maintenance_step(input: &ReportInput) -> Option<Duration> {
    let changes = input.spec.maintenance.at(input.snapshot.now).changes().filter(|_| !input.withheld);
    changes.map(|changes| until(input, changes))
}

fn until(input: &ReportInput, time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(input.snapshot.now)).unwrap_or_default()
}

fn counts(input: &ReportInput) -> NodeCounts {
    let members = &input.active.members;
    let count = |wanted: &dyn Fn(&Member) -> bool| {
        u32::try_from(members.iter().filter(|member| wanted(member)).count()).unwrap_or(u32::MAX)
    };
    NodeCounts {
        matched: count(&|_| true),
        ready: count(&|member| member.node.ready),
        tainted: count(&Member::is_tainted),
        configured: count(&|member| delivery::is_configured(input, member)),
        mismatched: count(&|member| windows::is_mismatched(input.spec, &member.node)),
        skewed: count(&|member| kubelet::is_skewed(input.snapshot, &member.node)),
        behind: count(&|member| member.config_state.as_ref().is_some_and(|state| *state != ConfigState::InEffect)),
        contested: u32::try_from(input.active.shared.len()).unwrap_or(u32::MAX),
        pending: count(&|member| !member.is_tainted()),
    }
}

/// The RuntimeClasses that the pool names come first.
fn class_rows(states: BTreeMap<String, RuntimeClassState>) -> Vec<RuntimeClassStatus> {
    let mut rows: Vec<_> = states.into_iter().map(|(name, state)| RuntimeClassStatus { name, state }).collect();
    rows.sort_by_key(|row| row.state == RuntimeClassState::Unused);
    rows
}

/// The builds of the nodes, unless all run that of the pool in one revision.
fn build_counts(input: &ReportInput) -> Vec<BuildCount> {
    let mut rows: BTreeMap<Option<Build>, (BTreeSet<u32>, u32)> = BTreeMap::new();
    for member in &input.active.members {
        let row = rows.entry(member.node.build()).or_default();
        row.0.extend(member.node.os.as_ref().ok().and_then(|version| version.revision));
        row.1 += 1;
    }
    if rows.len() == 1 && rows.get(&Some(input.spec.build)).is_some_and(|(revisions, _)| revisions.len() <= 1) {
        return Vec::new();
    }
    let mut rows: Vec<_> = rows
        .into_iter()
        .map(|(build, (revisions, nodes))| BuildCount {
            build: or_unknown(build),
            revisions: range(&revisions, "..").unwrap_or_default(),
            nodes,
        })
        .collect();
    rows.sort_by(|a, b| b.nodes.cmp(&a.nodes).then_with(|| a.build.cmp(&b.build)));
    rows
}

/// The versions of the kubelets, unless all are the same.
fn kubelet_counts(active: &ActivePool) -> Vec<KubeletCount> {
    let mut rows: BTreeMap<Option<KubeletVersion>, u32> = BTreeMap::new();
    for member in &active.members {
        *rows.entry(member.node.kubelet.as_ref().ok().copied()).or_default() += 1;
    }
    let differ = rows.len() > 1;
    let rows = rows.into_iter().rev().filter(|_| differ);
    rows.map(|(version, nodes)| KubeletCount { version: or_unknown(version), nodes }).collect()
}

fn or_unknown(version: Option<impl ToString>) -> String {
    version.map_or_else(|| "unknown".to_owned(), |version| version.to_string())
}

fn kubelet_range(active: &ActivePool) -> String {
    let versions: BTreeSet<_> = active.members.iter().filter_map(|member| member.node.kubelet.as_ref().ok()).collect();
    range(&versions, "-").unwrap_or_else(|| "-".to_owned())
}

/// The least and the greatest value; `None` without values.
fn range<T: Ord + ToString>(values: &BTreeSet<T>, separator: &str) -> Option<String> {
    let (least, greatest) = (values.first()?.to_string(), values.last()?.to_string());
    Some(if values.len() == 1 { least } else { format!("{least}{separator}{greatest}") })
}

/// The rendered variants, unless there is one that all nodes run.
fn config_rows(input: &ReportInput) -> Vec<ConfigStatus> {
    use configs::Rendering;
    let (pool, active) = (input.pool, input.active);
    if matches!(
        active.configs.state,
        Rendering::NotFound | Rendering::Invalid(_) | Rendering::ProfilesRefused | Rendering::ConfigMapsRefused
    ) {
        return pool.status.configs.clone();
    }
    let mut rows: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for member in &active.members {
        let Some(name) = active.configs.name_for(&member.node) else { continue };
        let row = rows.entry(name).or_default();
        row.0 += 1;
        row.1 += u32::from(delivery::is_configured(input, member));
    }
    let row = |(name, variants): (&str, &BTreeSet<Variant>)| {
        let (wanted, in_effect) = rows.get(name).copied().unwrap_or_default();
        ConfigStatus {
            name: name.to_owned(),
            kubelet: distinct(variants, |variant| variant.kubelet, ToString::to_string),
            containerd: distinct(variants, |variant| variant.runtime, runtime_text),
            build: distinct(variants, |variant| variant.host, ToString::to_string),
            wanted,
            in_effect,
        }
    };
    let rendered = active.configs.configs.iter().map(|(name, config)| (name.as_str(), &config.variants));
    let rows: Vec<_> = rendered.chain(active.configs.kept()).map(row).collect();
    let nodes = active.members.len();
    match rows.as_slice() {
        [only] if nodes > 0 && usize::try_from(only.in_effect) == Ok(nodes) => Vec::new(),
        _ => rows,
    }
}

/// The different values of a part of variants, in order.
fn distinct<T: Ord>(variants: &BTreeSet<Variant>, part: fn(&Variant) -> T, text: fn(&T) -> String) -> String {
    let parts: BTreeSet<T> = variants.iter().map(part).collect();
    let mut texts: Vec<String> = parts.iter().map(text).collect();
    texts.dedup();
    texts.join(", ")
}

/// The release line of containerd, or `docker`.
fn runtime_text(runtime: &ContainerRuntime<ContainerdLine>) -> String {
    match runtime {
        ContainerRuntime::Containerd(line) => line.to_string(),
        ContainerRuntime::CriDockerd => "docker".to_owned(),
    }
}

/// The writes that are withheld, and what existing nodes and machines keep.
fn pending(plan: &Plan, kept: Vec<String>) -> Pending {
    let changes: Vec<String> = plan.withheld.iter().filter_map(Write::summary).chain(kept).collect();
    Pending {
        count: u32::try_from(changes.len()).unwrap_or(u32::MAX),
        first: changes.into_iter().take(LISTED).collect(),
    }
}

#[cfg(test)]
mod tests {
    use ContainerRuntime::{Containerd, CriDockerd};
    use winpool_facts::{Build, Minor};

    use super::*;

    #[test]
    fn the_parts_of_variants_are_listed_once_and_in_order() {
        let line = |minor| Containerd(ContainerdLine { major: 2, minor });
        let table = [
            (vec![], ["", "", ""]),
            (vec![(31, line(1), 20348)], ["1.31", "2.1", "10.0.20348"]),
            (
                vec![(32, line(1), 17763), (31, line(0), 20348), (31, line(1), 20348)],
                ["1.31, 1.32", "2.0, 2.1", "10.0.17763, 10.0.20348"],
            ),
            (vec![(33, CriDockerd, 17763), (34, CriDockerd, 17763)], ["1.33, 1.34", "docker", "10.0.17763"]),
        ];
        for (variants, expected) in table {
            let variant = |(kubelet, runtime, host)| Variant { kubelet: Minor(kubelet), runtime, host: Build(host) };
            let variants = variants.into_iter().map(variant).collect();
            let texts = [
                distinct(&variants, |variant| variant.kubelet, ToString::to_string),
                distinct(&variants, |variant| variant.runtime, runtime_text),
                distinct(&variants, |variant| variant.host, ToString::to_string),
            ];
            assert_eq!(texts, expected, "{variants:?}");
        }
    }
}
