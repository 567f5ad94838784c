//! The nodes in the manifests, and their known issues.

use std::{collections::BTreeMap, sync::Arc};

use winpool_core::{Objects, node::WindowsNode};
use winpool_facts::{
    Minor,
    known_issues::{KNOWN_ISSUES, KnownIssue, NodeComponent, PodFeature, Precondition},
};
use winpool_rules::{
    known_issues::{AfterUpgrade, FoundIssue, begins, check_issue},
    pool::{Consents, Snapshot},
};
use winpool_workload::Template;

use super::{Code, Finding};

/// The Windows nodes in the manifests, and what the pools in the manifests acknowledge.
#[derive(Debug, Default)]
pub struct LintedNodes {
    /// The nodes with the names of their pools.
    nodes: Vec<(Arc<WindowsNode>, Option<String>)>,
    /// The consents of the pools, by name.
    consents: BTreeMap<String, Consents>,
    /// The findings of nodes, by name: an issue that depends on nothing else is reported at the first node that has it.
    findings: BTreeMap<String, Vec<Finding>>,
}

impl LintedNodes {
    /// The nodes, with the pools of a snapshot.
    pub fn new(snapshot: &Snapshot, nodes: &Objects<WindowsNode>) -> Self {
        let membership = snapshot.membership();
        let pool = |node: &WindowsNode| membership.assigner().assign(node).pool.map(str::to_owned);
        let nodes = nodes.values().map(|node| (node.clone(), pool(node))).collect();
        let consents = snapshot.pools.values().map(|pool| (pool.name.clone(), pool.consents.clone())).collect();
        let own = Self { nodes, consents, findings: BTreeMap::new() };
        let always = KNOWN_ISSUES.iter().filter(|issue| issue.precondition == Precondition::Always);
        let found = always.filter_map(|issue| check_issue(issue, own.without_consent(issue), None));
        let mut findings: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
        for found in found.filter(FoundIssue::is_reported) {
            let first = found.nodes.first().copied().unwrap_or_default().to_owned();
            findings.entry(first).or_default().push(of_found(version_field(found.issue.component), &found));
        }
        Self { findings, ..own }
    }

    /// Whether the manifests have no Windows node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn findings(&self, node: &str) -> Vec<Finding> {
        self.findings.get(node).cloned().unwrap_or_default()
    }

    /// Whether an issue depends on what the pods of a template use, and neither the nodes, the version of the kubelets nor the minor
    /// decide whether they have it.
    pub fn is_undetermined(&self, template: &Template, minor: Option<Minor>, has_kubelets: bool) -> bool {
        let is_decided = |issue: &KnownIssue| {
            let begins = |minor| begins(issue, minor);
            issue.component == NodeComponent::Kubelet
                && (has_kubelets
                    || minor.is_some_and(|minor| !matches!(begins(minor), Some(AfterUpgrade::BeginsBelow(_)))))
        };
        self.nodes.is_empty() && issues_of(template).any(|(issue, _)| !is_decided(issue))
    }

    /// The nodes whose pool does not acknowledge an issue.
    pub fn without_consent(&self, issue: &KnownIssue) -> impl Iterator<Item = &WindowsNode> {
        let consents = |pool: &Option<String>| self.consents.get(pool.as_deref()?);
        let nodes = self
            .nodes
            .iter()
            .filter(move |(_, pool)| consents(pool).is_none_or(|own| !own.acknowledges(issue.entry.code)));
        nodes.map(|(node, _)| node.as_ref())
    }

    /// Whether all of these pools acknowledge an issue; without names, all pools.
    pub fn acknowledge(&self, pools: &[&str], issue: &KnownIssue) -> bool {
        let is_meant = |name: &str| pools.is_empty() || pools.contains(&name);
        let mut consents =
            self.consents.iter().filter(|(name, _)| is_meant(name)).map(|(_, consents)| consents).peekable();
        consents.peek().is_some() && consents.all(|consents| consents.acknowledges(issue.entry.code))
    }
}

const fn version_field(component: NodeComponent) -> &'static str {
    match component {
        NodeComponent::Windows => "status.nodeInfo.kernelVersion",
        NodeComponent::Containerd | NodeComponent::Hcsshim => "status.nodeInfo.containerRuntimeVersion",
        NodeComponent::Kubelet | NodeComponent::KubeProxy | NodeComponent::CsiProxy => "status.nodeInfo.kubeletVersion",
    }
}

/// The issues that depend on what the pods of a template use. For image volumes there is [`Code::ImageVolume`].
pub fn issues_of(template: &Template) -> impl Iterator<Item = (&'static KnownIssue, PodFeature)> {
    let with_feature = |issue: &'static KnownIssue| match issue.precondition {
        Precondition::Pods(feature) if feature != PodFeature::ImageVolume => Some((issue, feature)),
        _ => None,
    };
    let issues = KNOWN_ISSUES.iter().filter_map(with_feature);
    issues.filter(|(_, feature)| template.features.iter().any(|used| used == *feature))
}

/// An issue of nodes.
pub fn of_found(path: impl Into<String>, found: &FoundIssue<'_>) -> Finding {
    finding(path, found.problem(), found.remedy())
}

/// A finding, with a remedy that begins like those of other codes.
pub fn finding(path: impl Into<String>, problem: String, remedy: String) -> Finding {
    let mut rest = remedy.chars();
    let remedy = rest.next().map_or_else(String::new, |first| first.to_lowercase().chain(rest).collect());
    Finding::new(Code::KnownIssue, path, problem).with_remedy(remedy)
}
