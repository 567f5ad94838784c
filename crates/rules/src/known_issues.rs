//! Which known issues the nodes of a pool have, by their versions and what their pods use.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use winpool_core::{
    node::WindowsNode,
    text::{agree, capitalised, some_of},
};
use winpool_facts::{
    ContainerRuntime, Minor,
    known_issues::{
        AffectedVersions, ComponentVersion, DefectSeverity, KNOWN_ISSUES, KnownIssue, NodeComponent, PodFeature,
        Precondition, containerd_with, hcsshim_of,
    },
};
use winpool_workload::PoolWorkloads;

/// An input without which there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// The version of a component: the node does not report it, or no pod has its image.
    Version(NodeComponent),
    /// The pods, because the operator may not read them, or has not yet.
    Pods,
    /// The PersistentVolumes of the claims of pods.
    Volumes,
    Services,
    /// Something that winpool never reads, as in `depends on …`.
    Unread(&'static str),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(component @ (NodeComponent::KubeProxy | NodeComponent::CsiProxy)) => {
                write!(f, "no pod of the pool has an image of {component} with a version")
            }
            Self::Version(component) => write!(f, "the version of {component} is not known"),
            Self::Pods => f.write_str("pods are not read"),
            Self::Volumes => f.write_str("the PersistentVolumes of claims are not read"),
            Self::Services => f.write_str("Services are not read"),
            Self::Unread(what) => write!(f, "it depends on {what}"),
        }
    }
}

/// Whether a node has an issue.
enum Answer {
    Affected(Version),
    Unaffected,
    NotDeterminable(Missing),
}

/// An affected version, and the first fixed one that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub installed: ComponentVersion,
    pub fixed: Option<ComponentVersion>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Installed {
    /// One or, during an update of a DaemonSet, more.
    Known(Vec<ComponentVersion>),
    /// The node does not have the component.
    Absent,
    Unknown,
}

impl From<Option<ComponentVersion>> for Installed {
    fn from(version: Option<ComponentVersion>) -> Self {
        version.map_or(Self::Unknown, |version| Self::Known(vec![version]))
    }
}

/// Whether a version of the component has an issue.
pub fn affected(issue: &KnownIssue, installed: ComponentVersion) -> Option<Version> {
    issue.range(installed).map(|range| Version { installed, fixed: range.fixed })
}

/// Whether a node has an issue; `pods` are those of its pool, if they are read.
fn of_node(issue: &KnownIssue, node: &WindowsNode, pods: Option<&PoolWorkloads>) -> Answer {
    let versions = match installed(issue.component, node, pods) {
        Installed::Known(versions) => versions,
        Installed::Absent => return Answer::Unaffected,
        Installed::Unknown => {
            return match met(issue.precondition, pods) {
                Ok(false) => Answer::Unaffected,
                Ok(true) | Err(_) => Answer::NotDeterminable(Missing::Version(issue.component)),
            };
        }
    };
    let found = versions.into_iter().find_map(|version| affected(issue, version));
    match (found, met(issue.precondition, pods)) {
        (None, _) | (_, Ok(false)) => Answer::Unaffected,
        (Some(version), Ok(true)) => Answer::Affected(version),
        (Some(_), Err(missing)) => Answer::NotDeterminable(missing),
    }
}

fn installed(component: NodeComponent, node: &WindowsNode, pods: Option<&PoolWorkloads>) -> Installed {
    let containerd = |of: fn(_) -> Option<ComponentVersion>| match &node.runtime {
        Ok(ContainerRuntime::Containerd(version)) => of(*version).into(),
        Ok(ContainerRuntime::CriDockerd) => Installed::Absent,
        Err(_) => Installed::Unknown,
    };
    match component {
        NodeComponent::Kubelet => node.kubelet.as_ref().ok().map(|version| ComponentVersion::from(*version)).into(),
        NodeComponent::Windows => node.os.as_ref().ok().and_then(|os| ComponentVersion::of_windows(*os)).into(),
        NodeComponent::Containerd => containerd(|version| Some(version.into())),
        NodeComponent::Hcsshim => containerd(hcsshim_of),
        NodeComponent::KubeProxy | NodeComponent::CsiProxy => {
            let found = pods.into_iter().flat_map(|pods| &pods.components);
            let versions: Vec<_> = found.filter(|(of, _)| *of == component).map(|(_, version)| *version).collect();
            if versions.is_empty() { Installed::Unknown } else { Installed::Known(versions) }
        }
    }
}

/// Whether a precondition is met, if that is determinable.
fn met(precondition: Precondition, pods: Option<&PoolWorkloads>) -> Result<bool, Missing> {
    match precondition {
        Precondition::Always => Ok(true),
        Precondition::Services(feature) => {
            let services = pods.ok_or(Missing::Pods)?.services.as_ref().ok_or(Missing::Services)?;
            Ok(services.contains_key(&feature))
        }
        Precondition::Unread(what) => Err(Missing::Unread(what)),
        Precondition::Pods(feature) => {
            let used = &pods.ok_or(Missing::Pods)?.features;
            let in_claim = feature == PodFeature::InTreeVolume && used.contains_key(&PodFeature::VolumeClaim);
            match used.contains_key(&feature) {
                false if in_claim => Err(Missing::Volumes),
                is_used => Ok(is_used),
            }
        }
    }
}

