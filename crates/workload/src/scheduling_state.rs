//! The state that workloads are checked against: pools with groups of equivalent nodes, and RuntimeClasses.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use winpool_api::{Taint, names::label};
use winpool_core::{
    image::HostNode,
    node::{ARCHITECTURE, Handlers, labels_of_kubelet},
    release_labels,
};
use winpool_facts::{
    Build, OsVersion,
    containerd::HYPERV_HANDLER,
    version_compatibility::{Isolation, UtilityVm},
    windows_updates::{self, Behind},
};

use super::{Scheduling, System};

/// The state that workloads are checked against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulingState {
    /// The pools with a valid spec, in order of precedence.
    pub pools: Vec<PoolState>,
    pub classes: BTreeMap<String, ClassState>,
    pub nodes: HashMap<String, NodeState>,
    /// The names of nodes whose label `kubernetes.io/hostname` has another value, by that value.
    pub hosts: HashMap<String, String>,
    /// Windows nodes in no pool, in groups.
    pub unassigned: Vec<UnassignedNodes>,
    /// The node labels that workloads select by, if the state has only these labels and those that every check reads.
    pub selected_labels: Option<BTreeSet<String>>,
}

/// Windows nodes in no pool that are equivalent for every check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnassignedNodes {
    /// The labels that they have in common.
    pub labels: BTreeMap<String, String>,
    /// The keys of labels whose values differ from node to node.
    pub individual: Arc<BTreeSet<String>>,
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PoolState {
    pub name: String,
    pub build: Build,
    pub taints: Vec<Taint>,
    /// Its RuntimeClasses with their isolation, in the order of the spec.
    pub classes: Vec<(String, Isolation)>,
    /// Whether the operator writes for it.
    pub enforces: bool,
    /// The number of monthly updates that an image may be behind, if its profile sets one.
    pub max_image_updates_behind: Option<u32>,
    /// The groups of its nodes; for a pool without nodes a single group, derived from its spec.
    pub groups: Vec<NodeGroup>,
}

/// Nodes that are equivalent for every check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeGroup {
    /// Whether such nodes exist. Expected nodes may have other labels.
    pub exists: bool,
    /// The labels that they have in common.
    pub labels: BTreeMap<String, String>,
    /// The keys of labels whose values differ from node to node.
    pub individual: Arc<BTreeSet<String>>,
    /// The taints that they have, or will have after the next reconcile.
    pub taints: Vec<Taint>,
    /// The taints that they would have in mode Enforce, if their pool does not write.
    pub withheld: Vec<Taint>,
    /// Windows and container runtime.
    pub host: HostNode,
    /// Their handlers; `None` if they are unknown.
    pub handlers: Option<Handlers>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassState {
    pub scheduling: Scheduling,
    pub handler: String,
    pub system: Option<System>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeState {
    pub pool: Option<String>,
    /// Its group; `None` when it did not report its Windows version.
    pub group: Option<Arc<NodeGroup>>,
    /// Its allocatable memory in bytes.
    pub memory: Option<i64>,
}

impl SchedulingState {
    /// A Windows node by its name or its label `kubernetes.io/hostname`.
    pub fn node(&self, name: &str) -> Option<&NodeState> {
        self.nodes.get(name).or_else(|| self.nodes.get(self.hosts.get(name)?))
    }

    pub fn pool(&self, name: &str) -> Option<&PoolState> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// How far an image for this Windows is behind, if that is more than the profile of a pool allows.
    pub fn behind(&self, pool: &str, image: OsVersion) -> Option<Behind> {
        let max = self.pool(pool)?.max_image_updates_behind?;
        windows_updates::behind(image).filter(|behind| behind.updates > max)
    }

    /// Whether a pool is about to create the RuntimeClass of this name.
    pub fn will_create(&self, class: &str) -> bool {
        let enforcing = self.pools.iter().filter(|pool| pool.enforces);
        enforcing.flat_map(|pool| &pool.classes).any(|(name, _)| name == class)
    }

    pub fn isolation(&self, class: Option<&str>) -> Isolation {
        let Some(name) = class else { return Isolation::Process };
        let of_pools = self.pools.iter().flat_map(|pool| &pool.classes);
        let in_spec = of_pools.into_iter().find(|(class, _)| class == name).map(|(_, isolation)| *isolation);
        let by_handler = || {
            let hyper_v = self.classes.get(name).is_some_and(|class| class.handler == HYPERV_HANDLER);
            if hyper_v { Isolation::HyperV(UtilityVm::OfPauseImage) } else { Isolation::Process }
        };
        in_spec.unwrap_or_else(by_handler)
    }
}

impl NodeGroup {
    /// Nodes of a build that do not exist yet, with the labels that every such node gets.
    pub fn expected(build: Build) -> Self {
        let mut labels = labels_of_kubelet(build);
        release_labels::replace(&mut labels, release_labels::expected(build));
        let (os, architecture) = (OsVersion { build, revision: None }, ARCHITECTURE.to_owned());
        Self {
            exists: false,
            labels,
            individual: Arc::default(),
            taints: Vec::new(),
            withheld: Vec::new(),
            host: HostNode { os, architecture, containerd: None },
            handlers: None,
        }
    }

    /// Whether the value of a label, or its absence, is known for these nodes.
    pub fn is_label_known(&self, key: &str) -> bool {
        if self.exists { !self.individual.contains(key) } else { self.labels.contains_key(key) }
    }

    /// The labels of such a node whose host has this name.
    pub fn labels_on(&self, host: &str) -> Cow<'_, BTreeMap<String, String>> {
        let mut labels = Cow::Borrowed(&self.labels);
        if self.exists {
            labels.to_mut().insert(label::HOSTNAME.to_owned(), host.to_owned());
        }
        labels
    }

    /// Whether these nodes do not match the selector of a class.
    pub fn lacks(&self, scheduling: &Scheduling) -> bool {
        let mut selected = scheduling.node_selector.iter().filter(|(key, _)| !self.individual.contains(*key));
        selected.any(|(key, value)| self.labels.get(key) != Some(value))
    }
}
