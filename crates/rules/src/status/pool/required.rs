//! The conditions that `Ready` requires.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use winpool_api::{
    RuntimeClassScope, RuntimeClassState, Taint, TaintKey,
    conditions::{
        CONFIG_RENDERED, ComputedCondition, NODES_ASSIGNED, NODES_TAINTED, PROFILE_RESOLVED, RUNTIME_CLASS_READY,
        SPEC_VALID,
    },
    names::{OWNERSHIP_SECRET, annotation, label, reason},
};
use winpool_core::{
    Problem,
    kind::Kind,
    kubernetes::WorkloadName,
    text::{about_nodes, agree, counted, some_messages, some_of},
};
use winpool_facts::node_restriction::kubelet_may_set;
use winpool_render::reserve;

use super::{
    input::{NodeMessages, ReportInput, about, names},
    kubelet::newer_than_tables,
    selection,
};
use crate::{
    operation::{Outcome, Purpose, Write},
    ownership::RecordState,
    pool::{
        Consent, Consents, Members,
        classes::{self, ClassPlan},
        configs::{self, Rendering, Unrendered},
        nodes::Obstacle,
        plan::Member,
        stranding::Remedy,
        taint_replacement::MutualReplacement,
    },
    status::nodes::REMOVE_CLAIM,
};

/// That new taints do not wait for pods, if pods are not read.
fn pods_not_checked(input: &ReportInput) -> Option<String> {
    let why = if input.snapshot.pods_refused { "the permission is missing" } else { "--workloads=off" };
    let text = format!("Pods are not read ({why}), so new taints are added without a check that pods tolerate them");
    input.snapshot.pods_are_off().then_some(text)
}

/// `SpecValid` of a spec that is applied, without the entries that are refused.
pub fn spec_valid(input: &ReportInput) -> ComputedCondition {
    if !input.spec.refused.is_empty() {
        return SPEC_VALID.because(reason::INVALID, Problem::list(&input.spec.refused));
    }
    let is_protected = |key: &&String| !kubelet_may_set(key);
    let selects_by_protected = match &input.spec.members {
        Members::Fallback => false,
        Members::Selector(selector) => {
            let expressions = selector.match_expressions.iter().map(|requirement| &requirement.key);
            selector.match_labels.keys().chain(expressions).any(|key| is_protected(&key))
        }
    };
    let protected = input.spec.labels.keys().find(is_protected).filter(|_| !selects_by_protected);
    let warning = protected.map(|label| {
        format!(
            ", but a kubelet can set the labels of spec.nodeSelector on its own Node and so get label {label}, which protects pods. \
             Select by a label with the prefix node-restriction.kubernetes.io/ as well"
        )
    });
    let spent = if input.withheld { Vec::new() } else { Consents::spent(input.pool, input.spec, input.active) };
    let spent = (!spent.is_empty()).then(|| spent_consents(&spent));
    let parts = [warning.unwrap_or_default()].into_iter().chain(spent.map(|spent| format!(". {spent}")));
    SPEC_VALID.because(reason::VALID, format!("the spec is valid{}", parts.collect::<String>()))
}

/// That these annotations can be removed.
fn spent_consents(names: &[&str]) -> String {
    format!("Spent, so that it can be removed from the pool: annotation {}", some_of(names))
}

/// That the objects of a kind cannot be listed, and what to do.
pub fn list_refused(kind: Kind) -> String {
    format!(
        "the API server refuses to list {}. Apply the ClusterRole, the Role and their bindings from config/default: the log of \
         the operator has the error",
        kind.plural
    )
}

