//! The rendered configurations of a pool: one for each variant of kubelet, container runtime and build among its nodes.
//! Variants with equal content share one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use derive_more::Display;
use serde_json::json;
use winpool_api::names::{annotation, label};
use winpool_core::{Problem, kind::Kind, node::WindowsNode};
use winpool_facts::{Build, ContainerRuntime, ContainerdVersion, Minor, containerd};
use winpool_render::{
    self, Configuration, Variant,
    profile::Profile,
    settings::{self, FileSettings},
};

use super::{
    ConfigMapView, NodeConfigView, Pool, Snapshot, Spec,
    renderings::{self, HeldRendering, RenderingInputs},
    snapshot::config_name,
};
use crate::{
    operation::{Action, Write, WriteTarget},
    revert::FieldWrite,
};

/// The number of unused configurations that are kept for a rollback.
const UNUSED_KEPT: usize = 3;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigPlan {
    pub state: Rendering,
    /// The configurations, by name.
    pub configs: BTreeMap<String, RenderedConfig>,
    names: HashMap<Variant, String>,
    /// The ConfigMaps that nodes keep, although another one is rendered for their variant: by name and variant.
    kept: BTreeMap<String, BTreeSet<Variant>>,
    /// Deletes ConfigMaps with changed content, before they are created again.
    pub discard: Vec<Write>,
    /// Creates missing ConfigMaps, before nodes are written.
    pub create: Vec<Write>,
    /// The ConfigMaps that are created later, because another client repeatedly deletes them.
    pub delayed: BTreeSet<String>,
    /// Records on ConfigMaps what they are rendered from now.
    pub record: Vec<Write>,
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
    Invalid(Vec<Problem>),
    /// The profile is rendered for all variants except these.
    Rendered(Vec<Unrendered>),
}

/// A variant for which a profile cannot be rendered.
#[derive(Clone, Debug, PartialEq, Display)]
#[display("for {variant}: {}", Problem::list(problems))]
pub struct Unrendered {
    pub variant: Variant,
    /// The problems, with paths in the profile.
    pub problems: Vec<Problem>,
}

/// A node that is expected to join a pool without nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedNode {
    pub kubelet: Minor,
    /// The version of containerd; `None` for the newest that supports the kubelet.
    pub containerd: Option<ContainerdVersion>,
}

