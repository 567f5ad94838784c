//! Computes the state that workloads are checked against from a snapshot.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use winpool_api::{RuntimeClassIsolation, Taint, TaintKey, names::label};
use winpool_core::{
    Named,
    image::HostNode,
    node::{ARCHITECTURE, Handlers, WindowsNode},
    release_labels,
};
use winpool_facts::{
    ContainerdVersion, OsVersion,
    containerd::HYPERV_HANDLER,
    version_compatibility::{Isolation, UtilityVm},
};
use winpool_workload::{
    Scheduling, SchedulingState,
    scheduling_state::{ClassState, NodeGroup, NodeState, PoolState, UnassignedNodes},
    system_of_class,
};

use super::{
    Members, Pool, RuntimeClass, RuntimeClassView, Snapshot, Spec,
    plan::Planner,
    relevance::{ReadLabels, keys_of_class},
    stranding::DeferredTaints,
};

/// A label with more values than this identifies single nodes, such as the name of a machine, and not groups of nodes.
const MOST_VALUES: usize = 32;

impl Snapshot {
    /// The state that workloads are checked against.
    pub fn scheduling_state(&self) -> SchedulingState {
        self.state_with(None)
    }

    /// The state for workloads that select by no other node labels than these. Other labels do not affect it.
    pub fn scheduling_state_for(&self, labels: BTreeSet<String>) -> SchedulingState {
        SchedulingState { selected_labels: Some(labels.clone()), ..self.state_with(Some(&labels)) }
    }

    fn state_with(&self, labels: Option<&BTreeSet<String>>) -> SchedulingState {
        let snapshot = self;
        let planner = Planner::new(snapshot);
        let by_classes = snapshot.runtime_classes.values().flat_map(|class| keys_of_class(class));
        let read = labels.map(|by_workloads| ReadLabels::named(by_classes.chain(by_workloads)));
        let mut nodes = HashMap::with_capacity(snapshot.nodes.len());
        let mut active: Vec<(&Pool, &Spec)> =
            snapshot.pools.values().filter_map(|pool| Some((pool.as_ref(), pool.spec.as_ref().ok()?))).collect();
        active.sort_by_key(|(pool, _)| pool.precedence());
        let mut pools = Vec::new();
        for (pool, spec) in active.into_iter().filter(|(pool, _)| !pool.deleting) {
            let mut groups = NodeGroups {
                pool,
                spec,
                labels: GroupLabels::of(planner.members(&pool.name), read.as_ref()),
                holds: planner.held_taints(pool, spec),
                by_traits: HashMap::new(),
            };
            for node in planner.members(&pool.name) {
                let (group, memory) = (groups.of(node), node.allocatable.memory);
                nodes.insert(node.name.clone(), NodeState { pool: Some(pool.name.clone()), group, memory });
            }
            let mut groups = groups.distinct();
            groups.sort_by(|a, b| order(a).cmp(&order(b)));
            if groups.is_empty() {
                groups.push(expected_group(pool, spec));
            }
            pools.push(pool_state(snapshot, pool, spec, groups));
        }
        let all = snapshot.nodes.values().map(AsRef::as_ref);
        let without_pool: Vec<&WindowsNode> = all.filter(|node| !nodes.contains_key(&node.name)).collect();
        let labels = GroupLabels::of(without_pool.iter().copied(), read.as_ref());
        let mut unassigned: Vec<UnassignedNodes> =
            without_pool.iter().map(|node| unassigned_nodes(node, &labels)).collect();
        unassigned.sort();
        unassigned.dedup();
        let state = |node: &WindowsNode| NodeState { pool: None, group: None, memory: node.allocatable.memory };
        nodes.extend(without_pool.into_iter().map(|node| (node.name.clone(), state(node))));
        let host = |node: &WindowsNode| node.labels.get(label::HOSTNAME).filter(|host| **host != node.name).cloned();
        SchedulingState {
            pools,
            classes: snapshot
                .runtime_classes
                .values()
                .map(|class| (class.name().to_owned(), class_state(class)))
                .collect(),
            hosts: snapshot.nodes.values().filter_map(|node| Some((host(node)?, node.name.clone()))).collect(),
            nodes,
            unassigned,
            selected_labels: None,
        }
    }
}

