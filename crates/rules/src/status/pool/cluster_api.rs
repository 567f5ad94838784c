//! `MachinesTemplated`, and the machines in the status.

use winpool_api::{
    ClusterApiStatus, MachineGroupStatus, NextTemplate,
    conditions::{ComputedCondition, MACHINES_TEMPLATED},
    names::{annotation, reason},
};
use winpool_core::{
    Problem,
    kind::Kind,
    text::{counted, some_of, some_of_many},
};
use winpool_facts::cluster_api::{SERVED_SINCE, VERSION};

use super::{
    delivery::awaits_window,
    input::{ReportInput, about, worst_of},
};
use crate::{
    operation::{Action, Write},
    pool::cluster_api::{ClusterApiRules, ClusterApiState, GroupPlan, Reference, Selected, has_left_objects},
};

/// The machines of a pool that uses Cluster API.
pub fn status(input: &ReportInput) -> Option<ClusterApiStatus> {
    match input.active.cluster_api.state.as_ref().unwrap_or(&input.snapshot.cluster_api.and_then(|_| Some(None))) {
        ClusterApiState::Installed(Some(selected)) => Some(ClusterApiStatus {
            namespace: input.spec.cluster_api.as_ref().map(|rules| rules.namespace.clone()).unwrap_or_default(),
            machines: selected.groups.iter().map(|group| group.machines).sum(),
            up_to_date: selected.groups.iter().map(|group| group.up_to_date).sum(),
            groups: selected.groups.iter().map(|group| group_status(input, group)).collect(),
        }),
        // What the pool wrote may have to be removed later.
        ClusterApiState::Unknown => input.pool.status.cluster_api.clone(),
        ClusterApiState::Installed(None) if has_left_objects(input.snapshot, input.pool) => {
            let namespace = input.pool.status.cluster_api.as_ref().map(|former| former.namespace.clone())?;
            Some(ClusterApiStatus { namespace, ..ClusterApiStatus::default() })
        }
        ClusterApiState::NotInstalled | ClusterApiState::Unsupported(_) | ClusterApiState::Installed(None) => None,
    }
}

fn group_status(input: &ReportInput, group: &GroupPlan) -> MachineGroupStatus {
    let switches = |write: &Write| write.action == Action::PatchMachineObject && !write.needs.is_empty();
    let switched = input.done.written().any(|write| switches(write) && write.object.key() == group.key);
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

/// `MachinesTemplated`; `None` if the pool does not use Cluster API.
pub fn machines_templated(input: &ReportInput) -> Option<ComputedCondition> {
    let rules = input.spec.cluster_api.as_ref()?;
    let ClusterApiRules { namespace, cluster, .. } = rules;
    Some(match input.active.cluster_api.state.as_ref().unwrap_or(&ClusterApiState::Unknown) {
        ClusterApiState::Unknown => {
            let message = "Cluster API is being read. If this persists, apply config/cluster-api";
            MACHINES_TEMPLATED.because(reason::PROGRESSING, message)
        }
        ClusterApiState::NotInstalled => {
            let message = "the cluster does not serve Cluster API. Install it, or change spec.delivery.method";
            MACHINES_TEMPLATED.because(reason::CLUSTER_API_NOT_INSTALLED, message)
        }
        ClusterApiState::Unsupported(versions) => {
            let message = format!(
                "winpool needs Cluster API's resources in {VERSION}, and the cluster serves only {}. Upgrade Cluster API to \
                 {SERVED_SINCE} or later",
                some_of(versions)
            );
            MACHINES_TEMPLATED.because(reason::CONTRACT_UNSUPPORTED, message)
        }
        ClusterApiState::Installed(None) => {
            let message = format!(
                "Cluster {namespace}/{cluster} does not exist. Correct spec.delivery.clusterAPI.clusterName or namespace"
            );
            MACHINES_TEMPLATED.because(reason::CLUSTER_NOT_FOUND, message)
        }
        ClusterApiState::Installed(Some(selected)) => {
            let good = || if selected.elsewhere { elsewhere(selected) } else { good(selected) };
            worst_of(problems(input, rules, selected)).unwrap_or_else(good)
        }
    })
}

/// The problems, the worst first.
fn problems(input: &ReportInput, rules: &ClusterApiRules, selected: &Selected) -> [Option<ComputedCondition>; 10] {
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
        awaiting_window(input, selected).filter(|_| !input.withheld),
    ]
}

