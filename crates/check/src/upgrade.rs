//! What breaks and what changes when the control plane and the kubelets are upgraded to another minor.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use serde::Serialize;
use winpool_facts::{
    Build, ContainerRuntime, ContainerdVersion, Minor, builds,
    catalogue::Entry,
    containerd,
    feature_gates::{ANNOUNCED, ANNOUNCED_IN, Announcement, GateChange},
    known_issues::{ComponentVersion, KNOWN_ISSUES, KnownIssue, NodeComponent, Precondition},
    platforms::Platform,
    skew::{Skew, skew},
    support,
};

use winpool_core::{Explanation, ForeignText, Problem, node::WindowsNode, tables};
use winpool_render::{Variant, pause, profile::Profile};
use winpool_rules::{
    known_issues::{AfterUpgrade, Missing, after_upgrade, kube_proxy_missing, of_kube_proxy},
    pool::{Pool, Snapshot, Spec, configs::variant},
    upgrade::{EndedSetting, refused_by_kubelet, without_runtime_config},
};
use winpool_workload::PoolWorkloads;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AffectedNodes {
    /// The stable name of the subject of the issue.
    pub concern: &'static str,
    /// Whether something stops working. Otherwise the issue is information.
    pub breaks: bool,
    pub message: String,
    /// The nodes, by name; empty for the issue of a pool without nodes.
    pub nodes: Vec<String>,
}

/// Something that an upgrade breaks or changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UpgradeIssue {
    /// The kubelet is too old for the API server, which allows this one.
    KubeletTooOld {
        kubelet: Minor,
        oldest: Minor,
    },
    KubeletTooNew(Minor),
    /// containerd is older than the minimum of the kubelet.
    ContainerdTooOld {
        installed: ContainerdVersion,
        minimum: ContainerdVersion,
    },
    UnknownRuntime(ForeignText),
    /// The adapter of Docker, whose version nodes do not report, may lack a call that the kubelet is to need.
    RuntimeConfigRequired(EndedSetting),
    BuildNotSupported(Build),
    /// The platform has no image with the build for the minor.
    BuildNotOnPlatform {
        platform: Platform,
        build: Build,
        last: Minor,
    },
    SettingEnds(EndedSetting),
    /// The default of a feature gate changes.
    DefaultChanges(GateDefault),
    NotRenderable {
        profile: String,
        problem: Problem,
    },
    PauseImageChanged {
        from: String,
        to: String,
    },
    KnownIssue(&'static KnownIssue, AfterUpgrade),
    /// The version of kube-proxy is not known, and the first release of the minor has these issues.
    KubeProxyNotDeterminable {
        missing: Missing,
        issues: Vec<&'static str>,
        /// The first release without them, if there is one.
        fixed: Option<ComponentVersion>,
    },
    /// The minor is newer than winpool's tables.
    NotChecked(String),
}

/// A gate that is on by default from a minor on: its row, the effect, and what to do before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GateDefault {
    gate: &'static str,
    minor: Minor,
    effect: &'static str,
    remedy: &'static str,
}

impl GateDefault {
    fn of(row: &'static Announcement) -> Option<Self> {
        let Announcement { gate, minor, change } = *row;
        let GateChange::On { effect, remedy } = change else { return None };
        Some(Self { gate, minor, effect, remedy })
    }
}

impl UpgradeIssue {
    /// What is reported about an upgrade of these nodes to `target`.
    fn affected(&self, target: Minor, nodes: Vec<String>) -> AffectedNodes {
        let (concern, breaks, problem, remedy) = self.parts(target);
        let message = match remedy {
            Some(remedy) => Explanation { problem, remedy }.to_string(),
            None => problem,
        };
        AffectedNodes { concern, breaks, message, nodes }
    }

