//! Whether a node runs the configuration that was rendered for it, by its own arithmetic.
//!
//! Capacity minus allocatable, and the number of pods, are the only honest evidence: nothing else comes from the kubelet
//! that read the configuration.

use super::{Snapshot, Spec};
use crate::domain::{node::WindowsNode, render::reserve};

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

/// What a node's numbers say about the pool's profile; `None` without a profile that can be rendered for it.
pub fn of(snapshot: &Snapshot, spec: &Spec, node: &WindowsNode) -> Option<State> {
    let profile = snapshot.profiles.get(spec.profile.as_ref()?)?.profile.as_ref().ok()?;
    let kubelet = node.kubelet.as_ref().ok()?;
    Some(reserve::judge(profile, kubelet.minor, &node.capacity, &node.allocatable))
}
