//! The status of a pool: computed from what was seen and what was done, never from what was meant.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::{
    Pool, Snapshot, Spec, delivery, events,
    plan::{Active, Member, Phase, Plan},
    verdicts::{self, Case},
};
use crate::{
    api::{
        BuildCount, Columns, ConfigStatus, KubeletCount, Mode, NodeCounts, Pending, RuntimeClassState,
        RuntimeClassStatus, WindowsNodePoolStatus,
        bounds::bounded,
        names::{OWNERSHIP_SECRET, condition, reason},
    },
    domain::{
        Problem,
        conditions::{Truth, Verdict, counted, settle, some_of},
        note::Note,
        operation::{Done, Operation, Outcome},
        ownership::TaintKey,
    },
    facts::{Build, KubeletVersion, builds},
};

/// How long nodes that were as specified have to be wrong before Ready is False: nodes come and go.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);
/// How often a pool is looked at without an event: lifecycles end by the calendar.
const LOOK_AGAIN: Duration = Duration::from_secs(6 * 60 * 60);
/// How often it is looked whether what others keep reverting or deleting may be written again.
const DELAYED: Duration = Duration::from_secs(30);
/// How often it is looked whether pods that a NoExecute taint would evict are still there.
const PODS_LEAVE: Duration = Duration::from_secs(30);
/// How many of the differences that wait are shown in status.
const LISTED: usize = 5;

/// What a pass leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The status as it should be.
    pub status: WindowsNodePoolStatus,
    /// The object to apply, if the status differs from what is stored.
    pub body: Option<Value>,
    /// Events.
    pub notes: Vec<Note>,
    /// When to look again without an event.
    pub again: Option<Duration>,
}

/// The report on a pass.
pub fn report(snapshot: &Snapshot, plan: &Plan, done: &Done) -> Report {
    let pool = plan.pool.as_ref();
    let raced = !done.complete && done.results.iter().any(|(_, outcome)| *outcome == Outcome::Conflict);
    let (status, again) = match (&plan.phase, &pool.spec) {
        (Phase::Leaving, _) => (pool.status.clone(), None),
        (Phase::Invalid, Err(problems)) => (invalid(snapshot, pool, problems), None),
        (Phase::Active(active), Ok(spec)) => {
            let withheld = !pool.enforces();
            let case = Case { snapshot, pool, spec, active, done, nodes_done: done.by_node(), withheld };
            active_status(&case, plan)
        }
        (Phase::CleaningUp { nodes, handed_over, unverified }, _) => {
            (cleaning_up(snapshot, plan, *nodes, handed_over, unverified, done), None)
        }
        (Phase::Invalid, Ok(_)) | (Phase::Active(_), Err(_)) => (pool.status.clone(), None),
    };
    let gone = done.results.iter().any(|(operation, outcome)| {
        matches!(operation, Operation::RemoveFinalizer { .. }) && *outcome == Outcome::Done && pool.deleting
    });
    let status = bounded(status);
    // A write that lost a race is tried again at once: nothing is worth saying about the state in between.
    let write = status != pool.status && !raced && !gone;
    let notes = events::notes(plan, done, &status);
    Report { body: write.then(|| object(&pool.name, &status)), status, notes, again }
}

/// The object that sets a pool's status, within the bounds of its schema.
pub fn body(name: &str, status: &WindowsNodePoolStatus) -> Value {
    object(name, &bounded(status.clone()))
}

fn object(name: &str, status: &WindowsNodePoolStatus) -> Value {
    json!({
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodePool",
        "metadata": {"name": name},
        "status": status,
    })
}

/// A spec with mistakes: what was found earlier stays, and the mistakes are said.
fn invalid(snapshot: &Snapshot, pool: &Pool, problems: &[Problem]) -> WindowsNodePoolStatus {
    let message = Problem::list(problems);
    let told = [
        Verdict::new(condition::READY, false, reason::INVALID, message.clone()),
        Verdict::new(condition::SPEC_VALID, false, reason::INVALID, message.clone()),
        Verdict::new(condition::STALLED, true, reason::INVALID, message),
        Verdict::new(condition::RECONCILING, false, reason::INVALID, "nothing is written for a spec with mistakes"),
    ];
    let columns = Columns { problem: reason::INVALID.to_owned(), ..pool.status.columns.clone() };
    partly(snapshot, pool, &told, columns)
}

