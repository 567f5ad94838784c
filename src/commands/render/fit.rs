//! Whether what is rendered can work on the nodes that it is for.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    domain::{
        Problem,
        conditions::some_of,
        node::WindowsNode,
        pool::{Spec, configs::Newcomer, plan::Member},
        profile::{Pause, Profile},
        render::{pause, reserve},
    },
    facts::{ContainerdVersion, Minor, OsVersion, containerd},
};

/// What runs a pause image.
type Host = (Minor, OsVersion, Option<ContainerdVersion>);

/// What cannot work, each problem once: the paths are those of the profile.
pub fn problems(
    profile: &Profile,
    pool: &str,
    spec: &Spec,
    members: &[Member],
    newcomers: &[Newcomer],
) -> Vec<Problem> {
    let mut found: BTreeMap<Problem, BTreeSet<&str>> = BTreeMap::new();
    for Member { node, .. } in members {
        let reserves = node.kubelet.as_ref().ok();
        let reserves = reserves.and_then(|kubelet| reserve::exceeds(profile, kubelet.minor, &node.capacity));
        let tag = of_node(node).and_then(|host| tag_without_entry(profile, host));
        for problem in reserves.into_iter().chain(tag) {
            found.entry(problem).or_default().insert(&node.name);
        }
    }
    if members.is_empty() {
        let hosts = newcomers.iter().filter_map(|newcomer| of_newcomer(newcomer, spec));
        found.extend(
            hosts.filter_map(|host| tag_without_entry(profile, host)).map(|problem| (problem, BTreeSet::new())),
        );
    }
    let told = |(problem, nodes): (Problem, BTreeSet<&str>)| {
        let nodes: Vec<_> = nodes.into_iter().collect();
        let on = if nodes.is_empty() { String::new() } else { format!(", {}", some_of(&nodes)) };
        Problem { wrong: format!("{} (pool {pool}{on})", problem.wrong), ..problem }
    };
    found.into_iter().map(told).collect()
}

/// The problem with a tag that the profile names and whose image has no entry that a host can run. Where it names
/// none, one that fits was chosen.
fn tag_without_entry(profile: &Profile, (kubelet, host, containerd): Host) -> Option<Problem> {
    let (Pause::Custom(_, tag) | Pause::Known(_, tag)) = &profile.pause;
    tag.as_ref()?;
    let image = pause::cannot_run(profile, kubelet, host, containerd)?;
    let wrong = format!("{image} has no entry that {} can run: no pod could start there", host.build);
    let remedy = "write a tag with an entry for the build, or remove it: then one is chosen";
    Some(Problem::new("spec.pauseImage.tag", wrong, remedy))
}

fn of_node(node: &WindowsNode) -> Option<Host> {
    Some((node.kubelet.as_ref().ok()?.minor, node.os_version()?, node.runtime.containerd()))
}

/// A node that may come has the newest containerd of its minor: what that cannot run, none can.
fn of_newcomer(newcomer: &Newcomer, spec: &Spec) -> Option<Host> {
    let asked = newcomer.containerd()?;
    let newest = containerd::generation(asked).map_or(asked, |line| line.newest);
    Some((newcomer.kubelet, OsVersion { build: spec.build, revision: None }, Some(newest)))
}