/// What a precondition is met by, to be added to a sentence.
fn used(precondition: Precondition, pods: &PoolWorkloads) -> Option<String> {
    Some(match precondition {
        Precondition::Pods(feature) => {
            let workloads = pods.features.get(&feature)?.iter().map(ToString::to_string);
            format!(", with {} in {}", feature.name(), some_of(workloads))
        }
        Precondition::Services(feature) => {
            let services = pods.services.as_ref()?.get(&feature)?;
            let are = agree(services.len(), "Service", "Services");
            format!(", with {feature} in {are} {}", some_of(services))
        }
        Precondition::Always | Precondition::Unread(_) => return None,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundIssue<'a> {
    pub issue: &'static KnownIssue,
    pub nodes: Vec<&'a str>,
    pub versions: BTreeSet<Version>,
    /// The nodes where it is not determinable, by reason.
    pub undetermined: BTreeMap<Missing, Vec<&'a str>>,
}

/// The issues that some of the nodes have or may have, worst first.
pub fn check<'a>(
    nodes: impl IntoIterator<Item = &'a WindowsNode>,
    pods: Option<&PoolWorkloads>,
) -> Vec<FoundIssue<'a>> {
    let groups = groups(nodes);
    KNOWN_ISSUES.iter().filter_map(|issue| of_groups(issue, &groups, pods)).collect()
}

/// The nodes that have or may have an issue, if there are any.
pub fn check_issue<'a>(
    issue: &'static KnownIssue,
    nodes: impl IntoIterator<Item = &'a WindowsNode>,
    pods: Option<&PoolWorkloads>,
) -> Option<FoundIssue<'a>> {
    of_groups(issue, &groups(nodes), pods)
}

/// The nodes with equal versions, which have the same issues.
fn groups<'a>(nodes: impl IntoIterator<Item = &'a WindowsNode>) -> Vec<Vec<&'a WindowsNode>> {
    let mut equal: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for node in nodes {
        let versions = (node.kubelet.as_ref().ok(), node.os.as_ref().ok(), node.runtime.as_ref().ok());
        equal.entry(versions).or_default().push(node);
    }
    equal.into_values().collect()
}

fn of_groups<'a>(
    issue: &'static KnownIssue,
    groups: &[Vec<&'a WindowsNode>],
    pods: Option<&PoolWorkloads>,
) -> Option<FoundIssue<'a>> {
    let (affected, versions, undetermined) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    let mut finding = FoundIssue { issue, nodes: affected, versions, undetermined };
    for nodes in groups {
        let names = nodes.iter().map(|node| node.name.as_str());
        match of_node(issue, nodes[0], pods) {
            Answer::Unaffected => {}
            Answer::Affected(version) => {
                finding.nodes.extend(names);
                finding.versions.insert(version);
            }
            Answer::NotDeterminable(missing) => finding.undetermined.entry(missing).or_default().extend(names),
        }
    }
    (!finding.nodes.is_empty() || !finding.undetermined.is_empty()).then_some(finding)
}

impl FoundIssue<'_> {
    pub fn is_reported(&self) -> bool {
        is_reported(self.issue, &self.versions)
    }

    /// What happens on which nodes.
    pub fn problem(&self) -> String {
        let component = self.issue.component;
        let versions = some_of(self.versions.iter().map(|version| component.version_text(version.installed)));
        let nodes = self.nodes.len();
        let run = agree(nodes, "node runs", "nodes run");
        format!("{}. {nodes} {run} {component} {versions}", heading(self.issue))
    }

    /// The same with what the pods of the pool use, and what to do.
    pub fn message(&self, pods: Option<&PoolWorkloads>) -> String {
        let used = pods.and_then(|pods| used(self.issue.precondition, pods)).unwrap_or_default();
        format!("{}{used}. {}", self.problem(), self.remedy())
    }

    /// What to do on these nodes.
    pub fn remedy(&self) -> String {
        remedy(self.issue, self.versions.iter().map(|version| version.fixed))
    }
}

/// Whether an issue of these affected versions is reported. What is rare and has no precondition is reported only if an update
/// within the release line fixes it, so that nodes with the newest patch have no report without a remedy.
pub fn is_reported<'v>(issue: &KnownIssue, versions: impl IntoIterator<Item = &'v Version>) -> bool {
    let fixed_in_line = |version: &Version| version.fixed.is_some_and(|fixed| fixed.is_of_line(version.installed));
    let in_use = matches!(issue.precondition, Precondition::Pods(_) | Precondition::Services(_));
    let mut versions = versions.into_iter().peekable();
    versions.peek().is_some() && (issue.severity < DefectSeverity::Low || in_use || versions.any(fixed_in_line))
}

/// The id, the severity and what happens.
pub fn heading(issue: &KnownIssue) -> String {
    format!("{} ({}): {}", issue.entry.code, issue.severity.name(), issue.entry.title)
}

