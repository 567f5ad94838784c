//! The conditions that make up Ready: what the spec asks of the operator.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Case, Stories, names};
use crate::{
    api::{
        RuntimeClassState,
        names::{annotation, condition, reason},
    },
    domain::{
        Problem,
        conditions::{Verdict, counted, some_of, some_stories},
        operation::Outcome,
        pool::{
            classes::ClassPlan,
            configs::{self, ConfigState},
            plan::Member,
        },
        render::reserve,
    },
};

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
    (reason::WRITE_FAILED, format!("{}; it is tried again", some_of(failures)))
}

/// `NodesConfigured`.
pub fn nodes_configured(case: &Case) -> Verdict {
    let verdict = |reason, message: String, count| {
        let message = format!("{message}; {}", case.list());
        Verdict::new(condition::NODES_CONFIGURED, false, reason, message).about(count)
    };
    let refused = |member: &Member| match case.nodes_done.get(member.node.name.as_str()) {
        Some(Outcome::WithoutTaints(text)) => Some(text.clone()),
        _ => member.plan.refused.clone(),
    };
    let allow_evict = format!(
        "a NoExecute taint would evict pods that do not tolerate it; allow it with: {}",
        case.pool.allow_command(annotation::ALLOW_EVICT),
    );
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
            "another writer keeps undoing the pool's: make one of the two stop",
            Box::new(|member| first(&member.plan.contested)),
        ),
        (
            reason::PROGRESSING,
            "Cluster API is about to set taints that are its own (cluster.x-k8s.io/taints-from-machine)",
            Box::new(|member| member.plan.left_to_machine.first().map(ToString::to_string)),
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
    let what = if config_names(case) { "labels, taints and config name" } else { "labels and taints" };
    let message = format!("{what} are on {}", counted(case.active.members.len(), "node"));
    Verdict::new(condition::NODES_CONFIGURED, true, reason::APPLIED, message)
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
