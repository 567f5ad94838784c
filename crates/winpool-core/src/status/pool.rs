//! The status of a pool, computed from the observed state and the outcomes of writes, not from the plan alone.

mod delivery;
mod events;
mod input;
mod kubelet;
mod machines;
pub mod rendering;
mod required;
mod runtime;
mod windows;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use input::{ReportInput, names};
use winpool_api::{
    BuildCount, Columns, ConfigStatus, KubeletCount, NodeCounts, Pending, RuntimeClassState, RuntimeClassStatus,
    TaintKey, WindowsNodePoolStatus,
    bounds::bounded,
    conditions::{
        ComputedCondition, ConditionStatus, ConditionType, NODES_ASSIGNED, NODES_TAINTED, PROFILE_RESOLVED, READY,
        RECONCILING, Role, SPEC_VALID, STALLED, TRANSIENT,
    },
    facts::{Build, ContainerRuntime, ContainerdLine, KubeletVersion, builds},
    names::{OWNERSHIP_SECRET, reason},
};

use super::{
    condition::{merge_conditions, sort},
    event::Event,
};
use crate::{
    Problem,
    kind::Kind,
    operation::{Action, Done, Object, Write},
    pool::{
        Pool, Snapshot, Spec,
        classes::ClassPlan,
        configs::{self, RenderedConfig},
        plan::{ActivePool, Member, Phase, Plan},
    },
    render::reserve::ConfigState,
    text::{about_nodes, counted, some_messages, some_of},
};

/// How long nodes that were as specified can have a problem before Ready is False, because nodes join and leave.
const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(30);
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

/// The result of a reconcile.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The computed status.
    pub status: WindowsNodePoolStatus,
    /// The write of the status, if it differs from what is stored.
    pub write: Option<Write>,
    /// Events.
    pub events: Vec<Event>,
    /// When to reconcile again without an event.
    pub requeue_after: Option<Duration>,
}

