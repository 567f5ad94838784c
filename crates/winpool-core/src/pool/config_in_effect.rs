//! Whether the rendered configuration is in effect on a node, according to the resources that the node reports.
//!
//! Capacity minus allocatable and the number of pods are the only evidence: a kubelet reports no other values of its
//! configuration.

use std::collections::HashMap;

use winpool_api::{WindowsNodeConfigSpec, facts::Minor};

use super::{Snapshot, Spec};
use crate::{
    node::{Resources, WindowsNode},
    render::reserve::{self, ConfigState, Reserves},
};

/// Compares nodes with the profile of a pool. Nodes with equal resources are compared once.
pub struct NodeConfigs<'a> {
    snapshot: &'a Snapshot,
    reserves: Option<Reserves>,
    states: HashMap<(Minor, Resources, Resources), ConfigState>,
}

impl<'a> NodeConfigs<'a> {
    /// Compares with the profile that the pool names.
    pub fn new(snapshot: &'a Snapshot, spec: &Spec) -> Self {
        let view = spec.profile.as_ref().and_then(|name| snapshot.profiles.get(name));
        let profile = view.and_then(|view| view.profile.as_ref().ok());
        Self { snapshot, reserves: profile.map(|profile| Reserves::from(&profile.kubelet)), states: HashMap::new() }
    }

    /// The state of the configuration on a node; `None` without a valid profile or a known kubelet.
    pub fn state_of(&mut self, node: &WindowsNode) -> Option<ConfigState> {
        let (reserves, minor) = (self.reserves.as_ref()?, node.kubelet_minor()?);
        let state = || reserve::config_state(reserves, minor, &node.capacity, &node.allocatable);
        Some(self.states.entry((minor, node.capacity, node.allocatable)).or_insert_with(state).clone())
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