/// A problem of groups with these names or descriptions; `None` without groups.
fn problem<T: AsRef<str>>(
    reason: &'static str,
    groups: impl IntoIterator<Item = T>,
    message: impl FnOnce(&str) -> String,
) -> Option<ComputedCondition> {
    let groups: Vec<T> = groups.into_iter().collect();
    about(&MACHINES_TEMPLATED, reason, &groups, |_, names| message(names))
}

fn none_selected(rules: &ClusterApiRules, selected: &Selected) -> Option<ComputedCondition> {
    let kind = rules.kind.name();
    let others = selected.of_other_clusters.iter().map(|(name, cluster)| format!("{name} (cluster {cluster})"));
    let others: Vec<_> = others.collect();
    let count = counted(others.len(), kind);
    let clusters = count.agree("another cluster", "other clusters");
    let of_others = match others.len() {
        0 => String::new(),
        _ => format!(", only {count} of {clusters}: {}", some_of(&others)),
    };
    let message = format!(
        "the selector {} matches no {kind} of cluster {} in namespace {}{of_others}. Correct the selector, or label the {kind}",
        rules.selector, rules.cluster, rules.namespace
    );
    let condition = || MACHINES_TEMPLATED.because(reason::NO_MACHINES_SELECTED, message).about(others.len());
    selected.groups.is_empty().then(condition)
}

fn conflict(selected: &Selected) -> Option<ComputedCondition> {
    let taken =
        selected.groups.iter().filter_map(|group| Some(format!("{} (pool {})", group.name, group.taken_by.as_ref()?)));
    problem(reason::MACHINES_CONFLICT, taken, |taken| {
        format!("an older pool selects {taken}. Narrow one of the selectors")
    })
}

fn invalid(selected: &Selected) -> Option<ComputedCondition> {
    let invalid = selected.groups.iter().filter_map(|group| Some((&group.name, group.template.as_ref().err()?)));
    let texts = invalid.map(|(name, problems)| format!("{name}: {}", Problem::list(problems)));
    problem(reason::TEMPLATE_INVALID, texts, str::to_owned)
}

/// A write of an object of Cluster API that failed.
fn unwritten(input: &ReportInput) -> Option<ComputedCondition> {
    let is_of_machines = |kind| kind == Kind::SECRET || Kind::CLUSTER_API.contains(&kind);
    let (object, error) = input.unwritten(|write| is_of_machines(write.object.kind))?;
    let message = format!(
        "{object} cannot be written: {error}. Apply config/cluster-api for namespace {}, or remove the cause",
        object.namespace.as_deref().unwrap_or_default()
    );
    Some(MACHINES_TEMPLATED.because(reason::WRITE_FAILED, message).about(1))
}

/// A pool that does not write, although something differs.
fn observing(input: &ReportInput) -> Option<ComputedCondition> {
    let plan = &input.active.cluster_api;
    let pending = plan.create.iter().chain(&plan.patch).filter(|write| write.change.is_some()).count();
    let message = format!("{} of Cluster API pending, and the pool does not write", counted(pending, "change"));
    let condition = || MACHINES_TEMPLATED.because(reason::OBSERVING, message).about(pending);
    (input.withheld && pending > 0).then(condition)
}

fn not_expressible(rules: &ClusterApiRules, selected: &Selected) -> Option<ComputedCondition> {
    let groups = || selected.groups.iter().filter(|group| !group.missing_labels.is_empty());
    let missing = some_of(&groups().next()?.missing_labels);
    let kind = rules.kind.name();
    problem(reason::SELECTOR_NOT_EXPRESSIBLE, groups().map(|group| &group.name), |names| {
        format!(
            "new nodes of {names} would not match spec.nodeSelector: {missing}. A kubelet registers with labels of one value \
             outside the reserved domains of Kubernetes. Select by such a label, or by one of node.cluster.x-k8s.io/ in \
             spec.template.metadata.labels of the {kind}"
        )
    })
}