/// A clean-up under way.
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
        (true, ..) => "the clean-up waits: set spec.paused: false".to_owned(),
        (_, [_, ..], _) => format!("the clean-up waits until other pools have taken {}", some_of(handed_over)),
        (_, _, false) => format!("the clean-up is tried again: {}", some_of(failures)),
        _ if !unverified.is_empty() => format!(
            "the clean-up waits: the records on {} cannot be verified with the key in Secret {OWNERSHIP_SECRET}, so nothing on \
             these nodes is removed. Restore the former Secret and restart the operator, or run: winpool cleanup --pool {} \
             --trust-records",
            some_of(unverified),
            pool.name
        ),
        _ => format!("what this pool added is taken off {}", counted(nodes, "node")),
    };
    let reason = if paused { reason::PAUSED } else { reason::DELETING };
    let told = [
        Verdict::new(condition::READY, false, reason, message.clone()),
        Verdict::new(condition::RECONCILING, !paused, reason::DELETING, message),
    ];
    let columns = Columns { problem: reason.to_owned(), ..pool.status.columns.clone() };
    partly(snapshot, pool, &told, columns)
}

/// The stored status with some conditions and cells told anew.
fn partly(snapshot: &Snapshot, pool: &Pool, told: &[Verdict], columns: Columns) -> WindowsNodePoolStatus {
    let before = &pool.status.conditions;
    let mut conditions = settle(before, told, pool.generation, snapshot.now);
    conditions.extend(before.iter().filter(|old| !told.iter().any(|new| new.condition == old.type_)).cloned());
    conditions.sort_by(|a, b| (a.type_ != condition::READY, &a.type_).cmp(&(b.type_ != condition::READY, &b.type_)));
    WindowsNodePoolStatus { observed_generation: Some(pool.generation), conditions, columns, ..pool.status.clone() }
}

fn active_status(case: &Case, plan: &Plan) -> (WindowsNodePoolStatus, Option<Duration>) {
    let (pool, spec, active) = (case.pool, case.spec, case.active);
    let states = verdicts::class_states(case);
    let assigned = verdicts::nodes_assigned(case);
    let nodes = counts(case);
    let as_specified = format!("{} of {} nodes are guarded; {}", nodes.guarded, nodes.matched, assigned.message);
    let asked = [
        verdicts::spec_valid(case),
        verdicts::profile_resolved(case),
        verdicts::config_rendered(case),
        verdicts::runtime_class_ready(case, &states),
        assigned,
        verdicts::nodes_configured(case),
    ];
    let flags = [
        verdicts::os_mismatch(case),
        verdicts::version_skew(case),
        verdicts::os_supported(case),
        verdicts::runtime_supported(case),
        verdicts::config_in_effect(case),
        verdicts::workloads_placed(case),
    ];
    let (ready, patience) = ready(case, &asked, as_specified);
    let problem = problem(spec, &ready, &asked, &flags);
    let told: Vec<Verdict> =
        [progress(case, &ready), stalled(&ready)].into_iter().chain([ready]).chain(asked).chain(flags).collect();
    let recorded = !case.withheld;
    let status = WindowsNodePoolStatus {
        observed_generation: Some(pool.generation),
        windows_build: spec.build.to_string(),
        nodes,
        builds: build_counts(active),
        kubelets: kubelet_counts(active),
        runtime_classes: class_rows(states),
        configs: config_rows(pool, active),
        pending: pending(plan),
        workloads: verdicts::workload_counts(case),
        applied: if recorded { active.applied.clone() } else { pool.status.applied.clone() },
        conditions: settle(&pool.status.conditions, &told, pool.generation, case.snapshot.now),
        columns: Columns {
            nodes: format!("{}/{}", nodes.ready, nodes.matched),
            guarded: format!("{}/{}", nodes.guarded, nodes.matched),
            kubelet: kubelet_range(active),
            problem,
            runtime_class: spec.runtime_classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(","),
            support: builds::release(spec.build).map_or_else(
                || "unknown".to_owned(),
                |release| {
                    format!(
                        "until {}",
                        builds::support_on(release, case.snapshot.now.to_zoned(jiff::tz::TimeZone::UTC).date()).until
                    )
                },
            ),
        },
        omitted: BTreeMap::new(),
    };
    let again = patience.into_iter().chain([LOOK_AGAIN]).chain(contest_ends(case)).min();
    (status, again)
}

/// When a field that another client keeps reverting may be written again.
fn contest_ends(case: &Case) -> Option<Duration> {
    let contested = case.active.classes.iter().any(|class| class.state == RuntimeClassState::Contested);
    let on_nodes = case.active.members.iter().filter_map(|member| member.plan.retry_at).min();
    let on_nodes = on_nodes.map(|at| Duration::try_from(at.duration_since(case.snapshot.now)).unwrap_or_default());
    let evicts = case.active.members.iter().any(|member| !member.plan.would_evict.is_empty());
    let pods_leave = evicts.then_some(PODS_LEAVE);
    let delayed = contested || !case.active.configs.delayed.is_empty();
    delayed.then_some(DELAYED).into_iter().chain(on_nodes).chain(pods_leave).min()
}

