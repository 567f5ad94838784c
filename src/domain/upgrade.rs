//! What an upgrade of the control plane and of the kubelets to another minor would break, and what it would change.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Problem,
    node::{ContainerRuntime, WindowsNode},
    pool::{Pool, Snapshot, configs::variant},
    profile::Profile,
    render::{self, KUBELET_ARGS, Runtime, Scope, Variant, pause},
    tables,
};
use crate::{
    api::Taint,
    facts::{
        Build, ContainerdVersion, Minor, builds, containerd, kubelet_flags, runtimes,
        skew::{Skew, skew},
        support,
    },
};

/// Something that an upgrade meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub concern: Concern,
    /// Whether the upgrade breaks something; if not, it is only good to know.
    pub breaks: bool,
    /// What happens, and the remedy.
    pub message: String,
    /// The nodes concerned, by name; none where a pool has no nodes.
    pub nodes: Vec<String>,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// The version skew between the API server and the kubelets that are there now.
    VersionSkew,
    /// The container runtime for kubelets of the new minor.
    ContainerRuntime,
    /// The Windows that kubelets of the new minor support.
    OSSupport,
    /// The profile, rendered for kubelets of the new minor.
    Configuration,
    /// The flags that a kubelet is started with now.
    KubeletFlags,
    /// The pause image of kubelets of the new minor.
    PauseImage,
    /// What the tables do not say of the new minor.
    NotChecked,
}

impl Concern {
    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VersionSkew => "VersionSkew",
            Self::ContainerRuntime => "ContainerRuntime",
            Self::OSSupport => "OSSupport",
            Self::Configuration => "Configuration",
            Self::KubeletFlags => "KubeletFlags",
            Self::PauseImage => "PauseImage",
            Self::NotChecked => "NotChecked",
        }
    }
}

/// What an upgrade to a minor means for nodes; `pool` is theirs, if they have one.
pub fn findings(snapshot: &Snapshot, pool: Option<&Pool>, nodes: &[&WindowsNode], target: Minor) -> Vec<Finding> {
    let mut findings = Findings::default();
    if let Some(notice) = tables::not_checked(target) {
        findings.add(Concern::NotChecked, false, notice, nodes.iter().map(|node| &node.name));
    }
    for node in nodes {
        findings.skew(node, target);
        findings.runtime(node, target);
        if let Some(build) = node.build() {
            let now = node.kubelet.as_ref().ok().map(|kubelet| kubelet.minor);
            findings.support(build, now, target, Some(&node.name));
        }
    }
    let spec = pool.and_then(|pool| pool.spec.as_ref().ok());
    if let (Some(spec), []) = (spec, nodes) {
        findings.support(spec.build, snapshot.api_server, target, None);
    }
    let profile = spec.and_then(|spec| snapshot.profiles.get(spec.profile.as_ref()?));
    if let (Some(spec), Some(Ok(profile))) = (spec, profile.map(|view| &view.profile)) {
        findings.configuration(profile, &spec.taints, nodes, target);
    }
    findings.finish()
}

/// Findings in the making: those that say the same of several nodes are one.
#[derive(Default)]
struct Findings(BTreeMap<(Concern, String), (bool, BTreeSet<String>)>);