fn managed_elsewhere(selected: &Selected) -> Option<ComputedCondition> {
    let managed = selected.groups.iter().filter_map(|group| match &group.reference {
        Reference::ManagedElsewhere(manager) => Some((group, manager)),
        _ => None,
    });
    let (first, manager) = managed.clone().next()?;
    let by = manager.as_ref().map_or_else(|| "another client".to_owned(), |manager| format!("field manager {manager}"));
    let message = format!(
        "{by} changed the reference of {} from {} back to {} twice. Let it ignore spec.template.spec.bootstrap.configRef.name, \
         or set rotation: Manual",
        first.name,
        first.template.as_deref().unwrap_or_default(),
        first.current
    );
    Some(MACHINES_TEMPLATED.because(reason::REFERENCE_MANAGED_ELSEWHERE, message).about(managed.count()))
}

fn topology(selected: &Selected) -> Option<ComputedCondition> {
    let of = |group: &&GroupPlan| group.reference == Reference::TopologyManaged;
    let names: Vec<_> = selected.groups.iter().filter(of).map(|group| &group.name).collect();
    about(&MACHINES_TEMPLATED, reason::TOPOLOGY_MANAGED, &names, |groups, names| {
        let their = groups.agree("its", "their");
        format!(
            "a ClusterClass controls {names}, so winpool does not change {their} reference, and its template lacks files of \
             winpool. Add the output of `winpool render --target clusterclass-patch` to the ClusterClass"
        )
    })
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
    let text = |group: &GroupPlan| format!("{}: {} of {} machines", group.name, group.up_to_date, group.machines);
    problem(reason::ROTATING, selected.groups.iter().filter(waits).map(text), |texts| {
        format!("Cluster API replaces machines; from the current template are {texts}")
    })
}

fn awaiting_window(input: &ReportInput, selected: &Selected) -> Option<ComputedCondition> {
    let begins = input.active.cluster_api.awaited_window()?;
    let waits = |group: &&GroupPlan| matches!(group.reference, Reference::AwaitsWindow(_));
    problem(reason::AWAITS_WINDOW, selected.groups.iter().filter(waits).map(|group| &group.name), |names| {
        format!("{}. Then Cluster API replaces the machines of {names}", awaits_window(begins))
    })
}

fn elsewhere(selected: &Selected) -> ComputedCondition {
    let message = format!(
        "the nodes of the machines are in another cluster. Templates and annotations are managed here; run winpool in that \
         cluster too for taints, labels and RuntimeClasses. {}",
        good(selected).message
    );
    MACHINES_TEMPLATED.because(reason::CLUSTER_IS_ELSEWHERE, message)
}

/// That the autoscaler expects more on new nodes than they have for pods, because the provider reports the capacity.
fn overstated(selected: &Selected) -> Option<String> {
    let groups: Vec<_> = selected.groups.iter().filter(|group| !group.overstated.is_empty()).collect();
    let first = &groups.first()?.overstated[0];
    let texts = some_of_many(&groups, |group| {
        format!("{} ({})", group.name, some_of_many(&group.overstated, ToString::to_string))
    });
    Some(format!(
        ". The provider reports the capacity of new machines, of which nodes reserve a part, so that a pod for which the \
         autoscaler adds a machine may not fit: {texts}. Annotate {}: {}, and so for each resource, to correct it",
        first.annotation, first.allocatable
    ))
}

/// The condition without problems.
fn good(selected: &Selected) -> ComputedCondition {
    let foreign: Vec<_> = selected.groups.iter().filter(|group| !group.foreign_annotations.is_empty()).collect();
    let note = foreign.first().map(|group| {
        format!(". {} of {} set by another client and left unchanged", some_of(&group.foreign_annotations), group.name)
    });
    let note = note.into_iter().chain(overstated(selected)).collect::<String>();
    let pending: Vec<_> = selected.groups.iter().filter(|group| group.reference != Reference::UpToDate).collect();
    if pending.is_empty() {
        let machines: u32 = selected.groups.iter().map(|group| group.machines).sum();
        let count = usize::try_from(machines).unwrap_or(usize::MAX);
        let message = format!("{} from the current template{note}", counted(count, "machine"));
        return MACHINES_TEMPLATED.because(reason::UP_TO_DATE, message);
    }
    let texts = some_of_many(&pending, |group| pending_text(group));
    MACHINES_TEMPLATED.because(reason::ROTATION_PENDING, format!("{texts}{note}"))
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
