//! Whether the scheduler and the DaemonSet controller select nodes that run the pods.

use winpool_api::{Toleration, TolerationOperator, names::label};
use winpool_core::{release_labels, text::some_of};
use winpool_workload::{
    System, Template,
    placement::{EffectiveSpec, MatchingPool, NodeRequirement, Unschedulable},
    scheduling_state::NodeGroup,
};

use super::{
    Code, Finding, LintContext, Workload,
    context::PodPlacement,
    node_labels,
    selected_os::{BETA_ARCH, OS_SKU, SelectedOs},
};

pub fn check(
    workload: &Workload<'_>,
    template: &Template,
    placement: &PodPlacement<'_>,
    context: &LintContext<'_>,
) -> Vec<Finding> {
    let mut findings = conflicts(template, placement);
    let is_daemon_set = workload.kind() == "DaemonSet";
    if placement.is_windows() {
        findings.extend(missing(workload, template, placement));
        findings.extend(beta_labels(template));
        let no_such_node = node_labels::check(template);
        findings.extend(no_pool(template, placement, context, is_daemon_set).filter(|_| no_such_node.is_empty()));
        findings.extend(no_such_node);
        findings.extend(if is_daemon_set {
            daemon_set(template, placement, context)
        } else {
            untolerated(template, placement, context)
        });
    } else {
        findings.extend(linux_tolerance(template, placement, context, is_daemon_set));
    }
    findings
}

fn missing(workload: &Workload<'_>, template: &Template, placement: &PodPlacement<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if placement.selected_os == SelectedOs::Any && placement.effective.is_ok() && template.node_name.is_none() {
        let problem = "the pod can be scheduled to Linux nodes";
        let finding = Finding::new(Code::OsSelectorMissing, "", problem);
        findings.push(match workload.kind() {
            // Its controller ignores a RuntimeClass.
            "DaemonSet" => finding.with_remedy("set nodeSelector: {kubernetes.io/os: windows} in the template"),
            _ => finding,
        });
    }
    if template.os.is_none() && workload.spec()["os"].is_null() {
        findings.push(Finding::new(Code::OsNameMissing, "", "os.name is missing"));
    }
    findings
}

fn conflicts(template: &Template, placement: &PodPlacement<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let (Some(os), SelectedOs::Only(selected)) = (template.os, placement.selected_os)
        && os != selected
    {
        let problem = format!("the pod is for {os} and selects {selected} nodes");
        findings.push(Finding::new(Code::PlacementConflict, "os.name", problem));
    }
    if let Err(Unschedulable::SelectorConflict { class, key, class_value, own_value }) = &placement.effective {
        let problem = format!("nodeSelector has {key}={own_value}, and RuntimeClass {class} has {key}={class_value}");
        findings.push(Finding::new(Code::PlacementConflict, selector_path(key), problem));
    }
    findings
}

fn selector_path(key: &str) -> String {
    format!("nodeSelector[{key}]")
}

fn beta_labels(template: &Template) -> impl Iterator<Item = Finding> {
    let in_selector = |key: &&str| template.scheduling.node_selector.contains_key(*key);
    let in_affinity = |key: &&str| template.affinity.iter().flatten().any(|requirement| requirement.key == *key);
    let finding = |path: String, key: &str| Finding::new(Code::BetaOsLabel, path, format!("the pod selects by {key}"));
    let selector = [label::BETA_OS, BETA_ARCH].into_iter().filter(in_selector);
    let affinity = [label::BETA_OS, BETA_ARCH].into_iter().filter(in_affinity);
    let selector = selector.map(move |key| finding(selector_path(key), key));
    selector.chain(affinity.map(move |key| finding("affinity.nodeAffinity".to_owned(), key)))
}

/// The spec of a pod that cannot be scheduled to any pool.
fn unschedulable<'b>(
    template: &Template,
    placement: &'b PodPlacement<'_>,
    context: &LintContext<'_>,
) -> Option<&'b EffectiveSpec<'b>> {
    let is_unschedulable = context.has_pools && placement.pools.is_empty() && template.node_name.is_none();
    placement.effective.as_ref().ok().filter(|_| is_unschedulable)
}