/// `ProfileResolved`; `None` if the pool names no profile.
pub fn profile_resolved(input: &ReportInput) -> Option<ComputedCondition> {
    let name = input.spec.profile.as_deref()?;
    let kept = "Until then nodes keep their labels, taints and last configuration";
    let (reason, message) = match &input.active.configs.state {
        Rendering::NotUsed => return None,
        Rendering::ProfilesRefused => (reason::LIST_REFUSED, format!("{}. {kept}", list_refused(Kind::PROFILE))),
        Rendering::NotFound => (
            reason::NOT_FOUND,
            format!("WindowsRuntimeProfile {name} does not exist. Apply it, or correct spec.profileRef.name. {kept}"),
        ),
        Rendering::Invalid(problems) => (
            reason::INVALID,
            format!("WindowsRuntimeProfile {name} is not valid: {}. Correct it. {kept}", Problem::list(problems)),
        ),
        Rendering::Rendered(_) | Rendering::ConfigMapsRefused => {
            (reason::RESOLVED, format!("WindowsRuntimeProfile {name} is valid"))
        }
    };
    Some(PROFILE_RESOLVED.because(reason, message))
}

pub fn nodes_assigned(input: &ReportInput) -> ComputedCondition {
    if let Some(problem) = held(input).or_else(|| unverified_members(input)).or_else(|| shared(input)) {
        return problem;
    }
    if let Some(other) = &input.active.other_fallback {
        let message = format!("pool {other} is already the fallback. Set spec.fallback: true in one pool only");
        return NODES_ASSIGNED.because(reason::NODE_CONFLICT, message);
    }
    let found = selection::without_nodes(input).unwrap_or_else(|| {
        let nodes = counted(input.active.members.len(), "node");
        let belong = nodes.agree("belongs", "belong");
        NODES_ASSIGNED.because(reason::ASSIGNED, format!("{nodes} {belong} to this pool alone"))
    });
    let parts: Vec<String> = [found.message].into_iter().chain(refused_claims(input)).collect();
    ComputedCondition { message: parts.join(". "), ..found }
}

/// Nodes that no pool matches any more.
fn held(input: &ReportInput) -> Option<ComputedCondition> {
    let held = names(&input.nodes(|member| member.held));
    about(&NODES_ASSIGNED, reason::RELEASE_HELD, &held, |nodes, names| {
        let (match_, keep) = (nodes.agree("matches", "match"), nodes.agree("keeps its", "keep their"));
        format!(
            "{nodes} no longer {match_} the pool and {keep} taints and labels, because no other pool matches: {names}. Correct \
             spec.nodeSelector or the labels of the nodes, or release them: {}. {}",
            Consent::Release(&input.spec.members).command(&input.pool.name),
            input.list(),
        )
    })
}

/// The nodes whose records cannot be verified, if the key is the cause: it is not stored, or verifies no record of a
/// member. A single record proves nothing about the key, because the kubelet of its node can write it.
fn unverified_members(input: &ReportInput) -> Option<ComputedCondition> {
    let ownership = &input.snapshot.ownership;
    let verifies_one = || input.active.members.iter().any(|member| ownership.pool_of(&member.node).is_some());
    if ownership.not_stored().is_none() && verifies_one() {
        return None;
    }
    let unverified = input.nodes(|member| match ownership.record_state(&member.node) {
        RecordState::Unverified(record) => record.pool == input.pool.name,
        RecordState::None | RecordState::Verified { .. } => false,
    });
    // With another key, nodes that were members by their record have only the label.
    let former = input.active.unverified.iter().map(String::as_str).filter(|_| !unverified.is_empty());
    let nodes: Vec<&str> = names(&unverified).into_iter().chain(former).collect();
    about(&NODES_ASSIGNED, reason::RECORD_NOT_VERIFIED, &nodes, |nodes, names| {
        format!(
            "the records on {nodes} cannot be verified with the key in Secret {OWNERSHIP_SECRET}, so nothing is removed from \
             {}: {names}. Restore the former Secret and restart the operator. If it is lost for good, remove annotation {} from \
             these nodes: what is on them is then kept. {}",
            nodes.agree("it", "them"),
            annotation::OWNED,
            input.list(),
        )
    })
}