/// The report on a reconcile.
pub fn report(snapshot: &Snapshot, plan: &Plan, done: &Done) -> Report {
    let pool = plan.pool.as_ref();
    let (status, requeue_after) = match (&plan.phase, &pool.spec) {
        (Phase::Retained, _) => (pool.status.clone(), None),
        (Phase::Invalid, Err(problems)) => (invalid(snapshot, pool, problems), None),
        (Phase::NodesRefused, _) => (nodes_refused(snapshot, pool), None),
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
    let object = || Object::new(Kind::POOL, &pool.name);
    let write = differs.then(|| Write::status(Action::WriteStatus, object(), &pool.resource_version, &status));
    Report { write, status, events, requeue_after }
}

/// The status of a pool with an invalid spec. Other parts of the stored status are kept.
fn invalid(snapshot: &Snapshot, pool: &Pool, problems: &[Problem]) -> WindowsNodePoolStatus {
    let message = Problem::list(problems);
    let computed = [
        READY.because(reason::INVALID, message.clone()),
        SPEC_VALID.because(reason::INVALID, message.clone()),
        STALLED.because(reason::INVALID, message),
        RECONCILING.because(reason::INVALID, "only status is written while the spec has mistakes"),
    ];
    let columns = Columns { problem: reason::INVALID.to_owned(), ..pool.status.columns.clone() };
    partial(snapshot, pool, &computed, columns)
}

/// The status of a pool while nodes cannot be listed. Other parts of the stored status are kept.
fn nodes_refused(snapshot: &Snapshot, pool: &Pool) -> WindowsNodePoolStatus {
    let message = required::list_refused(Kind::NODE);
    let computed = [&READY, &NODES_ASSIGNED, &STALLED].map(|of| of.because(reason::LIST_REFUSED, message.clone()));
    let columns = Columns { problem: reason::LIST_REFUSED.to_owned(), ..pool.status.columns.clone() };
    partial(snapshot, pool, &computed, columns)
}

/// The status of a cleanup in progress.
fn cleaning_up(
    snapshot: &Snapshot,
    plan: &Plan,
    nodes: usize,
    handed_over: &[String],
    unverified: &[String],
    done: &Done,
) -> WindowsNodePoolStatus {
    let pool = plan.pool.as_ref();
    let paused = pool.spec.as_ref().is_ok_and(|spec| spec.paused);
    let failures: Vec<_> = done.failures().collect();
    let message = match (paused, handed_over, failures.is_empty()) {
        (true, ..) => "the cleanup is paused. Set spec.paused: false to continue".to_owned(),
        (_, [_, ..], _) => format!("the cleanup waits until other pools have {}", some_of(handed_over)),
        (_, _, false) => format!("the cleanup is retried: {}", some_of(failures)),
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
    let reason = if paused { reason::PAUSED } else { reason::DELETING };
    let computed = [
        READY.because(reason, message.clone()).with_status(ConditionStatus::False),
        RECONCILING.because(reason::DELETING, message).with_status(ConditionStatus::from(!paused)),
    ];
    let columns = Columns { problem: reason.to_owned(), ..pool.status.columns.clone() };
    partial(snapshot, pool, &computed, columns)
}

/// The stored status with some conditions and columns replaced.
fn partial(
    snapshot: &Snapshot,
    pool: &Pool,
    computed: &[ComputedCondition],
    columns: Columns,
) -> WindowsNodePoolStatus {
    let before = &pool.status.conditions;
    let mut conditions = merge_conditions(before, computed, pool.generation, snapshot.now);
    conditions.extend(before.iter().filter(|old| !computed.iter().any(|new| new.of.name == old.type_)).cloned());
    sort(&mut conditions);
    WindowsNodePoolStatus { observed_generation: Some(pool.generation), conditions, columns, ..pool.status.clone() }
}

fn active_status(input: &ReportInput, plan: &Plan) -> (WindowsNodePoolStatus, Option<Duration>) {
    let (pool, spec, active) = (input.pool, input.spec, input.active);
    let states = required::class_states(input);
    let assigned = required::nodes_assigned(input);
    let nodes = counts(input);
    let as_specified = assigned.message.clone();
    // The worst of each role first.
    let found = [
        required::spec_valid(input),
        required::profile_resolved(input),
        required::config_rendered(input),
        required::runtime_class_ready(input, &states),
        assigned,
        required::nodes_tainted(input),
        windows::os_mismatch(input),
        kubelet::version_skew(input),
        windows::os_supported(input),
        runtime::runtime_supported(input),
        kubelet::config_in_effect(input),
        machines::machines_templated(input),
        workloads::workloads_placed(input),
    ];
    let (ready, grace) = ready(input, &found, as_specified);
    let problem = problem(spec, &ready, &found);
    let computed: Vec<_> =
        [reconciling(input, &ready), stalled(input, &ready), ready].into_iter().chain(found).collect();
    let status = WindowsNodePoolStatus {
        cluster_api: machines::status(input),
        observed_generation: Some(pool.generation),
        windows_build: spec.build.to_string(),
        nodes,
        builds: build_counts(active),
        kubelets: kubelet_counts(active),
        runtime_classes: class_rows(states),
        configs: config_rows(input),
        pending: pending(plan, rendering::pending(input.snapshot, active)),
        workloads: workloads::counts(input),
        applied: if !input.withheld { active.applied.clone() } else { pool.status.applied.clone() },
        conditions: merge_conditions(&pool.status.conditions, &computed, pool.generation, input.snapshot.now),
        columns: Columns {
            nodes: format!("{}/{}", nodes.ready, nodes.matched),
            tainted: format!("{}/{}", nodes.tainted, nodes.matched),
            configured: format!("{}/{}", nodes.configured, nodes.matched),
            kubelet: kubelet_range(active),
            problem,
            runtime_class: spec.runtime_classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(","),
            support: builds::release(spec.build)
                .map_or_else(|| "unknown".to_owned(), |release| release.final_end().to_string()),
        },
        omitted: BTreeMap::new(),
    };
    let requeue_after = grace.into_iter().chain([RESYNC]).chain(delayed_writes(input)).chain(rollout_step(input)).min();
    (status, requeue_after)
}

/// When to retry held or delayed writes.
fn delayed_writes(input: &ReportInput) -> Option<Duration> {
    let contested = input.active.classes.iter().any(|class| class.state == RuntimeClassState::Contested);
    let on_nodes = input.active.members.iter().filter_map(|member| member.plan.retry_at).min();
    let on_nodes = on_nodes.map(|at| Duration::try_from(at.duration_since(input.snapshot.now)).unwrap_or_default());
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
    let next = delivery::rollout(input)?.next?;
    Some(Duration::try_from(next.duration_since(input.snapshot.now)).unwrap_or_default())
}

/// `Ready`, and the remaining grace period if it hides a problem. `as_specified` is the message without a problem.
fn ready(
    input: &ReportInput,
    found: &[ComputedCondition],
    as_specified: String,
) -> (ComputedCondition, Option<Duration>) {
    let wrong = of_role(found, Role::Required).filter(|condition| condition.status != ConditionStatus::True);
    if input.withheld {
        // Nothing is written, so only a spec or profile that cannot be used is a problem.
        let unusable = wrong.into_iter().find(|one| *one.of == PROFILE_RESOLVED);
        let ready = match unusable {
            Some(unusable) => READY.because(unusable.reason, unusable.message.clone()),
            None if input.spec.paused => READY.because(reason::PAUSED, withheld_message(input, "the pool is paused")),
            None => READY.because(reason::OBSERVING, withheld_message(input, "the mode is Observe")),
        };
        return (ready, None);
    }
    let (hidden, wrong): (Vec<_>, Vec<_>) = wrong.partition(|wrong| grace_left(input, wrong).is_some());
    let grace = hidden.iter().filter_map(|wrong| grace_left(input, wrong)).min();
    let ready = match wrong.first() {
        Some(worst) => READY.because(worst.reason, worst.message.clone()).about(worst.count),
        None => READY.because(reason::AS_SPECIFIED, as_specified),
    };
    (ready, grace.and_then(|left| Duration::try_from(left).ok()))
}

fn of_role(found: &[ComputedCondition], role: Role) -> impl Iterator<Item = &ComputedCondition> {
    found.iter().filter(move |condition| condition.of.role == role)
}

fn withheld_message(input: &ReportInput, why: &str) -> String {
    let differ = input.nodes(|member| member.plan.edit.is_some());
    let pending = about_nodes(names(&differ), |nodes, _| {
        let differs = nodes.agree("differs", "differ");
        format!("{why}, and {nodes} {differs} from the spec. status.pending lists the first changes")
    });
    pending.unwrap_or_else(|| format!("{why}, and no node differs from the spec"))
}

/// The remaining grace period of a problem with nodes that were as specified in this generation.
fn grace_left(input: &ReportInput, wrong: &ComputedCondition) -> Option<SignedDuration> {
    let had_all = || input.active.members.iter().all(|member| member.is_tainted() || had_all(input, member));
    let is_of_nodes = *wrong.of == NODES_ASSIGNED || (*wrong.of == NODES_TAINTED && had_all());
    if !is_of_nodes || !was_ready(input.pool) {
        return None;
    }
    let before = stored(input.pool, wrong.of).filter(|before| before.status == wrong.status.as_str());
    let since = before.map(|before| before.last_transition_time.0);
    let lasted = since.map_or(SignedDuration::ZERO, |since| input.snapshot.now.duration_since(since));
    (lasted < GRACE_PERIOD).then(|| GRACE_PERIOD - lasted)
}

fn stored<'a>(pool: &'a Pool, of: &ConditionType) -> Option<&'a Condition> {
    pool.status.conditions.iter().find(|condition| condition.type_ == of.name)
}