impl ExpectedNode {
    /// The version of containerd; `None` if no known one supports the kubelet.
    pub fn containerd(&self) -> Option<ContainerdVersion> {
        let fits = |version: &ContainerdVersion| containerd::minimum_for(self.kubelet, *version).is_none();
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
pub struct RenderedConfig {
    pub configuration: Configuration,
    pub settings: FileSettings,
    pub digest: String,
    /// The digests of the inputs of the variants.
    pub rendered_from: BTreeSet<String>,
    pub variants: BTreeSet<Variant>,
}

impl ConfigPlan {
    /// The name of the configuration for a node, if it could be rendered: the one that it keeps, or the rendered one.
    pub fn name_for(&self, node: &WindowsNode) -> Option<&str> {
        let variant = variant(node)?;
        self.kept_by(node, &variant).or_else(|| self.name(&variant))
    }

    /// The name of the ConfigMap that a node keeps, although another one is rendered for it.
    fn kept_by(&self, node: &WindowsNode, variant: &Variant) -> Option<&str> {
        let (name, variants) = self.kept.get_key_value(node.config.as_ref()?)?;
        variants.contains(variant).then_some(name)
    }

    /// Whether a node keeps its ConfigMap, although another one is rendered for it.
    pub fn is_held(&self, node: &WindowsNode) -> bool {
        variant(node).is_some_and(|variant| self.kept_by(node, &variant).is_some())
    }

    /// The ConfigMaps that nodes keep, each with its variants.
    pub fn kept(&self) -> impl Iterator<Item = (&str, &BTreeSet<Variant>)> {
        self.kept.iter().map(|(name, variants)| (name.as_str(), variants))
    }

    /// What the ConfigMaps that nodes keep lack, each with the one that is rendered instead.
    pub fn held(&self, snapshot: &Snapshot) -> Vec<HeldRendering> {
        let pairs: BTreeSet<(&str, &str)> = self
            .kept()
            .flat_map(|(from, variants)| variants.iter().filter_map(move |variant| Some((from, self.name(variant)?))))
            .collect();
        let held = |(from, to)| {
            let (before, after) = (snapshot.config_maps.get(from)?, self.configs.get(to)?);
            Some(HeldRendering::new(from, to, &before.settings, &after.settings))
        };
        pairs.into_iter().filter_map(held).collect()
    }

    /// The ConfigMap with the configuration for a node, if it exists and has the rendered content: another client may have
    /// created one with this name.
    pub fn stored_for<'s>(&self, snapshot: &'s Snapshot, node: &WindowsNode) -> Option<&'s ConfigMapView> {
        let name = self.name_for(node)?;
        let map = snapshot.config_maps.get(name)?;
        let rendered = || self.configs.get(name).is_some_and(|rendered| map.digest == rendered.digest);
        (!map.deleting && (self.is_held(node) || rendered())).then_some(map.as_ref())
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
    let in_state = |state| ConfigPlan { state, ..ConfigPlan::default() };
    let (view, profile) = match snapshot.profiles.get(name).map(|view| (view, &view.profile)) {
        None if snapshot.refused.contains(&Kind::PROFILE) => return in_state(Rendering::ProfilesRefused),
        None => return in_state(Rendering::NotFound),
        Some((_, Err(problems))) => return in_state(Rendering::Invalid(problems.clone())),
        Some(_) if snapshot.refused.contains(&Kind::CONFIG_MAP) => return in_state(Rendering::ConfigMapsRefused),
        Some((view, Ok(profile))) => (view, profile),
    };
    let mut variants: BTreeSet<Variant> = members.iter().filter_map(|node| variant(node)).collect();
    if members.is_empty() {
        variants.extend(expected_nodes.iter().filter_map(|node| node.variant(spec.build)));
    }
    let mut plan = in_state(Rendering::Rendered(Vec::new()));
    let inputs = RenderingInputs::of(spec, view);
    for variant in variants {
        plan.add(&pool.name, spec, (profile, inputs.as_ref()), variant);
    }
    plan.kept = plan.unchanged_by_people(snapshot, pool, inputs.as_ref(), members);
    plan.discard = plan.discarded(snapshot);
    plan.create = plan.missing(snapshot, pool);
    plan.record = plan.unrecorded(snapshot);
    plan.prune = plan.pruned(snapshot, pool);
    plan
}

impl ConfigPlan {
    fn add(
        &mut self,
        pool: &str,
        spec: &Spec,
        (profile, inputs): (&Profile, Option<&RenderingInputs>),
        variant: Variant,
    ) {
        let configuration = match winpool_render::render(&spec.taints, profile, &variant) {
            Ok(configuration) => configuration,
            Err(problems) => {
                if let Rendering::Rendered(failures) = &mut self.state {
                    failures.push(Unrendered { variant, problems });
                }
                return;
            }
        };
        let settings = settings::settings(&configuration.files);
        let digest = settings::digest(&settings);
        let name = config_name(pool, &digest);
        let config = self.configs.entry(name.clone()).or_insert_with(|| RenderedConfig {
            configuration,
            settings,
            digest,
            rendered_from: BTreeSet::new(),
            variants: BTreeSet::new(),
        });
        config.rendered_from.extend(inputs.map(|inputs| inputs.of_variant(&variant)));
        config.variants.insert(variant);
        self.names.insert(variant, name);
    }