/// A sentence about nodes with the label of the pool that are not selected and have no valid record. Their kubelets may
/// have set it, so they say nothing about the pool.
fn refused_claims(input: &ReportInput) -> Option<String> {
    about_nodes(&input.active.unverified, |nodes, names| {
        let (has, are, them) = (nodes.agree("has", "have"), nodes.agree("is", "are"), nodes.agree("it", "them"));
        format!(
            "{nodes} {has} label {}={} without a valid record of this operator and {are} not selected, so nothing is written to \
             {them}: {names}. {REMOVE_CLAIM}",
            label::POOL,
            input.pool.name,
        )
    })
}

/// Nodes that other pools match too.
fn shared(input: &ReportInput) -> Option<ComputedCondition> {
    let shared: Vec<_> = input.active.shared.iter().map(|shared| &shared.node).collect();
    about(&NODES_ASSIGNED, reason::NODE_CONFLICT, &shared, |nodes, names| {
        let (match_, stay) = (nodes.agree("matches", "match"), nodes.agree("stays", "stay"));
        let they_belong = nodes.agree("it belongs", "they belong");
        let pools: BTreeSet<&String> = input.active.shared.iter().flat_map(|shared| &shared.pools).collect();
        format!(
            "{nodes} {match_} more than one pool ({}) and {stay} in the pool that {they_belong} to: {names}. Narrow \
             spec.nodeSelector of one of the pools. {}",
            some_of(pools),
            input.list_matching(),
        )
    })
}

/// The state of each RuntimeClass after the writes.
pub fn class_states(input: &ReportInput) -> BTreeMap<String, RuntimeClassState> {
    let unwritten = |plan: &ClassPlan| {
        let planned = plan.extend.iter().chain(&plan.apply).chain(&plan.strip).count();
        let is_of = |write: &&Write| write.object.kind == Kind::RUNTIME_CLASS && write.object.name == plan.name;
        input.done.written().filter(is_of).count() < planned
    };
    let state = |plan: &ClassPlan| match plan.state {
        RuntimeClassState::Applied if unwritten(plan) => RuntimeClassState::Pending,
        state => state,
    };
    input.active.classes.iter().map(|plan| (plan.name.clone(), state(plan))).collect()
}

pub fn runtime_class_ready(input: &ReportInput, states: &BTreeMap<String, RuntimeClassState>) -> ComputedCondition {
    if input.snapshot.refused.contains(&Kind::RUNTIME_CLASS) {
        return RUNTIME_CLASS_READY.because(reason::LIST_REFUSED, list_refused(Kind::RUNTIME_CLASS));
    }
    // The worst first. A class that waits for something has an explanation, one that is not written yet has none.
    let reasons = [
        (RuntimeClassState::HandlerDiffers, reason::HANDLER_DIFFERS),
        (RuntimeClassState::NotForWindows, reason::NOT_FOR_WINDOWS),
        (RuntimeClassState::NameTaken, reason::NAME_TAKEN),
        (RuntimeClassState::NotOurs, reason::NOT_OURS),
        (RuntimeClassState::WouldStrand, reason::WOULD_STRAND),
        (RuntimeClassState::Contested, reason::CONTESTED),
        (RuntimeClassState::Pending, reason::PROGRESSING),
    ];
    for (state, reason) in reasons {
        let wrong = input.active.classes.iter().filter(|plan| plan.state == state);
        let explanations: Vec<_> = wrong.filter_map(|plan| Some(plan.explanation.as_ref()?.to_string())).collect();
        if !explanations.is_empty() {
            return RUNTIME_CLASS_READY.because(reason, some_messages(&explanations)).about(explanations.len());
        }
    }
    let in_state =
        |wanted: RuntimeClassState| states.iter().filter(move |(_, state)| **state == wanted).map(|(name, _)| name);
    let pending: Vec<_> = in_state(RuntimeClassState::Pending).collect();
    if !pending.is_empty() {
        let (reason, why) = unwritten(input);
        let are = agree(pending.len(), "is", "are");
        let message = format!("RuntimeClass {} {are} not as specified: {why}", some_of(&pending));
        return RUNTIME_CLASS_READY.because(reason, message).about(pending.len());
    }
    let ready: Vec<_> = in_state(RuntimeClassState::Applied).chain(in_state(RuntimeClassState::Found)).collect();
    selects_no_member(input, &ready).unwrap_or_else(|| {
        let message = match ready.len() {
            0 if !input.spec.runtime_classes.is_empty() => {
                "no RuntimeClass is needed here, because the nodes of the machines are in another cluster".to_owned()
            }
            0 => "the pool has no RuntimeClass".to_owned(),
            _ => selected_by(input, &ready),
        };
        RUNTIME_CLASS_READY.because(reason::APPLIED, message)
    })
}