/// The groups of the nodes of a pool. Each group is created once, because most nodes are equivalent.
struct NodeGroups<'a> {
    pool: &'a Pool,
    spec: &'a Spec,
    labels: GroupLabels<'a>,
    holds: DeferredTaints,
    by_traits: HashMap<Traits<'a>, Arc<NodeGroup>>,
}

/// The properties of a node that its group depends on, in addition to its pool.
#[derive(PartialEq, Eq, Hash)]
struct Traits<'n> {
    labels: Vec<(&'n str, &'n str)>,
    taints: Vec<Taint>,
    os: OsVersion,
    architecture: &'n str,
    containerd: Option<ContainerdVersion>,
    handlers: Option<&'n Handlers>,
}

impl<'a> NodeGroups<'a> {
    /// The group of a node after its pool was reconciled; `None` when it did not report its Windows version.
    fn of(&mut self, node: &'a WindowsNode) -> Option<Arc<NodeGroup>> {
        let traits = Traits {
            labels: self.labels.in_common(node).collect(),
            taints: lasting_taints(node),
            os: node.os_version()?,
            architecture: node.labels.get(label::ARCH).map_or(ARCHITECTURE, String::as_str),
            containerd: node.containerd(),
            handlers: node.handlers.as_ref(),
        };
        if let Some(group) = self.by_traits.get(&traits) {
            return Some(group.clone());
        }
        let group = Arc::new(node_group(&traits, (self.pool, self.spec), &self.holds, self.labels.individual.clone()));
        self.by_traits.insert(traits, group.clone());
        Some(group)
    }

    /// The groups, without duplicates.
    fn distinct(self) -> Vec<NodeGroup> {
        let groups: HashSet<NodeGroup> = self.by_traits.into_values().map(|group| group.as_ref().clone()).collect();
        groups.into_iter().collect()
    }
}

/// The labels of some nodes that count, by key. The label of the host name is known for each node in any case.
struct GroupLabels<'n> {
    common: HashSet<&'n str>,
    /// The keys of labels whose values identify single nodes.
    individual: Arc<BTreeSet<String>>,
}

impl<'n> GroupLabels<'n> {
    /// Among the labels that are read; `None` stands for all.
    fn of(nodes: impl Iterator<Item = &'n WindowsNode>, read: Option<&ReadLabels>) -> Self {
        let is_read = |key: &str| key != label::HOSTNAME && read.is_none_or(|read| read.contains(key));
        // The values of each of these labels, and the last value, because the next node usually has the same.
        let mut values: HashMap<&str, Option<(HashSet<&str>, &str)>> = HashMap::new();
        for (key, value) in nodes.flat_map(|node| &node.labels) {
            let seen = values
                .entry(key)
                .or_insert_with(|| is_read(key).then(|| (HashSet::from([value.as_str()]), value.as_str())));
            if let Some((all, last)) = seen.as_mut().filter(|(all, last)| *last != value && all.len() <= MOST_VALUES) {
                all.insert(value);
                *last = value;
            }
        }
        let (mut common, mut individual) = (HashSet::new(), BTreeSet::new());
        for (key, seen) in values {
            match seen {
                Some((seen, _)) if seen.len() > MOST_VALUES => drop(individual.insert(key.to_owned())),
                Some(_) => drop(common.insert(key)),
                None => {}
            }
        }
        Self { common, individual: Arc::new(individual) }
    }

