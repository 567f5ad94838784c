//! Whether the rendered configuration is in effect on a node, according to the resources that the node reports.
//!
//! Capacity minus allocatable and the number of pods are the only evidence: a kubelet reports no other values of its
//! configuration.

use std::collections::HashMap;

use winpool_api::facts::Minor;

use super::{Snapshot, Spec};
use crate::{
    node::{Resources, WindowsNode},
    profile::Profile,
    render::reserve::{self, ConfigState},
};

/// Compares nodes with the profile of a pool. Nodes with equal resources are compared once.
pub struct NodeConfigs<'a> {
    profile: Option<&'a Profile>,
    states: HashMap<(Minor, Resources, Resources), ConfigState>,
}

impl<'a> NodeConfigs<'a> {
    /// Compares with the profile that the pool names.
    pub fn new(snapshot: &'a Snapshot, spec: &Spec) -> Self {
        let view = spec.profile.as_ref().and_then(|name| snapshot.profiles.get(name));
        Self { profile: view.and_then(|view| view.profile.as_ref().ok()), states: HashMap::new() }
    }

    /// The state of the configuration on a node; `None` without a valid profile or a known kubelet.
    pub fn state_of(&mut self, node: &WindowsNode) -> Option<ConfigState> {
        let (profile, minor) = (self.profile?, node.kubelet_minor()?);
        let state = || reserve::config_state(profile, minor, &node.capacity, &node.allocatable);
        Some(self.states.entry((minor, node.capacity, node.allocatable)).or_insert_with(state).clone())
    }

    /// Whether the configuration leaves less of a resource for pods than the node reports.
    pub fn shrinks(&self, node: &WindowsNode) -> bool {
        let profile = self.profile.zip(node.kubelet_minor());
        profile.is_some_and(|(profile, minor)| reserve::shrinks(profile, minor, &node.capacity, &node.allocatable))
    }
}