    /// The subject, whether something stops working, the problem, and the remedy.
    fn parts(&self, target: Minor) -> (&'static str, bool, String, Option<String>) {
        let breaks = |concern, problem, remedy: String| (concern, true, problem, Some(remedy));
        let changes = |concern, problem, remedy: &str| (concern, false, problem, Some(remedy.to_owned()));
        match self {
            Self::KubeletTooOld { kubelet, oldest } => breaks(
                "VersionSkew",
                format!("kubelet {kubelet} is too old for API server {target}"),
                format!("Upgrade the kubelet to {oldest} or later first"),
            ),
            Self::KubeletTooNew(kubelet) => breaks(
                "VersionSkew",
                format!("kubelet {kubelet} is newer than API server {target}"),
                format!("Upgrade the API server to {kubelet} or later"),
            ),
            Self::ContainerdTooOld { installed, minimum } => breaks(
                "ContainerRuntime",
                format!("containerd {installed} is too old for kubelet {target}"),
                format!("Upgrade containerd to {minimum} or later first"),
            ),
            Self::UnknownRuntime(runtime) => changes(
                "ContainerRuntime",
                format!("Container runtime \"{runtime:.128}\" is unknown, and was not checked for kubelet {target}"),
                "Check its documentation",
            ),
            Self::RuntimeConfigRequired(EndedSetting { problem, remedy }) => {
                changes("ContainerRuntime", problem.clone(), remedy)
            }
            Self::BuildNotOnPlatform { platform, build, last } => breaks(
                "OSSupport",
                format!(
                    "{} has no Windows {build} in Kubernetes {target}, the last version with it is {last}",
                    platform.title()
                ),
                format!("Move the workloads to nodes with {}", supported(target)),
            ),
            Self::SettingEnds(EndedSetting { problem, remedy }) => {
                breaks("NodeSettings", problem.clone(), remedy.clone())
            }
            Self::DefaultChanges(GateDefault { gate, minor, effect, remedy }) => changes(
                "FeatureGates",
                format!("The feature gate {gate} is on by default from {minor} on ({ANNOUNCED_IN}): {effect}"),
                remedy,
            ),
            Self::BuildNotSupported(build) => breaks(
                "OSSupport",
                format!("Kubernetes {target} does not support Windows {}, {}", windows(*build), span(*build, target)),
                format!("Move the workloads to nodes with {}", supported(target)),
            ),
            Self::NotRenderable { profile, problem } => {
                ("Configuration", true, format!("WindowsRuntimeProfile {profile}: {problem}"), None)
            }
            Self::PauseImageChanged { from, to } => changes(
                "PauseImage",
                format!("The pause image changes from {from} to {to}"),
                "Mirror it first where nodes cannot reach its registry",
            ),
            Self::KnownIssue(issue, after) => {
                let (problem, remedy) = known_issue(issue, *after, target);
                ("KnownIssues", false, problem, remedy)
            }
            Self::KubeProxyNotDeterminable { missing, issues, fixed } => {
                let problem = format!(
                    "Which of these issues of kube-proxy {target} begin is not determinable, because {missing}: {}",
                    issues.join(", ")
                );
                let version = fixed.map(|fixed| NodeComponent::KubeProxy.version_text(fixed));
                let remedy = version.map(|version| format!("Use kube-proxy {version} or later"));
                ("KnownIssues", false, problem, remedy)
            }
            Self::NotChecked(text) => ("NotChecked", false, text.clone(), None),
        }
    }
}

