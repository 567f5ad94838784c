//! The groups of nodes that become pools: by Windows build, and by the label with which a platform names node pools, if there
//! is one. The selectors exclude each other: each excludes the nodes with a label that takes precedence.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use winpool_api::{LabelSelector, SelectorOperator, SelectorRequirement, hex, names::label};
use winpool_core::node::WindowsNode;
use winpool_facts::{Build, builds, node_pools::NODE_POOL_LABELS};

/// The longest name of a pool, because it becomes a label value.
const LONGEST_NAME: usize = 63;
/// The length of the hash in a name, in hexadecimal digits.
const HASH_LENGTH: usize = 6;
/// The domains of labels that describe single nodes or belong to winpool.
const DESCRIBING_DOMAINS: [&str; 3] = ["kubernetes.io", "k8s.io", "winpool.dev"];

/// The nodes of one Windows build that become a pool.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    pub name: String,
    pub build: Build,
    pub origin: GroupOrigin,
    pub nodes: Vec<&'a WindowsNode>,
    pub selector: LabelSelector,
    /// Other labels by which a group without a label for its node pool could be divided.
    pub divisible_by: Vec<String>,
}

/// Why nodes are one group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupOrigin {
    /// They have the same label for their node pool.
    Label {
        /// The position of the key among the keys that are looked up.
        precedence: usize,
        key: String,
        value: String,
    },
    /// They have the same build and no such label.
    Build,
}

/// The platform that sets a label; `None` if the user named it.
pub fn platform(key: &str) -> Option<&'static str> {
    NODE_POOL_LABELS.iter().find(|known| known.key == key).map(|known| known.platform)
}

/// The name of a build: of its release, or the build itself.
pub fn version_name(build: Build) -> String {
    builds::release(build).map_or_else(|| build.to_string(), |release| release.names[0].to_owned())
}

/// Groups nodes. `all` has all Windows nodes, `labels` the keys that take precedence over those of platforms, and `taken`
/// the names of other pools. Nodes without a build are in no group.
pub fn groups<'a>(
    unassigned: &[&'a WindowsNode],
    all: &[&'a WindowsNode],
    labels: &[String],
    taken: &BTreeSet<&str>,
) -> Vec<Group<'a>> {
    let keys: Vec<&str> =
        labels.iter().map(String::as_str).chain(NODE_POOL_LABELS.iter().map(|label| label.key)).collect();
    let mut by_origin: BTreeMap<(GroupOrigin, Build), Vec<&WindowsNode>> = BTreeMap::new();
    for node in unassigned {
        let Some(build) = node.build() else { continue };
        by_origin.entry((origin(node, &keys), build)).or_default().push(node);
    }
    let names = names(by_origin.keys(), taken);
    let groups = by_origin.into_iter().zip(names).map(|(((origin, build), nodes), name)| {
        let selector = selector(&origin, build, &keys, all);
        let divisible_by = if origin == GroupOrigin::Build { dividing_labels(&nodes) } else { Vec::new() };
        Group { name, build, origin, nodes, selector, divisible_by }
    });
    groups.collect()
}

fn origin(node: &WindowsNode, keys: &[&str]) -> GroupOrigin {
    let found = keys.iter().enumerate().find_map(|(precedence, key)| Some((precedence, key, node.labels.get(*key)?)));
    found.map_or(GroupOrigin::Build, |(precedence, key, value)| GroupOrigin::Label {
        precedence,
        key: (*key).to_owned(),
        value: value.clone(),
    })
}

/// The selector of the nodes of an origin and a build, among all nodes.
fn selector(origin: &GroupOrigin, build: Build, keys: &[&str], all: &[&WindowsNode]) -> LabelSelector {
    let of_build = || (label::WINDOWS_BUILD.to_owned(), build.to_string());
    let (base, preceding) = match origin {
        GroupOrigin::Label { precedence, key, value } => ((key.clone(), value.clone()), &keys[..*precedence]),
        GroupOrigin::Build => (of_build(), keys),
    };
    let mut selector = LabelSelector { match_labels: BTreeMap::from([base]), match_expressions: Vec::new() };
    let matched: Vec<_> = all.iter().filter(|node| selector.matches(&node.labels)).collect();
    let is_on_others = |key: &&&str| matched.iter().any(|node| node.labels.contains_key(**key));
    let absent = |key: &&str| SelectorRequirement {
        key: (*key).to_owned(),
        operator: SelectorOperator::DoesNotExist,
        values: Vec::new(),
    };
    selector.match_expressions = preceding.iter().filter(is_on_others).map(absent).collect();
    if matched.iter().any(|node| selector.matches(&node.labels) && node.build() != Some(build)) {
        selector.match_labels.extend([of_build()]);
    }
    selector
}

/// The names of the pools of origins and builds. A name that is not unique gets a hash, so that it does not depend on the
/// number of the other pools.
fn names<'g>(groups: impl Iterator<Item = &'g (GroupOrigin, Build)> + Clone, taken: &BTreeSet<&str>) -> Vec<String> {
    let mut builds: BTreeMap<&GroupOrigin, usize> = BTreeMap::new();
    groups.clone().for_each(|(origin, _)| *builds.entry(origin).or_default() += 1);
    let plain: Vec<String> =
        groups.clone().map(|(origin, build)| plain_name(origin, *build, builds[origin] > 1)).collect();
    let is_unique = |name: &String| {
        plain.iter().filter(|other| *other == name).count() == 1
            && !taken.contains(name.as_str())
            && name.len() <= LONGEST_NAME
    };
    let name = |(name, group): (&String, &(GroupOrigin, Build))| {
        if is_unique(name) { name.clone() } else { hashed(name, group) }
    };
    plain.iter().zip(groups).map(name).collect()
}

fn plain_name(origin: &GroupOrigin, build: Build, has_several_builds: bool) -> String {
    let version = version_name(build);
    let version = version.rsplit('.').next().unwrap_or_default().to_lowercase();
    let of_label = match origin {
        GroupOrigin::Label { value, .. } => dns_label(value),
        GroupOrigin::Build => String::new(),
    };
    match of_label.as_str() {
        "" => format!("windows-{version}"),
        name if has_several_builds => format!("{name}-{version}"),
        name => name.to_owned(),
    }
}

/// The letters and digits of a label value, with hyphens between them.
fn dns_label(value: &str) -> String {
    let name: String = value.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    name.trim_matches('-').to_owned()
}

fn hashed(name: &str, (origin, build): &(GroupOrigin, Build)) -> String {
    let identity = match origin {
        GroupOrigin::Label { key, value, .. } => format!("{key}={value}"),
        GroupOrigin::Build => String::new(),
    };
    let digest = Sha256::digest(format!("{identity}@{build}"));
    let hash = hex(&digest);
    let kept: String = name.chars().take(LONGEST_NAME - HASH_LENGTH - 1).collect();
    format!("{}-{hash:.HASH_LENGTH$}", kept.trim_end_matches('-'))
}

/// The labels of users that all nodes have with several values, each on several nodes on average.
fn dividing_labels(nodes: &[&WindowsNode]) -> Vec<String> {
    let Some(first) = nodes.first() else { return Vec::new() };
    let describes = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        DESCRIBING_DOMAINS.iter().any(|describing| domain.ends_with(describing))
    };
    let divides = |key: &&String| {
        let values: Option<BTreeSet<&String>> = nodes.iter().map(|node| node.labels.get(*key)).collect();
        values.is_some_and(|values| values.len() > 1 && values.len() < nodes.len())
    };
    first.labels.keys().filter(|key| !describes(key)).filter(divides).cloned().collect()
}