impl Findings {
    fn add<'n>(
        &mut self,
        concern: Concern,
        breaks: bool,
        message: String,
        nodes: impl IntoIterator<Item = &'n String>,
    ) {
        let (_, names) = self.0.entry((concern, message)).or_insert_with(|| (breaks, BTreeSet::new()));
        names.extend(nodes.into_iter().cloned());
    }

    fn finish(self) -> Vec<Finding> {
        let finding = |((concern, message), (breaks, nodes)): ((Concern, String), (bool, BTreeSet<String>))| Finding {
            concern,
            breaks,
            message,
            nodes: nodes.into_iter().collect(),
        };
        self.0.into_iter().map(finding).collect()
    }

    /// The kubelets stay as they are until the API server is new.
    fn skew(&mut self, node: &WindowsNode, target: Minor) {
        let Ok(kubelet) = node.kubelet else { return };
        let message = match skew(kubelet.minor, target) {
            Skew::Within => return,
            Skew::KubeletTooOld { oldest } => format!(
                "kubelet {} is too old for an API server {target}: upgrade it to {oldest} or later first",
                kubelet.minor
            ),
            Skew::KubeletNewer => format!("kubelet {} is newer than an API server {target} allows", kubelet.minor),
        };
        self.add(Concern::VersionSkew, true, message, [&node.name]);
    }

    fn runtime(&mut self, node: &WindowsNode, target: Minor) {
        let message = match &node.runtime {
            ContainerRuntime::Containerd(version) => match containerd::minimum_for(target, *version) {
                Some(minimum) => format!(
                    "containerd {version} is too old for kubelet {target}: upgrade it to {minimum} or later first"
                ),
                None => return self.pause_image_unpinned(node, *version, target),
            },
            ContainerRuntime::Docker => {
                let of = |minor| runtimes::Runtime::of("docker://", minor);
                let now = node.kubelet.as_ref().ok().and_then(|kubelet| of(kubelet.minor));
                if now != Some(runtimes::Runtime::Dockershim) || of(target) == now {
                    return;
                }
                format!(
                    "kubelet {target} has no dockershim: install containerd, or cri-dockerd beside Docker Engine, first"
                )
            }
            ContainerRuntime::Unknown(text) => {
                let message = format!("nobody knows whether kubelet {target} takes the container runtime {text:?}");
                return self.add(Concern::ContainerRuntime, false, message, [&node.name]);
            }
        };
        self.add(Concern::ContainerRuntime, true, message, [&node.name]);
    }

    /// A pause image that kubelets spared themselves up to a minor, and the containerd on the node does not pin.
    fn pause_image_unpinned(&mut self, node: &WindowsNode, version: ContainerdVersion, target: Minor) {
        let Some(minimum) = containerd::needed_to_pin(version) else { return };
        if target <= kubelet_flags::LAST_TO_SPARE_POD_INFRA_IMAGE {
            return;
        }
        let message = format!(
            "containerd {version} does not pin the pause image, and kubelet {target} removes it when the disk fills up: \
             upgrade containerd to {minimum} or later first"
        );
        self.add(Concern::ContainerRuntime, false, message, [&node.name]);
    }

    /// A Windows that is not supported today is no news.
    fn support(&mut self, build: Build, now: Option<Minor>, target: Minor, node: Option<&String>) {
        let supports = |minor| support::builds_supported_by(minor).is_some_and(|builds| builds.contains(&build));
        if supports(target) || now.is_some_and(|now| !supports(now)) {
            return;
        }
        let name = builds::release(build).and_then(|release| release.names.first()).unwrap_or(&"unknown");
        let span = match (support::first_minor_supporting(build), support::last_minor_supporting(build)) {
            (Some(first), _) if first > target => format!("support begins with {first}"),
            (_, Some(last)) => format!("{last} was the last to"),
            _ => "no minor does".to_owned(),
        };
        let message = format!(
            "Kubernetes {target} does not support Windows {build} ({name}), {span}: move the workloads to nodes of {}",
            supported(target)
        );
        self.add(Concern::OSSupport, true, message, node);
    }

    /// What renders for the kubelets of today and does not for those of tomorrow.
    fn configuration(&mut self, profile: &Profile, taints: &[Taint], nodes: &[&WindowsNode], target: Minor) {
        let mut names: BTreeMap<Variant, Vec<&String>> = BTreeMap::new();
        for node in nodes {
            if let Some(variant) = variant(node) {
                names.entry(variant).or_default().push(&node.name);
            }
        }
        for (now, nodes) in names {
            let then = Variant { kubelet: target, ..now };
            if now.runtime == Runtime::Dockershim && render::render(taints, profile, &then).is_err() {
                // The runtime itself is the finding.
                continue;
            }
            let problems_of = |variant| render::render(taints, profile, variant).err().unwrap_or_default();
            let known = problems_of(&now);
            for Problem { path, wrong, remedy } in problems_of(&then).into_iter().filter(|new| !known.contains(new)) {
                let message = format!("WindowsRuntimeProfile {path}: {wrong}: {remedy}");
                self.add(Concern::Configuration, true, message, nodes.iter().copied());
            }
            if let Ok(image) = pause::image(profile, &now) {
                // All flags that these nodes need today, whoever set them.
                let args = render::kubelet::args(taints, profile, &now, &image, Scope::Whole);
                self.flags(&args, nodes.iter().copied(), target);
            }
            if let (Ok(image), Ok(before)) = (pause::image(profile, &then), pause::image(profile, &now))
                && image != before
            {
                let message = format!(
                    "the pause image becomes {image} instead of {before}: where nodes cannot reach the registry, mirror it first"
                );
                self.add(Concern::PauseImage, false, message, nodes.iter().copied());
            }
        }
    }

    /// Flags of today that kubelets of tomorrow do not start with.
    fn flags<'n>(&mut self, args: &str, nodes: impl IntoIterator<Item = &'n String>, target: Minor) {
        let name = |line: &'_ str| kubelet_flags::flag(line.trim_start_matches('-').split('=').next()?);
        let gone: Vec<_> = args.lines().filter_map(name).filter(|flag| !flag.known_in(target)).collect();
        if gone.is_empty() {
            return;
        }
        let gone: Vec<_> = gone.iter().map(|flag| format!("--{}", flag.name)).collect();
        let message = format!(
            "kubelet {target} does not start with {}: remove that from its command line, and take over the \
             {KUBELET_ARGS} that is rendered for it, together with the new kubelet",
            gone.join(", ")
        );
        self.add(Concern::KubeletFlags, true, message, nodes);
    }
}