/// What to do: the oldest version that fixes all, and what helps without it.
pub fn remedy(issue: &KnownIssue, fixed: impl IntoIterator<Item = Option<ComponentVersion>>) -> String {
    let fixed: BTreeSet<_> = fixed.into_iter().collect();
    let upgrade = if fixed.contains(&None) { None } else { fixed.into_iter().flatten().next_back() };
    let upgrade = upgrade.map(|version| match (issue.component, containerd_with(version)) {
        (NodeComponent::Hcsshim, Some(release)) => {
            format!("Upgrade containerd to {} or later", NodeComponent::Containerd.version_text(release))
        }
        (component, _) => format!("Upgrade {component} to {} or later", component.version_text(version)),
    });
    match (upgrade, capitalised(issue.entry.remedy)) {
        (Some(upgrade), workaround) if workaround.is_empty() => upgrade,
        (Some(upgrade), _) => format!("{upgrade}, or {}", issue.entry.remedy),
        (None, workaround) => format!("No released version is known to fix it. {workaround}"),
    }
}

/// The affected versions of an issue, as in `v1.31.0 to below v1.31.9`.
pub fn affected_text(issue: &KnownIssue) -> String {
    let text = |version| issue.component.version_text(version);
    let range = |range: &AffectedVersions| match range.fixed {
        Some(fixed) => format!("{} to below {}", text(range.from), text(fixed)),
        None => format!("{} and later", text(range.from)),
    };
    issue.affected.iter().map(range).collect::<Vec<_>>().join(", ")
}

/// What an upgrade of the kubelet, and kube-proxy with it, to a minor does to an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AfterUpgrade {
    /// It ends, with this patch release of the minor or a later one.
    Ends(ComponentVersion),
    /// It begins, with every patch release that is known.
    Begins,
    /// It begins below this patch release.
    BeginsBelow(ComponentVersion),
}

/// What changes for a node with an upgrade to a minor; `None` if nothing does, or if the issue is of another component.
pub fn after_upgrade(
    issue: &KnownIssue,
    node: &WindowsNode,
    pods: Option<&PoolWorkloads>,
    target: Minor,
) -> Option<AfterUpgrade> {
    if !matches!(issue.component, NodeComponent::Kubelet | NodeComponent::KubeProxy)
        || met(issue.precondition, pods) == Ok(false)
    {
        return None;
    }
    let Installed::Known(versions) = installed(issue.component, node, pods) else { return None };
    let is_target = |version: &ComponentVersion| version.0[1] == target.0;
    match versions.iter().any(|version| issue.range(*version).is_some()) {
        true => first_without(issue, target).map(AfterUpgrade::Ends),
        false if versions.iter().all(is_target) => None,
        false => begins(issue, target).filter(|_| is_reported_of(issue, target)),
    }
}

/// Whether the first release of a minor has an issue that is reported.
fn is_reported_of(issue: &KnownIssue, target: Minor) -> bool {
    affected(issue, ComponentVersion([1, target.0, 0])).is_some_and(|version| is_reported(issue, [&version]))
}

/// The first release of a minor without the issue, if it has one.
fn first_without(issue: &KnownIssue, target: Minor) -> Option<ComponentVersion> {
    let first = ComponentVersion([1, target.0, 0]);
    match issue.range(first) {
        None => Some(first),
        Some(range) => range.fixed.filter(|fixed| fixed.is_of_line(first)),
    }
}

/// What is missing to tell which issues of kube-proxy a pool has.
pub fn kube_proxy_missing(pods: Option<&PoolWorkloads>) -> Option<Missing> {
    let is_known =
        |pods: &PoolWorkloads| pods.components.iter().any(|(component, _)| *component == NodeComponent::KubeProxy);
    match pods {
        None => Some(Missing::Pods),
        Some(pods) => (!is_known(pods)).then_some(Missing::Version(NodeComponent::KubeProxy)),
    }
}

/// The issues of kube-proxy in the first release of a minor, and the first release without all of them, if the minor has one.
pub fn of_kube_proxy(target: Minor) -> (Vec<&'static str>, Option<ComponentVersion>) {
    let is_in = |issue: &&KnownIssue| issue.component == NodeComponent::KubeProxy && is_reported_of(issue, target);
    let issues: Vec<_> = KNOWN_ISSUES.iter().filter(is_in).collect();
    let without: Option<Vec<_>> = issues.iter().map(|issue| first_without(issue, target)).collect();
    (issues.iter().map(|issue| issue.entry.code).collect(), without.and_then(|versions| versions.into_iter().max()))
}

/// Which releases of a minor have an issue of the kubelet or of kube-proxy; `None` if the first one has not.
pub fn begins(issue: &KnownIssue, target: Minor) -> Option<AfterUpgrade> {
    issue.range(ComponentVersion([1, target.0, 0]))?;
    Some(first_without(issue, target).map_or(AfterUpgrade::Begins, AfterUpgrade::BeginsBelow))
}

#[cfg(test)]
mod tests;
