//! The conditions that make up Ready: what the spec asks of the operator.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Case, Stories, names};
use crate::{
    api::{
        RuntimeClassState,
        names::{OWNERSHIP_SECRET, annotation, condition, label, reason},
    },
    domain::{
        Problem,
        conditions::{Verdict, counted, some_of, some_stories},
        operation::{Operation, Outcome, Purpose, Shortfall},
        ownership::Evidence,
        pool::{
            Members,
            classes::ClassPlan,
            configs::{self, ConfigState},
            plan::Member,
        },
        render::reserve,
    },
    facts::node_restriction::kubelet_may_set,
};

/// `SpecValid` of a spec that can be acted on.
pub fn spec_valid(case: &Case) -> Verdict {
    let mut message = "the spec can be acted on".to_owned();
    let selected_by_others = match &case.spec.members {
        Members::Fallback => false,
        Members::Selector(selector) => {
            let expressions = selector.match_expressions.iter().map(|requirement| &requirement.key);
            selector.match_labels.keys().chain(expressions).any(|key| !kubelet_may_set(key))
        }
    };
    let protected = case.spec.labels.keys().find(|key| !kubelet_may_set(key));
    if let Some(label) = protected.filter(|_| !selected_by_others) {
        message = format!(
            "{message}. A kubelet can set the labels of spec.nodeSelector on its own Node, and so get label {label} and the pods \
             that select it: select by a label of node-restriction.kubernetes.io too"
        );
    }
    Verdict::new(condition::SPEC_VALID, true, reason::VALID, message)
}

/// `ProfileResolved`.
pub fn profile_resolved(case: &Case) -> Verdict {
    let name = case.spec.profile.as_deref().unwrap_or_default();
    let verdict = |status, reason, message| Verdict::new(condition::PROFILE_RESOLVED, status, reason, message);
    let keeps = "the pool keeps its last rendered configurations and goes on guarding its nodes";
    match &case.active.configs.state {
        ConfigState::NotUsed => {
            verdict(true, reason::NOT_USED, "no profile is named, so no configuration is rendered".to_owned())
        }
        ConfigState::NotFound => {
            let message = format!(
                "there is no WindowsRuntimeProfile {name}; {keeps}. Apply the profile, or correct spec.profileRef.name"
            );
            verdict(false, reason::NOT_FOUND, message)
        }
        ConfigState::Invalid(problems) => verdict(
            false,
            reason::INVALID,
            format!("WindowsRuntimeProfile {name}: {}; {keeps}", Problem::list(problems)),
        ),
        ConfigState::Rendered(_) => verdict(true, reason::RESOLVED, format!("WindowsRuntimeProfile {name} is valid")),
    }
}

/// `NodesAssigned`.
pub fn nodes_assigned(case: &Case) -> Verdict {
    let verdict = |status, reason, message| Verdict::new(condition::NODES_ASSIGNED, status, reason, message);
    let held = case.nodes(|member| member.held);
    if !held.is_empty() {
        let message = format!(
            "{} no longer match and stay guarded, because no other pool takes them: correct spec.nodeSelector or the nodes' \
             labels, or let them go with: {}; {}",
            some_of(names(&held)),
            case.pool.allow_command(annotation::ALLOW_RELEASE),
            case.list(),
        );
        return verdict(false, reason::RELEASE_HELD, message).about(held.len());
    }
    if !case.active.unproven.is_empty() {
        let message = format!(
            "{} {} label {}={} without a valid record of this operator and {} not selected, so the pool leaves {} alone: remove \
             the label, or restore Secret {OWNERSHIP_SECRET} if it was lost; {}",
            some_of(&case.active.unproven),
            if case.active.unproven.len() == 1 { "has" } else { "have" },
            label::POOL,
            case.pool.name,
            if case.active.unproven.len() == 1 { "is" } else { "are" },
            if case.active.unproven.len() == 1 { "it" } else { "them" },
            case.list(),
        );
        return verdict(false, reason::RECORD_NOT_VERIFIED, message).about(case.active.unproven.len());
    }
    if !case.active.contested.is_empty() {
        let nodes = some_of(case.active.contested.iter().map(|(node, _)| node));
        let pools: BTreeSet<&String> = case.active.contested.iter().flat_map(|(_, pools)| pools).collect();
        let message = format!(
            "{nodes} match more than one pool ({}); the pool that has a node keeps it. Narrow spec.nodeSelector of one of \
             them; {}",
            some_of(pools),
            case.list_matching(),
        );
        return verdict(false, reason::NODE_CONFLICT, message).about(case.active.contested.len());
    }
    if let Some(other) = &case.active.other_fallback {
        let message = format!("pool {other} is the fallback already: set spec.fallback: true in one pool only");
        return verdict(false, reason::NODE_CONFLICT, message);
    }
    match case.active.members.len() {
        0 => verdict(true, reason::NO_NODES, "no Windows node matches yet".to_owned()),
        count => verdict(
            true,
            reason::ASSIGNED,
            if count == 1 {
                "1 node belongs to this pool alone".to_owned()
            } else {
                format!("{count} nodes belong to this pool alone")
            },
        ),
    }
}

