//! The ground that workloads stand on: pools, the kinds of nodes in them, and RuntimeClasses.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{Scheduling, System, placement::Obstacle, system_of_class};
use crate::{
    api::{RuntimeClassIsolation, names::label},
    domain::{
        image::Host,
        node::WindowsNode,
        pool::{Members, Pool, RuntimeClass, RuntimeClassView, Snapshot, Spec, delivery, plan::Planner},
    },
    facts::{
        Build, OsVersion,
        compatibility::{Isolation, UtilityVm},
        containerd::HYPERV_HANDLER,
    },
};

/// The architecture of a node that does not say its own: the only one that Windows Server has in Kubernetes.
const ARCHITECTURE: &str = "amd64";
/// Beginnings of taints that tell the state of a node and come and go with it, so that they keep no workload off a pool.
/// [`OS_TAINT`] is not one of them. Sources: kubernetes/website, "Taints and Tolerations"; kubernetes/autoscaler,
/// `cluster-autoscaler/utils/taints/taints.go` (2025-11); kubernetes-sigs/karpenter, `pkg/apis/v1/taints.go` (2025-11).
const PASSING_TAINTS: [&str; 10] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "cloud.google.com/impending-node-termination",
    "NodeWithImpairedVolumes",
    "karpenter.sh/",
];

/// Labels that the rules read whatever workloads ask for.
const ALWAYS: [&str; 5] = [label::OS, label::BETA_OS, label::ARCH, label::WINDOWS_BUILD, label::POOL];

/// The key of the taint that some clouds keep on their Windows nodes: `node.kubernetes.io/os=windows:NoSchedule` (Google
/// Distributed Cloud, "Diagnose cluster issues", and Google Kubernetes Engine), `=Windows` (Azure Kubernetes Service on Azure
/// Stack HCI). It does not come and go: a pod must tolerate it.
const OS_TAINT: &str = "node.kubernetes.io/os";

/// A label with more values than this among nodes tells one node from another, such as the name of a machine, and no
/// kind of nodes from another.
const MOST_VALUES: usize = 32;

/// Everything that a workload is judged against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ground {
    /// The pools that can be acted on, in order of precedence.
    pub pools: Vec<PoolGround>,
    /// All RuntimeClasses, by name.
    pub classes: BTreeMap<String, Class>,
    /// All Windows nodes, by name.
    pub nodes: HashMap<String, NodeGround>,
    /// The names of nodes whose host is called otherwise, by the label of the host.
    pub hosts: HashMap<String, String>,
    /// Windows nodes in no pool: what these take is at home there.
    pub outside: Vec<Outside>,
    /// The labels that workloads ask for, if it has no others of nodes but those that all rules read.
    pub asked: Option<BTreeSet<String>>,
}

/// Windows nodes in no pool that are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Outside {
    /// The labels that they have in common.
    pub labels: BTreeMap<String, String>,
    /// The keys of labels that each of them has for itself.
    pub individual: Arc<BTreeSet<String>>,
    /// Their taints.
    pub taints: Vec<Taint>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolGround {
    /// Its name.
    pub name: String,
    /// The build that it asks for.
    pub build: Build,
    /// The taints that it asks for.
    pub taints: Vec<Taint>,
    /// Its RuntimeClasses with their isolation, in the order of the spec.
    pub classes: Vec<(String, Isolation)>,
    /// Whether it makes its nodes so, or only looks.
    pub enforces: bool,
    /// The kinds of its nodes; for a pool without nodes the kind that it asks for.
    pub kinds: Vec<Kind>,
}

/// Nodes that are alike to every rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Whether there are such nodes; one that is only asked for may have more labels than anybody knows.
    pub exists: bool,
    /// The labels that they have in common.
    pub labels: BTreeMap<String, String>,
    /// The keys of labels that each of them has for itself.
    pub individual: Arc<BTreeSet<String>>,
    /// The taints that they have or are about to have.
    pub taints: Vec<Taint>,
    /// The taints that they would have if the pool, which only looks, enforced.
    pub withheld: Vec<Taint>,
    /// What runs containers there.
    pub host: Host,
    /// The handlers that their runtime has; `None` if that is not known.
    pub handlers: Option<&'static [&'static str]>,
}

/// A taint: key, value, effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    pub effect: String,
}