/// Whether the pool was Ready in this generation.
fn was_ready(pool: &Pool) -> bool {
    let of_generation = |ready: &&Condition| ready.observed_generation == Some(pool.generation);
    stored(pool, &READY).filter(of_generation).is_some_and(|ready| ready.status == "True")
}

/// Whether the record of a node has all labels and taints of the spec. A node that has just joined has no record.
fn had_all(input: &ReportInput, member: &Member) -> bool {
    let record = input.snapshot.ownership.record_state(&member.node).verified();
    record.filter(|record| record.pool == input.pool.name).is_some_and(|record| {
        input.spec.taints.iter().all(|taint| record.taints.contains_key(&TaintKey::from(taint)))
            && input.spec.labels.keys().all(|key| record.labels.contains_key(key))
    })
}

/// `Reconciling`: whether a new generation is still being applied.
fn reconciling(input: &ReportInput, ready: &ComputedCondition) -> ComputedCondition {
    let new = input.pool.status.observed_generation != Some(input.pool.generation);
    let unfinished = stored(input.pool, &RECONCILING)
        .is_some_and(|before| before.status == "True" || before.reason == reason::WRITE_FAILED);
    if !input.withheld && !input.done.complete && (new || unfinished) {
        let reason = if input.done.is_refused() { reason::WRITE_FAILED } else { reason::PROGRESSING };
        return RECONCILING.because(reason, ready.message.clone());
    }
    RECONCILING.because(reason::AS_SPECIFIED, format!("generation {} was applied", input.pool.generation))
}

