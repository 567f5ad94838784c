//! The rendered configurations of a pool: one for each variant of kubelet, container runtime and build among its nodes.
//! Variants with equal content share one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use serde_json::json;
use winpool_api::{
    facts::{Build, ContainerRuntime, ContainerdLine, ContainerdVersion, Minor, containerd},
    names::label,
};

use super::{
    ConfigMapView, NodeConfigView, Pool, Snapshot, Spec,
    snapshot::{config_name, digest},
};
use crate::{
    Problem,
    kind::Kind,
    node::WindowsNode,
    operation::{Action, Object, Write},
    profile::Profile,
    render::{self, Configuration, Variant},
    revert::FieldWrite,
};

/// The number of unused configurations that are kept for a rollback.
const UNUSED_KEPT: usize = 3;

/// The plan for the configurations of a pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigPlan {
    /// Whether the profile can be rendered.
    pub state: Rendering,
    /// The configurations, by name.
    pub configs: BTreeMap<String, RenderedConfig>,
    /// The name of the configuration of each variant.
    names: HashMap<Variant, String>,
    /// Deletes ConfigMaps with changed content, before they are created again.
    pub discard: Vec<Write>,
    /// Creates missing ConfigMaps, before nodes are written.
    pub create: Vec<Write>,
    /// The ConfigMaps that are created later, because another client repeatedly deletes them.
    pub delayed: BTreeSet<String>,
    /// Deletes old ConfigMaps, after nodes are written.
    pub prune: Vec<Write>,
}

/// Whether a profile can be rendered.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Rendering {
    /// The pool names no profile.
    #[default]
    NotUsed,
    /// Profiles cannot be listed.
    ProfilesRefused,
    /// ConfigMaps cannot be listed, so that nodes keep their configuration.
    ConfigMapsRefused,
    /// The profile does not exist.
    NotFound,
    /// The profile is invalid.
    Invalid(Vec<Problem>),
    /// The profile is rendered for all variants except these.
    Rendered(Vec<Unrendered>),
}

/// A variant for which a profile cannot be rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct Unrendered {
    /// The variant.
    pub variant: Variant,
    /// The problems, with paths in the profile.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Unrendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "for {}: {}", self.variant, Problem::list(&self.problems))
    }
}

/// A node that is expected to join a pool without nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedNode {
    /// The minor of the kubelet.
    pub kubelet: Minor,
    /// The version of containerd; `None` for the newest that supports the kubelet.
    pub containerd: Option<ContainerdVersion>,
}

impl ExpectedNode {
    /// The version of containerd; `None` if no known one supports the kubelet.
    pub fn containerd(&self) -> Option<ContainerdVersion> {
        let fits = |version: &ContainerdVersion| {
            containerd::minimum_for(self.kubelet, *version).is_none()
                && !containerd::too_new_for(self.kubelet, *version)
        };
        let known = containerd::RELEASE_LINES.iter().map(|line| line.newest);
        self.containerd.or_else(|| known.filter(fits).max())
    }

    fn variant(&self, host: Build) -> Option<Variant> {
        let runtime = ContainerRuntime::Containerd(self.containerd()?.line());
        Some(Variant { kubelet: self.kubelet, runtime, host })
    }
}

/// A configuration, and the variants that share it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct RenderedConfig {
    pub configuration: Configuration,
    /// The digest of its files.
    pub digest: String,
    pub kubelets: BTreeSet<Minor>,
    pub runtimes: BTreeSet<ContainerRuntime<ContainerdLine>>,
    pub builds: BTreeSet<Build>,
}

impl ConfigPlan {
    /// The name of the configuration for a node, if it could be rendered.
    pub fn name_for(&self, node: &WindowsNode) -> Option<&str> {
        self.names.get(&variant(node)?).map(String::as_str)
    }

    /// The ConfigMap with the configuration for a node, if it exists and has the rendered content: another client may have
    /// created one with this name.
    pub fn stored_for<'s>(&self, snapshot: &'s Snapshot, node: &WindowsNode) -> Option<&'s ConfigMapView> {
        let name = self.name_for(node)?;
        let rendered = self.configs.get(name)?;
        let map = snapshot.config_maps.get(name)?;
        (!map.deleting && map.digest == rendered.digest).then_some(map.as_ref())
    }

    /// Whether nodes do not name a ConfigMap yet: it is created later, or could not be created lately.
    pub fn awaits(&self, name: &str, snapshot: &Snapshot) -> bool {
        let is_created = |create: &Write| create.object.name == name;
        let is_unwritten = || snapshot.unwritten.has(Kind::CONFIG_MAP, name);
        self.delayed.contains(name) || (is_unwritten() && self.create.iter().any(is_created))
    }

    /// The name of the configuration of a variant, if it could be rendered.
    pub fn name(&self, variant: &Variant) -> Option<&str> {
        self.names.get(variant).map(String::as_str)
    }

    /// The variants with a configuration.
    pub fn variants(&self) -> BTreeSet<Variant> {
        self.names.keys().copied().collect()
    }
}

/// The variant of a node, if its versions are known.
pub fn variant(node: &WindowsNode) -> Option<Variant> {
    let runtime = node.runtime.as_ref().ok()?.map_version(ContainerdVersion::line);
    Some(Variant { kubelet: node.kubelet_minor()?, runtime, host: node.build()? })
}