/// A RuntimeClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// Where it leads and what it tolerates.
    pub scheduling: Scheduling,
    /// Its handler.
    pub handler: String,
    /// The system that it leads to.
    pub system: Option<System>,
}

/// A Windows node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeGround {
    /// The pool that has it.
    pub pool: Option<String>,
    /// What it is; `None` when it did not report its Windows.
    pub kind: Option<Kind>,
    /// The memory that it offers to pods, in bytes.
    pub memory: Option<i64>,
}

/// Which labels of nodes matter.
struct Matter<'a> {
    /// The keys that classes select by.
    selected: HashSet<&'a str>,
    /// Those that workloads ask for; all where it is not known.
    asked: Option<&'a BTreeSet<String>>,
}

impl Matter<'_> {
    fn has(&self, key: &str) -> bool {
        self.asked.is_none_or(|asked| ALWAYS.contains(&key) || self.selected.contains(key) || asked.contains(key))
    }
}

impl Ground {
    /// The ground in a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        Self::with(snapshot, None)
    }

    /// The ground for workloads that ask for no other labels of nodes than these: others change nothing in it.
    pub fn for_labels(snapshot: &Snapshot, asked: BTreeSet<String>) -> Self {
        Self { asked: Some(asked.clone()), ..Self::with(snapshot, Some(&asked)) }
    }

    fn with(snapshot: &Snapshot, asked: Option<&BTreeSet<String>>) -> Self {
        let planner = Planner::new(snapshot);
        let selectors = snapshot.runtime_classes.values().filter_map(|class| class.object.scheduling.as_ref());
        let selected = selectors.filter_map(|scheduling| scheduling.node_selector.as_ref()).flat_map(BTreeMap::keys);
        let matter = &Matter { selected: selected.map(String::as_str).collect(), asked };
        let without_pool = |node: &Arc<WindowsNode>| (node.name.clone(), NodeGround::of(node, matter, None));
        let mut nodes: HashMap<String, NodeGround> = snapshot.nodes.values().map(without_pool).collect();
        let mut active: Vec<(&Pool, &Spec)> =
            snapshot.pools.values().filter_map(|pool| Some((pool.as_ref(), pool.spec.as_ref().ok()?))).collect();
        active.sort_by_key(|(pool, _)| pool.precedence());
        let mut pools = Vec::new();
        for (pool, spec) in active.into_iter().filter(|(pool, _)| !pool.deleting) {
            let mut kinds = HashSet::new();
            let individual = individual_labels(planner.members(&pool.name), matter);
            let mut home = Home { pool, spec, individual, judge: delivery::Judge::new(snapshot, spec) };
            for node in planner.members(&pool.name) {
                let ground = NodeGround::of(node, matter, Some(&mut home));
                kinds.extend(ground.kind.clone());
                nodes.insert(node.name.clone(), ground);
            }
            let mut kinds: Vec<Kind> = kinds.into_iter().collect();
            kinds.sort_by(|a, b| a.order().cmp(&b.order()));
            if kinds.is_empty() {
                kinds.push(Kind::asked_for(pool, spec));
            }
            pools.push(PoolGround::new(pool, spec, kinds));
        }
        let outside = || snapshot.nodes.values().map(AsRef::as_ref).filter(|node| nodes[&node.name].pool.is_none());
        let individual = individual_labels(outside(), matter);
        let mut outside: Vec<Outside> = outside().map(|node| Outside::of(node, matter, &individual)).collect();
        outside.sort();
        outside.dedup();
        let host = |node: &WindowsNode| node.labels.get(label::HOSTNAME).filter(|host| **host != node.name).cloned();
        Self {
            pools,
            classes: snapshot.runtime_classes.iter().map(|(name, class)| (name.clone(), Class::of(class))).collect(),
            hosts: snapshot.nodes.values().filter_map(|node| Some((host(node)?, node.name.clone()))).collect(),
            nodes,
            outside,
            asked: None,
        }
    }

    /// A Windows node by its name or that of its host.
    pub fn node(&self, name: &str) -> Option<&NodeGround> {
        self.nodes.get(name).or_else(|| self.nodes.get(self.hosts.get(name)?))
    }

    /// Whether a pool is about to make the RuntimeClass that is in the way because there is none.
    pub fn makes_up_for(&self, obstacle: &Obstacle) -> bool {
        let Obstacle::NoClass { class, .. } = obstacle else { return false };
        let enforcing = self.pools.iter().filter(|pool| pool.enforces);
        enforcing.flat_map(|pool| &pool.classes).any(|(name, _)| name == class)
    }

    /// A pool.
    pub fn pool(&self, name: &str) -> Option<&PoolGround> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// How containers of a RuntimeClass are kept apart from the host.
    pub fn isolation(&self, class: Option<&str>) -> Isolation {
        let Some(name) = class else { return Isolation::Process };
        let of_pools = self.pools.iter().flat_map(|pool| &pool.classes);
        let told = of_pools.into_iter().find(|(class, _)| class == name).map(|(_, isolation)| *isolation);
        let by_handler = || {
            let hyper_v = self.classes.get(name).is_some_and(|class| class.handler == HYPERV_HANDLER);
            if hyper_v { Isolation::HyperV(UtilityVm::OfPauseImage) } else { Isolation::Process }
        };
        told.unwrap_or_else(by_handler)
    }
}

