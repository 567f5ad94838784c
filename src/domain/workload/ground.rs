//! The ground that workloads stand on: pools, the kinds of nodes in them, and RuntimeClasses.

use std::collections::{BTreeMap, HashMap};

use super::{Scheduling, System, system_of_class};
use crate::{
    api::{RuntimeClassIsolation, names::label},
    domain::{
        image::Host,
        node::WindowsNode,
        pool::{Members, Pool, RuntimeClassView, Snapshot, Spec, plan::Planner},
    },
    facts::{Build, OsVersion, compatibility::Isolation, containerd::HYPERV_HANDLER},
};

/// The architecture of a node that does not say its own: the only one that Windows Server has in Kubernetes.
const ARCHITECTURE: &str = "amd64";
/// Taints of the node's own state, which come and go: kubernetes/website, "Taints and Tolerations".
const PASSING_TAINTS: &str = "node.kubernetes.io/";

/// Everything that a workload is judged against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ground {
    /// The pools that can be acted on, in order of precedence.
    pub pools: Vec<PoolGround>,
    /// All RuntimeClasses, by name.
    pub classes: BTreeMap<String, Class>,
    /// All Windows nodes, by name.
    pub nodes: HashMap<String, NodeGround>,
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
    /// The kinds of its nodes; for a pool without nodes the kind that it asks for.
    pub kinds: Vec<Kind>,
}

/// Nodes that are alike to every rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// The labels that they have in common: all but the name of the host.
    pub labels: BTreeMap<String, String>,
    /// The taints that they have or are about to have.
    pub taints: Vec<Taint>,
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

impl Ground {
    /// The ground in a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let planner = Planner::new(snapshot);
        let mut nodes: HashMap<String, NodeGround> = snapshot
            .nodes
            .values()
            .map(|node| {
                let kind = Kind::of(node, None);
                (node.name.clone(), NodeGround { pool: None, kind, memory: node.allocatable.memory })
            })
            .collect();
        let mut active: Vec<(&Pool, &Spec)> =
            snapshot.pools.values().filter_map(|pool| Some((pool.as_ref(), pool.spec.as_ref().ok()?))).collect();
        active.sort_by_key(|(pool, _)| pool.precedence());
        let mut pools = Vec::new();
        for (pool, spec) in active.into_iter().filter(|(pool, _)| !pool.deleting) {
            let mut kinds: Vec<Kind> = Vec::new();
            for node in planner.members(&pool.name) {
                let kind = Kind::of(node, Some((&pool.name, spec)));
                if let Some(kind) = kind.as_ref().filter(|kind| !kinds.contains(kind)) {
                    kinds.push(kind.clone());
                }
                nodes.insert(
                    node.name.clone(),
                    NodeGround { pool: Some(pool.name.clone()), kind, memory: node.allocatable.memory },
                );
            }
            kinds.sort_by(|a, b| (&a.labels, &a.taints, a.host.os).cmp(&(&b.labels, &b.taints, b.host.os)));
            if kinds.is_empty() {
                kinds.push(Kind::asked_for(&pool.name, spec));
            }
            pools.push(PoolGround::new(&pool.name, spec, kinds));
        }
        let classes = snapshot.runtime_classes.iter();
        Self { pools, classes: classes.map(|(name, class)| (name.clone(), Class::of(class))).collect(), nodes }
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
            if hyper_v { Isolation::HyperV } else { Isolation::Process }
        };
        told.unwrap_or_else(by_handler)
    }
}

impl PoolGround {
    fn new(name: &str, spec: &Spec, kinds: Vec<Kind>) -> Self {
        let isolation = |isolation| match isolation {
            RuntimeClassIsolation::Process => Isolation::Process,
            RuntimeClassIsolation::HyperV => Isolation::HyperV,
        };
        let classes = spec.runtime_classes.iter().map(|class| (class.name.clone(), isolation(class.isolation)));
        Self {
            name: name.to_owned(),
            build: spec.build,
            taints: spec.taints.iter().map(Taint::from).collect(),
            classes: classes.collect(),
            kinds,
        }
    }
}

impl Kind {
    /// The kind of a node as this pool makes it; `None` when it did not report its Windows.
    fn of(node: &WindowsNode, pool: Option<(&String, &Spec)>) -> Option<Self> {
        let spec = pool.map(|(_, spec)| spec);
        let os = node.os.as_ref().ok().copied().or(node.build().map(|build| OsVersion { build, revision: None }))?;
        let mut labels = node.labels.clone();
        labels.remove(label::HOSTNAME);
        if let Some((name, spec)) = pool {
            labels.insert(label::POOL.to_owned(), name.clone());
            labels.insert(label::WINDOWS_BUILD.to_owned(), os.build.to_string());
            labels.extend(spec.labels.clone());
        }
        let mut taints: Vec<Taint> = node
            .taints
            .iter()
            .filter(|taint| !taint.key.starts_with(PASSING_TAINTS))
            .map(|taint| Taint {
                key: taint.key.clone(),
                value: taint.value.clone().unwrap_or_default(),
                effect: taint.effect.clone(),
            })
            .chain(spec.into_iter().flat_map(|spec| &spec.taints).map(Taint::from))
            .collect();
        taints.sort();
        taints.dedup();
        let architecture = node.labels.get(label::ARCH).map_or(ARCHITECTURE, String::as_str).to_owned();
        Some(Self {
            labels,
            taints,
            host: Host { os, architecture, containerd: node.runtime.containerd() },
            handlers: node.runtime.handlers(spec.is_some_and(|spec| spec.profile.is_some())),
        })
    }

    /// The kind that a pool without nodes asks for.
    fn asked_for(pool: &str, spec: &Spec) -> Self {
        let own = [
            (label::OS, "windows".to_owned()),
            (label::ARCH, ARCHITECTURE.to_owned()),
            (label::WINDOWS_BUILD, spec.build.to_string()),
            (label::POOL, pool.to_owned()),
        ];
        let mut labels: BTreeMap<String, String> =
            own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        labels.extend(spec.labels.clone());
        if let Members::Selector(selector) = &spec.members {
            labels.extend(selector.match_labels.clone());
        }
        let os = OsVersion { build: spec.build, revision: None };
        Self {
            labels,
            taints: spec.taints.iter().map(Taint::from).collect(),
            host: Host { os, architecture: ARCHITECTURE.to_owned(), containerd: None },
            handlers: None,
        }
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