    /// Creates ConfigMaps that do not exist or have other content; later, if another client repeatedly deletes them.
    fn missing(&mut self, snapshot: &Snapshot, pool: &Pool) -> Vec<Write> {
        let exists = |name: &str, digest: &str| {
            let existing = snapshot.config_maps.get(name);
            existing.is_some_and(|existing| !existing.deleting && existing.digest == digest)
        };
        let missing = self.configs.iter().filter(|(name, config)| !exists(name, &config.digest));
        let operations = missing.map(|(name, config)| create(&snapshot.namespace, &pool.name, name, config));
        let (delayed, create): (Vec<_>, Vec<_>) = operations.partition(|write| is_delayed(snapshot, write));
        self.delayed = delayed.iter().map(|operation| operation.object.name.clone()).collect();
        create
    }

    /// The ConfigMaps that nodes keep: those that were rendered from what people still want, by another version of winpool.
    fn unchanged_by_people(
        &self,
        snapshot: &Snapshot,
        pool: &Pool,
        inputs: Option<&RenderingInputs>,
        members: &[&WindowsNode],
    ) -> BTreeMap<String, BTreeSet<Variant>> {
        let mut kept: BTreeMap<String, BTreeSet<Variant>> = BTreeMap::new();
        let Some(inputs) = inputs else { return kept };
        let assigned = members.iter().filter_map(|node| Some((node.config.as_deref()?, variant(node)?)));
        for (name, variant) in assigned.collect::<BTreeSet<_>>() {
            let Some(rendered) = self.name(&variant).filter(|rendered| *rendered != name) else { continue };
            let is_kept = |map: &ConfigMapView| {
                map.rendered_from.contains(&inputs.of_variant(&variant))
                    && renderings::is_own(snapshot, pool, map)
                    && !renderings::is_allowed(pool, rendered)
            };
            if snapshot.config_maps.get(name).is_some_and(|map| is_kept(map)) {
                kept.entry(name.to_owned()).or_default().insert(variant);
            }
        }
        kept
    }

    /// Records what ConfigMaps with the rendered content are rendered from now: a person may have changed something that has
    /// no effect on it.
    fn unrecorded(&self, snapshot: &Snapshot) -> Vec<Write> {
        let record = |(name, config): (&String, &RenderedConfig)| {
            let map = snapshot.config_maps.get(name).filter(|map| !map.deleting && map.digest == config.digest)?;
            let is_recorded = map.rendered_from.is_superset(&config.rendered_from);
            let write = (!is_recorded).then(|| record(map, &config.rendered_from))?;
            (!is_delayed(snapshot, &write)).then_some(write)
        };
        self.configs.iter().filter_map(record).collect()
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

/// Whether a write waits, because another client reverts it repeatedly.
fn is_delayed(snapshot: &Snapshot, write: &Write) -> bool {
    let is_delayed = |field| snapshot.reverts.delayed_until(&write.identity(), field, snapshot.now).is_some();
    write.fields.iter().any(is_delayed)
}

fn create(namespace: &str, pool: &str, name: &str, config: &RenderedConfig) -> Write {
    let labels = json!({label::MANAGED_BY: label::MANAGED_BY_VALUE, label::POOL: pool});
    let mut body = Kind::CONFIG_MAP.object(json!({"name": name, "namespace": namespace, "labels": labels}));
    body["immutable"] = json!(true);
    body["data"] = json!(config.configuration.files);
    if !config.rendered_from.is_empty() {
        body["metadata"]["annotations"] = json!({annotation::RENDERED_FROM: list(&config.rendered_from)});
    }
    let fields = vec![FieldWrite::existence(true)];
    Write { fields, ..Write::create(Action::CreateConfigMap, WriteTarget::new(Kind::CONFIG_MAP, name), body) }
}

fn record(map: &ConfigMapView, rendered_from: &BTreeSet<String>) -> Write {
    let list = list(rendered_from);
    let body = json!({"metadata": {"annotations": {annotation::RENDERED_FROM: list}}});
    let object = WriteTarget::new(Kind::CONFIG_MAP, &map.name).with_uid(&map.uid);
    let write = Write::merge(Action::RecordRendering, object, &map.resource_version, body);
    Write { fields: vec![FieldWrite::annotation(annotation::RENDERED_FROM, list)], ..write }
}

fn list(digests: &BTreeSet<String>) -> String {
    digests.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}