/// Plans the configurations for the nodes of a pool, or for the expected nodes if it has none.
pub fn plan(
    snapshot: &Snapshot,
    pool: &Pool,
    spec: &Spec,
    members: &[&WindowsNode],
    expected_nodes: &[ExpectedNode],
) -> ConfigPlan {
    let Some(name) = &spec.profile else { return ConfigPlan::default() };
    let profile = match snapshot.profiles.get(name).map(|view| &view.profile) {
        None if snapshot.refused.contains(&Kind::PROFILE) => {
            return ConfigPlan { state: Rendering::ProfilesRefused, ..ConfigPlan::default() };
        }
        None => return ConfigPlan { state: Rendering::NotFound, ..ConfigPlan::default() },
        Some(Err(problems)) => {
            return ConfigPlan { state: Rendering::Invalid(problems.clone()), ..ConfigPlan::default() };
        }
        Some(Ok(_)) if snapshot.refused.contains(&Kind::CONFIG_MAP) => {
            return ConfigPlan { state: Rendering::ConfigMapsRefused, ..ConfigPlan::default() };
        }
        Some(Ok(profile)) => profile,
    };
    let mut variants: BTreeSet<Variant> = members.iter().filter_map(|node| variant(node)).collect();
    if members.is_empty() {
        variants.extend(expected_nodes.iter().filter_map(|node| node.variant(spec.build)));
    }
    let mut plan = ConfigPlan { state: Rendering::Rendered(Vec::new()), ..ConfigPlan::default() };
    for variant in variants {
        plan.add(&pool.name, spec, profile, variant);
    }
    plan.discard = plan.discarded(snapshot);
    plan.create = plan.missing(snapshot, pool);
    plan.prune = plan.pruned(snapshot, pool);
    plan
}

impl ConfigPlan {
    fn add(&mut self, pool: &str, spec: &Spec, profile: &Profile, variant: Variant) {
        let configuration = match render::render(&spec.taints, profile, &variant) {
            Ok(configuration) => configuration,
            Err(problems) => {
                if let Rendering::Rendered(failures) = &mut self.state {
                    failures.push(Unrendered { variant, problems });
                }
                return;
            }
        };
        let digest = digest(&configuration.files);
        let name = config_name(pool, &digest);
        let config = self.configs.entry(name.clone()).or_insert_with(|| RenderedConfig {
            configuration,
            digest,
            kubelets: BTreeSet::new(),
            runtimes: BTreeSet::new(),
            builds: BTreeSet::new(),
        });
        config.kubelets.insert(variant.kubelet);
        config.runtimes.insert(variant.runtime);
        config.builds.insert(variant.host);
        self.names.insert(variant, name);
    }

    /// Creates ConfigMaps that do not exist or have other content; later, if another client repeatedly deletes them.
    fn missing(&mut self, snapshot: &Snapshot, pool: &Pool) -> Vec<Write> {
        let exists = |name: &str, digest: &str| {
            let existing = snapshot.config_maps.get(name);
            existing.is_some_and(|existing| !existing.deleting && existing.digest == digest)
        };
        let missing = self.configs.iter().filter(|(name, config)| !exists(name, &config.digest));
        let operations =
            missing.map(|(name, config)| create(&snapshot.namespace, &pool.name, name, &config.configuration));
        let existence = FieldWrite::existence(true);
        let is_delayed = |operation: &Write| {
            snapshot.reverts.delayed_until(&operation.identity(), &existence, snapshot.now).is_some()
        };
        let (delayed, create): (Vec<_>, Vec<_>) = operations.partition(is_delayed);
        self.delayed = delayed.iter().map(|operation| operation.object.name.clone()).collect();
        create
    }

    /// Deletes ConfigMaps whose content does not match the digest in their name, because they are immutable.
    fn discarded(&self, snapshot: &Snapshot) -> Vec<Write> {
        let differing = self.configs.iter().filter_map(|(name, config)| {
            let existing = snapshot.config_maps.get(name).filter(|existing| !existing.deleting)?;
            (existing.digest != config.digest).then_some(existing)
        });
        differing.map(|map| map.delete()).collect()
    }

    /// Deletes unused configurations except the newest.
    fn pruned(&self, snapshot: &Snapshot, pool: &Pool) -> Vec<Write> {
        let of_pool =
            snapshot.config_maps.values().filter(|map| map.pool.as_ref() == Some(&pool.name) && !map.deleting);
        let mut unused: Vec<_> = of_pool.filter(|map| !self.configs.contains_key(&map.name)).collect();
        if unused.len() <= UNUSED_KEPT {
            return Vec::new();
        }
        let mut assigned: BTreeSet<&str> = snapshot.nodes.values().filter_map(|node| node.config.as_deref()).collect();
        // An agent reads what it applies, and needs what it would restore.
        let by_agents = snapshot.node_configs.iter().flat_map(|configs| configs.values());
        assigned.extend(by_agents.flat_map(|config| NodeConfigView::config_maps(config)));
        unused.retain(|map| !assigned.contains(map.name.as_str()));
        unused.sort_by(|a, b| (b.created, &b.name).cmp(&(a.created, &a.name)));
        unused.into_iter().skip(UNUSED_KEPT).map(|map| map.delete()).collect()
    }
}

/// The ConfigMap of a configuration.
fn create(namespace: &str, pool: &str, name: &str, configuration: &Configuration) -> Write {
    let body = json!({
        "apiVersion": Kind::CONFIG_MAP.api_version(),
        "kind": Kind::CONFIG_MAP.name,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {label::MANAGED_BY: label::MANAGED_BY_VALUE, label::POOL: pool},
        },
        "immutable": true,
        "data": configuration.files,
    });
    let fields = vec![FieldWrite::existence(true)];
    Write { fields, ..Write::create(Action::CreateConfigMap, Object::new(Kind::CONFIG_MAP, name), body) }
}
