//! Whether the rendered configuration is in effect on a node, according to the resources that the node reports.
//!
//! Capacity minus allocatable and the number of pods are the only evidence: a kubelet reports no other values of its
//! configuration.

use std::collections::HashMap;

use winpool_api::WindowsNodeConfigSpec;
use winpool_core::node::{Resources, WindowsNode};
use winpool_facts::Minor;
use winpool_render::{
    Variant,
    reserve::{self, ConfigState, Reserves},
};

use super::{
    ConfigMapView, Pool, Snapshot, Spec,
    configs::variant,
    renderings::{self, RenderingInputs},
};

/// Compares nodes with the profile of a pool. Nodes with equal resources are compared once.
pub struct NodeConfigs<'a> {
    snapshot: &'a Snapshot,
    pool: &'a Pool,
    reserves: Option<Reserves>,
    inputs: Option<RenderingInputs>,
    /// The assigned ConfigMaps by name and variant, if they were rendered from what the profile still is.
    rendered: HashMap<(&'a str, Variant), Option<&'a ConfigMapView>>,
    states: HashMap<(Option<&'a str>, Minor, Resources, Resources), ConfigState>,
}

impl<'a> NodeConfigs<'a> {
    /// Compares with the profile that the pool names.
    pub fn new(snapshot: &'a Snapshot, pool: &'a Pool, spec: &Spec) -> Self {
        let reserves = snapshot.profile_of(spec).map(|profile| Reserves::from(&profile.kubelet));
        let inputs = RenderingInputs::in_snapshot(snapshot, spec);
        Self { snapshot, pool, reserves, inputs, rendered: HashMap::new(), states: HashMap::new() }
    }

    /// The state of the configuration on a node; `None` without a valid profile or a known kubelet.
    pub fn state_of(&mut self, node: &WindowsNode) -> Option<ConfigState> {
        let rendered = self.rendered_for(node).and_then(|map| Some((map.name.as_str(), map.reserves.as_ref()?)));
        let (reserves, minor) = (self.reserves.as_ref()?, node.kubelet_minor()?);
        let reserves = rendered.map_or(reserves, |(_, reserves)| reserves);
        let state = || reserve::config_state(reserves, minor, &node.capacity, &node.allocatable);
        let key = (rendered.map(|(name, _)| name), minor, node.capacity, node.allocatable);
        Some(self.states.entry(key).or_insert_with(state).clone())
    }

    /// The ConfigMap that is assigned to a node, if it was rendered from what the profile still is: another version of winpool
    /// may have rendered other reserves, which the node keeps.
    fn rendered_for(&mut self, node: &WindowsNode) -> Option<&'a ConfigMapView> {
        let (snapshot, pool, inputs) = (self.snapshot, self.pool, self.inputs.as_ref()?);
        let (map, variant) = (snapshot.config_maps.get(node.config.as_ref()?)?.as_ref(), variant(node)?);
        let is_rendered = || {
            let recorded = map.rendered_from.contains(&inputs.of_variant(&variant));
            recorded && renderings::is_own(snapshot, pool, map)
        };
        *self.rendered.entry((map.name.as_str(), variant)).or_insert_with(|| is_rendered().then_some(map))
    }

    /// Whether a node reports the resources of the configuration that was assigned to it. One that was replaced or deleted
    /// since proves nothing.
    pub fn has_assigned(&self, node: &WindowsNode, assigned: &WindowsNodeConfigSpec) -> bool {
        let map = self.snapshot.config_maps.get(&assigned.config).filter(|map| map.digest == assigned.digest);
        let reserves = map.and_then(|map| map.reserves.as_ref()).zip(node.kubelet_minor());
        reserves.is_some_and(|(reserves, minor)| {
            reserve::config_state(reserves, minor, &node.capacity, &node.allocatable) == ConfigState::InEffect
        })
    }

    /// Whether the configuration leaves less of a resource for pods than the node reports.
    pub fn shrinks(&self, node: &WindowsNode) -> bool {
        let reserves = self.reserves.as_ref().zip(node.kubelet_minor());
        reserves.is_some_and(|(reserves, minor)| reserve::shrinks(reserves, minor, &node.capacity, &node.allocatable))
    }
}