/// A pod that selects a pool or a build that does not exist. Other labels are not checked, because Windows nodes in no
/// pool may have them. A DaemonSet may be for builds that a cluster never has.
fn no_pool(
    template: &Template,
    placement: &PodPlacement<'_>,
    context: &LintContext<'_>,
    is_daemon_set: bool,
) -> Option<Finding> {
    let effective = unschedulable(template, placement, context)?;
    let known = |key: &str| {
        key == label::POOL || release_labels::is_release_label(key) || (key == label::WINDOWS_BUILD && !is_daemon_set)
    };
    let pools = &context.state.pools;
    let groups = pools.iter().flat_map(|pool| pool.groups.iter().map(move |group| (pool, group)));
    let unmet = groups.map(|(pool, group)| (pool, effective.unmet(&group.labels, "", known)));
    let (pool, unmet) = unmet.min_by_key(|(_, unmet)| unmet.len())?;
    let unmet = unmet.into_iter().next()?;
    let path = match &unmet {
        NodeRequirement::Label(label) if template.scheduling.node_selector.contains_key(&label.key) => {
            selector_path(&label.key)
        }
        NodeRequirement::Label(_) => "runtimeClassName".to_owned(),
        NodeRequirement::Affinity => "affinity.nodeAffinity".to_owned(),
    };
    let problem = format!("no pool matches: the nodes of pool {} {unmet}", pool.name);
    let finding = Finding::new(Code::NoPool, path, problem);
    Some(match unmet {
        NodeRequirement::Label(unmet) if unmet.key == label::POOL => {
            finding.with_remedy(format!("use one of the pools: {}", some_of(pools.iter().map(|pool| &pool.name))))
        }
        _ => finding,
    })
}

/// A pod that does not tolerate the taints of any pool.
fn untolerated(template: &Template, placement: &PodPlacement<'_>, context: &LintContext<'_>) -> Option<Finding> {
    let effective = unschedulable(template, placement, context)?;
    let Err(Unschedulable::UntoleratedTaint { class, .. }) = effective.schedulable_pools(&context.state) else {
        return None;
    };
    let pools = selected_pools(effective, placement.selected_os, context);
    let taints = untolerated_taints(effective, &pools)?;
    let finding = Finding::new(Code::UntoleratedTaint, "tolerations", format!("the pod does not tolerate {taints}"));
    Some(match class {
        Some(class) => finding.with_remedy(format!("set runtimeClassName: {class}, or add the tolerations")),
        None => finding.with_remedy("add the tolerations"),
    })
}

/// The pools that a pod selects. A pod that selects labels which are unknown on nodes may be for other nodes, unless a
/// pool has all of these labels.
fn selected_pools<'w>(
    effective: &EffectiveSpec<'_>,
    selected_os: SelectedOs,
    context: &'w LintContext<'_>,
) -> Vec<MatchingPool<'w>> {
    let mut pools = effective.selected_pools(&context.state);
    match selected_os {
        SelectedOs::Only(System::Windows) => {}
        SelectedOs::Unknown => {
            for matching in &mut pools {
                matching.groups.retain(|group| effective.matches(&group.labels, "", |_| true));
            }
            pools.retain(|matching| !matching.groups.is_empty());
        }
        SelectedOs::Only(System::Linux) | SelectedOs::Any => pools.clear(),
    }
    pools
}

/// The taints that are not tolerated, if every pool has one.
fn untolerated_taints(effective: &EffectiveSpec<'_>, pools: &[MatchingPool<'_>]) -> Option<String> {
    let taint = |MatchingPool { pool, groups }: &MatchingPool<'_>| {
        Some(format!("{} of pool {}", effective.untolerated_in_all(groups)?, pool.name))
    };
    let taints: Option<Vec<_>> = pools.iter().map(taint).collect();
    taints.filter(|taints| !taints.is_empty()).map(some_of)
}

