//! `MachinesTemplated`, and the machines in the status.

use winpool_api::{
    ClusterApiStatus, MachineGroupStatus, NextTemplate,
    conditions::ConditionStatus,
    names::{annotation, condition, reason},
};

use super::input::{ReportInput, worst_of};
use crate::{
    Problem,
    operation::{Operation, Outcome},
    pool::machines::{ClusterApiState, GroupPlan, MachineRules, MachinesState, Reference, Selected},
    status::condition::ComputedCondition,
    text::{agree, counted, some_of, some_of_many},
};

/// The machines of a pool that uses Cluster API.
pub fn status(input: &ReportInput) -> Option<ClusterApiStatus> {
    match &input.active.machines.state {
        MachinesState::Selected(selected) => Some(ClusterApiStatus {
            version: selected.version.to_string(),
            machines: selected.groups.iter().map(|group| group.machines).sum(),
            up_to_date: selected.groups.iter().map(|group| group.up_to_date).sum(),
            groups: selected.groups.iter().map(|group| group_status(input, group)).collect(),
        }),
        // What the pool wrote may have to be removed later.
        MachinesState::NotUsed if matches!(input.snapshot.cluster_api, ClusterApiState::Unknown) => {
            input.pool.status.cluster_api.clone()
        }
        MachinesState::Unknown => input.pool.status.cluster_api.clone(),
        MachinesState::NotUsed
        | MachinesState::NotInstalled
        | MachinesState::Unsupported(_)
        | MachinesState::ClusterNotFound => None,
    }
}

fn group_status(input: &ReportInput, group: &GroupPlan) -> MachineGroupStatus {
    let switched = input.done.results.iter().any(|(operation, outcome)| match operation {
        Operation::PatchMachineObject { object, template: Some(_), .. } => {
            object.key == group.key && *outcome == Outcome::Done
        }
        _ => false,
    });
    // While the template is unknown, the count of the former one remains.
    let former = input.pool.status.cluster_api.iter().flat_map(|status| &status.groups);
    let former = former.into_iter().find(|status| status.name == group.name && group.template.is_err());
    MachineGroupStatus {
        name: group.name.clone(),
        kubernetes: group.kubernetes.map(|minor| minor.to_string()).unwrap_or_default(),
        template: former.map_or_else(|| group.template.clone().unwrap_or_default(), |former| former.template.clone()),
        current: group.current.clone(),
        next: group
            .next
            .as_ref()
            .map(|(minor, template)| NextTemplate { kubernetes: minor.to_string(), template: template.clone() }),
        machines: group.machines,
        up_to_date: group.up_to_date,
        switches: former.map_or(group.switches + u32::from(switched), |former| former.switches),
    }
}

fn condition(status: ConditionStatus, reason: &'static str, message: impl Into<String>) -> ComputedCondition {
    ComputedCondition::new(condition::MACHINES_TEMPLATED, status, reason, message.into())
}

fn problem(reason: &'static str, count: usize, message: impl Into<String>) -> ComputedCondition {
    condition(ConditionStatus::False, reason, message).about(count)
}

/// The condition of a pool.
pub fn machines_templated(input: &ReportInput) -> ComputedCondition {
    let Some(rules) = &input.spec.machines else {
        return condition(ConditionStatus::True, reason::NOT_USED, "spec.delivery.method is not ClusterAPI");
    };
    let MachineRules { namespace, cluster, .. } = rules;
    match &input.active.machines.state {
        MachinesState::NotUsed | MachinesState::Unknown => {
            let message = "Cluster API is being read. If this persists, apply config/cluster-api";
            condition(ConditionStatus::False, reason::PROGRESSING, message)
        }
        MachinesState::NotInstalled => {
            let message = "the cluster does not serve Cluster API. Install it, or change spec.delivery.method";
            condition(ConditionStatus::False, reason::CLUSTER_API_NOT_INSTALLED, message)
        }
        MachinesState::Unsupported(versions) => {
            let message = format!(
                "Cluster API serves {}, and winpool knows v1beta2 and v1beta1. Upgrade Cluster API, or winpool",
                some_of(versions)
            );
            condition(ConditionStatus::False, reason::CONTRACT_UNSUPPORTED, message)
        }
        MachinesState::ClusterNotFound => {
            let message = format!(
                "Cluster {namespace}/{cluster} does not exist. Correct spec.delivery.clusterAPI.clusterName or namespace"
            );
            condition(ConditionStatus::False, reason::CLUSTER_NOT_FOUND, message)
        }
        MachinesState::Selected(selected) => {
            let good = || if selected.elsewhere { elsewhere(selected) } else { good(selected) };
            worst_of(problems(input, rules, selected)).unwrap_or_else(good)
        }
    }
}