impl PoolGround {
    fn new(pool: &Pool, spec: &Spec, kinds: Vec<Kind>) -> Self {
        let isolation = |class: &RuntimeClass| match class.isolation {
            RuntimeClassIsolation::Process => Isolation::Process,
            RuntimeClassIsolation::HyperV if class.handler == HYPERV_HANDLER => {
                Isolation::HyperV(UtilityVm::OfPauseImage)
            }
            RuntimeClassIsolation::HyperV => Isolation::HyperV(UtilityVm::OfAnyBuild),
        };
        let classes = spec.runtime_classes.iter().map(|class| (class.name.clone(), isolation(class)));
        Self {
            name: pool.name.clone(),
            build: spec.build,
            taints: spec.taints.iter().map(Taint::from).collect(),
            classes: classes.collect(),
            enforces: pool.enforces(),
            kinds,
        }
    }
}

/// The pool of nodes, and what is worked out once for all of them.
struct Home<'a> {
    pool: &'a Pool,
    spec: &'a Spec,
    individual: Arc<BTreeSet<String>>,
    judge: delivery::Judge<'a>,
}

impl NodeGround {
    fn of(node: &WindowsNode, matter: &Matter, home: Option<&mut Home>) -> Self {
        let pool = home.as_ref().map(|home| home.pool.name.clone());
        Self { pool, kind: Kind::of(node, matter, home), memory: node.allocatable.memory }
    }
}

impl Outside {
    fn of(node: &WindowsNode, matter: &Matter, individual: &Arc<BTreeSet<String>>) -> Self {
        let labels = labels_in_common(node, matter, individual);
        Self { labels, individual: individual.clone(), taints: lasting_taints(node) }
    }
}

/// The keys of the labels that tell one of these nodes from another. The name of the host is known all the same.
fn individual_labels<'n>(nodes: impl Iterator<Item = &'n WindowsNode>, matter: &Matter) -> Arc<BTreeSet<String>> {
    let mut values: HashMap<&str, HashSet<&str>> = HashMap::new();
    let labels = nodes.flat_map(|node| &node.labels);
    for (key, value) in labels.filter(|(key, _)| *key != label::HOSTNAME && matter.has(key)) {
        let seen = values.entry(key).or_default();
        if seen.len() <= MOST_VALUES {
            seen.insert(value);
        }
    }
    let individual = values.into_iter().filter(|(_, seen)| seen.len() > MOST_VALUES);
    Arc::new(individual.map(|(key, _)| key.to_owned()).collect())
}

/// The labels of a node that matter, without those that it has for itself.
fn labels_in_common(node: &WindowsNode, matter: &Matter, individual: &BTreeSet<String>) -> BTreeMap<String, String> {
    let common =
        node.labels.iter().filter(|(key, _)| *key != label::HOSTNAME && matter.has(key) && !individual.contains(*key));
    common.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The taints of a node that do not pass with its state, in order.
fn lasting_taints(node: &WindowsNode) -> Vec<Taint> {
    let passing = |key: &str| key != OS_TAINT && PASSING_TAINTS.iter().any(|begin| key.starts_with(begin));
    let lasting = node.taints.iter().filter(|taint| !passing(&taint.key)).map(|taint| Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.clone(),
    });
    let mut taints: Vec<Taint> = lasting.collect();
    taints.sort();
    taints
}

