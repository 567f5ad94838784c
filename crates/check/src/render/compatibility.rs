//! Whether a rendered configuration works on its nodes.

use std::collections::{BTreeMap, BTreeSet};

use winpool_core::{Problem, node::WindowsNode, text::some_of};
use winpool_facts::{ContainerdVersion, Minor, OsVersion, containerd};
use winpool_render::{
    pause,
    profile::{Pause, Profile},
    reserve,
};
use winpool_rules::pool::{Spec, configs::ExpectedNode, plan::Member};

/// The properties of a node that decide whether it runs a pause image.
type PauseHost = (Minor, OsVersion, Option<ContainerdVersion>);

/// The problems of a profile on the nodes of a pool, each with its nodes.
pub fn problems(
    profile: &Profile,
    pool: &str,
    spec: &Spec,
    members: &[Member],
    expected_nodes: &[ExpectedNode],
) -> Vec<Problem> {
    let mut found: BTreeMap<Problem, BTreeSet<&str>> = BTreeMap::new();
    for Member { node, .. } in members {
        let kubelet = node.kubelet.as_ref().ok();
        let reserved = kubelet.and_then(|kubelet| reserve::capacity_problem(profile, kubelet.minor, &node.capacity));
        let tag = host(node).and_then(|host| tag_problem(profile, host));
        for problem in reserved.into_iter().chain(tag) {
            found.entry(problem).or_default().insert(&node.name);
        }
    }
    if members.is_empty() {
        let hosts = expected_nodes.iter().filter_map(|expected_node| expected_host(expected_node, spec));
        let problems = hosts.filter_map(|host| tag_problem(profile, host));
        found.extend(problems.map(|problem| (problem, BTreeSet::new())));
    }
    let with_nodes = |(problem, nodes): (Problem, BTreeSet<&str>)| {
        let nodes: Vec<_> = nodes.into_iter().collect();
        let on = if nodes.is_empty() { String::new() } else { format!(", {}", some_of(&nodes)) };
        Problem { wrong: format!("{} (pool {pool}{on})", problem.wrong), ..problem }
    };
    found.into_iter().map(with_nodes).collect()
}

/// The problem of a tag in the profile whose image has no entry for the host. Without a tag winpool selects one.
fn tag_problem(profile: &Profile, (kubelet, host, containerd): PauseHost) -> Option<Problem> {
    let (Pause::Custom(_, Some(_)) | Pause::Known(_, Some(_))) = &profile.pause else { return None };
    let image = pause::incompatible_image(profile, kubelet, host, containerd)?;
    let wrong = format!("{image} has no entry for {}, so no pod can start there", host.build);
    let remedy = "write a tag with an entry for the build, or remove the tag to have one selected";
    Some(Problem::new("spec.pauseImage.tag", wrong, remedy))
}

fn host(node: &WindowsNode) -> Option<PauseHost> {
    Some((node.kubelet.as_ref().ok()?.minor, node.os_version()?, node.containerd()))
}

/// An expected node has the newest patch of its containerd minor: an image that it does not run, no patch runs.
fn expected_host(expected_node: &ExpectedNode, spec: &Spec) -> Option<PauseHost> {
    let requested = expected_node.containerd()?;
    let newest = containerd::release_line(requested).map_or(requested, |line| line.newest);
    Some((expected_node.kubelet, OsVersion { build: spec.build, revision: None }, Some(newest)))
}