/// RuntimeClasses that are as specified, and select no node of the pool although it has some.
fn selects_no_member(input: &ReportInput, ready: &[&String]) -> Option<ComputedCondition> {
    let members = input.active.members.iter().map(|member| member.node.as_ref());
    if ready.is_empty() || !classes::select_no_member(input.pool, input.spec, members.clone()) {
        return None;
    }
    let builds: BTreeSet<String> = members.filter_map(|node| node.build()).map(|build| build.to_string()).collect();
    let nodes = counted(input.active.members.len(), "node");
    let message = format!(
        "{}, and the {nodes} of the pool {} {}: pods with this class stay Pending. Correct spec.windowsVersion, add nodes with \
         build {}, or allow it with: {}",
        selected_by(input, ready),
        nodes.agree("runs", "run"),
        some_of(&builds),
        input.spec.build,
        Consent::Strand(&input.spec.windows_version).command(&input.pool.name)
    );
    Some(RUNTIME_CLASS_READY.because(reason::WOULD_STRAND, message).about(ready.len()))
}

/// Which nodes the RuntimeClasses with these names select.
fn selected_by(input: &ReportInput, ready: &[&String]) -> String {
    let is_compatible = |name: &&String| {
        let class = input.spec.runtime_classes.iter().find(|class| class.name == **name);
        class.is_some_and(|class| class.scope == RuntimeClassScope::Compatible)
    };
    let (compatible, exact): (Vec<&String>, Vec<&String>) = ready.iter().copied().partition(is_compatible);
    let build = input.spec.build;
    let parts =
        [(exact, format!("build {build}")), (compatible, format!("the nodes that run images of build {build}"))];
    let parts = parts.into_iter().filter(|(names, _)| !names.is_empty());
    let parts = parts.map(|(names, selected)| {
        format!("RuntimeClass {} {} {selected}", some_of(&names), agree(names.len(), "selects", "select"))
    });
    parts.collect::<Vec<_>>().join(", and ")
}

/// Why planned changes are not written yet.
fn unwritten(input: &ReportInput) -> (&'static str, String) {
    if input.withheld {
        return (reason::OBSERVING, "the mode is Observe. status.pending lists what would change".to_owned());
    }
    let failures: Vec<_> = input.done.failures().collect();
    if failures.is_empty() {
        return (reason::PROGRESSING, "the operator waits until its caches contain what it wrote".to_owned());
    }
    (reason::WRITE_FAILED, format!("{}. The write is retried", some_of(failures)))
}

/// The obstacles to labels and taints, the worst first.
const OBSTACLES: [&str; 7] = [
    reason::TAINT_CONFLICT,
    reason::LABEL_CONFLICT,
    reason::REFUSED,
    reason::WOULD_EVICT,
    reason::WOULD_STRAND_PODS,
    reason::CONTESTED,
    reason::PROGRESSING,
];