/// `Ready`, and when to look again if it is being patient; `as_specified` is the message when nothing is wrong.
fn ready(case: &Case, asked: &[Verdict], as_specified: String) -> (Verdict, Option<Duration>) {
    let wrong: Vec<&Verdict> = asked.iter().filter(|verdict| verdict.status != Truth::True).collect();
    let (patient, wrong): (Vec<_>, Vec<_>) =
        wrong.into_iter().partition(|verdict| patience_left(case, verdict).is_some());
    let patience = patient.iter().filter_map(|verdict| patience_left(case, verdict)).min();
    let told = |status, reason, message: String| Verdict::new(condition::READY, status, reason, message);
    let verdict = match wrong.first() {
        _ if case.spec.paused => told(wrong.is_empty(), reason::PAUSED, withheld_message(case, "the pool is paused")),
        _ if case.spec.mode == Mode::Observe => {
            told(wrong.is_empty(), reason::OBSERVING, withheld_message(case, "the pool only observes"))
        }
        Some(worst) => told(false, worst.reason, worst.message.clone()).about(worst.count),
        None => told(true, reason::AS_SPECIFIED, as_specified),
    };
    (verdict, patience.and_then(|left| Duration::try_from(left).ok()))
}

fn withheld_message(case: &Case, why: &str) -> String {
    let waiting = case.active.members.iter().filter(|member| member.plan.change.is_some()).count();
    match waiting {
        0 => format!("{why}, and no node differs from what it asks"),
        1 => format!("{why}, and 1 node differs from what it asks; status.pending has the differences"),
        count => format!("{why}, and {count} nodes differ from what it asks; status.pending has the first differences"),
    }
}

/// For how much longer a wrong verdict about nodes does not count: it has to last, where the nodes were as specified
/// under this generation.
fn patience_left(case: &Case, verdict: &Verdict) -> Option<SignedDuration> {
    let about_nodes = match verdict.condition {
        condition::NODES_ASSIGNED => true,
        condition::NODES_CONFIGURED => {
            case.active.members.iter().all(|member| case.guarded(member) || had_all(case, member))
        }
        _ => false,
    };
    if !about_nodes || case.withheld || !was_ready(case.pool) {
        return None;
    }
    let before = case.pool.status.conditions.iter().find(|condition| condition.type_ == verdict.condition);
    let since =
        before.filter(|before| before.status == verdict.status.as_str()).map(|before| before.last_transition_time.0);
    let lasted = since.map_or(SignedDuration::ZERO, |since| case.snapshot.now.duration_since(since));
    (lasted < PATIENCE).then(|| PATIENCE - lasted)
}

/// Whether everything was as this generation asks. Ready is True under a generation only after it was, because patience
/// begins with this.
fn was_ready(pool: &Pool) -> bool {
    let of_generation = |ready: &&Condition| ready.observed_generation == Some(pool.generation);
    let ready = pool.status.conditions.iter().find(|condition| condition.type_ == condition::READY);
    ready.filter(of_generation).is_some_and(|ready| ready.status == Truth::True.as_str())
}

/// Whether a node once had what the spec asks for: its record has all of it. A node that has just joined has no record.
fn had_all(case: &Case, member: &Member) -> bool {
    let record = case.snapshot.ownership.evidence(&member.node).verified();
    record.filter(|record| record.pool == case.pool.name).is_some_and(|record| {
        case.spec.taints.iter().all(|taint| record.taints.contains_key(&TaintKey::from(taint)))
            && case.spec.labels.keys().all(|key| record.labels.contains_key(key))
    })
}

/// `Reconciling`: a generation that is not yet acted on.
fn progress(case: &Case, ready: &Verdict) -> Verdict {
    let before = case.pool.status.conditions.iter().find(|condition| condition.type_ == condition::RECONCILING);
    let new = case.pool.status.observed_generation != Some(case.pool.generation);
    let unfinished = before.is_some_and(|before| before.status == "True");
    if !case.withheld && !case.done.complete && (new || unfinished) {
        return Verdict::new(condition::RECONCILING, true, reason::PROGRESSING, ready.message.clone());
    }
    let message = format!("generation {} is acted on", case.pool.generation);
    Verdict::new(condition::RECONCILING, false, reason::AS_SPECIFIED, message)
}

/// `Stalled`: only a person can go on.
fn stalled(ready: &Verdict) -> Verdict {
    // These mend themselves: by a retry, by time, or when the missing object is applied.
    let passing = [
        reason::WRITE_FAILED,
        reason::CONTESTED,
        reason::NOT_FOUND,
        reason::OBSERVING,
        reason::PAUSED,
        reason::PROGRESSING,
    ];
    if ready.status == Truth::True || passing.contains(&ready.reason) {
        return Verdict::new(condition::STALLED, false, reason::AS_SPECIFIED, "nothing waits for a person");
    }
    Verdict::new(condition::STALLED, true, ready.reason, ready.message.clone())
}