/// `Stalled`: whether the operator cannot continue without a change to the pool or the cluster.
fn stalled(input: &ReportInput, ready: &ComputedCondition) -> ComputedCondition {
    let is_refused = ready.reason == reason::WRITE_FAILED && input.done.is_refused();
    if ready.status == ConditionStatus::True || (TRANSIENT.contains(&ready.reason) && !is_refused) {
        return STALLED.because(reason::AS_SPECIFIED, "no action required");
    }
    STALLED.because(ready.reason, ready.message.clone())
}

/// The worst reason with its count, for the column PROBLEM.
fn problem(spec: &Spec, ready: &ComputedCondition, found: &[ComputedCondition]) -> String {
    let roles = [Role::Flag, Role::Required].into_iter().flat_map(|role| of_role(found, role));
    let mut worst_first = std::iter::once(ready).chain(roles);
    match worst_first.find(|condition| condition.is_problem()) {
        _ if spec.paused => reason::PAUSED.to_owned(),
        Some(worst) if worst.count > 0 => format!("{}({})", worst.reason, worst.count),
        Some(worst) => worst.reason.to_owned(),
        None => "-".to_owned(),
    }
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

fn build_counts(active: &ActivePool) -> Vec<BuildCount> {
    let mut rows: BTreeMap<Option<Build>, (BTreeSet<u32>, u32)> = BTreeMap::new();
    for member in &active.members {
        let row = rows.entry(member.node.build()).or_default();
        row.0.extend(member.node.os.as_ref().ok().and_then(|version| version.revision));
        row.1 += 1;
    }
    let revisions = |seen: &BTreeSet<u32>| match (seen.first(), seen.last()) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low}..{high}"),
        _ => String::new(),
    };
    let mut rows: Vec<_> = rows
        .into_iter()
        .map(|(build, (seen, nodes))| BuildCount { build: or_unknown(build), revisions: revisions(&seen), nodes })
        .collect();
    rows.sort_by(|a, b| b.nodes.cmp(&a.nodes).then_with(|| a.build.cmp(&b.build)));
    rows
}

fn kubelet_counts(active: &ActivePool) -> Vec<KubeletCount> {
    let mut rows: BTreeMap<Option<KubeletVersion>, u32> = BTreeMap::new();
    for member in &active.members {
        *rows.entry(member.node.kubelet.as_ref().ok().copied()).or_default() += 1;
    }
    rows.into_iter().rev().map(|(version, nodes)| KubeletCount { version: or_unknown(version), nodes }).collect()
}

fn or_unknown(version: Option<impl ToString>) -> String {
    version.map_or_else(|| "unknown".to_owned(), |version| version.to_string())
}

fn kubelet_range(active: &ActivePool) -> String {
    let versions: BTreeSet<_> = active.members.iter().filter_map(|member| member.node.kubelet.as_ref().ok()).collect();
    match (versions.first(), versions.last()) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low}-{high}"),
        _ => "-".to_owned(),
    }
}

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
    let texts = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>().join(", ");
    let row = |(name, config): (&String, &RenderedConfig)| {
        let (wanted, in_effect) = rows.get(name.as_str()).copied().unwrap_or_default();
        ConfigStatus {
            name: name.clone(),
            kubelet: texts(&mut config.kubelets.iter().map(ToString::to_string)),
            containerd: texts(&mut config.runtimes.iter().map(runtime_text)),
            build: texts(&mut config.builds.iter().map(ToString::to_string)),
            wanted,
            in_effect,
        }
    };
    let kept = rendering::rows(active).into_iter().map(|kept| {
        let (wanted, in_effect) = rows.get(kept.name.as_str()).copied().unwrap_or_default();
        ConfigStatus { wanted, in_effect, ..kept }
    });
    active.configs.configs.iter().map(row).chain(kept).collect()
}

/// The release line of containerd, or `docker`.
fn runtime_text(runtime: &ContainerRuntime<ContainerdLine>) -> String {
    match runtime {
        ContainerRuntime::Containerd(line) => line.to_string(),
        ContainerRuntime::Dockershim | ContainerRuntime::CriDockerd => "docker".to_owned(),
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