/// What an obstacle is, and the remedy.
fn about_obstacle(input: &ReportInput, reason: &str) -> String {
    let text = match reason {
        reason::WOULD_EVICT => return would_evict(input),
        reason::WOULD_STRAND_PODS => return would_strand_pods(input),
        reason::TAINT_CONFLICT => {
            "a taint of the same key and effect has another value, which is not overwritten. Remove the taint from the node, \
             or use its value in spec.taints"
        }
        reason::LABEL_CONFLICT => {
            "a label has another value, which is not overwritten. Remove the label from the node, or use its value in \
             spec.labels"
        }
        reason::REFUSED => "admission rejects the taints. Allow this operator to set them, or change spec.taints",
        reason::CONTESTED => {
            "another client repeatedly reverts labels or taints of the pool. Stop that client, or change the pool"
        }
        _ => "a RuntimeClass of the pool does not tolerate the taint and cannot be changed now. See RuntimeClassReady",
    };
    text.to_owned()
}

fn would_evict(input: &ReportInput) -> String {
    let obstacles = input.active.members.iter().flat_map(|member| &member.plan.obstacles);
    let evicting = obstacles.filter_map(|obstacle| match obstacle {
        Obstacle::WouldEvict(key) => Some(key),
        _ => None,
    });
    let keys: BTreeSet<&TaintKey> = evicting.collect();
    let taints: Vec<&Taint> = input.spec.taints.iter().filter(|taint| keys.contains(&TaintKey::from(*taint))).collect();
    let problem = match input.active.pods_unknown {
        true => "a NoExecute taint may evict pods, which this operator does not read (--workloads)",
        false => "a NoExecute taint would evict pods that do not tolerate it",
    };
    format!(
        "{problem}. Add the toleration to the pods, or allow it: {}",
        Consent::Evict(&taints).command(&input.pool.name)
    )
}

/// Why new taints wait for pods, with what to write in each workload.
fn would_strand_pods(input: &ReportInput) -> String {
    let taints = &input.active.taints;
    if taints.workloads.is_empty() {
        return "new taints wait until the pods are read".to_owned();
    }
    let instruction = |taint: &Taint| {
        let taint = taint.clone();
        move |(name, remedy): (&Arc<WorkloadName>, &Remedy)| format!("{name}: {}", remedy.instruction(&taint))
    };
    let workloads = taints.workloads.iter().flat_map(|(taint, workloads)| workloads.iter().map(instruction(taint)));
    let names: BTreeSet<&Arc<WorkloadName>> = taints.workloads.values().flat_map(BTreeMap::keys).collect();
    let count = counted(names.len(), "workload");
    let allow = Consent::Pending(&taints.workloads.keys().collect::<Vec<_>>()).command(&input.pool.name);
    format!(
        "{count} {} not tolerate it, and new pods would stay Pending. {}. Or allow it: {allow}",
        count.agree("does", "do"),
        some_messages(workloads),
    )
}

pub fn nodes_tainted(input: &ReportInput) -> ComputedCondition {
    let problem = mutual_replacement(input)
        .or_else(|| OBSTACLES.into_iter().find_map(|reason| obstructed(input, reason)))
        .or_else(|| incomplete(input))
        .or_else(|| refused_removals(input))
        .or_else(|| open_to_linux_pods(input));
    problem.unwrap_or_else(|| tainted(input))
}

fn mutual_replacement(input: &ReportInput) -> Option<ComputedCondition> {
    let MutualReplacement { pool, taint } = input.active.mutual_replacement.as_ref()?;
    let message = format!(
        "pool {pool} replaces a taint of this pool, and this pool replaces its taint {taint}, so neither taint is removed. Remove \
         the taint from spec.replacesTaints of one of them"
    );
    Some(NODES_TAINTED.because(reason::TAINT_CONFLICT, message))
}