/// The problems, the worst first.
fn problems(input: &ReportInput, rules: &MachineRules, selected: &Selected) -> Vec<ComputedCondition> {
    [
        none_selected(rules, selected),
        conflict(selected),
        invalid(selected),
        unwritten(input),
        observing(input),
        not_expressible(rules, selected),
        managed_elsewhere(selected),
        topology(selected),
        rotating(selected).filter(|_| !input.withheld),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn none_selected(rules: &MachineRules, selected: &Selected) -> Option<ComputedCondition> {
    let kind = rules.kind.name();
    let others = selected.of_other_clusters.iter().map(|(name, cluster)| format!("{name} (cluster {cluster})"));
    let others: Vec<_> = others.collect();
    let of_others = match others.len() {
        0 => String::new(),
        count => {
            let clusters = agree(count, "another cluster", "other clusters");
            format!(", only {} of {clusters}: {}", counted(count, kind), some_of(&others))
        }
    };
    let message = format!(
        "the selector {} matches no {kind} of cluster {} in namespace {}{of_others}. Correct the selector, or label the {kind}",
        rules.selector, rules.cluster, rules.namespace
    );
    selected.groups.is_empty().then(|| problem(reason::NO_MACHINES_SELECTED, others.len(), message))
}

fn conflict(selected: &Selected) -> Option<ComputedCondition> {
    let taken =
        selected.groups.iter().filter_map(|group| Some(format!("{} (pool {})", group.name, group.taken_by.as_ref()?)));
    let taken: Vec<_> = taken.collect();
    let message = format!("an older pool selects {}. Narrow one of the selectors", some_of(&taken));
    (!taken.is_empty()).then(|| problem(reason::MACHINES_CONFLICT, taken.len(), message))
}

fn invalid(selected: &Selected) -> Option<ComputedCondition> {
    let invalid: Vec<_> =
        selected.groups.iter().filter_map(|group| Some((group, group.template.as_ref().err()?))).collect();
    let text =
        |(group, problems): &&(&GroupPlan, &Vec<Problem>)| format!("{}: {}", group.name, Problem::list(problems));
    let messages: Vec<_> = invalid.iter().map(|invalid| text(&invalid)).collect();
    (!invalid.is_empty())
        .then(|| problem(reason::TEMPLATE_INVALID, invalid.len(), some_of_many(&messages, Clone::clone)))
}

/// A write of an object of Cluster API that failed.
fn unwritten(input: &ReportInput) -> Option<ComputedCondition> {
    let failed = input.done.results.iter().find_map(|(operation, outcome)| match (operation, outcome) {
        (
            Operation::CreateMachineObject { object, .. }
            | Operation::PatchMachineObject { object, .. }
            | Operation::DeleteMachineObject { object, .. },
            Outcome::Refused(error) | Outcome::Failed(error),
        ) => Some((object, error)),
        _ => None,
    });
    let (object, error) = failed?;
    let message = format!(
        "{} {} cannot be written: {error}. Apply config/cluster-api for namespace {}, or remove the cause",
        object.target, object.key, object.namespace
    );
    Some(problem(reason::WRITE_FAILED, 1, message))
}

/// A pool that does not write, although something differs.
fn observing(input: &ReportInput) -> Option<ComputedCondition> {
    let machines = &input.active.machines;
    let pending = machines.create.len() + machines.patch.len();
    let message = format!("{} of Cluster API pending, and the pool does not write", counted(pending, "change"));
    (input.withheld && pending > 0).then(|| problem(reason::OBSERVING, pending, message))
}

fn not_expressible(rules: &MachineRules, selected: &Selected) -> Option<ComputedCondition> {
    let groups: Vec<_> = selected.groups.iter().filter(|group| !group.missing_labels.is_empty()).collect();
    let first = groups.first()?;
    let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
    let message = format!(
        "new nodes of {} would not match spec.nodeSelector: {}. A kubelet registers with labels of one value outside the \
         reserved domains of Kubernetes. Select by such a label, or by one of node.cluster.x-k8s.io/ in \
         spec.template.metadata.labels of the {}",
        some_of(&names),
        first.missing_labels.join(", "),
        rules.kind.name()
    );
    Some(problem(reason::SELECTOR_NOT_EXPRESSIBLE, groups.len(), message))
}

fn managed_elsewhere(selected: &Selected) -> Option<ComputedCondition> {
    let of = |group: &&GroupPlan| matches!(group.reference, Reference::ManagedElsewhere(_));
    let groups: Vec<_> = selected.groups.iter().filter(of).collect();
    let first = groups.first()?;
    let Reference::ManagedElsewhere(manager) = &first.reference else { return None };
    let by = manager.as_ref().map_or_else(|| "another client".to_owned(), |manager| format!("field manager {manager}"));
    let message = format!(
        "{by} changed the reference of {} from {} back to {} twice. Let it ignore spec.template.spec.bootstrap.configRef.name, \
         or set rotation: Manual",
        first.name,
        first.template.as_deref().unwrap_or_default(),
        first.current
    );
    Some(problem(reason::REFERENCE_MANAGED_ELSEWHERE, groups.len(), message))
}

fn topology(selected: &Selected) -> Option<ComputedCondition> {
    let of = |group: &&GroupPlan| group.reference == Reference::TopologyManaged;
    let names: Vec<_> = selected.groups.iter().filter(of).map(|group| group.name.as_str()).collect();
    let message = format!(
        "a ClusterClass controls {}, so winpool does not change {} reference, and its template lacks files of winpool. Add the \
         output of `winpool render --target clusterclass-patch` to the ClusterClass",
        some_of(&names),
        agree(names.len(), "its", "their")
    );
    (!names.is_empty()).then(|| problem(reason::TOPOLOGY_MANAGED, names.len(), message))
}

fn rotating(selected: &Selected) -> Option<ComputedCondition> {
    let waits = |group: &&GroupPlan| {
        group.template.is_ok()
            && group.taken_by.is_none()
            && match group.reference {
                Reference::UpToDate => group.up_to_date < group.machines,
                Reference::Switching => true,
                _ => false,
            }
    };
    let groups: Vec<_> = selected.groups.iter().filter(waits).collect();
    let text = |group: &&GroupPlan| format!("{}: {} of {} machines", group.name, group.up_to_date, group.machines);
    let texts: Vec<_> = groups.iter().map(text).collect();
    let message = format!("Cluster API replaces machines; from the current template are {}", some_of(&texts));
    (!groups.is_empty()).then(|| problem(reason::ROTATING, groups.len(), message))
}

fn elsewhere(selected: &Selected) -> ComputedCondition {
    let message = format!(
        "the nodes of the machines are in another cluster. Templates and annotations are managed here; run winpool in that \
         cluster too for taints, labels and RuntimeClasses. {}",
        good(selected).message
    );
    condition(ConditionStatus::Unknown, reason::CLUSTER_IS_ELSEWHERE, message)
}

/// The condition without problems.
fn good(selected: &Selected) -> ComputedCondition {
    let foreign: Vec<_> = selected.groups.iter().filter(|group| !group.foreign_annotations.is_empty()).collect();
    let note = foreign.first().map(|group| {
        format!(". {} of {} set by another client and left unchanged", group.foreign_annotations.join(", "), group.name)
    });
    let note = note.unwrap_or_default();
    let pending: Vec<_> = selected.groups.iter().filter(|group| group.reference != Reference::UpToDate).collect();
    if pending.is_empty() {
        let machines: u32 = selected.groups.iter().map(|group| group.machines).sum();
        let count = usize::try_from(machines).unwrap_or(usize::MAX);
        let message = format!("{} from the current template{note}", counted(count, "machine"));
        return condition(ConditionStatus::True, reason::UP_TO_DATE, message);
    }
    let texts: Vec<_> = pending.iter().map(|group| pending_text(group)).collect();
    condition(ConditionStatus::True, reason::ROTATION_PENDING, format!("{}{note}", some_of_many(&texts, Clone::clone)))
}

fn pending_text(group: &GroupPlan) -> String {
    let template = group.template.as_deref().unwrap_or_default();
    let name = &group.name;
    match group.reference {
        Reference::NotAllowed => format!(
            "{} {name} lacks the annotation {}: \"true\". Add it, or set spec.template.spec.bootstrap.configRef.name to {template}",
            group.kind.name(),
            annotation::MANAGE_BOOTSTRAP
        ),
        Reference::Paused => {
            format!("{} {name} is paused and refers to {} instead of {template}", group.kind.name(), group.current)
        }
        _ => format!(
            "set spec.template.spec.bootstrap.configRef.name of {} {name} to {template} to replace its machines",
            group.kind.name()
        ),
    }
}