    /// The labels of a node that count, without those that identify it.
    fn in_common<'m>(&self, node: &'m WindowsNode) -> impl Iterator<Item = (&'m str, &'m str)> {
        let common = node.labels.iter().filter(|(key, _)| self.common.contains(key.as_str()));
        common.map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn pool_state(snapshot: &Snapshot, pool: &Pool, spec: &Spec, groups: Vec<NodeGroup>) -> PoolState {
    let isolation = |class: &RuntimeClass| match class.isolation {
        RuntimeClassIsolation::Process => Isolation::Process,
        RuntimeClassIsolation::HyperV if class.handler == HYPERV_HANDLER => Isolation::HyperV(UtilityVm::OfPauseImage),
        RuntimeClassIsolation::HyperV => Isolation::HyperV(UtilityVm::OfAnyBuild),
    };
    let classes = spec.runtime_classes.iter().map(|class| (class.name.clone(), isolation(class)));
    PoolState {
        name: pool.name.clone(),
        build: spec.build,
        taints: spec.taints.clone(),
        classes: classes.collect(),
        enforces: pool.enforces(),
        max_image_updates_behind: snapshot.profile_of(spec).and_then(|profile| profile.max_image_updates_behind),
        groups,
    }
}

fn class_state(view: &RuntimeClassView) -> ClassState {
    ClassState {
        scheduling: Scheduling::of_class(&view.object),
        handler: view.object.handler.clone(),
        system: system_of_class(&view.object),
    }
}

fn unassigned_nodes(node: &WindowsNode, labels: &GroupLabels) -> UnassignedNodes {
    UnassignedNodes {
        labels: labels.in_common(node).map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        individual: labels.individual.clone(),
        taints: lasting_taints(node),
    }
}

/// The taints of a node that do not follow its state, in order.
fn lasting_taints(node: &WindowsNode) -> Vec<Taint> {
    let mut taints: Vec<Taint> = node.lasting_taints().collect();
    taints.sort();
    taints
}

/// The group of nodes after their pool was reconciled.
fn node_group(
    traits: &Traits,
    (pool, spec): (&Pool, &Spec),
    holds: &DeferredTaints,
    individual: Arc<BTreeSet<String>>,
) -> NodeGroup {
    let mut labels: BTreeMap<String, String> =
        traits.labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let mut taints = traits.taints.clone();
    if pool.enforces() && holds.held.is_empty() {
        taints.retain(|taint| !spec.replaces_taints.contains(taint));
    }
    // A taint of the same key and effect stays until it is replaced.
    let present = |taint: &Taint| taints.iter().any(|own| (&own.key, own.effect) == (&taint.key, taint.effect));
    let mut withheld: Vec<Taint> = spec.taints.iter().filter(|taint| !present(taint)).cloned().collect();
    if pool.enforces() {
        labels.insert(label::POOL.to_owned(), pool.name.clone());
        labels.insert(label::WINDOWS_BUILD.to_owned(), traits.os.build.to_string());
        release_labels::replace(&mut labels, release_labels::of_host(traits.os, traits.containerd));
        labels.extend(spec.labels.clone());
        let (held, added) = withheld.into_iter().partition(|taint| holds.held.contains(&TaintKey::from(taint)));
        withheld = held;
        taints.extend::<Vec<Taint>>(added);
        taints.sort();
    }
    let (os, architecture) = (traits.os, traits.architecture.to_owned());
    NodeGroup {
        exists: true,
        labels,
        individual,
        taints,
        withheld,
        host: HostNode { os, architecture, containerd: traits.containerd },
        handlers: traits.handlers.cloned(),
    }
}

/// The group of the nodes that a pool without nodes expects.
fn expected_group(pool: &Pool, spec: &Spec) -> NodeGroup {
    let mut group = NodeGroup::expected(spec.build);
    group.labels.insert(label::POOL.to_owned(), pool.name.clone());
    group.labels.extend(spec.labels.clone());
    if let Members::Selector(selector) = &spec.members {
        group.labels.extend(selector.match_labels.clone());
    }
    let mut taints = spec.taints.clone();
    taints.sort();
    let place = if pool.enforces() { &mut group.taints } else { &mut group.withheld };
    *place = taints;
    group
}

/// The order of groups in a pool. Labels come last: which of them a state has must not decide which host or taint a
/// check names first.
fn order(group: &NodeGroup) -> impl Ord + '_ {
    let host = (group.host.os, &group.host.architecture, group.host.containerd);
    (host, &group.handlers, &group.taints, &group.withheld, &group.labels)
}