/// A known issue that ends or begins, and its remedy.
fn known_issue(issue: &KnownIssue, after: AfterUpgrade, target: Minor) -> (String, Option<String>) {
    let KnownIssue { entry: Entry { code: id, title: summary, remedy: workaround, .. }, component, .. } = issue;
    let condition = match issue.precondition {
        Precondition::Always => String::new(),
        Precondition::Pods(_) | Precondition::Services(_) | Precondition::Unread(_) => {
            format!(" (with {})", issue.precondition)
        }
    };
    match after {
        AfterUpgrade::Ends(first) => {
            (format!("{id} ends with {component} {}: {summary}", component.version_text(first)), None)
        }
        AfterUpgrade::Begins => (
            format!("{id} begins with {component} {target}: {summary}{condition}"),
            (!workaround.is_empty()).then(|| format!("Without a fixed version, {workaround}")),
        ),
        AfterUpgrade::BeginsBelow(fixed) => {
            let fixed = component.version_text(fixed);
            let problem = format!("{id} is in {component} {target} below {fixed}: {summary}{condition}");
            (problem, Some(format!("Upgrade to {fixed} or later")))
        }
    }
}

/// The issues of an upgrade of some nodes to `target`; `pool` is the pool of the nodes, if they have one.
pub fn issues(snapshot: &Snapshot, pool: Option<&Pool>, nodes: &[&WindowsNode], target: Minor) -> Vec<AffectedNodes> {
    let mut issues = Issues { target, nodes_by_issue: BTreeMap::new() };
    let today = snapshot.now.to_zoned(TimeZone::UTC).date();
    if let Some(text) = tables::not_checked(target, today) {
        issues.add(UpgradeIssue::NotChecked(text), nodes.iter().map(|node| &node.name));
    }
    for node in nodes {
        issues.skew(node);
        issues.runtime(node);
        issues.settings(snapshot, node);
        issues.platform(node);
        if let Some(build) = node.build() {
            issues.support(build, node.kubelet_minor(), Some(&node.name));
        }
    }
    issues.known(nodes, pool.and_then(|pool| snapshot.workloads.of(&pool.name)));
    let spec = pool.and_then(|pool| pool.spec.as_ref().ok());
    if let (Some(spec), []) = (spec, nodes) {
        issues.support(spec.build, snapshot.api_server, None);
    }
    let profile = spec.and_then(|spec| snapshot.profiles.get(spec.profile.as_ref()?));
    if let (Some(spec), Some(view)) = (spec, profile)
        && let Ok(profile) = &view.profile
    {
        issues.configuration(&view.name, profile, spec, nodes);
    }
    issues.finish()
}

/// Issues of an upgrade to `target`, each with all nodes that have it.
struct Issues {
    target: Minor,
    nodes_by_issue: BTreeMap<UpgradeIssue, BTreeSet<String>>,
}