/// Nodes with an obstacle of this reason.
fn obstructed(input: &ReportInput, reason: &'static str) -> Option<ComputedCondition> {
    let obstructed = input.active.members.iter().filter_map(|member| {
        let obstacle = member.plan.obstacle(reason)?;
        Some(format!("{} ({obstacle})", member.node.name))
    });
    about(&NODES_TAINTED, reason, &obstructed.collect::<Vec<_>>(), |_, names| {
        format!("{names}: {}. {}", about_obstacle(input, reason), input.list())
    })
}

/// Nodes whose labels and taints are not written yet.
fn incomplete(input: &ReportInput) -> Option<ComputedCondition> {
    let (reason, why) = unwritten(input);
    let incomplete = names(&input.nodes(|member| !member.is_tainted()));
    about(&NODES_TAINTED, reason, &incomplete, |nodes, names| {
        let lack = nodes.agree("lacks", "lack");
        format!("{nodes} {lack} labels or taints of the pool ({names}): {why}. {}", input.list())
    })
}

fn tainted(input: &ReportInput) -> ComputedCondition {
    let count = input.active.members.len();
    let nodes = counted(count, "node");
    let what = if have_config_names(input) { "labels, taints and configuration name" } else { "labels and taints" };
    let message = match count {
        0 => "the pool has no nodes".to_owned(),
        _ => format!("{nodes} {} {what}", nodes.agree("has its", "have their")),
    };
    let unchecked = pods_not_checked(input).filter(|_| !input.spec.taints.is_empty() && count > 0);
    let parts: Vec<_> = [message].into_iter().chain(unchecked).chain(unverified_records(input)).collect();
    NODES_TAINTED.because(reason::APPLIED, parts.join(". "))
}

/// Nodes without any taint that keeps Linux pods off, although they are as specified.
fn open_to_linux_pods(input: &ReportInput) -> Option<ComputedCondition> {
    let excludes = |member: &Member| member.node.lasting_taints().any(|taint| taint.excludes_pods());
    let is_specified = input.spec.taints.iter().any(Taint::excludes_pods);
    let open = names(&input.nodes(|member| !is_specified && !excludes(member)));
    about(&NODES_TAINTED, reason::OPEN_TO_LINUX_PODS, &open, |nodes, names| {
        let have = nodes.agree("has", "have");
        format!(
            "Linux pods can be scheduled to {nodes}, because spec.taints has no taint with effect NoSchedule or NoExecute and \
             {} {have} no other: {names}. Add one to spec.taints. {}",
            nodes.agree("it", "they"),
            input.list()
        )
    })
}

/// Former nodes that keep the taints because admission rejects the removal, with the first error.
fn refused_removals(input: &ReportInput) -> Option<ComputedCondition> {
    let refusals = input.done.results.iter().filter_map(|(write, outcome)| match (write.node_edit()?, outcome) {
        (edit, Outcome::Refused(text)) if edit.purpose == Purpose::Release => Some(text),
        _ => None,
    });
    let error = refusals.clone().next()?;
    let count = refusals.count();
    let message = format!(
        "admission rejects the removal of taints from {} that left the pool, so taints, label and record stay: {error}. {}",
        counted(count, "node"),
        input.list()
    );
    Some(NODES_TAINTED.because(reason::REFUSED, message).about(count))
}

/// Sentences about records that cannot be verified.
fn unverified_records(input: &ReportInput) -> impl Iterator<Item = String> {
    let unverified = input.nodes(|member| member.plan.unverified > 0 || is_unverified(input, member));
    let unverified = about_nodes(names(&unverified), |nodes, names| {
        format!(
            "The records on {nodes} cannot be verified with the key in Secret {OWNERSHIP_SECRET}, so the taints and labels in \
             them are never removed: {names}. Restore the former Secret and restart the operator, or remove them manually. {}",
            input.list()
        )
    });
    let not_stored = input.snapshot.ownership.not_stored();
    let not_stored = not_stored.map(|why| format!("The key that signs the records is not stored: {why}"));
    unverified.into_iter().chain(not_stored)
}