fn supported(minor: Minor) -> String {
    let known = support::builds_supported_by(minor).unwrap_or_default();
    let words = |build: &Build| {
        let name = builds::release(*build).and_then(|release| release.names.first());
        name.map_or_else(|| build.to_string(), |name| format!("{name} ({build})"))
    };
    known.iter().map(words).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::pool::ProfileView;

    fn node(name: &str, kernel: &str, kubelet: &str, runtime: &str) -> WindowsNode {
        let node = json!({
            "metadata": {"name": name},
            "status": {"nodeInfo": {
                "kernelVersion": kernel, "kubeletVersion": kubelet, "containerRuntimeVersion": runtime,
                "architecture": "amd64", "bootID": "", "kubeProxyVersion": "", "machineID": "",
                "operatingSystem": "windows", "osImage": "", "systemUUID": "",
            }},
        });
        serde_json::from_value::<Node>(node).unwrap().into()
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn messages(profile: Value, nodes: &[WindowsNode], target: u32) -> Vec<String> {
        let pool = Pool::from_object(read(json!({
            "metadata": {"name": "web"},
            "spec": {"windowsVersion": "ltsc2022", "fallback": true, "profileRef": {"name": "standard"}},
        })));
        let profile = ProfileView::from_object(read(json!({"metadata": {"name": "standard"}, "spec": profile})));
        assert!(profile.profile.is_ok(), "{:?}", profile.profile);
        let snapshot = Snapshot {
            profiles: [("standard".to_owned(), Arc::new(profile))].into(),
            api_server: Some(Minor(34)),
            ..Snapshot::default()
        };
        let nodes: Vec<_> = nodes.iter().collect();
        let found = findings(&snapshot, Some(&pool), &nodes, Minor(target));
        let told = |finding: Finding| {
            let breaks = if finding.breaks { "breaks" } else { "changes" };
            format!("{breaks} {}: {} [{}]", finding.concern.as_str(), finding.message, finding.nodes.join(" "))
        };
        found.into_iter().map(told).collect()
    }

    #[test]
    fn nodes_that_fit_the_new_minor_are_no_finding() {
        let node = node("a", "10.0.20348.4529", "v1.34.2", "containerd://2.2.1");
        assert_eq!(messages(json!({}), std::slice::from_ref(&node), 34), Vec::<String>::new());
        assert_eq!(messages(json!({}), &[], 36), Vec::<String>::new());
    }

    #[test]
    fn whatever_breaks_is_told_once_with_its_nodes() {
        let nodes = [
            node("a", "10.0.20348.1", "v1.34.2", "containerd://2.2.1"),
            node("b", "10.0.17763.1", "v1.34.2", "containerd://1.7.28"),
            node("c", "10.0.20348.1", "v1.31.0", "containerd://1.7.28"),
            node("d", "10.0.20348.1", "v1.31.0", "containerd://1.7.28"),
            node("e", "10.0.20348.1", "v1.37.0", "containerd://2.2.1"),
            node("f", "", "", ""),
        ];
        insta::assert_snapshot!(messages(json!({}), &nodes, 36).join("\n"), @r#"
        breaks VersionSkew: kubelet 1.31 is too old for an API server 1.36: upgrade it to 1.33 or later first [c d]
        breaks VersionSkew: kubelet 1.37 is newer than an API server 1.36 allows [e]
        breaks ContainerRuntime: containerd 1.7.28 is too old for kubelet 1.36: upgrade it to 2.2.0 or later first [b c d]
        changes ContainerRuntime: nobody knows whether kubelet 1.36 takes the container runtime "" [f]
        breaks OSSupport: Kubernetes 1.36 does not support Windows 10.0.17763 (ltsc2019), 1.34 was the last to: move the workloads to nodes of ltsc2022 (10.0.20348) or ltsc2025 (10.0.26100) [b]
        changes PauseImage: the pause image becomes mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.2 instead of mcr.microsoft.com/oss/kubernetes/pause:3.10: where nodes cannot reach the registry, mirror it first [c d]
        changes PauseImage: the pause image becomes mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.2 instead of mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.1: where nodes cannot reach the registry, mirror it first [a b]
        "#);
    }

    #[test]
    fn a_minor_newer_than_the_tables_is_answered_as_the_newest_and_said_to_be_so() {
        let node = node("a", "10.0.26100.1", "v1.36.2", "containerd://2.3.1");
        let found = messages(json!({}), std::slice::from_ref(&node), 37);
        let expected = "changes NotChecked: the tables of this winpool end at Kubernetes 1.36: 1.37 is answered as 1.36, and \
                        its feature gates are not checked: upgrade winpool [a]";
        assert_eq!(found, [expected]);
        assert_eq!(messages(json!({}), &[node], 36), Vec::<String>::new());
    }

    #[test]
    fn a_pause_image_that_loses_its_protection_is_told() {
        let node = node("a", "10.0.20348.1", "v1.28.2", "containerd://1.6.20");
        let found = messages(json!({}), std::slice::from_ref(&node), 29);
        let expected = "changes ContainerRuntime: containerd 1.6.20 does not pin the pause image, and kubelet 1.29 removes it \
                        when the disk fills up: upgrade containerd to 1.6.22 or later first [a]";
        assert!(found.contains(&expected.to_owned()), "{found:?}");
        assert!(messages(json!({}), &[node], 28).iter().all(|message| !message.contains("pin the pause")));
    }

    #[test]
    fn dockershim_ends_with_1_23() {
        let nodes = [
            node("shim", "10.0.17763.1", "v1.23.5", "docker://20.10.9"),
            node("cri", "10.0.17763.1", "v1.24.0", "docker://20.10.9"),
        ];
        let found = messages(
            json!({"pauseImage": {"source": "Custom", "repository": "mirror.example/pause", "tag": "1"}}),
            &nodes,
            24,
        );
        assert_eq!(
            found,
            [
                "breaks ContainerRuntime: kubelet 1.24 has no dockershim: install containerd, or cri-dockerd beside Docker \
              Engine, first [shim]"
            ]
        );
    }

    #[test]
    fn a_gate_that_is_gone_is_told_with_its_remedy() {
        let nodes = [node("a", "10.0.20348.1", "v1.27.2", "containerd://1.7.28")];
        let gates = json!({"kubelet": {"featureGates": {"WindowsHostProcessContainers": true}}});
        insta::assert_snapshot!(messages(gates, &nodes, 28).join("\n"), @"breaks Configuration: WindowsRuntimeProfile spec.kubelet.featureGates.WindowsHostProcessContainers: kubelets know it up to 1.27, and 1.28 does not start with it: remove it, or give these nodes a profile of their own [a]");
    }

    #[test]
    fn a_flag_that_is_gone_is_told() {
        let nodes = [node("a", "10.0.20348.1", "v1.26.2", "containerd://1.7.28")];
        let found = messages(json!({}), &nodes, 27);
        let told: Vec<_> = found.iter().filter(|message| message.contains("KubeletFlags")).collect();
        assert_eq!(
            told,
            [
                "breaks KubeletFlags: kubelet 1.27 does not start with --container-runtime: remove that from its command \
              line, and take over the kubelet.args that is rendered for it, together with the new kubelet [a]"
            ]
        );
        assert!(messages(json!({}), &nodes, 26).is_empty());
    }

    #[test]
    fn a_pool_without_nodes_is_judged_by_its_windows_version() {
        let table = [(22, 1), (23, 0), (36, 0)];
        for (target, expected) in table {
            let found = messages(json!({}), &[], target);
            assert_eq!(found.len(), expected, "ltsc2022 came with 1.23: {found:?}");
        }
    }
}