impl Issues {
    fn add<'n>(&mut self, issue: UpgradeIssue, nodes: impl IntoIterator<Item = &'n String>) {
        self.nodes_by_issue.entry(issue).or_default().extend(nodes.into_iter().cloned());
    }

    fn finish(self) -> Vec<AffectedNodes> {
        let target = self.target;
        let affected =
            |(issue, nodes): (UpgradeIssue, BTreeSet<_>)| issue.affected(target, nodes.into_iter().collect());
        self.nodes_by_issue.into_iter().map(affected).collect()
    }

    /// The kubelets are upgraded after the API server.
    fn skew(&mut self, node: &WindowsNode) {
        let Ok(kubelet) = node.kubelet else { return };
        let issue = match skew(kubelet.minor, self.target) {
            Skew::Within => return,
            Skew::KubeletTooOld { oldest } => UpgradeIssue::KubeletTooOld { kubelet: kubelet.minor, oldest },
            Skew::KubeletNewer => UpgradeIssue::KubeletTooNew(kubelet.minor),
        };
        self.add(issue, [&node.name]);
    }

    fn known(&mut self, nodes: &[&WindowsNode], pods: Option<&PoolWorkloads>) {
        let target = self.target;
        for node in nodes {
            for issue in KNOWN_ISSUES {
                if let Some(after) = after_upgrade(issue, node, pods, target) {
                    self.add(UpgradeIssue::KnownIssue(issue, after), [&node.name]);
                }
            }
        }
        let changes = |node: &&&WindowsNode| node.kubelet_minor().is_some_and(|minor| minor != target);
        let mut changed = nodes.iter().filter(changes).map(|node| &node.name).peekable();
        let (issues, fixed) = of_kube_proxy(target);
        let applies = !issues.is_empty() && changed.peek().is_some();
        if let Some(missing) = kube_proxy_missing(pods).filter(|_| applies) {
            self.add(UpgradeIssue::KubeProxyNotDeterminable { missing, issues, fixed }, changed);
        }
    }

    fn runtime(&mut self, node: &WindowsNode) {
        let issue = match &node.runtime {
            Ok(ContainerRuntime::Containerd(installed)) => containerd::minimum_for(self.target, *installed)
                .map(|minimum| UpgradeIssue::ContainerdTooOld { installed: *installed, minimum }),
            Ok(ContainerRuntime::CriDockerd) => {
                without_runtime_config(node, self.target).map(UpgradeIssue::RuntimeConfigRequired)
            }
            Err(text) => Some(UpgradeIssue::UnknownRuntime(text.clone())),
        };
        issue.into_iter().for_each(|issue| self.add(issue, [&node.name]));
    }

    /// Whether the upgrade leads from an earlier minor to this one or a later one.
    fn reaches(&self, minor: Minor, node: &WindowsNode) -> bool {
        self.target >= minor && node.kubelet_minor().is_some_and(|kubelet| kubelet < minor)
    }

    /// What the agent of a node reports that a kubelet of the target refuses, and defaults that the node does not set.
    fn settings(&mut self, snapshot: &Snapshot, node: &WindowsNode) {
        let facts = snapshot.facts(node);
        let target = self.target;
        for ended in facts.into_iter().flat_map(|facts| refused_by_kubelet(facts, target)) {
            self.add(UpgradeIssue::SettingEnds(ended), [&node.name]);
        }
        let gates = facts.and_then(|facts| facts.feature_gates.as_ref());
        let is_set = |gate: &str| {
            gates.is_some_and(|gates| gates.iter().any(|set| set.split_once('=').is_some_and(|(name, _)| name == gate)))
        };
        for default in ANNOUNCED.iter().filter_map(GateDefault::of) {
            if self.reaches(default.minor, node) && !is_set(default.gate) {
                self.add(UpgradeIssue::DefaultChanges(default), [&node.name]);
            }
        }
    }

    /// Whether the platform of a node, by the label of its node pool, has its build for the target.
    fn platform(&mut self, node: &WindowsNode) {
        let platform = Platform::ALL.into_iter().find(|platform| platform.runs(&node.labels));
        let (Some(platform), Some(build)) = (platform, node.build()) else { return };
        let last = platform.retirement(build).and_then(|retirement| retirement.last_minor);
        if let Some(last) = last.filter(|last| self.reaches(Minor(last.0 + 1), node)) {
            self.add(UpgradeIssue::BuildNotOnPlatform { platform, build, last }, [&node.name]);
        }
    }

    /// Not an issue of the upgrade if the build is not supported before it either.
    fn support(&mut self, build: Build, now: Option<Minor>, node: Option<&String>) {
        let supports = |minor| support::builds_supported_by(minor).is_some_and(|builds| builds.contains(&build));
        if !supports(self.target) && now.is_none_or(supports) {
            self.add(UpgradeIssue::BuildNotSupported(build), node);
        }
    }

    /// Compares the configuration for the current kubelets with that for kubelets of `target`.
    fn configuration(&mut self, name: &str, profile: &Profile, spec: &Spec, nodes: &[&WindowsNode]) {
        let mut names: BTreeMap<Variant, Vec<&String>> = BTreeMap::new();
        for node in nodes {
            if let Some(variant) = variant(node) {
                names.entry(variant).or_default().push(&node.name);
            }
        }
        for (now, nodes) in names {
            let then = Variant { kubelet: self.target, ..now };
            let problems_of =
                |variant| winpool_render::render(&spec.taints, profile, variant).err().unwrap_or_default();
            let known = problems_of(&now);
            for problem in problems_of(&then).into_iter().filter(|problem| !known.contains(problem)) {
                let issue = UpgradeIssue::NotRenderable { profile: name.to_owned(), problem };
                self.add(issue, nodes.iter().copied());
            }
            let (Ok(from), image_then) = (pause::image(profile, &now), pause::image(profile, &then)) else { continue };
            if let (Some(from), Ok(Some(to))) = (from, image_then)
                && from != to
            {
                self.add(UpgradeIssue::PauseImageChanged { from, to }, nodes.iter().copied());
            }
        }
    }
}

