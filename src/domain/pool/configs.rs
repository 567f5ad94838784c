//! The rendered configurations of a pool: one for each combination of kubelet minor, container runtime minor and build
//! among its nodes, collapsed where the content is equal.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry},
    fmt,
};

use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Pool, Snapshot, Spec};
use crate::{
    api::names::label,
    domain::{
        Problem,
        node::{ContainerRuntime, WindowsNode},
        operation::{Operation, existence},
        profile::Profile,
        render::{self, Configuration, Runtime, Variant},
    },
    facts::{Build, ContainerdVersion, Minor, containerd, runtimes},
};

/// How many configurations that no node should run are kept, for going back.
const UNUSED_KEPT: usize = 3;
/// The length of the digest in a configuration's name, in hexadecimal digits.
const DIGEST_LENGTH: usize = 10;

/// What is to be done about the configurations of a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigPlan {
    /// Whether and how the profile renders.
    pub state: ConfigState,
    /// The configurations, by name.
    pub configs: BTreeMap<String, RenderedConfig>,
    /// The configuration of each variant.
    names: HashMap<Variant, String>,
    /// Before that: those of ours whose content somebody changed.
    pub discard: Vec<Operation>,
    /// Before the nodes are written: the configurations that do not exist yet.
    pub create: Vec<Operation>,
    /// Those that others keep deleting, and that are created again later.
    pub delayed: BTreeSet<String>,
    /// After the nodes are written: old ones beyond those that are kept.
    pub prune: Vec<Operation>,
}

/// Whether and how a profile renders.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ConfigState {
    /// No profile is named.
    #[default]
    NotUsed,
    /// There is no profile of that name.
    NotFound,
    /// The profile has mistakes.
    Invalid(Vec<Problem>),
    /// It renders for every variant, but for those whose problems are here.
    Rendered(Vec<Unrendered>),
}

/// A variant that a profile cannot be rendered for.
#[derive(Clone, Debug, PartialEq)]
pub struct Unrendered {
    /// The variant.
    pub variant: Variant,
    /// Why not; the paths are those of the profile.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Unrendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "for {}: {}", self.variant, Problem::list(&self.problems))
    }
}

/// A kind of node that will join a pool which has none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// Its kubelet.
    pub kubelet: Minor,
    /// Its containerd; `None` for the newest that fits the kubelet.
    pub containerd: Option<ContainerdVersion>,
}

impl Newcomer {
    /// Its containerd; `None` where no known one fits its kubelet.
    pub fn containerd(&self) -> Option<ContainerdVersion> {
        let fits = |version: &ContainerdVersion| {
            containerd::minimum_for(self.kubelet, *version).is_none()
                && !containerd::too_new_for(self.kubelet, *version)
        };
        let known = containerd::GENERATIONS.iter().map(|generation| generation.newest);
        self.containerd.or_else(|| known.filter(fits).max())
    }

    fn variant(&self, host: Build) -> Option<Variant> {
        let ContainerdVersion { major, minor, .. } = self.containerd()?;
        Some(Variant { kubelet: self.kubelet, runtime: Runtime::Containerd { major, minor }, host })
    }
}

/// A configuration, and what it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedConfig {
    /// The files.
    pub configuration: Configuration,
    /// The kubelet minors that share it.
    pub kubelets: BTreeSet<Minor>,
    /// The container runtimes that share it: containerd minors, or docker.
    pub runtimes: BTreeSet<String>,
    /// The builds that share it.
    pub builds: BTreeSet<Build>,
}

impl ConfigPlan {
    /// The configuration that a node should run, if one could be rendered for it.
    pub fn name_for(&self, node: &WindowsNode) -> Option<&str> {
        self.names.get(&variant(node)?).map(String::as_str)
    }

    /// The variants that have a configuration, in their order.
    pub fn variants(&self) -> BTreeSet<Variant> {
        self.names.keys().copied().collect()
    }
}

/// The variant that a node is, if what it reports can be read.
pub fn variant(node: &WindowsNode) -> Option<Variant> {
    let kubelet = node.kubelet.as_ref().ok()?.minor;
    let runtime = match &node.runtime {
        ContainerRuntime::Containerd(version) => Runtime::Containerd { major: version.major, minor: version.minor },
        ContainerRuntime::Docker
            if runtimes::Runtime::of("docker://", kubelet) == Some(runtimes::Runtime::Dockershim) =>
        {
            Runtime::Dockershim
        }
        ContainerRuntime::Docker => Runtime::CriDockerd,
        ContainerRuntime::Unknown(_) => return None,
    };
    Some(Variant { kubelet, runtime, host: node.build()? })
}