/// The worst reason with its count, for a person who reads one line a pool.
fn problem(spec: &Spec, ready: &Verdict, asked: &[Verdict], flags: &[Verdict]) -> String {
    if spec.paused {
        return reason::PAUSED.to_owned();
    }
    let problem_when_true = [condition::VERSION_SKEW, condition::OS_MISMATCH];
    let is_problem = |verdict: &&Verdict| match verdict.status {
        Truth::True => problem_when_true.contains(&verdict.condition),
        // That nothing is written is what Observe asks for.
        Truth::False => !problem_when_true.contains(&verdict.condition) && verdict.reason != reason::OBSERVING,
        Truth::Unknown => false,
    };
    let unready = (ready.status == Truth::False && ready.reason != reason::OBSERVING).then_some(ready);
    let worst =
        unready.into_iter().chain(flags.iter().filter(is_problem)).chain(asked.iter().filter(is_problem)).next();
    match worst {
        Some(verdict) if verdict.count > 0 => format!("{}({})", verdict.reason, verdict.count),
        Some(verdict) => verdict.reason.to_owned(),
        None if spec.mode == Mode::Observe => reason::OBSERVING.to_owned(),
        None => "-".to_owned(),
    }
}

fn counts(case: &Case) -> NodeCounts {
    let members = &case.active.members;
    let count = |wanted: &dyn Fn(&Member) -> bool| {
        u32::try_from(members.iter().filter(|member| wanted(member)).count()).unwrap_or(u32::MAX)
    };
    NodeCounts {
        matched: count(&|_| true),
        ready: count(&|member| member.node.ready),
        guarded: count(&|member| case.guarded(member)),
        mismatched: count(&|member| verdicts::is_mismatched(case.spec, &member.node)),
        skewed: count(&|member| verdicts::is_skewed(case.snapshot, &member.node)),
        behind: count(&|member| member.delivery.as_ref().is_some_and(|state| *state != delivery::State::InEffect)),
        contested: u32::try_from(case.active.contested.len()).unwrap_or(u32::MAX),
        pending: count(&|member| !case.guarded(member)),
    }
}

/// The RuntimeClasses that the pool names come first.
fn class_rows(states: BTreeMap<String, RuntimeClassState>) -> Vec<RuntimeClassStatus> {
    let mut rows: Vec<_> = states.into_iter().map(|(name, state)| RuntimeClassStatus { name, state }).collect();
    rows.sort_by_key(|row| row.state == RuntimeClassState::Unused);
    rows
}

fn build_counts(active: &Active) -> Vec<BuildCount> {
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

fn kubelet_counts(active: &Active) -> Vec<KubeletCount> {
    let mut rows: BTreeMap<Option<KubeletVersion>, u32> = BTreeMap::new();
    for member in &active.members {
        *rows.entry(member.node.kubelet.as_ref().ok().copied()).or_default() += 1;
    }
    rows.into_iter().rev().map(|(version, nodes)| KubeletCount { version: or_unknown(version), nodes }).collect()
}

fn or_unknown(version: Option<impl ToString>) -> String {
    version.map_or_else(|| "unknown".to_owned(), |version| version.to_string())
}

fn kubelet_range(active: &Active) -> String {
    let versions: BTreeSet<_> = active.members.iter().filter_map(|member| member.node.kubelet.as_ref().ok()).collect();
    match (versions.first(), versions.last()) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low}-{high}"),
        _ => "-".to_owned(),
    }
}

fn config_rows(pool: &Pool, active: &Active) -> Vec<ConfigStatus> {
    use super::configs::ConfigState;
    if matches!(active.configs.state, ConfigState::NotFound | ConfigState::Invalid(_)) {
        return pool.status.configs.clone();
    }
    let mut rows: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for member in &active.members {
        let Some(name) = active.configs.name_for(&member.node) else { continue };
        let row = rows.entry(name).or_default();
        row.0 += 1;
        row.1 += u32::from(member.delivery == Some(delivery::State::InEffect));
    }
    let texts = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>().join(", ");
    let row = |(name, config): (&String, &super::configs::RenderedConfig)| {
        let (wanted, in_effect) = rows.get(name.as_str()).copied().unwrap_or_default();
        ConfigStatus {
            name: name.clone(),
            kubelet: texts(&mut config.kubelets.iter().map(ToString::to_string)),
            containerd: texts(&mut config.runtimes.iter().cloned()),
            build: texts(&mut config.builds.iter().map(ToString::to_string)),
            wanted,
            in_effect,
        }
    };
    active.configs.configs.iter().map(row).collect()
}

fn pending(plan: &Plan) -> Pending {
    let words: Vec<String> = plan.withheld.iter().filter_map(Operation::words).collect();
    Pending { count: u32::try_from(words.len()).unwrap_or(u32::MAX), first: words.into_iter().take(LISTED).collect() }
}