/// A build with the name of its release, such as `10.0.17763 (ltsc2019)`.
fn windows(build: Build) -> String {
    format!("{build} ({})", release_name(build).unwrap_or("unknown"))
}

fn release_name(build: Build) -> Option<&'static str> {
    builds::release(build)?.names.first().copied()
}

/// Which minors support a build that `target` does not support.
fn span(build: Build, target: Minor) -> String {
    match (support::first_minor_supporting(build), support::last_minor_supporting(build)) {
        (Some(first), _) if first > target => format!("which is supported since {first}"),
        (_, Some(last)) => format!("which was supported up to {last}"),
        _ => "which no minor supports".to_owned(),
    }
}

/// The builds that a minor supports, such as `ltsc2022 (10.0.20348) or ltsc2025 (10.0.26100)`.
fn supported(minor: Minor) -> String {
    let builds = support::builds_supported_by(minor).unwrap_or_default();
    let text = |build: &Build| match release_name(*build) {
        Some(name) => format!("{name} ({build})"),
        None => build.to_string(),
    };
    builds.iter().map(text).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use super::*;
    use winpool_rules::pool::ProfileView;

    fn node(name: &str, kernel: &str, kubelet: &str, runtime: &str) -> WindowsNode {
        let info = json!({"kernelVersion": kernel, "kubeletVersion": kubelet, "containerRuntimeVersion": runtime});
        read::<Node>(json!({"metadata": {"name": name}, "status": {"nodeInfo": info}})).into()
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// The messages about known issues, and the others.
    fn all_messages(profile: Value, nodes: &[WindowsNode], target: u32) -> (Vec<String>, Vec<String>) {
        let pool = Pool::from_object(read(json!({
            "metadata": {"name": "web"},
            "spec": {"windowsVersion": "ltsc2022", "fallback": true, "profileRef": {"name": "standard"}},
        })));
        let profile = ProfileView::from_object(read(json!({"metadata": {"name": "standard"}, "spec": profile})));
        assert!(profile.profile.is_ok(), "{:?}", profile.profile);
        let snapshot =
            Snapshot { profiles: [profile].into_iter().collect(), api_server: Some(Minor(34)), ..Snapshot::default() };
        let nodes: Vec<_> = nodes.iter().collect();
        let target = Minor(target);
        let line = |AffectedNodes { concern, breaks, message, nodes }: AffectedNodes| {
            let breaks = if breaks { "breaks" } else { "changes" };
            format!("{breaks} {concern}: {message} [{}]", nodes.join(" "))
        };
        let found = issues(&snapshot, Some(&pool), &nodes, target).into_iter();
        let (known, others) = found.partition::<Vec<_>, _>(|found| found.concern == "KnownIssues");
        (known.into_iter().map(line).collect(), others.into_iter().map(line).collect())
    }

    fn messages(profile: Value, nodes: &[WindowsNode], target: u32) -> Vec<String> {
        all_messages(profile, nodes, target).1
    }

    #[test]
    fn known_issues_end_and_begin_and_that_of_an_unknown_kube_proxy_are_one_line() {
        let nodes = [
            node("a", "10.0.20348.4529", "v1.31.4", "containerd://2.2.1"),
            node("b", "10.0.20348.4529", "v1.34.2", "containerd://2.2.1"),
        ];
        let from_1_31 = [
            "changes KnownIssues: CVE-2024-9042 ends with kubelet v1.34.0: who can query `nodes/*/logs` can run commands on \
             the node [a]",
            "changes KnownIssues: CVE-2025-1767 ends with kubelet v1.34.0: who can create pods can read git repositories on \
             the node [a]",
            "changes KnownIssues: Which of these issues of kube-proxy 1.34 begin is not determinable, because pods are not \
             read: kubernetes-134031, kubernetes-135146, kubernetes-135631, kubernetes-136241, kubernetes-138000. Use \
             kube-proxy v1.34.8 or later [a]",
        ];
        assert_eq!(all_messages(json!({}), &nodes, 34).0, from_1_31);
        let to_1_36 = [
            "changes KnownIssues: kubernetes-140066 is in kubelet 1.36 below v1.36.3: the kubelet leaks memory with each \
             sync of a pod. Upgrade to v1.36.3 or later [b]",
            "changes KnownIssues: Which of these issues of kube-proxy 1.36 begin is not determinable, because pods are not \
             read: kubernetes-138000, kubernetes-141489. Use kube-proxy v1.36.5 or later [b]",
        ];
        assert_eq!(all_messages(json!({}), &nodes[1..], 36).0, to_1_36);
        assert_eq!(
            all_messages(json!({}), &nodes[1..], 37).0,
            [
                "changes KnownIssues: kubernetes-112630 ends with kubelet v1.37.0: pods with several subPath mounts stay Terminating, because handles to files are leaked [b]",
                "changes KnownIssues: kubernetes-138727 ends with kubelet v1.37.0: the kubelet panics if the memory of the node cannot be read [b]",
                "changes KnownIssues: kubernetes-139684 ends with kubelet v1.37.0: containers run on CPUs that others have exclusively [b]",
                "changes KnownIssues: Which of these issues of kube-proxy 1.37 begin is not determinable, because pods are not read: kubernetes-141489. Use kube-proxy v1.37.1 or later [b]"
            ]
        );
    }

    #[test]
    fn each_issue_is_reported_once_with_its_nodes() {
        let nodes = [
            node("a", "10.0.20348.1", "v1.34.2", "containerd://2.2.1"),
            node("b", "10.0.17763.1", "v1.34.2", "containerd://1.7.28"),
            node("c", "10.0.20348.1", "v1.31.0", "containerd://1.7.28"),
            node("d", "10.0.20348.1", "v1.31.0", "containerd://1.7.28"),
            node("e", "10.0.20348.1", "v1.37.0", "containerd://2.2.1"),
            node("f", "", "", ""),
        ];
        insta::assert_snapshot!(messages(json!({}), &nodes, 36).join("\n"), @r#"
        breaks VersionSkew: kubelet 1.31 is too old for API server 1.36. Upgrade the kubelet to 1.33 or later first [c d]
        breaks VersionSkew: kubelet 1.37 is newer than API server 1.36. Upgrade the API server to 1.37 or later [e]
        breaks ContainerRuntime: containerd 1.7.28 is too old for kubelet 1.36. Upgrade containerd to 2.2.0 or later first [b c d]
        changes ContainerRuntime: Container runtime "" is unknown, and was not checked for kubelet 1.36. Check its documentation [f]
        breaks OSSupport: Kubernetes 1.36 does not support Windows 10.0.17763 (ltsc2019), which was supported up to 1.34. Move the workloads to nodes with ltsc2022 (10.0.20348) or ltsc2025 (10.0.26100) [b]
        changes PauseImage: The pause image changes from mcr.microsoft.com/oss/kubernetes/pause:3.10 to mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.2. Mirror it first where nodes cannot reach its registry [c d]
        changes PauseImage: The pause image changes from mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.1 to mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.2. Mirror it first where nodes cannot reach its registry [a b]
        "#);
    }

    #[test]
    fn a_minor_newer_than_the_tables_is_reported_as_not_checked() {
        let node = node("a", "10.0.26100.1", "v1.37.2", "containerd://2.3.1");
        let found = &messages(json!({}), std::slice::from_ref(&node), 38)[..];
        let expected = "changes NotChecked: the tables of this winpool end at Kubernetes 1.37, so 1.38 is treated as 1.37, its \
                        feature gates too. Upgrade winpool [a]";
        assert_eq!(found.last().map(String::as_str), Some(expected));
        assert_eq!(messages(json!({}), &[node], 37), [""; 0]);
    }

    #[test]
    fn what_1_38_announces_is_reported_to_nodes_of_earlier_minors() {
        let table = [
            (
                "v1.37.2",
                "docker://28.1.0",
                vec![
                    "changes ContainerRuntime: kubelet 1.38 is announced to fail at its start (1.38.0-beta.0 does not yet) with cri-dockerd \
                 before 0.3.17, whose version nodes do not report. Check it on the nodes, and upgrade it first [a]",
                    "changes FeatureGates: The feature gate WindowsCPUAndMemoryAffinity is on by default from 1.38 on (1.38.0-beta.0): \
                 cpuManagerPolicy, memoryManagerPolicy and topologyManagerPolicy in the configuration of a node, which had no effect \
                 before, take effect with containerd 2.4 and later. Remove them where they are not wanted, or set the gate to false [a]",
                ],
            ),
            ("v1.38.0", "docker://28.1.0", vec![]),
        ];
        for (kubelet, runtime, expected) in table {
            let found = messages(json!({}), &[node("a", "10.0.26100.1", kubelet, runtime)], 38);
            let announced: Vec<_> = found.into_iter().filter(|line| !line.contains("NotChecked")).collect();
            assert_eq!(announced, expected, "{kubelet}");
        }
    }

    #[test]
    fn a_build_that_aks_retires_is_reported_for_its_node_pools() {
        let node = |label: &str| WindowsNode {
            labels: [(label.to_owned(), "win".to_owned())].into(),
            ..node("a", "10.0.20348.1", "v1.36.2", "containerd://2.3.7")
        };
        let expected = "breaks OSSupport: AKS has no Windows 10.0.20348 in Kubernetes 1.37, the last version with it is 1.36. Move the \
                        workloads to nodes with ltsc2022 (10.0.20348) or ltsc2025 (10.0.26100) [a]";
        assert_eq!(messages(json!({}), &[node("kubernetes.azure.com/agentpool")], 37), [expected]);
        assert_eq!(messages(json!({}), &[node("agentpool")], 37), [""; 0]);
    }

    #[test]
    fn a_removed_feature_gate_is_reported_with_its_remedy() {
        let nodes = [node("a", "10.0.20348.1", "v1.34.2", "containerd://2.2.1")];
        let gates = json!({"kubelet": {"featureGates": {"ComponentSLIs": true}}});
        insta::assert_snapshot!(messages(gates, &nodes, 35).join("\n"), @"breaks Configuration: WindowsRuntimeProfile standard: spec.kubelet.featureGates.ComponentSLIs: the gate exists up to kubelet 1.34, and kubelet 1.35 does not start with it: remove it, or use another profile for these nodes [a]");
    }

    #[test]
    fn a_pool_without_nodes_is_checked_by_its_windows_version() {
        let snapshot = Snapshot { api_server: Some(Minor(34)), ..Snapshot::default() };
        for (windows, expected) in [("ltsc2019", 1), ("ltsc2022", 0)] {
            let spec = json!({"windowsVersion": windows, "fallback": true});
            let pool = Pool::from_object(read(json!({"metadata": {"name": "web"}, "spec": spec})));
            assert_eq!(issues(&snapshot, Some(&pool), &[], Minor(35)).len(), expected, "{windows}");
        }
    }
}