fn is_unverified(input: &ReportInput, member: &Member) -> bool {
    matches!(input.snapshot.ownership.record_state(&member.node), RecordState::Unverified(_))
        && member.plan.edit.is_none()
}

/// Whether every node has the name of a configuration. It keeps the name while the profile is invalid.
fn have_config_names(input: &ReportInput) -> bool {
    let configs = &input.active.configs;
    let has_name = |member: &Member| configs.name_for(&member.node).is_some() || member.node.config.is_some();
    configs.state != Rendering::NotUsed && input.active.members.iter().all(has_name)
}

/// `ConfigRendered`; `None` without a profile that can be used.
pub fn config_rendered(input: &ReportInput) -> Option<ComputedCondition> {
    let configs = &input.active.configs;
    match &configs.state {
        Rendering::NotUsed | Rendering::NotFound | Rendering::Invalid(_) | Rendering::ProfilesRefused => None,
        Rendering::ConfigMapsRefused => {
            let message = format!("{}. Nodes keep their last configuration", list_refused(Kind::CONFIG_MAP));
            Some(CONFIG_RENDERED.because(reason::LIST_REFUSED, message))
        }
        Rendering::Rendered(unrendered) => Some(rendered(input, unrendered)),
    }
}

/// `ConfigRendered` of a profile that is rendered for all variants except these.
fn rendered(input: &ReportInput, unrendered: &[Unrendered]) -> ComputedCondition {
    let configs = &input.active.configs;
    let namespace = &input.snapshot.namespace;
    if let Some((object, error)) = input.unwritten(|write| write.object.kind == Kind::CONFIG_MAP) {
        let message = format!(
            "ConfigMap {namespace}/{} cannot be written: {error}. Remove the cause, such as a quota, a policy or another \
             object of this name",
            object.name
        );
        return CONFIG_RENDERED.because(reason::WRITE_FAILED, message);
    }
    if let Some(name) = configs.delayed.first() {
        let message = format!(
            "another client repeatedly deletes ConfigMap {namespace}/{name}, which is created again within 30 s. Stop that client"
        );
        return CONFIG_RENDERED.because(reason::CONTESTED, message);
    }
    let mut failures = NodeMessages::default();
    for failure in unrendered {
        let same = input.nodes(|member| configs::variant(&member.node) == Some(failure.variant));
        failures.add(failure.to_string(), same.into_iter().map(|member| member.node.name.as_str()));
    }
    too_small(input, &mut failures);
    if let Some(failed) = failures.because(&CONFIG_RENDERED, reason::FAILED) {
        return ComputedCondition { message: input.with_list(&failures), ..failed };
    }
    let rendered = counted(configs.configs.len(), "configuration");
    let unreadable = input.nodes(|member| configs::variant(&member.node).is_none());
    let unreadable = about_nodes(names(&unreadable), |nodes, names| {
        format!("{rendered} rendered, none for {nodes} of unknown version: {names}. {}", input.list())
    });
    let all = || format!("{rendered} rendered for {}", counted(input.active.members.len(), "node"));
    let message = unreadable.unwrap_or_else(all);
    match newer_than_tables(input) {
        Some(newer) => CONFIG_RENDERED.because(reason::TABLES_END_AT, format!("{message}. {newer}. {}", input.list())),
        None => CONFIG_RENDERED.because(reason::RENDERED, message),
    }
}

/// Adds the nodes that have less of a resource than the profile reserves.
fn too_small<'a>(input: &'a ReportInput, failures: &mut NodeMessages<'a>) {
    let Some(profile) = input.profile() else { return };
    for ((minor, capacity), nodes) in input.groups(|node| (node.kubelet_minor(), node.capacity)) {
        if let Some(problem) = minor.and_then(|minor| reserve::capacity_problem(profile, minor, &capacity)) {
            failures.add(problem.to_string(), nodes);
        }
    }
}