/// The state of each RuntimeClass after what was done.
pub fn class_states(case: &Case) -> BTreeMap<String, RuntimeClassState> {
    let unwritten = |plan: &ClassPlan| {
        plan.widen.iter().chain(&plan.settle).chain(&plan.strip).any(|operation| {
            !case.done.results.iter().any(|(done, outcome)| done == operation && *outcome == Outcome::Done)
        })
    };
    let state = |plan: &ClassPlan| match plan.state {
        RuntimeClassState::Applied if unwritten(plan) => RuntimeClassState::Pending,
        state => state,
    };
    case.active.classes.iter().map(|plan| (plan.name.clone(), state(plan))).collect()
}

/// `RuntimeClassReady`.
pub fn runtime_class_ready(case: &Case, states: &BTreeMap<String, RuntimeClassState>) -> Verdict {
    let reasons = [
        (RuntimeClassState::HandlerDiffers, reason::HANDLER_DIFFERS),
        (RuntimeClassState::NameTaken, reason::NAME_TAKEN),
        (RuntimeClassState::NotOurs, reason::NOT_OURS),
        (RuntimeClassState::WouldStrand, reason::WOULD_STRAND),
        (RuntimeClassState::Contested, reason::CONTESTED),
    ];
    for (state, reason) in reasons {
        let wrong: Vec<_> = case.active.classes.iter().filter(|plan| plan.state == state).collect();
        if !wrong.is_empty() {
            let message = some_stories(wrong.iter().map(|plan| plan.message.as_str()));
            return Verdict::new(condition::RUNTIME_CLASS_READY, false, reason, message).about(wrong.len());
        }
    }
    let named =
        |wanted: RuntimeClassState| states.iter().filter(move |(_, state)| **state == wanted).map(|(name, _)| name);
    let pending: Vec<_> = named(RuntimeClassState::Pending).collect();
    if !pending.is_empty() {
        let (reason, why) = unwritten(case);
        let message = format!("RuntimeClass {} is not as specified: {why}", some_of(&pending));
        return Verdict::new(condition::RUNTIME_CLASS_READY, false, reason, message).about(pending.len());
    }
    let ready: Vec<_> = named(RuntimeClassState::Applied).chain(named(RuntimeClassState::Found)).collect();
    let message = match ready.len() {
        0 => "no RuntimeClass is asked for".to_owned(),
        _ => format!("RuntimeClass {} leads to {}", some_of(&ready), case.spec.build),
    };
    Verdict::new(condition::RUNTIME_CLASS_READY, true, reason::APPLIED, message)
}

/// Why something planned is not written.
fn unwritten(case: &Case) -> (&'static str, String) {
    if case.withheld {
        let why = "the pool only observes; status.pending has what would change";
        return (reason::OBSERVING, if case.spec.paused { "the pool is paused".to_owned() } else { why.to_owned() });
    }
    let failures: Vec<_> = case.done.failures().collect();
    if failures.is_empty() {
        return (reason::PROGRESSING, "the rest follows when the API server shows what was written".to_owned());
    }
    (reason::WRITE_FAILED, format!("{}; it is tried again", some_of(failures)))
}