/// Plans the configurations for the pool's nodes; for a pool without nodes, for the newcomers.
pub fn plan(
    snapshot: &Snapshot,
    pool: &Pool,
    spec: &Spec,
    members: &[&WindowsNode],
    newcomers: &[Newcomer],
) -> ConfigPlan {
    let Some(name) = &spec.profile else { return ConfigPlan::default() };
    let profile = match snapshot.profiles.get(name).map(|view| &view.profile) {
        None => return ConfigPlan { state: ConfigState::NotFound, ..ConfigPlan::default() },
        Some(Err(problems)) => {
            return ConfigPlan { state: ConfigState::Invalid(problems.clone()), ..ConfigPlan::default() };
        }
        Some(Ok(profile)) => profile,
    };
    let mut variants: BTreeSet<Variant> = members.iter().filter_map(|node| variant(node)).collect();
    if members.is_empty() {
        variants.extend(newcomers.iter().filter_map(|newcomer| newcomer.variant(spec.build)));
    }
    let mut plan = ConfigPlan { state: ConfigState::Rendered(Vec::new()), ..ConfigPlan::default() };
    for variant in variants {
        plan.add(&pool.name, spec, profile, variant);
    }
    plan.discard = plan.tampered(snapshot);
    plan.create = plan.missing(snapshot, pool);
    plan.prune = plan.surplus(snapshot, pool);
    plan
}

impl ConfigPlan {
    fn add(&mut self, pool: &str, spec: &Spec, profile: &Profile, variant: Variant) {
        let configuration = match render::render(&spec.taints, profile, &variant) {
            Ok(configuration) => configuration,
            Err(problems) => {
                if let ConfigState::Rendered(failures) = &mut self.state {
                    failures.push(Unrendered { variant, problems });
                }
                return;
            }
        };
        let name = format!("{pool}-{}", digest(&configuration.files));
        let config = self.configs.entry(name.clone()).or_insert_with(|| RenderedConfig {
            configuration,
            kubelets: BTreeSet::new(),
            runtimes: BTreeSet::new(),
            builds: BTreeSet::new(),
        });
        config.kubelets.insert(variant.kubelet);
        config.runtimes.insert(variant.runtime.to_string());
        config.builds.insert(variant.host);
        if let Entry::Vacant(entry) = self.names.entry(variant) {
            entry.insert(name);
        }
    }

    /// What does not exist, or has another content. One that others delete again and again is created with a delay.
    fn missing(&mut self, snapshot: &Snapshot, pool: &Pool) -> Vec<Operation> {
        let exists = |name: &str, digest: &str| {
            let existing = snapshot.config_maps.get(name);
            existing.is_some_and(|existing| !existing.deleting && existing.digest == digest)
        };
        let missing = self.configs.iter().filter(|(name, config)| !exists(name, &digest(&config.configuration.files)));
        let operations =
            missing.map(|(name, config)| apply(&snapshot.namespace, &pool.name, name, &config.configuration));
        let waits = |operation: &Operation| {
            snapshot.reverts.waits_until(&operation.identity(), &existence(), snapshot.now).is_some()
        };
        let (delayed, create): (Vec<_>, Vec<_>) = operations.partition(waits);
        self.delayed = delayed.iter().map(|operation| operation.object().to_owned()).collect();
        create
    }

    /// Ours with another content than their name says. An immutable object is replaced by deleting it first.
    fn tampered(&self, snapshot: &Snapshot) -> Vec<Operation> {
        let differs = |(name, config): &(&String, &RenderedConfig)| {
            let existing = snapshot.config_maps.get(*name)?;
            let differs = !existing.deleting && existing.digest != digest(&config.configuration.files);
            differs.then(|| Operation::DeleteConfigMap { name: existing.name.clone(), uid: existing.uid.clone() })
        };
        self.configs.iter().filter_map(|entry| differs(&entry)).collect()
    }

    fn surplus(&self, snapshot: &Snapshot, pool: &Pool) -> Vec<Operation> {
        let of_pool =
            snapshot.config_maps.values().filter(|map| map.pool.as_ref() == Some(&pool.name) && !map.deleting);
        let mut unused: Vec<_> = of_pool.filter(|map| !self.configs.contains_key(&map.name)).collect();
        if unused.len() <= UNUSED_KEPT {
            return Vec::new();
        }
        let named: BTreeSet<&str> = snapshot.nodes.values().filter_map(|node| node.config.as_deref()).collect();
        unused.retain(|map| !named.contains(map.name.as_str()));
        unused.sort_by(|a, b| (b.created, &b.name).cmp(&(a.created, &a.name)));
        let surplus = unused.into_iter().skip(UNUSED_KEPT);
        surplus.map(|map| Operation::DeleteConfigMap { name: map.name.clone(), uid: map.uid.clone() }).collect()
    }
}

/// The ConfigMap of a configuration.
fn apply(namespace: &str, pool: &str, name: &str, configuration: &Configuration) -> Operation {
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {label::MANAGED_BY: label::MANAGED_BY_VALUE, label::POOL: pool},
        },
        "immutable": true,
        "data": configuration.files,
    });
    Operation::ApplyConfigMap { name: name.to_owned(), body }
}

/// What tells one content from another.
pub fn digest(files: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for (name, content) in files {
        for part in [name, content] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().chars().take(DIGEST_LENGTH).collect()
}