/// A DaemonSet without pods, or with pods on nodes that do not run them: its controller reads only the template.
fn daemon_set(template: &Template, placement: &PodPlacement<'_>, context: &LintContext<'_>) -> Option<Finding> {
    let alone = EffectiveSpec::without_class(template);
    let relies_on = |class: &str, missing: &[String]| {
        let missing = some_of(missing);
        let problem = format!("the template does not have {missing}, which RuntimeClass {class} adds to the pods");
        Finding::new(Code::DaemonsetRuntimeClass, "runtimeClassName", problem)
    };
    let effective = match &placement.effective {
        Ok(effective) => effective,
        // A RuntimeClass outside the manifests selects at least an operating system.
        Err(Unschedulable::RuntimeClassNotFound { class, .. }) => {
            let is_needed = placement.selected_os == SelectedOs::Any;
            return is_needed.then(|| relies_on(class, &["a nodeSelector".to_owned()]));
        }
        Err(_) => return None,
    };
    let selected = effective.selected_pools(&context.state);
    if let Some((name, class)) = effective.class {
        let labels = effective.labels_only_in_class(&context.state, &selected);
        let labels = labels.map(|(_, labels)| labels).unwrap_or_default();
        let mut missing: Vec<String> = labels.iter().map(ToString::to_string).collect();
        // Without pools only the RuntimeClass shows which taints the nodes have.
        if !labels.is_empty() || selected.is_empty() || !context.has_pools {
            missing.extend(missing_tolerations(&template.scheduling.tolerations, &class.scheduling.tolerations));
        }
        if !missing.is_empty() {
            return Some(relies_on(name, &missing));
        }
    }
    let pools = selected_pools(effective, placement.selected_os, context);
    let taints = untolerated_taints(&alone, &pools).filter(|_| context.has_pools)?;
    let problem = format!("the template does not tolerate {taints}");
    let reason = "The DaemonSet controller creates no pods for nodes with an untolerated taint, and ignores the tolerations \
                  of a RuntimeClass.";
    let finding = Finding::new(Code::UntoleratedTaint, "tolerations", problem).with_reason(reason);
    Some(finding.with_remedy("add the tolerations to the template of the DaemonSet"))
}

/// The tolerations of a RuntimeClass that a template does not have.
fn missing_tolerations(own: &[Toleration], of_class: &[Toleration]) -> impl Iterator<Item = String> {
    let missing = of_class.iter().filter(|needed| !own.iter().any(|toleration| covers(toleration, needed)));
    missing.map(|Toleration { key, operator, value, .. }| match (key.as_str(), operator) {
        ("", _) => "a toleration of all taints".to_owned(),
        (key, TolerationOperator::Exists) => format!("a toleration of {key}"),
        (key, TolerationOperator::Equal) => format!("a toleration of {key}={value}"),
    })
}

/// Whether a toleration tolerates all taints that `needed` tolerates.
fn covers(toleration: &Toleration, needed: &Toleration) -> bool {
    let value = |toleration: &Toleration| (toleration.operator, toleration.value.clone());
    (toleration.key.is_empty() || toleration.key == needed.key)
        && (toleration.operator == TolerationOperator::Exists || value(toleration) == value(needed))
        && (toleration.effect.is_none() || toleration.effect == needed.effect)
}

/// A pod that is not for Windows, tolerates the taints of Windows nodes, and selects no label that excludes them.
fn linux_tolerance(
    template: &Template,
    placement: &PodPlacement<'_>,
    context: &LintContext<'_>,
    is_daemon_set: bool,
) -> Option<Finding> {
    let alone = EffectiveSpec::without_class(template);
    let effective = placement.effective.as_ref().ok().filter(|_| template.node_name.is_none())?;
    let effective = if is_daemon_set { &alone } else { effective };
    let selects_sku = effective.selected_values(OS_SKU).next().is_some();
    // Without pools, it is not known whether the nodes have taints.
    let may_land = |group: &NodeGroup| {
        (context.has_pools || !group.taints.is_empty())
            && effective.untolerated(&group.taints).is_none()
            && (!selects_sku || group.labels.contains_key(OS_SKU))
            && effective.matches(&group.labels, "", |_| true)
    };
    let pool = context.state.pools.iter().find(|pool| pool.groups.iter().any(may_land))?;
    let why = match pool.taints.first() {
        None => format!("pool {} has no taint", pool.name),
        Some(taint) if !context.has_pools => format!("it tolerates taint {taint}"),
        Some(_) => format!("it tolerates the taints of pool {}", pool.name),
    };
    let path = match template.scheduling.tolerations.iter().position(Toleration::tolerates_everything) {
        _ if pool.taints.is_empty() => "nodeSelector".to_owned(),
        Some(index) => format!("tolerations[{index}]"),
        None => "tolerations".to_owned(),
    };
    let problem = format!("the pod can be scheduled to Windows nodes, because {why}");
    let finding = Finding::new(Code::LinuxTolerance, path, problem);
    // A pod that tolerates the taint by key may be meant for Windows.
    Some(match effective.is_for_windows(&context.state) {
        true => {
            finding.with_remedy("set nodeSelector: {kubernetes.io/os: linux}, or windows if the image is for Windows")
        }
        false => finding,
    })
}
