//! Known issues of the components of Windows nodes, where the manifests have the version and what an issue depends on.

use std::collections::BTreeSet;

use serde_json::Value;
use winpool_core::{json_path::fields as at, node::WindowsNode};
use winpool_facts::{
    Minor,
    known_issues::{ComponentVersion, KNOWN_ISSUES, KnownIssue, NodeComponent, PodFeature, Precondition},
};
use winpool_rules::known_issues::{
    AfterUpgrade, FoundIssue, Version, affected, begins, check_issue, heading, is_reported, remedy,
};
use winpool_workload::{PoolWorkloads, Template, service_features};

use super::{
    Finding, LintContext,
    cluster_api::of_versions,
    context::PodPlacement,
    linted_nodes::{finding, issues_of, of_found},
};

/// The issues that depend on what a pod uses: of the nodes in the manifests that it can be scheduled to, or of every kubelet of
/// the given minor; and those of the components in its images.
pub fn check(
    template: &Template,
    spec: &Value,
    placement: &PodPlacement<'_>,
    context: &LintContext<'_>,
) -> Vec<Finding> {
    let pools: Vec<_> = placement.pools.iter().map(|matching| matching.pool.name.as_str()).collect();
    let features = template.features.iter().map(|feature| (feature, BTreeSet::new())).collect();
    let pods = PoolWorkloads { features, ..PoolWorkloads::default() };
    let of_feature = |(issue, feature): (&'static KnownIssue, PodFeature)| {
        let path = || path_of(feature, spec);
        if context.nodes.is_empty() && context.machines.are_known(&pools) && issue.component == NodeComponent::Kubelet {
            let versions = context.machines.affected(&pools, issue);
            let is_reported = !versions.is_empty() && is_reported(issue, &versions);
            return is_reported.then(|| of_versions(path(), issue, &versions));
        }
        if context.nodes.is_empty() {
            let is_given = issue.component == NodeComponent::Kubelet && !context.nodes.acknowledge(&pools, issue);
            return context.given_minor().filter(|_| is_given).and_then(|minor| of_minor(path(), issue, minor));
        }
        let nodes = context.nodes.without_consent(issue).filter(|node| reaches(template, placement, node));
        let found = check_issue(issue, nodes, Some(&pods)).filter(FoundIssue::is_reported)?;
        Some(of_found(path(), &found))
    };
    let of_container = |(path, container): (String, &Value)| {
        let found = of_image(container["image"].as_str().unwrap_or_default());
        let reported = found.into_iter().filter(|(issue, _)| !context.nodes.acknowledge(&pools, issue));
        reported.map(|(issue, version)| of_versions(format!("{path}.image"), issue, &[version])).collect::<Vec<_>>()
    };
    let of_containers = at(spec, "containers[]").into_iter().flat_map(of_container);
    issues_of(template).filter_map(of_feature).chain(of_containers).collect()
}

/// The issues of the component in an image that depend on nothing else.
fn of_image(image: &str) -> Vec<(&'static KnownIssue, Version)> {
    let Some((component, installed)) = NodeComponent::of_image(image) else { return Vec::new() };
    let of_component = KNOWN_ISSUES.iter().filter(|issue| issue.component == component);
    let always = of_component.filter(|issue| issue.precondition == Precondition::Always);
    let found = always.filter_map(|issue| Some((issue, affected(issue, installed)?)));
    found.filter(|(issue, version)| is_reported(issue, [version])).collect()
}

/// Whether the pods of a template can be scheduled to a node.
fn reaches(template: &Template, placement: &PodPlacement<'_>, node: &WindowsNode) -> bool {
    let Ok(effective) = &placement.effective else { return false };
    let taints: Vec<_> = node.lasting_taints().collect();
    match &template.node_name {
        Some(name) => *name == node.name,
        None => effective.matches(&node.labels, &node.name, |_| true) && effective.untolerated(&taints).is_none(),
    }
}

/// The first field of a pod's spec with a feature.
fn path_of(feature: PodFeature, spec: &Value) -> String {
    let fields: &[&str] = match feature {
        PodFeature::ExecProbe | PodFeature::HostProcessExecProbe => {
            &["containers[].livenessProbe.exec", "containers[].readinessProbe.exec", "containers[].startupProbe.exec"]
        }
        PodFeature::HostProcess => {
            &["securityContext.windowsOptions.hostProcess", "containers[].securityContext.windowsOptions.hostProcess"]
        }
        PodFeature::SubPaths => &["containers[].volumeMounts[].subPath", "containers[].volumeMounts[].subPathExpr"],
        PodFeature::VolumeClaim => &["volumes[].persistentVolumeClaim", "volumes[].ephemeral"],
        PodFeature::RunAsUser => &["securityContext.runAsUser", "containers[].securityContext.runAsUser"],
        PodFeature::PostStartHook => &["containers[].lifecycle.postStart"],
        PodFeature::Gmsa => &["securityContext.windowsOptions", "containers[].securityContext.windowsOptions"],
        PodFeature::InTreeVolume | PodFeature::ImageVolume => &["volumes"],
    };
    fields.iter().find_map(|field| at(spec, field).into_iter().next()).map(|(path, _)| path).unwrap_or_default()
}

/// The issues of kube-proxy that depend on a field of a Service with pods on Windows nodes: of the kube-proxies in the manifests,
/// if all have the issue, else of every kube-proxy of the given minor.
pub fn of_service(object: &Value, context: &LintContext<'_>) -> Vec<Finding> {
    let features = service_features(&object["spec"]);
    let finding = |issue: &'static KnownIssue| {
        let Precondition::Services(feature) = issue.precondition else { return None };
        let (field, _) = feature.field();
        if !features.contains(&feature) || context.nodes.acknowledge(&[], issue) {
            return None;
        }
        let path = format!("spec.{field}");
        let known = &context.kube_proxies;
        if known.is_empty() {
            return of_minor(path, issue, context.given_minor()?);
        }
        let versions: Option<Vec<_>> = known.iter().map(|version| affected(issue, *version)).collect();
        Some(of_versions(path, issue, &versions?))
    };
    KNOWN_ISSUES.iter().filter_map(finding).collect()
}

/// An issue of every release of a minor.
fn of_minor(path: String, issue: &KnownIssue, minor: Minor) -> Option<Finding> {
    (begins(issue, minor) == Some(AfterUpgrade::Begins)).then(|| {
        let fixed = affected(issue, ComponentVersion([1, minor.0, 0])).and_then(|version| version.fixed);
        let problem = format!("{}. Every {} {minor} has it", heading(issue), issue.component);
        finding(path, problem, remedy(issue, [fixed]))
    })
}