impl Kind {
    /// The kind of a node as its pool makes it; `None` when it did not report its Windows.
    fn of(node: &WindowsNode, matter: &Matter, home: Option<&mut Home>) -> Option<Self> {
        let os = node.os_version()?;
        let individual = home.as_ref().map(|home| home.individual.clone()).unwrap_or_default();
        let (mut labels, mut taints) = (labels_in_common(node, matter, &individual), lasting_taints(node));
        let (mut withheld, mut rendered) = (Vec::new(), false);
        if let Some(Home { pool, spec, judge, .. }) = home {
            rendered = judge.of(node) == Some(delivery::State::InEffect);
            // One of the same key and effect stays until it is replaced.
            let there = |taint: &Taint| taints.iter().any(|own| (&own.key, &own.effect) == (&taint.key, &taint.effect));
            let wanted: Vec<Taint> = spec.taints.iter().map(Taint::from).filter(|taint| !there(taint)).collect();
            if pool.enforces() {
                labels.insert(label::POOL.to_owned(), pool.name.clone());
                labels.insert(label::WINDOWS_BUILD.to_owned(), os.build.to_string());
                labels.extend(spec.labels.clone());
                taints = [taints, wanted].concat();
                taints.sort();
            } else {
                withheld = wanted;
            }
        }
        let architecture = node.labels.get(label::ARCH).map_or(ARCHITECTURE, String::as_str).to_owned();
        Some(Self {
            exists: true,
            labels,
            individual,
            taints,
            withheld,
            host: Host { os, architecture, containerd: node.runtime.containerd() },
            handlers: node.runtime.handlers(rendered),
        })
    }

    /// The kind that a pool without nodes asks for.
    fn asked_for(pool: &Pool, spec: &Spec) -> Self {
        let own = [
            (label::OS, "windows".to_owned()),
            (label::ARCH, ARCHITECTURE.to_owned()),
            (label::WINDOWS_BUILD, spec.build.to_string()),
            (label::POOL, pool.name.clone()),
        ];
        let mut labels: BTreeMap<String, String> =
            own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        labels.extend(spec.labels.clone());
        if let Members::Selector(selector) = &spec.members {
            labels.extend(selector.match_labels.clone());
        }
        let os = OsVersion { build: spec.build, revision: None };
        let mut taints: Vec<Taint> = spec.taints.iter().map(Taint::from).collect();
        taints.sort();
        let (taints, withheld) = if pool.enforces() { (taints, Vec::new()) } else { (Vec::new(), taints) };
        Self {
            exists: false,
            labels,
            individual: Arc::default(),
            taints,
            withheld,
            host: Host { os, architecture: ARCHITECTURE.to_owned(), containerd: None },
            handlers: None,
        }
    }

    /// Whether it is known what these nodes have of a label. One that is only asked for may have more than anybody knows.
    pub fn knows(&self, key: &str) -> bool {
        if self.exists { !self.individual.contains(key) } else { self.labels.contains_key(key) }
    }

    /// The labels of such a node on a host of this name.
    pub fn labels_on(&self, host: &str) -> Cow<'_, BTreeMap<String, String>> {
        let mut labels = Cow::Borrowed(&self.labels);
        if self.exists {
            labels.to_mut().insert(label::HOSTNAME.to_owned(), host.to_owned());
        }
        labels
    }

    /// Whether these nodes do not have what a class selects.
    pub fn lacks(&self, scheduling: &Scheduling) -> bool {
        let mut selected = scheduling.node_selector.iter().filter(|(key, _)| !self.individual.contains(*key));
        selected.any(|(key, value)| self.labels.get(key) != Some(value))
    }

    /// What kinds are ordered by.
    fn order(&self) -> impl Ord + '_ {
        let host = (self.host.os, &self.host.architecture, self.host.containerd);
        (&self.labels, &self.taints, host, self.handlers)
    }
}

impl Class {
    fn of(view: &RuntimeClassView) -> Self {
        Self {
            scheduling: Scheduling::of_class(&view.object),
            handler: view.object.handler.clone(),
            system: system_of_class(&view.object),
        }
    }
}

impl From<&crate::api::Taint> for Taint {
    fn from(taint: &crate::api::Taint) -> Self {
        Self { key: taint.key.clone(), value: taint.value.clone(), effect: format!("{:?}", taint.effect) }
    }
}

impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.value.as_str() {
            "" => write!(f, "{}:{}", self.key, self.effect),
            value => write!(f, "{}={value}:{}", self.key, self.effect),
        }
    }
}