/// `NodesConfigured`.
pub fn nodes_configured(case: &Case) -> Verdict {
    let verdict = |reason, message: String, count| {
        let message = format!("{message}; {}", case.list());
        Verdict::new(condition::NODES_CONFIGURED, false, reason, message).about(count)
    };
    let refused = |member: &Member| match case.nodes_done.get(member.node.name.as_str()) {
        Some(Outcome::Partly { why: Shortfall::Refused(text), .. }) => Some(text.clone()),
        _ => member.plan.refused.clone(),
    };
    let evicts = match case.active.pods_unknown {
        true => "a NoExecute taint may evict pods, which this operator does not read (--workloads)",
        false => "a NoExecute taint would evict pods that do not tolerate it",
    };
    let allow_evict = format!("{evicts}; allow it with: {}", case.pool.allow_command(annotation::ALLOW_EVICT));
    let causes: [(&'static str, &str, Box<dyn Fn(&Member) -> Option<String>>); 6] = [
        (
            reason::TAINT_CONFLICT,
            "a taint of the same key and effect has another value, which is left as it is: remove it from the node, or write its value in spec.taints",
            Box::new(|member| first(&member.plan.taint_conflicts)),
        ),
        (
            reason::LABEL_CONFLICT,
            "a label has another value, which is left as it is: remove it from the node, or write its value in spec.labels",
            Box::new(|member| first(&member.plan.label_conflicts)),
        ),
        (
            reason::REFUSED,
            "admission refused the taints: allow this operator to set them, or change spec.taints",
            Box::new(refused),
        ),
        (
            reason::WOULD_EVICT,
            &allow_evict,
            Box::new(|member| member.plan.would_evict.first().map(ToString::to_string)),
        ),
        (
            reason::CONTESTED,
            "another client keeps reverting what the pool sets: make one of the two stop",
            Box::new(|member| first(&member.plan.contested)),
        ),
        (
            reason::PROGRESSING,
            "a RuntimeClass of the pool does not tolerate the taint, and cannot be changed now; see RuntimeClassReady",
            Box::new(|member| member.plan.untolerated.first().map(ToString::to_string)),
        ),
    ];
    for (reason, story, cause) in causes {
        let wrong: Vec<String> = case
            .active
            .members
            .iter()
            .filter_map(|member| cause(member).map(|detail| format!("{} ({detail})", member.node.name)))
            .collect();
        if !wrong.is_empty() {
            return verdict(reason, format!("{}: {story}", some_of(&wrong)), wrong.len());
        }
    }
    let unguarded = case.nodes(|member| !case.guarded(member));
    if !unguarded.is_empty() {
        let (reason, why) = unwritten(case);
        return verdict(reason, format!("{} wait for changes: {why}", some_of(names(&unguarded))), unguarded.len());
    }
    if let Some((count, text)) = refused_removals(case) {
        let message = format!(
            "admission refused to remove the taints of {} that left the pool, so taints, label and record stay: {text}",
            counted(count, "node")
        );
        return verdict(reason::REFUSED, message, count);
    }
    let what = if config_names(case) { "labels, taints and config name" } else { "labels and taints" };
    let message = format!("{what} are on {}", counted(case.active.members.len(), "node"));
    let message = [message].into_iter().chain(records(case)).collect::<Vec<_>>().join(". ");
    Verdict::new(condition::NODES_CONFIGURED, true, reason::APPLIED, message)
}

/// How many nodes that left the pool keep its taints because they may not be removed, with the first refusal.
fn refused_removals(case: &Case) -> Option<(usize, String)> {
    let refusals = case.done.results.iter().filter_map(|(operation, outcome)| match (operation, outcome) {
        (Operation::PatchNode(patch), Outcome::Refused(text)) if patch.change.purpose == Purpose::Release => Some(text),
        _ => None,
    });
    let refusals: Vec<_> = refusals.collect();
    Some((refusals.len(), refusals.first()?.to_string()))
}

/// What the records on the nodes do not prove, and what to do about it.
fn records(case: &Case) -> Vec<String> {
    let mut sentences = Vec::new();
    let claimed = case.nodes(|member| member.plan.claimed > 0 || unverified(case, member));
    if !claimed.is_empty() {
        sentences.push(format!(
            "The records on {} could not be verified with the key in Secret {OWNERSHIP_SECRET}, so what they call added is kept \
             and never removed: restore the former Secret and restart the operator, or remove it by hand; {}",
            some_of(names(&claimed)),
            case.list()
        ));
    }
    if let Some(why) = case.snapshot.ownership.not_stored() {
        sentences.push(format!("The key that signs the records is not stored: {why}"));
    }
    sentences
}

fn unverified(case: &Case, member: &Member) -> bool {
    matches!(case.snapshot.ownership.evidence(&member.node), Evidence::Unverified(_)) && member.plan.change.is_none()
}

/// Whether every node has the name of a configuration, which it keeps while the profile cannot be used.
fn config_names(case: &Case) -> bool {
    let configs = &case.active.configs;
    let named = |member: &Member| configs.name_for(&member.node).is_some() || member.node.config.is_some();
    configs.state != ConfigState::NotUsed && case.active.members.iter().all(named)
}

fn first(texts: &[String]) -> Option<String> {
    texts.first().cloned()
}

/// `ConfigRendered`.
pub fn config_rendered(case: &Case) -> Verdict {
    let verdict = |status, reason, message| Verdict::new(condition::CONFIG_RENDERED, status, reason, message);
    let configs = &case.active.configs;
    match &configs.state {
        ConfigState::NotUsed => verdict(true, reason::NOT_USED, "no profile is named".to_owned()),
        ConfigState::NotFound | ConfigState::Invalid(_) => {
            verdict(false, reason::FAILED, "the profile cannot be used; see ProfileResolved".to_owned())
        }
        ConfigState::Rendered(unrendered) => {
            if let Some((name, text)) = unwritten_config(case) {
                let message = format!(
                    "ConfigMap {}/{name} cannot be written: {text}. Remove the cause, such as a quota, a policy or an object of \
                     somebody else with this name",
                    case.snapshot.namespace
                );
                return verdict(false, reason::WRITE_FAILED, message);
            }
            if let Some(name) = configs.delayed.first() {
                let message = format!(
                    "another client keeps deleting ConfigMap {}/{name}, which is created again after at most 30 s: make it stop",
                    case.snapshot.namespace
                );
                return verdict(false, reason::CONTESTED, message);
            }
            let mut failures = Stories::default();
            for failure in unrendered {
                let same = case.nodes(|member| configs::variant(&member.node) == Some(failure.variant));
                failures.add(failure.to_string(), same.into_iter().map(|member| member.node.name.as_str()));
            }
            too_small(case, &mut failures);
            if !failures.is_empty() {
                return verdict(false, reason::FAILED, case.tell(&failures)).about(failures.count());
            }
            let unreadable = case.nodes(|member| configs::variant(&member.node).is_none());
            let message = match unreadable.len() {
                0 => format!("every node has its configuration, of {} in all", configs.configs.len()),
                _ => format!(
                    "{} rendered; none for {}, whose versions cannot be read; {}",
                    counted(configs.configs.len(), "configuration"),
                    some_of(names(&unreadable)),
                    case.list()
                ),
            };
            verdict(true, reason::RENDERED, message)
        }
    }
}

/// The first ConfigMap that could not be written, with the reason.
fn unwritten_config<'a>(case: &Case<'a>) -> Option<(&'a str, &'a str)> {
    case.done.results.iter().find_map(|(operation, outcome)| match (operation, outcome) {
        (
            Operation::ApplyConfigMap { name, .. } | Operation::DeleteConfigMap { name, .. },
            Outcome::Refused(text) | Outcome::Failed(text),
        ) => Some((name.as_str(), text.as_str())),
        _ => None,
    })
}

/// Nodes that have less than the profile reserves.
fn too_small<'a>(case: &'a Case, failures: &mut Stories<'a>) {
    let Some(profile) = case.profile() else { return };
    // Many nodes are of one size.
    let mut sizes: HashMap<_, Vec<&str>> = HashMap::new();
    for Member { node, .. } in &case.active.members {
        if let Ok(kubelet) = &node.kubelet {
            sizes.entry((kubelet.minor, node.capacity)).or_default().push(&node.name);
        }
    }
    for ((minor, capacity), nodes) in sizes {
        if let Some(problem) = reserve::exceeds(profile, minor, &capacity) {
            failures.add(problem.to_string(), nodes);
        }
    }
}
