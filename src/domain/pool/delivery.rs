//! Whether a node runs the configuration that was rendered for it, by its own arithmetic.
//!
//! Capacity minus allocatable, and the number of pods, are the only honest evidence: nothing else comes from the kubelet
//! that read the configuration.

use std::collections::HashMap;

use super::{Snapshot, Spec};
use crate::{
    domain::{
        node::{Resources, WindowsNode},
        profile::Profile,
        render::reserve,
    },
    facts::Minor,
};

/// What a node's numbers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// They are those of the configuration.
    InEffect,
    /// They are those of a kubelet without any configuration.
    NotDelivered,
    /// They are others; each difference in words.
    Differs(Vec<String>),
}

/// Judges nodes by a pool's profile. The nodes of a pool are mostly of a few sizes, each of which is judged once.
pub struct Judge<'a> {
    profile: Option<&'a Profile>,
    sizes: HashMap<(Minor, Resources, Resources), State>,
}

impl<'a> Judge<'a> {
    /// Judges by the profile that the pool names.
    pub fn new(snapshot: &'a Snapshot, spec: &Spec) -> Self {
        let view = spec.profile.as_ref().and_then(|name| snapshot.profiles.get(name));
        Self { profile: view.and_then(|view| view.profile.as_ref().ok()), sizes: HashMap::new() }
    }

    /// What a node's numbers say; `None` without a profile that can be rendered for it.
    pub fn of(&mut self, node: &WindowsNode) -> Option<State> {
        let (profile, minor) = (self.profile?, node.kubelet.as_ref().ok()?.minor);
        let size = (minor, node.capacity, node.allocatable);
        let judge = || reserve::judge(profile, minor, &node.capacity, &node.allocatable);
        Some(self.sizes.entry(size).or_insert_with(judge).clone())
    }
}
